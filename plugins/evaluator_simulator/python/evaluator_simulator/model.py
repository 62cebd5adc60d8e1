"""Modelled time of kernels and of PyTorch operators on an H200. Nothing here is measured.

A launch takes its fixed cost plus the largest of
  memory      unique sectors read and written / copy bandwidth
  l2          all bytes that the programs ask for / L2 bandwidth
  sm          bytes of the programs of one SM / the bandwidth that one SM can ask for
  arithmetic  operations / peak of the class that the compiler chose (wgmma, mma, fma)
Spilled registers and idle SMs lower the peaks. A PyTorch operator is a launch that reaches the
copy bandwidth and the peak of its library. Constants: hardware.py. Times are in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from evaluator_simulator import hardware as hw
from evaluator_simulator.execution import DOT_CLASSES, AtenStats, LaunchStats
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
    bound: str  # "launch", "memory", "l2", "sm" or "arithmetic"
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
    spill = 1.0 + shape.spills / hw.SPILL_BYTES

    moved = stats.read_bytes + stats.written_bytes
    asked = stats.bytes_per_program * programs
    threads = shape.num_warps * 32
    in_flight = min(threads * hw.BYTES_IN_FLIGHT, max(1.0, stats.bytes_per_program))
    per_sm = min(hw.SM_BANDWIDTH, resident * in_flight / hw.MEMORY_LATENCY)
    parts = {
        "memory": moved / hw.COPY_BANDWIDTH,
        "l2": asked / hw.L2_BANDWIDTH,
        # The SM with most programs ends last.
        "sm": math.ceil(blocks / hw.SMS) * (asked / blocks) / per_sm,
        "arithmetic": _arithmetic(stats.flops, shape.tensor) / _busy(blocks, resident, shape),
    }
    bound = max(parts, key=lambda key: parts[key])
    body = parts[bound] * spill
    seconds = body + hw.LAUNCH
    return LaunchTime(
        seconds=seconds,
        bound="launch" if body < hw.LAUNCH / 2 else bound,
        occupancy=fits,
        bandwidth_share=parts["memory"] / seconds,
        arithmetic_share=_arithmetic(stats.flops, shape.tensor) / seconds,
        waves=waves,
    )


def _arithmetic(flops: dict[str, int], tensor: str) -> float:
    """Seconds that the whole GPU needs for the operations. Matrix units and lanes work side by
    side."""
    matrix = sum(n / _dot_peak(c, tensor) for c, n in flops.items() if c in DOT_CLASSES)
    lanes = sum(n / hw.PEAK_LANE.get(c, hw.PEAK_LANE["fp32"])
                for c, n in flops.items() if c not in DOT_CLASSES)
    return max(matrix, lanes)


def _dot_peak(name: str, tensor: str) -> float:
    if name == "dot_ieee" or tensor == "fma":
        return hw.PEAK_FMA * hw.DOT_FMA_SHARE
    return hw.PEAK_TENSOR.get(name, hw.PEAK_FMA) * (1.0 if tensor == "wgmma" else hw.MMA_SHARE)


def _busy(blocks: int, resident: int, shape: KernelShape) -> float:
    """The share of the arithmetic units that has work: some SMs have fewer programs or warps."""
    spread = blocks / (hw.SMS * math.ceil(blocks / hw.SMS))
    return spread * min(1.0, resident * shape.num_warps / hw.WARPS_FOR_PEAK)


def operator_time(read: int, written: int, flops: int, dtype: str, tf32: bool = False) -> float:
    """Modelled seconds of one PyTorch operator; 0 where it moves nothing and computes nothing."""
    if read + written == 0 and flops == 0:
        return 0.0
    peak = {
        "float32": hw.PEAK_TENSOR["dot_tf32"] if tf32 else hw.PEAK_FMA,
        "float16": hw.PEAK_TENSOR["dot_fp16"],
        "bfloat16": hw.PEAK_TENSOR["dot_bf16"],
        "float64": hw.PEAK_TENSOR["dot_fp64"],
    }.get(dtype, hw.PEAK_FMA)
    return max(flops / peak, (read + written) / hw.COPY_BANDWIDTH) + hw.LAUNCH


def eager_time(operators: Iterable[Operator], tf32: bool = False) -> float:
    """Modelled seconds of a reference run by PyTorch, operator by operator."""
    return sum(
        operator_time(op.read_bytes, op.written_bytes, op.flops, _name(op.dtype), tf32)
        for op in operators
    )


def aten_time(stats: AtenStats, tf32: bool = False) -> float:
    """Modelled seconds of an operator that a candidate left to PyTorch."""
    return operator_time(stats.read_bytes, stats.written_bytes, stats.flops,
                         stats.dtype.removeprefix("torch."), tf32)


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
