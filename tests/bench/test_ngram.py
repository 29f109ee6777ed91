"""n-gram HMMs against Kneser–Ney counted with dictionaries, and as guides of P-GCD."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from oracle import assert_log_close

import tractile as tt
from tractile import distill
from tractile.distill.start import has_end_state
from tractile_bench import guides

V, EOS, BEGIN = 6, 2, -1


def corpus(sequences=60, length=7, seed=0, vocab=V):
    """Texts of a chain with memory, so that the counts are uneven; token 5 is rare."""
    hmm = tt.HMM.random(4, vocab, seed=seed, dtype=torch.float64)
    tokens = tt.sample(hmm, sequences, n=length, generator=torch.Generator().manual_seed(seed))
    return distill.Corpus.of(tokens, vocab, EOS)


class KneserNey:
    """Interpolated Kneser–Ney over tokens and the beginning, by dictionaries."""

    def __init__(self, texts, order):
        self.order = order
        seen = [Counter() for _ in range(order + 1)]  # of k-grams, as tuples
        for text in texts:
            whole = [BEGIN, *text]
            for end in range(1, len(whole) + 1):
                for k in range(1, min(order, end) + 1):
                    seen[k][tuple(whole[end - k : end])] += 1
        self.counts = [Counter() for _ in range(order + 1)]
        self.counts[order] = seen[order]
        for k in range(1, order):
            before = defaultdict(set)
            for gram in seen[k + 1]:
                before[gram[1:]].add(gram[0])
            for gram, count in seen[k].items():
                self.counts[k][gram] = count if gram[0] == BEGIN else len(before[gram])
        self.discount = [0.0]
        for level in self.counts[1:]:
            once, twice = (sum(c == i for c in level.values()) for i in (1, 2))
            self.discount.append(once / (once + 2 * twice) if once else 0.5)
        self.seen = seen

    def probability(self, token, context):
        k = len(context) + 1
        lower = 1 / V if k == 1 else self.probability(token, context[1:])
        after = {g: c for g, c in self.counts[k].items() if g[:-1] == context and g[-1] != BEGIN}
        if not after:
            return lower
        total, d = sum(after.values()), self.discount[k]
        rest = sum(min(c, d) for c in after.values()) / total
        return max(after.get((*context, token), 0) - d, 0) / total + rest * lower

    def log_prob(self, text):
        total, whole = 0.0, [BEGIN, *text]
        for t in range(1, len(whole)):
            context = tuple(whole[max(0, t - self.order + 1) : t])
            while context and context not in self.seen[len(context)]:
                context = context[1:]
            total += math.log(self.probability(whole[t], context))
        return total


def texts_of(data):
    return [row[: row.index(EOS) + 1] if EOS in row else row for row in data.tokens.tolist()]


@pytest.mark.parametrize("order", [2, 3, 4])
def test_all_contexts_kept_it_is_kneser_ney(order):
    data = corpus()
    assert set(data.tokens.flatten().tolist()) == set(range(V))  # else tokens share a state
    reference = KneserNey(texts_of(data), order)
    hmm = guides.ngram(data, order, states=10_000).to(dtype=torch.float64)
    rng = np.random.default_rng(1)
    others = [[*row[: int(rng.integers(1, 6))], EOS] for row in rng.integers(3, V, (30, 6)).tolist()]
    for text in [*texts_of(data)[:30], *others]:
        assert_log_close(tt.log_marginal(hmm, torch.tensor([text])), [reference.log_prob(text)], 1e-5)


@pytest.mark.parametrize("states", [2, 3, 4, 6, 7, 9, 20])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_few_states(order, states):
    """A distribution over all texts, with an end, whatever is kept; nothing is impossible before the end."""
    data = corpus(vocab=9, seed=3)
    hmm = guides.ngram(data, order, states)
    assert hmm.hidden <= states
    assert has_end_state(hmm, EOS)
    assert abs(tt.partition(hmm, n=5).item()) < 1e-5
    x = torch.randint(3, 9, (50, 5), generator=torch.Generator().manual_seed(0))
    assert bool(tt.log_marginal(hmm, x).isfinite().all())
    x[:, 3:] = EOS
    assert bool(tt.log_marginal(hmm, x).isfinite().all())
    x[:, 4] = 3
    assert bool(tt.log_marginal(hmm, x).isneginf().all())


def test_texts_that_never_end_and_a_vocabulary_seen_in_part():
    data = distill.Corpus.of(torch.tensor([[3, 4, 3, 4], [4, 3, 4, 3]]), 50, EOS)
    for order in (1, 2, 3):
        hmm = guides.ngram(data, order)
        x = torch.tensor([[3, 4, 3, 4], [3, 3, 40, EOS], [49, 48, 4, 3]])
        assert bool(tt.log_marginal(hmm, x).isfinite().all())
        assert int(tt.log_marginal(hmm, x).argmax()) == 0


def test_it_guides_on_the_spot():
    """The exact next-token query of an HMM as a language model, against its own n-grams: the lookahead is near."""
    truth = tt.HMM.random(3, 12, seed=1)
    lm = tt.CircuitLM(truth, eos_token_id=EOS)
    guide = guides.ngram_guide(lm, [[]], 8, num_sequences=2000, order=2, seed=0)
    assert guide.vocab_size == 12
    fa = tt.Automaton.from_edges(
        [(0, [v for v in range(12) if v not in (EOS, 7)], 0), (0, 7, 1), (1, list(range(12)), 1)], 0, [1], 12
    )
    runs = {
        name: [
            post.log_evidence
            for post in tt.smc(
                lm, prompts=[[]] * 40, fa=fa, proposal=name, hmm=hmm, particles=4, max_new_tokens=6
            )
        ]
        for name, hmm in (("gcd", None), ("pgcd", guide))
    }
    exact = tt.smc(lm, [], fa, "gcd", None, 4000, 6, seed=0).log_evidence
    error = {name: np.std(np.exp(values)) for name, values in runs.items()}
    assert error["pgcd"] < 0.6 * error["gcd"]
    assert abs(np.mean(np.exp(runs["pgcd"])) - math.exp(exact)) < 0.1 * math.exp(exact)


def test_what_cannot_be_counted_is_refused():
    data = corpus()
    for order, states in ((0, 10), (2, 1)):
        with pytest.raises(tt.errors.ShapeError, match="ngram"):
            guides.ngram(data, order, states)
    with pytest.raises(tt.errors.ShapeError, match="ngram"):
        guides.ngram(data.select(torch.zeros(0, dtype=torch.long)), 2)
