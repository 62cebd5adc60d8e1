"""Too few programs: one or a handful that walk over everything."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

N, BLOCK, WARPS, PROGRAMS = 1 << 20, 1024, 4, 1

CASES = {
    "one_program_16k": {"N": 1 << 14},
    "one_program_1m": {},
    "one_program_1m_8k": {"BLOCK": 8192, "WARPS": 8},
    "one_program_1m_32": {"BLOCK": 32, "WARPS": 1},
    "programs_8": {"PROGRAMS": 8, "N": 1 << 22},
    "programs_66": {"PROGRAMS": 64, "N": 1 << 23, "BLOCK": 2048, "WARPS": 8},
    "programs_132": {"PROGRAMS": 128, "N": 1 << 24, "BLOCK": 2048, "WARPS": 8},
    "programs_1024": {"PROGRAMS": 1024, "N": 1 << 24},
}


# --- task
class Model(nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def walk(x, out, each, BLOCK: tl.constexpr):
    begin = tl.program_id(0) * each
    for start in range(0, each, BLOCK):
        i = begin + start + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i) * 2.0 + 1.0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        walk[(PROGRAMS,)](x, out, N // PROGRAMS, BLOCK=BLOCK, num_warps=WARPS)
        return out
