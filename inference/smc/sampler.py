"""Sequential Monte Carlo for p_lm(x) · 1[x ∈ C] · Ψ(x): one loop of extend, reweight, resample (Loula et al. 2025, §2).

Each of K particles draws a token from a proposal; its weight is multiplied by the proposal's weight and by the ratio of
potentials; if the effective sample size falls below a threshold, K ancestors are drawn and all weights become equal.
The estimate of Z = Σ_x p_lm(x) 1[x ∈ C] Ψ(x) is the product of the mean weights at each resampling and at the end:
E[Ẑ] = Z.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from ...circuits.chain import Chain
from ...lm.base import LanguageModel, Prompt
from ..threads import one_thread
from .arguments import ConstraintLike, PotentialLike, a_potential
from .boundaries import Boundary
from .calibration import settle
from .explore import with_sources
from .loop import run_requests
from .posterior import Posterior
from .potentials import PrefixPotential
from .proposals import Proposal
from .request import requests
from .resampling import Resampling


class Settings(TypedDict, total=False):
    """The types of the keyword arguments of :func:`.smc` that are seldom given."""

    potential: PotentialLike | Sequence[PotentialLike | None] | None
    tokenizer: Any
    resampling: str | Resampling
    ess_threshold: float
    beam_factor: int
    align: Boundary | Sequence[Boundary | None] | None
    trace: bool
    progress: bool


@overload
def smc(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: str | Proposal | None = None,
    hmm: Chain | str | Path | None = None,
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
    **settings: Unpack[Settings],
) -> Posterior: ...


@overload
def smc(
    lm: LanguageModel | Any,
    *,
    prompts: Sequence[Prompt],
    fa: ConstraintLike | Sequence[ConstraintLike | None] | None,
    proposal: str | Proposal | None = None,
    hmm: Chain | str | Path | Sequence[Chain | str | Path | None] | None = None,
    particles: int = 16,
    max_new_tokens: int | Sequence[int] = 64,
    seed: int | Sequence[int] = 0,
    **settings: Unpack[Settings],
) -> list[Posterior]: ...


def smc(
    lm: LanguageModel | Any,
    prompt: Prompt | None = None,
    fa: ConstraintLike | Sequence[ConstraintLike | None] | None = None,
    proposal: str | Proposal | None = None,
    hmm: Chain | str | Path | Sequence[Chain | str | Path | None] | None = None,
    particles: int = 16,
    max_new_tokens: int | Sequence[int] = 64,
    seed: int | Sequence[int] = 0,
    *,
    prompts: Sequence[Prompt] | None = None,
    potential: PotentialLike | Sequence[PotentialLike | None] | None = None,
    tokenizer: Any = None,
    resampling: str | Resampling = "systematic",
    ess_threshold: float = 0.5,
    beam_factor: int = 1,
    align: Boundary | Sequence[Boundary | None] | None = None,
    trace: bool = False,
    progress: bool = False,
) -> Posterior | list[Posterior]:
    """Draw weighted samples from p_lm(x | prompt, x satisfies ``fa`` within ``max_new_tokens`` tokens), times ``potential``.

    ``proposal`` is a :class:`Proposal` or one of the following; by default "pgcd" with an HMM, "gcd" without.

    ========================  ==============================================================================
    "lm"                      the language model; particles that leave the constraint die
    "lcd"                     locally constrained decoding, exact local product, blind to the budget
    "gcd"                     globally constrained decoding: every particle satisfies the constraint
    "awrs"                    adaptive weighted rejection sampling, blind to the budget
    "pgcd"                    p_lm · p_hmm(C | x_≤t)^strength, with φ_pgcd of this strength, found by a pilot
    "pgcd-mixture"            p_lm^½ · p_hmm(x_t | x_<t, C)^½, with φ_pgcd
    "pgcd-mixture-prefix"     the same proposal without φ_pgcd (Dang et al. 2026, §4.3)
    ========================  ==============================================================================

    The last three need ``hmm``. Each proposal has a default potential (:attr:`Proposal.potential`: φ_pgcd of its strength for
    those that use the HMM), which is multiplied with the given one, unless that steers by itself (a twist, or
    :class:`PrefixPotential`).

    The strength of "pgcd" is found by a pilot run for the model, the HMM, the constraint and the prompt, with its own random
    numbers, and kept: an equal request needs no pilot, and gets the same samples. 1 is best if the constraint says what
    the text is about and the HMM knows such texts; less, or 0, which is "gcd", if the HMM predicts poorly what the model
    writes. ``LookaheadProposal(strength)`` sets the strength; requests with one :class:`Strength` object share what the first of
    them finds. The posterior's ``strength`` and ``calibration`` say what was found.

    Particles are resampled if the effective sample size is below ``ess_threshold`` · ``particles``: 0 never, above 1 always.
    With a ``beam_factor`` above 1 each particle is split into this many copies before every token, and resampling reduces their
    number to ``particles`` again. With ``align``, a text boundary, a particle whose last token has reached a boundary waits until
    all have, or have ended; the waiting particles are then resampled among themselves, never against ended ones. With
    ``trace`` the posterior records every step, for ``to_html``; ``progress`` shows a progress bar.

    ``fa`` may be a constraint: it is compiled, once, for the language model's tokenizer. ``lm`` may be a model of
    transformers with its ``tokenizer``, ``hmm`` the folder of an HMM, and ``potential`` a Python function of the text, which is
    called on complete texts only (:class:`FunctionPotential` lets it steer unfinished ones).

    With an automaton without an end-of-sequence token, samples have exactly ``max_new_tokens`` tokens. ``fa=None`` is no
    constraint: a text may then also end where the budget does.

    With ``prompts`` instead of ``prompt``, a list of posteriors is returned, one for each; all particles of all prompts are one
    batch of the language model. ``fa``, ``hmm``, ``potential``, ``align``, ``max_new_tokens`` and ``seed`` may then be lists;
    with one seed, prompt i gets ``seed + i``. The particles of a prompt are those that it would have alone, if the language
    model's log-probabilities do not depend on the batch (those of a neural network may, in their last digits: about once in many
    thousand tokens another token is drawn).

    Torch uses one thread meanwhile if model and HMM are small (5 million parameters each) and on the CPU; a potential of the
    caller has the threads that there are.

    The same seed gives the same result, whatever was sampled before, unless requests share a :class:`Strength`. Raises
    :class:`BudgetTooSmall` before the language model is called if no accepted text fits the budget, :class:`VocabularyMismatch`,
    :class:`PotentialError` if a potential fails, :class:`ProposalError` if a proposal gives NaN or a forbidden token, and
    :class:`EvidenceError` if an HMM is missing or rules out possible tokens, or an argument is of the wrong kind.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.full((1, 2), 0.5))
    >>> post = tt.smc(tt.CircuitLM(coin), [], one, "pgcd", coin, particles=8, max_new_tokens=3, seed=0)
    >>> round(post.log_evidence, 4)  # log ⅜: with an exact HMM no weight varies
    -0.9808
    >>> round(post.ess, 4)
    8.0
    """
    given = requests(
        "smc", lm, prompt, prompts, fa, proposal, hmm,
        potential=potential, tokenizer=tokenizer, particles=particles, max_new_tokens=max_new_tokens, seed=seed,
        resampling=resampling, ess_threshold=ess_threshold, beam_factor=beam_factor, align=align,
    )  # fmt: skip
    with one_thread(*(one.lm for one in given), *(one.hmm for one in given)):
        settle(given)
        found = with_sources(run_requests(given, trace, progress), given)
    return found[0] if prompt is not None else found


def importance_sampling(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: str | Proposal | None = None,
    hmm: Chain | str | Path | None = None,
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    potential: PotentialLike | None = None,
    tokenizer: Any = None,
) -> Posterior:
    """Draw independent weighted samples: :func:`smc` without resampling, so only a potential's final value matters.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.full((1, 2), 0.5))
    >>> post = tt.inference.smc.importance_sampling(tt.CircuitLM(coin), [], one, "gcd", particles=2000, max_new_tokens=3, seed=0)
    >>> round(post.log_evidence, 1)  # log ⅜ = -0.98
    -1.0
    """
    final = None if potential is None else a_potential(potential, "importance_sampling: potential")
    return smc(
        lm, prompt, fa, proposal, hmm, particles, max_new_tokens, seed, tokenizer=tokenizer, ess_threshold=0.0,
        potential=PrefixPotential() if final is None else PrefixPotential() * final,
    )  # fmt: skip
