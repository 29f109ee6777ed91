"""The checked settings of a sampler: language model, constraint, proposal, potential, resampling, budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...errors import EvidenceError, VocabularyMismatch
from ...fingerprints import FEWER_OUTPUTS, check_vocabularies
from ...lm.base import LanguageModel, Prompt
from ..arguments import short, whole
from ..next_token.protocol import NextTokenQuery
from .arguments import ConstraintLike, check_proposal, read
from .awrs import MaskedAWRSProposal
from .boundaries import Boundary
from .per_prompt import PerPromptPotential
from .potentials import Potential, PrefixPotential, Product
from .prompted import prompted
from .proposals import GCDProposal, LCDProposal, LMProposal, LookaheadProposal, MixtureProposal, Proposal
from .query_cache import guided, masking
from .resampling import SCHEMES, Resampling, systematic
from .step import Knowledge

T = TypeVar("T")

PROPOSALS: dict[str, Callable[[], Proposal]] = {
    "lm": LMProposal,
    "lcd": LCDProposal,
    "gcd": GCDProposal,
    "awrs": MaskedAWRSProposal,
    "pgcd": partial(LookaheadProposal, "auto"),
    "pgcd-mixture": MixtureProposal,
    "pgcd-mixture-prefix": partial(MixtureProposal, potential=PrefixPotential()),
}
"""The proposals by name, also for ``tractile generate`` and ``tractile bench``; each is used with its default ``potential``
unless the given potential is a twist."""


@dataclass
class SamplerSettings:
    """The checked settings of a sampler; errors are those of :func:`.smc`.

    ``needs``: what the query must know of the constraint (default: what proposal and potential need). ``horizon``: the horizon of
    the query, the largest budget of all prompts that share the query (default: ``max_new_tokens``).
    """

    lm: LanguageModel
    fa: Automaton
    hmm: HMM | None
    proposal: Proposal
    potential: Potential
    resampling: Resampling = systematic
    ess_threshold: float = 0.0
    max_new_tokens: int = 64
    beam_factor: int = 1
    align: Boundary | None = None
    horizon: int | None = None
    needs: Knowledge | None = None

    def __post_init__(self) -> None:
        lm, fa = self.lm, self.fa
        _check_vocabularies(lm, fa, self.hmm)
        if None not in (lm.eos_token_id, fa.eos_token_id) and lm.eos_token_id != fa.eos_token_id:
            raise VocabularyMismatch(
                f"the language model ends a sequence with token {lm.eos_token_id}, the automaton with {fa.eos_token_id}"
            )
        self.max_new_tokens = whole(self.max_new_tokens, "max_new_tokens")
        self.beam_factor = whole(self.beam_factor, "smc: beam_factor")
        if self.beam_factor > 1 and self.align is not None:
            raise EvidenceError(
                "smc: particles that are split after every token cannot wait; leave beam_factor or align out"
            )
        # EOS ends a sequence if language model and automaton agree on it.
        self.eos = fa.eos_token_id if lm.eos_token_id == fa.eos_token_id else None
        # `query` serves proposal and potential; `budget_query` knows the budget, even if `query` does not.
        needs = max(self.proposal.needs, self.potential.needs) if self.needs is None else self.needs
        horizon = self.max_new_tokens if self.horizon is None else self.horizon
        if needs is Knowledge.HMM:
            if self.hmm is None:
                raise EvidenceError(
                    f"{type(self.proposal).__name__} with {type(self.potential).__name__} needs hmm=…"
                )
            self.query: NextTokenQuery = guided(self.hmm, fa, horizon)
        else:
            self.query = masking(fa, horizon)
        self.budget_query = self.query
        if needs is Knowledge.LOCAL:
            self.query = masking(fa, None)

    def accepts(self, tokens: Int[Tensor, "rows budget"]) -> Bool[Tensor, " rows"]:
        """Tell which sequences of the budget's length are complete: with EOS at the end, or accepted by the automaton."""
        complete = torch.tensor([self.fa.accepts_tokens(row) for row in tokens.tolist()], dtype=torch.bool)
        return complete if self.eos is None else complete | (tokens[:, -1] == self.eos)


