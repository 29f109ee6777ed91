"""Numbers of JSON are compared exactly, whatever their digits and exponents; items that must differ, however deep they nest."""

import json

import jsonschema
import pytest

import tractile as tt

BYTES = [bytes([b]) for b in range(256)]
VOCAB = tt.Vocabulary([*BYTES, None], eos_token_id=256)
DISTINCT = {"type": "array", "uniqueItems": True}


def constraint(schema, **options):
    return tt.constraints.json_schema(schema, whitespace="none", **options)


def allowed(schema, text, budget=10**6):
    """The bytes that the mask allows after a text; every byte of the text must be allowed in its turn."""
    query = tt.gcd(constraint(schema).compile(VOCAB), budget).start()
    for byte in text:
        assert query.mask()[0, byte], chr(byte)
        query.advance([byte])
    return {bytes([b]) for b in query.mask()[0].nonzero().flatten().tolist() if b < 256}


SPELLINGS = [
    ["0", "-0", "0.0", "0e99999999999999999999", "-0E-7"],
    ["1e9999999999999999999", "10E9999999999999999998", "0.1e10000000000000000000", "1.0e+9999999999999999999"],
    ["1e-9999999999999999999", "0.001e-9999999999999999996"],
    ["1e99999999", "1" + "0" * 50 + "e99999949"],
    ["1.22E441112327059258", "122e441112327059256"],
    ["-1e99999999"], ["12", "1.2e1", "120e-1", "12.000"], ["1" + "0" * 40, "1e40"], ["1" + "0" * 39 + "1"],
]  # fmt: skip


def test_numbers_with_exponents_of_any_size_are_compared():
    found = constraint(DISTINCT | {"items": {"type": "number"}})
    for i, ours in enumerate(SPELLINGS):
        for j, theirs in enumerate(SPELLINGS):
            for text in theirs:
                assert found.accepts(f"[{ours[0]},{text}]") == (i != j), (ours[0][:60], text[:60])


@pytest.mark.parametrize(
    "begun",
    [
        "[1e9999999999999999999,",
        "[1e99999999,1",
        "[1.22E441112327059258,",
        "[1e-9999999999999999999,0.",
        "[0e99999999999999999,",
    ],
)
def test_masks_after_numbers_with_large_exponents(begun):
    assert b"0" in allowed(DISTINCT, begun.encode())


def test_a_number_may_not_end_as_one_that_was_seen():
    assert not {b",", b"]"} & allowed(DISTINCT, b"[1e99999999,10e99999998")
    assert {b",", b"]"} <= allowed(DISTINCT, b"[1e99999999,10e9999999")
    assert not {b",", b"]"} & allowed(DISTINCT, b"[12,1.20e1")


def nested(text, depth):
    return "[" * depth + text + "]" * depth


def test_numbers_and_items_of_any_length_are_read():
    found = constraint(DISTINCT)
    assert found.accepts(f"[{nested('1', 200)},1e{'9' * 5_000},1]")


def test_masks_after_items_that_nest_deep():
    deep = nested("1", 200)
    begun = f"[{deep},".encode()
    assert {b"[", b"1"} <= allowed(DISTINCT, begun)


def test_masks_of_items_are_those_of_what_may_still_be_read():
    """Byte by byte, over every prefix: a byte is allowed exactly if some valid array goes on with it."""
    texts = [
        '[{"a":[1,2],"b":"x"},{"b":"x","a":[1,20]}]',
        "[[1,[2]],[1,[2,3]]]",
        "[[],[[]],{},0.5,5e-2]",
        '["a",["a"],"ab"]',
    ]
    for text in texts:
        query = tt.gcd(constraint(DISTINCT).compile(VOCAB), 10**6).start()
        for byte in text.encode():
            assert query.mask()[0, byte], text
            query.advance([byte])
        assert query.mask()[0, 256]
        assert jsonschema.Draft202012Validator(DISTINCT).is_valid(json.loads(text))
