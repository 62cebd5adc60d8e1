"""The kernel of a pointwise group: one pass over the outputs, everything else in registers."""

from __future__ import annotations

from dataclasses import dataclass

from offline_author.emit import Access, Axis, Body, coalesce
from offline_author.expr import Expr, Load, loads, product
from offline_author.formula import formula
from offline_author.genes import Genes, Space
from offline_author.kernel import Kernel, cdiv, kernel_source, next_power
from offline_author.program import Pointwise, Program
from offline_author.schedule import Group

#: An innermost dimension shorter than this is walked together with the others, as one flat index.
SHORT_ROW = 32
MULTIPROCESSORS = 132
TILE_LIMIT = 64  # elements per thread


@dataclass
class Plan:
    """The group's expressions over coalesced axes: one axis (flat) or two (rows, columns)."""

    exprs: list[Expr]
    accesses: dict[int, Access]
    stores: list[Access]
    axes: list[Axis]
    crossed: bool  # some load runs along the rows where the stores run along the columns


def inlined(program: Program, group: Group) -> list[Expr]:
    """Each member's expression over the group's shape, reading no other member."""
    pool, made = program.pool, {}
    exprs = []
    for member in group.members:
        assert isinstance(member.d, Pointwise)
        bound = pool.bind(member.d.expr, member.d.out.size)

        def leaf(e: Expr) -> Expr:
            return made.get(e.buffer.name, e) if isinstance(e, Load) else e

        made[member.d.out.name] = pool.rebuild(bound, leaf)
        exprs.append(made[member.d.out.name])
    return exprs


def plan(program: Program, group: Group) -> Plan:
    exprs = inlined(program, group)
    size = group.rows or (1,)
    leaves = list({x.uid: x for e in exprs for x in loads(e)}.values())
    outs = [m.d.out for m in group.members]
    padded = [(x.stride or (0,)) for x in leaves] + [(o.stride or (0,)) for o in outs]
    order = sorted(range(len(size)), key=lambda i: (-outs[0].stride[i] if outs[0].stride else 0, i))
    size = tuple(size[i] for i in order)
    strides = [tuple(s[i] for i in order) for s in padded]
    axes = [Axis("offsets", "mask", list(size), list(range(len(size))))]
    flat = coalesce(axes, strides)
    dims = axes[0].dims
    crossed = False
    if len(dims) > 1 and dims[-1] >= SHORT_ROW:
        last = len(dims) - 1
        row_places = list(range(last))
        for s in flat[: len(leaves)]:
            along = next((p for p in row_places if s[p] == 1 and dims[p] >= SHORT_ROW), None)
            if along is not None and s[last] > 1:
                row_places.remove(along)
                row_places.append(along)
                crossed = True
                break
        axes = [
            Axis("rows", "row_mask", [dims[p] for p in row_places], row_places),
            Axis("cols", "col_mask", [dims[last]], [last]),
        ]
        flat = coalesce(axes, flat)
    accesses = {
        x.uid: Access(x.buffer, x.offset, s)
        for x, s in zip(leaves, flat[: len(leaves)], strict=True)
    }
    stores = [Access(o, 0, s) for o, s in zip(outs, flat[len(leaves) :], strict=True)]
    return Plan(exprs, accesses, stores, axes, crossed)


def space(program: Program, group: Group) -> Space:
    p = plan(program, group)
    if len(p.axes) == 1:
        block = 1024 if p.axes[0].size >= 1024 * MULTIPROCESSORS else 256
        return Space(
            {"BLOCK": [256, 512, 1024, 2048, 4096, 8192], "num_warps": [1, 2, 4, 8]},
            {"BLOCK": block, "num_warps": 4},
            lambda g: 1 <= g["BLOCK"] // (32 * g["num_warps"]) <= TILE_LIMIT,
        )
    rows, cols = p.axes[0].size, p.axes[1].size
    widths = [n for n in (32, 64, 128, 256, 512, 1024, 2048) if n <= next_power(cols)]
    heights = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= next_power(rows)]
    if p.crossed:
        default = {"BLOCK_M": min(64, heights[-1]), "BLOCK_N": min(64, widths[-1])}
    else:
        width = min(512, widths[-1])
        default = {"BLOCK_M": min(max(1, 2048 // width), heights[-1]), "BLOCK_N": width}
    warps = 8 if default["BLOCK_M"] * default["BLOCK_N"] >= 4096 else 4
    return Space(
        {"BLOCK_M": heights, "BLOCK_N": widths, "num_warps": [1, 2, 4, 8], "ORDER": [0, 1]},
        {**default, "num_warps": warps, "ORDER": 0},
        lambda g: 1 <= g["BLOCK_M"] * g["BLOCK_N"] / (32 * g["num_warps"]) <= TILE_LIMIT,
    )


def build(program: Program, group: Group, genes: Genes, name: str) -> Kernel:
    p = plan(program, group)
    body = Body(p.axes, p.accesses)
    for e in p.exprs:
        body.count_uses(e)
    if len(p.axes) == 1:
        grid = f"({cdiv(p.axes[0].size, genes['BLOCK'])},)"
        constants = {"BLOCK": genes["BLOCK"]}
        body.line("offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)")
        body.line(f"mask = offsets < {p.axes[0].size}")
    else:
        grid, constants = two_dimensional(body, p.axes, genes)
    stored = []
    for e, access, member in zip(p.exprs, p.stores, group.members, strict=True):
        if member.d.out.name in group.stored:
            body.store(access, body.value(e))
            stored.append(member.d.out)
    note = [
        f"{m.d.out.name} = {formula(e)}"
        for m, e in zip(group.members, p.exprs, strict=True)
        if m.d.out.name in group.stored
    ]
    pointers = list(body.pointers.values())
    source = kernel_source(name, note, pointers, constants, body.lines)
    return Kernel(name, source, pointers, stored, grid, constants, genes["num_warps"], 1, note[0])


def two_dimensional(body: Body, axes: list[Axis], genes: Genes) -> tuple[str, dict[str, int]]:
    """Index lines of a tile of rows and columns; the grid is one-dimensional."""
    rows, cols = axes[0].size, axes[1].size
    down, across = cdiv(rows, genes["BLOCK_M"]), cdiv(cols, genes["BLOCK_N"])
    body.line("program = tl.program_id(0)")
    if genes.get("ORDER", 0) == 0:
        body.line(f"row_blocks = program // {across}  # neighbours share rows")
        body.line(f"col_blocks = program % {across}")
    else:
        body.line(f"row_blocks = program % {down}  # neighbours share columns")
        body.line(f"col_blocks = program // {down}")
    body.line("rows = row_blocks * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]")
    body.line("cols = col_blocks * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]")
    body.line(f"row_mask = rows < {rows}")
    body.line(f"col_mask = cols < {cols}")
    body.line("mask = row_mask & col_mask")
    constants = {"BLOCK_M": genes["BLOCK_M"], "BLOCK_N": genes["BLOCK_N"]}
    return f"({product([down, across])},)", constants
