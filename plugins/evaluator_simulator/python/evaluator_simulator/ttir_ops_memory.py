"""Operations that touch memory: pointers, loads, stores, atomics, descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from . import hints
from .registry import operation
from .values import Affine, Descriptor, Pointer, Uncovered, dense, dtype_of

if TYPE_CHECKING:
    from .interpreter import Run
    from .ttir_parser import Op


def _pointer(value: Any) -> Pointer:
    if not isinstance(value, Pointer):
        raise Uncovered("a pointer made from an integer")
    return value


@operation("tt.addptr")
def _add_pointer(run: Run, op: Op, args: list[Any]) -> Any:
    pointer, delta = _pointer(args[0]), args[1]
    offset = pointer.offset
    if isinstance(delta, Affine) and delta.fits() and isinstance(offset, Affine):
        wide = Affine(delta.base, delta.strides, delta.shape, torch.int64)
        return pointer.moved(offset.combine(wide, 1))
    return pointer.moved(dense(offset) + dense(delta).to(torch.int64))


@operation("tt.int_to_ptr", "tt.ptr_to_int")
def _pointer_cast(run: Run, op: Op, args: list[Any]) -> Any:
    raise Uncovered(f"{op.name}: an address handled as a number")


@operation("tt.load")
def _load(run: Run, op: Op, args: list[Any]) -> Any:
    mask = args[1] if len(args) > 1 else None
    other = dense(args[2]) if len(args) > 2 else None
    if "block" not in op.cache:
        op.cache["block"] = "boundaryCheck" in op.rest and "array<i32: " in op.rest
    if op.cache["block"]:
        raise Uncovered("tt.load of a block pointer")
    run.wait()
    pointer = _pointer(args[0])
    offset = pointer.offset
    run.load_lies(op.results[0], offset.strides if isinstance(offset, Affine) else None)
    return run.memory.load(pointer, mask, other, op.line)


@operation("tt.store")
def _store(run: Run, op: Op, args: list[Any]) -> Any:
    mask = args[2] if len(args) > 2 else None
    run.memory.store(_pointer(args[0]), dense(args[1]), mask, op.line)


# -- atomics --------------------------------------------------------------------------------------


@operation("tt.atomic_rmw")
def _atomic(run: Run, op: Op, args: list[Any]) -> Any:
    """All programs of a chunk at once, in the order of their ids; returns the values before."""
    kind = op.rest.split(",")[0].strip()
    pointer, value = _pointer(args[0]), dense(args[1])
    mask = args[2] if len(args) > 2 else None
    dtype = dtype_of(pointer.element)
    if op.used:
        run.wait()
    offsets, valid, shape = run.memory.gather_for_atomic(pointer, mask, op.line)
    value = value.expand(shape)
    result = torch.zeros(shape, dtype=dtype)
    if kind == "fadd":
        run.float_atomics = True
    if pointer.buffer is None:
        return result
    flat = pointer.buffer.typed(dtype)
    if valid is None:
        where, amount = offsets.reshape(-1), value.reshape(-1)
    else:
        where, amount = offsets[valid], value[valid]
    if where.numel() == 0:
        return result
    old = _apply(kind, flat, where, amount, op.used)
    if op.used:
        if valid is None:
            result = old.reshape(shape)
        else:
            result[valid] = old
    return result


def _apply(kind: str, flat: torch.Tensor, where: torch.Tensor, amount: torch.Tensor,
           wanted: bool) -> torch.Tensor | None:
    """Changes flat[where] by `amount`; returns the values before if they are wanted."""
    if kind in ("add", "fadd"):
        old = _running_sum(flat, where, amount) if wanted else None
        if flat.dtype in (torch.float16, torch.bfloat16):
            _one_by_one(flat, where, amount)
        else:
            flat.index_add_(0, where, amount)
        return old
    order = {"max": "amax", "min": "amin", "umax": "amax", "umin": "amin"}
    if wanted and torch.unique(where).numel() != where.numel():
        raise Uncovered(f"tt.atomic_rmw {kind} whose result is used where programs collide")
    old = flat[where].clone() if wanted else None
    if kind in order:
        if kind[0] == "u":
            flip = torch.iinfo(flat.dtype).min
            shifted = flat[where] ^ flip
            touched, back = torch.unique(where, return_inverse=True)
            best = torch.empty(touched.numel(), dtype=flat.dtype)
            best[back] = shifted
            best.index_reduce_(0, back, amount ^ flip, order[kind])
            flat[touched] = best ^ flip
        else:
            flat.index_reduce_(0, where, amount, order[kind])
        return old
    if torch.unique(where).numel() != where.numel():
        raise Uncovered(f"tt.atomic_rmw {kind} where programs collide")
    function = {"and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor,
                "exch": lambda _, new: new}.get(kind)
    if function is None:
        raise Uncovered(f"tt.atomic_rmw {kind}")
    flat[where] = function(flat[where], amount)
    return old


def _running_sum(flat: torch.Tensor, where: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
    """What each lane finds at its place when the lanes add one after the other."""
    order = torch.argsort(where, stable=True)
    places = where[order]
    work = torch.float64 if flat.dtype.is_floating_point else torch.int64
    total = amount[order].to(work).cumsum(0)
    before = total - amount[order].to(work)
    first = torch.ones_like(places, dtype=torch.bool)
    first[1:] = places[1:] != places[:-1]
    group = first.cumsum(0) - 1
    old = torch.empty_like(amount)
    old[order] = (flat[places].to(work) + before - before[first][group]).to(flat.dtype)
    return old


def _one_by_one(flat: torch.Tensor, where: torch.Tensor, amount: torch.Tensor) -> None:
    """Adds in a 16-bit type, rounding after each addition: round r adds everyone's r-th lane."""
    order = torch.argsort(where, stable=True)
    places, amount = where[order], amount[order]
    first = torch.ones_like(places, dtype=torch.bool)
    first[1:] = places[1:] != places[:-1]
    starts = first.nonzero().reshape(-1)
    rank = torch.arange(places.numel()) - starts[first.cumsum(0) - 1]
    rounds = int(rank.max()) + 1
    if rounds > 4096:
        raise Uncovered("a 16-bit atomic add to one place by more than 4096 lanes")
    for r in range(rounds):
        now = rank == r
        flat[places[now]] += amount[now]


