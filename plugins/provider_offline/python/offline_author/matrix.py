"""Matrix products and the diagonal matrices that make them unnecessary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from offline_author.expr import Buffer, Expr, Load, Pw, product, reads, walk
from offline_author.pointwise import HEAVY
from offline_author.program import Matmul

if TYPE_CHECKING:
    from offline_author.lower import Lowerer

#: Types that the matrix units (or fp32 arithmetic) take; others stay in PyTorch.
DOT_TYPES = (torch.float32, torch.float16, torch.bfloat16)


class Diagonal:
    """A square matrix with `values` (shape [..., n]) on its diagonal and zeros elsewhere.

    It is never written to memory unless something other than a product reads it.
    """

    def __init__(self, values: Expr) -> None:
        self.values = values
        self.dtype = values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.values.shape, self.values.shape[-1])

    def moved(self, name: str, args: list[Any], shape: tuple[int, ...]) -> Diagonal | None:
        """The matrix after a view that leaves it diagonal, or None."""
        rank = len(self.shape)
        if name in ("expand", "view", "_unsafe_view", "reshape", "alias", "clone"):
            return self if shape == self.shape else None
        last_two = {rank - 2, rank - 1}
        if name == "t" or (name == "transpose" and {a % rank for a in args} == last_two):
            return self
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        if name == "permute" and [a % rank for a in args[0]] == swapped:
            return self
        return None

    def dense(self, low: Lowerer) -> Expr:
        """The matrix as an elementwise value: where(row == column, value, 0)."""
        n = self.values.shape[-1]
        index = low.iota(n)
        rows = low.pool.view(index, lambda t: t.unsqueeze(1))
        wide = low.pool.view(self.values, lambda t: t.unsqueeze(-1))
        same = low.maths.compare("eq", rows, index)
        return low.pool.expand(low.maths.where(same, wide, 0, self.dtype), self.shape)


class Matrices:
    """Builds products; `mm` covers [m, k] @ [k, n] and the same with one batch dimension."""

    def __init__(self, lowerer: Lowerer) -> None:
        self.lowerer = lowerer
        self.known: dict[tuple[int, int], Buffer] = {}  # the same product is done once

    def mm(self, a: Any, b: Any, dtype: torch.dtype) -> Expr | None:
        """a @ b, or None where the product has to stay in PyTorch."""
        low, m, pool = self.lowerer, self.lowerer.maths, self.lowerer.pool
        if isinstance(a, Diagonal) and isinstance(b, Diagonal):
            low.rewrites.append("the product of two diagonal matrices multiplies their diagonals")
            return Diagonal(m.make("mul", [a.values, b.values], dtype))
        if isinstance(a, Diagonal):
            low.rewrites.append(
                "diag(a) @ b is a[:, None] * b: the diagonal matrix and the product disappear"
            )
            column = pool.view(a.values, lambda t: t.unsqueeze(-1))
            return m.make("mul", [column, b], dtype)
        if isinstance(b, Diagonal):
            low.rewrites.append(
                "b @ diag(a) is b * a[None, :]: the diagonal matrix and the product disappear"
            )
            row = pool.view(b.values, lambda t: t.unsqueeze(-2))
            return m.make("mul", [a, row], dtype)
        rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
        if not dtype.is_floating_point:
            return None
        if rows == 1 or columns == 1:
            # A product with a vector is a reduction of rows: no tile of a matrix unit is filled.
            low.rewrites.append("a product with a vector is a reduction of an elementwise product")
            left = pool.view(a, lambda t: t.unsqueeze(-2))
            right = pool.view(b, lambda t: t.transpose(-1, -2).unsqueeze(-3))
            wide = m.make("mul", [left, right], dtype)
            return low.reducer.reduce("sum", wide, [-1], False, dtype, "product")
        if depth == 1:
            return m.make("mul", [a, b], dtype)
        if dtype not in DOT_TYPES or a.dtype is not dtype or b.dtype is not dtype:
            return None
        a, b = self._operand(a), self._operand(b)
        if len(a.shape) == 2:
            a3, b3 = (pool.view(x, lambda t: t.unsqueeze(0)) for x in (a, b))
        else:
            a3, b3 = a, b
        size = (a3.shape[0], rows, columns)
        key = (a3.uid, b3.uid)
        if key not in self.known:
            self.known[key] = low.buffer("mm", "temp", dtype, size)
            precision = low.captured.precision if dtype is torch.float32 else "ieee"
            low.defs.append(Matmul(self.known[key], "matmul", a3, b3, precision))
        out = self.known[key]
        result: Expr = pool.load(out)
        return pool.view(result, lambda t: t[0]) if len(a.shape) == 2 else result

    def _operand(self, x: Expr) -> Expr:
        """What a tile of the product can read: memory, with at most a little arithmetic on it."""
        low = self.lowerer
        if isinstance(x, Load) and x.buffer.kind != "iota":
            return x
        cheap = not any(isinstance(e, Pw) and e.op in HEAVY for e in walk(x))
        if cheap and not low.is_from_matmul(x) and reads(x) and product(x.shape) > 0:
            return x
        return low.store(x, "operand")

    def sum_of_product(self, x: Expr, dims: list[int], dtype: torch.dtype) -> Expr | None:
        """(a @ b).sum(dim) as a product with the sums of one factor; None if `x` is no product."""
        low, pool = self.lowerer, self.lowerer.pool
        if not isinstance(x, Load) or len(dims) != 1 or len(x.shape) != 2:
            return None
        made = next((d for d in low.defs if d.out is x.buffer), None)
        whole = product(x.shape) == product(x.buffer.size) and x.stride == (x.shape[1], 1)
        if not isinstance(made, Matmul) or made.a.shape[0] != 1 or not whole:
            return None
        a, b = (pool.view(e, lambda t: t[0]) for e in (made.a, made.b))
        low.rewrites.append(
            "the sum over a matrix product is a product with the sums of one factor"
        )
        if dims[0] % 2 == 1:
            sums = low.reducer.reduce("sum", b, [1], False, dtype)
            return low.reducer.reduce("sum", low.maths.f("mul", a, sums), [1], False, dtype)
        sums = low.reducer.reduce("sum", a, [0], False, dtype)
        column = pool.view(sums, lambda t: t.unsqueeze(-1))
        return low.reducer.reduce("sum", low.maths.f("mul", b, column), [0], False, dtype)

    def trace(self, x: Expr, dtype: torch.dtype) -> Expr:
        """The sum of the diagonal; of a product, only the diagonal is computed."""
        low, pool = self.lowerer, self.lowerer.pool
        made = next((d for d in low.defs if isinstance(x, Load) and d.out is x.buffer), None)
        if isinstance(made, Matmul) and made.a.shape[0] == 1 and x.shape == made.out.size[1:]:
            low.rewrites.append("the trace of a product only needs the product's diagonal")
            a, b = (pool.view(e, lambda t: t[0]) for e in (made.a, made.b))
            n = min(x.shape)
            left = pool.view(a, lambda t: t[:n])
            right = pool.view(b, lambda t: t[:, :n].transpose(0, 1))
            wide = low.maths.f("mul", left, right)
            return low.reducer.reduce("sum", wide, [], False, dtype, "trace")
        diagonal = low.view(x, lambda t: t.diagonal())
        return low.reducer.reduce("sum", diagonal, [], False, dtype, "trace")
