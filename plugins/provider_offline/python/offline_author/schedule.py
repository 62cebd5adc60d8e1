"""Cuts a program into kernels: which definitions share one, and what stays in registers.

A group is one launch (or one operator left in PyTorch). Definitions come in the task's order; each
joins an existing group where the iteration spaces agree and no other group stands between, else
it opens a group of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from offline_author.expr import (
    Buffer,
    Expr,
    ExprPool,
    Load,
    contiguous_strides,
    loads,
    product,
    reads,
    same_strides,
)
from offline_author.program import Def, Matmul, Pointwise, Program, Reduction, TorchOp

#: More outputs than this in one kernel would keep too many addresses in registers.
OUTPUT_LIMIT = 8


@dataclass(eq=False)
class Member:
    """A definition inside a group, its expression over the group's iteration space.

    `order`: for a pointwise definition, which of its dimensions come in which place of the space.
    `row_only`: the definition has one element per row, not one per row and column.
    """

    d: Def
    order: tuple[int, ...] = ()
    row_only: bool = False


@dataclass(eq=False)
class Group:
    """One launch. `kind`: pointwise, rows, matmul or torch; `rows` and `red` span the space."""

    kind: str
    members: list[Member]
    rows: tuple[int, ...] = ()
    red: tuple[int, ...] = ()
    stored: set[str] = field(default_factory=set)  # names of the buffers that reach memory

    def produced(self) -> dict[str, Member]:
        found: dict[str, Member] = {}
        for m in self.members:
            outs = m.d.outs if isinstance(m.d, TorchOp) else [m.d.out]
            found.update({o.name: m for o in outs if o is not None})
        return found

    def read(self) -> dict[str, Buffer]:
        """The buffers read from memory: not those that the group makes itself."""
        mine = self.produced()
        return {b.name: b for m in self.members for b in m.d.inputs if b.name not in mine}


def refine(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """The coarsest split of a space that both shapes can be split into, or None."""
    cuts: set[int] = {1}
    for shape in (one, other):
        total = 1
        for n in reversed(shape):
            total *= n
            cuts.add(total)
    ordered = sorted(cuts)
    sizes = []
    for small, large in zip(ordered, ordered[1:], strict=False):
        if large % small:
            return None
        sizes.append(large // small)
    return tuple(reversed(sizes)) or (1,)


def over_rows(pool: ExprPool, member: Member, rows: tuple[int, ...], red: tuple[int, ...]) -> Expr:
    """The member's expression with every leaf over `rows + red` (or `rows`, if row_only)."""
    d = member.d
    assert isinstance(d, (Pointwise, Reduction))
    if isinstance(d, Reduction):
        bound = pool.bind(d.expr, (*d.rows, *d.red))
    else:
        bound = pool.bind(d.expr, d.out.size)
        bound = pool.view(bound, lambda t: t.permute(member.order))
    space = rows if member.row_only else (*rows, *red)
    return pool.view(bound, lambda t: t.view(space))


def store_view(pool: ExprPool, member: Member, rows: tuple[int, ...], red: tuple[int, ...]) -> Load:
    """How the member's result lies in memory over `rows + red` (a reduction's over `rows`)."""
    d = member.d
    whole = pool.load(d.out)
    if isinstance(d, Reduction):
        view = pool.view(whole, lambda t: t.view(rows))
    else:
        space = rows if member.row_only else (*rows, *red)
        view = pool.view(whole, lambda t: t.permute(member.order).view(space))
    assert isinstance(view, Load)
    return view


