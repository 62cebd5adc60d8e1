"""What a candidate could change in modules of others: their code, and state that it could count in.

Their functions are PyTorch's, Triton's and Python's own, which keep caches and statistics; so only
what grows or is set shows here, one level deep, and what those libraries change by themselves in
every call is left out.
"""

from __future__ import annotations

import abc
import collections
import sys
import types
from typing import Any

import torch

_CONTAINERS = (list, dict, set, collections.deque)
_SCALARS = (bool, int, float, str, bytes, type(None))
_FEW = 64  # elements of a container that are looked at one by one

State = dict[tuple[str, ...], Any]

# Where code is looked at: what candidates and the recording use. Much else is loaded, too.
_PUBLIC = ("torch.autograd", "torch.backends", "torch.cuda", "torch.nn", "torch.utils", "triton")
_SINGLE = frozenset({"torch", "torch._C", "torch._ops", "torch._tensor", "torch.functional",
                     "torch.overrides", "torch.random"})


def foreign_code() -> State:
    """Functions, classes and what classes define, by (module, name) or (module, class, name)."""
    found: State = {}
    for name, module in list(sys.modules.items()):
        if not (name in _SINGLE or name.startswith(_PUBLIC)) or (
                type(module) is not types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            kind = type(value)
            if issubclass(kind, type):
                found[name, key] = value
                if value.__module__ == name:
                    for part, member in list(vars(value).items()):
                        if hasattr(type(member), "__get__"):
                            found[name, key, part] = member
            elif hasattr(kind, "__get__"):
                found[name, key] = value
    return found


def first_patch(before: State, after: State) -> str | None:
    """"torch.Tensor.add" where something else is in its place, or it is gone; None where all is.

    What PyTorch puts there itself, as its compiler does when it is loaded, isn't told; of what is
    added, functions are, where their module or class was there before.
    """
    for path, value in before.items():
        if path not in after or after[path] is not value and not _of_libraries(after[path]):
            return ".".join(path)
    owners = {path[:-1] for path in before}
    return next((".".join(path) for path in after.keys() - before.keys() if path[:-1] in owners
                 and type(after[path]) is types.FunctionType and not _of_libraries(after[path])),
                None)


def _of_libraries(value: Any) -> bool:
    """Whether a function or class is code of PyTorch or Triton."""
    for inner in ("__func__", "fget"):
        value = getattr(value, inner, value)
    home = (value.__globals__.get("__name__") if isinstance(value, types.FunctionType)
            else getattr(value, "__module__", None))  # a function's __module__ may be copied
    return isinstance(home, str) and home.partition(".")[0] in ("torch", "triton")


def foreign_state(roots: frozenset[str]) -> State:
    """What the modules below `roots` hold, by (module, name) or (module, class, name)."""
    found: State = {
        ("abc", "registered classes"): abc.get_cache_token(),
        ("torch", "the random seed"): torch.initial_seed(),
        ("torch", "the random state"): hash(bytes(torch.get_rng_state().numpy())),
    }
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in roots or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            kind = type(value)  # isinstance would ask the value, which may warn
            if issubclass(kind, type):
                if value.__module__ == name:
                    _members(found, (name, key), vars(value))
            elif kind is types.FunctionType:
                if value.__dict__ and value.__module__ == name:
                    _members(found, (name, key), value.__dict__)
            else:
                _note(found, (name, key), value)
    return found


def first_foreign_change(before: State, after: State) -> str | None:
    """"warnings.filters" where that differs, None where all agree."""
    for path in [*after, *(path for path in before if path not in after)]:
        if before.get(path) != after.get(path):
            return ".".join(path)
    return None


def _members(found: State, path: tuple[str, ...], members: Any) -> None:
    for key, value in list(members.items()):
        if type(value) is not types.FunctionType:
            _note(found, (*path, str(key)), value)


def _note(found: State, path: tuple[str, ...], value: Any) -> None:
    kind = type(value)
    if kind in _SCALARS:
        found[path] = repr(value) if kind is float else value
    elif issubclass(kind, _CONTAINERS):
        few = list(value)[:_FEW] if len(value) <= _FEW else []
        if issubclass(kind, dict):
            few += list(value.values())[:_FEW] if few else []
        found[path] = (len(value), tuple(_mark(x) for x in few))


def _mark(value: Any) -> Any:
    kind = type(value)
    return repr(value) if kind is float else value if kind in _SCALARS else id(value)
