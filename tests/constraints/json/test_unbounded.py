"""JSON Schema as a program: what no finite automaton of reasonable size could hold."""

import itertools
import json

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


def made(schema):
    """The states of a schema, of which no value is lacking."""
    constraint = tt.constraints.json_schema(schema, order="any", formats="assert")
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
    assert not states.accepts(b'{"\xc3\xa9": 1, "b": 1, "\\u00e9": 2}')
    one = made({"type": "object", "not": {"additionalProperties": {"type": "string"}}})
    check(one, [{"a": "x", "b": 1}, {"b": 1, "c": 2}], [{}, {"a": "x"}])
    assert not one.accepts(b'{"a": 1, "a": "x"}')


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
