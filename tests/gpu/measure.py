"""Measures a candidate beside eager PyTorch and `torch.compile` on the GPU of this machine.

usage: measure.py TASK CANDIDATE [VERDICT]

TASK defines Model, get_inputs and get_init_inputs; CANDIDATE defines ModelNew (a run folder's
best.py). With VERDICT (a run folder's verdict.json) the modelled figures stand beside the measured
ones. Prints one JSON object. This is a check of the model by hand, not an evaluator: the candidate
runs in this process.

Method: outputs compared first; then interleaved rounds, each sample on a flushed L2 (256 MiB read:
written lines would have to be written back while the clock runs), queued behind a pause of the GPU
so that no launch is waited for, timed by CUDA events around one call; median and the 5th and 95th
percentile in ms.
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

ROUNDS = 200  # samples of each contender
WARMUP = 20  # calls before the first sample: compilation, autotuning, clocks
PAUSE_CYCLES = 2_000_000  # about 1 ms: longer than Python needs to queue a call
FLUSH_BYTES = 256 * 2**20  # more than twice the L2 of an H200 (60 MB)


def load(path: str, name: str) -> ModuleType:
    """The Python file at `path` as a module called `name`."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def make(model: type, arguments: Any) -> torch.nn.Module:
    """An instance of `model` on the GPU from a list of arguments or a dict of keyword arguments."""
    torch.manual_seed(0)
    made = model(**arguments) if isinstance(arguments, dict) else model(*arguments)
    return made.cuda()


def sample(call: Callable[[], Any], flush: torch.Tensor) -> float:
    """Milliseconds of one call on a cold L2."""
    flush.sum()
    torch.cuda._sleep(PAUSE_CYCLES)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def summary(samples: list[float]) -> dict[str, float]:
    """Median and percentiles of samples in ms."""
    cuts = statistics.quantiles(samples, n=20)
    return {"median_ms": statistics.median(samples), "p5_ms": cuts[0], "p95_ms": cuts[-1]}


def main() -> int:
    """Measures and prints; 1 when the outputs differ."""
    task, candidate = load(sys.argv[1], "task"), load(sys.argv[2], "candidate")
    torch.manual_seed(1)
    inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in task.get_inputs()]
    reference = make(task.Model, task.get_init_inputs())
    contender = make(candidate.ModelNew, task.get_init_inputs())
    contender.load_state_dict(reference.state_dict())
    compiled = torch.compile(reference)
    calls = {
        "eager": lambda: reference(*inputs),
        "compile": lambda: compiled(*inputs),
        "candidate": lambda: contender(*inputs),
    }
    with torch.no_grad():
        expected, got = calls["eager"](), calls["candidate"]()
        error = max(
            (a.double() - b.double()).abs().max().item() / max(a.double().abs().max().item(), 1e-30)
            for a, b in zip(torch.utils._pytree.tree_leaves(expected),
                            torch.utils._pytree.tree_leaves(got), strict=True))
        flush = torch.zeros(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():
            for _ in range(WARMUP):
                call()
        for _ in range(ROUNDS):
            for name, call in calls.items():
                samples[name].append(sample(call, flush))
    report: dict[str, Any] = {name: summary(values) for name, values in samples.items()}
    report["max_error_relative_to_max"] = error
    report["measured_speedup"] = report["eager"]["median_ms"] / report["candidate"]["median_ms"]
    report["measured_speedup_over_compile"] = (
        report["compile"]["median_ms"] / report["candidate"]["median_ms"])
    if len(sys.argv) > 3:
        with open(sys.argv[3], encoding="utf-8") as file:
            metrics = json.load(file)["metrics"]
        report["modelled"] = {key: metrics[key] for key in ("speedup", "original_time",
                                                            "optimized_time")}
    report["device"] = torch.cuda.get_device_name()
    report["torch"] = torch.__version__
    print(json.dumps(report, indent=2))
    return 0 if error < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
