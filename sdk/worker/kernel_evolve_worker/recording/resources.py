"""What the compiler gave a kernel: registers, spills, stack, shared memory."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_USAGE = re.compile(r"REG:(\d+)\s+STACK:(\d+)\s+SHARED:(\d+)\s+LOCAL:(\d+)")


def tool(name: str) -> Path | None:
    """A CUDA program that Triton brings along, or None."""
    import triton.backends.nvidia as backend

    path = Path(backend.__file__).parent / "bin" / name
    return path if path.exists() else None


def usage(cubin: bytes, shared: int) -> dict[str, Any]:
    """{"registers", "spills", "stack", "shared_bytes"} of a compiled kernel.

    registers are per thread; spills and stack are bytes per thread (ptxas reports spilled registers
    as stack); shared_bytes is per program and includes the dynamic part, `shared`. Unknown figures
    are None.
    """
    found: dict[str, Any] = {"registers": None, "spills": None, "stack": None,
                             "shared_bytes": shared}
    program = tool("cuobjdump")
    if program is None:
        return found
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            text = subprocess.run([str(program), "-res-usage", file.name], capture_output=True,
                                  text=True, timeout=20, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            return found
    match = _USAGE.search(text)
    if match:
        registers, stack, static, _ = (int(group) for group in match.groups())
        found.update(registers=registers, stack=stack, spills=stack,
                     shared_bytes=max(shared, static))
    return found


def relative_time(resources: dict[str, Any], num_warps: int, programs: int) -> float:
    """A crude cost of a launch for choosing between configurations; only the order matters.

    Idle SMs in the last wave, low occupancy and spilled registers cost; so does a grid of very many
    programs. Constants are an H200's.
    """
    threads = 32 * max(1, num_warps)
    registers = max(16, resources.get("registers") or 32)
    shared = resources.get("shared_bytes") or 0
    resident = min(65536 // (registers * threads), 2048 // threads, 32,
                   233472 // max(1, shared) if shared else 32)
    resident = max(1, resident)
    slots = 132 * resident
    waves = -(-max(1, programs) // slots)
    idle = waves * slots / max(1, programs)
    warps = resident * num_warps
    return (min(idle, 132.0) * max(1.0, 8 / warps) * (1 + (resources.get("spills") or 0) / 64)
            + programs * 1e-6)
