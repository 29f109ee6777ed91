"""The intersection of token automata, against sets of all short sequences; and the fewest tokens to acceptance."""

import itertools
import random

import pytest

import tractile as tt
from tractile.circuits import intersect
from tractile.circuits.narrowing import Narrowing

VOCAB, LENGTH = 3, 5
ALL = [w for n in range(LENGTH + 1) for w in itertools.product(range(VOCAB), repeat=n)]


def drawn(dice, deterministic=False):
    states = dice.randint(1, 4)
    edges = [
        (dice.randrange(states), dice.randrange(VOCAB), dice.randrange(states))
        for _ in range(dice.randint(0, 9))
    ]
    if deterministic:
        edges = [(s, t, d) for (s, t), d in {(s, t): d for s, t, d in edges}.items()]
    starts = {0} if deterministic else {0, dice.randrange(states)}
    accept = {dice.randrange(states) for _ in range(dice.randint(0, 2))} | {states - 1}
    return tt.Automaton.from_edges(edges, starts, accept, VOCAB)


def language(fa):
    return {w for w in ALL if fa.accepts(w)}


def useful(fa):
    """Whether each state lies on a path from start to acceptance; an automaton of no sequence has one state."""
    return fa.trim().num_states == fa.num_states


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("deterministic", [(False, False), (True, False), (True, True)])
def test_both_accept(seed, deterministic):
    dice = random.Random(seed)
    a, b = (drawn(dice, one) for one in deterministic)
    both = intersect(a, b)
    assert language(both) == language(a) & language(b) == language(intersect(b, a))
    assert useful(both)
    if all(deterministic):
        assert a.is_deterministic
        assert b.is_deterministic
        assert both.is_deterministic


def test_classes_of_tokens_that_overlap():
    vocab = tt.Vocabulary([b"a", b"b", b"ab", b"c", None], eos_token_id=4)
    one, two = (tt.constraints.regex(p).compile(vocab) for p in ("[ab]{1,3}", "a(b|c)*"))
    both, same = intersect(one, two), tt.constraints.regex("ab{0,2}").compile(vocab)
    assert both.eos_token_id == 4
    assert both.vocabulary_fingerprint == vocab.fingerprint
    words = [w for n in range(6) for w in itertools.product(range(5), repeat=n)]
    assert [both.accepts(w) for w in words] == [same.accepts(w) for w in words]
    assert sum(both.accepts(w) for w in words if w.count(4) == 1) == 5  # a, a b, ab, a b b, ab b


def test_what_is_kept_and_what_is_refused():
    a, b = (drawn(random.Random(seed)) for seed in (0, 1))
    cut, other = Narrowing("/", "maxLength", 9, 5, "size"), Narrowing("/b", "maxLength", 8, 5, "size")
    a.narrowed, b.narrowed = (cut,), (cut, other)
    assert intersect(a, b).narrowed == (cut, other)
    assert intersect(a, b.for_vocabulary("two")).vocabulary_fingerprint == "two"
    with pytest.raises(tt.errors.VocabularyMismatch, match="first automaton"):
        intersect(a.for_vocabulary("one"), b)
    with pytest.raises(tt.errors.VocabularyMismatch):
        intersect(a, tt.Automaton.from_edges([(0, 0, 0)], 0, [0], 7))
    three, two = (
        tt.Automaton.from_edges([(i, 0, (i + 1) % size) for i in range(size)], 0, [0], VOCAB)
        for size in (3, 2)
    )
    assert intersect(three, two).num_states == 6
    with pytest.raises(tt.errors.TooManyStates, match="more than 5 pairs"):
        intersect(three, two, limit=5)


@pytest.mark.parametrize("seed", range(20))
def test_the_fewest_tokens_after_some(seed):
    """With several starts and several edges of one token, against all short sequences."""
    fa = drawn(random.Random(seed))
    unreachable = tt.circuits.automaton.UNREACHABLE
    for before in (w for w in ALL if len(w) <= 2):
        further = [len(w) - len(before) for w in ALL if w[: len(before)] == before and fa.accepts(w)]
        assert fa.fewest_after(before) == min(further, default=unreachable)
