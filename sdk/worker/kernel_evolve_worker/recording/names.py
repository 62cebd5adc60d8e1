"""What the names and expressions of a source may stand for, as far as modules of others go.

`Flow(tree)` follows modules, and what is found in them, through assignments, containers, calls of
the source's own functions, attributes and patterns. It runs nothing of the source; it looks names
up in the real modules. It knows no order and no scopes: a name stands for all that it is ever given
anywhere, so what it says is too much rather than too little.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from collections.abc import Iterable
from typing import Any

_ROUNDS = 12  # until nothing new is found; each round carries a value at least one step further
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MISSING = object()
_LOOKS = ("callable", "hasattr", "id", "isinstance", "issubclass", "len", "print", "repr", "str")
_MANY = 1000  # elements of a container of others that are looked at


class Ref:
    """Something of others that an expression may stand for. dotted: where it was found."""

    def __init__(self, dotted: str, value: Any) -> None:
        self.dotted = dotted
        self.value = value

    @property
    def is_module(self) -> bool:
        return issubclass(type(self.value), types.ModuleType)


class Value:
    """What an expression may be (`here`) and may contain (`inside`), by identity."""

    def __init__(self, here: Iterable[Ref] = (), inside: Iterable[Ref] = ()) -> None:
        self.here = {id(ref.value): ref for ref in here}
        self.inside = {id(ref.value): ref for ref in inside}

    def add(self, other: Value) -> bool:
        """Whether something is new."""
        size = len(self.here) + len(self.inside)
        for mine, theirs in ((self.here, other.here), (self.inside, other.inside)):
            for key, ref in theirs.items():
                mine.setdefault(key, ref)
        return len(self.here) + len(self.inside) > size

    @property
    def refs(self) -> list[Ref]:
        return list(self.here.values())

    def all(self) -> list[Ref]:
        return [*self.here.values(), *self.inside.values()]


def member(ref: Ref, name: str) -> Ref | None:
    """What `name` is of a module, a class or an object; None for plain values and unknown names."""
    if ref.is_module:
        if name.startswith("_") and ref.value.__name__.startswith(("torch", "triton")):
            return None  # refused by its name, and some would load much
        try:
            found = getattr(ref.value, name)
        except Exception:  # noqa: BLE001 - a module may compute its names
            return None
        home = ref.value.__name__
    else:
        found = inspect.getattr_static(ref.value, name, _MISSING)
        home = ref.dotted
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    if found is _MISSING or type(found) in _PLAIN or isinstance(found, property):
        return None
    if issubclass(type(found), types.ModuleType):
        return Ref(found.__name__, found)
    return Ref(f"{home}.{name}", found)


def _has(module: types.ModuleType, name: str) -> bool:
    try:
        return hasattr(module, name)
    except Exception:  # noqa: BLE001 - a module may compute its names
        return True


def imported(dotted: str) -> Ref:
    """The module called so, an empty one where it can't be imported."""
    try:
        module = importlib.import_module(dotted)
    except Exception:  # noqa: BLE001 - the candidate will meet the same error
        module = types.ModuleType(dotted)
    return Ref(dotted, module)


