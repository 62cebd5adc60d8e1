"""Many streamed tool-calling completions at once: ours, a bare libcurl loop, the official client.

usage: llm_bench.py BUILD_DIR [--calls N] [--rounds N] [--python PYTHON]

All clients are measured in one run against the same local server, each in a process of its own, in
turn. PYTHON is an interpreter with the package openai (and aiohttp, uvloop); without it the
official client is left out, and the output says so. Prints medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

PIECES = 50
SECONDS = 1.0


def start_server(build: Path) -> tuple[subprocess.Popen[str], str]:
    """Starts the endpoint; its address ends with /v1."""
    server = subprocess.Popen([str(build / "bin" / "sse_server"), str(PIECES), str(SECONDS)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return server, f"http://127.0.0.1:{int(server.stdout.readline())}/v1"


def measure(command: list[str]) -> dict[str, object] | None:
    """One client's figures, or None when it failed."""
    environment = dict(os.environ, no_proxy="127.0.0.1", NO_PROXY="127.0.0.1")
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        print(f"{command[0]} failed: {done.stderr.strip()[-400:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> int:
    """Runs every client in turn and prints a table."""
    parser = argparse.ArgumentParser(description="Model clients side by side.")
    parser.add_argument("build", type=Path)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", help="interpreter with the package openai")
    options = parser.parse_args()
    server, url = start_server(options.build)
    client = str(options.build / "bin" / "llm_client")
    plugins = str(options.build / "lib" / "kernel_evolve" / "plugins")
    calls = str(options.calls)
    commands = {"bare": [client, "bare", url, calls, plugins],
                "ours": [client, "ours", url, calls, plugins]}
    if options.python:
        peer = str(Path(__file__).with_name("openai_client.py"))
        for transport in ("httpx", "aiohttp", "aiohttp+uvloop"):
            commands[f"openai, {transport}"] = [options.python, peer, transport, url, calls]
    else:
        print("without --python the official client is not measured")
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            row = measure(command)
            if row is not None:
                rows[name].append(row)
    assert server.stdin is not None
    server.stdin.close()
    server.wait()
    print(f"{calls} calls at once, replies of {PIECES} pieces over {SECONDS} s; medians of "
          f"{options.rounds}\n")
    print("| client | wall s | CPU ms per call | against bare | peak MiB |\n|---|---|---|---|---|")
    bare = statistics.median(r["cpu_ms_per_call"] for r in rows["bare"])
    for name, found in rows.items():
        if not found:
            print(f"| {name} | failed | | | |")
            continue
        middle = {key: statistics.median(r[key] for r in found)
                  for key in ("wall_s", "cpu_ms_per_call", "peak_mib")}
        print(f"| {name} | {middle['wall_s']:.2f} | {middle['cpu_ms_per_call']:.2f} | "
              f"{middle['cpu_ms_per_call'] / bare:.2f} | {middle['peak_mib']:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
