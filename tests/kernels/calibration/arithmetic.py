"""Arithmetic that outweighs its bytes: exponentials and roots, polynomials in fp32 and fp64."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

N, STEPS, BLOCK, WARPS, DTYPE, ROOTS = 1 << 22, 16, 1024, 4, torch.float32, False

CASES = {
    "exp_sqrt_8": {"STEPS": 8, "ROOTS": True},
    "exp_sqrt_32": {"STEPS": 32, "ROOTS": True},
    "polynomial_32": {"STEPS": 32},
    "polynomial_256": {"STEPS": 256},
    "polynomial_256_1warp": {"STEPS": 256, "BLOCK": 32, "WARPS": 1},
    "fp64_8": {"STEPS": 8, "DTYPE": torch.float64},
    "fp64_128": {"STEPS": 128, "DTYPE": torch.float64},
    "exp_sqrt_fp64": {"STEPS": 4, "DTYPE": torch.float64, "ROOTS": True},
}


# --- task
class Model(nn.Module):
    def forward(self, x):
        value = x
        for _ in range(STEPS):
            value = torch.exp(-torch.sqrt(value * value + 1.0)) if ROOTS else value * x + 0.25
        return value


def get_inputs():
    return [torch.rand(N).to(DTYPE)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def repeat(x, out, STEPS: tl.constexpr, ROOTS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(x + i)
    value = start
    for _ in range(STEPS):
        if ROOTS:
            value = tl.exp(-tl.sqrt(value * value + 1.0))
        else:
            value = value * start + 0.25
    tl.store(out + i, value)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        repeat[(N // BLOCK,)](x, out, STEPS=STEPS, ROOTS=ROOTS, BLOCK=BLOCK, num_warps=WARPS)
        return out
