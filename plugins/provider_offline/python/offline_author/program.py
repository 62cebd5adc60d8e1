"""What a task becomes before kernels are cut: definitions of buffers, in the order of the task."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from offline_author.expr import Buffer, Expr, ExprPool, Load, reads


@dataclass(eq=False)
class Def:
    """Defines `out`. Subclasses say how."""

    out: Buffer
    label: str  # what it computes, in the words of the task's operators

    @cached_property
    def inputs(self) -> list[Buffer]:
        """The buffers it reads; a definition never changes, so they are found once."""
        raise NotImplementedError


@dataclass(eq=False)
class Pointwise(Def):
    """Each element of `out` is `expr` at the same place."""

    expr: Expr

    @cached_property
    def inputs(self) -> list[Buffer]:
        return reads(self.expr)


@dataclass(eq=False)
class Reduction(Def):
    """`out` has the shape `rows`; `expr` has the shape `rows + red`. `op`: sum, max or min."""

    expr: Expr
    op: str
    rows: tuple[int, ...]
    red: tuple[int, ...]

    @cached_property
    def inputs(self) -> list[Buffer]:
        return reads(self.expr)


@dataclass(eq=False)
class Matmul(Def):
    """out[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]; without a batch, b has size 1."""

    a: Expr
    b: Expr
    precision: str

    @cached_property
    def inputs(self) -> list[Buffer]:
        return list({x.name: x for x in (*reads(self.a), *reads(self.b))}.values())


@dataclass(eq=False)
class TorchOp(Def):
    """An operator that stays in PyTorch. `outs`: all its results; `out` is the first."""

    target: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    outs: list[Buffer | None] = field(default_factory=list)
    is_sequence: bool = False

    @cached_property
    def inputs(self) -> list[Buffer]:
        found: dict[str, Buffer] = {}

        def visit(x: Any) -> None:
            if isinstance(x, Load):
                found[x.buffer.name] = x.buffer
            elif isinstance(x, (list, tuple)):
                for y in x:
                    visit(y)

        visit([*self.args, *self.kwargs.values()])
        return list(found.values())


@dataclass
class Program:
    """A whole task. `outputs`: one entry per leaf of forward's result: a Load, a number or None."""

    pool: ExprPool
    defs: list[Def]
    buffers: dict[str, Buffer]
    outputs: list[Any]
    rewrites: list[str]  # sentences about what was made cheaper
    operators: list[str]  # ATen names of the captured graph, in order
    left: list[str]  # names of the operators that stay in PyTorch
    device_of: str = ""  # Python of a tensor whose device everything shares

    def producers(self) -> dict[str, Def]:
        made: dict[str, Def] = {}
        for d in self.defs:
            for out in d.outs if isinstance(d, TorchOp) else [d.out]:
                if out is not None:
                    made[out.name] = d
        return made


DTYPE_NAMES = {
    torch.float64: "torch.float64",
    torch.float32: "torch.float32",
    torch.float16: "torch.float16",
    torch.bfloat16: "torch.bfloat16",
    torch.int64: "torch.int64",
    torch.int32: "torch.int32",
    torch.int16: "torch.int16",
    torch.int8: "torch.int8",
    torch.uint8: "torch.uint8",
    torch.bool: "torch.bool",
}
