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
MODEL, TOKENIZER = tt.embedded.load_lm()
ASKED = {"model": "embedded", "messages": [{"role": "user", "content": "Tom has a new pet."}]}
LONG = ASKED | {"max_tokens": 64}


class Pet(BaseModel):
    """A pet."""

    kind: Literal["cat", "dog"]
    age: Literal[1, 2, 3]


SCHEMA = {"type": "json_schema", "json_schema": {"name": "pet", "schema": Pet.model_json_schema()}}
WRONG = {"type": "json_schema", "json_schema": {"name": "wrong", "schema": {"type": "objekt"}}}
TOOL = {"type": "function", "function": {"name": "keep", "parameters": Pet.model_json_schema()}}
TOM = {"kind": "cat", "age": 2}
SAID = f'Sure.<tool_call>\n{{"name": "keep", "arguments": {json.dumps(TOM)}}}\n</tool_call>'


@pytest.fixture(scope="module")
def address():
    from server import application

    running = uvicorn.Server(uvicorn.Config(application(MODEL, TOKENIZER), port=0, log_level="warning"))
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


@pytest.fixture
def ask(client):
    return lambda **more: client.chat.completions.create(**LONG | more)


@pytest.fixture
def calling():
    """Let the model's next answer be a text and a call; return its tokens."""
    written = [*TOKENIZER(SAID, add_special_tokens=False).input_ids, TOKENIZER.eos_token_id]
    left = written.copy()

    def write(_, __, output):
        if left:
            output.logits[:, -1, left.pop(0)] += 1e4

    hook = MODEL.register_forward_hook(write)
    yield written
    hook.remove()
    assert not left


def test_openai(client, ask):
    assert client.models.list().data[0].id == "embedded"
    found = ask(response_format=SCHEMA).choices[0]
    assert Pet.model_validate_json(found.message.content)
    for choice in ("required", {"type": "function", "function": {"name": "keep"}}):
        found = ask(tools=[TOOL], tool_choice=choice, temperature=0.5, parallel_tool_calls=False).choices[0]
        (call,) = found.message.tool_calls
        assert call.function.name == "keep"
        assert Pet.model_validate_json(call.function.arguments)
        assert found.finish_reason == "tool_calls"
    assert isinstance(ask(top_p=0.9, seed=3).choices[0].message.content, str)
    found = ask(response_format={"type": "json_object"}).choices[0]
    assert type(json.loads(found.message.content)) is dict
    found = client.chat.completions.parse(**LONG, response_format=Pet).choices[0]
    assert isinstance(found.message.parsed, Pet)


def test_openai_streams(ask):
    chunks = list(ask(response_format=SCHEMA, stream=True))
    parts = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert Pet.model_validate_json("".join(parts))
    assert sum(map(bool, parts)) > 2
    assert chunks[-1].choices[0].finish_reason == "stop"
    chunks = list(ask(tools=[TOOL], tool_choice="required", parallel_tool_calls=False, stream=True))
    (call,) = [one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or []]
    assert Pet.model_validate_json(call.function.arguments)


@pytest.mark.parametrize("more", [{}, {"response_format": SCHEMA}], ids=["text", "schema"])
def test_the_model_may_call_or_not(ask, more):
    """It does as it likes; a text is of the format that is asked for."""
    found = ask(tools=[TOOL], tool_choice="auto", **more).choices[0]
    assert (found.finish_reason, found.message.tool_calls) == ("stop", None)
    assert not more or Pet.model_validate_json(found.message.content)


def test_a_text_and_a_call(ask, calling):
    answer = ask(tools=[TOOL])
    message, (call,) = answer.choices[0].message, answer.choices[0].message.tool_calls
    assert (message.content.strip(), answer.choices[0].finish_reason) == ("Sure.", "tool_calls")
    assert json.loads(call.function.arguments) == TOM
    assert answer.usage.completion_tokens == len(calling)


def test_a_text_comes_as_it_is_written_and_then_a_call(ask, calling):
    deltas = [chunk.choices[0].delta for chunk in ask(tools=[TOOL], stream=True)]
    assert "".join(delta.content or "" for delta in deltas).strip() == "Sure."
    assert sum(bool(delta.content) for delta in deltas) > 1
    assert [call.function.name for delta in deltas for call in delta.tool_calls or []] == ["keep"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"max_tokens": 3, "response_format": SCHEMA}, "no accepted sequence fits the budget"),
        ({"max_tokens": 100_000}, "positions"),
        ({"response_format": WRONG}, "objekt"),
        ({"temperature": -1}, "temperature"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "give"}}}, "give"),
    ],
    ids=["budget", "context", "schema", "temperature", "tool"],
)
def test_errors_have_a_status_before_the_first_byte(ask, more, said, stream):
    with pytest.raises(openai.BadRequestError) as raised:
        ask(stream=stream, **more)
    assert raised.value.status_code == 400
    assert said in str(raised.value)


def test_many_clients_at_once(address):
    """Some leave in the middle of their stream."""

    async def ask(client, i):
        more = LONG | {"response_format": SCHEMA, "seed": i}
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


@pytest.fixture
def chat(address):
    made = pytest.importorskip("langchain_openai").ChatOpenAI
    return made(model="embedded", base_url=address, api_key="none", max_tokens=64, max_retries=0)


def test_langchain(chat):
    for method in ("json_schema", "function_calling"):
        found = chat.with_structured_output(Pet, method=method).invoke("Tom has a new pet.")
        assert isinstance(found, Pet)
    parts = (part.text if isinstance(part.text, str) else part.text() for part in chat.stream("Tom has"))
    assert "".join(parts) != ""


def test_langchain_binds_tools(chat, calling):
    found = chat.bind_tools([TOOL]).invoke("Tom has a new pet.")
    assert [call["args"] for call in found.tool_calls] == [TOM]


async def ask_agent(address, output, *tools):
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async with openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0) as client:
        model = OpenAIChatModel("embedded", provider=OpenAIProvider(openai_client=client))
        output = pydantic_ai.NativeOutput(Pet) if output == "native" else output
        agent = pydantic_ai.Agent(model, output_type=output, tools=tools, model_settings={"max_tokens": 64})
        return (await agent.run("Tom has a new pet.")).output


@pytest.mark.parametrize("output", [Pet, "native"])
def test_pydantic_ai(address, output):
    assert isinstance(asyncio.run(ask_agent(address, output)), Pet)


TEMPLATE = "{% for m in messages %}{{ m.content }} {{ m.tool_calls[0].function.arguments.items() if m.tool_calls }}{% endfor %}"


@pytest.mark.parametrize("template", [None, TEMPLATE], ids=["texts", "template"])
def test_pydantic_ai_runs_a_tool(address, calling, monkeypatch, template):
    kept = []
    monkeypatch.setattr(TOKENIZER, "chat_template", template)

    def keep(kind: Literal["cat", "dog"], age: int) -> str:
        kept.append({"kind": kind, "age": age})
        return "done"

    assert isinstance(asyncio.run(ask_agent(address, str, keep)), str)
    assert kept == [TOM]
    if template:
        monkeypatch.setattr(TOKENIZER, "chat_template", "{{ raise_exception('no') }}")
        with pytest.raises(Exception, match="template refuses the messages: no"):
            asyncio.run(ask_agent(address, str))


def test_instructor(client):
    instructor = pytest.importorskip("instructor")
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        asked = instructor.from_openai(client, mode=mode)
        found = asked.chat.completions.create(**LONG, response_model=Pet, max_retries=0)
        assert isinstance(found, Pet)
