"""What a candidate's Python remembers between calls: everything it can reach that may change.

A forward that counts its calls can behave while it is recorded and cheat later. Nothing that it can
reach may change from one call to the next, once the first call is over: attributes, globals,
defaults, closures, positions of iterators, statistics of caches, attributes of tensors and kernels.
An object whose state can't be seen is refused. Modules of others are in foreign.py.
"""

from __future__ import annotations

import abc
import collections
import functools
import gc
import hashlib
import itertools
import sys
import types
import warnings
import weakref
from collections.abc import Iterable
from typing import Any

import torch

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_DEEP = 200  # levels
_MANY = 200_000  # values

# Can't change, or only by what is compared elsewhere.
_FIXED = (
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo, range,
    type(Ellipsis), type(NotImplemented), types.CodeType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.ModuleType, types.GenericAlias, types.UnionType,
    type(abc.ABC._abc_impl),
)  # fmt: skip
_SHOWN = (itertools.count, itertools.repeat)  # their text says where they are
_NAMED_OWNERS = (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodType)


class Opaque(Exception):
    """The candidate keeps something that can't be compared; the text is one sentence."""


def remembered(module: types.ModuleType, model: torch.nn.Module, tensors: Iterable[Any] = (),
               counts_hits: bool = False) -> dict[str, str]:
    """Every plain value that `model`, its module or `tensors` can reach, by the path to it.

    Tensors count by identity, form and attributes; their values are the recorder's business.
    counts_hits: whether the hits of caches count, which grow when a cache is merely used. Raises
    Opaque.
    """
    walk = _Walk(module.__name__, counts_hits)
    walk.seen[id(vars(module))] = module  # kernels refer to it
    for index, tensor in enumerate(tensors):
        walk.visit(f"tensor {index}", tensor, 0)
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
    def __init__(self, module: str, counts_hits: bool) -> None:
        self.module = module
        self.counts_hits = counts_hits
        self.found: dict[str, str] = {}
        self.seen: dict[int, Any] = {}  # kept alive: an id must not be used again meanwhile

    def visit(self, path: str, value: Any, depth: int) -> None:
        if len(self.found) >= _MANY or depth >= _DEEP:
            raise Opaque("the candidate keeps more values between calls than can be compared")
        if type(value) in _SCALARS:
            self.found[path] = _text(value)
            return
        self.found[path] = f"{type(value).__name__} {self.order(value)}"
        if id(value) in self.seen:
            return
        self.seen[id(value)] = value
        for name, part in self._parts(path, value):
            self.visit(name, part, depth + 1)

    def order(self, value: Any) -> str:
        """Tells shared objects from equal ones; an object met first has no number yet."""
        return "again" if id(value) in self.seen else ""

    def _parts(self, path: str, value: Any) -> list[tuple[str, Any]]:
        """What may change of a value, named: contents by its kind, then its attributes."""
        if isinstance(value, _FIXED) or isinstance(value, type) and not self._own(value):
            return []
        for kinds, parts in _KINDS:
            if isinstance(value, kinds):
                return [*parts(self, path, value), *_attributes(path, value)]
        native = any(map(_native, type(value).__mro__))
        return [*_attributes(path, value), *(_opaque(path, value) if native else [])]

    def _own(self, value: Any) -> bool:
        return getattr(value, "__module__", None) == self.module

    # -- by kind ------------------------------------------------------------------------------

    def _tensor(self, path: str, value: torch.Tensor) -> list[tuple[str, Any]]:
        form = (tuple(value.shape), value.dtype, value.requires_grad)
        if value.layout == torch.strided:
            form = (*form, value.stride(), value.storage_offset(), value.data_ptr())
        grad = value.grad if value.is_leaf else None
        return [(f"{path} (identity)", id(value)), (f"{path} (form)", repr(form)),
                (f"{path}.grad", grad)]

    def _dict(self, path: str, value: Any) -> list[tuple[str, Any]]:
        parts: list[tuple[str, Any]] = [(f"len({path})", len(value))]
        for index, (key, part) in enumerate(_contents(dict.items, value)):
            if type(key) in _SCALARS:
                parts.append((f"{path}[{key!r}]" if path else str(key), part))
            else:
                parts += [(f"{path} (key {index})", key), (f"{path} (value {index})", part)]
        return parts

    def _sequence(self, path: str, value: Any) -> list[tuple[str, Any]]:
        return [(f"{path}[{index}]", part) for index, part in enumerate(_contents(iter, value))]

    def _set(self, path: str, value: Any) -> list[tuple[str, Any]]:
        texts = sorted(_text(x) if type(x) in _SCALARS else f"{type(x).__name__} {id(x)}"
                       for x in value)
        return [(f"{path} (items)", repr(texts))]

    def _function(self, path: str, value: Any) -> list[tuple[str, Any]]:
        if not self._own(value):
            return []
        cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
        return [(f"{path} (defaults)", value.__defaults__), (f"{path} (closure)", cells),
                (f"{path} (keywords)", value.__kwdefaults__)]

    def _bound(self, path: str, value: Any) -> list[tuple[str, Any]]:
        return [(f"{path} (function)", getattr(value, "__func__", None)),
                (f"{path} (owner)", value.__self__)]

    def _cache(self, path: str, value: Any) -> list[tuple[str, Any]]:
        info = type(value).cache_info(value)
        counts = info if self.counts_hits else info[1:]
        return [(f"the cache of {path}", repr(tuple(counts))),
                (f"{path} (kept)", [x for x in gc.get_referents(value) if x is not type(value)])]

    def _generator(self, path: str, value: Any) -> list[tuple[str, Any]]:
        frame = value.gi_frame
        return [(f"{path} (position)", frame.f_lasti if frame else -1),
                (f"{path} (locals)", dict(frame.f_locals) if frame else {})]

    def _random(self, path: str, value: torch.Generator) -> list[tuple[str, Any]]:
        return [(f"{path} (state)", bytes(value.get_state().numpy())),
                (f"{path} (seed)", value.initial_seed())]

    def _class(self, path: str, value: type) -> list[tuple[str, Any]]:
        dot = f"{path}." if path else ""
        return [(f"{dot}{k}", v) for k, v in vars(value).items()
                if not k.startswith("__") or isinstance(v, (types.FunctionType, property))]

    def _scalar(self, path: str, value: Any) -> list[tuple[str, Any]]:
        """Of a class derived from a plain one: what the plain one says of it."""
        base = next(kind for kind in _SCALARS if isinstance(value, kind))
        return [(f"{path} (value)", base.__repr__(value))]

    def _held(self, path: str, value: Any) -> list[tuple[str, Any]]:
        names = ("fget", "fset", "fdel", "__func__", "func", "args", "keywords", "__wrapped__")
        return [(f"{path} ({name.strip('_')})", getattr(value, name, None)) for name in names]


