"""Whether a name, or what stands behind it, may be reached by a candidate; see rules.py."""

from __future__ import annotations

import builtins
import sys
from functools import lru_cache
from typing import Any

from kernel_evolve_worker.recording.names import Ref, Value, imported, member
from kernel_evolve_worker.recording.rules import (
    ADVICE,
    ALLOWED_DUNDERS,
    ALLOWED_MODULES,
    BY_TEXT,
    DENIED,
    DENIED_CALLS,
    OTHERWISE,
    SETTERS,
)


def not_allowed(name: str, why: str) -> str:
    """What is wrong, and what to do instead."""
    other = "use torch, triton and math" if " module " in why else ADVICE.get(why, OTHERWISE)
    return f"{name} is not allowed: it {why}; {other}"


def sure(value: Value) -> list[Ref]:
    return [ref for ref in value.refs if not ref.loose]


def likely(ref: Ref, name: str) -> bool:
    """Whether an expression that has the attribute `name` may well be `ref`."""
    return not ref.loose or hasattr(ref.value, name)


def is_metaclass(ref: Ref) -> bool:
    return isinstance(ref.value, type) and issubclass(ref.value, type)


@lru_cache(maxsize=10_000)
def import_refusal(module: str) -> tuple[str, str] | None:
    """(code, reason) where a dotted name may not be imported."""
    if module.split(".")[0] not in ALLOWED_MODULES:
        return "import", f"the module {module} is not allowed; use torch, triton and math"
    why = use_refusal(module)
    return ("forbidden_name", why) if why else None


@lru_cache(maxsize=10_000)
def use_refusal(dotted: str) -> str | None:
    """Why a dotted name may not be used, by its name alone."""
    denied = _denied(dotted)
    if denied:
        return not_allowed(denied, DENIED[denied])
    parts = dotted.split(".")
    if parts[:2] == ["torch", "backends"] and parts[-1].startswith(SETTERS):
        return not_allowed(dotted, "changes global state")
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


def outside(ref: Ref) -> str | None:
    """Why something may not be reached, wherever it was found; None where it may."""
    value = ref.value
    if ref.is_module:
        name = value.__name__
        why = import_refusal(name)
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


def statistics(ref: Ref, name: str) -> str | None:
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


def is_dunder(name: str) -> bool:
    return is_special(name) and name not in ALLOWED_DUNDERS


def is_special(name: str) -> bool:
    """Whether a name is one that Python gives a meaning: __init__, but not __."""
    return name.startswith("__") and name.endswith("__") and bool(name.strip("_"))
