"""A chain of five pointwise operators on two inputs and a row, as one kernel."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

ROWS, COLS, BLOCK, WARPS, DTYPE = 1024, 1024, 1024, 4, torch.float32

CASES = {
    "chain_64k": {"ROWS": 64},
    "chain_1m": {"ROWS": 1024},
    "chain_4m": {"ROWS": 4096},
    "chain_16m": {"ROWS": 16384},
    "chain_64m": {"ROWS": 65536},
    "chain_16m_bf16": {"ROWS": 16384, "DTYPE": torch.bfloat16},
    "chain_16m_2k": {"ROWS": 16384, "BLOCK": 2048, "WARPS": 8},
}


# --- task
class Model(nn.Module):
    def forward(self, x, y, row):
        return torch.relu(x * y + row) * 0.5 - y


def get_inputs():
    return [torch.randn(ROWS, COLS).to(DTYPE), torch.randn(ROWS, COLS).to(DTYPE),
            torch.randn(COLS).to(DTYPE)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def chain(x, y, row, out, cols, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i).to(tl.float32)
    b = tl.load(y + i).to(tl.float32)
    c = tl.load(row + i % cols).to(tl.float32)
    tl.store(out + i, tl.maximum(a * b + c, 0.0) * 0.5 - b)


class ModelNew(nn.Module):
    def forward(self, x, y, row):
        out = torch.empty_like(x)
        chain[(ROWS * COLS // BLOCK,)](x, y, row, out, COLS, BLOCK=BLOCK, num_warps=WARPS)
        return out
