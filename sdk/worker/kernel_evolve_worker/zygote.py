"""The zygote: one process with PyTorch and Triton loaded that forks a jailed child per call.

It speaks ../PROTOCOL.md on its stdin and stdout, has one thread, touches no CUDA and loads no code
of a call: the child does. It ends, with all its children, when its stdin closes.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import os
import resource
import select
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernel_evolve_worker import calls as call_parser
from kernel_evolve_worker import jail as walls
from kernel_evolve_worker import warm
from kernel_evolve_worker.calls import BadCall, Call, Session
from kernel_evolve_worker.children import Child
from kernel_evolve_worker.wire import MAX_LINE, NotJson, decode, encode, one_line

_CHUNK = 1 << 16
_SHUTDOWN_S = 8.0
_FOLDER_PREFIX = "ke-worker-"


class Zygote:
    """The loop. Descriptors belong to the caller; `folder` is private to this process."""

    def __init__(self, host_in: int, host_out: int, jail: walls.Jail, folder: Path) -> None:
        self._in = host_in
        self._out = host_out
        self._jail = jail
        self._folder = folder
        self._received = bytearray()
        self._children: list[Child] = []
        self._sessions: dict[str, Session] = {}
        self._counter = 0
        self._open = True

    def run(self) -> None:
        """Serves until the host says shutdown or closes its end."""
        while self._open:
            self._turn(self._wait_ms())
        self._end_all()

    # -- the loop ---------------------------------------------------------------------------------

    def _wait_ms(self) -> int | None:
        times = [child.next_time() for child in self._children]
        due = min((at for at in times if at is not None), default=None)
        if due is None:
            return None
        return max(0, int((due - time.monotonic()) * 1000) + 1)

    def _turn(self, wait_ms: int | None) -> None:
        poll = select.poll()
        owners: dict[int, Child] = {}
        if self._open:
            poll.register(self._in, select.POLLIN)
        for child in self._children:
            for fd in child.readable_fds():
                poll.register(fd, select.POLLIN)
                owners[fd] = child
            if child.wants_to_write():
                poll.register(child.request_fd, select.POLLOUT)
                owners[child.request_fd] = child
        for fd, _event in poll.poll(wait_ms):
            if fd == self._in:
                self._on_host()
            elif fd == owners[fd].request_fd:
                owners[fd].on_writable()
            elif fd in owners[fd].readable_fds():
                owners[fd].on_readable(fd)
        now = time.monotonic()
        for child in self._children:
            child.on_time(now)
        self._collect()

    def _collect(self) -> None:
        """Passes on what the children brought and buries those that have gone."""
        for child in list(self._children):
            for message in child.progress:
                self._send(message)
            child.progress.clear()
            if child.gone:
                self._bury(child)
            if child.finished is not None:
                self._send(child.finished)
                child.finished = None
            if child.session is not None:
                self._continue_session(child.session)

    def _bury(self, child: Child) -> None:
        self._children.remove(child)
        child.close()
        if child.needs_sweep:
            self._jail.sweep([other.reaper for other in self._children])
        if self._jail.needs_private_folder():
            shutil.rmtree(child.temporary, ignore_errors=True)
        session = self._sessions.get(child.session or "")
        if session is not None and session.child is child:
            session.child = None
            if not session.waiting:
                del self._sessions[child.session]

    # -- the host ---------------------------------------------------------------------------------

    def _on_host(self) -> None:
        data = os.read(self._in, _CHUNK)
        if not data:
            self._open = False
            return
        seen = len(self._received)
        self._received += data
        while self._open and (at := self._received.find(b"\n", seen)) >= 0:
            line = bytes(self._received[:at])
            del self._received[: at + 1]
            seen = 0
            self._on_line(line)
        if len(self._received) > MAX_LINE + _CHUNK:
            self._open = False  # no host of ours sends that

    def _on_line(self, line: bytes) -> None:
        try:
            message = decode(line)
        except NotJson as error:
            print(f"the host sent a line that is {error}", file=sys.stderr, flush=True)
            return
        operation = message.get("op")
        if operation == "call" and type(message.get("id")) is int:
            self._on_call(message)
        elif operation == "cancel":
            self._on_cancel(message.get("id"))
        elif operation == "close_session":
            self._on_close_session(message.get("session"))
        elif operation == "shutdown":
            self._open = False
        else:
            print(f"the host sent an unknown op {operation!r}", file=sys.stderr, flush=True)

    def _on_call(self, message: dict[str, Any]) -> None:
        try:
            call = call_parser.parse(message)
        except BadCall as error:
            self._fail(message["id"], "validation", str(error))
            return
        if call.session is None:
            self._start(call)
            return
        self._sessions.setdefault(call.session, Session()).waiting.append(call)
        self._continue_session(call.session)

    def _on_cancel(self, call_id: Any) -> None:
        reason = ("cancelled", "the call was cancelled")
        for child in self._children:
            if child.call is not None and child.call.id == call_id:
                child.end(*reason)
        for session in self._sessions.values():
            for call in list(session.waiting):
                if call.id == call_id:
                    session.waiting.remove(call)
                    self._fail(call.id, *reason)

    def _on_close_session(self, key: Any) -> None:
        session = self._sessions.get(key)
        if session is None:
            return
        for call in session.waiting:
            self._fail(call.id, "cancelled", "the session was closed")
        session.waiting.clear()
        if session.child is None:
            del self._sessions[key]
        else:
            session.child.end("cancelled", "the session was closed")

    # -- children ---------------------------------------------------------------------------------

    def _continue_session(self, key: str) -> None:
        session = self._sessions.get(key)
        while session is not None and session.waiting:
            child = session.child
            if child is None:
                session.child = self._start(session.waiting.pop(0))
                continue
            if child.call is not None or child.ending:
                return
            if child.place != session.waiting[0].place:
                child.end("cancelled", "the session moved")
                return
            child.begin_next(session.waiting.pop(0))
            return

    def _start(self, call: Call) -> Child | None:
        self._counter += 1
        temporary = "/tmp"
        try:
            if self._jail.needs_private_folder():
                temporary = str(self._folder / f"child-{self._counter}")
                os.mkdir(temporary, 0o700)
            child = Child(self._jail, call, temporary, self._forget)
        except walls.JailError as error:
            self._fail(call.id, "internal", str(error))
            return None
        except OSError as error:
            self._fail(call.id, "internal", f"cannot start a child process: {error.strerror}")
            return None
        self._children.append(child)
        return child

    def _forget(self) -> None:
        """In a new child: drops what belongs to other calls."""
        self._received.clear()
        self._children.clear()
        self._sessions.clear()

    def _end_all(self) -> None:
        for child in self._children:
            child.end("cancelled", "the worker was shut down")
        end = time.monotonic() + _SHUTDOWN_S
        while self._children and time.monotonic() < end:
            self._turn(min(self._wait_ms() or 100, 100))
        for child in self._children:
            child.close()

    # -- answers ----------------------------------------------------------------------------------

    def _fail(self, call_id: int, error_class: str, message: str) -> None:
        self._send({"op": "error", "id": call_id, "class": error_class, "message": message})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            line = encode(message)
        except NotJson as error:
            line = encode(
                {
                    "op": "error",
                    "id": message["id"],
                    "class": "invalid_output",
                    "message": f"the answer is {error}",
                }
            )
        _write_line(self._out, line)


def _write_line(fd: int, line: bytes) -> None:
    view = memoryview(line + b"\n")
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BrokenPipeError:
        pass  # the host has gone; the end of its other pipe follows


def _private_folder() -> tuple[Path, int]:
    """A new folder under the temporary one, and the lock that says it is in use.

    Folders of zygotes that were killed are removed: their lock is free.
    """
    parent = Path(tempfile.gettempdir())
    for old in parent.glob(_FOLDER_PREFIX + "*"):
        try:
            if old.is_symlink() or old.stat().st_uid != os.getuid():
                continue
            lock = os.open(old / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def _take_stdio() -> tuple[int, int]:
    """Moves the protocol away from 0 and 1, where a library's print would disturb it."""
    host_in = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    host_out = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return host_in, host_out


