"""The official client as a peer of llm_bench.py: N streamed tool-calling completions at once.

usage: openai_client.py httpx|aiohttp|aiohttp+uvloop BASE_URL CALLS
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import Any

TOOLS: list[Any] = [{"type": "function", "function": {
    "name": "submit_kernel", "description": "Hands over a kernel.",
    "parameters": {"type": "object", "properties": {"code": {"type": "string"}},
                   "required": ["code"]}}}]


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def one(client: Any) -> bool:
    """One call; True when its tool call came out whole."""
    stream = await client.chat.completions.create(
        model="bench", stream=True, tools=TOOLS, tool_choice="required",
        messages=[{"role": "user", "content": "Write the kernel."}])
    name, arguments = "", ""
    async for chunk in stream:
        for choice in chunk.choices:
            for call in choice.delta.tool_calls or []:
                if call.function is not None:
                    name = call.function.name or name
                    arguments += call.function.arguments or ""
    return name == "submit_kernel" and "code" in json.loads(arguments)


async def run(transport: str, url: str, calls: int) -> tuple[bool, float, float]:
    """Whether all went well, wall seconds, CPU seconds; imports and the client's making excluded."""
    import httpx
    import openai
    if transport.startswith("aiohttp"):
        http: Any = openai.DefaultAioHttpClient(timeout=60)
    else:
        limits = httpx.Limits(max_connections=calls, max_keepalive_connections=calls)
        http = openai.DefaultAsyncHttpxClient(limits=limits, timeout=60)
    async with openai.AsyncOpenAI(api_key="none", base_url=url, http_client=http,
                                  max_retries=0) as client:
        begin, cpu = time.perf_counter(), cpu_s()
        fine = await asyncio.gather(*(one(client) for _ in range(calls)))
        return all(fine), time.perf_counter() - begin, cpu_s() - cpu


def main() -> int:
    """Prints one line of figures as JSON."""
    transport, url, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if transport.endswith("uvloop"):
        import uvloop
        uvloop.install()
    fine, wall, cpu = asyncio.run(run(transport, url, calls))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"client": transport, "ok": fine, "wall_s": wall,
                      "cpu_ms_per_call": cpu * 1e3 / calls, "peak_mib": peak}))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
