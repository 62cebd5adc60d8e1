"""Turns a launch tape into a plan for a replay: addresses, bytes of arguments, kernels' files.

A tape was written by the process that ran the candidate, so nothing in it is believed: references
are checked against their buffers, arguments against the parameters of the machine code, and the
machine code against what a kernel may contain. See REPLAY.md for the plan.
"""

from __future__ import annotations

import ctypes
import math
import re
import struct
from dataclasses import dataclass, field
from typing import Any

from evaluator_gpu import descriptors, elf
from kernel_evolve_worker.recording.operators import operator_named, refusal
from kernel_evolve_worker.recording.tape import (
    Tape, TapeError, decode_value, dtype_named, tree_refs)

MAX_BYTES = 64 << 30  # of all buffers of a tape
# What a launch may ask for that a plain launch can't give.
_SPECIAL = {"num_ctas": "a cluster of programs", "launch_cooperative_grid": "a cooperative launch",
            "launch_pdl": "a programmatic dependent launch"}
# Text of a kernel in which it leaves what the language says: clocks, addresses, anything.
_INLINE = re.compile(r"elementwise_inline_asm|inline_asm")
_MOST_WARPS = 32
_MOST_SHARED = 1 << 20  # bytes; the driver knows the device's own limit
_SCALARS = {"i1": "<b", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "u1": "<B", "u8": "<B",
            "u16": "<H", "u32": "<I", "u64": "<Q", "fp16": "<e", "fp32": "<f", "f32": "<f",
            "fp64": "<d"}
# Operators that only fill a fresh or whole tensor, and the byte they fill it with where it is zero.
_ZEROS = ("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default",
          "aten.zero_.default")
_FULL = ("aten.full.default", "aten.full_like.default", "aten.new_full.default",
         "aten.fill_.Scalar")


class NotReplayable(Exception):
    """The tape needs what no replay can do; the text says what."""


# Operators that add in no fixed order on a GPU, as PyTorch's notes on reproducibility list them.
_UNORDERED = ("aten.index_add", "aten.index_put", "aten._index_put_impl", "aten.index_reduce",
              "aten.put", "aten.scatter_add", "aten.scatter_reduce", "aten.histc", "aten.bincount",
              "aten.cumsum", "aten.kthvalue", "aten.median", "aten.nanmedian", "aten.ctc_loss",
              "aten._ctc_loss", "aten.nll_loss2d", "aten.embedding_bag", "aten._embedding_bag")
# Scratch memory holds tensor maps, which are aligned to this.
_SCRATCH_UNIT = 128


class _NeedsPyTorch(Exception):
    """The tape needs an operator of PyTorch; the text says which."""


@dataclass
class Plan:
    """`text`: what a replay loads. `names`: buffers' numbers by name. `data`, `fetch`: where a
    buffer's first content and its result lie in the shared memory, by name. `shared_bytes`: its
    size. `hashed`: whether every output is covered by the hashes. `pytorch`: what needs PyTorch's
    replay; None where ke_replay can do all. `repeats`: whether PyTorch's part gives the same bits
    each time."""

    text: dict[str, Any]
    names: dict[str, int]
    data: dict[str, int] = field(default_factory=dict)
    fetch: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    hashed: bool = True
    pytorch: str | None = None
    repeats: bool = True


# What reading a tape raises that isn't what it should be.
_ODD = (AttributeError, IndexError, KeyError, OSError, OverflowError, RuntimeError, TypeError,
        ValueError, struct.error)


def make_plan(tape: Tape) -> Plan:
    """Raises NotReplayable, or TapeError for a tape that contradicts itself."""
    try:
        try:
            return _plan(tape, None)
        except _NeedsPyTorch as reason:
            return _plan(tape, str(reason))
    except TapeError:
        raise
    except _ODD as error:
        raise TapeError(f"the tape makes no sense ({type(error).__name__})") from None


