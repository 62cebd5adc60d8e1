"""Elementwise operators: from ATen to expressions, and from expressions to Triton text.

Values live in registers: half precisions are computed in float32 and rounded where the task rounds
explicitly or stores. Every operator keeps NaN where PyTorch keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from offline_author.expr import Const, Expr, ExprPool

#: Triton text per operation; `{0}` is the first argument, already an atom or in parentheses.
TEMPLATES = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "abs": "tl.abs({0})",
    "exp": "tl.exp({0})",
    "exp2": "tl.exp2({0})",
    "log": "tl.log({0})",
    "log2": "tl.log2({0})",
    "sqrt": "tl.sqrt({0})",
    "rsqrt": "tl.rsqrt({0})",
    "sin": "tl.sin({0})",
    "cos": "tl.cos({0})",
    "erf": "tl.erf({0})",
    "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})",
    "maximum": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "minimum": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "imaximum": "tl.maximum({0}, {1})",
    "iminimum": "tl.minimum({0}, {1})",
    "where": "tl.where({0}, {1}, {2})",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "not": "{0} == 0",
    "inot": "~{0}",
}

#: Operations that cost many instructions; they aren't computed again in a matrix product's loop.
HEAVY = {"exp", "exp2", "log", "log2", "sin", "cos", "erf", "div", "sqrt", "rsqrt"}

REGISTER_NAMES = {
    torch.float64: "tl.float64",
    torch.float32: "tl.float32",
    torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16",
    torch.int64: "tl.int64",
    torch.int32: "tl.int32",
    torch.int16: "tl.int16",
    torch.int8: "tl.int8",
    torch.uint8: "tl.uint8",
    torch.bool: "tl.int1",
}


def register_type(dtype: torch.dtype) -> torch.dtype:
    """The type that a value of `dtype` is computed in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


