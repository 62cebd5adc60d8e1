"""What the expressions of a source may stand for; see flow.py."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterable
from typing import Any

from kernel_evolve_worker.recording.names import (
    EMPTY,
    KERNEL,
    Ref,
    SomeClass,
    Value,
    has,
    kernel_makers,
    member,
)

_LOOKS = ("callable", "dir", "hasattr", "id", "isinstance", "issubclass", "len", "print", "repr",
          "str")
_MANY = 1000  # elements of a container of others that are looked at
_WORK = 1_500_000  # nodes visited and things carried; 256 KiB of kernels need a tenth of it
_LEAVES = frozenset({
    ast.Constant, ast.Pass, ast.Break, ast.Continue, *ast.expr_context.__subclasses__(),
    *ast.operator.__subclasses__(), *ast.unaryop.__subclasses__(), *ast.cmpop.__subclasses__(),
    *ast.boolop.__subclasses__(),
})  # fmt: skip

_TYPE = Value([Ref("type", type)])
_SOME_CLASS = Value([Ref("type(...)", SomeClass)])
KERNEL_VALUE = Value([Ref("a kernel", KERNEL)])


class TooTangled(Exception):
    """Modules go further than can be followed."""


class _Given:
    """What calls give to the functions of one name."""

    def __init__(self) -> None:
        self.positional: list[Value] = []
        self.named: dict[str, Value] = {}
        self.any = Value()  # may be any parameter
        self.unbound = Value()  # modules in the place of self


class Expressions:
    """What expressions stand for. Statements are in flow.py, which derives from this.

    may_import: whether a dotted name may be imported at all.
    """

    def __init__(self, may_import: Callable[[str], bool]) -> None:
        self.classes: set[str] = set()
        self.bound: set[str] = set()  # names that the source itself gives a meaning
        self._may_import = may_import
        self._names: dict[str, Value] = {}
        self._attributes: dict[str, Value] = {}
        self._results: dict[str, Value] = {}
        self._given: dict[str, _Given] = {}
        self._loose = Value()  # modules that calls take or give: any call may see them
        self._at: dict[int, Value] = {}
        self._members: dict[tuple[int, str], Ref | None] = {}
        self._visits: dict[type, Any] = {}
        self._work = 0
        self._new = False

    def of(self, node: ast.AST) -> Value:
        """What an expression of the tree may stand for."""
        return self._at.get(id(node), EMPTY)

    # -- values -------------------------------------------------------------------------------

    def value(self, node: ast.AST) -> Value:
        """What `node` may stand for; binds what it binds."""
        kind = type(node)
        if kind in _LEAVES:
            return EMPTY
        visit = self._visits.get(kind)
        if visit is None:
            visit = self._visits[kind] = getattr(self, f"_{kind.__name__}", self._parts)
        self._work += 1
        if self._work > _WORK:
            raise TooTangled
        found = visit(node)
        if not found:
            return EMPTY
        self._at[id(node)] = found
        return found

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > _WORK:
            raise TooTangled

    def _merged(self, values: list[Value]) -> Value:
        values = [value for value in values if value]
        if len(values) < 2:
            return values[0] if values else EMPTY
        found = Value()
        for value in values:
            self._spend(len(value))
            found.add(value)
        return found

    def _made(self, here: Iterable[Ref], inside: Iterable[Ref]) -> Value:
        found = Value(here, inside)
        self._spend(len(found))
        return found

    def _spread(self, value: Value) -> Value:
        """Of something that may be `value` or a part of it."""
        return self._made(value.all(), value.all()) if value else EMPTY

    def _wrapped(self, value: Value) -> Value:
        """Of a container that holds `value`."""
        return self._made((), value.all()) if value else EMPTY

    def _parts(self, node: ast.AST) -> Value:
        """Visits all below; of an expression that yields one of its parts, that."""
        found = []
        for child in vars(node).values():
            for part in child if type(child) is list else (child,):
                if isinstance(part, ast.AST):
                    value = self.value(part)
                    if value and isinstance(part, ast.expr):
                        found.append(value)
        return self._merged(found) if found and isinstance(node, ast.expr) else EMPTY

    # -- expressions --------------------------------------------------------------------------

    def _Tuple(self, node: ast.AST) -> Value:
        return self._wrapped(self._parts(node))

    _List = _Set = _Dict = _Slice = _Tuple

    def _BinOp(self, node: ast.AST) -> Value:
        """An operator may call a method, which sees the operands and gives what it likes."""
        found = self._parts(node)
        self._let_loose(found.all())
        return self._merged([found, self._loose])

    _UnaryOp = _Await = _BinOp

    def _Compare(self, node: ast.Compare) -> Value:
        self._let_loose(self._parts(node).all())
        return self._loose

    def _JoinedStr(self, node: ast.AST) -> Value:
        self._let_loose(self._parts(node).all())
        return EMPTY

    _FormattedValue = _JoinedStr

    def _Name(self, node: ast.Name) -> Value:
        if node.id == "type" and "type" not in self.bound:
            return _TYPE
        return self._names.get(node.id, EMPTY)

    def _Attribute(self, node: ast.Attribute) -> Value:
        return self._member(self.value(node.value), node.attr)

    def member(self, ref: Ref, name: str) -> Ref | None:
        """What a name is of a thing; kept, so that the same thing is found again."""
        key = (id(ref.value), name)
        if key not in self._members:
            self._members[key] = member(ref, name)
        return self._members[key]

    def _member(self, base: Value, name: str) -> Value:
        found = []
        foreign = bool(base.here)
        for ref in base.here.values():
            if ref.is_module and not (self._may_import(ref.value.__name__)
                                      and self._may_import(f"{ref.value.__name__}.{name}")):
                continue  # refused where it is reached
            part = self.member(ref, name)
            if part is not None:
                found.append(Value([part.loosely() if ref.loose else part]))
            elif ref.is_module and not name.startswith("_") and not has(ref, name):
                # It isn't the module then, but something around it; or an error that names it.
                found.append(Value([ref.loosely()]))
                self._put(self._attributes, "obj", Value([ref]))
                foreign = False
            foreign = foreign and ref.is_module
        if not foreign:
            found.append(self._attributes.get(name, EMPTY))
        if base.inside:  # an object of the source's own that holds them
            parts = base.inside.values()
            found.append(self._made([ref.loosely() for ref in parts if ref.is_module], parts))
        return self._merged(found)

    def _Subscript(self, node: ast.Subscript) -> Value:
        self._let_loose(self.value(node.slice).all())
        return self._merged([self._element(self.value(node.value)), self._loose])

    def _element(self, base: Value) -> Value:
        """Of a part of `base`, as indexing and iteration give it."""
        if not base:
            return self._loose
        found = [self._made(base.inside.values(), base.inside.values()), self._loose]
        for ref in base.here.values():
            if isinstance(ref.value, (dict, list, tuple, set)):
                items = ref.value.values() if isinstance(ref.value, dict) else ref.value
                found.append(Value([Ref(x.__name__, x) for x in list(items)[:_MANY]
                                    if isinstance(x, types.ModuleType)]))
        return self._merged(found)

    def _NamedExpr(self, node: ast.NamedExpr) -> Value:
        found = self.value(node.value)
        self._bind(node.target, found)
        return found

    def _Lambda(self, node: ast.Lambda) -> Value:
        self._defaults(node.args)
        found = self.value(node.body)
        self._let_loose(found.all())
        return found  # what a call gives; a lambda itself has no attributes of use

    def _let_loose(self, refs: list[Ref]) -> None:
        carried = [ref.loosely() for ref in refs if ref.carries]
        if carried:
            self._spend(len(carried))
            self._new |= self._loose.add(Value(carried, carried))

    def _ListComp(self, node: Any) -> Value:
        for generator in node.generators:
            self._bind(generator.target, self._element(self.value(generator.iter)))
            for condition in generator.ifs:
                self.value(condition)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return self._wrapped(self._merged([self.value(part) for part in parts]))

    _SetComp = _GeneratorExp = _DictComp = _ListComp

    # -- calls --------------------------------------------------------------------------------

    def _Call(self, node: ast.Call) -> Value:
        callee = self.value(node.func)
        given = [self.value(x) for x in node.args]
        named = [(x.arg, self.value(x.value)) for x in node.keywords]
        plain = isinstance(node.func, ast.Name) and node.func.id not in self.bound
        if plain and node.func.id == "getattr" and len(node.args) > 1:
            if isinstance(node.args[1], ast.Constant):
                return self._merged([self._member(given[0], str(node.args[1].value)), *given[2:]])
        if plain and node.func.id in _LOOKS:
            return EMPTY
        if id(type) in callee.here and len(given) == 1:
            name = node.args[0].id if isinstance(node.args[0], ast.Name) else None
            if not given[0] and name not in self.classes:
                return EMPTY if name in ("self", "cls") else _SOME_CLASS
            return self._merged([_TYPE if name in self.classes else EMPTY, *(
                Value([Ref(f"type({ref.dotted})", type(ref.value))]) for ref in given[0].refs
                if isinstance(ref.value, type))])
        everything = self._merged([*given, *(value for _, value in named)])
        if everything:
            self._pass(node, given, named, self._spread(everything))
        found = [self._results.get(called_name(node.func) or "", EMPTY)]
        if self._makes_kernels(callee):
            found.append(KERNEL_VALUE)
        if isinstance(node.func, ast.Lambda):
            found.append(callee)
        # A function of others may give back what it got, alone or among other things.
        carried = everything.all()
        if isinstance(node.func, ast.Attribute):
            carried += [*callee.all(), *self.of(node.func.value).inside.values()]
        carried = [ref for ref in carried if ref.carries]
        if carried:
            self._let_loose(carried)
            if isinstance(node.func, ast.Attribute):
                self._hold(node.func.value, Value(carried))
            found.append(self._made(carried, carried))
        return self._merged([*found, self._loose])

    def _makes_kernels(self, value: Value) -> bool:
        """Whether a call of it makes a kernel, or a decorator that does."""
        return id(KERNEL) in value.here or not kernel_makers().isdisjoint(value.here)

    def _pass(self, node: ast.Call, given: list[Value], named: list[tuple[str | None, Value]],
              everything: Value) -> None:
        """Keeps what a call gives for the functions that it may reach."""
        for name, value in named:
            if name is not None:
                self._put(self._attributes, name, value)
        for part in [node.func, *node.args, *(x.value for x in node.keywords)]:
            if isinstance(part, ast.Lambda):
                self._all_parameters(part.args, everything)
        for part in node.args:
            if isinstance(part, (ast.Name, ast.Attribute)):
                self._add(self._slot(called_name(part)).any, everything)
        slot = self._slot(called_name(node.func))
        if any(isinstance(x, ast.Starred) for x in node.args):
            self._add(slot.any, everything)
        if given and self._is_function(node.func):
            modules = [ref for ref in given[0].refs if ref.is_module]
            self._add(slot.unbound, Value(modules))
        for position, value in enumerate(given):
            if position >= len(slot.positional):
                slot.positional.append(Value())
            self._add(slot.positional[position], value)
        for name, value in named:
            self._add(slot.named.setdefault(name, Value()) if name else slot.any,
                      value if name else everything)

    def _is_function(self, func: ast.expr) -> bool:
        """Whether what is called gets its first argument as its first parameter, self or not."""
        if isinstance(func, ast.Attribute):
            return isinstance(func.value, ast.Name) and func.value.id in self.classes
        return not (isinstance(func, ast.Name) and func.id in self.classes)

    def _slot(self, name: str | None) -> _Given:
        return self._given.setdefault(name or "", _Given())

    def _add(self, target: Value, value: Value) -> None:
        if value:
            self._spend(len(value))
            self._new |= target.add(value)

    # -- what binds names ---------------------------------------------------------------------

    def _put(self, table: dict[str, Value], name: str, value: Value) -> None:
        if value:
            self._add(table.setdefault(name, Value()), value)

    def _named(self, name: str, value: Value) -> None:
        """A name may also be one of a class."""
        self._put(self._names, name, value)
        self._put(self._attributes, name, value)

    def _bind(self, target: ast.AST, value: Value) -> None:
        self.value(target)
        if isinstance(target, ast.Name):
            self._named(target.id, value)
        elif isinstance(target, ast.Attribute):
            self._put(self._attributes, target.attr, value)
        elif isinstance(target, ast.Subscript):
            self._let_loose(value.all())  # it may be a method that gets this
            self._hold(target.value, value)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, self._wrapped(value))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._bind(part, self._element(value))

    def _hold(self, container: ast.AST, value: Value) -> None:
        if isinstance(container, ast.Name):
            self._put(self._names, container.id, self._wrapped(value))
        elif isinstance(container, ast.Attribute):
            self._put(self._attributes, container.attr, self._wrapped(value))


def called_name(func: ast.AST) -> str | None:
    """The last name of what is called."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else None
