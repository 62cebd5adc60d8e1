"""The time model beside what was measured on an H200, from stored counts: no GPU, no execution."""

from __future__ import annotations

import json
import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "kernels"))

import cases  # noqa: E402
import compare  # noqa: E402
import modelled  # noqa: E402
import stored  # noqa: E402

CASES = compare.compare()
PAIRS = compare.pairs(CASES)


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def by_family(chosen: list[compare.Compared]) -> dict[str, list[compare.Compared]]:
    found: dict[str, list[compare.Compared]] = {}
    for case in chosen:
        found.setdefault(case.family, []).append(case)
    return found


class Ratios(unittest.TestCase):
    def test_candidates_are_ranked_as_on_the_gpu(self) -> None:
        self.assertEqual(len(PAIRS), 149)
        self.assertGreater(compare.rank_correlation(PAIRS), 0.93)

    def test_those_that_no_constant_is_taken_from_are_ranked_as_well(self) -> None:
        held = compare.unseen(PAIRS)
        self.assertGreater(len(held), len(PAIRS) / 3)
        self.assertGreater(compare.rank_correlation(held), 0.9)

    def test_nothing_is_modelled_faster_that_is_not(self) -> None:
        self.assertEqual([case.name for case in PAIRS if case.false_win], [])

    def test_a_ratio_is_rather_too_small_than_too_large(self) -> None:
        for family, members in by_family(PAIRS).items():
            quotients = [case.ratio / case.measured_ratio for case in members]
            with self.subTest(family):
                self.assertLess(mean(quotients), 1.05)
                self.assertGreater(mean(quotients), 0.35)
                self.assertLess(max(quotients), 1.55)

    def test_the_shipped_tasks_are_within_a_quarter(self) -> None:
        tasks = by_family(PAIRS)["tasks"]
        self.assertEqual(len(tasks), 9)
        for case in tasks:
            with self.subTest(case.name):
                self.assertAlmostEqual(case.ratio / case.measured_ratio, 1.0, delta=0.25)
                self.assertEqual(case.ratio > 1, case.measured_ratio > 1)


class Times(unittest.TestCase):
    def test_eager_never_looks_much_slower_than_it_is(self) -> None:
        for case in CASES:
            with self.subTest(case.name):
                self.assertLess(case.eager / case.measured_eager, 1.2)

    def test_a_candidate_never_looks_much_faster_than_it_is(self) -> None:
        for case in PAIRS:
            with self.subTest(case.name):
                self.assertGreater(case.candidate / case.measured_candidate, 0.45)

    def test_families_have_no_bias_in_their_candidates(self) -> None:
        for family, members in by_family(PAIRS).items():
            quotients = [case.candidate / case.measured_candidate for case in members]
            with self.subTest(family):
                self.assertGreater(mean(quotients), 0.85)
                self.assertLess(mean(quotients), 1.65)


class Published(unittest.TestCase):
    def test_the_document_holds_the_tables_of_today(self) -> None:
        text = compare.DOCUMENT.read_text(encoding="utf-8")
        self.assertIn(f"{compare.BEGIN}\n{compare.tables()}\n{compare.END}", text,
                      "run tests/kernels/compare.py --write")


class Counts(unittest.TestCase):
    def test_every_measured_case_is_counted(self) -> None:
        measured = json.loads(stored.MEASURED.read_text(encoding="utf-8"))
        self.assertEqual(set(stored.load()), set(measured["cases"]))
        self.assertEqual(measured["not_run"], [])

    def test_counts_are_those_of_today(self) -> None:
        kept = stored.load()
        chosen = ("eager_add_t", "eager_chain_of_4_1m", "mm_ieee_512_32x32_turned")
        for case in [*cases.expressions(), *cases.kernels()]:
            if case.name not in chosen:
                continue
            with self.subTest(case.name):
                found = stored.unpack(stored.pack(
                    {"family": case.family, **modelled.counted(case, compare=False)}))
                self.assertEqual(found.operators, kept[case.name].operators)
                self.assertEqual([stats for stats, _ in found.launches or []],
                                 [stats for stats, _ in kept[case.name].launches or []])


if __name__ == "__main__":
    unittest.main()
