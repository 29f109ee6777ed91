"""``tt.canvas`` beside an enumeration of all texts of a small canvas."""

import functools
import itertools
import math
import threading

import pytest
import torch
from scipy.stats import chi2

import tractile as tt
from tractile.constraints import limits
from tractile.decoding.letters import Letters, explored
from tractile.errors import (
    BudgetTooSmall,
    CircuitError,
    ConstructionStopped,
    EvidenceError,
    ShapeError,
    TooManyStates,
    VocabularyMismatch,
)

EOS, PAD = 0, 4
VOCAB = tt.Vocabulary([None, b"a", b"b", b"ab", None, b"c"], eos_token_id=EOS)
SIZE = len(VOCAB)
regex = tt.constraints.regex


def scores(n, batch=1, seed=0):
    return torch.randn(batch, n, SIZE, generator=torch.Generator().manual_seed(seed)).double().log_softmax(-1)


def table(log_probs, accepts):
    """q by text, and log Z: all texts of the canvas, one after another."""
    n, size = log_probs.shape
    weight = {
        x: math.exp(sum(float(log_probs[t, v]) for t, v in enumerate(x)))
        for x in itertools.product(range(size), repeat=n)
        if accepts(x)
    }
    total = sum(weight.values())
    return {x: w / total for x, w in weight.items() if w > 0}, math.log(total)


def ended(accepts, pad=EOS):
    """Texts that end with an end token and padding, or that take the whole canvas and are accepted as they are."""

    def check(x):
        return any(
            x[i] == EOS and accepts(x[:i]) and all(v == pad for v in x[i + 1 :]) for i in range(len(x))
        )

    return check


def spelled(constraint):
    return lambda x: (
        all(VOCAB.token_bytes[v] for v in x) and constraint.accepts(b"".join(VOCAB.token_bytes[v] for v in x))
    )


def check(found, log_probs, accepts, known=None):
    """All queries of a canvas of one row beside the table."""
    n = log_probs.shape[0]
    given = [-1] * n if known is None else known
    rows = log_probs.clone()
    for t, v in enumerate(given):
        if v >= 0:
            rows[t] = -torch.inf
            rows[t, v] = 0
    q, log_z = table(rows, accepts)
    assert found.log_partition.item() == pytest.approx(log_z, abs=1e-9)
    expected = torch.zeros(n, SIZE, dtype=torch.float64)
    for x, share in q.items():
        for t, v in enumerate(x):
            expected[t, v] += share
    torch.testing.assert_close(found.marginals()[0].exp(), expected, atol=1e-9, rtol=0)
    some = torch.tensor([n - 1, 0])
    torch.testing.assert_close(found.marginals(some)[0].exp(), expected[some], atol=1e-9, rtol=0)
    best = max(q, key=q.__getitem__)
    assert q[tuple(found.mpe.tokens[0].tolist())] == pytest.approx(q[best], abs=1e-12)
    assert found.mpe.log_prob.item() == pytest.approx(math.log(q[best]), abs=1e-9)
    seen = torch.full((1, n), -1)
    seen[0, ::2] = torch.tensor(best[::2])
    joint = sum(share for x, share in q.items() if x[::2] == best[::2])
    assert found.log_prob(seen).item() == pytest.approx(math.log(joint), abs=1e-9)
    k = 2000
    drawn = found.sample(k, generator=torch.Generator().manual_seed(1))[:, 0].tolist()
    counts = dict.fromkeys(q, 0)
    for x in drawn:
        counts[tuple(x)] += 1  # a KeyError: a text that must not be drawn
    pooled = [(counts[x], k * share) for x, share in q.items() if k * share >= 5]
    rest = k - sum(e for _, e in pooled)
    if rest > 1e-6:
        pooled.append((k - sum(c for c, _ in pooled), rest))
    statistic = sum((c - e) ** 2 / e for c, e in pooled)
    assert len(pooled) < 2 or chi2.sf(statistic, len(pooled) - 1) > 1e-4


