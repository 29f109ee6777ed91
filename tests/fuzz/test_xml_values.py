"""Random JSON Schemas as XML parameters: what is accepted as JSON is as XML, and the other way where types are written."""

import json
import re

from hypothesis import assume, given
from hypothesis import strategies as st
from random_schemas import documents, instances

import tractile as tt
from tractile.constraints import structural_tag

REFUSED = (tt.errors.UnsupportedConstraint, tt.errors.TooManyStates)
KINDS = {
    str: "string", bool: "boolean", int: "number", float: "number", type(None): "null", list: "array", dict: "object",
}  # fmt: skip
COHERE = {"string": "raw", "object": "dict", "array": "list"}


def plain(value):
    """A value without numbers that are written in several ways."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    return {name: plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def body(value, style):
    if isinstance(value, str):
        return value
    if style == "cohere_xml" and isinstance(value, list):
        return "".join(f"<cofl:value{inner}" for inner in (cohere("", each) for each in value))
    if style == "cohere_xml" and isinstance(value, dict):
        return written(value, style)
    return json.dumps(value, ensure_ascii=False)


def cohere(name, value):
    kind = COHERE.get(KINDS[type(value)], "json")
    return f'{name} type="{kind}">{body(value, "cohere_xml")}</cofl:value>'


def written(members, style):
    """An object as XML parameters."""
    found = []
    for name, value in members.items():
        kind = KINDS[type(value)]
        if style == "qwen_xml":
            found.append(f"<parameter={name}>{body(value, style)}</parameter>")
        elif style == "deepseek_xml":
            is_string = str(kind == "string").lower()
            begin = f'<｜DSML｜parameter name="{name}" string="{is_string}">'
            found.append(f"{begin}{body(value, style)}</｜DSML｜parameter>")
        elif style == "kimi_k3_xml":
            begin = f'<|open|>argument key="{name}" type="{kind}"<|sep|>'
            found.append(f"{begin}{body(value, style)}<|close|>argument<|sep|>")
        else:
            found.append(f"<cofl:value{cohere(f' name={json.dumps(name)}', value)}")
    return "".join(found)


def is_plain(value, style):
    """Whether all names can be names of parameters that no schema declares."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    names = list(value) if isinstance(value, dict) else []
    return all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) for name in names) and (
        style != "cohere_xml" or all(is_plain(each, style) for each in inner)
    )


@given(st.data(), documents(), st.sampled_from(["qwen_xml", "deepseek_xml", "kimi_k3_xml", "cohere_xml"]))
def test_values_as_xml_are_those_as_json(data, document, style):
    def of(style, schema):
        spec = {"type": "json_schema", "style": style, "json_schema": schema, "any_order": True}
        return structural_tag(spec, on_narrowed="ignore")

    instances_of_it = [plain(data.draw(instances(document, document))) for _ in range(6)]
    instances_of_it = [each for each in instances_of_it if isinstance(each, dict) and is_plain(each, style)]
    instances_of_it = [each for each in instances_of_it if not re.search(r"\de[+-]?\d", json.dumps(each))]
    assume(instances_of_it)
    try:
        as_json = of("json", document)
        expected = [as_json.accepts(json.dumps(each, ensure_ascii=False)) for each in instances_of_it]
        try:
            as_xml = of(style, document)
        except tt.errors.EmptyLanguage:
            assert not any(expected)
            return
        for instance, right in zip(instances_of_it, expected, strict=True):
            text = written(instance, style)
            accepted = as_xml.accepts(text)
            assert accepted or not right, text
            assert right or not accepted or style == "qwen_xml", text
    except REFUSED:
        return
