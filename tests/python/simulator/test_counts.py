"""What a launch's modelled time depends on beside its bytes, as the executor counts it."""

from __future__ import annotations

import unittest

import torch
from evaluator_simulator.execution import LaunchStats
from support import run

WALK = """
    @triton.jit
    def walk(x, out, step, TURNS: tl.constexpr, B: tl.constexpr):
        total = tl.zeros((B,), dtype=tl.float32)
        for turn in range(TURNS):
            i = (tl.program_id(0) * TURNS + turn) * B + tl.arange(0, B)
            total += tl.load(x + i * step)
        tl.store(out + tl.program_id(0) * B + tl.arange(0, B), total)
"""

TWICE = """
    @triton.jit
    def twice(x, out, limit, B: tl.constexpr):
        i = tl.arange(0, B)
        high = tl.max(tl.load(x + i), axis=0)
        again = tl.load(x + i, mask=i < limit, other=0.0)
        tl.store(out + i, again - high)
"""

PLACES = """
    @triton.jit
    def places(x, where, out, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.atomic_add(out + tl.load(where + i), tl.load(x + i))
"""

PRODUCT = """
    @triton.jit
    def product(x, y, out, along, across, TURN: tl.constexpr):
        i = tl.arange(0, 16)
        a = tl.load(x + i[:, None] * 16 + i[None, :])
        b = tl.load(y + i[:, None] * along + i[None, :] * across)
        if TURN:
            b = tl.trans(b)
        tl.store(out + i[:, None] * 16 + i[None, :], tl.dot(a, b, input_precision="ieee"))
"""

CHAIN = """
    @triton.jit
    def add(x, out, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(out + i, tl.load(x + i) + 1.0)
"""


def walk(step: int, turns: int) -> LaunchStats:
    size = 4 * turns * 64 * step
    found = run(f"torch.randn({size})", WALK, f"""
        out = torch.empty(256, device=args[0].device)
        walk[(4,)](args[0], out, {step}, TURNS={turns}, B=64)
        return out""", [torch.randn(size)])
    return found.launches[0]


class Loads(unittest.TestCase):
    def test_a_turn_of_a_loop_is_a_round(self) -> None:
        self.assertEqual(walk(1, 8).rounds, 8)

    def test_lone_elements_ask_for_a_sector_each(self) -> None:
        self.assertEqual(walk(1, 2).lone_sectors, 0)
        self.assertEqual(walk(16, 2).lone_sectors, 512)

    def test_memory_sends_sectors_in_pairs(self) -> None:
        found = walk(16, 2)
        self.assertEqual((found.read_bytes, found.fetched_bytes), (512 * 32, 512 * 64))

    def test_what_two_lines_read_is_read_again(self) -> None:
        found = run("torch.randn(256)", TWICE, """
            out = torch.empty_like(args[0])
            twice[(1,)](args[0], out, 256, B=256)
            return out""", [torch.randn(256)])
        self.assertEqual((found.launches[0].read_bytes, found.launches[0].reread_bytes),
                         (1024, 1024))


class Atomics(unittest.TestCase):
    def sectors(self, where: torch.Tensor) -> int:
        found = run("torch.randn(256), torch.zeros(256, dtype=torch.int64)", PLACES, """
            out = torch.zeros(4096, device=args[0].device)
            places[(2,)](args[0], args[1], out, B=128)
            return out""", [torch.randn(256), where])
        return found.launches[0].atomics

    def test_neighbours_go_together(self) -> None:
        self.assertEqual(self.sectors(torch.arange(256)), 32)

    def test_those_at_one_place_do_not(self) -> None:
        self.assertEqual(self.sectors(torch.zeros(256, dtype=torch.int64)), 256)


class Products(unittest.TestCase):
    def order(self, along: int, across: int, turn: bool) -> str:
        found = run("torch.randn(16, 16), torch.randn(16, 16)", PRODUCT, f"""
            out = torch.empty_like(args[0])
            product[(1,)](args[0], args[1], out, {along}, {across}, TURN={turn})
            return out""", [torch.randn(16, 16), torch.randn(16, 16)])
        ((key, count),) = found.launches[0].dots.items()
        self.assertEqual(count, 2 * 16**3)
        size, order = key.split()
        self.assertEqual(size, "16x16x16")
        return order

    def test_the_right_operand_lies_along_rows_or_columns(self) -> None:
        self.assertEqual(self.order(16, 1, False), "rows")
        self.assertEqual(self.order(1, 16, False), "columns")

    def test_turning_a_loaded_tile_does_not_hide_how_it_lies(self) -> None:
        self.assertEqual(self.order(16, 1, True), "columns")
        self.assertEqual(self.order(1, 16, True), "rows")


class Reuse(unittest.TestCase):
    def test_a_launch_finds_what_an_earlier_one_touched(self) -> None:
        found = run("torch.randn(256)", CHAIN, """
            x, = args
            one, two, three = (torch.empty_like(x) for _ in range(3))
            add[(2,)](x, one, B=128)
            add[(2,)](one, two, B=128)
            add[(2,)](x, three, B=128)
            return two, three""", [torch.randn(256)])
        self.assertEqual([launch.reused for launch in found.launches],
                         [(), ((1024, 0),), ((1024, 2048),)])


if __name__ == "__main__":
    unittest.main()
