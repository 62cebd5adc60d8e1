"""A transposed operand: square tiles, long rows, long columns, lone rows."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

ROWS, COLS, TALL, WIDE, WARPS, DTYPE = 4096, 4096, 64, 64, 4, torch.float32

CASES = {
    "transpose_64x64": {},
    "transpose_32x32": {"TALL": 32, "WIDE": 32},
    "transpose_16x16_1warp": {"TALL": 16, "WIDE": 16, "WARPS": 1},
    "transpose_1x1024": {"TALL": 1, "WIDE": 1024},
    "transpose_1024x1": {"TALL": 1024, "WIDE": 1},
    "transpose_8x256": {"TALL": 8, "WIDE": 256},
    "transpose_bf16": {"DTYPE": torch.bfloat16},
    "transpose_1m": {"ROWS": 1024, "COLS": 1024},
    "transpose_odd": {"ROWS": 4160, "COLS": 4032},
}


# --- task
class Model(nn.Module):
    def forward(self, x, y):
        return x.t() + y


def get_inputs():
    return [torch.randn(COLS, ROWS).to(DTYPE), torch.randn(ROWS, COLS).to(DTYPE)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def add(x, y, out, rows, cols, TALL: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(1) * TALL + tl.arange(0, TALL)[:, None]
    col = tl.program_id(0) * WIDE + tl.arange(0, WIDE)[None, :]
    left = tl.load(x + col * rows + row)
    right = tl.load(y + row * cols + col)
    tl.store(out + row * cols + col, left + right)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(y)
        add[(COLS // WIDE, ROWS // TALL)](x, y, out, ROWS, COLS, TALL=TALL, WIDE=WIDE,
                                          num_warps=WARPS)
        return out
