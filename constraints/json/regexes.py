"""The format ``regex``: regular expressions that both ECMA-262 (with the flag ``u`` or without) and Python's ``re`` read.

    R = ( "|" | assertion | atom quantifier? )*           atom = single | "(" R ")" | "(?:" R ")" | "\\" 1 … 9
    assertion = ^ $ \\b \\B | "(?=" R ")" | "(?!" R ")" | "(?<=" sized* ")" | "(?<!" sized* ")"
    sized     = ^ | $ | \\b | \\B | single | single "{n}"         single = character | escape | class

A back-reference is to a group that is closed, and no digit follows it. What only one of the two reads is left out (named groups,
``\\p{…}``, inline flags, ``\\0``), and so is what must be compared over a distance: ranges other than of letters or digits,
``{n,m}`` with an n of three digits.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..automata import dfa, nfa
from ..automata.machines import shortest_words
from ..automata.nfa import Nfa
from ..automata.region import Local, Region
from ..automata.utf8 import Alphabet
from ..automata.work import metered
from ..regex.pattern import compile_pattern

GROUP, CAPTURE, REFERENCE = 0xFD, 0xFE, 0xFF
"""Bytes in place of the pattern within a group, without a number and with one, and before the digit of a reference."""
DEEPEST = 50
"""Levels of groups; Python's ``re`` calls itself for each, and gives up within a thousand calls."""
FEW = 2
"""Levels of groups in finite automata, which have no references."""
NUMBERED = 9
"""The groups that references may name."""

