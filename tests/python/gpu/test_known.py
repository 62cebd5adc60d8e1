"""Which candidates have the same content, and what a known verdict says of the second."""

from __future__ import annotations

import unittest
from typing import Any

from evaluator_gpu.known import Verdicts, key_of
from evaluator_gpu.plan import make_plan
from kernel_evolve_worker.recording.tape import Tape
from support import record_of, tape_of, texts


def key(tape: Tape, **more: Any) -> str:
    return key_of(tape, make_plan(tape), **more)


def verdict(**more: Any) -> dict[str, Any]:
    return {"code": "faster", "reason": "correct.", "metrics": {"error": None}, "provenance": {},
            "feedback": ["correct.", "kernel scale (line 7): 16 registers"],
            "kernels": [{"name": "scale", "line": 7}], **more}


class Keys(unittest.TestCase):
    def test_another_recording_of_the_same_text(self) -> None:
        record_of.cache_clear()
        first = tape_of()
        record_of.cache_clear()
        self.assertEqual(key(first), key(tape_of()))

    def test_what_has_no_effect(self) -> None:
        base = key(tape_of())
        moved = "# A word.\n# Another one.\n" + texts.SCALE
        self.assertEqual(key(tape_of(kernel=moved)), base)
        self.assertEqual(key(tape_of(forward="unused = 7\n" + texts.CALL)), base)

    def test_what_has_one(self) -> None:
        seen = {key(tape_of())}
        for more in ({"kernel": texts.SCALE.replace("* 2", "* 3")},
                     {"forward": texts.CALL.replace("BLOCK=64", "BLOCK=32")},
                     {"inputs": "torch.randn(101)"}):
            found = key(tape_of(**more))
            self.assertNotIn(found, seen, more)
            seen.add(found)
        self.assertNotEqual(key(tape_of(), asked="full"), key(tape_of(), asked="compile"))

    def test_constants(self) -> None:
        call = ("x = args[0]\nout = torch.empty_like(x)\n"
                "scale[(2,)](self.kept, out, 100, BLOCK=64)\nreturn out\n")
        init = "self.kept = torch.full((100,), {}.0, device='cuda')"
        ones, twos = (tape_of(call, init=init.format(n)) for n in (1, 2))
        self.assertNotEqual(key(ones), key(twos))

    def test_promises(self) -> None:
        tape, promising = tape_of(), tape_of()
        promising.kernels["k0"]["ttir"] += "{tt.divisibility = dense<16> : tensor<1xi32>}"
        self.assertNotEqual(key(tape), key(promising))


class Kept(unittest.TestCase):
    def setUp(self) -> None:
        self.tape = tape_of()
        self.tape.kernels["k0"]["line"] = 7
        self.later = tape_of()
        self.later.kernels["k0"]["line"] = 9

    def test_the_lines_are_those_of_the_second(self) -> None:
        known = Verdicts()
        self.assertIsNone(known.find("k", self.tape))
        known.keep("k", verdict(), self.tape)
        found = known.find("k", self.later)
        assert found is not None
        self.assertEqual(found["kernels"][0]["line"], 9)
        first, told, kernel = found["feedback"]
        self.assertEqual((first, kernel), ("correct.", "kernel scale (line 9): 16 registers"))
        self.assertIn("the change had no effect", told)
        self.assertTrue(found["provenance"]["known"])
        again = known.find("k", self.tape)
        assert again is not None
        self.assertEqual(again["kernels"][0]["line"], 7)
        self.assertEqual(len(again["feedback"]), 3)

    def test_a_refusal_is_kept_with_its_sentence(self) -> None:
        known = Verdicts()
        text = "kernel scale (line 7) reads outside."
        known.keep("k", verdict(code="out_of_bounds", reason=text, metrics={"error": text}),
                   self.tape)
        found = known.find("k", self.later)
        assert found is not None
        self.assertEqual(found["metrics"]["error"], "kernel scale (line 9) reads outside.")

    def test_what_speaks_of_the_machine_is_not(self) -> None:
        known = Verdicts()
        for code in ("unsteady", "timeout", "out_of_memory", "crashed", "no_recording"):
            known.keep("k", verdict(code=code), self.tape)
            self.assertIsNone(known.find("k", self.tape), code)


if __name__ == "__main__":
    unittest.main()
