"""The input of proposals and potentials: rows about to be extended by a token, and rows just extended.

Particles with the same tokens share one *state*, a row of the tables of language model and query; row i of a step reads
state ``rows[i]``. Token ids are on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from ...errors import EvidenceError
from ..next_token.protocol import NextTokenQuery
from .boundaries import Boundary, Texts

Prefixes = Int[Tensor, "rows t"] | list[Int[Tensor, " t"]]


class Knowledge(IntEnum):
    """How far a proposal or potential looks ahead: the next token, the tokens left, or an HMM; one run uses the larger need.

    Examples
    --------
    >>> from tractile.inference.smc import Knowledge
    >>> [level.name for level in sorted(Knowledge)]
    ['LOCAL', 'BUDGET', 'HMM']
    """

    LOCAL = 0  # which tokens keep the constraint satisfiable with any number of tokens
    BUDGET = 1  # … within the tokens that are left
    HMM = 2  # … and how probably, by an HMM


@dataclass(eq=False, repr=False)
class Step:
    """Rows about to be extended by one token, with the tables of language model and constraint.

    Tables are computed when they are first read, and once. ``lookahead`` and ``conditional`` need a query with an HMM,
    which proposals and potentials ask for by ``needs = Knowledge.HMM``.

    Parameters
    ----------
    table
        Log-probabilities of the next token in nats under the language model, one row for each state.
    query
        The next-token query of the constraint, one row for each state.
    prefixes
        The tokens so far, shape (rows, t), or a list of rows of unequal lengths.
    rows
        The state of each row; by default row i has state i.
    decode, eos_token_id
        The text of token ids, and the token that ends a sequence, if any.
    last
        Whether this token is the last one of the budget.
    prompt
        The index of the prompt in a list of several, None if it is the only one; errors name it.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.inference.smc import Step
    >>> second = tt.Automaton.from_edges([(0, [0], 1), (1, 1, 2)], 0, [2], 2)  # token 0, then token 1
    >>> query, prefixes = tt.gcd(second, horizon=2).start(batch=1), torch.empty(1, 0, dtype=torch.int64)
    >>> step = Step(torch.tensor([[0.8, 0.2]]).log(), query, prefixes)
    >>> step.mask, step.allowed_only(step.log_probs).exp()
    (tensor([[ True, False]]), tensor([[0.8000, 0.0000]]))
    """

    table: Float[Tensor, "states vocab"]
    query: NextTokenQuery
    prefixes: Prefixes
    rows: Int[Tensor, " rows"] = None  # type: ignore[assignment]
    decode: Callable[[Sequence[int]], str] = field(default=str, kw_only=True)
    eos_token_id: int | None = field(default=None, kw_only=True)
    last: bool = field(default=False, kw_only=True)
    prompt: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.rows is None:
            self.rows = torch.arange(len(self.table))

    @cached_property
    def texts(self) -> Texts:
        """``decode``, cached."""
        return self.decode if isinstance(self.decode, Texts) else Texts(self.decode)

    def take(self, index: Int[Tensor, " some"]) -> Step:
        """Return the step of the rows at these positions."""
        prefixes = self.prefixes
        chosen = prefixes[index] if isinstance(prefixes, Tensor) else [prefixes[i] for i in index.tolist()]
        return replace(self, prefixes=chosen, rows=self.rows[index])

    def check_log_probs(self) -> None:
        """Raise :class:`EvidenceError` that names the first row where the language model's log-probabilities are NaN or +∞."""
        wrong = ~(self.table.amax(dim=1) < torch.inf).cpu()  # the largest is NaN if any is
        for row in wrong[self.rows.cpu()].nonzero()[:1, 0].tolist():
            prompt = "" if self.prompt is None else f"prompt {self.prompt}, "
            raise EvidenceError(
                f"the language model gives NaN or +∞ as the logarithm of a probability in row {row} ({prompt}after "
                f"{self.text(row)!r}): its logits are NaN or infinite; does its precision overflow?"
            )

    @cached_property
    def words(self) -> Int[ndarray, "states words"]:
        """The mask of each state in 32-bit words: token v is bit v mod 32 of word v div 32."""
        return self.query.words()

    @cached_property
    def log_probs(self) -> Float[Tensor, "rows vocab"]:
        """log p_lm(x_t = v | x_<t) in nats."""
        return self._of_rows(self.table)

    @cached_property
    def mask(self) -> Bool[Tensor, "rows vocab"]:
        """Whether the constraint allows each token."""
        return self._of_rows(self.query.mask())

    def allowed_only(self, belief: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
        """Return ``belief``, log-weights in nats, with −∞ where the constraint forbids the token."""
        return belief.masked_fill(~self.mask, -torch.inf)

    @cached_property
    def lookahead(self) -> Float[Tensor, "rows vocab"]:
        """log p_hmm(C | x_<t, v) in nats; −∞ exactly where ``mask`` is False."""
        return self._supported(self.query.lookahead())

    @cached_property
    def conditional(self) -> Float[Tensor, "rows vocab"]:
        """log p_hmm(x_t = v | x_<t, C) in nats; −∞ where ``mask`` is False."""
        return self._supported(self.query.scores())

    def lookahead_of(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """Return ``lookahead`` of one token for each row, as float64 on the CPU."""
        found = entries(self.query.lookahead(), self.rows, tokens)
        return (
            entries(self.lookahead, torch.arange(len(tokens)), tokens)
            if bool(found.isneginf().any())
            else found
        )

    def ends(self, tokens: Int[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Return whether each row is complete with its token: EOS, or the last one of the budget."""
        if self.last:
            return torch.ones(len(tokens), dtype=torch.bool)
        if self.eos_token_id is None:
            return torch.zeros(len(tokens), dtype=torch.bool)
        return tokens.cpu() == self.eos_token_id

    def allows(self, tokens: Int[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Return whether the constraint allows each row's token."""
        if self.table.device.type != "cpu":
            return self.mask.gather(1, tokens[:, None].to(self.mask.device))[:, 0].cpu()
        words = self.words[self.rows.numpy(), tokens.numpy() >> 5]
        return torch.from_numpy((words >> (tokens.numpy() & 31)) & 1 == 1)

    def text(self, row: int) -> str:
        """Return the text of a row's prefix, without the prompt."""
        return self.texts(self.prefixes[row].tolist())

    def _of_rows(self, table: Tensor) -> Tensor:
        table = table.to(self.table.device)
        return table if is_range(self.rows, len(table)) else table[self.rows.to(table.device)]

    def _supported(self, belief: Tensor) -> Tensor:
        """Return the table for each row, −∞ where ``mask`` is False.

        Raises :class:`EvidenceError` for tokens that the HMM rules out although they are possible: samples would be biased.
        """
        belief = self._of_rows(belief)
        lost = self.mask & belief.isneginf() & ~self.log_probs.isneginf()
        if bool(lost.any()):
            raise EvidenceError(
                f"the HMM gives probability zero to token {self._token(int(lost.nonzero()[0, -1]))}, which language model and "
                "constraint allow; smooth the HMM's parameters so that every token keeps some probability"
            )
        return belief.masked_fill(~self.mask, -torch.inf)

    def _token(self, column: int) -> int:
        """Return the token of a column of the tables."""
        return column


def _joined(name: str) -> Any:
    return cached_property(lambda self: torch.cat([getattr(part, name) for part in self._parts]))


class BatchedStep(Step):
    """The steps of several prompts, concatenated; ``first[i]`` is the offset of prompt i's states in the batch."""

    def __init__(self, parts: Sequence[Step], first: Sequence[int]) -> None:
        self._parts, self._sizes = parts, [len(part.rows) for part in parts]
        self.rows = torch.cat([part.rows + n for part, n in zip(parts, first, strict=True)])
        self.prefixes = [prefix for part in parts for prefix in part.prefixes]
        self.decode = parts[0].decode

    log_probs, mask, lookahead, conditional = map(_joined, ("log_probs", "mask", "lookahead", "conditional"))

    def lookahead_of(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        parts = zip(self._parts, tokens.split(self._sizes), strict=True)
        return torch.cat([part.lookahead_of(some) for part, some in parts])

    def ends(self, tokens: Int[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        parts = zip(self._parts, tokens.split(self._sizes), strict=True)
        return torch.cat([part.ends(some) for part, some in parts])


def entries(
    table: Float[Tensor, "states vocab"], states: Int[Tensor, " rows"], tokens: Int[Tensor, " rows"]
) -> Float[Tensor, " rows"]:
    """Return ``table[states, tokens]`` as float64 on the CPU."""
    if table.device.type == "cpu" and table.dtype in (torch.float32, torch.float64):  # quicker for few rows
        return torch.from_numpy(table.numpy()[states.numpy(), tokens.numpy()].astype(np.float64))
    return table[states.to(table.device), tokens.to(table.device)].cpu().double()


def is_range(rows: Int[Tensor, " rows"], count: int) -> bool:
    """Return whether ``rows``, on the CPU, are 0 … count − 1 in order."""
    return rows.shape[0] == count and rows.tolist() == list(range(count))


@dataclass(frozen=True)
class Extension:
    """Rows just extended by one token each.

    ``ended``: whether the sequence is complete; ``alive``: whether its weight is positive so far. ``step`` is the step before
    the tokens.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.inference.smc import Extension, Step
    >>> second = tt.Automaton.from_edges([(0, [0], 1), (1, 1, 2)], 0, [2], 2)  # token 0, then token 1
    >>> query, prefixes = tt.gcd(second, horizon=2).start(batch=1), torch.empty(1, 0, dtype=torch.int64)
    >>> step = Step(torch.tensor([[0.8, 0.2]]).log(), query, prefixes)
    >>> rows = Extension(step, torch.tensor([0]), ended=torch.tensor([False]), alive=torch.tensor([True]))
    >>> rows.tokens, rows.ended
    (tensor([0]), tensor([False]))
    """

    step: Step
    tokens: Int[Tensor, " rows"]
    ended: Bool[Tensor, " rows"]
    alive: Bool[Tensor, " rows"]

    def sequence(self, row: int) -> tuple[int, ...]:
        """Return the generated tokens of a row, the new one included."""
        return (*self.step.prefixes[row].tolist(), int(self.tokens[row]))

    def text(self, row: int) -> str:
        """Return the text of a row, without the prompt."""
        return self.step.texts(self.sequence(row))

    def cut(self, row: int, boundary: Boundary) -> int:
        """Return the number of characters of a row's text up to its last boundary, 0 if it has none."""
        return self.step.texts.cut(self.sequence(row), boundary)

    def reached(self, row: int, boundary: Boundary) -> bool:
        """Return whether the last token of a row has reached a new boundary of its text."""
        sequence = self.sequence(row)
        return self.step.texts.cut(sequence, boundary) > self.step.texts.cut(sequence[:-1], boundary)