class Maths:
    """Builds elementwise expressions with PyTorch's type rules."""

    def __init__(self, pool: ExprPool) -> None:
        self.pool = pool

    def number(self, value: float, dtype: torch.dtype) -> Const:
        return self.pool.const(value, dtype)

    def cast(self, e: Expr, dtype: torch.dtype) -> Expr:
        """`e` as a register of `dtype`, without rounding to a half precision."""
        if e.dtype is dtype:
            return e
        if isinstance(e, Const):
            if not dtype.is_floating_point and not math.isfinite(e.value):
                return self.pool.pw("cast", [e], dtype)
            return self.pool.const(e.value, dtype, e.shape)
        return self.pool.pw("cast", [e], dtype)

    def rounded(self, e: Expr, dtype: torch.dtype) -> Expr:
        """An explicit conversion, as `.to(dtype)` in the task."""
        if e.dtype is dtype:
            return e
        if dtype in (torch.float16, torch.bfloat16):
            return self.pool.pw("round", [self.cast(e, dtype)], dtype)
        return self.cast(e, dtype)

    def make(self, op: str, args: list[Expr | float], dtype: torch.dtype) -> Expr:
        """`op` computed and resulting in `dtype`; numbers become constants."""
        made = [self.cast(a, dtype) if isinstance(a, Expr) else self.number(a, dtype) for a in args]
        return self.pool.pw(op, made, dtype)

    def f(self, op: str, *args: Expr | float) -> Expr:
        """`op` in the type of the first expression among `args`."""
        dtype = next(a.dtype for a in args if isinstance(a, Expr))
        return self.make(op, list(args), dtype)

    def compare(self, op: str, a: Expr | float, b: Expr | float) -> Expr:
        dtype = common_type(a, b)
        args = [
            self.cast(x, dtype) if isinstance(x, Expr) else self.number(x, dtype) for x in (a, b)
        ]
        return self.pool.pw(op, args, torch.bool)

    def where(self, condition: Expr, a: Expr | float, b: Expr | float, dtype: torch.dtype) -> Expr:
        args = [
            self.cast(x, dtype) if isinstance(x, Expr) else self.number(x, dtype) for x in (a, b)
        ]
        return self.pool.pw("where", [self.cast(condition, torch.bool), *args], dtype)

    # Functions that Triton's language lacks, written so that small arguments keep their digits.

    def polynomial(self, x: Expr, coefficients: tuple[float, ...]) -> Expr:
        """Horner's form; the highest power's coefficient comes first."""
        p = self.f("mul", x, coefficients[0])
        for c in coefficients[1:-1]:
            p = self.f("mul", self.f("add", p, c), x)
        return self.f("add", p, coefficients[-1])

    def tanh(self, x: Expr) -> Expr:
        """Odd polynomial (Cephes) below 0.625, exponentials above."""
        z = self.f("mul", x, x)
        if x.dtype is torch.float64:
            top = self.polynomial(z, (-9.64399179425052238628e-1, -9.92877231001918586564e1,
                                      -1.61468768441708447952e3))  # fmt: skip
            bottom = self.polynomial(z, (1.0, 1.12811678491632931402e2, 2.23548839060100448583e3,
                                         4.84406305325125486048e3))  # fmt: skip
            p = self.f("div", top, bottom)
        else:
            p = self.polynomial(z, (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                                    1.33314422036e-1, -3.33332819422e-1))  # fmt: skip
        small = self.f("add", self.f("mul", self.f("mul", p, z), x), x)
        size = self.f("abs", x)
        e = self.f("exp", self.f("mul", size, -2.0))
        large = self.f("div", self.f("sub", e, 1.0), self.f("add", e, 1.0))
        # (e - 1) / (e + 1) is minus the tanh of |x|.
        signed = self.where(self.compare("lt", x, 0.0), large, self.f("neg", large), x.dtype)
        return self.where(self.compare("lt", size, 0.625), small, signed, x.dtype)

    def log1p(self, x: Expr) -> Expr:
        """Kahan's form: exact for arguments whose sum with 1 rounds."""
        u = self.f("add", x, 1.0)
        ratio = self.f("mul", self.f("log", u), self.f("div", x, self.f("sub", u, 1.0)))
        flat = self.compare("eq", u, 1.0)
        whole = self.compare("eq", u, math.inf)
        return self.where(flat, x, self.where(whole, u, ratio, x.dtype), x.dtype)

    def expm1(self, x: Expr) -> Expr:
        """Taylor series below 0.3 in size, the exponential above."""
        terms = 16 if x.dtype is torch.float64 else 8
        p = self.polynomial(x, tuple(1.0 / math.factorial(n) for n in range(terms, 0, -1)))
        small = self.f("mul", p, x)
        large = self.f("sub", self.f("exp", x), 1.0)
        return self.where(self.compare("lt", self.f("abs", x), 0.3), small, large, x.dtype)

    def sigmoid(self, x: Expr) -> Expr:
        e = self.f("exp", self.f("neg", x))
        return self.make("div", [1.0, self.f("add", e, 1.0)], x.dtype)

    def gelu(self, x: Expr, approximate: str) -> Expr:
        half = self.f("mul", x, 0.5)
        if approximate == "tanh":
            cube = self.f("mul", self.f("mul", x, x), x)
            inner = self.f(
                "mul", self.f("add", x, self.f("mul", cube, 0.044715)), math.sqrt(2.0 / math.pi)
            )
            return self.f("mul", half, self.f("add", self.tanh(inner), 1.0))
        error = self.f("erf", self.f("mul", x, math.sqrt(0.5)))
        return self.f("mul", half, self.f("add", error, 1.0))

    def power(self, x: Expr, exponent: float) -> Expr | None:
        """x ** exponent where it is a short product or a root; None elsewhere."""
        if exponent == 0.5:
            return self.f("sqrt", x)
        if exponent == -0.5:
            return self.f("rsqrt", x)
        if exponent != int(exponent) or not 1 <= abs(exponent) <= 16:
            return None
        n, base, result = abs(int(exponent)), x, None
        while n:
            if n & 1:
                result = base if result is None else self.f("mul", result, base)
            base = self.f("mul", base, base) if n > 1 else base
            n >>= 1
        assert result is not None
        return result if exponent > 0 else self.make("div", [1.0, result], x.dtype)


def common_type(a: Expr | float, b: Expr | float) -> torch.dtype:
    """The type in which PyTorch computes `a op b`."""

    def sample(x: Expr | float) -> Any:
        return torch.empty(x.shape, dtype=x.dtype, device="meta") if isinstance(x, Expr) else x

    return torch.result_type(sample(a), sample(b))


