"""Budgets of parts: masks against enumeration of all token sequences, runs with language models, and what is refused."""

import random

import pytest
import torch
from parts_oracle import Either, Leaf, Repeated, Series, Tokens, accepted, check_masks

import tractile as tt
from tractile.constraints import Vocabulary, regex
from tractile.errors import BudgetTooSmall, EmptyLanguage, UnsupportedConstraint

VOCAB = Vocabulary([None, b"a", b"b", b"ab", b"ba", b"aab"], eos_token_id=0)
A, B, AB = Leaf("a*"), Leaf("b*"), Leaf("[ab]*")
CASES = {
    "one part": Tokens(AB, 3, 2),
    "then another": Series((Tokens(A, 2, 0), Tokens(B, 2, 0))),
    "divided in several ways": Series((Tokens(A, 2, 0), A)),
    "divided in several ways, at least": Series((Tokens(A, 2, 2), Tokens(A, 2, 1))),
    "nested": Tokens(Series((Tokens(A, 2, 0), B)), 3, 2),
    "nested twice": Tokens(Tokens(Tokens(AB, 4, 0), None, 1), 3, 0),
    "a wider part in a narrower one": Tokens(Series((Tokens(AB, 9, 2), Leaf("ab"))), 4, 0),
    "repeated": Repeated(Tokens(Leaf("a*b"), 2, 0), 0, 3),
    "repeated without end": Repeated(Tokens(Leaf("[ab]+"), 2, 2), 0, None),
    "repeated empty": Series((Repeated(Tokens(A, 1, 0), 2, None), Leaf("b"))),
    "repeated in a part": Tokens(Repeated(Tokens(Leaf("ab|b"), 1, 0), 1, None), 4, 2),
    "either": Either((Tokens(AB, 2, 0), Series((Leaf("a"), Tokens(AB, None, 4))))),
    "only the empty text": Series((Tokens(AB, 0, 0), Leaf("b"), Tokens(A, 1, 0))),
    "not the empty text": Series((Tokens(A, None, 1), B)),
    "exactly": Series((Tokens(A, 2, 2), Tokens(Leaf("b+"), 2, 2))),
    "crossing tokens only": Series((Tokens(Leaf("aa"), 1, 0), Tokens(Leaf("b"), 1, 0))),
}


@pytest.mark.parametrize("name", CASES)
def test_masks_are_what_enumeration_says(name):
    most = 6 if name == "nested" else 4
    sequences = accepted(CASES[name], VOCAB, most)
    fa = CASES[name].constraint().compile(VOCAB)
    for horizon in (most + 1, 4):
        query = tt.gcd(fa, horizon)
        if any(len(tokens) < horizon for tokens in sequences):
            assert check_masks(query, sequences, 0, horizon)
        else:
            with pytest.raises(BudgetTooSmall):
                query.start()
    assert all(fa.accepts_tokens([*tokens, 0]) for tokens in sequences)


@pytest.mark.parametrize("missing", [b"a", b"b"])
def test_a_vocabulary_may_lack_bytes(missing):
    vocab = Vocabulary([None if word == missing else word for word in VOCAB.token_bytes], eos_token_id=0)
    for node in (CASES["nested"], CASES["divided in several ways, at least"], CASES["repeated"]):
        sequences = accepted(node, vocab, 4)
        try:
            fa = node.constraint().compile(vocab)
        except EmptyLanguage:
            assert not sequences
        else:
            assert check_masks(tt.gcd(fa, 5), sequences, 0, 5)


def test_lcd_obeys_the_limits_of_the_parts_alone():
    for node in CASES.values():
        fa = node.constraint().compile(VOCAB)
        local, wide = tt.lcd(fa).start(), tt.gcd(fa, 60).start()
        rng = random.Random(0)
        for _ in range(12):
            assert torch.equal(local.mask(), wide.mask())
            token = rng.choice(wide.mask()[0].nonzero().flatten().tolist())
            local.advance([token]), wide.advance([token])


# ------------------------------------------------------------ texts, budgets, errors


def test_limits_that_no_text_obeys_are_named():
    with pytest.raises(EmptyLanguage, match=r"none obeys tokens\(at_most=2\) and tokens\(at_most=1\)"):
        (regex("bb").tokens(1) + regex("a*").tokens(2)).compile(VOCAB)
    with pytest.raises(EmptyLanguage, match=r"none obeys tokens\(at_least=5, at_most=None\)"):
        regex("a{1,4}").tokens(at_least=5).compile(VOCAB)


@pytest.mark.parametrize(
    ("at_most", "at_least"), [(-1, 0), (1.5, 0), (2, 3), (None, -1), ("2", 0), (True, 0)]
)
def test_limits_are_whole_numbers(at_most, at_least):
    with pytest.raises(UnsupportedConstraint, match="tokens: at_"):
        regex("a*").tokens(at_most, at_least)


def test_what_needs_a_finite_automaton_is_refused():
    c = regex("a*").tokens(2)
    for made in (lambda: regex("a") - c, lambda: ~c, lambda: c.finite):
        with pytest.raises(UnsupportedConstraint, match="budgets of parts"):
            made()
    with pytest.raises(UnsupportedConstraint, match="budgets of parts"):
        c.compile(VOCAB, canonical=True)
    fa = c.compile(VOCAB)
    with pytest.raises(UnsupportedConstraint, match="budgets of parts"):
        tt.count(fa, n=3)
    assert (regex("a*") & regex("[ab]")).tokens(1).compile(VOCAB).accepts_tokens([1, 0])


def test_a_part_may_have_an_ambiguous_automaton():
    part = regex("(a|b)*a(a|b){14}")
    assert not part.bytes_automaton.is_deterministic
    fa = part.tokens(at_most=6).compile(VOCAB)
    assert fa.fewest_after([]) == 6
    assert fa.accepts_tokens([5, 5, 5, 5, 5, 0])
    assert not fa.accepts_tokens([5, 5, 5, 5, 3, 1, 1, 0])


def test_an_empty_language_stays_empty():
    nothing = regex("a") & regex("b")
    assert nothing.tokens(2).is_empty()
    assert (nothing.tokens(2) + regex("a").tokens(1)).is_empty()
    assert (nothing | regex("a").tokens(1)).compile(VOCAB).accepts_tokens([1, 0])


def test_the_guide_of_pgcd_may_ignore_the_limits():
    """The mean of 100 estimates of Z, found by enumeration, is within 5 standard errors."""
    node = CASES["then another"]
    fa, hmm = node.constraint().compile(VOCAB), tt.HMM.random(3, len(VOCAB), seed=1)
    lm = tt.CircuitLM(hmm, eos_token_id=0)
    whole = [torch.tensor([[*tokens, 0]]) for tokens in accepted(node, VOCAB, 4)]
    exact = float(torch.stack([tt.log_marginal(hmm, tokens)[0] for tokens in whole]).logsumexp(0))
    assert torch.equal(tt.pgcd(hmm, fa, 5).start().mask(), tt.gcd(fa, 5).start().mask())
    found = [
        tt.smc(lm, [], fa, hmm=hmm, particles=4, max_new_tokens=5, seed=seed).log_evidence
        for seed in range(100)
    ]
    ratio = torch.tensor(found).sub(exact).exp()
    assert abs(float(ratio.mean()) - 1) < 5 * float(ratio.std()) / 10
