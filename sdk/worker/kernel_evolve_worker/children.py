"""The zygote's side of one child: its pipes, what came through them, and how it ended."""

from __future__ import annotations

import fcntl
import os
import random
import secrets
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from kernel_evolve_worker import child as child_side
from kernel_evolve_worker import jail as walls
from kernel_evolve_worker.calls import Call
from kernel_evolve_worker.jail import Descriptors, Jail, Message
from kernel_evolve_worker.wire import MAX_LINE, NotJson, decode, encode, one_line

_CHUNK = 1 << 16
#: More printed than this and the child is ended: reading it starves the others.
_MAX_PRINTED = 256 << 20
#: Seconds for a tree to end after it was told to, before its reaper is killed.
_END_GRACE_S = 5.0
#: Seconds for a single-use child to exit after it answered.
_EXIT_GRACE_S = 2.0
#: Progress messages that pass at once; later ones must be this many seconds apart.
_PROGRESS_BURST = 100
_PROGRESS_GAP_S = 0.05
_MAX_PROGRESS = 64 << 10


def _private(fd: int) -> int:
    """Moves a descriptor to a number that a guess misses. Closed on exec."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, random.SystemRandom().randrange(64, 900))
    os.close(fd)
    return moved


def _pipes(count: int) -> list[tuple[int, int]]:
    """(read end, write end) of each, or OSError and none."""
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            pipes.append(os.pipe2(os.O_CLOEXEC))
    except OSError:
        for ends in pipes:
            for fd in ends:
                os.close(fd)
        raise
    return pipes


class Child:
    """One child and its reaper.

    `fds()` says what to poll; `on_readable` and `on_time` drive it and may end the current call by
    setting `finished` to a message for the host. The owner calls `close` once `gone`.
    """

    def __init__(self, jail: Jail, call: Call, temporary: str, forget: Callable[[], None]) -> None:
        """Forks. In the child it calls `forget` and never returns. Raises JailError or OSError when
        that fails."""
        self.session = call.session
        self.place = call.place
        self.temporary = temporary
        self.gone = False
        self.needs_sweep = False  # processes of this tree may have become the zygote's own
        self.flags: int | None = None
        self.finished: dict[str, Any] | None = None
        self.progress: list[dict[str, Any]] = []
        self._jail = jail
        self._limits = call.limits
        self._token = secrets.token_hex(16).encode() + b" "
        self._output = bytearray()
        self._printed = 0
        self._results = bytearray()
        self._status = bytearray()
        self._requests = bytearray()
        self._answer: dict[str, Any] | None = None
        self._reason: tuple[str, str] | None = None
        self._kill_at: float | None = None
        self._exited: Message | None = None
        self._failure: str | None = None
        self._forget = forget
        self._begin(call)
        self._spawn(call)

    # -- starting ---------------------------------------------------------------------------------

    def _begin(self, call: Call) -> None:
        self.call: Call | None = call
        self._started = time.monotonic()
        self._deadline = self._started + call.deadline_s
        self._progress_count = 0
        self._next_progress = 0.0

    def _spawn(self, call: Call) -> None:
        pipes = _pipes(5)
        self.status_fd, self.output_fd, self.result_fd = (ends[0] for ends in pipes[:3])
        status_end, output_end, result_end = (ends[1] for ends in pipes[:3])
        (control_end, self._control), (request_end, self.request_fd) = pipes[3:]
        result_end, request_end = _private(result_end), _private(request_end)
        keep = (result_end, request_end) if call.session else (result_end,)
        try:
            self.reaper = self._jail.spawn(
                Descriptors(status_end, control_end, output_end, keep),
                call.limits,
                call.scratch,
                [*call.path, *call.readable],
                self.temporary,
            )
            if self.reaper == 0:
                self._live(call, result_end, request_end)
        except walls.JailError:
            self.close()
            raise
        finally:
            for fd in (status_end, control_end, output_end, result_end, request_end):
                os.close(fd)
        for fd in (self.status_fd, self.output_fd, self.result_fd, self.request_fd):
            os.set_blocking(fd, False)

    def _live(self, call: Call, result_fd: int, request_fd: int) -> NoReturn:
        self._forget()
        child_side.serve(
            child_side.Job(**call.job(self._deadline)),
            child_side.Surroundings(
                result_fd=result_fd,
                request_fd=request_fd if call.session else -1,
                token=self._token,
                scratch=call.scratch,
                temporary=self.temporary,
                session=call.session,
            ),
        )

    def begin_next(self, call: Call) -> None:
        """Hands a session's next call to the idle child."""
        self._begin(call)
        self._answer = None
        self._output.clear()
        self._requests += encode(call.job(self._deadline)) + b"\n"
        self.on_writable()

    # -- driving ----------------------------------------------------------------------------------

    def readable_fds(self) -> list[int]:
        """Descriptors to poll for reading."""
        return [fd for fd in (self.status_fd, self.output_fd, self.result_fd) if fd >= 0]

    def wants_to_write(self) -> bool:
        """True while part of a request waits for room in `request_fd`."""
        return bool(self._requests) and self.request_fd >= 0

    def on_writable(self) -> None:
        """Writes what fits of the waiting request."""
        try:
            while self._requests:
                del self._requests[: os.write(self.request_fd, self._requests[:_CHUNK])]
        except BlockingIOError:
            return
        except OSError:  # the child has gone; its status says so
            self._requests.clear()

    def on_readable(self, fd: int) -> None:
        """Reads one chunk, so that a flood from one child leaves time for the others."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if fd == self.output_fd:
            self._take_output(data)
        elif fd == self.result_fd:
            self._take_results(data)
        else:
            self._take_status(data)

    def on_time(self, now: float) -> None:
        """Enforces deadlines. now: seconds of time.monotonic()."""
        if self.gone:
            return
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._kill_reaper()
        elif self._answer is not None and self.session is None:
            if now >= self._exit_by:
                self._order_end()
        elif self.call is not None and now >= self._deadline:
            self.end("timeout", f"the call did not end within {self.call.deadline_s:g} s")

    def next_time(self) -> float | None:
        """When on_time is due, in seconds of time.monotonic()."""
        if self._kill_at is not None:
            return self._kill_at
        if self._answer is not None and self.session is None:
            return self._exit_by
        return self._deadline if self.call is not None else None

    @property
    def ending(self) -> bool:
        """True once the tree was ordered to end or is gone."""
        return self._kill_at is not None or self.gone

    def end(self, error_class: str, message: str) -> None:
        """Orders the whole tree to end. An answer that has already come stands."""
        if self._answer is None and self._reason is None:
            self._reason = (error_class, message)
        self._order_end()

    def _order_end(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + _END_GRACE_S
            os.close(self._control)
            self._control = -1

    def _kill_reaper(self) -> None:
        """For a reaper that does not end. It is this process's own child: its pid is not reused."""
        self._kill_at = time.monotonic() + _END_GRACE_S
        os.kill(self.reaper, signal.SIGKILL)

    # -- what comes in ----------------------------------------------------------------------------

    def _take_output(self, data: bytes) -> None:
        if not data:
            os.close(self.output_fd)
            self.output_fd = -1
            return
        self._printed += len(data)
        self._output += data
        excess = len(self._output) - (self._limits.output_kb << 10)
        if excess > 0:
            del self._output[:excess]
        if self._printed > _MAX_PRINTED and self._kill_at is None:
            self.end("invalid_output", f"the child printed more than {_MAX_PRINTED >> 20} MiB")

    def _take_results(self, data: bytes) -> None:
        if not data:
            os.close(self.result_fd)
            self.result_fd = -1
            return
        seen = len(self._results)
        self._results += data
        while (at := self._results.find(b"\n", seen)) >= 0:
            line = bytes(self._results[:at])
            del self._results[: at + 1]
            seen = 0
            self._take_line(line)
        if len(self._results) > MAX_LINE + 64:
            self._results.clear()
            self.end("invalid_output", f"the answer is longer than {MAX_LINE >> 20} MiB")

    def _take_line(self, line: bytes) -> None:
        if self._answer is not None or self._reason is not None:
            return
        if not line.startswith(self._token):
            self.end("invalid_output", "the code wrote into the pipe that carries its answer")
            return
        try:
            message = decode(line[len(self._token) :])
        except NotJson as error:
            self.end("invalid_output", f"the child's answer is {error}")
            return
        if message.get("op") == "progress":
            self._take_progress(message.get("data"), len(line))
        elif message.get("op") in ("result", "error"):
            self._answer = message
            self._exit_by = time.monotonic() + _EXIT_GRACE_S
            if self.session is not None:
                self._finish(int(message.get("peak_kb") or 0))
        else:
            self.end("invalid_output", "the child's answer has an unknown form")

    def _take_progress(self, data: Any, size: int) -> None:
        now = time.monotonic()
        self._progress_count += 1
        if self._progress_count > _PROGRESS_BURST and now < self._next_progress:
            return
        self._next_progress = now + _PROGRESS_GAP_S
        if self.call is not None and isinstance(data, dict) and size <= _MAX_PROGRESS:
            self.progress.append({"op": "progress", "id": self.call.id, "data": data})

    def _take_status(self, data: bytes) -> None:
        self._status += data
        while len(self._status) >= Message.SIZE:
            message = Message.parse(bytes(self._status[: Message.SIZE]))
            del self._status[: Message.SIZE]
            if message.kind == walls.READY:
                self.flags = message.flags
            elif message.kind == walls.FAILED:
                self._failure = f"cannot wall the child in: {message.failure()}"
            elif message.kind == walls.EXITED:
                self._exited = message
        if not data:
            self._on_gone()

    # -- ending -----------------------------------------------------------------------------------

    def _on_gone(self) -> None:
        """The reaper has ended, and with it the tree."""
        self.gone = True
        os.waitpid(self.reaper, 0)
        if self._exited is None and not self._jail.namespaces:
            self.needs_sweep = True  # the reaper was killed: its orphans are the zygote's now
        for fd in (self.result_fd, self.output_fd):
            self._drain(fd)
        if self.call is not None:
            self._finish(self._exited.peak_kb if self._exited else 0)

    def _drain(self, fd: int) -> None:
        while fd >= 0 and fd in (self.result_fd, self.output_fd):
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:  # a descendant outside the tree's reach still holds it
                return
            if fd == self.result_fd:
                self._take_results(data)
            else:
                self._take_output(data)

    def _finish(self, peak_kb: int) -> None:
        call = self.call
        if call is None:
            return
        self.call = None
        if self._answer is not None and self._answer["op"] == "result":
            self.finished = {
                "op": "result",
                "id": call.id,
                "value": self._answer.get("value"),
                "seconds": round(time.monotonic() - self._started, 6),
                "peak_kb": peak_kb,
                "isolation": walls.describe(self.flags or 0),
            }
            return
        error_class, message = self._error()
        self.finished = {
            "op": "error",
            "id": call.id,
            "class": error_class,
            "message": message,
            "output": self._output[-2000:].decode("utf-8", "replace"),
        }

    def _error(self) -> tuple[str, str]:
        if self._answer is not None:
            return str(self._answer.get("class")), one_line(self._answer.get("message"), 2000)
        if self._failure is not None:
            return "internal", self._failure
        if self._reason is not None:
            return self._reason
        return "internal", self._death()

    def _death(self) -> str:
        ended = self._exited
        if ended is None:
            return "the child's supervisor was killed from outside"
        if ended.flags == walls.TOO_MANY_PROCESSES:
            return f"the child had more than {self._limits.processes} processes and threads"
        if os.WIFSIGNALED(ended.code):
            number = os.WTERMSIG(ended.code)
            hint = ""
            if number == signal.SIGKILL:
                hint = f", perhaps for lack of memory (its limit is {self._limits.memory_mb} MiB)"
            return f"the child process died by {walls.signal_text(number)}{hint}"
        status = os.WEXITSTATUS(ended.code)
        return f"the child process exited with status {status} before it answered"

    def close(self) -> None:
        """Closes the pipes. The child need not be gone: closing is what orders it to end."""
        for name in ("status_fd", "output_fd", "result_fd", "request_fd", "_control"):
            fd = getattr(self, name)
            if fd >= 0:
                os.close(fd)
                setattr(self, name, -1)
