"""The table of operations that the simulator executes.

A handler takes (run, op, args): the running kernel, the operation and the values of its operands,
and returns the result's value, a list of values for several results, or None. Handlers never
change a value they were given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .interpreter import Run
    from .ttir_parser import Op

Handler = Callable[["Run", "Op", list[Any]], Any]
OPS: dict[str, Handler] = {}

_LANE_CLASS = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}


def operation(*names: str) -> Callable[[Handler], Handler]:
    """Registers a handler under the printed names of its operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            OPS[name] = handler
        return handler

    return register


def lane_class(dtype: torch.dtype) -> str | None:
    """The class of `LaunchStats.flops` for elementwise arithmetic, None for integers."""
    return _LANE_CLASS.get(dtype)
