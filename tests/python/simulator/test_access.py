"""An access gives the same values, faults and counts whichever way it is carried out.

Regular addresses become one strided view, irregular ones are copied tile by tile where tiles are
large, and everything else is gathered lane by lane. Each kernel here runs on all three ways.
"""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import torch
from evaluator_simulator import access, window
from evaluator_simulator.executor import execute
from support import candidate, recorded, task

TRANSPOSE = """
    @triton.jit
    def move(x, out, M, N, B: tl.constexpr, PAD: tl.constexpr, SWAP: tl.constexpr):
        pm, pn = tl.program_id(0), tl.program_id(1)
        if SWAP:  # an irregular order of tiles
            pm, pn = (pm * 7 + pn * 3) % tl.num_programs(0), pn
        m = pm * B + tl.arange(0, B)
        n = pn * B + tl.arange(0, B)
        inside = (m[:, None] < M + PAD) & (n[None, :] < N)
        v = tl.load(x + m[:, None] * N + n[None, :], mask=inside, other=1.0)
        tl.store(out + n[:, None] * M + m[None, :], tl.trans(v),
                 mask=(n[:, None] < N) & (m[None, :] < M + PAD))
"""

FORWARD = """
    x, = args
    M, N = x.shape
    out = torch.empty(N, M, device=x.device)
    move[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, out, M, N, B=32, PAD={pad}, SWAP={swap})
    return out
"""

ROWS = """
    @triton.jit
    def move(x, out, columns, B: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, B)
        v = tl.load(x + row * columns + i, mask=i < columns, other=0.0)
        tl.store(out + row * columns + i, v, mask={mask})
"""


def summary(execution: Any) -> dict[str, Any]:
    (launch,) = execution.launches
    # Which of two writers is the second depends on the order, so a race's count does, too.
    faults = [{k: v for k, v in fault.items()
               if k not in ("program", "offset") and (k, fault["kind"]) != ("count", "race")}
              for fault in execution.faults]
    return {"uncovered": execution.uncovered, "faults": faults, "read": launch.read_bytes,
            "written": launch.written_bytes, "asked": launch.bytes_per_program,
            "flops": launch.flops}


class Ways(unittest.TestCase):
    def compare(self, kernel: str, forward: str, x: torch.Tensor) -> Any:
        shape = ", ".join(str(n) for n in x.shape)
        result = recorded(task(f"torch.randn({shape})"), candidate(kernel, forward))
        self.assertTrue(result["ok"], result)
        tape = result["loaded"]
        found = []
        for tile, views in ((1024, True), (16, True), (16, False), (1 << 30, False)):
            for lanes in (1 << 12, 1 << 20):
                see = access.window_of if views else lambda *_: None
                with mock.patch.object(window, "MIN_TILE", tile), \
                        mock.patch.object(access, "window_of", see):
                    found.append(execute(tape, [x.clone()], {}, 60, lanes_per_box=lanes))
        for other in found[1:]:
            self.assertEqual(summary(other), summary(found[0]))
            if not found[0].faults:  # who wins a race depends on the order
                self.assertTrue(torch.equal(other.outputs, found[0].outputs))
        return found[0]

    def test_tiles_with_ragged_edges(self) -> None:
        x = torch.randn(130, 75)
        for swap in (False, True):
            execution = self.compare(TRANSPOSE, FORWARD.format(pad=0, swap=swap), x)
            if not swap:
                self.assertEqual(execution.faults, [])
                self.assertTrue(torch.equal(execution.outputs, x.t()))
                self.assertEqual(execution.launches[0].read_bytes, 130 * 75 * 4 // 32 * 32 + 32)

    def test_a_mask_that_lets_too_much_through(self) -> None:
        execution = self.compare(TRANSPOSE, FORWARD.format(pad=9, swap=False),
                                 torch.randn(130, 75))
        self.assertEqual([f["kind"] for f in execution.faults][:2],
                         ["out_of_bounds_load", "out_of_bounds_store"])

    def test_rows_that_end_inside_a_block(self) -> None:
        x = torch.randn(40, 100)
        forward = """
            x, = args
            out = torch.empty_like(x)
            move[(40,)](x, out, 100, B=128)
            return out
        """
        execution = self.compare(ROWS.format(mask="i < columns"), forward, x)
        self.assertEqual(execution.faults, [])
        self.assertTrue(torch.equal(execution.outputs, x))

    def test_rows_that_run_into_the_next(self) -> None:
        forward = """
            x, = args
            out = torch.empty_like(x)
            move[(40,)](x, out, 100, B=128)
            return out
        """
        execution = self.compare(ROWS.format(mask="i < columns + 5"), forward,
                                 torch.randn(40, 100))
        self.assertEqual({f["kind"] for f in execution.faults},
                         {"out_of_bounds_store", "race"})

    def test_lanes_with_gaps(self) -> None:
        execution = self.compare(ROWS.format(mask="(i % 3 == 1) & (i < columns)"), """
            x, = args
            out = torch.zeros_like(x)
            move[(40,)](x, out, 100, B=128)
            return out
        """, torch.randn(40, 100))
        self.assertEqual(execution.faults, [])


if __name__ == "__main__":
    unittest.main()
