"""How JSON is written: separators and escapes, as ``json.dumps`` writes them."""

import json

import pytest
import torch

import tractile as tt
from tractile.constraints import json_schema

BYTES = tt.Vocabulary(
    [None, *(bytes([b]) for b in range(256)), b'":', b" ,", b", ", b"\\u0", b"1,"], eos_token_id=0
)
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": "integer"}},
        "b/é": {"type": "string", "maxLength": 3},
        "c": {"enum": ["ü/", 1, None]},
    },
    "required": ["a", "b/é"],
    "additionalProperties": False,
}
VALUE = {"a": [1, -20, 3], "b/é": 'x"é', "c": "ü/"}


INDENTS = [0, 1, 2, "\t", " \t"]
TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
    "additionalProperties": False,
}


def leaf(depth):
    return {"name": "x", "children": [leaf(depth - 1)] * (depth % 2 + 1) if depth else []}


@pytest.mark.parametrize("indent", INDENTS)
@pytest.mark.parametrize("separators", [None, (",", ":"), (" , ", " : ")])
def test_indented_texts_are_those_of_json_dumps(indent, separators):
    cases = [
        (SCHEMA, [VALUE, {"a": [], "b/é": ""}]),
        (TREE, [leaf(depth) for depth in range(5)]),
        (
            True,
            [[], {}, [[]], {"a": {}}, {"a": [1, {"b": [[None]]}], "c": "{[,:]}"}, 3, "\n", [[[[[[{}]]]]]]],
        ),
    ]
    for schema, values in cases:
        constraint = json_schema(schema, indent=indent, separators=separators, escapes="minimal")
        for value in values:
            text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)
            assert constraint.accepts(text), text
            others = {json.dumps(value, indent=other, ensure_ascii=False) for other in [*INDENTS, None]}
            others |= {
                text.replace("\n", "\n ", 1),
                text.replace("\n ", "\n", 1),
                text + "\n",
                text.replace("[]", "[\n]"),
            }
            for other in others - {text, json.dumps(value, separators=separators)}:
                same = json.dumps(json.loads(other), indent=indent, separators=separators, ensure_ascii=False)
                assert constraint.accepts(other) == (other == same), other


def test_a_guide_of_what_nests_forgets_deep_indents():
    for schema in (TREE, True):
        fa = json_schema(schema, indent=2).compile(BYTES)
        hmm = tt.HMM.random(4, len(BYTES), seed=0)
        query = tt.pgcd(hmm, fa, 200).start()
        for byte in b'{\n  "name"' if schema is TREE else b"[\n  [\n    [\n      [\n        [\n":
            assert query.mask()[0, byte + 1]
            assert torch.isfinite(query.scores()[0, byte + 1])
            query.advance([byte + 1])
