"""JSON Schema as a program: what no finite automaton of reasonable size could hold."""

import itertools
import json

import pytest
from counting import at_most

import tractile as tt
from tractile.constraints.engine.bytes import Bytes


class States:
    """The states of a constraint over bytes; -1 is none."""

    def __init__(self, constraint):
        self.constraint, self.bytes = constraint, Bytes(constraint.program)
        self.accepts, self.moves, self.completion = (
            constraint.accepts,
            self.bytes.moves,
            self.bytes.completion,
        )

    def start(self):
        return -1 if self.bytes.is_empty else self.bytes.start

    def run(self, state, text):
        for byte in text:
            state = self.bytes.step(state, byte)
        return state


def made(schema, whitespace="space", order="any", open_objects=True, plain=False, digits=None):
    """The states of a schema, of which no value is lacking."""
    constraint = tt.constraints.json_schema(
        schema, whitespace=whitespace, order=order, open_objects=open_objects, formats="assert",
        numbers="plain" if plain else "any", max_digits=digits,
    )  # fmt: skip
    assert not any(cut.loses_values for cut in constraint.narrowed)
    return States(constraint)


def text(value):
    return json.dumps(value, ensure_ascii=False).encode()


def check(states, valid, invalid):
    for value in valid:
        assert states.accepts(text(value)), value
        assert states.accepts(json.dumps(value).encode()), value
    for value in invalid:
        assert not states.accepts(text(value)), value


