"""Whether a file's content is a tape: every field of the right type, every reference inside its
buffer. What executes tapes relies on it, as the process that wrote one ran a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_ORIGINS = ("input", "state", "empty", "op", "constant")
_MAX_BYTES = 1 << 46  # of a buffer; far above any device
_MAX_GRID = (1 << 31) - 1
_MAX_DIMS = 64
_DEEP = 50  # levels of a tree


class Malformed(ValueError):
    """The text says what is wrong, for a log."""


def check(tape: dict[str, Any]) -> None:
    """Raises Malformed unless `tape`, the JSON object with all its fields, is well formed."""
    try:
        _Checker(tape).check()
    except Malformed:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError,
            OverflowError) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from None


def _need(truth: Any, what: str) -> None:
    if not truth:
        raise Malformed(what)


def _count(value: Any, limit: int, what: str) -> int:
    _need(type(value) is int and 0 <= value <= limit, what)
    return value


def _text(value: Any, what: str) -> None:
    _need(type(value) is str, what)


class _Checker:
    def __init__(self, tape: dict[str, Any]) -> None:
        self.tape = tape
        self.buffers: dict[str, Any] = tape["buffers"]
        self.kernels: dict[str, Any] = tape["kernels"]

    def check(self) -> None:
        for field in ("buffers", "kernels", "versions", "host"):
            _need(type(self.tape[field]) is dict, field)
        for field in ("inputs", "state", "steps"):
            _need(type(self.tape[field]) is list, field)
        for name, buffer in self.buffers.items():
            self._buffer(name, buffer)
        for name, kernel in self.kernels.items():
            self._kernel(name, kernel)
        for ref in self.tape["inputs"]:
            if ref is not None:
                self.ref(ref)
        for entry in self.tape["state"]:
            _text(entry["name"], "a weight's name")
            self.ref(entry["ref"])
        for step in self.tape["steps"]:
            _need(step["op"] in ("launch", "aten"), "a step of no kind")
            (self._launch if step["op"] == "launch" else self._aten)(step)
        self._tree(self.tape["outputs"], 0)
        file = self.tape["host"].get("file")
        _need(file is None or type(file) is str, "host")

    def _buffer(self, name: str, buffer: dict[str, Any]) -> None:
        _count(buffer["bytes"], _MAX_BYTES, f"the size of {name}")
        _need(buffer.get("itemsize", 4) in (1, 2, 4, 8), f"the element size of {name}")
        _need(buffer["origin"] in _ORIGINS, f"the origin of {name}")
        _count(buffer.get("fill", 0), 255, f"the fill of {name}")
        _text(buffer.get("blob", ""), f"the blob of {name}")

    def _kernel(self, name: str, kernel: dict[str, Any]) -> None:
        for field in ("name", "ttir", "ptx"):
            _text(kernel[field], f"{field} of {name}")
        _text(kernel.get("cubin", ""), f"cubin of {name}")
        for field in ("metadata", "resources"):
            _need(type(kernel.get(field, {})) is dict, f"{field} of {name}")
        numbers = [*kernel.get("resources", {}).values(), kernel.get("line")]
        metadata = kernel.get("metadata", {})
        numbers += [metadata.get(key) for key in ("num_warps", "num_ctas", "num_stages", "shared",
                                                  "global_scratch_size")]
        for value in numbers:
            _need(value is None or type(value) is int and 0 <= value < 1 << 31,
                  f"a figure of {name}")

    # -- references ---------------------------------------------------------------------------

    def ref(self, ref: dict[str, Any]) -> None:
        buffer = self.buffers[ref["buffer"]]
        dtype = getattr(torch, ref["dtype"], None)
        _need(isinstance(dtype, torch.dtype), "an unknown dtype")
        shape, stride = ref["shape"], ref["stride"]
        _need(type(shape) is list and type(stride) is list and len(shape) == len(stride)
              and len(shape) <= _MAX_DIMS, "a shape")
        for number in (*shape, *stride, ref["offset"]):
            _count(number, _MAX_BYTES, "a shape")
        last = ref["offset"] + sum((n - 1) * s for n, s in zip(shape, stride))
        size = (last + 1) * dtype.itemsize
        _need(0 in shape or size <= buffer["bytes"], f"a reference beyond {ref['buffer']}")

    def _value(self, value: Any, depth: int = 0) -> None:
        _need(depth <= _DEEP, "a value of too many levels")
        if type(value) is list:
            for item in value:
                self._value(item, depth + 1)
        elif type(value) is dict:
            ((kind, content),) = value.items()
            if kind == "tensor":
                self.ref(content)
            else:
                _need(kind in ("float", "dtype", "device", "layout", "memory_format"), kind)
                _text(content, kind)
                if kind == "float":
                    _float(content)
        else:
            _need(value is None or type(value) in (bool, int, float, str), "a value")

    def _tree(self, tree: dict[str, Any], depth: int) -> None:
        _need(depth <= _DEEP, "an output of too many levels")
        ((kind, content),) = tree.items()
        if kind == "tensor":
            self.ref(content)
        elif kind in ("tuple", "list"):
            _need(type(content) is list, kind)
            for item in content:
                self._tree(item, depth + 1)
        elif kind == "dict":
            for key, item in content:
                _need(type(key) in (str, int), "a key")
                self._tree(item, depth + 1)
        elif kind == "float":
            _float(content)
        else:
            _need(kind == "value" and (content is None or type(content) in (bool, int, float, str)),
                  "an output")

    # -- steps --------------------------------------------------------------------------------

    def _aten(self, step: dict[str, Any]) -> None:
        _text(step["name"], "an operator's name")
        for field, kind in (("args", list), ("kwargs", dict), ("out", list)):
            _need(type(step[field]) is kind, field)
        self._value(step["args"])
        for value in step["kwargs"].values():
            self._value(value)
        for ref in [*step["out"], *step.get("writes", [])]:
            if ref is not None:
                self.ref(ref)

    def _launch(self, step: dict[str, Any]) -> None:
        _need(step["kernel"] in self.kernels, "a launch of no kernel")
        grid = step["grid"]
        _need(type(grid) is list and len(grid) == 3, "a grid")
        for number in grid:
            _count(number, _MAX_GRID, "a grid")
        _need(math.prod(grid) < 1 << 62, "a grid")
        kinds: dict[str, Callable[[Any], None]] = {
            "tensor": self.ref, "scalar": self._value, "descriptor": self._descriptor}
        for argument in step["args"]:
            _text(argument["name"], "an argument's name")
            (kind,) = argument.keys() & kinds.keys()
            kinds[kind](argument[kind])

    def _descriptor(self, given: dict[str, Any]) -> None:
        self.ref(given["tensor"])
        sizes = [given[key] for key in ("shape", "strides", "block")]
        _need(all(type(x) is list and 0 < len(x) <= 5 for x in sizes), "a descriptor")
        for number in (n for numbers in sizes for n in numbers):
            _count(number, _MAX_BYTES, "a descriptor")


def _float(text: Any) -> None:
    try:
        float(text)
    except (TypeError, ValueError):
        raise Malformed("a number") from None
