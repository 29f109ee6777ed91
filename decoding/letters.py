"""Letters: the edge labels of an automaton, as the alphabet of a small automaton for a canvas of n positions.

    B_f = C · K        K ∈ {0,1}^{classes × V}: the tokens of each class        (Dang et al. 2026, Def. 3.2)

A letter is a distinct row of C: the classes of tokens on one edge or more. A position's distribution p over tokens enters only
through the weight of each letter, C K p. So the automaton over letters, with these weights as evidence, answers every question
about the automaton over tokens, at a cost that does not depend on V. An accepted text has one path, hence one sequence of
letters, though letters may share tokens.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..circuits.automaton import UNREACHABLE, Automaton
from ..circuits.automaton_algorithms import StateGraph, distances, members, restrict
from ..constraints import limits
from ..constraints.compiled import ConstraintAutomaton
from ..errors import BudgetTooSmall, TooManyStates, UnsupportedConstraint
from ..layers import Incidence
from ..layers.functorch_utils import finite

MOST_STATES = 10_000  # of a lazy automaton that is written out for a canvas
BLOCK_ELEMENTS = 1 << 22  # log-probabilities read at once
IMPOSSIBLE = -1e4  # nats from the best token of a position: what lies as far below counts as −inf
RANGE = 700.0  # nats from the best token of a position to one whose weight float64 rounds to zero


Ints = Int[np.ndarray, " n"]


class Letters:
    """An automaton over letters, restricted to what n tokens can pass through, and the tokens of each letter.

    ``automaton`` is unambiguous and reads letters 0 … ``size`` − 1. With ``fills`` a text takes all n positions, and the end
    token is never used. Otherwise a text may end earlier: it goes on with end tokens or, if ``pad_token_id`` is given, with
    one end token and then padding.

    Raises :class:`BudgetTooSmall` if no text fits in n tokens, :class:`TooManyStates` if a lazy automaton has too many states.
    """

    def __init__(
        self,
        fa: Automaton,
        n: int,
        pad_token_id: int | None = None,
        *,
        fills: bool = False,
        device: torch.device | None = None,
    ) -> None:
        fa = written_out(fa, n)
        fa = fa if fa.is_unambiguous else fa.determinize()
        graph, self.vocab_size, eos = fitting(fa.graph, n), fa.vocab_size, fa.eos_token_id
        pairs = np.stack([fa.labels.classes.row.numpy(), fa.labels.classes.col.numpy()], 1)
        moves = graph.transitions
        if eos is not None and fills:
            pairs = pairs[pairs[:, 1] != eos]
        elif eos is not None and pad_token_id not in (None, eos):
            ends = np.isin(moves[:, 1], pairs[pairs[:, 1] == eos, 0]) & (moves[:, 0] == moves[:, 2])
            moves = np.where(ends[:, None] & (np.arange(3) == 1), fa.labels.num_classes, moves)
            pairs = np.concatenate([pairs, [[fa.labels.num_classes, pad_token_id]]])
        used, classes = np.unique(moves[:, 1], return_inverse=True)
        pairs = pairs[np.isin(pairs[:, 0], used)]
        self._tokens = Pairs(np.searchsorted(used, pairs[:, 0]), pairs[:, 1], len(used), device)
        edges, edge = np.unique(moves[:, ::2], axis=0, return_inverse=True)
        order = np.lexsort((classes.reshape(-1), edge.reshape(-1)))
        first = np.searchsorted(edge.reshape(-1)[order], np.arange(1, len(edges)))
        letters: dict[bytes, int] = {}
        labels = np.split(classes.reshape(-1)[order], first)
        letter = [letters.setdefault(label.tobytes(), len(letters)) for label in labels if len(label)]
        known = [np.frombuffer(label, np.int64) for label in letters]
        row = np.repeat(np.arange(len(known)), [len(label) for label in known])
        col = np.concatenate(known) if known else np.zeros(0, np.int64)
        self._classes = Pairs(row, col, len(known), device)
        self.automaton = Automaton(
            np.stack([edges[:, 0], np.array(letter, np.int64), edges[:, 1]], 1),
            torch.arange(max(1, len(known))),
            graph.start,
            graph.accept,
            graph.num_states,
            trusted=True,
        ).to(device, torch.float64)
        self._by_token = self._outside = None  # set if classes share no token: the class of each token
        if len(torch.unique(self._tokens.col)) == len(self._tokens.col):
            every = torch.full((self.vocab_size,), len(used), device=device)
            self._by_token = every.index_put((self._tokens.col,), self._tokens.row)
            self._outside = self._by_token == len(used) if len(pairs) < self.vocab_size else None

    @property
    def size(self) -> int:
        """The number of letters."""
        return self.automaton.vocab_size

    @cached_property
    def usable(self) -> Bool[Tensor, " vocab"]:
        """The tokens that some letter holds."""
        none = torch.zeros(self.vocab_size, dtype=torch.bool, device=self._tokens.col.device)
        return none.index_fill(0, self._tokens.col, True)

    def tokens(self, letter: int) -> Int[Tensor, " some"]:
        """Return the tokens of a letter."""
        return torch.cat([self._tokens.of(klass) for klass in self._classes.of(letter).tolist()])

    def weights(
        self, log_probs: Float[Tensor, "rows vocab"], *, best: bool = False
    ) -> tuple[Float[Tensor, "rows letters"], Float[Tensor, " rows"], Bool[Tensor, " rows"]]:
        """Return the weight of each letter, the logarithm of the row's scale (nats), and whether the row is too wide.

        A letter weighs as much as all its tokens, or with ``best`` as its best token. Weights are in float64 and relative to
        the row's best token; the scale is to be added back. In a row that is too wide, the weight of some token is rounded to
        zero. Scores :data:`IMPOSSIBLE` below the best of all tokens count as −inf.
        """
        width, how = max(1, BLOCK_ELEMENTS // self.vocab_size), "amax" if best else "sum"
        parts = [self._class_weights(part, how) for part in log_probs.split(width)]
        weights, scale, wide = (torch.cat(each) for each in zip(*parts, strict=True))
        return self._classes.reduce(weights, how), scale, wide

    def _class_weights(self, log_probs: Tensor, how: str) -> tuple[Tensor, Tensor, Tensor]:
        least = log_probs.amax(1, keepdim=True).double() + IMPOSSIBLE
        some = log_probs if self._by_token is not None else log_probs[:, self._tokens.col]
        some = some.double()  # before any difference is taken
        some = some if self._outside is None else some.masked_fill(self._outside, -torch.inf)
        some = some.masked_fill(some <= least, -torch.inf)
        scale = finite(some.amax(1))
        below = some - scale[:, None]
        wide = ((below < -RANGE) & (below > -torch.inf)).any(1)
        values = below.exp()
        index = self._tokens.row if self._by_token is None else self._by_token
        out = values.new_zeros(len(values), self._tokens.size + 1)  # the last: tokens of no class
        out.scatter_reduce_(1, index.expand_as(values), values, how)
        return out[:, :-1], scale, wide

    def of(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows letters"]:
        """Return one for each letter that holds a row's token, else zero."""
        some = torch.isin(self._tokens.col, tokens)
        at, entry = (self._tokens.col[some] == tokens[:, None]).nonzero(as_tuple=True)
        out = torch.zeros(len(tokens), self._tokens.size, dtype=torch.float64, device=tokens.device)
        out[at, self._tokens.row[some][entry]] = 1
        return self._classes.reduce(out, "amax")

    def spread(self, ratio: Float[Tensor, "rows letters"]) -> Float[Tensor, "rows vocab"]:
        """Return what the letters of each token add up to, (C K)ᵀ ratio."""
        shared = ratio.new_zeros(len(ratio), self._tokens.size)
        shared.index_add_(1, self._classes.col, ratio[:, self._classes.row])
        if self._by_token is not None:
            return torch.nn.functional.pad(shared, (0, 1))[:, self._by_token]
        out = ratio.new_zeros(len(ratio), self.vocab_size)
        return out.index_add_(1, self._tokens.col, shared[:, self._tokens.row])


