"""JSON as it travels between host, zygote and child: one object per line."""

from __future__ import annotations

import json
import math
from typing import Any

#: No line is longer, in bytes. A result that needs more belongs into a file.
MAX_LINE = 60 << 20
#: Containers inside containers. The host refuses 256.
MAX_DEPTH = 200
_INT64 = 1 << 63


class NotJson(ValueError):
    """A value that the host could not read; the text says why."""


def clean(value: Any, depth: int = 0) -> Any:
    """The value as strict JSON that every reader takes: not-a-number and infinities become null,
    integers beyond 64 bits become floats, lone surrogates become "?".

    Raises NotJson for another type, a key that is no string, or more than MAX_DEPTH levels.
    """
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return value.encode("utf-8", "replace").decode("utf-8")
    if kind is int:
        if -_INT64 <= value < _INT64:
            return value
        try:
            return float(value)
        except OverflowError:
            return None
    if kind is float:
        return value if math.isfinite(value) else None
    if depth >= MAX_DEPTH:
        raise NotJson(f"more than {MAX_DEPTH} levels deep")
    if kind is dict:
        for key in value:
            if not isinstance(key, str):
                raise NotJson(f"a key of type {type(key).__name__}")
        return {clean(str(key)): clean(item, depth + 1) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [clean(item, depth + 1) for item in value]
    # Subclasses (an IntEnum, a numpy float64 that is a float) as their plain kind.
    for plain in (str, int, float, dict, list, tuple):
        if isinstance(value, plain):
            return clean(plain(value), depth)
    raise NotJson(f"a value of type {kind.__name__}")


def encode(value: Any) -> bytes:
    """One line without its line end. Raises NotJson; also for a line beyond MAX_LINE."""
    line = json.dumps(
        clean(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode("utf-8")
    if len(line) > MAX_LINE:
        raise NotJson(f"{len(line) >> 20} MiB long (at most {MAX_LINE >> 20})")
    return line


def decode(line: bytes | bytearray) -> dict[str, Any]:
    """The object of one line. Raises NotJson."""
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise NotJson(f"not JSON: {one_line(error, 120)}") from None
    if not isinstance(value, dict):
        raise NotJson("not a JSON object")
    return value


def one_line(text: object, limit: int = 500) -> str:
    """The text without line breaks and runs of blanks, shortened to `limit` characters."""
    try:
        words = " ".join(str(text).split())
    except BaseException:  # a candidate's own __str__ may do anything
        words = "(no text)"
    return words if len(words) <= limit else words[: limit - 1] + "…"
