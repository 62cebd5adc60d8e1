"""Simulated device memory: buffers, what is initialised, who wrote what, and the traffic.

A Buffer is the storage that a tensor of the recording lived in. Beside its bytes it may carry a
shadow, one int32 per element: UNWRITTEN for memory of `empty` that nothing wrote, 0 for memory
that the host or an earlier launch filled, otherwise a tag that says which program of which launch
wrote it. Shadows cost memory, so only buffers have one that hold unwritten elements or that the
running launch writes.
"""

from __future__ import annotations

from typing import Any

import torch

UNWRITTEN = -1
_ORDER = ("out_of_bounds_load", "out_of_bounds_store", "uninitialised", "false_hint", "race",
          "unwritten")
SECTOR = 32  # bytes that move together between L2 and memory
_POISON_BYTE = 0xFF  # NaN in every float format, -1 in every integer


class Buffer:
    """One storage. Not thread-safe. `itemsize` is the element size that shadows are kept for."""

    def __init__(self, name: str, size: int, itemsize: int, origin: str) -> None:
        self.name = name
        self.size = size
        self.itemsize = max(1, itemsize)
        self.origin = origin
        padded = (size + 15) // 16 * 16
        self.bytes = torch.empty(padded, dtype=torch.uint8)
        self.shadow: torch.Tensor | None = None
        self.holes = False  # elements may be UNWRITTEN
        self._typed: dict[torch.dtype, torch.Tensor] = {}
        if origin == "empty":
            self.bytes.fill_(_POISON_BYTE)
            self.holes = size > 0
            self.shadow = torch.full((self.elements,), UNWRITTEN, dtype=torch.int32)

    @property
    def elements(self) -> int:
        return self.size // self.itemsize

    def adopt(self, flat: torch.Tensor) -> None:
        """Takes over the memory of a contiguous tensor that covers the buffer exactly."""
        self.bytes = flat.reshape(-1).view(torch.uint8)
        self._typed = {}

    def typed(self, dtype: torch.dtype) -> torch.Tensor:
        """The whole buffer as a flat tensor of `dtype`, sharing memory."""
        view = self._typed.get(dtype)
        if view is None:
            count = self.size // dtype.itemsize
            view = self.bytes[: count * dtype.itemsize].view(dtype)
            self._typed[dtype] = view
        return view

    def view(self, dtype: torch.dtype, shape: list[int], stride: list[int],
             offset: int) -> torch.Tensor:
        """The tensor that a reference of the tape names; shares memory."""
        return torch.as_strided(self.typed(dtype), shape, stride, offset)

    def shadow_view(self, dtype: torch.dtype, shape: list[int], stride: list[int],
                    offset: int) -> torch.Tensor | None:
        """The shadow of the same elements, or None where none is kept for that element size."""
        if self.shadow is None or dtype.itemsize != self.itemsize:
            return None
        return torch.as_strided(self.shadow, shape, stride, offset)

    def forget(self) -> None:
        """Takes everything for written: after a write of another element size."""
        self.holes = False
        if self.shadow is not None:
            self.shadow.clamp_(min=0)

    def settle(self) -> None:
        """After a launch: forget who wrote, keep what is unwritten; drop a shadow without holes."""
        if self.shadow is None:
            return
        if self.holes:
            self.shadow.clamp_(max=0)
            self.holes = bool((self.shadow == UNWRITTEN).any())
        if not self.holes:
            self.shadow = None

    def prepare_write(self) -> None:
        """Before a launch that may write: make sure that writers can be told apart."""
        if self.shadow is None:
            self.shadow = torch.zeros(self.elements, dtype=torch.int32)


class Sectors:
    """Which 32-byte sectors of a buffer were touched, and how many bytes the lanes asked for."""

    def __init__(self, size: int) -> None:
        self.count = (size + SECTOR - 1) // SECTOR
        self._edges: torch.Tensor | None = None
        self._marks: torch.Tensor | None = None

    def rows(self, start: torch.Tensor, length: torch.Tensor | int) -> None:
        """Runs of bytes: start (int64, any shape) and length >= 1, all inside the buffer."""
        if self._edges is None:
            self._edges = torch.zeros(self.count + 1, dtype=torch.int32)
        start = start.reshape(-1)
        first = start >> 5
        last = ((start + length - 1) >> 5) + 1
        ones = torch.ones(first.numel(), dtype=torch.int32)
        self._edges.index_add_(0, first, ones)
        self._edges.index_add_(0, last, ones, alpha=-1)

    def lanes(self, start: torch.Tensor) -> None:
        """Single elements at byte offsets `start` (int64), all inside the buffer."""
        if self._marks is None:
            self._marks = torch.zeros(self.count, dtype=torch.bool)
        self._marks[start.reshape(-1) >> 5] = True

    def marks(self) -> torch.Tensor:
        """Bool per sector: whether it was touched."""
        total = torch.zeros(self.count, dtype=torch.bool)
        if self._edges is not None:
            total |= self._edges.cumsum(0)[: self.count] > 0
        if self._marks is not None:
            total |= self._marks
        return total

    def touched(self) -> int:
        """Unique sectors, in bytes."""
        return int(self.marks().sum()) * SECTOR

    def fetched(self) -> int:
        """Bytes of the pairs of sectors that hold a touched one."""
        marks = self.marks()
        if marks.numel() % 2:
            marks = torch.cat([marks, marks.new_zeros(1)])
        return int(marks.reshape(-1, 2).any(1).sum()) * 2 * SECTOR


def union(several: list[Sectors]) -> Sectors:
    """What any of them touched; all are of one buffer."""
    if len(several) == 1:
        return several[0]
    whole = Sectors(several[0].count * SECTOR)
    whole._marks = torch.stack([sectors.marks() for sectors in several]).any(0)
    return whole


class Faults:
    """Collects what went wrong: one entry per kind, kernel, line and buffer, with counts."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add(self, kind: str, *, count: int, buffer: str, extent: int, **details: Any) -> None:
        key = (kind, details.get("kernel"), details.get("line"), buffer)
        entry = self._found.get(key)
        if entry is not None:
            entry["count"] += count
            return
        entry = {"kind": kind, "buffer": buffer, "param": None, "kernel": None, "line": None,
                 "count": count, "program": None, "offset": None, "extent": extent, "step": None}
        entry.update(details)
        self._found[key] = entry

    def list(self) -> list[dict[str, Any]]:
        """All entries, those first that explain others: an access out of bounds before a race."""
        return sorted(self._found.values(), key=lambda entry: _ORDER.index(entry["kind"]))
