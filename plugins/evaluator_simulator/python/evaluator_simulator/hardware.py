"""The modelled GPU: every constant of the time model, with its source.

"measured" names cases of tests/kernels/h200.json, run on an H200 (SXM, 700 W); their texts are in
tests/kernels/calibration, those that begin with eager_ in expressions.py. "data sheet" means
NVIDIA's H200 figures, dense; "chosen" a value that no measurement has narrowed down. Units: bytes,
seconds, operations per second; a fused multiply-add counts as two operations.
"""

from __future__ import annotations

TARGET = "sm_90"
NAME = "H200"
CLAIM = 1.02  # chosen: modelled ratios up to this are no gain, for eager and candidate are as near

SMS = 132  # data sheet
REGISTERS_PER_SM = 65536  # CUDA programming guide, compute capability 9.0, like the next five
REGISTER_UNIT = 256  # registers are given to a warp in steps of this
WARPS_PER_SM = 64
PROGRAMS_PER_SM = 32
SHARED_PER_SM = 228 * 1024
SHARED_RESERVED = 1024  # the driver's part of each resident program

# Launches ----------------------------------------------------------------------------------------

CALL = 1.28e-6  # measured: eager_nothing; what a clock around a call of forward sees of no kernel
LAUNCH = 1.85e-6  # measured: launches_64, eager_tiny_chain_32; one more kernel in a full queue
COLD = 0.4e-6  # measured: copy_16k; the first bytes of a launch that come from memory
PROGRAMS = 1.64e9  # programs started per second. Measured: copy_16m_32, gather_rows_256

# Memory ------------------------------------------------------------------------------------------

COPY_BANDWIDTH = 4.5e12  # measured: copy_16m, copy_64m, eager_add_16m; read plus written bytes
# Found again in the L2: 16 MB are, 32 MB are not. Measured: eager_chain_of_4_4m and _8m.
L2_KEPT = 30e6
L2_REUSED = 8e12  # measured: eager_chain_of_4_1m to _4m; bytes found there
L2_BANDWIDTH = 14e12  # measured: mm_fp16_2k_64x64; all bytes that programs ask for
# Sectors asked for by accesses that use little of each. Measured: transpose_1x1024,
# gather_elements_1m, eager_contiguous_t: 116 to 139 per ns.
LONE_SECTORS = 132e9
SM_BANDWIDTH = 120e9  # measured: mm_fp16_2k_64x64; what one SM can ask for, 64 bytes per clock
# Loads in a loop wait for each other: one turn of a loop takes this. Measured: one_program_1m,
# one_program_16k, programs_8, rows_one, columns_strip, mm_bf16_512: 0.3 to 0.45 us.
ROUND = 0.42e-6
# Bytes that one thread keeps on the way (chosen: eight 16-byte loads), over the latency under load
# (chosen), times threads per SM: the bandwidth that one SM can ask for (Little's law).
BYTES_IN_FLIGHT = 128
MEMORY_LATENCY = 0.55e-6
# Sectors that atomics ask for per second, where few and where many meet at one place. Measured:
# atomic_bins_64k, atomic_bins_4m; atomic_bins_256, atomic_bins_16.
ATOMICS = 55e9
ATOMICS_CROWDED = 3.8e9
ATOMICS_ONE_PLACE = 0.6e9  # per place. Measured: atomic_total
CROWD = 256  # atomics per place from which they wait for each other; measured: between 64 and 4096

# Terms of a launch overlap: the power with which they add up. Chosen; measured: stride_8, where two
# terms are alike, mm_fp16_2k_64x64.
OVERLAP = 4.0
# Nothing overlaps where an SM holds this many warps without a loop, less where it holds more.
# Measured: softmax_16k_4warps, bmm_bf16.
WARPS_TO_OVERLAP = 4

# Arithmetic --------------------------------------------------------------------------------------

