"""How JSON is written: separators and escapes, as ``json.dumps`` writes them."""

import json
import random

import numpy as np
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


@pytest.mark.long
@pytest.mark.parametrize(
    "items",
    [
        {"uniqueItems": True, "items": {"enum": ["a", "b", 1]}},
        {"uniqueItems": True, "items": {"type": "array", "items": {"const": 1}, "maxItems": 2}},
        {"uniqueItems": True, "minItems": 2, "items": {"type": "object", "maxProperties": 1}},
        {"not": {"uniqueItems": True}, "items": {"enum": ["a", "b"]}, "minItems": 1},
        {"contains": {"const": 1}, "minContains": 2, "maxItems": 4, "items": {"enum": [1, 2]}},
        {"minItems": 3, "items": {"type": "array", "minItems": 1, "items": {"const": 1}}},
    ],
)
def test_indented_arrays(items):
    schema = {"type": "object", "properties": {"a": {"type": "array", **items}}, "required": ["a"]}
    indented, plain = (json_schema(schema, indent=2), json_schema(schema))
    values = [
        [], ["a"], ["a", "b"], ["b", "b"], [1, 1], [1, 2, 1], [2, 2], [[], [1]], [[1], [1], [1]], [[1], [1, 1]],
    ]  # fmt: skip
    values += [
        [{}, {"a": 1}], [{"a": {"b": 1}}, {"a": {"b": 1}}], ["a", "b", 1, "a"], [1, 2, 2, 1], [[1], [], [1, 1]],
    ]  # fmt: skip
    for value in values:
        text = json.dumps({"a": value}, indent=2)
        assert indented.accepts(text) == plain.accepts(json.dumps({"a": value})), text
        if not indented.narrowed and not indented.finite.narrowed:
            assert indented.accepts(text) == indented.finite.accepts(text), text
    shortest = indented.shortest()
    assert json.dumps(json.loads(shortest), indent=2) == shortest
    fa = indented.compile(BYTES)
    rng = random.Random(0)
    for budget in (80, 100, 140):
        query, text = tt.gcd(fa, budget).start(), b""
        while True:
            allowed = np.flatnonzero(query.mask()[0].numpy())
            token = int(rng.choice(allowed))
            query.advance([token])
            if not token:
                break
            text += BYTES.token_bytes[token]
        value = json.loads(text)
        assert plain.accepts(json.dumps(value)) or "e" in text.decode() or "." in text.decode(), text
        assert indented.accepts(text.decode("utf-8", "replace")), text


def test_a_guide_of_what_nests_forgets_deep_indents():
    for schema in (TREE, True):
        fa = json_schema(schema, indent=2).compile(BYTES)
        hmm = tt.HMM.random(4, len(BYTES), seed=0)
        query = tt.pgcd(hmm, fa, 200).start()
        for byte in b'{\n  "name"' if schema is TREE else b"[\n  [\n    [\n      [\n        [\n":
            assert query.mask()[0, byte + 1]
            assert torch.isfinite(query.scores()[0, byte + 1])
            query.advance([byte + 1])
