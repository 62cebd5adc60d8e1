"""Sums of rows, from 64 to 1 M values: whole rows, several rows, and loops along a row."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

ROWS, COLS, BLOCK, TALL, WARPS, DTYPE = 4096, 1024, 1024, 1, 4, torch.float32

CASES = {
    "rows_64_alone": {"ROWS": 65536, "COLS": 64, "BLOCK": 64, "WARPS": 1},
    "rows_64_tiled": {"ROWS": 65536, "COLS": 64, "BLOCK": 64, "TALL": 32},
    "rows_256": {"ROWS": 16384, "COLS": 256, "BLOCK": 256, "TALL": 4},
    "rows_1k": {"ROWS": 16384},
    "rows_1k_few": {"ROWS": 256},
    "rows_4k": {"COLS": 4096, "BLOCK": 4096, "WARPS": 8},
    "rows_16k": {"ROWS": 1024, "COLS": 16384, "BLOCK": 2048},
    "rows_16k_bf16": {"ROWS": 1024, "COLS": 16384, "BLOCK": 4096, "DTYPE": torch.bfloat16},
    "rows_64k": {"ROWS": 256, "COLS": 65536, "BLOCK": 4096, "WARPS": 8},
    "rows_1m": {"ROWS": 16, "COLS": 1 << 20, "BLOCK": 4096, "WARPS": 8},
    "rows_8k_by_32": {"COLS": 8192, "BLOCK": 32, "WARPS": 1},
    "rows_8k_by_256": {"COLS": 8192, "BLOCK": 256},
    "rows_one": {"ROWS": 1, "COLS": 1 << 20, "BLOCK": 1024},
}


# --- task
class Model(nn.Module):
    def forward(self, x):
        return x.sum(-1)


def get_inputs():
    return [torch.randn(ROWS, COLS).to(DTYPE)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def total(x, out, cols, TALL: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * TALL + tl.arange(0, TALL)
    held = tl.zeros((TALL, BLOCK), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        held += tl.load(x + row[:, None] * cols + col[None, :]).to(tl.float32)
    tl.store(out + row, tl.sum(held, axis=1))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(ROWS, dtype=x.dtype, device=x.device)
        total[(ROWS // TALL,)](x, out, COLS, TALL=TALL, BLOCK=BLOCK, num_warps=WARPS)
        return out
