"""The density-estimation example: its data, its peers against the library, and the bounds that nothing may cross."""

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.circuits import builders

pytest.importorskip("sklearn")
SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "density_estimation.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("density_estimation", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["density_estimation"] = module
    spec.loader.exec_module(module)
    return module


def pixels(region) -> list[int]:
    return [region] if isinstance(region, int) else [pixel for part in region for pixel in pixels(part)]


def test_ising_is_the_boltzmann_distribution(script):
    """Against the energy summed bond by bond; samples have its frequencies."""
    data = script.ising(side=3, coupling=0.4, rows=20_000)
    states = 2 * data.test.numpy() - 1
    assert len(np.unique(data.test.numpy(), axis=0)) == 512
    energies = np.zeros(512)
    for i in range(3):
        for j in range(3):
            for k, l in ((i, (j + 1) % 3), ((i + 1) % 3, j)):
                energies += states[:, 3 * i + j] * states[:, 3 * k + l]
    weights = np.exp(0.4 * energies)
    np.testing.assert_allclose(data.weights.numpy(), weights / weights.sum(), rtol=1e-12)
    aligned = (data.train == data.train[:, :1]).all(1).double().mean()
    expected = data.weights[(data.test == data.test[:, :1]).all(1)].sum()
    assert abs(aligned - expected) < 0.015


def test_digits_are_split_without_overlap(script):
    data = script.digits()
    assert (len(data.train), len(data.test), data.train.shape[1]) == (1437, 360, 64)
    assert set(data.train.unique().tolist()) == {0, 1}
    assert float(data.weights.sum()) == pytest.approx(1)


@pytest.mark.parametrize("side", [1, 2, 3, 5, 8])
def test_cuts_hold_every_pixel_once(script, side):
    region = script.blocks(0, 0, side, side, side)
    assert sorted(pixels(region)) == list(range(side**2))
    if side > 1:
        top, bottom = region
        assert max(pixels(top)) < min(pixels(bottom))  # the first cut is between rows


@pytest.mark.parametrize("pseudocount", [0.5, 3.0])
def test_the_tree_by_hand_is_the_library_tree(script, pseudocount):
    data = script.ising(side=3, rows=400)
    ours = tt.log_marginal(builders.chow_liu(data.train, 2, pseudocount, torch.float64), data.test).numpy()
    by_hand = script.tree_by_hand(data.train.numpy(), np.ones(400), data.test.numpy(), pseudocount)
    np.testing.assert_allclose(by_hand, ours, atol=1e-9)
    assert np.exp(by_hand).sum() == pytest.approx(1)


def test_every_structure_reaches_what_its_peer_reaches(script):
    data = script.ising(side=3, rows=300)
    p = data.weights.numpy()
    found = script.compare(data, side=3, states=3, em_epochs=4, epochs=1)
    assert [row.by for row in found] == ["numpy", "numpy", "cirkit", "cirkit", "cirkit"]
    truth = float(p @ np.log(p))
    best_tree = float(p @ script.tree_by_hand(data.test.numpy(), p, data.test.numpy(), 0))
    for row in found:
        assert row.test < truth  # Gibbs
        if importlib.util.find_spec(row.by):
            assert row.peer == pytest.approx(row.test, abs=1e-3)
        else:
            assert row.peer is None
    assert found[0].test < best_tree < truth
    assert found[0].test == pytest.approx(best_tree, abs=0.1)
    flat = -9 * math.log(2)
    assert all(row.test > flat for row in found[:3])
    text = script.table(found)
    assert text.count("\n") == 6
    assert ("cirkit is not installed" in text) == (importlib.util.find_spec("cirkit") is None)


def test_steps_improve_both_ways_of_learning(script):
    data = script.ising(side=3, rows=300)
    start = script.region_circuit(3, 4)
    before = script.mean_log_p(start, data.train)
    once, twice = (script.by_gradients(start, data.train, epochs) for epochs in (1, 6))
    assert before < script.mean_log_p(once, data.train) < script.mean_log_p(twice, data.train)
    assert abs(float(tt.partition(twice))) < 1e-4
    exact = script.mean_log_p(twice, data.test, data.weights)
    assert exact == pytest.approx(float(data.weights @ tt.log_marginal(twice, data.test)), abs=1e-6)
