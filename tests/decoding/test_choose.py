"""Probabilities of texts over all their tokenisations, against enumeration of token sequences and plain forward passes."""

import itertools
import math

import pytest
import torch
from choices import choose
from smc_reference import random_table, sequence_log_prob

import tractile as tt
from tractile.embedded import load_lm

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


def test_all_first_characters_and_the_end_sum_to_one():
    """Whatever comes first: these begin every text that is not empty, and no two begin the same one."""
    pieces = [None, b"a", b"b", b"ab", b"ba", b"aba"]
    vocab = tt.Vocabulary(pieces, 0)
    lm = tt.lm.TableLM(random_table(len(pieces), 1, 5), 0, vocab)
    first = choose(lm, [], ["a", "b"], end=False).exp().sum()
    nothing = choose(lm, [], [""]).exp()
    assert float(first + nothing) == pytest.approx(1.0)


def test_the_prompt_counts_and_one_call_serves_each_length():
    model, tokenizer = load_lm()
    lm = tt.TransformersLM(model, tokenizer)
    calls = []
    advance = tt.TransformersLM.advance

    class Counting:
        def __getattr__(self, name):
            return getattr(lm, name)

        def advance(self, tokens):
            calls.append(len(tokens))
            advance(lm, tokens)

    options = [" dog", " cat", " a dog"]
    choices = choose(Counting(), "She had a pet. It was a", options)
    assert len(calls) <= max(map(len, options))
    vocab = tt.Vocabulary.from_tokenizer(tokenizer)
    prompt = tokenizer("She had a pet. It was a").input_ids
    truth = []
    for option in options[:2]:
        total = 0.0
        for ids in tokenisations(vocab, option.encode()):
            row = torch.tensor([[*prompt, *ids]])
            logits = model(row).logits[0, len(prompt) - 1 :].log_softmax(-1).double().detach()
            total += math.exp(sum(float(logits[i, t]) for i, t in enumerate([*ids, vocab.eos_token_id])))
        truth.append(total)
    assert choices[:2].exp().tolist() == pytest.approx(truth, rel=1e-4)


def tokenisations(vocab, text):
    """All sequences of tokens that spell a text."""
    if not text:
        yield ()
    for token, piece in enumerate(vocab.token_bytes):
        if piece and text.startswith(piece):
            for rest in tokenisations(vocab, text[len(piece) :]):
                yield (token, *rest)


def test_options_that_are_no_alternatives():
    lm = table_lm(0)
    with pytest.raises(ValueError, match="once"):
        choose(lm, [], ["a", "b", "a"])
    for options in (["ab", "a"], ["", "b"]):
        with pytest.raises(ValueError, match="begins another one"):
            choose(lm, [], options, end=False)


def test_no_probability_at_all():
    row = torch.zeros(len(PIECES), dtype=torch.float64)
    row[1] = 1.0
    lm = tt.lm.TableLM({(): row.log()}, EOS, VOCAB)
    choices = choose(lm, [], ["b", "ab"])
    assert choices.isneginf().all()
