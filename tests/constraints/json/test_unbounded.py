"""JSON Schema as a program: what no finite automaton of reasonable size could hold."""

import json

from counting import at_most

import tractile as tt


def text(value):
    return json.dumps(value, ensure_ascii=False).encode()


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
