""":class:`Constraint`: a set of texts, to combine, to test for membership and to compile.

    c = regex(r"[a-z]+") & ~literal("no")        c.accepts("yes")        fa = c.compile(vocab)

A constraint is a language of Unicode strings; ``~c`` is every other Unicode string. Internally it is a byte-level automaton
over UTF-8, and compiling lifts that to tokens (``lifting/lift.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, ClassVar

from ..circuits.automaton import Automaton
from ..circuits.io.summary import html_table
from ..circuits.narrowing import TOKEN
from ..errors import EmptyLanguage, ShapeError, UnsupportedConstraint, VocabularyMismatch
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
from .contradictions import empty_language, named
from .lifting.lift import TokenTransitions, lift
from .lifting.token_dfa import TokenDfa, all_reachable
from .narrowing import Narrowing, from_array, merged, to_array
from .vocabulary.numbered import number_of
from .vocabulary.reading import vocabulary_of
from .vocabulary.vocabulary import Vocabulary

MOST_LIFTED = 50_000
"""Most states of an NFA that is lifted to tokens as it is; a larger one is determinized first."""


class Constraint:
    """A regular language of texts, composed by operators.

    Made by ``regex``, ``json_schema``, ``keywords``, ``literal``, ``any_of``, and by
    ``a & b``: both; ``a | b``: either; ``~a``: every text not in ``a``; ``a - b``: in ``a`` and not in ``b``;
    ``a + b``: a text of ``a`` followed by one of ``b``;
    ``a.repeat(low, high)``: ``low`` to ``high`` texts of ``a`` in a row (``high=None``: no upper bound).

    Composition and compilation raise ``TooManyStates`` if the automaton would exceed the limits of ``limits.py``.
    """

    is_finite = True  # whether the byte automaton is written out in full
    with_budget: ClassVar[
        staticmethod[[Constraint, int | None, int], Constraint]
    ]  # set by lazy_constraint.py
    written: str | None = None  # the call that made it, for messages
    both: tuple[Constraint, ...] = ()  # the parts of an intersection
    why_empty: Callable[[], str] | None = None  # the end of a message, for a language without texts
    source: str | None = None  # digest of what it was made from, if known: see :func:`kept`

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
        """Where fewer texts are accepted than were written; empty if the language is exact.

        ``&``, ``|``, ``+`` and ``repeat`` carry these entries over. ``~`` and ``-`` refuse a constraint that lacks values,
        since its complement would accept texts that it must not. If only other spellings of numbers are lacking
        (``numbers``), the complement leaves out all texts with an exponent (``1e5``), and ``narrowed`` says so.
        The complement of a grammar that names tokens (``token``) is that of its texts.
        """
        return self._narrowed

    @property
    def finite(self) -> Constraint:
        """The constraint itself, or a finite-state part of it if its automaton is lazy."""
        return self

    def __and__(self, other: Constraint) -> Constraint:
        a, b = self.finite, checked(other).finite
        found = Constraint(
            dfa.intersect(a.bytes_automaton, b.bytes_automaton), merged(a.narrowed, b.narrowed)
        )
        found.both = (*(self.both or (self,)), *(other.both or (other,)))
        return found

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
        tokens = tuple(each for each in narrowed if each.keyword == TOKEN)  # no text is missing there
        if len(tokens) == len(narrowed):
            return Constraint(dfa.difference(utf8.text(), self.nfa), tokens)
        without = dfa.difference(utf8.text(), nfa.union([self.nfa, exponents()]))
        return Constraint(without, (*tokens, NO_EXPONENTS))

    def repeat(self, low: int, high: int | None = None) -> Constraint:
        """Accept ``low`` to ``high`` of these texts in a row; ``high=None``: no upper bound."""
        low = validation.count(low, "low")
        high = None if high is None else validation.count(high, "high", low)
        return self._repeated(low, high)

    def _repeated(self, low: int, high: int | None) -> Constraint:
        return Constraint(repeat(self.nfa, low, high), self.narrowed)

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
        at_least = validation.count(at_least, "tokens: at_least")
        at_most = None if at_most is None else validation.count(at_most, "tokens: at_most", at_least)
        return self.with_budget(self, at_most, at_least)

    @cached_property
    def bytes_automaton(self) -> Nfa:
        """The trimmed, epsilon-free byte automaton that is compiled.

        Deterministic if subset construction does not grow it too much (and minimal unless it is large). Otherwise
        nondeterministic, reduced if it is small; it may then be ambiguous.
        """
        small = self.nfa.plain
        if small.num_states <= dfa.MANY_STATES:
            with limited_to(SIMPLIFYING):
                small = dfa.simplify(small)
            if small.num_states <= reduction.MOST_STATES and not small.is_deterministic:
                with limited_to(SIMPLIFYING / 2):
                    return reduction.reduce(small)
        return small if small.is_deterministic else resolved(small)

    def accepts(self, text: str | bytes) -> bool:
        """Return whether the text (or its UTF-8 bytes) satisfies the constraint."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return self.bytes_automaton.accepts(data)

    def is_empty(self) -> bool:
        """Return whether no text satisfies the constraint."""
        return self.nfa.is_empty

    def shortest(self) -> str:
        """Return an accepted text of the fewest UTF-8 bytes. Raise ``EmptyLanguage`` if there is none."""
        word = self.bytes_automaton.shortest()
        if word is None:
            raise empty_language(self)
        return word.decode()

    def lift(self, vocab: Vocabulary, require_eos: bool = True) -> TokenTransitions:
        """Return the token-level transitions of :meth:`compile` as arrays. Raises ``EmptyLanguage``."""
        vocab = vocabulary_of(vocab)
        if self.bytes_automaton.is_empty:
            raise empty_language(self)
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
        """Compile to a token automaton that accepts the bytes of a text, then EOS, then only EOS.

        ``vocab`` is a :class:`Vocabulary`, or a tokenizer that :meth:`Vocabulary.from_tokenizer` reads. ``eos_token_id`` is
        the end token (EOS) if that is not the vocabulary's own. With ``require_eos=False`` a sequence that ends in an
        accepted text without EOS is accepted too. Special tokens are never allowed; EOS only where the text is complete.
        Of a lazy constraint, a vocabulary in which some byte of UTF-8 is no token by itself gets the automaton of ``finite``;
        ``narrowed`` of the result says what that leaves out.

        With ``cache=True`` the result is kept on disk and read from there the next time, by other processes too
        (``TRACTILE_CACHE`` names the directory); a cached ``json_schema`` is not even built. With ``canonical=True`` each
        text is accepted only in the tokenizer's own segmentation (Berglund et al. 2024). That needs a vocabulary read from a
        byte-pair tokenizer and writes out all transitions; ``UnsupportedConstraint`` names a feature of the tokenizer that is
        not supported.

        Raises ``EmptyLanguage`` if no text is accepted, or no accepted text can be written with this vocabulary;
        ``TooManyStates``; ``FormatError`` for a tokenizer that is not read; ``VocabularyMismatch`` for a vocabulary without a
        token that a grammar names.
        """
        vocab = with_tokens(self.narrowed, vocabulary_of(vocab, eos_token_id))
        automaton = (self._kept if cache else self._compile)(vocab, require_eos, canonical)
        automaton.narrowed = merged(self.narrowed, automaton.narrowed)
        return automaton

    def _kept(self, vocab: Vocabulary, require_eos: bool, canonical: bool) -> Automaton:
        """Read the automaton from the disk cache, or compile it and write it there."""
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
        """Return :meth:`compile`'s result, kept with the constraint for the latest four vocabularies."""
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
            automaton = resolved(automaton, 4 * limits.WORK)  # cheaper than lifting it to tokens as it is
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


