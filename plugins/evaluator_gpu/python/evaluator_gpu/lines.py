"""Helper processes: where they find their modules, and JSON objects, one a line, to and from them,
with a deadline for each answer."""

from __future__ import annotations

import json
import os
import select
import time
from pathlib import Path
from typing import Any

import kernel_evolve_worker as worker


def paths() -> str:
    """Where a fresh interpreter finds our modules and the worker's, as PATH is written."""
    # As they were found: a folder may be a link.
    ours = (Path(os.path.abspath(file)).parents[1] for file in (__file__, worker.__file__))
    return os.pathsep.join(map(str, ours))


class Hang(Exception):
    """No answer came in its time."""


class Lines:
    """Descriptors stay their owner's. Not thread-safe."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._buffered = b""

    def send(self, message: dict[str, Any]) -> None:
        """Raises OSError where nobody reads any more."""
        line = memoryview(json.dumps(message).encode() + b"\n")
        while line:
            line = line[os.write(self._writes, line):]

    def receive(self, deadline: float | None = None) -> dict[str, Any]:
        """The next object. deadline: in seconds of time.monotonic(). Raises Hang after it, EOFError
        at the end, ValueError for a line that is no JSON, OSError."""
        while b"\n" not in self._buffered:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._reads], [], [], left)[0]:
                raise Hang
            piece = os.read(self._reads, 1 << 16)
            if not piece:
                raise EOFError
            self._buffered += piece
        line, self._buffered = self._buffered.split(b"\n", 1)
        return json.loads(line)
