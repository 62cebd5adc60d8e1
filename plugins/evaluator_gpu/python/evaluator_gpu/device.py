"""The GPU as a shared thing: one lock for all processes of the machine, its clocks and users."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernel_evolve_worker.errors import WorkerError

_ADDRESS = 32  # bytes, more than any PCI address has
_WAIT_S = 0.02
_MENTION_S = 2.0
_SM_CLOCK, _MEMORY_CLOCK = 1, 2  # nvmlClockType


_asked = False


def asked() -> bool:
    """Whether this process has asked the driver for something: a fork of it can't use CUDA."""
    return _asked or torch.cuda.is_initialized()


def address(index: int = 0) -> str:
    """The PCI address ("0000:1b:00.0") of device number `index` as CUDA counts them, which brings
    no context up; "" where there is none."""
    device, text = ctypes.c_int(), ctypes.create_string_buffer(_ADDRESS)
    global _asked
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        _asked = True
        failed = (cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), index)
                  or cuda.cuDeviceGetPCIBusId(text, _ADDRESS, device))
    except (OSError, AttributeError):
        return ""
    return "" if failed else text.value.decode("latin-1")


class Device:
    """Device number `index` as CUDA counts them, through NVML where there is one.

    The lock lies on the device's own node in /dev, which every process of the machine has, also
    in a file system and process table of its own. Two containers with nodes of their own do not
    see each other's.
    """

    def __init__(self, bus: str = "") -> None:
        """bus: PCI address, as "0000:1b:00.0"; "" for the first device."""
        self._nvml: Any = None
        self._handle = ctypes.c_void_p()
        minor = ctypes.c_uint(0)
        with contextlib.suppress(OSError, AttributeError):
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if nvml.nvmlInit_v2() == 0:
                find = (nvml.nvmlDeviceGetHandleByPciBusId_v2(bus.encode(),
                                                              ctypes.byref(self._handle))
                        if bus else nvml.nvmlDeviceGetHandleByIndex_v2(
                            0, ctypes.byref(self._handle)))
                if find == 0:
                    self._nvml = nvml
                    nvml.nvmlDeviceGetMinorNumber(self._handle, ctypes.byref(minor))
        self.node = f"/dev/nvidia{minor.value}"

    @contextlib.contextmanager
    def held(self, wait_s: float, say: Callable[[str], None], *, alone: bool) -> Iterator[float]:
        """Inside, the device is ours alone (for a measurement) or shared with others that don't
        measure; yields the seconds waited. Raises WorkerError (unavailable) after wait_s."""
        try:
            fd = os.open(self.node, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            yield 0.0  # no node to lock: a device under another name
            return
        try:
            yield _lock(fd, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, wait_s, say)
        finally:
            os.close(fd)

    def clocks(self) -> dict[str, int]:
        """{"sm_mhz", "memory_mhz"} now; empty without NVML."""
        found = {}
        for key, kind in (("sm_mhz", _SM_CLOCK), ("memory_mhz", _MEMORY_CLOCK)):
            value = ctypes.c_uint()
            if self._nvml and self._nvml.nvmlDeviceGetClockInfo(
                    self._handle, kind, ctypes.byref(value)) == 0:
                found[key] = value.value
        return found

    def throttled(self) -> bool:
        """Whether heat or power holds the clocks down now."""
        reasons = ctypes.c_ulonglong()
        if not self._nvml or self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(
                self._handle, ctypes.byref(reasons)) != 0:
            return False
        return bool(reasons.value & (0x4 | 0x8 | 0x20 | 0x40 | 0x80))

    def others(self, own: int) -> int | None:
        """How many processes beyond `own` hold a context on the device; None if unknown."""
        class Process(ctypes.Structure):
            _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong),
                        ("instance", ctypes.c_uint), ("compute", ctypes.c_uint)]

        count, found = ctypes.c_uint(128), (Process * 128)()
        if not self._nvml:
            return None
        try:
            code = self._nvml.nvmlDeviceGetComputeRunningProcesses_v3(
                self._handle, ctypes.byref(count), found)
        except AttributeError:
            return None
        return max(0, count.value - own) if code == 0 else None


def _lock(fd: int, kind: int, wait_s: float, say: Callable[[str], None]) -> float:
    """Waits for the lock; returns the seconds that took."""
    begin = time.monotonic()
    mentioned = False
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return time.monotonic() - begin
        except OSError:
            waited = time.monotonic() - begin
        if waited > wait_s:
            raise WorkerError("unavailable", "the GPU has been in use by another measurement for "
                              f"{waited:.0f} s; wait for it, or choose another device.")
        if waited > _MENTION_S and not mentioned:
            mentioned = True
            say("waiting for the GPU, which another measurement uses")
        time.sleep(_WAIT_S)
