"""Speculative sampling has the law of the sampler without drafts: by enumeration, by stated-error tests, and on a transformer."""

import itertools
import math
from functools import cache

import numpy as np
import oracle
import pytest
import torch
from scipy.stats import chi2
from transformers import GPT2Config, GPT2LMHeadModel

import tractile as tt
from tractile.constraints import Vocabulary, regex
from tractile.decoding import Speculation
from tractile.decoding.speculative import acceptance, residual
from tractile.embedded import load_lm
from tractile.errors import EvidenceError
from tractile.lm import CircuitLM, TableLM, TransformersLM

VOCAB = Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0)
BUDGET = 4


def hmm(seed):
    return oracle.random_hmm(np.random.default_rng(seed), 3, 4).build()


def models():
    rng = np.random.default_rng(3)
    rows = {key: torch.from_numpy(rng.dirichlet(np.ones(4))).log() for key in [(), (1,), (2,), (1, 2), (3,)]}
    return [CircuitLM(hmm(1), eos_token_id=0), TableLM(rows, eos_token_id=0)]


def constraints():
    """With an end of sequence, and of exactly so many tokens."""
    plain = tt.Automaton.from_edges([(0, [1, 2], 1), (1, [2, 3], 0), (1, [1], 1)], 0, [0, 1], 4)
    return [regex("(ab)*a?").compile(VOCAB), plain]


@cache
def conditional(lm, prefix):
    lm.start([[]])
    for token in prefix:
        lm.advance(torch.tensor([token]))
    return lm.log_probs()[0].double()


@cache
def target(lm, guide, fa, kind, prefix):
    """log q(v | prefix) of the sampler without drafts."""
    query = tt.pgcd(guide, fa, BUDGET).start(1)
    for token in prefix:
        query.advance([token])
    belief = conditional(lm, prefix) + (query.lookahead()[0].double() if kind == "pgcd" else 0)
    q = belief.masked_fill(~query.mask()[0], -torch.inf).log_softmax(0)
    return q, query.scores()[0].double()


def complete(fa, prefix):
    return len(prefix) == BUDGET or (fa.eos_token_id is not None and fa.eos_token_id in prefix)


def law(lm, guide, fa, kind):
    """Every sequence with its probability under q and its weight p_lm / q, token by token."""
    found, growing = {}, [((), 0.0, 0.0)]
    while growing:
        prefix, log_q, log_p = growing.pop()
        if complete(fa, prefix):
            found[prefix] = (math.exp(log_q), math.exp(log_p - log_q))
            continue
        q, _ = target(lm, guide, fa, kind, prefix)
        p = conditional(lm, prefix)
        growing += [
            ((*prefix, v), log_q + float(q[v]), log_p + float(p[v]))
            for v in q.isfinite().nonzero()[:, 0].tolist()
        ]
    return found


CASES = [*itertools.product([0, 1], [0, 1], ["gcd", "pgcd"])]
cases = pytest.mark.parametrize(("lm", "fa", "kind"), CASES)


@cases
def test_the_law_of_a_round_is_that_of_sampling_by_enumeration(lm, fa, kind):
    """All drafts, all accepted lengths and all corrections, summed: the tokens of a round have the law of q."""
    lm, fa, guide = models()[lm], constraints()[fa], hmm(2)

    def emitted(prefix, drafted, mass, out):
        """Add the probability of each way in which a round ends after ``prefix``, having drafted ``drafted`` tokens."""
        if complete(fa, prefix) or mass == 0:
            out[prefix] = out.get(prefix, 0) + mass
            return
        q, d = target(lm, guide, fa, kind, prefix)
        if drafted == 2:
            for v, p in enumerate(q.exp().tolist()):
                out[*prefix, v] = out.get((*prefix, v), 0) + mass * p
            return
        taken = (d + acceptance(q[None], d[None])[0]).exp()
        anew = residual(q[None], d[None])[0]
        rejected = mass * float(1 - taken.sum())
        for v in range(4):
            if float(anew.sum()) > 0:
                out[*prefix, v] = out.get((*prefix, v), 0) + rejected * float(anew[v] / anew.sum())
            emitted((*prefix, v), drafted + 1, mass * float(taken[v]), out)

    out = {}
    emitted((), 0, 1.0, out)
    full: dict = {}
    for prefix, mass in out.items():  # what a round leaves open goes on by q
        growing = [(prefix, mass)]
        while growing:
            tokens, p = growing.pop()
            if p == 0:
                continue
            if complete(fa, tokens):
                full[tokens] = full.get(tokens, 0) + p
            else:
                q, _ = target(lm, guide, fa, kind, tokens)
                growing += [((*tokens, v), p * x) for v, x in enumerate(q.exp().tolist())]
    expected = law(lm, guide, fa, kind)
    assert full.keys() == expected.keys()
    for tokens, (p, _) in expected.items():
        assert full[tokens] == pytest.approx(p, abs=1e-9)


