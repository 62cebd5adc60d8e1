"""What the judge keeps per task: references, baselines, the device and the replays."""

from __future__ import annotations

import hashlib
import os
import statistics
from pathlib import Path
from typing import Any

import torch

from evaluator_gpu import baseline, floors
from evaluator_gpu.compiled import CompiledModel, Lost
from evaluator_gpu.device import Device, address
from evaluator_gpu.known import Verdicts
from evaluator_gpu.plan import Plan
from evaluator_gpu.replayer import Replayer, SharedMemory, torch_command
from kernel_evolve_worker.context import Context
from kernel_evolve_worker.correctness.reference import References
from kernel_evolve_worker.correctness.trial import try_references
from kernel_evolve_worker.correctness.variants import clone_inputs
from kernel_evolve_worker.errors import WorkerError
from kernel_evolve_worker.task import load_task


# Processes that compile the reference, one after the other: as many may be lost, and no more.
_COMPILERS = 3
# Seconds that are kept of a judgement's deadline for all that comes after the compiler.
_MEASURING_S = 60.0


class Bench:
    """A task and what measures it."""

    def __init__(self, request: dict[str, Any], context: Context) -> None:
        """Raises WorkerError: unavailable without a GPU, validation for mistakes of the task."""
        # <plugin>/python/evaluator_gpu/judge.py, as it was found: the folder may be a link.
        binary = Path(os.path.abspath(__file__)).parents[2] / "ke_replay"
        self._task, self._seed = request["task"], int(request.get("seed") or 0)
        self.compiled: CompiledModel | None = None
        self.compile_note: str | None = None
        self.verdicts = Verdicts()
        self._compilers = 0  # how many were started
        if request.get("compile_baseline", True):
            self._start_compiler()  # before CUDA is used here, and beside all that follows
        self.memory = SharedMemory(register=True)
        # One in use and a spare, made ahead of need: a context takes a quarter of a second, PyTorch
        # several. Those with PyTorch are for tapes that need it.
        self._native = [Replayer([str(binary)], self.memory) for _ in range(2)]
        self._mixed = [Replayer(torch_command(), self.memory) for _ in range(2)]
        self.bus = address()
        self.device = Device(self.bus)
        self.released: float | None = None  # when the last judgement ended (time.monotonic)
        try:
            # Contexts that come up disturb who measures.
            with self.device.held(context.time_left(), context.progress, alone=False):
                self._bring_up()
                self._try_task()
        except BaseException:
            self.stop()
            raise

    def _bring_up(self) -> None:
        """The device, here and in a replay."""
        if not torch.cuda.is_available():
            self._native[0].start()  # says what is missing, in words
            raise WorkerError("unavailable", "this PyTorch has no CUDA; install one that has.")
        self._native[0].begin()
        torch.cuda.init()
        self._native[0].start()
        self.info = self._native[0].info
        if self.compiled is not None:
            self.compiled.compile(self.bus)

    def _try_task(self) -> None:
        task = self._task
        loaded = load_task(task["source"], task.get("path") or f"{task.get('name', 'task')}.py")
        self.references = References(loaded, self._seed, device="cuda")
        try_references(self.references)
        self.inputs = clone_inputs(self.references.own_inputs)
        self.eager = baseline.eager(self.references.model, self.inputs)
        self.eager_ms = statistics.median(self.eager.sample(3))
        self.floor_bytes = floors.bytes_that_matter(self.references.model, self.inputs)
        self.moved_bytes = self.floor_bytes + floors.bytes_of_outputs(self.references.model,
                                                                      self.inputs)

    def replayers(self, plan: Plan) -> list[Replayer]:
        """Those for a plan: the one in use and the spare. The caller may exchange them."""
        return self._native if plan.pytorch is None else self._mixed

    def running(self) -> int:
        """How many processes of ours, beside this one, use the device."""
        return (self.compiled is not None) + sum(
            replayer.running for replayer in (*self._native, *self._mixed))

    def stop(self) -> None:
        """Ends the replays and the compiler."""
        self.drop_compiled(None)
        for replayer in (*self._native, *self._mixed):
            replayer.stop()

    def compile_baseline(self, context: Context) -> None:
        """Waits for the reference's compiler, and starts one where none is; then `compiled` is a
        contender, or None for the reason in `compile_note`."""
        if self.compiled is None and self._compilers < _COMPILERS:
            self._start_compiler()
            if self.compiled is not None:
                self.compiled.compile(self.bus)
        if self.compiled is None:
            return
        context.progress("compiling the reference with torch.compile")
        try:
            there, self.compile_note = self.compiled.ready(
                max(1.0, context.time_left() - _MEASURING_S))
        except Lost as reason:
            return self.drop_compiled(f"no torch.compile baseline: {reason}")
        if not there:
            self._compilers = _COMPILERS  # another one would say the same
            self.drop_compiled(self.compile_note)

    def drop_compiled(self, note: str | None) -> None:
        """Goes on without the compiled reference, for the reason `note`."""
        if self.compiled is not None:
            self.compiled.stop()
        self.compiled = None
        self.compile_note = note

    def _start_compiler(self) -> None:
        self._compilers += 1
        try:
            self.compiled = CompiledModel(self._task, self._seed)
        except OSError as error:
            self.compile_note = baseline.no_baseline(error)


def bench_for(request: dict[str, Any], context: Context) -> Bench:
    """The bench of `request` {"task", "seed"?}; the last one is kept. Raises as Bench does."""
    task, seed = request["task"], int(request.get("seed") or 0)
    key = hashlib.sha256(f"{seed}\0{task['source']}".encode("utf-8", "replace")).hexdigest()
    known = context.state.get("bench")
    if known and known[0] == key:
        return known[1]
    if known:
        known[1].stop()
        context.state.pop("bench")
    context.progress("trying the task: running the reference")
    bench = Bench(request, context)
    context.state["bench"] = (key, bench)
    return bench
