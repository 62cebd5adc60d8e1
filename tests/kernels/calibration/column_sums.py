"""Sums of columns: strips down the whole matrix, and pieces joined by atomics."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

ROWS, COLS, TALL, WIDE, WARPS = 4096, 4096, 32, 32, 4

CASES = {
    "columns_strip": {},
    "columns_strip_128": {"TALL": 16, "WIDE": 128},
    "columns_narrow": {"ROWS": 16384, "COLS": 512},
    "columns_atomic": {"use": "atomic", "TALL": 64, "WIDE": 128},
    "columns_atomic_tall": {"use": "atomic", "ROWS": 65536, "COLS": 128, "TALL": 64, "WIDE": 128},
}


# --- task
class Model(nn.Module):
    def forward(self, x):
        return x.sum(0)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def strip(x, out, rows, cols, TALL: tl.constexpr, WIDE: tl.constexpr):
    col = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    held = tl.zeros((TALL, WIDE), dtype=tl.float32)
    for start in range(0, rows, TALL):
        row = start + tl.arange(0, TALL)
        held += tl.load(x + row[:, None] * cols + col[None, :])
    tl.store(out + col, tl.sum(held, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(COLS, device=x.device)
        strip[(COLS // WIDE,)](x, out, ROWS, COLS, TALL=TALL, WIDE=WIDE, num_warps=WARPS)
        return out


# --- candidate atomic
@triton.jit
def piece(x, out, cols, TALL: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(1) * TALL + tl.arange(0, TALL)
    col = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    part = tl.load(x + row[:, None] * cols + col[None, :])
    tl.atomic_add(out + col, tl.sum(part, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros(COLS, device=x.device)
        piece[(COLS // WIDE, ROWS // TALL)](x, out, COLS, TALL=TALL, WIDE=WIDE, num_warps=WARPS)
        return out
