"""The walls around a child: what it sees, and the native library that builds them."""

from __future__ import annotations

import ctypes
import glob
import os
import pwd
import signal
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_VERSION = 2
_MIB = 1 << 20

# enum ke_jail_flag
_PID, _USER, _MOUNTS, _NETWORK, _PROC, _SECCOMP, _LANDLOCK = (1 << bit for bit in range(7))
# enum ke_jail_message_kind
READY, FAILED, EXITED = 1, 2, 3
# enum ke_jail_reason
BY_ITSELF, ASKED, TOO_MANY_PROCESSES = 0, 1, 2

#: struct ke_jail_message
_MESSAGE = struct.Struct("IiIIq40s")

#: Empty for the child: others' files, sockets of the machine's services, what only root may read.
_HIDDEN = (
    "/tmp", "/var/tmp", "/run", "/var/run", "/home", "/root", "/etc/ssh", "/etc/shadow",
    "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/var/spool", "/var/lib/docker",
)  # fmt: skip
#: A home folder there (a service's account) is part of the system and stays.
_SYSTEM = ("/", "/usr", "/etc", "/bin", "/sbin", "/lib", "/dev", "/proc", "/sys", "/var", "/opt")
_SHARED = ("/tmp", "/var/tmp")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class JailError(Exception):
    """A child could not be walled in; the text is one sentence."""


class _Bind(ctypes.Structure):
    _fields_ = [
        ("path", ctypes.c_char_p),
        ("writable", ctypes.c_int32),
        ("optional", ctypes.c_int32),
    ]


