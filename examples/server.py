"""An endpoint as OpenAI's `chat/completions`, in which every answer satisfies its constraint: Starlette and `tt.Engine`.

    pip install ".[examples]"
    python examples/server.py --model FOLDER --tools hermes --port 8000        # without --model the embedded model

It takes `response_format` (`json_schema`, `json_object`), `tools` with `tool_choice` and `parallel_tool_calls`, `stream`,
`max_tokens`, `temperature`, `top_p` and `seed`. Calls are in the model's own format, which `--tools` names. What is wrong with a
request has a status, also where the answer is streamed: 400, 503 (busy), 504 (late).
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import tractile as tt
from tractile.constraints import Answer
from tractile.constraints.tags.families import FAMILIES

STATUS = {tt.errors.EngineBusy: 503, tt.errors.EngineClosed: 503, tt.errors.TimeLimitPassed: 504}


def application(
    model: Any,
    tokenizer: Any,
    name: str = "embedded",
    family: str = "hermes",
    time_limit: float | None = 60.0,
) -> Starlette:
    """Return the application; its engine runs as long as it does. ``family``: the format of the model's calls of tools."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with tt.Engine(model, tokenizer, time_limit=time_limit) as engine:
            app.state.engine = engine
            yield

    async def models(request: Request) -> Response:
        return JSONResponse(
            {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "tractile"}]}
        )

    async def completions(request: Request) -> Response:
        try:
            asked = await request.json()
            output, settings = output_of(asked, family), settings_of(asked)
            prompt = prompt_of(asked, tokenizer)
            engine = request.app.state.engine
            if asked.get("stream"):
                stream = await engine.stream(prompt, output, **settings)
                trigger = FAMILIES[family].trigger if asked.get("tools") else None
                return StreamingResponse(events(stream, trigger, name), media_type="text/event-stream")
            answer, post = await engine.generate(prompt, output, **settings, particles=1, posterior=True)
        except (tt.TractileError, ValueError, KeyError, TypeError) as error:
            status = STATUS.get(type(error), 400)
            body = {"message": str(error), "type": type(error).__name__, "param": None, "code": None}
            return JSONResponse({"error": body}, status)
        text = answer.text if answer.text or not answer.calls else None
        message = {"role": "assistant", "content": text, **calls_of(answer)}
        choice = {"index": 0, "message": message, "finish_reason": reason_of(answer), "logprobs": None}
        counts = len(prompt), len(post.best.token_ids)
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        usage = dict(zip(names, (*counts, sum(counts)), strict=True))
        return JSONResponse({**heading(name, "chat.completion"), "choices": [choice], "usage": usage})

    routes = [
        Route("/v1/models", models),
        Route("/v1/chat/completions", completions, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def prompt_of(asked: dict[str, Any], tokenizer: Any) -> list[int]:
    """Return the prompt's tokens: messages and tools by the tokenizer's template, else the texts, one below the other."""
    messages = [
        {**message, "content": text_of(message.get("content")), **read_calls(message)}
        for message in asked["messages"]
    ]
    if not getattr(tokenizer, "chat_template", None):
        return tokenizer("\n".join(message["content"] for message in messages) or "\n").input_ids
    try:
        text = tokenizer.apply_chat_template(
            messages, tools=asked.get("tools"), tokenize=False, add_generation_prompt=True
        )
    except Exception as error:  # of jinja2, by the template
        raise ValueError(f"the chat template refuses the messages: {error}") from None
    return tokenizer(text, add_special_tokens=False).input_ids


def read_calls(message: dict[str, Any]) -> dict[str, Any]:
    """Return the earlier calls in a message with their arguments as objects, for the template; nothing if there are none."""
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or []
    ]
    return {"tool_calls": calls} if calls else {}


def text_of(content: Any) -> str:
    """Return the text of a message's content, which may be a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def output_of(asked: dict[str, Any], family: str) -> Any:
    """Return the output that a request asks for: a text, calls of tools, or (`"auto"`) either."""
    format_ = asked.get("response_format") or {"type": "text"}
    schema = {"type": "object"} if format_["type"] == "json_object" else None
    if format_["type"] == "json_schema":
        schema = format_["json_schema"]["schema"]
    written = tt.constraints.output_type(str if schema is None else schema).constraint
    choice = asked.get("tool_choice") or "auto"
    if not asked.get("tools") or choice == "none":
        return tt.constraints.OutputType(written, Answer)
    parallel = asked.get("parallel_tool_calls") is not False
    calls = tt.constraints.tool_calls(
        asked["tools"],
        family,
        choice="required" if schema and choice == "auto" else choice,
        parallel=parallel,
    )
    if schema is None or choice != "auto":
        return calls
    parse = tt.constraints.output_type(calls).parse
    return tt.constraints.OutputType(
        written | calls, lambda text: Answer(text) if written.accepts(text) else parse(text)
    )


def settings_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a request by their names in Tractile."""
    budget = asked.get("max_completion_tokens") or asked.get("max_tokens") or 64
    given = {name: asked.get(name) for name in ("temperature", "top_p", "seed")}
    settings = {name: value for name, value in given.items() if value is not None}
    return {"max_new_tokens": budget, **settings}


def heading(name: str, kind: str) -> dict[str, Any]:
    """Return what every answer begins with."""
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": name}


def reason_of(answer: Answer) -> str:
    """Return why an answer ends."""
    return "tool_calls" if answer.calls else "stop"


def calls_of(answer: Answer) -> dict[str, Any]:
    """Return the calls of an answer as a message has them; nothing if there are none."""
    functions = [{"name": one.name, "arguments": json.dumps(dict(one.arguments))} for one in answer.calls]
    calls = [
        {"id": f"call_{uuid.uuid4().hex}", "type": "function", "index": i, "function": function}
        for i, function in enumerate(functions)
    ]
    return {"tool_calls": calls} if calls else {}


async def events(stream: tt.decoding.Stream, trigger: str | None, name: str) -> AsyncIterator[str]:
    """Yield an answer as events: the text as it comes, up to the ``trigger`` of a call, and the calls at the end.

    A client that goes stops its request.
    """
    head, sent = heading(name, "chat.completion.chunk"), ""

    def event(delta: dict[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

    try:
        yield event({"role": "assistant", "content": ""})
        async for part in stream:
            text = part.value.text if part.done else text_before(part.text, trigger)
            if len(text) > len(sent):
                yield event({"content": text[len(sent) :]})
                sent = text
        if calls := calls_of(part.value):
            yield event(calls)
        yield event({}, reason_of(part.value))
    except tt.TractileError as error:
        yield f"data: {json.dumps({'error': {'message': str(error), 'type': type(error).__name__}})}\n\n"
    finally:
        await stream.aclose()
    yield "data: [DONE]\n\n"


def text_before(text: str, trigger: str | None) -> str:
    """Return what of a text stands before the trigger of a call, or before what may become one."""
    if trigger is None:
        return text
    text = text.partition(trigger)[0]
    begun = (n for n in range(len(trigger) - 1, 0, -1) if text.endswith(trigger[:n]))
    return text[: len(text) - next(begun, 0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", type=Path, help="folder of a model of transformers; default: the embedded one"
    )
    parser.add_argument("--tools", default="hermes", choices=FAMILIES, help="the format of the model's calls")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    if given.model is None:
        model, tokenizer = tt.embedded.load_lm()
    else:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model = AutoModelForCausalLM.from_pretrained(given.model)
        tokenizer = AutoTokenizer.from_pretrained(given.model)
    name = given.model.name if given.model else "embedded"
    uvicorn.run(application(model, tokenizer, name, given.tools), port=given.port)


if __name__ == "__main__":
    main()