def test_padding_follows_one_end_token():
    constraint = regex("(ab|c)*")
    p = scores(4, seed=1)
    found = tt.canvas(p[0], constraint, vocab=VOCAB, pad_token_id=PAD)
    check(found, p[0], ended(spelled(constraint), PAD))


def test_known_tokens_are_fixed_on_both_sides():
    constraint, known = regex("(a|b|c)*"), [1, -1, -1, 5, EOS]
    p = scores(5, seed=2)
    p[0, 0, 1] = -torch.inf  # a known token is fixed whatever the model gives it
    found = tt.canvas(p[0], constraint, torch.tensor(known), vocab=VOCAB)
    check(found, p[0], ended(spelled(constraint)), known)
    assert found.log_p(torch.tensor([[1, -1, -1, 5, EOS]])).item() == 0


def test_classes_that_share_tokens():
    classes = tt.layers.Incidence(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([1, 2, 2, 5, 5]), (3, SIZE))
    fa = tt.Automaton(torch.tensor([[0, 0, 1], [1, 1, 0], [0, 2, 0]]), classes, [0], [0, 1], 2)
    p = scores(4, seed=4)
    assert Letters(fa, 4)._by_token is None
    check(tt.canvas(p[0], fa), p[0], fa.accepts)


BYTES = tt.Vocabulary([None] + [bytes([i]) for i in range(256)], eos_token_id=0)
TREE = {"anyOf": [{"const": True}, {"type": "array", "items": {"$ref": "#/$defs/tree"}}]}


def nested():
    """Lists of true in lists, at any depth: a lazy constraint, all of which no finite automaton holds."""
    return tt.constraints.json_schema({"$ref": "#/$defs/tree", "$defs": {"tree": TREE}}).compile(BYTES)


@functools.cache
def trees(size):
    """The texts of `nested` with so many characters."""
    return ["true"] * (size == 4) + ["[]"] * (size == 2) + [f"[{inner}]" for inner in items(size - 2)]


@functools.cache
def items(size):
    if size < 1:
        return []
    more = (f"{one}, {rest}" for k in range(1, size - 2) for one in trees(k) for rest in items(size - k - 2))
    return [*trees(size), *more]


def test_a_lazy_constraint_is_exact_within_the_canvas(caplog):
    n, fa = 20, nested()
    texts = [text for size in range(n) for text in trees(size)]
    assert len(texts) > 60
    found = tt.canvas(torch.zeros(n, 257, dtype=torch.float64), fa)
    assert found.log_partition.item() == pytest.approx(math.log(len(texts)))
    assert [*caplog.messages, *fa.narrowed] == []  # the finite automaton, which lacks some, is not used
    written = explored(fa, n, 60)  # 75 more states are met that cannot end within n tokens
    assert all(written.accepts([1 + b for b in text.encode()] + [0]) for text in texts)
    assert any(not fa.finite.accepts([1 + b for b in text.encode()] + [0]) for text in texts)


def test_a_lazy_constraint_too_large_for_the_canvas_is_refused_with_its_size(monkeypatch):
    with pytest.raises(TooManyStates, match=r"within 60 tokens more than 50 of its states can be met"):
        explored(fa := nested(), 60, 50)
    monkeypatch.setattr(limits, "TRANSITIONS", 100)
    with pytest.raises(TooManyStates, match=r"or 100 tokens between them"):
        explored(fa, 60, 5000)
    (stop := threading.Event()).set()
    with pytest.raises(ConstructionStopped):
        tt.constraints.Limits().run(lambda: explored(fa, 60, 5000), stop)


