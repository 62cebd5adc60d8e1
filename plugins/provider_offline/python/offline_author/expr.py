"""Expressions over memory: the author's intermediate form between a captured graph and kernels.

A value is a tree of elementwise operations whose leaves read buffers through affine views. Views
are pushed down to the leaves, where PyTorch itself computes the new sizes and strides on a `meta`
tensor; so every view operator that PyTorch knows is understood, and a kernel only ever meets
"buffer, offset, strides". A view that a leaf can't take raises ViewError: the caller then writes
the value to memory first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

ViewFunction = Callable[[torch.Tensor], torch.Tensor]


class ViewError(Exception):
    """A leaf has no strides that describe the wanted view."""


@dataclass(eq=False)
class Buffer:
    """A block of memory. `kind`: input, state (parameter or buffer of the module), temp, or iota.

    `stride` counts elements. An iota buffer owns no memory: its value at an offset is the offset.
    `python` is how the forward of the written file spells the tensor.
    """

    name: str
    kind: str
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    python: str = ""

    @property
    def numel(self) -> int:
        return product(self.size)


@dataclass(eq=False)
class Expr:
    """A value of `shape` and `dtype`; made by an ExprPool, so equal values are the same object."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    uid: int = 0


@dataclass(eq=False)
class Load(Expr):
    """The elements of `buffer` seen through `meta`: its size, strides and offset, without data."""

    buffer: Buffer = None  # type: ignore[assignment]
    meta: torch.Tensor = None  # type: ignore[assignment]

    @property
    def stride(self) -> tuple[int, ...]:
        return tuple(self.meta.stride())

    @property
    def offset(self) -> int:
        return int(self.meta.storage_offset())

    def is_whole(self) -> bool:
        """Whether this is the buffer itself, not a view of it."""
        return (
            self.shape == self.buffer.size
            and self.offset == 0
            and same_strides(self.shape, self.stride, self.buffer.stride)
        )


@dataclass(eq=False)
class Const(Expr):
    """One number (float, int or bool) at every place."""

    value: float | int | bool = 0


@dataclass(eq=False)
class Pw(Expr):
    """An elementwise operation; arguments broadcast to `shape` as in PyTorch."""

    op: str = ""
    args: tuple[Expr, ...] = ()


