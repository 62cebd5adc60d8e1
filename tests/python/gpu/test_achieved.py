"""Shares of the machine's peaks."""

from __future__ import annotations

import unittest

from evaluator_gpu.achieved import Achieved, arithmetic_of, use_of_machine

H200 = {"sms": 132, "clock_khz": 1_980_000, "memory_clock_khz": 3_201_000, "bus_bits": 6144}


def used(milliseconds: float, moved: int = 0, flops: int = 0, ptx: str = "") -> Achieved:
    return use_of_machine(milliseconds, moved=moved, flops=flops, kernels=[{"ptx": ptx}, {}],
                          info=H200)


class Arithmetic(unittest.TestCase):
    def test_the_fastest_instruction_counts(self) -> None:
        for text, kind in (
                ("fma.rn.f32 %f1;", "fp32"), ("", "fp32"),
                ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {a};", "tf32"),
                ("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {a};", "half"),
                ("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {a};", "half"),
                ("wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {a};", "8-bit"),
                ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {a};", "fp64"),
                ("mov.u32 %tf32, %summa.f16;", "fp32")):
            with self.subTest(text=text):
                self.assertEqual(arithmetic_of([text]), kind)
        self.assertEqual(arithmetic_of(["mma.sync.m16n8k8.f32.tf32.tf32.f32",
                                        "mma.sync.m16n8k16.f32.bf16.bf16.f32"]), "half")

    def test_shares(self) -> None:
        found = used(2.0, flops=137_438_953_472)
        self.assertAlmostEqual(found.flops_per_second, 68.7e12, delta=0.1e12)
        self.assertAlmostEqual(found.arithmetic_share, 1.027, places=2)
        self.assertEqual(found.lines(), [
            "eager's own 137 GFLOP in this time: 68.7 TFLOP/s, more than the peak of fp32: it "
            "computes less than eager"])
        self.assertIn(", 51% of the peak fp32", used(4.0, flops=137_438_953_472).lines()[0])


class Bandwidth(unittest.TestCase):
    def test_shares(self) -> None:
        found = used(0.05, moved=134_217_728)
        self.assertAlmostEqual(found.bandwidth_share, 0.546, places=2)
        self.assertEqual(found.lines(), [
            "has to move 134 MB at least (inputs that matter, outputs): 2.68 TB/s, 55% of the peak "
            "bandwidth"])

    def test_a_device_that_tells_nothing(self) -> None:
        found = use_of_machine(1.0, moved=1000, flops=1000, kernels=[], info={})
        self.assertEqual((found.bandwidth_share, found.arithmetic_share), (0.0, 0.0))
        self.assertEqual(found.lines()[0],
                         "has to move 1 kB at least (inputs that matter, outputs): 1 MB/s")

    def test_nothing_to_tell(self) -> None:
        self.assertEqual(used(1.0).lines(), [])


if __name__ == "__main__":
    unittest.main()
