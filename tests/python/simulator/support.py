"""Records candidates and executes their tapes on data that the recording never saw."""

from __future__ import annotations

import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import torch
from evaluator_simulator.execution import Execution
from evaluator_simulator.executor import execute
from kernel_evolve_worker.context import Context
from kernel_evolve_worker.correctness.untrusted import tape_of
from kernel_evolve_worker.recording.record import record

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
"""


def task(inputs: str, forward: str = "return args[0]", init: str = "", arguments: str = "[]",
         init_args: str = "") -> str:
    """The text of a task: expressions of get_inputs, bodies of forward(*args) and __init__."""
    lines = [HEAD, "class Model(nn.Module):"]
    if init:
        lines += [f"    def __init__(self{', ' if init_args else ''}{init_args}):",
                  "        super().__init__()",
                  textwrap.indent(textwrap.dedent(init), " " * 8)]
    lines += ["    def forward(self, *args):",
              textwrap.indent(textwrap.dedent(forward), " " * 8),
              f"def get_inputs():\n    return [{inputs}]",
              f"def get_init_inputs():\n    return {arguments}", ""]
    return "\n".join(lines)


def candidate(kernel: str, forward: str, init: str = "") -> str:
    """The text of a candidate from its kernels and the bodies of ModelNew's methods."""
    lines = [HEAD, textwrap.dedent(kernel), "", "class ModelNew(nn.Module):"]
    if init:
        lines += ["    def __init__(self):", "        super().__init__()",
                  textwrap.indent(textwrap.dedent(init), " " * 8)]
    lines += ["    def forward(self, *args):", textwrap.indent(textwrap.dedent(forward), " " * 8)]
    return "\n".join(lines) + "\n"


def recorded(task_text: str, code: str) -> dict[str, Any]:
    """What `record` says of a candidate. The tape is loaded into result["loaded"]."""
    with tempfile.TemporaryDirectory() as folder:
        context = Context(scratch=Path(folder), deadline=time.monotonic() + 600)
        result = record({"task": {"path": "/tasks/sample.py", "name": "sample",
                                  "source": task_text}, "candidate": {"code": code}}, context)
        if result["ok"]:
            tape = tape_of(result)
            for name, buffer in tape.buffers.items():
                if "blob" in buffer:
                    tape.blobs[name] = tape.blob(name)
            result["loaded"] = tape
    return result


def run(inputs: str, kernel: str, forward: str, data: list[Any],
        state: dict[str, torch.Tensor] | None = None, *, budget_s: float = 60.0,
        model: str = "", init: str = "", lanes_per_box: int = 1 << 14) -> Execution:
    """Records a candidate on the inputs of a task and executes the tape on `data`.

    model, init: bodies of Model.__init__ and ModelNew.__init__. Small boxes, so that a test's grid
    takes several.
    """
    result = recorded(task(inputs, init=model), candidate(kernel, forward, init))
    if not result["ok"]:
        raise AssertionError(result)
    return execute(result["loaded"], data, state or {}, budget_s, lanes_per_box=lanes_per_box)
