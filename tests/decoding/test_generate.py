"""Values of Python types: what each constraint accepts, what comes out of the embedded model, and what is refused."""

import dataclasses
import enum
import inspect
import json
import re
import sys
from typing import Annotated, Literal, TypedDict

import pytest
import torch
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, field_validator

if sys.version_info < (3, 12):
    from typing_extensions import TypedDict

import tractile as tt
from tractile.constraints import Call, output_type, tool_schemas
from tractile.constraints.output_type import outputs_of
from tractile.embedded import load_hmm, load_lm


class Pet(BaseModel):
    """A pet to look after."""

    name: str
    kind: Literal["cat", "dog"]
    age: Annotated[int, Field(ge=0, le=20)]


@dataclasses.dataclass
class Point:
    x: int
    label: Literal["a", "b"] = "a"


class Movie(TypedDict):
    title: str
    year: int


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Tree(BaseModel):
    value: int
    left: "Tree | None" = None


class Even(BaseModel):
    n: Annotated[int, Field(ge=0, le=9)]

    @field_validator("n")
    @classmethod
    def is_even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n


def get_weather(
    city: str, days: Annotated[int, Field(ge=1, le=9)] = 3, *, units: Literal["c", "f"] = "c"
) -> str:
    """The weather of a city."""
    return f"{city}, {days}, {units}"


def feed(pet: Pet, food: list[str]) -> tuple[str, int]:
    return pet.name, len(food)


@pytest.fixture(scope="module")
def embedded():
    torch.set_num_threads(1)
    return load_lm()


PROMPT = "Tom has a new pet."


@pytest.mark.parametrize(
    ("output", "good", "bad"),
    [
        (str, {"": "", "a\nb": "a\nb"}, []),
        (int, {"3": 3, "-12": -12}, ["3.0", "-0", '"3"', "3e1", "x"]),
        (bool, {"true": True, "false": False}, ["True", "1"]),
        (float, {"3.5": 3.5, "2": 2.0}, ["NaN", "."]),
        (list[int], {"[]": [], "[1, 2]": [1, 2]}, ["[1.0]", "1"]),
        (dict[str, int], {"{}": {}, '{"a": 1}': {"a": 1}}, ['{"a": "b"}']),
        (int | None, {"null": None, "7": 7}, ["None"]),
        (Literal["yes", "no", 3, None], {"yes": "yes", "no": "no", "3": 3, "null": None}, ['"yes"', "maybe"]),
        (Size, {"small": Size.SMALL, "large": Size.LARGE}, ["SMALL", '"small"']),
        (list[Size], {'["small"]': [Size.SMALL]}, ["[small]"]),
        (Point, {'{"x": 1}': Point(1), '{"x": 1, "label": "b"}': Point(1, "b")},
         ['{"x": 1, "z": 2}', '{"x": 1.0}', '{"label": "a"}']),
        (Movie, {'{"title": "T", "year": 3}': {"title": "T", "year": 3}},
         ['{"title": "T"}', '{"title": "T", "year": 3, "a": 1}']),
        (Pet, {'{"name": "Tom", "kind": "cat", "age": 3}': Pet(name="Tom", kind="cat", age=3)},
         ['{"name": "Tom", "kind": "cow", "age": 3}', '{"name": "Tom", "kind": "cat", "age": 21}']),
        (Tree, {'{"value": 1, "left": {"value": 2}}': Tree(value=1, left=Tree(value=2))}, ['{"value": 1, "left": {}}']),
        (Annotated[int, Field(ge=3, le=4)], {"3": 3}, ["5"]),
        (re.compile("[A-Z][a-z]+", re.IGNORECASE), {"Tom": "Tom", "tom": "tom"}, ["Tom!", ""]),
        ({"type": "object", "properties": {"a": {"type": "null"}}}, {'{"a": null}': {"a": None}, '{"b": 1}': {"b": 1}},
         ['{"a": 1}']),
        (tt.constraints.literal("hi"), {"hi": "hi"}, ["ho"]),
    ],
)  # fmt: skip
def test_texts_and_values_of_a_type(output, good, bad):
    kind = output_type(output)
    assert {text: kind.parse(text) for text in good if kind.constraint.accepts(text)} == good
    assert [text for text in bad if kind.constraint.accepts(text)] == []


@pytest.mark.parametrize(
    "output", [Pet, Point, Movie, Tree, list[int], int | None, Size, Literal["yes", "no"], bool]
)
def test_what_the_model_writes_is_a_value_of_the_type(embedded, output):
    value = tt.generate(*embedded, PROMPT, output, max_new_tokens=40)
    assert TypeAdapter(output).validate_python(value) == value
    if isinstance(output, type) and issubclass(output, BaseModel):
        assert type(value) is output


