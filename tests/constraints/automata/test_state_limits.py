"""Limits of states are exact: what just fits is made, one less is refused, and the error says which limit it was."""

import itertools
import random

import numpy as np
import pytest

import tractile as tt
from tractile.constraints import Constraint, Vocabulary, explicit, regex
from tractile.constraints.automata import dfa
from tractile.constraints.automata.dfa import determinize
from tractile.constraints.automata.nfa import Nfa, of_rows
from tractile.errors import TooManyStates


def drawn(dice):
    n = dice.randint(1, 6)
    ranges = [sorted((dice.randint(97, 100), dice.randint(97, 100))) for _ in range(dice.randint(1, 10))]
    edges = np.array(sorted({(dice.randrange(n), *ends, dice.randrange(n)) for ends in ranges}))
    accept = np.array(sorted({dice.randrange(n) for _ in range(2)}))
    start = np.array(sorted({dice.randrange(n) for _ in range(dice.randint(1, 2))}))
    return Nfa(n, edges, (), start, accept).plain


DRAWN = [nfa for nfa in (drawn(random.Random(seed)) for seed in range(60)) if nfa.num_states > 1]


def closed(first, step):
    """All that can be reached."""
    todo = list(first)
    seen = set(todo)
    while todo:
        for new in step(todo.pop()) - seen:
            seen.add(new)
            todo.append(new)
    return seen


def after(nfa, states):
    """The nonempty sets that a set of states goes to, one for each byte."""
    rows = [row for row in nfa.edges.tolist() if row[0] in states]
    return {frozenset(d for _, a, b, d in rows if a <= x <= b) for x in range(97, 101)} - {frozenset()}


def least(make, known):
    """``known`` suffices as a limit, one less does not."""
    found = make(known)
    for fewer in {known - 1, known // 2} if known else ():
        with pytest.raises(TooManyStates, match=f"{fewer:,} states") as caught:
            make(fewer)
        assert (caught.value.limit, caught.value.path) == (fewer, None)
    return found


def several(sets):
    return sum(len(each) > 1 for each in sets)


@pytest.mark.parametrize("nfa", DRAWN, ids=lambda nfa: f"{nfa.num_states} {len(nfa.edges)}")
def test_sets_of_states_are_counted(nfa):
    if nfa.is_deterministic:
        assert determinize(nfa, 0) is nfa
        return
    start, single = frozenset(nfa.start.tolist()), {frozenset([q]) for q in range(nfa.num_states)}
    reached, every = (closed(first, lambda some: after(nfa, some)) for first in ({start}, {start} | single))
    made = least(lambda limit: determinize(nfa, limit), min(several(reached), several(every)))
    assert made.is_deterministic
    small = least(lambda limit: dfa.minimize(nfa, limit), min(several(reached), several(every)))
    assert small.num_states <= made.num_states


def test_pairs_of_states_are_counted():
    for a, b in itertools.pairwise(DRAWN):

        def step(pair, a=a, b=b):
            moves = [
                [row for row in one.edges.tolist() if row[0] == q]
                for one, q in zip((a, b), pair, strict=True)
            ]
            met = itertools.product(*moves)
            return {(x[3], y[3]) for x, y in met if max(x[1], y[1]) <= min(x[2], y[2])}

        pairs = closed(itertools.product(a.start.tolist(), b.start.tolist()), step)
        least(lambda limit, a=a, b=b: dfa.intersect(a, b, limit), len(pairs))


def complete(size):
    """Each state goes to all by one byte."""
    return of_rows([[(97, 97, to) for to in range(size)]] * size, [0], [0])


def test_transitions_are_ten_for_each_state():
    assert dfa.intersect(complete(47), complete(47)).num_states == 47**2  # 4,879,681 transitions
    with pytest.raises(TooManyStates, match="limit of 5,000,000 states or transitions"):
        dfa.intersect(complete(48), complete(48))


def test_sets_of_token_automata_are_counted():
    vocab = tt.Vocabulary([b"a", b"b", b"ab", None], 3)
    for pattern, size in (("(a|b)*a(a|b){2}", 9), ("a*b*", 3), ("(ab|a)*b", 4)):
        nfa = regex(pattern).compile(vocab).partitioned
        made = nfa.determinize().num_states
        assert made >= size - 1
        for make in (nfa.determinize, nfa.minimize):
            make(limit=made)
            with pytest.raises(
                TooManyStates, match=f"more than {made - 1} states; pass a larger limit"
            ) as caught:
                make(limit=made - 1)
            assert caught.value.limit == made - 1


def test_large_deterministic_automata_stay_as_they_are():
    for most, stays in ((dfa.MANY_STATES // 4, False), (dfa.MANY_STATES, True)):
        redundant = dfa.intersect(
            regex(f"a{{2,{most}}}(?:b|c)").nfa.plain, regex(f"[abc]{{0,{most + 9}}}").nfa
        )
        assert redundant.is_deterministic
        small = dfa.minimize(redundant).num_states
        assert small < redundant.num_states
        assert dfa.simplify(redundant).num_states == (redundant.num_states if stays else small)


def test_a_large_automaton_is_made_deterministic_before_its_tokens_are_written_out(monkeypatch):
    vocab = Vocabulary([b"a", b"b", b"ab", b"ba", None], eos_token_id=4)
    nfa, found = regex("(a|b)*a(a|b){3}").nfa.plain, []
    for most in (0, 50_000):
        monkeypatch.setattr(explicit, "MOST_LIFTED", most)
        one = Constraint(nfa)
        vars(one)["bytes_automaton"] = nfa
        found.append(one.compile(vocab).finite)
    for length in range(1, 6):
        for ids in itertools.product(range(5), repeat=length):
            assert found[0].accepts(ids) == found[1].accepts(ids)
