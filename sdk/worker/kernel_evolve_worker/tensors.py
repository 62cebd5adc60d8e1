"""Writing into tensors whose elements may share memory."""

from __future__ import annotations

import torch


def distinct(tensor: torch.Tensor) -> torch.Tensor:
    """The view of `tensor` without the repeats of expanded dimensions (stride 0): sizes become 1.

    PyTorch refuses to write in place where elements share memory; it takes this view.
    """
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def write_values(target: torch.Tensor, values: torch.Tensor) -> None:
    """Copies `values` (same shape) into `target`; where elements of an expanded `target` share
    memory, the first of `values` along that dimension counts."""
    view = distinct(target)
    for dim, size in enumerate(view.shape):
        values = values.narrow(dim, 0, size)
    view.copy_(values)
