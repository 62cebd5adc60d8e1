"""The error that a worker function raises for a failure it foresaw."""

from __future__ import annotations

#: The classes that a function may name; the host's graph speaks of them in `retry`.
ERROR_CLASSES = (
    "timeout",
    "communication",
    "rate_limit",
    "invalid_output",
    "unavailable",
    "auth",
    "validation",
    "budget",
    "cancelled",
    "internal",
)


class WorkerError(Exception):
    """A planned failure of a call: it reaches the host as `error_class` and `message`.

    `message` is one sentence: what, where, what to do. Any other exception that leaves a function
    reaches the host as class `internal` with "TypeName: text".

    Raises ValueError for a class outside ERROR_CLASSES.
    """

    def __init__(self, error_class: str, message: str) -> None:
        if error_class not in ERROR_CLASSES:
            raise ValueError(f"unknown error class {error_class!r}")
        super().__init__(message)
        self.error_class = error_class
        self.message = message