SPECIAL = r"\\(?:[\^$\\.*+?()\[\]{}|/tnrfvdDwWsS]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})"
MEMBER = rf"[^\\\[\]^&|~-]|\\-|{SPECIAL}|[ !]-~"
SINGLE = rf"[^\^$\\.*+?()\[\]{{}}|]|\.|{SPECIAL}"
ORDERED = ("0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
"""The characters at the ends of ranges, the second not before the first."""
_PAIRS = [f"{n},[{n}-9]|{n},[1-9][0-9]" for n in range(10)] + [
    f"{n},(?:{n // 10}[{n % 10}-9]" + (f"|[{n // 10 + 1}-9][0-9])" if n < 90 else ")") for n in range(10, 100)
]
QUANTIFIER = rf"(?:[*+?]|\{{(?:[0-9]{{1,3}},?|[0-9]{{1,2}},[1-9][0-9]{{2}}|{'|'.join(_PAIRS)})\}})\??"


@metered(maxsize=16)
def flat(alphabet: Alphabet) -> Nfa:
    """Return the automaton of what a pattern is made of, groups apart: "|", assertions, atoms with quantifiers."""

    def text(pattern: str) -> Nfa:
        return compile_pattern(pattern, 0, alphabet)

    pairs = [
        nfa.concat([nfa.literal(f"{low}-".encode()), nfa.byte_ranges([(ord(low), ord(letters[-1]))])])
        for letters in ORDERED
        for low in letters
    ]
    member = nfa.union([*pairs, text(MEMBER)])
    single = nfa.union([text(SINGLE), nfa.concat([text(r"\[\^?-?"), nfa.plus(member), text(r"-?\]")])])
    single = dfa.minimize(single)
    sized = nfa.union([nfa.concat([single, text(r"(?:\{[0-9]{1,2}\})?")]), text(r"[\^$]|\\[bB]")])
    behind = nfa.concat([text(r"\(\?<[=!]"), nfa.star(sized), text(r"\)")])
    repeated = nfa.concat([single, nfa.optional(text(QUANTIFIER))])
    return dfa.minimize(nfa.union([text(r"\||[\^$]|\\[bB]"), behind, repeated]))


@metered(maxsize=16)
def patterns(alphabet: Alphabet, levels: int | None) -> Nfa:
    """Return the DFA of the contents of strings that are patterns with at most so many levels of groups.

    ``levels=None``: what stands in a group is a byte ``GROUP`` or ``CAPTURE``, and references have a byte ``REFERENCE``.
    """

    def text(pattern: str) -> Nfa:
        return compile_pattern(pattern, 0, alphabet)

    parts, after = [flat(alphabet)], rf"\)(?:{QUANTIFIER})?"
    if levels != 0:
        group, capture = (
            nfa.literal(bytes([mark])) if levels is None else patterns(alphabet, levels - 1)
            for mark in (GROUP, CAPTURE)
        )
        parts += [
            nfa.concat([text(opening), inside, text(closing)])
            for opening, inside, closing in (
                (r"\(", capture, after),
                (r"\(\?:", group, after),
                (r"\(\?[=!]", group, r"\)"),
            )
        ]
    if levels is None:
        digit = nfa.concat([text(r"\\"), nfa.literal(bytes([REFERENCE])), text("[1-9]")])
        parts.append(nfa.concat([digit, nfa.optional(text(QUANTIFIER))]))
        anything = nfa.star(nfa.byte_ranges([(0, 255)]))
        found = dfa.simplify(nfa.star(nfa.union(parts)))
        return dfa.minimize(dfa.difference(found, nfa.concat([anything, digit, text("[0-9]"), anything])))
    return dfa.minimize(nfa.star(nfa.union(parts)))


class PatternsText(Region):
    """The contents of strings that are regular expressions; groups nest ``DEEPEST`` levels deep.

    The local state is (state, open groups, numbered groups so far, at most ``NUMBERED``). An open group is the state to return to
    and its number, 0 if it has none.
    """

    longest = None

    def __init__(self, alphabet: Alphabet) -> None:
        found = patterns(alphabet, None)
        self.begin, self.ends = int(found.start[0]), frozenset(found.accept.tolist())
        self.rows: dict[int, list[tuple[int, int, int]]] = {state: [] for state in range(found.num_states)}
        self.groups: dict[int, list[tuple[bool, int]]] = {state: [] for state in self.rows}
        self.references: dict[int, int] = {}
        for source, low, high, target in found.edges.tolist():
            if low == REFERENCE:
                self.references[source] = target
            elif low >= GROUP:
                self.groups[source] += [(mark == CAPTURE, target) for mark in range(low, high + 1)]
            else:
                self.rows[source].append((low, high, target))
        self.flat = shortest_words(self.rows, self.ends)  # without groups
        within = {
            state: row + [move for _, to in self.groups[state] for move in self.rows[to]]
            for state, row in self.rows.items()
        }
        self.shortest = shortest_words(within, self.ends)

    def start(self) -> Local:
        return (self.begin, (), 0)

    def here(self, local: Local) -> list[tuple[int, tuple[tuple[int, int], ...], int]]:
        """Return the local states that are reached without reading."""
        found = [local]
        for state, groups, count in found:  # grows during the loop
            for has_number, to in self.groups[state] if len(groups) < DEEPEST else ():
                number = count + 1 if has_number and count < NUMBERED else 0
                found.append((self.begin, (*groups, (to, number)), max(count, number)))
            if state in self.ends and groups:
                found.append((groups[-1][0], groups[:-1], count))
        return found

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        found = []
        for state, groups, count in self.here(local):
            room = len(groups) < DEEPEST
            found += [(a, b, (to, groups, count)) for a, b, to in self.rows[state] if room or to in self.flat]
            if state in self.references:
                closed = set(range(1, count + 1)) - {number for _, number in groups}
                for low, high, to in self.rows[self.references[state]]:
                    found += [(48 + n, 48 + n, (to, groups, count)) for n in closed if low <= 48 + n <= high]
        return sorted(found)

    def final(self, local: Local) -> bool:
        return any(state in self.ends and not groups for state, groups, _ in self.here(local))

    def completion(self, local: Local) -> bytes:
        state, groups, _ = local
        words = self.shortest if len(groups) < DEEPEST else self.flat
        return b"".join([words[state], *(self.shortest[to] for to, _ in reversed(groups))])

    def view(self, local: Local, reach: int) -> Local:
        state, groups, count = local
        inside = frozenset([number for _, number in groups])
        return state, groups[-reach - 1 :], min(DEEPEST - len(groups), reach + 1), count, inside
