"""Values of a JSON Schema as nodes: a bound on white space does not move the least budget."""

import json

import pytest
from cases import SMALL, groups

import tractile as tt

(VALUES,) = (cases for name, cases in groups().items() if name.startswith("json_values: Small values"))


@pytest.mark.parametrize("case", [case for case in VALUES if "indent" not in case.options], ids=repr)
def test_bounded_white_space_leaves_the_least_budget(case):
    options, least = case.options | {"whitespace": "flexible", "on_narrowed": "ignore"}, []
    for most in (None, 2):
        constraint = tt.constraints.json_schema(json.loads(case.given), **options, max_whitespace=most)
        with pytest.raises(tt.errors.BudgetTooSmall) as told:
            tt.gcd(constraint.compile(SMALL), 0).start(1)
        least.append((told.value.needed, constraint.shortest()))
    assert least[0] == least[1]
