"""What the simulator counts and models for a case: the evaluator's own recording, counts and times.

Only correctness over many kinds of input is left out: the cases are known, and some are large.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cases

for _folder in ("sdk/worker", "plugins/evaluator_simulator/python"):
    if str(cases.ROOT / _folder) not in sys.path:
        sys.path.insert(0, str(cases.ROOT / _folder))

import torch  # noqa: E402
from evaluator_simulator import model  # noqa: E402
from evaluator_simulator.executor import execute  # noqa: E402
from kernel_evolve_worker.context import Context  # noqa: E402
from kernel_evolve_worker.correctness.trace import trace_operators  # noqa: E402
from kernel_evolve_worker.correctness.untrusted import tape_of  # noqa: E402
from kernel_evolve_worker.recording.record import record  # noqa: E402
from kernel_evolve_worker.task import construct, load_task, make_inputs  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

BUDGET_S = 900.0  # of one execution


@contextlib.contextmanager
def _own_precision():
    """Lets a task allow TF32 for itself alone."""
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def counted(case: cases.Case, compare: bool = True) -> dict[str, Any]:
    """The counts of a case, as plain data.

    {"tf32", "operators": [Operator...], "launches": [{"stats", "shape"}...], "aten": [...],
    "difference" (of the simulator's results from eager's)}.
    """
    with _own_precision():
        task = load_task(case.task, f"/cases/{case.name}.py")
        made = construct(task, 0)
        inputs = make_inputs(task, 1)
        trace = trace_operators(construct(task, 0), inputs)
        found: dict[str, Any] = {
            "tf32": torch.backends.cuda.matmul.allow_tf32 and bool(trace.flops),
            "operators": [{**asdict(op), "dtype": str(op.dtype).removeprefix("torch.")}
                          for op in trace.operators]}
        if case.candidate:
            _count_candidate(case, made, inputs, found, compare)
        return found


def _count_candidate(case: cases.Case, made: torch.nn.Module, inputs: list[Any],
                     found: dict[str, Any], compare: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        request = {"task": {"name": case.name, "path": f"/cases/{case.name}.py",
                            "source": case.task}, "candidate": {"code": case.candidate}}
        result = record(request, Context(scratch=Path(folder), deadline=time.monotonic() + 600))
        if not result["ok"]:
            raise RuntimeError(f"recording: {result['reason']}")
        tape = tape_of(result)
        state = {k: v.detach() for k, v in made.state_dict().items()}
        run = execute(tape, tree_leaves(inputs), state, BUDGET_S)
    if run.uncovered or run.faults:
        raise RuntimeError(f"execution: {run.uncovered or run.faults[0]}")
    found["launches"] = [
        {"stats": asdict(launch), "shape": asdict(model.kernel_shape(tape.kernels[launch.kernel]))}
        for launch in run.launches]
    found["aten"] = [asdict(op) for op in run.aten]
    found["seconds"] = round(run.seconds, 2)
    if compare:
        with torch.no_grad():
            expected = made(*inputs)
        found["difference"] = max(
            (a.double() - b.double()).abs().max().item()
            / max(a.double().abs().max().item(), 1e-30)
            for a, b in zip(tree_leaves(expected), tree_leaves(run.outputs), strict=True))


def write_all(chosen: list[cases.Case], out: Path) -> int:
    """Writes counts of the cases to a JSON file, after each case; 1 where one failed."""
    report: dict[str, Any] = {}
    failed = 0
    for case in chosen:
        begin = time.monotonic()
        try:
            entry = counted(case)
        except Exception as error:  # noqa: BLE001 - reported, and the next case runs
            entry = {"error": f"{type(error).__name__}: {error}"[:400]}
            failed += 1
        report[case.name] = {"family": case.family, **entry}
        note = entry.get("error") or f"off by {entry.get('difference', 0.0):.1e}"
        print(f"{case.name:26s} {time.monotonic() - begin:6.1f} s  {note}", flush=True)
        out.write_text(json.dumps(report) + "\n", encoding="utf-8")
    return 1 if failed else 0
