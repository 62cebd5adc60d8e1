"""The kernel of a matrix product with its epilogue: tiles of the result, a loop over the depth."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from offline_author.emit import Access, Axis, Body, Value, coalesce
from offline_author.expr import Expr, Load, loads
from offline_author.formula import formula
from offline_author.genes import Genes, Space
from offline_author.kernel import Kernel, cdiv, kernel_source, next_power
from offline_author.pointwise import REGISTER_NAMES
from offline_author.program import Matmul, Pointwise, Program
from offline_author.schedule import Group, Member, refine

MULTIPROCESSORS = 132
#: Bytes of shared memory that the stages of one program may fill on Hopper.
SHARED_LIMIT = 200_000
#: Products that a multiprocessor does while it loads one element: 193 G products a second on its
#: lanes or 2600 G (bf16) on its tensor cores, against 100 GB a second of loads.
PRODUCTS_PER_LOAD = {"lanes": 8, "tensor": 52}


@dataclass
class Plan:
    head: Matmul
    batch: int
    m: int
    n: int
    k: int
    left: Expr
    right: Expr
    left_axes: list[Axis]
    right_axes: list[Axis]
    epilogue: list[tuple[Member, Expr]]
    axes: list[Axis]  # of the result: batch, rows, columns
    stores: list[Access]
    accesses: dict[int, Access]
    product_uids: list[int]


def _over(pool_exprs: list[Expr], axes: list[Axis], outs: list[Access]) -> dict[int, Access]:
    """Coalesces `axes` for the loads of the expressions and for `outs`, in place."""
    leaves = list({x.uid: x for e in pool_exprs for x in loads(e)}.values())
    strides = coalesce(axes, [x.stride for x in leaves] + [o.stride for o in outs])
    for out, s in zip(outs, strides[len(leaves) :], strict=True):
        out.stride = s
    return {x.uid: Access(x.buffer, x.offset, s)
            for x, s in zip(leaves, strides, strict=False)}  # fmt: skip


def plan(program: Program, group: Group) -> Plan:
    pool = program.pool
    head = group.members[0].d
    assert isinstance(head, Matmul)
    batch, m, k = head.a.shape
    n = head.b.shape[-1]
    left, right = pool.bind(head.a, (batch, m, k)), pool.bind(head.b, (batch, k, n))
    left_axes = [Axis("batch", "", [batch], [0]), Axis("rows", "row_mask", [m], [1]),
                 Axis("depth", "depth_mask", [k], [2])]  # fmt: skip
    right_axes = [Axis("batch", "", [batch], [0]), Axis("depth", "depth_mask", [k], [1]),
                  Axis("cols", "col_mask", [n], [2])]  # fmt: skip
    accesses = _over([left], left_axes, [])
    accesses.update(_over([right], right_axes, []))

    space_ = refine((batch, m, n), (1,)) or (1,)
    for member in group.members[1:]:
        size = tuple(member.d.out.size[i] for i in member.order)
        space_ = refine(space_, size) or space_
    cuts = _split(space_, (batch, m, n))
    epilogue, stores, places = [], [], [0]
    stores.append(Access(head.out, 0, pool.load(head.out, None).meta.view(space_).stride()))
    for member in group.members[1:]:
        d = member.d
        assert isinstance(d, Pointwise)

        def moved(t: torch.Tensor, order: tuple[int, ...] = member.order) -> torch.Tensor:
            return t.permute(order).view(space_)

        epilogue.append((member, pool.view(pool.bind(d.expr, d.out.size), moved)))
        stores.append(Access(d.out, 0, moved(pool.load(d.out).meta).stride()))
    axes = []
    for var, mask, sizes in zip(("batch", "rows", "cols"), ("", "row_mask", "col_mask"), cuts,
                                strict=True):  # fmt: skip
        axes.append(Axis(var, mask, list(sizes), list(range(places[-1], places[-1] + len(sizes)))))
        places.append(places[-1] + len(sizes))
    accesses.update(_over([e for _, e in epilogue], axes, stores))
    uids = [x.uid for _, e in epilogue for x in loads(e) if x.buffer is head.out]
    return Plan(head, batch, m, n, k, left, right, left_axes, right_axes, epilogue, axes, stores,
                accesses, uids)  # fmt: skip


def _split(space: tuple[int, ...], sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Divides the dimensions of `space` among factors of the given sizes, in order."""
    parts, at = [], 0
    for wanted in sizes:
        taken: list[int] = []
        total = 1
        while total < wanted:
            taken.append(space[at])
            total *= space[at]
            at += 1
        parts.append(tuple(taken))
    return parts


