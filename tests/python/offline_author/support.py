"""Helpers of the offline author's tests: sources of tasks, execution of what the author writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import torch
import triton
from offline_author import author
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples" / "tasks"

_TYPES = {
    torch.float32: "*fp32", torch.float64: "*fp64", torch.float16: "*fp16",
    torch.bfloat16: "*bf16", torch.int64: "*i64", torch.int32: "*i32", torch.bool: "*i1",
    torch.uint8: "*u8", torch.int8: "*i8", torch.int16: "*i16",
}  # fmt: skip


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


class _CompileInstead:
    """Stands for a kernel: a launch compiles it for sm_90 and runs nothing."""

    def __init__(self, kernel: Any, log: list[str]) -> None:
        self.kernel, self.log = kernel, log

    def __getitem__(self, _grid: tuple[int, ...]) -> Any:
        def launch(*args: torch.Tensor, num_warps: int, num_stages: int, **constants: int) -> None:
            names = self.kernel.arg_names
            signature = {n: _TYPES[a.dtype] for n, a in zip(names, args, strict=False)}
            signature.update(dict.fromkeys(constants, "constexpr"))
            aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(args))}
            made = triton.compile(
                ASTSource(self.kernel, signature, dict(constants), aligned),
                target=GPUTarget("cuda", 90, 32),
                options={"num_warps": num_warps, "num_stages": num_stages},
            )
            self.log.append(made.asm["ptx"])

        return launch


def compile_kernels(source: str, code: str, folder: Path) -> list[str]:
    """Compiles every launch of a candidate's forward for sm_90; returns the PTX of each."""
    from kernel_evolve_worker import task as tasks

    file = folder / f"candidate_{abs(hash(code))}.py"
    file.write_text(code)  # Triton reads a kernel's source from its file
    names: dict[str, Any] = {"__name__": file.stem, "__file__": str(file)}
    exec(compile(code, str(file), "exec"), names)
    log: list[str] = []
    for name, value in list(names.items()):
        if isinstance(value, triton.runtime.JITFunction):
            names[name] = _CompileInstead(value, log)
    loaded = tasks.load_task(source, "/tasks/sample.py")
    args, kwargs = tasks.init_arguments(loaded)
    model = names["ModelNew"](*args, **kwargs)
    with torch.no_grad():
        model(*tasks.make_inputs(loaded, 0))
    return log
