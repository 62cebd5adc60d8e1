"""The candidate's turns: its tape timed by ke_replay, and what else the timed calls did."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from evaluator_gpu import constants
from evaluator_gpu.replayer import LoadedTape, Result


class Suspect(Exception):
    """Timed calls did something else than the calls that were checked; the text is a sentence."""


class TapeContender:
    """A tape that is timed, and whose timed calls are compared with the calls that were checked.

    Every sample is compared where a hash tells right from wrong, one sample of each turn elsewhere.
    Which one is drawn, and nothing tells a kernel: to be faster by doing less, more than half of
    a turn's samples have to do less, so each turn finds that out more often than not.
    """

    name = "candidate"

    def __init__(self, loaded: LoadedTape, *, seed: int, hashes: list[int], changed: list[str],
                 poisons: list[int], sample_s: float = 0.0,
                 wrong: Callable[[Result], bool] | None = None) -> None:
        """hashes: of what the checked runs gave under `seed`; empty where they don't repeat.
        changed: the buffers that they changed. poisons: theirs. wrong: whether these results are;
        None only where `hashes` cover all that a call leaves behind. sample_s: what one call may
        take.
        """
        if not hashes and wrong is None:
            raise ValueError("timed calls would be compared with nothing")
        self._loaded = loaded
        self._seed = seed
        self._hashes = hashes
        self._changed = changed
        self._poisons = poisons
        self._wrong = wrong
        self._sample_s = sample_s
        steps = len(loaded.plan.text["steps"])
        self._pause = min(constants.MIN_PAUSE_NS + 5000 * steps, constants.MAX_PAUSE_NS)

    def sample(self, count: int) -> list[float]:
        """Raises Suspect, and what `LoadedTape.time` raises."""
        samples = constants.DROPPED + count
        kept = constants.DROPPED + secrets.randbelow(count)
        answer = self._loaded.time(
            samples, poisons=[secrets.choice(self._poisons) for _ in range(samples)],
            pause_ns=self._pause, seed=self._seed, hashes=self._hashes,
            keep=kept if self._wrong else None, changed=self._changed,
            deadline_s=max(constants.RUN_DEADLINE_S, samples * self._sample_s))
        if answer["wrong"]:
            raise Suspect(f"{answer['wrong']} of {samples} timed calls gave other results than "
                          "the calls that were checked.")
        if answer["outside"]:
            raise Suspect("timed calls wrote outside their tensors.")
        if not set(self._changed).issuperset(answer["changed"]):
            raise Suspect("timed calls changed tensors that the checked calls left alone.")
        if self._wrong and self._wrong(self._loaded.kept(answer)):
            raise Suspect("a timed call gave a wrong result, unlike the calls that were checked.")
        return answer["milliseconds"][constants.DROPPED:]
