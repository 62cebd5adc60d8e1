"""The verdict: an evaluator's full record of one candidate, as a JSON object.

`stage` is the first stage that failed, "done" if none did. `ok` says that all asked stages passed;
`win` says that the candidate is correct, judged on enough data, and faster. Times are milliseconds,
modelled or measured as `class` says. Nothing here judges a candidate; only what makes a win is
decided here, for every evaluator.
"""

from __future__ import annotations

import platform
from typing import Any

import torch

from kernel_evolve_worker.correctness import untrusted
from kernel_evolve_worker.correctness.untrusted import seconds_of

__all__ = ["CLASSES", "MAX_FEEDBACK", "STAGES", "from_record_failure", "is_win", "make_verdict",
           "no_recording", "provenance", "seconds_of"]

# How the times came about: "modelled", or measured with the candidate's Python in a process of its
# own ("process") or without any ("tape").
CLASSES = ("modelled", "process", "tape")
STAGES = ("parse", "policy", "compile", "integrity", "correctness", "model", "timing", "audit",
          "done")
MAX_FEEDBACK = 25
# Every evaluator compiles for this GPU.
_TARGET = "sm_90"


def is_win(*, ok: bool, asked: str, correct: bool | None, weak: bool, code: str,
           speedup: float | None, interval: tuple[float, float] | None) -> bool:
    """Whether a verdict with these members is a win: the one rule for every evaluator.

    interval: [low, high] of the speedup where it was measured; then its lower bound counts, too.
    """
    judged = ok and asked == "full" and bool(correct) and not weak and code != "no_kernel"
    faster = speedup is not None and speedup > 1.0 and (interval is None or interval[0] > 1.0)
    return bool(judged and faster)


def make_verdict(
    *,
    class_: str,
    evaluator: str,
    version: str,
    asked: str,
    stage: str,
    ok: bool,
    code: str,
    reason: str,
    correct: bool | None = None,
    weak: bool = False,
    feedback: list[str] | None = None,
    original_ms: float | None = None,
    optimized_ms: float | None = None,
    speedup: float | None = None,
    interval: tuple[float, float] | list[float] | None = None,
    against: dict[str, dict[str, Any]] | None = None,
    achieved: dict[str, Any] | None = None,
    kernels: list[dict[str, Any]] | None = None,
    coverage: dict[str, Any] | None = None,
    skipped: list[str] | None = None,
    provenance: dict[str, Any] | None = None,
    seconds: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Assembles a verdict. `reason` is one sentence; feedback beyond MAX_FEEDBACK lines is cut.

    evaluator, version: who judged. speedup: where it is not the ratio of the two times, such as the
    median of measured ratios. interval: [low, high] of the speedup; against: what was measured
    against "eager" and "compile"; achieved: bytes and operations per second, and what share of the
    machine's peaks they are. These are members of the verdict's metrics where they are given.
    """
    assert class_ in CLASSES, class_
    assert stage in STAGES, stage
    if speedup is None and original_ms and optimized_ms:
        speedup = original_ms / optimized_ms
    bounds = (float(interval[0]), float(interval[1])) if interval is not None else None
    win = is_win(ok=ok, asked=asked, correct=correct, weak=weak, code=code, speedup=speedup,
                 interval=bounds)
    metrics: dict[str, Any] = {
        "speedup": speedup,
        "original_time": original_ms,
        "optimized_time": optimized_ms,
        "error": None if ok else reason,
    }
    if bounds is not None:
        metrics["interval"] = list(bounds)
    if against is not None:
        metrics["against"] = against
    if achieved is not None:
        metrics["achieved"] = achieved
    return {
        "format": 1,
        "class": class_,
        "evaluator": {"name": evaluator, "version": version, "protocol": 1},
        "stage": stage,
        "asked": asked,
        "ok": ok,
        "correct": correct,
        "weak": weak,
        "win": win,
        "code": code,
        "reason": reason,
        "feedback": [line for line in (feedback or []) if line][:MAX_FEEDBACK],
        "metrics": metrics,
        "kernels": kernels or [],
        "coverage": coverage or {},
        "skipped": skipped or [],
        "provenance": provenance or {},
        "seconds": {key: round(value, 3) for key, value in (seconds or {}).items()},
    }


def from_record_failure(record: Any, asked: str, *, class_: str, evaluator: str,
                        version: str, time: str) -> dict[str, Any]:
    """The verdict for a candidate that gave no tape; `record` is {"ok": false, "stage", ...}.

    A failure of the recorded run counts as one of correctness; anything before leaves `correct`
    open. An answer that recording never gives is one of integrity. time: see `provenance`.
    """
    stage, code, reason, lines = untrusted.failure_of(record)
    return make_verdict(
        class_=class_,
        evaluator=evaluator,
        version=version,
        asked=asked,
        stage=stage,
        ok=False,
        code=code,
        reason=reason,
        correct=False if stage == "correctness" and code != "uncovered" else None,
        feedback=lines,
        provenance=provenance(record, time=time),
        seconds=seconds_of(record),
    )


def no_recording(record: Any, asked: str, *, class_: str, evaluator: str, version: str,
                 time: str) -> dict[str, Any]:
    """The verdict for a record whose tape isn't one; time: see `provenance`."""
    text = "the recording of this candidate can't be read."
    return make_verdict(class_=class_, evaluator=evaluator, version=version, asked=asked,
                        stage="integrity", ok=False, code="no_recording", reason=text,
                        feedback=[text], provenance=provenance(record, time=time),
                        seconds=seconds_of(record))


def provenance(record: dict[str, Any], *, time: str, **more: Any) -> dict[str, Any]:
    """Which versions judged, and how the candidate was held; `more` is added as it is.

    time: in words, on what the times are from and how they came about.
    """
    record = record if isinstance(record, dict) else {}
    versions = untrusted.versions_of(record)
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = None
    return {
        "torch": versions.get("torch") or torch.__version__,
        "triton": versions.get("triton") or triton_version,
        "python": versions.get("python") or platform.python_version(),
        "target": _TARGET,
        "isolation": record.get("isolation"),
        "time": time,
        **more,
    }
