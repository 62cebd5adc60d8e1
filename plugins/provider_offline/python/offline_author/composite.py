"""Operators that are several reductions and elementwise steps: softmax, norms, products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from offline_author.expr import Expr, product
from offline_author.matrix import Diagonal
from offline_author.pointwise import register_type

if TYPE_CHECKING:
    from offline_author.lower import Lowerer

Composite = Callable[["Lowerer", fx.Node, list[Any], dict[str, Any]], Any]
COMPOSITES: dict[str, Composite] = {}


def _composite(*names: str) -> Callable[[Composite], Composite]:
    def register(function: Composite) -> Composite:
        for name in names:
            COMPOSITES[name] = function
        return function

    return register


def _argument(args: list[Any], kwargs: dict[str, Any], place: int, name: str, default: Any) -> Any:
    if len(args) > place:
        return args[place]
    return kwargs.get(name, default)


def _dims(value: Any) -> list[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)


def _dtype(node: fx.Node) -> torch.dtype:
    value = node.meta["val"]
    return (value[0] if isinstance(value, (list, tuple)) else value).dtype


def _used(node: fx.Node) -> set[int]:
    """Which results of an operator with several the graph reads."""
    return {u.args[1] for u in node.users}


def _dense(low: Lowerer, x: Any) -> Expr:
    return low.plain(x)


# Reductions.


@_composite("sum", "amax", "amin")
def _simple(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    name = node.target._schema.name.split("::")[1]
    op = {"sum": "sum", "amax": "max", "amin": "min"}[name]
    dims = _dims(_argument(args, kwargs, 1, "dim", None))
    keep = bool(_argument(args, kwargs, 2, "keepdim", False))
    dtype = _dtype(node)
    x = _dense(low, args[0])
    if op == "sum" and not keep:
        short = low.matrices.sum_of_product(x, dims, dtype)
        if short is not None:
            return short
    if op != "sum" and dtype is torch.bool:
        return None
    return low.reducer.reduce(op, x, dims, keep, dtype, name)


@_composite("mean")
def _mean(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    dims = _dims(_argument(args, kwargs, 1, "dim", None))
    keep = bool(_argument(args, kwargs, 2, "keepdim", False))
    return low.reducer.mean(_dense(low, args[0]), dims, keep, _dtype(node))


@_composite("max", "min")
def _extreme(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    name = node.target._schema.name.split("::")[1]
    overload = node.target._overloadname
    if overload == "default":
        return low.reducer.reduce(name, _dense(low, args[0]), [], False, _dtype(node), f"a{name}")
    if overload == "dim" and _used(node) <= {0}:
        keep = bool(_argument(args, kwargs, 2, "keepdim", False))
        values = low.reducer.reduce(
            name, _dense(low, args[0]), [args[1]], keep, _dtype(node), f"a{name}"
        )
        return [values, None]
    return None


@_composite("any", "all")
def _any(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    name = node.target._schema.name.split("::")[1]
    x = _dense(low, args[0])
    truth = x if x.dtype is torch.bool else low.maths.compare("ne", x, 0)
    numbers = low.maths.cast(truth, torch.int32)
    dims = _dims(_argument(args, kwargs, 1, "dim", None))
    keep = bool(_argument(args, kwargs, 2, "keepdim", False))
    op = "max" if name == "any" else "min"
    found = low.reducer.reduce(op, numbers, dims, keep, torch.int32, name)
    return low.maths.compare("ne", found, 0)


def _correction(node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> float:
    value = kwargs.get("correction", _argument(args, kwargs, 2, "correction", 1))
    return 1 if value is None else value


@_composite("var", "var_mean", "std")
def _var(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    name = node.target._schema.name.split("::")[1]
    dims = _dims(_argument(args, kwargs, 1, "dim", None))
    variance, mean = low.reducer.variance(
        _dense(low, args[0]), dims, bool(kwargs.get("keepdim", False)), _dtype(node),
        _correction(node, args, kwargs),
    )  # fmt: skip
    if name == "var_mean":
        return [variance, mean]
    return low.maths.f("sqrt", variance) if name == "std" else variance


@_composite("linalg_vector_norm")
def _norm(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    order = _argument(args, kwargs, 1, "ord", 2)
    dims = _dims(_argument(args, kwargs, 2, "dim", None))
    keep = bool(_argument(args, kwargs, 3, "keepdim", False))
    dtype, m = _dtype(node), low.maths
    x = m.cast(_dense(low, args[0]), register_type(dtype))
    if not dtype.is_floating_point or order not in (1, 2, math.inf, -math.inf):
        return None
    if order == 2:
        total = low.reducer.reduce("sum", m.f("mul", x, x), dims, keep, x.dtype, "squares")
        return m.cast(m.f("sqrt", total), dtype)
    op = {1: "sum", math.inf: "max", -math.inf: "min"}[order]
    value = low.reducer.reduce(op, m.f("abs", x), dims, keep, x.dtype, "norm")
    return m.cast(value, dtype)


@_composite("logsumexp")
def _logsumexp(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    dims, keep = _dims(args[1]), bool(_argument(args, kwargs, 2, "keepdim", False))
    dtype, m = _dtype(node), low.maths
    x = m.cast(_dense(low, args[0]), register_type(dtype))
    top = low.reducer.reduce("max", x, dims, True, x.dtype, "row_max")
    # A row of one infinity has that infinity as its result, not the NaN of inf - inf.
    finite = m.where(m.compare("eq", m.f("abs", top), math.inf), 0.0, top, x.dtype)
    total = low.reducer.reduce(
        "sum", m.f("exp", m.f("sub", x, finite)), dims, True, x.dtype, "total"
    )
    value = m.f("add", m.f("log", total), finite)
    if not keep:
        rank = len(x.shape)
        for d in sorted({d % rank for d in dims} if dims else range(rank), reverse=True):
            value = low.pool.view(value, lambda t, d=d: t.squeeze(d))
    return m.cast(value, dtype)


# Softmax and norms.


@_composite("_softmax", "_safe_softmax", "_log_softmax")
def _softmax(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    name = node.target._schema.name.split("::")[1]
    dtype, m = _dtype(node), low.maths
    x = _dense(low, args[0])
    if not x.shape:
        return None
    x = m.cast(x, register_type(dtype))
    top = low.reducer.reduce("max", x, [args[1]], True, x.dtype, "row_max")
    shifted = m.f("sub", x, top)
    e = m.f("exp", shifted)
    total = low.reducer.reduce("sum", e, [args[1]], True, x.dtype, "total")
    if name == "_safe_softmax":
        # A row that is masked out everywhere gives zeros, not the NaN of inf - inf.
        empty = m.compare("eq", top, -math.inf)
        return m.cast(m.where(empty, 0.0, m.f("div", e, total), x.dtype), dtype)
    if name == "_softmax":
        return m.cast(m.f("div", e, total), dtype)
    return m.cast(m.f("sub", shifted, m.f("log", total)), dtype)


def _normalised(low: Lowerer, x: Expr, dims: list[int], epsilon: float) -> tuple[Expr, Expr, Expr]:
    """((x - mean) / sqrt(var + epsilon), mean, reciprocal deviation), dimensions kept."""
    m = low.maths
    variance, mean = low.reducer.variance(x, dims, True, x.dtype, 0)
    inverse = m.f("rsqrt", m.f("add", variance, epsilon))
    return m.f("mul", m.f("sub", x, mean), inverse), mean, inverse


@_composite("native_layer_norm")
def _layer_norm(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    x, shape, weight, bias, epsilon = args
    m, dtype = low.maths, _dtype(node)
    wide = m.cast(_dense(low, x), register_type(dtype))
    rank = len(wide.shape)
    dims = list(range(rank - len(shape), rank))
    y, mean, inverse = _normalised(low, wide, dims, epsilon)
    if weight is not None:
        y = m.f("mul", y, weight)
    if bias is not None:
        y = m.f("add", y, bias)
    return [m.cast(y, dtype), mean, inverse]


@_composite("native_group_norm")
def _group_norm(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    x, weight, bias, n, c, hw, groups, epsilon = args
    m, dtype = low.maths, _dtype(node)
    if _used(node) - {0}:
        return None
    x = _dense(low, x)
    shape = x.shape
    split = low.view(x, lambda t: t.view(n, groups, c // groups, hw))
    wide = m.cast(split, register_type(dtype))
    y, _, _ = _normalised(low, wide, [2, 3], epsilon)
    for op, value in (("mul", weight), ("add", bias)):
        if value is not None:
            per = low.view(value, lambda t: t.view(1, groups, c // groups, 1))
            y = m.f(op, y, per)
    return [low.view(m.cast(y, dtype), lambda t: t.view(shape), "group_norm"), None, None]


@_composite("_native_batch_norm_legit_no_training", "native_batch_norm")
def _batch_norm(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    name = node.target._schema.name.split("::")[1]
    training = False
    if name == "native_batch_norm":
        x, weight, bias, mean, variance, training, _momentum, epsilon = args
        if training and mean is not None:
            return None  # it also moves the running statistics
    else:
        x, weight, bias, mean, variance, _momentum, epsilon = args
    if _used(node) - {0}:
        return None
    m, dtype = low.maths, _dtype(node)
    x = _dense(low, x)
    rank = len(x.shape)

    def per_channel(e: Expr) -> Expr:
        return low.view(e, lambda t: t.view(-1, *[1] * (rank - 2)))

    wide = m.cast(x, register_type(dtype))
    if training:
        y, _, _ = _normalised(low, wide, [0, *range(2, rank)], epsilon)
    else:
        inverse = m.f("rsqrt", m.f("add", m.cast(per_channel(variance), wide.dtype), epsilon))
        y = m.f("mul", m.f("sub", wide, per_channel(mean)), inverse)
    if weight is not None:
        y = m.f("mul", y, per_channel(weight))
    if bias is not None:
        y = m.f("add", y, per_channel(bias))
    return [m.cast(low.pool.expand(y, x.shape), dtype), None, None]


@_composite("mse_loss")
def _mse_loss(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    dtype, m = _dtype(node), low.maths
    difference = m.make("sub", [_dense(low, args[0]), _dense(low, args[1])], dtype)
    square = m.f("mul", difference, difference)
    how = _argument(args, kwargs, 2, "reduction", 1)
    if how == 0:
        return square
    if how == 1:
        return low.reducer.mean(square, [], False, dtype)
    return low.reducer.reduce("sum", square, [], False, dtype)


# Products.


@_composite("mm", "bmm")
def _mm(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return low.matrices.mm(args[0], args[1], _dtype(node)) if len(args) == 2 else None


@_composite("addmm", "baddbmm")
def _addmm(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    dtype, m = _dtype(node), low.maths
    made = low.matrices.mm(args[1], args[2], dtype)
    if made is None:
        return None
    made, bias = _dense(low, made), _dense(low, args[0])
    alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
    if alpha != 1:
        made = m.f("mul", made, alpha)
    if beta == 0:
        return made
    return m.f("add", made, m.make("mul", [bias, beta], dtype) if beta != 1 else bias)


@_composite("mv")
def _mv(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    column = low.pool.view(_dense(low, args[1]), lambda t: t.unsqueeze(1))
    made = low.matrices.mm(args[0], column, _dtype(node))
    return None if made is None else low.view(made, lambda t: t[:, 0])


@_composite("dot")
def _dot(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    dtype = _dtype(node)
    wide = low.maths.make("mul", [_dense(low, args[0]), _dense(low, args[1])], dtype)
    return low.reducer.reduce("sum", wide, [], False, dtype, "dot")


@_composite("trace")
def _trace(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return low.matrices.trace(_dense(low, args[0]), _dtype(node))


@_composite("diag_embed")
def _diag_embed(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    offset, one, two = (
        _argument(args, kwargs, i + 1, name, default)
        for i, (name, default) in enumerate((("offset", 0), ("dim1", -2), ("dim2", -1)))
    )
    rank = len(args[0].shape) + 1
    if offset != 0 or (one % rank, two % rank) != (rank - 2, rank - 1):
        return None
    return Diagonal(_dense(low, args[0]))


@_composite("_thnn_fused_lstm_cell")
def _lstm_cell(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if _used(node) - {0, 1}:
        return None
    m, dtype = low.maths, _dtype(node)
    gates, hidden, cell, *biases = (None if a is None else _dense(low, a) for a in args)
    total = m.make("add", [gates, hidden], dtype)
    for bias in biases:
        total = total if bias is None else m.f("add", total, bias)
    entry, forget, new, out = (
        low.view(total, lambda t, i=i: t.chunk(4, dim=1)[i], "gates") for i in range(4)
    )
    kept = m.f("mul", m.sigmoid(forget), cell)
    state = m.f("add", kept, m.f("mul", m.sigmoid(entry), m.tanh(new)))
    return [m.f("mul", m.sigmoid(out), m.tanh(state)), state, None]


# Index ramps.


@_composite("arange")
def _arange(low: Lowerer, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    fake = node.meta["val"]
    numbers = list(args[:3]) if node.target._overloadname != "default" else [0, *args[:1]]
    start, step = numbers[0], numbers[2] if len(numbers) > 2 else 1
    count = product(tuple(fake.shape))
    ramp = low.maths.cast(low.iota(count), fake.dtype)
    if step != 1:
        ramp = low.maths.f("mul", ramp, step)
    return low.maths.f("add", ramp, start) if start != 0 else ramp
