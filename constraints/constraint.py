"""What the user holds: a set of texts, which composes, answers membership, and compiles for a vocabulary.

    c = regex(r"[a-z]+") & ~literal("no")        c.accepts("yes")        fa = c.compile(vocab)

A constraint is a language of Unicode strings; ``~c`` is every other Unicode string. Underneath is a byte-level automaton
over UTF-8, and compiling lifts it to tokens (``lift.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, ClassVar

from ..circuits.automaton import Automaton
from ..circuits.io.summary import html_table
from ..errors import EmptyLanguage, UnsupportedConstraint
from . import limits, validation
from .automata import dfa, nfa, reduction, utf8
from .automata.nfa import Nfa
from .automata.repeats import repeat
from .automata.subsets import resolved
from .automata.work import SIMPLIFYING, limited_to
from .cache import store
from .cache.stored import from_arrays, to_arrays
from .canonical.automaton import canonical_automaton
from .canonical.segmentation import segmentation_of
from .lifting.lift import TokenTransitions, lift
from .lifting.token_dfa import TokenDfa, all_reachable
from .narrowing import Narrowing, from_array, merged, to_array
from .vocabulary.reading import vocabulary_of
from .vocabulary.vocabulary import Vocabulary

MOST_LIFTED = 50_000
"""States of an automaton that is not deterministic, up to which all transitions of tokens are written out at once."""


class Constraint:
    """A regular language of texts. Made by ``regex``, ``json_schema``, ``keywords``, ``literal``, ``any_of``, and by

    ``a & b`` both; ``a | b`` either; ``~a`` every text not in ``a``; ``a - b`` in ``a`` and not in ``b``;
    ``a + b`` one after the other;
    ``a.repeat(low, high)`` between ``low`` and ``high`` times (``high=None``: no upper bound).

    Composition and compilation raise ``TooManyStates`` where the automaton would grow beyond reason.
    """

    is_finite = True  # whether it has its automaton written out
    with_budget: ClassVar[
        staticmethod[[Constraint, int | None, int], Constraint]
    ]  # given by lazy_constraint.py
    source: str | None = None  # a name for what it was made from, if that names it: see :func:`kept`

    def __init__(self, automaton: Nfa, narrowed: tuple[Narrowing, ...] = ()) -> None:
        self.nfa, self._narrowed = automaton, narrowed

    def __repr__(self) -> str:
        size = f"{self.nfa.num_states} states" if self.is_finite else "states made when they are met"
        return f"{type(self).__name__}({size}{', narrowed' if self._narrowed else ''})"

    def _repr_html_(self) -> str:
        rows = [(cut.path or "/", str(cut.asked), str(cut.given)) for cut in self._narrowed]
        return html_table(["narrowed at", "asked", "given"] if rows else [], rows, repr(self))

    @property
    def narrowed(self) -> tuple[Narrowing, ...]:
        """Where fewer texts are accepted than were asked for; empty if the language is exactly what was written.

        Kept by ``&``, ``|``, ``+`` and ``repeat``. The complement of a constraint that lacks values would accept texts that
        it must not, so ``~`` and ``-`` refuse one. Where only other ways to write numbers are lacking (``numbers``), the
        complement has no text with an exponent (``1e5``) in it, and says so.
        """
        return self._narrowed

    @property
    def finite(self) -> Constraint:
        """The constraint itself, or its regular part if its automaton is lazy."""
        return self

    def __and__(self, other: Constraint) -> Constraint:
        a, b = self.finite, checked(other).finite
        return Constraint(dfa.intersect(a.bytes_automaton, b.bytes_automaton), merged(a.narrowed, b.narrowed))

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(nfa.union([self.nfa, checked(other).nfa]), merged(self.narrowed, other.narrowed))

    def __add__(self, other: Constraint) -> Constraint:
        return Constraint(nfa.concat([self.nfa, checked(other).nfa]), merged(self.narrowed, other.narrowed))

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
        if not narrowed:
            return Constraint(dfa.difference(utf8.text(), self.nfa))
        return Constraint(dfa.difference(utf8.text(), nfa.union([self.nfa, exponents()])), (NO_EXPONENTS,))

    def repeat(self, low: int, high: int | None = None) -> Constraint:
        """Between ``low`` and ``high`` of these texts in a row; no upper bound if ``high`` is ``None``."""
        low = validation.count(low, "low")
        high = None if high is None else validation.count(high, "high", low)
        return self._repeated(low, high)

    def _repeated(self, low: int, high: int | None) -> Constraint:
        return Constraint(repeat(self.nfa, low, high), self.narrowed)

    def tokens(self, at_most: int | None = None, at_least: int = 0) -> Constraint:
        """These texts, into each of which at least ``at_least`` and at most ``at_most`` tokens go.

        For a part of a longer text: ``thinking.tokens(at_most=200) + answer.tokens(at_most=64)``. Parts may be joined by
        ``+``, ``|`` and ``repeat`` (each repetition has its own count), and lie in one another. A token goes into a part if
        it writes at least one byte of it, so one that crosses from a part into the next counts in both. No token goes
        into an empty text, and EOS goes into no part. Where a text can be divided between parts in several ways, one that
        obeys all limits is enough.

        Masks, P-GCD and ``Automaton.accepts_tokens`` obey the limits, together with the budget of the whole: a token is allowed
        if some completion obeys them all. ``accepts``, ``is_empty`` and ``shortest`` are about the text alone, and so is the
        guide of P-GCD.

        ``compile`` raises ``EmptyLanguage`` where no text obeys the limits with that vocabulary. ``&``, ``-``, ``~``,
        ``canonical=True`` and what else needs a finite automaton raise ``UnsupportedConstraint``, as do limits that are no
        whole numbers and ``at_least > at_most``.

        >>> from tractile.constraints import Vocabulary, regex
        >>> vocab = Vocabulary([None, b"a", b"b", b"aa", b"ab"], eos_token_id=0)
        >>> fa = (regex("a*").tokens(at_most=2) + regex("b").tokens(at_most=1)).compile(vocab)
        >>> [fa.accepts_tokens(ids) for ids in ([3, 3, 2, 0], [3, 4, 0], [1, 1, 4, 0])]
        [True, True, False]
        """
        at_least = validation.count(at_least, "tokens: at_least")
        at_most = None if at_most is None else validation.count(at_most, "tokens: at_most", at_least)
        return self.with_budget(self, at_most, at_least)

    @cached_property
    def bytes_automaton(self) -> Nfa:
        """The byte-level automaton that is compiled: a deterministic one, minimal unless it is large, where that is not much
        larger than the one written down; otherwise that one, reduced where it is small (it may be ambiguous)."""
        small = self.nfa.plain
        if small.num_states <= dfa.MANY_STATES:
            with limited_to(SIMPLIFYING):
                small = dfa.simplify(small)
            if small.num_states <= reduction.MOST_STATES and not small.is_deterministic:
                with limited_to(SIMPLIFYING / 2):
                    return reduction.reduce(small)
        return small if small.is_deterministic else resolved(small)

    def accepts(self, text: str | bytes) -> bool:
        """Whether the text (or its UTF-8 bytes) satisfies the constraint."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return self.bytes_automaton.accepts(data)

    def is_empty(self) -> bool:
        """Whether no text satisfies the constraint."""
        return self.nfa.is_empty

    def shortest(self) -> str:
        """A text of the fewest UTF-8 bytes that satisfies the constraint. Raises ``EmptyLanguage``."""
        word = self.bytes_automaton.shortest()
        if word is None:
            raise EmptyLanguage("no text satisfies the constraint")
        return word.decode()

    def lift(self, vocab: Vocabulary, require_eos: bool = True) -> TokenTransitions:
        """The token-level transitions of :meth:`compile` as plain arrays. Raises ``EmptyLanguage``."""
        vocab = vocabulary_of(vocab)
        if self.bytes_automaton.is_empty:
            raise EmptyLanguage("no text satisfies the constraint")
        return lift(self.bytes_automaton, vocab, require_eos)

    def compile(
        self,
        vocab: Vocabulary | Any,
        require_eos: bool = True,
        *,
        eos_token_id: int | None = None,
        cache: bool = False,
        canonical: bool = False,
    ) -> Automaton:
        """The token-level automaton: sequences of tokens whose bytes are an accepted text, then EOS, then only EOS.

        ``vocab`` is a :class:`Vocabulary`, or a tokenizer that :meth:`Vocabulary.from_tokenizer` reads. ``eos_token_id`` is the
        end token (EOS) where that is not the vocabulary's own. With ``require_eos=False`` a sequence that ends in an accepted
        text without EOS counts as well. Special tokens are never allowed; EOS only where the text is complete. With
        ``cache=True`` the result is kept on disk and read from there the next time (``TRACTILE_CACHE`` names the
        directory), by another process too; one made by ``json_schema`` is then not even built. With ``canonical=True`` each
        text is accepted only as the tokenizer itself writes it (Berglund et al. 2024): this takes a vocabulary read from a
        byte-pair tokenizer, all transitions are written out, and ``UnsupportedConstraint`` names what is not read of a
        tokenizer. Raises ``EmptyLanguage`` if no text is accepted, or no accepted text can be written with this vocabulary,
        ``TooManyStates``, ``FormatError`` for a tokenizer that is not read.
        """
        vocab = vocabulary_of(vocab, eos_token_id)
        automaton = (self._kept if cache else self._compile)(vocab, require_eos, canonical)
        automaton.narrowed = self.narrowed
        return automaton

    def _kept(self, vocab: Vocabulary, require_eos: bool, canonical: bool) -> Automaton:
        """The automaton from disk, or else compiled and written there."""
        parts: list[Any] = [self.source and self.source.encode()]
        if self.source is None:
            parts = [store.code(), self.nfa.edges, self.nfa.epsilons, self.nfa.start, self.nfa.accept]
        parts += [
            vocab.cache_name.encode(),
            b"%d" % require_eos,
            *([segmentation_of(vocab).name] if canonical else []),
        ]
        name = store.digest(parts)
        arrays = store.read("automaton", name)
        if arrays is not None:
            return from_arrays(arrays, vocab, require_eos)
        automaton = self._compile(vocab, require_eos, canonical)
        store.write("automaton", name, to_arrays(automaton))
        if self.source is not None:
            store.write("source", self.source, {"narrowed": to_array(self.narrowed)})
        return automaton

    def compiled_for(self, vocab: Vocabulary | Any, eos_token_id: int | None = None) -> Automaton:
        """:meth:`compile`, once: the automaton is kept with the constraint, for the latest four vocabularies."""
        vocab = vocabulary_of(vocab, eos_token_id)
        automaton = self._compiled.pop(vocab.cache_name, None)
        self._compiled[vocab.cache_name] = automaton = automaton or self.compile(vocab)
        while len(self._compiled) > 4:
            del self._compiled[next(iter(self._compiled))]
        return automaton

    @cached_property
    def _compiled(self) -> dict[str, Automaton]:
        return {}

    def _compile(self, vocab: Vocabulary, require_eos: bool, canonical: bool) -> Automaton:
        automaton = self.bytes_automaton
        if canonical:
            return canonical_automaton(automaton, vocab, require_eos).for_vocabulary(vocab.fingerprint)
        if automaton.num_states > MOST_LIFTED and not automaton.is_deterministic:
            automaton = resolved(automaton, 4 * limits.WORK)  # all transitions of tokens would take more
        if automaton.is_deterministic and automaton.num_states and all_reachable(automaton, vocab):
            return TokenDfa(automaton, vocab, require_eos)
        arrays = self.lift(vocab, require_eos)
        return Automaton.from_transitions(
            arrays.source,
            arrays.token_class_of_edge,
            arrays.target,
            token_class=arrays.token_class,
            start=arrays.start.tolist(),
            accept=arrays.accept.tolist(),
            num_states=arrays.num_states,
            eos_token_id=vocab.eos_token_id,
        ).for_vocabulary(vocab.fingerprint)


