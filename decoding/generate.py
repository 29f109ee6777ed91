"""Values of a Python type from a language model, in one call: constraint, sampler and parser put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, overload

from ..circuits.chain import Chain
from ..constraints.output_type import OutputType, output_type, outputs_of
from ..errors import FormatError, NoParticleSurvived
from ..inference.arguments import a_chain, whole
from ..inference.smc.arguments import a_language_model, a_proposal, compiled
from ..inference.smc.boundaries import at_end
from ..inference.smc.posterior import Posterior
from ..inference.smc.proposals import Proposal
from ..inference.smc.sampler import smc
from ..inference.smc.user_potential import FunctionPotential
from ..inference.threads import one_thread
from ..lm.base import Prompt

T = TypeVar("T")


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
    strict: bool = False,
    seed: int = 0,
) -> T: ...


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
    hmm: Chain | str | Path | None = None,
    method: str | Proposal | None = None,
    particles: int = 16,
    strict: bool = False,
    seed: int = 0,
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
    hmm: Chain | str | Path | None = None,
    method: str | Proposal | None = None,
    particles: int = 16,
    strict: bool = False,
    seed: int = 0,
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
        An HMM distilled from the model, or its folder. It guides the samples (P-GCD).
    method
        The name of a proposal (see :func:`.smc`), or a :class:`.Proposal`. Default: ``"pgcd"`` with an HMM, ``"gcd"`` without.
    particles
        The number of weighted samples; at least ``samples`` are made.
    strict
        Whether keywords and formats of a JSON Schema that no draft defines are refused; see :func:`.output_type`.
    seed
        The seed; prompt i of a list gets ``seed + i``. With ``"pgcd"`` the strength of the HMM's lookahead is found for the
        first prompt under a constraint and kept in the process, so results depend on what was asked before. With
        ``tt.inference.smc.LookaheadProposal(1.0)`` and all other methods they depend on the seed alone.

    Returns
    -------
    object
        A value of the type. With ``samples`` a list of them; with a list of prompts, a list with the result for each; with
        ``posterior=True`` a pair: this result, and the posterior (a list of posteriors for a list of prompts).

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
    particles = max(whole(particles, f"{who}: particles"), count or 1)
    several = isinstance(prompt, list | tuple) and not any(isinstance(each, int | dict) for each in prompt)
    prompts: list[Any] = list(prompt) if several else [prompt]
    kinds = read_outputs(outputs_of(output, len(prompts)) if several else [output], strict)
    fas = [compiled(kind.constraint, lm, tokenizer, f"{who}: output") for kind in kinds]
    checks = {id(kind): FunctionPotential(kind.accepts, at_end, name=f"{who}: output") for kind in kinds}
    valid = [checks[id(kind)] for kind in kinds]
    used = None if method is None else a_proposal(method, name=f"{who}: method")
    hmm = None if hmm is None else a_chain(hmm, f"{who}: hmm")
    with one_thread(lm, hmm):
        runs = smc(
            lm, prompts=prompts, fa=fas, proposal=used, hmm=hmm, particles=particles,
            max_new_tokens=max_new_tokens, seed=seed, potential=valid,
        )  # fmt: skip
    for kind, run in zip(kinds, runs, strict=True):
        if run.failed and run.refused:
            refuse(kind, run.refused)
    values = [drawn(run, kinds[i], count, seed + i) for i, run in enumerate(runs)]
    result, posteriors = (values, runs) if several else (values[0], runs[0])
    return (result, posteriors) if posterior else result


def read_outputs(outputs: Sequence[Any], strict: bool) -> list[OutputType[Any]]:
    """Return the :func:`.output_type` of each output; an object that stands there several times is read once."""
    made = {key: output_type(one, strict=strict) for key, one in {id(one): one for one in outputs}.items()}
    return [made[id(one)] for one in outputs]


def refuse(kind: OutputType[Any], texts: Sequence[str]) -> NoReturn:
    """Raise :class:`NoParticleSurvived` with the reason that the type gives for one of the texts, all of which it refuses."""
    try:
        kind.parse(texts[-1])
    except FormatError as error:
        raise NoParticleSurvived(
            f"generate: output refused all {len(texts)} texts that were generated; {error}"
        ) from None
    raise NoParticleSurvived(f"generate: output refused all {len(texts)} texts that were generated")


def drawn(run: Posterior, kind: OutputType[Any], samples: int | None, seed: int) -> Any:
    """Parse the text of the heaviest particle, or those of ``samples`` particles drawn by weight."""
    if samples is None:
        return kind.parse(run.best.text)
    return [kind.parse(particle.text) for particle in run.sample(samples, seed)]
