"""Root-mean-square normalisation, written out with elementary operations."""

import torch
import torch.nn as nn

TOKENS, WIDTH = 2048, 2048


class Model(nn.Module):
    """Divides each token by the root of its mean square and scales its features.

    x: (TOKENS, WIDTH). There is no operator to recognise here: the mean, the root and the products
    are separate operations.
    """

    def __init__(self, epsilon=1e-6):
        super().__init__()
        self.epsilon = epsilon
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        mean_square = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.epsilon) * self.gain


def get_inputs():
    return [torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return []