def test_numbers_out_of_range_are_refused_where_they_matter():
    p = torch.zeros(2, SIZE, dtype=torch.float64)
    p[0, 5] = -800.0
    some, only = regex("a|c"), regex("c")
    exact = tt.canvas(p, some, vocab=VOCAB)
    assert exact.log_partition.item() == pytest.approx(0.0)
    with pytest.raises(CircuitError, match="700 nats apart"):
        _ = tt.canvas(p, only, vocab=VOCAB).log_partition
    p[0, 5] = -1e30
    with pytest.raises(EvidenceError, match="no text fills canvas 0"):
        tt.canvas(p, only, vocab=VOCAB).sample()


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("shift", [0.0, -2e4, -6e4, 3e4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_in_float64_for_scores_of_any_dtype_and_size(dtype, shift):
    """Differences in 16 bits missed log Z by 1e-2 and chose other texts; scores of −20,000 throughout were none."""
    constraint = regex("(ab|c)*a?")
    given = (3 * scores(4, seed=8)[0] + shift).to(dtype)
    p = given.double()
    top = p.max(1).values
    q, log_z = table(p - top[:, None], ended(spelled(constraint)))
    found = tt.canvas(given, constraint, vocab=VOCAB)
    assert found.log_partition.item() == pytest.approx(log_z + top.sum().item(), rel=1e-12)
    best = max(q.values())
    assert q[tuple(found.mpe.tokens[0].tolist())] == pytest.approx(best, rel=1e-9)
    assert found.mpe.log_prob.item() == pytest.approx(math.log(best), abs=1e-9)
    shares = torch.zeros(4, SIZE, dtype=torch.float64)
    for x, share in q.items():
        shares[range(4), x] += share
    torch.testing.assert_close(found.marginals()[0].double().exp(), shares, atol=1e-5, rtol=0)
    assert found.log_prob(found.sample(5)[:, 0][:1]).isfinite().all()


def test_what_does_not_fit_is_refused():
    p = scores(3)
    with pytest.raises(BudgetTooSmall) as error:
        tt.canvas(p, regex("aaaa"), vocab=tt.Vocabulary([None, b"a", b"b", b"c", None, b"d"], eos_token_id=0))
    assert (error.value.needed, error.value.given) == (5, 3)
    with pytest.raises(VocabularyMismatch):
        tt.canvas(p[..., :-1], regex("a").compile(VOCAB))
    with pytest.raises(ShapeError, match="overlaps"):
        tt.canvas(p, {range(0, 2): regex("a"), range(1, 3): regex("b")}, vocab=VOCAB)
    with pytest.raises(ShapeError, match="known holds"):
        tt.canvas(p, regex("a"), torch.tensor([1, 2]), vocab=VOCAB)
    found = tt.canvas(p, regex("a"), vocab=VOCAB)
    for k in (-1, 1.5, True):
        with pytest.raises(EvidenceError, match="canvas: k, the number of texts"):
            found.sample(k)
    assert found.sample(0).shape == (0, 1, 3)
    with pytest.raises(ShapeError, match="tokens holds a token below 6"):
        found.log_prob(torch.tensor([[1, 0, 99]]))
    with pytest.raises(ShapeError, match="positions are whole numbers in 0 … 2"):
        found.marginals(torch.tensor([3]))
    with pytest.raises(ShapeError, match="nan or inf"):
        tt.canvas(p * torch.nan, regex("a"), vocab=VOCAB)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_as_on_the_cpu():
    constraint, known = regex("(ab|c)*a?"), torch.tensor([-1, -1, 5, -1, -1])
    p = scores(5, batch=2, seed=7)
    here, there = (tt.canvas(p.to(device), constraint, known, vocab=VOCAB) for device in ("cpu", "cuda"))
    torch.testing.assert_close(there.log_partition.cpu(), here.log_partition)
    torch.testing.assert_close(there.marginals().cpu(), here.marginals())
    assert torch.equal(there.mpe.tokens.cpu(), here.mpe.tokens)
    drawn = there.sample(16, generator=torch.Generator("cuda").manual_seed(0)).cpu()
    assert all(here.log_prob(row).isfinite().all() for row in drawn)
