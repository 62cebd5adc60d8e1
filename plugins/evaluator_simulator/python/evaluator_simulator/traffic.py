"""What the accesses of one launch add up to: sectors, bytes asked for, lone elements."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from .memory import SECTOR, Buffer, Sectors, union
from .values import Affine
from .window import partly_masked

LONE = 2  # an access that asks for this many times the bytes it uses takes them for lone elements


@dataclass
class Traffic:
    """Counts of one launch. reads, writes: by buffer and the line that accesses it."""

    reads: dict[tuple[str, int | None], Sectors] = field(default_factory=dict)
    writes: dict[tuple[str, int | None], Sectors] = field(default_factory=dict)
    line: int | None = None  # of the access that is being counted
    bytes_asked: int = 0
    lone: int = 0  # sectors asked for by accesses that use less than half of each
    atomics: int = 0  # sectors that atomics ask for

    def read_bytes(self) -> dict[str, int]:
        """Bytes of the sectors read, by buffer."""
        return {name: union(found).touched() for name, found in _by_buffer(self.reads).items()}

    def written_bytes(self) -> dict[str, int]:
        """Bytes of the sectors written, by buffer."""
        return {name: union(found).touched() for name, found in _by_buffer(self.writes).items()}

    def fetched_bytes(self) -> int:
        """What memory sends for the reads: it sends sectors in pairs."""
        return sum(union(found).fetched() for found in _by_buffer(self.reads).values())

    def reread_bytes(self) -> int:
        """Bytes that more than one line reads, once for each line after the first."""
        every = sum(sectors.touched() for sectors in self.reads.values())
        return every - sum(self.read_bytes().values())

    def count_atomics(self, offsets: torch.Tensor, dtype: torch.dtype) -> None:
        """Counts the lanes of an atomic; neighbours in one sector go together."""
        if offsets.numel():
            flat = offsets.reshape(-1)
            beside = (flat[1:] == flat[:-1] + 1) & ((flat[1:] * dtype.itemsize) % SECTOR != 0)
            self.atomics += flat.numel() - int(beside.sum())

    def _sectors(self, side: dict[tuple[str, int | None], Sectors], buffer: Buffer) -> Sectors:
        key = (buffer.name, self.line)
        if key not in side:
            side[key] = Sectors(buffer.size)
        return side[key]

    def _lone(self, sectors: int, used: int) -> None:
        """Takes note of an access that asks for `sectors` and uses `used` bytes of them."""
        if sectors * SECTOR > LONE * used:
            self.lone += sectors

    def lanes(self, side: dict[tuple[str, int | None], Sectors], buffer: Buffer,
              offsets: torch.Tensor, valid: torch.Tensor | None, dtype: torch.dtype,
              times: int = 1) -> None:
        """Counts an access lane by lane; each stands for `times` programs."""
        size = dtype.itemsize
        if valid is not None:
            offsets = offsets[valid]
        self.bytes_asked += offsets.numel() * size * times
        if offsets.numel():
            self._lone(_apart(offsets, size) * times, offsets.numel() * size * times)
            self._sectors(side, buffer).lanes(offsets * size)

    def regular(self, side: dict[tuple[str, int | None], Sectors], buffer: Buffer, offset: Affine,
                mask: torch.Tensor | None, dtype: torch.dtype, programs: int) -> None:
        """Counts an affine access inside the buffer; programs without masked lanes are cheap."""
        if mask is None or mask.shape[0] == 1:
            self._runs(side, buffer, offset, mask, dtype, programs)
            return
        mask = mask.expand([mask.shape[0], *offset.shape])
        partial = partly_masked(mask)
        base = offset.base.expand(programs)
        whole = torch.ones(programs, dtype=torch.bool)
        whole[partial] = False
        if partial.numel() < programs:
            rest = Affine(base[whole], offset.strides, offset.shape, torch.int64)
            self._runs(side, buffer, rest, None, dtype, programs - partial.numel())
        if partial.numel():
            rest = Affine(base[partial], offset.strides, offset.shape, torch.int64)
            self._runs(side, buffer, rest, mask[partial], dtype, partial.numel())

    def _runs(self, side: dict[tuple[str, int | None], Sectors], buffer: Buffer, offset: Affine,
              mask: torch.Tensor | None, dtype: torch.dtype, programs: int) -> None:
        """Counts by runs of neighbouring elements; offset and mask are those of `programs`."""
        size = dtype.itemsize
        axes = sorted((s, d) for d, s in enumerate(offset.strides)
                      if s > 0 and offset.shape[d] > 1)
        run, merged = 1, []
        for stride, axis in axes:
            if stride * size > max(run * size, SECTOR - size + 1) or (mask is not None and merged):
                break
            run += stride * (offset.shape[axis] - 1)
            merged.append(axis)
        rest = tuple(d for d in range(len(offset.shape)) if d not in merged)
        rows = Affine(offset.base, tuple(offset.strides[d] for d in rest),
                      tuple(offset.shape[d] for d in rest), torch.int64).dense()
        lanes = 1
        for n in offset.shape:
            lanes *= n
        if mask is None:
            used = lanes * size * programs
            self.bytes_asked += used
            self._lone(math.prod(rows.shape[1:]) * programs * max(1, run * size // SECTOR), used)
            self._sectors(side, buffer).rows(rows * size, run * size)
            return
        mask = mask.expand([mask.shape[0], *offset.shape])
        times = programs // mask.shape[0]
        used = int(mask.sum()) * size * times
        self.bytes_asked += used
        whole = math.prod(rows.shape[1:]) * max(1, run * size // SECTOR) * programs
        self._lone(int(whole * used / (lanes * size * programs)), used)
        if not merged:
            shape = torch.broadcast_shapes(mask.shape, rows.shape)
            self._sectors(side, buffer).lanes(rows.expand(shape)[mask.expand(shape)] * size)
            return
        axis = merged[0]
        along = mask.movedim(axis + 1, -1)
        count = along.sum(-1)
        marks = along.to(torch.uint8)
        first = marks.argmax(-1)
        last = along.shape[-1] - 1 - marks.flip(-1).argmax(-1)
        held = count > 0
        if not torch.equal(count[held], (last - first + 1)[held]):
            offsets = offset.dense().to(torch.int64)
            shape = torch.broadcast_shapes(mask.shape, offsets.shape)
            self._sectors(side, buffer).lanes(offsets.expand(shape)[mask.expand(shape)] * size)
            return
        stride = offset.strides[axis]
        starts = rows + first * stride
        lengths = ((last - first) * stride + 1).expand(starts.shape)
        held = held.expand(starts.shape)
        self._sectors(side, buffer).rows(starts[held] * size, lengths[held] * size)


def _apart(offsets: torch.Tensor, size: int) -> int:
    """How many sectors lanes [P, *tile] ask for, where only neighbours along a dimension of the
    tile go together: the best one, as the compiler arranges threads along it."""
    sectors = (offsets * size) >> 5
    if sectors.dim() < 2:
        sectors = sectors.reshape(1, -1)
    count = sectors.numel()
    return min(count - int((sectors.diff(dim=d) == 0).sum()) for d in range(1, sectors.dim()))


def _by_buffer(side: dict[tuple[str, int | None], Sectors]) -> dict[str, list[Sectors]]:
    found: dict[str, list[Sectors]] = {}
    for (name, _), sectors in side.items():
        found.setdefault(name, []).append(sectors)
    return found
