"""One description of a run: a prompt, and all that says how texts are sampled after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Generator, Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...errors import EvidenceError, VocabularyMismatch
from ...fingerprints import check_vocabularies
from ...lm.base import LanguageModel, Prompt
from ..arguments import a_chain, not_negative, whole
from ..next_token.protocol import NextTokenQuery
from .arguments import (
    a_language_model,
    a_potential,
    a_proposal,
    a_scheme,
    broadcast,
    compiled,
    the_prompts,
    unconstrained,
)
from .boundaries import Boundary
from .potentials import Potential
from .proposals import LookaheadProposal, Proposal
from .query_cache import guided, masking
from .resampling import Resampling, systematic
from .step import Knowledge
from .strength import Strength


@dataclass
class Request:
    """A prompt with its constraint, HMM, proposal and numbers; errors of what does not fit together are those of :func:`.smc`.

    ``potential`` is the request's own factor of the target, None for none. ``strength`` is the strength of the lookahead that a
    pilot has found, if one was needed. ``number`` is the prompt's index in a list of several, None if it is the only one; errors
    name it. ``query`` (rows of the constraint that proposal and potentials read) and ``budget_query`` (which knows the budget,
    even if ``query`` does not) are made by :meth:`prepare`.
    """

    lm: LanguageModel
    prompt: Prompt
    fa: Automaton
    hmm: Chain | None
    proposal: Proposal
    potential: Potential | None = None
    particles: int = 16
    max_new_tokens: int = 64
    seed: int = 0
    resampling: Resampling = systematic
    ess_threshold: float = 0.5
    beam_factor: int = 1
    align: Boundary | None = None
    strength: Strength | None = None
    number: int | None = None

    def __post_init__(self) -> None:
        lm, fa, name = self.lm, self.fa, "the language model"
        compile_ = "compile the constraint with the vocabulary of the language model's tokenizer"
        check_vocabularies("the automaton", fa, name, lm, compile_)
        if self.hmm is not None:
            distil = "give an HMM distilled from this language model, or one whose tokenizer is the same"
            check_vocabularies("the HMM", self.hmm, name, lm, distil)
            check_vocabularies("the HMM", self.hmm, "the automaton", fa, distil)
        if None not in (lm.eos_token_id, fa.eos_token_id) and lm.eos_token_id != fa.eos_token_id:
            raise VocabularyMismatch(
                f"the language model ends a sequence with token {lm.eos_token_id}, the automaton with {fa.eos_token_id}"
            )
        if self.beam_factor > 1 and self.align is not None:
            raise EvidenceError(
                "smc: particles that are split after every token cannot wait; leave beam_factor or align out"
            )

    @property
    def eos(self) -> int | None:
        """The token that ends a sequence, if language model and automaton agree on it."""
        return self.fa.eos_token_id if self.lm.eos_token_id == self.fa.eos_token_id else None

    @property
    def steers(self) -> bool:
        """Whether the request's own potential is a twist, which replaces the proposal's default one."""
        return self.potential is not None and self.potential.is_twist

    @property
    def strength_used(self) -> float | None:
        """The power of p_hmm(C | x_≤t) in the proposal, None without this factor."""
        if self.strength is not None:
            return self.strength.value
        return self.proposal.power if isinstance(self.proposal, LookaheadProposal) else None

    def generator(self) -> Generator:
        """Return the request's random numbers."""
        return torch.Generator().manual_seed(self.seed)

    def prepare(self, *potentials: Potential, horizon: int | None = None) -> Request:
        """Make the queries for the proposal and these potentials, and return the request.

        ``horizon``: the largest budget of all requests that share the automaton (default: the own budget). Raises
        :class:`EvidenceError` without the HMM that one of them needs.
        """
        needs = max([self.proposal.needs, *(one.needs for one in potentials)])
        horizon = self.max_new_tokens if horizon is None else horizon
        if needs is Knowledge.HMM:
            if self.hmm is None:
                raise EvidenceError(f"{type(self.proposal).__name__}, or its potential, needs hmm=…")
            self.query: NextTokenQuery = guided(self.hmm, self.fa, horizon)
        else:
            self.query = masking(self.fa, horizon)
        self.budget_query = self.query
        if needs is Knowledge.LOCAL:
            self.query = masking(self.fa, None)
        return self

    def accepts(self, tokens: Int[Tensor, "rows budget"]) -> Bool[Tensor, " rows"]:
        """Tell which sequences of the budget's length are complete: with EOS at the end, or accepted by the automaton."""
        complete = torch.tensor([self.fa.accepts_tokens(row) for row in tokens.tolist()], dtype=torch.bool)
        return complete if self.eos is None else complete | (tokens[:, -1] == self.eos)


OPTIONAL = {"fa", "hmm", "potential", "align"}  # arguments that may be None
FOR_EACH = OPTIONAL | {"max_new_tokens", "seed"}  # arguments that may be lists, with a value for each prompt
READ: dict[str, Callable[[Any, str], Any]] = {
    "hmm": a_chain,
    "potential": a_potential,
    "particles": whole,
    "max_new_tokens": whole,
    "seed": lambda seed, name: whole(seed, name, None),
    "resampling": a_scheme,
    "ess_threshold": not_negative,
    "beam_factor": whole,
    "align": lambda boundary, name: boundary,
}
"""The function that reads a user argument, from its value and its name in errors."""


def requests(
    who: str,
    lm: Any,
    prompt: Any,
    prompts: Any,
    fa: Any,
    proposal: str | Proposal | None = None,
    hmm: Any = None,
    *,
    tokenizer: Any = None,
    **settings: Any,
) -> list[Request]:
    """Make a request for each prompt from the user arguments of the function called ``who``, which are those of :func:`.smc`."""
    lm = a_language_model(lm, tokenizer, who)
    asked = the_prompts(prompt, prompts, who)

    read = {"fa": lambda one, name: compiled(one, lm, tokenizer, name), **READ}

    def each(name: str, given: Any) -> list[Any]:
        """Return the argument for each prompt; what all share is read once."""

        def of(one: Any, place: str = "") -> Any:
            return None if one is None and name in OPTIONAL else read[name](one, f"{who}: {name}{place}")

        if name not in FOR_EACH or isinstance(given, str | bytes) or not isinstance(given, Sequence):
            return [of(given)] * len(asked)
        if prompts is None:
            raise EvidenceError(f"{who}: {name} is a list of {len(given)}; give prompts=[…] for several")
        return [of(one, f"[{i}]") for i, one in enumerate(broadcast(given, len(asked), name, who))]

    columns = {name: each(name, given) for name, given in {"fa": fa, "hmm": hmm, **settings}.items()}
    columns["fa"] = [unconstrained(lm) if one is None else one for one in columns["fa"]]
    if "seed" in settings and not isinstance(settings["seed"], Sequence):
        columns["seed"] = [first + i for i, first in enumerate(columns["seed"])]
    chosen = {
        none: a_proposal(proposal, None if none else hmm) for none in {h is None for h in columns["hmm"]}
    }
    columns["proposal"] = [chosen[one is None] for one in columns["hmm"]]
    check_room = getattr(lm, "check_room", lambda prompt, new_tokens: None)
    for one, budget in zip(asked, columns["max_new_tokens"], strict=True):
        check_room(one, budget)
    return [
        Request(
            lm=lm,
            prompt=one,
            number=i if len(asked) > 1 else None,
            **{name: values[i] for name, values in columns.items()},
        )
        for i, one in enumerate(asked)
    ]
