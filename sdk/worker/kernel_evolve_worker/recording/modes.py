"""Training or evaluation: whether a model may do something else in the other mode."""

from __future__ import annotations

from typing import Any

import torch


def depends_on_mode(reference: torch.nn.Module, inputs: list[Any], source: str) -> bool:
    """Whether the task's model does something else in its other mode, as far as can be told.

    Its operators are compared, which tells dropout and batch norm; a task whose text speaks of
    `training` may choose numbers by it, which they don't tell. Leaves the mode as it was.
    """
    if "training" in source:
        return True
    from kernel_evolve_worker.correctness.trace import trace_operators

    mode = reference.training
    try:
        own = trace_operators(reference, inputs).operators
        other = trace_operators(reference.train(not mode), inputs).operators
    except Exception:  # noqa: BLE001 - a task that works in one mode only depends on it
        return True
    finally:
        reference.train(mode)
    return own != other
