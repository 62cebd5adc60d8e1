"""Wrong kernels: each mistake is found, named, and placed on the candidate's line."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import torch
from support import candidate, recorded, run, task

COPY = """
    @triton.jit
    def copy(x, out, count, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        {body}
"""


def line_of(kernel: str, text: str) -> int:
    """The line of the candidate that contains `text`."""
    lines = candidate(kernel, "return args[0]").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


class Faults(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(5)

    def copy(self, body: str, programs: str = "triton.cdiv(x.numel(), 64)",
             make: str = "torch.empty_like(x)", size: int = 1000) -> Any:
        forward = f"""
            x, = args
            out = {make}
            copy[({programs},)](x, out, x.numel(), BLOCK=64)
            return out
        """
        self.kernel = COPY.format(body=body)
        return run(f"torch.randn({size})", self.kernel, forward, [torch.randn(size)],
                   lanes_per_box=256)

    def only(self, execution: Any) -> dict[str, Any]:
        self.assertIsNone(execution.uncovered)
        self.assertEqual(len(execution.faults), 1, execution.faults)
        return execution.faults[0]

    def test_a_load_without_a_mask_reads_past_the_end(self) -> None:
        body = "v = tl.load(x + i); tl.store(out + i, v, mask=i < count)"
        fault = self.only(self.copy(body))
        self.assertEqual((fault["kind"], fault["param"], fault["count"]),
                         ("out_of_bounds_load", "x", 24))
        self.assertEqual((fault["program"], fault["offset"], fault["extent"]), ([15, 0, 0], 1000,
                                                                               1000))
        self.assertEqual(fault["line"], line_of(self.kernel, "tl.load"))

    def test_a_store_without_a_mask_writes_past_the_end(self) -> None:
        body = "tl.store(out + i, tl.load(x + i, mask=i < count, other=0.0))"
        execution = self.copy(body)
        fault = self.only(execution)
        self.assertEqual((fault["kind"], fault["param"], fault["count"]),
                         ("out_of_bounds_store", "out", 24))

    def test_a_negative_address(self) -> None:
        body = "tl.store(out + i, tl.load(x + i - 1, mask=i < count), mask=i < count)"
        fault = self.only(self.copy(body))
        self.assertEqual((fault["kind"], fault["offset"], fault["count"]),
                         ("out_of_bounds_load", -1, 1))

    def test_a_program_too_few_leaves_a_tile_unwritten(self) -> None:
        body = "tl.store(out + i, tl.load(x + i, mask=i < count), mask=i < count)"
        execution = self.copy(body, programs="x.numel() // 64")
        fault = self.only(execution)
        self.assertEqual((fault["kind"], fault["count"], fault["offset"]), ("unwritten", 40, 960))
        self.assertTrue(bool(execution.outputs[960:].isnan().all()))

    def test_memory_of_empty_is_read_before_it_is_written(self) -> None:
        body = """v = tl.load(out + i, mask=i < count)
        tl.store(out + i, v + 1.0, mask=i < count)"""
        fault = self.only(self.copy(body))
        self.assertEqual((fault["kind"], fault["param"], fault["count"]),
                         ("uninitialised", "out", 1000))

    def test_an_operator_reads_memory_of_empty(self) -> None:
        body = "tl.store(out + i, tl.load(x + i, mask=i < count), mask=i < count)"
        execution = self.copy(body, make="torch.empty_like(x); x = x + torch.empty_like(x)")
        self.assertEqual([f["kind"] for f in execution.faults], ["uninitialised"])
        self.assertIsNone(execution.faults[0]["kernel"])

    def test_masked_lanes_without_other_hold_nan(self) -> None:
        kernel = """
            @triton.jit
            def total(x, out, count, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                tl.store(out, tl.sum(tl.load(x + i, mask=i < count), 0))
        """
        forward = """
            out = torch.empty(1, device=args[0].device)
            total[(1,)](args[0], out, 100, BLOCK=128)
            return out
        """
        execution = run("torch.randn(100)", kernel, forward, [torch.randn(100)])
        self.assertEqual(execution.faults, [])
        self.assertTrue(bool(execution.outputs.isnan().all()))

    def test_two_programs_write_different_values_to_one_place(self) -> None:
        body = """v = tl.load(x + i, mask=i < count, other=0.0)
        tl.store(out + i % 500, v, mask=i < count)"""
        for lanes in (64, 1 << 16):  # the two programs in different boxes, and in one
            with self.subTest(lanes_per_box=lanes):
                forward = """
                    x, = args
                    out = torch.empty(500, device=x.device)
                    copy[(16,)](x, out, 1000, BLOCK=64)
                    return out
                """
                execution = run("torch.randn(1000)", COPY.format(body=body), forward,
                                [torch.randn(1000)], lanes_per_box=lanes)
                fault = self.only(execution)
                self.assertEqual((fault["kind"], fault["param"]), ("race", "out"))

    def test_two_programs_that_write_the_same_value_do_not_race(self) -> None:
        execution = self.copy("tl.store(out + i % 500, 1.0, mask=i < count)", make="torch.empty("
                              "500, device=x.device)")
        self.assertEqual(execution.faults, [])

    def test_a_program_reads_what_another_one_writes(self) -> None:
        body = """v = tl.load(x + i, mask=i < count)
        tl.store(x + count - 1 - i, v, mask=i < count)
        tl.store(out + i, v, mask=i < count)"""
        for lanes in (64, 1 << 16):
            with self.subTest(lanes_per_box=lanes):
                forward = """
                    x, = args
                    out = torch.empty_like(x)
                    copy[(16,)](x, out, 1000, BLOCK=64)
                    return out
                """
                execution = run("torch.randn(1000)", COPY.format(body=body), forward,
                                [torch.randn(1000)], lanes_per_box=lanes)
                self.assertIn("race", [fault["kind"] for fault in execution.faults])

    def test_work_in_place_is_no_race(self) -> None:
        body = """v = tl.load(x + i, mask=i < count)
        tl.store(x + i, v * 2, mask=i < count)
        tl.store(out + i, v, mask=i < count)"""
        execution = self.copy(body)
        self.assertEqual(execution.faults, [])
        torch.testing.assert_close(execution.inputs_after[0], execution.outputs * 2)

    def test_a_false_hint(self) -> None:
        body = """j = tl.max_contiguous(i * 2, 64)
        v = tl.load(x + j, mask=j < count, other=0.0)
        tl.store(out + i, v, mask=i < count)"""
        fault = self.only(self.copy(body, size=2048))
        self.assertEqual((fault["kind"], fault["line"]),
                         ("false_hint", line_of(self.kernel, "max_contiguous")))

    def test_a_true_hint(self) -> None:
        body = """i = tl.max_contiguous(tl.multiple_of(i, 64), 64)
        tl.store(out + i, tl.load(x + i, mask=i < count), mask=i < count)"""
        self.assertEqual(self.copy(body).faults, [])

    def test_an_assumption_that_does_not_hold(self) -> None:
        body = """tl.assume(count % 64 == 0)
        tl.store(out + i, tl.load(x + i, mask=i < count), mask=i < count)"""
        fault = self.only(self.copy(body))
        self.assertEqual((fault["kind"], fault["line"]),
                         ("false_hint", line_of(self.kernel, "assume")))
        self.assertEqual(self.copy(body, size=1024).faults, [])

    def test_an_assumption_counts_where_it_is_reached(self) -> None:
        body = """if tl.program_id(0) > 0:
            tl.assume(tl.program_id(0) >= 1)
        tl.store(out + i, tl.load(x + i, mask=i < count), mask=i < count)"""
        self.assertEqual(self.copy(body).faults, [])

    def test_the_alignment_of_addresses(self) -> None:
        body = """at = tl.multiple_of(x + i + {shift}, {bytes})
        tl.store(out + i, tl.load(at, mask=i + {shift} < count, other=0.0), mask=i < count)"""
        for shift, size, kinds in ((1, 16, ["false_hint"]), (1, 4, []), (4, 16, []), (4, 1024, [])):
            with self.subTest(shift=shift, size=size):
                faults = self.copy(body.format(shift=shift, bytes=size)).faults
                self.assertEqual([fault["kind"] for fault in faults], kinds)

    def test_an_access_is_checked_against_the_storage_of_a_view(self) -> None:
        body = "tl.store(out + i, tl.load(x + i, mask=i < count + 100), mask=i < count)"
        forward = """
            x = args[0][100:]
            out = torch.empty_like(x)
            copy[(15,)](x, out, x.numel(), BLOCK=64)
            return out
        """
        execution = run("torch.randn(1000)", COPY.format(body=body), forward, [torch.randn(1000)])
        fault = self.only(execution)
        self.assertEqual((fault["kind"], fault["count"], fault["offset"]),
                         ("out_of_bounds_load", 60, 1000))


class Uncovered(unittest.TestCase):
    def test_an_operation_that_the_simulator_does_not_know(self) -> None:
        kernel = """
            @triton.jit
            def swap(x, BLOCK: tl.constexpr):
                tl.atomic_cas(x, 0, 1)
        """
        forward = """
            x, = args
            swap[(1,)](x, BLOCK=16)
            return x
        """
        execution = run("torch.zeros(4, dtype=torch.int32)", kernel, forward,
                        [torch.zeros(4, dtype=torch.int32)])
        self.assertRegex(execution.uncovered, "^uncovered: tt.atomic_cas")
        self.assertIsNone(execution.outputs)

    def test_inline_assembly(self) -> None:
        kernel = '''
            @triton.jit
            def clock(x):
                t = tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r", [], dtype=tl.int32,
                                              is_pure=False, pack=1)
                tl.store(x, t)
        '''
        execution = run("torch.zeros(4, dtype=torch.int32)", kernel,
                        "clock[(1,)](args[0])\nreturn args[0]", [torch.zeros(4, dtype=torch.int32)])
        self.assertRegex(execution.uncovered, r"^uncovered: tt.elementwise_inline_asm on line \d+$")

    def test_the_time_budget(self) -> None:
        kernel = """
            @triton.jit
            def spin(x, turns):
                v = tl.load(x)
                for _ in range(turns):
                    v = v * 0.5 + 1.0
                tl.store(x, v)
        """
        execution = run("torch.zeros(4)", kernel, "spin[(1,)](args[0], 10000000)\nreturn args[0]",
                        [torch.zeros(4)], budget_s=0.2)
        self.assertRegex(execution.uncovered, "^uncovered: time budget: 0.2 s were spent after 0 "
                                              "of 1 programs, in the kernel spin$")

    def test_inputs_of_another_shape(self) -> None:
        result = recorded(task("torch.zeros(4)"), candidate("", "return args[0] + 1"))
        from evaluator_simulator.executor import execute

        execution = execute(result["loaded"], [torch.zeros(5)], {}, 10)
        self.assertRegex(execution.uncovered, "another shape or type")

    def test_buffers_that_do_not_fit(self) -> None:
        from evaluator_simulator import executor

        forward = """
            big = torch.empty(1 << 20, device=args[0].device)
            copy[(1,)](args[0], big, 4, BLOCK=64)
            return big[:4]
        """
        kernel = COPY.format(body="tl.store(out + i, tl.load(x + i, mask=i < 4), mask=i < 4)")
        for room, said in ((7 << 20, "take 8 MiB here, and 7 MiB are left"), (9 << 20, None)):
            with self.subTest(room), mock.patch.object(executor, "available", lambda: room):
                execution = run("torch.zeros(4)", kernel, forward, [torch.zeros(4)])
                self.assertIn(said or "None", str(execution.uncovered))
        with mock.patch.object(executor, "run_launch", side_effect=MemoryError):
            execution = run("torch.zeros(4)", kernel, forward, [torch.zeros(4)])
        self.assertIn("uncovered: memory: this process has too little", execution.uncovered)


class Constants(unittest.TestCase):
    KERNEL = """
        @triton.jit
        def add(x, table, out, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(out + i, tl.load(x + i) + tl.load(table + i))
    """
    FORWARD = """
        out = torch.empty_like(args[0])
        add[(1,)](args[0], self.table, out, BLOCK=64)
        return out
    """

    def test_a_tensor_made_in_init_keeps_its_values(self) -> None:
        x = torch.randn(64)
        execution = run("torch.randn(64)", self.KERNEL, self.FORWARD, [x],
                        init="self.table = torch.arange(64, device='cuda').float()")
        self.assertEqual(execution.faults, [])
        self.assertTrue(torch.equal(execution.outputs, x + torch.arange(64)))

    def test_a_constant_that_forward_changes_is_reported(self) -> None:
        forward = "self.table += 1\n" + "\n".join(
            line[8:] for line in self.FORWARD.splitlines()[1:])
        execution = run("torch.randn(64)", self.KERNEL, forward, [torch.randn(64)],
                        init="self.table = torch.zeros(64, device='cuda')")
        self.assertEqual(len(execution.constants_changed), 1)


if __name__ == "__main__":
    unittest.main()
