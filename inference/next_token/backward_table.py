"""Backward messages of P-GCD: F_r = A β_r for every automaton state and every number r of tokens left.

With β_r[h, s] the probability that an HMM in hidden state h and an automaton in state s emit r more tokens and accept,

    F_r = A β_r,      β_{r+1}[h, s] = Σ_{e: s → s'} b_e[h] · F_r[h, s'],      b_e[h] = Σ_{v ∈ label(e)} B[h, v].

One sweep serves every prompt and budget. If all F_r exceed the memory limit, some are kept as checkpoints and the others are
recomputed from them on demand, with bit-identical results. Every column has its own scale, and a doubt: a bound on what its
entries lost to underflow (see :mod:`~tractile.inference.next_token.underflow`).
"""

from __future__ import annotations

from collections import OrderedDict
from math import log
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...errors import MemoryTooSmall
from .edge_labels import EdgeLabels
from .emission_table import row_logsumexp, smallest
from .underflow import Transition, least, normalised

BLOCK_ELEMENTS = 1 << 22  # edges are processed in blocks of at most this many numbers


class BackwardMessage(NamedTuple):
    """The backward message F_r: a column over hidden states for each automaton state, with log scales and log doubts.

    Entry h of column s is ``columns[s, h] · exp(scale[s])``. The doubt is the logarithm (nats) of an upper bound of what any
    entry of the column lost to underflow; −inf: nothing.
    """

    columns: Float[Tensor, "states hidden"]
    scale: Float[Tensor, " states"]
    doubt: Float[Tensor, " states"]

    @classmethod
    def of_support(cls, columns: Bool[Tensor, "states hidden"], dtype: torch.dtype) -> BackwardMessage:
        """Return a message of zeros and ones that marks the positive entries."""
        scale = columns.any(1).double().log()
        return cls(columns.to(dtype), scale, torch.full_like(scale, -torch.inf))


class Backward(Protocol):
    """A source of backward messages F_r, looked up by tokens left and automaton state."""

    def columns(self, left: Int[Tensor, " queries"], state: Int[Tensor, " queries"]) -> BackwardMessage:
        """Return F_left[:, state] for each pair of ``left`` and ``state``."""


