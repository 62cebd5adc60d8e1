"""Evaluates the offline author's first guess for every shipped task on this machine's GPU.

usage: evaluate.py BUILD [--out OUT] [--isolation LEVEL] [--tasks TASK...]

Prints one line a task, and with OUT leaves <task>.json, the whole verdict. Exits with 1 where a
candidate is found wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import worker


def line(name: str, verdict: dict[str, Any], seconds: float) -> str:
    """One task's line."""
    metrics = verdict["metrics"]
    text = f"{name:18s} {verdict['stage']}/{verdict['code']}"
    against = metrics.get("against") or {}
    for other, found in against.items():
        low, high = found["interval"]
        text += (f"  {other} {found['original_ms']:.4f} ms {found['ratio']:.3f}x "
                 f"[{low:.3f}, {high:.3f}]")
    if metrics["optimized_time"]:
        text += f"  candidate {metrics['optimized_time']:.4f} ms"
    text += f"  {seconds:.1f} s {verdict['seconds']}"
    return text if verdict["ok"] else f"{text}\n    {verdict['reason']}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--isolation", default="auto")
    parser.add_argument("--tasks", nargs="*", default=[])
    options = parser.parse_args()
    player = worker.Worker(options.build.resolve(), options.isolation)
    print(player.ready)
    wrong = 0
    for path in sorted((worker.ROOT / "examples/tasks").glob("*.py")):
        if options.tasks and path.stem not in options.tasks:
            continue
        code = worker.first_guess(path)
        if code is None:
            print(f"{path.stem:18s} the author has no candidate")
            continue
        begin = time.monotonic()
        try:
            verdict = player.evaluate(worker.task_of(path), code)
        except RuntimeError as error:
            print(f"{path.stem:18s} ERROR {error}", flush=True)
            wrong += 1
            continue
        print(line(path.stem, verdict, time.monotonic() - begin), flush=True)
        wrong += verdict["correct"] is not True
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / f"{path.stem}.json").write_text(json.dumps(verdict, indent=1))
    player.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
