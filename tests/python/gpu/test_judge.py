"""Verdicts that need no GPU: what was not recorded, can't be replayed or can't be read."""

from __future__ import annotations

import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from evaluator_gpu import constants, judge
from kernel_evolve_worker.context import Context
from support import record_of, texts

TASK = {"name": "sample", "path": "/tasks/sample.py", "source": texts.task()}
ASSEMBLY = texts.SCALE.replace("tl.load(x + i, mask=i < count) * 2", """tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [tl.load(x + i, mask=i < count)], tl.float32, True, 1)""")


class Verdicts(unittest.TestCase):
    def judged(self, record: dict[str, Any], asked: str = "full") -> dict[str, Any]:
        context = Context(scratch=Path("/nowhere"), deadline=time.monotonic() + 60)
        with mock.patch.object(judge, "bench_for", side_effect=AssertionError("asks for a GPU")):
            verdict = judge.judge({"task": TASK, "record": record, "asked": asked, "seed": 1},
                                  context)
        self.assertFalse(verdict["ok"])
        self.assertFalse(verdict["win"])
        self.assertEqual((verdict["class"], verdict["evaluator"]["name"]), ("tape", "gpu"))
        self.assertNotIn("\n", verdict["reason"])
        self.assertTrue(verdict["reason"].endswith("."), verdict["reason"])
        self.assertIsNone(verdict["metrics"]["speedup"])
        return verdict

    def test_a_candidate_that_was_not_recorded(self) -> None:
        verdict = self.judged(record_of("import os\n", texts.task()))
        self.assertEqual((verdict["stage"], verdict["code"]), ("policy", "import"))
        self.assertIn("the module os is not allowed", verdict["reason"])

    def test_a_candidate_that_hung(self) -> None:
        verdict = self.judged({"ok": False, "stage": "correctness", "code": "timeout",
                               "reason": "while the candidate ran: it took too long.",
                               "feedback": []})
        self.assertEqual((verdict["stage"], verdict["code"]), ("correctness", "timeout"))

    def test_what_no_replay_can_do(self) -> None:
        record = record_of(texts.candidate(kernel=ASSEMBLY), texts.task())
        self.assertTrue(record["ok"], record)
        for asked in ("full", "compile"):
            verdict = self.judged(record, asked)
            self.assertEqual((verdict["stage"], verdict["code"]), ("correctness", "uncovered"))
            self.assertEqual(verdict["reason"],
                             "uncovered: inline assembly in the kernel scale.")

    def test_a_tape_that_is_none(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tape.json"
            for text in ("", "{}", "[1, 2]", '{"tape": 2}', "\0\1", "[" * 5000,
                         '{"tape": 2, "inputs": 1, "state": 1, "buffers": 1, "steps": 1, '
                         '"kernels": 1, "outputs": 1, "versions": 1, "target": 1, "host": 1}'):
                path.write_text(text)
                with self.subTest(text=text[:40]):
                    verdict = self.judged({"ok": True, "tape": {"path": str(path)}})
                    self.assertEqual((verdict["stage"], verdict["code"]),
                                     ("integrity", "no_recording"))

    def test_a_record_without_a_tape(self) -> None:
        for record in ({"ok": True}, {"ok": True, "tape": {}}, {"ok": True, "tape": None},
                       {"ok": True, "tape": {"path": "/nowhere/tape.json"}},
                       {"ok": True, "tape": {"path": 7}}):
            with self.subTest(record=record):
                self.assertEqual(self.judged(record)["code"], "no_recording")


class Poisons(unittest.TestCase):
    def test_one_makes_nan_and_the_others_ordinary_numbers(self) -> None:
        seen: set[tuple[int, ...]] = set()
        for _ in range(300):
            poisons = judge.draw_poisons()
            self.assertEqual(len(set(poisons)), 1 + constants.POISONS_DRAWN)
            self.assertIn(constants.POISON_NAN, poisons)
            self.assertLessEqual(set(poisons),
                                 {constants.POISON_NAN, *constants.POISONS_ORDINARY})
            seen.add(tuple(poisons))
        self.assertGreater(len(seen), 100)

    def test_sizes(self) -> None:
        for dtype, least, most in ((torch.float32, 7e-4, 3e4), (torch.bfloat16, 7e-4, 3e4),
                                   (torch.float16, 0.7, 7)):
            raw = torch.tensor([[byte] * 8 for byte in constants.POISONS_ORDINARY])
            values = raw.to(torch.uint8).view(dtype).double().abs()
            self.assertGreater(values.min().item(), least)
            self.assertLess(values.max().item(), most)
            nan = torch.full((8,), constants.POISON_NAN, dtype=torch.uint8).view(dtype)
            self.assertTrue(nan.isnan().all())


if __name__ == "__main__":
    unittest.main()
