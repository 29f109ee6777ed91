"""Constraints through vLLM's OpenAI-compatible server: its own fields for structured output and tools, and ours."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field
from test_vllm_engine import PROMPT, SCHEMA, SENTENCE, answers

from tractile.embedded import LM_PATH

CHAT = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
ASKED = [{"role": "user", "content": "Tom has a new pet."}]


class Pet(BaseModel):
    name: str
    kind: Literal["cat", "dog"]
    age: Annotated[int, Field(ge=0, le=20)]


def tool(name):
    parameters = Pet.model_json_schema() | {"additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder := tmp_path_factory.mktemp("server")).joinpath("mine.py").write_text(
        "from tractile.decoding.vllm import VLLMLogitsProcessor\nfrom tractile.embedded import HMM_PATH, LM_PATH\n\n\n"
        "class Constrained(VLLMLogitsProcessor):\n    tokenizer, hmm = str(LM_PATH), str(HMM_PATH)\n"
    )
    folder.joinpath("chat.jinja").write_text(CHAT)
    log = (folder / "log").open("w")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
    }
    environment["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
    server = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(LM_PATH), "--served-model-name", "small",
         "--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--max-model-len", "512",
         "--additional-config", '{"tractile": true}', "--logits-processors", "mine:Constrained",
         "--chat-template", str(folder / "chat.jinja"), "--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
        env=environment, stdout=log, stderr=log,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            time.sleep(1)
            assert server.poll() is None, (folder / "log").read_text()[-3000:]
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5)
                break
            except OSError:
                continue
        yield address
    finally:
        server.terminate()
        server.wait(30)
        log.close()


def post(url, **body):
    body = {"model": "small", "prompt": PROMPT, "max_tokens": 32, "temperature": 1.0, "seed": 1, **body}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    return urllib.request.urlopen(request, timeout=120)


def texts(url, **body):
    return [choice["text"] for choice in json.load(post(url, **body))["choices"]]


def test_the_servers_own_fields(url):
    schema = {"type": "json_schema", "json_schema": {"name": "girls", "schema": SCHEMA}}
    assert all(map(answers, texts(url, response_format=schema, n=3)))
    assert all(map(answers, texts(url, structured_outputs={"json": SCHEMA})))
    assert re.fullmatch(SENTENCE, texts(url, structured_outputs={"regex": SENTENCE})[0])


@pytest.fixture(scope="module")
def chat(url):
    """Chat completions by OpenAI's own client."""
    import openai

    return openai.OpenAI(base_url=f"{url}/v1", api_key="none").chat.completions


def test_a_type_by_openais_client(chat):
    found = chat.parse(
        model="small", messages=ASKED, response_format=Pet, max_completion_tokens=32, n=3, temperature=1
    )
    for choice in found.choices:
        assert isinstance(choice.message.parsed, Pet)
        assert choice.finish_reason == "stop"
    with chat.stream(model="small", messages=ASKED, response_format=Pet, max_completion_tokens=32) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Pet)


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "walk"}}])
def test_tools_by_openais_client(chat, choice):
    found = chat.create(
        model="small", messages=ASKED, tools=[tool("feed"), tool("walk")], tool_choice=choice,
        max_completion_tokens=64, temperature=1,
    )  # fmt: skip
    calls = found.choices[0].message.tool_calls
    assert found.choices[0].finish_reason in ("stop", "tool_calls")
    assert calls or choice == "auto"
    for call in calls or ():
        assert call.function.name in (("feed", "walk") if isinstance(choice, str) else ("walk",))
        Pet.model_validate_json(call.function.arguments)


def test_our_argument(url):
    for wish in ({"regex": SENTENCE}, {"regex": SENTENCE, "hmm": False, "max_new_tokens": 14}):
        (text,) = texts(url, vllm_xargs={"tractile": json.dumps(wish)})
        assert re.fullmatch(SENTENCE, text)


def test_streaming_and_a_client_that_leaves(url):
    with post(url, structured_outputs={"json": SCHEMA}, stream=True) as events:
        lines = [line[6:] for line in events.read().decode().splitlines() if line.startswith("data: {")]
    parts = [json.loads(line)["choices"][0]["text"] for line in lines]
    assert len(parts) > 3
    assert answers("".join(parts))
    left = post(
        url, structured_outputs={"json": {"type": "array", "minItems": 90}}, max_tokens=400, stream=True
    )
    left.readline()
    left.close()
    assert answers(texts(url, structured_outputs={"json": SCHEMA})[0])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"structured_outputs": {"json": SCHEMA}, "max_tokens": 9}, "26 tokens are needed, 9 given"),
        ({"structured_outputs": {"regex": "("}}, "at position"),
        ({"vllm_xargs": {"tractile": '{"regex": "a", "speed": 3}'}}, "should have one of"),
    ],
)
def test_what_cannot_be_served_is_an_error_400_with_the_reason(url, body, message):
    with pytest.raises(urllib.error.HTTPError) as error:
        post(url, **body)
    assert error.value.code == 400
    assert message in error.value.read().decode()
