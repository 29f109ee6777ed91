"""Where a text stops to satisfy a constraint, against a search in the accepted texts."""

import json
from typing import Literal

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

import tractile as tt
from tractile.cli import app
from tractile.errors import BudgetTooSmall, EmptyLanguage

TEXTS = {
    "(cat|dog)s?": ["cat", "cats", "dog", "dogs"],
    "a{2,3}b?c": ["aac", "aabc", "aaac", "aaabc"],
    "[a-c]x|[a-c]yy|": ["", "ax", "bx", "cx", "ayy", "byy", "cyy"],
    "é|è|ab": ["é", "è", "ab"],
    "(ab|abc)(d|cd)": ["abd", "abcd", "abccd"],
}


@pytest.mark.parametrize("pattern", TEXTS)
def test_the_place_is_that_of_a_search_in_all_texts(pattern):
    wanted, accepted = tt.constraints.regex(pattern), TEXTS[pattern]
    texts = {
        a[:n] + more
        for a in accepted
        for n in range(len(a) + 1)
        for more in ("", "a", "x", "é", "ß", "sd", "cd")
    }
    for text in sorted(texts):
        why = tt.explain(wanted, text)
        begins = max(n for n in range(len(text) + 1) if any(a.startswith(text[:n]) for a in accepted))
        assert why.accepted == (text in accepted)
        assert why.before == text[:begins]
        assert why.at == len(why.before.encode())
        assert why.found == text[begins : begins + 1]
        assert why.may_end == (why.before in accepted)
        assert wanted.accepts(why.before + why.completion)
        assert ("satisfies" in str(why)) == why.accepted
        follow = {a[begins] for a in accepted if a.startswith(why.before) and len(a) > begins}
        for letter in follow:
            assert any(
                one.startswith(letter)
                or (one == "other characters" and not letter.isascii())
                or (len(one) == 3 and one[1] == "–" and one[0] <= letter <= one[2])
                for one in why.could
            )
        assert bool(follow) == bool(why.could)


class Pet(BaseModel):
    kind: str
    age: int


SCHEMA = {
    "type": "object",
    "properties": {
        "pets": {"type": "array", "items": {"type": "object", "properties": {"age": {"type": "integer"}}}}
    },
    "required": ["pets"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "at", "path", "found"),
    [
        ('{"pets": [{"age": 3}, {"age": "x"}]}', 30, "/pets/1/age", '"'),
        ('{"pets": [{"age": 3}], "dogs": 1}', 21, "/pets", ","),
        ('{"pats": []}', 3, "", "a"),
        ('{"pets": [', 10, "/pets/0", ""),
    ],
)
def test_json_has_the_place_in_the_value(text, at, path, found):
    why = tt.explain(SCHEMA, text)
    assert not why.accepted
    assert (why.path, why.found, why.before) == (path, found, text[: why.at])
    assert why.at == at
    json.loads(why.before + why.completion)
    assert why.to_dict()["at"] == at


def test_words_that_must_come_are_shown_whole():
    why = tt.explain(Pet, '{"kind": "cat", ')
    assert any("age" in one for one in why.could)
    assert "a shortest end" in str(why)
    assert tt.explain(Pet, '{"kind": "cat", "age": 3}').accepted
    assert str(tt.explain(Pet, '{"kind": "cat", "age": 3}')) == "satisfies the constraint"


def test_nothing_explains_what_nothing_satisfies():
    with pytest.raises(EmptyLanguage):
        tt.explain(tt.constraints.regex("a") & tt.constraints.regex("b"), "a")


# ------------------------------------------------------------ the schema or rule that wants what could stand there


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Owner(BaseModel):
    pet: Cat | Dog
    scores: dict[str, int] = {}


COMBINED = {
    "properties": {"a": {"$ref": "#/$defs/A"}, "~/": {"type": "null"}},
    "patternProperties": {"^x-": {"allOf": [{"type": "integer"}, {"minimum": 5}]}},
    "additionalProperties": {"type": "boolean"},
    "$defs": {"A": {"prefixItems": [{"const": 1}], "items": {"enum": ["x", "y"]}}},
    "type": "object",
}


