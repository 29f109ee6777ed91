"""Whether a constraint has a text, and whether a text can go on, is exact, however many items must differ."""

import pytest

import tractile as tt
from tractile.constraints import json_schema, regex

STRINGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
WORDS = [b'","', b'", "', b'["', b'"]', b'{"', b'": ', b"ab", b"aaaa", b"password"]
VOCAB = tt.Vocabulary([*(bytes([byte]) for byte in range(256)), *WORDS, None], eos_token_id=256 + len(WORDS))


def nested(depth):
    """Lists that differ of lists that differ, each of two."""
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "uniqueItems": True, "minItems": 2, "items": schema}
    return schema


@pytest.mark.parametrize("count", [2, 23, 25, 100, 1000])
@pytest.mark.parametrize("items", [{"type": "string"}, {"type": "number"}, {}])
def test_as_many_items_as_are_asked_for_differ(count, items):
    found = json_schema({"type": "array", "uniqueItems": True, "minItems": count, "items": items})
    assert not found.is_empty()
    assert found.accepts(
        "[" + ", ".join(f"{i}" if items != {"type": "string"} else f'"{i}"' for i in range(count)) + "]"
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "minProperties": 23},
        {"type": "object", "minProperties": 1000},
        {"type": "object", "minProperties": 5, "additionalProperties": {"type": "string", "minLength": 1000}},
        nested(2) | {"minItems": 4, "items": nested(1) | {"minItems": 4}},
        nested(4),
    ],
)
def test_members_and_lists_that_differ_are_there(schema):
    assert not json_schema(schema).is_empty()


@pytest.mark.parametrize("size", [30, 800])
def test_a_length_beside_a_schema_is_reached(size):
    closed = {
        "type": "object",
        "properties": {"e": {"type": "string"}},
        "required": ["e"],
        "additionalProperties": False,
    }
    both = json_schema(closed) & regex(f"(?s).{{{size},}}")
    assert not both.is_empty()
    text = '{"e": "' + "a" * size + '"}'
    assert both.accepts(text)
    assert not both.accepts(text[: size // 2] + '"}')
    query = tt.lcd(both.compile(VOCAB)).start()
    for byte in b'{"e": "':
        assert query.mask()[0, byte]
        query.advance([byte])
    assert query.mask()[0, ord("a")]
    assert not query.mask()[0, ord('"')]


def test_what_a_pattern_excludes_is_never_begun():
    """The end of the word may not come; a text that other bytes alone could save is none."""
    query = tt.lcd((json_schema({"type": "object"}) & ~regex(".*password.*")).compile(VOCAB)).start()
    for byte in b'{"a": "passwor':
        query.advance([byte])
    allowed = query.mask()[0]
    assert not allowed[ord("d")]
    assert allowed[ord("x")]
    assert (
        not tt.lcd((json_schema({"type": "object"}) & ~regex(".*password.*")).compile(VOCAB))
        .start()
        .mask()[0, 256 + 8]
    )


@pytest.mark.parametrize("text", ["[^a]{1,100}[^b]{1,100}", "[^a]{1,20}[^b]{1,20}[^c]{1,20}"])
def test_a_budget_takes_no_memory_that_the_constraint_does_not(text):
    found = regex(text).compile(VOCAB)
    grammar = tt.constraints.grammar("root ::= " + text.replace("}[", "} ["), syntax="gbnf").compile(VOCAB)
    least = found.fewest_after([])
    assert grammar.fewest_after([]) == least
    queries = [tt.gcd(each, horizon=least + 1).start() for each in (found, grammar)]
    assert (queries[0].mask() == queries[1].mask()).all()


def test_a_bound_that_may_not_be_the_least_is_said():
    strings, plain = (
        json_schema(e).compile(VOCAB) for e in (STRINGS | {"minItems": 25}, {"type": "integer"})
    )
    with pytest.raises(tt.errors.BudgetTooSmall, match="upper bound") as told:
        tt.gcd(strings, horizon=10).start()
    assert not told.value.exact
    assert tt.gcd(strings, horizon=1000).start().exact
    assert not tt.gcd(strings, horizon=told.value.needed).start().exact
    with pytest.raises(tt.errors.BudgetTooSmall) as exactly:
        tt.gcd(plain, horizon=1).start()
    assert exactly.value.exact
    assert tt.gcd(plain, horizon=2).start().exact
    assert tt.lcd(strings).start().exact


def ones(count, **more):
    """Objects of members that are 1, in any order."""
    names = [f"{letter}" for letter in "bcdefghij"[: count - 1]] + ["a"]
    properties = {name: {"const": 1} for name in names}
    return json_schema(
        {"type": "object", "properties": properties, "additionalProperties": False, **more}, whitespace="none"
    ), names


@pytest.mark.parametrize("count", [5, 6, 8])
def test_a_part_takes_more_tokens_by_members_that_may_be_absent(count):
    found = ones(count)[0].tokens(at_most=60, at_least=8).compile(VOCAB)
    assert found.accepts_tokens([*b'{"a":1,"b":1}', VOCAB.eos_token_id])


@pytest.mark.parametrize("count", [5, 6, 8])
def test_a_member_that_only_one_token_writes_comes_first(count):
    names = ones(count)[1]
    words = [None, *(bytes([byte]) for byte in range(256) if byte != ord("a")), b'{"a":1']
    found = ones(count, required=names)[0].compile(tt.Vocabulary(words, 0))
    assert found.fewest_after([]) == 2 + 6 * (count - 1) + 1
