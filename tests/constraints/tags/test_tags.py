"""Free text, tags and tool calls, against plain definitions of their languages."""

import itertools
import json
import pickle
import random

import pytest
from call_texts import TOOLS, WRITTEN
from cases import groups
from counting import at_most

import tractile as tt
from tractile.constraints import (
    free,
    regex,
    structural_tag,
    tag,
    tool_calls,
    triggered,
)
from tractile.errors import FormatError

BYTES = tt.Vocabulary([None, *(bytes([b]) for b in range(256))], eos_token_id=0)


def texts(letters, longest):
    return ["".join(word) for n in range(longest + 1) for word in itertools.product(letters, repeat=n)]


def first_event(text, events):
    """(end, event) of the occurrence that ends first, the longest of those that end there; ``None`` if there is none."""
    ends = [
        (i, -len(e), e) for e in events for i in range(len(e), len(text) + 1) if text[i - len(e) : i] == e
    ]
    return min(ends)[::2] if ends else None


@pytest.mark.parametrize("stops", [["ab"], ["aa"], ["aba"], ["ab", "ba"], ["a", "ba"], ["aab", "b"]])
@pytest.mark.parametrize("without", [[], ["bb"], ["ba"]])
def test_free_text_ends_at_the_first_occurrence(stops, without):
    constraint = free(until=stops, without=without)
    for text in texts("abc", 6):
        end = first_event(text, stops)
        expected = end is not None and end[0] == len(text)
        if expected:
            bodies = [text[: -len(stop)] for stop in stops if text.endswith(stop)]
            expected = any(not any(word in body for word in without) for body in bodies)
        assert constraint.accepts(text) == expected, text


def reads(text, rules, ends, loop):
    """Whether a text is free text in which each pattern is followed by its content, and the first end ends it."""
    found = first_event(text, [*rules, *ends])
    if found is None:
        return not ends
    at, event = found
    if event in ends:
        return at == len(text)
    for i in range(at, len(text) + 1):
        if rules[event].accepts(text[at:i]) and (
            reads(text[i:], rules, ends, loop) if loop else text[i:] in (ends or [""])
        ):
            return True
    return False


@pytest.mark.parametrize("ends", [[], ["d"], ["ad"]])
@pytest.mark.parametrize("once", [False, True])
def test_triggered_tags(ends, once):
    rules = {"ab": regex("c*d"), "ba": regex("a?")}
    tags = [("ab", regex("c*"), "d"), ("ba", regex("a?"))]
    constraint = triggered(tags, ["ab", "ba"], until=ends or None, stop_after_first=once)
    for text in texts("abcd", 6):
        assert constraint.accepts(text) == reads(text, rules, ends, not once), text


def test_special_tokens_spell_their_text():
    vocab = tt.Vocabulary([*BYTES.token_bytes, None, None], 0)
    spelled = vocab.with_special({"<|call|>": 257})
    assert spelled.fingerprint == vocab.fingerprint
    assert spelled.cache_name != vocab.cache_name
    constraint = tag("f", regex("[0-9]"), "<|call|>")
    ids = [b + 1 for b in b"f1"]
    assert constraint.compile(spelled).accepts_tokens([*ids, 257, 0])
    assert constraint.compile(spelled).accepts_tokens([*ids, *(b + 1 for b in b"<|call|>"), 0])
    assert not constraint.compile(vocab).accepts_tokens([*ids, 257, 0])
    for name, token in (("x", 5), ("x", 0), ("x", 1000), ("", 258)):
        with pytest.raises(tt.errors.ShapeError, match="with_special"):
            vocab.with_special({name: token})


PEERS = {
    "hermes": "qwen_3", "qwen_xml": "qwen_3_coder", "llama": "llama", "deepseek": "deepseek_v3_1", "deepseek_v3": "deepseek_r1",
    "deepseek_v3_2": "deepseek_v3_2", "deepseek_v4": "deepseek_v4", "glm": "glm_4_7", "kimi": "kimi", "minimax": "minimax",
    "minimax_m3": "minimax_m3", "cohere": "cohere", "exaone": "exaone", "mimo": "mimo", "harmony": "harmony",
}  # fmt: skip


