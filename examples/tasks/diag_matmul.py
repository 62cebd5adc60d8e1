"""A product with a diagonal matrix, plus a matrix: most of the work can be avoided."""

import torch
import torch.nn as nn

N = 4096


class Model(nn.Module):
    """Computes diag(A) @ B + D.

    A has the shape (N,); B and D have the shape (N, N). Building the diagonal matrix and
    multiplying by it costs 2 N^3 operations; scaling the rows of B by A gives the same result.
    """

    def __init__(self, BLOCK_M=128):
        """BLOCK_M is the number of rows per program that a kernel might use; forward ignores it."""
        super().__init__()
        self.BLOCK_M = BLOCK_M

    def forward(self, A, B, D):
        return torch.diag(A) @ B + D


def get_inputs():
    return [torch.randn(N), torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return [128]
