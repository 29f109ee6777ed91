"""The function-calling task: public formats, what is left out, references in the language, scores against brute force."""

import itertools
import json

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from texts import random_texts

import tractile as tt
from tractile.constraints.calls.tools import read_tools
from tractile_bench.function_calling.matching import (
    alternatives,
    right_call,
    right_calls,
    share_of_arguments,
)
from tractile_bench.function_calling.syntax import read_calls, write_calls
from tractile_bench.function_calling.task import FunctionCalling

RIGHT = {"accuracy": 1.0, "lenient": 1.0, "satisfied": 1.0, "name": 1.0, "arguments": 1.0}

FERRY = {
    "name": "ferry_times",
    "description": "Departures of a ferry\nfrom one quay.",
    "parameters": {
        "quay": {"description": "where it leaves", "type": "str"},
        "passengers": {"description": "how many", "type": "int, optional", "default": 1},
        "days": {"description": "on which days", "type": "List[str], optional"},
    },
}
TIDE = {
    "name": "tide",
    "description": "Height of the water.",
    "parameters": {"port": {"type": "str"}, "hour": {"type": "float"}},
}
ODD = {"name": "fold", "description": "", "parameters": {"step": {"type": "Callable[[int], int]"}}}
DASHED = {"name": "next-train", "description": "", "parameters": {"stop": {"type": "str"}}}


def xlam(id, tools, *answers, as_text=True):
    record = {"query": f"Question  {id}\nof two lines", "tools": tools, "id": id}
    answers = [{"name": name, "arguments": arguments} for name, arguments in answers]
    if as_text:
        return record | {"tools": json.dumps(tools), "answers": json.dumps(answers)}
    return record | {"answers": answers}


XLAM = [
    xlam(0, [FERRY, TIDE], ("ferry_times", {"passengers": 3, "quay": 'Horten "B"'})),
    xlam(1, [FERRY, TIDE], ("tide", {"port": "Bodø", "hour": 6.5}), ("tide", {"port": "Narvik", "hour": 7}), as_text=False),
    xlam(2, [FERRY], ("ferry_times", {"quay": "Moss", "passengers": "three"})),
    xlam(3, [FERRY], ("tide", {"port": "Moss", "hour": 1.0})),
    xlam(4, [FERRY, ODD], ("ferry_times", {"quay": "Moss"})),
    xlam(5, [FERRY, DASHED], ("next-train", {"stop": "Ski"})),
    xlam(6, [FERRY], ("ferry_times", {})),
    xlam(7, [FERRY], ("ferry_times", {"quay": "Moss", "days": ["Sat", "Sun"]})),
    xlam(8, [FERRY]),
]  # fmt: skip


def both(task):
    """The examples of both sides by id, and what was left out."""
    found, dropped = {}, {}
    for split in ("train", "test"):
        for example in task.examples(split):
            assert example.id not in found
            found[example.id] = example
        for reason, ids in task.dropped.items():
            dropped.setdefault(reason, []).extend(ids)
    return found, {reason: sorted(ids) for reason, ids in dropped.items()}


@pytest.fixture
def ferries(tmp_path):
    path = tmp_path / "xlam_function_calling_60k.json"
    path.write_text(json.dumps(XLAM))
    return path


def test_xlam_is_read_and_filtered(ferries):
    found, dropped = both(FunctionCalling(ferries))
    assert sorted(found) == ["0", "1", "5", "7"]
    assert dropped == {
        "the gold answer does not satisfy its specification (type)": ["2"],
        "the gold answer does not satisfy its specification (required)": ["6"],
        "a function is called that is not specified": ["3"],
        "the specification is not supported (UnsupportedConstraint)": ["4"],
        "no call is asked for": ["8"],
    }
    assert found["0"].prompt == (
        "Functions:\nferry_times(quay: string, passengers?: integer, days?: array of string): Departures of a ferry\n"
        "tide(port: string, hour: number): Height of the water.\nUser: Question 0 of two lines\nJSON call:\n"
    )
    assert found["0"].reference == (
        '{"name": "ferry_times", "arguments": {"quay": "Horten \\"B\\"", "passengers": 3}}'
    )
    assert found["1"].reference == (
        '[{"name": "tide", "arguments": {"port": "Bodø", "hour": 6.5}}, '
        '{"name": "tide", "arguments": {"port": "Narvik", "hour": 7}}]'
    )
    found, dropped = both(FunctionCalling(ferries.parent, syntax="python"))
    assert found["0"].reference == 'ferry_times(quay="Horten \\"B\\"", passengers=3)'
    assert found["7"].reference == 'ferry_times(quay="Moss", days=["Sat", "Sun"])'
    assert dropped["a name cannot be written in Python"] == ["5"]