NO_EXPONENTS = Narrowing(
    path="~",
    keyword="complement",
    asked="every other text",
    given="those without an exponent behind a digit (1e5)",
    why='it may be another way to write a number that the constraint accepts; numbers="plain" has none',
)


def exponents() -> Nfa:
    """The texts with an exponent behind a digit somewhere, in a number or not."""
    digit, anything = nfa.byte_ranges([(48, 57)]), nfa.star(nfa.byte_ranges([(0, 255)]))
    sign = nfa.optional(nfa.byte_ranges([(43, 43), (45, 45)]))
    return nfa.concat([anything, digit, nfa.byte_ranges([(69, 69), (101, 101)]), sign, digit, anything])


def checked(other: Any) -> Constraint:
    """Return ``other``, or raise ``UnsupportedConstraint`` if it is no constraint."""
    if not isinstance(other, Constraint):
        raise UnsupportedConstraint(
            f"a constraint is needed, not {validation.short(other)}; literal(…) makes one of a text"
        )
    return other


class Deferred(Constraint):
    """A constraint that is built when its automaton is first asked for."""

    def __init__(
        self, source: str, build: Callable[[], Constraint], narrowed: tuple[Narrowing, ...] = ()
    ) -> None:
        self.source, self._build, self._narrowed = source, build, narrowed

    def __reduce__(self) -> tuple[type[Constraint], tuple[Nfa, tuple[Narrowing, ...]]]:
        """As a constraint that is built: what builds it may hold machines, which cannot be copied to another process."""
        return Constraint, (self.nfa, self.narrowed)

    @cached_property
    def _built(self) -> Constraint:
        return self._build()

    @cached_property
    def nfa(self) -> Nfa:  # type: ignore[override]
        return self._built.nfa

    @cached_property
    def bytes_automaton(self) -> Nfa:
        return self._built.bytes_automaton