def with_tokens(narrowed: Iterable[Narrowing], vocab: Vocabulary) -> Vocabulary:
    """Return the vocabulary with the texts of the tokens that a constraint names by number alone.

    Raises ``VocabularyMismatch`` if it lacks a token that the constraint names.
    """
    texts = [each.asked for each in narrowed if each.keyword == TOKEN]
    for text in texts:
        if (token := number_of(text)) is None and text.encode() not in vocab.token_bytes:
            raise VocabularyMismatch(
                f"the grammar asks for the token {text!r}, and no token of the vocabulary spells it; for a special token: "
                f"Vocabulary.with_special({{{text!r}: its id}})"
            )
        if token is not None:
            try:
                vocab = vocab.with_special({text: token})
            except ShapeError:
                raise VocabularyMismatch(
                    f"the token {token} is named by its number, and is no special token without a text in the vocabulary: "
                    "name it by its text"
                ) from None
    return vocab


NO_EXPONENTS = Narrowing(
    path="~",
    keyword="complement",
    asked="every other text",
    given="those without an exponent behind a digit (1e5)",
    why='it may be another way to write a number that the constraint accepts; numbers="plain" has none',
)


def exponents() -> Nfa:
    """Return the automaton of all texts that have an exponent after a digit somewhere."""
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
        """Pickle as a built constraint: the builder may hold machines, which cannot be pickled."""
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
    """Build a constraint, or defer that to first use if a compilation of it is in the disk cache."""
    name = store.digest([store.code(), *source])
    known = store.read("source", name)
    if known is not None:
        return Deferred(name, build, from_array(known["narrowed"]))
    constraint = build()
    constraint.source = name
    return constraint


@named
def literal(text: str) -> Constraint:
    """Accept exactly this text. Raise ``UnsupportedConstraint`` for a lone surrogate.

    Examples
    --------
    >>> import tractile as tt
    >>> tt.constraints.literal("a+b").accepts("a+b")
    True
    """
    return Constraint(nfa.literal(validation.text(text, "text").encode()))


@named
def any_of(*options: str | Constraint) -> Constraint:
    """Accept any one of the options, texts or constraints.

    Raises ``EmptyLanguage`` without options.

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