class Pairs:
    """A 0/1 matrix by the positions of its ones, in the order of its rows."""

    def __init__(self, row: Ints, col: Ints, size: int, device: torch.device | None) -> None:
        order = np.lexsort((col, row))
        self.row, self.col = (torch.from_numpy(each[order]).to(device) for each in (row, col))
        self.size, self._first = size, np.searchsorted(row[order], np.arange(size + 1)).tolist()

    def of(self, row: int) -> Int[Tensor, " some"]:
        """Return the columns of the ones of a row, ascending."""
        return self.col[self._first[row] : self._first[row + 1]]

    def reduce(self, values: Float[Tensor, "batch cols"], how: str) -> Float[Tensor, "batch rows"]:
        """Return the sum, or the largest ("amax"), of each row's columns."""
        out = values.new_zeros(len(values), max(1, self.size))
        return out.scatter_reduce_(1, self.row.expand(len(values), -1), values[:, self.col], how)


def anything(vocab_size: int) -> Automaton:
    """Return the automaton that accepts every sequence of tokens."""
    move = torch.zeros(1, 3, dtype=torch.long)
    return Automaton(move, torch.zeros(vocab_size, dtype=torch.long), [0], [0], 1, trusted=True)


def fitting(graph: StateGraph, n: int) -> StateGraph:
    """Restrict an automaton to the states that lie on some path of at most n tokens from start to acceptance.

    Raises :class:`BudgetTooSmall` if there is none.
    """
    source, _, target = graph.transitions.T
    before = distances(target, source, members(graph.start, graph.num_states))
    after = distances(source, target, members(graph.accept, graph.num_states))
    through = np.minimum(before, UNREACHABLE) + np.minimum(after, UNREACHABLE)
    if (through > n).all():
        least = int(through.min())
        raise BudgetTooSmall(needed=None if least >= UNREACHABLE else least, given=n)
    return restrict(graph, through <= n)


