"""Every STEP-th element: sectors of which little is used, and strides that are powers of two."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

COUNT, STEP, BLOCK, WARPS = 1 << 22, 8, 1024, 4

CASES = {
    "stride_2": {"STEP": 2},
    "stride_8": {"STEP": 8},
    "stride_16": {"STEP": 16},
    "stride_64k": {"COUNT": 1 << 10, "STEP": 1 << 16},
    "stride_1024": {"COUNT": 1 << 16, "STEP": 1 << 10},
    "stride_1000": {"COUNT": 1 << 16, "STEP": 1000},
}


# --- task
class Model(nn.Module):
    def forward(self, x):
        return x[::STEP] * 2.0


def get_inputs():
    return [torch.randn(COUNT * STEP)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def pick(x, out, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i * step) * 2.0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(COUNT, device=x.device)
        pick[(COUNT // BLOCK,)](x, out, STEP, BLOCK=BLOCK, num_warps=WARPS)
        return out
