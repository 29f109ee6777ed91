"""Automaton: a finite automaton over tokens as a chain of 0/1 tensors (Dang et al. 2026, Def. 3.1 and 3.2).

    L = T_out ∈ {0,1}^{S×E} (source incidence)   B_f ∈ {0,1}^{E×V} (edge labels)   R = T_in ∈ {0,1}^{E×S} (target incidence)

All transitions between one pair of states form one edge, labelled with a set of tokens that is a union of *classes* of
tokens. There may be one partition of the vocabulary into classes, or one for each group of states: classes out of one state
are disjoint, classes of different groups may overlap. Weights count accepting paths (Thm 4.3), of which an unambiguous
automaton has one for each accepted sequence. A query on the automaton alone is about sequences of *exactly* n tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ..argument_checks import whole, whole_numbers
from ..errors import ShapeError, VocabularyMismatch
from ..layers import Incidence, TokenSets
from ..layers.operator import TensorMap
from . import automaton_algorithms as algorithms
from .automaton_algorithms import DETERMINIZE_LIMIT, StateGraph, members
from .automaton_algorithms import UNREACHABLE as UNREACHABLE
from .chain import Chain
from .io import convert
from .io.convert import Edge
from .io.draw import Node, Picture, token_label
from .io.file_format import register
from .narrowing import Narrowing
from .transitions import Ints, indicator, ints, numbers, rows

if TYPE_CHECKING:
    import networkx as nx
    from automata.fa.fa import FA

STEP_CACHE_ENTRIES = 1 << 18  # entries (state, token) → states in the cache of step()


class Automaton(Chain):
    """A finite automaton over token ids, deterministic or not, without epsilon transitions.

    ``transitions``: a row (state, token class, state) for each transition; ``tokens``: the class of each token, −1 for tokens
    on no transition, or an :class:`Incidence` (class, token) if classes overlap (two classes out of one state must not; checked
    unless ``trusted``). ``edge_source`` and ``edge_target`` (E,) are the states of each edge; ``eos_token_id`` is set if
    accepted sequences end with an end-of-sequence token. ``narrowed`` lists where a compiled constraint accepts less than was
    asked for (``Constraint.narrowed``). Raises :class:`ShapeError` if an index is out of range.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> one  # exactly one 1
    Automaton(states=(2,), units=(3,), vocab_size=2)
    >>> tt.count(one, n=3)  # 001, 010, 100
    3
    """

    narrowed: tuple[Narrowing, ...] = ()
    lazy: Any = (
        None  # an equivalent automaton with states built on demand, which masks should use instead, if any
    )

    def __init__(
        self,
        transitions: Int[Tensor, "transitions 3"] | np.ndarray[Any, Any],
        tokens: Ints | Incidence,
        start: Iterable[int],
        accept: Iterable[int],
        num_states: int,
        eos_token_id: int | None = None,
        *,
        trusted: bool = False,
    ) -> None:
        num_states = whole(num_states, "Automaton: the number of states", None, ShapeError)
        starts, accepts = (sorted(set(numbers(s, "Automaton: a state", None))) for s in (start, accept))
        triples = rows(transitions, starts, accepts, num_states)
        key = triples[:, 0] * num_states + triples[:, 2]
        pairs, edge = torch.unique(key, return_inverse=True)
        self.edge_source, self.edge_target = pairs // num_states, pairs % num_states
        edges, every = len(pairs), torch.arange(max(1, len(pairs)))
        if not edges:  # without transitions: one edge with an empty label, since layers need a unit
            self.edge_source = self.edge_target = torch.zeros(1, dtype=torch.long)
        classes_of = tokens if isinstance(tokens, Incidence) else ints(tokens)
        if isinstance(classes_of, Incidence) and not trusted:  # check: classes of a state are disjoint
            moves = torch.unique(triples[:, :2], dim=0)
            TokenSets(moves[:, 0], moves[:, 1], classes_of, num_states)
        labels = TokenSets(edge, triples[:, 1], classes_of, max(1, edges), trusted=True)
        left = Incidence(self.edge_source, every, (num_states, max(1, edges)))
        right = Incidence(every, self.edge_target, (max(1, edges), num_states))
        self.labels, self.transitions, self.eos_token_id = labels, triples, eos_token_id
        self._transitions_by_class: list[dict[int, list[int]]] | None = None
        self._steps: dict[tuple[int, int], tuple[int, ...]] = {}
        super().__init__(
            (indicator(starts, num_states),), left, labels, right, (indicator(accepts, num_states),)
        )

    @classmethod
    def from_transitions(
        cls,
        source: Ints,
        klass: Ints,
        target: Ints,
        token_class: Ints,
        start: Iterable[int],
        accept: Iterable[int],
        num_states: int,
        eos_token_id: int | None = None,
    ) -> Automaton:
        """Make an automaton from arrays with the source, token class and target of each transition; see the class."""
        triples = torch.stack([ints(source), ints(klass), ints(target)], 1)
        return cls(triples, token_class, start, accept, num_states, eos_token_id)

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[Edge],
        start: int | Iterable[int],
        accept: int | Iterable[int],
        vocab_size: int,
        eos_token_id: int | None = None,
    ) -> Automaton:
        """Make an automaton from triples (source, token id or ids, target); states are 0 … the largest one named.

        Raises :class:`ShapeError` for anything but whole numbers, and for tokens outside the vocabulary.

        Examples
        --------
        >>> import tractile as tt
        >>> even = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, [0], 1), (1, 1, 0)], start=0, accept=[0], vocab_size=2)
        >>> even.accepts([1, 0, 1]), even.accepts([1, 0, 0])  # an even number of ones
        (True, False)
        >>> even.num_states, even.num_edges
        (2, 4)
        """
        graph, token_class = convert.from_edges(edges, start, accept, vocab_size)
        return cls(graph.transitions, token_class, graph.start, graph.accept, graph.num_states, eos_token_id)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is derived from the automaton: another process makes its own."""
        return {name: value for name, value in vars(self).items() if name != "cache"}

    @property
    def num_states(self) -> int:
        """S, the number of states."""
        return self.state_dims[0]

    @property
    def num_edges(self) -> int:
        """E, the number of pairs of states with a transition between them."""
        return len(self.edge_source) if len(self.transitions) else 0

    @property
    def start_states(self) -> list[int]:
        """The states in which a sequence may begin."""
        return [int(s) for s in self.initial[0].nonzero()]

    @property
    def accept_states(self) -> list[int]:
        """The states in which a sequence may end."""
        return [int(s) for s in self.final[0].nonzero()]

    @property
    def is_deterministic(self) -> bool:
        """Whether there is one start state and at most one transition for each state and token."""
        moves = self.transitions[:, :2]  # sorted
        return len(self.start_states) == 1 and not bool((moves[1:] == moves[:-1]).all(1).any())

    @property
    def is_unambiguous(self) -> bool:
        """Whether every accepted sequence has one accepting path."""
        return self.is_deterministic or algorithms.is_unambiguous(self.partitioned.graph)

    def determinize(self, limit: int = DETERMINIZE_LIMIT) -> Automaton:
        """Return a deterministic automaton of the same language. Raises :class:`TooManyStates` past ``limit`` states."""
        limit = whole(limit, "determinize: limit", 0, ShapeError)
        return self._same_language(
            algorithms.determinize(self.partitioned.graph, limit), self.partitioned.labels.tokens
        )

    def minimize(self, limit: int = DETERMINIZE_LIMIT) -> Automaton:
        """Return the smallest deterministic automaton of the same language, trimmed.

        Raises :class:`TooManyStates` if the deterministic automaton has more than ``limit`` states before minimisation.

        Examples
        --------
        >>> import tractile as tt
        >>> ends = [(0, [0, 1], 0), (0, 1, 1), (1, [0, 1], 2)]  # the last token but one is a 1
        >>> nfa = tt.Automaton.from_edges(ends, start=0, accept=[2], vocab_size=2)
        >>> nfa.num_states, nfa.determinize().num_states, nfa.minimize().num_states
        (3, 4, 4)
        >>> nfa.is_unambiguous, nfa.is_deterministic
        (True, False)
        """
        limit = whole(limit, "minimize: limit", 0, ShapeError)
        graph = algorithms.trim(algorithms.determinize(self.partitioned.graph, limit))
        return self._same_language(algorithms.minimize(graph), self.partitioned.labels.tokens)

    @property
    def graph(self) -> StateGraph:
        """The states and transitions as arrays."""
        return StateGraph(self.transitions.numpy(), self.start_states, self.accept_states, self.num_states)

    def _same_language(self, graph: StateGraph, tokens: Ints | Incidence) -> Automaton:
        """Make an automaton from a graph with the same language; fingerprint, end token and ``narrowed`` are kept."""
        start, accept, eos = graph.start, graph.accept, self.eos_token_id
        made = Automaton(graph.transitions, tokens, start, accept, graph.num_states, eos, trusted=True)
        made.narrowed = self.narrowed
        return made.for_vocabulary(self.vocabulary_fingerprint)

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Return whether a token sequence is accepted. Raises :class:`VocabularyMismatch` for ids outside the vocabulary."""
        found = whole_numbers(tokens, "accepts: token ids", VocabularyMismatch).tolist()
        if not isinstance(found, list) or not all(
            isinstance(token, int) and 0 <= token < self.vocab_size for token in found
        ):
            raise VocabularyMismatch(f"accepts: a token lies outside the vocabulary of {self.vocab_size}")
        return self.accepts_tokens(found)

    def step(self, state: int, token: int) -> tuple[int, ...]:
        """Return the states reached from a state by one token, ascending; cached."""
        key = (state, token)
        if key not in self._steps:
            if len(self._steps) >= STEP_CACHE_ENTRIES:
                self._steps.clear()
            first, classes = self.labels.by_token(torch.device("cpu"))
            moves = self.transitions_by_class()[state]
            here = classes[int(first[token]) : int(first[token + 1])].tolist()
            self._steps[key] = tuple(sorted({d for c in here for d in moves.get(c, ())}))
        return self._steps[key]

    def transitions_by_class(self) -> list[dict[int, list[int]]]:
        """Return for each state the states reached by each token class."""
        if self._transitions_by_class is None:
            self._transitions_by_class = self.graph.by_class()
        return self._transitions_by_class

    def edges_from(self, state: int) -> list[tuple[int, list[Int[np.ndarray, " some"]]]]:
        """List (target, disjoint arrays of tokens) for every edge out of a state."""
        members, found = self.labels.members(), dict[int, list[Int[np.ndarray, " some"]]]()
        for klass, targets in self.transitions_by_class()[state].items():
            for target in targets:
                found.setdefault(target, []).append(members[klass].numpy())
        return sorted(found.items())

    @cached_property
    def distances(self) -> Int[np.ndarray, " states"]:
        """The fewest tokens from each state to acceptance; ``UNREACHABLE`` for states that cannot accept."""
        return algorithms.distances(*self._edges, members(self.accept_states, self.num_states))

    def cut(self, vocab_size: int) -> Automaton:
        """Return the automaton for the first ``vocab_size`` tokens: no transition has a later one. Its fingerprint is not known.

        Raises :class:`VocabularyMismatch` if the end token is a later one, or no sequence is left.

        Examples
        --------
        >>> import tractile as tt
        >>> fa = tt.Automaton.from_edges([(0, [0, 2], 1), (1, 3, 1)], start=0, accept=[1], vocab_size=4)
        >>> fa.cut(3).accepts([2]), fa.cut(1).accepts([0])
        (True, True)
        """
        size = whole(vocab_size, "cut: the number of tokens", 1, ShapeError)
        if size >= self.vocab_size:
            return self
        token_class = self.partitioned.labels.tokens[:size]  # type: ignore[index]
        graph = self.partitioned.graph
        kept = np.isin(graph.transitions[:, 1], token_class.unique().numpy())
        left = algorithms.trim(graph._replace(transitions=graph.transitions[kept]))
        if (self.eos_token_id or 0) >= size or not left.accept:
            raise VocabularyMismatch(
                f"without the tokens from {size:,} on, which the model has no outputs for, the automaton accepts nothing: "
                "compile the constraint with the model's tokenizer, and with an end token that it can write"
            )
        return self._same_language(left, token_class).for_vocabulary(None)

    def guide(self) -> Automaton:
        """Return the automaton that P-GCD multiplies an HMM with: this one."""
        return self

    @property
    def distances_are_exact(self) -> bool:
        """Whether :meth:`fewest_after` is the least, and no upper bound of it."""
        return True

    def fewest_after(self, tokens: Sequence[int]) -> int:
        """Return the fewest further tokens to acceptance after these tokens; ``UNREACHABLE`` if nothing can be accepted."""
        distances = self.distances
        return min((int(distances[state]) for state in self._led_to(tokens)), default=UNREACHABLE)

    def accepts_tokens(self, tokens: Sequence[int]) -> bool:
        """Return whether a token sequence is accepted, without the check of ids in :meth:`accepts`."""
        return not self._led_to(tokens).isdisjoint(self.accept_states)

    def _led_to(self, tokens: Sequence[int]) -> set[int]:
        """Return the states that these tokens lead to."""
        states = set(self.start_states)
        for token in tokens:
            states = {after for state in states for after in self.step(state, token)}
        return states

    @cached_property
    def acceptance_extends(self) -> bool:
        """Whether every accepting state has an edge to an accepting one: what fits in r tokens then fits in any more."""
        return algorithms.acceptance_extends(*self._edges, members(self.accept_states, self.num_states))

    @property
    def _edges(self) -> tuple[Int[np.ndarray, " edges"], Int[np.ndarray, " edges"]]:
        """(sources, targets) of the edges."""
        return self.edge_source.numpy()[: self.num_edges], self.edge_target.numpy()[: self.num_edges]

    @cached_property
    def partitioned(self) -> Automaton:
        """An equal automaton whose classes do not overlap: one partition of the vocabulary for all states."""
        if self.labels.token_class is not None:
            return self
        classes = self.labels.classes
        token_class, pairs = algorithms.token_partition(
            classes.row.numpy(), classes.col.numpy(), self.labels.num_classes, self.vocab_size
        )
        return self._same_language(algorithms.split_classes(self.graph, pairs), token_class)

    def trim(self) -> Automaton:
        """Return the automaton restricted to states on a path from start to acceptance (one start state is always kept)."""
        return self._same_language(algorithms.trim(self.graph), self.labels.tokens)

    def map(self, fn: TensorMap) -> Self:
        out = self._copy()
        out.initial, out.final = tuple(map(fn, self.initial)), tuple(map(fn, self.final))
        return out

    def to_networkx(self) -> nx.MultiDiGraph:
        """Convert to a networkx MultiDiGraph with an edge for each pair of states."""
        return convert.to_networkx(
            self.graph,
            self.edges(),
            vocab_size=self.vocab_size,
            eos_token_id=self.eos_token_id,
            vocabulary_fingerprint=self.vocabulary_fingerprint,
        )

    @classmethod
    def from_networkx(cls, graph: nx.DiGraph, vocab_size: int | None = None) -> Automaton:
        """Make an automaton from a networkx (multi)graph with ``tokens`` on edges, ``start`` and ``accept`` on nodes."""
        made = cls.from_edges(*convert.from_networkx(graph, vocab_size), graph.graph.get("eos_token_id"))
        return made.for_vocabulary(graph.graph.get("vocabulary_fingerprint"))

    def to_automata(self) -> FA:
        """Convert to a DFA or NFA of the automata-lib package over token ids (extra ``automata``)."""
        return convert.to_automata(self.graph, self.edges(), self.vocab_size)

    @classmethod
    def from_automata(cls, fa: FA, vocab_size: int) -> Automaton:
        """Make an automaton from a DFA or NFA of automata-lib whose symbols are token ids; ε-transitions are removed."""
        return cls.from_edges(*convert.from_automata(fa, vocab_size))

    def edges(self) -> list[tuple[int, int, list[int]]]:
        """List (source, target, tokens) of every edge, with all tokens; for small automata."""
        tokens = [members.tolist() for members in self.labels.members()]
        found: dict[tuple[int, int], list[int]] = {}
        for s, c, d in self.transitions.tolist():
            found.setdefault((s, d), []).extend(tokens[c])
        return [(s, d, sorted(t)) for (s, d), t in sorted(found.items())]

    def _footer(self) -> str:
        return f"{self.num_states:,} states, {self.num_edges:,} edges, {self.vocab_size:,} tokens"

    def num_nodes(self) -> int:
        """Return the number of states."""
        return self.num_states

    def picture(self, names: Sequence[str] | None = None) -> Picture:
        """Return a picture with a node for each state and an edge for each pair of states."""
        accepts = set(self.accept_states)
        nodes = [Node(s, str(s), "accepting" if s in accepts else "state") for s in range(self.num_states)]
        edges = [(s, d, token_label(tokens, names)) for s, d, tokens in self.edges()]
        return Picture(nodes, edges, self.start_states)


def _arguments(o: Automaton) -> tuple[Any, ...]:
    whole = (o.transitions, o.labels.tokens, o.initial[0], o.final[0], o.eos_token_id)
    return (*whole, [list(cut) for cut in o.narrowed]) if o.narrowed else whole


def _from_arguments(
    transitions: Tensor,
    tokens: Tensor | Incidence,
    initial: Tensor,
    final: Tensor,
    eos: int | None,
    narrowed: Sequence[Sequence[Any]] = (),
) -> Automaton:
    """Return the automaton of the arguments that :func:`_arguments` gives. Raises :class:`ShapeError` for whole numbers."""
    types = initial.dtype, final.dtype
    if not all(each.is_floating_point for each in types):
        raise ShapeError("Automaton: initial and final must be floating point, not {} and {}".format(*types))
    starts, accepts = (v.nonzero()[:, 0].tolist() for v in (initial, final))
    found = Automaton(transitions, tokens, starts, accepts, len(initial), eos)
    found.narrowed = tuple(Narrowing(*fields) for fields in narrowed)
    return found.map(lambda t: t.to(initial.dtype))


register(Automaton, _arguments, _from_arguments, subclasses=True)
