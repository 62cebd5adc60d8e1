"""Modelled times: the published figures of the example, and what has to come out slow."""

from __future__ import annotations

import unittest

import torch
from support import task_source

from evaluator_simulator import hardware, model
from evaluator_simulator.execution import AtenStats, LaunchStats
from evaluator_simulator.model import KernelShape
from kernel_evolve_worker.correctness.layout import Layout
from kernel_evolve_worker.correctness.trace import trace_operators
from kernel_evolve_worker.task import construct, load_task

N = 4096


def trace(source: str, shapes: list[torch.Tensor]):
    """Operators for inputs given as meta-sized tensors: no data is needed to count."""
    task = load_task(source, "/tasks/sample.py")
    return trace_operators(construct(task, 0), shapes)


def blank(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of any size that owns one element."""
    return torch.empty_strided(shape, (0,) * len(shape), dtype=dtype)


def elementwise(programs: int, read: int, written: int) -> LaunchStats:
    return LaunchStats("k0", "k", (programs, 1, 1), programs, read_bytes=read,
                       written_bytes=written, bytes_per_program=(read + written) / programs,
                       flops={"fp32": written // 2})


class Example(unittest.TestCase):
    def test_diagonal_product(self) -> None:
        source = task_source("return torch.diag(x) @ y + z", "torch.randn(1)")
        dense = [torch.empty(N), torch.empty(N, N), torch.empty(N, N)]
        found = trace(source, dense)
        self.assertEqual(found.where, "cuda")
        self.assertEqual(found.depth, N)
        eager = model.eager_time(found.operators) * 1e3
        self.assertAlmostEqual(eager, 2.745, delta=0.03)  # measured on an H200: 2.745
        kernel = model.launch_time(
            elementwise(N * N // 4096, 2 * N * N * 4 + N * 4, N * N * 4), KernelShape())
        self.assertAlmostEqual(model.call_time([kernel.seconds]) * 1e3, 0.0484, delta=0.001)
        self.assertEqual(kernel.bound, "memory")
        self.assertGreater(kernel.bandwidth_share, 0.9)


class Launches(unittest.TestCase):
    read, written = 2 * N * N * 4, N * N * 4

    def seconds(self, stats: LaunchStats, **shape) -> float:
        return model.launch_time(stats, KernelShape(**shape)).seconds

    def test_a_grid_of_one_program_is_slow(self) -> None:
        many = self.seconds(elementwise(4096, self.read, self.written))
        one = self.seconds(elementwise(1, self.read, self.written))
        self.assertGreater(one, 100 * many)

    def test_spills_and_low_occupancy_cost(self) -> None:
        stats = elementwise(4096, self.read, self.written)
        self.assertGreater(self.seconds(stats, spills=512), 2 * self.seconds(stats))
        crowded = self.seconds(stats, num_warps=1, shared_bytes=200 * 1024)
        self.assertGreater(crowded, 2 * self.seconds(stats))

    def test_an_empty_kernel_costs_its_launch(self) -> None:
        tiny = model.launch_time(elementwise(1, 64, 64), KernelShape())
        self.assertEqual(tiny.bound, "launch")
        self.assertAlmostEqual(tiny.seconds, hardware.LAUNCH, delta=2e-6)

    def test_tensor_cores_beat_fma_and_wgmma_beats_mma(self) -> None:
        stats = LaunchStats("k0", "k", (32, 32, 1), 1024, read_bytes=2 * N * N * 2,
                            written_bytes=N * N * 2, bytes_per_program=2 * 128 * N * 2,
                            flops={"dot_bf16": 2 * N**3})
        shape = {"num_warps": 8, "registers": 200, "shared_bytes": 96 * 1024}
        fma, mma, wgmma = (self.seconds(stats, tensor=t, **shape) for t in ("fma", "mma", "wgmma"))
        self.assertGreater(fma, 2 * mma)
        self.assertGreaterEqual(mma, wgmma)
        exact = LaunchStats(**{**vars(stats), "flops": {"dot_ieee": 2 * N**3}})
        self.assertAlmostEqual(self.seconds(exact, tensor="mma", **shape), fma, delta=fma * 0.01)

    def test_the_instruction_is_found_in_the_ptx(self) -> None:
        self.assertEqual(model.instruction_class("wgmma.mma_async.sync.aligned"), "wgmma")
        self.assertEqual(model.instruction_class("mma.sync.aligned.m16n8k16"), "mma")
        self.assertEqual(model.instruction_class("fma.rn.f32"), "fma")


class Occupancy(unittest.TestCase):
    def limit(self, **shape) -> tuple[int, str]:
        found = model.occupancy(KernelShape(**shape))
        return found.programs, found.limiter

    def test_each_resource_may_be_the_limit(self) -> None:
        self.assertEqual(self.limit(num_warps=4, registers=255), (2, "registers"))
        self.assertEqual(self.limit(num_warps=4, shared_bytes=100 * 1024), (2, "shared memory"))
        self.assertEqual(self.limit(num_warps=8, registers=20), (8, "warps"))
        self.assertEqual(self.limit(num_warps=1), (32, "programs"))


class Eager(unittest.TestCase):
    def names(self, source: str, inputs: list[torch.Tensor]) -> list[str]:
        return [op.name.split(".")[1] for op in trace(source, inputs).operators]

    def test_views_cost_nothing_and_expanded_tensors_are_read_once(self) -> None:
        source = task_source("return (x[None].expand(4, 8, 8) + 1).view(4, 64)", "0")
        found = trace(source, [torch.empty(8, 8)])
        self.assertEqual([op.name for op in found.operators], ["aten.add.Tensor"])
        self.assertEqual((found.operators[0].read_bytes, found.operators[0].written_bytes),
                         (256, 1024))

    def test_depth_follows_the_reduction(self) -> None:
        self.assertEqual(trace(task_source("return x.softmax(-1)", "0"),
                               [torch.empty(8, 300)]).depth, 300)
        self.assertEqual(trace(task_source("return x.sum(0)", "0"), [torch.empty(70, 8)]).depth, 70)
        self.assertEqual(trace(task_source("return F.layer_norm(x, (50,))", "0"),
                               [torch.empty(8, 50)]).depth, 50)
        self.assertEqual(trace(task_source("return x + 1", "0"), [torch.empty(8, 50)]).depth, 1)

    def test_a_task_that_needs_data_is_traced_while_it_runs(self) -> None:
        source = task_source("return x * int(x.sum().item() > 0)", "0")
        found = trace(source, [torch.ones(8, 8)])
        self.assertEqual(found.where, "run")
        self.assertIn("aten.mul.Tensor", [op.name for op in found.operators])

    def test_attention_is_one_kernel_as_on_a_gpu(self) -> None:
        source = task_source("return F.scaled_dot_product_attention(x, y, z)", "0")
        found = trace(source, [torch.empty(2, 4, 64, 32)] * 3)
        self.assertEqual([op.name for op in found.operators],
                         ["aten.scaled_dot_product_attention.default"])
        self.assertEqual(found.flops, 2 * 2 * 4 * 64 * 64 * (32 + 32))
        self.assertEqual(found.depth, 64)

    def test_precision_seen_on_the_way(self) -> None:
        source = task_source("return (x.bfloat16() @ x.bfloat16()).float()", "0")
        self.assertEqual(trace(source, [torch.empty(64, 64)]).dtypes,
                         {torch.bfloat16, torch.float32})

    def test_operators_left_to_pytorch_cost_what_they_cost_in_eager(self) -> None:
        stats = AtenStats("aten.mm.default", 0, 2 * N * N * 4, N * N * 4, 2 * N**3, "float32",
                          Layout(product=(1, N, N)))
        source = task_source("return x @ y", "0")
        eager = model.eager_time(trace(source, [torch.empty(N, N)] * 2).operators)
        # The same matrix twice is read once; arithmetic decides either way.
        self.assertAlmostEqual(model.call_time([model.aten_time(stats)]), eager, delta=1e-9)
        self.assertEqual(model.aten_time(AtenStats("aten.view.default")), 0.0)


if __name__ == "__main__":
    unittest.main()
