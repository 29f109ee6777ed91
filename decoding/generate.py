"""Values of a Python type from a language model, in one call: constraint, sampler and parser put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from ..circuits.chain import Chain
from ..constraints.output_type import OutputType, outputs_of
from ..errors import EvidenceError
from ..inference.arguments import a_chain, whole
from ..inference.smc.arguments import a_language_model, a_proposal, compiled
from ..inference.smc.boundaries import at_end
from ..inference.smc.calibration import settle
from ..inference.smc.loop import run_requests
from ..inference.smc.proposals import Proposal
from ..inference.smc.request import requests
from ..inference.smc.user_potential import FunctionPotential
from ..inference.threads import one_thread
from ..lm.base import Prompt
from .outputs import drawn, read_outputs
from .stream import Part, parts

T = TypeVar("T")


class JSONOptions(TypedDict, total=False):
    """How outputs in JSON are read and written: the arguments of :func:`.output_type` of these names."""

    strict: bool
    order: Literal["auto", "declared", "any"]
    whitespace: Literal["none", "space", "flexible"]
    max_whitespace: int | None
    documents: Mapping[str, Any]


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: str,
    output: type[T] | OutputType[T],
    *,
    max_new_tokens: int = 64,
    samples: None = None,
    posterior: Literal[False] = False,
    hmm: Chain | str | Path | None = None,
    method: str | Proposal | None = None,
    particles: int = 16,
    seed: int = 0,
    stream: Literal[False] = False,
    **json: Unpack[JSONOptions],
) -> T: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    output: Any,
    *,
    max_new_tokens: int = 64,
    hmm: Chain | str | Path | None = None,
    method: str | Proposal | None = None,
    seed: int = 0,
    stream: Literal[True],
    **json: Unpack[JSONOptions],
) -> Iterator[Part]: ...


@overload
def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt | Sequence[Prompt],
    output: Any,
    *,
    max_new_tokens: int | Sequence[int] = 64,
    samples: int | None = None,
    posterior: bool = False,
    hmm: Chain | str | Path | Sequence[Chain | str | Path | None] | None = None,
    method: str | Proposal | None = None,
    particles: int = 16,
    seed: int | Sequence[int] = 0,
    stream: Literal[False] = False,
    **json: Unpack[JSONOptions],
) -> Any: ...


def generate(
    model: Any,
    tokenizer: Any,
    prompt: Prompt | Sequence[Prompt],
    output: Any,
    *,
    max_new_tokens: int | Sequence[int] = 64,
    samples: int | None = None,
    posterior: bool = False,
    hmm: Chain | str | Path | Sequence[Chain | str | Path | None] | None = None,
    method: str | Proposal | None = None,
    particles: int = 16,
    seed: int | Sequence[int] = 0,
    stream: bool = False,
    **json: Unpack[JSONOptions],
) -> Any:
    """Generate a value of a Python type from a language model, within a token budget.

    The texts are weighted samples from p_lm(x | x is written as ``output`` and ends within the budget). A text that a validator
    of the type refuses has weight zero. The prompt is given to the model as it stands: nothing about ``output`` is added.

    Parameters
    ----------
    model
        A causal language model of transformers, or a :class:`.LanguageModel`.
    tokenizer
        The model's tokenizer; ``None`` for a :class:`.LanguageModel` that has one.
    prompt
        A text or token ids; or a list of these, which are generated for in one batch.
    output
        The type: a Pydantic model, a dataclass, a ``TypedDict``, ``Literal``, an ``Enum``, ``int``, ``list[T]``, ``A | B``, …; a
        function or a list of functions as tools; ``re.compile(…)``; a JSON Schema; a constraint. The table of
        :func:`.output_type` has how each is written. Types other than ``str``, ``Literal`` and ``Enum`` need Pydantic. Beside a
        list of prompts it may be a list of one output for each. A list with a function, or with a dict that names a tool, is a
        list of tools for every prompt; for classes as tools say ``output_type([A, B])``.
    max_new_tokens
        The token budget, the end token included; or one for each prompt.
    samples
        The number of values to draw, with replacement, by weight. Default: one value, that of the largest weight.
    posterior
        Whether to return the :class:`.Posterior` too: weights, evidence, effective sample size.
    hmm
        An HMM distilled from the model, or its folder; or one for each prompt. It guides the samples (P-GCD).
    method
        The name of a proposal (see :func:`.smc`), or a :class:`.Proposal`. Default: ``"pgcd"`` with an HMM, ``"gcd"`` without.
    particles
        The number of weighted samples; at least ``samples`` are made.
    seed
        The seed, or one for each prompt; with one, prompt i of a list gets ``seed + i``. With ``"pgcd"`` the strength of the
        HMM's lookahead is found for the first prompt under a constraint and kept in the process, so results depend on what was
        asked before. With ``tt.inference.smc.LookaheadProposal(1.0)`` and all other methods they depend on the seed alone.
    stream
        Whether to return an iterator of :class:`.Part`: the text as it comes, and what of it is complete. It is the text of one
        particle, after one prompt.
    json
        For outputs in JSON, as :func:`.output_type` has them: ``strict`` refuses keywords of a JSON Schema that no draft defines;
        ``order`` of the members of an object; ``whitespace`` and ``max_whitespace``; ``documents``, other schemas to which a
        schema refers.

    Returns
    -------
    object
        A value of the type. With ``samples`` a list of them; with a list of prompts, a list with the result for each; with
        ``posterior=True`` a pair: this result, and the posterior (a list of posteriors for a list of prompts). With ``stream``
        an iterator.

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
    lm = a_language_model(model, tokenizer, who)
    count = None if samples is None else whole(samples, f"{who}: samples")
    particles = 1 if stream else max(whole(particles, f"{who}: particles"), count or 1)
    several = isinstance(prompt, list | tuple) and not any(isinstance(each, int | dict) for each in prompt)
    if stream and (several or posterior or count is not None):
        raise EvidenceError(
            f"{who}: stream=True gives one text after one prompt; leave samples and posterior out"
        )
    prompts: list[Any] = list(prompt) if several else [prompt]
    kinds = read_outputs(outputs_of(output, len(prompts)) if several else [output], **json)
    fas = [compiled(kind.constraint, lm, tokenizer, f"{who}: output") for kind in kinds]
    checks = {
        id(kind): None
        if kind.parse is str
        else FunctionPotential(kind.accepts, at_end, name=f"{who}: output")
        for kind in kinds
    }
    used = None if method is None else a_proposal(method, name=f"{who}: method")
    guides = hmm if isinstance(hmm, list | tuple) else [hmm] * len(prompts)
    chains = [
        None if one is None else a_chain(one, f"{who}: hmm{f'[{i}]' * (guides is hmm)}")
        for i, one in enumerate(guides)
    ]
    given = requests(
        who, lm, None, prompts, fas, used, chains,
        potential=[checks[id(kind)] for kind in kinds], particles=particles, max_new_tokens=max_new_tokens, seed=seed,
    )  # fmt: skip
    if stream:
        return parts(given[0], kinds[0])
    with one_thread(lm, *chains):
        settle(given)
        runs = run_requests(given)
    values = [drawn(run, kind, count, one.seed) for run, kind, one in zip(runs, kinds, given, strict=True)]
    result, posteriors = (values, runs) if several else (values[0], runs[0])
    return (result, posteriors) if posterior else result
