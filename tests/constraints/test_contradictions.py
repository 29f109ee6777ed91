"""Errors of constraints without a text name what contradicts."""

import pytest

import tractile as tt

C = tt.constraints
VOCAB = tt.Vocabulary([*[bytes([b]) for b in range(256)], None], eos_token_id=256)


def a(value, **more):
    return {"type": "object", "required": ["a"], "properties": {"a": value, "b": {"type": "string"}}, **more}


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: C.keywords(["dog"]) & C.forbidden_words(["dog"]), "keywords(['dog']) and forbidden_words(['dog'])"),
        (lambda: C.keywords(["dog"]) & C.text_length(0, 50) & C.forbidden_words(["dog"]), "keywords(['dog']) and forbidden"),
        (lambda: C.text_length(0, 9) & (C.regex("a+") & C.literal("b")), "regex('a+') and literal('b') contradict"),
        (lambda: C.json_schema({"type": "string"}) & C.regex("[0-9]+"), "json_schema({'type': 'string'}) and regex('[0-9]+')"),
        (lambda: C.json_schema({"type": "integer", "minimum": 5, "maximum": 4}), ": minimum 5 and maximum 4 contradict"),
        (lambda: C.json_schema(a({"type": "integer", "minimum": 5, "maximum": 4})), "/properties/a: minimum 5 and maximum 4"),
        (lambda: C.json_schema({"allOf": [{"type": "number", "minimum": 5}, {"maximum": 4}]}),
         "/allOf/0/minimum 5 and /allOf/1/maximum 4"),
        (lambda: C.json_schema({"type": "string", "enum": [1, 2]}), "type 'string' and enum [1, 2] contradict"),
        (lambda: C.json_schema({"$ref": "#/$defs/x", "$defs": {"x": {"const": "b", "pattern": "^a"}}}),
         "/$defs/x: const 'b' and pattern '^a'"),
        (lambda: C.json_schema(False), "the schema is false"),
    ],
)  # fmt: skip
def test_the_parts_that_contradict_are_named(make, parts):
    constraint = make()
    for asked in (constraint.shortest, lambda: constraint.compile(VOCAB)):
        with pytest.raises(tt.errors.EmptyLanguage, match="no text satisfies the constraint") as caught:
            asked()
        assert parts in str(caught.value)


def test_constraints_that_contradict_only_together_are_all_named():
    found = C.regex("[ab]") & C.regex("[bc]") & C.regex("[ac]")
    with pytest.raises(
        tt.errors.EmptyLanguage, match=r"regex\('\[ab\]'\), regex\('\[bc\]'\), regex\('\[ac\]'\) contradict"
    ):
        found.compile(VOCAB)


END = r"/\$ref '#{}' needs a value of the same schema in each value, without end"
CLOSED = {"type": "object", "required": ["a"], "additionalProperties": False}
OWN = {"$ref": "#"}
OF_THE_OTHER = {"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["x"]} | {
    "$defs": {
        "n": {**CLOSED, "properties": {"a": {"$ref": "#/$defs/m"}}},
        "m": {"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 1},
    }
}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({**CLOSED, "properties": {"a": OWN}}, "/properties/a" + END.format("")),
        ({"type": "array", "items": OWN, "minItems": 1}, "/items" + END.format("")),
        ({"type": "array", "contains": OWN}, "/contains" + END.format("")),
        ({"type": "object", "minProperties": 1, "additionalProperties": OWN}, "/additionalProperties" + END.format("")),
        (OF_THE_OTHER, r"/\$defs/n/properties/a" + END.format(r"/\$defs/m")),
        ({**CLOSED, "properties": {"a": {"anyOf": [OWN, False]}, "b": OWN}}, "/properties/a/anyOf/0" + END.format("")),
    ],
)  # fmt: skip
def test_a_schema_that_needs_itself_without_end_is_named(schema, place):
    with pytest.raises(tt.errors.EmptyLanguage, match=place):
        C.json_schema(schema).shortest()


def test_a_contradiction_within_a_schema_that_refers_to_itself_is_named_as_one():
    members = {"a": OWN, "b": {"type": "integer", "minimum": 3, "maximum": 2}}
    with pytest.raises(tt.errors.EmptyLanguage, match="/properties/b: minimum 3 and maximum 2 contradict"):
        C.json_schema({"type": "object", "properties": members, "required": ["b"]}).shortest()
