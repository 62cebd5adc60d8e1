"""The ratio of two contenders and its interval, on blocks that are made up."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import unittest
from unittest import mock

from evaluator_gpu import constants, timing


class Imagined:
    """A contender whose samples are `milliseconds` times noise, and slower with every call."""

    def __init__(self, name: str, milliseconds: float, chooser: random.Random,
                 noise: float = 0.0, drift: float = 0.0, log: list[str] | None = None) -> None:
        self.name = name
        self.milliseconds = milliseconds
        self._chooser, self._noise, self._log = chooser, noise, log
        self._drift = drift
        self.counts: list[int] = []

    def sample(self, count: int) -> list[float]:
        self.counts.append(count)
        if self._log is not None:
            self._log.append(self.name)
        self.milliseconds *= 1 + self._drift
        block = math.exp(self._chooser.gauss(0, self._noise))  # what a block's samples share
        return [self.milliseconds * block * math.exp(self._chooser.gauss(0, self._noise))
                for _ in range(count)]


def measured(eager: list[float], candidate: list[float]) -> timing.Measurement:
    return timing.Measurement({"eager": eager, "candidate": candidate})


class Ratios(unittest.TestCase):
    def test_the_ratio_of_quiet_blocks(self) -> None:
        ratio = measured([2.0] * 8, [1.0] * 8).ratio("eager", "candidate")
        self.assertAlmostEqual(ratio.value, 2.0)
        self.assertEqual((ratio.rounds, ratio.original_ms, ratio.optimized_ms), (4, 2.0, 1.0))
        # Quiet, yet not without doubt: what repeating doesn't show remains.
        unsure = timing.systematic(2.0) + timing.systematic(1.0)
        self.assertAlmostEqual(ratio.low, 2.0 * math.exp(-unsure))
        self.assertAlmostEqual(ratio.high, 2.0 * math.exp(unsure))

    def test_equal_contenders_never_win_by_a_tick(self) -> None:
        for base in (0.002, 0.01, 1.0):
            ratio = measured([base + constants.TICK_MS] * 8, [base] * 8).ratio(
                "eager", "candidate")
            self.assertLess(ratio.low, 1.0)

    def test_a_drift_over_a_round_cancels(self) -> None:
        # eager, candidate, candidate, eager; the clock slows by 3% a block.
        slowing = (1.03 ** n for n in itertools.count())
        eager, candidate = [], []
        for _ in range(constants.ROUNDS):
            eager.append(2.0 * next(slowing))
            candidate += [next(slowing), next(slowing)]
            eager.append(2.0 * next(slowing))
        self.assertAlmostEqual(measured(eager, candidate).ratio("eager", "candidate").value, 2.0)

    def test_one_round_says_nothing_for_sure(self) -> None:
        ratio = measured([2.0, 2.0], [1.0, 1.0]).ratio("eager", "candidate")
        self.assertEqual(ratio.low, 0.0)
        self.assertGreater(ratio.high, 1e300)
        self.assertTrue(math.isfinite(ratio.high))

    def test_the_interval_holds_the_truth(self) -> None:
        """With noise of 2% between blocks, 95 of 100 intervals and more contain the ratio."""
        chooser = random.Random(17)
        for truth in (1.0, 1.3, 20.0):
            missed = wins = 0
            for _ in range(400):
                pair = [Imagined("eager", truth, chooser, 0.02),
                        Imagined("candidate", 1.0, chooser, 0.02)]
                ratio = timing.measure(pair, constants.ROUNDS).ratio("eager", "candidate")
                missed += not ratio.low <= truth <= ratio.high
                wins += ratio.low > 1.0
            self.assertLess(missed, 20)
            if truth == 1.0:
                self.assertLess(wins, 10)  # one side of the interval
            else:
                self.assertEqual(wins, 400)

    def test_json(self) -> None:
        text = measured([2.0] * 8, [1.0] * 8).ratio("eager", "candidate").to_json()
        self.assertEqual(set(text), {"ratio", "interval", "rounds", "original_ms", "optimized_ms"})


class Drift(unittest.TestCase):
    def test_a_tick_of_the_clock_is_none(self) -> None:
        self.assertFalse(measured([0.004] * 6 + [0.0043] * 2, []).drifted("eager"))
        self.assertTrue(measured([0.4] * 6 + [0.43] * 2, []).drifted("eager"))

    def test_of_steady_blocks(self) -> None:
        self.assertEqual(measured([2.0] * 8, [1.0] * 8).drift("eager"), 0.0)

    def test_of_one_round_that_is_off(self) -> None:
        found = measured([2.0] * 6 + [2.2] * 2, [1.0] * 8)
        self.assertAlmostEqual(found.drift("eager"), 0.1)
        self.assertTrue(found.drifted("eager"))
        self.assertFalse(found.drifted("candidate"))
        self.assertEqual(found.drift("candidate"), 0.0)

    def test_both_directions_count(self) -> None:
        self.assertAlmostEqual(measured([2.0] * 6 + [1.8] * 2, []).drift("eager"), 0.1)

    def test_of_a_clock_that_falls(self) -> None:
        slowing = Imagined("eager", 1.0, random.Random(1), drift=0.02)
        self.assertGreater(timing.measure([slowing], constants.ROUNDS).drift("eager"),
                           constants.DRIFT)


class Rounds(unittest.TestCase):
    def test_turns_and_their_reverse(self) -> None:
        log: list[str] = []
        chooser = random.Random(2)
        names = ("eager", "compile", "candidate")
        found = timing.measure([Imagined(n, 1.0, chooser, log=log) for n in names], 2)
        self.assertEqual(log, [*names, *([*names, *reversed(names)] * 2)])  # sizes are found first
        self.assertEqual({name: len(blocks) for name, blocks in found.blocks.items()},
                         dict.fromkeys(names, 4))

    def test_no_more_of_them_than_tell_something(self) -> None:
        for noise, wanted in ((0.0, {constants.ENOUGH_ROUNDS}), (0.1, {constants.ROUNDS})):
            counts = set()
            for seed in range(20):
                chooser = random.Random(seed)
                pair = [Imagined(n, 1.0, chooser, noise) for n in ("eager", "candidate")]
                found = timing.measure(pair, constants.ROUNDS)
                counts.add(found.ratio("eager", "candidate").rounds)
            self.assertEqual(counts, wanted)

    def test_each_contender_has_to_settle(self) -> None:
        chooser = random.Random(3)
        restless = [Imagined("eager", 1.0, chooser), Imagined("compile", 1.0, chooser, 0.2),
                    Imagined("candidate", 1.0, chooser)]
        found = timing.measure(restless, constants.ROUNDS)
        self.assertEqual(found.ratio("eager", "candidate").rounds, constants.ROUNDS)

    def test_a_block_is_a_median(self) -> None:
        found = timing.Measurement()
        found.add("x", [1.0, 2.0, 900.0])
        self.assertEqual(found.blocks, {"x": [2.0]})

    def test_what_comes_between_may_end_it(self) -> None:
        def stop() -> None:
            raise TimeoutError
        with self.assertRaises(TimeoutError):
            timing.measure([Imagined("x", 1.0, random.Random(1))], 2, stop)

    def test_sizes_of_blocks(self) -> None:
        self.assertEqual(timing.block_size(0.0), constants.MAX_BLOCK)
        self.assertEqual(timing.block_size(1e9), constants.MIN_BLOCK)
        sizes = [timing.block_size(ms / 10) for ms in range(1, 1000)]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        for ms in (2.0, 4.0):
            size = timing.block_size(ms)
            if constants.MIN_BLOCK < size < constants.MAX_BLOCK:
                self.assertLessEqual(size * ms, constants.BLOCK_S * 1e3)
        slow = Imagined("slow", 500.0, random.Random(1))
        timing.measure([slow], 1)
        most = constants.MIN_BLOCK + constants.EXTRA_SAMPLES
        for count in slow.counts[1:]:
            self.assertTrue(constants.MIN_BLOCK <= count <= most)

    def test_blocks_end_where_nobody_knows(self) -> None:
        contender = Imagined("x", 1000.0, random.Random(1))
        timing.measure([contender], 40)
        self.assertEqual(set(contender.counts[1:]),
                         {constants.MIN_BLOCK + n for n in range(constants.EXTRA_SAMPLES + 1)})

    def test_what_repeating_does_not_show(self) -> None:
        self.assertGreater(timing.systematic(0.001), timing.systematic(1.0))
        self.assertGreaterEqual(timing.systematic(1e9), constants.SYSTEMATIC / 2)
        self.assertTrue(math.isfinite(timing.systematic(0.0)))
        with mock.patch.object(constants, "TICK_MS", 0.0):
            self.assertEqual(timing.systematic(0.001), constants.SYSTEMATIC / 2)

    def test_the_median_of_all_blocks(self) -> None:
        blocks = [1.0, 5.0, 2.0, 4.0]
        self.assertEqual(measured(blocks, []).median("eager"), statistics.median(blocks))


if __name__ == "__main__":
    unittest.main()
