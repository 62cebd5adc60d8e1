"""The search: coordinate descent around the best point, read from the attempts alone."""

from __future__ import annotations

import unittest
from typing import Any

from offline_author.genes import Genes, Search, Space, joined, of_hints, of_summary, part

SPACE = Space(
    {"BLOCK": [64, 128, 256, 512], "num_warps": [1, 2, 4, 8]},
    {"BLOCK": 128, "num_warps": 4},
    lambda g: g["BLOCK"] >= 32 * g["num_warps"],
)


def tried(genes: Genes, speedup: float | None, **more: Any) -> dict[str, Any]:
    text = ", ".join(f'"{n}": {v}' for n, v in genes.items())
    return {"summary": f"a kernel; genes {{{text}}}", "ok": speedup is not None,
            "correct": speedup is not None, "speedup": speedup, **more}  # fmt: skip


def choose(attempts: list[dict[str, Any]], seed: int = 0, parent: Genes | None = None) -> Any:
    return Search(SPACE, attempts, parent, seed).choose()


class CoordinateDescent(unittest.TestCase):
    def test_the_first_guess_comes_first(self) -> None:
        self.assertEqual(choose([]).genes, SPACE.default)

    def test_then_one_gene_moves_to_a_neighbour_of_the_best(self) -> None:
        for seed in range(8):
            genes = choose([tried(SPACE.default, 1.5)], seed).genes
            changed = [n for n in genes if genes[n] != SPACE.default[n]]
            self.assertEqual(len(changed), 1)
            options = SPACE.values[changed[0]]
            step = options.index(genes[changed[0]]) - options.index(SPACE.default[changed[0]])
            self.assertEqual(abs(step), 1)

    def test_the_centre_is_the_fastest_attempt(self) -> None:
        best = {"BLOCK": 512, "num_warps": 2}
        genes = choose([tried(SPACE.default, 1.0), tried(best, 2.0)]).genes
        self.assertEqual(sum(genes[n] != best[n] for n in genes), 1)

    def test_a_parent_chosen_by_the_graph_is_the_centre(self) -> None:
        parent = {"BLOCK": 512, "num_warps": 8}
        attempts = [tried(SPACE.default, 3.0), tried(parent, 2.0)]
        genes = choose(attempts, parent=parent).genes
        self.assertEqual(sum(genes[n] != parent[n] for n in genes), 1)

    def test_a_failure_is_never_the_centre(self) -> None:
        bad = {"BLOCK": 512, "num_warps": 8}
        genes = choose([tried(SPACE.default, 1.0), tried(bad, None)]).genes
        self.assertEqual(sum(genes[n] != SPACE.default[n] for n in genes), 1)

    def test_when_all_fail_the_search_moves_far_away(self) -> None:
        choice = choose([tried(SPACE.default, None)])
        self.assertIn("away from 1 failed point", choice.why)
        places = [SPACE.values[n].index(choice.genes[n]) for n in SPACE.values]
        first = [SPACE.values[n].index(SPACE.default[n]) for n in SPACE.values]
        self.assertGreaterEqual(sum(abs(a - b) for a, b in zip(places, first, strict=True)), 3)

    def test_a_wrong_result_is_a_failure(self) -> None:
        wrong = tried(SPACE.default, 9.0, correct=False)
        self.assertIn("away", choose([wrong]).why)

    def test_only_legal_points_and_each_once(self) -> None:
        attempts: list[dict[str, Any]] = []
        seen = []
        while not (choice := choose(attempts)).exhausted:
            self.assertTrue(SPACE.legal(choice.genes))
            self.assertNotIn(choice.genes, seen)
            seen.append(choice.genes)
            attempts.append(tried(choice.genes, 1.0))
        legal = [(b, w) for b in SPACE.values["BLOCK"] for w in SPACE.values["num_warps"]
                 if SPACE.legal({"BLOCK": b, "num_warps": w})]  # fmt: skip
        self.assertEqual(len(seen), len(legal))

    def test_seeds_order_the_tries_differently(self) -> None:
        first = {str(choose([tried(SPACE.default, 1.0)], seed).genes) for seed in range(8)}
        self.assertGreater(len(first), 1)

    def test_other_authors_attempts_are_ignored(self) -> None:
        foreign = {"summary": "by hand", "ok": True, "correct": True, "speedup": 9.0}
        self.assertEqual(choose([foreign]).genes, SPACE.default)


class Names(unittest.TestCase):
    def test_several_kernels_have_genes_of_their_own(self) -> None:
        both = joined([SPACE, SPACE])
        self.assertEqual(list(both.values), ["BLOCK", "num_warps", "k2.BLOCK", "k2.num_warps"])
        self.assertEqual(part({**both.default, "k2.BLOCK": 512}, 2, SPACE),
                         {"BLOCK": 512, "num_warps": 4})  # fmt: skip

    def test_summaries_and_hints(self) -> None:
        self.assertEqual(of_summary('fast; genes {"A": 1, "k2.B": 2}'), {"A": 1, "k2.B": 2})
        self.assertIsNone(of_summary("no genes here"))
        self.assertEqual(of_hints(["try num_warps=8", "BLOCK_M = 16, please"]),
                         {"num_warps": 8, "BLOCK_M": 16})  # fmt: skip

    def test_a_hint_fixes_the_gene_in_every_kernel(self) -> None:
        fixed = joined([SPACE, SPACE]).with_hints({"num_warps": 1, "unknown": 5})
        self.assertEqual(fixed.default["num_warps"], 1)
        self.assertEqual(fixed.values["k2.num_warps"], [1])
        self.assertNotIn("unknown", fixed.values)


if __name__ == "__main__":
    unittest.main()
