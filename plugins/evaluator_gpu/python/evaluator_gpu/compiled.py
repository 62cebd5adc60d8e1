"""The reference through torch.compile, in a process of its own.

It compiles while the judge makes its references, and a compiler that crashes takes no judge with
it. The process holds the task and nothing that is secret but the inputs' seed; no candidate's code
or kernel comes near it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from evaluator_gpu import baseline
from evaluator_gpu.device import Device, asked
from evaluator_gpu.lines import Hang, Lines, paths
from kernel_evolve_worker.correctness.reference import References
from kernel_evolve_worker.correctness.variants import clone_inputs
from kernel_evolve_worker.task import load_task

_NAME = b"ke_compile"  # as ps shows it
_SET_NAME, _SET_DEATH_SIGNAL = 15, 1  # of prctl
_SAMPLE_S = 60.0  # for a block of samples


class Lost(Exception):
    """The process ended or stopped answering; the text is a sentence without its period."""


class CompiledModel:
    """A contender once `ready` has said so. Not thread-safe."""

    name = "compile"

    def __init__(self, task: dict[str, Any], seed: int) -> None:
        """Starts the process, which loads the compiler and waits for `compile`; fast where this
        process hasn't used CUDA yet. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs:
            fresh = asked()
            try:
                self._pid = os.fork()
            except OSError:
                ours.close()
                raise
            if self._pid == 0:
                live(theirs.fileno(), fresh)
        self._socket = ours
        self._lines = Lines(ours.fileno(), ours.fileno())
        self._task = {"source": task["source"], "path": task.get("path"), "name": task.get("name")}
        self._seed = seed
        self._found: dict[str, Any] | None = None

    def compile(self, bus: str) -> None:
        """Tells the process to begin. bus: the device's address, "" for the first; its lock is
        taken as by all who use the device without measuring."""
        with contextlib.suppress(OSError):  # its end shows in `ready`
            self._lines.send({"op": "compile", "task": self._task, "seed": self._seed, "bus": bus})

    def ready(self, deadline_s: float) -> tuple[bool, str]:
        """Waits for the compiler. Returns whether there is such a baseline, and a note: what it
        took or why there is none. Raises Lost."""
        if self._found is None:
            self._found = self._answer(deadline_s)
        return bool(self._found["ok"]), str(self._found["note"])

    def sample(self, count: int) -> list[float]:
        """Milliseconds of `count` calls. Raises Lost."""
        with contextlib.suppress(OSError):
            self._lines.send({"op": "sample", "count": count})
        return list(self._answer(_SAMPLE_S)["milliseconds"])

    def stop(self) -> None:
        """Ends the process, whatever it does."""
        if self._pid:
            self._socket.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _answer(self, deadline_s: float) -> dict[str, Any]:
        if not self._pid:
            raise Lost("the process of torch.compile was lost")
        try:
            return self._lines.receive(time.monotonic() + deadline_s)
        except (Hang, EOFError, OSError, ValueError) as error:
            self.stop()
            raise Lost("the process of torch.compile " + (
                f"didn't answer within {deadline_s:.0f} s" if isinstance(error, Hang)
                else "ended by itself")) from None


# In the process ----------------------------------------------------------------------------------


# The first lines of a fresh interpreter.
_FRESH = """
import sys
sys.path[:0] = sys.argv[2].split(":")
from evaluator_gpu.compiled import live
live(int(sys.argv[1]), False)
"""


def live(fd: int, fresh: bool) -> NoReturn:
    """The whole life of the process. fresh: in a new interpreter."""
    try:
        libc = ctypes.CDLL(None)
        libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        libc.prctl(_SET_NAME, _NAME)
        # Others would see no end of file while this process lives.
        for number in map(int, os.listdir("/proc/self/fd")):
            if number > 2 and number != fd:
                with contextlib.suppress(OSError):
                    os.close(number)
        quiet = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1):
            os.dup2(quiet, number)
        if fresh:
            os.set_inheritable(fd, True)
            os.execv(sys.executable, [sys.executable, "-I", "-c", _FRESH, str(fd), paths()])
        serve(fd)
    finally:
        os._exit(1)


def serve(fd: int) -> None:
    """Answers one request after the other until the other end is closed."""
    _load_compiler()
    lines = Lines(fd, fd)
    sample: Callable[[int], list[float]] = lambda count: []  # noqa: E731 - nothing is compiled
    while True:
        try:
            request = lines.receive()
        except EOFError:
            return
        if request["op"] == "sample":
            lines.send({"milliseconds": sample(int(request["count"]))})
            continue
        contender, note = _compile(request)
        if contender is not None:
            sample = contender.sample
        lines.send({"ok": contender is not None, "note": note})


def _load_compiler() -> None:
    """Takes seconds, and needs no device."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401


def _compile(request: dict[str, Any]) -> tuple[Any, str]:
    """The contender, or None and why there is none."""
    task = request["task"]
    try:
        # Others may not measure meanwhile: contexts come up, and the compiler tries kernels.
        with Device(request["bus"]).held(float("inf"), lambda text: None, alone=False):
            loaded = load_task(task["source"], task["path"] or f"{task['name'] or 'task'}.py")
            references = References(loaded, request["seed"], device="cuda")
            return baseline.compiled(references.model, clone_inputs(references.own_inputs))
    except Exception as error:  # noqa: BLE001 - eager remains
        return None, baseline.no_baseline(error)
