"""Compares times: interleaved blocks, and an interval of the ratio that admits what it can't know.

A contender is timed sample by sample on a cold L2, its launches queued behind a pause of the
device, by CUDA events around one call. Medians of blocks are taken, because single samples have
tails; the ratio of two contenders is taken round by round, because clocks drift.
"""

from __future__ import annotations

import math
import secrets
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from evaluator_gpu import constants

# Student's t, two-sided 95%, by degrees of freedom; beyond the table the normal value is close.
_T95 = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201,
        2.179, 2.160, 2.145, 2.131)
_NORMAL95 = 1.98


class Contender(Protocol):
    """Something that can be timed."""

    name: str

    def sample(self, count: int) -> list[float]:
        """Milliseconds of `count` calls after as many unrecorded ones as the hand-over needs."""
        ...


@dataclass
class Ratio:
    """How many times faster than `against` a contender is, with its interval."""

    against: str
    value: float
    low: float
    high: float
    original_ms: float
    optimized_ms: float
    rounds: int

    def to_json(self) -> dict[str, object]:
        return {"ratio": self.value, "interval": [self.low, self.high], "rounds": self.rounds,
                "original_ms": self.original_ms, "optimized_ms": self.optimized_ms}


@dataclass
class Measurement:
    """Medians of blocks in ms by contender, in the order in which they were taken."""

    blocks: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, samples: list[float]) -> None:
        self.blocks.setdefault(name, []).append(statistics.median(samples))

    def median(self, name: str) -> float:
        return statistics.median(self.blocks[name])

    def drift(self, name: str) -> float:
        """Largest relative distance of a round's mean from the median over the rounds."""
        pairs = _pairs(self.blocks[name])
        middle = statistics.median(pairs)
        return max(abs(value / middle - 1.0) for value in pairs)

    def drifted(self, name: str) -> bool:
        """Whether the device's speed changed by more than the clock's ticks explain."""
        tick = 2 * constants.TICK_MS / max(self.median(name), 1e-6)
        return self.drift(name) > constants.DRIFT + tick

    def settled(self, against: str, name: str) -> bool:
        """Whether further rounds would hardly narrow the ratio's interval."""
        unseen = systematic(self.median(against)) + systematic(self.median(name))
        return _scatter(self._logs(against, name)) <= constants.ENOUGH * unseen

    def _logs(self, against: str, name: str) -> list[float]:
        """The logarithm of each round's ratio."""
        ours, theirs = _pairs(self.blocks[name]), _pairs(self.blocks[against])
        return [math.log(a / b) for a, b in zip(theirs, ours, strict=True)]

    def ratio(self, against: str, name: str) -> Ratio:
        """The ratio of two contenders that had their turns in the same rounds."""
        logs = self._logs(against, name)
        original, optimized = self.median(against), self.median(name)
        middle = statistics.fmean(logs)
        unsure = _scatter(logs) + systematic(original) + systematic(optimized)
        return Ratio(against, math.exp(middle), math.exp(middle - unsure),
                     math.exp(min(middle + unsure, 700.0)), original, optimized, len(logs))


def _scatter(logs: list[float]) -> float:
    """Half the 95% interval of the logarithms' mean."""
    if len(logs) < 2:
        return math.inf
    count = len(logs) - 1
    student = _T95[count] if count < len(_T95) else _NORMAL95
    return student * statistics.stdev(logs) / math.sqrt(len(logs))


def systematic(milliseconds: float) -> float:
    """The relative error that repeating a measurement doesn't show."""
    return constants.SYSTEMATIC / 2 + constants.TICK_MS / max(milliseconds, 1e-6)


def _pairs(blocks: list[float]) -> list[float]:
    """Geometric means of the two turns that a contender has in each round."""
    return [math.sqrt(a * b) for a, b in zip(blocks[::2], blocks[1::2], strict=True)]


def block_size(milliseconds: float) -> int:
    """Samples of one block of a contender that takes about so long."""
    fitting = int(constants.BLOCK_S * 1e3 / max(milliseconds, 1e-3))
    return max(constants.MIN_BLOCK, min(constants.MAX_BLOCK, fitting))


def drawn(count: int) -> int:
    """`count` samples or a few more, by chance."""
    return count + secrets.randbelow(constants.EXTRA_SAMPLES + 1)


def measure(contenders: list[Contender], rounds: int,
            between: Callable[[], None] = lambda: None) -> Measurement:
    """Takes `rounds` rounds at most: each contender in turn, and then in reverse; fewer where the
    last contender's ratio to each of the others has settled. between: called before each block;
    what it raises ends the measurement."""
    found = Measurement()
    sizes = {c.name: block_size(statistics.median(c.sample(drawn(3)))) for c in contenders}
    others, candidate = [c.name for c in contenders[:-1]], contenders[-1].name
    for taken in range(1, rounds + 1):
        for contender in [*contenders, *reversed(contenders)]:
            between()
            found.add(contender.name, contender.sample(drawn(sizes[contender.name])))
        if others and taken >= constants.ENOUGH_ROUNDS and all(
                found.settled(other, candidate) for other in others):
            break
    return found
