"""EM: the fused counts are θ · ∂ log p/∂θ, and a step divides them by their sums."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

import tractile as tt
from tractile.distill import Corpus, train
from tractile.distill.em import em_step as sharded_step
from tractile.distill.em import expected_counts as sharded_counts
from tractile.distill.epochs import drop_tokens
from tractile.distill.progress import read_log
from tractile.distill.sharding import ShardedHMM
from tractile.distill.start import has_end_state, with_end_state
from tractile.errors import CircuitError, EvidenceError
from tractile.inference.engine.filter import Filter
from tractile.inference.queries.baum_welch import HMMCounts
from tractile.inference.queries.evidence import as_evidence
from tractile.inference.semirings.scaled_real import Real
from tractile.layers import Identity, Monarch


def random_hmm(hidden: int, vocab_size: int, transition: str, seed: int) -> tt.HMM:
    return tt.HMM.random(hidden, vocab_size, transition, seed=seed, dtype=torch.float64)


def random_tokens(vocab_size: int, batch: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))


def em_step(hmm: tt.HMM, *settings: object, **options: object) -> tuple[tt.HMM, float]:
    step, total = sharded_step(ShardedHMM.of(hmm), *settings, **options)
    return step.whole(), total


def expected_counts(hmm: tt.HMM, tokens: Tensor, *options: object, **more: object) -> HMMCounts:
    return sharded_counts(ShardedHMM.of(hmm), tokens, *options, **more)


def m_step(hmm: tt.HMM, counts: HMMCounts, pseudocount: float = 0.0) -> tt.HMM:
    return ShardedHMM.of(hmm).m_step(counts, pseudocount).whole()


def counts_by_autograd(hmm: tt.HMM, tokens: Tensor) -> HMMCounts:
    """The rule itself, θ · ∂ log p / ∂θ, by differentiating the engine's log p.

    The last step stops at the emission: the chain goes on to a next state, which nothing is known about.
    """
    free = hmm.map(lambda weight: weight.detach().clone().requires_grad_())
    semiring, n = Real(), tokens.shape[1]
    evidence = as_evidence(tokens, dict.fromkeys(range(n), hmm.vocab_size))
    *_, (_, last) = Filter(free, semiring).forward(evidence, range(n))
    total = semiring.log(semiring.reduce(last, [0])).sum()
    weights = [free.initial_probs, *free.transition.parameters(), free.emission_probs]
    gradients = torch.autograd.grad(total, weights, allow_unused=True)
    initial, *transition, emission = [
        torch.zeros_like(w) if g is None else (w * g).detach()
        for w, g in zip(weights, gradients, strict=True)
    ]
    return HMMCounts(initial, transition, emission, torch.zeros_like(initial), total.detach())


def close(a: Tensor, b: Tensor, tolerance: float = 1e-8) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def monarch_hmm(dims: tuple[int, ...], axes: tuple[int, ...] | None) -> tt.HMM:
    """An HMM whose transition rewrites these axes of the state in turn."""
    generator = torch.Generator().manual_seed(5)
    order = reversed(range(len(dims))) if axes is None else axes
    weights = [
        torch.rand(*dims, dims[axis], generator=generator, dtype=torch.float64).softmax(-1) for axis in order
    ]
    base = random_hmm(math.prod(dims), 5, "dense", 2)
    return tt.HMM(base.initial_probs, Monarch(weights, axes), base.emission_probs)


HMMS = {
    "dense": random_hmm(6, 5, "dense", 3),
    "monarch": random_hmm(6, 5, "monarch", 3),
    "axes in order": monarch_hmm((3, 2), (0, 1)),
    "three axes": monarch_hmm((2, 2, 2), None),
    "an axis twice": monarch_hmm((2, 3), (1, 0, 1)),
}


@pytest.mark.parametrize("name", HMMS)
@pytest.mark.parametrize("length", [1, 2, 9])
def test_counts_are_parameter_times_derivative(name: str, length: int) -> None:
    tokens = random_tokens(5, 4, length)
    fused, rule = expected_counts(HMMS[name], tokens), counts_by_autograd(HMMS[name], tokens)
    for a, b in zip(fused.tensors(), rule.tensors(), strict=True):
        close(a, b, 1e-10)
    close(fused.log_likelihood, rule.log_likelihood, 1e-12)
    emission = m_step(HMMS[name], fused).emission_probs
    close(emission, rule.emission / rule.emission.sum(1, keepdim=True))


def test_long_sequences_neither_underflow_nor_overflow() -> None:
    """2,000 tokens in float32 agree with float64: p(x) is far below the smallest float."""
    hmm, tokens = random_hmm(8, 50, "dense", 4), random_tokens(50, 3, 2000)
    single = expected_counts(hmm.to(dtype=torch.float32), tokens)
    double = expected_counts(hmm, tokens)
    assert float(double.log_likelihood) < -20_000
    close(single.emission.double(), double.emission, 2e-3)
    close(single.transition[0].double(), double.transition[0], 2e-3)


@pytest.mark.parametrize("transition", ["dense", "monarch"])
def test_bfloat16_messages_give_counts_of_three_digits(transition: str) -> None:
    hmm = tt.HMM.random(16, 9, transition)
    tokens = random_tokens(9, 30, 200)
    tokens[:, ::7] = -1
    exact, rounded = expected_counts(hmm, tokens), expected_counts(hmm, tokens, messages=torch.bfloat16)
    for a, b in zip(exact.tensors(), rounded.tensors(), strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=0.03, atol=1e-3)
        assert abs(float(a.sum() / b.sum()) - 1) < 2e-3
    with pytest.raises(tt.errors.ShapeError, match="bfloat16"):
        expected_counts(hmm, tokens, messages=torch.float16)


@pytest.mark.parametrize("transition", ["dense", "monarch"])
def test_unknown_tokens_are_summed_over(transition: str) -> None:
    """Counts given that some tokens are missing: each completion's counts, weighted by its posterior probability."""
    hmm = random_hmm(4, 3, transition, 6)
    tokens = torch.tensor([[0, -1, 2, -1], [1, 1, -1, 0]])
    found = expected_counts(hmm, tokens)
    initial, emission, total = torch.zeros(4).double(), torch.zeros(4, 3).double(), 0.0
    moves = [torch.zeros_like(w) for w in hmm.transition.parameters()]
    for row in tokens:
        holes = (row < 0).nonzero()[:, 0]
        texts = row.repeat(3 ** len(holes), 1)
        texts[:, holes] = torch.cartesian_prod(*[torch.arange(3)] * len(holes)).view(-1, len(holes))
        log_p = tt.log_marginal(hmm, texts)
        total += float(log_p.logsumexp(0))
        for text, weight in zip(texts, log_p.softmax(0), strict=True):
            counts = expected_counts(hmm, text[None])
            initial += weight * counts.initial
            for move, count in zip(moves, counts.transition, strict=True):
                move += weight * count
    for row in range(2):  # of the emissions only those of known tokens
        emission += expected_counts(hmm, tokens[row : row + 1]).emission
    close(found.initial, initial)
    close(found.emission, emission)
    assert float(found.emission.sum()) == pytest.approx(5)
    assert float(found.log_likelihood) == pytest.approx(total)
    for have, want in zip(found.transition, moves, strict=True):
        close(have, want)


