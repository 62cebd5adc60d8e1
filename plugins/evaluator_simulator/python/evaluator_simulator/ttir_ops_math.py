"""Elementwise operations: integer and float arithmetic, comparisons, casts, functions.

Float arithmetic is done in the operation's own type: PyTorch computes fp16 and bf16 in fp32 and
rounds each result to nearest even, as the hardware's separate instructions do. Approximate
hardware functions (exp, divide, ...) are computed in fp32 to within an ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .registry import lane_class, operation
from .values import Affine, Pointer, Uncovered, dense, dtype_of, splat_affine, uniform_truth

if TYPE_CHECKING:
    from .interpreter import Run
    from .ttir_parser import Op

_INT64_MIN = -(1 << 63)


def _tensors(args: list[Any]) -> list[torch.Tensor]:
    return [dense(arg) for arg in args]


# -- integers -------------------------------------------------------------------------------------


def _splat_rule(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Computes on the bases alone where every operand is the same over its tile."""

    def handler(run: Run, op: Op, args: list[Any]) -> Any:
        if args and all(isinstance(arg, Affine) and arg.is_splat() for arg in args):
            bases = [arg.base.to(arg.dtype) for arg in args]
            return splat_affine(function(*bases), args[0].shape)
        return function(*_tensors(args))

    return handler


@operation("arith.addi", "arith.subi")
def _add(run: Run, op: Op, args: list[Any]) -> Any:
    a, b = args
    sign = 1 if op.name == "arith.addi" else -1
    if isinstance(a, Affine) and isinstance(b, Affine):
        return a.combine(b, sign)
    a, b = _tensors(args)
    if a.dtype == torch.bool:
        return a ^ b
    return a + b if sign == 1 else a - b


@operation("arith.muli")
def _multiply(run: Run, op: Op, args: list[Any]) -> Any:
    a, b = args
    if isinstance(a, Affine) and isinstance(b, Affine):
        if a.is_splat() and not b.is_splat():
            a, b = b, a
        if b.is_splat():
            if b.base.numel() == 1:
                return a.scaled(int(b.base[0]))
            if a.is_splat():
                return Affine(a.base * b.base, a.strides, a.shape, a.dtype)
    a, b = _tensors(args)
    return a & b if a.dtype == torch.bool else a * b


def _widen(value: torch.Tensor) -> torch.Tensor:
    """The bits of a narrow integer as a non-negative int64."""
    if value.dtype == torch.int64:
        return value
    if value.dtype == torch.bool:
        return value.to(torch.int64)
    return value.to(torch.int64) & ((1 << (8 * value.dtype.itemsize)) - 1)


