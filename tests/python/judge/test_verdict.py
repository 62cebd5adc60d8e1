"""What every evaluator's verdict holds, and the one rule for a win."""

from __future__ import annotations

import unittest
from typing import Any

from kernel_evolve_worker.correctness import verdict as verdicts


def verdict(**change: Any) -> dict[str, Any]:
    """A measured win, with `change`."""
    given = {"class_": "tape", "evaluator": "gpu", "version": "2.0.0", "asked": "full",
             "stage": "done", "ok": True, "code": "faster", "reason": "It is.", "correct": True,
             "original_ms": 3.0, "optimized_ms": 2.0, "interval": (1.2, 1.8)}
    return verdicts.make_verdict(**{**given, **change})


class Wins(unittest.TestCase):
    def test_a_correct_and_faster_candidate_wins(self) -> None:
        self.assertIs(verdict()["win"], True)
        self.assertIs(verdict(interval=None)["win"], True)

    def test_nothing_else_does(self) -> None:
        for change in (
            {"ok": False}, {"asked": "compile"}, {"correct": None}, {"correct": False},
            {"weak": True}, {"code": "no_kernel"}, {"optimized_ms": 3.0}, {"optimized_ms": None},
            {"interval": (1.0, 1.8)}, {"interval": [0.9, 2.5]},
            {"interval": (float("nan"), 2.0)}, {"speedup": 0.99},
        ):
            self.assertIs(verdict(**change)["win"], False, change)


class Members(unittest.TestCase):
    def test_who_judged_and_how(self) -> None:
        found = verdict()
        self.assertEqual((found["format"], found["class"], found["evaluator"]),
                         (1, "tape", {"name": "gpu", "version": "2.0.0", "protocol": 1}))

    def test_the_speedup_is_the_ratio_of_times_unless_it_was_measured_itself(self) -> None:
        self.assertEqual(verdict()["metrics"]["speedup"], 1.5)
        self.assertEqual(verdict(speedup=1.4)["metrics"]["speedup"], 1.4)

    def test_a_measured_verdict_has_an_interval_and_what_it_was_measured_against(self) -> None:
        against = {"eager": {"speedup": 1.5}, "compile": {"speedup": 1.1}}
        metrics = verdict(against=against)["metrics"]
        self.assertEqual((metrics["interval"], metrics["against"]), ([1.2, 1.8], against))
        self.assertEqual(set(verdict(interval=None)["metrics"]),
                         {"speedup", "original_time", "optimized_time", "error"})

    def test_a_failed_recording_is_told_by_the_evaluator_that_asked_for_it(self) -> None:
        record = {"ok": False, "stage": "policy", "code": "import", "reason": "It reads files.",
                  "seconds": {"record": 0.5}, "target": "sm_90"}
        found = verdicts.from_record_failure(
            record, "full", class_="process", evaluator="gpu", version="2.0.0", time="measured")
        self.assertEqual((found["class"], found["stage"], found["code"], found["correct"]),
                         ("process", "policy", "import", None))
        self.assertEqual(found["provenance"]["time"], "measured")
        self.assertEqual(found["seconds"], {"record": 0.5})

    def test_an_answer_that_recording_never_gives(self) -> None:
        right = {"ok": False, "stage": "correctness", "code": "uncovered", "reason": "It is."}
        odd = [None, [], "ok", {}, {**right, "ok": 1}, {**right, "ok": True},
               {**right, "code": "faster"}, {**right, "stage": "done"},
               {**right, "stage": "policy"}, {**right, "stage": ["policy"]},
               {**right, "code": None}, {**right, "reason": ""}, {**right, "reason": 7},
               {**right, "reason": "a\nb"}, {**right, "reason": "\x1b[2J"},
               {**right, "reason": "x" * 3000}]
        for record in odd:
            found = verdicts.from_record_failure(record, "full", class_="tape", evaluator="gpu",
                                                 version="1", time="measured")
            with self.subTest(record=str(record)[:80]):
                self.assertEqual((found["stage"], found["code"], found["ok"], found["win"]),
                                 ("integrity", "forged", False, False))
                self.assertIn("an answer that recording never gives", found["reason"])
        more = {**right, "feedback": ["fine", "a\nb"], "kernels": [{"name": "x"}],
                "versions": {"torch": "2.9\n", "triton": "3.9.0"}, "target": "moon",
                "seconds": {"record": float("nan"), "x": 1, "compile": "2"}}
        found = verdicts.from_record_failure(more, "full", class_="tape", evaluator="gpu",
                                             version="1", time="measured")
        self.assertEqual((found["code"], found["feedback"], found["kernels"], found["seconds"]),
                         ("uncovered", ["It is."], [], {}))
        self.assertEqual((found["provenance"]["triton"], found["provenance"]["target"]),
                         ("3.9.0", "sm_90"))
        self.assertNotIn("\n", found["provenance"]["torch"])

    def test_the_seconds_of_a_record_are_a_number_or_by_kind(self) -> None:
        self.assertEqual(verdicts.seconds_of({"seconds": 2}), {"record": 2.0})
        self.assertEqual(verdicts.seconds_of({"seconds": {"compile": 1}}), {"compile": 1.0})
        self.assertEqual(verdicts.seconds_of({}), {})


if __name__ == "__main__":
    unittest.main()
