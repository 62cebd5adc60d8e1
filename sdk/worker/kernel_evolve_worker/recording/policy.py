"""What a candidate's source may say, checked before any of it runs.

The rules keep a candidate inside PyTorch and Triton: a short list of modules, no dynamic code, no
change to anything outside its own classes. What an expression may stand for is found out by
names.py, so that another spelling or a detour makes no difference. They exist to give clear
refusals early; containing hostile code is the sandbox's task. `check(source)` returns the first
refusal, or None.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kernel_evolve_worker.recording.names import Flow, Ref, Value, imported, member

MAX_SOURCE_BYTES = 256 * 1024  # far above any kernel; bounds the work of every later stage

# Modules that may be imported, with everything below them unless DENIED says otherwise.
ALLOWED_MODULES = frozenset({
    "__future__", "abc", "collections", "contextlib", "dataclasses", "enum", "functools",
    "itertools", "math", "numbers", "torch", "triton", "typing", "typing_extensions", "warnings",
})  # fmt: skip

# Parts of PyTorch and Triton that load code, reach the disk, change global state, or take the
# clock, the compiler or the driver into the candidate's hands.
DENIED = {
    "torch.load": "reads files",
    "torch.save": "writes files",
    "torch.ops": "calls operators by name",
    "torch.classes": "loads code",
    "torch.hub": "downloads code",
    "torch.jit": "compiles Python by other means",
    "torch.compile": "is the baseline, not a kernel",
    "torch.library": "registers operators",
    "torch.package": "loads code",
    "torch.multiprocessing": "starts processes",
    "torch.distributed": "starts processes",
    "torch.overrides": "changes how PyTorch dispatches",
    "torch.utils.cpp_extension": "compiles C++",
    "torch.utils.dlpack": "hands memory out",
    "torch.utils.benchmark": "runs text as code",
    "torch.utils.bottleneck": "runs text as code",
    "torch.utils.collect_env": "starts processes",
    "torch.utils.data.DataLoader": "starts processes",
    "torch.utils.tensorboard": "writes files",
    "torch.serialization": "reads files",
    "torch.onnx": "writes files",
    "torch.profiler": "takes the clock",
    "torch.autograd.profiler": "takes the clock",
    "torch.cuda.profiler": "takes the clock",
    "torch.from_file": "reads files",
    "torch.fx": "rewrites programs",
    "torch.export": "rewrites programs",
    "torch.cuda.CUDAGraph": "replays work that can't be recorded",
    "torch.cuda.graph": "replays work that can't be recorded",
    "torch.cuda.graphs": "replays work that can't be recorded",
    "torch.cuda.make_graphed_callables": "replays work that can't be recorded",
    "torch.manual_seed": "changes global state",
    "torch.seed": "changes global state",
    "torch.set_default_device": "changes global state",
    "torch.set_default_dtype": "changes global state",
    "torch.set_default_tensor_type": "changes global state",
    "torch.set_num_threads": "changes global state",
    "torch.set_rng_state": "changes global state",
    "torch.set_float32_matmul_precision": "changes global state",
    "torch.use_deterministic_algorithms": "changes global state",
    "triton.backends": "reaches the compiler",
    "triton.compiler": "reaches the compiler",
    "triton.knobs": "reaches the compiler",
    "triton.testing": "takes the clock",
    "triton.profiler": "takes the clock",
    "triton.runtime.interpreter": "replaces the compiler",
    "triton.runtime.build": "compiles C",
    "triton.runtime.cache": "reaches the disk",
    "triton.runtime.driver.set_active": "replaces the driver",
    "triton.runtime.driver.reset_active": "replaces the driver",
    "triton.runtime.driver.driver": "replaces the driver",
    "triton.tools.build_extern": "starts processes",
    "triton.tools.compile": "reaches the compiler",
    "triton.tools.disasm": "starts processes",
    "triton.tools.link": "reaches the compiler",
}

DENIED_CALLS = {
    "exec": "runs text as code", "eval": "runs text as code", "compile": "runs text as code",
    "open": "reaches the disk", "input": "reads the terminal", "breakpoint": "stops the program",
    "__import__": "imports by name", "globals": "reaches names by text",
    "locals": "reaches names by text", "vars": "reaches names by text",
    "setattr": "sets attributes by name", "delattr": "deletes attributes by name",
    "memoryview": "reaches memory", "__build_class__": "makes classes by hand", "exit": "ends the "
    "program", "quit": "ends the program", "help": "reads the terminal",
}  # fmt: skip

# Values that may be called with plain text only.
_BY_TEXT = ("getattr", "hasattr")

# Attributes that lead from an object to frames, code or the globals of others.
_FRAMES = frozenset({
    "ag_await", "ag_code", "ag_frame", "cr_await", "cr_code", "cr_frame", "cr_origin", "f_back",
    "f_builtins", "f_code", "f_globals", "f_lasti", "f_lineno", "f_locals", "f_trace",
    "get_capture_scope", "gi_code", "gi_frame", "gi_yieldfrom", "tb_frame", "tb_lasti", "tb_next",
    "used_global_vals",
})  # fmt: skip

# What changes a list, a table or a set.
_CHANGES = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "insert",
    "intersection_update", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault",
    "sort", "symmetric_difference_update", "update",
})  # fmt: skip

ALLOWED_DUNDERS = frozenset({
    "__init__", "__name__", "__doc__", "__version__", "__post_init__", "__call__", "__repr__",
    "__all__", "__annotations__", "__main__", "__future__", "__hash__", "__eq__", "__len__",
    "__iter__", "__next__", "__enter__", "__exit__", "__getitem__", "__slots__",
})  # fmt: skip

# Methods that a class may define beside those: operators, and what the recording itself judges.
_OWN_METHODS = ALLOWED_DUNDERS | {
    f"__{name}__" for name in (
        "abs add and bool bytes ceil complex contains delitem divmod enter eq exit float floor "
        "floordiv format ge gt iadd imul index int invert isub itruediv le length_hint lt matmul "
        "missing mod mul ne neg or pos pow radd reversed rfloordiv rmatmul rmod rmul round rpow "
        "rsub rtruediv setitem str sub torch_dispatch torch_function truediv trunc xor").split()}

# Names that have no business in a kernel file, not even inside a string.
_TELLTALES = ("__globals__", "__builtins__", "__subclasses__", "__import__", "__code__", "__dict__",
              "__mro__", "__bases__", "__getattribute__", "__reduce__", "__loader__")


@dataclass(frozen=True)
class Refusal:
    """Why a candidate isn't run. reason: one sentence; line: the candidate's line."""

    stage: str  # "parse" or "policy"
    code: str
    reason: str
    line: int | None


def check(source: str) -> Refusal | None:
    """The first reason to refuse `source`, in the order of its lines, or None."""
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
        checker = _Checker(tree)
        checker.visit(tree)
    except RecursionError:
        return Refusal("parse", "syntax_error", "the file is nested too deeply to be parsed.", None)
    if checker.found:
        return min(checker.found, key=lambda refusal: refusal.line or 0)
    classes = [n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    if "ModelNew" not in classes:
        return Refusal("policy", "no_model_new",
                       "the file has no class ModelNew: define one with the reference's "
                       "constructor and forward.", None)
    return None


class _Checker(ast.NodeVisitor):
    """Collects refusals."""

    def __init__(self, tree: ast.AST) -> None:
        self.found: list[Refusal] = []
        self.flow = Flow(tree, lambda dotted: _import_refusal(dotted) is None)
        self._called: set[int] = set()

    def refuse(self, node: ast.AST, code: str, reason: str) -> None:
        line = getattr(node, "lineno", None)
        self.found.append(Refusal("policy", code, f"line {line}: {reason}.", line))

    # -- imports ------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._may_import(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self.refuse(node, "import", "imports of neighbouring files are not allowed")
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
                                f"{module}.{alias.name} is not allowed: it {why}")

    def _may_import(self, node: ast.AST, module: str) -> bool:
        refusal = _import_refusal(module)
        if refusal is not None:
            self.refuse(node, *refusal)
        return refusal is None

    # -- names --------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            if _is_dunder(node.id):
                self.refuse(node, "forbidden_name", f"the name {node.id} is not allowed")
        elif node.id in DENIED_CALLS:
            self.refuse(node, "forbidden_name",
                        f"{node.id} is not allowed: it {DENIED_CALLS[node.id]}")
        elif node.id in _BY_TEXT and id(node) not in self._called:
            self.refuse(node, "forbidden_name",
                        f"{node.id} may only be called, with its name as plain text")
        elif _is_dunder(node.id):
            self.refuse(node, "forbidden_name", f"the name {node.id} is not allowed")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        base = self.flow.of(node.value)
        if not self._may_reach(node, base, node.attr):
            return
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            for ref in base.refs:
                self._unchanged(node, f"{ref.dotted}.{node.attr}")
        self.generic_visit(node)

    def _may_reach(self, node: ast.AST, base: Value, name: str) -> bool:
        """Whether the attribute `name` of what an expression stands for may be used."""
        for ref in base.refs:
            why = _use_refusal(f"{ref.dotted}.{name}")
            if why is None:
                found = member(ref, name)
                outside = _outside(found) if found is not None else None
                outside = outside or _statistics(ref, name)
                why = f"{ref.dotted}.{name} is not allowed: it {outside}" if outside else None
            if why:
                self.refuse(node, "forbidden_name", why)
                return False
        if _is_dunder(name) or name in _FRAMES:
            self.refuse(node, "forbidden_name", f"the attribute {name} is not allowed")
        return True

    def _unchanged(self, node: ast.AST, dotted: str) -> None:
        self.refuse(node, "monkey_patch", f"{dotted} belongs to a module and may not be changed")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            for ref in self.flow.of(node.value).refs:
                self._unchanged(node, ref.dotted)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            for name in _TELLTALES:
                if name in node.value:
                    self.refuse(node, "forbidden_name", f"the name {name} is not allowed, not "
                                "even in a string")

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        subject = self.flow.of(node)
        for name in node.kwd_attrs:
            self._may_reach(node, subject, name)
        self.generic_visit(node)

    # -- statements ---------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            self._called.add(id(node.func))
            if node.func.id in _BY_TEXT:
                self._by_text(node, node.func.id)
            elif node.func.id == "type" and len(node.args) + len(node.keywords) > 1:
                self.refuse(node, "forbidden_name",
                            "type may only be asked for the type of a value")
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            for ref in self.flow.of(node.func.value).refs:
                if isinstance(ref.value, (list, dict, set)):
                    self._unchanged(node, ref.dotted)
        self.generic_visit(node)

    def _by_text(self, node: ast.Call, function: str) -> None:
        name = node.args[1] if len(node.args) > 1 else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            self.refuse(node, "forbidden_name", f"{function} needs its name as plain text")
        elif name.value.startswith("_"):
            self.refuse(node, "forbidden_name", f"{function} of {name.value} is not allowed")
        elif function == "getattr":
            self._may_reach(node, self.flow.of(node.args[0]), name.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            if node.name == "ModelNew" and isinstance(base, ast.Name) and base.id == "Model" and (
                    "Model" not in self.flow.classes):
                self.refuse(node, "subclasses_reference",
                            "ModelNew may not derive from Model: write it as a torch.nn.Module of "
                            "its own")
            elif isinstance(base, ast.Name) and base.id == "type":
                self.refuse(node, "forbidden_name", "metaclasses are not allowed")
            elif not self._is_class(base):
                self.refuse(node, "forbidden_name",
                            f"{node.name} may only derive from classes that are named: a class of "
                            "PyTorch, or one of this file")
        if any(keyword.arg == "metaclass" for keyword in node.keywords):
            self.refuse(node, "forbidden_name", "metaclasses are not allowed")
        self.generic_visit(node)

    def _is_class(self, base: ast.expr) -> bool:
        """Whether an expression names a class: of this file, of a module, or a plain one."""
        if isinstance(base, ast.Subscript):  # Generic[T]
            base = base.value
        known = self.flow.of(base).refs
        if isinstance(base, ast.Call):
            made = [ref.dotted for ref in self.flow.of(base.func).refs]
            return made in (["collections.namedtuple"], ["typing.NamedTuple"])
        if known:
            return isinstance(base, (ast.Name, ast.Attribute))
        if isinstance(base, ast.Name):
            return base.id in self.flow.classes or inspect.isclass(getattr(builtins, base.id, None))
        return False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name.startswith("__") and node.name.endswith("__") and (
                node.name not in _OWN_METHODS):
            self.refuse(node, "forbidden_name", f"a method {node.name} is not allowed")
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.refuse(node, "global_state",
                    "global variables that functions change are not allowed: keep state in "
                    "ModelNew")

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.refuse(node, "forbidden_name", "async functions are not allowed")


# -- what may be reached --------------------------------------------------------------------------


def _import_refusal(module: str) -> tuple[str, str] | None:
    """(code, reason) where a dotted name may not be imported."""
    if module.split(".")[0] not in ALLOWED_MODULES:
        return "import", f"the module {module} is not allowed; use torch, triton and math"
    why = _use_refusal(module)
    return ("forbidden_name", why) if why else None


def _use_refusal(dotted: str) -> str | None:
    """Why a dotted name may not be used, by its name alone."""
    denied = _denied(dotted)
    if denied:
        return f"{denied} is not allowed: it {DENIED[denied]}"
    parts = dotted.split(".")
    hidden = [p for p in parts[1:] if p.startswith("_") and p not in ALLOWED_DUNDERS]
    if parts[0] in ("torch", "triton") and hidden:
        return f"{dotted} is not allowed: {hidden[0]} is an internal of {parts[0]}"
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
        if name in DENIED_CALLS or name in _BY_TEXT:
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
