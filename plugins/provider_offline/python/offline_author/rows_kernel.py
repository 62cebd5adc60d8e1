"""The kernel of a row group: reductions along rows, and everything before, between and after.

A row that fits the block is read once and stays in registers. A longer one is walked in a loop,
once per level: a reduction that reads another's result needs a walk of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from offline_author.emit import Access, Axis, Body, Value, coalesce, literal
from offline_author.expr import Expr, Load, loads, walk
from offline_author.formula import formula
from offline_author.genes import Genes, Space
from offline_author.kernel import Kernel, cdiv, kernel_source, next_power
from offline_author.pointwise import REGISTER_NAMES, register_type
from offline_author.program import Program, Reduction
from offline_author.schedule import Group, Member, over_rows, store_view

#: The longest row that is kept in registers by default: 16384 floats are 64 registers at 8 warps.
LONGEST_IN_REGISTERS = 16384
MULTIPROCESSORS = 132
ELEMENTS_PER_THREAD = 128

_IDENTITY = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}


@dataclass
class Step:
    """A member with its expression over the space; `level`: the walk that computes it."""

    member: Member
    expr: Expr
    level: int
    store: Access | None = None
    result: str = ""  # the variable of a reduction's result


@dataclass
class Plan:
    steps: list[Step]
    accesses: dict[int, Access]
    axes: list[Axis]
    along_rows: bool  # memory runs along the rows axis: the reduction goes across it
    reduced: dict[str, list[int]] = field(default_factory=dict)  # buffer: uids of its loads


def plan(program: Program, group: Group) -> Plan:
    pool = program.pool
    made: dict[str, Step] = {}
    steps: list[Step] = []
    width = len(group.rows) + len(group.red)
    for member in group.members:
        expr = over_rows(pool, member, group.rows, group.red)

        def leaf(e: Expr) -> Expr:
            inner = made.get(e.buffer.name) if isinstance(e, Load) else None
            if inner is None or isinstance(inner.member.d, Reduction):
                return e
            return inner.expr

        expr = pool.rebuild(expr, leaf)
        below = [
            made[x.buffer.name].level for x in loads(expr)
            if x.buffer.name in made and isinstance(made[x.buffer.name].member.d, Reduction)
        ]  # fmt: skip
        step = Step(member, expr, max(below) + 1 if below else 0)
        made[member.d.out.name] = step
        steps.append(step)

    leaves = list({x.uid: x for s in steps for x in loads(s.expr)}.values())
    outs = [store_view(pool, s.member, group.rows, group.red) for s in steps]
    padded = [_padded(x.stride, width) for x in (*leaves, *outs)]
    cut = len(group.rows)
    axes = [
        Axis("rows", "row_mask", list(group.rows), list(range(cut))),
        Axis("cols", "col_mask", list(group.red), list(range(cut, width))),
    ]
    strides = coalesce(axes, padded)
    accesses = {
        x.uid: Access(x.buffer, x.offset, s)
        for x, s in zip(leaves, strides[: len(leaves)], strict=True)
    }
    for step, s in zip(steps, strides[len(leaves) :], strict=True):
        step.store = Access(step.member.d.out, 0, s)
    plan_ = Plan(steps, accesses, axes, False)
    for x in leaves:
        inner = made.get(x.buffer.name)
        if inner is not None:
            plan_.reduced.setdefault(x.buffer.name, []).append(x.uid)
    last_row, last_col = axes[0].places[-1], axes[1].places[-1]
    full = [a.stride for a in accesses.values() if a.stride[last_row] and a.stride[last_col]]
    plan_.along_rows = (
        bool(full) and all(s[last_col] != 1 for s in full) and any(s[last_row] == 1 for s in full)
    )
    return plan_


def _padded(stride: tuple[int, ...], width: int) -> tuple[int, ...]:
    return (*stride, *[0] * (width - len(stride)))


def space(program: Program, group: Group) -> Space:
    p = plan(program, group)
    rows, cols = p.axes[0].size, p.axes[1].size
    whole = next_power(cols)
    warps = [1, 2, 4, 8, 16]
    if p.along_rows:
        heights = [n for n in (16, 32, 64, 128, 256) if n <= max(16, next_power(rows))]
        widths = [n for n in (8, 16, 32, 64, 128, 256, 512) if n <= max(8, whole)]
        height = 32 if rows < 64 * MULTIPROCESSORS else 64
        default = {"BLOCK_M": min(height, heights[-1]), "BLOCK_N": min(128, widths[-1])}
    else:
        heights = [n for n in (1, 2, 4, 8, 16, 32) if n <= next_power(rows)]
        widths = [n for n in (512, 1024, 2048, 4096, 8192) if n < whole]
        if whole <= 2 * LONGEST_IN_REGISTERS:
            widths.append(whole)
        width = whole if whole <= LONGEST_IN_REGISTERS else 4096
        height = 1
        while (
            height * 2 in heights
            and height * 2 * width <= 2048
            and (rows >= height * 2 * 4 * MULTIPROCESSORS)
        ):
            height *= 2
        default = {"BLOCK_M": height, "BLOCK_N": width}
    tile = default["BLOCK_M"] * default["BLOCK_N"]
    wanted = max(1, min(16, tile // (32 * 16)))
    default["num_warps"] = max(w for w in warps if w <= wanted)
    values = {"BLOCK_M": heights, "BLOCK_N": widths, "num_warps": warps}
    if cols > widths[0]:
        values["num_stages"] = [1, 2, 3, 4]
        default["num_stages"] = 2 if default["BLOCK_N"] < cols else 1
    return Space(values, default, lambda g: _legal(g, cols))


def _legal(genes: Genes, cols: int) -> bool:
    per_thread = genes["BLOCK_M"] * genes["BLOCK_N"] / (32 * genes["num_warps"])
    loops = genes["BLOCK_N"] < cols
    if not loops and genes.get("num_stages", 1) != 1:
        return False  # nothing to pipeline
    return 1 <= per_thread <= ELEMENTS_PER_THREAD


def build(program: Program, group: Group, genes: Genes, name: str) -> Kernel:
    p = plan(program, group)
    body = Body(p.axes, p.accesses)
    for step in p.steps:
        body.count_uses(step.expr)
        if isinstance(step.member.d, Reduction):
            step.result = body.name(step.member.d.out.name)
    rows, cols = p.axes[0].size, p.axes[1].size
    body.line("rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]")
    body.line(f"row_mask = rows < {rows}")
    if genes["BLOCK_N"] >= cols:
        _in_registers(p, body, group, cols)
    else:
        _in_loops(p, body, group, cols)
    stored = [m.d.out for m in group.members if m.d.out.name in group.stored]
    note = [_note(s) for s in p.steps]
    constants = {"BLOCK_M": genes["BLOCK_M"], "BLOCK_N": genes["BLOCK_N"]}
    pointers = list(body.pointers.values())
    source = kernel_source(name, note, pointers, constants, body.lines)
    return Kernel(name, source, pointers, stored, f"({cdiv(rows, genes['BLOCK_M'])},)", constants,
                  genes["num_warps"], genes.get("num_stages", 1), note[-1])  # fmt: skip


def _note(step: Step) -> str:
    d = step.member.d
    how = f"{d.op} of " if isinstance(d, Reduction) else ""
    return f"{d.out.name} = {how}{formula(step.expr)}"


def _in_registers(p: Plan, body: Body, group: Group, cols: int) -> None:
    body.line("cols = tl.arange(0, BLOCK_N)[None, :]")
    body.line(f"col_mask = cols < {cols}")
    body.line("mask = row_mask & col_mask")
    for step in p.steps:
        value = body.value(step.expr)
        if isinstance(step.member.d, Reduction):
            op, kind = step.member.d.op, register_type(step.expr.dtype)
            inside = f"tl.where(mask, {value.text}, {_identity(op, kind)})"
            body.line(f"{step.result} = tl.{op}({inside}, axis=1)[:, None]")
            _give(p, body, step)
            value = Value(step.result, frozenset({"rows"}))
        if step.member.d.out.name in group.stored:
            assert step.store is not None
            body.store(step.store, value)


def _in_loops(p: Plan, body: Body, group: Group, cols: int) -> None:
    for level in range(max(s.level for s in p.steps) + 1):
        here = [s for s in p.steps if s.level == level]
        walked = [s for s in here if not s.member.row_only and (
            isinstance(s.member.d, Reduction) or s.member.d.out.name in group.stored)]  # fmt: skip
        for step in here:
            if step.member.row_only and step.member.d.out.name in group.stored:
                assert step.store is not None
                body.store(step.store, body.value(step.expr))
        if not walked:
            continue
        _hoist(p, body, walked)
        for step in walked:
            if isinstance(step.member.d, Reduction):
                op, kind = step.member.d.op, register_type(step.expr.dtype)
                body.line(f"{step.result}_tile = tl.full([BLOCK_M, BLOCK_N], "
                          f"{_identity(op, kind)}, {REGISTER_NAMES[kind]})")  # fmt: skip
        body.line(f"for start in range(0, {cols}, BLOCK_N):")
        body.enter()
        body.line("cols = start + tl.arange(0, BLOCK_N)[None, :]")
        body.line(f"col_mask = cols < {cols}")
        body.line("mask = row_mask & col_mask")
        for step in walked:
            _walk_step(body, step)
        body.leave()
        for step in walked:
            if isinstance(step.member.d, Reduction):
                op = step.member.d.op
                body.line(f"{step.result} = tl.{op}({step.result}_tile, axis=1)[:, None]")
                _give(p, body, step)
                if step.member.d.out.name in group.stored:
                    assert step.store is not None
                    body.store(step.store, Value(step.result, frozenset({"rows"})))


def _walk_step(body: Body, step: Step) -> None:
    value = body.value(step.expr)
    d = step.member.d
    if not isinstance(d, Reduction):
        assert step.store is not None
        body.store(step.store, value)
        return
    tile, kind = f"{step.result}_tile", register_type(step.expr.dtype)
    inside = f"tl.where(mask, {value.text}, {_identity(d.op, kind)})"
    if d.op == "sum":
        body.line(f"{tile} += {inside}")
    else:
        body.line(f"{tile} = tl.{d.op}imum({tile}, {inside})")


def _hoist(p: Plan, body: Body, walked: list[Step]) -> None:
    """What varies along the rows only is computed in front of the loop."""
    last = set(p.axes[1].places)

    def varies(e: Expr) -> bool:
        if isinstance(e, Load):
            return any(p.accesses[e.uid].stride[i] for i in last)
        return any(varies(a) for a in getattr(e, "args", ()))

    for step in walked:
        outer = [e for e in walk(step.expr) if not varies(e) and hasattr(e, "args")]
        for e in outer:
            value = body.value(e)
            if not value.atom or "(" in value.text:
                name = body.name(getattr(e, "op", "value"))
                body.line(f"{name} = {value.text}")
                body.scopes[-1][e.uid] = Value(name, value.axes)
        for e in walk(step.expr):
            if isinstance(e, Load) and not varies(e):
                body.value(e)


def _give(p: Plan, body: Body, step: Step) -> None:
    for uid in p.reduced.get(step.member.d.out.name, []):
        body.given[uid] = Value(step.result, frozenset({"rows"}))


def _identity(op: str, kind: torch.dtype) -> str:
    if kind.is_floating_point:
        return literal(_IDENTITY[op], kind)
    if op == "sum":
        return "0"
    if kind is torch.bool:
        return str(op == "min")
    info = torch.iinfo(kind)
    return str(info.min if op == "max" else info.max)