def _plan(tape: Tape, pytorch: str | None) -> Plan:
    plan = Plan({"buffers": [], "kernels": [], "steps": [], "results": []}, {}, pytorch=pytorch)
    _place_buffers(tape, plan)
    if pytorch is not None:
        plan.text.update(names=plan.names, unused=_unused(tape, plan), late=[
            plan.names[name] for name, buffer in tape.buffers.items() if buffer["origin"] == "op"])
        plan.repeats = not any(str(step.get("name")).startswith(_UNORDERED) for step in tape.steps)
    for ref in [*filter(None, tape.inputs), *(entry["ref"] for entry in tape.state)]:
        check_ref(tape, ref)
        if ref["buffer"] not in plan.data:
            raise TapeError("the tape has an input in memory that is nobody's")
    numbers = {}
    for name, kernel in tape.kernels.items():
        numbers[name] = len(plan.text["kernels"])
        plan.text["kernels"].append(_kernel(tape, name, kernel))
    for step in tape.steps:
        if step["op"] == "launch":
            plan.text["steps"].append(_launch(tape, plan, step, numbers))
        else:
            plan.text["steps"].append(_fill(tape, plan, step) if pytorch is None
                                      else _operator(tape, step))
    for ref in tree_refs(tape.outputs):
        span = _span(tape, ref)
        if span is None:
            plan.hashed = False
            continue
        plan.text["results"].append(
            {"buffer": plan.names[ref["buffer"]], "offset": span[0], "bytes": span[1]})
    return plan


# -- buffers --------------------------------------------------------------------------------------


