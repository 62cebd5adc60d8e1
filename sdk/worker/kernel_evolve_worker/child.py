"""What runs in a forked child: it serves one call, or in a session one call after the other.

Answers leave through a private pipe, each line led by a token that only this module knows; what the
code prints goes elsewhere. Nothing here returns: a child ends by os._exit.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import resource
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from kernel_evolve_worker.context import Context
from kernel_evolve_worker.errors import WorkerError
from kernel_evolve_worker.wire import NotJson, decode, encode, one_line

#: What a child inherits of the zygote's environment; everything else is set below or gone.
_KEPT_ENVIRONMENT = (
    "PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CC",
    "TRITON_PTXAS_PATH", "TRITON_LIBCUDA_PATH", "TZ",
)  # fmt: skip


@dataclass
class Job:
    """One call as the child sees it. deadline: seconds of time.monotonic()."""

    module: str
    function: str
    request: dict[str, Any]
    path: list[str]
    deadline: float


@dataclass
class Surroundings:
    """What a child is born with. Descriptors are this process's own.

    request_fd: further calls of a session, or -1 for a single call.
    """

    result_fd: int
    request_fd: int
    token: bytes
    scratch: str
    temporary: str
    session: str | None
    state: dict[str, Any] = field(default_factory=dict)


def set_environment(temporary: str) -> None:
    """Leaves the minimal environment; everything that is written by habit goes to `temporary`."""
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    os.environ.clear()
    os.environ.update(kept)
    os.environ.update(
        HOME=temporary,
        TMPDIR=temporary,
        TRITON_HOME=temporary,
        TRITON_CACHE_DIR=f"{temporary}/triton",
        TORCHINDUCTOR_CACHE_DIR=f"{temporary}/inductor",
        USER="jail",
        LOGNAME="jail",
        LANG="C.UTF-8",
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
        MKL_NUM_THREADS="1",
    )
    tempfile.tempdir = None  # the zygote's answer is cached there


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class _Server:
    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._pending = bytearray()

    def answer(self, message: dict[str, Any]) -> None:
        line = encode(message)
        _write_all(self._around.result_fd, self._around.token + line + b"\n")

    def progress(self, data: dict[str, Any]) -> None:
        try:
            self.answer({"op": "progress", "data": data})
        except NotJson as error:
            raise TypeError(f"context.progress got {error}") from None

    def run(self, job: Job) -> None:
        around = self._around
        context = Context(
            scratch=Path(around.scratch or around.temporary),
            deadline=job.deadline,
            session=around.session,
            state=around.state,
            send_progress=self.progress,
        )
        answer = _outcome(job, context)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:  # the code may have replaced or closed it
                pass
        answer["peak_kb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            self.answer(answer)
        except NotJson as error:
            self.answer(_error("invalid_output", f"{job.module}.{job.function} returned {error}"))

    def next_job(self) -> Job | None:
        """Waits for the session's next call; None when there will be none."""
        fd = self._around.request_fd
        while fd >= 0:
            line, found, rest = self._pending.partition(b"\n")
            if found:
                self._pending = rest
                return Job(**decode(line))
            chunk = os.read(fd, 1 << 16)
            if not chunk:
                return None
            self._pending += chunk
        return None


def _error(error_class: str, message: str) -> dict[str, Any]:
    return {"op": "error", "class": error_class, "message": one_line(message)}


def _outcome(job: Job, context: Context) -> dict[str, Any]:
    """Runs the function. Whatever it raises becomes an error message."""
    what = f"{job.module}.{job.function}"
    try:
        function = _find(job)
        value = function(job.request, context)
    except WorkerError as error:
        return _error(error.error_class, error.message)
    except BaseException as error:  # SystemExit and KeyboardInterrupt too: the child answers
        return _error("internal", f"{type(error).__name__}: {one_line(error)}")
    if not isinstance(value, dict):
        return _error("invalid_output", f"{what} returned {type(value).__name__}, not a dict")
    return {"op": "result", "value": value}


def _find(job: Job) -> Callable[[dict[str, Any], Context], Any]:
    for folder in reversed(job.path):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(job.module)
    except ModuleNotFoundError as error:
        # A module that the named one needs is its own fault; the named one is the caller's.
        if error.name is None or not (job.module + ".").startswith(error.name + "."):
            raise
        places = ", ".join(job.path) or "the worker's own folder"
        raise WorkerError(
            "validation", f"there is no Python module {job.module} in {places}"
        ) from None
    function = getattr(module, job.function, None)
    if not callable(function):
        raise WorkerError(
            "validation", f"the Python module {job.module} has no function {job.function}"
        )
    return function


def serve(job: Job, around: Surroundings) -> NoReturn:
    """The whole life of a child. Never returns, never raises."""
    status = 70
    try:
        set_environment(around.temporary)
        faulthandler.enable(file=2)
        server = _Server(around)
        following: Job | None = job
        while following is not None:
            server.run(following)
            following = server.next_job() if around.session is not None else None
        status = 0
    finally:
        os._exit(status)