@operation("tt.atomic_cas")
def _compare_and_swap(run: Run, op: Op, args: list[Any]) -> Any:
    raise Uncovered("tt.atomic_cas: programs that wait for each other")


# -- descriptors ----------------------------------------------------------------------------------


@operation("tt.make_tensor_descriptor")
def _make_descriptor(run: Run, op: Op, args: list[Any]) -> Any:
    rank = (len(args) - 1) // 2
    sizes = [dense(v).to(torch.int64) for v in args[1 : 1 + rank]]
    strides = [dense(v).to(torch.int64) for v in args[1 + rank : 1 + 2 * rank]]
    from .interpreter import descriptor_block

    return Descriptor(_pointer(args[0]), tuple(sizes), tuple(strides),
                      descriptor_block(op.types), "nan" in (op.attribute("padding") or ""))


def _block(descriptor: Descriptor, index: list[Any]) -> tuple[Pointer, torch.Tensor]:
    """Addresses of a block and the lanes that lie inside the tensor."""
    block = descriptor.block
    rank = len(block)
    offset: Any = dense(descriptor.pointer.offset).reshape(-1)
    inside = torch.ones([1] * (rank + 1), dtype=torch.bool)
    regular = all(s.numel() == 1 for s in descriptor.strides)
    place: Any = 0
    for d, size in enumerate(block):
        start = dense(index[d]).to(torch.int64).reshape(-1)
        lane = torch.arange(size).reshape([-1] + [1] * (rank - 1 - d))
        position = start.reshape([-1] + [1] * rank) + lane
        limit = descriptor.shape[d].reshape([-1] + [1] * rank)
        inside = inside & (position >= 0) & (position < limit)
        if regular:
            offset = offset + start * int(descriptor.strides[d])
        else:
            place = place + position * descriptor.strides[d].reshape([-1] + [1] * rank)
    if regular:
        strides = tuple(int(s) for s in descriptor.strides)
        return descriptor.pointer.moved(Affine(offset, strides, block, torch.int64)), _plain(inside)
    offset = offset.reshape([-1] + [1] * rank) + place
    return descriptor.pointer.moved(offset), inside


def _plain(mask: torch.Tensor) -> torch.Tensor:
    """A mask that holds everywhere as one expanded element, so that it costs nothing."""
    return torch.ones([], dtype=torch.bool).expand(mask.shape) if bool(mask.all()) else mask


@operation("tt.descriptor_load")
def _descriptor_load(run: Run, op: Op, args: list[Any]) -> Any:
    descriptor = args[0]
    run.wait()
    pointer, inside = _block(descriptor, args[1 : 1 + len(descriptor.block)])
    run.load_lies(op.results[0], getattr(pointer.offset, "strides", None))
    dtype = dtype_of(pointer.element)
    fill = torch.tensor(float("nan") if descriptor.nan_padding else 0).to(dtype)
    value = run.memory.load(pointer, inside, fill.reshape([1] * (1 + len(descriptor.block))),
                            op.line)
    value = value.expand([value.shape[0], *descriptor.block])
    return value.reshape([value.shape[0], *op.type.shape])


@operation("tt.descriptor_store")
def _descriptor_store(run: Run, op: Op, args: list[Any]) -> Any:
    descriptor = args[0]
    rank = len(descriptor.block)
    pointer, inside = _block(descriptor, args[1 : 1 + rank])
    value = dense(args[1 + rank])
    run.memory.store(pointer, value.reshape([value.shape[0], *descriptor.block]), inside, op.line)


# -- no effect on values --------------------------------------------------------------------------


@operation("tt.print", "tt.assert", "gpu.barrier", "ttg.barrier", "ttg.local_barrier",
           "nvvm.barrier0")
def _nothing(run: Run, op: Op, args: list[Any]) -> Any:
    return None


@operation("llvm.intr.assume")
def _assume(run: Run, op: Op, args: list[Any]) -> Any:
    hints.assumed(run, op, dense(args[0]))
