"""Runs one kernel launch from its TTIR, many programs at a time.

`run_launch` cuts the grid into boxes of programs, executes every operation once per box on tensors
that hold all its programs, and returns the launch's counts. Raises Uncovered for what it doesn't
know and TimeUp when the deadline passes; never guesses.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import (  # noqa: F401 - importing registers the operations
    hints,
    ttir_ops_control,
    ttir_ops_libdevice,
    ttir_ops_math,
    ttir_ops_memory,
    ttir_ops_tile,
)
from .access import LaunchMemory
from .execution import LaunchStats
from .registry import OPS
from .ttir_parser import Block, Function, Module, Op, Region, walk
from .values import Uncovered

# Lanes that one tensor of a box may hold. Large, to hide Python's cost per operation (about 20 us
# plus 15 us per program where accesses are irregular); 2M lanes measured fastest on all families,
# and a kernel with ten live tiles of fp32 then holds 80 MB.
LANES_PER_BOX = 1 << 21


# Operations whose result lies as their first operand does (tt.trans: turned by 90 degrees).
_SHAPED = ("arith.", "math.", "tt.fp_to_fp", "tt.bitcast", "tt.trans")


class TimeUp(Exception):
    """The time budget is spent."""


def descriptor_block(element: str) -> tuple[int, ...]:
    """The block shape in a descriptor's type: !tt.tensordesc<32x64xf16>, or around tensor<...>."""
    match = re.search(r"<(?:tensor<)?((?:\d+x)+)", element)
    if not match:
        raise Uncovered(f"the type {element}")
    return tuple(int(size) for size in match[1].split("x") if size)


@dataclass
class Launch:
    """What to run. `arguments` are values for the parameters of `module.kernel`, in order."""

    module: Module
    grid: tuple[int, int, int]
    arguments: list[Any]


class Run:
    """The state of one launch while a box of programs executes. Not thread-safe."""

    def __init__(self, launch: Launch, memory: LaunchMemory, deadline: float) -> None:
        self.module = launch.module
        self.grid = launch.grid
        self.memory = memory
        self.deadline = deadline
        self.env: dict[str, Any] = {}
        self.yielded: Any = None
        self.flops: dict[str, int] = {}
        self.float_atomics = False
        self.dots: dict[str, int] = {}
        # The dimension along which neighbours of a tile lie in memory (-1 or -2), by SSA name.
        self.lies: dict[str, int] = {}
        self.rounds = 0
        self._waited = False  # a load of this block is counted
        self._counting = True
        self._running = 0

    @property
    def programs(self) -> int:
        return self.memory.programs

    @property
    def active(self) -> torch.Tensor | None:
        """Bool [P] of the programs that run, None for all."""
        return self.memory.active

    def set_active(self, active: torch.Tensor | None) -> None:
        self.memory.active = active
        self._running = self.programs if active is None else int(active.sum())

    def count(self, kind: str, operations: int) -> None:
        """Adds `operations` per running program to the class `kind`."""
        if self._counting:
            self.flops[kind] = self.flops.get(kind, 0) + operations * self._running

    def count_dot(self, left: str, right: str, size: tuple[int, int, int],
                  operations: int) -> None:
        """Adds a product (m, n, k) of two SSA names to `dots`."""
        lies = self.lies.get(right)
        order = "unknown" if lies is None or self.lies.get(left) == -2 else (
            "rows" if lies == -1 else "columns")
        key = "x".join(str(n) for n in size) + f" {order}"
        self.dots[key] = self.dots.get(key, 0) + operations * self._running

    def load_lies(self, name: str, strides: tuple[int, ...] | None) -> None:
        """Takes note of how a loaded tile lies: strides per dimension, None where irregular."""
        self.lies.pop(name, None)
        if strides and len(strides) > 1 and 1 in strides[-2:]:
            self.lies[name] = -1 if strides[-1] == 1 else -2

    def wait(self) -> None:
        """Counts a load: those of one block wait for memory together."""
        if not self._waited:
            self._waited = True
            self.rounds += self._running

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        before, self._counting = self._counting, False
        try:
            yield
        finally:
            self._counting = before

    def start_box(self) -> None:
        self.env = {}
        self.set_active(None)

    def block(self, block: Block) -> Any:
        """Executes the block; returns what its last operation passes on."""
        self.yielded = []
        self._waited = False
        for op in block.ops:
            self._execute(op)
        self._waited = False
        return self.yielded

    def _execute(self, op: Op) -> None:
        handler = OPS.get(op.name)
        if handler is None:
            raise Uncovered(f"{op.name}{f' on line {op.line}' if op.line else ''}")
        if time.monotonic() > self.deadline:
            raise TimeUp
        env = self.env
        if op.regions:
            args = [env[name] for name in op.operands if name in env] if op.name in (
                "tt.reduce", "tt.scan") else []
        else:
            args = [env[name] for name in op.operands]
        result = handler(self, op, args)
        if hints.of(op):
            hints.check(self, op, result)
        if len(op.results) == 1:
            env[op.results[0]] = result
            if op.name.startswith(_SHAPED) and op.operands and op.operands[0] in self.lies:
                lies = self.lies[op.operands[0]]
                self.lies[op.results[0]] = -3 - lies if op.name == "tt.trans" else lies
        elif op.results:
            env.update(zip(op.results, result))
        for name in op.dead:
            env.pop(name, None)

    def call(self, function: Function, args: list[Any]) -> list[Any]:
        """Runs a function on the programs that are on; returns its results."""
        outer, self.env = self.env, {}
        laid, self.lies = self.lies, {}
        for (name, _), value in zip(function.params, args):
            self.env[name] = value
        try:
            return self.region_from(function.body, function.body.entry.label, [])
        finally:
            self.env, self.lies = outer, laid

    def region_from(self, region: Region, label: str, args: list[Any]) -> list[Any]:
        block = region.block(label)
        for (name, _), value in zip(block.arguments, args):
            self.env[name] = value
        outcome = self.block(block)
        if isinstance(outcome, tuple):
            return ttir_ops_control.take_jump(self, region, outcome)
        return outcome


