"""The W3C's EBNF and ABNF, chains of many rules, and a byte order mark."""

import json

import pytest

import tractile as tt

W3C = [
    ('a ::= #x41 | "b"', ["A", "b"], ["", "x"]),
    ("a ::= [#x20-#x7E]+ /* printable */", ["abc ~"], ["\n", ""]),
    ('a ::= [a-z]+ - "if" - "of"', ["abc"], ["if", "of", ""]),
    ("[1] Name ::= [A-Za-z_] Rest*\n[2] Rest ::= [A-Za-z0-9._-]", ["a-b.c"], ["-b"]),
    ("x ::= '\\' [tbnrf\\\"']", ["\\t", '\\"', "\\\\"], ["t"]),
    ("x ::= '<' ([^<>\"{}|^`\\]-[#x00-#x20])* '>'", ["<abc>", "<>"], ["<a b>", "<\\>", "<`>"]),
    ("c ::= [^<&]* - ([^<&]* ']]>' [^<&]*)", ["a]]b"], ["a]]>b", "<"]),
    ("c ::= #x9 | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]", ["\t", "é", "😀"], ["\n", "￿"]),
]


@pytest.mark.parametrize(("text", "good", "bad"), W3C)
def test_the_w3cs_notation(text, good, bad):
    c = tt.constraints.grammar(text, syntax="ebnf")
    assert [c.accepts(each) for each in good + bad] == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a ::= #x41 "\\n"', "no escapes"),
        ('a ::= #x41 [ b ]\nb ::= "x"', "class of characters"),
        ("a ::= [#x41] [WFC: unique]", "constraint in words"),
        ("a ::= #x110000", "no character of Unicode"),
        ("a ::= [z-a] #x41", "no range"),
        ('a ::= x [exponnent]\nx ::= "1"', "'exponnent' is not defined"),
    ],
)
def test_what_the_w3cs_notation_cannot_say_is_refused(text, message):
    with pytest.raises(tt.errors.UnsupportedConstraint, match=message):
        tt.constraints.grammar(text, syntax="ebnf")


def test_plain_ebnf_has_optional_parts_in_brackets_and_comments_after_a_sign():
    c = tt.constraints.grammar('a = [b] "\\"" ["c"]; # not [^a]\nb = "x"; /* nor #x41 */', syntax="ebnf")
    assert c.accepts('x"c')
    assert c.accepts('"')
    assert not c.accepts("c")


ABNF = [
    ('a = "ab" / %s"Xy" / %i"q"', ["ab", "aB", "AB", "Xy", "Q"], ["xy"]),
    ("a = %x41-5A 1*3DIGIT %d13.10 ; a line", ["A12\r\n"], ["A\r\n", "A1234\r\n", "a1\r\n"]),
    ('A = 2B *C [d] 2*3"z"\nb = "x"\nC = "y" / "w"\nD = CRLF\nc =/ "v"', ["xxywvzz", "XX\r\nzzz"], ["xzz"]),
    ('a = *1("x") *"y" ("." / "")', ["", "x", "xyy."], ["xx"]),
    ("a = b\nb = %x1F600 /\n    %b1000001", ["😀", "A"], ["B"]),
    ('a = DIGIT\nDIGIT = "d"', ["d"], ["1"]),
]


@pytest.mark.parametrize(("text", "good", "bad"), ABNF)
def test_abnf(text, good, bad):
    c = tt.constraints.grammar(text, syntax="abnf", start="A")
    assert [c.accepts(each) for each in good + bad] == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = <a date>", "says in words"),
        ("a = 1#DIGIT", "a list of HTTP's RFCs"),
        ('a = "x"\nA = "y"', "defined already"),
        ('a =/ "y"', "no rule to add to"),
        ("a = %b12", "base 2"),
        ('a = 3*2"y"', "no range of counts"),
        ("a = token", "'token' is not defined"),
        ("; nothing", "no rules"),
    ],
)
def test_what_abnf_cannot_say_is_refused(text, message):
    with pytest.raises(tt.errors.UnsupportedConstraint, match=message):
        tt.constraints.grammar(text, syntax="abnf")


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


def test_names_of_rules_in_angle_brackets_of_abnf():
    """RFC 5234, section 2.1; RFC 3986 writes ``path-empty = 0<pchar>``."""
    found = tt.constraints.grammar("path = 2<pchar> / 0<PCHAR>\npchar = ALPHA / %x2D", syntax="abnf")
    assert [found.accepts(text) for text in ("", "a-", "a", "<p")] == [True, True, False, False]
    with pytest.raises(tt.errors.UnsupportedConstraint, match="in words"):
        tt.constraints.grammar("path = 2<a character of a path>", syntax="abnf")
