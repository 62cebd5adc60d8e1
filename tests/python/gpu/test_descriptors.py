"""Tensor descriptors and scratch memory in a plan."""

from __future__ import annotations

import copy
import unittest
from typing import Any

from evaluator_gpu import descriptors
from evaluator_gpu.plan import NotReplayable, make_plan
from kernel_evolve_worker.recording.tape import Tape, TapeError
from support import tape_of

HOST = """
@triton.jit
def scale(source, target, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    target.store([i, 0], source.load([i, 0]) * 2)
"""
ON_HOST = """
from triton.tools.tensor_descriptor import TensorDescriptor
x = args[0]
out = torch.empty_like(x)
scale[(4,)](TensorDescriptor.from_tensor(x, [32, 16]),
            TensorDescriptor.from_tensor(out, [32, 16]), BLOCK=32)
return out
"""
DEVICE = """
@triton.jit
def scale(x, out, rows, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, 16], [16, 1], [BLOCK, 16])
    target = tl.make_tensor_descriptor(out, [rows, 16], [16, 1], [BLOCK, 16])
    i = tl.program_id(0) * BLOCK
    target.store([i, 0], source.load([i, 0]) * 2)
"""
ON_DEVICE = """
x = args[0]
triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
out = torch.empty_like(x)
scale[(4,)](x, out, x.shape[0], BLOCK=32)
return out
"""


def host() -> Tape:
    return tape_of(ON_HOST, HOST, "torch.randn(128, 16)")


def device() -> Tape:
    return tape_of(ON_DEVICE, DEVICE, "torch.randn(128, 16)")


class OnTheHost(unittest.TestCase):
    def test_the_parameters(self) -> None:
        step, = make_plan(host()).text["steps"]
        parameters = step["parameters"]
        self.assertEqual(len(parameters), 2 * (1 + 2 + 2) + 2)
        self.assertEqual(parameters[0], {
            "buffer": 0, "offset": 0,
            "map": {"type": 7, "swizzle": 2, "nan": False, "shape": [16, 128], "strides": [64],
                    "box": [16, 32]}})
        self.assertEqual([p["value"] for p in parameters[1:5]],
                         ["80000000", "10000000", "1000000000000000", "0100000000000000"])
        self.assertEqual(parameters[5]["buffer"], 1)

    def spoilt(self, **change: Any) -> Tape:
        tape = host()
        tape.kernels["k0"]["metadata"]["tensordesc_meta"][0].update(change)
        return tape

    def test_entries_that_make_no_sense(self) -> None:
        for change in ({"elem_type": 99}, {"elem_type": "f32"}, {"elem_size": 3}, {"swizzle": -1},
                       {"block_size": [32]}, {"block_size": [32, 512]}, {"block_size": 7}):
            with self.subTest(change=change), self.assertRaises(TapeError):
                make_plan(self.spoilt(**change))
        for name in ("shape", "strides"):
            tape = host()
            tape.steps[0]["args"][0]["descriptor"][name] = [1]
            with self.subTest(name=name), self.assertRaises(TapeError):
                make_plan(tape)

    def test_kinds_that_are_not_made(self) -> None:
        for change in ({"fp4_padded": True}, {"is_im2col": True}):
            with self.subTest(change=change), self.assertRaises(NotReplayable):
                make_plan(self.spoilt(**change))
        tape = host()
        del tape.kernels["k0"]["metadata"]["tensordesc_meta"]
        with self.assertRaises(NotReplayable):
            make_plan(tape)

    def test_types(self) -> None:
        given = {"shape": [4, 16], "strides": [16, 1], "padding": "nan"}
        made = {"swizzle": 0, "elem_size": 2, "elem_type": 6, "block_size": [2, 8],
                "fp4_padded": False}
        self.assertEqual(descriptors.tensor_map(given, made),
                         {"type": 6, "swizzle": 0, "nan": True, "shape": [16, 4], "strides": [32],
                          "box": [8, 2]})
        for compilers, drivers in ((7, 7), (9, 8), (10, 9)):
            found = descriptors.tensor_map(given, {**made, "elem_type": compilers})
            self.assertEqual(found["type"], drivers)


class OnTheDevice(unittest.TestCase):
    def test_scratch_for_all_programs(self) -> None:
        tape = device()
        size = tape.kernels["k0"]["metadata"]["global_scratch_size"]
        self.assertGreater(size, 0)
        plan = make_plan(tape)
        step, = plan.text["steps"]
        self.assertEqual(step["parameters"][-2:], [{"buffer": 2, "offset": 0},
                                                   {"value": "00" * 8}])
        self.assertEqual(plan.text["buffers"][2], {"bytes": 4 * size})
        self.assertEqual(len(plan.names), 2)

    def test_sizes_that_make_no_sense(self) -> None:
        for size, wanted in ((1 << 62, NotReplayable), ("many", TapeError)):
            tape = copy.deepcopy(device())
            tape.kernels["k0"]["metadata"]["global_scratch_size"] = size
            with self.subTest(size=size), self.assertRaises(wanted):
                make_plan(tape)

    def test_a_launch_of_nothing_needs_none(self) -> None:
        tape = device()
        tape.steps[0]["grid"] = [0, 1, 1]
        self.assertEqual(len(make_plan(tape).text["buffers"]), 2)


if __name__ == "__main__":
    unittest.main()