def _largest_tile(module: Module) -> int:
    largest = 1
    for function in module.functions.values():
        for op in walk(function.body):
            if op.types:
                for match in re.finditer(r"tensor<((?:\d+x)+)", op.types):
                    lanes = 1
                    for size in match[1].split("x")[:-1]:
                        lanes *= int(size)
                    largest = max(largest, lanes)
    return largest


def boxes(grid: tuple[int, int, int], limit: int) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Cuts a grid (x, y, z) into boxes of at most `limit` programs: (start, size) as (z, y, x)."""
    gx, gy, gz = grid
    nx = min(gx, limit)
    ny = min(gy, max(1, limit // nx)) if nx == gx else 1
    nz = min(gz, max(1, limit // (nx * ny))) if nx == gx and ny == gy else 1
    for z in range(0, gz, nz):
        for y in range(0, gy, ny):
            for x in range(0, gx, nx):
                yield (z, y, x), (min(nz, gz - z), min(ny, gy - y), min(nx, gx - x))


def run_launch(launch: Launch, memory: LaunchMemory, stats: LaunchStats, deadline: float,
               lanes_per_box: int = LANES_PER_BOX) -> None:
    """Executes all programs of the grid and fills in `stats`."""
    started = time.monotonic()
    run = Run(launch, memory, deadline)
    gx, gy, _ = launch.grid
    limit = max(1, lanes_per_box // _largest_tile(launch.module))
    try:
        for start, size in boxes(launch.grid, limit):
            z, y, x = (torch.arange(s, s + n) for s, n in zip(start, size))
            z, y, x = torch.meshgrid(z, y, x, indexing="ij")
            pids = torch.stack([x.reshape(-1), y.reshape(-1), z.reshape(-1)], dim=1)
            memory.enter_chunk(size, pids, ((z * gy + y) * gx + x).reshape(-1))
            run.start_box()
            run.call(launch.module.kernel, launch.arguments)
            stats.programs_run += pids.shape[0]
    finally:
        traffic = memory.traffic
        stats.read_bytes = sum(traffic.read_bytes().values())
        stats.written_bytes = sum(traffic.written_bytes().values())
        stats.fetched_bytes = traffic.fetched_bytes()
        stats.reread_bytes = traffic.reread_bytes()
        stats.lone_sectors, stats.atomics = traffic.lone, traffic.atomics
        stats.rounds = run.rounds / max(1, stats.programs_run)
        stats.bytes_per_program = traffic.bytes_asked / max(1, stats.programs_run)
        stats.flops, stats.dots = run.flops, run.dots
        stats.float_atomics = run.float_atomics
        stats.seconds = time.monotonic() - started
