"""What the user holds: a set of texts, which composes, answers membership, and compiles for a vocabulary.

    c = regex(r"[a-z]+") & ~literal("no")        c.accepts("yes")        fa = c.compile(vocab)

A constraint is a language of Unicode strings; ``~c`` is every other Unicode string. Underneath is a byte-level automaton
over UTF-8, and compiling lifts it to tokens (``lift.py``).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..circuits.automaton import Automaton
from ..errors import EmptyLanguage, UnsupportedConstraint
from . import dfa, nfa, store, utf8
from .lift import TokenTransitions, lift
from .lifted import Lifted, all_reachable
from .nfa import Nfa
from .tokenizers import Vocabulary


class Constraint:
    """A regular language of texts. Made by ``regex``, ``json_schema``, ``keywords``, ``literal``, ``any_of``, and by

    ``a & b`` both; ``a | b`` either; ``~a`` every text not in ``a``; ``a + b`` one after the other;
    ``a.repeat(low, high)`` between ``low`` and ``high`` times (``high=None``: no upper bound).

    Composition and compilation raise ``TooManyStates`` where the automaton would grow beyond reason.
    """

    def __init__(self, automaton: Nfa) -> None:
        self.nfa = automaton

    def __and__(self, other: Constraint) -> Constraint:
        return Constraint(dfa.intersect(self.bytes_automaton, other.bytes_automaton))

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(nfa.union([self.nfa, other.nfa]))

    def __add__(self, other: Constraint) -> Constraint:
        return Constraint(nfa.concat([self.nfa, other.nfa]))

    def __invert__(self) -> Constraint:
        return Constraint(dfa.difference(utf8.text(), self.nfa))

    def repeat(self, low: int, high: int | None = None) -> Constraint:
        """Between ``low`` and ``high`` of these texts in a row; no upper bound if ``high`` is ``None``."""
        if low < 0 or (high is not None and high < low):
            raise UnsupportedConstraint(f"repeat needs 0 <= low <= high, got low={low}, high={high}")
        return Constraint(nfa.repeat(self.nfa, low, high))

    @cached_property
    def bytes_automaton(self) -> Nfa:
        """The byte-level automaton that is compiled: the minimal deterministic one where that is not much larger than
        the one written down, otherwise that one (which may be ambiguous)."""
        return dfa.simplify(self.nfa)

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
        if self.bytes_automaton.is_empty:
            raise EmptyLanguage("no text satisfies the constraint")
        return lift(self.bytes_automaton, vocab, require_eos)

    def compile(self, vocab: Vocabulary, require_eos: bool = True, *, cache: bool = False) -> Automaton:
        """The token-level automaton: sequences of tokens whose bytes are an accepted text, then EOS, then only EOS.

        With ``require_eos=False`` a sequence that ends in an accepted text without EOS counts as well. Special tokens
        are never allowed; EOS only where the text is complete. With ``cache=True`` the result and its distances are
        kept on disk and read from there the next time (``TRACTILE_CACHE`` names the directory). Raises
        ``EmptyLanguage`` if no text is accepted, or no accepted text can be written with this vocabulary.
        """
        if not cache:
            return self._compile(vocab, require_eos)
        parts = (self.nfa.edges, self.nfa.skips, self.nfa.start, self.nfa.accept)
        name = store.digest([*parts, vocab.digest.encode(), b"%d" % require_eos])
        kept = store.read("automaton", name)
        if kept is not None:
            return from_arrays(kept, vocab, require_eos)
        automaton = self._compile(vocab, require_eos)
        store.write("automaton", name, to_arrays(automaton))
        return automaton

    def _compile(self, vocab: Vocabulary, require_eos: bool) -> Automaton:
        automaton = self.bytes_automaton
        if automaton.is_deterministic and automaton.num_states and all_reachable(automaton, vocab):
            return Lifted(automaton, vocab, require_eos)
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
        )


def to_arrays(automaton: Automaton) -> dict[str, Int[ndarray, "..."]]:
    """A compiled constraint as arrays, its distances with it."""
    if isinstance(automaton, Lifted):
        nfa_ = automaton.nfa
        arrays = {"edges": nfa_.edges, "start": nfa_.start, "accept": nfa_.accept}
        arrays["bounds"] = automaton.distance_bounds
    else:
        arrays = {
            "transitions": automaton.transitions.numpy(),
            "token_class": automaton.partitioned.labels.tokens.numpy(),  # type: ignore[union-attr]
            "start": np.array(automaton.start_states),
            "accept": np.array(automaton.accept_states),
        }
    return {**arrays, "states": np.array([automaton.num_states]), "distances": automaton.distances}


def from_arrays(arrays: dict[str, Int[ndarray, "..."]], vocab: Vocabulary, require_eos: bool) -> Automaton:
    """The automaton of :func:`to_arrays`."""
    states = int(arrays["states"][0])
    automaton: Automaton
    if "edges" in arrays:
        no_skips = np.empty((0, 2), np.int64)
        plain = Nfa(states - 1, arrays["edges"], no_skips, arrays["start"], arrays["accept"])
        automaton = Lifted(plain, vocab, require_eos)
        automaton.__dict__["distance_bounds"] = arrays["bounds"]
        automaton.__dict__["most_tokens"] = int(arrays["bounds"].max())
    else:
        rows, classes, eos = arrays["transitions"], arrays["token_class"], vocab.eos_token_id
        automaton = Automaton(rows, classes, arrays["start"].tolist(), arrays["accept"].tolist(), states, eos)
    automaton.__dict__["distances"] = arrays["distances"]
    return automaton


def literal(text: str) -> Constraint:
    """Exactly this text."""
    return Constraint(nfa.literal(text.encode()))


def any_of(*options: str | Constraint) -> Constraint:
    """Any one of the options: texts or constraints."""
    parts = [option if isinstance(option, Constraint) else literal(option) for option in options]
    if not parts:
        raise EmptyLanguage("any_of was given no options; give at least one text or constraint")
    return Constraint(nfa.union([part.nfa for part in parts]))
