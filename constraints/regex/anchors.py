"""Zero-width assertions: ``^ $ \\A \\Z \\b \\B``.

An automaton with *marks* reads words over characters and marks. A mark is a byte that never occurs in UTF-8 and stands for an
assertion at its position. Whether the assertion holds depends on the character before and the one after; a small DFA, the
checker, tracks both:

    state = (kind of the previous character, kinds allowed next)

:func:`resolve` intersects with the checker, then replaces the marks by epsilon transitions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container
from typing import Any

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa, Rows, erased, looped
from ..automata.utf8 import Alphabet, CodePoints
from ..automata.work import metered
from .characters import matched
from .syntax import constants

BEGIN, LINE_BEGIN, END, LINE_END, TEXT_END = range(0xF7, 0xFC)
WORD_EDGE, NO_WORD_EDGE, ASCII_EDGE, NO_ASCII_EDGE = range(0xFC, 0x100)
LOOKS = (0xC0, 0xC1), (0xF5, 0xF6)
ALL_MARKS = (0xC0, 0xC1), (0xF5, 0xFF)
"""The bytes that UTF-8 never has: marks of anchors (0xF7 to 0xFF) and of look-arounds (``LOOKS``)."""
LOOKS_BACK = (BEGIN, LINE_BEGIN, WORD_EDGE, NO_WORD_EDGE, ASCII_EDGE, NO_ASCII_EDGE)

# What may come next: a kind of character, or one of these.
STOP, LAST_NEWLINE = "end of text", "newline at the end of the text"

AnchorState = tuple[str, frozenset[str]]
Ranges = tuple[tuple[int, int], ...]


def mark(operation: Any, flags: int, dollar_is_end: bool) -> Nfa:
    """Return the automaton of the mark for an anchor of the parser."""
    multiline = bool(flags & re.MULTILINE)
    ascii_only = bool(flags & re.ASCII)
    byte = {
        constants.AT_BEGINNING: LINE_BEGIN if multiline else BEGIN,
        constants.AT_BEGINNING_STRING: BEGIN,
        constants.AT_END: LINE_END if multiline else TEXT_END if dollar_is_end else END,
        constants.AT_END_STRING: TEXT_END,
        constants.AT_BOUNDARY: ASCII_EDGE if ascii_only else WORD_EDGE,
        constants.AT_NON_BOUNDARY: NO_ASCII_EDGE if ascii_only else NO_WORD_EDGE,
    }[operation]
    return nfa.literal(bytes([byte]))


def with_loops(rows: Rows, states: Container[int], marks: Ranges = ALL_MARKS) -> Rows:
    """Return the moves of all states, and of those in ``states`` also a loop that reads any of the marks."""
    return [
        [*row, *((*mark, state) for mark in marks)] if state in states else row
        for state, row in enumerate(rows)
    ]


def resolve(
    automaton: Nfa,
    alphabet: Alphabet,
    *,
    middle: str | None = None,
    words: CodePoints | None = None,
    looks: bool = False,
) -> Nfa:
    """Keep the words in which every anchor's assertion holds, and erase the marks of anchors.

    ``middle`` is the pattern, for the message, if the words start in the middle of a text. Then anchors that depend on the
    preceding character raise ``UnsupportedConstraint``. ``words`` are word characters to use in place of the ASCII ones for
    ``\\b`` under ``re.ASCII``. ``looks``: the words also contain marks of look-arounds, which are kept.
    """
    used = tuple(automaton.marks(BEGIN))  # marks are the highest bytes
    if not used:
        return automaton
    if middle is not None and any(m in LOOKS_BACK for m in used):
        raise UnsupportedConstraint(
            f"an anchor other than $ inside a look-ahead of {middle!r} cannot be compiled", path="position 0"
        )
    check = checker(used, alphabet, words)
    both = dfa.intersect(automaton, looped(check, LOOKS) if looks else check)
    return erased(both, BEGIN, 0xFF)


@metered(maxsize=64)
def checker(used: tuple[int, ...], alphabet: Alphabet, words: CodePoints | None) -> Nfa:
    """Return the DFA of words over characters and the marks ``used`` in which every assertion holds."""
    kinds = character_kinds(used, words)
    everything = frozenset([*kinds, STOP] + ([LAST_NEWLINE] if "newline" in kinds else []))
    start: AnchorState = ("start of text", everything)
    node_of = {start: 1}  # 0 is acceptance
    arcs: list[tuple[int, Nfa | None, int]] = []
    queue = [start]

    def arc(source: AnchorState, label: Nfa, target: AnchorState) -> None:
        if target not in node_of:
            node_of[target] = len(node_of) + 1
            queue.append(target)
        arcs.append((node_of[source], label, node_of[target]))

    for state in queue:
        previous, expected = state
        if STOP in expected:
            arcs.append((node_of[state], None, 0))
        for byte in used:
            if allowed := expected & allowed_next(byte, previous, everything):
                arc(state, nfa.literal(bytes([byte])), (previous, allowed))
        for kind, points in kinds.items():
            if kind in expected:
                follow = everything
                if kind == "newline" and LAST_NEWLINE not in expected:
                    follow = everything - {STOP}
                arc(state, alphabet(points), (kind, follow))
            elif kind == "newline" and LAST_NEWLINE in expected:
                arc(state, alphabet(points), (kind, frozenset([STOP])))
    return dfa.minimize(nfa.network(len(node_of) + 1, arcs, 1, 0))


def character_kinds(used: tuple[int, ...], words: CodePoints | None) -> dict[str, CodePoints]:
    """Partition the characters into the kinds that the marks in use can tell apart."""
    kinds: dict[str, CodePoints] = {}
    if any(m in (LINE_BEGIN, END, LINE_END) for m in used):
        kinds["newline"] = ((10, 10),)
    if any(m >= WORD_EDGE for m in used):
        word = (constants.IN, ((constants.CATEGORY, constants.CATEGORY_WORD),))
        kinds["ascii word"] = words or matched(word, re.ASCII)
        if WORD_EDGE in used or NO_WORD_EDGE in used:
            kinds["other word"] = utf8.normalize(
                (max(low, 128), high) for low, high in matched(word, 0) if high > 127
            )
    kinds["other"] = utf8.negate(utf8.normalize(r for points in kinds.values() for r in points))
    return kinds


def allowed_next(byte: int, previous: str, everything: frozenset[str]) -> frozenset[str]:
    """Return the kinds that may follow a mark, given the kind of the character before it."""
    nothing: frozenset[str] = frozenset()
    if byte == BEGIN:
        return everything if previous == "start of text" else nothing
    if byte == LINE_BEGIN:
        return everything if previous in ("start of text", "newline") else nothing
    if byte == END:
        return frozenset([STOP, LAST_NEWLINE])
    if byte == LINE_END:
        return frozenset([STOP, LAST_NEWLINE, "newline"])
    if byte == TEXT_END:
        return frozenset([STOP])
    words = {"ascii word"} | ({"other word"} if byte in (WORD_EDGE, NO_WORD_EDGE) else set())
    inside = previous in words
    if byte in (WORD_EDGE, ASCII_EDGE):
        return everything - words if inside else everything & words
    same = everything & words if inside else everything - words
    if previous == "start of text" and sys.version_info < (3, 14):
        return same - {STOP}  # until 3.14, \B did not match the empty text
    return same