def test_dropped_tokens_are_known_not_to_be_the_end() -> None:
    eos = 2
    hmm = with_end_state(random_hmm(5, 4, "dense", 2), eos)
    tokens = torch.tensor([[0, 1, eos, eos], [3, 3, 0, 1]])
    dropped = drop_tokens(tokens, 0.5, torch.Generator().manual_seed(1), eos)
    assert (dropped[tokens == eos] == eos).all()
    assert (dropped < 0).any()
    same = drop_tokens(torch.zeros(200, 200), 0.3, torch.Generator().manual_seed(0), None)
    assert 0.29 < float((same < 0).double().mean()) < 0.31
    missing = 1 - hmm.emission_probs[:, eos]
    found = expected_counts(hmm, torch.tensor([[-1, 0, eos]]), missing)
    texts = torch.tensor([[v, 0, eos] for v in range(4) if v != eos])
    assert float(found.log_likelihood) == pytest.approx(float(tt.log_marginal(hmm, texts).logsumexp(0)))
    step, total = em_step(hmm, torch.tensor([[-1, 0, eos]]), 1.0, 0.0, 1, eos)
    assert total == pytest.approx(float(found.log_likelihood))
    close(step.initial_probs, found.initial)


@pytest.mark.parametrize(("dtype", "rare"), [(torch.float32, 1e-4), (torch.float64, 1e-20)])
def test_unknown_tokens_where_all_but_a_state_out_of_range_is_ruled_out(
    dtype: torch.dtype, rare: float
) -> None:
    """The other state emits none of the last tokens; one before them is unknown, and not the end."""
    hmm = tt.HMM(torch.tensor([0.5, 0.5]), torch.eye(2), torch.tensor([[1.0, 0.0], [rare, 1 - rare]])).to(
        dtype=dtype
    )
    found = expected_counts(hmm, torch.tensor([[*[0] * 20, -1, 1]]), torch.tensor([0.25, 0.75], dtype=dtype))
    emission = hmm.emission_probs[1].double()
    log_p = math.log(0.5 * 0.75) + 20 * float(emission[0].log()) + float(emission[1].log())
    assert float(found.log_likelihood) == pytest.approx(log_p)
    assert found.unobserved.tolist() == pytest.approx([0, 1])
    close(found.emission.double(), torch.tensor([[0.0, 0.0], [20.0, 1.0]]).double(), 1e-6)


