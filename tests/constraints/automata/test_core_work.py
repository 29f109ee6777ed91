"""The core's operations count their work and stop inside it, and their objects can be asked, copied and refused."""

import itertools
import pickle
from types import SimpleNamespace

import pytest

from tractile.constraints import Limits, regex
from tractile.constraints.automata import dfa, nfa, request_limits, work
from tractile.constraints.automata.repeats import repeat
from tractile.constraints.program import tables
from tractile.errors import ConstructionStopped, TooManyStates

LETTER = nfa.byte_ranges([(97, 98)])
LATE = nfa.concat([nfa.star(LETTER), nfa.literal(b"a"), repeat(LETTER, 12, 12)]).plain
"""8,192 sets of states."""
OPERATIONS = {
    "determinize": lambda: dfa.determinize(LATE),
    "minimize": lambda: dfa.minimize(LATE),
    "complement": lambda: dfa.complement(LATE),
    "intersect": lambda: dfa.intersect(repeat(LETTER, 2, 4_000), repeat(LETTER, 3, 4_000)),
    "together": lambda: dfa.together([LATE, LATE], 100_000),
}


@pytest.mark.parametrize("make", OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_stops_inside_its_work(make):
    with work.limited_to(10**9) as whole:
        make()
    assert whole.spent > 5_000
    with work.limited_to(1_000) as part, pytest.raises(TooManyStates, match="too much work"):
        make()
    assert 1_000 < part.spent < 0.9 * whole.spent
    with work.limited_to(whole.spent):  # what just suffices
        make()


def test_the_account_before_is_in_force_again_after_what_raises():
    with work.limited_to(50) as outer:
        with pytest.raises(TooManyStates), work.limited_to(10):
            dfa.determinize(LATE)
        assert work.in_force() is outer
    assert work.in_force() is None


def test_an_operation_looks_at_the_clock(monkeypatch):
    """Each look at the clock takes a second: the operation stops before its end."""
    looks = itertools.count()
    monkeypatch.setattr(request_limits, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    with pytest.raises(ConstructionStopped, match="longer than 3 s"):
        Limits(seconds=3).run(lambda: dfa.determinize(LATE))
    assert next(looks) == 5


def test_moves_on_marks():
    marked = nfa.concat([nfa.literal(b"a\xfe"), nfa.byte_ranges([(0, 255)]), nfa.literal(b"\xff")])
    assert marked.marks(0xF0) == b"\xfe\xff"
    erased = nfa.erased(marked, 0xFE, 0xFF)
    for text, reads in ((b"ax", True), (b"a", True), (b"a\xfe", False), (b"", False), (b"axx", False)):
        assert erased.accepts(text) == reads
    looped = nfa.looped(nfa.literal(b"ab"), [(0xF0, 0xF1)])
    assert looped.accepts(b"\xf0a\xf1\xf1b\xf0")
    assert not looped.accepts(b"a\xf2b")


@pytest.mark.parametrize(
    ("pattern", "endless"), [("a*", True), ("a{2,9}b?", False), ("(ab)+c", True), ("", False)]
)
def test_endless_automata_lead_in_circles(pattern, endless):
    assert regex(pattern).nfa.is_endless == endless


def test_copies():
    found = regex("(ab|c[d-f])*x?").nfa
    for each in (found, found.plain, dfa.minimize(found)):
        again = pickle.loads(pickle.dumps(each))
        assert (again.rows, again.skips, again.trimmed, again.minimal) == (
            each.rows, each.skips, each.trimmed, each.minimal,
        )  # fmt: skip
        assert again.to_bytes() == each.to_bytes()
    table = tables.of_nfa(found)
    assert pickle.loads(pickle.dumps(table)) is table
    assert tables.of_nfa(regex("x?").nfa) is not table


@pytest.mark.parametrize(
    "given", [([[(97, 97, 1)]], [0], [0]), ([[(98, 97, 0)]], [0], [0]), ([[]], [1], [0]), ([[]], [0], [-1])]
)
def test_states_that_there_are_not_are_refused(given):
    with pytest.raises(ValueError, match="a state that it does not have, or a range of no bytes"):
        nfa.of_rows(*given)
    with pytest.raises(ValueError, match="an edge leads to no state"):
        tables.table([[0, 97, 97, 1]], [0])
    with pytest.raises(ValueError, match="a state that it does not have"):
        nfa.network(1, [(0, None, 1)], 0, 0)
    with pytest.raises(ValueError, match=r"lies in 0\.\.255"):
        nfa.byte_ranges([(0, 256)])
