"""What a candidate's source may say, checked before any of it runs.

The rules keep a candidate inside PyTorch and Triton: a short list of modules, no dynamic code, no
change to anything outside its own classes. rules.py holds them as tables. What an expression may
stand for is found out by flow.py, so that another spelling or a detour makes no difference. They
exist to give clear refusals early; containing hostile code is the sandbox's task. `check(source)`
returns the first refusal, or None.
"""

from __future__ import annotations

import ast
import builtins
import gc
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kernel_evolve_worker.recording.expressions import TooTangled
from kernel_evolve_worker.recording.flow import Flow
from kernel_evolve_worker.recording.names import Ref, Value, imported, member
from kernel_evolve_worker.recording.rules import (
    ADVICE,
    ALLOWED_DUNDERS,
    ALLOWED_MODULES,
    BY_TEXT,
    CHANGES,
    DENIED,
    DENIED_CALLS,
    INTERNALS,
    MARKING,
    OTHERWISE,
    OWN_METHODS,
    OWN_NAMES,
    TELLTALES,
)

MAX_SOURCE_BYTES = 256 * 1024  # far above any kernel; bounds the work of every later stage
_TABLES = (list, dict, set)


@dataclass(frozen=True)
class Refusal:
    """Why a candidate isn't run. reason: one sentence; line: the candidate's line."""

    stage: str  # "parse" or "policy"
    code: str
    reason: str
    line: int | None


