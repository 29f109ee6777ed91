"""GCD and P-GCD satisfy the constraint within the budget every time, on the embedded model (see benchmarks/guarantee.py)."""

import pytest
from scripts import load


@pytest.mark.long
def test_every_particle_satisfies_at_the_smallest_budget_and_above():
    # `run` itself raises where one token less than the smallest budget is not refused before the model is called
    shares = load("benchmarks/guarantee.py").run(pairs=32, particles=2)
    assert len(shares["gcd"]) == 32
    assert shares["gcd"] == [1.0] * 32
    assert shares["pgcd"] == [1.0] * 32
    assert sum(shares["lcd"]) < 32  # the constraints are not so easy that masking alone would do
