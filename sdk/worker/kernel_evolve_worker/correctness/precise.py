"""Runs a task in float64: the yardstick that neither eager nor a candidate may move."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


class _Widen(TorchFunctionMode):
    """Turns every request for a narrower floating-point type into one for float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # noqa: A002
        if func in _CASTS:
            return args[0].double()
        return func(*_widen(args), **_widen(kwargs or {}))


def _widen(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _NARROW else value
    if type(value) in (list, tuple):
        return type(value)(_widen(item) for item in value)
    if type(value) is dict:
        return {key: _widen(item) for key, item in value.items()}
    return value


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Inside, factories and casts give float64 where they would give a narrower float."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widen():
            yield
    finally:
        torch.set_default_dtype(before)


def widen_model(model: torch.nn.Module) -> torch.nn.Module:
    """`model`, changed in place to float64, plain tensor attributes included."""
    model.double()
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and value.dtype in _NARROW:
                setattr(module, name, value.double())
    return model


def widen_inputs(inputs: Any, generator: torch.Generator | None = None, unit: float = 0.0) -> Any:
    """float64 copies of the narrower tensors, each element moved by up to `unit` relative."""

    def widen(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if not value.is_floating_point():
            return value.clone()
        wide = value.to(torch.float64, copy=True)
        if generator is not None and unit:
            move(wide, generator, unit)
        return wide

    return tree_map(widen, inputs)


def move(tensor: torch.Tensor, generator: torch.Generator, unit: float) -> None:
    """Multiplies each element in place by 1 + unit * r, r uniform in [-1, 1].

    The generator's device has to be the tensor's.
    """
    if tensor.numel() and any(s == 0 and n > 1 for s, n in zip(tensor.stride(), tensor.shape)):
        return  # expanded: elements share memory and can't move on their own
    drawn = torch.rand(tensor.shape, generator=generator, device=generator.device)
    tensor.mul_(drawn.mul_(2).sub_(1).double().mul_(unit).add_(1))
