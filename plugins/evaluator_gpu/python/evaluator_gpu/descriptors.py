"""Tensor descriptors made on the host: from a tape's to what cuTensorMapEncodeTiled takes.

Triton hands the kernel a CUtensorMap of 128 bytes; what it depends on beside the tensor, the
compiler tells in the kernel's metadata, one entry a descriptor.
"""

from __future__ import annotations

from typing import Any

BYTES = 128  # of a CUtensorMap
_PADDED_4_BIT = "fp4_padded"
# The compiler's numbers of element types are CUtensorMapDataType's but for these.
_TYPES = {8: 10, 9: 8, 10: 9}
_MOST_TYPES, _MOST_SWIZZLES, _MOST_BOX, _MOST_DIMENSIONS = 15, 6, 256, 5


class Unknown(Exception):
    """A descriptor that can't be made here; the text says which kind."""


def tensor_map(given: dict[str, Any], made: Any) -> dict[str, Any]:
    """The `map` of REPLAY.md for a tape's descriptor {"shape", "strides", "padding", ...}, in
    elements; made: the compiler's entry for it. Raises Unknown; KeyError, TypeError or ValueError
    where the entry isn't one.
    """
    if not isinstance(made, dict):
        raise Unknown("tensor descriptors that the compiler says nothing of")
    if made.get(_PADDED_4_BIT) or made.get("is_im2col"):
        raise Unknown("tensor descriptors of 4-bit numbers or of images")
    shape, strides, box = given["shape"], given["strides"], made["block_size"]
    kind, size, swizzle = (int(made[key]) for key in ("elem_type", "elem_size", "swizzle"))
    kind = _TYPES.get(kind, kind)
    if not (len(shape) == len(strides) == len(box) and 1 <= len(shape) <= _MOST_DIMENSIONS):
        raise ValueError("the numbers of a tensor descriptor don't fit together")
    if strides[-1] != 1 or not all(1 <= n <= _MOST_BOX for n in box):
        raise ValueError("a tensor descriptor makes no sense")
    if not (0 <= kind <= _MOST_TYPES and 0 <= swizzle <= _MOST_SWIZZLES and size in (1, 2, 4, 8)):
        raise ValueError("a tensor descriptor of an unknown kind")
    return {"type": kind, "swizzle": swizzle, "nan": given.get("padding") == "nan",
            "shape": shape[::-1], "strides": [n * size for n in strides[-2::-1]],
            "box": [int(n) for n in box[::-1]]}
