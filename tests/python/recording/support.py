"""Candidates and tasks as short texts, and their recordings."""

from __future__ import annotations

import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

from kernel_evolve_worker.context import Context
from kernel_evolve_worker.recording.record import record
from kernel_evolve_worker.recording.tape import Tape

HEAD = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl
"""

SCALE = """
@triton.jit
def scale(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < count) * 2, mask=i < count)
"""

CALL = """
x = args[0]
out = torch.empty_like(x)
scale[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
return out
"""


def task(inputs: str = "torch.randn(100)", init: str = "pass") -> str:
    """A task whose Model takes any arguments; init: the body of its constructor."""
    return "\n".join([
        HEAD, "class Model(nn.Module):", "    def __init__(self):", "        super().__init__()",
        textwrap.indent(textwrap.dedent(init), " " * 8),
        "    def forward(self, *args):", "        return args[0]",
        f"def get_inputs():\n    return [{inputs}]", "def get_init_inputs():\n    return []", ""])


def candidate(forward: str = CALL, kernel: str = SCALE, init: str = "pass") -> str:
    return "\n".join([
        HEAD, textwrap.dedent(kernel), "class ModelNew(nn.Module):", "    def __init__(self):",
        "        super().__init__()", textwrap.indent(textwrap.dedent(init), " " * 8),
        "    def forward(self, *args):", textwrap.indent(textwrap.dedent(forward), " " * 8), ""])


def line_of(code: str, text: str) -> int:
    """The number of the first line of `code` that contains `text`."""
    return next(n for n, line in enumerate(code.splitlines(), 1) if text in line)


def recorded(code: str, task_text: str | None = None) -> dict[str, Any]:
    """What `record` says; "loaded" holds the tape."""
    with tempfile.TemporaryDirectory() as folder:
        context = Context(scratch=Path(folder), deadline=time.monotonic() + 600)
        request = {"task": {"path": "/tasks/sample.py", "name": "sample",
                            "source": task_text or task()}, "candidate": {"code": code}}
        result = record(request, context)
        if result["ok"]:
            tape = Tape.load(result["tape"]["path"])
            for name, buffer in tape.buffers.items():
                if "blob" in buffer:
                    tape.blobs[name] = tape.blob(name)
            result["loaded"] = tape
        result["left"] = sorted(p.name for p in Path(folder).iterdir())
        return result
