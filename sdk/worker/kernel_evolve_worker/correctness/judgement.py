"""The loop that judges one candidate variant after variant, for any way to run it.

An evaluator derives from `Judgement` and says how its candidate runs (`execute`) and what is wrong
with a run (`failure`). The loop chooses the variants, stops where time or a slow reference asks for
it, and keeps account of what was covered and what it cost. Not thread-safe.
"""

from __future__ import annotations

import time
from typing import Any, Generic, TypeVar

from kernel_evolve_worker.context import Context
from kernel_evolve_worker.correctness import constants
from kernel_evolve_worker.correctness.check import Finding
from kernel_evolve_worker.correctness.reference import Expected, References
from kernel_evolve_worker.correctness.wording import data_name, explain

RESERVE_S = 5.0  # kept of the deadline to write the verdict

Run = TypeVar("Run")  # what one execution leaves behind; opaque to the loop
Verdict = dict[str, Any]


class Judgement(Generic[Run]):
    """One candidate before the judge.

    covered: one entry per variant judged: {"variant", "counts", "finite", "weights_moved",
    "seconds"}. skipped: what was left out, one sentence each. seconds: by kind of work
    ("reference", "execute", "compare", and what a subclass spends). references, context: borrowed.
    """

    def __init__(self, references: References, context: Context) -> None:
        self.references = references
        self.context = context
        self.seconds: dict[str, float] = {}
        self.covered: list[dict[str, Any]] = []
        self.skipped: list[str] = []

    # What an evaluator says ------------------------------------------------------------------

    def execute(self, expected: Expected) -> Run:
        """Runs the candidate on `expected.inputs` and `expected.state`, which stay unchanged."""
        raise NotImplementedError

    def failure(self, expected: Expected, run: Run) -> Verdict | None:
        """The verdict where `run` is no right answer to `expected`, else None.

        The variant itself is not among `covered` yet; those before it are.
        """
        raise NotImplementedError

    def progress(self, text: str) -> None:
        """Tells the host how far the judgement is, in one short line."""
        self.context.progress(text)

    # The loop --------------------------------------------------------------------------------

    def correctness(self) -> Verdict | None:
        """Judges variant after variant; the verdict of the first failure, or None.

        Raises WorkerError where a reference can't be made.
        """
        names = self.references.names()
        names += [f"redrawn_{i}" for i in range(1, constants.MIN_VARIANTS + 1)]
        begin = time.monotonic()
        for number, name in enumerate(names):
            if name.startswith("redrawn") and not self.weak:
                break
            if number and self._enough(begin):
                left_out = [n for n in names[number:] if not n.startswith("redrawn")]
                if left_out:
                    self.skipped.append("variants left out because the reference is expensive: "
                                        + ", ".join(left_out))
                break
            if number and self.context.time_left() < self._estimate() + RESERVE_S:
                self.skipped.append("variants left out because the deadline is near")
                break
            failure = self._try_variant(name, number)
            if failure is not None:
                return failure
        return None

    @property
    def counted(self) -> int:
        """Variants beside the own inputs that tell right from wrong."""
        return sum(1 for v in self.covered if v["counts"] and v["variant"] != "own")

    @property
    def weak(self) -> bool:
        """Whether too few variants tell right from wrong for a win."""
        return self.counted < constants.MIN_VARIANTS

    def coverage(self) -> dict[str, Any]:
        """The verdict's account of what was judged; a subclass may add to it."""
        return {"variants": self.covered, "counted": self.counted}

    def explain(self, finding: Finding, expected: Expected) -> list[str]:
        """Lines for the candidate's author about a difference from the reference."""
        passed = [v["variant"] for v in self.covered if v["finite"]]
        return explain(finding, expected, passed)

    def spend(self, what: str, seconds: float) -> None:
        """Adds to the account of `what`."""
        self.seconds[what] = self.seconds.get(what, 0.0) + seconds

    def _enough(self, begin: float) -> bool:
        """Whether the variants so far suffice for a reference as expensive as this one."""
        if self.weak:
            return False
        slow = time.monotonic() - begin > constants.JUDGEMENT_BUDGET_S
        return slow or self.references.expensive

    def _planned(self) -> int:
        """How many variants will be judged, as far as known."""
        if self.references.expensive:
            return 1 + constants.MIN_VARIANTS
        return len(self.references.names())

    def _estimate(self) -> float:
        """Seconds that one more variant takes."""
        return 2.0 * max([0.5, *(v["seconds"] for v in self.covered)])

    def _try_variant(self, name: str, number: int) -> Verdict | None:
        start = time.monotonic()
        what = data_name(name)
        loud = number == 0 or self.references.expensive
        if loud and not self.references.is_ready(name):
            self.progress(f"reference {number + 1}/{self._planned()}: {what}")
        expected = self.references.expected(name)
        made = time.monotonic()
        self.spend("reference", made - start)
        entry = {"variant": name, "counts": expected.counts, "finite": expected.finite,
                 "weights_moved": expected.perturbed, "seconds": 0.0}
        if not expected.finite:
            # Where the reference overflows there is nothing to compare with.
            self.covered.append(entry)
            return None
        if loud:
            self.progress(f"running the kernels on {what}")
        run = self.execute(expected)
        ran = time.monotonic()
        self.spend("execute", ran - made)
        failure = self.failure(expected, run)
        self.spend("compare", time.monotonic() - ran)
        entry["seconds"] = round(time.monotonic() - start, 3)
        self.covered.append(entry)
        return failure
