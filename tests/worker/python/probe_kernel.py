"""A kernel for a child to compile."""

import triton
import triton.language as tl


@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    """x: n floats, each gets doubled."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x + offsets, tl.load(x + offsets, mask=mask) * 2, mask=mask)
