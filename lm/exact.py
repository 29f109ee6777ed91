"""Language models whose probabilities are known exactly: chains and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from math import inf
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..argument_checks import whole, whole_numbers
from ..circuits.chain import Chain
from ..circuits.hmm import HMM
from ..errors import CircuitError, EvidenceError, ShapeError, VocabularyMismatch
from ..inference.engine.contract import adjoint, apply, observe, outer, total
from ..inference.engine.messages import Step, ahead, backward, settled
from ..inference.queries.evidence import Evidence
from ..inference.queries.exact import arithmetics
from ..inference.semirings.base import Semiring
from .base import LanguageModel, Prompt, TokenBytes, _pin, _spell
from .products import Multiplies


class ExactLM(Multiplies):
    """The end token and the vocabulary of a language model over token ids; abstract."""

    def __init__(self, vocab_size: int, eos_token_id: int | None, vocabulary: TokenBytes | None) -> None:
        if eos_token_id is not None:
            eos_token_id = whole(eos_token_id, "the end-of-sequence token", None, VocabularyMismatch)
        if eos_token_id is not None and not 0 <= eos_token_id < vocab_size:
            raise VocabularyMismatch(
                f"the end-of-sequence token {eos_token_id} is not among the {vocab_size} tokens"
            )
        self.vocab_size, self.eos_token_id, self._vocabulary = vocab_size, eos_token_id, vocabulary

    def _prompt_ids(self, prompt: Prompt) -> list[int]:
        """Return the token ids of a prompt, checked. Raises :class:`EvidenceError` for a text."""
        if isinstance(prompt, str) and prompt:
            raise EvidenceError(
                f"this language model has no tokenizer: give the prompt {prompt!r} as token ids"
            )
        return self._tokens(list(prompt), None, 0, "the prompt").tolist()

    def _tokens(self, tokens: Any, rows: int | None, least: int, name: str) -> Int[Tensor, " tokens"]:
        """Return token ids from ``least`` on, one for each of ``rows``. Raises :class:`VocabularyMismatch` for anything else."""
        found = whole_numbers(tokens, f"{name}: token ids", VocabularyMismatch)
        if found.ndim != 1 or rows not in (None, len(found)):
            raise VocabularyMismatch(
                f"{name}: one token for each of {rows} rows, not shape {tuple(found.shape)}"
            )
        if len(found) and not least <= int(found.min()) <= int(found.max()) < self.vocab_size:
            raise VocabularyMismatch(f"{name}: a token lies outside the vocabulary of {self.vocab_size}")
        return found

    def fork(self) -> LanguageModel:
        return copy(self)

    @property
    def tokenizer(self) -> TokenBytes | None:
        """The vocabulary given, for which constraints are compiled; None if there is none."""
        return self._vocabulary

    def decode(self, token_ids: Sequence[int]) -> str:
        return _spell(token_ids, self._vocabulary, self.eos_token_id)


@final
class CircuitLM(ExactLM):
    """A chain as a language model, exactly, in the chain's own precision: p(x_t | x_<t) ∝ Bᵀ(Lᵀ α_{t−1} ∘ R β_t).

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
        self._chain, self._semiring, self._step = chain, semiring, Step(chain, semiring)
        self._initial = self._step.left(outer(semiring, chain.initial, 1))
        self._follows, self._growth = continuations(chain, semiring, self.horizon)
        edge = semiring.mul(
            self._ahead(self._initial, self.horizon), total(semiring, chain.inputs, chain.device)
        )
        self._first = semiring.log(semiring.reduce(edge, range(semiring.ndim(edge) - 1)))  # log Σ_x p(x)

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
        self._units = self._semiring.gather(self._initial, first, self._semiring.ndim(self._initial) - 1)
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
        return self._semiring.mul(
            units, self._semiring.gather(self._follows, at, self._semiring.ndim(units) - 1)
        )

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
        semiring, step = self._semiring, self._step
        seen = observe(semiring, self._chain.inputs, self._units, tokens)
        edge = self._ahead(seen, self._left)
        mass = semiring.log(semiring.reduce(edge, range(semiring.ndim(edge) - 1))) + self._growth
        moved = step.left(step.right(seen))
        if bool(stays.any()):
            both, row = semiring.cat([moved, self._units]), torch.arange(len(tokens))
            moved = semiring.gather(both, torch.where(stays, row + len(tokens), row), semiring.ndim(both) - 1)
            mass = torch.where(stays, self._mass, mass)
        if bool(mass.isneginf().any()):
            raise EvidenceError("CircuitLM: a token was appended whose probability is zero")
        self._units, self._mass, self._left = moved, mass, self._left - (~stays).long()
        if bool(mass.isnan().any()):
            self._widened()

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        self._units = self._semiring.gather(self._units, indices, self._semiring.ndim(self._units) - 1)
        self._finished, self._seen, self._left, self._mass = (
            x[indices] for x in (self._finished, self._seen, self._left, self._mass)
        )