class BackwardTable:
    """The messages F_r for r = 0, 1, … horizon − 1 tokens after the next one.

    ``dtype`` is the precision in which they are stored. ``memory`` limits the bytes of the messages and the sweep's work space
    (None: no limit). Raises :class:`MemoryTooSmall` if not even one message fits.
    """

    def __init__(
        self,
        hmm: HMM,
        automaton: Automaton,
        horizon: int,
        dtype: torch.dtype,
        memory: int | None = None,
        labels: EdgeLabels | None = None,
    ) -> None:
        self.horizon, self._dtype = horizon, dtype
        self._recursion = BackwardRecursion(hmm, automaton, labels)
        # r that are multiples of `_every` are checkpoints; `_room` is how many other messages may be kept.
        self._every, self._room = (horizon, horizon) if memory is None else self._plan(memory)
        self._checkpoints: dict[int, BackwardMessage] = {}
        self._kept: OrderedDict[int, BackwardMessage] = OrderedDict()
        self._table: BackwardMessage | None = None
        if self._room < horizon:
            self._fill(-1, horizon - 1, self._room)
            return
        shape, device = (horizon, self._recursion.states, self._recursion.hidden), self._recursion.device
        columns = torch.empty(shape, dtype=dtype, device=device)
        scale, doubt = torch.empty(2, *shape[:2], dtype=torch.float64, device=device)
        found = self._recursion.first()
        for r in range(horizon):
            found = self._recursion.before(found) if r else found
            columns[r], scale[r], doubt[r] = found
        self._table = BackwardMessage(columns, scale, doubt)

    @property
    def table(self) -> BackwardMessage | None:
        """All messages, (horizon, states, hidden), with scales and doubts (horizon, states); None beyond the memory limit."""
        return self._table

    @property
    def whole(self) -> BackwardMessage:
        """The table of all messages, which exists if no memory limit was given."""
        assert self._table is not None
        return self._table

    def columns(self, left: Int[Tensor, " queries"], state: Int[Tensor, " queries"]) -> BackwardMessage:
        """Return F_left[:, state] for each pair of ``left`` and ``state``."""
        if self._table is not None:
            return BackwardMessage(*(x[left, state] for x in self._table))
        columns = torch.empty(len(left), self._recursion.hidden, dtype=self._dtype, device=left.device)
        scale, doubt = torch.empty(2, len(left), dtype=torch.float64, device=left.device)
        asked = left.unique().tolist()
        for r in asked:
            here = (left == r).nonzero().squeeze(1)
            found = self._get(r, max(1, self._room // len(asked)))
            columns[here], scale[here], doubt[here] = (x[state[here]] for x in found)
        return BackwardMessage(columns, scale, doubt)

    def _get(self, r: int, room: int) -> BackwardMessage:
        if r not in self._kept:
            known = [k for k in (*self._checkpoints, *self._exact()) if k <= r]
            self._fill(max(known, default=-1), r, room)
        self._kept.move_to_end(r)
        return self._kept[r]

    def _exact(self) -> list[int]:
        """Return the kept r that the recursion may continue from: none if messages are stored rounded."""
        return list(self._kept) if self._dtype == self._recursion.dtype else []

    def _fill(self, known: int, last: int, room: int) -> None:
        """Compute F_{known+1} … F_last (known = −1: from acceptance), and keep the last ``room`` of them."""
        found = None if known < 0 else self._checkpoints.get(known) or self._kept[known]
        for r in range(known, last):
            found = self._recursion.first() if found is None else self._recursion.before(found)
            if r >= 0 and (r + 1) % self._every == 0:
                self._checkpoints.setdefault(r + 1, found)
            if r + 1 > last - room:
                self._keep(r + 1, found)
        if known == last and found is not None:
            self._keep(last, found)

    def _keep(self, r: int, found: BackwardMessage) -> None:
        self._kept.pop(r, None)
        if len(self._kept) == self._room:
            self._kept.popitem(last=False)
        self._kept[r] = BackwardMessage(found.columns.to(self._dtype), found.scale, found.doubt)

    def _plan(self, memory: int) -> tuple[int, int]:
        """Return the checkpoint spacing and the number of other messages to keep, for the least work as r counts down."""
        n, exact = self.horizon, self._recursion.dtype
        kept, whole = (self._recursion.size * t.itemsize for t in (self._dtype, exact))
        free = memory - self._recursion.work_bytes
        if free < kept:
            raise MemoryTooSmall(
                "pgcd: one backward message and the work space of the sweep do not fit `memory`",
                needed=self._recursion.work_bytes + kept,
                given=memory,
            )
        if free >= n * kept:
            return n, n

        def plan(checkpoints: int) -> tuple[float, int, int]:
            every, room = -(-n // (checkpoints + 1)), (free - checkpoints * whole) // kept
            return max(1.0, every / (2 * room)), -room, every

        _, room, every = min(plan(c) for c in range(min(n, (free - kept) // whole) + 1))
        return every, -room


class BackwardRecursion:
    """The recursion F_r → F_{r+1}; if ``boolean``, on zeros and ones that mark positive entries."""

    def __init__(
        self, hmm: HMM, automaton: Automaton, labels: EdgeLabels | None = None, *, boolean: bool = False
    ) -> None:
        self._boolean = boolean
        emission = hmm.inputs.table()
        self._move = Transition(hmm.transition, emission.dtype)
        self.dtype, self.device, self.hidden = emission.dtype, emission.device, hmm.hidden
        self.states = automaton.num_states
        self._accept = automaton.final[0].to(emission)
        self._source, self._target = (
            x.to(emission.device) for x in (automaton.edge_source, automaton.edge_target)
        )
        labels = EdgeLabels(automaton) if labels is None else labels
        self._label = labels.number.to(emission.device)
        self._emitted = label_emission(emission, automaton, labels)
        self._log_most = self._emitted.amax(1).double().log()  # per label, over hidden states
        # Per edge: the log of the smallest positive emission of its label, and whether none is zero.
        self._log_least = smallest(self._emitted).log()[self._label]
        self._positive = (self._emitted.amin(1) > 0)[self._label]
        self._all_positive = bool(self._positive.all())

    @property
    def size(self) -> int:
        """The number of entries in one F_r."""
        return self.states * self.hidden

    @property
    def work_bytes(self) -> int:
        """The approximate work space of a step, in bytes: copies of the message, label sums and a block of edges."""
        item = self.dtype.itemsize
        block = max(self.hidden, min(BLOCK_ELEMENTS, len(self._source) * self.hidden))
        return item * (4 * self.size + self._emitted.numel() + 2 * block)

    def first(self) -> BackwardMessage:
        """Compute F_0, for a next token that is the last."""
        beta = self._accept[:, None].expand(-1, self.hidden)
        scale = torch.where(self._accept > 0, 0.0, -torch.inf).double()
        low = torch.zeros_like(scale)  # all positive entries are one
        return self._transit(beta, scale, torch.full_like(scale, -torch.inf), low)

    def before(self, ahead: BackwardMessage) -> BackwardMessage:
        """Compute F_{r+1} from F_r."""
        source, target = self._source, self._target
        top = torch.full((self.states,), -torch.inf, dtype=torch.float64, device=self.device)
        top = top.scatter_reduce(0, source, ahead.scale[target], "amax")
        shift = torch.where(top.isfinite(), top, 0)
        weight = (ahead.scale[target] - shift[source]).exp()
        beta = torch.zeros(self.states, self.hidden, dtype=self.dtype, device=self.device)
        width = max(1, BLOCK_ELEMENTS // self.hidden)
        for e in range(0, len(source), width):
            edges = slice(e, e + width)
            units = ahead.columns.index_select(0, target[edges])
            units.mul_(self._emitted.index_select(0, self._label[edges])).mul_(
                weight.to(self.dtype)[edges, None]
            )
            beta.index_add_(0, source[edges], units)
        doubt = torch.full_like(top, -torch.inf)
        if bool((ahead.doubt > -torch.inf).any()):
            doubt = row_logsumexp(ahead.doubt[target] + self._log_most[self._label], source, self.states)
        low, kept = self._low(ahead), top + log(least(self.dtype))
        exposed = low < kept
        if bool(exposed.any()):
            thin = beta < least(self.dtype)
            beta.masked_fill_(thin, 0)
            lost = self._lost(ahead, thin, exposed & thin.any(1))
            doubt = torch.where(lost, torch.logaddexp(doubt, kept), doubt)
            low = low.maximum(kept)
        return self._transit(beta, top, doubt, low)

    def _transit(self, beta: Tensor, scale: Tensor, doubt: Tensor, low: Tensor) -> BackwardMessage:
        """Return A β, each column scaled to maximum one; ``low``: log lower bounds of each column's positive entries."""
        if self._boolean:
            return BackwardMessage.of_support(self._move.reached(beta), self.dtype)
        beta, scale = normalised(beta, scale)
        moved = self._move(beta, low - torch.where(scale.isfinite(), scale, 0))
        if moved.lost is not None:
            fresh = scale + moved.scale.clamp(min=0) + log(least(self.dtype))
            doubt = torch.where(moved.lost, torch.logaddexp(doubt, fresh), doubt)
        columns, scale = normalised(moved.rows, scale + moved.scale)
        return BackwardMessage(columns, scale, self._resolved(columns, scale, doubt))

    def _resolved(self, columns: Tensor, scale: Tensor, doubt: Tensor) -> Tensor:
        """Set the doubt to −inf in columns where every entry exceeds it by more than rounding."""
        if not bool((doubt > -torch.inf).any()):
            return doubt
        settled = columns.amin(1).double().log() + scale > doubt - log(torch.finfo(self.dtype).eps)
        return doubt.masked_fill(settled, -torch.inf)

    def _low(self, ahead: BackwardMessage) -> Float[Tensor, " states"]:
        """Return a log lower bound of the positive entries of each state's β.

        The bound is the largest term among edges without zeros, which every entry exceeds, else the smallest term of any edge.
        """
        found, scale, positive = ahead.columns.amin(1).double(), ahead.scale, self._positive
        zero = found <= 0
        if has_zeros := bool(zero.any()):
            some = zero.nonzero().squeeze(1)
            found[some] = smallest(ahead.columns[some])
            scale = torch.where(scale.isneginf(), torch.inf, scale)
            positive = positive & ~zero[self._target]
        low = (found.log() + scale)[self._target] + self._log_least
        result = torch.full_like(scale, torch.inf)  # without an edge there are no positive entries
        if not has_zeros and self._all_positive:
            return result.scatter_reduce(0, self._source, low, "amax", include_self=False)
        result = result.scatter_reduce(0, self._source, low, "amin")
        return result.scatter_reduce(0, self._source, low.masked_fill(~positive, -torch.inf), "amax")

    def _lost(
        self, ahead: BackwardMessage, thin: Bool[Tensor, "states hidden"], lost: Bool[Tensor, " states"]
    ) -> Bool[Tensor, " states"]:
        """Tell which of the states ``lost`` have a truly positive entry among those marked ``thin``."""
        source, target = self._source, self._target
        edges = lost[source].nonzero().squeeze(1)
        reached = torch.zeros_like(thin)
        width = max(1, BLOCK_ELEMENTS // self.hidden)
        for some in edges.split(width):
            unit = (ahead.columns[target[some]] > 0) & (self._emitted[self._label[some]] > 0)
            at, found = source[some].unique(return_inverse=True)
            hits = torch.zeros(len(at), self.hidden, device=self.device).index_add_(0, found, unit.float())
            reached[at] |= hits > 0
        return lost & (reached & thin).any(1)


def label_emission(
    emission: Float[Tensor, "hidden vocab"], automaton: Automaton, edge_labels: EdgeLabels
) -> Float[Tensor, "labels hidden"]:
    """Return b[label, h], the probability that hidden state h emits a token of the label."""
    labels = automaton.labels
    classes = emission.new_empty(labels.num_classes, emission.shape[0])
    members = labels.classes.sparse(emission.dtype, emission.device)
    width = max(1, BLOCK_ELEMENTS // labels.vocab_size)
    for h in range(0, emission.shape[0], width):
        classes[:, h : h + width] = torch.sparse.mm(members, emission[h : h + width].T)
    found = emission.new_zeros(len(edge_labels.classes), emission.shape[0])
    for i, key in enumerate(edge_labels.classes):
        found[i] = classes[torch.tensor(key, dtype=torch.long, device=emission.device)].sum(0)
    return found