def check(source: str) -> Refusal | None:
    """The first reason to refuse `source`, in the order of its lines, or None.

    Collects no garbage meanwhile: looking through a growing tree costs as much as all the rest.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return _check(source)
    finally:
        if collects:
            gc.enable()


def _check(source: str) -> Refusal | None:
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        return Refusal("policy", "too_large",
                       f"the file is larger than {MAX_SOURCE_BYTES // 1024} KiB.", None)
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        what = (error.msg or "the text isn't Python").rstrip(".")
        text = (error.text or "").strip()
        return Refusal("parse", "syntax_error",
                       f"syntax error on line {error.lineno}: {what}"
                       f"{f' in: {text[:80]}' if text else ''}.", error.lineno)
    except ValueError as error:  # null bytes
        return Refusal("parse", "syntax_error", f"the file isn't Python text: {error}.", None)
    except (RecursionError, MemoryError):
        return Refusal("parse", "syntax_error", "the file is nested too deeply to be parsed.", None)
    try:
        _leave_out_main(tree)
        checker = _Checker(tree)
    except RecursionError:
        return Refusal("parse", "syntax_error", "the file is nested too deeply to be parsed.", None)
    except TooTangled:
        return Refusal("policy", "forbidden_name",
                       "the file hands modules on in more ways than can be followed: write torch, "
                       "triton and what is in them where you use them.", None)
    if checker.found:
        return checker.found[0]
    if "ModelNew" not in checker.flow.classes:
        return Refusal("policy", "no_model_new",
                       "the file has no class ModelNew: define one with the reference's "
                       "constructor and forward.", None)
    return None


def _leave_out_main(tree: ast.Module) -> None:
    """Takes out the blocks for a file that is run by itself: a candidate is imported."""
    body: list[ast.stmt] = []
    for node in tree.body:
        test = node.test if isinstance(node, ast.If) else None
        main = (isinstance(test, ast.Compare) and isinstance(test.left, ast.Name)
                and test.left.id == "__name__" and isinstance(test.ops[0], ast.Eq)
                and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant)
                and test.comparators[0].value == "__main__")
        body.extend(node.orelse if main else [node])
    tree.body = body


class _Checker:
    """`found`: the refusals, in the order of the lines; of one line, the innermost first."""

    def __init__(self, tree: ast.AST) -> None:
        self.flow = Flow(tree, lambda dotted: _import_refusal(dotted) is None)
        self._found: list[tuple[tuple[int, int, int], Refusal]] = []
        self._called: set[int] = set()  # what is called, or decorates
        self._named: set[int] = set()  # what is asked for its __name__ only
        self._visits: dict[type, Callable[[Any], None] | None] = {}
        for node, name in self.flow.bindings:
            self._may_bind(node, name)
        for node in self.flow.nodes:  # parents first
            kind = type(node)
            if kind not in self._visits:
                self._visits[kind] = getattr(self, f"_{kind.__name__}", None)
            visit = self._visits[kind]
            if visit is not None:
                visit(node)
        self.found = [refusal for _, refusal in sorted(self._found, key=lambda pair: pair[0])]

    def refuse(self, node: ast.AST, code: str, reason: str) -> None:
        line = getattr(node, "lineno", 0)
        place = (line, getattr(node, "end_lineno", line), getattr(node, "end_col_offset", 0))
        self._found.append((place, Refusal("policy", code, f"line {line}: {reason}.", line)))

    # -- imports ------------------------------------------------------------------------------

    def _Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._may_import(node, alias.name)

    def _ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self.refuse(node, "import", "imports of neighbouring files are not allowed: write "
                        "everything into this file")
            return
        module = node.module or ""
        if not self._may_import(node, module):
            return
        for alias in node.names:
            if alias.name == "*":
                self.refuse(node, "import", f"import the names from {module} that you need, not *")
            elif self._may_import(node, f"{module}.{alias.name}"):
                found = self.flow.from_module(module, alias.name)
                why = _outside(found) if found is not None else None
                if why:
                    self.refuse(node, "import" if found.is_module else "forbidden_name",
                                _not_allowed(f"{module}.{alias.name}", why))

    def _may_import(self, node: ast.AST, module: str) -> bool:
        refusal = _import_refusal(module)
        if refusal is not None:
            self.refuse(node, *refusal)
        return refusal is None

    # -- names --------------------------------------------------------------------------------

    def _may_bind(self, node: ast.AST, name: str) -> None:
        if name in BY_TEXT:
            self.refuse(node, "forbidden_name", f"{name} may not be given another meaning; use "
                        "another name")
        elif name.startswith("__") and name.endswith("__") and (
                name not in OWN_METHODS or name == "__name__"):
            what = "a method" if isinstance(node, ast.FunctionDef) else "the name"
            self.refuse(node, "forbidden_name", f"{what} {name} is not allowed; use a name "
                        "without underscores")

    def _Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        if node.id in DENIED_CALLS and not (node.id in OWN_NAMES and node.id in self.flow.bound):
            self.refuse(node, "forbidden_name", _not_allowed(node.id, DENIED_CALLS[node.id]))
        elif node.id in BY_TEXT and id(node) not in self._called:
            self.refuse(node, "forbidden_name",
                        f"{node.id} may only be called, with its name as plain text")
        elif _is_dunder(node.id) and node.id not in OWN_METHODS:
            self.refuse(node, "forbidden_name", f"the name {node.id} is not allowed; use a name "
                        "without underscores")

    def _Attribute(self, node: ast.Attribute) -> None:
        if node.attr == "__name__":
            self._named.add(id(node.value))
        elif node.attr == "__class__" and id(node) in self._named:
            return
        base = self.flow.of(node.value)
        if not self._may_reach(node, base, node.attr):
            return
        for ref in _sure(base):
            if isinstance(node.ctx, (ast.Store, ast.Del)):
                if hasattr(ref.value, "__dict__"):
                    self._unchanged(node, f"{ref.dotted}.{node.attr}")
            elif node.attr in CHANGES and isinstance(ref.value, _TABLES):
                self._unchanged(node, ref.dotted)

    def _may_reach(self, node: ast.AST, base: Value, name: str) -> bool:
        """Whether the attribute `name` of what an expression stands for may be used."""
        for ref in base.refs:
            if not _likely(ref, name):
                continue
            why = _use_refusal(f"{ref.dotted}.{name}")
            if why is None:
                found = self.flow.member(ref, name)
                outside = _outside(found) if found is not None else None
                outside = outside or _statistics(ref, name)
                why = _not_allowed(f"{ref.dotted}.{name}", outside) if outside else None
            if why:
                self.refuse(node, "forbidden_name", why)
                return False
        if name in INTERNALS or _is_dunder(name) and (_sure(base) or name not in OWN_METHODS):
            self.refuse(node, "forbidden_name", f"the attribute {name} is not allowed: it is an "
                        "internal of Python or Triton; do without it")
            return False
        return True

    def _unchanged(self, node: ast.AST, dotted: str) -> None:
        self.refuse(node, "monkey_patch", f"{dotted} belongs to a module and may not be changed; "
                    "keep what you need in ModelNew")

    def _Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            for ref in _sure(self.flow.of(node.value)):
                if hasattr(type(ref.value), "__setitem__"):
                    self._unchanged(node, ref.dotted)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        for ref in _sure(self.flow.of(node.target)) if isinstance(node.target, ast.Name) else ():
            if isinstance(ref.value, _TABLES):
                self._unchanged(node, ref.dotted)

    def _Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and "__" in node.value:
            for name in TELLTALES:
                if name in node.value:
                    self.refuse(node, "forbidden_name", f"the name {name} is not allowed, not "
                                "even in a string; use another word")

    def _MatchClass(self, node: ast.MatchClass) -> None:
        subject = self.flow.of(node)
        for name in node.kwd_attrs:
            self._may_reach(node, subject, name)

    # -- calls --------------------------------------------------------------------------------

    def _Call(self, node: ast.Call) -> None:
        self._called.add(id(node.func))
        if isinstance(node.func, ast.Name) and node.func.id in BY_TEXT:
            self._by_text(node, node.func.id)
        for ref in self.flow.of(node.func).refs:
            given = len(node.args) + len(node.keywords)
            starred = any(isinstance(x, ast.Starred) for x in node.args)
            if _is_metaclass(ref) and (ref.value is not type or given > 1 or starred):
                self.refuse(node, "forbidden_name", "type may only be asked for the type of a "
                            "value; write a class statement to make a class")
            elif ref.dotted == "functools.wraps" and id(node) not in self._called:
                self.refuse(node, "forbidden_name", "functools.wraps may only decorate a "
                            "function; write it as @functools.wraps(...) above one")
        twice = isinstance(node.func, ast.Call)
        marks = {ref.dotted for ref in self.flow.of(node.func.func if twice else node.func).refs}
        if marks & MARKING and (twice or "functools.wraps" not in marks):
            for ref in (ref for x in node.args for ref in _sure(self.flow.of(x))):
                self._unchanged(node, ref.dotted)
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES and node.args and (
                isinstance(node.func.value, ast.Name) and hasattr(builtins, node.func.value.id)):
            for ref in _sure(self.flow.of(node.args[0])):
                if isinstance(ref.value, _TABLES):
                    self._unchanged(node, ref.dotted)

    def _by_text(self, node: ast.Call, function: str) -> None:
        name = node.args[1] if len(node.args) > 1 else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            self.refuse(node, "forbidden_name", f"{function} needs its name as plain text")
        elif name.value.startswith("_"):
            self.refuse(node, "forbidden_name", f"{function} of {name.value} is not allowed; use a "
                        "name without underscores")
        elif function == "getattr":
            self._may_reach(node, self.flow.of(node.args[0]), name.value)

    # -- classes and functions ----------------------------------------------------------------

    def _ClassDef(self, node: ast.ClassDef) -> None:
        self._called.update(map(id, node.decorator_list))
        for base in node.bases:
            if node.name == "ModelNew" and isinstance(base, ast.Name) and base.id == "Model" and (
                    "Model" not in self.flow.classes):
                self.refuse(node, "subclasses_reference",
                            "ModelNew may not derive from Model: write it as a torch.nn.Module of "
                            "its own")
            elif any(map(_is_metaclass, self.flow.of(base).refs)):
                self._no_metaclass(node)
            elif not self._is_class(base):
                self.refuse(node, "forbidden_name",
                            f"{node.name} may only derive from classes that are named: a class of "
                            "PyTorch, or one of this file")
        for keyword in node.keywords:
            kinds = [ref.dotted for ref in self.flow.of(keyword.value).refs]
            if keyword.arg is None or keyword.arg == "metaclass" and kinds != ["abc.ABCMeta"]:
                self._no_metaclass(node)

    def _no_metaclass(self, node: ast.ClassDef) -> None:
        self.refuse(node, "forbidden_name", "metaclasses are not allowed: write a plain class")

    def _is_class(self, base: ast.expr) -> bool:
        """Whether an expression names a class: of this file, of a module, or a plain one."""
        if isinstance(base, ast.Subscript):  # Generic[T]
            base = base.value
        if isinstance(base, ast.Call):
            made = [ref.dotted for ref in self.flow.of(base.func).refs]
            return made in (["collections.namedtuple"], ["typing.NamedTuple"])
        if self.flow.of(base).refs:
            return isinstance(base, (ast.Name, ast.Attribute))
        if isinstance(base, ast.Attribute):  # a class in a class
            return base.attr in self.flow.classes
        if isinstance(base, ast.Name):
            return base.id in self.flow.classes or inspect.isclass(getattr(builtins, base.id, None))
        return False

    def _FunctionDef(self, node: ast.FunctionDef) -> None:
        self._called.update(map(id, node.decorator_list))

    def _Global(self, node: ast.Global) -> None:
        self.refuse(node, "global_state",
                    "global variables that functions change are not allowed: keep state in "
                    "ModelNew")

    def _AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.refuse(node, "forbidden_name", "async functions are not allowed: write plain ones")


# -- what may be reached --------------------------------------------------------------------------


def _not_allowed(name: str, why: str) -> str:
    """What is wrong, and what to do instead."""
    other = "use torch, triton and math" if " module " in why else ADVICE.get(why, OTHERWISE)
    return f"{name} is not allowed: it {why}; {other}"


def _sure(value: Value) -> list[Ref]:
    return [ref for ref in value.refs if not ref.loose]


def _likely(ref: Ref, name: str) -> bool:
    """Whether an expression that has the attribute `name` may well be `ref`."""
    return not ref.loose or hasattr(ref.value, name)


def _is_metaclass(ref: Ref) -> bool:
    return isinstance(ref.value, type) and issubclass(ref.value, type)


@lru_cache(maxsize=10_000)
def _import_refusal(module: str) -> tuple[str, str] | None:
    """(code, reason) where a dotted name may not be imported."""
    if module.split(".")[0] not in ALLOWED_MODULES:
        return "import", f"the module {module} is not allowed; use torch, triton and math"
    why = _use_refusal(module)
    return ("forbidden_name", why) if why else None


@lru_cache(maxsize=10_000)
def _use_refusal(dotted: str) -> str | None:
    """Why a dotted name may not be used, by its name alone."""
    denied = _denied(dotted)
    if denied:
        return _not_allowed(denied, DENIED[denied])
    parts = dotted.split(".")
    hidden = [p for p in parts[1:] if p.startswith("_") and p not in ALLOWED_DUNDERS]
    if parts[0] in ("torch", "triton") and hidden:
        return (f"{dotted} is not allowed: {hidden[0]} is an internal of {parts[0]}; use names "
                "without underscores")
    return None


def _denied(dotted: str) -> str | None:
    """The entry of DENIED that a dotted name is or lies below."""
    parts = dotted.split(".")
    names = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return next((name for name in names if name in DENIED), None)


def _outside(ref: Ref) -> str | None:
    """Why something may not be reached, wherever it was found; None where it may."""
    value = ref.value
    if ref.is_module:
        name = value.__name__
        why = _import_refusal(name)
        return f"is the module {name}" if why and name.split(".")[0] not in ALLOWED_MODULES else (
            f"is {why[1].split(' is not allowed')[0]}" if why else None)
    entry = _forbidden_objects().get(id(value))
    if entry is not None:
        return DENIED[entry]
    kind = value if isinstance(value, type) else type(value)
    if isinstance(value, type) and issubclass(value, BaseException):
        return None
    home = _home(value) or _home(kind)
    if home is None or home == "builtins":
        name = getattr(value, "__name__", None)
        if name in DENIED_CALLS or name in BY_TEXT:
            return DENIED_CALLS.get(name, "reaches names by text")
        known = kind.__name__ in vars(builtins) or not isinstance(value, type)
        return None if known else f"is {kind.__name__}, an internal of Python"
    root = home.split(".")[0]
    if not {root, root.lstrip("_").removeprefix("py_")} & ALLOWED_MODULES:
        return f"belongs to the module {home}"
    entry = _denied(f"{home}.{getattr(value, '__name__', kind.__name__)}")
    return DENIED[entry] if entry else None


def _home(value: Any) -> str | None:
    """The module in which a function or a class is defined."""
    home = getattr(value, "__module__", None)
    if not isinstance(home, str) or not home:
        owner = getattr(value, "__self__", None)
        home = getattr(owner, "__name__", None) if isinstance(owner, type(sys)) else None
    return home if isinstance(home, str) else None


def _statistics(ref: Ref, name: str) -> str | None:
    """Why an attribute of a cache of others may not be used."""
    return "tells of calls" if name.startswith("cache_") and hasattr(ref.value, "cache_info") else (
        None)


@lru_cache(maxsize=1)
def _forbidden_objects() -> dict[int, str]:
    """DENIED's entries by what they are, for those that are dangerous under any name.

    What changes global state only is told by its usual name: other walls stand behind that.
    """
    found: dict[int, str] = {}
    for dotted, why in DENIED.items():
        module, _, name = dotted.rpartition(".")
        if why == "changes global state" or module not in sys.modules:
            continue
        ref = member(imported(module), name)
        if ref is not None and (ref.is_module or callable(ref.value)):
            found[id(ref.value)] = dotted
    return found


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in ALLOWED_DUNDERS
