"""Values as they are written: parts of a text, what is complete of JSON, and calls beside an event loop."""

import asyncio
import itertools
import json
import re
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

import tractile as tt
from tractile.constraints import output_type
from tractile.decoding.partial import complete_json, growing_json, partial_value
from tractile.errors import BudgetTooSmall, EvidenceError, NoParticleSurvived


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    age: Annotated[int, Field(ge=0, le=20)]


PROMPT = "Tom has a new pet."
MODEL, TOKENIZER = tt.embedded.load_lm()


def parts_of(output, **more):
    return list(tt.generate(MODEL, TOKENIZER, PROMPT, output, stream=True, **more))


@pytest.mark.parametrize(
    ("output", "method", "budget"),
    [
        (Pet, "gcd", 40),
        (list[Pet], "gcd", 60),
        (str, "gcd", 12),
        (Literal[" cat", " dog"], "lcd", 8),
        pytest.param(tt.constraints.keywords(["dog"], inflections=False), "pgcd", 16, marks=pytest.mark.long),
        ({"type": "object", "properties": {"é": {"type": "string"}}, "required": ["é"]}, "gcd", 40),
    ],
)
def test_the_parts_make_the_text_of_one_particle(output, method, budget):
    more = {"max_new_tokens": budget, "method": method, "seed": 4, "hmm": tt.embedded.load_hmm()}
    found = parts_of(output, **more)
    value, post = tt.generate(MODEL, TOKENIZER, PROMPT, output, particles=1, posterior=True, **more)
    assert "".join(part.new for part in found) == found[-1].text == post.best.text
    assert all(b.text == a.text + b.new for a, b in itertools.pairwise(found))
    assert [part.done for part in found] == [False] * (len(found) - 1) + [True]
    assert found[-1].value == value
    assert len(found) > 2


def test_members_and_items_come_when_they_are_complete():
    values = [part.value for part in parts_of(Pet, max_new_tokens=40)]
    assert all(set(a) <= set(b) for a, b in itertools.pairwise(values[:-1]))
    assert isinstance(values[-1], Pet)
    assert values[-2] == values[-1].model_dump()  # all members were there before the end
    output = Annotated[list[Pet], Field(min_length=2, max_length=3)]
    values = [part.value for part in parts_of(output, max_new_tokens=90, seed=2)][1:]
    assert all(isinstance(pet, Pet) for value in values if len(value) > 1 for pet in value)
    assert [value for value in values if len(value) == 1] != []  # too few for the type: as JSON
    assert all(isinstance(pet, dict) for value in values if len(value) == 1 for pet in value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a"\\{}[],:é\n😀', max_size=5),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text('a"{,', max_size=3), one, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(value=VALUES, ascii_only=st.booleans(), data=st.data())
def test_what_is_complete_of_a_beginning_is_part_of_the_whole(value, ascii_only, data):
    text = json.dumps(value, ensure_ascii=ascii_only)
    cut = data.draw(st.integers(0, len(text)))
    found = partial_value(text[:cut], json.loads)
    if not isinstance(value, list | dict):
        assert found is None
    elif cut == len(text):
        assert found == value
    elif cut:
        whole = list(value.items()) if isinstance(value, dict) else value
        some = list(found.items()) if isinstance(value, dict) else found
        assert type(found) is type(value)
        assert some == whole[: len(some)]


def test_as_much_as_is_complete_is_there():
    assert complete_json('{"a": 1, "b": {"c": [2') == '{"a": 1}'
    assert complete_json('{"a": 1, "b": {"c": [2]}') == '{"a": 1, "b": {"c": [2]}}'
    assert complete_json('[1, "x", ') == '[1, "x"]'
    assert complete_json(" [[1], [2]] ") == " [[1], [2]]"
    assert complete_json("12") is None


def test_errors_come_before_the_first_part_where_they_can():
    with pytest.raises(BudgetTooSmall):
        tt.generate(MODEL, TOKENIZER, PROMPT, Pet, max_new_tokens=3, stream=True)
    for more in ({"samples": 2}, {"posterior": True}):
        with pytest.raises(EvidenceError, match="stream=True"):
            tt.generate(MODEL, TOKENIZER, PROMPT, Pet, stream=True, **more)
    with pytest.raises(EvidenceError, match="stream=True"):
        tt.generate(MODEL, TOKENIZER, [PROMPT, PROMPT], Pet, stream=True)

    def never(n: int) -> int:
        raise ValueError("no number is right")

    parts = tt.generate(
        MODEL, TOKENIZER, PROMPT, Annotated[int, AfterValidator(never)], max_new_tokens=4, stream=True
    )
    with pytest.raises(NoParticleSurvived, match="no number is right"):
        list(parts)


def test_calls_run_beside_an_event_loop():
    async def both():
        ticks = 0

        async def clock():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        beside = asyncio.create_task(clock())
        calls = [tt.decoding.generate_async(MODEL, TOKENIZER, PROMPT, Pet, seed=n, **more) for n in (1, 2)]
        streams = [written(seed) for seed in (3, 4)]
        found = await asyncio.gather(*calls, *streams)
        beside.cancel()
        return found[:2], found[2:], ticks

    async def written(seed):
        asked = {"max_new_tokens": 40, "seed": seed}
        return [part async for part in tt.decoding.stream_async(MODEL, TOKENIZER, PROMPT, Pet, **asked)]

    more = {"max_new_tokens": 40, "particles": 4}
    values, streams, ticks = asyncio.run(both())
    assert values == [tt.generate(MODEL, TOKENIZER, PROMPT, Pet, seed=n, **more) for n in (1, 2)]
    assert streams == [parts_of(Pet, max_new_tokens=40, seed=seed) for seed in (3, 4)]
    assert ticks > len(streams[0])


def test_how_json_is_written_is_said_at_the_door():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "u:b"}, "b": {"$ref": "u:b"}},
        "required": ["a", "b"],
    }
    texts = tt.generate(
        MODEL, TOKENIZER, PROMPT, schema | {"additionalProperties": False}, samples=4, posterior=True,
        max_new_tokens=40, order="declared", whitespace="none", documents={"u:b": {"enum": [True, False]}},
    )[1].texts  # fmt: skip
    assert all(json.dumps(json.loads(text), separators=(",", ":")) == text for text in texts)
    assert all(list(json.loads(text)) == ["a", "b"] for text in texts)

    def feed(animal: Literal["cat"], grams: Annotated[int, Field(ge=1, le=9)]) -> None: ...

    call = output_type(feed, order="any", whitespace="none").constraint
    assert call.accepts('{"name":"feed","arguments":{"grams":1,"animal":"cat"}}')
    with pytest.raises(TypeError, match="ordre"):
        tt.generate(MODEL, TOKENIZER, PROMPT, Pet, ordre="any")
    with pytest.raises(tt.errors.UnsupportedConstraint, match="max_whitespace"):
        tt.generate(MODEL, TOKENIZER, PROMPT, Pet, max_whitespace=2)