def _raise_open_files() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kernel_evolve_worker", description=__doc__)
    parser.add_argument("--jail", type=Path, required=True, help="path of libke_jail.so")
    parser.add_argument("--isolation", choices=("auto", "namespaces", "subreaper"), default="auto")
    return parser.parse_args()


def main() -> int:
    """Runs the zygote; the process's exit status."""
    arguments = _arguments()
    host_in, host_out = _take_stdio()
    warm.limit_threads()
    _raise_open_files()
    folder, _lock = _private_folder()
    try:
        try:
            ready, jail = _prepare(arguments, folder)
        except (warm.CannotStart, walls.JailError) as error:
            message = {"op": "fatal", "class": "unavailable", "message": one_line(error, 2000)}
            _write_line(host_out, encode(message))
            return 3
        _write_line(host_out, encode(ready))
        Zygote(host_in, host_out, jail, folder).run()
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(arguments: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], walls.Jail]:
    worker_dir = Path(__file__).resolve().parent.parent
    jail = walls.Jail(arguments.jail, arguments.isolation, worker_dir)
    versions = warm.load(sys.executable)
    warm.compile_one_kernel(str(folder / "triton"))
    walls.become_guardian()
    gc.collect()
    gc.freeze()  # else a child's first collection copies every page of what is here
    probe_folder = folder / "probe"
    probe_folder.mkdir()
    isolation = walls.describe(jail.probe(str(probe_folder)))
    ready = {
        "op": "ready",
        "pid": os.getpid(),
        **versions,
        "isolation": isolation["level"],
        "walls": isolation,
    }
    return ready, jail
