"""Products, complements and minimisation of byte-level automata, by ranges of bytes.

    intersect:  (a, b) --k--> (a', b')

Arguments may have epsilon transitions; results are plain (no epsilon transitions, no useless states). Only
:func:`determinize` can be exponential, and it has a limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Set

from ...errors import TooManyStates
from .. import limits
from .epsilon import Move, Rows, merged
from .nfa import Nfa, of_rows, plain
from .subsets import determinize
from .work import spend

MANY_STATES = 10_000
SHARE = 100
"""Units of work that are counted together."""


def intersect(a: Nfa, b: Nfa, limit: int = limits.STATES) -> Nfa:
    """Return the automaton of the words of both, deterministic if both are. Raises :class:`TooManyStates`."""
    a, b = a.plain, b.plain
    width = b.num_states
    pairs = [p * width + q for p in a.start.tolist() for q in b.start.tolist()]
    number = {pair: i for i, pair in enumerate(pairs)}
    rows: Rows = []
    begin, total, most, units = range(len(pairs)), 0, 10 * limits.STATES, 0.0
    for p, q in map(divmod, pairs, itertools.repeat(width)):  # grows meanwhile
        row, theirs, first = list[Move](), b.rows[q], 0
        size = len(theirs)
        for low, high, target in a.rows[p]:
            while first < size and theirs[first][1] < low:
                first += 1
            at = first
            while at < size and theirs[at][0] <= high:
                bottom, top, other = theirs[at]
                at += 1
                if top >= low:
                    pair = target * width + other
                    place = number.get(pair)
                    if place is None:
                        place = number[pair] = len(pairs)
                        pairs.append(pair)
                    row.append((low if low > bottom else bottom, high if high < top else top, place))
        row.sort()
        rows.append(row)
        total += len(row)
        units += 1 + len(row) / 4
        if len(pairs) > limit or total > most:
            raise TooManyStates(limit=limit if len(pairs) > limit else most)
        if units > SHARE:
            spend(units)
            units = 0
    spend(units)
    ends = [p * width + q for p in a.accept.tolist() for q in b.accept.tolist()]
    return plain(rows, begin, [number[pair] for pair in ends if pair in number])


def complement(nfa: Nfa) -> Nfa:
    """Return the automaton of all other byte strings. Raises :class:`TooManyStates`."""
    dfa = determinize(nfa)
    rest = dfa.num_states
    rows: Rows = []
    for row in [*dfa.rows, []]:
        gaps = zip(
            [0, *(high + 1 for _, high, _ in row)], [*(low - 1 for low, _, _ in row), 255], strict=True
        )
        rows.append(sorted([*row, *((low, high, rest) for low, high in gaps if low <= high)]))
    spend(10 + (rest + dfa.num_moves) / 2)
    return plain(rows, dfa.start.tolist() or [rest], set(range(rest + 1)).difference(dfa.accept.tolist()))


def difference(a: Nfa, b: Nfa) -> Nfa:
    """Return the automaton of the words of ``a`` but not ``b``. Raises :class:`TooManyStates`."""
    return intersect(a, complement(b))


def minimize(nfa: Nfa, limit: int = limits.STATES // 5) -> Nfa:
    """Return the minimal DFA of the language, its states in the order of their smallest ones. Raises :class:`TooManyStates`."""
    if nfa.minimal:
        return nfa
    dfa = determinize(nfa, limit)
    spend(10 + dfa.num_moves)
    block = alike(dfa.rows, set(dfa.accept.tolist()))
    number = {old: new for new, old in enumerate(dict.fromkeys(block))}
    block = [number[old] for old in block]
    first = dict(zip(reversed(block), reversed(dfa.rows), strict=True))
    rows = [merged([(low, high, block[to]) for low, high, to in first[new]]) for new in range(len(number))]
    start, accept = ({block[state] for state in some.tolist()} for some in (dfa.start, dfa.accept))
    return of_rows(rows, start, sorted(accept), minimal=True)


def first_matches(texts: Nfa) -> Nfa:
    """Return the automaton of the accepted texts that have no accepted proper prefix."""
    found = minimize(texts)
    accept = found.accept.tolist()
    rows = [[] if state in accept else row for state, row in enumerate(found.rows)]
    return minimize(plain(rows, found.start.tolist(), accept))


def simplify(nfa: Nfa) -> Nfa:
    """Return the minimal DFA, or the plain automaton if the DFA would be much larger.

    A deterministic automaton of more than :data:`MANY_STATES` states, as of counted repeats, stays as it is: minimising it
    costs seconds and saves little.
    """
    plain = nfa.plain
    if plain.num_states > MANY_STATES and plain.is_deterministic:
        return plain
    try:
        return minimize(plain, limit=min(3 * plain.num_states + 2_000, 50_000))
    except TooManyStates:
        return plain


def alike(rows: Rows, accept: Set[int]) -> list[int]:
    """Return a number for each state of a DFA: two states have the same one if and only if they accept the same words.

    Partition refinement: states are told apart by what they read and the blocks of the targets. Only predecessors of states
    that changed block are looked at again, and of a block's parts the largest keeps its number (Hopcroft 1971).
    """
    before: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for _, _, target in row:
            before[target].append(state)
    block = [int(state in accept) for state in range(len(rows))]
    size = [len(rows) - len(accept), len(accept)]
    common: list[tuple[int, ...]] = [(), ()]  # of each block what its states read
    touched: Iterable[int] = range(len(rows))
    while touched:
        parts: dict[tuple[int, ...], list[int]] = {}  # by block and what is read
        for state in touched:
            read, end, last = [block[state]], -1, -1
            for low, high, target in rows[state]:
                to = block[target]
                if to == last and low == end + 1:
                    read[-1] = end = high
                else:
                    last, end = to, high
                    read += (low, to, high)
            parts.setdefault(tuple(read), []).append(state)
        found: dict[int, list[tuple[int, ...]]] = {}
        for reads in parts:
            found.setdefault(reads[0], []).append(reads)
        changed = list[int]()
        for old, several in found.items():
            if sum([len(parts[reads]) for reads in several]) == size[old]:
                common[old] = max(several, key=lambda reads: len(parts[reads]))
            for reads in several:
                if reads != common[old]:
                    states, new = parts[reads], len(size)
                    for state in states:
                        block[state] = new
                    size[old] -= len(states)
                    size.append(len(states))
                    common.append((new, *reads[1:]))
                    changed += states
        touched = {source for state in changed for source in before[state]}
        spend(len(touched) / 2)
    return block
