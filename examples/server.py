"""An endpoint as OpenAI's `chat/completions`, in which every answer satisfies its constraint: Starlette and `tt.Engine`.

    pip install "tractile[examples]"
    python examples/server.py --model FOLDER --port 8000        # without --model the embedded model

It takes `response_format` (`json_schema`, `json_object`), `tools` with `tool_choice`, `stream`, `max_tokens`, `temperature`,
`top_p` and `seed`. What is wrong with a request has a status, also where the answer is streamed: 400, 503 (busy), 504 (late).
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

STATUS = {tt.errors.EngineBusy: 503, tt.errors.EngineClosed: 503, tt.errors.TimeLimitPassed: 504}


def application(
    model: Any, tokenizer: Any, name: str = "embedded", time_limit: float | None = 60.0
) -> Starlette:
    """Return the application; its engine runs as long as it does."""

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
            prompt, output, calls = prompt_of(asked, tokenizer), *output_of(asked)
            settings = settings_of(asked)
            engine = request.app.state.engine
            if asked.get("stream"):
                stream = await engine.stream(prompt, output, **settings)
                return StreamingResponse(events(stream, calls, name), media_type="text/event-stream")
            value = await engine.generate(prompt, output, **settings, particles=1)
        except (tt.TractileError, ValueError, KeyError, TypeError) as error:
            status = STATUS.get(type(error), 400)
            body = {"message": str(error), "type": type(error).__name__, "param": None, "code": None}
            return JSONResponse({"error": body}, status)
        message = message_of(value, calls)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 0)
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        return JSONResponse({**heading(name, "chat.completion"), "choices": [choice], "usage": usage})

    routes = [
        Route("/v1/models", models),
        Route("/v1/chat/completions", completions, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def prompt_of(asked: dict[str, Any], tokenizer: Any) -> Any:
    """Return the prompt: the messages for a tokenizer with a template, else their texts, one below the other."""
    messages = [{**message, "content": text_of(message.get("content"))} for message in asked["messages"]]
    if getattr(tokenizer, "chat_template", None):
        return messages
    return "\n".join(message["content"] for message in messages) or "\n"


def text_of(content: Any) -> str:
    """Return the text of a message's content, which may be a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def output_of(asked: dict[str, Any]) -> tuple[Any, bool]:
    """Return the output that a request asks for, and whether it is a call of a tool."""
    tools, choice = asked.get("tools"), asked.get("tool_choice", "auto")
    if tools and choice not in ("none", "auto"):
        if isinstance(choice, dict):
            chosen = choice["function"]["name"]
            tools = [tool for tool in tools if tool["function"]["name"] == chosen]
        return tools, True
    format_ = asked.get("response_format") or {"type": "text"}
    match format_["type"]:
        case "json_schema":
            return tt.constraints.json_schema(format_["json_schema"]["schema"]), False
        case "json_object":
            return tt.constraints.json_schema({"type": "object"}), False
    return str, False


def settings_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a request by their names in Tractile."""
    budget = asked.get("max_completion_tokens") or asked.get("max_tokens") or 64
    given = {name: asked.get(name) for name in ("temperature", "top_p", "seed")}
    settings = {name: value for name, value in given.items() if value is not None}
    return {"max_new_tokens": budget, **settings}


def heading(name: str, kind: str) -> dict[str, Any]:
    """Return what every answer begins with."""
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": name}


def message_of(value: Any, calls: bool) -> dict[str, Any]:
    """Return the message of an answer: a text, or a call."""
    if not calls:
        return {"role": "assistant", "content": value}
    function = {"name": value.name, "arguments": json.dumps(dict(value.arguments))}
    call = {"id": f"call_{uuid.uuid4().hex}", "type": "function", "index": 0, "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


async def events(stream: tt.decoding.Stream, calls: bool, name: str) -> AsyncIterator[str]:
    """Yield an answer as events: a text as it comes, a call when it is there. A client that goes stops its request."""
    head, reason = heading(name, "chat.completion.chunk"), "stop"

    def event(delta: dict[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

    try:
        yield event({"role": "assistant", "content": None if calls else ""})
        async for part in stream:
            if not calls and part.new:
                yield event({"content": part.new})
            if calls and part.done:
                reason = "tool_calls"
                yield event({"tool_calls": message_of(part.value, calls)["tool_calls"]})
        yield event({}, reason)
    except tt.TractileError as error:
        yield f"data: {json.dumps({'error': {'message': str(error), 'type': type(error).__name__}})}\n\n"
    finally:
        await stream.aclose()
    yield "data: [DONE]\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", type=Path, help="folder of a model of transformers; default: the embedded one"
    )
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    if given.model is None:
        model, tokenizer = tt.embedded.load_lm()
    else:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model = AutoModelForCausalLM.from_pretrained(given.model)
        tokenizer = AutoTokenizer.from_pretrained(given.model)
    uvicorn.run(
        application(model, tokenizer, given.model.name if given.model else "embedded"), port=given.port
    )


if __name__ == "__main__":
    main()
