"""Probabilities of texts over all their tokenisations, against enumeration of token sequences and plain forward passes."""

import itertools
import math

import pytest
from choices import choose
from smc_reference import random_table, sequence_log_prob

import tractile as tt

PIECES = [None, b"a", b"b", b"ab", b"ba", b"aba", b"a", "é".encode(), b"\xc3", b"\xa9", None]
EOS = 0
VOCAB = tt.Vocabulary(PIECES, EOS)


def table_lm(seed, order=2):
    return tt.lm.TableLM(random_table(len(PIECES), order, seed), EOS, VOCAB)


def enumerated(lm, text, end):
    """Σ over all sequences of tokens: those that spell the text and end, or those whose last token completes it."""
    data, total = text.encode(), 0.0
    spelling = [t for t, piece in enumerate(PIECES) if piece]
    for n in range(len(data) + 1):
        for tokens in itertools.product(spelling, repeat=n):
            spelled = b"".join(PIECES[t] for t in tokens)
            if end and spelled == data:
                total += math.exp(sequence_log_prob(lm, (*tokens, EOS)))
            elif not end and spelled.startswith(data):
                before = b"".join(PIECES[t] for t in tokens[:-1])
                if not before.startswith(data):
                    total += math.exp(sequence_log_prob(lm, tokens))
    return total


TEXTS = ["", "a", "ab", "aba", "ba", "é", "bé", "abab", "zz"]


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_are_those_of_enumeration(seed):
    lm = table_lm(seed)
    choices = choose(lm, [], TEXTS)
    truth = [enumerated(lm, text, end=True) for text in TEXTS]
    assert choices.exp().tolist() == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("texts", [["a", "b"], ["ab", "aa", "ba", "é"], ["aba"], ["zz", "b"]])
def test_the_last_token_may_go_on_behind_a_beginning(texts, seed):
    lm = table_lm(seed)
    choices = choose(lm, [], texts, end=False)
    truth = [enumerated(lm, text, end=False) for text in texts]
    assert choices.exp().tolist() == pytest.approx(truth, rel=1e-12)


def test_options_that_are_no_alternatives():
    lm = table_lm(0)
    with pytest.raises(ValueError, match="once"):
        choose(lm, [], ["a", "b", "a"])
    for options in (["ab", "a"], ["", "b"]):
        with pytest.raises(ValueError, match="begins another one"):
            choose(lm, [], options, end=False)
