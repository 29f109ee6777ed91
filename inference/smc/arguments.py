"""Conversion of user arguments: those of ``smc``, ``mcmc``, ``beam_search`` and others.

    lm          a language model; or a model of transformers, with tokenizer=…
    prompt      a text, or token ids: a sequence or a tensor of one row
    fa          an automaton; a constraint, compiled for the language model's tokens; None for no constraint
    hmm         an HMM, or the folder of one
    potential   a Potential; or a Python function of the text, asked about complete texts

Anything else is an :class:`EvidenceError` that names the argument and says what to give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from numbers import Integral
from typing import Any, TypeVar, cast

import numpy as np
import torch

from ...circuits.automaton import Automaton
from ...errors import EvidenceError
from ...lm.base import LanguageModel, Prompt
from ...lm.transformers import TransformersLM
from ..arguments import Compilable, an_automaton, cut_to, short
from .awrs import MaskedAWRSProposal
from .boundaries import at_end
from .potentials import Potential, PrefixPotential
from .proposals import GCDProposal, LCDProposal, LMProposal, LookaheadProposal, MixtureProposal, Proposal
from .resampling import SCHEMES, Resampling
from .user_potential import FunctionPotential

T = TypeVar("T")

ConstraintLike = Automaton | Compilable
"""The constraint on a text: an automaton, or a constraint that is compiled for the language model's tokens."""
PotentialLike = Potential | Callable[[str], float]
"""A potential, or a function of a complete text that returns a number ≥ 0."""
OFFERED = ("vocab_size", "start", "log_probs", "advance", "select", "decode")
"""The attributes that a language model must have."""


def a_language_model(lm: Any, tokenizer: Any, who: str) -> LanguageModel:
    """Return the language model; a model of transformers is wrapped with its tokenizer in :class:`.TransformersLM`.

    A :class:`.TransformersLM` is copied: calls from several threads may share one, each with rows of its own.
    """
    if isinstance(lm, TransformersLM):
        return lm.fork()
    lacks = [name for name in OFFERED if getattr(lm, name, None) is None]  # wrappers delegate attributes
    if not lacks:
        return cast(LanguageModel, lm)
    if isinstance(lm, torch.nn.Module):
        if tokenizer is None:
            raise EvidenceError(
                f"{who}: lm is a {type(lm).__name__} without its tokenizer; give tokenizer=…, or "
                "tt.TransformersLM(model, tokenizer)"
            )
        return TransformersLM(lm, tokenizer)
    if isinstance(lm, str):
        raise EvidenceError(
            f"{who}: lm is the text {lm!r}; load the model, AutoModelForCausalLM.from_pretrained({lm!r}), and give it "
            "with tokenizer=…"
        )
    raise EvidenceError(
        f"{who}: lm is a {type(lm).__name__}, which lacks {', '.join(lacks)}; give "
        "tt.TransformersLM(model, tokenizer) or another tt.lm.LanguageModel; masked models take tt.decoding.denoise"
    )


def check_normalised(lm: LanguageModel, who: str) -> None:
    """Raise :class:`EvidenceError` for a target whose next-token weights are no probabilities (:class:`.ProductLM`)."""
    if not getattr(lm, "is_normalised", True):
        raise EvidenceError(
            f"{who}: a {type(lm).__name__} gives weights that do not sum to one; sample from it with tt.smc, "
            "tt.inference.smc.importance_sampling or tt.inference.smc.mcmc"
        )


def the_prompts(prompt: Any, prompts: Any, who: str) -> list[Prompt]:
    """Return the prompts as texts or lists of token ids: the one given, or those of the list."""
    if (prompt is None) == (prompts is None):
        raise EvidenceError(f"{who}: give one prompt, or prompts=[…]")
    if prompts is None:
        return [a_prompt(prompt, f"{who}: prompt")]
    if isinstance(prompts, str | bytes) or not isinstance(prompts, Sequence):
        raise EvidenceError(
            f"{who}: prompts must be a list of prompts, not {short(prompts)}; give one as prompt=…"
        )
    return [a_prompt(one, f"{who}: prompts[{i}]") for i, one in enumerate(prompts)]


