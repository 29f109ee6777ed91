"""The posterior's estimates, groups, samples and pictures, by hand."""

import json
import math

import pytest
import torch

import tractile as tt

# Four particles, two of them the same sequence, one dead; unnormalised weights 1, 2, 1, 0.
POST = tt.Posterior(
    token_ids=[(1, 9), (2, 9), (1, 9), (3,)],
    texts=["a", "b", "a", "c"],
    log_weights=torch.tensor([1.0, 2.0, 1.0, 0.0], dtype=torch.float64).log(),
    log_probs=torch.tensor([-2.0, -1.0, -2.0, -3.0], dtype=torch.float64),
    ess_trace=(4.0, 16 / 6),
    resampled=(0,),
)
FAILED = tt.Posterior([(1,)], ["a"], torch.tensor([-math.inf]), torch.tensor([-1.0]))


def test_weights_evidence_and_effective_sample_size():
    assert POST.weights.tolist() == pytest.approx([0.25, 0.5, 0.25, 0.0])
    assert POST.log_evidence == pytest.approx(math.log(1.0))
    assert POST.ess == pytest.approx(16 / 6)


def test_best_sums_equal_particles_and_breaks_ties_by_probability():
    assert POST.best.text == "b"
    heavier = tt.Posterior(
        POST.token_ids, POST.texts, torch.tensor([1.1, 2.0, 1.0, 0.0]).double().log(), POST.log_probs
    )
    assert heavier.best.text == "a"
    assert heavier.best.token_ids == (1, 9)


def test_groups_add_up_and_come_heaviest_first():
    skewed = tt.Posterior(
        POST.token_ids, POST.texts, torch.tensor([2.0, 1.0, 1.0, 0.0]).double().log(), POST.log_probs
    )
    groups = skewed.group_by(lambda particle: particle.text)
    assert list(groups) == ["a", "b"]
    assert groups == pytest.approx({"a": 0.75, "b": 0.25})


def test_dead_particles_are_never_shown_to_a_user_function():
    def key(particle):
        assert particle.text != "c"
        return particle.text

    POST.group_by(key)
    assert POST.expectation(lambda p: float(key(p) == "a")) == pytest.approx(0.5)
    assert [p.text for p in POST.accepted] == ["a", "b", "a"]
    assert len(POST.particles) == 4


def test_samples_follow_the_weights():
    """Binomial at error probability 1e-5."""
    drawn = [p.text for p in POST.sample(2000, seed=1)]
    assert drawn.count("c") == 0
    assert drawn.count("a") == pytest.approx(1000, abs=4.42 * math.sqrt(500))
    assert drawn == [p.text for p in POST.sample(2000, seed=1)]


def test_a_failed_run_gives_nothing():
    assert FAILED.failed
    assert (FAILED.log_evidence, FAILED.ess, FAILED.weights.tolist()) == (-math.inf, 0.0, [0.0])
    asks = [
        lambda: FAILED.best,
        lambda: FAILED.accepted,
        lambda: FAILED.sample(1),
        lambda: FAILED.group_by(lambda p: p.text),
        lambda: FAILED.expectation(lambda p: 1.0),
    ]
    for ask in asks:
        with pytest.raises(tt.TractileError, match="none of 1 particles"):
            ask()


@pytest.mark.parametrize("post", [POST, FAILED], ids=["run", "failed"])
def test_to_dict_is_json(post):
    data = json.loads(json.dumps(post.to_dict(), allow_nan=False))
    assert data["failed"] == post.failed
    assert len(data["particles"]) == len(post.texts)
    if not post.failed:
        assert data["particles"][1] == {
            "text": "b",
            "token_ids": [2, 9],
            "weight": pytest.approx(0.5),
            "log_weight": pytest.approx(math.log(2)),
            "log_prob": -1.0,
        }
        assert data["particles"][3]["log_weight"] is None


@pytest.mark.parametrize("post", [POST, FAILED], ids=["run", "failed"])
def test_plot_draws_trace_and_weights(post, tmp_path):
    figure = post.plot()
    trace, bars = figure.axes
    assert trace.lines[0].get_ydata().tolist() == list(post.ess_trace)
    assert sorted(bar.get_width() for bar in bars.patches) == pytest.approx([] if post.failed else [0.5, 0.5])
    figure.savefig(tmp_path / "posterior.png")
    assert (tmp_path / "posterior.png").stat().st_size > 1000


def test_texts_with_odd_characters_can_be_plotted(tmp_path):
    odd = tt.Posterior([(1,)], ["$x_1\n\\frac$ ^"], torch.zeros(1).double(), torch.zeros(1).double(), (1.0,))
    odd.plot().savefig(tmp_path / "odd.png")  # reading "$x_1…$" as a formula would raise
    assert (tmp_path / "odd.png").stat().st_size > 1000