# fp32 without TF32, as cuBLAS reaches it. Measured: eager_mm_fp32_2048 and _4096.
PEAK_FMA = 53e12
# What a Triton product without tensor cores reaches of it with tiles of 64 x 64 and more, and the
# power of (smaller side / 64) by which smaller tiles fall. "columns": the right operand lies
# transposed in memory (x W^T), which costs bank conflicts in shared memory. Measured:
# mm_ieee_2k_64x64, mm_ieee_2k_32x32, mm_ieee_2k_16x16; mm_ieee_2k_turned, mm_ieee_512_32x32_turned.
DOT_FMA_SHARE = {"rows": (0.85, 0.6), "columns": (0.27, 1.0)}
# Tensor cores: data sheet (TF32 494, fp16/bf16 989, fp8/int8 1979, fp64 67), and the part reached.
# Measured: eager_mm_fp16_4096, eager_mm_tf32_4096, eager_mm_fp64_1024; fp8, int8 like fp16.
REACHED = 0.80
PEAK_TENSOR = {
    "dot_tf32": 494e12 * REACHED,
    "dot_fp16": 989e12 * REACHED,
    "dot_bf16": 989e12 * REACHED,
    "dot_fp8": 1979e12 * REACHED,
    "dot_int8": 1979e12 * REACHED,
    "dot_fp64": 67e12 * REACHED,
}
# mma.sync reaches this share of it with a tile of 64 x 64; less goes with the power of the side.
# Measured: mm_fp16_2k_32x32 (0.16), mm_fp16_2k_16x16 (0.05).
MMA_SHARE = (0.62, 2.0)
# A right operand in TF32 that isn't transposed in memory goes through registers: the share with
# tiles of 128 x 128. Measured: mm_tf32_2k, mm_tf32_2k_64x64; mm_tf32_2k_turned doesn't pay it.
TF32_ROWS_SHARE = (0.19, 0.7)
# Elementwise: one operation per lane and clock. That some are fused can't be seen.
PEAK_LANE = {
    "fp32": 33e12,  # data sheet; measured: polynomial_256 0.57 of the time, for it is all fused
    "fp16": 33e12,
    "bf16": 33e12,
    "fp64": 16e12,  # data sheet; measured: fp64_128, half as long, all fused
    "special": 3.9e12,  # exp, log, sqrt, divide. Measured: exp_sqrt_32
    "special64": 0.75e12,  # the same in fp64. Measured: exp_sqrt_fp64
}
WARPS_FOR_PEAK = 8  # chosen: fewer resident warps per SM can't keep the lanes busy
# A stack of this many bytes per thread doubles the time. Measured: mm_bf16_spills,
# softmax_16k_1warp, copy_16m_8k_1warp: 100 to 350.
SPILL_BYTES = 250.0

# What PyTorch's own kernels need -----------------------------------------------------------------

# Results per second where the operands of a pointwise operator or a copy don't lie alike (a
# broadcast row, a permutation): its kernel then moves element by element. Measured: eager_add_row,
# eager_add_column, eager_flip, eager_tril, eager_repeat, eager_permute_4d.
UNLIKE = 360e9
# Bytes per second that reductions read along rows, and across them; results per second of short
# rows; what a reduction needs beside that. Measured: eager_sum_rows, eager_sum_columns,
# eager_sum_short_rows, eager_tiny_sum.
REDUCE = 3.5e12
REDUCE_ACROSS = 2.7e12
REDUCE_VARIANCE = 1.95e12  # measured: eager_var_rows; Welford's divisions
REDUCED_ROWS = 4.2e9
REDUCE_START = 1.2e-6
# Softmax: rows of up to 1024 values are kept in registers and run at copy bandwidth; longer ones
# take so many values per second, whatever the type. Measured: eager_softmax_1k,
# eager_log_softmax_32k, eager_softmax_4k_bf16, softmax_16k (its eager).
SOFTMAX_KEPT = 1024
SOFTMAX_VALUES = 360e9
# Norms: bytes per second, rows per second, the start. Measured: eager_layer_norm_4k,
# eager_rms_norm_4k, eager_layer_norm_256, eager_tiny_layer_norm.
NORM = 3.2e12
NORM_ROWS = 0.6e9
NORM_START = 1.0e-6
# Rows that are gathered per second. Measured: gather_rows_32 (its eager).
GATHERED_ROWS = 1.64e9
SCATTERED = 85e9  # additions per second where few meet. Measured: atomic_bins_4m
GATHER_CACHED = 2e6  # chosen: bytes of a table whose lone elements are found in the caches
# Bytes per second of a matrix times a vector. Measured: matvec_4x512 (its eager), eager_mv_8k.
MATVEC = 3.6e12
# Products: cuBLAS' smallest tile, the depth from which it splits the inner dimension, its start.
# Measured: eager_tiny_mm, eager_mm_fp32_256 to _4096, eager_mm_fp32_long_k.
GEMM_TILE = 64
GEMM_SPLIT = 1024
GEMM_START = 2.5e-6
