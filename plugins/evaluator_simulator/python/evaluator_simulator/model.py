"""Modelled time of kernels and of PyTorch operators on an H200. Nothing here is measured.

A launch takes its fixed cost plus what is largest of, with a part of the others,
  memory      pairs of sectors fetched, sectors written / copy bandwidth; what an earlier launch of
              the same call left in the L2 comes faster
  l2          all bytes that the programs ask for / L2 bandwidth
  sectors     sectors asked for by accesses that use little of each / their rate
  sm          bytes of the programs of one SM / the bandwidth that one SM can ask for
  atomics     atomic operations / their rate, which falls where many meet at one place
  programs    programs / the rate at which they start
  arithmetic  operations / peak of the class that the compiler chose (wgmma, mma, fma)
  latency     loads that wait for each other x latency x waves
Spilled registers and idle SMs make it slower. PyTorch's operators: operators.py. A call takes the
sum of its launches and a fixed cost. Constants: hardware.py. Times are in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from evaluator_simulator import hardware as hw
from evaluator_simulator.execution import DOT_CLASSES, AtenStats, LaunchStats
from evaluator_simulator.memory import SECTOR
from evaluator_simulator.operators import Work, kept, operator_time, traffic
from kernel_evolve_worker.correctness.trace import Operator


@dataclass(frozen=True)
class KernelShape:
    """What the compiler made of a kernel. tensor: "wgmma", "mma" or "fma"."""

    num_warps: int = 4
    num_ctas: int = 1
    registers: int = 32  # per thread
    spills: int = 0  # bytes of stack per thread
    shared_bytes: int = 0  # per program
    tensor: str = "fma"


@dataclass(frozen=True)
class Occupancy:
    """programs: that fit on one SM together; 0 where not even one fits. limiter: what ends it."""

    programs: int
    limiter: str
    share: float  # of the SM's warps


@dataclass(frozen=True)
class LaunchTime:
    """Modelled seconds of one launch, and why. Shares are of the peak, between 0 and 1."""

    seconds: float
    bound: str  # "launch" or one of the terms above
    occupancy: Occupancy
    bandwidth_share: float
    arithmetic_share: float
    waves: float


def instruction_class(ptx: str) -> str:
    """The matrix instruction that a kernel uses: "wgmma", "mma" or "fma" (none)."""
    if "wgmma.mma_async" in ptx:
        return "wgmma"
    return "mma" if "mma.sync" in ptx else "fma"


def occupancy(shape: KernelShape) -> Occupancy:
    """How many programs of a kernel one SM holds, and what limits it."""
    warps = max(1, shape.num_warps)
    unit = hw.REGISTER_UNIT
    per_warp = math.ceil(max(1, shape.registers) * 32 / unit) * unit
    limits = {  # of equal ones the first is named: a full SM is no shortage
        "warps": hw.WARPS_PER_SM // warps,
        "programs": hw.PROGRAMS_PER_SM,
        "registers": hw.REGISTERS_PER_SM // (per_warp * warps),
        "shared memory": hw.SHARED_PER_SM // (shape.shared_bytes + hw.SHARED_RESERVED),
    }
    limiter = min(limits, key=lambda key: limits[key])
    count = limits[limiter]
    return Occupancy(count, limiter, min(1.0, count * warps / hw.WARPS_PER_SM))


def launch_time(stats: LaunchStats, shape: KernelShape) -> LaunchTime:
    """Modelled time of one launch from what the simulator counted."""
    fits = occupancy(shape)
    programs = max(1, stats.programs)
    blocks = programs * max(1, shape.num_ctas)
    resident = max(1, min(fits.programs, math.ceil(blocks / hw.SMS)))
    waves = blocks / (hw.SMS * resident)
    arithmetic = _arithmetic(stats, shape, blocks, resident)
    asked = stats.bytes_per_program * programs
    # What waits in registers, or in the stages of a pipeline in shared memory.
    room = max(shape.num_warps * 32 * hw.BYTES_IN_FLIGHT, shape.shared_bytes if stats.dots else 0)
    in_flight = min(room, max(1.0, stats.bytes_per_program))
    parts = {
        "memory": _memory(stats, resident),
        "l2": asked / hw.L2_BANDWIDTH,
        "sectors": stats.lone_sectors / hw.LONE_SECTORS,
        # The SM with most programs ends last.
        "sm": _one_sm(math.ceil(blocks / hw.SMS) * asked / blocks, resident * in_flight),
        "atomics": _atomics(stats),
        "programs": blocks / hw.PROGRAMS,
        "arithmetic": arithmetic,
    }
    latency = max(0.0, stats.rounds * math.ceil(waves) - 1) * hw.ROUND
    bound = max(parts, key=lambda key: parts[key])
    body = sum(part**hw.OVERLAP for part in parts.values()) ** (1 / hw.OVERLAP)
    body += _alone(resident * shape.num_warps, stats.rounds) * (sum(parts.values()) - body)
    if latency > body:
        bound = "latency"
    body = math.hypot(body, latency) if _pipelined(stats, shape) else body + latency
    body *= 1.0 + shape.spills / hw.SPILL_BYTES
    # A kernel waits for its first bytes, and for its last atomic.
    body += hw.COLD * (_is_cold(stats) + bool(stats.atomics))
    seconds = body + hw.LAUNCH
    return LaunchTime(
        seconds=seconds,
        bound="launch" if body < hw.LAUNCH else bound,
        occupancy=fits,
        bandwidth_share=parts["memory"] / seconds,
        arithmetic_share=_peak_seconds(stats.flops, shape.tensor) / seconds,
        waves=waves,
    )


def _memory(stats: LaunchStats, resident: int) -> float:
    """Seconds of what memory moves; the L2 keeps what was touched a short while ago."""
    read = max(stats.read_bytes, stats.fetched_bytes)
    seconds = traffic(read, stats.written_bytes, stats.reused)
    seconds -= hw.COLD if _is_cold(stats) else 0.0
    # What the programs that run at the same time touch before they read again.
    between = min(stats.programs, resident * hw.SMS) * stats.bytes_per_program / 2
    if between > hw.L2_KEPT:
        seconds += stats.reread_bytes / hw.COPY_BANDWIDTH
    return max(0.0, seconds)


def _pipelined(stats: LaunchStats, shape: KernelShape) -> bool:
    """Whether a loop of products loads its next tiles while it computes: their room in shared
    memory is then more than what one turn loads. Other loops have enough programs for that."""
    if not stats.dots or stats.rounds <= 1:
        return True
    return shape.shared_bytes >= 1.5 * stats.bytes_per_program / stats.rounds


def _alone(warps: int, rounds: float) -> float:
    """The share of a launch in which loads, arithmetic and stores don't overlap, for an SM that
    holds so many warps."""
    share = hw.WARPS_TO_OVERLAP / (warps * max(1.0, rounds))
    return min(1.0, max(0.0, share - hw.WARPS_TO_OVERLAP / hw.WARPS_PER_SM))


def _one_sm(asked: float, in_flight: float) -> float:
    """Seconds that one SM needs for its bytes, of which so many can be on the way at a time."""
    return max(asked / hw.SM_BANDWIDTH,
               (asked - in_flight) * hw.MEMORY_LATENCY / in_flight)


def _atomics(stats: LaunchStats) -> float:
    """Seconds of the atomics; those that meet at one place wait for each other."""
    if stats.atomics <= hw.CROWD * max(1, stats.written_bytes // 4):
        return stats.atomics / hw.ATOMICS
    one = stats.written_bytes <= SECTOR
    return stats.atomics / (hw.ATOMICS_ONE_PLACE if one else hw.ATOMICS_CROWDED)


def _is_cold(stats: LaunchStats) -> bool:
    """Whether the launch waits for memory at its start."""
    return max(stats.read_bytes, stats.fetched_bytes) > kept(stats.reused, stats.written_bytes)


def _arithmetic(stats: LaunchStats, shape: KernelShape, blocks: int, resident: int) -> float:
    """Seconds of the arithmetic. Matrix units and lanes work side by side."""
    # Some SMs have fewer programs, or too few warps.
    spread = blocks / (hw.SMS * math.ceil(blocks / hw.SMS))
    warps = min(1.0, resident * shape.num_warps / hw.WARPS_FOR_PEAK)
    share = _dot_share(stats, shape.tensor)
    matrix = sum(n / _dot_peak(c, shape.tensor) for c, n in stats.flops.items()
                 if c in DOT_CLASSES)
    return max(matrix / spread / share, _lanes(stats.flops) / spread / warps)


def _lanes(flops: dict[str, int]) -> float:
    """Seconds of what isn't a product of tiles. Special functions have units of their own."""
    plain, special = 0.0, 0.0
    for name, count in flops.items():
        seconds = count / hw.PEAK_LANE.get(name, hw.PEAK_LANE["fp32"])
        if name in DOT_CLASSES:
            continue
        if name.startswith("special"):
            special += seconds
        else:
            plain += seconds
    return max(plain, special)


