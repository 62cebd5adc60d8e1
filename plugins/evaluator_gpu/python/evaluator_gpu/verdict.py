"""The verdict's parts that are the same for everything this evaluator says."""

from __future__ import annotations

from functools import partial

from kernel_evolve_worker.correctness import verdict

VERSION = "1.0.0"
_TIME = "measured by CUDA events on a cold L2, launches queued ahead"

_WHO = {"class_": "tape", "evaluator": "gpu", "version": VERSION}

make_verdict = partial(verdict.make_verdict, **_WHO)
from_record_failure = partial(verdict.from_record_failure, **_WHO, time=_TIME)
no_recording = partial(verdict.no_recording, **_WHO, time=_TIME)
provenance = partial(verdict.provenance, time=_TIME)