def _place_buffers(tape: Tape, plan: Plan) -> None:
    total = sum(int(b["bytes"]) for b in tape.buffers.values())
    if total > MAX_BYTES:
        raise NotReplayable(f"{total / 2**30:.0f} GiB of buffers")
    place = 0

    def take(size: int) -> int:
        nonlocal place
        start, place = place, place + -(-size // 256) * 256
        return start

    wanted = {ref["buffer"] for ref in tree_refs(tape.outputs)}
    for name, description in tape.buffers.items():
        size = int(description["bytes"])
        if size < 0:
            raise TapeError(f"the tape's buffer {name} has a negative size")
        entry: dict[str, Any] = {"bytes": size}
        if description["origin"] in ("input", "state", "constant"):
            entry["data"] = plan.data[name] = take(size)
            wanted.add(name)
        plan.names[name] = len(plan.text["buffers"])
        plan.text["buffers"].append(entry)
    for name in sorted(wanted, key=plan.names.__getitem__):
        plan.fetch[name] = take(int(tape.buffers[name]["bytes"]))
    plan.shared_bytes = max(4096, place)


def check_ref(tape: Tape, ref: dict[str, Any]) -> int:
    """The bytes from the buffer's start to the tensor's last element; raises TapeError outside."""
    buffer = tape.buffers.get(ref["buffer"])
    if buffer is None:
        raise TapeError(f"the tape names the unknown buffer {ref['buffer']}")
    size = dtype_named(ref["dtype"]).itemsize
    shape, stride, offset = ref["shape"], ref["stride"], ref["offset"]
    if len(shape) != len(stride) or not all(type(n) is int and n >= 0
                                            for n in (*shape, *stride, offset)):
        raise TapeError("the tape has a reference that makes no sense")
    if math.prod(shape) == 0:
        if offset * size > buffer["bytes"]:
            raise TapeError(f"the tape has a reference outside its buffer {ref['buffer']}")
        return offset * size
    last = offset + sum((n - 1) * s for n, s in zip(shape, stride))
    if (last + 1) * size > buffer["bytes"]:
        raise TapeError(f"the tape has a reference outside its buffer {ref['buffer']}")
    return (last + 1) * size


def _span(tape: Tape, ref: dict[str, Any]) -> tuple[int, int] | None:
    """Offset and length in bytes of a tensor without gaps; None for one with gaps."""
    end = check_ref(tape, ref)
    size = dtype_named(ref["dtype"]).itemsize
    dims = sorted((s, n) for n, s in zip(ref["shape"], ref["stride"]) if n != 1)
    expected = 1
    for stride, count in dims:
        if stride != expected:
            return None
        expected *= count
    start = ref["offset"] * size
    return start, end - start


# -- kernels --------------------------------------------------------------------------------------


def _kernel(tape: Tape, name: str, kernel: dict[str, Any]) -> dict[str, Any]:
    metadata = kernel.get("metadata") or {}
    for key, what in _SPECIAL.items():
        value = metadata.get(key)
        if value not in (None, False, 0, 1) or (value is True):
            raise NotReplayable(f"{what} (kernel {kernel.get('name')})")
    if _INLINE.search(kernel["ttir"]):
        raise NotReplayable(f"inline assembly in the kernel {kernel.get('name')}")
    warps, shared = int(metadata.get("num_warps") or 4), int(metadata.get("shared") or 0)
    if not 1 <= warps <= _MOST_WARPS or not 0 <= shared <= _MOST_SHARED:
        raise TapeError(f"the kernel {kernel.get('name')} has {warps} warps and {shared} bytes")
    path = tape.cubin_path(name)
    try:
        image = elf.Image(path.read_bytes())
        found = image.kernel(str(kernel["name"]))
    except elf.NotAllowed as error:
        raise NotReplayable(f"{error} (kernel {kernel.get('name')})") from None
    return {"cubin": str(path), "name": str(kernel["name"]),
            "shared": shared, "threads": 32 * warps, "fresh": image.lasting, "sizes": found,
            "digest": image.digest()}


def _launch(tape: Tape, plan: Plan, step: dict[str, Any], numbers: dict[str, int]) -> \
        dict[str, Any]:
    number = numbers.get(step["kernel"])
    if number is None:
        raise TapeError(f"the tape launches the unknown kernel {step['kernel']}")
    kernel = tape.kernels[step["kernel"]]
    sizes = plan.text["kernels"][number]["sizes"]
    metadata = kernel.get("metadata") or {}
    grid = [int(n) for n in step["grid"]]
    if len(grid) != 3 or not all(0 <= n < 1 << 31 for n in grid):
        raise TapeError(f"the kernel {kernel.get('name')} is launched with the grid {grid}")
    maps = iter(metadata.get("tensordesc_meta") or ())
    parameters = []
    for argument in step["args"]:
        parameters += (_descriptor(tape, plan, argument["descriptor"], next(maps, None))
                       if "descriptor" in argument else [_parameter(tape, plan, argument)])
    given = len(parameters)
    parameters += _appended(plan, metadata, grid, len(sizes) - given)
    for parameter, size in zip(parameters, sizes):
        if _size_of(parameter) != size:
            raise TapeError(f"the kernel {kernel.get('name')} has other parameters than its launch")
    if len(parameters) != len(sizes):
        raise TapeError(f"the kernel {kernel.get('name')} has {len(sizes)} parameters and is "
                        f"launched with {given}")
    return {"kernel": number, "grid": grid, "parameters": parameters}


def _size_of(parameter: dict[str, Any]) -> int:
    """In bytes, as the kernel takes it."""
    if "buffer" in parameter:
        return descriptors.BYTES if "map" in parameter else 8
    return len(parameter["value"]) // 2


def _appended(plan: Plan, metadata: dict[str, Any], grid: list[int], count: int) -> \
        list[dict[str, Any]]:
    """The pointers that the compiler appends: to scratch memory for all programs of a launch, and
    to a profiler's."""
    nothing = {"value": "00" * 8}
    scratch = int(metadata.get("global_scratch_size") or 0)
    if not scratch or count != 2 or 0 in grid:
        return [nothing] * min(max(count, 0), 2)
    size = scratch * math.prod(grid)
    if size > MAX_BYTES:
        raise NotReplayable(f"{size / 2**30:.0f} GiB of scratch memory")
    number = len(plan.text["buffers"])
    plan.text["buffers"].append({"bytes": -(-size // _SCRATCH_UNIT) * _SCRATCH_UNIT})
    return [{"buffer": number, "offset": 0}, nothing]


def _descriptor(tape: Tape, plan: Plan, given: dict[str, Any], made: Any) -> list[dict[str, Any]]:
    """The parameters that stand for a tensor descriptor: the map, its shape, its strides."""
    try:
        placed = _parameter(tape, plan, given)
        return [{**placed, "map": descriptors.tensor_map(given, made)},
                *({"value": scalar_bytes(n, "i32").hex()} for n in given["shape"]),
                *({"value": scalar_bytes(n, "i64").hex()} for n in given["strides"])]
    except descriptors.Unknown as reason:
        raise NotReplayable(str(reason)) from None


def _parameter(tape: Tape, plan: Plan, argument: dict[str, Any]) -> dict[str, Any]:
    if "tensor" in argument:
        ref = argument["tensor"]
        check_ref(tape, ref)
        return {"buffer": plan.names[ref["buffer"]],
                "offset": ref["offset"] * dtype_named(ref["dtype"]).itemsize}
    value, kind = argument["scalar"], argument["type"]
    if isinstance(value, dict):
        value = float(value["float"])
    return {"value": scalar_bytes(value, kind).hex()}


def scalar_bytes(value: Any, kind: str) -> bytes:
    """The bytes of a kernel's argument as Triton passes it. Raises NotReplayable, ValueError."""
    if kind == "bf16":
        return bytes(ctypes.c_float(value))[2:]  # Triton cuts off, it does not round
    code = _SCALARS.get(kind)
    if code is None:
        raise NotReplayable(f"an argument of type {kind}")
    if code[1] == "f":
        return bytes(ctypes.c_float(value))  # infinite where it is too large; struct refuses
    if code[1] == "e":
        try:
            return struct.pack(code, value)
        except OverflowError:  # as when Triton launches it
            raise NotReplayable(f"the argument {value}, too large for {kind}") from None
    if code[1] == "d":
        return struct.pack(code, value)
    size = struct.calcsize(code)
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


# -- operators ------------------------------------------------------------------------------------


def _fill(tape: Tape, plan: Plan, step: dict[str, Any]) -> dict[str, Any]:
    """A fill, the one kind of operator that needs no PyTorch. Raises _NeedsPyTorch."""
    name = str(step["name"])
    target = next((ref for ref in step["out"] if ref), None)
    value = 0 if name in _ZEROS else _filling(name, step)
    if target is None or value is None:
        raise _NeedsPyTorch(name)
    span = _span(tape, target)
    byte = _byte_of(value, target["dtype"])
    if span is None or byte is None:
        raise _NeedsPyTorch(name)
    return {"fill": byte, "buffer": plan.names[target["buffer"]], "offset": span[0],
            "bytes": span[1]}


def _operator(tape: Tape, step: dict[str, Any]) -> dict[str, Any]:
    """An operator as the tape has it, if it is one that recording takes."""
    name = str(step["name"])
    found = operator_named(name)
    # Whether a dropout drops was seen when it was recorded.
    if found is None or refusal(found, drops=False) is not None:
        raise NotReplayable(f"the operator {name}")
    for ref in [*_reads(step), *filter(None, [*step["out"], *step.get("writes", [])])]:
        check_ref(tape, ref)
    return {"aten": step}


def _reads(step: dict[str, Any]) -> list[dict[str, Any]]:
    """The references among an operator's arguments."""
    found: list[dict[str, Any]] = []
    for value in (step["args"], *step["kwargs"].values()):
        decode_value(value, found.append)
    return found


def _unused(tape: Tape, plan: Plan) -> list[int]:
    """Buffers that no step reads and no output shows: workspaces of PyTorch's operators."""
    used = {ref["buffer"] for ref in tree_refs(tape.outputs)}
    for step in tape.steps:
        refs = _reads(step) if step["op"] == "aten" else [
            argument.get("descriptor", argument)["tensor"] for argument in step["args"]
            if "scalar" not in argument]
        used.update(ref["buffer"] for ref in refs)
    return [number for name, number in plan.names.items() if name not in used]


def _filling(name: str, step: dict[str, Any]) -> Any:
    if name not in _FULL or len(step["args"]) < 2:
        return None
    value = step["args"][-1] if name == "aten.new_full.default" else step["args"][1]
    return value if isinstance(value, (int, float, bool)) else None


def _byte_of(value: Any, dtype: str) -> int | None:
    """The byte that repeats in `value` of type `dtype`, or None."""
    import torch

    raw = torch.tensor([value]).to(dtype_named(dtype)).view(torch.uint8).tolist()
    return raw[0] if len(set(raw)) == 1 else None
