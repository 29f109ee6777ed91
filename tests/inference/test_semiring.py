"""Semirings: the laws, each operation against ordinary numbers, and contraction along every path; dynamic range."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_log_close, log

from tractile.inference import Boolean, Counting, Log, MaxProduct, MinPlus, Real
from tractile.inference.engine.contract import contract
from tractile.inference.semirings.scaled import Scaled
from tractile.layers import Incidence
from tractile.layers.operator import Delta

FEW = settings(max_examples=30, deadline=None)


def read(semiring, x):
    """What an array of ordinary numbers means in a semiring, as ordinary numbers."""
    return (x > 0) * 1.0 if semiring in (Boolean, Counting) else x


def random_array(rng, *shape):
    return rng.random(shape) * 10.0 ** rng.integers(-8, 8, shape) * (rng.random(shape) < 0.75)


def lifted(sr, x, batched=True):
    return sr.lift(torch.tensor(x), batched=batched)


def check(sr, value, expected):
    assert sr.shape(value) == expected.shape
    assert sr.ndim(value) == expected.ndim
    assert_log_close(sr.log(value), log(expected))


@pytest.mark.parametrize("semiring", [Log, MaxProduct, MinPlus, Counting])
@pytest.mark.parametrize("elements", [1, 7, 40])
def test_a_large_einsum_is_made_in_blocks(semiring, elements):
    """Rows of the result one, a few or nearly all at a time; an operand without the axis of the rows stays whole."""
    rng, whole, blocks = np.random.default_rng(0), semiring(), semiring()
    blocks.block_elements = elements
    for a_labels, b_labels in (((0, 1), (1, 2)), ((0, 1), (2, 1)), ((1, 2), (0, 1)), ((1,), (0, 1, 2))):
        x, y = (
            lifted(whole, random_array(rng, *(3 + i for i in labels)), batched=True)
            for labels in (a_labels, b_labels)
        )
        out = sorted({*a_labels, *b_labels} - {1})
        once, often = (sr.einsum(x, a_labels, y, b_labels, out) for sr in (whole, blocks))
        assert_log_close(whole.log(once), blocks.log(often))


@pytest.mark.parametrize("semiring", [Real, Log, Counting])
@given(seed=st.integers(0, 2**31))
@FEW
def test_contraction_of_many_equals_numpys(semiring, seed):
    """Networks of tensors, identities and incidence matrices, contracted by the planned path."""
    rng, sr = np.random.default_rng(seed), semiring()
    sizes = rng.integers(1, 4, 6).tolist()
    operands, plain = [], []
    for _ in range(int(rng.integers(1, 10))):  # beyond the limit of the search, too
        if rng.random() < 0.7:
            labels = tuple(rng.permutation(6)[: rng.integers(1, 4)].tolist())
            a = random_array(rng, *(sizes[i] for i in labels))
            operands.append((lifted(sr, a, batched=False), labels))
            plain += [read(semiring, a), list(labels)]
            continue
        i, j = rng.permutation(6)[:2].tolist()
        m = (rng.random((sizes[i], sizes[j])) < 0.6) * 1.0
        row, col = np.nonzero(m)
        operands.append((Incidence(torch.tensor(row), torch.tensor(col), m.shape), (i, j)))
        plain += [m, [i, j]]
    used = sorted({i for _, labels in operands for i in labels})
    out = []
    for i in rng.permutation(used).tolist():
        if rng.random() < 0.3:  # under another name, by an identity
            operands.append((Delta(), (i, 6 + i) if rng.random() < 0.5 else (6 + i, i)))
            plain += [np.eye(sizes[i]), [i, 6 + i]]
            out += [6 + i]
        elif rng.random() < 0.4:
            out += [i]
    out = tuple(out)
    expected = np.einsum(*plain, list(out))
    check(sr, contract(sr, operands, out), np.asarray(expected))


# ------------------------------------------------------------------------------------------------------ dynamic range


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_real_holds_what_no_float_does(dtype):
    """Products of 10^4 factors of 10^±30, and sums of terms far apart."""
    sr, step = Real(), 1e-30
    value = sr.lift(torch.ones(2, 1, dtype=dtype), batched=True)
    small = sr.lift(torch.full((2, 1), step, dtype=dtype), batched=True)
    for _ in range(10_000):
        value = sr.mul(value, small)
    assert_log_close(sr.log(value), np.full((2, 1), 1e4 * math.log(step)), 1e-6)
    both = sr.add(value, sr.lift(torch.ones(2, 1, dtype=dtype), batched=True))
    assert_log_close(sr.log(both), np.zeros((2, 1)))
    joined = sr.cat([value, both])
    assert_log_close(sr.log(sr.reduce(joined, [0])), [1e4 * math.log(step) + math.log(2), math.log(2)], 1e-6)


def test_real_keeps_scales_in_double_precision():
    """3^15 by fourteen products in float32: the mantissa is one, and the scales add up in float64."""
    sr = Real()
    three = sr.lift(torch.full((1, 1), 3.0), batched=True)
    value = three
    for _ in range(14):
        value = sr.mul(value, three)
    assert math.isclose(sr.log(value).item(), 15 * math.log(3), rel_tol=1e-7)
    assert round(math.exp(sr.log(value).double().item())) == 3**15


def test_log_space_where_a_product_would_underflow():
    """A row whose terms are each e^−900 of its largest: max-shift and one product would give zero."""
    sr = Log()
    a = torch.tensor([[0.0, -900.0]], dtype=torch.float64)
    b = torch.tensor([[-torch.inf], [0.0]], dtype=torch.float64)
    c = torch.tensor([[-900.0], [0.0]], dtype=torch.float64)
    assert sr.einsum(a, [0, 1], b, [1, 2], [0, 2]).item() == -900
    assert_log_close(sr.einsum(a, [0, 1], c, [1, 2], [0, 2]).item(), -900 + math.log(2))


def test_counting_is_exact_and_boolean_does_not_overflow():
    counting, boolean = Counting(), Boolean()
    ones = torch.ones(3, 3)
    for sr in (counting, boolean):
        m = value = sr.lift(ones)
        for _ in range(30):
            value = sr.einsum(m, [0, 1], value, [1, 2], [0, 2])
        expected = 3**30 if sr is counting else 1
        assert value.unique().tolist() == [expected]
    for _ in range(400):
        value = boolean.einsum(boolean.lift(ones), [0, 1], value, [1, 2], [0, 2])
    assert value.unique().tolist() == [1]


def test_a_parameter_changed_in_place_is_lifted_again():
    sr, weight = Log(), torch.tensor([1.0, 2.0])
    first = sr.lift(weight).clone()
    assert sr.lift(weight) is sr.lift(weight)
    weight.mul_(2)
    assert_log_close(sr.lift(weight), first + math.log(2), 1e-6)
    matrix = torch.rand(3, 2)
    assert sr.lift(matrix.T) is sr.lift(matrix.T)
    assert_log_close(sr.lift(matrix.T), matrix.T.log(), 1e-6)
    assert_log_close(sr.lift(matrix), matrix.log(), 1e-6)


@pytest.mark.parametrize("dtypes", [(torch.float64, torch.float64), (torch.float32, torch.float64)])
def test_products_of_scaled_values_of_many_factors(dtypes):
    """Both sides have scales whose logarithms are not taken yet, far more than are kept; one column is zero."""
    sr, rng = Real(), np.random.default_rng(3)
    factors = rng.random((2, 50, 5, 3)) * 10.0 ** rng.integers(-30, -10, (2, 50, 1, 3))
    factors[0, 7, :, 1] = 0
    values, sums = [], np.zeros((5, 3))
    for side, dtype in zip(factors, dtypes, strict=True):
        value = sr.lift(torch.ones(5, 3, dtype=dtype), batched=True)
        for factor in side:
            tensor = torch.tensor(factor, dtype=dtype)
            value = sr.mul(value, sr.lift(tensor, batched=True))
            sums = sums + log(tensor.numpy().astype(np.float64))
        values.append(value)
    found = sr.log(sr.mul(*values))
    assert np.isneginf(found[:, 1].numpy()).all()
    np.testing.assert_allclose(found[:, [0, 2]], sums[:, [0, 2]], rtol=1e-6)


@pytest.mark.parametrize("columns", [(1, 3), (5, 3)])
def test_a_product_writes_to_neither_of_its_factors(columns):
    """Also where each entry has a scale of its own, so that an entry is its column's maximum."""
    a, b = (Scaled(torch.rand(5, 3) + 1, torch.rand(columns, dtype=torch.float64)) for _ in range(2))
    before = [x.mantissa.clone() for x in (a, b)]
    found = Real().log(Real().mul(a, b))
    for x, kept in zip((a, b), before, strict=True):
        assert torch.equal(x.mantissa, kept)
    torch.testing.assert_close(found, Real().log(a) + Real().log(b), rtol=1e-6, atol=1e-6)


def test_rows_that_are_put_together_are_rescaled_as_the_most_used_of_them():
    """Two factors of 1e-15 are in float32's range and a third is not, though the row beside has had none of them."""
    sr, factor = Real(), torch.full((1, 1), 1e-15)
    new = sr.lift(torch.ones(1, 1), batched=True)
    used = sr.along(factor, sr.along(factor, new, 0), 0)
    assert_log_close(sr.log(sr.along(factor, sr.cat([new, used]), 0))[0], log(np.array([1e-15, 1e-45])), 1e-6)
