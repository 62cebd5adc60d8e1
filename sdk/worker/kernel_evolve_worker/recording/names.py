"""Things of others, modules and what is found in them, that a candidate's expressions stand for."""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import triton

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MISSING = object()


class Ref:
    """Something of others that an expression may stand for. dotted: where it was found.

    loose: whether it may be that only in a roundabout way: some call was given it, and any call may
    give it back; or it was held by what the expression stands for.
    """

    __slots__ = ("dotted", "value", "loose")

    def __init__(self, dotted: str, value: Any, loose: bool = False) -> None:
        self.dotted = dotted
        self.value = value
        self.loose = loose

    def loosely(self) -> Ref:
        return self if self.loose else Ref(self.dotted, self.value, True)

    @property
    def is_module(self) -> bool:
        return issubclass(type(self.value), types.ModuleType)

    @property
    def carries(self) -> bool:
        """Whether it matters where a call takes this: modules and their tables do."""
        return self.is_module or isinstance(self.value, (dict, list, set))


class Value:
    """What an expression may be (`here`) and may contain (`inside`), by identity."""

    __slots__ = ("here", "inside")

    def __init__(self, here: Iterable[Ref] = (), inside: Iterable[Ref] = ()) -> None:
        self.here: dict[int, Ref] = {}
        self.inside: dict[int, Ref] = {}
        _keep(self.here, here)
        _keep(self.inside, inside)

    def add(self, other: Value) -> bool:
        """Whether something is new."""
        return (_keep(self.here, other.here.values())
                | _keep(self.inside, other.inside.values()))

    def __bool__(self) -> bool:
        return bool(self.here or self.inside)

    def __len__(self) -> int:
        return len(self.here) + len(self.inside)

    @property
    def refs(self) -> list[Ref]:
        return list(self.here.values())

    def all(self) -> list[Ref]:
        return [*self.here.values(), *self.inside.values()]


def _keep(known: dict[int, Ref], refs: Iterable[Ref]) -> bool:
    """Adds refs, each by the surest that is known of it."""
    new = False
    for ref in refs:
        old = known.get(id(ref.value))
        if old is None or old.loose and not ref.loose:
            known[id(ref.value)] = ref
            new = True
    return new


EMPTY = Value()  # never added to


class SomeClass:
    """Stands for the class of something that can't be told."""


class _Kernel:
    """Stands for every kernel of the source."""

    __slots__ = ()


KERNEL = _Kernel()


@lru_cache(maxsize=1)
def kernel_attributes() -> frozenset[str]:
    """What Triton's kernels have as attributes, tuned or not."""
    made = triton.jit(_any_kernel)
    tuned = triton.autotune(configs=[triton.Config({})], key=[])(made)
    names = {*dir(made), *dir(tuned), *dir(triton.heuristics({})(made))}
    return frozenset(name for name in names if not name.startswith("__"))


def _any_kernel() -> None:
    pass


@lru_cache(maxsize=1)
def kernel_makers() -> frozenset[int]:
    """What makes kernels, by identity."""
    return frozenset(map(id, (triton.jit, triton.autotune, triton.heuristics)))


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


def has(ref: Ref, name: str) -> bool:
    """Whether a module has a name, whatever it is."""
    try:
        return hasattr(ref.value, name)
    except Exception:  # noqa: BLE001 - a module may compute its names
        return True


@lru_cache(maxsize=1000)
def imported(dotted: str) -> Ref:
    """The module called so, an empty one, always the same, where it can't be imported."""
    try:
        module = importlib.import_module(dotted)
    except Exception:  # noqa: BLE001 - the candidate will meet the same error
        module = types.ModuleType(dotted)
    return Ref(dotted, module)