def settings_of_one(
    who: str,
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: Proposal,
    hmm: HMM | str | Path | None,
    potential: Potential,
    *,
    tokenizer: Any = None,
    **settings: Any,
) -> tuple[SamplerSettings, Prompt]:
    """Return settings and prompt from the user arguments of the function called ``who``, which takes one prompt."""
    given = read(who, lm, tokenizer, prompt, None, fa, hmm)
    guide = None if given.hmm is None else prompted(given.hmm, given.lm, given.prompts[0])
    automaton = given.fa or unconstrained(given.lm)
    return SamplerSettings(given.lm, automaton, guide, proposal, potential, **settings), given.prompts[0]


def a_proposal(proposal: str | Proposal | None, hmm: Any = None, name: str = "proposal") -> Proposal:
    """Return the proposal, looked up if it is a name; None is "pgcd" with an HMM, "gcd" without.

    ``name`` is what errors call the argument.
    """
    if proposal is None:
        proposal = "gcd" if hmm is None else "pgcd"
    check_proposal(proposal, name)
    return lookup(proposal, PROPOSALS, "proposal")() if isinstance(proposal, str) else proposal


def resolve_defaults(
    proposal: str | Proposal, resampling: str | Resampling, potential: Potential | None
) -> tuple[Proposal, Resampling, Potential]:
    """Look up names of proposal and scheme, and combine ``potential`` with the proposal's default one unless it is a twist."""
    proposal = a_proposal(proposal)
    twist = None if potential is not None and potential.is_twist else proposal.potential
    return proposal, a_scheme(resampling), combined([twist], [potential])


def a_scheme(resampling: str | Resampling) -> Resampling:
    """Return the resampling scheme, looked up if it is a name; raise :class:`EvidenceError` for anything else."""
    if not isinstance(resampling, str) and not callable(resampling):
        raise EvidenceError(f"resampling must be one of {', '.join(SCHEMES)}, not {short(resampling)}")
    return lookup(resampling, SCHEMES, "resampling") if isinstance(resampling, str) else resampling


def combined(twists: Sequence[Potential | None], potentials: Sequence[Potential | None]) -> Potential:
    """Return the product of each prompt's twist and potential (None: none); shared objects are evaluated once."""
    factors = [_each(twists), _each(potentials)]
    kept = [factor for factor in factors if not isinstance(factor, PrefixPotential)] or factors[:1]
    return kept[0] if len(kept) == 1 else Product(*kept)


def _each(potentials: Sequence[Potential | None]) -> Potential:
    nothing = PrefixPotential()
    found = [nothing if one is None or type(one) is PrefixPotential else one for one in potentials]
    if not found:
        return nothing
    return found[0] if all(one is found[0] for one in found[1:]) else PerPromptPotential(found)


def unconstrained(lm: LanguageModel) -> Automaton:
    """Return the automaton that accepts every sequence of the language model's tokens."""
    return _everything(lm.vocab_size, lm.eos_token_id)


@lru_cache(8)
def _everything(vocab_size: int, eos_token_id: int | None) -> Automaton:
    return Automaton.from_edges(
        [(0, list(range(vocab_size)), 0)], 0, [0], vocab_size, eos_token_id=eos_token_id
    )


def _check_vocabularies(lm: LanguageModel, fa: Automaton, hmm: HMM | None) -> None:
    """Raise :class:`VocabularyMismatch` if language model, constraint and HMM do not have one vocabulary."""
    name, tokenizer = "the language model", getattr(lm, "tokenizer", None)
    compile_ = "compile the constraint with the vocabulary of the language model's tokenizer"
    if lm.vocab_size < fa.vocab_size and isinstance(tokenizer, Sized) and len(tokenizer) == fa.vocab_size:
        compile_ = FEWER_OUTPUTS
    check_vocabularies("the automaton", fa, name, lm, compile_)
    if hmm is not None:
        distil = "give an HMM distilled from this language model, or one whose tokenizer is the same"
        check_vocabularies("the HMM", hmm, name, lm, distil)
        check_vocabularies("the HMM", hmm, "the automaton", fa, distil)


def lookup(name: str, table: dict[str, T], what: str) -> T:
    """Return the entry of a name; raise :class:`EvidenceError` with the known names if there is none."""
    if name not in table:
        raise EvidenceError(f"unknown {what} {name!r}: choose one of {', '.join(table)}")
    return table[name]
