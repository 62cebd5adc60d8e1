"""Verdicts by content: machine code, launches and constants that were judged aren't judged again.

Two candidates with the same content differ in comments, names or options without effect. The key
covers all that a judgement looks at, so a verdict says as much of the second as of the first.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

from evaluator_gpu import feedback
from evaluator_gpu.plan import Plan
from kernel_evolve_worker.recording.tape import Tape

_MOST = 10_000
# Codes of verdicts that another try may change: they speak of the machine, not of the candidate.
_PASSING = ("crashed", "no_recording", "out_of_memory", "timeout", "unsteady")


class Verdicts:
    """Of one task and seed. Not thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[dict[str, Any], list[Any]]] = {}

    def find(self, key: str, tape: Tape) -> dict[str, Any] | None:
        """A copy of the verdict kept under `key`, with the lines of this tape's kernels."""
        found = self._kept.get(key)
        if found is None:
            return None
        verdict, before = copy.deepcopy(found)
        now = _lines(tape)
        for entry, line in zip(verdict["kernels"], now):
            entry["line"] = line
        verdict["reason"], *verdict["feedback"] = (
            _moved(text, tape, before, now) for text in (verdict["reason"], *verdict["feedback"]))
        if verdict["metrics"]["error"] is not None:
            verdict["metrics"]["error"] = verdict["reason"]
        verdict["feedback"].insert(1, "the kernels' machine code and launches are those of an "
                                   "earlier candidate, whose verdict this is: the change had no "
                                   "effect")
        verdict["provenance"]["known"] = True
        return verdict

    def keep(self, key: str, verdict: dict[str, Any], tape: Tape) -> None:
        """Keeps what another try wouldn't change."""
        if verdict["code"] not in _PASSING and len(self._kept) < _MOST:
            self._kept[key] = copy.deepcopy(verdict), _lines(tape)


def key_of(tape: Tape, plan: Plan, **more: Any) -> str:
    """What stands for the content of a tape, whatever its candidate looks like; `more`: what else
    the verdict depends on. Raises TapeError."""
    kernels = [{**kernel, "cubin": ""} for kernel in plan.text["kernels"]]  # has its digest
    constants = [hashlib.sha256(tape.blob(name)).hexdigest()
                 for name, buffer in tape.buffers.items() if buffer["origin"] == "constant"]
    content = {
        "plan": {**plan.text, "kernels": kernels}, "constants": constants,
        "buffers": [[name, buffer["origin"]] for name, buffer in tape.buffers.items()],
        "inputs": tape.inputs, "state": tape.state, "outputs": tape.outputs,
        "copies": tape.host.get("host_copies"), "repeats": plan.repeats, "hashed": plan.hashed,
        "atomics": feedback.adds_floats(tape), "promises": feedback.has_promises(tape), **more}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _lines(tape: Tape) -> list[Any]:
    return [kernel.get("line") for kernel in tape.kernels.values()]


def _moved(text: str, tape: Tape, before: list[Any], now: list[Any]) -> str:
    """`text` with the lines where this tape's kernels are."""
    for kernel, old, new in zip(tape.kernels.values(), before, now):
        text = text.replace(f"kernel {kernel.get('name')} (line {old})",
                            f"kernel {kernel.get('name')} (line {new})")
    return text
