"""Writes the body of a Triton kernel: indices, masks, loads, arithmetic, stores.

A kernel walks a tile: a few axes, each a block of indices. An axis may stand for several
dimensions of memory that can't be merged; their indices are then split off by division.
"""

from __future__ import annotations

import builtins
import keyword
import math
from dataclasses import dataclass, field

import torch

from offline_author.expr import Buffer, Const, Expr, Load, Pw, product, walk
from offline_author.pointwise import REGISTER_NAMES, TEMPLATES, register_type

#: A value that is used once and whose text is shorter than this is written in place.
INLINE_WIDTH = 44
INT32_LIMIT = 2**31 - 1
#: Names that every kernel uses for its own indices, and names of Python that shouldn't be hidden.
_OWN = (
    "rows cols mask row_mask col_mask offsets program start depth depth_mask batch band height "
    "inside row_start col_start row_blocks col_blocks product left right tl triton torch math nn "
    "device self"
)
RESERVED = frozenset(_OWN.split()) | frozenset(dir(builtins)) | frozenset(keyword.kwlist)
#: Names for results of operations whose own name is Python's.
CLEARER = {"not": "negated", "inot": "inverted", "and": "both", "or": "either", "abs": "size",
           "round": "rounded", "imaximum": "maximum", "iminimum": "minimum"}  # fmt: skip


@dataclass(eq=False)
class Axis:
    """One axis of a tile.

    var: the kernel's variable that holds the block of indices. mask: its mask's name, or "".
    dims: sizes of the dimensions it stands for, outermost first; places: their positions in the
    iteration space that strides are given for.
    """

    var: str
    mask: str
    dims: list[int]
    places: list[int]

    @property
    def size(self) -> int:
        return product(self.dims)


