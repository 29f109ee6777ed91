"""JSON Schemas made to exhaust the compiler, for ``hostile.py``."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hostile_texts import LOWER, WORDS, patterns

FORMATS = ("email", "uri", "date-time", "hostname", "ipv6")


def nested(inner: Any, wrap: Callable[[Any], Any], times: int) -> Any:
    """The schema within itself, so many times."""
    for _ in range(times):
        inner = wrap(inner)
    return inner


def schemas() -> dict[str, Any]:
    """JSON Schemas."""
    dice = random.Random(0)
    integers, names = [*range(100)], [f"p{i}" for i in range(400)]
    shared: Any = {"type": "string"}
    either: Any = {"type": "integer"}
    lists: Any = {"const": 1}
    for _ in range(200):
        shared, either, lists = (
            {"allOf": [shared, shared]},
            {"anyOf": [either, either]},
            {"properties": {"a": lists, "b": lists}},
        )
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(10_000)} | {"d10000": {"type": "integer"}}
    members = {f"d{i}": {"properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(3_000)} | {
        "d3000": {}
    }
    web = {
        f"d{i}": {"anyOf": [{"properties": {n: {"$ref": f"#/$defs/d{dice.randrange(60)}"}}} for n in "abc"]}
        for i in range(60)
    }
    passwords = [
        r"^(?=.*[A-Z]).*$", r"^(?=.*\d).*$", r"^.*[!-/].{3,}$", r"^(?!.*aaa).*$", r"^.{8,64}$", r"(.*b){5}", "a.{9}b",
    ]  # fmt: skip
    return {
        "shared parts, allOf": shared,
        "shared parts, anyOf": either,
        "shared parts, properties": lists,
        "ten thousand levels of lists": nested(True, lambda s: {"items": s}, 10_000),
        "a hundred thousand levels of allOf": nested(True, lambda s: {"allOf": [s]}, 100_000),
        "a hundred thousand levels of text": '{"items":' * 100_000 + "true" + "}" * 100_000,
        "a hundred thousand brackets": "[" * 100_000,
        "a value a thousand levels deep": {"const": nested(1, lambda v: [v], 900)},
        "not, nested": nested({"properties": {"a": {"type": "string"}}, "required": ["b"]}, lambda s: {"not": s}, 900),
        "enum of a hundred thousand": {"enum": [f"value {i}" for i in range(100_000)]},
        "enum of numbers": {"enum": [i / 7 for i in range(5_000)]},
        "enum of lists": {"enum": [[i, i + 1, {"a": i}] for i in range(2_000)]},
        "not an enum of lists": {"not": {"enum": [[i, {"a": i}] for i in range(300)]}},
        "not an enum": {"type": "string", "not": {"enum": [w + v for w in WORDS for v in WORDS[:20]]}},
        "enum of odd texts": {"enum": ["".join(map(chr, dice.sample(range(0x80, 0xD000), 20))) for _ in range(500)]},
        "contains of many": {"contains": {"enum": [f"value {i}" for i in range(20_000)]}, "minContains": 5, "maxContains": 9},
        "contains of alternatives": {
            "contains": {"anyOf": [{"pattern": f"{w}.*{v}"} for w, v in zip(WORDS[:40], WORDS[40:], strict=False)]},
            "items": {"type": "string", "maxLength": 50}, "minContains": 3,
        },
        "contains, ten of them": {"allOf": [{"contains": {"const": i}, "maxContains": i + 1} for i in range(10)]},
        "contains, three of patterns": {
            "allOf": [{"contains": {"pattern": f".*{c}.{{9}}"}} for c in "abc"], "items": {"type": "string"},
        },
        "alternatives one after the other": {
            "type": "array",
            "prefixItems": [{"anyOf": [{"pattern": f"^{w}+.*{v}$"} for w in WORDS[:20]]} for v in WORDS[:40]],
            "items": {"enum": WORDS}, "maxItems": 100,
        },
        "minLength": {"minLength": 10**9},
        "maxLength": {"type": "string", "maxLength": 10**18},
        "minLength as a float": {"type": "string", "minLength": 1e300},
        "maxItems": {"maxItems": 10**9, "items": {"maxItems": 10**9, "items": {"maxLength": 10**9}}},
        "minItems": {"minItems": 10**9},
        "minProperties": {"minProperties": 10**6},
        "maxProperties of patterns": {
            "maxProperties": 10**4, "patternProperties": {f"^{w}": {"maxLength": 9} for w in WORDS[:50]},
        },
        "multipleOf, tiny": {"multipleOf": 1e-300},
        "multipleOf, odd": {"multipleOf": 0.123456789, "minimum": -1e17},
        "multipleOf, many": {"allOf": [{"multipleOf": p} for p in (7, 11, 13, 17, 19, 23, 29, 31)], "type": "integer"},
        "multipleOf, and not": {"multipleOf": 97, "not": {"anyOf": [{"multipleOf": 101}, {"multipleOf": 103}]}, "minimum": 12345},
        "bounds far away": {"minimum": -1e308, "maximum": 1e308},
        "bounds far away of integers": {"type": "integer", "exclusiveMinimum": 10**300, "maximum": 10**400},
        "bounds nearby": {"minimum": 5e-324, "maximum": 1.7976931348623157e308, "multipleOf": 0.25},
        "a long number": '{"minimum": ' + "9" * 4_000 + "}",
        "a very long number": '{"minimum": ' + "9" * 100_000 + "}",
        "a long exponent": '{"type": "integer", "minimum": 1e999}',
        "a count of a long exponent": '{"maxLength": 1e999999}',
        "intervals of numbers": {"anyOf": [{"minimum": 3 * i, "maximum": 3 * i + 1} for i in range(400)]},
        "exactly one of intervals": {"oneOf": [{"minimum": 3 * i, "maximum": 3 * i + 4} for i in range(60)]},
        "not of intervals": {
            "allOf": [{"not": {"minimum": 3.5 * i, "maximum": 3 * i + 1.25}} for i in range(60)], "type": "number",
        },
        "properties, many": {"properties": {n: {"type": "string", "maxLength": 100} for n in names}},
        "properties, many, closed, required": {
            "properties": {n: {"type": "string", "maxLength": 500} for n in names}, "required": names[::2],
            "additionalProperties": False,
        },
        "properties, too many": {"properties": {f"property {i}": {} for i in range(20_000)}},
        "properties and some at least": {"properties": {n: {} for n in names[:100]}, "minProperties": 40, "maxProperties": 60},
        "properties in all of any of": {
            "allOf": [{"anyOf": [{"required": [n]}, {"properties": {n: {"type": "null"}}}]} for n in names],
        },
        "required in pairs": {"anyOf": [{"required": [a, b]} for a, b in zip(names[:40], names[40:], strict=False)]},
        "exactly one of many": {"oneOf": [{"properties": {n: {"const": i}}, "required": [n]} for i, n in enumerate(names)]},
        "exactly one of overlapping": {"oneOf": [{"properties": {n: {"type": "integer"}}} for n in names[:30]]},
        "all of exactly one": {"allOf": [{"oneOf": [{"required": [f"{i}{j}"]} for j in range(12)]} for i in range(12)]},
        "nests of all, any and one": nested(
            {"type": "object"},
            lambda s: {
                "allOf": [s, {"anyOf": [{"required": ["a"]}, {"minProperties": 3}]}, {"oneOf": [s, {"required": ["b"]}]}],
            }, 12,
        ),
        "not of nests": {"not": {"allOf": [{"anyOf": [{"required": [f"a{i}{j}"]} for j in range(6)]} for i in range(9)]}},
        "if, thirty": {"allOf": [
            {"if": {"properties": {n: {"const": 1}}}, "then": {"required": [f"{n}x"]}, "else": {"required": [f"{n}y"]}}
            for n in names[:30]
        ]},
        "dependencies, sixty": {"dependentRequired": {n: [f"{n}x", f"{n}y"] for n in names[:60]}},
        "references in a chain": {"$defs": chain, "$ref": "#/$defs/d0"},
        "references in a chain of members": {"$defs": members, "$ref": "#/$defs/d0"},
        "references in a web": {"$defs": web, "$ref": "#/$defs/d0"},
        "references in a circle": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        "references to all of itself": {"allOf": [{"$ref": "#"}]},
        "within itself in ten ways": {"properties": {n: {"$ref": "#"} for n in LOWER[:10]}, "items": {"$ref": "#"}},
        "names by fifty patterns": {
            "patternProperties": {f"{w}.*{v}": {"minimum": 1} for w, v in zip(WORDS[:50], WORDS[50:100], strict=True)},
        },
        "names by twelve patterns": {
            "patternProperties": {c: {"minimum": i} for i, c in enumerate(LOWER[:12])}, "additionalProperties": False,
        },
        "names by patterns and names": {
            "patternProperties": {f".*{c}.{{6}}$": {"maxLength": i} for i, c in enumerate("abcde")},
            "properties": {n: {} for n in names[:100]}, "propertyNames": {"pattern": "^p"},
        },
        "names by look-aheads": {"propertyNames": {"allOf": [{"pattern": p} for p in passwords]}},
        "strings by look-aheads": {"allOf": [{"pattern": p} for p in passwords], "maxLength": 40},
        "strings by formats": {"allOf": [{"format": f} for f in FORMATS]},
        "not the formats": {"type": "string", "not": {"anyOf": [{"format": f} for f in FORMATS]}},
        "strings by twenty patterns": {"type": "string", "allOf": [{"pattern": w} for w in WORDS[:20]]},
        "strings by twenty patterns and length": {
            "type": "string", "anyOf": [{"pattern": f"{w}.*{v}"} for w in WORDS[:20] for v in WORDS[:9]], "maxLength": 999,
        },
        "different items of many": {"uniqueItems": True, "items": {"enum": [f"value {i}" for i in range(3_000)]}, "minItems": 5},
        "different items of few": {"uniqueItems": True, "items": {"enum": integers[:18]}},
        "different items of anything": {"uniqueItems": True},
        "different items of integers": {
            "uniqueItems": True, "items": {"type": "integer", "minimum": 0, "maximum": 60}, "minItems": 30,
        },
        "unevaluated": {"anyOf": [{"properties": {n: {}}} for n in names[:40]], "unevaluatedProperties": False},
        "any of a thousand objects": {"anyOf": [
            {"properties": {f"a{i}": {"type": "integer"}, f"b{i % 7}": {"pattern": f"^{i}x*$"}}, "required": [f"a{i}"]}
            for i in range(1_000)
        ]},
        "exactly one of lengths": {"oneOf": [{"type": "string", "minLength": i, "maxLength": i + 3} for i in range(200)]},
        "exactly one of patterns": {"type": "string", "oneOf": [{"pattern": f"{c}.*{d}"} for c in "abcdef" for d in "uvwxy"]},
        "if within if": nested(
            {"type": "string"},
            lambda s: {
                "if": {"properties": {"k": {"const": 1}}}, "then": {"properties": {"v": s}},
                "else": {"required": ["w"], "properties": {"u": s}},
            }, 12,
        ),
        "dependent schemas": {"dependentSchemas": {
            n: {"properties": {m: {"type": "integer"} for m in names[i : i + 5]}, "required": names[i + 1 : i + 3]}
            for i, n in enumerate(names[:40])
        }},
        "items by position, five thousand": {"prefixItems": [{"enum": [i, str(i)]} for i in range(5_000)]},
        "items by position, different": {"uniqueItems": True, "prefixItems": [{"enum": integers[:12]}] * 8, "items": False},
        "contains, overlapping": {
            "items": {"type": "integer"}, "contains": {"minimum": 5}, "minContains": 30, "maxContains": 60,
            "allOf": [{"contains": {"multipleOf": 3}, "minContains": 20}],
        },
        "alternatives of objects, five deep": nested(
            {"type": "string"},
            lambda s: {"maxItems": 20, "items": {"anyOf": [s, {"type": "object", "properties": dict.fromkeys("abcde", s)}]}}, 5,
        ),
        "names by patterns that overlap": {
            "patternProperties": {f"[{a}{b}]": {"minLength": i} for i, (a, b) in enumerate(pairwise(LOWER))},
            "additionalProperties": False,
        },
        "names of a long enum": {
            "propertyNames": {"enum": [f"n{i}" for i in range(3_000)]}, "additionalProperties": {"enum": integers},
        },
        "names beyond ASCII": {"properties": {"\u00e9\u4e2d\U0001f600" * (i + 1): {"type": "integer"} for i in range(300)}},
        "names of five thousand letters": {"properties": {"n" * 5_000 + str(i): {"type": "integer"} for i in range(60)}},
        "a name of two million letters": {"properties": {"k" * 2_000_000: {"type": "integer"}}},
        "a value of five thousand objects": {"const": [{"a": [i, None, True, "x" * 20]} for i in range(5_000)]},
        "a value of odd letters": {"const": "\u00e9\u4e2d\"\\" * 100_000},
        "a value of large numbers": {"enum": [1e300, 1e-300, 10**300, -1e308]},
        "multipleOf, decimals": {"allOf": [{"multipleOf": m} for m in (0.01, 0.03, 0.07, 1.1)]},
        "multipleOf, and many digits": {"minimum": int("9" * 200), "maximum": int("9" * 220), "multipleOf": 4_999},
        "formats and lengths": {"properties": {
            f: {"format": f, "maxLength": 200} for f in (*FORMATS, "iri", "uri-template", "idn-email", "uri-reference")
        }},
        "references in a web of lists": {
            "$defs": {
                f"d{i}": {"oneOf": [
                    {"type": "array", "items": {"$ref": f"#/$defs/d{dice.randrange(30)}"}, "maxItems": j + 1} for j in range(3)
                ]} for i in range(30)
            }, "$ref": "#/$defs/d0",
        },
        "a pattern of a long repeat": {"pattern": "^[a-z]{1,100000}$"},
        "patterns of repeats": {"properties": {n: {"pattern": f"^([a-z]{{1,60}}{n}){{1,30}}$"} for n in names[:60]}},
        **{f"a pattern: {name}": {"type": "string", "pattern": p} for name, p in patterns().items()},
        **{f"not a pattern: {name}": {"type": "string", "not": {"pattern": p}} for name, p in patterns().items()},
    }  # fmt: skip
