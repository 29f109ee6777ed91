"""Tagged unions and chains of conditions on one member, against ``jsonschema``; and that large ones take little work."""

import itertools
import json
import random

import jsonschema
import pytest

import tractile as tt
from tractile.constraints import json_schema, limits
from tractile.constraints.automata.work import limited_to

TAGS = ["A", "B", "C", 1, True, None]
VALUES = [*TAGS, 1.0, "D", [], ...]
INSTANCES = [
    *("A", 1, None, [], ["A"], {}),
    *(
        {name: value for name, value in zip("tuab", values, strict=True) if value is not ...}
        for values in itertools.product(VALUES, ["A", 1, ...], [0, "x", ...], [0, ...])
    ),
]


def tag(rng: random.Random) -> dict:
    """Return a schema of a few constants."""
    return (
        {"const": rng.choice(TAGS)} if rng.random() < 0.6 else {"enum": rng.sample(TAGS, rng.randint(1, 3))}
    )


def members(rng: random.Random) -> dict:
    """Return a schema of some of the members ``a`` and ``b``."""
    kinds = [{"type": "integer"}, {"type": "string"}, True, False]
    found: dict = {"properties": {name: rng.choice(kinds) for name in rng.sample("ab", rng.randint(0, 2))}}
    if rng.random() < 0.4:
        found["required"] = [rng.choice("ab")]
    return found


def alternative(rng: random.Random) -> dict:
    """Return a schema of objects with a tag, nearly always."""
    found = members(rng)
    name = rng.choice("tttu")
    found["properties"] = {name: tag(rng)} | found["properties"]
    found["required"] = found.get("required", []) + ([name] if rng.random() < 0.8 else [])
    if rng.random() < 0.8:
        found["type"] = "object"
    if rng.random() < 0.4:
        found["additionalProperties"] = rng.choice([False, {"type": "integer"}])
    return found


def condition(rng: random.Random, depth: int = 2) -> dict:
    """Return a schema with ``if``, nearly always about the member ``t`` alone."""
    name = rng.choice("ttttu")
    asked: dict = {"properties": {name: tag(rng)}}
    if rng.random() < 0.5:
        asked["required"] = [name]
    if rng.random() < 0.3:
        asked["type"] = "object"
    if rng.random() < 0.1:
        asked["required"] = ["a"]
    found: dict = {"if": asked}
    if rng.random() < 0.9:
        found["then"] = rng.choice([members(rng), False, {"required": ["a"]}])
    if rng.random() < 0.5:
        found["else"] = condition(rng, depth - 1) if depth and rng.random() < 0.5 else members(rng)
    return found


def around(rng: random.Random, schema: dict) -> dict:
    """Return a schema of objects with some keywords beside it."""
    found = dict(schema)
    if rng.random() < 0.4:
        found["type"] = "object"
    if rng.random() < 0.4:
        found["required"] = ["t"]
    if rng.random() < 0.3:
        found["properties"] = {"t": {"enum": ["A", "B", 1, None]}}
    if rng.random() < 0.3:
        found["unevaluatedProperties"] = False
    return found


@pytest.mark.parametrize("key", ["oneOf", "anyOf", "allOf", "else"])
def test_random_schemas_mean_what_they_say(key):
    rng = random.Random(key)
    for _ in range(40):
        if key == "allOf":
            schema = {key: [condition(rng) for _ in range(rng.randint(1, 4))]}
        elif key == "else":
            schema = condition(rng, 4)
        else:
            schema = {key: [alternative(rng) for _ in range(rng.randint(2, 5))]}
        schema = around(rng, schema)
        is_valid = jsonschema.Draft202012Validator(schema).is_valid
        found = json_schema(schema)
        for value in rng.sample(INSTANCES, 80):
            assert found.accepts(json.dumps(value)) == is_valid(value), (schema, value)


# ---------------------------------------------------------------- large ones