def test_lengths_of_any_size():
    states = made({"type": "string", "minLength": 3, "maxLength": 100_000})
    check(states, ["abc", "é😀\n", "x" * 5_000], ["", "ab", 3])
    long = made({"type": "string", "maxLength": 4_000})
    check(long, ["x" * 4_000, "é" * 4_000], ["x" * 4_001])
    pattern = made({"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 3_001})
    check(pattern, ["abab", "ab" * 1_500], ["ab", "ab" * 1_501, "aba"])
    end = pattern.run(pattern.start(), b'"' + b"ab" * 1_500)
    assert [low for low, _, _ in pattern.moves(end)] == [34]
    odd = {"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 3}
    assert made(odd).start() < 0


def test_numbers_of_items_of_any_size():
    states = made({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3_000})
    check(states, [[1, 2], [1] * 3_000], [[1], [1] * 3_001])
    kinds = {"contains": {"type": "integer"}, "minContains": 2, "maxContains": 9, "maxItems": 20}
    states = made({"type": "array", "items": {"type": ["integer", "boolean"]}, **kinds})
    check(states, [[1, True, 2], [1] * 9 + [True] * 11], [[1, True], [1] * 10, [True] * 21])
    full = states.run(states.start(), b"[" + b", ".join([b"true"] * 18))
    assert states.completion(full) == b", 0, 0]"


def test_recursion_to_any_depth():
    states = made({"type": "array", "items": {"$ref": "#"}})
    assert states.accepts(b"[" * 900 + b"]" * 900)
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "additionalProperties": False}
    value = {}
    for _ in range(200):
        value = {"right": value, "left": {}}
    check(made({"type": "object", **tree}), [value], [{"up": {}}])
    assert made({"type": "object", **tree, "required": ["left"]}).start() < 0


def test_members_in_any_order():
    names = [f"m{i}" for i in range(40)]
    schema = {"properties": {name: {"const": i} for i, name in enumerate(names)}, "required": names[:20]}
    states = made({"type": "object", "additionalProperties": False, **schema})
    members = [(name, i) for i, name in enumerate(names)]
    check(states, [dict(members), dict(members[::-1]), dict(members[19::-1])], [dict(members[1:]), {"x": 1}])
    declared = made({"type": "object", "additionalProperties": False, **schema}, order="declared")
    check(declared, [dict(members), dict(members[:20])], [dict(members[::-1])])
    twice = b'{"m0": 0, "m0": 0'
    assert states.run(states.start(), twice) < 0


def test_every_order_of_few_members_and_their_numbers():
    inner = {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "null"}}
    value = {"a": 1, "b": "x", "c": None}
    for least, most in itertools.combinations_with_replacement(range(4), 2):
        schema = {"type": "object", "properties": inner, "required": ["b"], "additionalProperties": False}
        states = made({**schema, "minProperties": least, "maxProperties": most})
        for size in range(4):
            for names in itertools.permutations(value, size):
                valid = "b" in names and least <= size <= most
                assert states.start() >= 0 or not valid
                found = states.start() >= 0 and states.accepts(text({n: value[n] for n in names}))
                assert found == valid, (least, most, names)


def test_undeclared_members_that_count_are_not_written_twice():
    states = made({"type": "object", "minProperties": 3, "additionalProperties": {"type": "integer"}})
    check(states, [{"a": 1, "b": 1, "": 2}, {str(i): i for i in range(50)}], [{"a": 1, "b": 1}])
    assert not states.accepts(b'{"a": 1, "b": 1, "a": 2}')
    assert not states.accepts(b'{"a": 1, "b": 1, "\\u00e9": 2, "c": 1, "": "x"}')
    one = made({"type": "object", "not": {"additionalProperties": {"type": "string"}}})
    check(one, [{"a": "x", "b": 1}, {"b": 1, "c": 2}], [{}, {"a": "x"}])
    assert not one.accepts(b'{"a": 1, "a": "x"}')
    assert not one.accepts(b'{"a": "x", "a": 1}')


def test_distinct_items():
    listed = made({"type": "array", "items": {"enum": list(range(100))}, "uniqueItems": True})
    check(listed, [list(range(100)), list(range(99, -1, -1))], [[1, 1], [*range(100), 5]])
    end = listed.run(listed.start(), text(list(range(99)))[:-1])
    assert listed.completion(end) == b"]"
    assert listed.run(end, b", 98") < 0
    assert listed.run(end, b", 99]") >= 0
    words = made({"type": "array", "items": {"type": "string"}, "uniqueItems": True})
    check(words, [["ab", "ba", "a", "", "abc"], [str(i) for i in range(60)]], [["a", "b", "a"], ["é", "é"]])
    assert not words.accepts('["é", "\\u00e9"]'.encode())
    anything = made({"type": "array", "uniqueItems": True})
    check(
        anything,
        [[1, True, "1", None], [{"a": 1}, {"a": 2}]],
        [[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]],
    )
    both = {"items": {"enum": [1, 2, "a"]}, "contains": {"type": "string"}, "minItems": 3}
    check(made({"type": "array", "uniqueItems": True, **both}), [["a", 2, 1]], [[1, 2], [1, 2, 1]])
    assert (
        made({"type": "array", "uniqueItems": True, "minItems": 3, "items": {"type": "boolean"}}).start() < 0
    )
    short = made({"type": "array", "uniqueItems": True, "items": {"type": "string", "maxLength": 1}})
    end = short.run(short.start(), b'["", "')
    assert all(low != 34 for low, _, _ in short.moves(end))


def test_white_space_and_notation():
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    flexible = made(schema, "flexible")
    assert flexible.accepts(b' { "a" :\n[ 1 ,2 ] , "b":\ttrue } ')
    assert flexible.accepts(b"{}")
    assert made(schema, "none").accepts(b'{"a":[1,2],"b":true}')
    assert not made(schema, "none").accepts(b'{"a": [1,2]}')
    plain = made({"type": "integer"}, plain=True, digits=3)
    assert plain.accepts(b"999")
    assert not plain.accepts(b"1000")
    assert not plain.accepts(b"1.0")
    closed = made(schema, open_objects=False)
    assert not closed.accepts(b'{"b": 1}')


def test_what_is_not_supported_is_said_at_once():
    """Wherever it is, and not when a text gets there."""
    inner = {"not": {"unevaluatedProperties": False}}
    schema = {"type": "object", "properties": {"a": {"properties": {"b": {"properties": {"c": inner}}}}}}
    with pytest.raises(tt.errors.UnsupportedConstraint, match="unevaluatedProperties"):
        made(schema)


def test_what_is_lacking_is_said():
    def narrowed(schema):
        return tt.constraints.json_schema(schema, on_narrowed="ignore").narrowed

    assert [(n.keyword, n.loses_values) for n in narrowed({"type": "number", "multipleOf": 0.5})] == [
        ("numbers", False)
    ]
    assert [n.path for n in narrowed({"properties": {"a": {"enum": ["\ud800"]}}})] == ["/properties/a/enum"]
    assert not narrowed(
        {"properties": {"a": {"type": "string", "pattern": "^\\d+$", "maxLength": 9_999}}, "type": "object"}
    )


def test_names_of_many_letters_are_not_listed_one_by_one():
    """Names that a pattern does not match have 256 letters or more."""
    constraint = tt.constraints.json_schema({"type": "object", "patternProperties": {"^.{1,255}$": {}}})
    words = [bytes([byte]) for byte in range(256)]
    automaton = constraint.compile(tt.Vocabulary([*words, None], eos_token_id=256))
    with at_most(2_000_000):
        for text in (b"{}", b'{"ab": 1}', b'{"a\xc3\xa9 c": {"d": []}}'):
            query = tt.gcd(automaton, len(text) + 1).start()
            for byte in text:
                assert query.mask()[0, byte]
                query.advance([byte])
            assert query.mask()[0].nonzero().flatten().tolist() == [256]
        query = tt.gcd(automaton, 400).start()
        for byte in b'{"' + b"x" * 255:
            query.advance([byte])
        assert {34, ord("x")} <= set(query.mask()[0].nonzero().flatten().tolist())


def test_a_schema_and_a_pattern_together_lose_nothing():
    """``&`` and ``-`` keep any depth and length where one side is regular; what no text has is empty."""
    deep, long = "[" * 40 + "]" * 40, '["' + "a" * 5_000 + '"]'
    both = tt.constraints.json_schema({"type": "array"}) & tt.constraints.regex("[^x]*")
    rest = tt.constraints.json_schema({"type": "array"}) - tt.constraints.regex(".*x.*")
    for constraint in (both, rest):
        assert not constraint.narrowed
        assert constraint.accepts(deep)
        assert constraint.accepts(long)
        assert not constraint.accepts('["x"]')
        assert constraint.shortest() == "[]"
    assert (tt.constraints.json_schema({"const": "xx"}) & tt.constraints.regex("[^x]*")).is_empty()
    words = [bytes([byte]) for byte in range(256)] + [b'["', b'x"', b'a"']
    query = tt.gcd(both.compile(tt.Vocabulary([*words, None], eos_token_id=len(words))), 30).start()
    query.advance([256])
    allowed = query.mask()[0]
    assert [bool(allowed[token]) for token in (257, 258, ord("x"), ord("a"))] == [False, True, False, True]
