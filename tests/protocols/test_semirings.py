"""Every semiring keeps its laws: those of the library, and one that an outsider writes."""

import pytest
from extensions import page

from tractile.inference import Boolean, Counting, Log, MaxProduct, MinPlus, Real
from tractile.inference.semirings.linear import LinearSemiring, Residue
from tractile.testing import check_semiring

SEMIRINGS = [
    Real(),
    Log(),
    Boolean(),
    Counting(),
    MaxProduct(),
    MinPlus(),
    Residue(97),
    LinearSemiring(),
    page.PathEntropy(),
]


@pytest.mark.parametrize("semiring", SEMIRINGS, ids=lambda semiring: type(semiring).__name__)
def test_a_semiring_keeps_its_laws(semiring):
    for seed in range(10):
        check_semiring(semiring, seed=seed)