def record(i: int, size: int, listed: bool = True, **more) -> dict:
    own = {f"a{i}_{j}": {"type": ["string", "integer"][j % 2]} for j in range(size)}
    tag = {"const": f"T{i}"} if listed else {"type": "string", "pattern": f"^T{i}$"}
    return {"type": "object", "properties": {"t": tag, **own}, "required": ["t"], **more}


def union(key: str, count: int, size: int, **more) -> dict:
    return {key: [record(i, size, **more) for i in range(count)]}


def chained(count: int, size: int) -> dict:
    tests = [{"if": {"properties": {"t": {"const": f"T{i}"}}}, "then": record(i, size)} for i in range(count)]
    names = {"t": {"enum": [f"T{i}" for i in range(count)]}}
    return {"type": "object", "properties": names, "required": ["t"], "allOf": tests}


NAMES = {"^[a-z][a-z_]{0,99}_bin$": {}, "^[a-z][a-z_]{0,99}_hex$": {}, "^[a-z][a-z_]{2,99}$": {"minimum": 3}}
OWN = [record(i, 30)["properties"] for i in range(300)]
LARGE = {
    "oneOf": union("oneOf", 300, 30, additionalProperties=False),
    "anyOf": union("anyOf", 300, 30, additionalProperties=False),
    "open": union("oneOf", 300, 30),
    "patterns": union("oneOf", 300, 30, listed=False),
    "names": union("oneOf", 300, 30, patternProperties=NAMES, additionalProperties=False),
    "chained": chained(300, 30),
    "without type": {"required": ["t"], "type": "object"}
    | {"oneOf": [{"properties": own, "unevaluatedProperties": False} for own in OWN]},
}
GIVEN = [
    ({"t": "T17", "a17_0": "x", "a17_1": 3}, True),
    ({"a17_0": "x", "t": "T17"}, True),
    ({"t": "T17", "a17_0": 3}, False),
    ({"t": "T300"}, False),
    ({"a17_0": "x"}, False),
    ("T17", False),
]


@pytest.mark.parametrize("name", LARGE)
def test_hundreds_of_alternatives_with_many_members_each(name):
    schema = LARGE[name]
    found, is_valid = json_schema(schema), jsonschema.Draft202012Validator(schema).is_valid
    for value, expected in GIVEN:
        assert found.accepts(json.dumps(value)) == is_valid(value) == expected


def test_members_of_other_alternatives_may_be_in_open_objects_only():
    value = json.dumps({"t": "T17", "a18_0": [1]})
    assert {name: json_schema(schema).accepts(value) for name, schema in LARGE.items()} == {
        "oneOf": False, "anyOf": False, "open": True, "patterns": True, "names": False, "chained": True, "without type": False,
    }  # fmt: skip


def work(schema: dict) -> float:
    with limited_to(1e9) as account:
        json_schema(schema)
    return account.spent


@pytest.mark.parametrize("key", ["oneOf", "anyOf", "chained"])
def test_work_grows_with_the_number_of_alternatives_not_its_square(key):
    def of(count: int) -> dict:
        return chained(count, 4) if key == "chained" else union(key, count, 4, additionalProperties=False)

    few, many = work(of(64)), work(of(256))
    assert many < 6 * few


def health_records(resources: int, definitions: int) -> dict:
    """Return a schema like that of FHIR: tagged resources, and types that refer to each other."""
    rng = random.Random(5)
    types = [f"Type{i}" for i in range(definitions - resources)]
    names = [f"Resource{i}" for i in range(resources)]

    def member() -> dict:
        other = {"$ref": f"#/definitions/{rng.choice(types)}"}
        kinds = [
            {"type": "string"},
            {"pattern": "^[A-Za-z0-9.-]{1,64}$", "type": "string"},
            {"enum": ["a", "b"]},
        ]
        kinds += [other, {"type": "array", "items": other}]
        return rng.choice([*kinds, {"type": "array", "items": {"$ref": "#/definitions/ResourceList"}}])

    def body(name: str, tagged: bool) -> dict:
        members = {"id": {"type": "string"}} | {f"{name.lower()}{i}": member() for i in range(9)}
        kind = {"resourceType": {"const": name}} if tagged else {}
        found = {"type": "object", "properties": kind | members, "additionalProperties": False}
        return found | ({"required": ["resourceType"]} if tagged else {})

    any_of_them = {"oneOf": [{"$ref": f"#/definitions/{name}"} for name in names]}
    known = {name: body(name, False) for name in types} | {name: body(name, True) for name in names}
    tag = {"discriminator": {"propertyName": "resourceType"}}
    known["ResourceList"] = any_of_them
    return {"$schema": "http://json-schema.org/draft-06/schema#", **tag, **any_of_them, "definitions": known}


