"""How the operands of an operator lie in memory, and how long ago they were touched.

Machine-independent counts for time models; nothing here knows a device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

_COPIES = ("aten.clone.", "aten.copy_.", "aten._to_copy.", "aten.flip.", "aten.tril.",
           "aten.triu.", "aten.constant_pad_nd.", "aten.repeat.", "aten.contiguous.")
_INDEXED = ("aten.index", "aten.embedding.", "aten.take.", "aten.scatter",
            "aten._index_put", "aten._unsafe_index")
_REDUCTIONS = frozenset({
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "linalg_vector_norm",
    "logsumexp", "max", "mean", "min", "nansum", "prod", "std", "std_mean", "sum", "var",
    "var_mean",
})  # fmt: skip
# Copies that compute each element's place even where both sides lie alike.
_MOVING = ("aten.flip.", "aten.tril.", "aten.triu.")
SECTOR = 32  # bytes of the smallest access to memory
_PAIR = 2 * SECTOR
_LONG_ROW = 512  # shorter rows find the neighbours of a lone element still in the cache


@dataclass(frozen=True)
class Layout:
    """What the shapes and strides of an operator's tensors tell.

    elements: results of a pointwise operator or copy whose operands don't all lie alike; 0: they do
    lone: elements that are read, each with a sector of its own
    skipped: bytes that are read beside the elements because they share sectors with them
    product: (batch, rows, columns) of the result of an operator with arithmetic
    rows: results of a reduction, rows that are normalised or that an index names; width: values of
        each
    across: whether the values of a row lie apart
    """

    elements: int = 0
    lone: int = 0
    skipped: int = 0
    product: tuple[int, int, int] = (0, 0, 0)
    rows: int = 0
    width: int = 0
    across: bool = False


def layout_of(func: Any, name: str, args: Any, inputs: list[torch.Tensor],
              outputs: list[torch.Tensor], flops: int) -> Layout:
    """The layout of a call; name is "aten.add.Tensor"."""
    if not inputs or not outputs:
        return Layout()
    out = outputs[0]
    if flops:
        shape = tuple(out.shape)
        columns = shape[-1] if shape else 1
        rows = shape[-2] if len(shape) > 1 else 1
        return Layout(product=(out.numel() // max(1, rows * columns), rows, columns))
    if torch.Tag.pointwise in func.tags or name.startswith(_COPIES):
        if name.startswith(_INDEXED):
            return _rows(name, args, inputs, out)
        return _elementwise(name, inputs, out)
    return _rows(name, args, inputs, out)


def _elementwise(name: str, inputs: list[torch.Tensor], out: torch.Tensor) -> Layout:
    alike = not name.startswith(_MOVING) and all(_lies_like(x, out) for x in inputs)
    skipped = sum(_skipped(x) for x in inputs)
    if alike:
        return Layout(skipped=skipped)
    fast = next((d for d in reversed(range(out.dim()))
                 if out.stride(d) == 1 and out.shape[d] > 1), None)
    lone = 0
    if fast is not None and out.shape[fast] >= _LONG_ROW:
        for x in inputs:
            d = fast - (out.dim() - x.dim())
            if d >= 0 and x.shape[d] == out.shape[fast] and (
                    x.stride(d) * x.element_size() >= SECTOR) and _unit(x):
                lone += x.numel()
    return Layout(elements=out.numel(), lone=lone, skipped=skipped)


def _lies_like(x: torch.Tensor, out: torch.Tensor) -> bool:
    return (x.dim() == 0 and x.device.type == "cpu" and out.device.type != "cpu") or (
        x.shape == out.shape and all(a == b or n == 1 for a, b, n
                                     in zip(x.stride(), out.stride(), x.shape)))


def _unit(x: torch.Tensor) -> bool:
    """Whether some dimension of x lies element beside element."""
    return any(s == 1 and n > 1 for s, n in zip(x.stride(), x.shape))


def _skipped(x: torch.Tensor) -> int:
    steps = [s for s, n in zip(x.stride(), x.shape) if s > 0 and n > 1]
    if not steps or min(steps) == 1:
        return 0
    size = x.element_size()
    count = math.prod(n for s, n in zip(x.stride(), x.shape) if s > 0)
    return count * (min(min(steps) * size, _PAIR) - size)


def _rows(name: str, args: Any, inputs: list[torch.Tensor], out: torch.Tensor) -> Layout:
    x = inputs[0]
    if x.dim() == 0 or x.numel() == 0:
        return Layout()
    if "layer_norm" in name or "rms_norm" in name:
        named = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else x.shape[-1:]
        width = math.prod(named)
        return Layout(rows=x.numel() // max(1, width), width=width)
    if "softmax" in name:
        dim = args[1] if len(args) > 1 and isinstance(args[1], int) else -1
        width = x.shape[dim]
        return Layout(rows=x.numel() // max(1, width), width=width,
                      across=x.stride(dim) != 1 and width > 1)
    if name.startswith(_INDEXED):
        places = [y for y in inputs if y.dtype in (torch.int64, torch.int32) and y.dim()]
        count = max([y.numel() for y in places], default=0)
        return Layout(rows=count, width=max(1, out.numel() // max(1, count)))
    if out.numel() >= x.numel() or name.split(".")[1] not in _REDUCTIONS:
        return Layout()
    place = 2 if "vector_norm" in name else 1
    given = args[place] if len(args) > place else None
    dims = [given] if isinstance(given, int) else given
    inside = (not isinstance(dims, (list, tuple)) or not dims
              or any(x.stride(d) == 1 for d in dims if -x.dim() <= d < x.dim()))
    return Layout(rows=out.numel(), width=x.numel() // max(1, out.numel()), across=not inside)


class Recency:
    """How much memory a sequence of operators or launches moved since it touched a buffer."""

    def __init__(self) -> None:
        self._moved = 0
        self._last: dict[Any, int] = {}

    def step(self, reads: Mapping[Any, int],
             writes: Mapping[Any, int]) -> tuple[tuple[int, int], ...]:
        """Takes note of a step's bytes by buffer.

        Returns, for each buffer that it reads and that an earlier step touched, the bytes read and
        the bytes that other steps moved since.
        """
        found = tuple((size, self._moved - self._last[key]) for key, size in reads.items()
                      if size and key in self._last)
        self._moved += sum(reads.values()) + sum(writes.values())
        for key in [*reads, *writes]:
            self._last[key] = self._moved
        return found
