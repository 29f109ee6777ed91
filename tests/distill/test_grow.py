"""Growing an HMM changes nothing before EM goes on: every text has the probability it had."""

import itertools

import pytest
import torch

import tractile as tt
from tractile.distill import kronecker, split
from tractile.distill.grow import occupancy
from tractile.distill.start import has_end_state, with_end_state
from tractile.errors import CircuitError, ShapeError, VocabularyMismatch
from tractile.inference import em_step

EOS = 2


def small(hidden: int, transition: str = "dense", seed: int = 0, ended: bool = True) -> tt.HMM:
    hmm = tt.HMM.random(hidden, 4, transition, seed=seed, dtype=torch.float64)
    return with_end_state(hmm, EOS) if ended else hmm


TEXTS = torch.tensor(list(itertools.product(range(4), repeat=5)))


@pytest.mark.parametrize(
    ("transition", "before", "after"),
    [("dense", 3, 3), ("dense", 3, 8), ("dense", 4, 5), ("monarch", 6, 18), ("monarch", 9, 18)],
)
@pytest.mark.parametrize("ended", [True, False])
def test_splitting_keeps_every_probability(transition: str, before: int, after: int, ended: bool) -> None:
    hmm = small(before, transition, ended=ended)
    grown = split(hmm, after, seed=3)
    assert grown.hidden == after
    torch.testing.assert_close(
        tt.log_marginal(grown, TEXTS), tt.log_marginal(hmm, TEXTS), rtol=1e-10, atol=1e-10
    )
    assert has_end_state(grown, EOS) == ended


@pytest.mark.parametrize("transition", ["dense", "monarch"])
def test_em_tells_copies_apart(transition: str) -> None:
    """A larger HMM gets on where the small one has come to rest."""
    source = tt.HMM.random(12, 4, seed=5, dtype=torch.float64).map(
        lambda w: w**4 / (w**4).sum(-1, keepdim=True)
    )
    tokens = tt.sample(source, 300, n=10, generator=torch.Generator().manual_seed(0))
    hmm = small(2 if transition == "dense" else 4, transition, ended=False)

    def climb(hmm: tt.HMM, steps: int) -> tuple[tt.HMM, float]:
        for _ in range(steps):
            hmm, _ = em_step(hmm, tokens)
        return hmm, float(tt.log_marginal(hmm, tokens).sum())

    hmm, rest = climb(hmm, 100)
    _, grown = climb(split(hmm, 8), 40)
    assert grown > rest + 10


def test_states_used_more_get_more_copies() -> None:
    initial, transition = torch.tensor([0.9, 0.1]), torch.tensor([[0.9, 0.1], [0.9, 0.1]])
    emission = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    grown = split(tt.HMM(initial, transition, emission), 12)
    assert int((grown.emission_probs[:, 0] > 0).sum()) == 10
    torch.testing.assert_close(occupancy(tt.HMM(initial, transition, emission)), torch.tensor([0.9, 0.1]))


def test_kronecker_of_transitions() -> None:
    a, b = small(3, ended=False), small(4, seed=1, ended=False)
    both = kronecker(a, b)
    torch.testing.assert_close(
        both.transition.dense(), torch.kron(a.transition.dense(), b.transition.dense())
    )
    torch.testing.assert_close(both.initial_probs, torch.kron(a.initial_probs, b.initial_probs))
    marginal = occupancy(b) @ b.emission_probs
    for i, j in itertools.product(range(3), range(4)):
        row = a.emission_probs[i] * b.emission_probs[j] / marginal
        torch.testing.assert_close(both.emission_probs[4 * i + j], row / row.sum())


def test_kronecker_with_a_chain_that_knows_nothing() -> None:
    a, b = small(3, ended=False), small(4, seed=1, ended=False)
    b = tt.HMM(b.initial_probs, b.transition, b.emission_probs[:1].expand(4, -1))
    torch.testing.assert_close(tt.log_marginal(kronecker(a, b), TEXTS), tt.log_marginal(a, TEXTS))


def test_both_end_together() -> None:
    both = kronecker(small(3), small(4, seed=1))
    assert has_end_state(both, EOS)
    log_p = tt.log_marginal(both, TEXTS)
    ended = (TEXTS == EOS).int().cumsum(1) > 0
    proper = ((TEXTS == EOS) == ended).all(1)
    assert (log_p[~proper] == -torch.inf).all()
    assert (log_p[proper] > -torch.inf).all()
    assert float(log_p.exp().sum()) == pytest.approx(1)
    better, _ = em_step(both, TEXTS[proper])
    assert float(tt.log_marginal(better, TEXTS[proper]).sum()) > float(log_p[proper].sum())


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="into 2"):
        split(small(3), 2)
    with pytest.raises(ShapeError, match="multiple"):
        split(small(6, "monarch"), 9)
    with pytest.raises(CircuitError, match="dense"):
        kronecker(small(6, "monarch"), small(3))
    with pytest.raises(VocabularyMismatch):
        kronecker(small(3), tt.HMM.random(3, 5))