def coalesce(axes: list[Axis], strides: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Merges neighbouring dimensions of each axis where every stride allows it.

    Changes `axes` in place; returns the strides over the new places.
    """
    kept: list[list[int]] = [[] for _ in strides]
    place = 0
    for axis in axes:
        merged: list[tuple[int, list[int]]] = []
        for n, p in zip(axis.dims, axis.places, strict=True):
            steps = [s[p] for s in strides]
            if n == 1:
                continue
            if merged and all(a == b * n for a, b in zip(merged[-1][1], steps, strict=True)):
                merged[-1] = (merged[-1][0] * n, steps)
            else:
                merged.append((n, steps))
        if not merged:
            merged.append((1, [0] * len(strides)))
        axis.dims = [n for n, _ in merged]
        axis.places = list(range(place, place + len(merged)))
        place += len(merged)
        for _, steps in merged:
            for row, step in zip(kept, steps, strict=True):
                row.append(step)
    return [tuple(row) for row in kept]


@dataclass(eq=False)
class Access:
    """A buffer at `offset` elements, with strides over a tile's places."""

    buffer: Buffer
    offset: int
    stride: tuple[int, ...]


@dataclass
class Value:
    """Text of a value in a kernel and the axes it varies along. `atom`: no parentheses needed."""

    text: str
    axes: frozenset[str]
    atom: bool = True


@dataclass
class Body:
    """The lines of one kernel under construction.

    accesses: how each Load (by uid) lies over the tile. given: values of Loads that are already in
    registers. pointers: buffers in the order in which the kernel takes them.
    """

    axes: list[Axis]
    accesses: dict[int, Access] = field(default_factory=dict)
    given: dict[int, Value] = field(default_factory=dict)
    pointers: dict[str, Buffer] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    scopes: list[dict[int, Value]] = field(default_factory=lambda: [{}])
    indices: list[dict[tuple[str, int], str]] = field(default_factory=lambda: [{}])
    names: set[str] = field(default_factory=set)
    uses: dict[int, int] = field(default_factory=dict)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def enter(self) -> None:
        """Opens a loop's body: what is computed in it is not known behind it."""
        self.depth += 1
        self.scopes.append({})
        self.indices.append({})

    def leave(self) -> None:
        self.depth -= 1
        self.scopes.pop()
        self.indices.pop()

    def name(self, hint: str) -> str:
        hint = CLEARER.get(hint, hint)
        taken, i = hint, 2
        while taken in self.names or taken in RESERVED:
            taken, i = f"{hint}_{i}", i + 1
        self.names.add(taken)
        return taken

    def pointer(self, buffer: Buffer) -> str:
        self.pointers.setdefault(buffer.name, buffer)
        return f"{buffer.name}_ptr"

    def count_uses(self, expr: Expr) -> None:
        for e in walk(expr):
            for a in e.args if isinstance(e, Pw) else ():
                self.uses[a.uid] = self.uses.get(a.uid, 0) + 1

    # Addresses.

    def _index(self, axis: Axis, i: int) -> str:
        """The index of the axis's i-th dimension; a variable, made at its first use."""
        if len(axis.dims) == 1:
            return axis.var
        key = (axis.var, i)
        for known in self.indices:
            if key in known:
                return known[key]
        inner = product(axis.dims[i + 1 :])
        text = axis.var if inner == 1 else f"{axis.var} // {inner}"
        if i > 0:
            text = f"{text} % {axis.dims[i]}"
        name = self.name(f"{axis.var}_{i}")
        self.line(f"{name} = {text}")
        self.indices[-1][key] = name
        return name

    def offset(
        self, access: Access, across: frozenset[str] = frozenset()
    ) -> tuple[str, frozenset[str]]:  # fmt: skip
        """Python text of the offset in elements, and the axes it varies along.

        across: axes that have to show in the text even if they hold one element only.
        """
        terms, varied = [], set()
        extent = access.offset
        for axis in self.axes:
            if axis.size == 1 and axis.var in across:
                varied.add(axis.var)
                terms.append((axis.var, 1))  # the mask leaves index 0 only
            whole = self._as_one(axis, access)
            if whole:
                extent += (axis.size - 1) * whole
                varied.add(axis.var)
                terms.append((axis.var, whole))
                continue
            for i, (n, p) in enumerate(zip(axis.dims, axis.places, strict=True)):
                step = access.stride[p]
                extent += (n - 1) * abs(step)
                if step == 0 or n == 1:
                    continue
                varied.add(axis.var)
                terms.append((self._index(axis, i), step))
        wide = extent > INT32_LIMIT
        texts = []
        for index, step in terms:
            index = f"{index}.to(tl.int64)" if wide else index
            texts.append(index if step == 1 else f"{index} * {step}")
        if access.offset or not texts:
            texts.append(str(access.offset))
        return " + ".join(texts), frozenset(varied)

    @staticmethod
    def _as_one(axis: Axis, access: Access) -> int:
        """The step of an axis whose dimensions lie in this buffer as if they were one; else 0."""
        steps = [access.stride[p] for p in axis.places]
        merged = all(a == b * n for a, b, n in zip(steps, steps[1:], axis.dims[1:], strict=False))
        return steps[-1] if merged and axis.size > 1 else 0

    def mask(self, varied: frozenset[str]) -> str:
        names = [a.mask for a in self.axes if a.var in varied and a.mask]
        return "mask" if names == ["row_mask", "col_mask"] else " & ".join(names)

    # Values.

    def value(self, expr: Expr) -> Value:
        """Text of `expr`; writes the lines it needs."""
        known = self.given.get(expr.uid)
        if known is not None:
            return known
        for scope in self.scopes:
            if expr.uid in scope:
                return scope[expr.uid]
        if isinstance(expr, Const):
            return Value(literal(expr.value, expr.dtype), frozenset(),
                         not str(expr.value).startswith("-"))  # fmt: skip
        made = self._load(expr) if isinstance(expr, Load) else self._compute(expr)
        self.scopes[-1][expr.uid] = made
        return made

    def raw_load(self, expr: Load, name: str) -> None:
        """Loads into `name`, without the conversion to the type that values are computed in."""
        self.line(f"{name} = {self._read(self.accesses[expr.uid])[0]}")

    def _read(self, access: Access) -> tuple[str, frozenset[str]]:
        text, varied = self.offset(access)
        address = self.pointer(access.buffer) + (f" + {text}" if text != "0" else "")
        mask = self.mask(varied)
        other = "0.0" if access.buffer.dtype.is_floating_point else "0"
        guard = f", mask={mask}, other={other}" if mask else ""
        return f"tl.load({address}{guard})", varied

    def _load(self, expr: Load) -> Value:
        access = self.accesses[expr.uid]
        if access.buffer.kind == "iota":
            text, varied = self.offset(access)
            name = self.name("index")
            self.line(f"{name} = ({text}).to(tl.int64)" if varied else f"{name} = {text}")
            return Value(name, varied)
        text, varied = self._read(access)
        name = self.name(access.buffer.name)
        wanted = register_type(expr.dtype)
        cast = f".to({REGISTER_NAMES[wanted]})" if wanted is not expr.dtype else ""
        self.line(f"{name} = {text}{cast}")
        return Value(name, varied)

    def _compute(self, expr: Expr) -> Value:
        assert isinstance(expr, Pw)
        args = [self.value(a) for a in expr.args]
        varied = frozenset().union(*(a.axes for a in args))
        texts = [a.text if a.atom else f"({a.text})" for a in args]
        if expr.op == "cast":
            source, wanted = (register_type(t) for t in (expr.args[0].dtype, expr.dtype))
            if source is wanted:
                return args[0]
            text = f"{texts[0]}.to({REGISTER_NAMES[wanted]})"
            if isinstance(expr.args[0], Const):
                text = f"tl.full([], {args[0].text}, {REGISTER_NAMES[wanted]})"
        elif expr.op == "round":
            text = f"{texts[0]}.to({REGISTER_NAMES[expr.dtype]}).to(tl.float32)"
        else:
            template = TEMPLATES[expr.op]
            plain = "(" in template  # a call: its arguments need no parentheses of their own
            text = template.format(*([a.text for a in args] if plain else texts))
        atom = text.endswith(")") and text.startswith("tl.")
        if self.uses.get(expr.uid, 0) == 1 and len(text) <= INLINE_WIDTH:
            return Value(text, varied, atom)
        name = self.name(expr.op)
        self.line(f"{name} = {text}")
        return Value(name, varied)

    def store(self, access: Access, value: Value) -> None:
        """Writes `value` to every place of `access`."""
        text, varied = self.offset(access, value.axes)
        mask = self.mask(varied)
        address = self.pointer(access.buffer) + (f" + {text}" if text != "0" else "")
        stored = value.text
        if not value.axes and varied:
            # Triton broadcasts a block, not a bare number, to the block it stores.
            kind = REGISTER_NAMES[access.buffer.dtype]
            stored = f"tl.full([], {stored}, {kind})" if _is_number(stored) else stored
        self.line(f"tl.store({address}, {stored}{f', mask={mask}' if mask else ''})")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("True", "False") or text.startswith(("float(", "-float("))
    return True


def literal(value: float | int | bool, dtype: torch.dtype) -> str:
    """A number as Python text that Triton reads back exactly."""
    if isinstance(value, bool) or dtype is torch.bool:
        return str(bool(value))
    if not dtype.is_floating_point:
        return str(int(value))
    value = float(value)
    if math.isnan(value):
        return 'float("nan")'
    if math.isinf(value):
        return 'float("inf")' if value > 0 else '-float("inf")'
    return repr(value)
