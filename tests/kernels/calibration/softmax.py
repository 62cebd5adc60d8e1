"""Softmax of rows held whole, up to where they no longer fit into registers, and in two passes."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

ROWS, COLS, BLOCK, WARPS, DTYPE = 4096, 1024, 1024, 4, torch.float32

CASES = {
    "softmax_256": {"ROWS": 16384, "COLS": 256, "BLOCK": 256, "WARPS": 1},
    "softmax_1k": {"ROWS": 16384},
    "softmax_1k_few": {"ROWS": 128},
    "softmax_1000": {"COLS": 1000},
    "softmax_4k": {"COLS": 4096, "BLOCK": 4096, "WARPS": 8},
    "softmax_4k_bf16": {"COLS": 4096, "BLOCK": 4096, "WARPS": 8, "DTYPE": torch.bfloat16},
    "softmax_16k": {"ROWS": 1024, "COLS": 16384, "BLOCK": 16384, "WARPS": 16},
    "softmax_16k_4warps": {"ROWS": 1024, "COLS": 16384, "BLOCK": 16384, "WARPS": 4},
    "softmax_16k_1warp": {"ROWS": 1024, "COLS": 16384, "BLOCK": 16384, "WARPS": 1},
    "softmax_16k_passes": {"use": "passes", "ROWS": 1024, "COLS": 16384, "BLOCK": 1024},
}


# --- task
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(ROWS, COLS).to(DTYPE)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def whole(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + col, mask=col < cols, other=float("-inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * cols + col, power / tl.sum(power, axis=0), mask=col < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        whole[(ROWS,)](x, out, COLS, BLOCK=BLOCK, num_warps=WARPS)
        return out


# --- candidate passes
@triton.jit
def passes(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    high = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        value = tl.load(x + row * cols + start + tl.arange(0, BLOCK))
        higher = tl.maximum(high, value)
        total = total * tl.exp(high - higher) + tl.exp(value - higher)
        high = higher
    top = tl.max(high, axis=0)
    whole = tl.sum(total * tl.exp(high - top), axis=0)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * cols + col)
        tl.store(out + row * cols + col, tl.exp(value - top) / whole)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        passes[(ROWS,)](x, out, COLS, BLOCK=BLOCK, num_warps=WARPS)
        return out
