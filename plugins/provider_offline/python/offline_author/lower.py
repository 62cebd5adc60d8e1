"""Turns a captured graph into a Program: definitions of buffers over expressions."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from offline_author.capture import Captured, NotRewritable
from offline_author.composite import COMPOSITES
from offline_author.emit import RESERVED
from offline_author.expr import (
    Buffer,
    Const,
    Expr,
    ExprPool,
    Load,
    Pw,
    ViewError,
    contiguous_strides,
    is_dense,
    reads,
)
from offline_author.matrix import Diagonal, Matrices
from offline_author.pointwise import LOWERINGS, REGISTER_NAMES, Maths, lower_pointwise
from offline_author.program import Def, Matmul, Pointwise, Program, Reduction, TorchOp
from offline_author.reduce import Reducer

#: A tensor constant with at most this many elements is written into the file.
LITERAL_LIMIT = 64


def state_path(name: str) -> str:
    """Python of a parameter or buffer: `net.0.weight` is `self.net[0].weight`."""
    parts = [f"[{p}]" if p.isdigit() else f".{p}" if p.isidentifier() else f"[{p!r}]"
             for p in name.split(".")]  # fmt: skip
    return "self" + "".join(parts)


class Unsupported(Exception):
    """The author has no form for an operator: it stays in PyTorch."""


class Lowerer:
    """One pass over a graph. `maths`, `reducer` and `matrices` build the values."""

    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.pool = ExprPool()
        self.maths = Maths(self.pool)
        self.reducer = Reducer(self)
        self.matrices = Matrices(self)
        self.defs: list[Def] = []
        self.buffers: dict[str, Buffer] = {}
        self.env: dict[fx.Node, Any] = {}
        self.rewrites: list[str] = []
        self.left: list[str] = []
        self.used_names: set[str] = set()

    # Buffers and definitions.

    def buffer(
        self, hint: str, kind: str, dtype: torch.dtype, size: tuple[int, ...],
        stride: tuple[int, ...] | None = None, python: str = "",
    ) -> Buffer:  # fmt: skip
        base = "".join(c if c.isalnum() else "_" for c in hint).strip("_") or "t"
        base = f"t_{base}" if base[0].isdigit() else base
        name, i = base, 2
        while name in self.used_names or name in RESERVED:
            name, i = f"{base}_{i}", i + 1
        self.used_names.add(name)
        made = Buffer(name, kind, dtype, size, stride or contiguous_strides(size), python or name)
        self.buffers[name] = made
        return made

    def store(self, expr: Expr, label: str, stride: tuple[int, ...] | None = None) -> Load:
        """`expr` written to memory of its own."""
        if expr.dtype not in REGISTER_NAMES:
            raise Unsupported
        out = self.buffer(label, "temp", expr.dtype, expr.shape, stride)
        self.defs.append(Pointwise(out, label, expr))
        return self.pool.load(out)

    def in_memory(self, expr: Expr, label: str) -> Load:
        """`expr` as a read of memory: itself if it is one, else stored first."""
        if isinstance(expr, Load) and expr.buffer.kind != "iota":
            return expr
        return self.store(expr, label)

    def iota(self, size: int) -> Expr:
        """0, 1, 2, ... along one dimension."""
        buffer = self.buffers.get("iota")
        if buffer is None:
            self.used_names.add("iota")
            buffer = Buffer("iota", "iota", torch.int64, (2**62,), (1,))
            self.buffers["iota"] = buffer
        return self.pool.load(buffer, torch.empty_strided((size,), (1,), device="meta"))

    def view(self, expr: Expr, function: Any, label: str = "view") -> Expr:
        """A view, with the value written to memory first where its leaves can't take the view."""
        try:
            return self.pool.view(expr, function)
        except ViewError:
            return self.pool.view(self.store(expr, label), function)

    def is_from_matmul(self, expr: Expr) -> bool:
        """Whether `expr` is elementwise work on matrix products, and on nothing reduced.

        Such a value is worth computing once, behind the product, before something else reads it.
        """
        if expr.dtype is torch.bool:
            return False
        made = {d.out.name: d for d in self.defs}
        sources = [made.get(b.name) for b in reads(expr)]
        return any(isinstance(s, Matmul) for s in sources) and not any(
            isinstance(s, Reduction) for s in sources
        )

    # The graph.

    def run(self) -> Program:
        graph = self.captured.graph.graph
        places: list[Any] = [*self.captured.state, *self.captured.arguments]
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        state_count = len(self.captured.state)
        for i, (node, place) in enumerate(zip(placeholders, places, strict=True)):
            if i < state_count:
                name, kind, python = place.name, "state", state_path(place.name)
            else:
                name, kind, python = place.path, "input", place.path
            made = self.buffer(name, kind, place.dtype, place.size, place.stride, python)
            self.env[node] = self.pool.load(made)
        operators = []
        output: fx.Node | None = None
        for node in graph.nodes:
            if node.op == "get_attr":
                self.env[node] = self.constant(getattr(self.captured.graph, node.target))
            elif node.op == "call_function":
                if node.target is not operator.getitem:
                    operators.append(str(node.target).removesuffix(".default"))
                self.env[node] = self.call(node)
            elif node.op == "output":
                output = node
        assert output is not None
        outputs = self.outputs(output)
        owner = next((b.python for b in self.buffers.values() if b.kind == "input"), "")
        owner = owner or next((b.python for b in self.buffers.values() if b.kind == "state"), "")
        defs = alive(self.defs, outputs)
        left = [str(d.target).removesuffix(".default") for d in defs if isinstance(d, TorchOp)]
        return Program(self.pool, defs, self.buffers, outputs, self.rewrites, operators, left,
                       owner)  # fmt: skip

    def constant(self, tensor: torch.Tensor) -> Expr:
        """A tensor that forward makes from numbers: one value everywhere, or written out."""
        if tensor.numel() and not isinstance(tensor, torch._subclasses.fake_tensor.FakeTensor):
            first = tensor.reshape(-1)[0]
            if bool((tensor == first).all()):
                return self.pool.const(first.item(), tensor.dtype, tuple(tensor.shape))
            if tensor.numel() <= LITERAL_LIMIT and tensor.dtype in REGISTER_NAMES:
                text = f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype}, device=device)"
                out = self.buffer("constant", "temp", tensor.dtype, tuple(tensor.shape))
                target = _Literal(text)
                self.defs.append(TorchOp(out, "constant", target=target, outs=[out]))
                return self.pool.load(out)
        raise NotRewritable(
            f"forward of the task '{self.captured.name}' uses a constant tensor of shape "
            f"{tuple(tensor.shape)} that belongs to no parameter or buffer; register it as one."
        )

    def call(self, node: fx.Node) -> Any:
        target = node.target
        if target is operator.getitem:
            return self.env[node.args[0]][node.args[1]]
        if not isinstance(target, torch._ops.OpOverload):
            raise NotRewritable(f"forward calls {target}, which is no operator of PyTorch.")
        if torch.Tag.nondeterministic_seeded in target.tags:
            raise NotRewritable(
                f"forward draws random numbers ({target}), so its results can't be compared."
            )
        args = fx.node.map_arg(node.args, lambda n: self.env[n])
        kwargs = fx.node.map_arg(node.kwargs, lambda n: self.env[n])
        args, kwargs = list(args), dict(kwargs)
        name = target._schema.name.split("::")[1]
        if target._schema.is_mutable:
            return self.mutation(node, name, args, kwargs)
        try:
            value = self.lower(node, name, args, kwargs)
        except Unsupported:
            value = self.leave(node, args, kwargs)
        if isinstance(value, Pw) and _is_wanted_whole(node) and self.is_from_matmul(value):
            # Computed once, behind the matrix product, not again by everything that reads it.
            value = self.store(value, name)
        return value

    def mutation(self, node: fx.Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """In-place work on a value of the graph is the functional operator and a new name."""
        source = node.args[0]
        if not name.endswith("_") or not isinstance(source, fx.Node) or source.op == "placeholder":
            raise NotRewritable(
                f"forward of the task '{self.captured.name}' changes a tensor it was given in "
                f"place ({node.target})."
            )
        if _is_view(source.target) or any(
            isinstance(u.target, torch._ops.OpOverload) and _is_view(u.target) for u in source.users
        ):
            raise NotRewritable(f"forward writes in place through a view ({node.target}).")
        try:
            value = self.lower(node, name.removesuffix("_"), args, kwargs)
        except Unsupported:
            raise NotRewritable(f"forward writes in place with {node.target}.") from None
        self.env[source] = value
        return value

    def lower(self, node: fx.Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        fake = node.meta.get("val")
        composite = COMPOSITES.get(name)
        if composite is not None:
            value = composite(self, node, args, kwargs)
            if value is not None:
                return value
        if isinstance(args[0] if args else None, Diagonal):
            moved = args[0].moved(name, args[1:], tuple(fake.shape))
            if moved is not None:
                return moved
        args = [self.plain(a) for a in args]
        if _is_view(node.target):
            return self.view_op(node.target, args, kwargs)
        if not isinstance(fake, torch.Tensor):
            raise Unsupported
        value = lower_pointwise(self.maths, name, fake.dtype, tuple(fake.shape), args, kwargs)
        if value is None:
            raise Unsupported
        return value

    def view_op(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        source = args[0]
        if not isinstance(source, Expr):
            raise Unsupported
        if target._schema.name in ("aten::as_strided", "aten::view_as_real") or (
            str(target) == "aten.view.dtype"
        ):
            raise Unsupported
        returns = target._schema.returns
        if len(returns) == 1 and str(returns[0].type) != "Tensor":
            sample = torch.empty((), device="meta").expand(source.shape)
            count = len(target(sample, *args[1:], **kwargs))
            return [
                self.view(source, lambda t, i=i: target(t, *args[1:], **kwargs)[i])
                for i in range(count)
            ]
        return self.view(source, lambda t: target(t, *args[1:], **kwargs))

    def plain(self, value: Any) -> Any:
        """A diagonal matrix as an ordinary value; anything else as it is."""
        return value.dense(self) if isinstance(value, Diagonal) else value

    def leave(self, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The operator stays in PyTorch, on values in memory."""
        name = node.target._schema.name.split("::")[1]

        def settle(x: Any) -> Any:
            x = self.plain(x)
            if isinstance(x, Expr):
                if x.dtype not in REGISTER_NAMES and not isinstance(x, Load):
                    raise NotRewritable(f"forward computes {x.dtype} values ({node.target}).")
                return self.in_memory(x, f"{name}_in")
            if isinstance(x, (list, tuple)):
                return type(x)(settle(y) for y in x)
            return x

        args = settle(args)
        kwargs = {k: settle(v) for k, v in kwargs.items()}
        fakes = _run_on_fakes(node.target, args, kwargs)
        many = isinstance(fakes, (list, tuple))
        outs: list[Buffer | None] = []
        for fake in fakes if many else [fakes]:
            if not isinstance(fake, torch.Tensor):
                outs.append(None)
                continue
            outs.append(
                self.buffer(name, "temp", fake.dtype, tuple(fake.shape), tuple(fake.stride()))
            )
        first = next((o for o in outs if o is not None), None)
        if first is None:
            raise NotRewritable(
                f"forward calls {node.target}, which the offline author can neither rewrite nor "
                "leave to PyTorch: its result is no tensor."
            )
        self.defs.append(
            TorchOp(first, name, target=node.target, args=tuple(args), kwargs=kwargs, outs=outs,
                    is_sequence=many)
        )  # fmt: skip
        values = [None if o is None else self.pool.load(o) for o in outs]
        return values if many else values[0]

    def outputs(self, node: fx.Node) -> list[Any]:
        results = []
        taken: set[str] = set()
        for item in node.args[0]:
            if not isinstance(item, fx.Node):
                results.append(item)
                continue
            value = self.plain(self.env[item])
            fake = item.meta["val"]
            size, stride = tuple(fake.shape), tuple(fake.stride())
            stride = stride if is_dense(size, stride) else contiguous_strides(size)
            again = isinstance(value, Load) and value.buffer.name in taken
            if not isinstance(value, Load) or value.buffer.kind == "iota" or again:
                value = self.store(value, "out", stride)
            if value.buffer.kind == "temp":
                taken.add(value.buffer.name)
            results.append(value)
        return results


class _Literal:
    """Python text in the place of an operator."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return "a constant tensor"


def alive(defs: list[Def], outputs: list[Any]) -> list[Def]:
    """The definitions that an output needs, in order."""
    needed = {o.buffer.name for o in outputs if isinstance(o, Load)}
    kept = []
    for d in reversed(defs):
        outs = d.outs if isinstance(d, TorchOp) else [d.out]
        if any(o is not None and o.name in needed for o in outs):
            kept.append(d)
            needed.update(b.name for b in d.inputs)
    return kept[::-1]


def _is_view(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target._schema.name in ("aten::_unsafe_view", "aten::_reshape_alias"):
        return True
    return any(
        r.alias_info is not None and not r.alias_info.is_write for r in target._schema.returns
    )


def _is_wanted_whole(node: fx.Node) -> bool:
    """Whether something that isn't elementwise reads the node, directly or through views."""
    for user in node.users:
        if user.op != "call_function" or user.target is operator.getitem:
            continue
        if _is_view(user.target):
            if _is_wanted_whole(user):
                return True
        elif user.target._schema.name.split("::")[1] not in LOWERINGS:
            return True
    return False


def _run_on_fakes(target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The results' shapes, with the strides that the written forward will really have."""
    with FakeTensorMode():

        def fake(x: Any) -> Any:
            if isinstance(x, Load):
                return torch.empty_strided(x.shape, x.stride, dtype=x.dtype, device="cuda")
            if isinstance(x, (list, tuple)):
                return type(x)(fake(y) for y in x)
            return x

        return target(*fake(list(args)), **{k: fake(v) for k, v in kwargs.items()})


def lower(captured: Captured) -> Program:
    """The program of a captured task. Raises NotRewritable."""
    return Lowerer(captured).run()


def is_trivial(d: Def) -> bool:
    """A definition that only moves or fills memory: alone it's no reason to write a kernel."""
    return isinstance(d, Pointwise) and isinstance(d.expr, (Load, Const))
