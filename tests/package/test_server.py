"""The example server, asked by the clients that people have: openai, LangChain, Pydantic AI, instructor."""

import asyncio
import json
import threading
import time
from typing import Literal

import pytest
from counting import HANGS
from pydantic import BaseModel

import tractile as tt

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
openai = pytest.importorskip("openai")

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the clients are not ours
ASKED = [{"role": "user", "content": "Tom has a new pet."}]


class Pet(BaseModel):
    """A pet."""

    kind: Literal["cat", "dog"]
    age: Literal[1, 2, 3]


SCHEMA = {"type": "json_schema", "json_schema": {"name": "pet", "schema": Pet.model_json_schema()}}
TOOL = {"type": "function", "function": {"name": "keep", "parameters": Pet.model_json_schema()}}


@pytest.fixture(scope="module")
def address():
    from server import application

    app = application(*tt.embedded.load_lm())
    running = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    since = time.monotonic()
    while not running.started and time.monotonic() - since < HANGS:
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1"
    running.should_exit = True
    thread.join(HANGS)


@pytest.fixture
def client(address):
    with openai.OpenAI(base_url=address, api_key="none", max_retries=0) as made:
        yield made


def test_openai(client):
    assert client.models.list().data[0].id == "embedded"
    more = {"model": "embedded", "messages": ASKED, "max_tokens": 64}
    found = client.chat.completions.create(**more, response_format=SCHEMA).choices[0]
    assert Pet.model_validate_json(found.message.content)
    assert found.finish_reason == "stop"
    for choice in ("required", {"type": "function", "function": {"name": "keep"}}):
        found = client.chat.completions.create(
            **more, tools=[TOOL], tool_choice=choice, temperature=0.5
        ).choices[0]
        (call,) = found.message.tool_calls
        assert call.function.name == "keep"
        assert Pet.model_validate_json(call.function.arguments)
        assert found.finish_reason == "tool_calls"
    text = client.chat.completions.create(**more, top_p=0.9, seed=3).choices[0].message.content
    assert isinstance(text, str)
    found = client.chat.completions.create(**more, response_format={"type": "json_object"}).choices[0]
    assert type(json.loads(found.message.content)) is dict
    found = client.chat.completions.parse(**more, response_format=Pet).choices[0]
    assert isinstance(found.message.parsed, Pet)


def test_openai_streams(client):
    more = {"model": "embedded", "messages": ASKED, "max_tokens": 64, "stream": True}
    chunks = list(client.chat.completions.create(**more, response_format=SCHEMA))
    parts = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert Pet.model_validate_json("".join(parts))
    assert sum(map(bool, parts)) > 2
    assert chunks[-1].choices[0].finish_reason == "stop"
    chunks = list(client.chat.completions.create(**more, tools=[TOOL], tool_choice="required"))
    (call,) = [one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or []]
    assert Pet.model_validate_json(call.function.arguments)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"max_tokens": 3, "response_format": SCHEMA}, "no accepted sequence fits the budget"),
        ({"max_tokens": 100_000}, "positions"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "objekt"}},
                }
            },
            "objekt",
        ),
        ({"temperature": -1}, "temperature"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "give"}}}, ""),
    ],
    ids=["budget", "context", "schema", "temperature", "tool"],
)
def test_errors_have_a_status_before_the_first_byte(client, more, said, stream):
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model="embedded", messages=ASKED, stream=stream, **more)
    assert raised.value.status_code == 400
    assert said in str(raised.value)


def test_many_clients_at_once(address):
    """Some leave in the middle of their stream."""

    async def ask(client, i):
        more = {
            "model": "embedded",
            "messages": ASKED,
            "max_tokens": 64,
            "response_format": SCHEMA,
            "seed": i,
        }
        if i % 3:
            return (await client.chat.completions.create(**more)).choices[0].message.content
        async with await client.chat.completions.create(**more, stream=True) as stream:
            async for _ in stream:
                break
        return None

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, i) for i in range(24)))

    found = [text for text in asyncio.run(all_of_them()) if text is not None]
    assert len(found) == 16
    assert all(map(Pet.model_validate_json, found))


def test_langchain(address):
    langchain = pytest.importorskip("langchain_openai")
    chat = langchain.ChatOpenAI(
        model="embedded", base_url=address, api_key="none", max_tokens=64, max_retries=0
    )
    for method in ("json_schema", "function_calling"):
        found = chat.with_structured_output(Pet, method=method).invoke("Tom has a new pet.")
        assert isinstance(found, Pet)
    assert (
        "".join(part.text if isinstance(part.text, str) else part.text() for part in chat.stream("Tom has"))
        != ""
    )


def test_pydantic_ai(address):
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def ask(output):
        async with openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0) as client:
            model = OpenAIChatModel("embedded", provider=OpenAIProvider(openai_client=client))
            agent = pydantic_ai.Agent(model, output_type=output, model_settings={"max_tokens": 64})
            return (await agent.run("Tom has a new pet.")).output

    for output in (Pet, pydantic_ai.NativeOutput(Pet)):
        assert isinstance(asyncio.run(ask(output)), Pet)


def test_instructor(client):
    instructor = pytest.importorskip("instructor")
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        asked = instructor.from_openai(client, mode=mode)
        found = asked.chat.completions.create(
            model="embedded", messages=ASKED, response_model=Pet, max_tokens=64, max_retries=0
        )
        assert isinstance(found, Pet)
