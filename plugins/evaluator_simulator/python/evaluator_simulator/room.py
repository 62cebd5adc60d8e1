"""How much memory this process may still take, and how much a tape's buffers need at once."""

from __future__ import annotations

import resource
from pathlib import Path

from kernel_evolve_worker.recording.tape import Tape

_SHADOW = 4  # bytes per element that a launch writes or that may be unwritten; see memory.py


def available() -> int | None:
    """Bytes that this process may still take, None where nothing says so."""
    status = _table("/proc/self/status")
    bounds = []
    for kind, used in ((resource.RLIMIT_DATA, "VmData"), (resource.RLIMIT_AS, "VmSize")):
        soft = resource.getrlimit(kind)[0]
        if soft != resource.RLIM_INFINITY and used in status:
            bounds.append(soft - status[used])
    machine = _table("/proc/meminfo").get("MemAvailable")
    if machine is not None:
        bounds.append(machine)
    limit, taken = (_number(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    if limit is not None and taken is not None:
        bounds.append(limit - taken + _caches())
    return max(0, min(bounds)) if bounds else None


def needed(tape: Tape, written: set[str], uses: list[set[str]], last_use: dict[str, int],
           adopted: set[str]) -> int:
    """The bytes that buffers take at the worst step.

    written: buffers that steps write. uses: per step, the buffers that it uses. last_use: the step
    after which a buffer goes; others stay. adopted: buffers that are the caller's memory.
    """
    sizes = {}
    for name, buffer in tape.buffers.items():
        size = 0 if name in adopted else buffer["bytes"]
        if buffer["origin"] == "constant":
            size += 2 * buffer["bytes"]  # its content, on its way and kept to compare
        if buffer["origin"] == "empty" or name in written and buffer["origin"] != "op":
            size += _SHADOW * (buffer["bytes"] // max(1, buffer.get("itemsize", 4)))
        sizes[name] = size
    alive = {ref["buffer"] for ref in tape.inputs if ref}
    alive |= {entry["ref"]["buffer"] for entry in tape.state}
    worst = sum(sizes[name] for name in alive)
    for index, used in enumerate(uses):
        alive |= used
        worst = max(worst, sum(sizes[name] for name in alive))
        alive -= {name for name in used if last_use.get(name) == index}
    return worst


def _table(path: str) -> dict[str, int]:
    """Bytes by name, from lines such as "VmData:  12 kB"."""
    found = {}
    try:
        lines = Path(path).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
            found[name] = int(words[0]) * 1024
    return found


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or "max"
        return None


def _caches() -> int:
    """Bytes of files that the kernel would drop from a full group."""
    try:
        lines = Path("/sys/fs/cgroup/memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
