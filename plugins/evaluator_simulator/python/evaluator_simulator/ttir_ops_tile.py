"""Operations that build, reshape and combine tiles: ranges, broadcasts, dot, reduce, scan."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

import torch

from .registry import lane_class, operation
from .values import Affine, Pointer, Uncovered, dense, dtype_of, splat_affine

if TYPE_CHECKING:
    from .interpreter import Run
    from .ttir_parser import Op

_AXES = {"x": 0, "y": 1, "z": 2}
_ADDRESS_TYPES = (torch.int32, torch.int64)


# -- constants and program ids --------------------------------------------------------------------


def _literal(text: str, dtype: torch.dtype) -> float | int | bool:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("0x"):
        bits = int(text, 16)
        if not dtype.is_floating_point:
            return bits
        if dtype == torch.bfloat16:
            return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        pack = {torch.float64: "<Q<d", torch.float32: "<I<f", torch.float16: "<H<e"}.get(dtype)
        if pack is None:
            return torch.tensor(bits, dtype=torch.uint8).view(dtype).float().item()
        return struct.unpack(pack[2:], struct.pack(pack[:2], bits))[0]
    return float(text) if dtype.is_floating_point else int(text)


@operation("arith.constant")
def _constant(run: Run, op: Op, args: list[Any]) -> Any:
    if "value" not in op.cache:
        op.cache["value"] = _make_constant(op)
    return op.cache["value"]


def _make_constant(op: Op) -> Any:
    text = re.sub(r"^\{[^}]*\}\s*", "", op.rest).strip()
    kind = op.type
    if not op.types:  # `arith.constant true`
        return torch.tensor([text == "true"])
    dtype = dtype_of(kind.element)
    match = re.match(r"dense<(.*)>$", text, re.DOTALL)
    inner = match[1].strip() if match else text
    if inner.startswith("["):
        numbers = [_literal(part, dtype) for part in re.findall(r"[^\[\],\s]+", inner)]
        return torch.tensor(numbers, dtype=dtype).reshape([1, *kind.shape])
    if inner.startswith('"'):
        raw = bytes.fromhex(inner.strip('"')[2:])
        return torch.frombuffer(bytearray(raw), dtype=dtype).reshape([1, *kind.shape])
    value = torch.tensor([_literal(inner, dtype)], dtype=torch.float64 if dtype.is_floating_point
                         else dtype).to(dtype)
    if kind.shape and dtype in _ADDRESS_TYPES:
        return splat_affine(value, kind.shape)
    return value.reshape([1] * (1 + len(kind.shape))).expand([1, *kind.shape])


@operation("ub.poison", "llvm.mlir.undef", "llvm.mlir.poison")
def _undefined(run: Run, op: Op, args: list[Any]) -> Any:
    from .access import poison

    if op.type.pointee:
        return Pointer(None, torch.zeros([1, *op.type.shape], dtype=torch.int64), op.type.pointee,
                       "")
    dtype = dtype_of(op.type.element)
    return torch.full([1, *op.type.shape], poison(dtype), dtype=dtype)


@operation("tt.get_program_id")
def _program_id(run: Run, op: Op, args: list[Any]) -> Any:
    return run.memory.pids[:, _AXES[op.rest.split()[0]]].to(torch.int32)


@operation("tt.get_num_programs")
def _programs(run: Run, op: Op, args: list[Any]) -> Any:
    return torch.tensor([run.grid[_AXES[op.rest.split()[0]]]], dtype=torch.int32)


@operation("tt.make_range")
def _range(run: Run, op: Op, args: list[Any]) -> Any:
    start = op.integer("start")
    return Affine(torch.tensor([start]), (1,), (op.integer("end") - start,), torch.int32)


# -- shapes ---------------------------------------------------------------------------------------


def _through(value: Any, function: Any) -> Any:
    """Applies a function of offsets to a pointer, of values to anything else."""
    return value.moved(function(value.offset)) if isinstance(value, Pointer) else function(value)


@operation("tt.splat")
def _splat(run: Run, op: Op, args: list[Any]) -> Any:
    shape = op.type.shape

    def spread(value: Any) -> Any:
        value = dense(value)
        if value.dtype in _ADDRESS_TYPES:
            return splat_affine(value.reshape(-1), shape)
        return value.reshape([-1] + [1] * len(shape)).expand([-1, *shape])

    return _through(args[0], spread)


@operation("tt.unsplat")
def _unsplat(run: Run, op: Op, args: list[Any]) -> Any:
    return _through(args[0], lambda v: dense(v).reshape(dense(v).shape[0]))


@operation("tt.expand_dims")
def _expand_dims(run: Run, op: Op, args: list[Any]) -> Any:
    axis = op.integer("axis")

    def expand(value: Any) -> Any:
        if isinstance(value, Affine):
            strides, shape = list(value.strides), list(value.shape)
            strides.insert(axis, 0)
            shape.insert(axis, 1)
            return value.reshaped(tuple(strides), tuple(shape))
        return value.unsqueeze(axis + 1)

    return _through(args[0], expand)


@operation("tt.broadcast")
def _broadcast(run: Run, op: Op, args: list[Any]) -> Any:
    shape = op.type.shape

    def widen(value: Any) -> Any:
        if isinstance(value, Affine):
            return value.reshaped(value.strides, shape)
        return value.expand([-1, *shape])

    return _through(args[0], widen)


@operation("tt.trans")
def _transpose(run: Run, op: Op, args: list[Any]) -> Any:
    order = [int(n) for n in re.findall(r"-?\d+", op.rest[op.rest.index("array<") + 10 :])]

    def permute(value: Any) -> Any:
        if isinstance(value, Affine):
            return value.reshaped(tuple(value.strides[i] for i in order),
                                  tuple(value.shape[i] for i in order))
        return value.permute([0] + [i + 1 for i in order])

    return _through(args[0], permute)


@operation("tt.reshape")
def _reshape(run: Run, op: Op, args: list[Any]) -> Any:
    shape = op.type.shape

    def reshape(value: Any) -> Any:
        if isinstance(value, Affine):
            if value.is_splat():
                return value.reshaped((0,) * len(shape), shape)
            kept = [(s, n) for s, n in zip(value.strides, value.shape) if n != 1]
            if [n for _, n in kept] == [n for n in shape if n != 1]:  # only sizes of 1 move
                strides = iter(s for s, _ in kept)
                return value.reshaped(tuple(next(strides) if n != 1 else 0 for n in shape), shape)
            value = value.dense()
        return value.reshape([value.shape[0], *shape])

    return _through(args[0], reshape)


def _common(values: list[Any]) -> list[torch.Tensor]:
    """Tensors with the same leading dimension."""
    tensors = [dense(value) for value in values]
    programs = max(tensor.shape[0] for tensor in tensors)
    return [tensor.expand([programs, *tensor.shape[1:]]) for tensor in tensors]


@operation("tt.join")
def _join(run: Run, op: Op, args: list[Any]) -> Any:
    return torch.stack(_common(args), dim=-1)


@operation("tt.split")
def _split(run: Run, op: Op, args: list[Any]) -> Any:
    value = dense(args[0])
    return [value[..., 0], value[..., 1]]


@operation("tt.cat")
def _cat(run: Run, op: Op, args: list[Any]) -> Any:
    return torch.cat(_common(args), dim=1)


@operation("tt.gather")
def _gather(run: Run, op: Op, args: list[Any]) -> Any:
    source, index = _common(args)
    axis = op.integer("axis") + 1
    index = index.to(torch.int64)
    if bool(((index < 0) | (index >= source.shape[axis])).any()):
        raise Uncovered("tt.gather with an index outside the tile")
    return torch.gather(source, axis, index)


@operation("tt.histogram")
def _histogram(run: Run, op: Op, args: list[Any]) -> Any:
    value = dense(args[0]).to(torch.int64)
    bins = op.type.shape[0]
    keep = (value >= 0) & (value < bins)
    if len(args) > 1:
        keep = keep & args[1]
        value = value.expand(keep.shape)
    counts = torch.zeros([value.shape[0], bins], dtype=torch.int32)
    return counts.scatter_add_(1, torch.where(keep, value, 0), keep.to(torch.int32))


# -- dot ------------------------------------------------------------------------------------------

_TF32_HALF, _TF32_MASK = 0x1000, ~0x1FFF


def round_tf32(value: torch.Tensor) -> torch.Tensor:
    """fp32 rounded to the 10-bit mantissa of TF32, ties away from zero (cvt.rna)."""
    bits = value.contiguous().view(torch.int32)
    rounded = ((bits + _TF32_HALF) & _TF32_MASK).view(torch.float32)
    return torch.where(value.isfinite(), rounded, value)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.shape[0] == 1 and b.shape[0] == 1:
        return torch.matmul(a[0], b[0])[None]
    return torch.matmul(a, b)


def _accumulate(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """c + a @ b in fp32, rounded to c's type."""
    if a.dim() == 3 and c.dtype == torch.float32:
        programs = max(a.shape[0], b.shape[0], c.shape[0])
        a, b, c = (x.expand([programs, *x.shape[1:]]) for x in (a, b, c))
        return torch.baddbmm(c, a, b)
    return (c.float() + _product(a, b)).to(c.dtype)


