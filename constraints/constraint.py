""":class:`Constraint`: a set of texts, to combine, to test for membership and to compile.

    c = regex(r"[a-z]+") & ~literal("no")        c.accepts("yes")        fa = c.compile(vocab)

A constraint is a language of Unicode strings; ``~c`` is every other Unicode string. It is written as a program of nodes
(``program/``), which the engine reads through a vocabulary (``engine/``). What needs all states, such as ``&`` and ``~``, is done
on byte automata over UTF-8 (``automata/``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from ..circuits.automaton import Automaton
from ..circuits.io.summary import html_table
from ..circuits.narrowing import TOKEN
from ..errors import UnsupportedConstraint
from . import origins, validation
from .automata import dfa, nfa, utf8
from .automata.nfa import Nfa
from .automata.repeats import repeat
from .automata.work import SIMPLIFYING, limited_to
from .compiled import ConstraintAutomaton
from .contradictions import empty_language, lacking, unwritten
from .engine.bytes import Bytes
from .engine.regular import bounded, guiding
from .engine.tokens import ProgramStates
from .explicit import written_and_kept, written_out
from .narrowing import Narrowing, merged, report
from .program import nodes, stored, tables
from .program.left_recursion import repeated
from .program.node import Node
from .program.prune import without_budgets
from .vocabulary.numbered import with_named_tokens
from .vocabulary.reading import vocabulary_of
from .vocabulary.vocabulary import Vocabulary


class Constraint:
    """A language of texts, composed by operators.

    Made by ``regex``, ``json_schema``, ``keywords``, ``literal``, ``any_of``, and by
    ``a & b``: both; ``a | b``: either; ``~a``: every text not in ``a``; ``a - b``: in ``a`` and not in ``b``;
    ``a + b``: a text of ``a`` followed by one of ``b``;
    ``a.repeat(low, high)``: ``low`` to ``high`` texts of ``a`` in a row (``high=None``: no upper bound).

    ``~b``, ``a - b`` (for ``b``) and one side of ``a & b`` need a finite automaton: that of :attr:`finite`. If the language is
    not regular or its automaton too large, it is a subset, and ``narrowed`` says what it lacks. All else uses the whole language.
    Composition and compilation raise ``TooManyStates`` if an automaton would exceed the limits of ``limits.py``.
    """

    written: Callable[[], str] | None = None  # the call that made it, for messages
    both: tuple[Constraint, ...] = ()  # the parts of an intersection
    why_empty: Callable[[], str] | None = None  # the end of a message, for a language without texts
    reader: Callable[[str], Any] | None = None  # from a text to its value
    wanted_by: origins.WantedBy | None = None  # the rules that say what may follow a text

    def __init__(self, texts: Nfa | Node, narrowed: tuple[Narrowing, ...] = ()) -> None:
        self._texts, self._narrowed, self._compiled = texts, narrowed, dict[str, Automaton]()

    def __repr__(self) -> str:
        size = f"{self.nfa.num_states} states" if self.is_finite else "states made when they are met"
        return f"{type(self).__name__}({size}{', narrowed' if self._narrowed else ''})"

    def _repr_html_(self) -> str:
        rows = [(cut.path or "/", str(cut.asked), str(cut.given)) for cut in self._narrowed]
        return html_table(["narrowed at", "asked", "given"] if rows else [], rows, repr(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Constraint.from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Return the constraint, compiled, for other processes; :meth:`from_bytes` reads it in less time than compiling takes.

        The bytes are the same in every process, and on every machine. They have the language alone: its values are texts then,
        and :func:`.explain` names no schema and no rule.
        """
        return stored.to_bytes(self.program, self.is_finite, self._narrowed)

    @staticmethod
    def from_bytes(data: bytes) -> Constraint:
        """Return the constraint of :meth:`to_bytes`. A checksum finds damage, not forgery: read only what you trust.

        Raises ``FormatError`` for anything else, and for bytes of another version of the format.
        """
        program, is_finite, narrowed = stored.from_bytes(data)
        if not is_finite:
            return Constraint(program, narrowed)
        found = Constraint(tables.to_nfa(program.tables[0]) if program.tables else nfa.empty(), narrowed)
        found.__dict__["program"] = program
        return found

    # ------------------------------------------------------------ what it is

    @property
    def is_finite(self) -> bool:
        """Whether it was given as a finite automaton."""
        return isinstance(self._texts, Nfa)

    @cached_property
    def program(self) -> Node:
        """The language as nodes."""
        texts = self._texts
        return texts if isinstance(texts, Node) else nodes.lex(tables.of_nfa(self.bytes_automaton))

    @property
    def nfa(self) -> Nfa:
        """The language of :attr:`finite` as a nondeterministic automaton over bytes."""
        return self._texts if isinstance(self._texts, Nfa) else self.finite.nfa

    @property
    def narrowed(self) -> tuple[Narrowing, ...]:
        """Where fewer texts are accepted than were written; empty if the language is exact.

        ``&``, ``|``, ``+`` and ``repeat`` carry these entries over. ``~`` and ``-`` refuse a constraint that lacks values,
        since its complement would accept texts that it must not. If only other spellings of numbers are lacking
        (``numbers``), the complement leaves out all texts with an exponent (``1e5``), and ``narrowed`` says so.
        The complement of a grammar that names tokens (``token``) is that of its texts.
        """
        return self._narrowed

    @property
    def finite(self) -> Constraint:
        """The constraint itself, or one with a finite automaton that accepts these texts, or a subset of them."""
        return self if self.is_finite else self._finite

    @cached_property
    def _finite(self) -> Constraint:
        report(self._cuts(), "warn")
        return self._within

    @cached_property
    def _within(self) -> Constraint:
        return self.within()

    def _cuts(self) -> tuple[Narrowing, ...]:
        """Return what :attr:`finite` lacks beside ``narrowed``."""
        return () if self.is_finite else tuple(x for x in self._within.narrowed if x not in self.narrowed)

    def within(self, depth: int | None = None, length: int | None = None) -> Constraint:
        """Return a constraint with a finite automaton that accepts these texts, or those within bounds; ``narrowed`` has them.

        ``depth``: how often what calls itself is followed within itself; ``length``: the most characters of texts with an
        upper bound, and ten times the most items. None: as much as fits. Raises ``TooManyStates``.
        """
        automaton, cuts = bounded(self.program, depth, length)
        found = Constraint(automaton, merged(self.narrowed, cuts))
        found.why_empty, found.wanted_by = self.why_empty, self.wanted_by
        return found

    def regular(self, most_states: int) -> Nfa:
        """Return a finite automaton that accepts at least all texts of the constraint.

        It accepts only these if ``most_states`` states suffice (but items that must differ may be equal). If no automaton of
        that size is known, it accepts all texts.
        """
        return guiding(self.program, most_states)

    # ------------------------------------------------------------ composition

    def __and__(self, other: Constraint) -> Constraint:
        one, regular = (self, checked(other)) if checked(other).is_finite else (checked(other), self)
        narrowed = merged(one.narrowed, regular.finite.narrowed)
        table = tables.of_nfa(regular.finite.bytes_automaton)
        if one.is_finite or (table is not None and not table.is_deterministic):
            a, b = self.finite, other.finite
            both: Nfa | Node = dfa.intersect(a.bytes_automaton, b.bytes_automaton)
            narrowed = merged(a.narrowed, b.narrowed)
        else:
            both = nodes.within(one.program, table)
        found = Constraint(both, narrowed)
        found.both = (*(self.both or (self,)), *(other.both or (other,)))
        found.wanted_by = origins.of_either(self, other)
        return found

    def __or__(self, other: Constraint) -> Constraint:
        found = self._with(checked(other), nfa.union, nodes.alt)
        found.wanted_by = origins.of_either(self, other)
        return found

    def __add__(self, other: Constraint) -> Constraint:
        found = self._with(checked(other), nfa.concat, nodes.seq)
        found.wanted_by = origins.of_one_after_the_other(self, other)
        return found

    def _with(
        self,
        other: Constraint,
        of_automata: Callable[[list[Nfa]], Nfa],
        of_nodes: Callable[[Node, Node], Node],
    ) -> Constraint:
        narrowed = merged(self.narrowed, other.narrowed)
        if self.is_finite and other.is_finite:
            return Constraint(of_automata([self.nfa, other.nfa]), narrowed)
        return Constraint(of_nodes(self.program, other.program), narrowed)

    def __sub__(self, other: Constraint) -> Constraint:
        return self & ~checked(other)

    def __invert__(self) -> Constraint:
        narrowed = self.finite.narrowed
        if lost := next((each for each in narrowed if each.loses_values), None):
            raise UnsupportedConstraint(
                "the complement of a narrowed constraint would accept texts that it must not: "
                f"{lost}; write the constraint so that `finite.narrowed` is empty",
                path=lost.path,
            )
        tokens = tuple(each for each in narrowed if each.keyword == TOKEN)  # no text is missing there
        if len(tokens) == len(narrowed):
            return Constraint(dfa.difference(utf8.any_text(), self.nfa), tokens)
        without = dfa.difference(utf8.any_text(), nfa.union([self.nfa, exponents()]))
        return Constraint(without, (*tokens, NO_EXPONENTS))

    def repeat(self, low: int, high: int | None = None) -> Constraint:
        """Accept ``low`` to ``high`` of these texts in a row; ``high=None``: no upper bound."""
        low = validation.count(low, "low")
        high = None if high is None else validation.count(high, "high", low)
        if self.is_finite:
            return Constraint(repeat(self.nfa, low, high), self.narrowed)
        return Constraint(repeated(self.program, low, high), self.narrowed)

    def tokens(self, at_most: int | None = None, at_least: int = 0) -> Constraint:
        """Limit the number of tokens that a text of this constraint takes, as a part of a longer text.

        Example: ``thinking.tokens(at_most=200) + answer.tokens(at_most=64)``. Parts may be joined by ``+``, ``|`` and
        ``repeat`` (each repetition has its own count), and nested. A token counts for a part if it writes at least one byte
        of that part, so a token that crosses from one part into the next counts for both. An empty text takes no token, and
        EOS counts for no part. If a text can be divided between parts in several ways, one division that obeys all limits is
        enough.

        Masks, P-GCD and ``Automaton.accepts_tokens`` obey the limits, together with the budget of the whole text: a token is
        allowed if some completion obeys them all. ``accepts``, ``is_empty``, ``shortest`` and the guide of P-GCD ignore the
        limits.

        ``compile`` raises ``EmptyLanguage`` if no text obeys the limits with that vocabulary. ``UnsupportedConstraint`` is
        raised by ``&``, ``-``, ``~``, ``canonical=True`` and whatever else needs a finite automaton, for limits that are no
        whole numbers, and for ``at_least > at_most``.

        >>> from tractile.constraints import Vocabulary, regex
        >>> vocab = Vocabulary([None, b"a", b"b", b"aa", b"ab"], eos_token_id=0)
        >>> fa = (regex("a*").tokens(at_most=2) + regex("b").tokens(at_most=1)).compile(vocab)
        >>> [fa.accepts_tokens(ids) for ids in ([3, 3, 2, 0], [3, 4, 0], [1, 1, 4, 0])]
        [True, True, False]
        """
        low = validation.count(at_least, "tokens: at_least")
        high = None if at_most is None else validation.count(at_most, "tokens: at_most", low)
        program = nodes.tokens(self.program, low, high)
        if program is self.program:
            return self
        found = Constraint(program, self.narrowed)
        found.wanted_by = self.wanted_by
        return found

    # ------------------------------------------------------------ texts

    @cached_property
    def bytes_automaton(self) -> Nfa:
        """The trimmed, epsilon-free byte automaton of :attr:`finite`.

        Deterministic if subset construction does not grow it too much (and minimal unless it is large). Otherwise
        nondeterministic; it may then be ambiguous.
        """
        small = self.nfa.plain
        if small.num_states <= dfa.MANY_STATES:
            with limited_to(SIMPLIFYING):
                small = dfa.simplify(small)
        return small if small.is_deterministic else dfa.resolved(small)

    @cached_property
    def byte_states(self) -> Bytes:
        """The constraint read byte by byte, without its budgets of tokens."""
        return Bytes(without_budgets(self.program))

    def accepts(self, text: str | bytes) -> bool:
        """Return whether the text (or its UTF-8 bytes) satisfies the constraint."""
        data = validation.utf8(text)
        return self.bytes_automaton.accepts(data) if self.is_finite else self.byte_states.accepts(data)

    def is_empty(self) -> bool:
        """Return whether no text satisfies the constraint."""
        return self.nfa.is_empty if self.is_finite else self.byte_states.is_empty

    def shortest(self) -> str:
        """Return an accepted text of the fewest UTF-8 bytes. Raise ``EmptyLanguage`` if there is none."""
        if self.is_empty():
            raise empty_language(self)
        word = self.bytes_automaton.shortest() if self.is_finite else self.byte_states.shortest()
        assert word is not None
        return word.decode()

    # ------------------------------------------------------------ compilation

    def compile(
        self,
        vocab: Vocabulary | Any,
        require_eos: bool = True,
        *,
        eos_token_id: int | None = None,
        cache: bool = False,
        canonical: bool = False,
    ) -> Automaton:
        """Compile to a token automaton that accepts the bytes of a text, then EOS, then only EOS.

        ``vocab`` is a :class:`Vocabulary`, or a tokenizer that :meth:`Vocabulary.from_tokenizer` reads. ``eos_token_id`` is
        the end token (EOS) if that is not the vocabulary's own. With ``require_eos=False`` a sequence that ends in an
        accepted text without EOS is accepted too. Special tokens are never allowed; EOS only where the text is complete.

        With ``cache=True`` an automaton that is written out is kept on disk and read from there the next time, by other
        processes too (``TRACTILE_CACHE`` names the directory). With ``canonical=True`` each text is accepted only in the
        tokenizer's own segmentation (Berglund et al. 2024). That needs a vocabulary read from a byte-pair tokenizer and
        writes out all transitions; ``UnsupportedConstraint`` names a feature of the tokenizer that is not supported.

        Raises ``EmptyLanguage`` if no text is accepted, or no accepted text can be written with this vocabulary;
        ``TooManyStates``; ``FormatError`` for a tokenizer that is not read; ``VocabularyMismatch`` for a vocabulary without a
        token that a grammar names.
        """
        vocab = with_named_tokens(self.narrowed, vocabulary_of(vocab, eos_token_id))
        if canonical:
            found = self._written(vocab, require_eos, canonical, cache)
        else:
            lazy = ProgramStates(self.program, vocab, require_eos)
            if lazy.start_state < 0:
                raise empty_language(self) if self.is_empty() else unwritten(self.program)
            written = partial(self._written, vocab, require_eos, False, cache)
            found = ConstraintAutomaton(lazy, written, partial(self._guide, vocab, require_eos, written))
            found.made_for = partial(self.compile, require_eos=require_eos, cache=cache)
            found.cuts = self._cuts
        found.narrowed = merged(self.narrowed, found.narrowed)
        return found

    def _written(self, vocab: Vocabulary, require_eos: bool, canonical: bool, cache: bool) -> Automaton:
        """Return the token automaton with all its states."""
        texts = self.finite
        if texts.is_empty():
            raise lacking(texts.narrowed) if texts.narrowed else empty_language(self)
        found = (written_and_kept if cache else written_out)(
            texts.bytes_automaton, vocab, require_eos, canonical
        )
        found.narrowed = texts.narrowed
        return found

    def _guide(
        self, vocab: Vocabulary, require_eos: bool, written: Callable[[], Automaton], most_states: int
    ) -> Automaton:
        """Return an automaton over tokens as the guide of P-GCD: it accepts the texts, and more where they are not finite.

        ``written`` makes the automaton of a finite constraint; otherwise the guide has at most ``most_states`` states over bytes.
        """
        if self.is_finite:
            return written()
        return written_out(Constraint(self.regular(most_states)).bytes_automaton, vocab, require_eos)

    def compiled_for(
        self, vocab: Vocabulary | Any, eos_token_id: int | None = None, size: int | None = None
    ) -> Automaton:
        """Return :meth:`compile`'s result, kept with the constraint for the latest four vocabularies.

        ``size``: the number of outputs of the language model, as in :meth:`Vocabulary.from_tokenizer`.
        """
        vocab = vocabulary_of(vocab, eos_token_id, size)
        automaton = self._compiled.pop(vocab.cache_name, None)
        self._compiled[vocab.cache_name] = automaton = automaton or self.compile(vocab)
        while len(self._compiled) > 4:
            del self._compiled[next(iter(self._compiled))]
        return automaton


NO_EXPONENTS = Narrowing(
    path="~",
    keyword="complement",
    asked="every other text",
    given="those without an exponent behind a digit (1e5)",
    why='it may be another way to write a number that the constraint accepts; numbers="plain" has none',
)


def exponents() -> Nfa:
    """Return the automaton of all texts that have an exponent after a digit somewhere."""
    digit = nfa.byte_ranges([(48, 57)])
    sign = nfa.optional(nfa.byte_ranges([(43, 43), (45, 45)]))
    return nfa.concat(
        [nfa.ANYTHING, digit, nfa.byte_ranges([(69, 69), (101, 101)]), sign, digit, nfa.ANYTHING]
    )


def checked(other: Any) -> Constraint:
    """Return ``other``, or raise ``UnsupportedConstraint`` if it is no constraint."""
    if not isinstance(other, Constraint):
        raise UnsupportedConstraint(
            f"a constraint is needed, not {validation.short(other)}; literal(…) makes one of a text"
        )
    return other
