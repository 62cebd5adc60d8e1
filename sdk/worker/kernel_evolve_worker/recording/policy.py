"""What a candidate's source may say, checked before any of it runs.

The rules keep a candidate inside PyTorch and Triton: a short list of modules, no dynamic code, no
change to anything outside its own classes. They exist to give clear refusals early; containing
hostile code is the sandbox's task. `check(source)` returns the first refusal, or None.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

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
    "triton.tools.compile": "reaches the compiler",
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

ALLOWED_DUNDERS = frozenset({
    "__init__", "__name__", "__doc__", "__version__", "__post_init__", "__call__", "__repr__",
    "__all__", "__annotations__", "__main__", "__future__", "__hash__", "__eq__", "__len__",
    "__iter__", "__next__", "__enter__", "__exit__", "__getitem__", "__slots__",
})  # fmt: skip

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
    checker = _Checker()
    try:
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
    """Collects refusals. `modules` maps a local name to the dotted name that it stands for."""

    def __init__(self) -> None:
        self.found: list[Refusal] = []
        self.modules: dict[str, str] = {}

    def refuse(self, node: ast.AST, code: str, reason: str) -> None:
        line = getattr(node, "lineno", None)
        self.found.append(Refusal("policy", code, f"line {line}: {reason}.", line))

    # -- imports ------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if self._may_import(node, alias.name):
                local = alias.asname or alias.name.split(".")[0]
                self.modules[local] = alias.name if alias.asname else local

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
                continue
            full = f"{module}.{alias.name}"
            if self._may_import(node, full):
                self.modules[alias.asname or alias.name] = full

    def _may_import(self, node: ast.AST, module: str) -> bool:
        if module.split(".")[0] not in ALLOWED_MODULES:
            self.refuse(node, "import",
                        f"the module {module} is not allowed; use torch, triton and math")
            return False
        return self._may_use(node, module)

    def _may_use(self, node: ast.AST, dotted: str) -> bool:
        """Whether a dotted name below an imported module may be used."""
        parts = dotted.split(".")
        for count in range(1, len(parts) + 1):
            why = DENIED.get(".".join(parts[:count]))
            if why:
                self.refuse(node, "forbidden_name", f"{'.'.join(parts[:count])} is not allowed: "
                            f"it {why}")
                return False
        hidden = [p for p in parts[1:] if p.startswith("_") and p not in ALLOWED_DUNDERS]
        if parts[0] in ("torch", "triton") and hidden:
            self.refuse(node, "forbidden_name",
                        f"{dotted} is not allowed: {hidden[0]} is an internal of {parts[0]}")
            return False
        return True

    # -- names --------------------------------------------------------------------------------

    def dotted(self, node: ast.AST) -> str | None:
        """"torch.cuda.graph" for such an expression, None where it isn't below a module."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.modules:
            return ".".join([self.modules[node.id], *reversed(parts)])
        return None

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in DENIED_CALLS and isinstance(node.ctx, ast.Load):
            self.refuse(node, "forbidden_name",
                        f"{node.id} is not allowed: it {DENIED_CALLS[node.id]}")
        elif _is_dunder(node.id):
            self.refuse(node, "forbidden_name", f"the name {node.id} is not allowed")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        dotted = self.dotted(node)
        if dotted is not None:
            if not self._may_use(node, dotted):
                return
        elif _is_dunder(node.attr):
            self.refuse(node, "forbidden_name", f"the attribute {node.attr} is not allowed")
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            self._may_assign(node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            dotted = self.dotted(node.value)
            if dotted is not None:
                self.refuse(node, "monkey_patch", f"{dotted} belongs to a module and may not be "
                            "changed")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            for name in _TELLTALES:
                if name in node.value:
                    self.refuse(node, "forbidden_name", f"the name {name} is not allowed, not "
                                "even in a string")

    # -- statements ---------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        # `F = torch.nn.functional` makes F another name of a module's part.
        dotted = self.dotted(node.value)
        if dotted is not None:
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.modules[target.id] = dotted

    def _may_assign(self, node: ast.Attribute) -> None:
        dotted = self.dotted(node)
        if dotted is not None:
            self.refuse(node, "monkey_patch",
                        f"{dotted} belongs to a module and may not be changed")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            name = node.args[1] if len(node.args) > 1 else None
            if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                self.refuse(node, "forbidden_name",
                            f"{node.func.id} needs its name as plain text")
            elif name.value.startswith("_"):
                self.refuse(node, "forbidden_name", f"{node.func.id} of {name.value} is not "
                            "allowed")
            elif node.func.id == "getattr":
                base = self.dotted(node.args[0])
                if base is not None and not self._may_use(node, f"{base}.{name.value}"):
                    return
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            if node.name == "ModelNew" and isinstance(base, ast.Name) and base.id == "Model":
                self.refuse(node, "subclasses_reference",
                            "ModelNew may not derive from Model: write it as a torch.nn.Module of "
                            "its own")
            if isinstance(base, ast.Name) and base.id == "type":
                self.refuse(node, "forbidden_name", "metaclasses are not allowed")
        if any(keyword.arg == "metaclass" for keyword in node.keywords):
            self.refuse(node, "forbidden_name", "metaclasses are not allowed")
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.refuse(node, "global_state",
                    "global variables that functions change are not allowed: keep state in "
                    "ModelNew")

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.refuse(node, "forbidden_name", "async functions are not allowed")


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in ALLOWED_DUNDERS