@pytest.mark.long
@cases
@pytest.mark.parametrize("draft", [1, 3])
def test_samples_have_the_law_of_the_sampler_without_drafts(lm, fa, kind, draft):
    """Chi-square at an error of 10⁻⁴; every weight is exactly p_lm / q, and their mean within 5 standard errors of Z."""
    lm, fa, guide, count = models()[lm], constraints()[fa], hmm(2), 3000
    found = tt.decoding.speculative(lm, [], fa, guide, kind, count, BUDGET, seed=7, draft=draft)
    expected = law(lm, guide, fa, kind)
    seen = dict.fromkeys(expected, 0)
    for particle in found.posterior.particles:
        seen[particle.token_ids] += 1
        assert particle.log_weight == pytest.approx(math.log(expected[particle.token_ids][1]), abs=1e-6)
    cells = sorted((p * count, seen[tokens]) for tokens, (p, _) in expected.items())
    rare = [sum(x) for x in zip(*[c for c in cells if c[0] < 5], strict=True)]
    cells = [c for c in cells if c[0] >= 5] + ([rare] if rare else [])
    statistic = sum((o - e) ** 2 / e for e, o in cells)
    assert statistic < chi2.isf(1e-4, len(cells) - 1)
    weights = found.posterior.log_weights.exp()
    z = sum(p * w for p, w in expected.values())
    assert abs(float(weights.mean()) - z) <= 5 * float(weights.std()) / math.sqrt(count) + 1e-9


def test_what_it_cost_is_counted():
    found = tt.decoding.speculative(models()[0], [], constraints()[1], hmm(1), "pgcd", 50, BUDGET, draft=3)
    assert isinstance(found, Speculation)
    assert found.tokens == 50 * BUDGET
    assert 0 < found.accepted <= found.drafted
    assert found.tokens_per_pass == found.tokens / found.passes
    assert found.acceptance_rate == found.accepted / found.drafted
    assert found.calls <= 1 + BUDGET


def test_what_cannot_be_drafted_for_is_refused():
    lm, fa = models()[0], constraints()[0]
    for proposal in ("lm", "lcd", "awrs"):
        with pytest.raises(EvidenceError, match="within the budget's mask"):
            tt.decoding.speculative(lm, [], fa, hmm(2), proposal, max_new_tokens=4)
    with pytest.raises(EvidenceError, match="draft"):
        tt.decoding.speculative(lm, [], fa, hmm(2), draft=0, max_new_tokens=4)


# -------------------------------------------------------------------------------------------------- a transformer


@pytest.mark.parametrize("share", [True, False])
def test_a_transformer_reads_drafts_in_one_pass_and_forgets_those_rejected(share):
    """Rows of unequal prompts keep different counts, and are selected: the same as token by token."""
    model, tokenizer = load_lm()
    lm, plain = (TransformersLM(model, tokenizer, share_prompts=share) for _ in range(2))
    prompts = ["Once upon a time", "The", "There was a"]
    lm.start(prompts)
    plain.start(prompts)
    rng = torch.Generator().manual_seed(0)
    for n in (3, 1, 4, 2):
        rows = len(lm.log_probs())
        tokens = torch.randint(3, 1024, (rows, n), generator=rng)
        counts = torch.randint(0, n + 1, (rows,), generator=rng)
        tables = lm.extend(tokens)
        for place in range(n):
            going = counts > place
            plain.advance(tokens[:, place].masked_fill(~going, -1))
            torch.testing.assert_close(tables[going, place], plain.log_probs()[going], atol=2e-4, rtol=2e-4)
        lm.keep(counts)
        torch.testing.assert_close(lm.log_probs(), plain.log_probs(), atol=2e-4, rtol=2e-4)
        index = torch.randint(0, rows, (rows,), generator=rng)
        lm.select(index)
        plain.select(index)
    lm.advance(torch.tensor([5] * rows))
    plain.advance(torch.tensor([5] * rows))
    torch.testing.assert_close(lm.log_probs(), plain.log_probs(), atol=2e-4, rtol=2e-4)


def test_drafts_of_unequal_length_end_at_the_last_position_of_a_model():
    """What fills up the shorter draft takes no position, of which a model that learns them has no more."""
    config = GPT2Config(
        vocab_size=9, n_positions=7, n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    network = GPT2LMHeadModel(config).eval()
    lm = TransformersLM(network, None, eos_token_id=0)
    prompts, drafts = [[1, 2, 3, 4, 5, 6], [1]], torch.tensor([[7, -1, -1], [7, 8, 2]])
    lm.start(prompts)
    tables = lm.extend(drafts)
    for row, (prompt, draft) in enumerate(zip(prompts, drafts.tolist(), strict=True)):
        kept = [token for token in draft if token >= 0]
        plain = network(torch.tensor([[*prompt, *kept]])).logits[0, len(prompt) :].log_softmax(-1)
        torch.testing.assert_close(tables[row, : len(kept)], plain, atol=1e-5, rtol=1e-5)
