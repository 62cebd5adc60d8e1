"""Reads the text of a kernel in Triton's intermediate representation (TTIR).

`parse(text)` gives a Module of functions; a function has blocks, a block has operations, and an
operation keeps the line of the candidate's file that it came from. The reader knows the shape of
the text (results, name, operands, attributes, types, regions, locations), never what an operation
means: that is the interpreter's part. Raises ParseError with the offending line's text.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import lru_cache

_VALUE = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_HEAD = re.compile(r"(?:(%[\w$.\-:, %]+?) = )?\"?([A-Za-z_][\w.]*)\"?(.*)$", re.DOTALL)
_LOC_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)\s*$")
_FILE_LINE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):\d+')
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.*)>$")
_PARAM = re.compile(r"(%[\w$.\-]+): ([^{]*?)\s*(?:\{.*\})?\s*$")


class ParseError(ValueError):
    """The text isn't TTIR that this reader understands."""


@dataclass(frozen=True)
class Type:
    """A value's type: shape () for scalars; `element` as printed ("f32", "i1", "!tt.ptr<f16>")."""

    shape: tuple[int, ...]
    element: str

    @property
    def lanes(self) -> int:
        """Elements of one program's value."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def pointee(self) -> str | None:
        """What a pointer points to, else None: "f16" for "!tt.ptr<f16>" and for address spaces."""
        if self.element.startswith("!tt.ptr<"):
            return self.element[len("!tt.ptr<") : -1].split(",")[0].strip()
        return None


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """The type that `text` prints: a scalar, a tensor, or something opaque such as a descriptor."""
    text = text.strip()
    match = _TENSOR.match(text)
    if match:
        return Type(tuple(int(size) for size in match[1].split("x") if size), match[2].strip())
    return Type((), text)


def split_top(text: str, separator: str) -> list[str]:
    """`text` cut at every `separator` outside brackets and quotes."""
    parts, depth, start, index, quoted = [], 0, 0, 0, False
    while index < len(text):
        char = text[index]
        if char == '"':
            quoted = not quoted
        elif quoted:
            pass
        elif text.startswith("->", index):
            if separator == "->" and depth == 0:
                parts.append(text[start:index])
                start = index + 2
            index += 2
            continue
        elif depth == 0 and text.startswith(separator, index):
            parts.append(text[start:index])
            index += len(separator)
            start = index
            continue
        elif char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth -= 1
        index += 1
    parts.append(text[start:])
    return parts


@dataclass
class Op:
    """One operation.

    rest: the text after the name without location and types; types: the text after the last " : ".
    results: SSA names ("%3#1" for the second of several); operands: every name in `rest`, in order.
    used: whether any result is read anywhere in the function. dead: values that nothing reads after
    this operation. cache: the interpreter's own.
    """

    name: str
    rest: str
    types: str
    results: list[str]
    operands: list[str]
    regions: list[Region] = field(default_factory=list)
    line: int | None = None
    used: bool = True
    dead: list[str] = field(default_factory=list)
    cache: dict = field(default_factory=dict)

    @property
    def result_types(self) -> list[Type]:
        """The types of the results as printed (for a comparison: the operands' type)."""
        if "result_types" not in self.cache:
            text = split_top(self.types, "->")[-1].strip()
            if " to " in text:
                text = text.rsplit(" to ", 1)[1]
            if text.startswith("(") and text.endswith(")"):
                text = text[1:-1]
            self.cache["result_types"] = [
                parse_type(part) for part in split_top(text, ",") if part.strip()
            ]
        return self.cache["result_types"]

    @property
    def type(self) -> Type:
        """The first result's type."""
        return self.result_types[0] if self.result_types else Type((), "")

    def operand_type(self, index: int) -> Type:
        """The printed type of operand `index`; where fewer are printed, the first."""
        text = split_top(self.types, "->")[0].split(" to ")[0].strip()
        if text.startswith("(") and text.endswith(")"):
            text = text[1:-1]
        parts = [part for part in split_top(text, ",") if part.strip()]
        return parse_type(parts[index] if index < len(parts) else parts[0])

    def attribute(self, name: str) -> str | None:
        """The text of `name = value` in the attributes, without its type; None when absent."""
        match = re.search(rf"(?<![\w.]){re.escape(name)} = (\"[^\"]*\"|[^,}}>\]:]+|\[[^\]]*\])",
                          self.rest)
        return match[1].strip().strip('"') if match else None

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        text = self.attribute(name)
        return default if text is None else int(text.split()[0])


@dataclass
class Block:
    """Operations in order. `arguments`: (name, type) of the values a jump or a region passes in."""

    label: str
    arguments: list[tuple[str, Type]]
    ops: list[Op] = field(default_factory=list)


@dataclass
class Region:
    """The blocks of a function or of a structured operation, the entry first."""

    blocks: list[Block]

    @property
    def entry(self) -> Block:
        return self.blocks[0]

    def block(self, label: str) -> Block:
        for block in self.blocks:
            if block.label == label:
                return block
        raise ParseError(f"no block {label}")


@dataclass
class Function:
    """A kernel or a function that it calls."""

    name: str
    public: bool
    params: list[tuple[str, Type]]
    body: Region
    line: int | None = None


@dataclass
class Module:
    """All functions of one kernel; `kernel` is the public one."""

    functions: dict[str, Function]

    @property
    def kernel(self) -> Function:
        for function in self.functions.values():
            if function.public:
                return function
        raise ParseError("no public function")


class _Reader:
    def __init__(self, text: str, source_file: str | None) -> None:
        self.source = os.path.basename(source_file) if source_file else None
        self.locations: dict[str, str] = {}
        self.lines: list[tuple[str, str | None]] = []
        for raw in text.splitlines():
            alias = _LOC_ALIAS.match(raw)
            if alias:
                self.locations[alias[1]] = alias[2]
        for raw in text.splitlines():
            if raw.startswith("#") or not raw.strip():
                continue
            body, location = _strip_locations(raw.strip())
            body = re.sub(r"\s*//.*$", "", body) if "//" in body and body.startswith("^") else body
            if body:
                self.lines.append((body, location))

    def line_of(self, location: str | None) -> int | None:
        """The candidate's own line of a location: the innermost frame inside its file."""
        frames = self._frames(location, 0)
        own = [line for file, line in frames if os.path.basename(file) == self.source]
        if own:
            return own[0]
        return frames[0][1] if frames and self.source is None else None

    def _frames(self, location: str | None, depth: int) -> list[tuple[str, int]]:
        if location is None or depth > 64:
            return []
        text = location.strip()
        if text.startswith("#"):
            return self._frames(self.locations.get(text), depth + 1)
        match = _FILE_LINE.match(text)
        if match:
            return [(match[1], int(match[2]))]
        if text.startswith("callsite("):
            frames: list[tuple[str, int]] = []
            for part in split_top(text[len("callsite(") : -1], " at "):
                frames += self._frames(part, depth + 1)
            return frames
        frames = []
        for alias in re.findall(r"#loc\d*", text):  # "name"(#loc3), fused[#loc1, #loc2]
            frames += self._frames(alias, depth + 1)
        return frames

    def module(self) -> Module:
        functions, index = {}, 0
        while index < len(self.lines):
            text, _ = self.lines[index]
            if text.startswith("tt.func"):
                function, index = self._function(index)
                functions[function.name] = function
            else:
                index += 1
        if not functions:
            raise ParseError("no function in the text")
        return Module(functions)

    def _function(self, index: int) -> tuple[Function, int]:
        text = self.lines[index][0]
        match = re.match(r"tt\.func (?:(public|private) )?@(\"[^\"]+\"|[\w$.\-]+)\(", text)
        if not match:
            raise ParseError(text[:120])
        inner = text[match.end() - 1 :]
        inner = inner[1 : _closing(inner, 0)]
        params = []
        for part in split_top(inner, ","):
            if part.strip():
                found = _PARAM.match(part.strip())
                if not found:
                    raise ParseError(part[:120])
                params.append((found[1], parse_type(found[2])))
        region, index = self._region(index + 1)
        location = self.lines[index][1]
        function = Function(match[2].strip('"'), match[1] == "public", params, region,
                            self.line_of(location))
        _mark_used(function)
        return function, index + 1

    def _region(self, index: int) -> tuple[Region, int]:
        """The region whose first line is `index`; also the index of the line that closes it."""
        blocks = [Block("^bb0", [])]
        while index < len(self.lines):
            text, location = self.lines[index]
            if text.startswith("}"):
                return Region(blocks), index
            if text.startswith("^"):
                label = re.match(r"\^\w+", text)[0]
                arguments = [
                    (name, parse_type(kind))
                    for name, kind in re.findall(r"(%[\w$.\-]+): ([^,)]+(?:<[^>]*>+)?)", text)
                ]
                if len(blocks) == 1 and not blocks[0].ops:
                    blocks = [Block(label, arguments)]
                else:
                    blocks.append(Block(label, arguments))
                index += 1
                continue
            op, index = self._op(index)
            blocks[-1].ops.append(op)
        raise ParseError("the text ends inside a region")

    def _op(self, index: int) -> tuple[Op, int]:
        text, location = self.lines[index]
        regions: list[Region] = []
        if text.endswith("{"):
            head = re.sub(r"\(?\{$", "", text).strip()
            while True:
                region, index = self._region(index + 1)
                regions.append(region)
                closing, location = self.lines[index]
                if not closing.endswith("{"):
                    break
            text = head + " " + closing.lstrip("})").strip()
        match = _HEAD.match(text.strip())
        if not match:
            raise ParseError(text[:120])
        given, name, rest = match.groups()
        parts = split_top(rest, " : ")
        types = parts[-1].strip() if len(parts) > 1 else ""
        rest = " : ".join(parts[:-1]) if len(parts) > 1 else rest
        results = []
        for result in (given or "").split(","):
            result, _, count = result.strip().partition(":")
            if result:
                results += [f"{result}#{i}" for i in range(int(count))] if count else [result]
        op = Op(name, rest.strip(), types, results, _VALUE.findall(rest), regions,
                self.line_of(location))
        return op, index + 1


def _strip_locations(text: str) -> tuple[str, str | None]:
    """The text without its `loc(...)` parts, and what the last of them says."""
    last = None
    while True:
        start = text.find(" loc(")
        if start < 0:
            if text.startswith("loc("):
                return "", None
            return text.strip(), last
        end = _closing(text, start + 4)
        last = text[start + 5 : end]
        text = text[:start] + text[end + 1 :]


def _closing(text: str, start: int) -> int:
    """The index of the bracket that closes the one at `start`."""
    depth, quoted = 0, False
    for index in range(start, len(text)):
        char = text[index]
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return index
    raise ParseError(text[:120])


def walk(region: Region):
    """Every operation of a region, nested ones too, in the text's order."""
    for block in region.blocks:
        for op in block.ops:
            yield op
            for inner in op.regions:
                yield from walk(inner)


def _mark_used(function: Function) -> None:
    used = set()
    for op in walk(function.body):
        used.update(op.operands)
    for op in walk(function.body):
        op.used = any(result in used for result in op.results)
    _mark_dead(function.body)


def _mark_dead(region: Region) -> None:
    """Finds the last reader of each value that a block makes; jumps may read values later."""
    for block in region.blocks:
        last: dict[str, Op] = {}
        for op in block.ops:
            names = set(op.operands)
            for inner in op.regions:
                _mark_dead(inner)
                for nested in walk(inner):
                    names.update(nested.operands)
            for name in [*names.intersection(last), *op.results]:
                last[name] = op
        if len(region.blocks) == 1:
            for name, op in last.items():
                op.dead.append(name)


def parse(text: str, source_file: str | None = None) -> Module:
    """The module that `text` prints; lines are those of `source_file`, known by its base name."""
    return _Reader(text, source_file).module()


def accessed_params(function: Function) -> tuple[set[int], set[int]]:
    """(read, written): indices of the pointer parameters that loads and stores can reach.

    Conservative: a value is taken to derive from every parameter any of its operands derives from.
    """
    roots: dict[str, set[int]] = {
        name: {index}
        for index, (name, kind) in enumerate(function.params)
        if kind.pointee or "tensordesc" in kind.element
    }
    read: set[int] = set()
    written: set[int] = set()
    everything = set().union(*roots.values()) if roots else set()
    for _ in range(4):  # loops carry pointers backwards; the fixpoint comes after few rounds
        before = (sum(len(v) for v in roots.values()), len(read), len(written))
        for op in walk(function.body):
            reached = set().union(*(roots.get(o, set()) for o in op.operands), set())
            _flow_regions(op, roots)
            if op.name in ("tt.load", "tt.descriptor_load"):
                read |= roots.get(op.operands[0], set())
                reached = set()
            elif op.name.startswith(("tt.store", "tt.descriptor_store")):
                written |= roots.get(op.operands[0], set())
            elif op.name.startswith("tt.atomic"):
                read |= reached
                written |= reached
                reached = set()
            elif op.name == "tt.call":
                read |= reached
                written |= reached
            for result in op.results:
                roots.setdefault(result, set()).update(reached)
            if op.name == "scf.if" and op.results:
                for result in op.results:
                    roots[result] |= _yielded(op, roots)
        if before == (sum(len(v) for v in roots.values()), len(read), len(written)):
            break
    else:
        return everything, everything
    return read, written


def _yielded(op: Op, roots: dict[str, set[int]]) -> set[int]:
    found: set[int] = set()
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if inner.name in ("scf.yield", "scf.condition"):
                    for operand in inner.operands:
                        found |= roots.get(operand, set())
    return found


def _flow_regions(op: Op, roots: dict[str, set[int]]) -> None:
    """Values enter the regions of loops through `%a = %b` pairs and block arguments."""
    if not op.regions or op.name not in ("scf.for", "scf.while"):
        return
    passed = _yielded(op, roots)
    for name, initial in re.findall(r"(%[\w$.\-]+) = (%[\w$.\-]+(?:#\d+)?)", op.rest):
        roots.setdefault(name, set()).update(roots.get(initial, set()) | passed)
    for region in op.regions:
        for name, _ in region.entry.arguments:
            roots.setdefault(name, set()).update(passed)
    for result in op.results:
        roots.setdefault(result, set()).update(passed)
