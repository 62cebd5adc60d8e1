"""Evaluations per minute: ours beside the usual recipe, on the same 30 candidates and GPU.

usage: rate.py BUILD [--out FILE] [--parallel N]

A third of the batch doesn't compile, a third is wrong, a third is right (the offline author's
softmax with other warps and stages). Ours is timed from the start of the worker, with the
reference, torch.compile's baseline and all; then once more, warm. The recipe (recipe.py) needs a
fresh process per candidate.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import worker

TASK = worker.ROOT / "examples/tasks/softmax_rows.py"
EXACT = "tl.exp(sub) / total\n    tl.store"


def batch() -> list[tuple[str, str]]:
    """(kind, code) of the 30 candidates."""
    worker.first_guess(TASK)  # puts the author on the path
    from offline_author import author

    made = author.study(TASK.read_text(encoding="utf-8"), str(TASK))
    right = [author.write(made, {**made.space.default, "num_warps": warps, "num_stages": stages})
             for warps in (1, 2, 4, 8, 16) for stages in (1, 2)]
    assert all(EXACT in code for code in right)
    wrong = [code.replace(EXACT, EXACT.replace("total", "total * 1.01")) for code in right]
    broken = [code.replace(EXACT, EXACT.replace("tl.exp", "tl.expp")) for code in right[:5]]
    broken += [code.replace("def forward(self, logits):", "def forward(self, logits:")
               for code in right[5:]]
    mixed = []
    for index in range(10):
        mixed += [("broken", broken[index]), ("wrong", wrong[index]), ("right", right[index])]
    return mixed


def recipe(candidates: list[tuple[str, str]]) -> dict[str, Any]:
    """Every candidate in a process of its own, one after the other."""
    seconds: dict[str, list[float]] = {}
    agrees = 0
    widths, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        for number, (kind, code) in enumerate(candidates):
            path = Path(folder) / f"c{number}.py"
            path.write_text(code)
            start = time.monotonic()
            done = subprocess.run([sys.executable, str(Path(__file__).with_name("recipe.py")),
                                   str(TASK), str(path)], capture_output=True, text=True)
            seconds.setdefault(kind, []).append(time.monotonic() - start)
            found = json.loads(done.stdout.splitlines()[-1])
            agrees += found["correct"] == (kind == "right")
            if found["correct"]:
                widths.append(found["half_width"])
                ratios.append(found["speedup"])
        wall = time.monotonic() - begin
    return report(len(candidates), wall, seconds, agrees, widths, ratios)


def ours(player: worker.Worker, candidates: list[tuple[str, str]], parallel: int) -> dict[str, Any]:
    """All at once, as many recorded side by side as told."""
    task = worker.task_of(TASK)
    seconds: dict[str, list[float]] = {}
    agrees = 0
    widths, ratios = [], []
    stages: dict[str, float] = {}

    def one(item: tuple[str, str]) -> tuple[str, dict[str, Any], float]:
        start = time.monotonic()
        verdict = player.evaluate(task, item[1])
        return item[0], verdict, time.monotonic() - start

    begin = time.monotonic()
    with ThreadPoolExecutor(parallel) as pool:
        for kind, verdict, took in pool.map(one, candidates):
            seconds.setdefault(kind, []).append(took)
            agrees += (verdict["correct"] is True) == (kind == "right")
            for stage, spent in verdict["seconds"].items():
                stages[stage] = stages.get(stage, 0.0) + spent
            interval = verdict["metrics"].get("interval")
            if interval:
                widths.append((interval[1] / interval[0]) ** 0.5 - 1)
                ratios.append(verdict["metrics"]["speedup"])
    wall = time.monotonic() - begin
    found = report(len(candidates), wall, seconds, agrees, widths, ratios)
    found["stage_seconds"] = {k: round(v, 2) for k, v in stages.items()}
    return found


def queued(player: worker.Worker, candidates: list[tuple[str, str]]) -> dict[str, Any]:
    """All recorded before the judge gets the first: how long the GPU idles while others wait."""
    task = worker.task_of(TASK)
    with ThreadPoolExecutor(len(candidates)) as pool:
        records = list(pool.map(lambda c: player.record(task, c[1]), candidates))
        begin = time.monotonic()
        verdicts = list(pool.map(lambda record: player.judge(task, record), records))
        wall = time.monotonic() - begin
    idle = sorted(v["seconds"]["idle"] for v in verdicts if "idle" in v["seconds"])[:-1]
    return {"judged": len(idle) + 1, "wall_s": wall, "idle_median_s": statistics.median(idle),
            "idle_max_s": idle[-1], "idle_share": sum(idle) / wall,
            "load_median_s": statistics.median(v["seconds"]["load"] for v in verdicts
                                               if "load" in v["seconds"])}


def report(count: int, wall: float, seconds: dict[str, list[float]], agrees: int,
           widths: list[float], ratios: list[float]) -> dict[str, Any]:
    return {"per_minute": 60 * count / wall, "wall_s": wall, "as_expected": agrees,
            "seconds": {k: statistics.fmean(v) for k, v in seconds.items()},
            "half_width": statistics.median(widths) if widths else None,
            "ratios": [round(r, 3) for r in ratios]}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--parallel", type=int, default=12)
    parser.add_argument("--without-recipe", action="store_true")
    options = parser.parse_args()
    candidates = batch()
    right = [c for c in candidates if c[0] == "right"]
    found: dict[str, Any] = {}
    begin = time.monotonic()
    player = worker.Worker(options.build.resolve())
    start = time.monotonic() - begin
    found["ours, cold"] = ours(player, candidates, options.parallel)
    found["ours, cold"]["per_minute_with_start"] = 60 * len(candidates) / (
        start + found["ours, cold"]["wall_s"])
    found["ours, warm"] = ours(player, candidates, options.parallel)
    found["ours, queued"] = queued(player, candidates)
    found["ours, right ones"] = ours(player, right, options.parallel)
    player.close()
    if not options.without_recipe:
        found["recipe"] = recipe(candidates)
        found["recipe, right ones"] = {
            "per_minute": 60 / found["recipe"]["seconds"]["right"],
            "half_width": found["recipe"]["half_width"]}
    for name, row in found.items():
        print(name, json.dumps(row), flush=True)
    if not options.without_recipe:
        for name in ("ours, cold", "ours, warm"):
            print(f"{name}: {found[name]['per_minute'] / found['recipe']['per_minute']:.1f} times")
        print("right ones: {:.1f} times".format(
            found["ours, right ones"]["per_minute"] / found["recipe, right ones"]["per_minute"]))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