def a_prompt(prompt: Any, name: str) -> Prompt:
    """Return the prompt as a text or a list of token ids; raise :class:`EvidenceError` for anything else."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, torch.Tensor | np.ndarray):
        prompt = prompt[0] if prompt.ndim == 2 and len(prompt) == 1 else prompt
        prompt = prompt.tolist() if prompt.ndim == 1 else prompt
    if isinstance(prompt, Sequence) and not isinstance(prompt, bytes | bytearray):
        if all(isinstance(token, Integral) and not isinstance(token, bool) for token in prompt):
            if any(token < 0 for token in prompt):
                raise EvidenceError(f"{name} has the token {min(prompt)}; token ids are 0 or more")
            return list(prompt)
        if all(isinstance(one, str | Sequence) for one in prompt):
            raise EvidenceError(f"{name} is {len(prompt)} prompts; give several as prompts=[…]")
        if all(isinstance(one, dict) for one in prompt):
            raise EvidenceError(f"{name} is a chat; give tokenizer.apply_chat_template(…, tokenize=False)")
    raise EvidenceError(f"{name} must be a text or token ids, not {short(prompt)}")


def compiled(fa: Any, lm: LanguageModel, tokenizer: Any, name: str) -> Automaton:
    """Return the automaton; a constraint is compiled for the tokenizer, by default the language model's own.

    Tokens that the language model has no outputs for are left out.
    """
    if isinstance(fa, Automaton) or not isinstance(fa, Compilable):
        return cut_to(an_automaton(fa, name), lm)
    tokenizer = getattr(lm, "tokenizer", None) if tokenizer is None else tokenizer
    if tokenizer is None:
        raise EvidenceError(
            f"{name} is a constraint, and the language model has no tokenizer; give tokenizer=…, or the constraint compiled"
        )
    return fa.compiled_for(tokenizer, lm.eos_token_id, lm.vocab_size)


def a_potential(potential: Any, name: str) -> Potential:
    """Return the potential; a function becomes one that is evaluated on complete texts only."""
    if isinstance(potential, Potential):
        return potential
    if isinstance(potential, type) or not callable(potential):
        raise EvidenceError(
            f"{name} must be a tt.inference.smc.Potential or a function of a text that gives a number ≥ 0, not {short(potential)}"
        )
    return FunctionPotential(potential, at_end)


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


def a_proposal(proposal: str | Proposal | None, hmm: Any = None, name: str = "proposal") -> Proposal:
    """Return the proposal, looked up if it is a name; None is "pgcd" with an HMM, "gcd" without.

    ``name`` is what errors call the argument.
    """
    if proposal is None:
        proposal = "gcd" if hmm is None else "pgcd"
    if isinstance(proposal, str):
        return lookup(proposal, PROPOSALS, "proposal")()
    if not isinstance(proposal, Proposal):
        more = f"; give {proposal.__name__}()" if isinstance(proposal, type) else ""
        raise EvidenceError(
            f"{name} must be a tt.inference.smc.Proposal or the name of one, not {short(proposal)}{more}"
        )
    return proposal


def a_scheme(resampling: str | Resampling, name: str = "resampling") -> Resampling:
    """Return the resampling scheme, looked up if it is a name; raise :class:`EvidenceError` for anything else."""
    if not isinstance(resampling, str) and not callable(resampling):
        raise EvidenceError(f"{name} must be one of {', '.join(SCHEMES)}, not {short(resampling)}")
    return lookup(resampling, SCHEMES, "resampling") if isinstance(resampling, str) else resampling


def lookup(name: str, table: dict[str, T], what: str) -> T:
    """Return the entry of a name; raise :class:`EvidenceError` with the known names if there is none."""
    if name not in table:
        raise EvidenceError(f"unknown {what} {name!r}: choose one of {', '.join(table)}")
    return table[name]


def unconstrained(lm: LanguageModel) -> Automaton:
    """Return the automaton that accepts every sequence of the language model's tokens."""
    return _everything(lm.vocab_size, lm.eos_token_id)


@lru_cache(8)
def _everything(vocab_size: int, eos_token_id: int | None) -> Automaton:
    return Automaton.from_edges(
        [(0, list(range(vocab_size)), 0)], 0, [0], vocab_size, eos_token_id=eos_token_id
    )


def broadcast(
    given: T | Sequence[T], count: int, what: str, who: str = "smc", of: str = "prompts"
) -> list[T]:
    """Return a list of ``count`` values: the list given, or one value repeated.

    Raises :class:`EvidenceError` for a list of another length; ``of`` names what the values are for.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        return [given] * count
    if len(given) != count:
        raise EvidenceError(f"{who}: {what} has {len(given)} entries for {count} {of}")
    return list(given)
