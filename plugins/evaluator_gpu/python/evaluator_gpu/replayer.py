"""Runs tapes through ke_replay, a process that holds a CUDA context and nothing that is secret.

A fault of the device or a hang costs that process only: it is killed, and the next tape gets a
fresh one. Results come back through shared memory.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from evaluator_gpu import constants
from evaluator_gpu.lines import Hang, Lines, paths
from evaluator_gpu.plan import NotReplayable, Plan, make_plan
from kernel_evolve_worker.errors import WorkerError
from kernel_evolve_worker.recording.tape import Tape, decode_tree, dtype_named, tree_refs
from kernel_evolve_worker.tensors import write_values

_START_S = 60.0
_SCRATCH = "scratch memory"  # of a launch: no buffer of the tape
_END_S = 5.0  # from the end of its output to the end of the process
_SMALLEST = 64 << 20  # shared memory, so that small tapes need no new process


class Fault(Exception):
    """The device refused or stopped a step. code: CUDA's. step: its number in the tape."""

    def __init__(self, code: int, step: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.step = step


class OutOfMemory(Exception):
    """The device has too little memory for the tape."""


@dataclass
class Result:
    """One run: what `correctness.check` takes, and what else was seen.

    changed: buffers that differ from their first content. outside: buffers around which something
    was written. hashes: of the outputs, under `seed`.
    """

    outputs: Any
    inputs_after: list[Any]
    state_after: dict[str, torch.Tensor]
    aliases: list[tuple[int, str, Any]]
    constants_changed: list[str]
    changed: list[str]
    outside: list[str]
    hashes: list[int] = field(default_factory=list)


class SharedMemory:
    """Memory that this process and its replayers see, for one of them at a time.

    Kept over their lives and registered with CUDA, so that its pages are touched once and copies
    run at the bus's speed.
    """

    def __init__(self, register: bool = False) -> None:
        self._register = register
        self.fd = -1
        self.generation = 0  # rises whenever the memory is another one
        self._map: mmap.mmap | None = None
        self._whole: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self._map) if self._map is not None else 0

    def grow(self, size: int) -> bool:
        """Makes room for `size` bytes; True where the memory is another one now. Raises OSError."""
        if self._map is not None and size <= len(self._map):
            return False
        size = max(_SMALLEST, size)
        self.close()
        self.generation += 1
        self.fd = os.memfd_create("ke-replay")
        os.ftruncate(self.fd, size)
        self._map = mmap.mmap(self.fd, size)
        self._whole = torch.frombuffer(self._map, dtype=torch.uint8)
        if self._register:
            torch.cuda.cudart().cudaHostRegister(self._whole.data_ptr(), size, 0)
        return True

    def part(self, place: int, size: int) -> torch.Tensor:
        """`size` bytes, uint8 on the CPU; writing changes them."""
        assert self._whole is not None
        return self._whole[place:place + size]

    def close(self) -> None:
        """Gives the memory back once no tensor uses it."""
        if self._whole is not None and self._register:
            torch.cuda.cudart().cudaHostUnregister(self._whole.data_ptr())
        self._whole = self._map = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Replayer:
    """One replaying process; started when needed. Not thread-safe.

    command: what to start, before the three arguments that every replay takes: the shared
    memory's descriptor, its size and the device's number.
    """

    def __init__(self, command: list[str], memory: SharedMemory | None = None,
                 device: int = 0) -> None:
        self._command = command
        self._device = device
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: Lines | None = None
        self.memory = memory or SharedMemory()
        self._generation = 0  # of the memory that the process has
        self._ready = False
        self.info: dict[str, Any] = {}

    # -- the process ----------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether the process has been started and not stopped."""
        return self._process is not None

    def begin(self, shared_bytes: int = 0) -> None:
        """Starts the process without waiting for it; nothing where one runs with memory enough.
        Raises WorkerError (unavailable) where that can't be done."""
        try:
            self.memory.grow(max(1, shared_bytes))
            if (self._process is not None and self._process.poll() is None
                    and self._generation == self.memory.generation):
                return
            self.stop()
            self._generation = self.memory.generation
            fd = self.memory.fd
            self._process = subprocess.Popen(
                [*self._command, str(fd), str(len(self.memory)), str(self._device)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[fd])
            assert self._process.stdin is not None and self._process.stdout is not None
            self._lines = Lines(self._process.stdout.fileno(), self._process.stdin.fileno())
        except OSError as error:
            self.stop()
            raise WorkerError("unavailable", f"the replay {Path(self._command[0]).name} can't be "
                              f"started: {error.strerror}; reinstall the plugin, or use a task "
                              "with smaller tensors.") from None
        self._ready = False

    def start(self, shared_bytes: int = 0) -> None:
        """Starts the process and waits until it has its GPU. Raises WorkerError (unavailable)
        without a usable GPU or driver."""
        self.begin(shared_bytes)
        if self._ready:
            return
        assert self._lines is not None
        try:
            answer = self._lines.receive(time.monotonic() + _START_S)
        except (Hang, EOFError):
            self.stop()
            raise WorkerError("unavailable", "the GPU doesn't answer; look at nvidia-smi, and "
                              "try again.") from None
        if not answer.get("ok"):
            self.stop()
            raise WorkerError("unavailable", f"{answer.get('message')}.")
        self._ready = True
        self.info = answer

    def stop(self) -> None:
        """Ends the process, whatever it does, and waits for its end."""
        process, self._process = self._process, None
        self._ready = False
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()  # it watches its stdin
            with contextlib.suppress(PermissionError):
                process.kill()
            process.wait()

    def _ending(self) -> str:
        """Ends a process that has closed its pipes, and says how it ended, without a period."""
        process = self._process
        assert process is not None
        try:
            code = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            code = None
        self.stop()
        if code is None:
            return "the replay's process stopped answering"
        if code < 0:
            return f"signal {-code} ended the replay's process"
        return f"the replay's process ended with status {code}"

    def ask(self, op: str, deadline_s: float = constants.RUN_DEADLINE_S, **request: Any) -> \
            dict[str, Any]:
        """One request and its answer. Raises Fault, Hang, OutOfMemory, NotReplayable, WorkerError
        (internal)."""
        if self._process is None or self._lines is None:
            raise WorkerError("internal", "the replay isn't running.")
        try:
            self._lines.send({"op": op, **request})
            answer = self._lines.receive(time.monotonic() + deadline_s)
        except Hang:
            self.stop()
            raise
        except (EOFError, OSError):
            raise Fault(-1, -1, self._ending()) from None
        if answer.pop("ok", False):
            return answer
        kind, text = answer.get("kind"), str(answer.get("message"))
        code = int(answer.get("code") or 0)
        if kind == "fault":
            if answer.get("lasting"):
                self.stop()
            raise Fault(code, int(answer.get("step", -1)), text)
        if kind == "cuda" and code == 2:
            self.stop()
            raise OutOfMemory(text)
        if kind == "cuda":
            self.stop()
            raise Fault(code, -1, text)
        if kind == "uncovered":
            raise NotReplayable(text)
        raise WorkerError("internal", f"the replay refuses its plan: {text}.")


class LoadedTape:
    """A tape in a replayer, with the data it runs on. `device`: where results are put."""

    def __init__(self, replayer: Replayer, tape: Tape, device: str | torch.device = "cuda",
                 plan: Plan | None = None) -> None:
        """Raises NotReplayable, TapeError, and what `ask` raises."""
        self.tape = tape
        self.replayer = replayer
        self.device = device
        self.plan = plan or make_plan(tape)
        self._given: dict[str, list[torch.Tensor]] = {}
        replayer.start(self.plan.shared_bytes)
        for name, description in tape.buffers.items():
            if description["origin"] == "constant" and description["bytes"]:
                content = torch.frombuffer(bytearray(tape.blob(name)), dtype=torch.uint8)
                self._data(name).copy_(content)
        self.kernels = replayer.ask("load", plan=self.plan.text)["kernels"]

    def _data(self, name: str) -> torch.Tensor:
        return self.replayer.memory.part(self.plan.data[name], self.tape.buffers[name]["bytes"])

    def _fetched(self, name: str) -> torch.Tensor:
        return self.replayer.memory.part(self.plan.fetch[name], self.tape.buffers[name]["bytes"])

    @staticmethod
    def _view(memory: torch.Tensor, ref: dict[str, Any]) -> torch.Tensor:
        dtype = dtype_named(ref["dtype"])
        whole = memory[: memory.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
        # as_strided counts from the storage's start, and `memory` may be a part of one.
        return whole.as_strided(ref["shape"], ref["stride"],
                                whole.storage_offset() + ref["offset"])

    def bind(self, inputs: list[Any], state: dict[str, torch.Tensor]) -> None:
        """Gives the buffers of inputs and weights the caller's values, which have the recording's
        shapes. Values that were given last time (the same tensors) are left as they are."""
        wanted: dict[str, list[tuple[dict[str, Any], torch.Tensor]]] = {}
        for ref, value in zip(self.tape.inputs, inputs):
            if ref:
                wanted.setdefault(ref["buffer"], []).append((ref, value))
        for entry in self.tape.state:
            wanted.setdefault(entry["ref"]["buffer"], []).append(
                (entry["ref"], state[entry["name"]]))
        changed = []
        for name, pairs in wanted.items():
            values = [value for _, value in pairs]
            known = self._given.get(name)
            if known is not None and all(a is b for a, b in zip(known, values)):
                continue
            for ref, value in pairs:
                if list(value.shape) != ref["shape"] or value.dtype != dtype_named(ref["dtype"]):
                    raise WorkerError("internal", "an input has another shape than recorded.")
                write_values(self._view(self._data(name), ref), value.detach())
            self._given[name] = values
            changed.append(name)
        if changed:
            self.replayer.ask("write", buffers=[self.plan.names[n] for n in changed])

    def run(self, *, guard: bool, poison: int, seed: int = 0, launches: bool = True,
            deadline_s: float = constants.RUN_DEADLINE_S) -> Result:
        """One run on what was bound. poison: the byte that fills memory that nothing wrote.
        launches: whether kernels are launched, for a plan that needs PyTorch."""
        more = {} if launches else {"launches": False}
        seen = self.replayer.ask("run", deadline_s, guard=guard, poison=poison, seed=seed, **more)
        changed = self._names(seen["changed"])
        wanted = self._results(changed)
        if wanted:
            self.replayer.ask("fetch", buffers=self._places(wanted))
        return self._result(wanted, changed, self._names(seen["outside"]), seen["hashes"])

    def _names(self, numbers: list[int]) -> list[str]:
        names = list(self.tape.buffers)
        return [names[i] if i < len(names) else _SCRATCH for i in numbers]

    def _results(self, changed: list[str]) -> list[str]:
        """The buffers that hold what a run leaves: outputs, and what it changed."""
        outputs = {ref["buffer"] for ref in tree_refs(self.tape.outputs)}
        return sorted(outputs | set(changed), key=self.plan.names.__getitem__)

    def _places(self, names: list[str]) -> list[list[int]]:
        return [[self.plan.names[n], self.plan.fetch[n]] for n in names]

    def _result(self, fetched: list[str], changed: list[str], outside: list[str],
                hashes: list[int]) -> Result:
        """What lies in the shared memory after these buffers were fetched."""
        memory = {name: self._fetched(name).to(self.device, copy=True) for name in fetched}
        for name in fetched:
            self._fetched(name).zero_()  # a kernel that finds the shared memory finds no results

        def tensor(ref: dict[str, Any]) -> torch.Tensor:
            return self._view(memory[ref["buffer"]], ref)

        def after(ref: dict[str, Any]) -> Any:
            return tensor(ref) if ref["buffer"] in changed else self._bound(ref)

        return Result(
            outputs=decode_tree(self.tape.outputs, tensor),
            inputs_after=[None if ref is None else after(ref) for ref in self.tape.inputs],
            state_after={e["name"]: after(e["ref"]) for e in self.tape.state},
            aliases=self._aliases(),
            constants_changed=[n for n in changed
                               if self.tape.buffers[n]["origin"] == "constant"],
            changed=sorted(changed), outside=outside, hashes=hashes)

    def _bound(self, ref: dict[str, Any]) -> Any:
        """The value that was bound to a reference."""
        refs = [r for r in self.tape.inputs if r and r["buffer"] == ref["buffer"]]
        refs += [e["ref"] for e in self.tape.state if e["ref"]["buffer"] == ref["buffer"]]
        return self._given[ref["buffer"]][next(i for i, r in enumerate(refs) if r is ref)]

    def _aliases(self) -> list[tuple[int, str, Any]]:
        owners: dict[str, tuple[str, Any]] = {
            name: ("constant", name) for name, description in self.tape.buffers.items()
            if description["origin"] == "constant"}
        owners.update({e["ref"]["buffer"]: ("state", e["name"]) for e in self.tape.state})
        owners.update({ref["buffer"]: ("input", i) for i, ref in enumerate(self.tape.inputs)
                       if ref})
        return [(i, *owners[ref["buffer"]]) for i, ref in enumerate(tree_refs(self.tape.outputs))
                if ref["buffer"] in owners]

    def time(self, samples: int, *, poisons: list[int], pause_ns: int, seed: int = 0,
             hashes: list[int] | None = None, keep: int | None = None,
             changed: list[str] | None = None,
             deadline_s: float = constants.RUN_DEADLINE_S) -> dict[str, Any]:
        """ke_replay's answer to `time`: milliseconds of each sample, and how many were wrong.

        poisons: of the first sample, and so on in turn. keep: the number of the sample of which
        `kept` gives the results, where they may differ from the inputs in `changed` alone; None:
        of none. The answer's "changed" and "outside" are names of buffers, as in a Result.
        """
        more: dict[str, Any] = {}
        if keep is not None:
            more = {"keep": keep, "fetch": self._places(self._results(changed or []))}
        answer = self.replayer.ask("time", deadline_s, samples=samples, poisons=poisons,
                                   pause_ns=pause_ns, seed=seed, hashes=hashes or [], **more)
        return {**answer, "changed": self._names(answer["changed"]),
                "outside": self._names(answer["outside"])}

    def kept(self, answer: dict[str, Any]) -> Result:
        """The results of the sample that the last call of `time`, which gave `answer`, kept."""
        changed = answer["changed"]
        return self._result(self._results(changed), changed, answer["outside"], [])


def torch_command() -> list[str]:
    """Starts the replay that knows PyTorch's operators, too."""
    script = Path(os.path.abspath(__file__)).with_name("torch_replay.py")
    return [sys.executable, "-I", str(script), paths()]
