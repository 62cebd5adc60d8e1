"""What the process that ran a candidate answers: perhaps the words of the candidate itself.

A candidate that breaks out of its Python can answer in the place of the recording. So an answer is
believed only as far as it has a form that recording gives, and it can never say more than a failure
or where a tape lies, which is judged by its content.
"""

from __future__ import annotations

import math
import re
from typing import Any

from kernel_evolve_worker.recording.tape import Tape, TapeError

MAX_REASON = 2200  # characters; the longest is what a process said as it died
_MAX_LINES = 25
_MAX_SECONDS = 1e6
_VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,40}")

# Every way in which recording fails, by stage.
FAILURES = {
    "parse": frozenset({"syntax_error"}),
    "policy": frozenset({"autotune_too_wide", "forbidden_name", "global_state", "import",
                         "monkey_patch", "no_model_new", "subclasses_reference", "too_large"}),
    "compile": frozenset({"autotune_error", "compile_error", "out_of_resources", "ptxas_error"}),
    "integrity": frozenset({"candidate_error", "forged", "no_module", "not_repeatable",
                            "state_across_calls", "weights_mismatch"}),
    "correctness": frozenset({"crashed", "other_mode", "output_device", "timeout", "uncovered"}),
}  # fmt: skip

_FORGED = "the process that ran the candidate gave an answer that recording never gives."


def is_plain(text: Any, limit: int = MAX_REASON) -> bool:
    """Whether a value is one line of printable text that isn't too long."""
    return type(text) is str and 0 < len(text) <= limit and text.isprintable()


def plain(text: str, limit: int = 1000) -> str:
    """The text as one line of printable characters, cut to `limit`."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def succeeded(record: Any) -> bool:
    """Whether a record names a tape; whether that is one shows when it is loaded."""
    return isinstance(record, dict) and record.get("ok") is True


def tape_of(record: Any) -> Tape:
    """The tape that a record names. Raises TapeError."""
    given = record.get("tape") if isinstance(record, dict) else None
    path = given.get("path") if isinstance(given, dict) else None
    if not isinstance(path, str) or "\0" in path:
        raise TapeError("the record names no tape")
    return Tape.load(path)


def failure_of(record: Any) -> tuple[str, str, str, list[str]]:
    """(stage, code, reason, lines of feedback) of a record that names no tape."""
    record = record if isinstance(record, dict) else {}
    stage, code, reason = record.get("stage"), record.get("code"), record.get("reason")
    known = type(stage) is str and type(code) is str and code in FAILURES.get(stage, ())
    if not known or not is_plain(reason) or record.get("ok") is not False:
        return "integrity", "forged", _FORGED, [_FORGED]
    given = record.get("feedback")
    lines = given if isinstance(given, list) and all(map(is_plain, given)) else []
    return stage, code, reason, lines[:_MAX_LINES] or [reason]


def versions_of(record: Any) -> dict[str, str]:
    """The versions that a record names, as far as they look like some."""
    given = record.get("versions") if isinstance(record, dict) else None
    return {key: given[key] for key in ("torch", "triton", "python")
            if isinstance(given, dict) and type(given.get(key)) is str
            and _VERSION.fullmatch(given[key])}


def seconds_of(record: Any) -> dict[str, float]:
    """What the recording cost: the seconds that a record gives, by kind of work."""
    given = record.get("seconds") if isinstance(record, dict) else None
    if not isinstance(given, dict):
        given = {"record": given}
    return {key: float(value) for key, value in given.items()
            if key in ("record", "compile") and type(value) in (int, float)
            and math.isfinite(value) and 0 <= value <= _MAX_SECONDS}