def _scaled(m: Maths, x: Any, alpha: float, dtype: torch.dtype) -> Any:
    if alpha == 1:
        return x
    return m.make("mul", [x, alpha], dtype) if isinstance(x, Expr) else x * alpha


Lowering = Callable[[Maths, torch.dtype, list[Any], dict[str, Any]], "Expr | None"]


def _binary(op: str) -> Lowering:
    def lower(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
        if dtype is torch.bool:
            return None
        return m.make(op, [a[0], _scaled(m, a[1], k.get("alpha", 1), dtype)], dtype)

    return lower


def _unary(op: str) -> Lowering:
    return lambda m, dtype, a, k: m.make(op, [a[0]], dtype)


def _method(name: str, *more: Any) -> Lowering:
    return lambda m, dtype, a, k: getattr(m, name)(m.cast(a[0], dtype), *more)


def _comparison(op: str) -> Lowering:
    return lambda m, dtype, a, k: m.compare(op, a[0], a[1])


def _logical(op: str) -> Lowering:
    def lower(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
        parts = [m.compare("ne", x, 0) if x.dtype is not torch.bool else x for x in a[:2]]
        return m.pool.pw(op, parts, torch.bool)

    return lower


def _bitwise(op: str) -> Lowering:
    return lambda m, dtype, a, k: m.make(op, a[:2], dtype)


def _extreme(op: str) -> Lowering:
    def lower(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
        return m.make(op if dtype.is_floating_point else "i" + op, [a[0], a[1]], dtype)

    return lower


def _clamp(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    low = a[1] if len(a) > 1 else k.get("min")
    high = a[2] if len(a) > 2 else k.get("max")
    x = m.cast(a[0], dtype)
    if low is not None:
        x = _extreme("maximum")(m, dtype, [x, low], {})
    if high is not None:
        x = _extreme("minimum")(m, dtype, [x, high], {})
    return x


def _hardtanh(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    low, high = [*a[1:3], *(-1.0, 1.0)[len(a) - 1 :]] if len(a) < 3 else a[1:3]
    return _clamp(m, dtype, [a[0], low, high], {})


def _relu(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    # Written so that NaN stays NaN.
    return m.where(m.compare("le", a[0], 0), 0, a[0], dtype)


def _leaky_relu(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    slope = a[1] if len(a) > 1 else 0.01
    x = m.cast(a[0], dtype)
    return m.where(m.compare("gt", x, 0), x, m.f("mul", x, slope), dtype)


def _elu(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    alpha, scale, inner = ([*a[1:], 1.0, 1.0, 1.0][i] if i < len(a) - 1 else 1.0 for i in range(3))
    x = m.cast(a[0], dtype)
    below = m.f("mul", m.expm1(m.f("mul", x, inner)), alpha * scale)
    return m.where(m.compare("gt", x, 0), m.f("mul", x, scale), below, dtype)


def _div(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    mode = k.get("rounding_mode", a[2] if len(a) > 2 else None)
    if mode is not None or not dtype.is_floating_point:
        return None
    return m.make("div", [a[0], a[1]], dtype)


def _pow(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    if isinstance(a[0], Expr) and isinstance(a[1], (int, float)):
        if not dtype.is_floating_point and a[1] < 1:
            return None
        return m.power(m.cast(a[0], dtype), float(a[1]))
    if isinstance(a[1], Expr) and a[0] == 2 and dtype.is_floating_point:
        return m.make("exp2", [a[1]], dtype)
    return None


def _gelu(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return m.gelu(m.cast(a[0], dtype), k.get("approximate", "none"))


def _where(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return m.where(a[0], a[1], a[2], dtype) if len(a) == 3 else None


def _masked_fill(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return m.where(a[1], a[2], a[0], dtype)


def _sign(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    below = m.where(m.compare("lt", a[0], 0), -1, m.cast(a[0], dtype), dtype)
    return m.where(m.compare("gt", a[0], 0), 1, below, dtype)


def _trunc(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    if not dtype.is_floating_point:
        return a[0]
    x = m.cast(a[0], dtype)
    return m.where(m.compare("lt", x, 0), m.f("ceil", x), m.f("floor", x), dtype)


def _not(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    if dtype is torch.bool:
        return m.pool.pw(
            "not", [m.compare("ne", a[0], 0) if a[0].dtype is not torch.bool else a[0]], torch.bool
        )
    return m.make("inot", [a[0]], dtype)


def _isnan(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return m.compare("ne", a[0], a[0])


def _isinf(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return m.compare("eq", m.f("abs", a[0]), math.inf) if a[0].dtype.is_floating_point else None


def _convert(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    if dtype is torch.bool and a[0].dtype is not torch.bool:
        return m.compare("ne", a[0], 0)
    return m.rounded(a[0], dtype)


def _identity(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return a[0]


def _filled(value: float) -> Lowering:
    return lambda m, dtype, a, k: m.number(value, dtype)


def _full(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return m.number(a[1], dtype)


def _scalar_tensor(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return m.number(a[0], dtype)


def _sigmoid(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return m.sigmoid(m.cast(a[0], dtype))


def _ratio(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    return m.make("div", [1.0, a[0]], dtype)


def _scaled_log(base: float) -> Lowering:
    return lambda m, dtype, a, k: m.f("mul", m.make("log", [a[0]], dtype), 1.0 / math.log(base))


def _rsub(m: Maths, dtype: torch.dtype, a: list[Any], k: dict[str, Any]) -> Expr | None:
    alpha = k.get("alpha", a[2] if len(a) > 2 else 1)
    return m.make("sub", [a[1], _scaled(m, a[0], alpha, dtype)], dtype)


#: ATen operator (without overload): how it becomes an expression; None from it means "can't".
LOWERINGS: dict[str, Lowering] = {
    "add": _binary("add"), "sub": _binary("sub"), "mul": _binary("mul"), "div": _div,
    "rsub": _rsub, "neg": _unary("neg"), "abs": _unary("abs"), "exp": _unary("exp"),
    "exp2": _unary("exp2"), "log": _unary("log"), "log2": _unary("log2"),
    "log10": _scaled_log(10.0), "sqrt": _unary("sqrt"), "rsqrt": _unary("rsqrt"),
    "sin": _unary("sin"), "cos": _unary("cos"), "erf": _unary("erf"), "floor": _unary("floor"),
    "ceil": _unary("ceil"), "trunc": _trunc, "tanh": _method("tanh"), "log1p": _method("log1p"),
    "expm1": _method("expm1"), "sigmoid": _sigmoid, "gelu": _gelu, "relu": _relu,
    "leaky_relu": _leaky_relu, "elu": _elu, "reciprocal": _ratio, "pow": _pow, "clamp": _clamp,
    "hardtanh": _hardtanh, "clamp_min": _extreme("maximum"), "clamp_max": _extreme("minimum"),
    "maximum": _extreme("maximum"), "minimum": _extreme("minimum"), "where": _where,
    "masked_fill": _masked_fill, "sign": _sign, "sgn": _sign, "lt": _comparison("lt"),
    "le": _comparison("le"), "gt": _comparison("gt"), "ge": _comparison("ge"),
    "eq": _comparison("eq"), "ne": _comparison("ne"), "logical_and": _logical("and"),
    "logical_or": _logical("or"), "logical_xor": _logical("xor"), "logical_not": _not,
    "bitwise_not": _not, "bitwise_and": _bitwise("and"), "bitwise_or": _bitwise("or"),
    "bitwise_xor": _bitwise("xor"), "isnan": _isnan, "isinf": _isinf, "_to_copy": _convert,
    "convert_element_type": _convert, "clone": _identity, "lift_fresh_copy": _identity,
    "contiguous": _identity, "full": _full, "full_like": _full, "zeros": _filled(0),
    "ones": _filled(1), "zeros_like": _filled(0), "ones_like": _filled(1),
    "new_zeros": _filled(0), "scalar_tensor": _scalar_tensor,
}  # fmt: skip


def lower_pointwise(
    m: Maths, name: str, dtype: torch.dtype, shape: tuple[int, ...], args: list[Any],
    kwargs: dict[str, Any],
) -> Expr | None:  # fmt: skip
    """`aten::name` as an expression of `shape`, or None where the author has no form for it."""
    lowering = LOWERINGS.get(name)
    if lowering is None or dtype not in REGISTER_NAMES:
        return None
    result = lowering(m, dtype, args, kwargs)
    return None if result is None else m.pool.expand(result, shape)
