"""Functions of NVIDIA's libdevice, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .registry import operation
from .ttir_ops_math import counted, fused_multiply_add
from .values import Uncovered, dense, dtype_of

if TYPE_CHECKING:
    from .interpreter import Run
    from .ttir_parser import Op

_LIBDEVICE: dict[str, Callable[..., torch.Tensor]] = {
    "tanh": torch.tanh, "erf": torch.erf, "erfc": torch.special.erfc, "erfinv": torch.erfinv,
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "fast_exp": torch.exp,
    "exp10": lambda x: torch.pow(10.0, x.double()).to(x.dtype),
    "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p,
    "fast_log": torch.log, "fast_log2": torch.log2, "fast_log10": torch.log10,
    "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "fast_sin": torch.sin,
    "fast_cos": torch.cos, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan,
    "atan2": torch.atan2, "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh,
    "acosh": torch.acosh, "atanh": torch.atanh, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "cbrt": lambda x: torch.sign(x) * x.abs().double().pow(1 / 3).to(x.dtype),
    "pow": torch.pow, "fast_pow": torch.pow, "fmod": torch.fmod, "fabs": torch.abs,
    "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "rint": torch.round,
    "nearbyint": torch.round, "fmax": torch.fmax, "fmin": torch.fmin, "hypot": torch.hypot,
    "copysign": torch.copysign, "fma": fused_multiply_add, "fdiv": torch.div,
    "fast_fdivide": torch.div, "lgamma": torch.lgamma, "sigmoid": torch.sigmoid,
    "round": lambda x: torch.where(x < 0, torch.ceil(x - 0.5), torch.floor(x + 0.5)),
    "isnan": lambda x: x.isnan().to(torch.int32), "isinf": lambda x: x.isinf().to(torch.int32),
    "rcp": torch.reciprocal, "frcp": torch.reciprocal, "div": torch.div, "mul": torch.mul,
    "add": torch.add, "sub": torch.sub, "fsub": torch.sub, "fadd": torch.add, "fmul": torch.mul,
    "finite": lambda x: x.isfinite().to(torch.int32),
    "signbit": lambda x: x.signbit().to(torch.int32),
}  # fmt: skip


@operation("tt.extern_elementwise")
def _extern(run: Run, op: Op, args: list[Any]) -> Any:
    """A libdevice function by name: __nv_tanhf, __nv_fast_expf, __nv_fsqrt_rn."""
    symbol = op.attribute("symbol") or ""
    plain = re.sub(r"^__nv_", "", symbol)
    plain = re.sub(r"_rn$", "", plain)
    for name in (plain, plain.removesuffix("f"), plain.removeprefix("f"),
                 re.sub(r"d$", "", plain)):
        function = _LIBDEVICE.get(name)
        if function is not None:
            values = [dense(arg) for arg in args]
            counted(run, op, values[0].dtype, special=True)
            result = function(*values)
            target = dtype_of(op.type.element)
            return result if result.dtype == target else result.to(target)
    raise Uncovered(f"tt.extern_elementwise {symbol or '(no symbol)'}")