class _Spec(ctypes.Structure):
    """struct ke_jail_spec of jail.h, field by field."""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("namespaces", ctypes.c_uint32),
        ("memory_bytes", ctypes.c_uint64),
        ("tmp_bytes", ctypes.c_uint64),
        ("file_bytes", ctypes.c_uint64),
        ("max_processes", ctypes.c_uint32),
        ("max_open_files", ctypes.c_uint32),
        ("status_fd", ctypes.c_int32),
        ("control_fd", ctypes.c_int32),
        ("output_fd", ctypes.c_int32),
        ("keep_count", ctypes.c_uint32),
        ("gpu", ctypes.c_uint32),
        ("keep_fds", ctypes.POINTER(ctypes.c_int32)),
        ("hidden", ctypes.POINTER(ctypes.c_char_p)),
        ("devices", ctypes.POINTER(ctypes.c_char_p)),
        ("binds", ctypes.POINTER(_Bind)),
        ("bind_count", ctypes.c_uint32),
        ("visible_count", ctypes.c_uint32),
        ("visible", ctypes.POINTER(ctypes.c_char_p)),
        ("work_dir", ctypes.c_char_p),
        ("before_fork", ctypes.c_void_p),
        ("after_fork_parent", ctypes.c_void_p),
        ("after_fork_child", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Limits:
    """memory_mb: per process, beyond what the zygote has mapped (0: none). output_kb: how much of
    what the child prints is kept. processes: of the whole tree, threads included. tmp_mb: size of
    each private temporary folder. gpu: NVIDIA's device nodes stay visible, and what its driver
    needs is allowed; for trusted code."""

    memory_mb: int = 8192
    output_kb: int = 256
    processes: int = 512
    tmp_mb: int = 1024
    gpu: bool = False

    @classmethod
    def parse(cls, given: dict[str, Any]) -> Limits:
        """Raises JailError for an unknown name or a value that is no count."""
        fields = cls.__dataclass_fields__
        for name, value in given.items():
            if name not in fields:
                raise JailError(f"unknown limit {name!r} (known: {', '.join(fields)})")
            wanted = bool if name == "gpu" else int
            if type(value) is not wanted or value < 0:
                raise JailError(f"the limit {name} must be a {wanted.__name__} of at least 0")
        return cls(**given)


@dataclass(frozen=True)
class Descriptors:
    """The zygote's ends of nothing: what is handed to the reaper and the child."""

    status: int
    control: int
    output: int
    keep: tuple[int, ...]


@dataclass(frozen=True)
class Message:
    """A message of the reaper or of the child about to run. code: an errno or a wait status."""

    kind: int
    code: int
    flags: int
    peak_kb: int
    stage: str

    SIZE = _MESSAGE.size

    @classmethod
    def parse(cls, data: bytes) -> Message:
        kind, code, flags, _reserved, peak_kb, stage = _MESSAGE.unpack(data)
        return cls(kind, code, flags, peak_kb, stage.rstrip(b"\0").decode("ascii", "replace"))

    def failure(self) -> str:
        return f"{self.stage} failed: {os.strerror(self.code)}"


def describe(flags: int) -> dict[str, Any]:
    """The `isolation` object of an answer: what the walls really were."""
    namespaces = bool(flags & _PID)
    guarded = bool(flags & _SECCOMP)
    return {
        "level": "namespaces" if namespaces else "subreaper",
        "pid": "namespace" if namespaces else "subreaper",
        "proc": "private" if flags & _PROC else "shared",
        "user": "namespace" if flags & _USER else "shared",
        "network": "none" if flags & _NETWORK else "refused" if guarded else "open",
        "filesystem": "private" if flags & _MOUNTS else "landlock" if flags & _LANDLOCK else "open",
        "seccomp": guarded,
    }


def _strings(values: Sequence[str]) -> Any:
    encoded = [os.fsencode(value) for value in values]
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _spellings(path: str) -> set[str]:
    """An absolute path as written and without symbolic links; nothing for another one."""
    return {os.path.normpath(path), os.path.realpath(path)} if path.startswith("/") else set()


def hidden_places() -> list[str]:
    """Real paths of what is shown empty, each outside the others."""
    homes = [pwd.getpwuid(os.getuid()).pw_dir] if _has_entry() else []
    homes.append(os.environ.get("HOME", ""))
    homes = [
        home for home in homes if home.startswith("/") and os.path.realpath(home) not in _SYSTEM
    ]
    found = {os.path.realpath(path) for path in (*_HIDDEN, *homes) if os.path.exists(path)}
    return sorted(
        path for path in found if not any(path != other and _under(path, other) for other in found)
    )


def _has_entry() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _visible_around(hidden: Sequence[str], folder: str = "/") -> list[str]:
    """The fewest paths that together hold everything under `folder` but the hidden places."""
    if folder in hidden or folder == "/dev":  # device nodes are listed one by one
        return []
    if not any(_under(place, folder) for place in hidden) and folder != "/":
        return [folder]
    paths = []
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    for entry in entries:
        if not entry.is_symlink():  # Landlock follows the target, not the link
            paths += _visible_around(hidden, entry.path)
    return paths


def interpreter_paths() -> list[str]:
    """Folders that this Python needs: itself, what it was made from, and its packages."""
    return [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.executable, *sys.path]


class Jail:
    """Starts children. One per zygote; not thread-safe.

    isolation: "auto", "namespaces" or "subreaper". After probe(), `namespaces` says what is used.
    """

    def __init__(self, library: Path, isolation: str, worker_dir: Path) -> None:
        """Raises JailError when the library cannot be loaded or belongs to another release."""
        try:
            # PyDLL keeps the interpreter's lock over the fork, as os.fork does.
            self._library = ctypes.PyDLL(str(library))
            spec_size = self._library.ke_jail_spec_size()
            message_size = self._library.ke_jail_message_size()
        except (OSError, AttributeError) as error:
            raise JailError(f"cannot load the jail library {library}: {error}") from None
        if spec_size != ctypes.sizeof(_Spec) or message_size != _MESSAGE.size:
            raise JailError(f"the jail library {library} is of another release; reinstall both")
        self._library.ke_jail_spawn.argtypes = [ctypes.POINTER(_Spec)]
        self._isolation = isolation
        self._hidden = hidden_places()
        self._own_paths = [*interpreter_paths(), str(worker_dir)]
        self._visible = _visible_around(self._hidden)
        self.namespaces = isolation != "subreaper"

    def needs_private_folder(self) -> bool:
        """True when a child's temporary folder is a real one that the zygote makes and removes."""
        return not self.namespaces

    def _bind_list(self, scratch: str, readable: Sequence[str], temporary: str) -> list[_Bind]:
        """What is needed of the hidden places, as spelled and as it really is, and what may be
        written; parents before children."""
        wanted: dict[str, bool] = {}
        for path in (*self._own_paths, *readable):
            for spelling in _spellings(path):
                # The places that everybody may write stay private as a whole.
                if spelling not in _SHARED and self._is_hidden(spelling):
                    wanted[spelling] = False
        for path in (scratch, temporary if self.needs_private_folder() else ""):
            wanted.update(dict.fromkeys(_spellings(path), True))
        binds: list[tuple[str, bool]] = []
        for path, writable in sorted(wanted.items()):
            if writable or not any(_under(path, other) for other, _ in binds):
                binds.append((path, writable))
        return [_Bind(os.fsencode(path), int(rw), int(not rw)) for path, rw in binds]

    def _is_hidden(self, path: str) -> bool:
        return any(_under(path, place) for place in self._hidden)

    def spawn(
        self,
        descriptors: Descriptors,
        limits: Limits,
        scratch: str,
        readable: Sequence[str],
        temporary: str,
    ) -> int:
        """Forks. Returns the reaper's pid, and 0 in the child. Raises JailError."""
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            raise JailError(f"the worker has {threads} threads and cannot fork safely")
        binds = self._bind_list(scratch, readable, temporary)
        devices = [*_DEVICES, *(sorted(glob.glob("/dev/nvidia*")) if limits.gpu else ())]
        python = ctypes.pythonapi
        hooks = (python.PyOS_BeforeFork, python.PyOS_AfterFork_Parent, python.PyOS_AfterFork_Child)
        spec = _Spec(
            version=_VERSION,
            namespaces=int(self.namespaces),
            memory_bytes=limits.memory_mb * _MIB,
            tmp_bytes=limits.tmp_mb * _MIB,
            file_bytes=4096 * _MIB,
            max_processes=limits.processes,
            max_open_files=1024,
            status_fd=descriptors.status,
            control_fd=descriptors.control,
            output_fd=descriptors.output,
            keep_count=len(descriptors.keep),
            gpu=int(limits.gpu),
            keep_fds=(ctypes.c_int32 * len(descriptors.keep))(*descriptors.keep),
            hidden=_strings(self._hidden),
            devices=_strings(devices),
            binds=(_Bind * len(binds))(*binds),
            bind_count=len(binds),
            visible_count=len(self._visible),
            visible=_strings(self._visible),
            work_dir=os.fsencode(scratch or temporary),
        )
        spec.before_fork, spec.after_fork_parent, spec.after_fork_child = (
            ctypes.cast(hook, ctypes.c_void_p).value for hook in hooks
        )
        pid = self._library.ke_jail_spawn(ctypes.byref(spec))
        if pid < 0:
            what = "a child in namespaces of its own" if self.namespaces else "a child"
            raise JailError(f"cannot start {what}: {os.strerror(-pid)}")
        return pid

    def sweep(self, spared: Sequence[int]) -> None:
        """Ends every descendant but the given reapers and theirs. Without namespaces only."""
        array = (ctypes.c_int32 * len(spared))(*spared)
        self._library.ke_jail_sweep(array, len(spared), 1000)

    def probe(self, temporary: str) -> int:
        """Starts an empty child and returns its flags; falls back when "auto" allows it.

        Raises JailError when the wanted level cannot be had.
        """
        try:
            return self._try(temporary)
        except JailError as error:
            if self._isolation == "namespaces":
                raise JailError(
                    f"this machine does not give the namespaces that isolation asks for ({error})"
                ) from None
            if not self.namespaces:
                raise
            self.namespaces = False
            return self._try(temporary)

    def _try(self, temporary: str) -> int:
        status_read, status_write = os.pipe2(os.O_CLOEXEC)
        control_read, control_write = os.pipe2(os.O_CLOEXEC)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        pid = -1
        try:
            ends = Descriptors(status_write, control_read, null, ())
            pid = self.spawn(ends, Limits(), "", (), temporary if not self.namespaces else "/tmp")
            if pid == 0:
                os._exit(0)
            os.close(status_write)
            status_write = -1
            data = b""
            while chunk := os.read(status_read, 4096):
                data += chunk
        finally:
            for fd in (status_read, status_write, control_read, control_write, null):
                if fd >= 0:
                    os.close(fd)
            if pid > 0:
                os.waitpid(pid, 0)
        messages = [
            Message.parse(data[at : at + Message.SIZE])
            for at in range(0, len(data) - Message.SIZE + 1, Message.SIZE)
        ]
        for message in messages:
            if message.kind == FAILED:
                raise JailError(message.failure())
        if [message.kind for message in messages] != [READY, EXITED]:
            raise JailError("the first process of the jail died")
        if messages[1].code != 0:
            raise JailError(f"a child in the jail ended with status {messages[1].code}")
        return messages[0].flags


def become_guardian() -> None:
    """Makes this process inherit orphans, and unreadable to other processes of its user."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    set_dumpable, set_child_subreaper = 4, 36
    prctl(set_dumpable, 0, 0, 0, 0)
    prctl(set_child_subreaper, 1, 0, 0, 0)


def signal_text(number: int) -> str:
    """ "signal 11 (Segmentation fault)"."""
    return f"signal {number} ({signal.strsignal(number) or 'unknown'})"
