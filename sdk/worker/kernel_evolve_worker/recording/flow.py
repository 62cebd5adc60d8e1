"""What the names and expressions of a source may stand for, as far as modules of others go.

`Flow(tree)` follows modules, and what is found in them, through assignments, containers, calls of
the source's own functions, attributes, operators and patterns. It runs nothing of the source; it
looks names up in the real modules. It knows no order and no scopes: a name stands for all that it
is ever given anywhere, so what it says is too much rather than too little. It goes over the tree
until nothing new is found; a source for which that takes too long raises TooTangled.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from kernel_evolve_worker.recording.expressions import KERNEL_VALUE, Expressions
from kernel_evolve_worker.recording.names import EMPTY, Ref, Value, has, imported


class Flow(Expressions):
    """See the module's text. may_import: whether a dotted name may be imported at all.

    nodes: all nodes of the tree, parents first, but those that say nothing. bindings: each node
    that gives a name a meaning, with the name.
    """

    def __init__(self, tree: ast.AST, may_import: Callable[[str], bool]) -> None:
        super().__init__(may_import)
        self._within: list[str] = []
        self.nodes = _nodes(tree)
        self.bindings = [(node, name) for node in self.nodes for name in _bound_names(node)]
        self.bound.update(name for _, name in self.bindings)
        self.classes.update(node.name for node in self.nodes if type(node) is ast.ClassDef)
        self._new = True
        while self._new:
            self._new = False
            self.value(tree)

    # -- functions and classes ----------------------------------------------------------------

    def _parameters(self, name: str, arguments: ast.arguments) -> None:
        """Binds the parameters of a function to what calls by that name give."""
        slot = self._given.get(name)
        if slot is None:
            return
        names = [x.arg for x in [*arguments.posonlyargs, *arguments.args]]
        if slot.any:
            self._all_parameters(arguments, slot.any)
        if names[:1] in (["self"], ["cls"]):
            self._put(self._names, names[0], slot.unbound)
            names = names[1:]
        for parameter, value in zip(names, slot.positional):
            self._put(self._names, parameter, value)
        for parameter, value in slot.named.items():
            self._put(self._names, parameter, value)
        for extra, values in ((arguments.vararg, slot.positional[len(names):]),
                              (arguments.kwarg, [*slot.named.values()])):
            if extra is not None:
                self._put(self._names, extra.arg, self._wrapped(self._merged(values)))

    def _all_parameters(self, arguments: ast.arguments, value: Value) -> None:
        if value:
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            for parameter in [*every, arguments.vararg, arguments.kwarg]:
                if parameter is not None and parameter.arg not in ("self", "cls"):
                    self._put(self._names, parameter.arg, value)

    def _defaults(self, arguments: ast.arguments) -> None:
        self._all_parameters(arguments, self._loose)
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(positional[len(positional) - len(arguments.defaults):], arguments.defaults),
                 *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        for parameter, default in pairs:
            if default is not None:
                self._put(self._names, parameter.arg, self.value(default))
        for parameter in [*positional, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
            if parameter is not None and parameter.annotation is not None:
                self.value(parameter.annotation)

    # -- statements ---------------------------------------------------------------------------

    def _Assign(self, node: ast.Assign) -> Value:
        for target in node.targets:
            self._match_up(target, node.value)
        return EMPTY

    def _match_up(self, target: ast.AST, source: ast.AST) -> None:
        """Binds part by part where both sides are written out."""
        rows = (ast.Tuple, ast.List)
        if isinstance(target, rows) and isinstance(source, rows) and len(target.elts) == len(
                source.elts) and not any(isinstance(x, ast.Starred)
                                         for x in [*target.elts, *source.elts]):
            self.value(target)
            for part, given in zip(target.elts, source.elts):
                self._match_up(part, given)
        else:
            self._bind(target, self.value(source))

    def _AnnAssign(self, node: ast.AnnAssign) -> Value:
        self.value(node.annotation)
        self._bind(node.target, self.value(node.value) if node.value else EMPTY)
        return EMPTY

    def _AugAssign(self, node: ast.AugAssign) -> Value:
        value = self.value(node.value)
        self._let_loose(value.all())
        self._bind(node.target, self._merged([value, self._loose]))
        return EMPTY

    def _For(self, node: ast.For) -> Value:
        self._bind(node.target, self._element(self.value(node.iter)))
        for child in [*node.body, *node.orelse]:
            self.value(child)
        return EMPTY

    def _ExceptHandler(self, node: ast.ExceptHandler) -> Value:
        if node.name is not None:
            self._put(self._names, node.name, self._loose)
        return self._parts(node)

    def _Assert(self, node: ast.Assert) -> Value:
        self.value(node.test)
        if node.msg is not None:
            self._let_loose(self.value(node.msg).all())
        return EMPTY

    def _withitem(self, node: ast.withitem) -> Value:
        value = self._merged([self.value(node.context_expr), self._loose])
        if node.optional_vars is not None:
            self._bind(node.optional_vars, value)
        return EMPTY

    def _FunctionDef(self, node: ast.FunctionDef) -> Value:
        self._parameters(node.name, node.args)
        if node.name == "__init__" and self._within:
            self._parameters(self._within[-1], node.args)
        if node.decorator_list:
            # A decorator gives the name another meaning; that of a setter gets what is assigned.
            self._named(node.name, self._loose)
            if any(isinstance(x, ast.Attribute) and x.attr == "setter"
                   for x in node.decorator_list):
                self._all_parameters(node.args, self._attributes.get(node.name, EMPTY))
        self._defaults(node.args)
        self._body(node, [*node.decorator_list, node.returns, *node.body])
        if any(self._makes_kernels(self.of(x)) for x in node.decorator_list):
            self._named(node.name, KERNEL_VALUE)
        return EMPTY

    _AsyncFunctionDef = _FunctionDef

    def _ClassDef(self, node: ast.ClassDef) -> Value:
        if node.decorator_list:
            self._named(node.name, self._loose)
        return self._body(node, [*node.decorator_list, *node.bases, *node.keywords, *node.body])

    def _body(self, node: Any, parts: list[ast.AST | None]) -> Value:
        self._within.append(node.name)
        for part in parts:
            if part is not None:
                self.value(part)
        self._within.pop()
        return EMPTY

    def _Return(self, node: Any) -> Value:
        found = self.value(node.value) if node.value is not None else EMPTY
        self._let_loose(found.all())
        if self._within:
            self._put(self._results, self._within[-1], found)
            self._put(self._attributes, self._within[-1], found)  # of a property
        return EMPTY

    def _Yield(self, node: Any) -> Value:
        found = self.value(node.value) if node.value is not None else EMPTY
        self._let_loose(found.all())
        if self._within:
            self._put(self._results, self._within[-1], self._spread(found))
        return self._loose

    _YieldFrom = _Yield

    def _Match(self, node: ast.Match) -> Value:
        subject = self.value(node.subject)
        for case in node.cases:
            self._pattern(case.pattern, self._spread(subject))
            for child in [case.guard, *case.body]:
                if child is not None:
                    self.value(child)
        return EMPTY

    def _pattern(self, pattern: ast.AST, subject: Value) -> None:
        """A capture may be the subject, an element of it, or an attribute that a class names."""
        self._at[id(pattern)] = subject
        name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
        if isinstance(name, str):
            self._named(name, subject)
        named = getattr(pattern, "kwd_patterns", ())
        for attr, part in zip(getattr(pattern, "kwd_attrs", ()), named):
            self._pattern(part, self._member(subject, attr))
        for child in ast.iter_child_nodes(pattern):
            if not isinstance(child, ast.pattern):
                self.value(child)
            elif child not in named:
                self._pattern(child, subject)

    # -- imports ------------------------------------------------------------------------------

    def _Import(self, node: ast.Import) -> Value:
        for alias in node.names:
            if self._may_import(alias.name):
                whole = imported(alias.name)
                root = alias.name.partition(".")[0]
                self._named(alias.asname or root,
                            Value([whole if alias.asname else imported(root)]))
        return EMPTY

    def _ImportFrom(self, node: ast.ImportFrom) -> Value:
        for alias in node.names:
            found = self.from_module(node.module or "", alias.name)
            if found is not None and not node.level:
                self._named(alias.asname or alias.name, Value([found]))
        return EMPTY

    def from_module(self, module: str, name: str) -> Ref | None:
        """What `from module import name` gives; None for plain values and what is refused."""
        full = f"{module}.{name}"
        if name == "*" or not self._may_import(module) or not self._may_import(full):
            return None
        home = imported(module)
        found = self.member(home, name)
        if found is not None or has(home, name):
            return found
        below = imported(full)
        return below if below.value.__spec__ is not None else None  # there is no such module


def _nodes(tree: ast.AST) -> list[ast.AST]:
    """What ast.walk gives, but contexts and operators: in a fifth of its time."""
    found = [tree]
    for node in found:  # grows
        for child in vars(node).values():
            if type(child) is list:
                found += [part for part in child if isinstance(part, ast.AST)]
            elif isinstance(child, ast.AST) and not isinstance(child, _SILENT):
                found.append(child)
    return found


_SILENT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)


def _bound_names(node: ast.AST) -> Sequence[str]:
    """The names that one node gives a meaning, in any of the ways that there are."""
    kind = type(node)
    fields = _NAME_FIELDS.get(kind)
    if fields is None:
        fields = _NAME_FIELDS[kind] = tuple({"name", "rest"} & set(kind._fields))
    if not fields:
        return ()
    if kind is ast.Name:
        return () if type(node.ctx) is ast.Load else (node.id,)
    if kind is ast.alias:
        return (node.asname or node.name.partition(".")[0],)
    return [name for name in (getattr(node, field, None) for field in fields)
            if isinstance(name, str)]


# The fields of each kind of node that may hold a name which it binds.
_NAME_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Name: ("id",), ast.arg: ("arg",)}
