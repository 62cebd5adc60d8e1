"""Sentences and lines for the author of a candidate: what failed, where, and what limits it.

What evaluators have in common is in `correctness.wording`.
"""

from __future__ import annotations

from typing import Any

from evaluator_simulator import hardware as hw
from evaluator_simulator.model import KernelShape, LaunchTime

_ADVICE = {
    "out_of_bounds_load": "mask the load against the real size",
    "out_of_bounds_store": "mask the store against the real size",
    "uninitialised": "write the buffer before it is read, or make it with torch.zeros",
    "unwritten": "check that the grid and the masks cover every element",
    "race": "give each element one writer, or use tl.atomic_add",
    "false_hint": "remove the hint or make it true",
}


def fault_sentence(fault: dict[str, Any], kernel_name: str | None) -> str:
    """One sentence about a fault of the execution, with the candidate's own line."""
    kind, count = str(fault.get("kind")), int(fault.get("count") or 1)
    who = f"kernel {kernel_name}" if kernel_name else "forward"
    what = fault.get("param") or "a buffer"
    extent, offset = fault.get("extent"), fault.get("offset")
    lanes = f"{count} element{'s' if count != 1 else ''}"
    at = f", first at element {offset} of {extent}" if offset is not None else ""
    text = {
        "out_of_bounds_load": f"{who} reads outside {what} ({lanes}{at})",
        "out_of_bounds_store": f"{who} writes outside {what} ({lanes}{at})",
        "uninitialised": f"{who} reads {lanes} of {what} that nothing has written{at}",
        "unwritten": f"{lanes} of the output stay unwritten{at}",
        "race": f"{who} has a race on {what}: two programs use the same element ({lanes}{at})",
        "false_hint": f"{who} gives the compiler a hint about {what} that is not true",
    }.get(kind, f"{who}: {kind.replace('_', ' ')} on {what} ({lanes}{at})")
    program = fault.get("program")
    where = f", program {list(program)}" if program is not None and kind != "unwritten" else ""
    line = f", line {fault['line']}" if fault.get("line") else ""
    advice = _ADVICE.get(kind)
    return f"{text}{where}{line}{': ' + advice if advice else ''}."


def fault_code(fault: dict[str, Any]) -> str:
    """The verdict's code for a fault."""
    kind = str(fault.get("kind"))
    return "out_of_bounds" if kind.startswith("out_of_bounds") else kind


def kernel_lines(name: str, line: int | None, time: LaunchTime, shape: KernelShape) -> list[str]:
    """Two lines about one launch: what it takes, and what the compiler made of it."""
    where = f" (line {line})" if line else ""
    first = (f"kernel {name}{where}: {milliseconds(time.seconds * 1e3)} modelled, limited by "
             f"{_BOUND[time.bound]}; {time.bandwidth_share:.0%} of peak bandwidth, "
             f"{time.arithmetic_share:.0%} of peak arithmetic")
    second = (f"  {shape.registers} registers per thread, "
              f"{f'{shape.spills} bytes spilled' if shape.spills else 'no spills'}, "
              f"{shape.shared_bytes} bytes shared; {time.occupancy.programs} programs per SM, "
              f"limited by {time.occupancy.limiter} (occupancy {time.occupancy.share:.0%}), "
              f"{time.waves:.1f} waves on {hw.SMS} SMs")
    return [first, second, *_hints(time, shape)]


_BOUND = {
    "launch": "the launch itself",
    "memory": "memory bandwidth",
    "l2": "L2 bandwidth: programs ask for the same bytes again",
    "sectors": "accesses that use few bytes of each sector: let neighbours of a tile lie together",
    "atomics": "atomics: fewer, or spread over more places",
    "programs": "the rate at which programs start: fewer, larger ones",
    "latency": "loads that wait for each other: fewer turns of a loop or more programs",
    "sm": "too few bytes in flight per SM: more or larger programs",
    "arithmetic": "arithmetic",
}


def _hints(time: LaunchTime, shape: KernelShape) -> list[str]:
    hints = []
    if shape.spills:
        hints.append("  registers spill to memory: use smaller tiles or more warps")
    if time.waves < 0.5 and time.bound in ("sm", "arithmetic"):
        hints.append(f"  the grid fills only {time.waves:.0%} of the GPU: split the work further")
    return hints


def milliseconds(value: float) -> str:
    """ "0.0516 ms": four significant digits."""
    return f"{value:.4g} ms"
