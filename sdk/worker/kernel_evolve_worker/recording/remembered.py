"""What a candidate's Python remembers between calls: attributes, globals, defaults, closures.

A forward that counts its calls can behave while it is recorded and cheat later. Nothing that it can
reach may change from one call to the next, once the first call is over.
"""

from __future__ import annotations

import operator
import types
from typing import Any

import torch

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_DEEP = 40  # levels; deeper structures are compared by type only
_MANY = 100_000  # values looked at; a candidate that keeps more is compared up to there


def remembered(module: types.ModuleType, model: torch.nn.Module) -> dict[str, str]:
    """Every plain value that `model` or its module can reach, by the path to it.

    Tensors count by identity (their values are the recorder's business), Triton's functions not at
    all: they fill caches of their own.
    """
    walk = _Walk(module.__name__)
    walk.visit("", {k: v for k, v in vars(module).items() if not k.startswith("__")}, 0)
    walk.visit("self", model, 0)
    return walk.found


def first_change(before: dict[str, str], after: dict[str, str]) -> str | None:
    """The path of a value that differs or exists in one of the two only; None when all agree."""
    for path, value in after.items():
        if before.get(path) != value:
            return path
    return next((path for path in before if path not in after), None)


class _Walk:
    def __init__(self, module: str) -> None:
        self.module = module
        self.found: dict[str, str] = {}
        self.seen: dict[int, Any] = {}  # kept alive: an id must not be used again meanwhile

    def visit(self, path: str, value: Any, depth: int) -> None:
        if len(self.found) >= _MANY:
            return
        if isinstance(value, _SCALARS):
            self.found[path] = repr(value)
            return
        self.found[path] = type(value).__name__
        if id(value) in self.seen or depth >= _DEEP:
            return
        self.seen[id(value)] = value
        for name, part in self._parts(path, value):
            self.visit(name, part, depth + 1)

    def _parts(self, path: str, value: Any) -> list[tuple[str, Any]]:
        dot = f"{path}." if path else ""
        if isinstance(value, torch.Tensor):
            return [(f"{path} (identity)", id(value))]
        if isinstance(value, dict):
            return [(f"{path}[{key!r}]" if path else str(key), part)
                    for key, part in value.items() if isinstance(key, _SCALARS)] + [
                        (f"len({path})", len(value))]
        if isinstance(value, (list, tuple)):
            return [(f"{path}[{i}]", part) for i, part in enumerate(value)]
        if isinstance(value, (set, frozenset)):
            return [(f"{path} (items)", repr(sorted(map(repr, value))))]
        if isinstance(value, types.FunctionType):
            if value.__module__ != self.module:
                return []
            cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
            return [(f"{path} (defaults)", value.__defaults__), (f"{path} (closure)", cells),
                    (f"{path} (attributes)", dict(vars(value))),
                    (f"{path} (keywords)", value.__kwdefaults__)]
        if isinstance(value, types.MethodType):
            return [(f"{path} (function)", value.__func__), (f"{path} (owner)", value.__self__)]
        if isinstance(value, types.GeneratorType):
            return [(f"{path} (position)", value.gi_frame.f_lasti if value.gi_frame else -1),
                    (f"{path} (locals)", dict(value.gi_frame.f_locals) if value.gi_frame else {})]
        if isinstance(value, type):
            return [(f"{dot}{k}", v) for k, v in vars(value).items()
                    if not k.startswith("__") or k == "__init__"
                    ] if value.__module__ == self.module else []
        if isinstance(value, torch.nn.Module) or type(value).__module__ == self.module:
            slots = [(f"{dot}{name}", getattr(value, name))
                     for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())
                     if isinstance(name, str) and hasattr(value, name)]
            inside = [(f"{dot}{k}", v) for k, v in getattr(value, "__dict__", {}).items()]
            return inside + slots + [(f"{path} (class)", type(value))]
        if type(value).__module__ in ("itertools", "collections"):
            return [(f"{path} (value)", repr(value))]
        if hasattr(value, "__next__"):
            return [(f"{path} (left)", operator.length_hint(value, -1))]
        if isinstance(value, bytearray):
            return [(f"{path} (value)", bytes(value))]
        return []


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises when the cell is empty
    except ValueError:
        return False
    return True
