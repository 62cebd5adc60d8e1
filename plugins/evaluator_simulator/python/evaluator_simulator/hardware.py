"""The modelled GPU: every constant of the time model, with its source.

"measured" means on an H200 (SXM, 700 W); "data sheet" means NVIDIA's H200 figures, dense; "chosen"
means a starting value that no measurement has narrowed down. Units: bytes, seconds, operations per
second; a fused multiply-add counts as two operations.
"""

from __future__ import annotations

TARGET = "sm_90"
NAME = "H200"

SMS = 132  # data sheet
REGISTERS_PER_SM = 65536  # CUDA programming guide, compute capability 9.0, like the next five
REGISTER_UNIT = 256  # registers are given to a warp in steps of this
WARPS_PER_SM = 64
PROGRAMS_PER_SM = 32
SHARED_PER_SM = 228 * 1024
SHARED_RESERVED = 1024  # the driver's part of each resident program

COPY_BANDWIDTH = 4.14e12  # measured: a copy, read plus written bytes
L2_BANDWIDTH = 6.0e12  # chosen: all bytes that programs ask for pass the L2 at most this fast
SM_BANDWIDTH = 100e9  # chosen: 64 bytes per clock are the port of one SM, less in practice
MEMORY_LATENCY = 0.8e-6  # chosen: seconds from a load to its data under load
# Bytes that one thread keeps on the way (chosen: four 16-byte loads). Times threads per SM, over
# the latency, it is the bandwidth that one SM can ask for (Little's law).
BYTES_IN_FLIGHT = 64

LAUNCH = 3e-6  # measured: what one more small kernel adds to a stream

# Matrix products as cuBLAS or a good Triton kernel reaches them.
# fp32 without TF32: measured, 137 GFLOP in 2.69 ms.
PEAK_FMA = 51e12
# What a Triton product without tensor cores reaches of it. Measured: 0.13 with a transposed operand
# (x W^T, 512^3 in 0.044 ms), 0.33 to 0.86 with row-major ones (512^3 to 4096^3). The model cannot
# see the layout in shared memory, so it takes the slow end: a modelled win must hold on a GPU.
DOT_FMA_SHARE = 0.13
# Tensor cores: data sheet (TF32 494, fp16/bf16 989, fp8/int8 1979, fp64 67), 70% reached (chosen).
REACHED = 0.70
PEAK_TENSOR = {
    "dot_tf32": 494e12 * REACHED,
    "dot_fp16": 989e12 * REACHED,
    "dot_bf16": 989e12 * REACHED,
    "dot_fp8": 1979e12 * REACHED,
    "dot_int8": 1979e12 * REACHED,
    "dot_fp64": 67e12 * REACHED,
}
MMA_SHARE = 0.62  # chosen: mma.sync reaches this share of what wgmma reaches on this generation
# Elementwise: one operation per lane and clock, 128 lanes (fp32), 80% reached (chosen).
PEAK_LANE = {
    "fp32": 27e12,
    "fp16": 27e12,
    "bf16": 27e12,
    "fp64": 13e12,
    "special": 3.0e12,  # exp, log, sqrt, divide: 16 lanes per SM and clock
}
WARPS_FOR_PEAK = 8  # chosen: fewer resident warps per SM can't keep the arithmetic units busy
SPILL_BYTES = 128.0  # chosen: a stack of this many bytes per thread halves every peak
