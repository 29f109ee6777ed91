"""The format ``regex``: regular expressions that both ECMA-262 (with the flag ``u`` or without) and Python's ``re`` read.

    R = ( "|" | assertion | atom quantifier? )*           atom = character | escape | class | "(" R ")" | "(?:" R ")"
    assertion = ^ $ \\b \\B | "(?=" R ")" | "(?!" R ")" | "(?<=" sized* ")" | "(?<!" sized* ")"
    sized     = ^ | $ | \\b | \\B | single | single "{n}"         single = character | escape | class

What only one of the two reads is left out (named groups, ``\\p{…}``, inline flags, ``\\0``), and so is what must be counted or
compared over a distance: back-references, ranges other than of letters or digits, ``{n,m}`` with an n of three digits.
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

NEST = 0xFF
"""The byte in place of the pattern within a group; it occurs in no text."""
DEEPEST = 50
"""Levels of groups; Python's ``re`` calls itself for each, and gives up within a thousand calls."""
FEW = 2
"""Levels of groups in finite automata."""

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

    ``levels=None``: what stands in a group is the byte ``NEST``.
    """
    parts = [flat(alphabet)]
    if levels != 0:
        inside = nfa.literal(bytes([NEST])) if levels is None else patterns(alphabet, levels - 1)
        for opening, closing in ((r"\((?:\?:)?", rf"\)(?:{QUANTIFIER})?"), (r"\(\?[=!]", r"\)")):
            opened, closed = (compile_pattern(each, 0, alphabet) for each in (opening, closing))
            parts.append(nfa.concat([opened, inside, closed]))
    return dfa.minimize(nfa.star(nfa.union(parts)))


class PatternsText(Region):
    """The contents of strings that are regular expressions; groups nest ``DEEPEST`` levels deep.

    The local state is (state, states to return to after each open group, the innermost last).
    """

    longest = None

    def __init__(self, alphabet: Alphabet) -> None:
        found = patterns(alphabet, None)
        self.begin, self.ends = int(found.start[0]), frozenset(found.accept.tolist())
        self.rows: dict[int, list[tuple[int, int, int]]] = {state: [] for state in range(found.num_states)}
        self.nested: dict[int, int] = {}
        for source, low, high, target in found.edges.tolist():
            if high == NEST:
                self.nested[source] = target
            else:
                self.rows[source].append((low, high, target))
        self.flat = shortest_words(self.rows, self.ends)  # without groups
        rows = {
            state: row + self.rows.get(self.nested.get(state, -1), []) for state, row in self.rows.items()
        }
        self.shortest = shortest_words(rows, self.ends)

    def start(self) -> Local:
        return (self.begin, ())

    def here(self, local: Local) -> list[tuple[int, tuple[int, ...]]]:
        """Return the local states that are reached without reading."""
        state, stack = local
        found = [(state, stack)]
        for state, stack in found:  # grows during the loop
            if state in self.nested and len(stack) < DEEPEST:
                found.append((self.begin, (*stack, self.nested[state])))
            if state in self.ends and stack:
                found.append((stack[-1], stack[:-1]))
        return found

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return sorted(
            (low, high, (target, stack))
            for state, stack in self.here(local)
            for low, high, target in self.rows[state]
            if len(stack) < DEEPEST or target in self.flat
        )

    def final(self, local: Local) -> bool:
        return any(state in self.ends and not stack for state, stack in self.here(local))

    def completion(self, local: Local) -> bytes:
        state, stack = local
        words = self.shortest if len(stack) < DEEPEST else self.flat
        return b"".join([words[state], *(self.shortest[each] for each in reversed(stack))])

    def view(self, local: Local, reach: int) -> Local:
        state, stack = local
        return state, stack[-reach - 1 :], min(DEEPEST - len(stack), reach + 1)
