"""Which launches of a tape matter: what they write reaches an output, directly or through others.

Whole buffers are followed, from the last step back to the first. A step that replaces a whole
buffer ends what earlier steps wrote into it.
"""

from __future__ import annotations

import math
from typing import Any

from kernel_evolve_worker.recording.tape import Tape, decode_value, dtype_named, tree_refs

# Operators that replace all of their first argument without reading it.
OVERWRITES = ("aten.copy_.", "aten.zero_.", "aten.fill_.")


def reaching(tape: Tape, wrote: dict[int, set[str]], read: dict[int, set[str]]) -> set[int]:
    """The indices of the launches whose results reach an output, an input or a weight.

    wrote, read: per launch, by the index of its step, the buffers that it wrote and may have read.
    """
    live = {ref["buffer"] for ref in tree_refs(tape.outputs)}
    live |= {ref["buffer"] for ref in tape.inputs if ref}
    live |= {entry["ref"]["buffer"] for entry in tape.state}
    found: set[int] = set()
    for index in reversed(range(len(tape.steps))):
        step = tape.steps[index]
        if step["op"] == "launch":
            if wrote.get(index, set()) & live:
                found.add(index)
                live |= read.get(index, set())
            continue
        made = [ref for ref in [*step["out"], *step.get("writes", [])] if ref]
        if not any(ref["buffer"] in live for ref in made):
            continue
        used = _read(step)
        again = {ref["buffer"] for ref in used}
        live -= {ref["buffer"] for ref in made
                 if ref["buffer"] not in again and _covers(ref, tape.buffers[ref["buffer"]])}
        live |= again
    return found


def _read(step: dict[str, Any]) -> list[dict[str, Any]]:
    """The references that an operator reads."""
    refs: list[dict[str, Any]] = []
    decode_value(step["args"], refs.append)
    given = len(refs)
    for value in step["kwargs"].values():
        decode_value(value, refs.append)
    writes = step.get("writes", [])
    replaced = 1 if given and step["name"].startswith(OVERWRITES) else 0
    return refs[replaced:given] + [ref for ref in refs[given:] if ref not in writes]


def _covers(ref: dict[str, Any], buffer: dict[str, Any]) -> bool:
    """Whether a reference is its whole buffer, each element once."""
    step = 1
    for stride, size in sorted(zip(ref["stride"], ref["shape"])):
        if size != 1 and stride != step:
            return False
        step *= size
    count = math.prod(ref["shape"])
    return ref["offset"] == 0 and count * dtype_named(ref["dtype"]).itemsize >= buffer["bytes"]
