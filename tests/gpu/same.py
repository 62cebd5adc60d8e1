"""How often the same kernel is called faster than itself: A/A pairs on this machine's GPU.

usage: same.py BUILD [--pairs N] [--lengths "10 us,3 ms"] [--out FILE]

The task's own model launches a Triton kernel, and the candidate is the same kernel; each pair is a
whole measurement of the evaluator, with a fresh replay process every tenth pair. For each length
(about 10 us, 100 us and 3 ms) prints the share of false wins and the width of the interval.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sdk/worker"), str(ROOT / "plugins/evaluator_gpu/python"),
                str(ROOT / "tests/python/recording")]

import support  # noqa: E402
import torch  # noqa: E402
from evaluator_gpu import baseline, constants, replayer, timing  # noqa: E402
from replay import ALLOCATE, GRID, tape_of  # noqa: E402

# Elements of 4 bytes, and how often each is multiplied.
LENGTHS = {"10 us": (3 << 20, 1), "100 us": (50 << 20, 1), "3 ms": (50 << 20, 1700)}
LOOP = """
@triton.jit
def scale(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < count)
    for _ in range({times}):
        value = value * 1.0001 + 0.5
    tl.store(out + i, value, mask=i < count)
"""


class Tape:
    """The candidate's side, as the judge times it."""

    name = "candidate"

    def __init__(self, loaded: replayer.LoadedTape, result: replayer.Result) -> None:
        self.loaded, self.result = loaded, result

    def sample(self, count: int) -> list[float]:
        answer = self.loaded.time(constants.DROPPED + count, poisons=[60],
                                  pause_ns=constants.MIN_PAUSE_NS + 5000, seed=3,
                                  hashes=self.result.hashes)
        assert answer["wrong"] == 0
        return answer["milliseconds"][constants.DROPPED:]


def pairs(player: replayer.Replayer, count: int, times: int, number: int) -> dict[str, Any]:
    """`number` measurements of one kernel against itself."""
    import triton

    kernel = LOOP.format(times=times)
    tape = tape_of(ALLOCATE + GRID + "return out\n", kernel, inputs=f"torch.empty({count})")
    triton.runtime.driver.reset_active()
    space: dict[str, Any] = {}
    source = Path(__file__).with_name(f".same_{times}.py")
    source.write_text(support.HEAD + kernel)
    try:
        exec(compile(source.read_text(), str(source), "exec"), space)  # noqa: S102 - our own text
        scale = space["scale"]
        x = torch.randn(count, device="cuda")

        def call() -> torch.Tensor:
            out = torch.empty_like(x)
            scale[(triton.cdiv(count, 1024),)](x, out, count, BLOCK=1024)
            return out

        eager = baseline.TorchContender("eager", call)
        eager.warm_up()
    finally:
        source.unlink()
    ratios: list[timing.Ratio] = []
    wins = lost = 0
    seconds = []
    for pair in range(number):
        if pair % 10 == 0:
            player.stop()
            loaded = replayer.LoadedTape(player, tape)
            loaded.bind([x], {})
            result = loaded.run(guard=False, poison=1, seed=3)
        begin = time.monotonic()
        found = timing.measure([eager, Tape(loaded, result)], constants.ROUNDS)
        seconds.append(time.monotonic() - begin)
        ratio = found.ratio("eager", "candidate")
        ratios.append(ratio)
        wins += ratio.low > 1.0
        lost += ratio.high < 1.0
    values = [r.value for r in ratios]
    return {
        "pairs": number, "false_wins": wins, "false_losses": lost,
        "ms": statistics.median(r.original_ms for r in ratios),
        "ratio_median": statistics.median(values), "ratio_min": min(values),
        "ratio_max": max(values), "ratio_stdev": statistics.stdev(values),
        "half_width": statistics.median((r.high / r.low) ** 0.5 - 1 for r in ratios),
        "seconds": statistics.median(seconds)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--pairs", type=int, default=110)
    parser.add_argument("--lengths", default=",".join(LENGTHS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    binary = options.build / "lib/kernel_evolve/plugins/evaluator_gpu/ke_replay"
    player = replayer.Replayer([str(binary.resolve())])
    report = {}
    for name in options.lengths.split(","):
        count, times = LENGTHS[name]
        report[name] = found = pairs(player, count, times, options.pairs)
        print(name, json.dumps(found), flush=True)
    player.stop()
    if options.out:
        options.out.write_text(json.dumps(report, indent=1))
    total = sum(r["pairs"] for r in report.values())
    wins = sum(r["false_wins"] for r in report.values())
    print(f"{wins} false wins in {total} pairs")
    return 1 if wins > 0.01 * total else 0


if __name__ == "__main__":
    sys.exit(main())
