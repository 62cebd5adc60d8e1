"""A matrix times a vector: loops along K in large and in small steps, few rows at a time."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

ROWS, K, TALL, DEEP, WARPS = 4096, 8192, 4, 512, 4

CASES = {
    "matvec_4x512": {},
    "matvec_1x4096": {"TALL": 1, "DEEP": 4096},
    "matvec_1x32": {"TALL": 1, "DEEP": 32, "WARPS": 1},
    "matvec_128x16": {"TALL": 128, "DEEP": 16},
    "matvec_128x1": {"TALL": 128, "DEEP": 1},
}


# --- task
class Model(nn.Module):
    def forward(self, matrix, vector):
        return torch.mv(matrix, vector)


def get_inputs():
    return [torch.randn(ROWS, K), torch.randn(K)]


def get_init_inputs():
    return []


# --- candidate
@triton.jit
def product(matrix, vector, out, k, TALL: tl.constexpr, DEEP: tl.constexpr):
    row = tl.program_id(0) * TALL + tl.arange(0, TALL)
    held = tl.zeros((TALL, DEEP), dtype=tl.float32)
    for start in range(0, k, DEEP):
        deep = start + tl.arange(0, DEEP)
        held += tl.load(matrix + row[:, None] * k + deep[None, :]) * tl.load(vector + deep)[None, :]
    tl.store(out + row, tl.sum(held, axis=1))


class ModelNew(nn.Module):
    def forward(self, matrix, vector):
        out = torch.empty(ROWS, device=matrix.device)
        product[(ROWS // TALL,)](matrix, vector, out, K, TALL=TALL, DEEP=DEEP, num_warps=WARPS)
        return out
