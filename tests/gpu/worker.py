"""A worker and the calls that the plugin evaluator_gpu makes, for the scripts in this folder.

BUILD is a build folder (or an install prefix): its lib/kernel_evolve has libke_jail.so and
plugins/evaluator_gpu/ke_replay.
"""

from __future__ import annotations

import atexit
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_TAKEN = ("timeout", "internal", "invalid_output")  # classes that are the candidate's doing


class Worker:
    """A zygote. Calls may be made from any thread."""

    def __init__(self, build: Path, isolation: str = "auto") -> None:
        installed = build / "lib/kernel_evolve"
        self.folder = Path(tempfile.mkdtemp(prefix="ke-gpu-", dir=ROOT))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        # As installed: the plugin's Python beside its program.
        self.plugin = self.folder / "plugin"
        self.plugin.mkdir()
        shutil.copytree(ROOT / "plugins/evaluator_gpu/python", self.plugin / "python")
        shutil.copy(installed / "plugins/evaluator_gpu/ke_replay", self.plugin)
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(ROOT / "sdk/worker/kernel_evolve_worker/__main__.py"),
             "--jail", str(installed / "libke_jail.so"), "--isolation", isolation],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self._process.stdout is not None
        self.ready = json.loads(self._process.stdout.readline())
        self._ids = itertools.count(1)
        self._open: dict[int, Future[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("op") in ("result", "error"):
                self._open.pop(answer["id"]).set_result(answer)

    def call(self, module: str, function: str, request: dict[str, Any], *, session: str = "",
             deadline_s: float = 300.0, gpu: bool = False, scratch: str = "") -> \
            Future[dict[str, Any]]:
        """The answer, {"op": "result" or "error", ...}."""
        future: Future[dict[str, Any]] = Future()
        number = next(self._ids)
        self._open[number] = future
        message: dict[str, Any] = {
            "op": "call", "id": number, "module": module, "function": function,
            "path": [str(self.plugin / "python")], "readable": [str(self.plugin)],
            "request": request, "deadline_s": deadline_s,
            "scratch": scratch or str(self.scratch),
            "limits": {"gpu": True, "memory_mb": 0} if gpu else {"memory_mb": 16384}}
        if session:
            message["session"] = session
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        return future

    def record(self, task: dict[str, Any], code: str, deadline_s: float = 60.0) -> dict[str, Any]:
        """What recording says, as the plugin passes it on."""
        folder = tempfile.mkdtemp(dir=self.scratch)
        answer = self.call("kernel_evolve_worker.recording.record", "record",
                           {"task": task, "candidate": {"code": code}, "asked": "full"},
                           scratch=folder, deadline_s=deadline_s).result()
        if answer["op"] == "result":
            return {**answer["value"], "isolation": answer.get("isolation")}
        if answer["class"] not in _TAKEN:
            raise RuntimeError(answer)
        return {"ok": False, "stage": "correctness", "feedback": [],
                "code": "timeout" if answer["class"] == "timeout" else "crashed",
                "reason": f"while the candidate ran: {answer['message']}"}

    def judge(self, task: dict[str, Any], record: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The verdict; raises RuntimeError with the worker's error."""
        answer = self.call("evaluator_gpu.judge", "judge",
                           {"task": task, "record": record, "asked": "full", "seed": 1,
                            "reuse_verdicts": False, **more},
                           session=f"gpu:{task['name']}", gpu=True, deadline_s=600).result()
        if answer["op"] == "error":
            raise RuntimeError(f"{answer['class']}: {answer['message']} {answer['output'][-1500:]}")
        return answer["value"]

    def evaluate(self, task: dict[str, Any], code: str, **more: Any) -> dict[str, Any]:
        """Both steps."""
        return self.judge(task, self.record(task, code), **more)

    def close(self) -> None:
        """Ends the worker and waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def task_of(path: Path) -> dict[str, Any]:
    """A task as requests carry it."""
    return {"name": path.stem, "path": str(path), "source": path.read_text(encoding="utf-8")}


def first_guess(path: Path) -> str | None:
    """The offline author's first candidate for a task; None where it refuses."""
    sys.path[:0] = [str(ROOT / "plugins/provider_offline/python"), str(ROOT / "sdk/worker")]
    from offline_author import author

    made = author.study(path.read_text(encoding="utf-8"), str(path))
    return None if made.refusal else author.write(made, made.space.default)