class Scheduler:
    """Groups the definitions of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pool = program.pool
        self.groups: list[Group] = []

    def run(self) -> list[Group]:
        for d in self.program.defs:
            self._place(d)
        ordered = self._ordered()
        outside = {o.buffer.name for o in self.program.outputs if isinstance(o, Load)}
        for g in ordered:
            needed = outside | {n for h in ordered if h is not g for n in h.read()}
            g.stored = set(g.produced()) & needed
        return ordered

    def _place(self, d: Def) -> None:
        behind = self._behind(d)
        for g in sorted(self.groups, key=lambda g: self._closeness(g, d), reverse=True):
            if len(g.members) < OUTPUT_LIMIT * 4 and id(g) not in behind and self._join(g, d):
                return
        if isinstance(d, Reduction):
            self.groups.append(Group("rows", [Member(d)], d.rows or (1,), d.red))
        elif isinstance(d, Pointwise):
            order = tuple(range(len(d.out.size)))
            self.groups.append(Group("pointwise", [Member(d, order)], d.out.size))
        else:
            kind = "matmul" if isinstance(d, Matmul) else "torch"
            self.groups.append(Group(kind, [Member(d)]))

    def _closeness(self, g: Group, d: Def) -> tuple[int, int]:
        """Groups whose results `d` reads come first, then those that read the same memory."""
        mine = {b.name for b in d.inputs}
        return len(mine & set(g.produced())), len(mine & set(g.read()))

    def _behind(self, d: Def) -> set[int]:
        """Ids of the groups that `d` can't join: something that `d` reads is made from them, in a
        group between."""
        owner = {name: g for g in self.groups for name in g.produced()}
        found: set[int] = set()
        waiting = [owner[b.name] for b in d.inputs if b.name in owner]
        while waiting:
            for name in waiting.pop().read():
                above = owner.get(name)
                if above is not None and id(above) not in found:
                    found.add(id(above))
                    waiting.append(above)
        return found

    def _join(self, g: Group, d: Def) -> bool:
        if isinstance(d, (Matmul, TorchOp)) or g.kind == "torch":
            return False
        if g.kind == "matmul":
            return isinstance(d, Pointwise) and self._join_matmul(g, d)
        if sum(self._closeness(g, d)) == 0:
            return False
        if g.kind == "pointwise":
            if isinstance(d, Pointwise):
                return self._join_pointwise(g, d)
            assert isinstance(d, Reduction)
            return self._join_by_becoming_rows(g, d)
        if isinstance(d, Reduction):
            return self._try_rows(g, Member(d), d.rows, d.red)
        assert isinstance(d, Pointwise)
        return self._join_rows(g, d)

    def _join_matmul(self, g: Group, d: Pointwise) -> bool:
        """An epilogue: it reads the product once per element, in the product's own order."""
        head = g.members[0].d
        mine = [x for x in loads(self.pool.bind(d.expr, d.out.size)) if x.buffer is head.out]
        if not mine or product(d.out.size) != head.out.numel:
            return False
        if any(b.name in g.produced() and b is not head.out for b in reads(d.expr)):
            return False
        order = tuple(sorted(range(len(d.out.size)), key=lambda i: (-mine[0].stride[i], i)))
        size = tuple(d.out.size[i] for i in order)
        space = refine(size, head.out.size)
        if space is None or any(
            x.offset != 0
            or not same_strides(size, tuple(x.stride[i] for i in order), contiguous_strides(size))
            for x in mine
        ):
            return False
        g.members.append(Member(d, order))
        return True

    def _join_pointwise(self, g: Group, d: Pointwise) -> bool:
        first = g.members[0].d
        if d.out.size != first.out.size or len(g.members) >= OUTPUT_LIMIT:
            return False
        if not same_strides(d.out.size, d.out.stride, first.out.stride):
            return False
        made = g.produced()
        for x in loads(self.pool.bind(d.expr, d.out.size)):
            inner = made.get(x.buffer.name)
            if inner is not None and not self._is_own_place(x, inner, d.out.size, ()):
                return False
        g.members.append(Member(d, tuple(range(len(d.out.size)))))
        return True

    def _join_by_becoming_rows(self, g: Group, d: Reduction) -> bool:
        """A pointwise group whose result a reduction reads becomes the reduction's group."""
        rows, red = d.rows or (1,), d.red
        split = []
        for m in g.members:
            order = self._natural_order(m.d, rows, red)
            if order is None:
                return False
            split.append(Member(m.d, order))
        before = (g.kind, g.members, g.rows, g.red)
        g.kind, g.members, g.rows, g.red = "rows", split, rows, red
        fits = all(refine((*rows, *red), m.d.out.size) is not None for m in split)
        if fits and self._try_rows(g, Member(d), rows, red):
            return True
        g.kind, g.members, g.rows, g.red = before
        return False

    @staticmethod
    def _natural_order(
        d: Def, rows: tuple[int, ...], red: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        """The dimensions of `d` in order, if they split into these rows and columns."""
        size = d.out.size
        if any(
            product(size[i:]) == product(red) and product(size[:i]) == product(rows)
            for i in range(len(size) + 1)
        ):
            return tuple(range(len(size)))
        return None

    def _join_rows(self, g: Group, d: Pointwise) -> bool:
        size = d.out.size
        bound = self.pool.bind(d.expr, size)
        made = g.produced()
        reduced = [
            x for x in loads(bound)
            if x.buffer.name in made and isinstance(made[x.buffer.name].d, Reduction)
        ]  # fmt: skip
        if not reduced:
            order = self._natural_order(d, g.rows, g.red)
            return order is not None and self._try_rows(g, Member(d, order), *self._split(g, d))
        x = reduced[0]
        across = [i for i in range(len(size)) if size[i] > 1 and x.stride[i] == 0]
        along = [i for i in range(len(size)) if i not in across]
        rows, red = tuple(size[i] for i in along), tuple(size[i] for i in across)
        member = Member(d, (*along, *across), row_only=not across and product(g.red) > 1)
        return self._try_rows(g, member, rows or (1,), red)

    @staticmethod
    def _split(g: Group, d: Def) -> tuple[tuple[int, ...], tuple[int, ...]]:
        size = d.out.size
        i = next(i for i in range(len(size) + 1) if product(size[i:]) == product(g.red)
                 and product(size[:i]) == product(g.rows))  # fmt: skip
        return size[:i] or (1,), size[i:]

    def _try_rows(
        self, g: Group, member: Member, rows: tuple[int, ...], red: tuple[int, ...]
    ) -> bool:
        """Adds `member` if its space agrees and what it reads of the group is at hand."""
        if product(rows) != product(g.rows):
            return False
        if not member.row_only and product(red) != product(g.red):
            return False
        all_rows = refine(g.rows, rows)
        all_red = g.red if member.row_only else refine(g.red, red)
        if all_rows is None or all_red is None:
            return False
        bound = over_rows(self.pool, member, all_rows, all_red)
        made = g.produced()
        for x in loads(bound):
            inner = made.get(x.buffer.name)
            if inner is not None and not self._is_own_place(
                x, inner, all_rows, () if member.row_only else all_red
            ):
                return False
        g.members.append(member)
        g.rows, g.red = all_rows, all_red
        return True

    def _is_own_place(
        self, x: Load, inner: Member, rows: tuple[int, ...], red: tuple[int, ...]
    ) -> bool:
        """Whether `x` reads, at each place, what `inner` has made there."""
        if x.offset != 0:
            return False
        if isinstance(inner.d, Reduction) or inner.row_only:
            stored = store_view(self.pool, inner, rows, red).stride
            wanted = (*stored, *[0] * len(red))
        elif x.shape == inner.d.out.size and not red:
            wanted = inner.d.out.stride
        elif product(x.shape) != inner.d.out.numel:
            return False
        else:
            wanted = store_view(self.pool, inner, rows, red).stride
        return same_strides(x.shape, x.stride, wanted)

    def _ordered(self) -> list[Group]:
        """Groups in an order in which everything is made before it is read."""
        waiting, done, ordered = list(self.groups), set(), []
        made = {n for g in self.groups for n in g.produced()}
        while waiting:
            ready = next(g for g in waiting if set(g.read()) & made <= done)
            waiting.remove(ready)
            done |= set(ready.produced())
            ordered.append(ready)
        return ordered


def schedule(program: Program) -> list[Group]:
    """The launches of `program`, in order."""
    return Scheduler(program).run()
