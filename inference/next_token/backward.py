"""Backward messages of a chain × an automaton, for every number of tokens left.

Let β_r[k, s] be the total of all sequences of r tokens with which the chain goes on from state k and which the automaton accepts
from state s. At the units, where a token is emitted,

    F_0 = (R final) ⊗ accept,    F_r = R β_r,    β_{r+1}[:, s] = L Σ_{e: s → s'} b_e ∘ F_r[:, s'],

with b_e = Σ_{v ∈ label(e)} B[:, v].

One sweep serves every prompt, row and budget. It ends early once the messages stay the same, exactly or within a tolerance.

Axes: (*units of the chain, automaton states).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...errors import MemoryTooSmall
from ...layers import Incidence, TokenSets
from ..engine.contract import apply, outer, total
from ..semirings.base import Semiring
from ..semirings.scaled import Scaled
from .token_scores import EdgeLabels

SR = Semiring[Any]
EVERY = 4  # steps between two checks of how much the messages change
MOST_MESSAGES = 1 << 17  # messages that are computed where no `memory` is given
KEPT_BYTES = 4 << 30  # of messages that are kept where no `memory` is given
FIRST_MESSAGES = 256  # messages for which a table has room at first
WIDE = 16  # a label with more than one token in so many is one of many tokens
BLOCK_ELEMENTS = 1 << 21  # numbers in the units of a block of edges, unless the block has one state


class EdgeBlock(NamedTuple):
    """Consecutive states and the edges that leave them.

    Edges of equal label and target share a pair, whose label and target are given; ``sources`` is the matrix (states × pairs) of
    the edges.
    """

    sources: Incidence
    label: Int[Tensor, " pairs"]
    target: Int[Tensor, " pairs"]


def blocks(
    automaton: Automaton, label: Int[Tensor, " edges"], units: int, device: torch.device
) -> Iterator[EdgeBlock]:
    """Cut the states of an automaton, whose edges are sorted by source, into blocks."""
    states, source = automaton.num_states, automaton.edge_source
    first = torch.searchsorted(source, torch.arange(states + 1))  # the first edge of each state
    width, begin = max(1, BLOCK_ELEMENTS // units), 0
    while begin < states:
        end = int(torch.searchsorted(first, first[begin] + width, right=True)) - 1
        end = max(begin + 1, min(end, states))
        edges = torch.arange(int(first[begin]), int(first[end]))
        pair, place = torch.unique(label[edges] * states + automaton.edge_target[edges], return_inverse=True)
        sources = Incidence(source[edges] - begin, place, (end - begin, len(pair)))
        yield EdgeBlock(sources, (pair // states).to(device), (pair % states).to(device))
        begin = end


def label_totals(semiring: SR, chain: Chain, automaton: Automaton, labels: EdgeLabels) -> Any:
    """Return the input layer's mass of each edge label, b[:, label] = Σ_{v ∈ label} B[:, v] over tokens v: (*units, labels).

    A label of many tokens is summed by one product with B, which takes less time than adding columns one by one.
    """
    inputs, tokens, keys = chain.inputs, automaton.labels.tokens, list(labels.classes)
    wide = dict[int, Tensor]()
    if semiring.additive and isinstance(tokens, Tensor):
        inputs, tokens = inputs.condensed(tokens)
        for i, key in enumerate(keys):
            if WIDE * labels.sizes[i] > automaton.vocab_size:
                among = torch.isin(tokens, torch.tensor(key))
                wide[i], keys[i] = inputs.value(among.to(chain.device, torch.float32)), ()
    number = torch.arange(len(keys)).repeat_interleave(torch.tensor([len(key) for key in keys]))
    classes = torch.tensor([c for key in keys for c in key], dtype=torch.long)
    if wide and isinstance(tokens, Tensor):
        tokens = torch.where(torch.isin(tokens, classes), tokens, -1)
    sets = TokenSets(number, classes, tokens, len(keys), trusted=True)
    found = total(semiring, inputs.times(sets), chain.device)
    found = semiring.merge(found, semiring.ndim(found) - 2, 2)
    if not wide:
        return found
    none = torch.zeros_like(next(iter(wide.values())))
    sums = torch.stack([wide.get(i, none) for i in range(len(keys))], -1)
    return semiring.add(found, semiring.lift(sums))


class Backward:
    """The messages F_r for r = 0, 1, … tokens after the next one, up to ``horizon`` − 1.

    ``tolerance``: the error in nats that the logarithm of an entry may have where the sweep ends early, as estimated from how
    fast the changes shrink; with 0 it ends where messages are equal. ``dtype``: the precision in which they are kept, if all are
    (default: that of the sweep). ``memory``: a limit of the bytes kept; of messages that do not fit every k-th is kept, and the
    last of those between that were computed again, with the same results. Default: every second, fourth, … once
    :data:`KEPT_BYTES` are reached, unless ``dtype`` or ``table`` is given. ``table``: all are kept in one tensor, for Real and
    one axis of units. Raises :class:`MemoryTooSmall` if less than two fit.
    """

    def __init__(
        self,
        semiring: SR,
        chain: Chain,
        automaton: Automaton,
        labels: EdgeLabels,
        horizon: int,
        tolerance: float = 0.0,
        memory: int | None = None,
        dtype: torch.dtype | None = None,
        table: bool = False,
    ) -> None:
        self._semiring, self._chain = semiring, chain
        self._totals = label_totals(semiring, chain, automaton, labels)
        self._blocks = list(blocks(automaton, labels.number, chain.inputs.num_units, chain.device))
        start = (*chain.unit_final, automaton.final[0].to(chain.initial[0]))
        found = outer(semiring, start, 1)
        found = semiring.merge(found, semiring.ndim(found) - 2, 2)
        self._every, self._room = self._spacing(found, horizon, memory)
        self._kept: dict[int, Any] = {}
        self._dtype = dtype if self._every == 1 else None
        flat = isinstance(found, Scaled) and found.mantissa.ndim == 2
        self._table = self._empty_table(found, horizon) if table and flat else None
        self._between: dict[int, Any] = {}  # the last messages computed again
        before, sums, change, r = found, [self._sums(found)], math.inf, 0
        thins = memory is None and dtype is None and self._table is None
        while True:
            if r % self._every == 0:
                self._kept[r] = self._stored(r, found)
                if thins and len(self._kept) * size_of(found) > KEPT_BYTES:
                    self._every, self._room = 2 * self._every, 2 * self._every - 1
                    self._kept = {i: self._kept[i] for i in range(0, r + 1, self._every)}
            if r == horizon - 1 or (r and self._settled(before, found)):
                break
            if tolerance and r and r % EVERY == 0:
                change, last = self._change(before, found, *sums[-2:]), change
                if self._rest(change, last, horizon - r) <= tolerance:
                    break
            if memory is None and r >= MOST_MESSAGES:
                what = f"pgcd: the messages of {horizon:,} tokens still change after {r:,}: give a smaller budget, or `memory`"
                raise MemoryTooSmall(what, needed=horizon * (size := size_of(found)), given=r * size)
            before, found = found, self._before(found)
            sums.append(self._sums(found))
            r += 1
        self._last = r
        self.alive: Bool[Tensor, "lengths states"] = ~torch.stack(sums).isneginf()

    def _empty_table(self, message: Any, horizon: int) -> tuple[Tensor, Tensor]:
        """Return room for the first messages; it doubles when it is full, as most sweeps end long before the horizon."""
        first, size = message.mantissa, min(horizon, FIRST_MESSAGES)
        units, states = first.shape
        columns = torch.empty(size, states, units, dtype=self._dtype or first.dtype, device=first.device)
        return columns, torch.empty(size, states, dtype=torch.float64, device=first.device)

    def _stored(self, r: int, message: Any) -> Any:
        """Return what is kept of F_r: a view of the table if there is one."""
        if self._table is None:
            return message if self._dtype is None else in_precision(message, self._dtype)
        columns, exponents = self._table
        if r == len(columns):
            columns, exponents = self._table = twice(columns), twice(exponents)
            self._kept = {i: self._in_table(i) for i in range(r)}
        columns[r], exponents[r] = message.mantissa.T, message.exponent.expand(1, columns.shape[1])[0]
        return self._in_table(r)

    def _in_table(self, r: int) -> Scaled:
        """Return F_r as a view of the table."""
        assert self._table is not None
        columns, exponents = self._table
        return Scaled(columns[r].T, exponents[r][None])

    def table(self) -> tuple[Float[Tensor, "lengths states units"], Float[Tensor, "lengths states"]]:
        """Return all messages, kept as one table: mantissas, and exponents of two."""
        assert self._table is not None
        columns, exponents = self._table
        return columns[: self._last + 1], exponents[: self._last + 1]

    @property
    def nbytes(self) -> int:
        """The size of the messages in bytes."""
        if self._table is not None:
            return sum(part.nbytes for part in self._table)
        return sum(size_of(x) for x in (*self._kept.values(), *self._between.values()))

    def lengths(self, left: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
        """Return the numbers of tokens after the next one, none larger than that of the last message."""
        return (left - 1).clamp(min=0, max=self._last)

    def ahead(self, after: Int[Tensor, " queries"], state: Int[Tensor, " queries"]) -> Any:
        """Return F_after[:, state] for each pair of ``after`` and ``state``: (*units, queries)."""
        sr, parts, order = self._semiring, list[Any](), list[Tensor]()
        for r in after.unique().tolist():
            here = (after == r).nonzero().squeeze(1)
            message = self.message(r)
            parts.append(sr.gather(message, state[here], sr.ndim(message) - 1))
            order.append(here)
        if len(parts) < 2:
            return parts[0] if parts else sr.gather(self.message(0), state, len(self._chain.inputs.unit_dims))
        both = sr.cat(parts)
        return sr.gather(both, torch.cat(order).argsort(), sr.ndim(both) - 1)

    def message(self, r: int) -> Any:
        """Return F_r: (*units, states)."""
        if r in self._kept:
            return self._kept[r]
        if r not in (between := self._between):
            between, self._between, found = {}, {}, self._kept[r - r % self._every]
            for later in range(r - r % self._every + 1, r + 1):
                found = between[later] = self._before(found)
                between.pop(later - self._room, None)
            self._between = between  # as a whole: several threads may ask
        return between[r]

    def states(self, r: int) -> Any:
        """Return β_{r+1}, at the states: (*states of the chain, automaton states)."""
        return self._at_states(self.message(r))

    def _before(self, ahead: Any) -> Any:
        """Compute F_{r+1} from F_r."""
        return self._semiring.rescaled(apply(self._semiring, self._chain.right, self._at_states(ahead)))

    def _at_states(self, ahead: Any) -> Any:
        """Compute β_{r+1} from F_r."""
        sr, last, parts = self._semiring, self._semiring.ndim(ahead) - 1, list[Any]()
        for block in self._blocks:
            emitted = sr.mul(sr.gather(ahead, block.target, last), sr.gather(self._totals, block.label, last))
            parts.append(sr.incidence(emitted, block.sources, last))
        return apply(sr, self._chain.left, parts[0] if len(parts) == 1 else sr.cat(parts))

    def _spacing(self, message: Any, horizon: int, memory: int | None) -> tuple[int, int]:
        """Return the distance between messages that are kept, and how many of those between may be."""
        if memory is None:
            return 1, 0
        size = max(size_of(message), size_of(self._before(message)))  # the first has one scale for all states
        fit = memory // size
        if fit >= horizon:
            return 1, 0
        if fit < 2:
            what = "pgcd: two backward messages do not fit `memory`"
            raise MemoryTooSmall(what, needed=2 * size, given=memory)
        for every in range(2, horizon + 1 if 2 * math.isqrt(horizon) <= fit + 2 else 0):
            if -(-horizon // every) + every - 1 <= fit:
                return every, every - 1
        every = -(-horizon // (fit - 1))
        return every, fit - -(-horizon // every)

    # ------------------------------------------------------------ when to stop

    def _sums(self, message: Any) -> Float[Tensor, " states"]:
        """Return the logarithm of the sum over the units for each state; −∞ where all entries are zero."""
        return self._semiring.log(self._semiring.reduce(message, range(self._semiring.ndim(message) - 1)))

    def _settled(self, before: Any, found: Any) -> bool:
        return all(torch.equal(a, b) for a, b in zip(tensors(before), tensors(found), strict=True))

    def _change(self, before: Any, found: Any, low: Tensor, high: Tensor) -> float:
        """Return the largest difference of the logarithms (nats) of two messages; infinite if their sums are far apart."""
        if not torch.equal(alive := low.isfinite(), high.isfinite()) or not bool(alive.any()):
            return math.inf
        if float((high - low)[alive].abs().amax()) > 1:
            return math.inf
        a, b = self._semiring.log(before), self._semiring.log(found)
        difference = (b - a).abs().masked_fill_(a.isneginf() & b.isneginf(), 0)
        return float(difference.nan_to_num_(math.inf).amax())

    @staticmethod
    def _rest(change: float, last: float, steps: int) -> float:
        """Estimate by how much (nats) ``steps`` more steps change the messages, from the last two changes.

        The estimate is the smaller of two: the changes go on shrinking at the present rate, or they stay as they are. A message
        is a positive linear function of the one before, so the largest change of a logarithm never grows.
        """
        shrinking = EVERY * change / (1 - change / last) if change < last < math.inf else math.inf
        return min(shrinking, steps * change) if steps else 0.0


def twice(table: Tensor) -> Tensor:
    """Return a table with room for twice as many rows."""
    return torch.cat([table, torch.empty_like(table)])


def tensors(value: Any) -> tuple[Tensor, ...]:
    """Return the tensors of a semiring's value; those of an object from outside are the items of a tuple, or its attributes."""
    if isinstance(value, Scaled):
        return value.mantissa, value.exponent
    if isinstance(value, Tensor):
        return (value,)
    parts = value if isinstance(value, tuple) else vars(value).values()
    return tuple(part for part in parts if isinstance(part, Tensor))


def in_precision(value: Any, dtype: torch.dtype) -> Any:
    """Return a semiring's value in another precision."""
    return value.to(dtype) if isinstance(value, Tensor) else Scaled(value.mantissa.to(dtype), value.exponent)


def size_of(value: Any) -> int:
    """Return the size of a semiring's value in bytes."""
    return sum(t.nbytes for t in tensors(value))
