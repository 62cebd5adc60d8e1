"""A masked softmax in bfloat16, as attention scores need it."""

import torch
import torch.nn as nn

HEADS, LENGTH = 4, 1024


class Model(nn.Module):
    """Softmax over the last dimension of scores, where a position sees only those before it.

    scores: (HEADS, LENGTH, LENGTH) in bfloat16. The mask is the same for all heads.
    """

    def __init__(self):
        super().__init__()
        self.register_buffer("visible", torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool)))

    def forward(self, scores):
        hidden = scores.masked_fill(~self.visible, float("-inf"))
        return torch.softmax(hidden, dim=-1)


def get_inputs():
    return [torch.randn(HEADS, LENGTH, LENGTH).to(torch.bfloat16)]


def get_init_inputs():
    return []
