"""Modelled seconds of PyTorch's own operators on an H200: what eager runs, and what a candidate
leaves to PyTorch. Both are priced here, by the same counts. Nothing here is measured; where an
operator's kernel isn't known, its bytes at full bandwidth stand for it, so that eager rather looks
too fast than too slow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evaluator_simulator import hardware as hw
from kernel_evolve_worker.correctness.layout import Layout

_FRESH = ("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like")
# Operators that are several kernels: how many, and how often they read or write their input.
# logsumexp: max, subtract, exp, sum, log, add. masked_fill: a copy, then a write over it.
_SEVERAL = {"logsumexp": (6, 6), "masked_fill": (2, 2), "diag_embed": (2, 1)}
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "addbmm")
_NORMS = ("layer_norm", "rms_norm", "group_norm", "batch_norm")
_SCATTERS = ("index_add", "scatter_add", "index_put", "scatter_reduce")
_GATHERS = ("index", "embedding", "take", "index_select")


@dataclass(frozen=True)
class Work:
    """What a call of an operator is priced by. Bytes; `depth` values meet in one of a product."""

    name: str  # "aten.mm.default"
    read: int
    written: int
    flops: int
    dtype: str  # "float32"
    layout: Layout = Layout()
    reused: tuple[tuple[int, int], ...] = ()


def kept(reused: tuple[tuple[int, int], ...], written: int) -> int:
    """How many of the bytes read again are still in the L2."""
    return sum(size for size, since in reused if size + since <= hw.L2_KEPT and
               written <= hw.L2_KEPT)


def traffic(read: int, written: int, reused: tuple[tuple[int, int], ...]) -> float:
    """Seconds that the memory needs; what the L2 still holds comes from there."""
    warm = min(read, kept(reused, written))
    cold = hw.COLD if read > warm else 0.0
    return (read - warm + written) / hw.COPY_BANDWIDTH + warm / hw.L2_REUSED + cold


def operator_time(work: Work, tf32: bool = False) -> float:
    """Seconds of one operator; 0 where it moves nothing and computes nothing."""
    if work.read + work.written == 0 and work.flops == 0:
        return 0.0
    name = work.name.split(".")[1] if "." in work.name else work.name
    base = name.rstrip("_").removeprefix("_").removeprefix("native_").removeprefix("fused_")
    launches, passes = (1, 1) if name.endswith("_") else _SEVERAL.get(base, (1, 1))
    if work.flops:
        body = _product(work, base, tf32)
    elif base in _FRESH:
        body = work.written / hw.COPY_BANDWIDTH
    elif base in _SCATTERS:
        body = _scatter(work)
    elif base in _GATHERS:
        body = _gather(work)
    elif "softmax" in base:
        body = _softmax(work)
    elif base in _NORMS:
        body = _norm(work)
    elif base == "mv":
        body = work.read / hw.MATVEC
    elif work.layout.rows:
        body = _reduction(work, base, passes)
    else:
        body = _pointwise(work)
        if passes > 1:
            body += (passes - 1) * work.read / hw.COPY_BANDWIDTH
    return body + launches * hw.LAUNCH


def _pointwise(work: Work) -> float:
    layout = work.layout
    return max(traffic(work.read + layout.skipped, work.written, work.reused),
               layout.elements / hw.UNLIKE, layout.lone / hw.LONE_SECTORS)


def _reduction(work: Work, base: str, passes: int) -> float:
    rate = hw.REDUCE_ACROSS if work.layout.across else hw.REDUCE
    if base.startswith(("var", "std")):
        rate = min(rate, hw.REDUCE_VARIANCE)
    warm = min(work.read, kept(work.reused, work.written))
    read = passes * work.read / rate - warm / rate + warm / hw.L2_REUSED
    return max(read, work.layout.rows / hw.REDUCED_ROWS) + hw.REDUCE_START


def _softmax(work: Work) -> float:
    body = traffic(work.read, work.written, work.reused)
    layout = work.layout
    if layout.across or layout.width <= hw.SOFTMAX_KEPT:
        return body
    return max(body, layout.rows * layout.width / hw.SOFTMAX_VALUES)


def _norm(work: Work) -> float:
    moved = traffic(work.read, work.written, work.reused) * hw.COPY_BANDWIDTH / hw.NORM
    return max(moved, work.layout.rows / hw.NORM_ROWS) + hw.NORM_START


def _gather(work: Work) -> float:
    """Reads no more of the table than is asked for."""
    rows, width = work.layout.rows, work.layout.width
    item = work.written / max(1, rows * width)
    read = min(work.read, work.written + 8 * rows)
    lone = rows / hw.GATHERED_ROWS
    if width * item < 32:  # a small table stays in the caches
        lone = rows / hw.LONE_SECTORS if work.read > hw.GATHER_CACHED + 8 * rows else 0.0
    return max(traffic(read, work.written, ()), lone)


def _scatter(work: Work) -> float:
    """Additions at places that the data names. How many meet can be told of a single place."""
    one = work.written <= 8
    rate = hw.ATOMICS_ONE_PLACE if one else hw.SCATTERED
    return max(work.layout.rows / rate, work.written / hw.COPY_BANDWIDTH)


def _product(work: Work, base: str, tf32: bool) -> float:
    """A product of matrices by cuBLAS: tiles, spread over the SMs; anything else at its peak."""
    tensor = {"float16": "dot_fp16", "bfloat16": "dot_bf16", "float64": "dot_fp64"}
    single = "dot_tf32" if tf32 or "convolution" in base else ""  # cuDNN's default is TF32
    key = tensor.get(work.dtype, single if work.dtype == "float32" else "")
    peak = hw.PEAK_TENSOR[key] if key else hw.PEAK_FMA
    moved = traffic(work.read, work.written, work.reused)
    batch, rows, columns = work.layout.product
    if base not in _PRODUCTS or not rows * columns * batch:
        return max(work.flops / peak, moved) + hw.COLD
    depth = work.flops / (2 * batch * rows * columns)
    tile = hw.GEMM_TILE
    tiles = batch * math.ceil(rows / tile) * math.ceil(columns / tile)
    split = max(1, min(math.ceil(hw.SMS / tiles), int(depth // hw.GEMM_SPLIT)))
    blocks = tiles * split
    spread = blocks / (hw.SMS * math.ceil(blocks / hw.SMS))
    return max(tiles * tile * tile * depth * 2 / peak / spread + hw.GEMM_START, moved)
