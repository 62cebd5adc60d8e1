"""Training or evaluation: whether a model may do something else in the other mode."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

import torch


def depends_on_mode(reference: torch.nn.Module, source: str) -> bool:
    """Whether the task's model, or a module in it, looks at its mode. source: of the task."""
    return "training" in source or any(
        "training" in code.co_names
        for kind in {type(module) for module in reference.modules()} for code in _codes(kind))


def _codes(kind: type) -> Iterator[CodeType]:
    """Of the methods of a class, but for those of nn.Module, which keeps the mode."""
    for base in kind.__mro__:
        if base is torch.nn.Module:
            return
        for method in vars(base).values():
            code = getattr(method, "__code__", None)
            if isinstance(code, CodeType):
                yield code