@pytest.mark.parametrize("family", PEERS)
def test_xgrammar_reads_the_same_calls(family):
    xgrammar = pytest.importorskip("xgrammar")
    accepts = pytest.importorskip("xgrammar.testing")._is_grammar_accept_string
    tools = [{"type": "function", "function": tool} for tool in TOOLS]
    tag = xgrammar.get_model_structural_tag(PEERS[family], tools, "auto", "auto")
    peer = xgrammar.Grammar.from_structural_tag(tag)
    ours = structural_tag(json.loads(tag.model_dump_json()))
    for text in WRITTEN[family]:
        assert ours.accepts(text) == accepts(peer, text)
        # not in its templates
        unlike = "</arg_key>\n" if family == "glm" else "commentary to=" if family == "harmony" else "\0"
        if unlike not in text:
            assert accepts(peer, text), text


def test_calls_of_gemma_are_those_of_xgrammar():
    xgrammar = pytest.importorskip("xgrammar")
    accepts = pytest.importorskip("xgrammar.testing")._is_grammar_accept_string
    properties = {
        "city": {"type": "string"},
        "words": {"type": "array", "items": {"type": ["string", "null"]}},
        "inner": {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False},
        "either": {"enum": ["x", 1]},
    }
    tool = {"name": "f", "parameters": {"type": "object", "properties": properties, "required": ["city"]}}
    tools = [{"type": "function", "function": tool}]
    peer = xgrammar.Grammar.from_structural_tag(
        xgrammar.get_model_structural_tag("gemma_4", tools, "auto", "disabled")
    )
    ours = tool_calls(tools, "gemma4")
    found = []
    for inside in (
        "city:QaQ", "city:Qa\"}\n<|Q", "city:QQ,words:[]", "city:QaQ,words:[Qb,cQ,null]", "city:QaQ,words:[b]", "city:a", "",
        "city:QaQ,inner:{}", "city:QaQ,inner:{a:true}", "city:QaQ,inner:{a:1}", "city:QaQ,either:QxQ", "city:QaQ,either:1",
        "city:QaQ,either:x", "city:QaQ,", "city:QaQ,other:1", "city:QaQ,words:[QbQ,]", "city:QaQcity:QaQ", "words:[]",
    ):  # fmt: skip
        text = f"<|tool_call>call:f{{{inside}}}<tool_call|>".replace("Q", '<|"|>')
        found.append(ours.accepts(text))
        assert found[-1] == accepts(peer, text), text
    assert 5 < sum(found) < len(found)


NUMBER = {"type": "regex", "pattern": "[0-9]+"}
ANY = {"type": "any_text"}


def as_tag(begin, content, end):
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def const(value):
    return {"type": "const_string", "value": value}


FORMATS = [json.loads(c.given) for cases in groups().values() for c in cases if c.door == "structural_tag"]


