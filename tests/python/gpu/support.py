"""Recorded tapes, and ke_replay on the driver that the C++ tests build (no GPU is needed)."""

from __future__ import annotations

import atexit
import copy
import functools
import importlib.util
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from kernel_evolve_worker.context import Context
from kernel_evolve_worker.recording.record import record
from kernel_evolve_worker.recording.tape import Tape

ROOT = Path(__file__).resolve().parents[3]
_FOLDER = Path(tempfile.mkdtemp(prefix="ke-gpu-tests-"))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def _recording_support() -> Any:
    spec = importlib.util.spec_from_file_location(
        "recording_support", ROOT / "tests/python/recording/support.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


texts = _recording_support()  # candidates and tasks as short texts: SCALE, CALL, candidate, task


@functools.lru_cache(maxsize=None)
def record_of(code: str, task: str) -> dict[str, Any]:
    """What recording says; its tape stays until the tests end."""
    folder = Path(tempfile.mkdtemp(dir=_FOLDER))
    request = {"task": {"name": "sample", "path": "/tasks/sample.py", "source": task},
               "candidate": {"code": code}}
    return record(request, Context(scratch=folder, deadline=time.monotonic() + 600))


def tape_of(forward: str = texts.CALL, kernel: str = texts.SCALE, inputs: str = "torch.randn(100)",
            init: str = "pass") -> Tape:
    """The tape of a candidate; a copy that a test may spoil."""
    result = record_of(texts.candidate(forward, kernel, init), texts.task(inputs))
    assert result["ok"], result
    return copy.deepcopy(Tape.load(result["tape"]["path"]))


def cubin_of(tape: Tape) -> bytes:
    return tape.cubin_path("k0").read_bytes()


def built() -> tuple[Path, Path] | None:
    """(ke_replay, the folder of the imagined driver) of the newest build that has both."""
    found = []
    for driver in ROOT.glob("build*/tests/replay/driver/libcuda.so.1"):
        binary = driver.parents[3] / "lib/kernel_evolve/plugins/evaluator_gpu/ke_replay"
        if binary.exists():
            found.append((driver.stat().st_mtime, binary, driver.parent))
    return max(found)[1:] if found else None
