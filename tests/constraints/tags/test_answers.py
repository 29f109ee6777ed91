"""Answers of models that call tools, read as text and calls: what is drawn from the constraints is read back."""

import html
import random
import re

import jsonschema
import pytest
from call_texts import EMPTY, LISTS, TOOLS, WRITTEN, twice

from tractile.constraints import Answer, Call, output_type, tool_calls
from tractile.errors import FormatError

WEATHER = Call("weather", {"city": "Oslo", "days": 3})
NO_DAYS = Call("weather", {"city": "Oslo"})
STOP = Call("stop", {})


@pytest.mark.parametrize("family", WRITTEN)
def test_calls_of_a_family_come_back_as_calls(family):
    read = output_type(tool_calls(TOOLS, family)).parse
    for text in WRITTEN[family]:
        answer = read(text)
        assert isinstance(answer, Answer)
        assert answer.calls
        for call in answer.calls:
            assert call in (WEATHER, NO_DAYS, STOP)
        assert len(answer.calls) == text.count("weather") + text.count("stop")
        assert answer.text == ""
        assert (answer.reasoning == "Hm.") == ("analysis" in text)
    assert read(EMPTY[family]).calls == (STOP,)
    if family == "harmony":
        assert read("<|channel|>final<|message|>It rains.") == Answer("It rains.")
    else:
        assert read("It rains.") == Answer("It rains.")
        assert read(f"It rains. {EMPTY[family]}") == Answer("It rains. ", (STOP,))
    if family in LISTS:
        assert read(twice(EMPTY[family], *LISTS[family])).calls == (STOP, STOP)


@pytest.mark.parametrize("family", WRITTEN)
def test_text_then_calls(family):
    c = tool_calls(TOOLS, family, choice="text_then_calls")
    call, after = EMPTY[family], "<|start|>assistant"
    said = f"<|channel|>commentary<|message|>Hm.<|end|>{after}" if family == "harmony" else "Hm."
    assert c.accepts(call)
    assert c.accepts(said + call)
    assert not c.accepts(said)
    assert not c.accepts("")
    assert not c.accepts(f"{call} Hm.")
    assert output_type(c).parse(said + call) == Answer("Hm.", (STOP,))
    with pytest.raises(FormatError):
        output_type(c).parse((said + call).replace("stop", "step"))


RICH = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "word": {"type": "string", "pattern": "^[a-c]{1,3}$"},
        "digits": {"enum": ["1", "true", "x\ny"]},
        "number": {"type": "integer", "minimum": -5, "maximum": 5},
        "real": {"type": "number"},
        "flag": {"type": ["boolean", "null"]},
        "either": {"anyOf": [{"enum": ["7", "null"]}, {"type": "boolean"}]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/item"}, "maxItems": 3},
        "inner": {
            "type": "object",
            "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"type": "integer"}},
            "required": ["a"],
        },
    },
    "required": ["text", "number", "list", "inner"],
    "$defs": {"item": {"enum": [1, 2, "3", "four"]}},
}  # fmt: skip


@pytest.mark.parametrize("family", WRITTEN)
def test_what_a_constraint_allows_is_read_as_values_of_the_schema(family):
    tools = [
        {"name": "f", "parameters": RICH},
        {"name": "fg", "parameters": {"type": "object", "properties": {}}},
    ]
    c = tool_calls(tools, family, choice="required", on_narrowed="ignore")
    dice, read, texts = random.Random(family), output_type(c).parse, c.byte_states
    bytes_of = [*b'abx1 37-"{}[]:,</>', *range(32, 127)]
    for _ in range(6):
        state, text = texts.start, bytearray()
        for _ in range(dice.randint(0, 400)):
            allowed = texts.allowed(state)
            if not allowed:
                break
            liked = [byte for byte in bytes_of if byte in allowed] or allowed
            byte = dice.choice(liked)
            text.append(byte)
            state = texts.step(state, byte)
        written = (bytes(text) + texts.completion(state)).decode(errors="strict")
        answer = read(written)
        assert answer.calls
        for call in answer.calls:
            if call.name == "f":
                jsonschema.validate(call.arguments, RICH)
            assert call.arguments.keys() <= RICH["properties"].keys()


EITHER, SHORT = RICH["properties"]["either"], {"type": "string", "maxLength": 2}
LIST, REAL = {"type": "array", "items": {"type": "string"}}, {"type": "number"}
VALUES = [
    ("qwen_xml", "<parameter=x>\n7\n</parameter>\n", EITHER, "7"),
    ("qwen_xml", "<parameter=x>\ntrue\n</parameter>\n", EITHER, True),
    ("qwen_xml", "<parameter=x>\nnull\n</parameter>\n", EITHER, "null"),
    ("qwen_xml", '<parameter=x>\n["</parameter>"]\n</parameter>\n', LIST, ["</parameter>"]),
    ("qwen_xml", "<parameter=x>1e400</parameter>\n", REAL, float("inf")),
    ("minimax_m3", "]<]minimax[>[<x>7]<]minimax[>[</x>", EITHER, "7"),
    ("minimax_m3", "]<]minimax[>[<x>false]<]minimax[>[</x>", EITHER, False),
    ("minimax_m3", "]<]minimax[>[<x>]<]minimax[>[</x>", LIST, []),
    ("cohere", '<cofl:value name="x" type="raw">7</cofl:value>', EITHER, "7"),
    ("cohere", '<cofl:value name="x" type="json">true</cofl:value>', EITHER, True),
    ("cohere", '<cofl:value name="x" type="raw">ab\n</cofl:value>', SHORT, "ab"),
    ("deepseek_v4", '<｜DSML｜parameter name="x" string="false">["</｜DSML｜parameter>"]</｜DSML｜parameter>', LIST,
     ["</｜DSML｜parameter>"]),
]  # fmt: skip


@pytest.mark.parametrize("name", ["x", "x>", "x:y", 'x"', "item", "a b", "&amp;", ""])
@pytest.mark.parametrize(("family", "written", "schema", "value"), VALUES)
def test_a_value_without_quotes_is_what_its_schema_allows(family, written, schema, value, name):
    """Also where its text has the end of its element, and under names that have signs of the format."""
    schema = {"type": "object", "properties": {name: schema}, "required": [name]}
    in_xml = name if family != "cohere" else html.escape(name, quote=True)
    written = re.sub(r"""(?<=[=<"/])x(?=[>"])""", lambda _: in_xml, written)
    c = tool_calls([{"name": "stop", "parameters": schema}], family)
    at = EMPTY[family].index(">", EMPTY[family].index("stop")) + 1
    at += EMPTY[family][at] == "\n"
    text = EMPTY[family][:at] + written + EMPTY[family][at:]
    assert c.accepts(text)
    (call,) = output_type(c).parse(text).calls
    assert call.arguments == {name: value}
    assert type(call.arguments[name]) is type(value)


@pytest.mark.parametrize(("family", "quote"), [("gemma4", '<|"|>'), ("functiongemma", "<escape>")])
def test_names_may_have_signs_between_names_and_values(family, quote):
    properties = {",a:b}": {"type": "string"}, "a": {"type": "object", "properties": {"a:": {"const": 1}}}}
    c = tool_calls([{"name": "stop", "parameters": {"type": "object", "properties": properties}}], family)
    text = EMPTY[family].replace("{}", f"{{,a:b}}:{quote},{quote},a:{{a::1}}}}")
    assert c.accepts(text)
    assert output_type(c).parse(text).calls == (Call("stop", {",a:b}": ",", "a": {"a:": 1}}),)