def test_calls_of_functions_and_classes(embedded):
    kind = output_type([get_weather, feed, Pet])
    text = '{"name": "get_weather", "arguments": {"city": "Oslo", "units": "f"}}'
    call = kind.parse(text)
    assert kind.constraint.accepts(text)
    assert call == Call("get_weather", {"city": "Oslo", "days": 3, "units": "f"})
    assert call() == "Oslo, 3, f"
    pet = {"name": "Tom", "kind": "cat", "age": 2}
    call = kind.parse(json.dumps({"name": "feed", "arguments": {"pet": pet, "food": ["fish"]}}))
    assert call.arguments == {"pet": Pet(**pet), "food": ["fish"]}
    assert call() == ("Tom", 1)
    assert kind.parse(json.dumps({"name": "Pet", "arguments": pet}))() == Pet(**pet)
    for arguments in (
        '{"city": "Oslo", "days": 3.0}',
        '{"city": "Oslo", "days": 10}',
        '{"city": "Oslo", "x": 1}',
        "{}",
    ):
        assert not kind.constraint.accepts(f'{{"name": "get_weather", "arguments": {arguments}}}')
    call = tt.generate(*embedded, PROMPT, get_weather, max_new_tokens=40)
    inspect.signature(get_weather).bind(**call.arguments)
    assert call().startswith(call.arguments["city"])
    by_dict = output_type([{"name": "f", "parameters": {"x": {"type": "int"}}}]).parse(
        '{"name": "f", "arguments": {"x": 1}}'
    )
    assert by_dict == Call("f", {"x": 1})
    with pytest.raises(tt.errors.FormatError, match="give the Python function"):
        by_dict()


def test_tools_of_every_family_may_be_functions():
    assert tt.constraints.function_calls(get_weather, syntax="python").accepts(
        "get_weather(city='Oslo', days=2)"
    )
    hermes = tt.constraints.tool_calls([get_weather], "hermes", choice="required")
    assert hermes.accepts('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>')
    described = tool_schemas([get_weather, Tree, {"name": "f"}])
    assert described[0]["function"]["description"] == "The weather of a city."
    assert described[0]["function"]["parameters"]["required"] == ["city"]
    assert list(described[1]["function"]["parameters"]["properties"]) == ["value", "left"]
    assert described[2] == {"name": "f"}
    tree = '{"name": "Tree", "arguments": {"value": 1, "left": {"value": 2, "left": null}}}'
    assert tt.constraints.function_calls([Tree]).accepts(tree)
    assert output_type([Tree]).parse(tree)() == Tree(value=1, left=Tree(value=2))


def test_other_keyword_arguments():
    def tag(name: str, **more: int) -> int:
        return sum(more.values())

    text = '{"name": "tag", "arguments": {"name": "n", "a": 1, "b": 2}}'
    kind = output_type(tag)
    assert kind.constraint.accepts(text)
    assert kind.parse(text).arguments == {"name": "n", "a": 1, "b": 2}
    assert kind.parse(text)() == 3


def test_validators_are_part_of_the_condition(embedded):
    """p(x | the schema and the validator): the texts that it refuses have weight zero."""
    assert output_type(Even).constraint.accepts('{"n": 3}')
    values, post = tt.generate(
        *embedded, PROMPT, Even, samples=20, particles=64, max_new_tokens=12, posterior=True, method="gcd"
    )
    assert all(value.n % 2 == 0 for value in values)
    assert {json.loads(p.text)["n"] % 2 for p in post.accepted} == {0}
    assert any(json.loads(p.text)["n"] % 2 for p in post.particles)

    def refused(value: int) -> int:
        raise ValueError("never")

    with pytest.raises(tt.errors.NoParticleSurvived):
        tt.generate(*embedded, PROMPT, Annotated[int, AfterValidator(refused)], max_new_tokens=8)


def test_prompts_in_one_batch_are_as_alone(embedded):
    prompts = ["Tom has a pet.", "Sue saw a"]
    together = tt.generate(*embedded, prompts, Pet, max_new_tokens=[40, 36], samples=2, seed=5)
    alone = [
        tt.generate(*embedded, text, Pet, max_new_tokens=budget, samples=2, seed=5 + i)
        for i, (text, budget) in enumerate(zip(prompts, (40, 36), strict=True))
    ]
    assert together == alone
    assert tt.generate(*embedded, [], Pet) == []
    values, posteriors = tt.generate(
        *embedded, prompts, int, max_new_tokens=8, posterior=True, hmm=load_hmm()
    )
    assert [type(value) for value in values] == [int, int]
    assert all(isinstance(post, tt.inference.smc.Posterior) for post in posteriors)


