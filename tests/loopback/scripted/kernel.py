import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def chain(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.maximum(x * 2.0 + 1.0, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        chain[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
        return y
