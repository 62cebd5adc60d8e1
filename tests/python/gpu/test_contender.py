"""Timed calls that do something else than the checked ones, by what a made-up replay says."""

from __future__ import annotations

import unittest
from typing import Any

from evaluator_gpu import constants
from evaluator_gpu.contender import Suspect, TapeContender


class Imagined:
    """A loaded tape whose samples take 1 ms and see what they are told."""

    class plan:
        text = {"steps": [{}, {}]}

    def __init__(self, **seen: Any) -> None:
        self.seen = {"wrong": 0, "changed": [], "outside": [], **seen}
        self.asked: list[dict[str, Any]] = []

    def time(self, samples: int, **asked: Any) -> dict[str, Any]:
        self.asked.append({"samples": samples, **asked})
        return {"milliseconds": [9.0] * constants.DROPPED + [1.0] * (samples - constants.DROPPED),
                **self.seen}

    def kept(self, answer: dict[str, Any]) -> Any:
        return self.asked[-1]["keep"]


class Contenders(unittest.TestCase):
    def contender(self, **seen: Any) -> TapeContender:
        self.tape: Any = Imagined(**seen)
        return TapeContender(self.tape, seed=3, hashes=[7], changed=["b1"], poisons=[0xFF, 0x3C])

    def suspicion(self, **seen: Any) -> str:
        with self.assertRaises(Suspect) as caught:
            self.contender(**seen).sample(5)
        self.assertTrue(str(caught.exception).endswith("."))
        return str(caught.exception)

    def test_the_first_samples_are_dropped(self) -> None:
        self.assertEqual(self.contender().sample(5), [1.0] * 5)
        self.assertEqual(self.tape.asked[0]["seed"], 3)
        self.assertEqual(self.tape.asked[0]["hashes"], [7])

    def test_poisons_are_those_of_the_checked_calls(self) -> None:
        contender = self.contender()
        for _ in range(50):
            contender.sample(5)
        for asked in self.tape.asked:
            self.assertEqual(len(asked["poisons"]), asked["samples"])
        drawn = [tuple(asked["poisons"]) for asked in self.tape.asked]
        self.assertEqual({p for poisons in drawn for p in poisons}, {0xFF, 0x3C})
        self.assertGreater(len(set(drawn)), 10)  # in no fixed order

    def test_other_results(self) -> None:
        self.assertIn("gave other results", self.suspicion(wrong=1))

    def test_writes_outside(self) -> None:
        self.assertIn("wrote outside", self.suspicion(outside=["b0"]))

    def test_changed_tensors(self) -> None:
        self.assertEqual(self.contender(changed=["b1"]).sample(5), [1.0] * 5)
        self.assertIn("changed tensors", self.suspicion(changed=["b0", "b1"]))

    def test_where_hashes_tell_nothing_is_kept(self) -> None:
        self.contender().sample(5)
        self.assertIsNone(self.tape.asked[0]["keep"])

    def test_no_comparison_no_contender(self) -> None:
        with self.assertRaises(ValueError):
            TapeContender(Imagined(), seed=3, hashes=[], changed=[], poisons=[0])

    def test_one_sample_of_each_turn_is_compared(self) -> None:
        tape: Any = Imagined()
        seen: list[Any] = []

        def wrong(kept: Any) -> bool:
            seen.append(kept)
            return False

        contender = TapeContender(tape, seed=3, hashes=[], changed=["b1"], poisons=[0],
                                  wrong=wrong)
        for _ in range(200):
            contender.sample(5)
        self.assertEqual(len(seen), 200)
        self.assertEqual(set(seen), {constants.DROPPED + n for n in range(5)})
        self.assertEqual(tape.asked[0]["changed"], ["b1"])

    def test_a_sample_that_is_wrong(self) -> None:
        contender = TapeContender(Imagined(), seed=3, hashes=[], changed=[], poisons=[0],
                                  wrong=lambda kept: True)
        with self.assertRaises(Suspect) as caught:
            contender.sample(5)
        self.assertIn("wrong result", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
