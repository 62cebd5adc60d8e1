"""Loads, stores and atomics of one launch, checked lane by lane and counted.

Every access is compared with the extent of its buffer. Addresses that are affine and regular over
the programs of a chunk become one strided view (a copy at memory speed); everything else is
gathered and scattered lane by lane. Both ways give the same values, faults and counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from .memory import UNWRITTEN, Buffer, Faults
from .traffic import Traffic
from .values import Affine, Pointer, Uncovered, dense, dtype_of, uniform_truth
from .window import (
    Tile,
    Window,
    box_of,
    differ,
    disjoint,
    narrowed,
    tiles_of,
    window_of,
)

_BYTE_FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2)
_INT_POISON = {
    torch.int8: 0x5A,
    torch.int16: 0x5A5A,
    torch.int32: 0x5A5A5A5A,
    torch.int64: 0x5A5A5A5A5A5A5A5A,
}


def poison(dtype: torch.dtype) -> float | int | bool:
    """What a lane holds whose memory was never asked for."""
    if dtype.is_floating_point:
        return float("nan")
    return _INT_POISON.get(dtype, True)


class LaunchMemory:
    """What the kernel of one launch sees of memory. Not thread-safe.

    written, shared: names of buffers that the launch may write, and may both read and write.
    first_tag: tags first_tag + linear program id mark who wrote an element.
    """

    def __init__(self, kernel: str, step: int, faults: Faults, written: set[str],
                 shared: set[str], first_tag: int) -> None:
        self.kernel = kernel
        self.step = step
        self.faults = faults
        self.written = written
        self.shared = shared
        self.first_tag = first_tag
        self.traffic = Traffic()
        self.readers: dict[str, torch.Tensor] = {}
        self.box: tuple[int, int, int] = (1, 1, 1)  # programs of the chunk: z, y, x
        self.tags = torch.zeros(1, dtype=torch.int32)
        self.pids = torch.zeros(1, 3, dtype=torch.int64)
        self.active: torch.Tensor | None = None

    def enter_chunk(self, box: tuple[int, int, int], pids: torch.Tensor,
                    linear: torch.Tensor) -> None:
        """Starts on the programs `pids` [P, 3] (x, y, z), a box of the grid in x-fastest order."""
        self.box = box
        self.pids = pids
        self.tags = (linear + self.first_tag).to(torch.int32)
        self.active = None

    @property
    def programs(self) -> int:
        return self.pids.shape[0]

    # -- shape of an access -------------------------------------------------------------------

    def _mask(self, mask: torch.Tensor | None, rank: int) -> torch.Tensor | None:
        if self.active is None:
            return mask
        active = self.active.reshape([-1] + [1] * rank)
        if mask is None or uniform_truth(mask):
            return active
        return mask & active

    def _window(self, offset: Any) -> Window | None:
        return window_of(offset, self.box)

    def _where(self, lanes: torch.Tensor, offsets: torch.Tensor) -> dict[str, Any]:
        """Program and offset of the first lane set in `lanes` [P|1, ...]."""
        first = int(lanes.reshape(-1).to(torch.uint8).argmax())
        program = first // max(1, lanes[0].numel())
        return {"program": [int(x) for x in self.pids[program]],
                "offset": int(offsets.expand(lanes.shape).reshape(-1)[first])}

    def _fault(self, kind: str, pointer: Pointer, line: int | None, lanes: torch.Tensor,
               offsets: torch.Tensor, extent: int) -> None:
        times = self.programs if lanes.shape[0] == 1 else 1
        self.faults.add(kind, count=int(lanes.sum()) * times, extent=extent,
                        buffer=pointer.buffer.name if pointer.buffer else "null",
                        param=pointer.param, kernel=self.kernel, line=line, step=self.step,
                        **self._where(lanes, offsets))

    def report_hint(self, line: int | None, lanes: torch.Tensor, values: torch.Tensor) -> None:
        """A promise to the compiler that these lanes break; their values stand in for offsets."""
        times = self.programs if lanes.shape[0] == 1 else 1
        self.faults.add("false_hint", count=int(lanes.sum()) * times, extent=0, buffer="",
                        kernel=self.kernel, line=line, step=self.step, **self._where(lanes, values))

    # -- load ---------------------------------------------------------------------------------

    def load(self, pointer: Pointer, mask: torch.Tensor | None, other: torch.Tensor | None,
             line: int | None) -> torch.Tensor:
        """The values [P|1, *tile]; masked lanes hold `other`, or poison where there is none."""
        self.traffic.line = line
        dtype = dtype_of(pointer.element)
        if dtype in _BYTE_FLOATS:  # PyTorch indexes no float8
            raw = self.load(replace(pointer, element="i8"), mask,
                            None if other is None else other.contiguous().view(torch.int8), line)
            return raw.contiguous().view(dtype)
        offset = pointer.offset
        shape = offset.shape if isinstance(offset, Affine) else tuple(offset.shape[1:])
        mask = self._mask(mask, len(shape))
        truth = uniform_truth(mask)
        fill = other if other is not None else torch.tensor(poison(dtype), dtype=dtype)
        if truth is False:
            return fill.expand([1, *shape]) if other is None else other
        buffer = pointer.buffer
        if buffer is None:
            raise Uncovered("a load through a null pointer")
        flat = buffer.typed(dtype)
        window = self._window(offset)
        if window is not None and _inside(offset, flat.numel()):
            value = window.read(flat)
            if buffer.name in self.written:
                value = value.clone()
            self._check_read(pointer, mask if truth is None else None, window, None, line)
            self.traffic.regular(self.traffic.reads, buffer, offset,
                                 mask if truth is None else None, dtype, self.programs)
            return value if truth else torch.where(mask, value, fill)
        if buffer.name not in self.shared and not buffer.holes:
            tiles = tiles_of(offset, None if truth else mask, self.programs, flat.numel())
            if tiles is not None:
                self.traffic.regular(self.traffic.reads, buffer, offset, None if truth else mask,
                                     dtype, self.programs)
                return self._load_tiles(tiles, flat, shape, fill, full=bool(truth))
        offsets = dense(offset).to(torch.int64)
        offsets, valid = self._valid(pointer, "out_of_bounds_load", offsets,
                                     None if truth else mask, flat.numel(), line)
        safe = offsets if valid is None else torch.where(valid, offsets, 0)
        if flat.numel() == 0:
            return fill.expand([offsets.shape[0], *shape])
        value = flat[safe]
        if valid is not None:
            # A lane out of bounds holds poison, not `other`.
            if other is not None and not truth:
                fill = torch.where(mask, torch.tensor(poison(dtype), dtype=dtype), fill)
            elif other is not None:
                fill = torch.tensor(poison(dtype), dtype=dtype)
            value = torch.where(valid, value, fill)
        self._check_read(pointer, valid, None, safe, line)
        times = self.programs if safe.shape[0] == 1 else 1
        self.traffic.lanes(self.traffic.reads, buffer, safe, valid, dtype, times)
        return value

    def _load_tiles(self, tiles: list[Tile], flat: torch.Tensor, shape: tuple[int, ...],
                    fill: torch.Tensor, full: bool) -> torch.Tensor:
        value = torch.empty([self.programs, *shape], dtype=flat.dtype)
        if not full:
            value.copy_(fill.expand(value.shape))
        for tile in tiles:
            value[(tile.program, *tile.lanes)] = tile.of(flat)
        return value

    def _valid(self, pointer: Pointer, kind: str, offsets: torch.Tensor,
               mask: torch.Tensor | None, extent: int,
               line: int | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(offsets, lanes that may be accessed or None for all), after reporting the others."""
        if mask is not None:
            shape = torch.broadcast_shapes(offsets.shape, mask.shape)
            offsets, mask = offsets.expand(shape), mask.expand(shape)
        low, high = (int(x) for x in torch.aminmax(offsets)) if offsets.numel() else (0, -1)
        if low >= 0 and high < extent:
            return offsets, mask
        inside = (offsets >= 0) & (offsets < extent)
        bad = ~inside if mask is None else ~inside & mask
        if bool(bad.any()):
            self._fault(kind, pointer, line, bad, offsets, extent)
        return offsets, inside if mask is None else inside & mask

    def _check_read(self, pointer: Pointer, valid: torch.Tensor | None, window: Window | None,
                    offsets: torch.Tensor | None, line: int | None) -> None:
        """Reports reads of unwritten memory and of what another program of this launch wrote."""
        buffer = pointer.buffer
        if buffer.shadow is None or dtype_of(pointer.element).itemsize != buffer.itemsize:
            return
        shared = buffer.name in self.shared
        if not buffer.holes and not shared:
            return
        if offsets is None:
            offsets = dense(pointer.offset).to(torch.int64)
        seen = window.read(buffer.shadow) if window is not None else buffer.shadow[offsets]
        if buffer.holes:
            unwritten = seen == UNWRITTEN
            if valid is not None:
                unwritten = unwritten & valid
            if bool(unwritten.any()):
                self._fault("uninitialised", pointer, line, unwritten, offsets, buffer.elements)
        if not shared:
            return
        tags = self.tags.reshape([-1] + [1] * (offsets.dim() - 1))
        foreign = (seen >= self.first_tag) & (seen != tags)
        if valid is not None:
            foreign = foreign & valid
        if bool(foreign.any()):
            self._fault("race", pointer, line, foreign, offsets, buffer.elements)
        readers = self.readers.get(buffer.name)
        if readers is None:
            readers = torch.full((buffer.elements,), -1, dtype=torch.int32)
            self.readers[buffer.name] = readers
        shape = torch.broadcast_shapes(offsets.shape, tags.shape)
        offsets, tags = offsets.expand(shape), tags.expand(shape)
        if valid is not None:
            valid = valid.expand(shape)
            offsets, tags = offsets[valid], tags[valid]
        earlier = readers[offsets]
        several = (earlier != -1) & (earlier != tags)
        readers[offsets] = torch.where(several, -2, tags)
        clash = (readers[offsets] != tags) & ~several
        readers[offsets[clash]] = -2

    # -- store --------------------------------------------------------------------------------

    def store(self, pointer: Pointer, value: torch.Tensor, mask: torch.Tensor | None,
              line: int | None) -> None:
        """Writes value [P|1, *tile] where the mask holds."""
        self.traffic.line = line
        dtype = dtype_of(pointer.element)
        if dtype in _BYTE_FLOATS and value.dtype == dtype:
            pointer, dtype = replace(pointer, element="i8"), torch.int8
            value = value.contiguous().view(torch.int8)
        buffer, offset = pointer.buffer, pointer.offset
        rank = len(offset.shape) if isinstance(offset, Affine) else offset.dim() - 1
        mask = self._mask(mask, rank)
        truth = uniform_truth(mask)
        if truth is False:
            return
        if buffer is None:
            raise Uncovered("a store through a null pointer")
        if buffer.name not in self.written:
            raise Uncovered(f"a store to the buffer {buffer.name} through a pointer of unknown "
                            "origin")
        if value.dtype != dtype:
            raise Uncovered(f"a store of {value.dtype} through a pointer to {pointer.element}")
        flat = buffer.typed(dtype)
        if dtype.itemsize != buffer.itemsize:
            buffer.forget()
        if truth is None and isinstance(offset, Affine) and mask.shape[0] == 1:
            part = box_of(mask.expand([1, *offset.shape]))
            if part is not None:
                offset = narrowed(offset, part)
                value = value.expand([value.shape[0], *pointer.offset.shape])
                for d, (start, size) in enumerate(part):
                    value = value.narrow(d + 1, start, size)
                truth, mask, pointer = True, None, pointer.moved(offset)
        window = self._window(offset) if truth else None
        if (window is not None and window.disjoint() and buffer.name not in self.shared
                and (window.programs > 1 or self.programs == 1)
                and _inside(offset, flat.numel())):
            self._store_window(pointer, window, value, line, dtype)
            self.traffic.regular(self.traffic.writes, buffer, offset, None, dtype, self.programs)
            return
        shape = [self.programs, *(offset.shape if isinstance(offset, Affine) else offset.shape[1:])]
        tiles = None
        if buffer.name not in self.shared:
            tiles = tiles_of(offset, None if truth else mask, self.programs, flat.numel())
        if tiles is not None and disjoint(shape[1:], offset.strides):
            self._store_tiles(pointer, tiles, value.expand(shape), line)
            self.traffic.regular(self.traffic.writes, buffer, offset, None if truth else mask,
                                 dtype, self.programs)
            return
        offsets = dense(offset).to(torch.int64).expand(shape)
        offsets, valid = self._valid(pointer, "out_of_bounds_store", offsets,
                                     None if truth else mask.expand(shape), flat.numel(), line)
        value = value.expand(shape)
        tags = self.tags.reshape([-1] + [1] * (len(shape) - 1)).expand(shape)
        if valid is None:
            offsets, value, tags = offsets.reshape(-1), value.reshape(-1), tags.reshape(-1)
        else:
            offsets, value, tags = offsets[valid], value[valid], tags[valid]
        self._scatter(pointer, flat, offsets, value, tags, line)
        self.traffic.lanes(self.traffic.writes, buffer, offsets, None, dtype)

    def _store_window(self, pointer: Pointer, window: Window, value: torch.Tensor,
                      line: int | None, dtype: torch.dtype) -> None:
        """A store whose lanes name different elements; other chunks may have named them before."""
        buffer = pointer.buffer
        target = window.of(buffer.typed(dtype))
        value = window.spread(value, self.programs)
        if buffer.shadow is not None and dtype.itemsize == buffer.itemsize:
            seen = window.of(buffer.shadow)
            tags = window.spread(self.tags.reshape([-1] + [1] * len(window.tile)), self.programs)
            if int(seen.max()) >= self.first_tag:
                foreign = (seen >= self.first_tag) & (seen != tags) & differ(target, value)
                if bool(foreign.any()):
                    lanes = foreign.reshape([self.programs, *window.tile])
                    self._fault("race", pointer, line, lanes, dense(pointer.offset),
                                buffer.elements)
            seen.copy_(tags.expand(seen.shape))
        target.copy_(value)

    def _store_tiles(self, pointer: Pointer, tiles: list[Tile], value: torch.Tensor,
                     line: int | None) -> None:
        """Program after program, as if they ran in this order."""
        buffer = pointer.buffer
        flat = buffer.typed(value.dtype)
        tracked = buffer.shadow is not None and value.dtype.itemsize == buffer.itemsize
        tags = self.tags.tolist()
        for tile in tiles:
            target, part = tile.of(flat), value[(tile.program, *tile.lanes)]
            if tracked:
                seen, tag = tile.of(buffer.shadow), tags[tile.program]
                if int(seen.max()) >= self.first_tag:
                    foreign = (seen >= self.first_tag) & (seen != tag) & differ(target, part)
                    if bool(foreign.any()):
                        self._report_tile(pointer, tile, foreign, line)
                seen.fill_(tag)
            target.copy_(part)

    def _report_tile(self, pointer: Pointer, tile: Tile, foreign: torch.Tensor,
                     line: int | None) -> None:
        at = foreign.nonzero()[0]
        offset = tile.offset + sum(int(i) * s for i, s in zip(at, tile.strides))
        self.faults.add("race", count=int(foreign.sum()), extent=pointer.buffer.elements,
                        buffer=pointer.buffer.name, param=pointer.param, kernel=self.kernel,
                        line=line, step=self.step, offset=offset,
                        program=[int(x) for x in self.pids[tile.program]])

    def _scatter(self, pointer: Pointer, flat: torch.Tensor, offsets: torch.Tensor,
                 value: torch.Tensor, tags: torch.Tensor, line: int | None) -> None:
        buffer = pointer.buffer
        if offsets.numel() == 0:
            return
        if buffer.shadow is None or flat.dtype.itemsize != buffer.itemsize:
            flat[offsets] = value
            return
        seen, old = buffer.shadow[offsets], flat[offsets]
        race = (seen >= self.first_tag) & (seen != tags)
        readers = self.readers.get(buffer.name)
        if readers is not None:
            reader = readers[offsets]
            race |= (reader != -1) & (reader != tags)
        race &= differ(old, value)
        flat[offsets] = value
        buffer.shadow[offsets] = tags
        race |= (buffer.shadow[offsets] != tags) & differ(flat[offsets], value)
        if bool(race.any()):
            first = int(race.to(torch.uint8).argmax())
            program = int(tags[first]) - int(self.tags[0])
            self.faults.add(
                "race", count=int(race.sum()), extent=buffer.elements, buffer=buffer.name,
                param=pointer.param, kernel=self.kernel, line=line, step=self.step,
                program=[int(x) for x in self.pids[min(max(program, 0), self.programs - 1)]]
                if 0 <= program < self.programs else None,
                offset=int(offsets[first]))

    # -- atomics ------------------------------------------------------------------------------

    def gather_for_atomic(self, pointer: Pointer, mask: torch.Tensor | None,
                          line: int | None) -> tuple[torch.Tensor, torch.Tensor | None, list[int]]:
        """(offsets, lanes that take part or None for all, shape [P, *tile]) of an atomic."""
        self.traffic.line = line
        dtype = dtype_of(pointer.element)
        offset = pointer.offset
        shape = [self.programs, *(offset.shape if isinstance(offset, Affine) else offset.shape[1:])]
        mask = self._mask(mask, len(shape) - 1)
        truth = uniform_truth(mask)
        offsets = dense(offset).to(torch.int64).expand(shape)
        if truth is False:
            return offsets, torch.zeros(shape, dtype=torch.bool), shape
        buffer = pointer.buffer
        if buffer is None:
            raise Uncovered("an atomic through a null pointer")
        if buffer.name not in self.written:
            raise Uncovered(f"an atomic on the buffer {buffer.name} through a pointer of unknown "
                            "origin")
        extent = buffer.size // dtype.itemsize
        offsets, valid = self._valid(pointer, "out_of_bounds_store", offsets,
                                     None if truth else mask.expand(shape), extent, line)
        taken = offsets if valid is None else offsets[valid]
        if dtype.itemsize != buffer.itemsize:
            buffer.forget()
        elif buffer.shadow is not None:
            holes = buffer.shadow[taken] == UNWRITTEN
            if bool(holes.any()):
                self._fault("uninitialised", pointer, line, holes.reshape(1, -1),
                            taken.reshape(1, -1), buffer.elements)
            buffer.shadow[taken] = 0
        self.traffic.lanes(self.traffic.reads, buffer, taken, None, dtype)
        self.traffic.lanes(self.traffic.writes, buffer, taken, None, dtype)
        self.traffic.count_atomics(taken, dtype)
        return offsets, valid, shape


def _inside(offset: Affine, extent: int) -> bool:
    low, high = offset.bounds()
    return low >= 0 and high < extent
