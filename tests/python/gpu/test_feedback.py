"""What the author of a candidate is told about a kernel."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

from evaluator_gpu import feedback
from evaluator_gpu.replayer import Fault

KERNELS = {"k0": {"name": "scale", "line": 7, "metadata": {"num_stages": 3}}}
TAPE: Any = SimpleNamespace(
    steps=[{"op": "aten"}, {"op": "launch", "kernel": "k0", "grid": [4, 1, 1]}], kernels=KERNELS,
    launches=[{"op": "launch", "kernel": "k0", "grid": [4, 1, 1]}])


class Faults(unittest.TestCase):
    def told(self, code: int, step: int = 1, text: str = "text") -> tuple[str, str]:
        return feedback.fault(Fault(code, step, text), TAPE)

    def test_each_code(self) -> None:
        for code, wanted, words in (
                (1, "out_of_resources", "launched with more than the GPU has"),
                (700, "out_of_bounds", "reads or writes outside its tensors"),
                (701, "out_of_resources", "smaller blocks or fewer warps"),
                (710, "device_assert", "an assertion of its own"),
                (716, "misaligned", "not aligned")):
            kind, text = self.told(code)
            self.assertEqual(kind, wanted)
            self.assertTrue(text.startswith("kernel scale (line 7) "), text)
            self.assertIn(words, text)
            self.assertTrue(text.endswith("."))

    def test_an_unknown_code(self) -> None:
        self.assertEqual(self.told(719, text="running step 1: CUDA_ERROR_LAUNCH_FAILED"),
                         ("crashed", "kernel scale (line 7) is stopped by the GPU: running step 1: "
                          "CUDA_ERROR_LAUNCH_FAILED."))

    def test_a_step_that_is_no_launch(self) -> None:
        for step in (-1, 0, 2, 99):
            self.assertTrue(self.told(700, step)[1].startswith("forward reads"))


class Kernels(unittest.TestCase):
    def entry(self, threads: int = 128, shared: int = 0, **resources: int) -> dict[str, Any]:
        given = {"registers": 32, "local_bytes": 0, "static_shared_bytes": 0,
                 "programs_per_sm": 16, **resources}
        plan = {"kernels": [{"threads": threads, "shared": shared}]}
        found, = feedback.kernel_entries(TAPE, plan, [given])
        return found

    def test_an_entry(self) -> None:
        found = self.entry(shared=1024, static_shared_bytes=16, local_bytes=8)
        self.assertEqual(found["shared_bytes"], 1040)
        self.assertEqual((found["spills"], found["num_warps"], found["num_stages"],
                          found["grid"]), (8, 4, 3, [4, 1, 1]))

    def test_what_limits(self) -> None:
        self.assertEqual(self.entry(threads=128, registers=255)["limiter"], "registers")
        self.assertEqual(self.entry(threads=1024, registers=16)["limiter"], "threads")
        self.assertEqual(self.entry(threads=32, registers=16)["limiter"], "programs")
        self.assertEqual(self.entry(shared=100 << 10)["limiter"], "shared memory")
        self.assertEqual(self.entry(registers=0)["limiter"], "threads")

    def test_lines(self) -> None:
        line, = feedback.kernel_lines([self.entry()])
        self.assertEqual(line, "kernel scale (line 7): 32 registers, 0 bytes spilled, 0 bytes "
                         "shared, 16 programs per SM (limited by registers), grid [4, 1, 1]")
        self.assertEqual(len(feedback.kernel_lines([self.entry()] * 40)), 12)

    def test_times(self) -> None:
        self.assertEqual(feedback.milliseconds(0.0123456), "0.01235 ms")


class HostNotes(unittest.TestCase):
    def noted(self, calls: int, optimized: float | None, **host: Any) -> list[str]:
        tape: Any = SimpleNamespace(steps=[{"op": "launch"}] * calls, host=host)
        return feedback.host_notes(tape, optimized, 3)

    def test_many_short_calls(self) -> None:
        note, = self.noted(40, 0.1)
        self.assertIn("forward makes 40 calls where eager makes 3; the host needs about 0.8 ms",
                      note)
        self.assertEqual(self.noted(40, 5.0), [])
        self.assertEqual(self.noted(3, 0.001), [])
        self.assertEqual(self.noted(40, None), [])

    def test_copies(self) -> None:
        self.assertEqual(self.noted(1, 1.0, host_copies=1),
                         ["forward copies 1 tensor from the host to the device, which is not in "
                          "the measured time"])
        for odd in (0, None, "many", -3):
            self.assertEqual(self.noted(1, 1.0, host_copies=odd), [])


if __name__ == "__main__":
    unittest.main()