def kept(source: Iterable[bytes], build: Callable[[], Constraint]) -> Constraint:
    """Build a constraint, or defer that until its automaton is asked for if it was compiled with ``cache=True`` before."""
    name = store.digest([store.code(), *source])
    known = store.read("source", name)
    if known is not None:
        return Deferred(name, build, from_array(known["narrowed"]))
    constraint = build()
    constraint.source = name
    return constraint


def literal(text: str) -> Constraint:
    """Exactly this text. Raises ``UnsupportedConstraint`` for a lone surrogate.

    Examples
    --------
    >>> import tractile as tt
    >>> tt.constraints.literal("a+b").accepts("a+b")
    True
    """
    return Constraint(nfa.literal(validation.text(text, "text").encode()))


def any_of(*options: str | Constraint) -> Constraint:
    """Any one of the options: texts or constraints.

    Examples
    --------
    >>> import tractile as tt
    >>> c = tt.constraints.any_of("cat", "dog", tt.constraints.regex("[0-9]+ birds"))
    >>> c.accepts("dog"), c.accepts("12 birds"), c.accepts("cow")
    (True, True, False)
    """
    parts = [option if isinstance(option, Constraint) else literal(option) for option in options]
    if not parts:
        raise EmptyLanguage("any_of was given no options; give at least one text or constraint")
    return Constraint(nfa.union([part.nfa for part in parts]), merged(*(part.narrowed for part in parts)))
