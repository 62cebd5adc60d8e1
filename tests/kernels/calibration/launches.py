"""Chains of small launches: one kernel per operator."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

N, STEPS, BLOCK = 1 << 14, 16, 1024

CASES = {
    "launches_1": {"STEPS": 1},
    "launches_4": {"STEPS": 4},
    "launches_16": {},
    "launches_64": {"STEPS": 64},
    "launches_16_1m": {"N": 1 << 20},
    "launches_16_4m": {"N": 1 << 22},
}


# --- task
class Model(nn.Module):
    def forward(self, x):
        for _ in range(STEPS):
            x = x * 1.01
        return x


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def scale(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * 1.01)


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(STEPS):
            out = torch.empty_like(x)
            scale[(N // BLOCK,)](x, out, BLOCK=BLOCK)
            x = out
        return x
