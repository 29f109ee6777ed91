"""What signatures and docstrings promise at the edges: text boundaries, seeds, exact counts, tolerances, precisions, limits."""

import itertools

import pytest
import torch

import tractile as tt
from tractile.circuits import builders
from tractile.errors import CircuitError, EvidenceError, ShapeError
from tractile.layers import Categorical, Dense, Identity, Incidence, Monarch


def test_pixels_make_images_of_any_size():
    assert builders.image_regions(1, 1) == 0
    assert builders.image_regions(1, 2) == builders.image_regions(2, 1) == (0, 1)
    for height, width in ((0, 1), (1, 0), (-1, 2)):
        with pytest.raises(ShapeError, match=f"at least one pixel, not {height} × {width}"):
            builders.image_regions(height, width)


def test_random_rows_are_spread_as_they_say():
    random_parameters = builders.RandomParameters(seed=0, dtype=torch.float64)
    rows = random_parameters.rows(2_000, 3)
    assert torch.allclose(rows.sum(1), torch.ones(2_000, dtype=torch.float64))
    assert float((rows[:, 0] / rows[:, 1]).log().std()) == pytest.approx(1.5 * 2**0.5, rel=0.1)
    again = builders.RandomParameters(seed=0, dtype=torch.float64).rows(2_000, 3)
    assert torch.equal(again, rows)


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


OPERATORS = {
    "dense": Dense(torch.rand(3, 4)),
    "identity": Identity(4),
    "incidence": Incidence(torch.tensor([0, 2, 2]), torch.tensor([0, 1, 3]), (3, 4)),
    "monarch": Monarch([torch.rand(2, 2, 2), torch.rand(2, 2, 2)]),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_operators_times_vectors_of_any_precision(name, dtype):
    """The result has the wider precision of the two, and the value of the dense matrix."""
    operator = OPERATORS[name]
    matrix, own = operator.dense(), [parameter.dtype for parameter in operator.parameters()]
    x = torch.rand(4, 3).to(dtype)
    for given in (x, x[:, 0], x[:, :0]):
        found = operator.times(given)
        assert found.shape == (matrix.shape[0], *given.shape[1:])
        exact = torch.allclose(found.double(), matrix.double() @ given.double(), rtol=1e-5 if own else 1e-2)
        assert exact
        assert not own or found.dtype == torch.promote_types(own[0], dtype)


@pytest.mark.parametrize("vocab_size", [2, 3, 5, 9])
def test_tokens_are_read_the_same_for_small_and_large_batches(vocab_size):
    """Tables are gathered whole where the batch is at least as large as they are, else column by column."""
    circuit = tt.Circuit()
    inputs = [circuit.input(Categorical(torch.rand(2, vocab_size).double()), v) for v in range(3)]
    circuit.sum(
        tt.layers.Sum(Dense(torch.rand(1, 2).double())), circuit.product(tt.layers.Hadamard(), *inputs)
    )
    rows = torch.tensor(list(itertools.product(range(vocab_size), repeat=3)))
    whole = tt.log_marginal(circuit, rows)
    for size in (1, vocab_size - 1, vocab_size, vocab_size + 1):
        parts = [tt.log_marginal(circuit, part) for part in rows[: 4 * size].split(size)]
        assert torch.allclose(torch.cat(parts), whole[: 4 * size], rtol=1e-14, atol=0)


def test_conditionals_of_no_variable_named_are_of_the_first():
    hmm = tt.HMM.random(2, 3, seed=0)
    assert torch.equal(tt.conditional(hmm, n=3), tt.conditional(hmm, variable=0, n=3))
    with pytest.raises(EvidenceError, match="evidence of one row, not of 2"):
        tt.count(
            tt.Automaton.from_edges([(0, 0, 0)], start=0, accept=[0], vocab_size=2), torch.zeros(2, 1).long()
        )
