"""Which operators of PyTorch a tape may have: those that do the same whenever it is played.

Data never reaches Python while forward is recorded, so an operator that hands it out, or whose
result has a shape that depends on it, can't be on a tape; nor can one that draws random numbers,
swaps a tensor's memory or opens files.
"""

from __future__ import annotations

from typing import Any

import torch

# Change a tensor's storage under it.
STORAGE = ("aten.set_.", "aten.resize_.", "aten.resize_as_.", "aten.set_data.")

# Read data in Python or choose shapes by data, whatever their tags say.
_DATA = ("aten._local_scalar_dense.", "aten.nonzero", "aten.masked_select.", "aten.unique",
         "aten._unique", "aten.is_nonzero.", "aten.equal.", "aten.item.",
         "aten.repeat_interleave.Tensor", "aten.bincount.", "aten._assert_async.")

_FILES = ("aten.from_file.",)


def refusal(func: Any, drops: bool = True) -> str | None:
    """Why a call of the operator can't be on a tape, as what follows its name; None where it can.

    drops: whether an operator with a dropout may drop something in this call.
    """
    name, tags = str(func), func.tags
    if func.namespace != "aten":
        return ""
    if name.startswith(STORAGE):
        return ": a tensor that changes its memory"
    if (name.startswith(_DATA) or torch.Tag.data_dependent_output in tags
            or torch.Tag.dynamic_output_shape in tags and name != "aten.index.Tensor"):
        return ": what happens next depends on data"
    if torch.Tag.nondeterministic_seeded in tags and drops:
        return ": random numbers inside forward"
    return ": it reads files" if name.startswith(_FILES) else None


def operator_named(name: str) -> Any:
    """The operator called "aten.add.Tensor"; None where there is no such."""
    parts = name.split(".")
    if len(parts) != 3 or parts[0] != "aten":
        return None
    found = getattr(getattr(torch.ops.aten, parts[1], None), parts[2], None)
    return found if isinstance(found, torch._ops.OpOverload) else None
