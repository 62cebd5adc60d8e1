"""Figures of the whole program that a user feels. Run by hand; nothing here is a test.

usage: evolve_bench.py PROGRAM [--evaluations N] [TASK...]

PROGRAM is a built kernel-evolve (Release). Prints the start-up of --version beside that of
`/bin/true` in the same run, then a table with one row a task: the answer, the modelled ratio, how
much of the grid was run, evaluations, seconds to the first and to later verdicts, peak memory of
the orchestrator and of its largest child.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

STARTS = 50
TASKS = Path(__file__).resolve().parents[2] / "examples" / "tasks"


def start_up_ms(command: list[str]) -> float:
    """Median wall milliseconds of a process that does nothing much."""
    samples = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        samples.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(samples)


def verdict_seconds(journal: Path) -> list[float]:
    """Seconds of each full evaluation, in order, from the run's journal."""
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(trace)")]
        rows = database.execute(f"SELECT {columns[-1]} FROM trace").fetchall()
    events = [json.loads(row[0]) for row in rows]
    return [e["seconds"] for e in events
            if e.get("event") == "effect_finished" and e.get("asked") == "full"]


class PeakMemory(threading.Thread):
    """Follows the resident peak of one process alone, in KiB, until it ends."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.path = Path(f"/proc/{pid}/status")
        self.kib = 0

    def run(self) -> None:
        while True:
            try:
                lines = self.path.read_text().splitlines()
            except OSError:
                return
            peak = [line for line in lines if line.startswith("VmHWM:")]
            if not peak:  # a zombie has none
                return
            self.kib = int(peak[0].split()[1])
            time.sleep(0.1)


def evolve(program: str, task: Path, evaluations: int, out: Path) -> dict[str, object]:
    """Runs the main job on a task and collects its row."""
    command = [program, "evolve", str(task), "--out", str(out), "--seed", "1",
               "--budget", f"evaluations={evaluations}", "--json"]
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    own = PeakMemory(child.pid)
    own.start()
    assert child.stdout is not None
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    own.join()
    child.returncode = os.waitstatus_to_exitcode(status)
    row: dict[str, object] = {
        "task": task.stem,
        "exit": child.returncode,
        "seconds": round(time.perf_counter() - begin, 1),
        "orchestrator MiB": own.kib // 1024,
        "largest child MiB": usage.ru_maxrss // 1024,  # the greatest of the whole process tree
    }
    report = json.loads(text) if text.strip() else {}
    best = report.get("best") or {}
    verdict = best.get("verdict") or {}
    coverage = verdict.get("coverage") or {}
    ratio = (verdict.get("metrics") or {}).get("speedup")
    row["answer"] = "win" if report.get("success") else "no win"
    row["modelled"] = f"{ratio:.2f}x" if ratio else "-"
    run, total = coverage.get("programs_run", "-"), coverage.get("programs_total", "-")
    row["programs run"] = f"{run}/{total}"
    row["evaluations"] = (report.get("usage") or {}).get("evaluations", 0)
    journal = out / "journal.db"
    times = verdict_seconds(journal) if journal.exists() else []
    row["first verdict s"] = round(times[0], 1) if times else "-"
    row["later s"] = round(statistics.median(times[1:]), 1) if times[1:] else "-"
    return row


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description="Figures of the whole program.")
    parser.add_argument("program")
    parser.add_argument("tasks", nargs="*", type=Path)
    parser.add_argument("--evaluations", type=int, default=2)
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    print(f"--version: {start_up_ms([program, '--version']):.1f} ms "
          f"(/bin/true: {start_up_ms(['/bin/true']):.1f} ms)")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for task in options.tasks or sorted(TASKS.glob("*.py")):
            rows.append(evolve(program, task, options.evaluations, Path(folder) / task.stem))
            print(json.dumps(rows[-1]), flush=True)
    columns = list(rows[0])
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(row[c]) for c in columns) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
