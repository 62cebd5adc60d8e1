"""Regular accesses as strided views of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .values import Affine


@dataclass
class Window:
    """The elements that one access names, as a strided view: [*box, *tile] of the flat buffer."""

    sizes: list[int]
    strides: list[int]
    offset: int
    programs: int  # 1 where all programs name the same elements
    tile: tuple[int, ...]

    def of(self, flat: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(flat, self.sizes, self.strides, self.offset)

    def read(self, flat: torch.Tensor) -> torch.Tensor:
        return self.of(flat).reshape([self.programs, *self.tile])

    def spread(self, value: torch.Tensor, programs: int) -> torch.Tensor:
        """A value [P|1, *tile] in the form of the view."""
        box = self.sizes[: len(self.sizes) - len(self.tile)]
        if self.programs > 1:
            return value.expand([programs, *self.tile]).reshape([*box, *self.tile])
        return value.expand([1, *self.tile])

    def disjoint(self) -> bool:
        """Whether no element is named twice."""
        return disjoint(self.sizes, self.strides)


def disjoint(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a strided view names no element twice; may say no where it doesn't."""
    reach = 0
    for stride, size in sorted(zip(strides, sizes)):
        if size == 1:
            continue
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def window_of(offset: Any, box: tuple[int, int, int]) -> Window | None:
    """An access as a strided view, or None where the addresses are irregular.

    offset: Affine for the programs of a box (z, y, x), or a tensor, which is always irregular.
    """
    if not isinstance(offset, Affine) or not offset.fits():
        return None
    if min(offset.strides, default=0) < 0:
        return None
    base, tile, strides = offset.base, offset.shape, list(offset.strides)
    if base.numel() == 1:
        return Window([1, *tile], [0, *strides], int(base[0]), 1, tile)
    grid = base.reshape(box)
    start = int(grid[0, 0, 0])
    steps = [
        int(grid[tuple(1 if i == axis else 0 for i in range(3))]) - start if size > 1 else 0
        for axis, size in enumerate(box)
    ]
    if min(steps) < 0:
        return None
    fit = start + sum(
        step * torch.arange(size).reshape([-1 if i == axis else 1 for i in range(3)])
        for axis, (step, size) in enumerate(zip(steps, box))
    )
    if not torch.equal(fit.expand(box), grid):
        return None
    return Window([*box, *tile], [*steps, *strides], start, base.numel(), tile)


# Below this many lanes per program, gathering all programs at once is faster than a loop.
MIN_TILE = 1024


@dataclass
class Tile:
    """What one program accesses: a box of its lanes, as a strided view of the flat buffer."""

    program: int
    lanes: tuple[slice, ...]  # of the program's tile
    sizes: list[int]
    strides: tuple[int, ...]
    offset: int

    def of(self, flat: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(flat, self.sizes, self.strides, self.offset)


def tiles_of(offset: Any, mask: torch.Tensor | None, programs: int,
             extent: int) -> list[Tile] | None:
    """An access program by program, or None where that doesn't pay or isn't possible.

    Possible where the addresses are affine, the lanes that the mask [P|1, *tile] lets through form
    a box, and all of them lie inside the buffer. Programs without lanes are left out.
    """
    if not isinstance(offset, Affine) or not offset.shape or min(offset.strides) < 0:
        return None
    lanes = 1
    for size in offset.shape:
        lanes *= size
    if lanes < MIN_TILE or not offset.fits():
        return None
    rank = len(offset.shape)
    base = offset.base.expand(programs)
    if mask is None:
        first = torch.zeros([programs, rank], dtype=torch.int64)
        count = torch.tensor(offset.shape).expand(programs, rank)
    else:
        mask = mask.expand([mask.shape[0], *offset.shape])
        first = torch.zeros([mask.shape[0], rank], dtype=torch.int64)
        count = torch.tensor(offset.shape).repeat(mask.shape[0], 1)
        partial = partly_masked(mask)
        if partial.numel():
            bounds = _boxes(mask[partial])
            if bounds is None:
                return None
            first[partial], count[partial] = bounds
        first, count = first.expand(programs, rank), count.expand(programs, rank)
    strides = torch.tensor(offset.strides)
    low = base + (first * strides).sum(1)
    high = low + ((count - 1) * strides).sum(1)
    held = (count > 0).all(1)
    if bool((held & ((low < 0) | (high >= extent))).any()):
        return None
    found = []
    rows = zip(held.tolist(), low.tolist(), first.tolist(), count.tolist())
    for program, (some, start, begin, size) in enumerate(rows):
        if some:
            found.append(Tile(program, tuple(slice(b, b + n) for b, n in zip(begin, size)), size,
                              offset.strides, start))
    return found


def partly_masked(mask: torch.Tensor) -> torch.Tensor:
    """The programs (indices, int64) for which mask [P, *tile] doesn't let all lanes through."""
    return (~mask.flatten(1).all(1)).nonzero().reshape(-1)


def _boxes(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """(first lane, lanes) per program and dimension where each program's mask is a box."""
    first, count = [], []
    product = torch.ones(mask.shape[0], dtype=torch.int64)
    for d in range(1, mask.dim()):
        others = [i for i in range(1, mask.dim()) if i != d]
        held = mask.amax(others) if others else mask
        marks = held.to(torch.uint8)
        number = marks.sum(1, dtype=torch.int64)
        begin = marks.argmax(1)
        end = held.shape[1] - marks.flip(1).argmax(1)
        if not torch.equal(number, torch.where(number > 0, end - begin, 0)):
            return None
        first.append(begin)
        count.append(number)
        product = product * number
    if not torch.equal(mask.flatten(1).sum(1), product):
        return None
    return torch.stack(first, 1), torch.stack(count, 1)


def differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Lanes whose values differ; NaN equals NaN."""
    different = a != b
    if a.dtype.is_floating_point:
        different &= ~(a.isnan() & b.isnan())
    return different


def box_of(mask: torch.Tensor) -> list[tuple[int, int]] | None:
    """(start, size) per dimension where mask [1, *tile] is exactly a box of lanes, else None."""
    lanes = mask[0]
    if lanes.dim() == 0:
        return None
    part, count = [], 1
    for d in range(lanes.dim()):
        held = lanes.movedim(d, 0).reshape(lanes.shape[d], -1).any(1).nonzero()
        if held.numel() == 0:
            return None
        start, end = int(held[0]), int(held[-1]) + 1
        part.append((start, end - start))
        count *= end - start
    return part if int(lanes.sum()) == count else None


def narrowed(offset: Affine, part: list[tuple[int, int]]) -> Affine:
    moved = offset.base + sum(s * start for s, (start, _) in zip(offset.strides, part))
    return Affine(moved, offset.strides, tuple(size for _, size in part), torch.int64)
