"""The candidate's turns: its tape timed by ke_replay, and what else the timed calls did."""

from __future__ import annotations

import secrets

from evaluator_gpu import constants
from evaluator_gpu.replayer import LoadedTape, Result


class Suspect(Exception):
    """Timed calls did something else than the calls that were checked; the text is a sentence."""


class TapeContender:
    """A tape that is timed, each sample compared with the results that were checked."""

    name = "candidate"

    def __init__(self, loaded: LoadedTape, checked: Result | None, seed: int,
                 changed: list[str], poisons: list[int]) -> None:
        """checked: the run whose hashes, under `seed`, every sample must have; None where runs
        have no such. changed: the buffers that the checked runs changed. poisons: theirs."""
        self._loaded = loaded
        self._seed = seed
        self._hashes = checked.hashes if checked is not None else []
        self._poisons = poisons
        self._may_change = set(changed)
        steps = len(loaded.plan.text["steps"])
        self._pause = min(constants.MIN_PAUSE_NS + 5000 * steps, constants.MAX_PAUSE_NS)

    def sample(self, count: int) -> list[float]:
        samples = constants.DROPPED + count
        answer = self._loaded.time(
            samples, poisons=[secrets.choice(self._poisons) for _ in range(samples)],
            pause_ns=self._pause, seed=self._seed, hashes=self._hashes)
        if answer["wrong"]:
            raise Suspect(f"{answer['wrong']} of {samples} timed calls gave "
                          "other results than the calls that were checked.")
        if answer["outside"]:
            raise Suspect("timed calls wrote outside their tensors.")
        if not self._may_change.issuperset(answer["changed"]):
            raise Suspect("timed calls changed tensors that the checked calls left alone.")
        return answer["milliseconds"][constants.DROPPED:]