def space(program: Program, group: Group) -> Space:
    p = plan(program, group)
    single = p.head.out.dtype is torch.float32 and p.head.precision == "ieee"
    heights = [n for n in (16, 32, 64, 128) if n <= max(16, next_power(p.m))]
    widths = [n for n in (16, 32, 64, 128, 256) if n <= max(16, next_power(p.n))]
    depths = [n for n in (16, 32, 64, 128) if n <= max(16, next_power(p.k))]
    size = 4 if p.head.out.dtype is torch.float32 else 2
    block = _first_tile(p, heights, widths, single)
    depth = max(d for d in depths if d <= (32 if single else 64))
    wide = 2048 if single else 8192
    default = {
        "BLOCK_M": block[0], "BLOCK_N": block[1], "BLOCK_K": depth, "GROUP_M": 8,
        "num_warps": 8 if block[0] * block[1] >= wide else 4, "num_stages": 3,
    }  # fmt: skip

    def legal(g: Genes) -> bool:
        staged = g["num_stages"] * size * g["BLOCK_K"] * (g["BLOCK_M"] + g["BLOCK_N"])
        per_thread = g["BLOCK_M"] * g["BLOCK_N"] / (32 * g["num_warps"])
        return staged <= SHARED_LIMIT and 2 <= per_thread <= 128

    return Space(
        {"BLOCK_M": heights, "BLOCK_N": widths, "BLOCK_K": depths, "GROUP_M": [1, 4, 8],
         "num_warps": [2, 4, 8], "num_stages": [1, 2, 3, 4]},
        default, legal,
    )  # fmt: skip


def _first_tile(p: Plan, heights: list[int], widths: list[int], single: bool) -> tuple[int, int]:
    """The tile with the least estimated time on a full GPU; of equal ones the larger.

    The slowest multiprocessor computes `rounds` tiles one after the other. A tile costs its
    products, and its factors' elements at so many products' time each.
    """
    factor, choices = PRODUCTS_PER_LOAD["lanes" if single else "tensor"], []
    for height in heights:
        for width in widths:
            if max(height, width) > (64 if single else 128) or height < width // 2:
                continue
            programs = p.batch * cdiv(p.m, height) * cdiv(p.n, width)
            rounds = cdiv(programs, MULTIPROCESSORS)
            cost = rounds * (height * width + factor * (height + width))
            choices.append((cost, -height * width, height, width))
    _, _, height, width = min(choices)
    return height, width


def build(program: Program, group: Group, genes: Genes, name: str) -> Kernel:
    p = plan(program, group)
    down, across = cdiv(p.m, genes["BLOCK_M"]), cdiv(p.n, genes["BLOCK_N"])
    body = Body(p.axes, p.accesses)
    for _, e in p.epilogue:
        body.count_uses(e)
    body.line("program = tl.program_id(0)")
    if p.batch > 1:
        body.line("batch = tl.program_id(1)")
    body.line("# Programs walk GROUP_M blocks of rows before the next column: they share tiles.")
    body.line(f"band = program // (GROUP_M * {across})")
    body.line(f"height = tl.minimum({down} - band * GROUP_M, GROUP_M)")
    body.line(f"inside = program % (GROUP_M * {across})")
    body.line("row_start = (band * GROUP_M + inside % height) * BLOCK_M")
    body.line("col_start = (inside // height) * BLOCK_N")
    body.line("rows = row_start + tl.arange(0, BLOCK_M)[:, None]")
    body.line("cols = col_start + tl.arange(0, BLOCK_N)[None, :]")
    body.line(f"row_mask = rows < {p.m}")
    body.line(f"col_mask = cols < {p.n}")
    body.line("mask = row_mask & col_mask")
    body.line("product = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)")
    body.line(f"for start in range(0, {p.k}, BLOCK_K):")
    body.enter()
    _operand(body, p.left_axes, p.left, "left", p.k, "start + tl.arange(0, BLOCK_K)[None, :]")
    _operand(body, p.right_axes, p.right, "right", p.k, "start + tl.arange(0, BLOCK_K)[:, None]")
    single = p.head.out.dtype is torch.float32
    precision = f', input_precision="{p.head.precision}"' if single else ""
    body.line(f"product = tl.dot(left, right, product{precision})")
    body.leave()
    body.axes = p.axes
    both = frozenset({"rows", "cols"} | ({"batch"} if p.batch > 1 else set()))
    for uid in p.product_uids:
        body.given[uid] = Value("product", both)
    stored, note = [], [f"{p.head.out.name} = {formula(p.head.a)} @ {formula(p.head.b)}"]
    if p.head.out.name in group.stored:
        body.store(p.stores[0], Value("product", both))
        stored.append(p.head.out)
    for (member, e), access in zip(p.epilogue, p.stores[1:], strict=True):
        if member.d.out.name in group.stored:
            body.store(access, body.value(e))
            stored.append(member.d.out)
            note.append(f"{member.d.out.name} = {formula(e)}")
    constants = {n: genes[n] for n in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")}
    pointers = list(body.pointers.values())
    grid = f"({down * across}, {p.batch})" if p.batch > 1 else f"({down * across},)"
    source = kernel_source(name, note, pointers, constants, body.lines)
    return Kernel(name, source, pointers, stored, grid, constants, genes["num_warps"],
                  genes["num_stages"], note[-1])  # fmt: skip


def _operand(
    body: Body, axes: list[Axis], expr: Expr, name: str, k: int, index: str
) -> None:  # fmt: skip
    """Loads one factor's tile; outside the matrix it is zero, so the edges add nothing."""
    body.axes = axes
    body.scopes.append({})
    body.count_uses(expr)
    body.line(f"depth = {index}")
    body.line(f"depth_mask = depth < {k}")
    if isinstance(expr, Load):
        body.raw_load(expr, name)
    else:
        other = "row_mask" if name == "left" else "col_mask"
        text = f"tl.where({other} & depth_mask, {body.value(expr).text}, 0.0)"
        if expr.dtype is not torch.float32:
            text = f"{text}.to({REGISTER_NAMES[expr.dtype]})"
        body.line(f"{name} = {text}")
    body.scopes.pop()
