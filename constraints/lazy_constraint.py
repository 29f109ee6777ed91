"""Constraints with a lazy automaton: unbounded lengths, counts, depth and orders of members."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import Any

from ..circuits.automaton import Automaton
from ..errors import TooManyStates, UnsupportedConstraint
from . import validation
from .automata import utf8
from .automata.abstraction import abstraction
from .automata.comparing_stack import RecordingAutomaton
from .automata.lazy import Numbered, explore
from .automata.machines import Choice, Concatenation, DfaMachine, LazyMachine, Repetition
from .automata.nfa import Nfa, trim
from .automata.nfa_machine import NfaMachine
from .automata.region import Machine
from .automata.stack import StackAutomaton
from .compiled import ConstraintAutomaton
from .constraint import Constraint, checked
from .contradictions import empty_language
from .engine.native import CompiledTokens, runs
from .masks.recording_tokens import RecordingTokens
from .narrowing import Narrowing, merged, report
from .parts.automaton import Part, Twins
from .parts.tokens import LimitedTokens
from .program import nodes, tables
from .program.left_recursion import repeated
from .program.node import Node
from .vocabulary.numbered import with_named_tokens
from .vocabulary.reading import vocabulary_of
from .vocabulary.vocabulary import Vocabulary

MOST_STATES = 1 << 14  # met by texts that are checked, beyond which they are met anew


class LazyConstraint(Constraint):
    """A language given by a stack automaton; ``finite`` is the largest regular subset that fits.

    Masks, ``accepts``, ``shortest``, ``|``, ``+`` and ``repeat`` use the whole language. ``&``, ``-`` and ``~`` need a finite
    automaton: their ``narrowed`` says what that lacks.
    """

    is_finite = False  # type: ignore[assignment]

    def __init__(
        self,
        automaton: StackAutomaton,
        narrowed: tuple[Narrowing, ...],
        finite: Callable[[], Constraint],
        abstract: Callable[[int], Nfa] | None = None,
    ) -> None:
        self.automaton, self._make_finite, self._narrowed = automaton, finite, narrowed
        self._abstract = abstract
        self.limited: Machine | None = None  # the machine with token budgets of parts, if there are any
        self.program: Callable[[], Node | None] = no_program
        self.made_by: Callable[[], Constraint] | None = None
        self.recording = RecordingAutomaton(automaton)
        self._states = Numbered(self.recording)

    def __reduce__(self) -> tuple[Callable[..., Constraint], tuple[Callable[[], Constraint]]]:
        """Pickle only the recipe: the reading process makes it again, since its machines hold caches."""
        if self.made_by is None:
            raise TypeError("a constraint of machines made by hand cannot be copied to another process")
        return remade, (self.made_by,)

    @cached_property
    def finite(self) -> Constraint:
        """A constraint with a finite automaton that accepts these texts, or a subset of them."""
        found = self._make_finite()
        report(tuple(each for each in found.narrowed if each not in self.narrowed), "warn")
        return found

    @cached_property
    def nfa(self) -> Nfa:  # type: ignore[override]
        return self.finite.nfa

    @cached_property
    def bytes_automaton(self) -> Nfa:
        return self.finite.bytes_automaton

    def __or__(self, other: Constraint) -> Constraint:
        return either(self, checked(other))

    def __ror__(self, other: Constraint) -> Constraint:
        return either(checked(other), self)

    def __add__(self, other: Constraint) -> Constraint:
        return joined(self, checked(other))

    def __radd__(self, other: Constraint) -> Constraint:
        return joined(checked(other), self)

    def repeat(self, low: int, high: int | None = None) -> Constraint:
        low = validation.count(low, "low")
        high = None if high is None else validation.count(high, "high", low)
        if self.automaton.root is None:
            return self.finite.repeat(low, high)
        if self.limited is not None:
            return with_budgets(
                Repetition(self.limited, low, high), self.narrowed, partial(self.repeat, low, high)
            )
        part = machine_of(self)
        assert part is not None
        automaton = StackAutomaton(Repetition(part, low, high))
        automaton.needs_distinct, automaton.may_compare = (
            self.automaton.needs_distinct,
            self.automaton.may_compare,
        )
        found = LazyConstraint(automaton, self.narrowed, lambda: self.finite.repeat(low, high))
        found.made_by = partial(self.repeat, low, high)
        found.program = cache(partial(composed, partial(repeated, low=low, high=high), self))
        return found

    def accepts(self, text: str | bytes) -> bool:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if len(self._states.configurations) > MOST_STATES:
            self._states = Numbered(RecordingAutomaton(self.automaton.renewed()))
        return self._states.accepts(data)

    def is_empty(self) -> bool:
        return self.recording.start() is None

    def shortest(self) -> str:
        first = self.recording.start()
        if first is None:
            raise empty_language(self)
        return self.recording.completion(first).decode()

    def compile(
        self,
        vocab: Vocabulary | Any,
        require_eos: bool = True,
        *,
        eos_token_id: int | None = None,
        cache: bool = False,
        canonical: bool = False,
    ) -> Automaton:
        vocab = with_named_tokens(self.narrowed, vocabulary_of(vocab, eos_token_id))
        if self.limited is None and (canonical or not vocab.trie.spells_all):
            return self.finite.compile(vocab, require_eos, canonical=canonical, cache=cache)
        if self.is_empty():
            raise empty_language(self)
        if canonical:
            raise UnsupportedConstraint(
                "budgets of parts and canonical=True do not go together: compile with canonical=False"
            )
        lazy: RecordingTokens | LimitedTokens | CompiledTokens
        if self.limited is not None:
            lazy = LimitedTokens(self.limited, vocab, require_eos)
        elif (node := self.program()) is not None and runs(node):
            lazy = CompiledTokens(node, vocab, require_eos)
        else:
            lazy = RecordingTokens(self.automaton, vocab, require_eos)

        def finite() -> Automaton:
            return self.finite.compile(vocab, require_eos, cache=cache)

        def guide(most_states: int) -> Automaton:
            return Constraint(self.regular(most_states)).compile(vocab, require_eos)

        found = ConstraintAutomaton(lazy, finite, guide)
        found.made_by = partial(self.compile, vocab, require_eos, cache=cache)
        found.narrowed = merged(self.narrowed, found.narrowed)
        return found

    def regular(self, most_states: int) -> Nfa:
        """Return a finite automaton that accepts at least all texts of the constraint.

        It accepts only these if ``most_states`` states suffice (but items that must differ may be equal). If no automaton of
        that size is known, it accepts all texts.
        """
        with suppress(TooManyStates):
            return explore(self.automaton, most_states)
        assert self.automaton.root is not None
        with suppress(TooManyStates):
            if self._abstract is not None:
                return self._abstract(most_states)
            return abstraction(self.automaton.root, most_states)
        return utf8.text().plain


def no_program() -> None:
    """Return None: the texts are not written as nodes."""


def composed(make: Callable[..., Node], *given: Constraint) -> Node | None:
    """Return the node that ``make`` makes of those of some constraints; None if nodes do not write one of them."""
    found = [
        each.program() if isinstance(each, LazyConstraint) else nodes.lex(tables.of_nfa(each.bytes_automaton))
        for each in given
    ]
    return None if None in found else make(*found)


def remade(make: Callable[[], Constraint]) -> Constraint:
    """Make a constraint again, in another process."""
    return make()


def made(make: Callable[..., LazyConstraint], *given: Any) -> LazyConstraint:
    """Return ``make(*given)``; it can be copied to other processes if ``make`` and ``given`` can."""
    found = make(*given)
    found.made_by = partial(made, make, *given)
    node = found.program()
    if node is not None:
        new = Constraint(node, found.narrowed, found.made_by)
        new.why_empty = found.why_empty
        return new
    return found


def either(a: Constraint, b: Constraint) -> Constraint:
    """Return the union of two constraints."""
    return combined(Choice, a, b, lambda: a.finite | b.finite)


def joined(a: Constraint, b: Constraint) -> Constraint:
    """Return the concatenation of two constraints."""
    return combined(Concatenation, a, b, lambda: a.finite + b.finite)


def combined(
    kind: Callable[[list[Machine]], Machine], a: Constraint, b: Constraint, finite: Callable[[], Constraint]
) -> Constraint:
    """Combine two constraints by their machines, or by ``finite`` if one of them has no machine."""
    make = partial(either if kind is Choice else joined, a, b)
    if any(isinstance(each, LazyConstraint) and each.limited is not None for each in (a, b)):
        for one, other in ((a, b), (b, a)):
            if one.is_empty():
                return other if kind is Choice else one
        parts = [machine_with_budgets(a), machine_with_budgets(b)]
        return with_budgets(kind(parts), merged(a.narrowed, b.narrowed), make)
    machines = [machine for each in (a, b) if (machine := machine_of(each)) is not None]
    if len(machines) < 2:
        return finite()
    automaton = StackAutomaton(kind(machines))
    for each in (a, b):
        if isinstance(each, LazyConstraint):
            automaton.needs_distinct |= each.automaton.needs_distinct
            automaton.may_compare |= each.automaton.may_compare
    found = LazyConstraint(automaton, merged(a.narrowed, b.narrowed), finite)
    found.made_by = make
    found.program = cache(partial(composed, nodes.alt if kind is Choice else nodes.seq, a, b))
    return found


def with_budget(constraint: Constraint, at_most: int | None, at_least: int) -> Constraint:
    """Limit a constraint to texts that take ``at_least`` to ``at_most`` tokens; see
    :meth:`~.constraint.Constraint.tokens`.
    """
    if constraint.is_empty() or (at_most is None and not at_least):
        return constraint
    limits = [f"{name}={value}" for name, value in (("at_most", at_most), ("at_least", at_least)) if value]
    name = f"tokens({', '.join(limits) or 'at_most=0'})"
    part = Part(machine_with_budgets(constraint), at_least, at_most, name)
    return with_budgets(part, constraint.narrowed, partial(with_budget, constraint, at_most, at_least))


def with_budgets(
    machine: Machine, narrowed: tuple[Narrowing, ...], make: Callable[[], Constraint]
) -> LazyConstraint:
    """Return the constraint of a machine that has parts with token budgets."""

    def finite() -> Constraint:
        raise UnsupportedConstraint(
            "a constraint with budgets of parts (tokens) has no finite automaton: `&`, `-`, `~`, counting and drawing "
            "need one; compose the parts first, and call tokens(…) on the result"
        )

    found = LazyConstraint(StackAutomaton(Twins().of(machine)), narrowed, finite)
    found.limited, found.made_by = machine, make
    return found


def machine_with_budgets(constraint: Constraint) -> Machine:
    """Return the machine of a constraint, including the token budgets of its parts.

    Raises ``UnsupportedConstraint`` for ``uniqueItems`` over values that are not listed in an enum.
    """
    if isinstance(constraint, LazyConstraint) and constraint.automaton.may_compare:
        raise UnsupportedConstraint("uniqueItems over values that are not listed, beside budgets of parts")
    if isinstance(constraint, LazyConstraint) and constraint.limited is not None:
        return constraint.limited
    return machine_of(constraint) or NfaMachine(trim(constraint.bytes_automaton.plain))


def machine_of(constraint: Constraint) -> Machine | None:
    """Return the machine that reads the texts; None if there are none, or only an NFA is known."""
    if isinstance(constraint, LazyConstraint):
        automaton = constraint.automaton
        return automaton.root if type(automaton) is StackAutomaton else LazyMachine(automaton)
    dfa = constraint.bytes_automaton
    return DfaMachine(dfa) if dfa.is_deterministic and not dfa.is_empty else None