def test_what_is_wrong_with_a_stream_is_known_before_its_first_part():
    async def ask(budget):
        parts = await tt.decoding.stream_async(MODEL, TOKENIZER, PROMPT, Pet, max_new_tokens=budget)
        return [part async for part in parts][-1].value

    with pytest.raises(BudgetTooSmall):
        asyncio.run(ask(3))
    assert isinstance(asyncio.run(ask(40)), Pet)


@settings(max_examples=300)
@given(value=VALUES, ascii_only=st.booleans(), data=st.data())
def test_the_string_that_is_being_written_is_part_of_the_whole(value, ascii_only, data):
    text = json.dumps(value, ensure_ascii=ascii_only)
    cut = data.draw(st.integers(0, len(text)))
    found = growing_json(text[:cut])
    if found is None:
        return
    unfinished, pointer = found
    at, whole = unfinished, value
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        at, whole = (one[int(step)] if isinstance(one, list) else one[step] for one in (at, whole))
    assert whole.startswith(at)
    assert text.startswith(json.dumps(unfinished, ensure_ascii=ascii_only).rstrip('"}]'))


def test_every_beginning_inside_a_string_value_is_growing():
    text = '{"a": "x\\"y\\\\\\u00e9", "b": {"c": [1, "d", {"e/f": "g"}]}, "h": 2}'
    spans = [('"x', "/a", 12), ('"d', "/b/c/1", 1), ('"g', "/b/c/2/e~1f", 1)]
    expected = {text.index(begin) + n: place for begin, place, length in spans for n in range(1, length + 2)}
    found = {n: growing_json(text[:n])[1] for n in range(len(text)) if growing_json(text[:n])}
    assert found == expected
    assert growing_json(text[:12]) == ({"a": 'x"y'}, "/a")


def test_parts_show_strings_as_they_grow():
    class Named(BaseModel):
        name: Annotated[str, Field(pattern="^[A-Z][a-z]{6,12}$")]

    parts = parts_of(Named, max_new_tokens=40)
    grown = [part.unfinished["name"] for part in parts if part.growing == "/name"]
    assert len(grown) > 1
    assert all(parts[-1].value.name.startswith(one) for one in grown)
    assert (parts[-1].growing, parts[-1].unfinished) == (None, None)


@pytest.mark.parametrize(
    ("output", "text", "json_of"),
    [
        (Pet, '{"kind"', '{"kind"'),
        (str, '{"kind"', None),
        (re.compile("(?P<x>.*)"), "[", None),
        (Literal["[a]"], "[a", None),
        (tt.constraints.tool_calls({"name": "f", "parameters": {}}, "mistral_v3"), "[TOOL_CALLS][", None),
    ],
)
def test_only_of_json_a_part_is_complete(output, text, json_of):
    assert output_type(output).json_of(text) == json_of
    found = output_type(output, thinking="[/t]")
    assert found.json_of(text) is None
    assert found.json_of(f"[1[/t]{text}") == json_of


def test_a_posterior_has_values():
    more = {"max_new_tokens": 40, "samples": 2, "posterior": True, "seed": 1}
    pets, post = tt.generate(MODEL, TOKENIZER, PROMPT, Pet, **more)
    assert post.values == [Pet.model_validate_json(particle.text) for particle in post.accepted]
    assert all(pet in post.values for pet in pets)
    plain = tt.smc(MODEL, PROMPT, tt.constraints.regex(" a"), tokenizer=TOKENIZER, particles=2)
    assert plain.values == [" a", " a"]
    assert not plain.collapsed


@pytest.mark.parametrize("seed", range(4))
def test_samples_of_particles_that_have_collapsed_are_warned_of(seed, caplog):
    more = {"max_new_tokens": 40, "samples": 3, "posterior": True, "seed": seed}
    _, post = tt.generate(MODEL, TOKENIZER, PROMPT, Pet, **more)
    ancestors = {int(one) for one in post.lineage[:, 0]} if post.resampled else set(range(16))
    assert post.collapsed == (len(ancestors) == 1)
    assert ("16 particles go back to one" in caplog.text) == post.collapsed
