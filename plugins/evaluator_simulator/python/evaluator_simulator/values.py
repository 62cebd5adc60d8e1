"""The values that a simulated kernel computes with, for many programs at once.

A value of shape S held by P programs is a tensor of shape [P, *S], or [1, *S] where all programs
hold the same. Three kinds of values are not tensors:

- Affine: integers base[p] + sum(strides[d] * index[d]); what address arithmetic is made of. Kept
  symbolic, a tile of addresses costs nothing and becomes one strided view of memory.
- Pointer: a buffer and an element offset (an Affine or an int64 tensor).
- Descriptor: a pointer with the shape and the strides of a tensor in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .memory import Buffer

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "index": torch.int64,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
}
_INT32 = (-(1 << 31), (1 << 31) - 1)


class Uncovered(Exception):
    """The simulator can't execute this faithfully; the text says what, without "uncovered: "."""


def dtype_of(element: str) -> torch.dtype:
    """The PyTorch type of an element as TTIR prints it; raises Uncovered."""
    if element not in DTYPES:
        raise Uncovered(f"the element type {element}")
    return DTYPES[element]


class Affine:
    """Integers base[p] + sum(strides[d] * index[d]) of `shape`; immutable.

    base: int64 tensor [P] or [1]; strides: one int per dimension, 0 where the size is 1.
    dtype int32 wraps as hardware does; `base` is kept inside its range.
    """

    __slots__ = ("base", "strides", "shape", "dtype", "_dense", "_bounds")

    def __init__(self, base: torch.Tensor, strides: tuple[int, ...], shape: tuple[int, ...],
                 dtype: torch.dtype) -> None:
        if dtype == torch.int32:
            base = base.to(torch.int32)
        self.base = base.to(torch.int64)
        self.strides = tuple(0 if n == 1 else s for s, n in zip(strides, shape))
        self.shape = tuple(shape)
        self.dtype = dtype
        self._dense: torch.Tensor | None = None
        self._bounds: tuple[int, int] | None = None

    def dense(self) -> torch.Tensor:
        """[P|1, *shape] of `dtype`; dimensions of stride 0 are expanded, not stored."""
        if self._dense is None:
            value = self.base.to(self.dtype).reshape([-1] + [1] * len(self.shape))
            for d, (stride, size) in enumerate(zip(self.strides, self.shape)):
                if stride:
                    steps = torch.arange(size, dtype=self.dtype) * stride
                    value = value + steps.reshape([-1] + [1] * (len(self.shape) - 1 - d))
            self._dense = value.expand([value.shape[0], *self.shape])
        return self._dense

    def bounds(self) -> tuple[int, int]:
        """(least, greatest) over all programs and lanes, before any wrapping."""
        if self._bounds is None:
            low, high = int(self.base.min()), int(self.base.max())
            for stride, size in zip(self.strides, self.shape):
                span = stride * (size - 1)
                low, high = (low + span, high) if span < 0 else (low, high + span)
            self._bounds = (low, high)
        return self._bounds

    def fits(self) -> bool:
        """Whether no lane wraps around in `dtype`."""
        low, high = self.bounds()
        return self.dtype != torch.int32 or (_INT32[0] <= low and high <= _INT32[1])

    def is_splat(self) -> bool:
        return not any(self.strides)

    def combine(self, other: Affine, sign: int) -> Affine:
        """self + sign * other, lane by lane; the shapes agree."""
        return Affine(self.base + sign * other.base,
                      tuple(a + sign * b for a, b in zip(self.strides, other.strides)),
                      self.shape, self.dtype)

    def scaled(self, factor: int) -> Affine:
        return Affine(self.base * factor, tuple(s * factor for s in self.strides), self.shape,
                      self.dtype)

    def reshaped(self, strides: tuple[int, ...], shape: tuple[int, ...]) -> Affine:
        return Affine(self.base, strides, shape, self.dtype)


@dataclass(frozen=True)
class Pointer:
    """An address: `offset` elements of type `element` from the start of `buffer`.

    buffer None: a null pointer. param: the kernel parameter it derives from, for messages.
    """

    buffer: Buffer | None
    offset: Any  # Affine, or int64 tensor [P|1, *shape]
    element: str
    param: str

    def moved(self, offset: Any) -> Pointer:
        return Pointer(self.buffer, offset, self.element, self.param)


@dataclass(frozen=True)
class Descriptor:
    """A tensor in memory for block-wise access.

    shape, strides: an int64 tensor [P|1] per dimension.
    """

    pointer: Pointer
    shape: tuple[torch.Tensor, ...]
    strides: tuple[torch.Tensor, ...]
    block: tuple[int, ...]
    nan_padding: bool = False


def dense(value: Any) -> torch.Tensor:
    """A tensor of any integer or float value."""
    return value.dense() if isinstance(value, Affine) else value


def splat_affine(value: torch.Tensor, shape: tuple[int, ...]) -> Affine:
    """A scalar integer [P|1] spread over `shape`."""
    return Affine(value, (0,) * len(shape), shape, value.dtype)


def uniform_truth(mask: torch.Tensor | None) -> bool | None:
    """True or False where every lane of every program says so and that is cheap to know."""
    if mask is None:
        return True
    if all(stride == 0 or size == 1 for stride, size in zip(mask.stride(), mask.shape)):
        return bool(mask.reshape(-1)[0]) if mask.numel() else True
    return None


def blend(keep: torch.Tensor, new: Any, old: Any) -> Any:
    """`new` for the programs where keep [P] holds, `old` for the others."""
    if isinstance(new, Pointer) or isinstance(old, Pointer):
        if new.buffer is not old.buffer or new.element != old.element:
            raise Uncovered("a pointer that selects between two buffers")
        return new.moved(blend(keep, new.offset, old.offset))
    if isinstance(new, Descriptor):
        if new is not old:
            raise Uncovered("a descriptor that changes in a branch")
        return new
    if isinstance(new, Affine) and isinstance(old, Affine) and new.strides == old.strides:
        return Affine(torch.where(keep, new.base, old.base), new.strides, new.shape, new.dtype)
    new, old = dense(new), dense(old)
    return torch.where(keep.reshape([-1] + [1] * (new.dim() - 1)), new, old)
