"""Helpers of the offline author's tests: sources of tasks, execution of what the author writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

from offline_author import author

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples" / "tasks"


def task(forward: str, inputs: str, init: str = "", signature: str = "x", more: str = "") -> str:
    """A task's source. forward: the body's expression or lines; init: lines of __init__."""
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    if "return" not in body:
        body = " " * 8 + "return " + body.strip()
    setup = textwrap.indent(textwrap.dedent(init).strip() or "pass", " " * 8)
    return (
        "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
        f"{textwrap.dedent(more)}\n\n"
        "class Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        f"{setup}\n\n"
        f"    def forward(self, {signature}):\n{body}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n"
        "def get_init_inputs():\n    return []\n"
    )


def candidate(source: str, genes: dict[str, int] | None = None) -> str:
    """What the author writes for a task, with its first guess or the genes given."""
    made = author.study(source, "/tasks/sample.py")
    if made.refusal:
        raise AssertionError(f"refused: {made.refusal}")
    return author.write(made, {**made.space.default, **(genes or {})})


def execute(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs candidates in a child process under Triton's interpreter, beside their references.

    jobs: {"source", "code", "dtype"?}. Each answer has "error" (text, or "") and "worst": the
    largest error relative to the allowance of its type, so at most 1 is right.
    """
    done = subprocess.run(
        [sys.executable, str(HERE / "interpreted.py")],
        input=json.dumps(jobs), text=True, capture_output=True, check=False,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def worst(found: list[dict[str, Any]], names: list[str]) -> str:
    """The names of the jobs that failed and why, one a line; empty when all are right."""
    bad = [
        f"{name}: {answer['error'] or 'error ' + format(answer['worst'], '.3g') + ' allowances'}"
        for name, answer in zip(names, found, strict=True)
        if not answer["worst"] <= 1
    ]
    return "\n".join(bad)


def kernel_count(source: str) -> int:
    """How many Triton kernels the author writes for a task."""
    return len(author.study(source, "/tasks/sample.py").kernels)


def record(source: str, code: str, scratch: Path) -> dict[str, Any]:
    """Records a candidate as an evaluator does: policy, load, forward, compile for sm_90."""
    from kernel_evolve_worker.context import Context
    from kernel_evolve_worker.recording.record import record as record_candidate

    request = {
        "task": {"path": "/tasks/sample.py", "name": "sample", "source": source},
        "candidate": {"code": code},
        "tape_dir": str(scratch / "tapes"),
    }
    return record_candidate(request, Context(scratch=scratch, deadline=time.monotonic() + 300))
