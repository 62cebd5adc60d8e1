"""Batched matrix products with a short inner dimension, and one matrix times many vectors."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BATCH, SIZE, DEEP, TILE, WARPS, DTYPE, EXACT = 64, 512, 64, 128, 8, torch.bfloat16, "ieee"

CASES = {
    "bmm_bf16": {},
    "bmm_bf16_small": {"BATCH": 512, "SIZE": 64, "TILE": 64, "WARPS": 4},
    "bmm_ieee": {"DTYPE": torch.float32, "TILE": 64, "DEEP": 32, "WARPS": 4},
}


# --- task
class Model(nn.Module):
    def forward(self, left, right):
        return torch.bmm(left, right)


def get_inputs():
    return [torch.randn(BATCH, SIZE, DEEP).to(DTYPE), torch.randn(BATCH, DEEP, SIZE).to(DTYPE)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def product(left, right, out, size, EXACT: tl.constexpr, TILE: tl.constexpr, DEEP: tl.constexpr):
    batch = tl.program_id(2)
    row = tl.program_id(1) * TILE + tl.arange(0, TILE)
    col = tl.program_id(0) * TILE + tl.arange(0, TILE)
    deep = tl.arange(0, DEEP)
    a = tl.load(left + batch * size * DEEP + row[:, None] * DEEP + deep[None, :])
    b = tl.load(right + batch * size * DEEP + deep[:, None] * size + col[None, :])
    tl.store(out + batch * size * size + row[:, None] * size + col[None, :],
             tl.dot(a, b, input_precision=EXACT).to(out.dtype.element_ty))


class ModelNew(nn.Module):
    def forward(self, left, right):
        out = torch.empty((BATCH, SIZE, SIZE), dtype=left.dtype, device=left.device)
        tiles = SIZE // TILE
        product[(tiles, tiles, BATCH)](left, right, out, SIZE, EXACT=EXACT, TILE=TILE, DEEP=DEEP,
                                       num_warps=WARPS)
        return out