@dataclass(eq=False)
class ExprPool:
    """Makes expressions; the same operation on the same values is made once. Not thread-safe."""

    known: dict[tuple, Expr] = field(default_factory=dict)

    def _intern(self, key: tuple, make: Callable[[], Expr]) -> Expr:
        found = self.known.get(key)
        if found is None:
            found = make()
            found.uid = len(self.known)
            self.known[key] = found
        return found

    def load(self, buffer: Buffer, meta: torch.Tensor | None = None) -> Load:
        if meta is None:
            meta = torch.empty_strided(buffer.size, buffer.stride, device="meta")
        size = tuple(meta.shape)
        key = ("load", buffer.name, size, tuple(meta.stride()), meta.storage_offset())
        return self._intern(key, lambda: Load(size, buffer.dtype, buffer=buffer, meta=meta))

    def const(self, value: float, dtype: torch.dtype, shape: tuple[int, ...] = ()) -> Const:
        if dtype is torch.bool:
            value = bool(value)
        elif not (dtype.is_floating_point or isinstance(value, bool)):
            value = int(value)
        elif dtype.is_floating_point:
            value = float(value)
        key = ("const", repr(value), dtype, shape)
        return self._intern(key, lambda: Const(shape, dtype, value=value))

    def pw(
        self, op: str, args: list[Expr], dtype: torch.dtype, shape: tuple[int, ...] | None = None
    ) -> Expr:
        if shape is None:
            shape = tuple(torch.broadcast_shapes(*(a.shape for a in args)))
        key = ("pw", op, tuple(a.uid for a in args), dtype, shape)
        return self._intern(key, lambda: Pw(shape, dtype, op=op, args=tuple(args)))

    def expand(self, expr: Expr, shape: tuple[int, ...]) -> Expr:
        """`expr` broadcast to `shape`; leaves deeper inside keep their own shapes."""
        shape = tuple(shape)
        if expr.shape == shape:
            return expr
        if isinstance(expr, Load):
            return self.load(expr.buffer, expr.meta.expand(shape))
        if isinstance(expr, Const):
            return self.const(expr.value, expr.dtype, shape)
        assert isinstance(expr, Pw)
        return self.pw(expr.op, list(expr.args), expr.dtype, shape)

    def view(self, expr: Expr, function: ViewFunction) -> Expr:
        """`function` applied to the value, pushed down to the leaves. Raises ViewError."""
        return self._view(expr, function, {})

    def _view(self, expr: Expr, function: ViewFunction, memo: dict[int, Expr]) -> Expr:
        if expr.uid in memo:
            return memo[expr.uid]
        if isinstance(expr, Load):
            result: Expr = self.load(expr.buffer, _apply(function, expr.meta))
        elif isinstance(expr, Const):
            seen = _apply(function, torch.empty((), device="meta").expand(expr.shape))
            result = self.const(expr.value, expr.dtype, tuple(seen.shape))
        else:
            assert isinstance(expr, Pw)
            wide = [self._view(self.expand(a, expr.shape), function, memo) for a in expr.args]
            result = self.pw(expr.op, wide, expr.dtype)
        memo[expr.uid] = result
        return result

    def bind(self, expr: Expr, shape: tuple[int, ...]) -> Expr:
        """`expr` with every leaf broadcast to `shape`, the iteration space of a kernel."""
        return self.rebuild(expr, lambda leaf: self.expand(leaf, shape))

    def rebuild(self, expr: Expr, leaf: Callable[[Expr], Expr]) -> Expr:
        """`expr` with each Load and Const replaced by `leaf(it)`."""
        memo: dict[int, Expr] = {}

        def visit(e: Expr) -> Expr:
            if e.uid not in memo:
                if isinstance(e, Pw):
                    memo[e.uid] = self.pw(e.op, [visit(a) for a in e.args], e.dtype)
                else:
                    memo[e.uid] = leaf(e)
            return memo[e.uid]

        return visit(expr)


def _apply(function: ViewFunction, meta: torch.Tensor) -> torch.Tensor:
    try:
        return function(meta)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ViewError(str(error)) from None


def walk(expr: Expr) -> Iterator[Expr]:
    """Every distinct subexpression once, arguments before what uses them."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        e, done = stack.pop()
        if done:
            yield e
        elif e.uid not in seen:
            seen.add(e.uid)
            stack.append((e, True))
            if isinstance(e, Pw):
                stack.extend((a, False) for a in reversed(e.args))


def loads(expr: Expr) -> list[Load]:
    return [e for e in walk(expr) if isinstance(e, Load)]


def reads(expr: Expr) -> list[Buffer]:
    """The buffers in memory that `expr` reads, each once, in a fixed order."""
    found: dict[str, Buffer] = {}
    for leaf in loads(expr):
        if leaf.buffer.kind != "iota":
            found.setdefault(leaf.buffer.name, leaf.buffer)
    return list(found.values())


def product(numbers: tuple[int, ...] | list[int]) -> int:
    result = 1
    for n in numbers:
        result *= n
    return result


def contiguous_strides(size: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(size)
    for i in range(len(size) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(size[i + 1], 1)
    return tuple(strides)


def same_strides(size: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Equal where it matters: a dimension of size 1 has no stride."""
    return all(n == 1 or a == b for n, a, b in zip(size, one, other, strict=True))


def is_dense(size: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Whether the elements fill a block without gaps and without overlap, in any order."""
    expected = 1
    for step, n in sorted((s, n) for n, s in zip(size, stride, strict=True) if n != 1):
        if step != expected:
            return False
        expected *= n
    return True
