"""Random JSON Schemas and instances near them, against the validators of the ``jsonschema`` package.

Left out of what is drawn, since the two are known to differ:

- formats of which ``jsonschema`` takes more or less than their RFCs (e-mail addresses such as ``a@``, the year 0000, leap
  seconds): the instances here have none of these;
- ``unevaluatedItems`` beside ``contains`` in 2019-09, where ``jsonschema`` counts items that only 2020-12 counts, and beside
  ``items: true``, where it raises ``TypeError``;
- ``unevaluatedProperties`` around ``additionalProperties`` in 2019-09, of which ``jsonschema`` takes the keywords for names
  of members (``_legacy_keywords.find_evaluated_property_keys_by_schema``), so that nothing counts as evaluated;
- ``\\d``, ``\\w``, ``\\s`` and ``$`` before a last newline, which Python reads otherwise than ECMA-262: ``UNLIKE`` says how.
"""

import itertools
import json
import re
from decimal import Decimal

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from random_schemas import DRAFTS, documents, instances, is_known_difference, verdict

import tractile as tt

NO_RFC = ("a@", "x.", "P1.5D")
"""Strings that have the formats email, hostname and duration by ``jsonschema`` only, by no RFC."""
DEPTH = 2
"""How deep values without a schema nest at least in what is built, and schemas in themselves."""


def is_named(cut, document) -> bool:
    """Whether a narrowing says where it is, which keyword it is about, what is left out and why."""
    *steps, _ = cut.path.split("/")[1:] or [""]
    place = document
    for step in steps:
        step = step.replace("~1", "/").replace("~0", "~")
        place = place[int(step)] if isinstance(place, list) else place[step]
    return bool(cut.keyword and cut.why) and cut.asked != cut.given


def reordered(value):
    """The value with the members of its objects in all orders, at most some hundreds of them."""
    if isinstance(value, list):
        return (list(items) for items in itertools.islice(itertools.product(*map(reordered, value)), 200))
    if isinstance(value, dict):
        ways = itertools.product(*map(reordered, value.values()))
        objects = (list(zip(value, way, strict=True)) for way in itertools.islice(ways, 50))
        orders = (dict(order) for members in objects for order in itertools.permutations(sorted(members)))
        return itertools.islice(orders, 500)
    return iter([value])


