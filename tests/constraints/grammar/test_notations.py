"""The W3C's EBNF and ABNF, chains of many rules, a byte order mark, and the texts of rules."""

import json

import pytest

import tractile as tt
from tractile.constraints import output_type

CHAINS = {
    "one": (lambda i: f"r{i + 1}", "x"),
    "before": (lambda i: f'"a" r{i + 1}', "a" * 400 + "x"),
    "around": (lambda i: f'"(" r{i + 1} ")"', "(" * 400 + "x" + ")" * 400),
    "after": (lambda i: f'r{i + 1} "b"', "x" + "b" * 400),
    "levels": (lambda i: f'r{i + 1} | r{i} "+{i}" r{i + 1}', "x+7x+399x"),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_chains_of_many_rules(kind):
    body, text = CHAINS[kind]
    rules = [f"r{i} ::= {body(i)}" for i in range(400)] + ['r400 ::= "x"']
    c = tt.constraints.grammar("\n".join(rules), syntax="ebnf")
    assert c.accepts(text)
    assert not c.accepts(text + "y")


def test_a_byte_order_mark_is_skipped(tmp_path):
    for syntax, text in (("lark", 'start: "x"'), ("gbnf", 'root ::= "x"'), ("abnf", 'a = "x"')):
        assert tt.constraints.grammar("\ufeff" + text, syntax=syntax).accepts("x")
        path = tmp_path / f"g.{syntax}"
        path.write_text(text, encoding="utf-8-sig")
        assert tt.constraints.grammar(path, syntax=syntax).accepts("x")
    schema = json.dumps({"const": 1})
    (tmp_path / "s.json").write_text(schema, encoding="utf-8-sig")
    assert tt.constraints.json_schema("\ufeff" + schema).accepts("1")
    assert tt.constraints.json_schema(tmp_path / "s.json").accepts("1")
    tools = json.dumps([{"name": "f", "parameters": {"type": "object", "properties": {}}}])
    (tmp_path / "t.json").write_text(tools, encoding="utf-8-sig")
    for given in ("\ufeff" + tools, tmp_path / "t.json"):
        assert tt.constraints.function_calls(given).accepts('{"name": "f", "arguments": {}}')


WRITTEN = {
    "gbnf": 'root ::= who tail* "."\nwho ::= [A-Z] [a-z]*\ntail ::= "," n?\nn ::= [0-9]+\nno ::= "-"',
    "ebnf": 'root ::= who {tail} "."; who ::= /[A-Z]/ low; low ::= low /[a-z]/ | ; tail ::= "," [n]; n ::= /[0-9]+/; no ::= "-"',
    "abnf": 'root = Who *tail "."\nWho = %x41-5A *%x61-7A\ntail = "," [n]\nn = 1*DIGIT\nno = "-"',
}


@pytest.mark.parametrize("syntax", WRITTEN)
def test_rules_have_the_texts_that_named_groups_have(syntax):
    names = ["Who" if syntax == "abnf" else "who", "tail", "n", "no"]
    kind = output_type(tt.constraints.grammar(WRITTEN[syntax], syntax=syntax, captures=names))
    for text, *expected in (
        ("Jo.", "Jo", None, None, None),
        ("T,1,23.", "T", ",23", "23", None),
        ("Su,4,.", "Su", ",", "4", None),
    ):
        assert kind.parse(text) == dict(zip(names, expected, strict=True))
    with pytest.raises(tt.errors.FormatError, match="no text of the grammar"):
        kind.parse("Jo")
    assert tt.generate(*tt.embedded.load_lm(), "My name is", kind, max_new_tokens=12)[names[0]].isalpha()


def test_the_work_of_captures_grows_with_the_rules_and_not_with_the_ways_through_them():
    rules = "".join(f"r{i} ::= r{i + 1} r{i + 1}\n" for i in range(60))  # 2⁶⁰ empty texts in the reading
    grammar = f'root ::= r0 "a"\n{rules}r60 ::= "b"?\n'
    kind = output_type(tt.constraints.grammar(grammar, syntax="gbnf", captures=["r0", "r60"]))
    assert kind.parse("a") == {"r0": "", "r60": ""}


def test_captures_that_are_not_known_are_refused():
    for text, syntax in (
        ('start: "a"', "lark"),
        ('a ::= start - "c"; start ::= "d"', "ebnf"),
        ('root ::= "a"', "gbnf"),
    ):
        with pytest.raises(tt.errors.UnsupportedConstraint, match="captures"):
            tt.constraints.grammar(text, syntax=syntax, captures=["start"])
