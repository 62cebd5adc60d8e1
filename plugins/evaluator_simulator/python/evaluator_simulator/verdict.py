"""The simulator's verdicts: those of `correctness.verdict`, with modelled times."""

from __future__ import annotations

import functools

from kernel_evolve_worker.correctness import verdict

VERSION = "1.1.0"
_TIME = "modelled for an NVIDIA H200, not measured"
_WHO = {"class_": "modelled", "evaluator": "simulator", "version": VERSION}

make_verdict = functools.partial(verdict.make_verdict, **_WHO)
from_record_failure = functools.partial(verdict.from_record_failure, **_WHO, time=_TIME)
no_recording = functools.partial(verdict.no_recording, **_WHO, time=_TIME)
provenance = functools.partial(verdict.provenance, time=_TIME)
