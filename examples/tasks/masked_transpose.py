"""Elementwise work on a transposed input under a mask."""

import torch
import torch.nn as nn

ROWS, COLUMNS = 1500, 2000


class Model(nn.Module):
    """Where the mask is set, x^T times a weight per row; elsewhere a fill value.

    x: (COLUMNS, ROWS), read transposed; mask: (ROWS, COLUMNS) of bool; weight: (ROWS, 1).
    """

    def __init__(self, fill=-1.0):
        super().__init__()
        self.fill = fill

    def forward(self, x, mask, weight):
        scaled = torch.relu(x.t()) * weight
        return scaled.masked_fill(~mask, self.fill)


def get_inputs():
    return [
        torch.randn(COLUMNS, ROWS),
        torch.rand(ROWS, COLUMNS) < 0.7,
        torch.rand(ROWS, 1) + 0.5,
    ]


def get_init_inputs():
    return [-1.0]
