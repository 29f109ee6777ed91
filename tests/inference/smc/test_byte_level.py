"""Models of other tokenizers through bytes: every tokenisation counted, against enumeration."""

import itertools
import math

import pytest
import torch
from byte_products import ByteLM
from smc_reference import LIMIT, random_table, sequence_log_prob, z_scores

import tractile as tt
from tractile.errors import VocabularyMismatch

EOS = 3
A = tt.Vocabulary([b"a", b"b", b"ab", None], eos_token_id=EOS)
B = tt.Vocabulary([b"b", b"a", b"ba", None, b"aab", None], eos_token_id=EOS)  # token 5 is special
N = 3  # tokens of A at most, the end among them


def model_a():
    return tt.lm.TableLM(random_table(4, 2, 3), EOS, A)


def model_b():
    return tt.lm.TableLM(random_table(6, 2, 11), EOS, B)


def tokenisations(text, vocab):
    """All token sequences that spell a text."""
    if not text:
        yield ()
    for token, spelling in enumerate(vocab.token_bytes):
        if spelling and text.startswith(spelling):
            for rest in tokenisations(text[len(spelling) :], vocab):
                yield (token, *rest)


def prob_of_text(text):
    """p_b(text and its end), summed over the tokenisations."""
    return sum(math.exp(sequence_log_prob(model_b(), (*tokens, EOS))) for tokens in tokenisations(text, B))


def log_prob_of_bytes(found, text):
    """log of the probability of a text and its end, byte by byte."""
    data = text.encode() if isinstance(text, str) else text
    return sum(math.log(found(data[:i])[[*data, 256][i]]) for i in range(len(data) + 1))


TEXTS = [bytes(t) for n in range(5) for t in itertools.product(b"ab", repeat=n)]


def test_texts_have_the_probability_of_all_their_tokenisations():
    exact = ByteLM(model_b(), [], B)
    for text in TEXTS:
        assert math.exp(log_prob_of_bytes(exact, text)) == pytest.approx(prob_of_text(text), rel=1e-9)


def test_prefixes_may_end_inside_a_token():
    """P(prefix …) is that of all covers: what is behind the prefix is the last token's alone."""
    exact = ByteLM(model_b(), [], B)

    def covered(prefix):
        total = 0.0
        for cut in range(len(prefix) + 1):
            for tokens in tokenisations(prefix[:cut], B):
                rest = prefix[cut:]
                if not rest:
                    total += math.exp(sequence_log_prob(model_b(), tokens))
                for token, spelling in enumerate(B.token_bytes):
                    if rest and spelling and spelling.startswith(rest) and spelling != rest:
                        total += math.exp(sequence_log_prob(model_b(), (*tokens, token)))
        return total

    for text in TEXTS:
        for byte in b"ab":
            ratio = covered(text + bytes([byte])) / covered(text)
            assert exact(text)[byte] == pytest.approx(ratio, rel=1e-9)


@pytest.mark.parametrize("beam", [1, 2])
def test_a_beam_gives_a_distribution_too(beam):
    """Of a model without special tokens: what may come next sums to one after every text."""
    vocab = tt.Vocabulary([b"b", b"a", b"ba", None, b"aab"], eos_token_id=EOS)
    found = ByteLM(tt.lm.TableLM(random_table(5, 2, 11), EOS, vocab), [], vocab, beam=beam)
    for text in TEXTS:
        assert found(text).sum() == pytest.approx(1)
        assert len(found.beam(text)) <= beam + 1


@pytest.mark.parametrize("beam", [None, 1])
@pytest.mark.parametrize(
    "base", [tt.inference.smc.GCDProposal, lambda: tt.inference.smc.LookaheadProposal(0.5)]
)
def test_the_target_is_the_product(base, beam):
    """z-scores of Ẑ and Ẑ·f over 60 runs against Σ p_a(x) p_b(text of x)^½."""
    power, hmm = 0.5, tt.HMM.random(3, 4, seed=7, dtype=torch.float64)
    other = ByteLM(model_b(), [], B, power=power, beam=beam)
    truth = [0.0, 0.0]
    for n in range(N):
        for words in itertools.product(range(3), repeat=n):
            text = b"".join(A.token_bytes[token] for token in words)
            p_b = (
                prob_of_text(text)
                if beam is None
                else math.exp(log_prob_of_bytes(other, text)) ** (1 / power)
            )
            weight = math.exp(sequence_log_prob(model_a(), (*words, EOS))) * p_b**power
            truth[0] += weight
            truth[1] += weight * len(text)
    fa = tt.constraints.regex("[ab]*").compile(A)
    proposal = tt.inference.smc.CharacterProposal(A, other, base=base())
    posts = tt.smc(
        model_a(), prompts=[[]] * 60, fa=fa, proposal=proposal, hmm=hmm, particles=8, max_new_tokens=N
    )
    values = [
        [sum(math.exp(p.log_weight) * f(p.text) / 8 for p in post.particles) for f in (lambda _: 1.0, len)]
        for post in posts
    ]
    assert (z_scores(values, truth).abs() < LIMIT).all()


def test_models_of_different_tokens_are_told_of_the_way_through_bytes():
    with pytest.raises(VocabularyMismatch, match="byte_products"):
        model_a() * model_b()
