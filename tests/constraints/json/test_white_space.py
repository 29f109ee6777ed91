"""At most N characters of white space in a row (``max_whitespace``): in each place, and without moving the least budget."""

import itertools
import json
import re

import pytest
from cases import SMALL, groups

import tractile as tt
from tractile.constraints import function_calls, json_schema

BLANKS = " \t\n\r"
TOKENS = re.compile(r'"[^"]*"|[\w.=]+\(?|.')
OBJECT = {"properties": {"a b": {"type": ["array", "object"]}, "c": {"enum": [1, "  "]}}, "type": "object"}
TEXT = '{"a b":[1,{"x":null}],"c":"  ","d e":{}}'
TOOLS = [
    {"name": name, "parameters": {"type": "object", "properties": {"a": OBJECT, "t": {"enum": ["  "]}}}}
    for name in ("f", "g")
]
JSON_CALL = '[{"name":"f","arguments":{"a":{"a b":[],"c":1},"t":"  "}},{"name":"g","arguments":{}}]'
PYTHON_CALL = '[f(a={"a b":[],"c":1},t="  "),g()]'


def gaps(text):
    """The tokens of a text, and the text with the white space of a list between them and at both ends."""
    tokens = TOKENS.findall(text)
    assert "".join(tokens) == text
    return tokens, lambda blanks: "".join(map("".join, itertools.zip_longest(blanks, tokens, fillvalue="")))


def check_each_gap(accepts, text, places, most):
    """In each place N characters may stand, and not one more; and N in all places at once."""
    assert places
    tokens, written = gaps(text)
    for place, blank in itertools.product(places, BLANKS):
        for number in (most, most + 1):
            blanks = [""] * (len(tokens) + 1)
            blanks[place] = (blank + BLANKS * most)[:number]
            assert accepts(written(blanks)) == (number == most), written(blanks)
    assert accepts(written([BLANKS[i % 4] * most * (i in places) for i in range(len(tokens) + 1)]))


@pytest.mark.parametrize("most", [0, 1, 3])
@pytest.mark.parametrize("order", ["any", "declared"])
@pytest.mark.parametrize("schema", [{}, OBJECT, {"const": json.loads(TEXT)}, OBJECT | {"minProperties": 3}])
def test_between_tokens_of_json(schema, order, most):
    accepts = json_schema(schema, whitespace="flexible", max_whitespace=most, order=order).accepts
    check_each_gap(accepts, TEXT, range(len(gaps(TEXT)[0]) + 1), most)


@pytest.mark.parametrize("syntax", ["json", "python"])
def test_between_tokens_of_calls(syntax):
    text = JSON_CALL if syntax == "json" else PYTHON_CALL
    accepts = function_calls(
        TOOLS, syntax=syntax, parallel=True, whitespace="flexible", max_whitespace=2
    ).accepts
    # a function and its bracket, a name and "=" are one token; none stands around the whole
    check_each_gap(accepts, text, range(1, len(gaps(text)[0])), 2)


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