def nesting(value) -> int:
    """How deep arrays and objects lie within each other."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(nesting, inner), default=0)


def is_reported(constraint, instance, document, order) -> bool:
    """Whether a valid instance may be refused: where something is narrowed that may concern it, its members stand in an
    order other than the declared one that was asked for, or its numbers have an exponent and are accepted without one."""
    assert all(is_named(cut, document) for cut in constraint.narrowed)
    lost = [cut for cut in constraint.narrowed if cut.loses_values]
    for cut in lost:
        depth = re.search(r"at most (\d+)", str(cut.given)) if cut.keyword == "max_depth" else None
        if depth is None or nesting(instance) > int(depth[1]):
            return True
    values = reordered(instance) if order == "declared" else [instance]
    texts = [json.dumps(value, ensure_ascii=False) for value in values]
    if len(lost) < len(constraint.narrowed):
        texts += [as_decimals(text) for text in texts]
    return any(map(constraint.accepts, texts))


def as_decimals(text) -> str:
    """JSON whose numbers have no exponent; no string here looks like one that has."""
    return re.sub(r"-?\d+(\.\d+)?e[+-]\d+", lambda found: f"{Decimal(found[0]):f}", text)


def built(document, **options):
    """The constraint, ``None`` where it is refused by name."""
    try:
        return tt.constraints.json_schema(document, **{"max_depth": DEPTH, **options})
    except (tt.errors.UnsupportedConstraint, tt.errors.TooManyStates):
        return None


@given(st.data(), documents(), st.sampled_from(["auto", "declared", "any"]))
def test_nothing_invalid_is_accepted_and_nothing_cut_in_silence(data, document, order):
    validator = DRAFTS[document["$schema"]](document, format_checker=jsonschema.FormatChecker())
    constraint = built(document, order=order, formats="assert")
    if constraint is None or is_known_difference(document):
        return
    for _ in range(6):
        instance = data.draw(instances(document, document))
        text = json.dumps(instance, ensure_ascii=False)
        valid = verdict(validator, instance)
        if valid is None:
            return
        accepted = constraint.accepts(text)
        assert valid or not accepted, text
        assert constraint.accepts(json.dumps(instance)) == accepted, text
        assert accepted or not valid or is_reported(constraint, instance, document, order), text
        if isinstance(instance, dict) and instance:  # of a name that is written twice the last value counts
            first = f"{json.dumps(next(iter(instance)))}: {data.draw(st.sampled_from(['1', '[]']))}"
            twice = f"{{{first}, {text[1:]}"
            assert valid or not constraint.accepts(twice), twice
    if not constraint.is_empty():
        shortest = constraint.shortest()
        assert "0000-" in shortest or verdict(validator, json.loads(shortest)) is not False, shortest


WORDS = ["", "a", "b", "ab", "ba", "é", "٣", "a\t", "a\n", "\r", "]", " a b", "\ufeff", "\x1c"]
WORDS += ["a@", "x.", "P1.5D", "23:59:60Z", "12:00:60Z", "a.b"]
SPACE = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
UNLIKE = {
    r"\d": "[0-9]", r"^\w$": r"^[0-9A-Za-z_]\Z", r"\s": f"[{SPACE}]", r"\S": f"[^{SPACE}]", r"\bb": r"(?a:\b)b",
    "[]a]": "[]a]", "^.$": r"^[^\n\r\u2028\u2029]\Z", "a$": r"a\Z", r"[^\W]": "[0-9A-Za-z_]",
}  # fmt: skip
"""Patterns with what they are for Python as ECMA-262 reads them."""
CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


def pattern_of_ecma(validator, pattern, instance, schema):
    """``pattern`` as ECMA-262 reads it."""
    if isinstance(instance, str) and not re.search(UNLIKE.get(pattern, pattern), instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def members_of_ecma(validator, patterns, instance, schema):
    """``patternProperties``, likewise."""
    for pattern, name in itertools.product(patterns, instance if isinstance(instance, dict) else ()):
        if re.search(UNLIKE.get(pattern, pattern), name):
            yield from validator.descend(instance[name], patterns[pattern], path=name, schema_path=pattern)


VALIDATOR = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, {"pattern": pattern_of_ecma, "patternProperties": members_of_ecma}
)
LOOSE = [name for name in ("email", "idn-email", "time", "duration", "hostname") if name in CHECKER.checkers]


@st.composite
def narrow(draw):
    """A schema of which only a part fits into an automaton, and values, most of which it allows."""
    several = st.integers(1, 13)
    words = st.sampled_from(WORDS)
    size = draw(several)
    unique = st.permutations(range(size)).map(lambda order: order[: draw(st.integers(0, size))])
    names = [f"m{i}" for i in range(draw(st.integers(1, 8)))]
    inner = draw(
        st.sampled_from([{}, {"type": "string", "maxLength": 300}, {"type": "integer"}, {"enum": [1, "a"]}])
    )
    least, rest = draw(st.integers(0, 4)), draw(st.sampled_from([{}, {"type": "integer"}, False]))
    members = st.dictionaries(st.sampled_from([*names, "o1", "o2", "o3"]), st.just(1), max_size=6).flatmap(
        lambda found: st.permutations(list(found.items())).map(dict)
    )
    listed = {"type": "array", "items": {"enum": list(range(size))}, "uniqueItems": True}
    strings = {"type": "array", "items": {"type": "string", "maxLength": 9}, "uniqueItems": True}
    length = draw(st.sampled_from([50, 500, 3_000]))
    return draw(
        st.sampled_from([
            (listed | draw(st.sampled_from([{}, {"minItems": 2}, {"maxItems": 3}])), unique),
            (strings | draw(st.sampled_from([{}, {"maxItems": 3}])), st.lists(words | st.text("ab", max_size=4), max_size=3)),
            (
                {"properties": dict.fromkeys(names, inner), "additionalProperties": rest, "minProperties": least},
                members,
            ),
            (
                {
                    "type": "object", "properties": dict.fromkeys(names[:2], inner), "required": names[1:2] + names[:1],
                    "not": {"additionalProperties": {"type": "string"}},
                },
                members,
            ),
            ({"type": "object", "patternProperties": {draw(st.sampled_from([*UNLIKE])): {"type": "integer"}}},
             st.dictionaries(words, st.sampled_from([1, "a"]), max_size=2)),
            ({"type": "object", "propertyNames": {"pattern": draw(st.sampled_from([*UNLIKE]))}},
             st.dictionaries(words, st.just(1), max_size=2)),
            ({"type": "string", "pattern": draw(st.sampled_from([*UNLIKE]))}, words),
            ({"type": "string", "not": {"pattern": draw(st.sampled_from([*UNLIKE]))}}, words),
            ({"type": "string", "format": draw(st.sampled_from(LOOSE))}, words),
            ({"type": "string", "not": {"format": draw(st.sampled_from(LOOSE))}}, words),
            ({"type": "string", "maxLength": length}, st.integers(0, length).map("a".__mul__)),
            ({"type": "array", "items": inner, "maxItems": length // 10}, st.integers(0, length // 10).map([1].__mul__)),
            ({"multipleOf": draw(st.sampled_from([2, 0.5]))}, st.sampled_from([2, 1e22, 3.5, 1e-7])),
            ({"contains": {"type": "integer"}, "maxContains": 1, "items": inner}, st.lists(st.sampled_from([1, "a"]))),
        ])
    )  # fmt: skip


@st.composite
def narrow_documents(draw):
    """Such a schema within others, and a strategy for values."""
    parts = draw(st.lists(narrow(), min_size=1, max_size=2))
    kind = draw(st.sampled_from(["whole", "object", "array", "anyOf", "$ref"]))
    schema, values = parts[0]
    if kind == "object":
        names = ["p/1", "q"][: len(parts)]
        schema = {"type": "object", "properties": {n: s for n, (s, _) in zip(names, parts, strict=True)}}
        values = st.fixed_dictionaries({}, optional={n: v for n, (_, v) in zip(names, parts, strict=True)})
    elif kind == "array":
        schema = {"type": "array", "prefixItems": [s for s, _ in parts]}
        values = st.tuples(*(v for _, v in parts)).map(list)
    elif kind == "anyOf":
        schema, values = {"anyOf": [s for s, _ in parts]}, st.one_of(v for _, v in parts)
    elif kind == "$ref":
        schema = {"allOf": [{"$ref": "#/$defs/it"}, {}], "$defs": {"it": schema}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, values


@given(st.data(), narrow_documents(), st.sampled_from(["auto", "declared", "any"]))
def test_what_is_cut_is_named(data, drawn, order):
    """Schemas that are cut in the ways that there are, with the default limits. Strings that ``jsonschema`` lets have a format
    against its RFC are left out of nothing that was asked for."""
    document, values = drawn
    validator = VALIDATOR(document, format_checker=CHECKER)
    constraint = built(document, order=order, formats="assert", max_depth=None)
    if constraint is None:
        return
    for _ in range(6):
        instance = data.draw(values)
        text, valid = json.dumps(instance, ensure_ascii=False), validator.is_valid(instance)
        accepted = constraint.accepts(text)
        lax = any(word in text for word in (*NO_RFC, "23:59:60Z"))
        assert valid or not accepted or lax, text
        assert accepted or not valid or lax or is_reported(constraint, instance, document, order), text


@given(st.data(), documents())
def test_closed_objects_hold_fewer_texts(data, document):
    """Closing never lets in what was not there, and leaves only members whose names some schema says."""
    closed, opened = built(document, open_objects=False), built(document)
    if closed is None or opened is None:
        return
    for _ in range(4):
        text = json.dumps(data.draw(instances(document, document)), ensure_ascii=False)
        validator = DRAFTS[document["$schema"]](document)
        if (
            closed.accepts(text)
            and '"format"' not in json.dumps(document)
            and not is_known_difference(document)
        ):
            assert verdict(validator, json.loads(text)) is not False, text


TOKENS = [bytes([b]) for b in range(32, 127)] + ["é".encode(), b"\xc3", b"\xa9"]
TOKENS += [b'{"', b'": ', b", ", b'", "', b"[]", b"{}", b"true", b"null", b'"a', b"12"]
