"""Random JSON Schemas, and instances near them."""

import json

import jsonschema
from hypothesis import strategies as st

DRAFTS = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
NAMES = ["a", "b", "x1", "é", '"']
STRINGS = ["", "a", "ab", "b", "é", '"', "aa", "2024-02-29", "1.2.3.4"]
NUMBERS = [0, 1, -1, 2, 3, 5, 0.5, -2.5, 10, 100, 1e22, -1e-07]
PATTERNS = ["^a", "b$", "^[ab]*$", "^.$", "[^a]", "^(a|é)+$", "^x"]
FORMATS = ["date", "ipv4", "uuid", "no-format"]
SCALARS = st.sampled_from([None, True, False, *NUMBERS, *STRINGS])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=4,
)
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
REFERENCES = ["#", "#/definitions/d"]
SIZES = st.integers(0, 3)


@st.composite
def schemas(draw, depth=2):
    """A schema with a few keywords of any draft; later drafts' keywords mean nothing to earlier ones."""
    if not depth:
        return draw(
            st.sampled_from(
                [True, {}, {"type": "integer"}, {"type": "string"}, {"const": 1}, {"enum": ["a", 2]}]
            )
            | st.sampled_from(REFERENCES).map(lambda ref: {"$ref": ref})
        )
    inner = schemas(depth - 1)
    several = st.lists(inner, min_size=1, max_size=2)
    by_name = st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3)
    names = st.lists(st.sampled_from(NAMES), unique=True, max_size=2)
    number = st.sampled_from([-1, 0, 1, 2, 2.5, 5])
    choices = {
        "type": st.sampled_from(TYPES)
        | st.lists(st.sampled_from(TYPES), unique=True, min_size=1, max_size=2),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": number,
        "maximum": number,
        "exclusiveMinimum": number,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": SIZES,
        "maxLength": SIZES,
        "pattern": st.sampled_from(PATTERNS),
        "format": st.sampled_from(FORMATS),
        "items": inner,
        "prefixItems": several,
        "minItems": SIZES,
        "maxItems": SIZES,
        "uniqueItems": st.booleans(),
        "contains": inner,
        "minContains": SIZES,
        "maxContains": SIZES,
        "properties": by_name,
        "required": names,
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["^x", "^a"]), inner, min_size=1, max_size=1),
        "propertyNames": st.sampled_from([{"pattern": "^[ax]"}, {"maxLength": 1}, {"enum": ["a", "b"]}]),
        "minProperties": SIZES,
        "maxProperties": SIZES,
        "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, min_size=1, max_size=1),
        "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=1),
        "dependencies": st.dictionaries(st.sampled_from(NAMES), names | inner, min_size=1, max_size=1),
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "unevaluatedProperties": inner | st.just(False),
        "unevaluatedItems": inner | st.just(False),
        "$ref": st.sampled_from(REFERENCES),
    }
    groups = st.sampled_from([
        ["type", "properties", "required"], ["type", "items"], ["properties", "additionalProperties"],
        ["if", "then", "else"], ["allOf", "unevaluatedProperties"], ["prefixItems", "unevaluatedItems"],
        ["type", "minimum", "multipleOf"], ["type", "pattern", "maxLength"], ["enum"], ["anyOf", "properties"], [],
    ])  # fmt: skip
    keys = dict.fromkeys([*draw(groups), *draw(st.lists(st.sampled_from(sorted(choices)), max_size=2))])
    return {key: draw(choices[key]) for key in keys}


@st.composite
def documents(draw):
    """A schema with ``$schema`` and a definition; and the validator of its draft."""
    draft = draw(st.sampled_from(sorted(DRAFTS)))
    schema = draw(schemas())
    if "draft-04" in draft:
        schema = without(schema, {"exclusiveMinimum", "const"})
        schema = draft_4(schema)
    definition = draw(schemas(1))
    return {
        "$schema": draft,
        **schema,
        "definitions": {"d": draft_4(definition) if "draft-04" in draft else definition},
    }


def without(schema, keys):
    return {key: value for key, value in schema.items() if key not in keys}


def draft_4(schema):
    """The schema with nothing that draft 4 has no form for: booleans, numeric exclusive bounds."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if isinstance(schema, list):
        return [draft_4(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = without(schema, {"exclusiveMinimum"})
    return {k: v if k in ("enum", "const", "uniqueItems") else draft_4(v) for k, v in kept.items()}


@st.composite
def instances(draw, schema, root, depth=3):
    """A value that follows the schema for a while, so that many are valid."""
    if not isinstance(schema, dict) or not depth or draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    down = lambda part: draw(instances(part, root, depth - 1))  # noqa: E731
    if "$ref" in schema and draw(st.booleans()):
        return down(root if schema["$ref"] == "#" else root["definitions"]["d"])
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema and draw(st.booleans()):
            found = [down(part) for part in schema[key]]
            if all(isinstance(value, dict) for value in found):
                found = [{name: value for part in found for name, value in part.items()}]
            return found[0]
    kinds = schema.get(
        "type", "object" if schema.keys() & {"properties", "required"} else draw(st.sampled_from(TYPES))
    )
    kind = kinds if isinstance(kinds, str) else draw(st.sampled_from(kinds))
    if kind == "object":
        known = schema.get("properties", {})
        names = dict.fromkeys(
            [*known, *schema.get("required", []), *draw(st.lists(st.sampled_from(NAMES), max_size=1))]
        )
        extra = schema.get("additionalProperties", True)
        return {
            name: down(known.get(name, extra))
            for name in names
            if name in schema.get("required", []) or draw(st.booleans())
        }
    if kind == "array":
        first = schema.get("prefixItems", [])
        size = draw(st.integers(schema.get("minItems", 0), schema.get("minItems", 0) + 2))
        return [down(first[i] if i < len(first) else schema.get("items", True)) for i in range(size)]
    plain = {
        "null": [None], "boolean": [True, False], "string": STRINGS, "number": NUMBERS, "integer": [0, 1, 2, 3, -1, 10, 1e22],
    }  # fmt: skip
    return draw(st.sampled_from(plain[kind]))


def is_known_difference(document) -> bool:
    said = json.dumps(document)
    items = "unevaluatedItems" in said and ("contains" in said or '"items": true' in said)
    members = "unevaluatedProperties" in said and "additionalProperties" in said
    return "2019-09" in said and (items or members)


def verdict(validator, instance) -> bool | None:
    """What ``jsonschema`` says of an instance; ``None`` where it gives no answer: a reference that leads back to itself, which
    overflows its stack (in Python or, as a panic, in Rust), or a multiple of an infinite number."""
    try:
        return validator.is_valid(instance)
    except (RecursionError, OverflowError):
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None
