"""The offline author as an agent: one candidate a turn, and words when there is no more to try."""

from __future__ import annotations

import unittest
from typing import Any

from offline_author import genes as g
from offline_author.answer import PATIENCE, answer

import families


def turn(source: str, attempts: list[dict[str, Any]]) -> dict[str, Any]:
    """The canonical response of one turn."""
    request = {
        "messages": [{"role": "user", "content": "ignored by the offline author"}],
        "tools": [{"name": n, "description": "", "parameters": {}}
                  for n in ("validate_model", "edit_kernel", "inspect")],
        "tool_choice": "auto",
        "context": {
            "purpose": "agent", "task": {"name": "sample", "source": source}, "hints": [],
            "attempts": attempts, "parent": attempts[0] if attempts else None,
        },
    }  # fmt: skip
    return answer({"request": request, "seed": 3}, None)


def judged(response: dict[str, Any], number: int, speedup: float | None) -> dict[str, Any]:
    arguments = response["tool_calls"][0]["arguments"]
    return {"id": f"c{number}", "summary": arguments["summary"], "ok": speedup is not None,
            "correct": speedup is not None, "speedup": speedup}  # fmt: skip


class Agent(unittest.TestCase):
    SOURCE = families.sources()["softmax"]

    def test_each_turn_validates_another_point(self) -> None:
        attempts: list[dict[str, Any]] = []
        seen = set()
        for number in range(1, 5):
            response = turn(self.SOURCE, attempts)
            call = response["tool_calls"][0]
            self.assertEqual(call["name"], "validate_model")
            self.assertEqual(set(call["arguments"]), {"candidate_code", "summary"})
            self.assertIn("class ModelNew", call["arguments"]["candidate_code"])
            self.assertEqual(response["finish_reason"], "tool_calls")
            seen.add(call["arguments"]["candidate_code"])
            attempts.append(judged(response, number, 1.0 + number))
        self.assertEqual(len(seen), 4)

    def test_it_stops_when_nothing_improves(self) -> None:
        attempts: list[dict[str, Any]] = []
        response = turn(self.SOURCE, attempts)
        while response["tool_calls"] and len(attempts) < 30:
            attempts.append(judged(response, len(attempts) + 1, 3.0 if not attempts else 2.0))
            response = turn(self.SOURCE, attempts)
        self.assertLessEqual(len(attempts), PATIENCE + 1)
        self.assertEqual(response["finish_reason"], "stop")
        self.assertTrue(response["text"])

    def test_failures_are_no_improvement(self) -> None:
        bad = [{"ok": False, "correct": False, "speedup": 9.0}] * PATIENCE
        good = {"ok": True, "correct": True, "speedup": 2.0}
        self.assertTrue(g.stalled([good, *bad], PATIENCE))
        self.assertFalse(g.stalled([good, *bad[1:], {**good, "speedup": 2.1}], PATIENCE))
        self.assertFalse(g.stalled(bad, PATIENCE))

    def test_what_cannot_be_rewritten_is_said(self) -> None:
        source = self.SOURCE.split("def forward")[0] + (
            "def forward(self, x):\n        return torch.sort(x, dim=-1).values\n\n\n"
            "def get_inputs():\n    return [torch.randn(4, 8)]\n\n\n"
            "def get_init_inputs():\n    return []\n"
        )
        response = turn(source, [])
        self.assertEqual(response["tool_calls"], [])
        self.assertIn("sort", response["text"])


if __name__ == "__main__":
    unittest.main()
