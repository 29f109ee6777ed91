"""CircuitLM: a chain as a language model."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..argument_checks import whole
from ..circuits.chain import Chain
from ..circuits.hmm import HMM
from ..errors import CircuitError, EvidenceError
from ..inference.engine.contract import adjoint, total
from ..inference.engine.filter import Filter, columns_of, total_of, where
from ..inference.queries.evidence import Evidence
from ..inference.queries.exact import arithmetics
from ..inference.semirings.base import Semiring
from .base import Prompt, TokenBytes, _pin
from .exact import ExactLM


@final
class CircuitLM(ExactLM):
    """A chain as a language model, exactly, in the chain's own precision: p(x_t | x_<t) ∝ Bᵀ(p_t ∘ f_t).

    Of an HMM these are its probabilities of the next token. Any other chain (a product of HMMs, a weighted one) weighs whole
    texts: with ``horizon`` n it is read as a distribution of texts of n tokens, prompts included; without, as the limit for
    longer and longer texts. Raises :class:`CircuitError` if 10,000 steps show no such limit, and for a chain over numbers.

    Prompts are token ids (or the empty text): the model continues them. With ``eos_token_id`` a row that has emitted this
    token repeats it with certainty, whatever the chain's weights. ``vocabulary`` (anything with ``token_bytes``) is used
    by ``decode``; a :class:`~tractile.Vocabulary` also allows constraints that are not compiled.

    Once a row loses a state to underflow, all rows go on in float64, then in log space.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> lm = tt.CircuitLM(hmm)
    >>> lm.start([[], [1]])  # no prompt, and the prompt 1
    >>> lm.log_probs().exp()
    tensor([[0.4500, 0.5500],
            [0.3609, 0.6391]], dtype=torch.float64)
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> round(tt.smc(lm, [], one, "pgcd", hmm, particles=8, max_new_tokens=3, seed=0).log_evidence, 4)
    -1.2277
    >>> round(tt.partition(hmm * one, n=3).item(), 4)  # the same: the HMM is the language model itself
    -1.2277
    """

    def __init__(
        self,
        chain: Chain,
        eos_token_id: int | None = None,
        vocabulary: TokenBytes | None = None,
        horizon: int | None = None,
    ) -> None:
        super().__init__(chain.vocab_size, eos_token_id, vocabulary)
        if not chain.vocab_size:
            raise CircuitError("CircuitLM: a chain over numbers has no next token; give one over tokens")
        self.horizon = None if horizon is None else whole(horizon, "CircuitLM: horizon", 1)
        self.vocabulary_fingerprint = chain.vocabulary_fingerprint
        wide = self.horizon is None and not isinstance(chain, HMM)  # for the limit
        self._arithmetics = arithmetics(chain.map(lambda t: t.detach().double() if wide else t.detach()))
        self._take(0)
        if bool(self._first.isneginf()):
            raise CircuitError("CircuitLM: the chain gives no weight to any text")

    def _take(self, attempt: int) -> None:
        """Prepare the steps in one of the arithmetics, each of a wider range than the one before."""
        self._attempt, (chain, semiring) = attempt, self._arithmetics[attempt]
        assert isinstance(chain, Chain)
        self._chain, self._semiring, self._filter = chain, semiring, Filter(chain, semiring)
        self._initial = self._filter.initial(1)
        self._follows, self._growth = continuations(self._filter, self.horizon)
        edge = semiring.mul(
            self._ahead(self._initial, self.horizon), total(semiring, chain.inputs, chain.device)
        )
        self._first = semiring.log(total_of(semiring, edge))  # log Σ_x p(x)

    def __repr__(self) -> str:
        return f"CircuitLM({self._chain!r})"

    def start(self, prompts: Sequence[Prompt]) -> None:
        ids = [self._prompt_ids(prompt) for prompt in prompts]
        longest = max(map(len, ids), default=0)
        self._begin(len(ids))
        for column in torch.tensor([[*row, *[-1] * (longest - len(row))] for row in ids]).long().T:
            self._append(column, column < 0)  # an end-of-sequence token in a prompt ends nothing

    def _begin(self, rows: int) -> None:
        first = torch.zeros(rows, dtype=torch.long)
        self._finished, self._seen = torch.zeros(rows, dtype=torch.bool), first.new_zeros(rows, 0)
        self._restart(first)

    def _restart(self, first: Int[Tensor, " batch"]) -> None:
        self._units = columns_of(self._semiring, self._initial, first)
        self._mass = self._first[first]  # log of the total that the weights of the next token have
        self._left = first + (self.horizon or 0)

    def _widened(self) -> bool:
        """Go on in a wider range: repeat all tokens there. Return False if there is none."""
        if self._attempt + 1 == len(self._arithmetics):
            return False
        self._take(self._attempt + 1)
        self._restart(torch.zeros_like(self._left))
        for column in self._seen.T:
            self._move(column.clamp(min=0), column < 0)
        return True

    def _ahead(self, units: Any, left: Any) -> Any:
        """Return messages at units times what follows them; ``left``: the tokens left, those of the units included."""
        if self._follows is None:
            return units
        if self.horizon is None:
            return self._semiring.mul(units, self._follows)
        at = torch.as_tensor(left).view(-1).clamp(min=1) - 1
        return self._semiring.mul(units, columns_of(self._semiring, self._follows, at))

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        semiring, edge = self._semiring, self._ahead(self._units, self._left)
        found = semiring.log(adjoint(semiring, self._chain.inputs, edge)).T.double() - self._mass[:, None]
        if bool(found[:, :1].isnan().any()) and self._widened():  # a mark is one of the whole row
            return self.log_probs()
        if self.horizon is not None:
            found = found.masked_fill(self._left.eq(0)[:, None], -torch.inf)
        return _pin(found, self._finished, self.eos_token_id)

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        tokens = self._tokens(tokens, len(self._finished), -1, "advance")
        self._append(tokens, self._finished | (tokens < 0))
        if self.eos_token_id is not None:
            self._finished = self._finished | (tokens == self.eos_token_id)

    def _append(self, tokens: Int[Tensor, " batch"], stays: Bool[Tensor, " batch"]) -> None:
        if self.horizon is not None and bool((self._left.eq(0) & ~stays).any()):
            raise EvidenceError(
                f"CircuitLM: a text of the horizon, {self.horizon} tokens, was given one more"
            )
        self._seen = torch.cat([self._seen, tokens.masked_fill(stays, -1)[:, None]], 1)
        self._move(tokens.clamp(min=0), stays)

    def _move(self, tokens: Int[Tensor, " batch"], stays: Bool[Tensor, " batch"]) -> None:
        semiring = self._semiring
        seen = self._filter.observed(self._units, tokens)
        mass = semiring.log(total_of(semiring, self._ahead(seen, self._left))) + self._growth
        moved = self._filter.next(seen)
        if bool(stays.any()):
            moved, mass = where(semiring, ~stays, moved, self._units), torch.where(stays, self._mass, mass)
        if bool(mass.isneginf().any()):
            raise EvidenceError("CircuitLM: a token was appended whose probability is zero")
        self._units, self._mass, self._left = moved, mass, self._left - (~stays).long()
        if bool(mass.isnan().any()):
            self._widened()

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        self._units = columns_of(self._semiring, self._units, indices)
        self._finished, self._seen, self._left, self._mass = (
            x[indices] for x in (self._finished, self._seen, self._left, self._mass)
        )


def continuations(messages: Filter, horizon: int | None) -> tuple[Any | None, float]:
    """Return what is ahead of a token, (*unit_dims, tokens after it), for 0, 1, … tokens; without a horizon its limit.

    None if that is ones. And the logarithm of the factor by which one step more multiplies the limit. Raises
    :class:`CircuitError` if there is no limit.
    """
    chain, semiring = messages.chain, messages.semiring
    if horizon is not None:
        return semiring.cat(list(messages.backward(Evidence(1, chain.device), range(horizon)))), 0.0
    if isinstance(chain, HMM):
        return None, 0.0
    stop = Settled(semiring)
    limit = messages.settled(stop, steps=10_000)
    if limit is None or bool(semiring.log(limit).isneginf().all()):
        raise CircuitError(
            "CircuitLM: the chain's weights of longer and longer texts have no limit; give horizon, the number of tokens"
        )
    return limit, stop.growth


class Settled:
    """Whether a message is its own next one, up to a factor: a geometric series of the changes to come is below 10⁻¹²."""

    def __init__(self, semiring: Semiring[Any]) -> None:
        self._semiring, self._change, self.growth = semiring, 0.0, 0.0

    def __call__(self, before: Any, after: Any) -> bool:
        old, new = self._semiring.log(before), self._semiring.log(after)
        self.growth = float(new.max() - old.max())
        change = float(((new - new.max()).exp() - (old - old.max()).exp()).abs().max())
        ratio, self._change = change / self._change if self._change else inf, change
        return not change > 1e-15 or (ratio < 1 and change * ratio / (1 - ratio) < 1e-12)
