"""What an execution of a launch tape gives back: values, traffic, arithmetic and faults.

Plain data without behaviour, shared by the executor (which fills it) and the judge (which reads
it). Sizes are in bytes, counts are plain integers, times are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from kernel_evolve_worker.correctness.layout import Layout

# Classes of arithmetic in `LaunchStats.flops`. A fused multiply-add counts as two.
#   dot_ieee, dot_tf32, dot_fp16, dot_bf16, dot_fp8, dot_fp64   tl.dot, by operand precision
#   dot_int8                                                    tl.dot on integers
#   fp64, fp32, fp16, bf16                                      elementwise and reductions
#   special                                                     exp, log, erf, sqrt, divide ...
#   special64                                                   the same in fp64
DOT_CLASSES = (
    "dot_ieee", "dot_tf32", "dot_fp16", "dot_bf16", "dot_fp8", "dot_fp64", "dot_int8",
)  # fmt: skip


@dataclass
class LaunchStats:
    """Counts of one kernel launch over its whole grid."""

    kernel: str  # key into tape.kernels, "k0"
    name: str  # the kernel function's name in the candidate
    grid: tuple[int, int, int]
    programs: int  # product of the grid
    step: int = 0  # index into tape.steps
    read_bytes: int = 0  # 32 x unique 32-byte sectors read, summed over buffers
    written_bytes: int = 0  # 32 x unique 32-byte sectors written, summed over buffers
    fetched_bytes: int = 0  # 64 x unique pairs of sectors read: memory sends no less
    reread_bytes: int = 0  # read bytes that another line of the kernel reads too
    reused: tuple[tuple[int, int], ...] = ()  # (bytes, bytes since); see Recency
    lone_sectors: int = 0  # asked for by accesses that use less than half of each
    atomics: int = 0  # sectors asked for by atomic operations; neighbours go together
    rounds: float = 0.0  # loads of a program that wait for each other (one per turn of a loop)
    bytes_per_program: float = 0.0  # bytes asked for by lanes (reused ones again) / programs
    flops: dict[str, int] = field(default_factory=dict)  # by class, see above
    # Operations of tl.dot by the size of one product and by how its right operand lies in memory:
    # {"64x64x32 rows": n}, "columns" where it is transposed, "unknown" where it was computed.
    dots: dict[str, int] = field(default_factory=dict)
    programs_run: int = 0  # less than `programs` only where execution stopped early
    reaches_output: bool = True  # it wrote something, and an output depends on that
    float_atomics: bool = False  # the sum's order, so its rounding, is not fixed
    seconds: float = 0.0  # time the simulator needed


@dataclass
class AtenStats:
    """Counts of one PyTorch operator that ran between the launches."""

    name: str  # "aten.add.Tensor"
    step: int = 0  # index into tape.steps
    read_bytes: int = 0  # every distinct input once
    written_bytes: int = 0  # every distinct output once
    flops: int = 0  # 0 where its bytes are what it costs; see prices.py
    dtype: str = "float32"  # of the first output
    layout: Layout = Layout()
    reused: tuple[tuple[int, int], ...] = ()  # (bytes, bytes since); see Recency
    seconds: float = 0.0


@dataclass
class Execution:
    """The result of `executor.execute`.

    faults: list of dicts, at most one per (kind, kernel, line, buffer) with these keys:
        kind     "out_of_bounds_load" | "out_of_bounds_store" | "uninitialised" (a launch or an
                 operator reads memory of `empty` that nothing wrote) | "unwritten" (an output holds
                 such memory at the end) | "race" (two programs write different values to one
                 place, or one reads what another writes) | "false_hint" (multiple_of and friends)
        buffer   "b3"; param: the kernel's parameter name (or null); kernel: "k0" or null
        line     the candidate's own line or null
        count    number of lanes or elements
        program  [x, y, z] of the first one, or null
        offset   element offset into the buffer of the first one (the flat index into the output
                 for "unwritten")
        extent   elements in the buffer
        step     index into tape.steps or null
    uncovered: a sentence that starts with "uncovered: " where the tape can't be executed faithfully
        (an unknown operation, the time budget); outputs are then None and prove nothing.
    """

    outputs: Any = None  # the tree of tape.outputs with tensors in place of refs
    inputs_after: list[Any] = field(default_factory=list)  # per flattened input, None: no tensor
    state_after: dict[str, torch.Tensor] = field(default_factory=dict)  # by the reference's name
    launches: list[LaunchStats] = field(default_factory=list)
    aten: list[AtenStats] = field(default_factory=list)
    uncovered: str | None = None
    faults: list[dict[str, Any]] = field(default_factory=list)
    # Tensors that the candidate made in __init__ and that forward changed: the next call would
    # start from other values.
    constants_changed: list[str] = field(default_factory=list)
    # Pairs (output index, "input"|"state"|"constant", name or index) that share memory.
    aliases: list[tuple[int, str, Any]] = field(default_factory=list)
    programs_run: int = 0
    programs_total: int = 0
    seconds: float = 0.0