def written_out(fa: Automaton, n: int, limit: int = MOST_STATES) -> Automaton:
    """Return an automaton that accepts the sequences of at most n tokens that ``fa`` accepts, with all its states.

    That is ``fa`` itself if it is finite, and its finite automaton if that leaves nothing out. Otherwise the states are those
    met within n tokens. Raises :class:`TooManyStates` if these, or the tokens that they allow, are too many.
    """
    if not isinstance(fa, ConstraintAutomaton):
        return fa
    with suppress(TooManyStates, UnsupportedConstraint):
        if not fa.cuts():
            return fa.finite
    return explored(fa, n, limit)


def explored(fa: ConstraintAutomaton, n: int, limit: int) -> Automaton:
    """Write out the states of a lazy automaton that are met within n tokens. Raises :class:`TooManyStates`."""
    lazy, followed = fa.lazy, 0
    number, level = {lazy.start_state: 0}, [lazy.start_state]
    moves: list[tuple[int, int, int]] = []
    classes: dict[tuple[int, ...], int] = {}
    for left in reversed(range(n)):
        reached: list[int] = []
        for state in level:
            words = lazy.words_within(state, left) if lazy.is_exact else lazy.words_within(state)
            mask = np.unpackbits(words.view(np.uint8), bitorder="little")
            allowed, groups = mask[: fa.vocab_size].nonzero()[0].tolist(), dict[int, list[int]]()
            for token, after in zip(allowed, lazy.after([(state, 1)] * len(allowed), allowed), strict=True):
                groups.setdefault(after[0], []).append(token)
            followed += len(allowed)
            for target, tokens in groups.items():
                if target not in number:
                    number[target] = len(number)
                    reached.append(target)
                moves.append((number[state], classes.setdefault(tuple(tokens), len(classes)), number[target]))
            if len(number) > limit or followed > limits.TRANSITIONS:
                raise TooManyStates(
                    f"canvas: the constraint is lazy, and within {n} tokens more than {limit:,} of its states can be met, or "
                    f"{limits.TRANSITIONS:,} tokens between them; shorten the canvas, or bound depth, lengths or properties",
                    limit=limit,
                )
        level = reached
    row = np.repeat(np.arange(len(classes)), [len(tokens) for tokens in classes])
    sets = Incidence(
        torch.from_numpy(row),
        torch.tensor([token for tokens in classes for token in tokens], dtype=torch.long),
        (max(1, len(classes)), fa.vocab_size),
    )
    accept = [index for state, index in number.items() if lazy.accepting(state)]
    table = np.array(moves, np.int64).reshape(-1, 3)
    return Automaton(table, sets, [0], accept, len(number), fa.eos_token_id, trusted=True)
