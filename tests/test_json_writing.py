"""How JSON is written: separators and escapes, as ``json.dumps`` writes them."""

import json

import pytest

import tractile as tt
from tractile.constraints import json_schema

SEPARATORS = [(",", ":"), (", ", ": "), (" , ", " : "), (",\n", "\t:")]
BYTES = tt.Vocabulary(
    [None, *(bytes([b]) for b in range(256)), b'":', b" ,", b", ", b"\\u0", b"1,"], eos_token_id=0
)
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": "integer"}},
        "b/é": {"type": "string", "maxLength": 3},
        "c": {"enum": ["ü/", 1, None]},
    },
    "required": ["a", "b/é"],
    "additionalProperties": False,
}
VALUE = {"a": [1, -20, 3], "b/é": 'x"é', "c": "ü/"}


@pytest.mark.parametrize("separators", SEPARATORS)
@pytest.mark.parametrize(("escapes", "ascii_only"), [("minimal", False), ("ascii", True)])
def test_texts_are_those_of_json_dumps(separators, escapes, ascii_only):
    constraint = json_schema(SCHEMA, separators=separators, escapes=escapes)
    text = json.dumps(VALUE, separators=separators, ensure_ascii=ascii_only)
    assert constraint.accepts(text)
    assert constraint.finite.accepts(text)
    others = [json.dumps(VALUE, separators=other, ensure_ascii=ascii_only) for other in SEPARATORS]
    others += [
        json.dumps(VALUE, separators=separators, ensure_ascii=not ascii_only),
        text.replace("/", "\\/"),
    ]
    assert not any(constraint.accepts(other) for other in others if other != text)


@pytest.mark.parametrize(("escapes", "ascii_only"), [("minimal", False), ("ascii", True)])
def test_each_character_is_written_in_one_way(escapes, ascii_only):
    constraint = json_schema({"type": "string"}, escapes=escapes)
    for code in [*range(0x100), 0x7FF, 0x800, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF]:
        written = {json.dumps(chr(code), ensure_ascii=one) for one in (True, False)}
        units = chr(code).encode("utf-16-be").hex()
        coded = "".join("\\u" + units[i : i + 4] for i in range(0, len(units), 4))
        written |= {f'"{coded}"', f'"{coded.upper()}"'.replace("\\U", "\\u")}
        written |= {'"\\/"'} if chr(code) == "/" else set()
        assert [w for w in written if constraint.accepts(w)] == [
            json.dumps(chr(code), ensure_ascii=ascii_only)
        ]


@pytest.mark.parametrize("separators", SEPARATORS)
@pytest.mark.parametrize("escapes", ["any", "ascii"])
def test_masks_and_budgets_are_those_of_the_finite_automaton(separators, escapes):
    constraint = json_schema(SCHEMA, separators=separators, escapes=escapes, order="declared")
    text = json.dumps(VALUE, separators=separators).encode()
    queries = [tt.gcd(c.compile(BYTES), 80).start() for c in (constraint, constraint.finite)]
    for byte in text:
        masks = [query.mask() for query in queries]
        assert masks[0].equal(masks[1])
        assert masks[0][0, byte + 1]
        for query in queries:
            query.advance([byte + 1])
    for fa in (constraint.compile(BYTES), constraint.finite.compile(BYTES)):
        with pytest.raises(tt.BudgetTooSmall, match="|".join(str(n) for n in range(5, 40))):
            tt.gcd(fa, 4).start()


def test_what_json_does_not_separate_is_refused():
    for bad in ("", (",",), ("-", ":"), (1, 2), (":", ",")):
        with pytest.raises(tt.UnsupportedConstraint, match="a comma and a colon"):
            json_schema(SCHEMA, separators=bad)
    with pytest.raises(tt.UnsupportedConstraint, match="flexible"):
        json_schema(SCHEMA, separators=(",", ":"), whitespace="flexible")
    with pytest.raises(tt.UnsupportedConstraint, match="escapes"):
        json_schema(SCHEMA, escapes="short")


def test_grammars_may_choose_separators():
    schema = '{"type": "array", "items": {"type": "integer"}, "x-guidance": {"item_separator": " ; "}}'
    with pytest.raises(tt.UnsupportedConstraint, match="a comma and a colon"):
        tt.grammar(f"start: %json {schema}\n")
    schema = schema.replace(" ; ", " , ")
    with pytest.raises(tt.UnsupportedConstraint, match="separators need whitespace_flexible: false"):
        tt.grammar(f"start: %json {schema}\n")
    schema = schema.replace("}}", ', "whitespace_flexible": false}}')
    grammar = tt.grammar(f"start: %json {schema}\n")
    assert grammar.accepts("[1 , 2]")
    assert not grammar.accepts("[1, 2]")
