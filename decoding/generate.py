"""Values of a Python type from a language model, in one call: constraint, sampler and parser put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack, overload

from ..circuits.chain import Chain
from ..constraints.output_type import OutputType, outputs_of
from ..errors import EvidenceError
from ..inference.arguments import not_negative, whole
from ..inference.smc.arguments import a_language_model, a_proposal, compiled
from ..inference.smc.boundaries import at_end
from ..inference.smc.calibration import settle
from ..inference.smc.explore import with_sources
from ..inference.smc.loop import run_requests
from ..inference.smc.proposals import Proposal
from ..inference.smc.request import Request, requests
from ..inference.smc.truncated import Truncated
from ..inference.smc.user_potential import FunctionPotential
from ..inference.threads import one_thread
from ..lm.base import LanguageModel, Prompt
from .chat import described, the_prompt
from .confidence import Confidence
from .keywords import check_keywords
from .outputs import JSONOptions, drawn, read_outputs
from .stream import Part, parts

T = TypeVar("T")


class MoreOptions(JSONOptions, total=False):
    """The types of the arguments of :func:`generate` that are seldom given."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    greedy: bool
    describe: bool


Chat = Sequence[Mapping[str, Any]]
"""The messages of a chat, each with a role and a content."""


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: str | Chat,
    output: type[T] | OutputType[T],
    *,
    max_new_tokens: int = 64,
    samples: None = None,
    posterior: Literal[False] = False,
    confidence: Literal[False] = False,
    hmm: Chain | str | Path | None = None,
    method: str | Proposal | None = None,
    particles: int = 16,
    seed: int = 0,
    stream: Literal[False] = False,
    **more: Unpack[MoreOptions],
) -> T: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt | Chat,
    output: Any,
    *,
    max_new_tokens: int = 64,
    hmm: Chain | str | Path | None = None,
    method: str | Proposal | None = None,
    seed: int = 0,
    stream: Literal[True],
    **more: Unpack[MoreOptions],
) -> Iterator[Part]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt | Chat | Sequence[Prompt | Chat],
    output: Any,
    *,
    max_new_tokens: int | Sequence[int] = 64,
    samples: int | None = None,
    posterior: bool = False,
    confidence: bool = False,
    hmm: Chain | str | Path | Sequence[Chain | str | Path | None] | None = None,
    method: str | Proposal | None = None,
    particles: int = 16,
    seed: int | Sequence[int] = 0,
    stream: Literal[False] = False,
    **more: Unpack[MoreOptions],
) -> Any: ...