def test_formats_of_single_tokens_are_those_of_their_texts():
    call = {
        "type": "tag",
        "begin": {"type": "token", "token": "<|call|>"},
        "content": NUMBER,
        "end": {"type": "token", "token": 9},
    }
    again = as_tag("<|call|>", NUMBER, "<|end|>")
    pairs = [
        ({"type": "token", "token": 9}, const("<|end|>")),
        (call, again),
        ({"type": "any_tokens", "exclude_tokens": ["<|call|>", 9]}, ANY | {"excludes": ["<|call|>", "<|end|>"]}),
        ({"type": "token_triggered_tags", "trigger_tokens": ["<|call|>"], "tags": [call], "exclude_tokens": [9],
          "at_least_one": True},
         {"type": "triggered_tags", "triggers": ["<|call|>"], "tags": [again], "excludes": ["<|end|>"], "at_least_one": True}),
        ({"type": "token_dispatch", "rules": [["<|call|>", NUMBER]], "exclude_tokens": [9], "loop": False},
         {"type": "dispatch", "rules": [["<|call|>", NUMBER]], "excludes": ["<|end|>"], "loop": False}),
    ]  # fmt: skip
    texts = [
        "", "a", "<|end|>", "<|call|>1<|end|>", "<|call|>1", "a<|call|>12<|end|>b", "<|call|>x", "<|call|>",
    ]  # fmt: skip
    for spec, other in pairs:
        found = [structural_tag(spec, tokens={9: "<|end|>"}).accepts(text) for text in texts]
        assert found == [structural_tag(other).accepts(text) for text in texts]
        assert any(found)
    vocab = tt.Vocabulary([*BYTES.token_bytes, None, None], 0).with_special({"<|call|>": 257})
    one = structural_tag({"type": "sequence", "elements": [{"type": "exclude_token", "exclude_tokens": ["b"]}, call]},
                         tokens={9: "!"}).compile(vocab)  # fmt: skip
    for tokens, allowed in (
        ([98, 257, 50, 34], True),
        ([99, 257, 50, 34], False),
        ([98, 98, 257, 50, 34], False),
    ):
        assert one.accepts_tokens([*tokens, 0]) == allowed


def test_tokens_named_by_number_are_those_tokens():
    vocab = tt.Vocabulary([*BYTES.token_bytes, None, None, None], 0)  # 257 to 259 have no text
    token = {"type": "token", "token": 257}
    call = as_tag(token, NUMBER, {"type": "token", "token": 258})
    free = {"type": "token_triggered_tags", "trigger_tokens": [257], "tags": [call], "exclude_tokens": [259]}

    def accepted(spec, ids):
        found = pickle.loads(pickle.dumps(structural_tag(spec)))
        return found.compile(vocab).accepts_tokens([b + 1 if isinstance(b, int) else b[0] for b in ids] + [0])

    for spec, ids, right in (
        (token, [[257]], True),
        (token, [[258]], False),
        (call, [[257], *b"12", [258]], True),
        (call, [[257], *b"12", [259]], False),
        (free, [*b"ab", [257], *b"1", [258], *b"c"], True),
        (free, [*b"ab", [258], *b"c"], True),  # any other token
        (free, [*b"ab", [259], *b"c"], False),
        (free, [*b"ab", [257], *b"c"], False),
        ({"type": "sequence", "elements": [as_tag("", ANY, "!"), token]}, [*b"a!", [257]], True),
        (
            {"type": "sequence", "elements": [as_tag("", ANY, "!"), token]},
            [*b"a", [257], *b"!", [257]],
            False,
        ),
        ({"type": "sequence", "elements": [ANY, token]}, [*b"a", [257]], True),
        (as_tag("<", ANY, token), [*b"<ab", [257]], True),
        (as_tag("<", ANY, token), [*b"<ab", [258]], False),
        (as_tag("<", JSON_PART | {"max_tokens": 3}, token), [*b'<"a"', [257]], True),
        (as_tag("<", JSON_PART | {"max_tokens": 3}, token), [*b'<"ab"', [257]], False),
    ):
        assert accepted(spec, ids) == right, (spec, ids)
    for number in (5, 0, 300):  # an ordinary token, the end token, none
        with pytest.raises(tt.errors.VocabularyMismatch, match=f"token {number} is named by its number"):
            structural_tag({"type": "token", "token": number}).compile(vocab)
    for bad in (-1, 2.5, True, None, ""):
        with pytest.raises(FormatError, match="no token"):
            structural_tag({"type": "token", "token": bad})
    for kind, triggers, begin in (
        ("triggered_tags", "triggers", token),
        ("token_triggered_tags", "trigger_tokens", "a"),
    ):
        with pytest.raises(FormatError, match="tags/0/begin"):
            structural_tag({"type": kind, triggers: ["a"], "tags": [as_tag(begin, NUMBER, ".")]})


