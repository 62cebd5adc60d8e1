"""Reductions: over any dimensions, split in two where one row would keep a whole GPU waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from offline_author.expr import Buffer, Expr, Load, ViewError, loads, product
from offline_author.pointwise import register_type
from offline_author.program import Reduction

if TYPE_CHECKING:
    from offline_author.lower import Lowerer

#: Programs that fill a GPU twice (132 multiprocessors); fewer, and a long reduction is split.
FULL_GPU = 264
#: A reduction shorter than this is never split: the second launch would cost more than it saves.
SPLIT_FROM = 8192
#: The length of one part of a split reduction, about.
PART = 4096


class Reducer:
    """Makes reductions. `sum`, `max` and `min` are primitive; the rest is built on them."""

    def __init__(self, lowerer: Lowerer) -> None:
        self.lowerer = lowerer
        self.known: dict[tuple, Buffer] = {}  # the same reduction is done once

    def reduce(
        self, op: str, expr: Expr, dims: list[int], keepdim: bool, dtype: torch.dtype,
        label: str | None = None,
    ) -> Expr:  # fmt: skip
        """`expr` reduced over `dims` (all of them if empty). The result has type `dtype`."""
        low, pool = self.lowerer, self.lowerer.pool
        rank = len(expr.shape)
        dims = sorted({d % rank for d in dims}) if dims else list(range(rank))
        kept = [d for d in range(rank) if d not in dims]
        if low.is_from_matmul(expr) and not isinstance(expr, Load):
            expr = low.store(expr, "product")
        moved = low.view(expr, lambda t: t.permute(kept + dims))
        rows = tuple(expr.shape[d] for d in kept)
        red = tuple(expr.shape[d] for d in dims)
        if not red:
            value: Expr = low.maths.cast(expr, dtype)
        else:
            value = self._reduce(op, low.maths.cast(moved, dtype), rows, red, dtype, label or op)
        if keepdim:
            for d in dims:
                value = pool.view(value, lambda t, d=d: t.unsqueeze(d))
        return value

    def _reduce(
        self, op: str, expr: Expr, rows: tuple[int, ...], red: tuple[int, ...],
        dtype: torch.dtype, label: str,
    ) -> Expr:  # fmt: skip
        low = self.lowerer
        parts = self._parts(expr, rows, red)
        if parts is not None:
            count, length = parts
            flat = low.pool.view(expr, lambda t: t.view(*rows, count, length))
            wide = register_type(dtype)
            first = self._reduce_once(op, low.maths.cast(flat, wide), (*rows, count), (length,),
                                      wide, f"{label}_part")  # fmt: skip
            low.rewrites.append(
                f"the reduction of {product(red)} elements in {product(rows)} "
                f"row{'s' if product(rows) != 1 else ''} is done in {count} parts first"
            )
            value = self._reduce_once(op, first, rows, (count,), wide, label)
            return low.maths.cast(value, dtype)
        return self._reduce_once(op, expr, rows, red, dtype, label)

    def _reduce_once(
        self, op: str, expr: Expr, rows: tuple[int, ...], red: tuple[int, ...],
        dtype: torch.dtype, label: str,
    ) -> Expr:  # fmt: skip
        low = self.lowerer
        key = (op, expr.uid, rows, red, dtype)
        if key not in self.known:
            self.known[key] = low.buffer(label, "temp", dtype, rows)
            low.defs.append(Reduction(self.known[key], label, expr, op, rows, red))
        return low.pool.load(self.known[key])

    def _parts(self, expr: Expr, rows: tuple[int, ...], red: tuple[int, ...]) -> tuple | None:
        """How many parts of which length, or None to leave the reduction whole."""
        pool, length, count = self.lowerer.pool, product(red), product(rows)
        down = any(rows and x.stride[len(rows) - 1] == 1 and x.stride[-1] > 1
                   for x in loads(pool.bind(expr, (*rows, *red))))  # fmt: skip
        programs = -(-count // 64) if down else count
        if programs * 4 > FULL_GPU or length < (2048 if down else SPLIT_FROM):
            return None
        wanted = max(64, min(PART, length * programs // FULL_GPU)) if down else PART
        part = _divisor_near(length, wanted)
        if part is None or part == length:
            return None
        try:
            pool.view(expr, lambda t: t.view(*rows, length // part, part))
        except ViewError:
            return None
        return length // part, part

    # What is built on the primitives.

    def mean(self, expr: Expr, dims: list[int], keepdim: bool, dtype: torch.dtype) -> Expr:
        wide = register_type(dtype)
        m = self.lowerer.maths
        total = self.reduce("sum", m.cast(expr, wide), dims, keepdim, wide, "total")
        scale = 1.0 / (expr_count(expr, dims))
        return m.cast(m.f("mul", total, scale), dtype)

    def variance(
        self, expr: Expr, dims: list[int], keepdim: bool, dtype: torch.dtype, correction: float
    ) -> tuple[Expr, Expr]:
        """(variance, mean), each with or without the reduced dimensions; two passes over the data,
        because the difference of two large sums loses every digit of a small variance."""
        m, pool = self.lowerer.maths, self.lowerer.pool
        wide = register_type(dtype)
        x = m.cast(expr, wide)
        mean = self.mean(x, dims, True, wide)
        centred = m.f("sub", x, mean)
        total = self.reduce("sum", m.f("mul", centred, centred), dims, keepdim, wide, "squares")
        count = expr_count(expr, dims) - correction
        variance = m.f("mul", total, 1.0 / count if count > 0 else float("nan"))
        if not keepdim:
            rank = len(expr.shape)
            every = sorted({d % rank for d in dims} if dims else range(rank), reverse=True)
            for d in every:
                mean = pool.view(mean, lambda t, d=d: t.squeeze(d))
        return m.cast(variance, dtype), m.cast(mean, dtype)


def expr_count(expr: Expr, dims: list[int]) -> int:
    """How many elements are reduced into one."""
    rank = len(expr.shape)
    return product([expr.shape[d] for d in ({d % rank for d in dims} if dims else range(rank))])


def _divisor_near(n: int, wanted: int) -> int | None:
    """The divisor of n nearest to `wanted` within a factor of eight, or None."""
    best = None
    for d in range(max(2, wanted // 8), min(n, wanted * 8) + 1):
        if n % d == 0 and (best is None or abs(d - wanted) < abs(best - wanted)):
            best = d
    return best