_KINDS: tuple[tuple[Any, Any], ...] = (
    (torch.Tensor, _Walk._tensor),
    (dict, _Walk._dict),  # subclasses included: what they override isn't asked
    (types.MappingProxyType, _Walk._dict),
    ((list, tuple, collections.deque), _Walk._sequence),
    ((set, frozenset, weakref.WeakSet), _Walk._set),
    (types.FunctionType, _Walk._function),
    (_NAMED_OWNERS, _Walk._bound),
    (type(functools.lru_cache(int)), _Walk._cache),
    (types.GeneratorType, _Walk._generator),
    (torch.Generator, _Walk._random),
    (type, _Walk._class),
    ((property, staticmethod, classmethod, functools.partial, functools.partialmethod,
      functools.cached_property), _Walk._held),
    (bytearray, lambda _, path, value: [(f"{path} (value)", bytes(value))]),
    ((slice, *_SHOWN), lambda _, path, value: [(f"{path} (value)", repr(value))]),
    (_SCALARS, _Walk._scalar),
    (weakref.ReferenceType, lambda _, path, value: [(f"{path} (target)", value())]),
    (types.CellType, lambda _, path, value: [
        (f"{path} (cell)", value.cell_contents if _filled(value) else None)]),
)  # fmt: skip


def _contents(ask: Any, value: Any) -> list[Any]:
    """The items of a container, by the method of its plain kind."""
    for kind in (list, tuple, collections.deque):
        if isinstance(value, kind):
            return list(kind.__iter__(value))
    return list(ask(value)) if isinstance(value, dict) else list(value.items())


def _attributes(path: str, value: Any) -> list[tuple[str, Any]]:
    """Attributes of the object itself, those in slots included."""
    if isinstance(value, (type, types.MethodType)):
        return []
    dot = f"{path}." if path else ""
    own = getattr(value, "__dict__", None)
    found = [(f"{dot}{k}", v) for k, v in own.items()] if isinstance(own, dict) else []
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, types.MemberDescriptorType) and slot.__objclass__ is kind and (
                    "__slots__" in vars(kind)):
                try:
                    found.append((f"{dot}{name}", slot.__get__(value)))
                except AttributeError:
                    continue
    return found


def _native(kind: type) -> bool:
    """Whether a class is one of C code, which may hold more than attributes show."""
    heap = 1 << 9  # Py_TPFLAGS_HEAPTYPE: what Python's `class` makes, and a few of C
    return kind is not object and (not kind.__flags__ & heap
                                   or kind.__module__ in sys.builtin_module_names)


def _opaque(path: str, value: Any) -> list[tuple[str, Any]]:
    """The state of an object of C code, as it would be written to a file. Raises Opaque."""
    if type(value).__module__ == "_thread":
        return [(f"{path} (value)", repr(value))]
    if type(value).__module__.partition(".")[0] in ("torch", "triton"):
        if not hasattr(value, "__next__"):  # a handle: what it can do is refused elsewhere
            return [(f"{path} (identity)", id(value))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - it can't be written
        raise Opaque(f"{path} is a {type(value).__name__}, whose state can't be compared between "
                     "calls: keep no such object") from None
    return [(f"{path} (state)", state if isinstance(state, str) else tuple(state)[1:])]


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises when the cell is empty
    except ValueError:
        return False
    return True
