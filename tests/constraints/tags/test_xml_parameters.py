"""Call arguments as XML parameters: their language beside xgrammar's, their masks beside finite automata, what is refused."""

from functools import partial

import pytest

from tractile.constraints import structural_tag

PLAIN = [
    ("qwen_xml", "<parameter={}>", "</parameter>"),
    ("minimax_xml", '<parameter name="{}">', "</parameter>"),
    ("glm_xml", "<arg_key>{}</arg_key><arg_value>", "</arg_value>"),
    ("glm_xml", "<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>"),
]
TYPED = [
    ("deepseek_xml", '<｜DSML｜parameter name="{}" string="true">', "</｜DSML｜parameter>"),
    ("deepseek_xml", '<｜DSML｜parameter name="{}" string="false">', "</｜DSML｜parameter>"),
    ("deepseek_v4_1_xml", '<｜DSML｜ parameter name="{}" string="true">', "</｜DSML｜ parameter>"),
    ("kimi_k3_xml", '<|open|>argument key="{}" type="string"<|sep|>', "<|close|>argument<|sep|>"),
    ("kimi_k3_xml", '<|open|>argument key="{}" type="number"<|sep|>', "<|close|>argument<|sep|>"),
    ("cohere_xml", '<cofl:value name="{}" type="raw">', "</cofl:value>"),
    ("cohere_xml", '<cofl:value name="{}" type="json">', "</cofl:value>"),
    ("cohere_xml", '<cofl:value name="{}" type="dict">', "</cofl:value>"),
    ("cohere_xml", '<cofl:value name="{}" type="list">', "</cofl:value>"),
]
M3 = "]<]minimax[>["
ELEMENTS = [("minimax_m3_xml", f"{M3}<{{}}>", f"{M3}</{{}}>")]
ITEM = {
    "cohere_xml": ('<cofl:value type="json">', "</cofl:value>"),
    "minimax_m3_xml": (f"{M3}<item>", f"{M3}</item>"),
}
VALUES = [
    "Bob", "\nBob\n", "", " 3 ", "3", "\n\n3", "a<b", '{"a": [ 1 ]}', '"q"', "true", "x</arg_value>", "null", "Bobby", "é",
]  # fmt: skip
SCHEMAS = [
    {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": ["string", "integer"]}, {"enum": ["Bob", 3]}, {},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}},
    {"type": "string", "minLength": 2, "maxLength": 4}, {"type": "string", "pattern": "^[A-Za-z]+$"}, {"const": "Bob"},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"$ref": "#/$defs/t"}, {"type": "string", "format": "date"},
    {"type": "array", "items": {"type": "integer"}}, {"type": ["null", "number"]},
]  # fmt: skip


def of(schema, style, **options):
    return {
        "type": "structural_tag",
        "format": {"type": "json_schema", "style": style, "json_schema": schema} | options,
    }


def written(begin, end, name, value):
    """A parameter; only the last style has the name in the end."""
    return begin.format(name) + value + end.format(name)


@pytest.fixture
def peer():
    """Whether xgrammar accepts a text of a structural tag."""
    xgrammar = pytest.importorskip("xgrammar")
    accepts = pytest.importorskip("xgrammar.testing")._is_grammar_accept_string
    return lambda spec: partial(accepts, xgrammar.Grammar.from_structural_tag(spec))


@pytest.mark.parametrize(("style", "begin", "end"), PLAIN + TYPED + ELEMENTS)
def test_xml_parameters_mean_what_they_mean_to_xgrammar(style, begin, end, peer):
    for schema in SCHEMAS:
        if style == "kimi_k3_xml" and (
            "enum" in schema or (not isinstance(schema.get("type", ()), str) and "const" not in schema)
        ):
            continue  # there xgrammar allows any type of any value
        bounded = {"minLength", "pattern", "format"} & set(schema)
        if style == "minimax_m3_xml" and (bounded or schema in ({}, {"type": "object"})):
            continue  # xgrammar refuses it
        whole = {"type": "object", "properties": {"p": schema, "q": {"type": "string"}}, "required": ["p"],
                 "$defs": {"t": {"type": "string"}}}  # fmt: skip
        theirs, ours = peer(of(whole, style)), structural_tag(of(whole, style))
        values = list(VALUES)
        if style in ITEM:
            item = written(*ITEM[style], "", "1")
            values += [
                item, item * 2, f"\n{item}\n", written(begin, end, "a", item), written(begin, end, "b", "x"),
            ]  # fmt: skip
        for value in values:
            one, other = written(begin, end, "p", value), written(begin, end, "q", "x")
            for text in (
                one,
                f"\n{one}\n {other}\n",
                written(begin, end, "r", value),
                begin.format("p") + value,
            ):
                assert ours.accepts(text) == theirs(text), (schema, text)


def q(name, value):
    return f"<parameter={name}>{value}</parameter>"


OBJECTS = [
    ({"type": "object", "additionalProperties": {"type": "integer"}}, {}),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True, "required": ["a"]}, {}),
    ({"type": "object"}, {}),
    (True, {}),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "minProperties": 1}, {}),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "maxProperties": 1}, {}),
    ({"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}, {}),
    ({"oneOf": [{"type": "object", "properties": {n: {"type": "integer"}}, "required": [n]} for n in "ab"]}, {}),
    ({"enum": [{"a": 1}, {"a": "x"}]}, {}),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"max_whitespace_cnt": 1}),
    ({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]},
     {"excludes": ["x", "yz"]}),
]  # fmt: skip
TEXTS = [
    "", q("a", 1), q("b", 1), q("a", 1) + q("b", 2), q("b", 1) + q("a", 1), q("a", "x"), q("1a", 1), q("_a1", 1), q("a b", 1),
    '{"a": 1}', f"\n {q('a', 1)}", f"\n{q('a', ' 1 ')}\n", q("a", "y") + q("b", "z"), q("a", "yz") + q("b", "z"),
    q("a", "<") + q("b", "pqx"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "options"), OBJECTS)
def test_objects_mean_what_they_mean_to_xgrammar(schema, options, peer):
    theirs, ours = peer(of(schema, "qwen_xml", **options)), structural_tag(of(schema, "qwen_xml", **options))
    found = [ours.accepts(text) for text in TEXTS]
    assert found == [theirs(text) for text in TEXTS]
    assert 0 < sum(found) < len(TEXTS)


def test_a_finite_automaton_has_one_order_of_many_members():
    schema = {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(20)}}
    constraint = structural_tag(of(schema, "qwen_xml", any_order=True))
    assert constraint.accepts(q("p19", 1) + q("p3", 1))
    assert not constraint.finite.accepts(q("p19", 1) + q("p3", 1))
    assert constraint.finite.accepts(q("p3", 1) + q("p19", 1))
    assert [each.keyword for each in constraint.finite.narrowed] == ["escapes", "order"]