@operation("tt.dot")
def _dot(run: Run, op: Op, args: list[Any]) -> Any:
    a, b, c = (dense(arg) for arg in args[:3])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    batch = a.shape[1] if a.dim() == 4 else 1
    precision = op.attribute("inputPrecision") or "ieee"
    dtype = a.dtype
    product = total = None
    if dtype in (torch.int8, torch.int32):
        kind = "dot_int8"
        product = _product(a.double(), b.double()).to(torch.int64).to(c.dtype)
    elif dtype == torch.float64:
        kind, product = "dot_fp64", _product(a, b)
    elif dtype == torch.float32 and precision in ("ieee", "tf32"):
        kind = f"dot_{precision}"
        if precision == "tf32":
            a, b = round_tf32(a), round_tf32(b)
        total = _accumulate(a, b, c)
    elif dtype == torch.float32:
        kind, product = _dot_fp32(a, b, precision)
    else:
        kind = {torch.float16: "dot_fp16", torch.bfloat16: "dot_bf16"}.get(dtype, "dot_fp8")
        total = _accumulate(a.float(), b.float(), c)
    run.count(kind, 2 * batch * m * n * k)
    run.count_dot(*op.operands[:2], (m, n, k), 2 * batch * m * n * k)
    if product is None:
        return total
    if product.dtype != c.dtype:  # an fp16 accumulator
        return (product + c.to(product.dtype)).to(c.dtype)
    return product + c