class Flow:
    """See the module's text. may_import: whether a dotted name may be imported at all."""

    def __init__(self, tree: ast.AST, may_import: Any) -> None:
        self._may_import = may_import
        self._names: dict[str, Value] = {}
        self._attributes: dict[str, Value] = {}
        self._results: dict[str, Value] = {}
        self._parameters: dict[str, list[ast.arguments]] = {}
        self._loose = Value()  # modules that calls take or give: any call may see them
        self._at: dict[int, Value] = {}
        self._within: list[str] = []
        self._new = False
        self.classes: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._parameters.setdefault(node.name, []).append(node.args)
            elif isinstance(node, ast.ClassDef):
                self.classes.add(node.name)
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                        self._parameters.setdefault(node.name, []).append(method.args)
        for _ in range(_ROUNDS):
            self._new = False
            self.value(tree)
            if not self._new:
                break

    def of(self, node: ast.AST) -> Value:
        """What an expression of the tree may stand for."""
        return self._at.get(id(node)) or Value()

    # -- expressions and statements -----------------------------------------------------------

    def value(self, node: Any) -> Value:
        """What `node` may stand for; binds what it binds."""
        visit = getattr(self, f"_{type(node).__name__}", None)
        found = visit(node) if visit else self._children(node)
        if isinstance(node, ast.expr):
            self._at[id(node)] = found
        return found

    def _children(self, node: ast.AST) -> Value:
        """Of an expression that yields one of its parts, or a container of them."""
        found = Value()
        for child in ast.iter_child_nodes(node):
            part = self.value(child)
            if isinstance(node, ast.expr) and isinstance(child, ast.expr):
                found.add(part)
        return found

    def _container(self, node: ast.AST) -> Value:
        return Value((), self._children(node).all())

    _Tuple = _List = _Set = _Dict = _container
    _Slice = _container

    def _Compare(self, node: ast.Compare) -> Value:
        self._children(node)
        return Value()

    _JoinedStr = _FormattedValue = _Compare

    def _Name(self, node: ast.Name) -> Value:
        return self._names.get(node.id) or Value()

    def _Attribute(self, node: ast.Attribute) -> Value:
        return self._member(self.value(node.value), node.attr)

    def _member(self, base: Value, name: str) -> Value:
        found = Value()
        for ref in base.refs:
            if ref.is_module and not self._may_import(ref.value.__name__):
                continue  # refused where it was reached
            part = member(ref, name)
            if part is not None:
                found.add(Value([part]))
            elif ref.is_module and not name.startswith("_") and not _has(ref.value, name):
                found.add(Value([ref]))  # it isn't the module then, but something around it
        if not any(ref.is_module for ref in base.refs):
            found.add(self._attributes.get(name) or Value())
        modules = [ref for ref in base.inside.values() if ref.is_module]
        found.add(Value(modules, base.inside.values()))  # an object of the source's own that holds
        return found

    def _Subscript(self, node: ast.Subscript) -> Value:
        self.value(node.slice)
        return self._element(self.value(node.value))

    def _element(self, base: Value) -> Value:
        found = Value(base.inside.values(), base.inside.values())
        for ref in base.refs:
            if isinstance(ref.value, (dict, list, tuple, set)):
                items = ref.value.values() if isinstance(ref.value, dict) else ref.value
                found.add(Value([Ref(x.__name__, x) for x in list(items)[:_MANY]
                                 if isinstance(x, types.ModuleType)]))
        return found

    def _NamedExpr(self, node: ast.NamedExpr) -> Value:
        found = self.value(node.value)
        self._bind(node.target, found)
        return found

    def _Lambda(self, node: ast.Lambda) -> Value:
        self._defaults(node.args)
        found = self.value(node.body)
        self._let_loose(found.all())
        return found  # what a call gives; a lambda itself has no attributes of use

    def _let_loose(self, refs: Iterable[Ref]) -> None:
        carried = [ref for ref in refs if _carries(ref)]
        self._new |= self._loose.add(Value(carried, carried))

    def _comprehension(self, node: Any) -> Value:
        for generator in node.generators:
            self._bind(generator.target, self._element(self.value(generator.iter)))
            for condition in generator.ifs:
                self.value(condition)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return Value((), [ref for part in parts for ref in self.value(part).all()])

    _ListComp = _SetComp = _GeneratorExp = _DictComp = _comprehension

    def _Call(self, node: ast.Call) -> Value:
        callee = self.value(node.func)
        given = [self.value(x) for x in node.args]
        named = {x.arg: self.value(x.value) for x in node.keywords}
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            if isinstance(node.args[1], ast.Constant):
                found = self._member(given[0], str(node.args[1].value))
                for other in given[2:]:
                    found.add(other)
                return found
        if isinstance(node.func, ast.Name) and node.func.id in _LOOKS:
            return Value()
        for name, value in named.items():
            if name is not None:
                self._put(self._attributes, name, value)
        self._pass(node, given, named)
        found = Value()
        name = _called(node.func)
        if name in self._results:
            found.add(self._results[name])
        if isinstance(node.func, ast.Lambda):
            found.add(callee)
        # A function of others may give back what it got, alone or among other things.
        receiver = callee.all() if isinstance(node.func, ast.Attribute) else []
        if isinstance(node.func, ast.Attribute):
            receiver += self.of(node.func.value).inside.values()
        carried = [ref for value in [*given, *named.values()] for ref in value.all()]
        carried = [ref for ref in [*carried, *receiver] if _carries(ref)]
        self._let_loose(carried)
        if isinstance(node.func, ast.Attribute):
            self._hold(node.func.value, Value(carried))
        found.add(Value(carried, carried))
        found.add(self._loose)
        return found

    def _pass(self, node: ast.Call, given: list[Value], named: dict[str | None, Value]) -> None:
        """Binds parameters of the source's own functions to what a call gives them."""
        called = [_called(node.func)]
        called += [_called(x) for x in node.args if isinstance(x, (ast.Name, ast.Attribute))]
        parts = [node.func, *node.args, *(x.value for x in node.keywords)]
        lambdas = [x.args for x in parts if isinstance(x, ast.Lambda)]
        everything = Value()
        for value in [*given, *named.values()]:
            everything.add(Value(value.all(), value.inside.values()))
        for position, name in enumerate(called):
            for arguments in self._parameters.get(name or "", ()):
                if position == 0 and not any(isinstance(x, ast.Starred) for x in node.args):
                    self._parameter(arguments, given, named)
                else:
                    self._all_parameters(arguments, everything)
        for arguments in lambdas:
            self._all_parameters(arguments, everything)

    def _parameter(self, arguments: ast.arguments, given: list[Value],
                   named: dict[str | None, Value]) -> None:
        names = [x.arg for x in [*arguments.posonlyargs, *arguments.args]]
        shift = 1 if names[:1] in (["self"], ["cls"]) else 0
        for name, value in zip(names[shift:], given):
            self._put(self._names, name, value)
        rest = Value((), [ref for value in given[len(names) - shift:] for ref in value.all()])
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                rest.add(Value((), [r for value in named.values() for r in value.all()]))
                self._put(self._names, extra.arg, rest)
        for name, value in named.items():
            if name is None:
                self._all_parameters(arguments, Value(value.all(), value.inside.values()))
            else:
                self._put(self._names, name, value)

    def _all_parameters(self, arguments: ast.arguments, value: Value) -> None:
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for parameter in [*every, arguments.vararg, arguments.kwarg]:
            if parameter is not None and parameter.arg not in ("self", "cls"):
                self._put(self._names, parameter.arg, Value(value.all(), value.all()))

    def _defaults(self, arguments: ast.arguments) -> None:
        self._all_parameters(arguments, self._loose)
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(positional[len(positional) - len(arguments.defaults):], arguments.defaults),
                 *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        for parameter, default in pairs:
            if default is not None:
                self._put(self._names, parameter.arg, self.value(default))

    # -- what binds names ---------------------------------------------------------------------

    def _put(self, table: dict[str, Value], name: str, value: Value) -> None:
        if value.here or value.inside:
            self._new |= table.setdefault(name, Value()).add(value)

    def _bind(self, target: ast.AST, value: Value) -> None:
        self.value(target)
        if isinstance(target, ast.Name):
            self._put(self._names, target.id, value)
            self._put(self._attributes, target.id, value)  # of a class, or of this module
        elif isinstance(target, ast.Attribute):
            self._put(self._attributes, target.attr, value)
        elif isinstance(target, ast.Subscript):
            self._hold(target.value, value)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, Value((), value.all()))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._bind(part, self._element(value))

    def _hold(self, container: ast.AST, value: Value) -> None:
        inside = Value((), value.all())
        if isinstance(container, ast.Name):
            self._put(self._names, container.id, inside)
        elif isinstance(container, ast.Attribute):
            self._put(self._attributes, container.attr, inside)

    def _Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._match_up(target, node.value)

    def _match_up(self, target: ast.AST, source: ast.AST) -> None:
        """Binds part by part where both sides are written out."""
        rows = (ast.Tuple, ast.List)
        if isinstance(target, rows) and isinstance(source, rows) and len(target.elts) == len(
                source.elts) and not any(isinstance(x, ast.Starred)
                                         for x in [*target.elts, *source.elts]):
            self.value(source)
            for part, given in zip(target.elts, source.elts):
                self._match_up(part, given)
        else:
            self._bind(target, self.value(source))

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        self.value(node.annotation)
        self._bind(node.target, self.value(node.value) if node.value else Value())

    def _AugAssign(self, node: ast.AugAssign) -> None:
        self._bind(node.target, self.value(node.value))

    def _For(self, node: ast.For) -> None:
        self._bind(node.target, self._element(self.value(node.iter)))
        for child in [*node.body, *node.orelse]:
            self.value(child)

    def _ExceptHandler(self, node: ast.ExceptHandler) -> Value:
        if node.name is not None:
            self._put(self._names, node.name, self._loose)
        self._children(node)
        return Value()

    def _withitem(self, node: ast.withitem) -> Value:
        value = self.value(node.context_expr)
        if node.optional_vars is not None:
            self._bind(node.optional_vars, value)
        return Value()

    def _FunctionDef(self, node: ast.FunctionDef) -> None:
        self._defaults(node.args)
        self._within.append(node.name)
        self._children(node)
        self._within.pop()

    _AsyncFunctionDef = _FunctionDef

    def _Return(self, node: Any) -> Value:
        found = self.value(node.value) if node.value is not None else Value()
        self._let_loose(found.all())
        if self._within:
            self._put(self._results, self._within[-1], found)
            self._put(self._attributes, self._within[-1], found)  # of a property
        return Value()

    def _Yield(self, node: ast.Yield) -> Value:
        found = self.value(node.value) if node.value is not None else Value()
        self._let_loose(found.all())
        if self._within:
            self._put(self._results, self._within[-1], Value(found.all(), found.all()))
        return Value()

    _YieldFrom = _Yield

    def _Match(self, node: ast.Match) -> None:
        subject = self.value(node.subject)
        for case in node.cases:
            self._pattern(case.pattern, Value(subject.all(), subject.inside.values()))
            for child in [case.guard, *case.body]:
                if child is not None:
                    self.value(child)

    def _pattern(self, pattern: ast.AST, subject: Value) -> None:
        """A capture may be the subject, an element of it, or an attribute that a class names."""
        self._at[id(pattern)] = subject
        name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
        if isinstance(name, str):
            self._put(self._names, name, Value(subject.all(), subject.inside.values()))
        if isinstance(pattern, ast.MatchClass):
            for attr, part in zip(pattern.kwd_attrs, pattern.kwd_patterns):
                self._pattern(part, self._member(subject, attr))
        for child in ast.iter_child_nodes(pattern):
            if isinstance(child, ast.pattern) and child not in getattr(pattern, "kwd_patterns", ()):
                self._pattern(child, Value(subject.all(), subject.inside.values()))

    # -- imports ------------------------------------------------------------------------------

    def _Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if self._may_import(alias.name):
                whole = imported(alias.name)
                root = alias.name.partition(".")[0]
                self._put(self._names, alias.asname or root,
                          Value([whole if alias.asname else imported(root)]))

    def _ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            found = self.from_module(node.module or "", alias.name)
            if found is not None and not node.level:
                self._put(self._names, alias.asname or alias.name, Value([found]))

    def from_module(self, module: str, name: str) -> Ref | None:
        """What `from module import name` gives; None for plain values and what is refused."""
        full = f"{module}.{name}"
        if name == "*" or not self._may_import(module) or not self._may_import(full):
            return None
        found = member(imported(module), name)
        if found is not None or _has(imported(module).value, name):
            return found
        return imported(full)


def _called(func: ast.AST) -> str | None:
    """The last name of what is called."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else None


def _carries(ref: Ref) -> bool:
    """Whether it matters where a call takes this: modules and their tables do."""
    return ref.is_module or isinstance(ref.value, (dict, list, set))