def test_a_schema_of_the_size_of_health_records():
    schema = health_records(150, 1_000)
    assert work(schema) < limits.WORK / 2
    found = json_schema(schema)
    assert found.accepts('{"resourceType": "Resource149", "id": "x"}')
    assert not found.accepts('{"resourceType": "Resource150", "id": "x"}')
    assert not found.accepts('{"id": "x"}')
    query = tt.lcd(
        found.compile(tt.Vocabulary([None, *(bytes([b]) for b in range(256))], eos_token_id=0))
    ).start()
    for byte in b'{"resourceType": "Resource14':
        query.advance([byte + 1])
    assert [token - 1 for token in query.mask()[0].nonzero()[:, 0].tolist()] == [*b'"0123456789']


def test_schemas_that_refer_from_one_to_the_next_a_thousand_times():
    chain = {
        f"d{i}": {"type": "object", "properties": {"next": {"$ref": f"#/$defs/d{i + 1}"}}}
        for i in range(1_000)
    }
    found = json_schema({"$ref": "#/$defs/d0", "$defs": chain | {"d1000": {"const": "end"}}})
    for depth, last, expected in (
        (1_000, '"end"', True),
        (1_000, '"x"', False),
        (999, '{"next": "end"}', True),
    ):
        assert found.accepts('{"next": ' * depth + last + "}" * depth) == expected


def apart(count: int) -> dict[str, list]:
    """Return lists of alternatives that other things than one member with a constant tell apart."""

    def closed(members: dict, *required: str) -> dict:
        return {
            "type": "object",
            "properties": members,
            "required": [*required],
            "additionalProperties": False,
        }

    own = [{f"a{i}": {"type": "string"}, f"b{i}": {"type": "integer"}} for i in range(count)]
    return {
        "a member of a member": [
            closed({"head": closed({"type": {"const": f"T{i}"}}, "type"), **own[i]}, "head") for i in range(count)
        ],
        "two members": [
            closed({"type": {"const": i % 10}, "act": {"const": i // 10}, **own[i]}, "type", "act") for i in range(count)
        ],
        "the name of the member": [closed({f"cmd{i}": closed(own[i], f"a{i}")}, f"cmd{i}") for i in range(count)],
        "an item": [
            {"type": "array", "prefixItems": [{"const": f"op{i}"}, {"type": "integer"}], "minItems": 1} for i in range(count)
        ],
    }  # fmt: skip


@pytest.mark.parametrize("what", apart(1))
def test_what_else_tells_alternatives_apart(what):
    small, large = ({"oneOf": apart(count)[what]} for count in (60, 120))
    assert work(large) < 2.5 * work(small)  # no two are compared
    found, is_valid = json_schema(large), jsonschema.Draft202012Validator(large).is_valid
    values = [
        {"head": {"type": "T7"}, "a7": "x"}, {"head": {"type": "T7"}, "a8": "x"}, {"head": {}}, {"head": "T7"},
        {"type": 7, "act": 1, "b17": 3}, {"type": 7, "act": 1, "b71": 3}, {"type": 7}, {"cmd9": {"a9": ""}},
        {"cmd9": {"a8": ""}}, {"cmd9": {"a9": ""}, "cmd8": {"a8": ""}}, ["op5", 3], ["op5"], ["op500", 3], ["op5", "x"], [],
    ]  # fmt: skip
    assert [found.accepts(json.dumps(value)) for value in values] == [is_valid(value) for value in values]
