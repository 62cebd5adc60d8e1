"""Moves a task's model and inputs to the device on which the references are made."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from kernel_evolve_worker.tensors import distinct

# Attributes of a module in which PyTorch keeps what `Module.to` moves itself.
_PYTORCHS_OWN = frozenset({"_parameters", "_buffers", "_modules"})


def device_of(name: torch.device | str) -> torch.device:
    """The device `name`; "cuda" becomes the current one, so that it equals its tensors' device."""
    device = torch.device(name)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def place_leaf(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """`tensor` itself where it is on `device`, else a copy there with the same strides.

    Expanded dimensions stay expanded.
    """
    if tensor.device == device:
        return tensor
    narrow = distinct(tensor.detach())
    moved = torch.empty_strided(narrow.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return moved.copy_(narrow).expand(tensor.shape)


def place(tree: Any, device: torch.device) -> Any:
    """`tree` with every tensor on `device` (`place_leaf`)."""
    return tree_map(lambda x: place_leaf(x, device) if isinstance(x, torch.Tensor) else x, tree)


def place_model(model: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """`model`, moved in place, with the plain tensors that its modules keep as attributes.

    A tensor in a list, tuple or dict of a module moves as well; one in any other object stays.
    """
    model.to(device)
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if name in _PYTORCHS_OWN or not _is_elsewhere(value, device):
                continue
            setattr(module, name, place(value, device))
    return model


def _is_elsewhere(value: Any, device: torch.device) -> bool:
    """Whether a tensor that `place` would move is in `value`."""
    if not isinstance(value, torch.Tensor) and type(value) not in (list, tuple, dict):
        return False
    return any(isinstance(x, torch.Tensor) and x.device != device for x in tree_leaves(value))