def continuations(chain: Chain, semiring: Semiring[Any], horizon: int | None) -> tuple[Any | None, float]:
    """Return R β, (*unit_dims, tokens left), for 0, 1, … tokens left; without a horizon its limit, None if that is ones.

    And the logarithm of the factor by which one step more multiplies the limit.

    Raises :class:`CircuitError` if there is no limit.
    """
    if horizon is not None:
        betas = backward(chain, semiring, Evidence(1, chain.device), horizon - 1)
        return semiring.cat(list(ahead(chain, semiring, betas))), 0.0
    if isinstance(chain, HMM):
        return None, 0.0
    stop = Settled(semiring)
    beta = settled(chain, semiring, stop, steps=10_000)
    if beta is None or bool(semiring.log(beta).isneginf().all()):
        raise CircuitError(
            "CircuitLM: the chain's weights of longer and longer texts have no limit; give horizon, the number of tokens"
        )
    return apply(semiring, chain.right, beta), stop.growth


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


@final
class TableLM(ExactLM):
    """A language model given by a table, for tests and small examples.

    ``log_probs`` maps a context (a tuple of token ids) to the log-probabilities of the next token, in nats. The longest suffix
    of the tokens so far that is a key is used; the empty context () must be one. Whole prefixes as keys give any distribution,
    contexts of up to k tokens a Markov model of order k, and the empty context alone independent tokens.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.5, 0.5]).log(), (1,): torch.tensor([0.9, 0.1]).log()})
    >>> lm.start([[], [0, 0, 1]])  # no prompt, and one that ends with 1
    >>> lm.log_probs().exp()
    tensor([[0.5000, 0.5000],
            [0.9000, 0.1000]], dtype=torch.float64)
    >>> lm.advance(torch.tensor([1, 0]))
    >>> lm.log_probs().exp()
    tensor([[0.9000, 0.1000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """

    def __init__(
        self,
        log_probs: Mapping[tuple[int, ...], Sequence[float] | Tensor],
        eos_token_id: int | None = None,
        vocabulary: TokenBytes | None = None,
    ) -> None:
        self._table = {key: torch.as_tensor(row, dtype=torch.float64) for key, row in log_probs.items()}
        if () not in self._table:
            raise EvidenceError("TableLM: the table lacks the empty context ()")
        shape = self._table[()].shape
        for key, row in self._table.items():
            if row.shape != shape or row.ndim != 1 or abs(float(row.logsumexp(0))) > 1e-6:
                raise ShapeError(
                    f"TableLM: the row of context {key} is not {tuple(shape)} normalised log-probabilities"
                )
        super().__init__(len(self._table[()]), eos_token_id, vocabulary)

    def __repr__(self) -> str:
        return f"TableLM({len(self._table)} contexts, {self.vocab_size:,} tokens)"

    def start(self, prompts: Sequence[Prompt]) -> None:
        self._rows = [tuple(self._prompt_ids(prompt)) for prompt in prompts]
        self._finished = torch.zeros(len(self._rows), dtype=torch.bool)

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        rows = torch.stack([self._lookup(row) for row in self._rows])
        return _pin(rows, self._finished, self.eos_token_id)

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        tokens = self._tokens(tokens, len(self._rows), -1, "advance")
        pairs = zip(self._rows, tokens.tolist(), strict=True)
        self._rows = [row if token < 0 else (*row, token) for row, token in pairs]
        if self.eos_token_id is not None:
            self._finished = self._finished | (tokens == self.eos_token_id)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        self._rows = [self._rows[i] for i in indices.tolist()]
        self._finished = self._finished[indices]

    def _lookup(self, row: tuple[int, ...]) -> Tensor:
        return next(self._table[row[i:]] for i in range(len(row) + 1) if row[i:] in self._table)