def _dot_share(stats: LaunchStats, tensor: str) -> float:
    """The part of the peak that the launch's products reach with their tiles and layouts."""
    total = sum(stats.dots.values())
    if not total:
        return 1.0
    time = 0.0
    for key, count in stats.dots.items():
        size, order = key.split()
        side = min(int(n) for n in size.split("x")[:2])
        time += count / _tile_share(stats.flops, tensor, side, order)
    return total / time


def _tile_share(flops: dict[str, int], tensor: str, side: int, order: str) -> float:
    if tensor == "fma" or "dot_ieee" in flops:
        share, power = hw.DOT_FMA_SHARE["rows" if order == "rows" else "columns"]
        return share * min(1.0, side / 64) ** power
    share = 1.0
    if tensor == "mma":
        share = hw.MMA_SHARE[0] * min(1.0, side / 64) ** hw.MMA_SHARE[1]
    if "dot_tf32" in flops and order != "columns":
        share = min(share, hw.TF32_ROWS_SHARE[0] * min(1.0, side / 128) ** hw.TF32_ROWS_SHARE[1])
    return share


def _peak_seconds(flops: dict[str, int], tensor: str) -> float:
    """Seconds of the operations where everything reaches its peak."""
    matrix = sum(n / _dot_peak(c, tensor) for c, n in flops.items() if c in DOT_CLASSES)
    return max(matrix, _lanes(flops))