def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt | Chat | Sequence[Prompt | Chat],
    output: Any,
    *,
    max_new_tokens: int | Sequence[int] = 64,
    samples: int | None = None,
    posterior: bool = False,
    confidence: bool = False,
    hmm: Chain | str | Path | Sequence[Chain | str | Path | None] | None = None,
    method: str | Proposal | None = None,
    particles: int = 16,
    seed: int | Sequence[int] = 0,
    stream: bool = False,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    greedy: bool = False,
    describe: bool = False,
    **json: Unpack[JSONOptions],
) -> Any:
    """Generate a value of a Python type from a language model, within a token budget.

    The texts are weighted samples from p_lm(x | x is written as ``output`` and ends within the budget). A text that a validator
    of the type refuses has weight zero. The prompt is given to the model as it stands: nothing about ``output`` is added, unless
    ``describe`` says so.

    Parameters
    ----------
    model
        A causal language model of transformers, or a :class:`.LanguageModel`.
    tokenizer
        The model's tokenizer; ``None`` for a :class:`.LanguageModel` that has one.
    prompt
        A text, token ids, or a chat: a list of messages with ``role`` and ``content``, by the tokenizer's template. Or a list of
        these, which are generated for in one batch.
    output
        The type: a Pydantic model, a dataclass, a ``TypedDict``, ``Literal``, an ``Enum``, ``int``, ``list[T]``, ``A | B``, …; a
        function or a list of functions as tools; ``re.compile(…)``; a JSON Schema; a constraint, also compiled. The table of
        :func:`.output_type` has how each is written. Types other than ``str``, ``Literal`` and ``Enum`` need Pydantic. Beside a
        list of prompts it may be a list of one output for each. A list with a function, or with a dict that names a tool, is a
        list of tools for every prompt; for classes as tools say ``output_type([A, B])``.
    max_new_tokens
        The token budget, the end token included; or one for each prompt.
    samples
        The number of values to draw, with replacement, by weight. Default: one value, that of the largest weight.
    posterior
        Whether to return the :class:`.Posterior` too: values, weights, evidence, effective sample size.
    confidence
        Whether to return the :class:`.Confidence` too: the distribution of each field of the value. It asks the model again
        (:meth:`.Posterior.field`), so it goes without ``stream``, ``samples``, ``greedy``, ``top_k`` and ``top_p``.
    hmm
        An HMM distilled from the model, or its folder; or one for each prompt. It guides the samples (P-GCD).
    method
        The name of a proposal (see :func:`.smc`), or a :class:`.Proposal`. Default: ``"pgcd"`` with an HMM, ``"gcd"`` without.
    particles
        The number of weighted samples; at least ``samples`` are made.
    seed
        The seed, or one for each prompt; with one, prompt i of a list gets ``seed + i``. Results depend on nothing that was asked
        before, unless requests share a :class:`tractile.inference.smc.Strength`.
    stream
        Whether to return an iterator of :class:`.Part`: the text as it comes, and what of it is complete. It is the text of one
        particle, after one prompt.
    temperature
        The temperature of the model: p_lm is its distribution at this temperature. Default: the model's own, 1. 0 is ``greedy``.
    top_k, top_p
        The tokens that are drawn from: the ``top_k`` most probable that the constraint allows, and of these as few as have
        ``top_p`` of their probability (:class:`.Truncated`).
    greedy
        Whether to take the most probable allowed token each time: one text, whatever the seed.
    describe
        Whether the prompt says what is asked for: the JSON Schema of ``output`` with the descriptions of its fields, its tools or
        its choices, before a text, or at the end of the last message of a chat.
    json
        For outputs in JSON, as :func:`.output_type` has them: ``strict`` refuses keywords of a JSON Schema that no draft defines;
        ``order`` of the members of an object; ``whitespace`` and ``max_whitespace``; ``documents``, other schemas to which a
        schema refers. For any output ``thinking``, the text that ends the reasoning of a model that reasons first.

    Returns
    -------
    object
        A value of the type. With ``samples`` a list of them; with a list of prompts, a list with the result for each; with
        ``posterior=True`` a pair: this result, and the posterior (a list of posteriors for a list of prompts); with
        ``confidence=True`` the :class:`.Confidence`, or a list of them, stands last. With ``stream`` an iterator.

    Raises
    ------
    FormatError
        ``output`` is no type that can be read, or Pydantic is needed and not installed.
    UnsupportedConstraint
        ``output`` is a JSON Schema with a mistake, or has something that is not supported.
    BudgetTooSmall
        No text fits the budget. Raised before the model is called.
    NoParticleSurvived
        The method lost every sample, or a validator refused all of them.
    UnknownArgument
        There is no argument of this name; the error says which one was meant.
    ContextTooLong
        The model has too few positions for prompt and budget. Raised before the model is called.
    EvidenceError, VocabularyMismatch
        As :func:`.smc`.

    Examples
    --------
    >>> from typing import Literal
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> pet = tt.generate(model, tokenizer, "Tom has a pet. It is a", Literal[" cat", " dog"], max_new_tokens=8)
    >>> pet in (" cat", " dog")
    True
    """
    who = "generate"
    check_keywords(json, KNOWN, who)
    lm = a_language_model(model, tokenizer, who)
    if temperature is not None:
        temperature = not_negative(temperature, f"{who}: temperature")
        greedy = greedy or temperature == 0
        lm = at_temperature(lm, temperature) if temperature else lm
    count = None if samples is None else whole(samples, f"{who}: samples")
    particles = 1 if stream or greedy else max(whole(particles, f"{who}: particles"), count or 1)
    several = isinstance(prompt, list | tuple) and not any(isinstance(each, int | Mapping) for each in prompt)
    if confidence and (greedy or top_k is not None or top_p is not None):
        raise EvidenceError(
            f"{who}: confidence is of all texts of the model; leave greedy, top_k, top_p and temperature=0 out, or confidence"
        )
    if stream and (several or posterior or confidence or count is not None):
        raise EvidenceError(
            f"{who}: stream=True gives one text after one prompt; leave samples, posterior and confidence out"
        )
    if confidence and count is not None:
        raise EvidenceError(
            f"{who}: confidence is that of the one value of the largest weight; leave samples or confidence out"
        )
    prompts: list[Any] = list(prompt) if several else [prompt]
    outputs = outputs_of(output, len(prompts)) if several else [output]
    kinds = read_outputs(outputs, **json)
    own = getattr(lm, "tokenizer", None) if tokenizer is None else tokenizer
    prompts = [
        the_prompt(one, own, described(asked) if describe else None)
        for one, asked in zip(prompts, outputs, strict=True)
    ]
    fas = [compiled(kind.constraint, lm, tokenizer, f"{who}: output") for kind in kinds]
    checks = {
        id(kind): None
        if kind.parse is str
        else FunctionPotential(kind.accepts, at_end, name=f"{who}: output")
        for kind in kinds
    }
    used = None if method is None else a_proposal(method, name=f"{who}: method")
    given = requests(
        who, lm, None, prompts, fas, used, hmm,
        potential=[checks[id(kind)] for kind in kinds], particles=particles, max_new_tokens=max_new_tokens, seed=seed,
    )  # fmt: skip
    with one_thread(lm, *(one.hmm for one in given)):
        settle(given)
        if greedy or top_k is not None or top_p is not None:
            truncate(given, 1 if greedy else top_k, top_p)
        if stream:
            return parts(given[0], kinds[0])
        runs = [
            replace(run, parse=kind.parse)
            for run, kind in zip(
                with_sources(run_requests(given), given, at_most_one=True), kinds, strict=True
            )
        ]
        values = [
            drawn(run, kind, count, one.seed) for run, kind, one in zip(runs, kinds, given, strict=True)
        ]
        sure = [Confidence(run, value) for run, value in zip(runs, values, strict=True)] if confidence else []
        for one in sure:
            one.rows()
    results: list[Any] = [values, *[runs] * posterior, *[sure] * confidence]
    found = tuple(results if several else [each[0] for each in results])
    return found if len(found) > 1 else found[0]


KNOWN = [name for name in signature(generate).parameters if name != "json"] + list(
    JSONOptions.__annotations__
)
"""The names of the arguments of :func:`generate`."""


def at_temperature(lm: LanguageModel, temperature: float, who: str = "generate") -> LanguageModel:
    """Return a copy of a language model at another temperature; raise :class:`EvidenceError` for one that has none."""
    if not hasattr(lm, "at"):
        raise EvidenceError(
            f"{who}: a {type(lm).__name__} has no temperature; give a model of transformers, or leave temperature out"
        )
    found: LanguageModel = lm.at(temperature)
    return found


def truncate(given: Sequence[Request], top_k: int | None, top_p: float | None) -> None:
    """Let the proposals of all requests draw among the most probable tokens."""
    made = {id(one.proposal): Truncated(one.proposal, top_k, top_p) for one in given}
    for one in given:
        one.proposal = made[id(one.proposal)]