def test_the_older_form_and_budgets_of_structural_tags():
    older = {"type": "structural_tag", "triggers": ["<f"],
             "structures": [{"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}]}  # fmt: skip
    assert structural_tag(json.dumps(older)).accepts("a <f>12</f> b")
    assert not structural_tag(older).accepts("<f>x</f>")
    spec = {"type": "sequence", "elements": [as_tag("", ANY | {"max_tokens": 3}, "."), NUMBER]}
    fa = structural_tag(spec).compile(BYTES)
    assert fa.accepts_tokens([b + 1 for b in b"abc.1"] + [0])
    assert not fa.accepts_tokens([b + 1 for b in b"abcd.1"] + [0])


JSON_PART = {"type": "json_schema", "json_schema": {"type": "string"}}
CLOSE = {"type": "const_string", "value": ";"}


@pytest.mark.parametrize(
    "part", [JSON_PART, {"type": "regex", "pattern": "[a-z]+"}, {"type": "plus", "content": NUMBER}]
)
def test_every_part_keeps_its_max_tokens(part):
    """Two tokens and four or five more, each of a byte."""
    elements = [{"type": "const_string", "value": "!"}, part | {"max_tokens": 6}, CLOSE]
    constraint = structural_tag({"type": "sequence", "elements": elements})
    fa = constraint.compile(BYTES)
    begin, letter, end = {"json_schema": '"a"', "regex": ("aa", "a", ""), "plus": ("11", "1", "")}[
        part["type"]
    ]
    for more, accepted in ((4, True), (5, False)):
        text = f"!{begin}{letter * more}{end};"
        assert constraint.accepts(text)
        assert fa.accepts_tokens([b + 1 for b in text.encode()] + [0]) == accepted
    for style, text in (
        ("qwen_xml", "<parameter=a>{}</parameter>"),
        ("cohere_xml", '<cofl:value name="a" type="raw">{}</cofl:value>'),
    ):
        schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
        xml = {"type": "json_schema", "style": style, "json_schema": schema, "max_tokens": len(text)}
        fa = structural_tag(as_tag("<", xml, ">")).compile(BYTES)
        for inner, accepted in (("xy", True), ("xyz", False)):
            assert fa.accepts_tokens([b + 1 for b in f"<{text.format(inner)}>".encode()] + [0]) == accepted
    tagged = structural_tag(as_tag("<", JSON_PART | {"max_tokens": 3}, ">")).compile(BYTES)
    assert tagged.accepts_tokens([b + 1 for b in b'<"a">'] + [0])
    assert not tagged.accepts_tokens([b + 1 for b in b'<"ab">'] + [0])


WRONG = [None, 3, "x", [], [1], {}, {"type": "token", "token": 1}, True, -1, ["", "a"]]


def without_or_with(spec, dice):
    """The format with a member left out or replaced, by three of the wrong values, at any depth."""
    if isinstance(spec, list):
        for i, each in enumerate(spec):
            yield from ([*spec[:i], other, *spec[i + 1 :]] for other in without_or_with(each, dice))
    if isinstance(spec, dict):
        for key, value in spec.items():
            yield {k: v for k, v in spec.items() if k != key}
            yield from (spec | {key: wrong} for wrong in dice.sample(WRONG, 3))
            yield from (spec | {key: other} for other in without_or_with(value, dice))


def test_errors_of_structural_tags_are_typed():
    refused, tried, dice = 0, 0, random.Random(0)
    for spec in FORMATS:
        for broken in without_or_with({"type": "structural_tag", "format": spec}, dice):
            tried += 1
            try:
                structural_tag(broken, on_narrowed="ignore").accepts("a")
            except tt.TractileError:
                refused += 1
    assert refused > tried / 2


def test_free_text_may_end_at_hundreds_of_strings():
    with at_most(200_000):
        text = free(until=[f"stop{i};" for i in range(500)])
    assert text.accepts("a stop7 stop499;")
    assert not text.accepts("stop1; stop2;")
