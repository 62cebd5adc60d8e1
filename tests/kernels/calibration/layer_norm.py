"""Layer norm of rows: in one kernel, and in two with the statistics between them."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

ROWS, COLS, WARPS = 4096, 1024, 4

CASES = {
    "layer_norm_256": {"ROWS": 16384, "COLS": 256, "WARPS": 1},
    "layer_norm_1k": {},
    "layer_norm_1k_64k": {"ROWS": 65536},
    "layer_norm_8k": {"COLS": 8192, "WARPS": 8},
    "layer_norm_two_kernels": {"use": "two", "ROWS": 16384},
}


# --- task
class Model(nn.Module):
    def forward(self, x, weight, bias):
        return F.layer_norm(x, (COLS,), weight, bias)


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(COLS), torch.randn(COLS)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def norm(x, weight, bias, out, COLS: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, COLS)
    value = tl.load(x + row * COLS + col)
    moved = value - tl.sum(value, axis=0) / COLS
    scale = 1.0 / tl.sqrt(tl.sum(moved * moved, axis=0) / COLS + 1e-5)
    tl.store(out + row * COLS + col, moved * scale * tl.load(weight + col) + tl.load(bias + col))


class ModelNew(nn.Module):
    def forward(self, x, weight, bias):
        out = torch.empty_like(x)
        norm[(ROWS,)](x, weight, bias, out, COLS=COLS, num_warps=WARPS)
        return out


# --- candidate two
@triton.jit
def statistics(x, mean, scale, COLS: tl.constexpr):
    row = tl.program_id(0)
    value = tl.load(x + row * COLS + tl.arange(0, COLS))
    middle = tl.sum(value, axis=0) / COLS
    moved = value - middle
    tl.store(mean + row, middle)
    tl.store(scale + row, 1.0 / tl.sqrt(tl.sum(moved * moved, axis=0) / COLS + 1e-5))


@triton.jit
def apply(x, mean, scale, weight, bias, out, COLS: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, COLS)
    moved = tl.load(x + row * COLS + col) - tl.load(mean + row)
    tl.store(out + row * COLS + col,
             moved * tl.load(scale + row) * tl.load(weight + col) + tl.load(bias + col))


class ModelNew(nn.Module):
    def forward(self, x, weight, bias):
        out = torch.empty_like(x)
        mean = torch.empty(ROWS, device=x.device)
        scale = torch.empty(ROWS, device=x.device)
        statistics[(ROWS,)](x, mean, scale, COLS=COLS, num_warps=WARPS)
        apply[(ROWS,)](x, mean, scale, weight, bias, out, COLS=COLS, num_warps=WARPS)
        return out
