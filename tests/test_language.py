"""Operations on languages of token automata, against sets of all short sequences."""

import itertools
import random

import pytest
import torch

import tractile as tt

VOCAB, LENGTH = 3, 5
ALL = [w for n in range(LENGTH + 1) for w in itertools.product(range(VOCAB), repeat=n)]


def drawn(dice, vocab_size=VOCAB):
    states = dice.randint(1, 4)
    edges = [
        (dice.randrange(states), dice.randrange(vocab_size), dice.randrange(states))
        for _ in range(dice.randint(0, 7))
    ]
    starts = {0, dice.randrange(states)}
    accept = {dice.randrange(states) for _ in range(dice.randint(0, 2))} | {states - 1}
    return tt.Automaton.from_edges(edges, starts, accept, vocab_size)


def language(fa, most=LENGTH):
    return {w for w in ALL if len(w) <= most and fa.accepts(w)}


@pytest.mark.parametrize("seed", range(60))
def test_operations_on_languages(seed):
    dice = random.Random(seed)
    a, b = drawn(dice), drawn(dice)
    x, y = language(a), language(b)
    assert language(a.union(b)) == x | y
    assert language(a.intersection(b)) == x & y
    assert language(a.difference(b)) == x - y
    assert language(a.symmetric_difference(b)) == x ^ y
    assert language(a.complement()) == set(ALL) - x
    assert language(a.reverse()) == {w[::-1] for w in x}
    assert language(a.concatenate(b)) == {u + v for u in x for v in y if len(u + v) <= LENGTH}
    star = {()}
    for _ in range(LENGTH):
        star |= {u + v for u in star for v in x if len(u + v) <= LENGTH}
    assert language(a.kleene_star()) == star
    assert a.is_subset(b) == a.difference(b).is_empty()
    assert a.is_subset(a.union(b))
    assert a.is_equivalent(a.minimize())
    assert a.is_equivalent(b) == a.symmetric_difference(b).is_empty()


@pytest.mark.parametrize("seed", range(40))
def test_quotients_and_shuffles(seed):
    """Of finite languages, so that all their words are seen."""
    dice = random.Random(seed)
    two = tt.Automaton.from_edges([(i, list(range(VOCAB)), i + 1) for i in range(2)], 0, [0, 1, 2], VOCAB)
    three = tt.Automaton.from_edges([(i, list(range(VOCAB)), i + 1) for i in range(3)], 0, range(4), VOCAB)
    a, b = drawn(dice).intersection(three), drawn(dice).intersection(two)
    x, y = language(a), language(b)
    assert a.is_finite()
    assert language(a.left_quotient(b)) == {w[len(u) :] for w in x for u in y if w[: len(u)] == u}
    ends = {w[: len(w) - len(u)] for w in x for u in y if len(u) <= len(w) and w[len(w) - len(u) :] == u}
    assert language(a.right_quotient(b)) == ends

    def shuffled(u, v):
        if not u or not v:
            return {u + v}
        return {u[:1] + w for w in shuffled(u[1:], v)} | {v[:1] + w for w in shuffled(u, v[1:])}

    assert language(a.shuffle_product(b)) == {w for u in x for v in y for w in shuffled(u, v)}


@pytest.mark.parametrize("seed", range(60))
def test_words_in_order_and_their_number(seed):
    fa = drawn(random.Random(seed))
    expected = sorted(language(fa), key=lambda w: (len(w), w))
    assert list(fa.words(LENGTH)) == expected
    assert fa.cardinality(LENGTH) == len(expected)
    assert fa.is_empty() == (not expected)  # an automaton of four states has a word shorter than that
    if fa.is_finite():
        assert list(fa.words()) == expected
        assert fa.cardinality() == len(expected)
    else:
        assert len(list(itertools.islice(fa.words(), 200))) == 200
        with pytest.raises(tt.errors.CircuitError, match="give max_tokens"):
            fa.cardinality()


def test_numbers_of_any_size():
    """All sequences of 0 to 100 tokens of a vocabulary of 50,000: an exact whole number."""
    some = tt.Automaton.from_edges([(0, list(range(50_000)), 0)], 0, [0], 50_000)
    assert some.cardinality(100) == sum(50_000**n for n in range(101))
    assert next(iter(some.words())) == ()


def test_constraints_are_automata():
    vocab = tt.Vocabulary([b"a", b"b", b"ab", b"c", None], eos_token_id=4)
    one, two = (tt.constraints.regex(p).compile(vocab) for p in ("[ab]{1,3}", "a(b|c)*"))
    both = one.intersection(two)
    assert both.eos_token_id == 4
    assert both.is_equivalent(tt.constraints.regex("ab{0,2}").compile(vocab))
    with_end = {w for w in one.words(4) if w[-1:] == (4,)}
    assert {w for w in both.words(4) if w[-1:] == (4,)} == with_end & set(two.words(4))
    with pytest.raises(tt.VocabularyMismatch):
        one.union(tt.Automaton.from_edges([(0, 0, 0)], 0, [0], 7))


def test_vocabularies_are_kept():
    fa = drawn(random.Random(0)).for_vocabulary("one")
    assert fa.union(fa).vocabulary_fingerprint == "one"
    assert fa.complement().vocabulary_fingerprint == "one"
    with pytest.raises(tt.VocabularyMismatch):
        fa.union(drawn(random.Random(1)).for_vocabulary("another"))
    hmm = tt.HMM.random(3, VOCAB)
    total = tt.partition(hmm * fa.determinize(), n=4).exp() + tt.partition(hmm * fa.complement(), n=4).exp()
    torch.testing.assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("seed", range(20))
def test_the_fewest_tokens_after_some(seed):
    """With several starts and several edges of one token, against all short sequences."""
    fa = drawn(random.Random(seed))
    unreachable = tt.circuits.automaton.UNREACHABLE
    for before in (w for w in ALL if len(w) <= 2):
        further = [len(w) - len(before) for w in ALL if w[: len(before)] == before and fa.accepts(w)]
        assert fa.fewest_after(before) == min(further, default=unreachable)
