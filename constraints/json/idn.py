"""The format ``idn-hostname``: hostnames with labels of RFC 5890, of the characters for which no rule looks at others.

    host  = label (dot label){0,3}                    label = letters, digits and single hyphens within

ASCII labels have at most 62 characters, others at most 11 units: a wide character, or 1 to 4 of a-z, 0-9 and "-". *Wide* are the
letters and digits beyond ASCII that RFC 5892 calls PVALID, written from left to right, below U+D7A4 and of Unicode 3.2, which
every later version has: no marks, so that each label is in normal form NFC, and no joiners.

Then a label has at most 61 characters in Punycode (RFC 3492), and so the host at most 253. It encodes k wide characters by
numbers of at most d (n + 1) + n, where n is the length of the label and the d of all add up to less than 0xD7A4. A number has 2,
3, … digits from 1, 36, 1,261, 28,886, 288,886 and 2,888,886 on or later, whatever the bias.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from ..automata import dfa, nfa
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..automata.utf8 import Alphabet, CodePoints, normalize
from ..regex.pattern import compile_pattern

LONGEST, UNITS, RUN, LABELS = 62, 11, 4, 4
LAST = 0xD7A3
EXCEPTIONS = [(0xDF, 0xDF), (0x3C2, 0x3C2), (0xF0B, 0xF0B), (0x3007, 0x3007)]
"""PVALID by name in RFC 5892 (ß, ς, ་, 〇), though not by rule."""
DOTS = r"[.\u3002\uff0e\uff61]"
DISALLOWED = ((0x1100, 0x11FF), (0x3031, 0x3035), (0x303B, 0x303B))
"""Letters that RFC 5892 disallows by name, or as old Hangul jamo."""


@lru_cache(maxsize=1)
def wide() -> CodePoints:
    """Return the wide characters: stable under NFKC and case folding (RFC 5892, section 2.2)."""
    found, kinds = list(EXCEPTIONS), ("Ll", "Lo", "Lm", "Nd")
    for code in range(0x80, LAST + 1):
        char = chr(code)
        if unicodedata.ucd_3_2_0.category(char) not in kinds or unicodedata.category(char) not in kinds:
            continue
        if unicodedata.bidirectional(char) != "L":
            continue
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", char).casefold())
        if folded == char and not any(low <= code <= high for low, high in DISALLOWED):
            found.append((code, code))
    return normalize(found)


def hostnames(alphabet: Alphabet) -> Nfa:
    """Return the DFA of the contents of strings that are such hostnames."""

    def text(pattern: str) -> Nfa:
        return compile_pattern(pattern, 0, alphabet)

    plain = dfa.intersect(
        dfa.simplify(repeat(text("[A-Za-z0-9-]"), 1, LONGEST)),
        dfa.simplify(text("[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*")),
    )
    mixed = mixed_label(alphabet(wide()), text("[a-z0-9]"), text("-"))
    label = dfa.minimize(nfa.union([mixed, plain]))
    return dfa.minimize(nfa.concat([label, repeat(nfa.concat([text(DOTS), label]), 0, LABELS - 1)]))


def mixed_label(characters: Nfa, letters: Nfa, hyphen: Nfa) -> Nfa:
    """Return labels of at most ``UNITS`` units.

    The states are (units begun, characters of ASCII that fit into the last one, whether a hyphen was the last character).
    """
    number = {
        state: i
        for i, state in enumerate(
            (n, k, h) for n in range(UNITS + 1) for k in range(RUN) for h in (False, True)
        )
    }
    end, wide_from = len(number), len(number) + 1
    arcs: list[tuple[int, Nfa | None, int]] = [
        (wide_from + n, characters, number[n + 1, 0, False]) for n in range(UNITS)
    ]
    for (units, room, after_hyphen), here in number.items():
        if units < UNITS:
            arcs.append((here, None, wide_from + units))
        if room or units < UNITS:
            following = (units, room - 1) if room else (units + 1, RUN - 1)
            arcs.append((here, letters, number[*following, False]))
            if units and not after_hyphen:
                arcs.append((here, hyphen, number[*following, True]))
        if units and not after_hyphen:
            arcs.append((here, None, end))
    return dfa.simplify(nfa.network(wide_from + UNITS, arcs, number[0, 0, False], end))
