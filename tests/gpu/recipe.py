"""The usual way to evaluate a kernel, constant by constant, as a peer to measure against.

usage: recipe.py TASK CANDIDATE

As KernelBench publishes it: a fresh process per candidate; 5 correctness trials with new inputs;
3 warm-up and 100 timed trials by CUDA events, the L2 flushed before each; the reference timed anew
for each candidate. Prints one JSON object.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

CORRECTNESS_TRIALS = 5
WARM_UP = 3
TIMED = 100
TOLERANCE = 1e-4  # absolute and relative, for fp32
FLUSH_BYTES = 256 << 20


def load(path: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def timed(call: Callable[[], Any]) -> list[float]:
    """Milliseconds of each trial."""
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    for _ in range(WARM_UP):
        call()
    torch.cuda.synchronize()
    found = []
    for _ in range(TIMED):
        flush.fill_(42)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end))
    return found


def evaluate(task_path: str, candidate_path: str) -> dict[str, Any]:
    task = load(task_path, "task")
    try:
        module = load(candidate_path, "candidate")
    except SyntaxError as error:
        return {"correct": False, "why": f"SyntaxError: {error}"}
    torch.manual_seed(42)
    reference = task.Model(*task.get_init_inputs()).cuda()
    torch.manual_seed(42)
    candidate = module.ModelNew(*task.get_init_inputs()).cuda()
    with torch.no_grad():
        for trial in range(CORRECTNESS_TRIALS):
            torch.manual_seed(trial)
            inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in task.get_inputs()]
            expected = reference(*inputs)
            try:
                got = candidate(*inputs)
                torch.cuda.synchronize()
            except Exception as error:  # noqa: BLE001 - the candidate's
                return {"correct": False, "why": f"{type(error).__name__}: {error}"[:200]}
            if not torch.allclose(expected, got, atol=TOLERANCE, rtol=TOLERANCE):
                return {"correct": False, "why": "values differ"}
        ours, theirs = timed(lambda: candidate(*inputs)), timed(lambda: reference(*inputs))
    a, b = statistics.fmean(theirs), statistics.fmean(ours)
    width = 1.96 * (statistics.variance(theirs) / a**2 / TIMED
                    + statistics.variance(ours) / b**2 / TIMED) ** 0.5
    return {"correct": True, "speedup": a / b, "original_ms": a, "optimized_ms": b,
            "half_width": width}


if __name__ == "__main__":
    print(json.dumps(evaluate(sys.argv[1], sys.argv[2])))