def test_emissions_stay_on_their_support() -> None:
    hmm, tokens = random_hmm(3, 4, "dense", 0), random_tokens(4, 30, 6)
    emission = hmm.emission_probs.clone()
    emission[0, :2] = emission[2, 3] = 0
    hmm = tt.HMM(hmm.initial_probs, hmm.transition, emission / emission.sum(1, keepdim=True))
    for step in range(4):
        hmm, _ = em_step(hmm, tokens, 1 - step / 4, 0.5, 8)
    assert torch.equal(hmm.emission_probs == 0, emission == 0)


def test_mini_batch_step_blends_counts_over_chunks() -> None:
    hmm, tokens = random_hmm(4, 3, "dense", 1), random_tokens(3, 10, 5)
    whole = m_step(hmm, expected_counts(hmm, tokens), 0.1)
    step, total = em_step(hmm, tokens, 0.25, 0.1, chunk_size=3)
    assert total == pytest.approx(float(tt.log_marginal(hmm, tokens).sum()))
    close(step.emission_probs, 0.75 * hmm.emission_probs + 0.25 * whole.emission_probs)
    close(
        step.transition.parameters()[0],
        0.75 * hmm.transition.parameters()[0] + 0.25 * whole.transition.parameters()[0],
    )


@pytest.mark.parametrize("transition", ["dense", "monarch"])
def test_the_end_state_survives_pseudocounts_and_smoothing(transition: str) -> None:
    eos = 2
    hmm = with_end_state(random_hmm(6, 4, transition, 9), eos)
    tokens = random_tokens(4, 20, 8)
    ended = (tokens == eos).int().cumsum(1) > 0
    tokens = tokens.masked_fill(ended, eos)
    for _ in range(3):
        (whole, _), (hmm, _) = em_step(hmm, tokens, 0.9, 0.5, 8), em_step(hmm, tokens, 0.9, 0.5, 8, eos)
        close(hmm.emission_probs, whole.emission_probs)  # leaving out the padding changes nothing
        for have, want in zip(hmm.transition.parameters(), whole.transition.parameters(), strict=True):
            close(have, want)
    assert has_end_state(hmm, eos)
    random = random_hmm(6, 4, transition, 9)
    assert not has_end_state(random, eos)
    assert not ShardedHMM.of(random).has_end(eos)
    hmm = ShardedHMM.of(hmm).smooth(0.01, eos).whole()
    after_end = torch.tensor([[0, eos, 1], [0, eos, eos]])
    assert tt.log_marginal(hmm, after_end)[0] == -torch.inf
    assert torch.isfinite(tt.log_marginal(hmm, after_end)[1])
    close(tt.log_marginal(hmm, after_end[1:]), tt.log_marginal(hmm, after_end[1:, :2]))  # padding is free
    others = torch.arange(4) != eos
    assert (hmm.emission_probs[:-1][:, others] > 0.001).all()


def test_without_epochs_training_is_its_start_made_smooth(tmp_path: Path) -> None:
    corpus, start = Corpus.of(random_tokens(4, 40, 6), 5, 4), tt.HMM.random(3, 5, seed=2)
    hmm = train(corpus, 3, epochs=0, initial=start, floor=0.25, out=tmp_path / "hmm", dtype=torch.float32)
    close(hmm.initial_probs, 0.75 * start.initial_probs + 0.25 / 3, 1e-6)
    again = tt.HMM.from_pretrained(tmp_path / "hmm")
    close(again.emission_probs, hmm.emission_probs, 1e-6)
    moved = train(corpus, 3, epochs=1, initial=start, floor=0.0, held_out=0.0, step_size=0.25, batch_size=40)
    once, _ = em_step(start, corpus.tokens, 0.25, 1e-3, 40)
    close(moved.emission_probs, once.emission_probs, 1e-6)


def test_each_epoch_and_each_seed_deals_the_texts_anew(tmp_path: Path) -> None:
    """Steps too small to change the HMM: the first half of an epoch has the same nats only if it has the same texts."""
    settings = {
        "epochs": 2,
        "batch_size": 20,
        "step_size": 1e-12,
        "held_out": 0.0,
        "initial": tt.HMM.random(3, 5),
    }
    for seed in (0, 1):
        train(Corpus.of(random_tokens(4, 40, 6), 5, 4), 3, seed=seed, out=tmp_path / str(seed), **settings)
    logs = [read_log(tmp_path / str(seed) / "log.jsonl") for seed in (0, 1)]
    assert len({round(log[first]["nats_per_token"], 6) for log in logs for first in (0, 2)}) == 4


def test_bad_input() -> None:
    hmm = with_end_state(random_hmm(3, 3, "dense", 0), 2)
    with pytest.raises(EvidenceError, match="row 1"):
        expected_counts(hmm, torch.tensor([[0, 1], [2, 0]]))
    with pytest.raises(EvidenceError, match="counts of initial row 0 are not finite"):
        m_step(hmm, expected_counts(hmm, torch.tensor([[0, 1]])), math.nan)
    identity = tt.HMM(hmm.initial_probs, Identity(3), hmm.emission_probs)
    with pytest.raises(CircuitError, match="Identity"):
        expected_counts(identity, torch.tensor([[0, 1]]))
