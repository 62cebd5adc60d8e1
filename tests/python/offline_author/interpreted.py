"""Child process of the tests: runs candidates under TRITON_INTERPRET=1 and compares with eager.

Reads a list of jobs from standard input, writes a list of answers as the last line of standard
output. Fit for arithmetic on small shapes, not for verdicts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from kernel_evolve_worker import task as tasks
from torch.utils import _pytree as pytree

#: Relative to the size of a row; half types are truncated, not rounded, by the interpreter.
ALLOWED = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def load(code: str, folder: Path, number: int) -> Any:
    file = folder / f"candidate_{number}.py"
    file.write_text(code)
    names: dict[str, Any] = {"__name__": f"candidate_{number}", "__file__": str(file)}
    exec(compile(code, str(file), "exec"), names)
    return names["ModelNew"]


def worst_error(wanted: Any, given: Any) -> float:
    left, tree = pytree.tree_flatten(wanted)
    right, other = pytree.tree_flatten(given)
    if tree != other:
        raise AssertionError(f"the result is {other}, not {tree}")
    worst = 0.0
    for a, b in zip(left, right, strict=True):
        if not isinstance(a, torch.Tensor):
            if a != b:
                raise AssertionError(f"{b!r} in the place of {a!r}")
            continue
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise AssertionError(f"{b.dtype}{tuple(b.shape)}, not {a.dtype}{tuple(a.shape)}")
        if not a.dtype.is_floating_point:
            worst = max(worst, 0.0 if torch.equal(a, b) else 2.0)
            continue
        x, y = a.double(), b.double()
        if not torch.equal(torch.isnan(x), torch.isnan(y)):
            return float("inf")
        same = (x == y) | torch.isnan(x)
        finite = x[torch.isfinite(x)]
        scale = finite.abs().mean().item() if finite.numel() else 1.0
        error = torch.where(same, 0.0, (x - y).abs() / (x.abs() + scale + 1e-300))
        worst = max(worst, error.max().item() / ALLOWED[a.dtype])
    return worst


def run(job: dict[str, Any], folder: Path, number: int) -> dict[str, Any]:
    loaded = tasks.load_task(job["source"], f"/tasks/sample_{number}.py")
    model = tasks.construct(loaded, 1)
    args, kwargs = tasks.init_arguments(loaded)
    made = load(job["code"], folder, number)(*args, **kwargs)
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(i)
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise.to(parameter.dtype) * 0.1)
    made.load_state_dict(model.state_dict())
    inputs = tasks.make_inputs(loaded, 7)
    with torch.no_grad():
        wanted = model(*inputs)
        given = made(*inputs)
    return {"error": "", "worst": worst_error(wanted, given)}


def main() -> None:
    torch.set_num_threads(1)
    answers = []
    with tempfile.TemporaryDirectory() as name:
        for number, job in enumerate(json.load(sys.stdin)):
            try:
                answers.append(run(job, Path(name), number))
            except Exception as error:  # the test shows the text
                text = f"{type(error).__name__}: {error}"
                answers.append({"error": text[-1500:], "worst": float("inf")})
    print(json.dumps(answers))


main()