@pytest.mark.parametrize("syntax", ["json", "python"])
@pytest.mark.parametrize("calls", ["either", "one", "list"])
def test_references_are_in_the_language_and_right(ferries, syntax, calls):
    task = FunctionCalling(ferries, syntax=syntax, calls=calls)
    found, dropped = both(task)
    assert (dropped.get("several calls are asked for") == ["1"]) == (calls == "one")
    for example in found.values():
        json.dumps(example.facts)
        assert example.prompt.endswith("call:\n")
        assert task.constraint(example).accepts(example.reference)
        assert task.scores(example, example.reference) == RIGHT
        assert example.reference.startswith("[") == (calls == "list" or example.id == "1")


@pytest.mark.parametrize("syntax", ["json", "python"])
@pytest.mark.parametrize("calls", ["either", "one", "list"])
def test_whatever_the_constraint_accepts_is_satisfied(ferries, syntax, calls):
    task = FunctionCalling(ferries, syntax=syntax, calls=calls)
    example = both(task)[0]["0"]
    texts = random_texts(task.constraint(example), 3, 40)
    assert {task.scores(example, text)["satisfied"] for text in texts} == {1.0}
    several = [len(read_calls(text, syntax)) > 1 for text in texts]
    assert any(several) == (calls != "one")


BFCL = [
    {
        "id": "simple_python_1",
        "question": [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Plot it."}]],
        "function": [
            {
                "name": "chart.plot",
                "description": "Draw a curve.",
                "parameters": {
                    "type": "dict",
                    "properties": {
                        "style": {"type": "dict", "properties": {"color": {"type": "string"}, "width": {"type": "float"}}},
                        "span": {"type": "tuple", "items": {"type": "integer"}},
                        "title": {"type": "string"},
                        "log": {"type": "boolean"},
                    },
                    "required": ["span", "style"],
                },
            }
        ],
    },
    {"id": "live_irrelevance_1-2-0", "question": [[{"role": "user", "content": "Hello"}]], "function": []},
    {"id": "multi_turn_base_3", "question": [[], []], "involved_classes": ["TravelAPI"]},
]  # fmt: skip
ANSWER = [{"chart.plot": {
    "title": ["Growth", "growth curve", ""], "span": [[0, 9], [0, 10]], "log": [False, ""],
    "style": [{"width": [2.0, 2.5, ""], "color": ["red", "crimson"]}],
}}]  # fmt: skip


@pytest.fixture(params=["merged", "beside"])
def chart(request, tmp_path):
    name = "BFCL_v4_simple_python.json"
    if request.param == "merged":
        lines = [BFCL[0] | {"possible_answer": ANSWER}, *BFCL[1:]]
    else:
        lines = BFCL
        (tmp_path / "possible_answer").mkdir()
        answers = json.dumps({"id": "simple_python_1", "ground_truth": ANSWER})
        (tmp_path / "possible_answer" / name).write_text(answers)
    (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "README.json").write_text('{"not": "questions"}')
    return tmp_path


def test_bfcl_is_read_from_both_layouts(chart):
    task = FunctionCalling(chart, syntax="python")
    found, dropped = both(task)
    assert dropped == {
        "no call is asked for": ["live_irrelevance_1-2-0"],
        "several turns": ["multi_turn_base_3"],
    }
    (example,) = found.values()
    assert example.prompt == (
        "Functions:\nchart.plot(style: {color?: string, width?: number}, span: array of integer, title?: string, "
        "log?: boolean): Draw a curve.\nUser: Be brief. Plot it.\nPython call:\n"
    )
    assert example.reference == 'chart.plot(style={"color": "red"}, span=(0, 9))'
    assert task.constraint(example).accepts(example.reference)
    style = "style={'color': 'crimson', 'width': 2}"
    for text, accuracy, satisfied, arguments in [
        (f"chart.plot(span=(0, 10), {style}, title='Growth')", 1, 1, 1),
        (f"chart.plot(span=(0, 10), {style}, log=False)", 1, 1, 1),
        (f"chart.plot(span=(0, 10), {style}, log=0)", 0, 0, 3 / 4),
        (f"chart.plot(span=(0, 11), {style}, log=True)", 0, 1, 2 / 4),
        ("chart.plot(span=(0, 9), style={'color': 'red', 'width': 3})", 0, 1, 3 / 4),
        ("chart.plot(span=(0, 9), style={'width': 2})", 0, 1, 3 / 4),
        ("chart.plot(style={'color': 'red'})", 0, 0, 3 / 4),
        (f"chart.plot(span=(0, 9), {style}, size=3)", 0, 0, 4 / 5),
        (f"[chart.plot(span=(0, 9), {style})]", 1, 1, 1),
        (f"[chart.plot(span=(0, 9), {style})] * 2", 0, 0, 0),
    ]:
        got = task.scores(example, text)
        assert (got["accuracy"], got["satisfied"], got["arguments"]) == (accuracy, satisfied, arguments), text
    loose = task.scores(example, f"chart.plot(span=(0, 9), {style}, title='GROWTH-Curve.')")
    assert (loose["accuracy"], loose["lenient"]) == (0.0, 1.0)


BAD = ["", "null", "[]", "{", '{"name": "tide"}', '{"name": 1, "arguments": {}}', '[{"name": "tide", "arguments": []}]',
       '{"name": "tide", "arguments": {"port": NaN, "hour": 1}}', '{"name": "tide", "name": "x", "arguments": {}}',
       "[" * 100_000, "tide(", "tide('Bodø', 1)", "tide(**{})", "tide(port=x)", "tide(port=b'x')", "tide({1})", "x[0](a=1)",
       "tide(port={1: 2})", "tide(hour=1j)", "tide(port=1, port=2)", "\0"]  # fmt: skip


@pytest.mark.parametrize("syntax", ["json", "python"])
def test_bad_answers_score_nothing_and_raise_nothing(ferries, syntax):
    task = FunctionCalling(ferries, syntax=syntax)
    example = both(task)[0]["1"]
    for text in BAD:
        assert set(task.scores(example, text).values()) == {0.0}, text


@pytest.mark.parametrize("syntax", ["json", "python"])
def test_meaning_is_what_is_called(ferries, syntax):
    task = FunctionCalling(ferries, syntax=syntax)
    example = both(task)[0]["1"]
    one, two = (
        {"name": "tide", "arguments": {"port": port, "hour": hour}}
        for port, hour in (("Bodø", 6.5), ("Moss", 7))
    )
    texts = [
        write_calls(calls, {}, syntax, as_list=True) for calls in ([one, two], [two, one], [one, one], [one])
    ]
    keys = [
        task.meaning(example, text)
        for text in [*texts, texts[0].replace("7", "7.0").replace(", ", ",  "), "?"]
    ]
    assert keys[0] == keys[1] == keys[4]
    assert len({*keys}) == 4
    assert keys[5] == "?"


SEAL_TOOLS = [
    {"api_name": name, "api_description": f"About {name}.", "field": field, "required": ["a"], "responses": {},
     "parameters": {"a": {"type": "str", "description": ""}, "n": {"type": "int", "description": ""}}}
    for name, field in [("one", "x"), ("two", "x"), ("three", "x"), ("four", "y"), ("five", "y")]
]  # fmt: skip
SEAL = {
    "dev": [{"id": "dev-1", "query": "Do one.", "calling": [{"api": "one", "parameters": {"a": "b"}, "responses": []}]}],
    "test_in_domain": [
        {"id": f"in-{i}", "query": "Do two.", "calling": [{"api": "two", "parameters": {"n": i, "a": "c"}}]} for i in range(6)
    ],
    "test_out_domain": [
        {"id": "out-1", "query": "Do all.", "calling": [{"api": n, "parameters": {"a": "d"}} for n in ("five", "four", "five")]},
        {"id": "out-2", "query": "Do nine.", "calling": [{"api": "nine", "parameters": {}}]},
    ],
}  # fmt: skip


def test_sealtools_offers_other_tools(tmp_path):
    for name, lines in {"tool": SEAL_TOOLS, **SEAL}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = FunctionCalling(tmp_path, candidates=3)
    assert [example.id for example in task.examples("train")] == ["dev-1"]
    found = list(task.examples("test"))
    assert [example.id for example in found] == [*(f"in-{i}" for i in range(6)), "out-1"]
    assert task.dropped == {"a tool is called that is not described (nine)": ["out-2"]}
    offered = [[tool["name"] for tool in example.facts["tools"]] for example in found]
    assert all(sorted(names) == ["one", "three", "two"] for names in offered[:6])
    assert len({tuple(names) for names in offered[:6]}) > 1
    assert len(offered[6]) == 3
    assert {"four", "five"} < set(offered[6])
    assert found == list(task.examples("test"))
    assert found[0].reference == '{"name": "two", "arguments": {"a": "c", "n": 0}}'
    for example in found:
        assert task.constraint(example).accepts(example.reference)
        assert task.scores(example, example.reference) == RIGHT


def test_items_that_cannot_be_read_are_left_out_and_told_of(tmp_path):
    tools = [{"name": "f", "description": "", "parameters": {"a": {"type": "int", "description": ""}}}]
    good = [{"id": i, "query": "?", "tools": json.dumps(tools), "answers": [{"name": "f", "arguments": {"a": i}}]}
            for i in range(8)]  # fmt: skip
    bad = [
        {**good[0], "id": "x", "tools": "["},
        {"id": "y", "sentence": "?"},
        {**good[0], "id": "z", "answers": [3]},
    ]
    (tmp_path / "xlam.json").write_text(json.dumps([*good, *bad]))
    told, kept = set(), set()
    for split in ("train", "test"):
        task = FunctionCalling(tmp_path)
        kept |= {example.id for example in task.examples(split)}
        told |= {(reason, id) for reason, ids in task.dropped.items() for id in ids}
    assert kept == {str(i) for i in range(8)}
    reason = "it is no question with function calls"
    assert told == {
        (f"{reason} (JSONDecodeError)", "x"),
        (f"{reason} (ValueError)", "y"),
        (f"{reason} (TypeError)", "z"),
    }


def test_bad_settings(tmp_path):
    for options in ({"syntax": "xml"}, {"calls": "two"}, {"order": "random"}):
        with pytest.raises(tt.errors.UnsupportedConstraint):
            FunctionCalling(tmp_path, **options)


# ---------------------------------------------------------------- the parts, against brute force

TEXTS = st.text(st.sampled_from("ab'\"\\\n\t\0\x7f  é€\U0001f600 ,:"), max_size=4)
VALUES = st.recursive(
    TEXTS
    | st.integers(-20, 20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=5,
)
CALLS = st.lists(
    st.builds(
        lambda name, arguments: {"name": name, "arguments": arguments},
        st.sampled_from(["f", "g.h"]),
        st.dictionaries(st.sampled_from(["a", "b"]), VALUES),
    ),
    min_size=1,
    max_size=3,
)
UNTYPED = [
    {"name": name, "parameters": {"type": "dict", "properties": {"a": {}, "b": {}}}} for name in ("f", "g.h")
]
ANY = {tool.name: tool for tool in read_tools(UNTYPED, tuples=True)}


@given(CALLS, st.sampled_from(["json", "python"]))
def test_what_is_written_is_read_back(calls, syntax):
    assert read_calls(write_calls(calls, ANY, syntax, as_list=True), syntax) == calls
    assert read_calls(write_calls(calls[:1], ANY, syntax, as_list=False), syntax) == calls[:1]
    gold = [{call["name"]: alternatives({"x": call["arguments"]})["x"][0]} for call in calls]
    assert right_calls(gold, calls)
    assert share_of_arguments(gold, calls) == 1.0


SMALL = st.dictionaries(st.sampled_from("ab"), st.integers(0, 2))
GOLD = st.dictionaries(
    st.sampled_from("ab"), st.lists(st.integers(0, 2) | st.just(""), min_size=1, max_size=3)
)


@given(st.lists(GOLD, max_size=4), st.lists(SMALL, max_size=4))
@hypothesis.example([{"a": [1, 2]}, {"a": [1]}], [{"a": 1}, {"a": 2}])
@hypothesis.example([{"a": [1]}, {"a": [1, 2]}], [{"a": 2}, {"a": 1}])
def test_calls_match_in_some_order(gold, calls):
    gold = [{"f": arguments} for arguments in gold]
    calls = [{"name": "f", "arguments": arguments} for arguments in calls]
    expected = len(gold) == len(calls) and any(
        all(right_call(g, c) for g, c in zip(gold, order, strict=True))
        for order in itertools.permutations(calls)
    )
    assert right_calls(gold, calls) == expected
    assert (share_of_arguments(gold, calls) == 1.0 and bool(gold)) <= expected


@pytest.mark.parametrize("data", ["bfcl", "sealtools"])
@pytest.mark.parametrize("syntax", ["json", "python"])
def test_real_references_are_in_the_language(shared_dir, data, syntax):
    task = FunctionCalling(shared_dir / "data" / data, syntax=syntax)
    examples = list(itertools.islice(task.examples("test"), 200))
    assert len(examples) == 200
    for example in examples[::20]:
        assert task.constraint(example).accepts(example.reference), example.id
        assert task.scores(example, example.reference) == RIGHT