SHEEP, PIGS = ({"type": "object", "properties": {name: {"type": "integer", "maximum": 9, "minimum": 0}},
                "required": [name], "additionalProperties": False} for name in ("sheep", "pigs"))  # fmt: skip


@pytest.mark.parametrize("method", ["gcd", None], ids=["gcd", "pgcd"])
def test_an_output_for_each_prompt(embedded, method):
    prompts = ["Tom has a pet.", "Sue saw a", "Is it a cat?", "It barks."]
    outputs = [SHEEP, PIGS, Literal[" yes", " no"], output_type(re.compile(" (dog|cat)"))]
    settings = {"max_new_tokens": [16, 14, 6, 6], "seed": 5, "method": method, "particles": 4}
    settings |= {"hmm": load_hmm()} if method is None else {}
    found = tt.generate(*embedded, prompts, outputs, **settings)
    assert [list(value) for value in found[:2]] == [["sheep"], ["pigs"]]
    assert found[2] in (" yes", " no")
    assert found[3] in (" dog", " cat")
    if method == "gcd":
        for i, (prompt, output, budget) in enumerate(
            zip(prompts, outputs, settings["max_new_tokens"], strict=True)
        ):
            given = settings | {"max_new_tokens": budget, "seed": 5 + i}
            assert tt.generate(*embedded, prompt, output, **given) == found[i]
    values, posts = tt.generate(
        *embedded, prompts[:2], (SHEEP, SHEEP), max_new_tokens=16, samples=2, posterior=True
    )
    assert [len(each) for each in values] == [len(posts), 2]
    assert {key for each in values for value in each for key in value} == {"sheep"}


def test_a_list_of_tools_stays_one_output(embedded):
    prompts = ["Tom has a pet.", "Sue saw a", "It barks."]
    by_dict = {"name": "f", "parameters": {"x": {"type": "bool"}}}
    spelled = {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
    }
    for tools in ([get_weather], [by_dict], (get_weather, Pet, by_dict), [spelled, Pet]):
        assert outputs_of(tools, 3) == [tools] * 3  # however many
        assert outputs_of(tools, len(tools)) == [tools] * len(tools)
    calls = tt.generate(*embedded, prompts[:2], [by_dict, get_weather], max_new_tokens=40)
    assert all(isinstance(call, Call) for call in calls)
    calls = tt.generate(*embedded, prompts[:2], output_type([Point, Movie]), max_new_tokens=40)
    assert {call.name for call in calls} <= {"Point", "Movie"}
    point, call = tt.generate(*embedded, prompts[:2], [Point, [get_weather]], max_new_tokens=40)
    assert isinstance(point, Point)
    assert call.name == "get_weather"


def test_outputs_that_do_not_fit_the_prompts(embedded):
    for outputs in ([SHEEP, PIGS], [Pet], [], [int] * 4):
        with pytest.raises(tt.errors.FormatError, match=rf"output is a list of {len(outputs)} for 3 prompts"):
            tt.generate(*embedded, [PROMPT] * 3, outputs)
    with pytest.raises(
        tt.errors.FormatError, match=r"output\[1\] is .*, which names no tool; .* a list of prompts"
    ):
        tt.generate(*embedded, PROMPT, [get_weather, SHEEP])
    with pytest.raises(tt.errors.FormatError, match="output is 3; give a type"):
        tt.generate(*embedded, [PROMPT] * 2, [SHEEP, 3])
    with pytest.raises(tt.errors.EvidenceError, match="max_new_tokens has 1 entries for 2 prompts"):
        tt.generate(*embedded, [PROMPT] * 2, [SHEEP, PIGS], max_new_tokens=[9])


def test_a_validator_that_refuses_every_text_is_named_with_its_reason(embedded):
    class Nobody(BaseModel):
        name: Literal["Tom", "Ann"]

        @field_validator("name")
        @classmethod
        def no_one(cls, name: str) -> str:
            raise ValueError("nobody will do")

    with pytest.raises(tt.errors.NoParticleSurvived) as caught:
        tt.generate(*embedded, PROMPT, Nobody, max_new_tokens=24, particles=4)
    said = str(caught.value)
    assert "output refused all 4 texts" in said
    assert "Nobody refuses '{" in said
    assert "nobody will do" in said
    assert "gcd" not in said


