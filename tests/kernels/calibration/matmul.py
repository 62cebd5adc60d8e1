"""Matrix products in every precision: tiles, warps, stages, transposed operands, one program."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

M, N, K, DTYPE, EXACT, TURNED = 2048, 2048, 2048, torch.float16, "ieee", False
TALL, WIDE, DEEP, WARPS, STAGES = 128, 128, 64, 8, 3

_FP32 = {"DTYPE": torch.float32, "TALL": 64, "WIDE": 64, "DEEP": 32, "WARPS": 4}
_SMALL = {"M": 512, "N": 512, "K": 512}
CASES = {
    "mm_ieee_512": {**_FP32, **_SMALL},
    "mm_ieee_512_turned": {**_FP32, **_SMALL, "TURNED": True},
    "mm_ieee_512_32x32": {**_FP32, **_SMALL, "TALL": 32, "WIDE": 32},
    "mm_ieee_512_32x32_turned": {**_FP32, **_SMALL, "TALL": 32, "WIDE": 32, "TURNED": True},
    "mm_ieee_512_shallow": {**_FP32, **_SMALL, "DEEP": 16},
    "mm_ieee_512_8warps": {**_FP32, **_SMALL, "WARPS": 8},
    "mm_ieee_2k_64x64": {**_FP32},
    "mm_ieee_2k_1stage": {**_FP32, "STAGES": 1},
    "mm_ieee_2k": {**_FP32, "TALL": 128, "WARPS": 8},
    "mm_ieee_2k_turned": {**_FP32, "TURNED": True},
    "mm_ieee_2k_16x16": {**_FP32, "TALL": 16, "WIDE": 16, "WARPS": 1},
    "mm_ieee_2k_32x32": {**_FP32, "TALL": 32, "WIDE": 32},
    "mm_ieee_4k": {**_FP32, "M": 4096, "N": 4096, "K": 1024},
    "mm_tf32_512": {**_FP32, **_SMALL, "EXACT": "tf32"},
    "mm_tf32_2k": {**_FP32, "EXACT": "tf32", "TALL": 128, "WIDE": 128, "WARPS": 8},
    "mm_tf32_2k_64x64": {**_FP32, "EXACT": "tf32"},
    "mm_tf32_2k_turned": {**_FP32, "EXACT": "tf32", "TURNED": True},
    "mm_fp16_2k": {},
    "mm_fp16_4k": {"M": 4096, "N": 4096, "K": 4096, "WIDE": 256},
    "mm_fp16_4k_4warps": {"M": 4096, "N": 4096, "K": 1024, "WARPS": 4, "STAGES": 4},
    "mm_fp16_2k_64x64": {"TALL": 64, "WIDE": 64, "WARPS": 4},
    "mm_fp16_2k_32x32": {"TALL": 32, "WIDE": 32, "DEEP": 32, "WARPS": 4},
    "mm_fp16_2k_16x16": {"TALL": 16, "WIDE": 16, "DEEP": 16, "WARPS": 1},
    "mm_fp16_2k_1stage": {"STAGES": 1},
    "mm_bf16_4k": {"M": 4096, "N": 4096, "K": 1024, "DTYPE": torch.bfloat16, "STAGES": 4},
    "mm_bf16_2k_turned": {"DTYPE": torch.bfloat16, "TURNED": True},
    "mm_bf16_512": {**_SMALL, "DTYPE": torch.bfloat16, "TALL": 64, "WIDE": 64, "WARPS": 4},
    "mm_bf16_long_k": {"M": 128, "N": 256, "K": 65536, "DTYPE": torch.bfloat16},
    "mm_bf16_spills": {"DTYPE": torch.bfloat16, "WIDE": 256, "WARPS": 4},
    "mm_fp16_one_program": {"M": 128, "N": 128, "K": 8192},
    "mm_bf16_skinny": {"M": 64, "N": 8192, "K": 8192, "DTYPE": torch.bfloat16, "TALL": 64,
                       "WIDE": 64, "WARPS": 4},
}


# --- task
torch.backends.cuda.matmul.allow_tf32 = EXACT == "tf32"


class Model(nn.Module):
    def forward(self, left, right):
        return left @ (right.t() if TURNED else right)


def get_inputs():
    right = torch.randn(N, K) if TURNED else torch.randn(K, N)
    return [torch.randn(M, K).to(DTYPE), right.to(DTYPE)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def product(left, right, out, n, k, along, across, EXACT: tl.constexpr, TALL: tl.constexpr,
            WIDE: tl.constexpr, DEEP: tl.constexpr):
    row = tl.program_id(1) * TALL + tl.arange(0, TALL)
    col = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    held = tl.zeros((TALL, WIDE), dtype=tl.float32)
    for start in range(0, k, DEEP):
        deep = start + tl.arange(0, DEEP)
        a = tl.load(left + row[:, None] * k + deep[None, :])
        b = tl.load(right + deep[:, None] * along + col[None, :] * across)
        held = tl.dot(a, b, held, input_precision=EXACT)
    tl.store(out + row[:, None] * n + col[None, :], held)


class ModelNew(nn.Module):
    def forward(self, left, right):
        out = torch.empty((M, N), dtype=left.dtype, device=left.device)
        along, across = (1, K) if TURNED else (N, 1)
        product[(N // WIDE, M // TALL)](
            left, right, out, N, K, along, across, EXACT=EXACT, TALL=TALL, WIDE=WIDE, DEEP=DEEP,
            num_warps=WARPS, num_stages=STAGES)
        return out
