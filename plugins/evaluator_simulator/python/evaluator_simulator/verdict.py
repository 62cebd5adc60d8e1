"""The verdict: the simulator's full record of one candidate, as a JSON object.

`stage` is the first stage that failed, "done" if none did. `ok` says that all asked stages passed;
`win` says that the candidate is correct, judged on enough data, and modelled as faster. Times are
modelled milliseconds. No function here decides anything; judge.py does.
"""

from __future__ import annotations

import platform
from typing import Any

VERSION = "1.0.0"
CLASS = "modelled"
STAGES = ("parse", "policy", "compile", "integrity", "correctness", "model", "audit", "done")
MAX_FEEDBACK = 25


def make_verdict(
    *,
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
    kernels: list[dict[str, Any]] | None = None,
    coverage: dict[str, Any] | None = None,
    skipped: list[str] | None = None,
    provenance: dict[str, Any] | None = None,
    seconds: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Assembles a verdict. `reason` is one sentence; feedback beyond MAX_FEEDBACK lines is cut."""
    assert stage in STAGES, stage
    speedup = original_ms / optimized_ms if original_ms and optimized_ms else None
    win = bool(ok and asked == "full" and correct and not weak and speedup and speedup > 1.0
               and code != "no_kernel")
    return {
        "format": 1,
        "class": CLASS,
        "evaluator": {"name": "simulator", "version": VERSION, "protocol": 1},
        "stage": stage,
        "asked": asked,
        "ok": ok,
        "correct": correct,
        "weak": weak,
        "win": win,
        "code": code,
        "reason": reason,
        "feedback": [line for line in (feedback or []) if line][:MAX_FEEDBACK],
        "metrics": {
            "speedup": speedup,
            "original_time": original_ms,
            "optimized_time": optimized_ms,
            "error": None if ok else reason,
        },
        "kernels": kernels or [],
        "coverage": coverage or {},
        "skipped": skipped or [],
        "provenance": provenance or {},
        "seconds": {key: round(value, 3) for key, value in (seconds or {}).items()},
    }


def from_record_failure(record: dict[str, Any], asked: str) -> dict[str, Any]:
    """The verdict for a candidate that gave no tape; `record` is {"ok": false, "stage", ...}.

    A failure of the recorded run counts as one of correctness; anything before leaves `correct`
    open.
    """
    stage = record.get("stage")
    stage = stage if stage in STAGES and stage != "done" else "compile"
    reason = str(record.get("reason") or "the candidate gave no recording")
    seconds = record.get("seconds")
    return make_verdict(
        asked=asked,
        stage=stage,
        ok=False,
        code=str(record.get("code") or "record_failed"),
        reason=reason,
        correct=False if stage == "correctness" and record.get("code") != "uncovered" else None,
        feedback=[str(line) for line in record.get("feedback") or []] or [reason],
        kernels=list(record.get("kernels") or []),
        provenance=provenance(record),
        seconds=seconds if isinstance(seconds, dict) else None,
    )


def provenance(record: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Which versions judged, and how the candidate was held; `more` is added as it is."""
    import torch

    versions = record.get("versions") or {}
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = None
    return {
        "torch": versions.get("torch") or torch.__version__,
        "triton": versions.get("triton") or triton_version,
        "python": versions.get("python") or platform.python_version(),
        "target": record.get("target") or "sm_90",
        "isolation": record.get("isolation"),
        "time": "modelled for an NVIDIA H200, not measured",
        **more,
    }
