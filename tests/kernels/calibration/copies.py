"""Copies: bandwidth from 16 K to 64 M elements, tiles too small to use it, tiles too large."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

N, BLOCK, WARPS, DTYPE = 1 << 20, 1024, 4, torch.float32

CASES = {
    "copy_16k": {"N": 1 << 14},
    "copy_256k": {"N": 1 << 18},
    "copy_1m": {"N": 1 << 20},
    "copy_4m": {"N": 1 << 22},
    "copy_16m": {"N": 1 << 24},
    "copy_64m": {"N": 1 << 26},
    "copy_16m_bf16": {"N": 1 << 24, "DTYPE": torch.bfloat16},
    "copy_16m_128": {"N": 1 << 24, "BLOCK": 128},
    "copy_16m_8k": {"N": 1 << 24, "BLOCK": 8192},
    "copy_16m_8k_1warp": {"N": 1 << 24, "BLOCK": 8192, "WARPS": 1},
    "copy_1m_32": {"N": 1 << 20, "BLOCK": 32, "WARPS": 1},
    "copy_16m_32": {"N": 1 << 24, "BLOCK": 32, "WARPS": 1},
    "copy_16m_256_8warps": {"N": 1 << 24, "BLOCK": 256, "WARPS": 8},
}


# --- task
class Model(nn.Module):
    def forward(self, x):
        return x.clone()


def get_inputs():
    return [torch.randn(N).to(DTYPE)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def copy(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < count), mask=i < count)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        copy[(triton.cdiv(N, BLOCK),)](x, out, N, BLOCK=BLOCK, num_warps=WARPS)
        return out