def _dot_fp32(a: torch.Tensor, b: torch.Tensor, precision: str) -> tuple[str, torch.Tensor]:
    """The split precisions: sums of products of rounded parts."""
    if precision == "tf32x3":
        a1, b1 = round_tf32(a), round_tf32(b)
        a2, b2 = round_tf32(a - a1), round_tf32(b - b1)
        return "dot_tf32", _product(a1, b1) + (_product(a1, b2) + _product(a2, b1))
    if precision in ("bf16x3", "bf16x6"):
        return "dot_bf16", _dot_bf16_parts(a, b, 2 if precision == "bf16x3" else 3)
    raise Uncovered(f"tt.dot with input precision {precision}")


def _dot_bf16_parts(a: torch.Tensor, b: torch.Tensor, parts: int) -> torch.Tensor:
    def pieces(value: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for _ in range(parts):
            found.append(value.bfloat16().float())
            value = value - found[-1]
        return found

    left, right = pieces(a), pieces(b)
    total = None
    for i in reversed(range(parts)):
        for j in reversed(range(parts)):
            if i + j < parts:
                product = _product(left[i], right[j])
                total = product if total is None else total + product
    return total


# -- reductions -----------------------------------------------------------------------------------


def _combine(run: Run, op: Op, left: list[torch.Tensor], right: list[torch.Tensor]) -> list[Any]:
    block = op.regions[0].entry
    env = run.env
    for (name, _), value in zip(block.arguments, left + right):
        env[name] = value
    with run.uncounted():
        return [dense(value) for value in run.block(block)]


@operation("tt.reduce")
def _reduce(run: Run, op: Op, args: list[Any]) -> Any:
    """Combines halves of the tile until one is left: the order of a tree, as lanes do it."""
    axis = op.integer("axis") + 1
    values = _common(args)
    size = values[0].shape[axis]
    kind = lane_class(values[0].dtype)
    if kind:
        lanes = 1
        for n in values[0].shape[1:]:
            lanes *= n
        run.count(kind, lanes * len(values))
    while size > 1:
        half = size // 2
        merged = _combine(run, op, [v.narrow(axis, 0, half) for v in values],
                          [v.narrow(axis, half, half) for v in values])
        if size % 2:
            merged = [torch.cat([m, v.narrow(axis, size - 1, 1)], axis)
                      for m, v in zip(merged, values)]
        values, size = merged, half + size % 2
    result = [value.squeeze(axis) for value in values]
    return result if len(op.results) > 1 else result[0]


@operation("tt.scan")
def _scan(run: Run, op: Op, args: list[Any]) -> Any:
    """Inclusive prefix combination in log2(n) rounds."""
    axis = op.integer("axis") + 1
    reverse = op.attribute("reverse") == "true"
    values = [value.flip(axis) if reverse else value for value in _common(args)]
    size, step = values[0].shape[axis], 1
    kind = lane_class(values[0].dtype)
    if kind:
        run.count(kind, values[0][0].numel())
    while step < size:
        merged = _combine(run, op, [v.narrow(axis, 0, size - step) for v in values],
                          [v.narrow(axis, step, size - step) for v in values])
        values = [torch.cat([v.narrow(axis, 0, step), m], axis)
                  for v, m in zip(values, merged)]
        step *= 2
    result = [value.flip(axis) if reverse else value for value in values]
    return result if len(op.results) > 1 else result[0]
