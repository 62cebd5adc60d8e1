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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernel_evolve_worker.recording.expressions import TooTangled
from kernel_evolve_worker.recording.flow import Flow
from kernel_evolve_worker.recording.names import (
    KERNEL,
    SomeClass,
    Value,
    kernel_attributes,
)
from kernel_evolve_worker.recording.reach import (
    import_refusal,
    is_dunder,
    is_metaclass,
    is_special,
    likely,
    not_allowed,
    outside,
    statistics,
    sure,
    use_refusal,
)
from kernel_evolve_worker.recording.rules import (
    BY_TEXT,
    CHANGES,
    DENIED,
    DENIED_CALLS,
    INTERNALS,
    MARKING,
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
        self.flow = Flow(tree, lambda dotted: import_refusal(dotted) is None)
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
                why = outside(found) if found is not None else None
                if why:
                    self.refuse(node, "import" if found.is_module else "forbidden_name",
                                not_allowed(f"{module}.{alias.name}", why))

    def _may_import(self, node: ast.AST, module: str) -> bool:
        refusal = import_refusal(module)
        if refusal is not None:
            self.refuse(node, *refusal)
        return refusal is None

    # -- names --------------------------------------------------------------------------------

    def _may_bind(self, node: ast.AST, name: str) -> None:
        if name in BY_TEXT:
            self.refuse(node, "forbidden_name", f"{name} may not be given another meaning; use "
                        "another name")
        elif is_special(name) and (name not in OWN_METHODS or name == "__name__"):
            what = "a method" if isinstance(node, ast.FunctionDef) else "the name"
            self.refuse(node, "forbidden_name", f"{what} {name} is not allowed; use a name "
                        "without underscores")

    def _Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        if node.id in DENIED_CALLS and not (node.id in OWN_NAMES and node.id in self.flow.bound):
            self.refuse(node, "forbidden_name", not_allowed(node.id, DENIED_CALLS[node.id]))
        elif node.id in BY_TEXT and id(node) not in self._called:
            self.refuse(node, "forbidden_name",
                        f"{node.id} may only be called, with its name as plain text")
        elif is_dunder(node.id) and node.id not in OWN_METHODS:
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
        stored = isinstance(node.ctx, (ast.Store, ast.Del))
        if stored and self._of_kernel(node):
            self._kernel_unchanged(node, node.attr)
        elif node.attr in CHANGES and self._of_kernel(node.value):
            self._kernel_unchanged(node, _last_name(node.value))
        for ref in sure(base):
            if stored:
                if hasattr(ref.value, "__dict__"):
                    self._unchanged(node, f"{ref.dotted}.{node.attr}")
            elif node.attr in CHANGES and isinstance(ref.value, _TABLES):
                self._unchanged(node, ref.dotted)

    def _may_reach(self, node: ast.AST, base: Value, name: str) -> bool:
        """Whether the attribute `name` of what an expression stands for may be used."""
        for ref in base.refs:
            if not likely(ref, name):
                continue
            why = use_refusal(f"{ref.dotted}.{name}")
            if why is None:
                found = self.flow.member(ref, name)
                what = (outside(found) if found is not None else None) or statistics(ref, name)
                why = not_allowed(f"{ref.dotted}.{name}", what) if what else None
            if why:
                self.refuse(node, "forbidden_name", why)
                return False
        if name in INTERNALS or is_dunder(name) and (sure(base) or name not in OWN_METHODS):
            self.refuse(node, "forbidden_name", f"the attribute {name} is not allowed: it is an "
                        "internal of Python or Triton; do without it")
            return False
        if name == "compile" and name not in self.flow.bound:  # any module's, by torch.compile
            self.refuse(node, "forbidden_name", not_allowed(name, DENIED["torch.compile"]))
            return False
        return True

    def _unchanged(self, node: ast.AST, dotted: str) -> None:
        self.refuse(node, "monkey_patch", f"{dotted} belongs to a module and may not be changed; "
                    "keep what you need in ModelNew")

    def _of_kernel(self, node: ast.AST) -> bool:
        """Whether an expression is an attribute that Triton gives kernels, or lies below one."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Attribute) and node.attr in kernel_attributes():
                if any(ref.value is KERNEL for ref in sure(self.flow.of(node.value))):
                    return True
            node = node.value
        return False

    def _kernel_unchanged(self, node: ast.AST, name: str) -> None:
        self.refuse(node, "monkey_patch", f"{name} of a kernel belongs to Triton and may not be "
                    "changed; say it in the kernel's source or in its decorators")

    def _Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            if self._of_kernel(node.value):
                self._kernel_unchanged(node, _last_name(node.value))
            for ref in sure(self.flow.of(node.value)):
                if hasattr(type(ref.value), "__setitem__"):
                    self._unchanged(node, ref.dotted)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        for ref in sure(self.flow.of(node.target)) if isinstance(node.target, ast.Name) else ():
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
            if is_metaclass(ref) and (ref.value is not type or given > 1 or starred):
                self.refuse(node, "forbidden_name", "type may only be asked for the type of a "
                            "value; write a class statement to make a class")
            elif ref.dotted == "functools.wraps" and id(node) not in self._called:
                self.refuse(node, "forbidden_name", "functools.wraps may only decorate a "
                            "function; write it as @functools.wraps(...) above one")
        twice = isinstance(node.func, ast.Call)
        marks = {ref.dotted for ref in self.flow.of(node.func.func if twice else node.func).refs}
        if marks & MARKING and (twice or "functools.wraps" not in marks):
            for ref in (ref for x in node.args for ref in sure(self.flow.of(x))):
                self._unchanged(node, ref.dotted)
        if isinstance(node.func, ast.Attribute) and node.args and any(
                isinstance(ref.value, type) for ref in sure(self.flow.of(node.func.value))):
            for ref in sure(self.flow.of(node.args[0])):  # in the place of self
                if ref.is_module or isinstance(ref.value, type):
                    self._unchanged(node, ref.dotted)
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES and node.args and (
                isinstance(node.func.value, ast.Name) and hasattr(builtins, node.func.value.id)):
            for ref in sure(self.flow.of(node.args[0])):
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
            elif any(map(is_metaclass, self.flow.of(base).refs)):
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
        refs = self.flow.of(base).refs
        if refs:
            told = not any(ref.value is SomeClass for ref in refs)
            return told and isinstance(base, (ast.Name, ast.Attribute))
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


def _last_name(node: ast.AST) -> str:
    """The last attribute that an expression names."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else "what"
