"""Requests and the loopback server, checked against the official Python clients.

Two directions: what our codecs send satisfies the clients' own types, and the clients, driven
against the server that our tests use, read its answers as our codecs do. Needs the packages openai
and anthropic; BUILD is the build tree (default: build-dev).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import anthropic
import openai
from anthropic.types import MessageParam, ToolUnionParam, message_create_params
from openai.types.chat import (ChatCompletionMessageParam, ChatCompletionToolUnionParam,
                               completion_create_params)
from pydantic import TypeAdapter

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KERNEL_EVOLVE_BUILD", ROOT / "build-dev"))
TOOLS = [{"name": "submit_kernel", "description": "Hands over a kernel.",
          "parameters": {"type": "object", "properties": {"code": {"type": "string"}},
                         "required": ["code"], "additionalProperties": False}}]
CONVERSATION = [
    {"role": "system", "content": "You write kernels."},
    {"role": "user", "content": "Write one."},
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_1", "name": "submit_kernel", "arguments": {"code": "x = \"1\"\n"}},
        {"id": "call_2", "name": "submit_kernel", "arguments": {"code": "y"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "it does not compile"},
    {"role": "tool", "tool_call_id": "call_2", "content": "neither does this"},
    {"role": "user", "content": "Again, please."},
]


def encode(provider: str, request: dict[str, Any], **params: Any) -> dict[str, Any]:
    """The HTTP request that the codec makes, its body parsed."""
    given = {"provider": provider, "request": request,
             "params": {"model": "m", "base_url": "http://localhost/v1", "api_key": "none",
                        **params}}
    done = subprocess.run([str(BUILD / "bin" / "codec_encode")], input=json.dumps(given),
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def requests() -> list[dict[str, Any]]:
    """Canonical requests, from the least to the richest."""
    rich = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "stop": ["###"]}
    return [
        {"messages": CONVERSATION[1:2]},
        {"messages": CONVERSATION[:2], "tools": TOOLS, "tool_choice": "required"},
        {"messages": CONVERSATION, "tools": TOOLS, "tool_choice": "auto", "sampling": rich},
        {"messages": CONVERSATION, "tools": TOOLS, "tool_choice": {"name": "submit_kernel"},
         "stream": False},
    ]


def check(whole: Any, message: Any, tool: Any, body: dict[str, Any]) -> None:
    """Validates the body; its lists apart, since the types declare them as lazily read iterables."""
    TypeAdapter(whole).validate_python(body)
    TypeAdapter(list[message]).validate_python(body["messages"])
    TypeAdapter(list[tool]).validate_python(body.get("tools", []))


class RequestTypes(unittest.TestCase):
    """Types with a Literal or a required member refuse what they do not know."""

    def test_chat_completions(self) -> None:
        streaming = completion_create_params.CompletionCreateParamsStreaming
        whole = completion_create_params.CompletionCreateParamsNonStreaming
        known = set(completion_create_params.CompletionCreateParamsBase.__annotations__)
        for provider in ("openai", "pangu"):
            for request in requests():
                with self.subTest(provider=provider, request=request):
                    body = encode(provider, request)["body"]
                    check(streaming if body.get("stream") else whole,
                          ChatCompletionMessageParam, ChatCompletionToolUnionParam, body)
                    self.assertLessEqual(set(body) - {"stream"}, known)

    def test_messages(self) -> None:
        streaming = message_create_params.MessageCreateParamsStreaming
        whole = message_create_params.MessageCreateParamsNonStreaming
        known = set(message_create_params.MessageCreateParamsBase.__annotations__)
        known |= {"temperature", "top_p"}  # gone from the newest types; older models take them
        for request in requests():
            with self.subTest(request=request):
                body = encode("anthropic", request)["body"]
                check(streaming if body.get("stream") else whole, MessageParam, ToolUnionParam,
                      body)
                self.assertLessEqual(set(body) - {"stream"}, known)
                roles = [message["role"] for message in body["messages"]]
                self.assertTrue(all(a != b for a, b in zip(roles, roles[1:])), roles)

    def test_the_types_do_refuse(self) -> None:
        with self.assertRaises(ValueError):
            check(completion_create_params.CompletionCreateParamsNonStreaming,
                  ChatCompletionMessageParam, ChatCompletionToolUnionParam,
                  {"model": "m", "messages": [{"role": "robot", "content": "x"}]})


class ClientsAgainstTheServer(unittest.TestCase):
    """The fixture itself is checked: a client that strangers use reads what it sends."""

    def setUp(self) -> None:
        self.server = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "loopback" / "server.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.server.stdout is not None
        self.base = f"http://127.0.0.1:{json.loads(self.server.stdout.readline())['port']}"

    def tearDown(self) -> None:
        assert self.server.stdin is not None and self.server.stdout is not None
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()

    def test_openai_streams_a_tool_call(self) -> None:
        tools: Any = [{"type": "function", "function": tool} for tool in TOOLS]
        with openai.OpenAI(api_key="sk-loopback", base_url=self.base + "/chat/openai",
                           max_retries=0) as client:
            with client.chat.completions.stream(
                    model="m", tools=tools,
                    messages=[{"role": "user", "content": "Write one."}]) as stream:
                completion = stream.get_final_completion()
        calls = completion.choices[0].message.tool_calls or []
        self.assertEqual([call.function.name for call in calls], ["submit_kernel"])
        self.assertIn("class ModelNew", json.loads(calls[0].function.arguments)["code"])
        self.assertEqual(completion.choices[0].finish_reason, "tool_calls")

    def test_openai_reads_the_refusal_of_a_key(self) -> None:
        with openai.OpenAI(api_key="wrong", base_url=self.base + "/chat/openai",
                           max_retries=0) as client:
            with self.assertRaises(openai.AuthenticationError):
                client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "x"}])

    def test_anthropic_streams_a_tool_call(self) -> None:
        tools: Any = [{"name": tool["name"], "description": tool["description"],
                       "input_schema": tool["parameters"]} for tool in TOOLS]
        with anthropic.Anthropic(api_key="sk-loopback", base_url=self.base + "/chat/anthropic",
                                 max_retries=0) as client:
            with client.messages.stream(
                    model="m", max_tokens=100, tools=tools,
                    messages=[{"role": "user", "content": "Write one."}]) as stream:
                message = stream.get_final_message()
        self.assertEqual([block.type for block in message.content], ["text", "tool_use"])
        self.assertIn("class ModelNew", message.content[1].input["code"])
        self.assertEqual(message.stop_reason, "tool_use")
        self.assertEqual(message.usage.output_tokens, 20)

    def test_anthropic_reads_the_refusal_of_a_key(self) -> None:
        with anthropic.Anthropic(api_key="wrong", base_url=self.base + "/chat/anthropic",
                                 max_retries=0) as client:
            with self.assertRaises(anthropic.AuthenticationError):
                client.messages.create(model="m", max_tokens=9,
                                       messages=[{"role": "user", "content": "x"}])


if __name__ == "__main__":
    unittest.main()