def test_what_is_refused(embedded, monkeypatch):
    model, tokenizer = embedded
    for output in ("text", 3, [], [3], None, b"x", lambda x: x, tt.Vocabulary, re.compile(b"x")):
        with pytest.raises((tt.errors.FormatError, tt.errors.UnsupportedConstraint)):
            tt.generate(model, tokenizer, PROMPT, output)
    with pytest.raises(tt.errors.FormatError, match="two values"):
        output_type(Literal[1, "1"])
    with pytest.raises(tt.errors.FormatError, match="none of"):
        output_type(Size).parse("huge")
    with pytest.raises(tt.errors.EvidenceError, match=r"unknown proposal .beam.: choose"):
        tt.generate(model, tokenizer, PROMPT, int, method="beam")
    with pytest.raises(tt.errors.EvidenceError, match="samples"):
        tt.generate(model, tokenizer, PROMPT, int, samples=0)
    with pytest.raises(tt.errors.EvidenceError, match="tokenizer"):
        tt.generate(model, None, PROMPT, int)
    with pytest.raises(tt.errors.BudgetTooSmall):
        tt.generate(model, tokenizer, PROMPT, Pet, max_new_tokens=5)
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(tt.errors.FormatError, match="pip install pydantic"):
        tt.generate(model, tokenizer, PROMPT, Pet)
    assert tt.generate(model, tokenizer, PROMPT, Size, max_new_tokens=8) in Size


@pytest.mark.parametrize("method", ["gcd", "lcd", "pgcd"])
def test_a_budget_that_is_too_small_names_its_prompt(embedded, method):
    model, tokenizer = embedded
    how = {"method": method, "hmm": load_hmm() if method == "pgcd" else None}
    output = [Literal[" a"], Literal[" a long text that needs many tokens"]]
    with pytest.raises(tt.errors.BudgetTooSmall, match=r"^prompt 1 \(counted from 0\): no accepted") as found:
        tt.generate(model, tokenizer, [PROMPT, PROMPT], output, max_new_tokens=[4, 5], **how)
    assert found.value.prompt == 1
    assert found.value.given == 5 < found.value.needed
    with pytest.raises(tt.errors.BudgetTooSmall, match=r"^no accepted") as found:
        tt.generate(model, tokenizer, [PROMPT], output[1:], max_new_tokens=5, **how)
    assert found.value.prompt is None


def test_reasoning_comes_first_and_leaves_the_budget_for_the_answer(embedded):
    kind = output_type(Size, thinking="</think>\n")
    assert kind.parse("It is big.</think>\nlarge") is Size("large")
    assert kind.constraint.accepts("</think>\nsmall")
    assert not kind.constraint.accepts("small")
    assert not kind.constraint.accepts("a</think>\nb</think>\nsmall")
    with pytest.raises(tt.errors.FormatError, match="ends the reasoning"):
        kind.parse("small")
    assert output_type(str, thinking="!").parse("a!b!c") == "b!c"
    tom = Pet(name="Tom", kind="cat", age=3)
    assert output_type(Pet, thinking="!").parse(f"a!{tom.model_dump_json()}") == tom
    value, post = tt.generate(
        *embedded, "Tom says:", Size, thinking=" So:", max_new_tokens=24, posterior=True, particles=2
    )
    assert isinstance(value, Size)
    assert all(text.partition(" So:")[2] in ("small", "large") for text in post.texts)
    fa = tt.constraints.regex("a").compile(embedded[1])
    with pytest.raises(tt.errors.FormatError, match="thinking"):
        tt.generate(*embedded, "Tom", fa, thinking="!", max_new_tokens=8)


def test_named_groups_of_a_pattern_come_back(embedded):
    pattern = re.compile(r" (?P<animal>cat|dog)(?: and (?P<other>bird))?\.")
    kind = output_type(pattern)
    assert kind.parse(" cat and bird.") == {"animal": "cat", "other": "bird"}
    assert kind.parse(" dog.") == {"animal": "dog", "other": None}
    assert output_type(re.compile("(cat|dog)")).parse("cat") == "cat"
    with pytest.raises(tt.errors.FormatError):
        kind.parse(" cow.")
    value, post = tt.generate(*embedded, "Tom has a", pattern, max_new_tokens=12, posterior=True, particles=4)
    assert value["animal"] in ("cat", "dog")
    assert {found for found, _ in post.field("animal")} <= {"cat", "dog"}


def test_strict_refuses_keywords_that_no_draft_has():
    misspelt = {"type": "object", "propertys": {"a": {"type": "integer"}}}
    assert tt.constraints.output_type(misspelt).constraint.accepts("{}")
    model, tokenizer = tt.embedded.load_lm()
    for call in (
        tt.constraints.output_type,
        lambda output, **how: tt.generate(model, tokenizer, "x", output, **how),
    ):
        with pytest.raises(tt.errors.UnsupportedConstraint, match="propertys"):
            call(misspelt, strict=True)


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "1" * 5_000])
def test_a_text_that_python_cannot_read_is_refused(text):
    found = tt.constraints.output_type({})
    assert not found.accepts(text)
    with pytest.raises(tt.errors.FormatError, match="cannot read"):
        found.parse(text)
