"""What the evaluator lives through: faults, hangs, lost processes; then it measures as before.

usage: survive.py BUILD

After each mishap a good candidate is measured again; its time must be the first one's within 10%.
Prints one line a mishap; exits with 1 if one ends otherwise than named.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import worker

TASK = worker.ROOT / "examples/tasks/softmax_rows.py"
STORE = "tl.store(out_ptr + rows * 4000 + cols, div_2, mask=mask)"
FAILED: list[str] = []


def variants(good: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Mishap: (candidate, codes that the verdict may have)."""
    return {
        "an illegal access": (good.replace(STORE, STORE.replace("cols, div_2, mask=mask",
                                                                "cols + 9000000, div_2")),
                              ("out_of_bounds",)),
        "a hang in a kernel": (good.replace(STORE, "while tl.load(logits_ptr) > -1e30:\n"
                                            f"        {STORE}\n    {STORE}"), ("timeout",)),
        "an assertion in a kernel": (good.replace(STORE, "tl.device_assert(div_2 < 0, 'no')\n"
                                                  f"    {STORE}"),
                                     ("device_assert", "faster", "not_faster", "uncovered")),
        "a hang in Python": (good.replace("device = logits.device",
                                          "while True:\n            pass"), ("timeout",)),
        "more memory than there is": (
            good.replace("out = torch.empty((2048, 4000)",
                         "w = torch.empty((40000, 1000000), device=device)\n"
                         "        out = torch.empty((2048, 4000)")
                .replace("logits, out,", "logits, w[:2048, :4000] if False else out,"),
            ("out_of_memory", "uncovered", "candidate_error", "faster", "not_faster")),
    }


def expect(what: str, good: bool, note: object) -> None:
    print(f"{'ok  ' if good else 'FAIL'} {what}: {note}", flush=True)
    if not good:
        FAILED.append(what)


def descendants(pid: int) -> dict[int, str]:
    """Names and command lines of all processes below `pid`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found, stack = {}, [pid]
    while stack:
        here = stack.pop()
        for child, parent in parents.items():
            if parent == here and child not in found:
                try:
                    text = Path(f"/proc/{child}/comm").read_text() + " " + Path(
                        f"/proc/{child}/cmdline").read_bytes().decode().replace("\0", " ")
                except OSError:
                    continue
                found[child] = text
                stack.append(child)
    return found


def main() -> int:
    player = worker.Worker(Path(sys.argv[1]).resolve())
    task = worker.task_of(TASK)
    good = worker.first_guess(TASK)
    assert good is not None
    record = player.record(task, good)

    def measure(what: str) -> dict[str, Any]:
        begin = time.monotonic()
        try:
            verdict = player.judge(task, record, compile_baseline=False)
        except RuntimeError as error:
            expect(what, False, str(error)[:300])
            return {}
        ms = verdict["metrics"]["optimized_time"] or 0.0
        expect(what, verdict["win"] and abs(ms / first - 1) < 0.1 if first else verdict["win"],
               f"{verdict['code']} {ms:.4f} ms, {time.monotonic() - begin:.2f} s")
        return verdict

    first = 0.0
    first = measure("the first measurement")["metrics"]["optimized_time"]
    for what, (code, codes) in variants(good).items():
        assert code != good, what
        begin = time.monotonic()
        verdict = player.judge(task, player.record(task, code, deadline_s=4),
                               compile_baseline=False)
        expect(what, verdict["code"] in codes,
               f"{verdict['stage']}/{verdict['code']} {verdict['reason'][:110]} "
               f"({time.monotonic() - begin:.1f} s)")
        measure(f"after {what}")
    bad = player.record(task, variants(good)["an illegal access"][0])
    begin = time.monotonic()
    codes = {player.judge(task, bad, compile_baseline=False)["code"] for _ in range(100)}
    expect("100 bad candidates in a row", codes == {"out_of_bounds"},
           f"{codes} {time.monotonic() - begin:.1f} s")
    measure("after 100 bad candidates")

    for what, mark in (("ke_replay", "ke_replay"), ("the judge's process", "__main__.py")):
        threading.Timer(0.3, kill, (player, mark)).start()
        try:
            verdict = player.judge(task, record, compile_baseline=False)
            expect(f"kill -9 of {what}", True, f"{verdict['stage']}/{verdict['code']} "
                   f"{verdict['reason'][:90]}")
        except RuntimeError as error:
            expect(f"kill -9 of {what}", True, str(error)[:160].strip())
        measure(f"after kill -9 of {what}")
    verdict = player.judge(task, record)
    expect("beside torch.compile", "compile" in verdict["metrics"]["against"], verdict["reason"])
    kill(player, "ke_compile")
    verdict = player.judge(task, record)
    against, note = verdict["metrics"]["against"], verdict["provenance"]["compile"]
    expect("kill -9 of the baseline's process", verdict["win"], f"{list(against)} {note}")
    verdict = player.judge(task, record)
    expect("after that", "compile" in verdict["metrics"]["against"], verdict["reason"])
    player.close()
    print(f"{len(FAILED)} failed")
    return 1 if FAILED else 0


def kill(player: worker.Worker, mark: str) -> None:
    """Kills the youngest process below the worker whose name or command line has `mark`."""
    found = [pid for pid, text in descendants(player.pid).items() if mark in text]
    if found:
        os.kill(max(found), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
