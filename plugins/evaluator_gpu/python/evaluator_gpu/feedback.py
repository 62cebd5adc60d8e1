"""Sentences and lines for the author of a candidate that a GPU ran."""

from __future__ import annotations

import re
from typing import Any

from evaluator_gpu import constants
from evaluator_gpu.replayer import Fault

# CUDA's errors of a step, as (code of the verdict, what the kernel did).
_FAULTS = {
    1: ("out_of_resources", "is launched with more than the GPU has"),
    700: ("out_of_bounds", "reads or writes outside its tensors: mask every access against the "
                           "real size"),
    701: ("out_of_resources", "needs more registers or shared memory than the GPU has: use "
                              "smaller blocks or fewer warps"),
    710: ("device_assert", "stops at an assertion of its own"),
    716: ("misaligned", "uses an address that is not aligned: check offsets and hints"),
}
# A hint on an operation's value; those on a kernel's arguments are the launcher's own.
_PROMISE = re.compile(r"tt\.(?:contiguity|divisibility|constancy) = dense<|llvm\.intr\.assume")
_REGISTERS, _SHARED, _THREADS, _PROGRAMS = 65536, 228 << 10, 2048, 32  # per SM, sm_90


def fault(error: Fault, tape: Any) -> tuple[str, str]:
    """(code, sentence) of a step that the device refused or stopped."""
    name, line = _kernel_of(error.step, tape)
    who = f"kernel {name}" if name else "forward"
    at = f" (line {line})" if line else ""
    code, what = _FAULTS.get(error.code, ("crashed", f"is stopped by the GPU: {error}"))
    return code, f"{who}{at} {what}."


def _kernel_of(step: int, tape: Any) -> tuple[str | None, int | None]:
    if not 0 <= step < len(tape.steps) or tape.steps[step]["op"] != "launch":
        return None, None
    kernel = tape.kernels[tape.steps[step]["kernel"]]
    return kernel.get("name"), kernel.get("line")


def host_notes(tape: Any, optimized_ms: float | None, eager_calls: int) -> list[str]:
    """What the clock doesn't see: the work of the host in forward. eager_calls: what the task's own
    forward makes."""
    notes = []
    copies = tape.host.get("host_copies")
    if isinstance(copies, int) and copies > 0:
        notes.append(f"forward copies {copies} tensor{'s' if copies > 1 else ''} from the host to "
                     "the device, which is not in the measured time")
    calls = len(tape.steps)
    host_ms = calls * constants.HOST_CALL_MS
    if optimized_ms is not None and calls > eager_calls and host_ms > optimized_ms:
        notes.append(f"forward makes {calls} calls where eager makes {eager_calls}; the host needs "
                     f"about {milliseconds(host_ms)} for them, which is not in the measured time")
    return notes


def has_promises(tape: Any) -> bool:
    """Whether a kernel tells the compiler something that the compiler doesn't check."""
    return any(_PROMISE.search(kernel["ttir"]) for kernel in tape.kernels.values())


def adds_floats(tape: Any) -> bool:
    """Whether a kernel adds floats atomically, in an order that is another one each time."""
    return any("atomic_rmw" in kernel["ttir"] and "fadd" in kernel["ttir"]
               for kernel in tape.kernels.values())


def milliseconds(value: float) -> str:
    """ "0.0123 ms"."""
    return f"{value:.4g} ms"


def kernel_entries(tape: Any, plan: dict[str, Any], resources: list[dict[str, Any]]) -> \
        list[dict[str, Any]]:
    """The verdict's list of kernels, with what the driver says of each."""
    grids = {step["kernel"]: step["grid"] for step in tape.launches}
    found = []
    for (key, kernel), planned, given in zip(tape.kernels.items(), plan["kernels"], resources,
                                             strict=True):
        shared = planned["shared"] + given["static_shared_bytes"]
        found.append({
            "name": kernel.get("name"), "grid": grids.get(key),
            "num_warps": planned["threads"] // 32,
            "num_stages": (kernel.get("metadata") or {}).get("num_stages"),
            "registers": given["registers"], "spills": given["local_bytes"],
            "shared_bytes": shared, "line": kernel.get("line"),
            "programs_per_sm": given["programs_per_sm"],
            "limiter": _limiter(planned["threads"], given["registers"], shared)})
    return found


def _limiter(threads: int, registers: int, shared: int) -> str:
    """What keeps more programs from one SM."""
    fits = {"registers": _REGISTERS // max(1, threads * -(-registers // 8) * 8),
            "threads": _THREADS // max(1, threads), "programs": _PROGRAMS}
    if shared:
        fits["shared memory"] = _SHARED // (shared + 1024)
    return min(fits, key=lambda name: fits[name])


def kernel_lines(kernels: list[dict[str, Any]]) -> list[str]:
    """One line a kernel."""
    return [f"kernel {k['name']} (line {k['line']}): {k['registers']} registers, "
            f"{k['spills']} bytes spilled, {k['shared_bytes']} bytes shared, "
            f"{k['programs_per_sm']} programs per SM (limited by {k['limiter']}), grid {k['grid']}"
            for k in kernels[:12]]
