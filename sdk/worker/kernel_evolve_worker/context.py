"""What a worker function gets beside its request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def _ignore(_data: dict[str, Any]) -> None:
    return None


@dataclass
class Context:
    """The surroundings of one call. A test may build one by hand.

    scratch: absolute folder, the only one (beside the private /tmp) that may be written.
    deadline: when the call is killed, in seconds of time.monotonic().
    session: the session's name, or None in a single-use child.
    state: a dict that lives as long as the child; in a session it carries caches from call to call.
    """

    scratch: Path
    deadline: float
    session: str | None = None
    state: dict[str, Any] = field(default_factory=dict)
    send_progress: Callable[[dict[str, Any]], None] = _ignore

    def progress(self, text: str, **data: Any) -> None:
        """Tells the host how far the call is: one short line, plus JSON values of the caller's."""
        self.send_progress({"text": text, **data})

    def time_left(self) -> float:
        """Seconds until the deadline; negative when it has passed."""
        return self.deadline - time.monotonic()
