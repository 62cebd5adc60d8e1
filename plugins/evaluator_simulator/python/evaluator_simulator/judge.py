"""The judge: tries a task, and turns the recording of a candidate into a verdict.

Runs in a trusted process that never loads the candidate: it executes the candidate's tape on data
that the candidate has not seen, compares with the reference, and models the time of both. One such
process serves a task for a whole run and keeps the task's references in `context.state`.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from evaluator_simulator import feedback, model
from evaluator_simulator.execution import AtenStats, Execution, LaunchStats
from evaluator_simulator.verdict import from_record_failure, make_verdict, no_recording, provenance
from kernel_evolve_worker.context import Context
from kernel_evolve_worker.correctness.check import check
from kernel_evolve_worker.correctness.judgement import RESERVE_S, Judgement
from kernel_evolve_worker.correctness.reference import Expected, References
from kernel_evolve_worker.correctness.trial import try_references
from kernel_evolve_worker.correctness.untrusted import succeeded, tape_of
from kernel_evolve_worker.correctness.verdict import seconds_of
from kernel_evolve_worker.correctness.wording import on_data
from kernel_evolve_worker.recording.tape import TapeError
from kernel_evolve_worker.task import load_task

EXECUTION_BUDGET_S = 240.0  # of one execution; a kernel that takes longer here is not judged


@dataclass
class Tools:
    """What the judge takes from the executor; tests put their own here.

    execute(tape, input leaves, weights, seconds) leaves inputs and weights unchanged.
    """

    load_tape: Callable[[dict[str, Any]], Any]  # raises TapeError
    execute: Callable[..., Execution]


def _tools() -> Tools:
    from evaluator_simulator.executor import execute

    return Tools(tape_of, execute)


def try_task(request: dict[str, Any], context: Context) -> dict[str, Any]:
    """Tries the task of `request` {"task", "seed"?}; see correctness/trial.py.

    Returns {"ok": true, "name", "precision", "operators", "original_time" (modelled ms), "notes"}.
    Raises WorkerError (validation) with one sentence for every mistake of the task.
    """
    references = _references(request, context)
    return {
        "ok": True,
        "name": references.task.name,
        "precision": references.rule.name,
        "operators": [op.name for op in references.trace.operators],
        "original_time": _eager_ms(references),
        "notes": list(references.notes),
    }


def judge(request: dict[str, Any], context: Context, tools: Tools | None = None) -> dict[str, Any]:
    """The verdict for `request` {"task", "record", "asked", "seed"}.

    record is what recording returned, believed no further than need be. Raises WorkerError
    (validation) for mistakes of the task.
    """
    record, asked = request["record"], request.get("asked", "full")
    if not succeeded(record):
        return from_record_failure(record, asked)
    tools = tools or _tools()
    try:
        tape = tools.load_tape(record)
        if asked == "compile":
            return _compiled(record, tape)
        references = _references(request, context)
        return _Judgement(references, record, tape, tools, context).verdict()
    except TapeError:
        return no_recording(record, asked)


def _references(request: dict[str, Any], context: Context) -> References:
    """The references of the task, tried; made once per process, task and seed."""
    task, seed = request["task"], int(request.get("seed") or 0)
    key = hashlib.sha256(f"{seed}\0{task['source']}".encode("utf-8", "replace")).hexdigest()
    known = context.state.get("references")
    if known and known[0] == key:
        return known[1]
    context.state.pop("references", None)  # of another task or seed: give the memory back first
    context.progress("trying the task: running the reference")
    loaded = load_task(task["source"], task.get("path") or f"{task.get('name', 'task')}.py")
    references = References(loaded, seed)
    torch.set_num_threads(len(os.sched_getaffinity(0)) if references.large else 1)
    try_references(references)
    context.state["references"] = (key, references)
    return references


def _eager_ms(references: References) -> float:
    return 1e3 * model.eager_time(references.trace.operators, references.allows_tf32)


def _compiled(record: dict[str, Any], tape: Any) -> dict[str, Any]:
    """The verdict of a compile-only request: what the compiler made of each kernel."""
    kernels, lines = [], []
    grids = {step["kernel"]: step["grid"] for step in getattr(tape, "launches", [])}
    for key, kernel in tape.kernels.items():
        shape = model.kernel_shape(kernel)
        fits = model.occupancy(shape)
        kernels.append(_kernel_entry(kernel, shape, grids.get(key)))
        lines.append(f"kernel {kernel.get('name')}: {shape.registers} registers, "
                     f"{shape.spills} bytes spilled, {shape.shared_bytes} bytes shared, "
                     f"{fits.programs} programs per SM (limited by {fits.limiter})")
    count = len(kernels)
    reason = (f"{count} kernel{'s' if count != 1 else ''} compiled for sm_90." if count
              else "the candidate launches no Triton kernel.")
    return make_verdict(
        asked="compile", stage="done", ok=True, code="compiled" if count else "no_kernel",
        reason=reason, feedback=lines, kernels=kernels, provenance=provenance(record),
        seconds=seconds_of(record))


def _kernel_entry(kernel: dict[str, Any], shape: model.KernelShape,
                  grid: Sequence[int] | None) -> dict[str, Any]:
    metadata = kernel.get("metadata") or {}
    return {
        "name": kernel.get("name"),
        "grid": list(grid) if grid else kernel.get("grid"),
        "num_warps": shape.num_warps,
        "num_stages": metadata.get("num_stages"),
        "registers": shape.registers,
        "spills": shape.spills,
        "shared_bytes": shape.shared_bytes,
        "tensor_cores": shape.tensor,
        "line": kernel.get("line"),
    }


class _Judgement(Judgement[Execution]):
    """One candidate before the judge."""

    def __init__(self, references: References, record: dict[str, Any], tape: Any, tools: Tools,
                 context: Context) -> None:
        super().__init__(references, context)
        self.record = record
        self.tape = tape
        self.tools = tools
        self.seconds = seconds_of(record)
        self.execution: Execution | None = None  # of the own inputs: what the time model counts

    def verdict(self) -> dict[str, Any]:
        failure = self.correctness()
        if failure is not None:
            return failure
        start = time.monotonic()
        result = self._modelled()
        result["seconds"]["model"] = round(time.monotonic() - start, 3)
        return result

    # Correctness ----------------------------------------------------------------------------

    def execute(self, expected: Expected) -> Execution:
        budget = min(EXECUTION_BUDGET_S, self.context.time_left() - RESERVE_S)
        execution = self.tools.execute(
            self.tape, expected.inputs, expected.state, max(1.0, budget))
        if expected.name == "own":
            self.execution = execution
        return execution

    def failure(self, expected: Expected, run: Execution) -> dict[str, Any] | None:
        if run.uncovered:
            return self._failed("uncovered", run.uncovered, [run.uncovered], correct=None)
        if run.faults:
            names = {key: k.get("name") for key, k in self.tape.kernels.items()}
            lines = [feedback.fault_sentence(f, names.get(f.get("kernel"))) for f in run.faults]
            return self._failed(feedback.fault_code(run.faults[0]), lines[0], lines)
        if run.constants_changed:
            which = ", ".join(run.constants_changed[:3])
            text = (f"forward changes {which}, made in __init__, so the next call starts from "
                    "other values: make it anew in each call.")
            return self._failed("constants_changed", text, [text])
        finding = check(expected, run.outputs, run.inputs_after, run.state_after, run.aliases)
        if finding is None:
            return None
        lines = [*self.explain(finding, expected), *self._narrow_dots(run)]
        return self._failed(finding.code, on_data(finding.text, expected), lines)

    def _narrow_dots(self, run: Execution) -> list[str]:
        """A line where tl.dot rounds operands that the reference doesn't round."""
        narrow = {c for launch in run.launches for c, n in launch.flops.items()
                  if n and c in ("dot_tf32", "dot_fp16", "dot_bf16", "dot_fp8")}
        if not narrow or self.references.rule.name != "fp32":
            return []
        kinds = ", ".join(sorted(c.removeprefix("dot_") for c in narrow))
        return [f"tl.dot works on {kinds} operands here, the reference on fp32: "
                "use input_precision=\"ieee\""]

    def _failed(self, code: str, reason: str, lines: list[str],
                correct: bool | None = False) -> dict[str, Any]:
        return make_verdict(
            asked="full", stage="correctness", ok=False, code=code, reason=reason, correct=correct,
            feedback=lines, kernels=self._kernels(), coverage=self.coverage(),
            skipped=self._skipped(), provenance=self._provenance(), seconds=self.seconds)

    # What the verdict says about how ---------------------------------------------------------

    def _kernels(self) -> list[dict[str, Any]]:
        grids = {step["kernel"]: step["grid"] for step in getattr(self.tape, "launches", [])}
        return [_kernel_entry(kernel, model.kernel_shape(kernel), grids.get(key))
                for key, kernel in self.tape.kernels.items()]

    def coverage(self) -> dict[str, Any]:
        run = self.execution
        return {
            **super().coverage(),
            "programs_run": run.programs_run if run else 0,
            "programs_total": run.programs_total if run else 0,
        }

    def _skipped(self) -> list[str]:
        atomics = self.execution and any(x.float_atomics for x in self.execution.launches)
        order = ["other orders of the floating-point atomics: the simulator runs one order"]
        return [*self.skipped, *self.references.notes, *(order if atomics else [])]

    def _provenance(self) -> dict[str, Any]:
        return provenance(self.record, precision=self.references.rule.name,
                          reduction_depth=self.references.trace.depth)

    # Time -----------------------------------------------------------------------------------

    def _modelled(self) -> dict[str, Any]:
        execution = self.execution
        assert execution is not None
        tf32 = self.references.allows_tf32
        original = _eager_ms(self.references)
        steps = [self._operator_time(op, tf32) for op in execution.aten]
        kernels, lines = [], []
        for launch in execution.launches:
            kernel = self.tape.kernels[launch.kernel]
            shape = model.kernel_shape(kernel)
            modelled = model.launch_time(launch, shape)
            steps.append(modelled.seconds)
            entry = _kernel_entry(kernel, shape, launch.grid)
            entry.update(
                milliseconds=modelled.seconds * 1e3, bound=modelled.bound,
                read_bytes=launch.read_bytes, written_bytes=launch.written_bytes,
                programs_per_sm=modelled.occupancy.programs, limiter=modelled.occupancy.limiter,
                occupancy=modelled.occupancy.share, bandwidth_share=modelled.bandwidth_share,
                arithmetic_share=modelled.arithmetic_share)
            kernels.append(entry)
            if len(lines) < 12:
                lines += feedback.kernel_lines(launch.name, kernel.get("line"), modelled, shape)
        optimized = model.call_time(steps) * 1e3
        code, sentence = self._decide(original, optimized, execution.launches)
        left = [op.name for op in execution.aten if model.aten_time(op) > 0]
        if left:
            shown = ", ".join(dict.fromkeys(left))
            lines.append(f"{len(left)} operators are left to PyTorch: {shown[:160]}")
        return make_verdict(
            asked="full", stage="done", ok=True, code=code, reason=sentence, correct=True,
            weak=self.weak, feedback=[sentence, *lines],
            original_ms=original, optimized_ms=optimized, kernels=kernels,
            coverage=self.coverage(), skipped=self._skipped(), provenance=self._provenance(),
            seconds=self.seconds)

    def _operator_time(self, op: AtenStats, tf32: bool) -> float:
        """Seconds of an operator left to PyTorch, never less than the same one costs eager.

        Some attention kernels of the CPU have no formula for their arithmetic.
        """
        if op.flops == 0 and "attention" in op.name:
            same = [x.flops for x in self.references.trace.operators if "attention" in x.name]
            op = replace(op, flops=max([0, *same]))
        return model.aten_time(op, tf32)

    def _decide(self, original: float, optimized: float,
                launches: list[LaunchStats]) -> tuple[str, str]:
        times = (f"modelled {feedback.milliseconds(optimized)} against eager's "
                 f"{feedback.milliseconds(original)}: {original / optimized:.3g}x")
        if not launches:
            return "no_kernel", f"correct, but no Triton kernel is launched, so no win; {times}."
        if not any(launch.programs and launch.reaches_output for launch in launches):
            return "no_kernel", ("correct, but no output depends on what a Triton kernel writes, "
                                 f"so no win; {times}.")
        if self.weak:
            return "weak", (f"no difference found, but only {self.counted} kinds of input beside "
                            f"the task's own tell right from wrong, so no win; {times}.")
        if original > model.hw.CLAIM * optimized:
            return "faster", f"correct on {self.counted + 1} kinds of input; {times}."
        return "not_faster", (f"correct on {self.counted + 1} kinds of input, but not faster; "
                              f"{times}.")