@pytest.mark.parametrize(
    ("output", "text", "wanted"),
    [
        (SCHEMA, '{"pets": [{"age": 3}, {"age": "x"}]}', ["/properties/pets/items/properties/age"]),
        (SCHEMA, '{"pets": [{"age": 3}], "dogs": 1}', [""]),
        (SCHEMA, '{"pats": []}', ["/properties/pets"]),
        (SCHEMA, "[]", [""]),
        (Owner, '{"pet": {"kind": "dog", "name": 3', ["/$defs/Dog/properties/name"]),
        (Owner, '{"pet": {"kind": "dog", "lives": 3', ["/$defs/Dog/properties/name"]),
        (Owner, '{"pet": 3', ["/$defs/Cat", "/$defs/Dog"]),
        (Owner, '{"scores": {"Tom": 3}', ["/properties/pet"]),
        (
            Owner,
            '{"pet": {"kind": "dog", "name": ""}, "scores": {"Tom": "x"',
            ["/properties/scores/additionalProperties"],
        ),
        (COMBINED, '{"a": [1, "z"]', ["/$defs/A/items"]),
        (COMBINED, '{"a": [2]', ["/$defs/A/prefixItems/0"]),
        (COMBINED, '{"~/": 3', ["/properties/~0~1"]),
        (COMBINED, '{"x-y": 3}', ["/patternProperties/^x-/allOf/0", "/patternProperties/^x-/allOf/1"]),
        (COMBINED, '{"other": 3}', ["/additionalProperties"]),
        (COMBINED, '{"~', ["/properties/~0~1"]),
    ],
)
def test_the_schema_that_wants_what_could_stand_there_is_named(output, text, wanted):
    why = tt.explain(output, text)
    assert not why.accepted
    assert sorted(why.wanted_by) == sorted(wanted)
    assert why.to_dict()["wanted_by"] == list(why.wanted_by)
    assert f"as wanted by: {wanted[0] or '/'}" in str(why) or len(wanted) > 1


@pytest.mark.parametrize("text", ['{"kind": "dog", "name": "T", "lives": 3}', '{"kind": "dog", "name": 3}'])
def test_alternatives_that_the_text_has_ruled_out_want_nothing(text):
    dog = {"properties": {"kind": {"const": "dog"}, "name": {"type": "string"}}}
    cat = {"properties": {"kind": {"const": "cat"}, "name": {"type": "string"}, "lives": {"type": "integer"}}}
    for key in ("anyOf", "oneOf"):
        schema = {key: [dict(each, type="object", additionalProperties=False) for each in (cat, dog)]}
        wanted = tt.explain(schema, text).wanted_by
        assert wanted
        assert all(each.startswith(f"/{key}/1") for each in wanted)


@pytest.mark.parametrize("writing", [{}, {"whitespace": "none"}, {"whitespace": "flexible"}, {"indent": 2}])
def test_members_that_may_come_are_named_however_they_are_written(writing):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "ab": {"type": "integer"}, "b": {"type": "null"}},
        "required": ["a", "ab", "b"],
        "additionalProperties": False,
    }
    found = tt.constraints.json_schema(schema, order="declared", **writing)
    text = found.shortest()
    wanted = {"a": "/properties/a", "ab": "/properties/ab", "b": "/properties/b"}
    for n in range(1, len(text)):
        why = tt.explain(found, text[:n])
        named = [name for name in wanted if text.find(f'"{name}":') + 2 + len(name) >= n]
        in_value = text[:n].rstrip()[-1].isdigit() or text[:n].rstrip()[-1] in ":ul"
        assert len(why.wanted_by) == 1
        assert in_value or why.wanted_by == ((wanted[named[0]],) if named else why.wanted_by)


GRAMMARS = {
    "lark": """start: pair ("," pair)*
pair: NAME ":" value
value: "(" start ")" | NUMBER
NAME: /[a-z]+/
NUMBER: /[0-9]+/
%ignore " "
""",
    "gbnf": """root ::= pair ("," pair)*
pair ::= NAME ":" value
value ::= "(" root ")" | NUMBER
NAME ::= [a-z]+
NUMBER ::= [0-9]+
""",
}


