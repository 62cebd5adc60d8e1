"""What the author writes passes the whole evaluation: policy, compiling for sm_90, correctness.

The simulator executes the compiled kernels' TTIR on data of its own; no GPU is needed.
"""

from __future__ import annotations

import tempfile
import time
import unittest
from pathlib import Path

from evaluator_simulator.judge import judge
from kernel_evolve_worker.context import Context

import families
import support

CHOSEN = (
    "diag_left", "permuted", "short_rows", "mask", "activations", "bfloat16_chain", "softmax_down",
    "softmax_bfloat16", "layer_norm_residual", "rms_norm_by_hand", "group_norm", "linear_residual",
    "mm_bfloat16", "batched", "total", "convolution", "own_module",
)  # fmt: skip


class TheEvaluatorAgrees(unittest.TestCase):
    def test_candidates_are_correct(self) -> None:
        for name in CHOSEN:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                source = families.sources()[name]
                scratch = Path(folder)
                recorded = support.record(source, support.candidate(source), scratch)
                self.assertTrue(recorded["ok"], recorded.get("reason"))
                verdict = judge(
                    {
                        "task": {"path": f"/tasks/{name}.py", "name": name, "source": source},
                        "record": recorded,
                        "asked": "full",
                        "seed": 11,
                    },
                    Context(scratch=scratch, deadline=time.monotonic() + 300),
                )
                self.assertTrue(verdict["ok"] and verdict["correct"], verdict["reason"])
                self.assertFalse(verdict["weak"])

    def test_a_candidate_without_its_mask_is_refused(self) -> None:
        """The checks above can fail: the same kernel without its bounds is out of bounds."""
        source = families.sources()["chain"]
        code = support.candidate(source).replace("rows < 19", "rows < 64")
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            recorded = support.record(source, code, scratch)
            verdict = judge(
                {
                    "task": {"path": "/tasks/chain.py", "name": "chain", "source": source},
                    "record": recorded,
                    "asked": "full",
                    "seed": 11,
                },
                Context(scratch=scratch, deadline=time.monotonic() + 300),
            )
        self.assertFalse(verdict["ok"])


if __name__ == "__main__":
    unittest.main()
