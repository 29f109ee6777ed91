"""Potentials: the targets between the first token and the last, and the factors of the final one,

    target_t(x_≤t) = p_lm(x_≤t) · Ψ(x_≤t),        weight_t / weight_{t-1} = p_lm(x_t) / q(x_t) · Ψ(x_≤t) / Ψ(x_<t),

with Ψ(empty) = 1. Before the end they decide which particles survive resampling. At the end the ratios have telescoped:
the target is p_lm(x) · 1[x ∈ C] · Ψ(x) whatever the values in between, as long as none was zero. A *twist*
(:class:`PrefixPotential`, :class:`LookaheadPotential`) has Ψ = 1 at the end: it only steers. An *expert* changes the target.
``a * b`` is the product of two; ``a.at(boundary)`` is evaluated only at the boundaries, and keeps its value in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...errors import EvidenceError, PotentialError
from ...fingerprints import check_vocabularies
from ...lm.base import LanguageModel, Prompt
from ..arguments import an_automaton
from ..next_token.gcd import GCDQuery
from ..next_token.query import gcd, lcd
from .boundaries import Boundary, at_end
from .step import Extension, Knowledge


class Potential(ABC):
    """A factor Ψ(x) of the target, whose values for prefixes weigh and resample particles on the way; abstract.

    A potential may keep a state for each particle. ``start`` makes one state for each prompt, that of its empty prefix.
    ``advance`` replaces the states: the new state i is the former state ``indices[i]`` with one token appended. In
    ``log_value``, ``rows.step.rows[j]`` is the state that row j extends.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> class Halves(tt.inference.smc.Potential):  # ½ for each token
    ...     def log_value(self, rows):
    ...         size = rows.step.prefixes.shape[1] + 1
    ...         return torch.full((len(rows.tokens),), 0.5, dtype=torch.float64).log() * size
    >>> post = tt.smc(lm, [], second, "gcd", particles=4, max_new_tokens=2, seed=0, potential=Halves())
    >>> round(post.log_evidence, 4)  # log (0.2 · ½ · ½)
    -2.9957
    """

    needs: Knowledge = Knowledge.LOCAL
    is_twist: bool = True  # whether it is meant to guide unfinished particles: φ_pgcd is not added then

    def start(self, lm: LanguageModel, prompts: Sequence[Prompt], budgets: Sequence[int]) -> None:
        """Discard all states and make one for the empty prefix of each prompt.

        ``lm`` is the language model of the sampler, whose rows are those of all prompts of a batch. ``budgets[i]`` is the largest
        number of tokens to generate after ``prompts[i]``.
        """
        return

    def advance(self, indices: Int[Tensor, " states"], tokens: Int[Tensor, " states"]) -> None:
        """Make the new state i from the former state ``indices[i]`` by appending ``tokens[i]``; −1 appends nothing.

        The sampler calls this before it advances the language model.
        """
        return

    @abstractmethod
    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        """Return log Ψ of each row in nats, as float64 on the CPU; −inf removes the particle.

        Values of rows that are not ``rows.alive`` are ignored.
        """

    def __mul__(self, other: Potential) -> Potential:
        return Product(self, other)

    def at(self, boundary: Boundary) -> Potential:
        """Return this potential, evaluated only at a text boundary and at the end; in between it keeps its last value.

        A function of the text (:class:`FunctionPotential`) is given the text up to the boundary, even if the last token
        extends beyond it. Potentials of tokens (language models, constraints, an HMM) are given the whole token.
        """
        return AtBoundary(self, boundary)


@final
class Product(Potential):
    """The product of potentials, evaluated from left to right; rows with a factor of zero are not evaluated further."""

    def __init__(self, *factors: Potential) -> None:
        self.factors: list[Potential] = []
        for factor in factors:
            self.factors.extend(factor.factors if isinstance(factor, Product) else [factor])
        self.needs = max(factor.needs for factor in self.factors)
        self.is_twist = any(factor.is_twist for factor in self.factors)

    def at(self, boundary: Boundary) -> Potential:
        return Product(*(factor.at(boundary) for factor in self.factors))

    def start(self, lm: LanguageModel, prompts: Sequence[Prompt], budgets: Sequence[int]) -> None:
        for factor in self.factors:
            factor.start(lm, prompts, budgets)

    def advance(self, indices: Int[Tensor, " states"], tokens: Int[Tensor, " states"]) -> None:
        for factor in self.factors:
            factor.advance(indices, tokens)

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        total = torch.zeros(len(rows.tokens), dtype=torch.float64)
        for factor in self.factors:
            alive = rows.alive & ~total.isneginf()
            value = factor.log_value(Extension(rows.step, rows.tokens, rows.ended, alive))
            total = total + value.masked_fill(~alive, 0.0)
        return total


@final
class PrefixPotential(Potential):
    """φ(x_≤t) = p_lm(x_≤t) · 1[the constraint can still be satisfied]: no lookahead to how probable that is.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> post = tt.smc(lm, [], second, "gcd", particles=4, max_new_tokens=2, seed=0, potential=tt.inference.smc.PrefixPotential())
    >>> round(post.log_evidence, 4)  # log 0.2
    -1.6094
    """

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        return torch.zeros(len(rows.tokens), dtype=torch.float64)


@final
class LookaheadPotential(Potential):
    """φ_pgcd(x_≤t) = p_lm(x_≤t) · p_hmm(C | x_≤t)^strength (Dang et al. 2026, §4.3, with strength 1).

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.5, 0.5]]))
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> phi = tt.inference.smc.LookaheadPotential()
    >>> post = tt.smc(lm, [], second, "gcd", coin, particles=4, max_new_tokens=2, seed=0, potential=phi)
    >>> round(post.log_evidence, 4)  # log 0.2: the target does not change
    -1.6094
    """

    needs = Knowledge.HMM

    def __init__(self, strength: float = 1.0) -> None:
        if not strength >= 0:
            raise EvidenceError(f"LookaheadPotential: the strength must not be negative, it is {strength}")
        self.strength = strength

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        if not self.strength:
            return torch.zeros(len(rows.tokens), dtype=torch.float64)
        return self.strength * rows.step.lookahead_of(rows.tokens).masked_fill(rows.ended, 0.0)


@final
class ConstraintPotential(Potential):
    """Ψ(x) = 1[x can still satisfy ``fa``]: at any length, or if ``budgeted`` within the tokens left.

    For a second constraint whose product with the first would have too many states.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> allowed = tt.inference.smc.ConstraintPotential(second)
    >>> post = tt.smc(lm, [], None, "lm", particles=1000, max_new_tokens=2, seed=0, potential=allowed)
    >>> round(post.log_evidence, 1)  # log 0.2 = -1.6
    -1.7
    """

    is_twist = False

    def __init__(self, fa: Automaton, *, budgeted: bool = False) -> None:
        self.fa, self.budgeted = an_automaton(fa, "ConstraintPotential: fa"), budgeted
        self._query: GCDQuery | None = None

    def start(self, lm: LanguageModel, prompts: Sequence[Prompt], budgets: Sequence[int]) -> None:
        check_vocabularies(
            "ConstraintPotential: the automaton", self.fa, "the language model", lm,
            "compile the constraint with the vocabulary of the language model's tokenizer",
        )  # fmt: skip
        if self._query is None or self._query.horizon not in (None, max(budgets)):
            self._query = gcd(self.fa, max(budgets)) if self.budgeted else lcd(self.fa)
        self._query.start(len(prompts), torch.tensor(budgets))

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        assert self._query is not None
        allowed = self._query.mask()[rows.step.rows, rows.tokens]
        ended = (rows.alive & rows.ended).nonzero()[:, 0]
        if len(ended):
            allowed[ended] = torch.tensor(
                [self.fa.accepts_tokens(rows.sequence(row)) for row in ended.tolist()]
            )
        return torch.zeros(len(allowed), dtype=torch.float64).masked_fill(~allowed, -torch.inf)

    def advance(self, indices: Int[Tensor, " states"], tokens: Int[Tensor, " states"]) -> None:
        assert self._query is not None
        self._query.select(indices)
        self._query.advance_some(tokens, tokens >= 0)


@final
class AtBoundary(Potential):
    """A potential evaluated only where the last token has reached ``boundary``, and at the end."""

    def __init__(self, potential: Potential, boundary: Boundary) -> None:
        self.potential, self.boundary = potential, boundary
        self.needs, self.is_twist = potential.needs, potential.is_twist

    def start(self, lm: LanguageModel, prompts: Sequence[Prompt], budgets: Sequence[int]) -> None:
        self.potential.start(lm, prompts, budgets)
        self._held, self._latest = [0.0] * len(prompts), dict[tuple[int, int], float]()

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        states, step = rows.step.rows.tolist(), rows.step
        here = rows.alive & rows.ended
        if self.boundary is not at_end:
            for i in (rows.alive & ~rows.ended).nonzero()[:, 0].tolist():
                here[i] = rows.reached(i, self.boundary)
        held = torch.tensor([self._held[state] for state in states], dtype=torch.float64)
        asked = self.potential.log_value(Extension(step, rows.tokens, rows.ended, here))
        value = torch.where(here, asked, held)
        self._latest = dict(zip(zip(states, rows.tokens.tolist(), strict=True), value.tolist(), strict=True))
        return value

    def advance(self, indices: Int[Tensor, " states"], tokens: Int[Tensor, " states"]) -> None:
        pairs = zip(indices.tolist(), tokens.tolist(), strict=True)
        self._held = [self._latest.get(pair, self._held[pair[0]]) for pair in pairs]
        self.potential.advance(indices, tokens)


def check_values(potential: Potential, rows: Extension, log_psi: Float[Tensor, " rows"]) -> None:
    """Raise :class:`PotentialError` with the text if the value of a row that is alive is infinite or NaN."""
    if not log_psi.shape[0] or log_psi.numpy().max() < torch.inf:  # NaN if any value is
        return
    bad = (rows.alive & (log_psi.isnan() | log_psi.isposinf())).nonzero()[:, 0]
    if len(bad):
        raise PotentialError(type(potential).__name__, "is infinite or no number", rows.text(int(bad[0])))


def scaled(power: float, log_value: Tensor) -> Tensor:
    """Return log(value^power) in nats, with 0⁰ = 1 (``power * log_value`` would be NaN there)."""
    return power * log_value if power else torch.zeros_like(log_value)
