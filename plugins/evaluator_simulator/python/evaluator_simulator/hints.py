"""Checks what a kernel promised the compiler: tl.multiple_of and its kin, and tl.assume.

The compiler merges lanes into wide accesses where it believes a promise; a false one reads or
writes other addresses on a GPU without any error.
"""

from __future__ import annotations

import math
import re
from typing import Any

import torch

from .ttir_parser import Op

_HINT = re.compile(r"tt\.(contiguity|divisibility|constancy) = dense<(\[[^\]]*\]|\d+)>")


_WIDEST = 16  # bytes of the widest access: more alignment than that changes nothing


def of(op: Op) -> list[tuple[str, list[int]]]:
    """The promises on an operation's result: (kind, value per dimension)."""
    if "hints" not in op.cache:
        rank = max(1, len(op.type.shape))
        op.cache["hints"] = [
            (kind, [int(n) for n in re.findall(r"\d+", text)] * (1 if "[" in text else rank))
            for kind, text in _HINT.findall(op.rest)
        ] if "tt." in op.rest else []
    return op.cache["hints"]


def broken(kind: str, values: list[int], value: torch.Tensor) -> torch.Tensor | None:
    """Lanes of value [P|1, *tile] that break a promise, or None.

    contiguity c: in each group of c lanes every lane is one more than the lane before.
    constancy c: in each group of c lanes all lanes are equal.
    divisibility d: the first lane of each run of consecutive numbers is a multiple of d.
    """
    value = value.to(torch.int64)
    if value.dim() == 1:
        lanes = value % values[0] != 0 if kind == "divisibility" and values[0] > 1 else None
        return lanes if lanes is not None and bool(lanes.any()) else None
    found = None
    for d, number in enumerate(values[: value.dim() - 1]):
        if number <= 1:
            continue
        along = value.movedim(d + 1, -1)
        step = along[..., 1:] - along[..., :-1]
        lanes = torch.zeros(along.shape, dtype=torch.bool)
        if kind == "divisibility":
            starts = torch.ones(along.shape, dtype=torch.bool)
            starts[..., 1:] = step != 1
            lanes = starts & (along % number != 0)
        else:
            inner = torch.arange(1, along.shape[-1]) % number != 0
            lanes[..., 1:] = inner & (step != (1 if kind == "contiguity" else 0))
        lanes = lanes.movedim(-1, d + 1)
        if kind == "divisibility":
            # A run may go along any dimension: a lane must start one in all of them.
            found = lanes if found is None else found & lanes
        elif bool(lanes.any()):
            return lanes
    return found if found is not None and bool(found.any()) else None


def check(run: Any, op: Op, result: Any) -> None:
    """Reports the promises on `op` that `result` breaks."""
    from .values import Affine, Pointer, dense, dtype_of

    if isinstance(result, Pointer):
        value = dense(result.offset)
        if result.buffer is None:
            return
    elif isinstance(result, (torch.Tensor, Affine)):
        value = dense(result)
    else:
        return
    for kind, values in of(op):
        if isinstance(result, Pointer) and kind == "divisibility":
            # Speaks of addresses in bytes; buffers begin at multiples of _WIDEST.
            size = dtype_of(result.element).itemsize
            values = [max(1, math.gcd(number, _WIDEST) // size) for number in values]
        lanes = broken(kind, values, value)
        if lanes is None:
            continue
        if run.active is not None:
            lanes = lanes & run.active.reshape([-1] + [1] * (lanes.dim() - 1))
            if not bool(lanes.any()):
                continue
        run.memory.report_hint(op.line, lanes, value)


def assumed(run: Any, op: Op, condition: torch.Tensor) -> None:
    """Reports the programs in which what tl.assume says doesn't hold."""
    lanes = ~condition.to(torch.bool)
    if run.active is not None:
        lanes = lanes & run.active.reshape([-1] + [1] * (lanes.dim() - 1))
    if bool(lanes.any()):
        run.memory.report_hint(op.line, lanes, condition.to(torch.int64))
