"""A model that follows a script, in every wire form that a provider speaks.

/chat/<form>[/...]: form is openai, pangu (reasoning between markers, errors as error_code) or
anthropic. The answer is the call of whichever tool was offered: an analysis, the kernel in
scripted/kernel.py, a lesson, a sum. A request without the key `sk-loopback` is refused with a body
that echoes what was sent instead, as some gateways do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

from exchange import Exchange, scenario

KEY = "sk-loopback"
KERNEL = Path(__file__).parent.parent / "scripted" / "kernel.py"
ANSWERS: dict[str, dict[str, Any]] = {
    "submit_analysis": {"analysis": "three pointwise operators", "ideas": ["fuse them"],
                        "rewritable": True},
    "record_lesson": {"lesson": "one pass is enough", "next": "stop"},
    "report_sum": {"sum": 42},
}


def answer_for(names: list[str]) -> Optional[tuple[str, dict[str, Any]]]:
    """The tool to call and its arguments."""
    for name in names:
        if name in ANSWERS:
            return name, ANSWERS[name]
        if name == "submit_kernel":
            return name, {"code": KERNEL.read_text(), "summary": "fused"}
        if name == "validate_model":
            return name, {"candidate_code": KERNEL.read_text()}
    return None


def key_of(exchange: Exchange) -> str:
    """The key, from wherever the form has it."""
    request = exchange.request
    bearer = request.header("authorization").removeprefix("Bearer ")
    return bearer or request.header("x-auth-token") or request.header("x-api-key")


async def refuse(exchange: Exchange, form: str) -> None:
    """A wrong key, echoed."""
    text = f"Incorrect API key provided: {key_of(exchange)}"
    if form == "pangu":
        await exchange.json(401, {"error_code": "APIG.0301", "error_msg": text})
    elif form == "anthropic":
        await exchange.json(401, {"type": "error", "error": {"type": "authentication_error",
                                                             "message": text}})
    else:
        await exchange.json(401, {"error": {"message": text, "type": "invalid_request_error",
                                            "code": "invalid_api_key"}})


async def send(exchange: Exchange, event: object, name: str = "") -> None:
    """One event of the stream."""
    data = event if isinstance(event, str) else json.dumps(event)
    head = f"event: {name}\n" if name else ""
    await exchange.chunk(f"{head}data: {data}\n\n".encode())


def pieces(text: str, size: int = 40) -> list[str]:
    """The text in pieces."""
    return [text[at:at + size] for at in range(0, len(text), size)] or [""]


async def stream_chat(exchange: Exchange, form: str, call: Optional[tuple[str, dict[str, Any]]],
                      model: str) -> None:
    """A stream of the Chat Completions form."""
    async def delta(value: dict[str, Any], finish: Optional[str] = None) -> None:
        await send(exchange, {"id": "c", "object": "chat.completion.chunk", "created": 1,
                              "model": model, "choices": [{"index": 0, "delta": value,
                                                           "finish_reason": finish}]})

    await exchange.begin(content_type="text/event-stream")
    await delta({"role": "assistant", "content": ""})
    thought = "[unused16]I think about it.[unused17]" if form == "pangu" else "On it."
    for piece in pieces(thought, 5):
        await delta({"content": piece})
    if call is not None:
        await delta({"tool_calls": [{"index": 0, "id": "call_a", "type": "function",
                                     "function": {"name": call[0], "arguments": ""}}]})
        for piece in pieces(json.dumps(call[1])):
            await delta({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    await delta({}, "tool_calls" if call else "stop")
    await send(exchange, {"id": "c", "object": "chat.completion.chunk", "created": 1,
                          "model": model, "choices": [],
                          "usage": {"prompt_tokens": 100, "completion_tokens": 20,
                                    "total_tokens": 120}})
    await send(exchange, "[DONE]")
    await exchange.finish()


async def stream_messages(exchange: Exchange, call: Optional[tuple[str, dict[str, Any]]],
                          model: str) -> None:
    """A stream of the Messages form."""
    async def event(value: dict[str, Any]) -> None:
        await send(exchange, value, value["type"])

    await exchange.begin(content_type="text/event-stream")
    await event({"type": "message_start", "message": {
        "id": "m", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 1}}})
    await event({"type": "content_block_start", "index": 0,
                 "content_block": {"type": "text", "text": ""}})
    await event({"type": "content_block_delta", "index": 0,
                 "delta": {"type": "text_delta", "text": "On it."}})
    await event({"type": "content_block_stop", "index": 0})
    if call is not None:
        await event({"type": "content_block_start", "index": 1,
                     "content_block": {"type": "tool_use", "id": "toolu_a", "name": call[0],
                                       "input": {}}})
        for piece in pieces(json.dumps(call[1])):
            await event({"type": "content_block_delta", "index": 1,
                         "delta": {"type": "input_json_delta", "partial_json": piece}})
        await event({"type": "content_block_stop", "index": 1})
    await event({"type": "message_delta",
                 "delta": {"stop_reason": "tool_use" if call else "end_turn",
                           "stop_sequence": None},
                 "usage": {"output_tokens": 20}})
    await event({"type": "message_stop"})
    await exchange.finish()


@scenario("chat")
async def chat(exchange: Exchange) -> None:
    """See the top of this file."""
    form = exchange.request.argument(1, "openai")
    if key_of(exchange) != KEY:
        await refuse(exchange, form)
        return
    body = json.loads(exchange.request.body)
    tools = body.get("tools", [])
    names = [tool["name"] if form == "anthropic" else tool["function"]["name"] for tool in tools]
    call = answer_for(names)
    if form == "anthropic":
        await stream_messages(exchange, call, body["model"])
    else:
        await stream_chat(exchange, form, call, body["model"])