def _dot_peak(name: str, tensor: str) -> float:
    if name == "dot_ieee" or tensor == "fma":
        return hw.PEAK_FMA
    return hw.PEAK_TENSOR.get(name, hw.PEAK_FMA)


def call_time(launches: Iterable[float]) -> float:
    """Seconds of a call of forward from those of its launches and operators."""
    return hw.CALL + sum(launches)


def eager_time(operators: Iterable[Operator], tf32: bool = False) -> float:
    """Modelled seconds of a reference run by PyTorch, operator by operator."""
    return call_time(
        operator_time(Work(op.name, op.read_bytes, op.written_bytes, op.flops, _name(op.dtype),
                           op.layout, op.reused), tf32) for op in operators)


def aten_time(stats: AtenStats, tf32: bool = False) -> float:
    """Modelled seconds of an operator that a candidate left to PyTorch."""
    return operator_time(Work(stats.name, stats.read_bytes, stats.written_bytes, stats.flops,
                              stats.dtype.removeprefix("torch."), stats.layout, stats.reused), tf32)


def _name(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.")


def kernel_shape(kernel: dict[str, Any]) -> KernelShape:
    """The KernelShape of a kernel as a tape describes it; missing figures get small defaults."""
    metadata = kernel.get("metadata") or {}
    resources = kernel.get("resources") or {}

    def pick(*values: Any, default: int = 0) -> int:
        return next((int(v) for v in values if v is not None), default)

    return KernelShape(
        num_warps=pick(metadata.get("num_warps"), default=4),
        num_ctas=pick(metadata.get("num_ctas"), default=1),
        registers=pick(resources.get("registers"), default=32),
        spills=pick(resources.get("spills"), resources.get("stack")),
        shared_bytes=pick(resources.get("shared_bytes"), metadata.get("shared")),
        tensor=instruction_class(kernel.get("ptx") or ""),
    )