@pytest.mark.parametrize("syntax", GRAMMARS)
def test_the_rule_that_wants_what_could_stand_there_is_named(syntax):
    found = tt.constraints.grammar(GRAMMARS[syntax], syntax=syntax)
    first = "start" if syntax == "lark" else "root"
    assert tt.explain(found, "a:1,b:(c:x)").wanted_by == ("rule NUMBER (line 5)", "rule value (line 3)")
    assert tt.explain(found, "a:1,2").wanted_by == ("rule NAME (line 4)",)
    assert set(tt.explain(found, "a:(b:1").wanted_by) == {
        "rule NUMBER (line 5)",
        "rule value (line 3)",
        f"rule {first} (line 1)",
    }


def test_rules_that_begin_with_themselves_or_are_empty_are_named():
    found = tt.constraints.grammar(
        'start: start "+" term | term\nterm: sign NUMBER\nsign: "-"?\nNUMBER: /[0-9]+/'
    )
    assert set(tt.explain(found, "1+-2+x").wanted_by) == {"rule NUMBER (line 4)", "rule sign (line 3)"}
    assert set(tt.explain(found, "1x").wanted_by) == {"rule NUMBER (line 4)", "rule start (line 1)"}


def test_parts_of_a_combined_constraint_are_named():
    schema = tt.constraints.json_schema(SCHEMA)
    assert tt.explain(tt.constraints.literal("A: ") + schema, 'A: {"pets": 3').wanted_by == (
        "/properties/pets",
    )
    either = schema | tt.constraints.grammar("start: NO\nNO: /no+/")
    assert tt.explain(either, "nx").wanted_by == ("rule NO (line 2)",)
    assert tt.explain(either.tokens(at_most=20), '{"pets": 3').wanted_by == ("/properties/pets",)
    assert tt.explain(schema & tt.constraints.regex("[^3]*"), '{"pets": 3').wanted_by == ("/properties/pets",)
    assert tt.explain(tt.constraints.regex("a"), "b").wanted_by == ()


def test_the_schema_of_an_argument_is_named():
    def weather(city: str, days: list[int]) -> None: ...

    def other(city: int) -> None: ...

    calls = tt.constraints.function_calls([other, weather], parallel=True)
    text = '[{"name": "other", "arguments": {"city": 3}}, {"name": "weather", "arguments": {"city": "O", "days": [1, "2"]'
    assert tt.explain(calls, text).wanted_by == ("tools[1].parameters/properties/days/items",)
    assert tt.explain([other, weather], '{"name": "other", "arguments": {"city": "').wanted_by == (
        "tools[0].parameters/properties/city",
    )
    assert tt.explain([other, weather], '{"name": "x').wanted_by == ()


def test_on_the_command_line():
    run = CliRunner().invoke(app, ["compile", "--regex", "(cat|dog)s?", "--explain", "cap"])
    assert run.exit_code == 1
    assert "stops at byte 2: 'ca' goes on with 'p'" in run.output
    run = CliRunner().invoke(app, ["compile", "--regex", "(cat|dog)s?", "--explain", "cats", "--json"])
    assert run.exit_code == 0
    assert json.loads(run.output)["accepted"] is True


# ------------------------------------------------------------ a budget that is too small carries a text that shows it

MODEL, TOKENIZER = tt.embedded.load_lm()


@pytest.mark.parametrize(
    "output", [Pet, tt.constraints.regex(" [a-z]{30,60}"), tt.constraints.any_of("an umbrella")]
)
def test_a_budget_that_is_too_small_carries_a_shortest_text(output):
    kind = tt.constraints.output_type(output)
    prompt = TOKENIZER("Tom has", return_tensors="pt", return_token_type_ids=False)

    def masked():
        processor = tt.ConstraintLogitsProcessor(output, tokenizer=TOKENIZER, max_new_tokens=2)
        MODEL.generate(**prompt, max_new_tokens=2, logits_processor=[processor])

    for ask in (lambda: tt.generate(MODEL, TOKENIZER, "Tom has", output, max_new_tokens=2), masked):
        with pytest.raises(BudgetTooSmall) as raised:
            ask()
        error = raised.value
        assert len(error.tokens) == error.needed
        assert error.tokens[-1] == TOKENIZER.eos_token_id
        assert kind.accepts(error.text)
        assert kind.constraint.accepts(error.text)
        assert kind.constraint.compile(TOKENIZER).accepts_tokens(error.tokens)
