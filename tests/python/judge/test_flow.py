"""From the source of a candidate to its verdict: recorded, executed and judged for real."""

from __future__ import annotations

import tempfile
import textwrap
import time
import unittest
from pathlib import Path
from typing import Any

from support import task_source

from evaluator_simulator.judge import judge
from kernel_evolve_worker.context import Context
from kernel_evolve_worker.recording.record import record

HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl
"""

ROW_SCALE = HEAD + """
@triton.jit
def scale_add(a_ptr, b_ptr, d_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    a = tl.load(a_ptr + row)
    at = row * n + cols
    b = tl.load(b_ptr + at, mask=mask)
    d = tl.load(d_ptr + at, mask=mask)
    tl.store(out_ptr + at, a * b + d, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()

    def forward(self, x, y, z):
        out = torch.empty_like(y)
        scale_add[(y.shape[0],)](x, y, z, out, y.shape[1], BLOCK=128)
        return out
"""

DIAGONAL = task_source("return torch.diag(x) @ y + z",
                       "torch.randn(96), torch.randn(96, 100), torch.randn(96, 100)")

MATMUL = HEAD + """
@triton.jit
def product(a_ptr, b_ptr, out_ptr, K: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.dot(a, b, input_precision="{precision}")
    tl.store(out_ptr + m[:, None] * N + n[None, :], c + 1.0)


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()

    def forward(self, x, y):
        out = torch.empty((32, 32), device=x.device)
        product[(1,)](x, y, out, K=64, N=32, M=32)
        return out
"""

FOLDED = HEAD + """
@triton.jit
def add(x_ptr, w_ptr, out_ptr, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * BLOCK + cols)
    tl.store(out_ptr + row * BLOCK + cols, x + tl.load(w_ptr + cols) * 3.0)


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.w = nn.Parameter(torch.ones(64))
        self.folded = None

    def forward(self, x):
        {fold}
        out = torch.empty_like(x)
        add[(x.shape[0],)](x, w, out, BLOCK=64)
        return out
"""

TOUCH = """
@triton.jit
def touch(out_ptr, n):
    tl.store(out_ptr + tl.arange(0, 16), 1.0, mask=tl.arange(0, 16) < n)


class ModelNew(nn.Module):
    def forward(self, x, y, z):
        one = torch.ones(16, device=x.device)
        out = torch.empty_like(y)
        {body}
        return out
"""
# What forward does, and whether its launch counts.
DECOYS = {
    "touch[(1,)](one, 16); torch.add(x[:, None] * y, z, out=out)": "no_kernel",
    "touch[(1,)](out, 16); torch.add(x[:, None] * y, z, out=out)": "no_kernel",
    "touch[(1,)](out, 16); out.copy_(x[:, None] * y + z)": "no_kernel",
    "out.copy_(x[:, None] * y + z); touch[(1,)](out, 0)": "no_kernel",
    "touch[(0,)](one, 16); out.copy_(x[:, None] * y * one[0] + z)": "no_kernel",
    "touch[(1,)](one, 16); two = one * 2; out.copy_(x[:, None] * y + z)": "no_kernel",
    "touch[(1,)](one, 16); two = one * 2; out.copy_(x[:, None] * y + z * two[0] / 2)": "counts",
}


class Flow(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scratch = Path(folder.name)
        self.state: dict[str, Any] = {}

    def context(self) -> Context:
        return Context(scratch=self.scratch, deadline=time.monotonic() + 300, state=self.state)

    def verdict(self, source: str, code: str, asked: str = "full") -> dict[str, Any]:
        task = {"path": "/tasks/sample.py", "name": "sample", "source": source}
        recorded = record({"task": task, "candidate": {"code": textwrap.dedent(code)}},
                          self.context())
        return judge({"task": task, "record": recorded, "asked": asked, "seed": 3}, self.context())

    def test_a_right_kernel_wins(self) -> None:
        verdict = self.verdict(DIAGONAL, ROW_SCALE)
        self.assertTrue(verdict["win"], verdict)
        self.assertEqual(verdict["kernels"][0]["name"], "scale_add")
        self.assertEqual(verdict["kernels"][0]["grid"], [96, 1, 1])
        self.assertEqual(verdict["coverage"]["programs_run"], 96)
        self.assertGreater(verdict["kernels"][0]["registers"], 0)

    def test_compile_only(self) -> None:
        verdict = self.verdict(DIAGONAL, ROW_SCALE, "compile")
        self.assertEqual((verdict["ok"], verdict["code"], verdict["correct"]),
                         (True, "compiled", None))
        broken = self.verdict(DIAGONAL, ROW_SCALE.replace("mask = cols < n", "mask = colz < n"),
                              "compile")
        self.assertEqual((broken["ok"], broken["stage"]), (False, "compile"))
        self.assertIn("colz", broken["reason"])

    def test_a_forgotten_mask(self) -> None:
        verdict = self.verdict(DIAGONAL, ROW_SCALE.replace(", mask=mask)", ")"))
        self.assertEqual((verdict["stage"], verdict["correct"]), ("correctness", False), verdict)
        self.assertIn(verdict["code"], ("out_of_bounds", "race"))
        self.assertIn("scale_add", verdict["reason"])
        self.assertIn("line", verdict["reason"])

    def test_rows_that_nobody_writes(self) -> None:
        verdict = self.verdict(DIAGONAL, ROW_SCALE.replace("(y.shape[0],)", "(y.shape[0] - 1,)"))
        self.assertEqual(verdict["code"], "unwritten", verdict)
        self.assertIn("100 elements of the output stay unwritten", verdict["reason"])

    def test_tf32_where_the_reference_is_exact(self) -> None:
        source = task_source("return x @ y + 1.0", "torch.randn(32, 64), torch.randn(64, 32)")
        fast = self.verdict(source, MATMUL.replace("{precision}", "tf32"))
        self.assertEqual((fast["correct"], fast["code"]), (False, "inaccurate"), fast)
        self.assertIn('input_precision="ieee"', "\n".join(fast["feedback"]))
        exact = self.verdict(source, MATMUL.replace("{precision}", "ieee"))
        self.assertTrue(exact["correct"], exact)

    def test_weights_are_read_in_each_call(self) -> None:
        source = task_source("return x + self.w * 3.0", "torch.randn(64, 64)",
                             init="self.w = nn.Parameter(torch.ones(64))")
        right = self.verdict(source, FOLDED.replace("{fold}", "w = self.w"))
        self.assertTrue(right["win"], right)
        fold = "w = torch.ones(64, device=x.device)"
        stale = self.verdict(source, FOLDED.replace("{fold}", fold))
        self.assertEqual((stale["correct"], stale["code"]), (False, "wrong_values"), stale)
        self.assertIn("other weights", stale["reason"])

    def test_expanded_inputs_stay_expanded(self) -> None:
        source = task_source("return torch.diag(x) @ y + z",
                             "torch.randn(96), torch.randn(96, 100), "
                             "torch.randn(1, 100).expand(96, 100)")
        code = ROW_SCALE.replace("d_ptr + at", "d_ptr + cols")
        verdict = self.verdict(source, code)
        self.assertTrue(verdict["correct"], verdict["reason"])

    def test_tied_weights_are_one(self) -> None:
        source = task_source(
            "return self.b(torch.relu(self.a(x)))", "torch.randn(32, 16)",
            init="self.a = nn.Linear(16, 16); self.b = nn.Linear(16, 16); "
                 "self.b.weight = self.a.weight")
        code = HEAD + """
class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.a = nn.Linear(16, 16)
        self.b = nn.Linear(16, 16)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))
"""
        verdict = self.verdict(source, code)
        self.assertTrue(verdict["correct"], verdict["reason"])
        self.assertEqual(verdict["code"], "no_kernel")

    def test_a_candidate_without_kernels_never_wins(self) -> None:
        code = HEAD + """
class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()

    def forward(self, x, y, z):
        return x[:, None] * y + z
"""
        verdict = self.verdict(DIAGONAL, code)
        self.assertEqual((verdict["ok"], verdict["correct"], verdict["win"], verdict["code"]),
                         (True, True, False, "no_kernel"), verdict)

    def test_a_launch_counts_only_where_an_output_depends_on_it(self) -> None:
        for body, code in DECOYS.items():
            verdict = self.verdict(DIAGONAL, HEAD + TOUCH.replace("{body}", body))
            with self.subTest(body):
                self.assertEqual((verdict["correct"], verdict["code"] == "no_kernel"),
                                 (True, code == "no_kernel"), verdict)


if __name__ == "__main__":
    unittest.main()