def _unsigned(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Applies a function of non-negative numbers to unsigned operands of up to 63 bits."""

    def apply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dtype == torch.int64 and (bool((a < 0).any()) or bool((b < 0).any())):
            raise Uncovered("unsigned 64-bit arithmetic on values over 2**63")
        return function(_widen(a), _widen(b)).to(a.dtype)

    return apply


def _nonzero(b: torch.Tensor) -> torch.Tensor:
    """A divisor with 0 replaced by 1: programs that divide by zero are masked off or wrong."""
    return torch.where(b == 0, torch.ones((), dtype=b.dtype), b)


def _divide_trunc(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.div(a, _nonzero(b), rounding_mode="trunc")


def _divide_floor(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.div(a, _nonzero(b), rounding_mode="floor")


def _remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.fmod(a, _nonzero(b))


@operation("arith.remsi", "arith.divsi")
def _divide(run: Run, op: Op, args: list[Any]) -> Any:
    a, b = args
    remainder = op.name == "arith.remsi"
    if (remainder and isinstance(a, Affine) and isinstance(b, Affine) and b.is_splat()
            and not a.is_splat() and a.fits()):
        low, high = a.bounds()
        if low >= 0 and high < int(b.base.min()):
            return a  # x % n of numbers that are below n already: the offsets stay regular
    return _splat_rule(_remainder if remainder else _divide_trunc)(run, op, args)


_INTEGER = {
    "arith.divui": _unsigned(_divide_trunc),
    "arith.remui": _unsigned(_remainder),
    "arith.floordivsi": _divide_floor,
    "arith.ceildivsi": lambda a, b: -_divide_floor(-a, b),
    "arith.ceildivui": _unsigned(lambda a, b: -_divide_floor(-a, b)),
    "arith.maxsi": torch.maximum,
    "arith.minsi": torch.minimum,
    "arith.maxui": _unsigned(torch.maximum),
    "arith.minui": _unsigned(torch.minimum),
    "arith.xori": torch.bitwise_xor,
    "math.absi": torch.abs,
    "arith.index_cast": lambda a: a,
}
for _name, _function in _INTEGER.items():
    operation(_name)(_splat_rule(_function))


@operation("arith.andi", "arith.ori")
def _logic(run: Run, op: Op, args: list[Any]) -> Any:
    conjunction = op.name == "arith.andi"
    if all(isinstance(arg, torch.Tensor) and arg.dtype == torch.bool for arg in args):
        for this, that in ((0, 1), (1, 0)):
            truth = uniform_truth(args[this])
            if truth is not None:  # keeps masks symbolic: true & m is m
                return args[that] if truth == conjunction else args[this]
    function = torch.bitwise_and if conjunction else torch.bitwise_or
    return _splat_rule(function)(run, op, args)


def _shift(name: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    bits = 8 * a.dtype.itemsize
    over = (b < 0) | (b >= bits)
    count = torch.where(over, torch.zeros((), dtype=b.dtype), b)
    if name == "arith.shli":
        value = torch.bitwise_left_shift(a, count)
    elif name == "arith.shrsi":
        value = torch.bitwise_right_shift(a, count)
    elif a.dtype == torch.int64:
        shifted = torch.bitwise_right_shift(a, count)
        keep = torch.bitwise_left_shift(torch.ones_like(a), (64 - count).clamp(max=63)) - 1
        value = torch.where(count == 0, a, torch.where(a < 0, shifted & keep, shifted))
    else:
        value = torch.bitwise_right_shift(_widen(a), count.to(torch.int64)).to(a.dtype)
    return torch.where(over, torch.zeros((), dtype=a.dtype), value)


@operation("arith.shli", "arith.shrsi", "arith.shrui")
def _shifts(run: Run, op: Op, args: list[Any]) -> Any:
    return _splat_rule(lambda a, b: _shift(op.name, a, b))(run, op, args)


@operation("tt.mulhiui")
def _multiply_high(run: Run, op: Op, args: list[Any]) -> Any:
    a, b = _tensors(args)
    if a.dtype == torch.int32:
        # Two products of 32 x 16 bits stay below 2**63.
        a, b = _widen(a), _widen(b)
        low = a * (b & 0xFFFF)
        high = a * (b >> 16) + (low >> 16)
        return (high >> 16).to(torch.int32)
    raise Uncovered(f"tt.mulhiui on {a.dtype}")


_SIGNED = {
    "eq": torch.eq, "ne": torch.ne, "slt": torch.lt, "sle": torch.le, "sgt": torch.gt,
    "sge": torch.ge,
}  # fmt: skip
_UNSIGNED = {"ult": torch.lt, "ule": torch.le, "ugt": torch.gt, "uge": torch.ge}


def _decided(predicate: str, a: Affine, b: Affine) -> bool | None:
    """The answer where the ranges of both sides decide it for every lane."""
    low, high = (x - y for x, y in zip(a.bounds(), reversed(b.bounds())))
    if predicate == "slt":
        return True if high < 0 else False if low >= 0 else None
    if predicate == "sle":
        return True if high <= 0 else False if low > 0 else None
    if predicate == "sgt":
        return True if low > 0 else False if high <= 0 else None
    if predicate == "sge":
        return True if low >= 0 else False if high < 0 else None
    return None


def _reduced(value: Affine) -> torch.Tensor:
    """The values with dimensions of stride 0 kept at size 1."""
    return Affine(value.base, value.strides,
                  tuple(n if s else 1 for s, n in zip(value.strides, value.shape)),
                  value.dtype).dense()


@operation("arith.cmpi")
def _compare(run: Run, op: Op, args: list[Any]) -> Any:
    predicate = op.rest.split(",")[0].strip()
    a, b = args
    if isinstance(a, Pointer) or isinstance(b, Pointer):
        raise Uncovered("a comparison of pointers")
    if predicate in _SIGNED and isinstance(a, Affine) and isinstance(b, Affine):
        if a.fits() and b.fits():
            answer = _decided(predicate, a, b)
            if answer is not None:
                return torch.tensor(answer).expand([1, *a.shape])
        result = _SIGNED[predicate](_reduced(a), _reduced(b))
        return result.expand([result.shape[0], *a.shape])
    a, b = dense(a), dense(b)
    if predicate in _UNSIGNED:
        if a.dtype == torch.int64:
            return _UNSIGNED[predicate](a ^ _INT64_MIN, b ^ _INT64_MIN)
        return _UNSIGNED[predicate](_widen(a), _widen(b))
    if a.dtype == torch.bool:  # an i1 that is set is -1
        a, b = -a.to(torch.int8), -b.to(torch.int8)
    return _SIGNED[predicate](a, b)


# -- floats ---------------------------------------------------------------------------------------


def counted(run: Run, op: Op, dtype: torch.dtype, special: bool = False, each: int = 1) -> None:
    name = lane_class(dtype)
    if special:
        name = "special64" if dtype == torch.float64 else "special"
    if name:
        run.count(name, each * op.type.lanes)


_FLOAT = {
    "arith.addf": torch.add,
    "arith.subf": torch.sub,
    "arith.mulf": torch.mul,
    "arith.negf": torch.neg,
    "arith.maximumf": torch.maximum,
    "arith.minimumf": torch.minimum,
    "arith.maxnumf": torch.fmax,
    "arith.minnumf": torch.fmin,
    "math.absf": torch.abs,
    "math.floor": torch.floor,
    "math.ceil": torch.ceil,
    "math.trunc": torch.trunc,
    "math.round": lambda x: torch.where(x < 0, torch.ceil(x - 0.5), torch.floor(x + 0.5)),
    "math.roundeven": torch.round,
    "math.copysign": torch.copysign,
}
_SPECIAL = {
    "arith.divf": torch.div,
    "arith.remf": torch.fmod,
    "tt.precise_divf": torch.div,
    "tt.precise_sqrt": torch.sqrt,
    "math.exp": torch.exp,
    "math.exp2": torch.exp2,
    "math.expm1": torch.expm1,
    "math.log": torch.log,
    "math.log2": torch.log2,
    "math.log10": torch.log10,
    "math.log1p": torch.log1p,
    "math.sin": torch.sin,
    "math.cos": torch.cos,
    "math.tan": torch.tan,
    "math.tanh": torch.tanh,
    "math.sqrt": torch.sqrt,
    "math.rsqrt": torch.rsqrt,
    "math.cbrt": lambda x: torch.sign(x) * x.abs().double().pow(1 / 3).to(x.dtype),
    "math.erf": torch.erf,
    "math.erfc": torch.special.erfc,
    "math.powf": torch.pow,
    "math.atan2": torch.atan2,
}


def _float_handler(function: Callable[..., torch.Tensor], special: bool) -> Callable[..., Any]:
    def handler(run: Run, op: Op, args: list[Any]) -> Any:
        counted(run, op, args[0].dtype, special)
        return function(*args)

    return handler


for _name, _function in _FLOAT.items():
    operation(_name)(_float_handler(_function, False))
for _name, _function in _SPECIAL.items():
    operation(_name)(_float_handler(_function, True))


def fused_multiply_add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """a * b + c, rounded once for fp32 and narrower."""
    if a.dtype == torch.float64:
        return a * b + c
    return (a.double() * b.double() + c.double()).to(a.dtype)


@operation("math.fma")
def _fma(run: Run, op: Op, args: list[Any]) -> Any:
    counted(run, op, args[0].dtype, each=2)
    return fused_multiply_add(*args)


@operation("tt.clampf")
def _clamp(run: Run, op: Op, args: list[Any]) -> Any:
    value, low, high = args
    counted(run, op, value.dtype, each=2)
    if op.attribute("propagateNan") == "all":
        return torch.minimum(torch.maximum(value, low), high)
    return torch.fmin(torch.fmax(value, low), high)


@operation("arith.cmpf")
def _compare_float(run: Run, op: Op, args: list[Any]) -> Any:
    predicate = op.rest.split(",")[0].strip()
    a, b = args
    counted(run, op, a.dtype)
    kind = predicate[1:]
    if predicate in ("ord", "uno"):
        unordered = a.isnan() | b.isnan()
        return unordered if predicate == "uno" else ~unordered
    basic = {"eq": torch.eq, "ne": torch.ne, "gt": torch.gt, "ge": torch.ge, "lt": torch.lt,
             "le": torch.le}
    if kind not in basic:
        raise Uncovered(f"arith.cmpf {predicate}")
    result = basic[kind](a, b)
    if predicate == "one":  # ordered: false for NaN, where PyTorch's ne says true
        return result & ~(a.isnan() | b.isnan())
    if predicate[0] == "u" and kind != "ne":
        return result | a.isnan() | b.isnan()
    return result


# -- casts ----------------------------------------------------------------------------------------


@operation("arith.extsi", "arith.extui", "arith.trunci")
def _integer_cast(run: Run, op: Op, args: list[Any]) -> Any:
    value = args[0]
    target = dtype_of(op.type.element)
    if isinstance(value, Affine):
        low, high = value.bounds()
        bits = 8 * min(value.dtype.itemsize, target.itemsize) - 1
        fits = value.fits() and -(1 << bits) <= low and high < (1 << bits)
        if fits and target.itemsize >= 4 and (op.name != "arith.extui" or low >= 0):
            return Affine(value.base, value.strides, value.shape, target)
    value = dense(value)
    if op.name == "arith.extui":
        return _widen(value).to(target)
    if op.name == "arith.extsi" and value.dtype == torch.bool:
        return -value.to(target)
    if target == torch.bool:
        return (value & 1).to(torch.bool)
    return value.to(target)


def round_to(value: torch.Tensor, target: torch.dtype) -> torch.Tensor:
    """Rounds to nearest even; fp8 saturates, as Triton's conversions do."""
    if target in (torch.float8_e4m3fn, torch.float8_e5m2):
        limit = torch.finfo(target).max
        value = torch.where(value.isinf() | value.isnan(), value, value.clamp(-limit, limit))
        if target == torch.float8_e4m3fn:
            value = torch.where(value.isinf(), value.sign() * limit, value)
    return value.to(target)


@operation("arith.extf", "arith.truncf", "tt.fp_to_fp")
def _float_cast(run: Run, op: Op, args: list[Any]) -> Any:
    target = dtype_of(op.type.element)
    if target.itemsize < args[0].dtype.itemsize and "rtz" in op.rest:
        if target != torch.bfloat16 or args[0].dtype != torch.float32:
            raise Uncovered(f"{op.name} with rounding toward zero")
        bits = args[0].contiguous().view(torch.int32) & -65536
        return bits.view(torch.float32).to(target)
    return round_to(args[0], target)


@operation("arith.sitofp", "arith.uitofp")
def _to_float(run: Run, op: Op, args: list[Any]) -> Any:
    value, target = dense(args[0]), dtype_of(op.type.element)
    if op.name == "arith.uitofp":
        if value.dtype == torch.int64 and bool((value < 0).any()):
            raise Uncovered("arith.uitofp on values over 2**63")
        return _widen(value).to(target)
    return (-value.to(target)) if value.dtype == torch.bool else value.to(target)


@operation("arith.fptosi", "arith.fptoui")
def _to_integer(run: Run, op: Op, args: list[Any]) -> Any:
    """Truncates and saturates, as cvt.rzi does; NaN gives 0."""
    target = dtype_of(op.type.element)
    value = torch.nan_to_num(args[0].double(), nan=0.0)
    bits = 8 * target.itemsize if target != torch.bool else 1
    if op.name == "arith.fptoui" or target == torch.bool:
        low, high = 0, (1 << bits) - 1
    else:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    top = math.nextafter(float(high), 0) if bits == 64 else float(high)
    whole = value.clamp(float(low), min(top, 9.2233720368547748e18)).trunc().to(torch.int64)
    if target == torch.bool:
        return whole != 0
    return whole.to(target)


@operation("tt.bitcast", "arith.bitcast")
def _bitcast(run: Run, op: Op, args: list[Any]) -> Any:
    value = args[0]
    if isinstance(value, Pointer):
        element = op.type.pointee
        old, new = dtype_of(value.element).itemsize, dtype_of(element).itemsize
        if old == new:
            return Pointer(value.buffer, value.offset, element, value.param)
        offsets = dense(value.offset).to(torch.int64) * old
        if bool((offsets % new).any()):
            raise Uncovered("a pointer cast to a wider type at an odd address")
        return Pointer(value.buffer, offsets // new, element, value.param)
    value, target = dense(value), dtype_of(op.type.element)
    if value.dtype == target:
        return value
    if torch.bool in (value.dtype, target):
        return (value & 1).to(torch.bool) if target == torch.bool else value.to(target)
    return value.contiguous().view(target)


@operation("arith.select")
def _select(run: Run, op: Op, args: list[Any]) -> Any:
    condition, yes, no = args
    truth = uniform_truth(condition)
    if truth is not None:
        return yes if truth else no
    if isinstance(yes, Pointer):
        if yes.buffer is not no.buffer or yes.element != no.element:
            raise Uncovered("a pointer that selects between two buffers")
        return yes.moved(_where(condition, dense(yes.offset), dense(no.offset)))
    return _where(condition, dense(yes), dense(no))


def _where(condition: torch.Tensor, yes: torch.Tensor, no: torch.Tensor) -> torch.Tensor:
    if condition.dim() < yes.dim():
        condition = condition.reshape([-1] + [1] * (yes.dim() - 1))
    return torch.where(condition, yes, no)
