"""A call as the zygote keeps it: checked, and with as little of the host's data as possible."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from kernel_evolve_worker.jail import JailError, Limits

#: Longer than any call is meant to last; keeps arithmetic on deadlines finite.
_MAX_DEADLINE_S = 7 * 24 * 3600.0


class BadCall(ValueError):
    """A call that cannot be started; the text is one sentence."""


@dataclass
class Call:
    """One request of the host.

    place: what a session's child is bound to; a call with another place needs a new child.
    """

    id: int
    module: str
    function: str
    path: list[str]
    request: dict[str, Any]
    deadline_s: float
    session: str | None
    scratch: str
    readable: list[str]
    limits: Limits

    @property
    def place(self) -> tuple[Any, ...]:
        return (self.scratch, tuple(self.path), tuple(self.readable), self.limits)

    def job(self, deadline: float) -> dict[str, Any]:
        """What the child is told, JSON. deadline: seconds of time.monotonic()."""
        return {
            "module": self.module,
            "function": self.function,
            "request": self.request,
            "path": self.path,
            "deadline": deadline,
        }


@dataclass
class Session:
    """A named child and the calls that wait for it, the oldest first."""

    waiting: list[Call] = field(default_factory=list)
    child: Any = None


def parse(message: dict[str, Any]) -> Call:
    """Checks a message of op "call" whose id is known to be an integer. Raises BadCall."""
    module = _text(message, "module")
    function = _text(message, "function")
    session = message.get("session")
    if session is not None and (not isinstance(session, str) or not session):
        raise BadCall("the call's session must be null or a name")
    request = message.get("request", {})
    if not isinstance(request, dict):
        raise BadCall("the call's request must be an object")
    deadline = message.get("deadline_s", 60.0)
    if not isinstance(deadline, (int, float)) or isinstance(deadline, bool) or not deadline > 0:
        raise BadCall("the call's deadline_s must be a positive number of seconds")
    try:
        limits = Limits.parse(message.get("limits") or {})
    except JailError as error:
        raise BadCall(str(error)) from None
    return Call(
        id=message["id"],
        module=module,
        function=function,
        path=_paths(message, "path"),
        request=request,
        deadline_s=min(float(deadline), _MAX_DEADLINE_S),
        session=session,
        scratch=_scratch(message),
        readable=_paths(message, "readable"),
        limits=limits,
    )


def _text(message: dict[str, Any], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str) or not value:
        raise BadCall(f"the call lacks its {name}")
    return value


def _paths(message: dict[str, Any], name: str) -> list[str]:
    value = message.get(name) or []
    if not isinstance(value, list) or not all(
        isinstance(item, str) and item.startswith("/") and "\0" not in item for item in value
    ):
        raise BadCall(f"the call's {name} must be a list of absolute paths")
    return value


def _scratch(message: dict[str, Any]) -> str:
    value = message.get("scratch") or ""
    if not isinstance(value, str) or "\0" in value or (value and not value.startswith("/")):
        raise BadCall("the call's scratch folder must be an absolute path")
    if value and os.path.realpath(value) in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise BadCall(f"the scratch folder {value} would make too much writable; name another")
    if value:
        try:
            os.makedirs(value, exist_ok=True)
        except OSError as error:
            raise BadCall(f"cannot make the scratch folder {value}: {error.strerror}") from None
    return value
