"""From a recording to a measured verdict, on the driver that the C++ tests build: timed calls that
do less than the checked ones are no win, however results are compared."""

from __future__ import annotations

import contextlib
import os
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from evaluator_gpu import judge
from evaluator_gpu.compiled import Lost
from evaluator_gpu.plan import make_plan
from evaluator_gpu.replayer import Replayer, SharedMemory
from kernel_evolve_worker.context import Context
from kernel_evolve_worker.correctness.reference import References
from kernel_evolve_worker.recording.tape import Tape
from kernel_evolve_worker.task import load_task
from support import built, record_of, texts

BUILT = built()
HEAD = """
x = args[0]
out = torch.empty(200, device=x.device)
scale[(2,)](x, out, 100, BLOCK=64)
"""
PLAIN = HEAD.replace("200", "100") + "return out\n"
GAPS = HEAD + "return out[:100:2]\n"  # what lies between is never written and poisoned anew
IN_PLACE = PLAIN.replace("return", "scale[(2,)](out, x, 100, BLOCK=64)\nreturn")
TWICE = "return x * 2"
EVERY_OTHER = "return (x * 2)[::2]"


class Device:
    """No lock, and clocks that stand still."""

    @contextlib.contextmanager
    def held(self, *_: Any, alone: bool) -> Iterator[float]:
        yield 0.0

    def clocks(self) -> dict[str, int]:
        return {}

    def throttled(self) -> bool:
        return False

    def others(self, own: int) -> int:
        return 0


class Eager:
    name = "eager"

    def sample(self, count: int) -> list[float]:
        return [1.0] * count  # a launch of the imagined driver takes 0.001


class Compiled:
    """torch.compile, which is gone after so many blocks."""

    name = "compile"

    def __init__(self, blocks: int = 1000) -> None:
        self._blocks = blocks

    def sample(self, count: int) -> list[float]:
        self._blocks -= 1
        if self._blocks < 0:
            raise Lost("it is gone")
        return [0.5] * count


def task_of(body: str) -> str:
    return texts.task().replace("        return args[0]", f"        x = args[0]\n        {body}")


@unittest.skipUnless(BUILT, "ke_replay and the driver for tests are not built")
class Timed(unittest.TestCase):
    def setUp(self) -> None:
        assert BUILT is not None
        self.info: dict[str, Any] = {}
        self.compiled: Any = None
        self.binary, driver = BUILT
        patch = mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": str(driver)})
        patch.start()
        self.addCleanup(patch.stop)

    def judged(self, forward: str, body: str, kernel: str = "tire", works: int = 0,
               atomics: bool = False) -> dict[str, Any]:
        """The verdict where launches run that kernel of the imagined driver; the last step's does
        its work in so many launches and no more; 0: always."""
        source = task_of(body)
        record = record_of(texts.candidate(forward), source)
        self.assertTrue(record["ok"], record)
        tape = Tape.load(record["tape"]["path"])
        plan = make_plan(tape)
        plan.text["kernels"][0]["name"] = kernel
        plan.text["steps"][-1]["parameters"][3] = {"value": works.to_bytes(8, "little").hex()}
        if atomics:
            tape.kernels["k0"]["ttir"] += "atomic_rmw fadd"
        memory = SharedMemory()
        replayers = [Replayer([str(self.binary)], memory) for _ in range(2)]
        self.addCleanup(memory.close)
        for replayer in replayers:
            self.addCleanup(replayer.stop)
        bench: Any = SimpleNamespace(
            references=References(load_task(source, "/tasks/sample.py"), 1),
            replayers=lambda plan: replayers, running=lambda: 2,
            device=Device(), eager=Eager(), eager_ms=1.0,
            compiled=self.compiled, compile_note=None, compile_baseline=lambda context: None,
            floor_bytes=0, moved_bytes=1200, released=None, info=self.info)
        context = Context(scratch=Path("/nowhere"), deadline=time.monotonic() + 600)

        def drop_compiled(note: str) -> None:
            bench.compiled, bench.compile_note = None, note

        bench.drop_compiled = drop_compiled
        compares = self.compiled is not None
        judgement = judge._Judgement(bench, record, tape, plan, context, "full", compares)
        verdict = judgement.verdict()
        # Launches before the clock; the own inputs ran thrice.
        self.before = (judgement.runs + 2) * len(tape.steps)
        return verdict

    def faster(self, verdict: dict[str, Any], notes: int) -> None:
        self.assertEqual((verdict["stage"], verdict["code"], verdict["win"]),
                         ("done", "faster", True), verdict["reason"])
        self.assertEqual(len(verdict["skipped"]), notes, verdict["skipped"])
        self.assertEqual(verdict["metrics"]["achieved"]["bytes"], 1200)
        self.assertTrue(any(line.startswith("has to move 1.2 kB") for line in verdict["feedback"]))

    def refused(self, verdict: dict[str, Any], sentence: str) -> None:
        self.assertEqual((verdict["stage"], verdict["code"], verdict["win"], verdict["correct"]),
                         ("audit", "results_differ", False, False), verdict["reason"])
        self.assertIn(sentence, verdict["reason"])

    def test_results_that_hashes_tell(self) -> None:
        self.faster(self.judged(PLAIN, TWICE), 0)
        for later in (0, 2, 20):  # in the first look, or later
            verdict = self.judged(PLAIN, TWICE, works=self.before + later)
            self.refused(verdict, "gave other results")

    def test_results_with_gaps(self) -> None:
        self.faster(self.judged(GAPS, EVERY_OTHER), 1)
        self.refused(self.judged(GAPS, EVERY_OTHER, works=self.before), "gave a wrong result")
        self.refused(self.judged(GAPS, EVERY_OTHER, works=self.before + 20),
                     "gave a wrong result")

    def test_results_that_do_not_repeat(self) -> None:
        self.assertEqual(self.judged(PLAIN, TWICE, "waver")["code"], "not_repeatable")
        self.faster(self.judged(PLAIN, TWICE, "waver", atomics=True), 1)
        self.refused(self.judged(PLAIN, TWICE, "waver", self.before, atomics=True),
                     "gave a wrong result")

    def test_inputs_that_change(self) -> None:
        body = "y = x * 2; x.mul_(4); return y"
        self.faster(self.judged(IN_PLACE, body), 1)
        self.refused(self.judged(IN_PLACE, body, works=self.before), "gave a wrong result")

    def test_beside_a_compiled_reference(self) -> None:
        self.compiled = Compiled()
        verdict = self.judged(PLAIN, TWICE)
        self.faster(verdict, 0)
        self.assertEqual(verdict["metrics"]["against"]["compile"]["original_ms"], 0.5)

    def test_a_compiled_reference_that_is_lost(self) -> None:
        self.compiled = Compiled(blocks=3)
        verdict = self.judged(PLAIN, TWICE)
        self.faster(verdict, 1)
        self.assertEqual(verdict["skipped"], ["no torch.compile baseline: it is gone"])
        self.assertNotIn("compile", verdict["metrics"]["against"])

    def test_a_gpu_that_reaches_all_memory(self) -> None:
        self.info["pageable_memory_access"] = 1
        verdict = self.judged(PLAIN, TWICE)
        self.faster(verdict, 1)
        self.assertIn("kernels can address the memory", verdict["skipped"][0])
        self.assertEqual(verdict["provenance"]["hardware"]["pageable_memory_access"], 1)


if __name__ == "__main__":
    unittest.main()
