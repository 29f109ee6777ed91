"""What signatures and docstrings promise at the edges: sizes, tolerances, what is taken where nothing is named."""

import pytest
import torch

import tractile as tt
from tractile.circuits import builders
from tractile.errors import CircuitError, EvidenceError, ShapeError
from tractile.layers import Monarch


def test_pixels_make_images_of_any_size():
    assert builders.image_regions(1, 1) == 0
    assert builders.image_regions(1, 2) == builders.image_regions(2, 1) == (0, 1)
    for height, width in ((0, 1), (1, 0), (-1, 2)):
        with pytest.raises(ShapeError, match=f"at least one pixel, not {height} × {width}"):
            builders.image_regions(height, width)


@pytest.mark.parametrize("size", [1, 4, 400])
def test_rows_may_miss_one_by_rounding_and_no_more(size):
    """Of single precision: a millionth, and in long rows what rounding of so many terms may come to."""
    tolerance = max(1e-6, 8 * size**0.5 * torch.finfo(torch.float32).eps)
    even = torch.full((2, size), 1 / size, dtype=torch.float64)
    for share, fits in ((0.5, True), (1.6, False), (-0.5, True), (-1.6, False)):
        emission = (even * (1 + share * tolerance)).float()
        initial, transition = torch.tensor([0.5, 0.5]), torch.eye(2)
        if fits:
            assert tt.HMM(initial, transition, emission).vocab_size == size
        else:
            with pytest.raises(ShapeError, match=r"emission.* must hold non-negative rows that sum to one"):
                tt.HMM(initial, transition, emission)


def test_a_transposed_monarch_has_no_rows_of_its_weights():
    monarch = Monarch([torch.rand(1, 3, 3), torch.rand(1, 3, 1)])
    assert len(monarch.parameter_rows()) == len(monarch.weights)
    with pytest.raises(CircuitError, match="which is transposed, are no distributions"):
        monarch.T.parameter_rows()


def test_conditionals_of_no_variable_named_are_of_the_first():
    hmm = tt.HMM.random(2, 3, seed=0)
    assert torch.equal(tt.conditional(hmm, n=3), tt.conditional(hmm, variable=0, n=3))
    with pytest.raises(EvidenceError, match="evidence of one row, not of 2"):
        tt.count(
            tt.Automaton.from_edges([(0, 0, 0)], start=0, accept=[0], vocab_size=2), torch.zeros(2, 1).long()
        )
