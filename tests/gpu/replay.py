"""Checks ke_replay on the GPU of this machine: results, faults, hangs, and the clock.

usage: replay.py KE_REPLAY

Records small candidates as the evaluator does, replays them, and prints one line a check; exits
with 1 if one fails.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE / "sdk/worker"), str(HERE / "plugins/evaluator_gpu/python"),
                str(HERE / "tests/python/recording")]

import support  # noqa: E402
import torch  # noqa: E402
from evaluator_gpu import replayer  # noqa: E402
from evaluator_gpu.plan import NotReplayable  # noqa: E402
from kernel_evolve_worker.context import Context  # noqa: E402
from kernel_evolve_worker.recording.record import record  # noqa: E402
from kernel_evolve_worker.recording.tape import Tape  # noqa: E402

FAILED: list[str] = []
COUNT = 1 << 20
ALLOCATE = "x = args[0]\nout = torch.empty_like(x)\n"
GRID = "scale[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)\n"
SCALE = support.SCALE


def expect(what: str, good: bool, note: object = "") -> None:
    """Prints the check and remembers a failure."""
    print(f"{'ok  ' if good else 'FAIL'} {what} {note}", flush=True)
    if not good:
        FAILED.append(what)


def tape_of(forward: str, kernel: str = SCALE, count: int = COUNT, inputs: str = "") -> Tape:
    """The tape of a candidate on one input of `count` numbers."""
    folder = tempfile.mkdtemp()
    task = support.task(inputs or f"torch.randn({count})")
    request = {"task": {"name": "t", "source": task, "path": "/t/t.py"},
               "candidate": {"code": support.candidate(forward, kernel)}}
    result = record(request, Context(scratch=Path(folder), deadline=time.monotonic() + 300))
    assert result["ok"], result
    return Tape.load(result["tape"]["path"])


def check_results(player: replayer.Replayer) -> None:
    tape = tape_of(ALLOCATE + GRID + "return out\n")
    begin = time.monotonic()
    loaded = replayer.LoadedTape(player, tape)
    print(f"     {player.info} first load {time.monotonic() - begin:.2f} s")
    for odd in (COUNT, COUNT):
        x = torch.randn(odd, device="cuda")
        loaded.bind([x], {})
        for guard in (True, False):
            result = loaded.run(guard=guard, poison=0xFF, seed=7)
            expect(f"results, guard {guard}", torch.equal(result.outputs, 2 * x))
            expect("nothing outside", not result.outside and not result.constants_changed)
    again = loaded.run(guard=False, poison=0x3C, seed=7)
    expect("hashes repeat", again.hashes == result.hashes, result.hashes)
    other = loaded.run(guard=False, poison=0x3C, seed=8)
    expect("hashes depend on the seed", other.hashes != result.hashes)
    timed = loaded.time(50, poisons=[3], pause_ns=30000, seed=7, hashes=result.hashes)
    expect("timed samples are right", timed["wrong"] == 0,
           f"{statistics.median(timed['milliseconds']) * 1e3:.2f} us")
    timed = loaded.time(5, poisons=[3], pause_ns=30000, seed=7, hashes=[1])
    expect("wrong samples are seen", timed["wrong"] == 5)
    timed = loaded.time(5, poisons=[3, 60], pause_ns=30000, keep=2)
    kept = loaded.kept(timed)
    expect("a timed sample's results are kept", torch.equal(kept.outputs, 2 * x), kept.changed)


def check_watched(player: replayer.Replayer) -> None:
    half = "scale[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel() // 2, BLOCK=1024)\n"
    loaded = replayer.LoadedTape(player, tape_of(ALLOCATE + half + "return out\n"))
    loaded.bind([torch.randn(COUNT, device="cuda")], {})
    first, second = (loaded.run(guard=True, poison=p, seed=1) for p in (0xFF, 0x3C))
    expect("unwritten output shows", first.hashes != second.hashes)
    changing = "x = args[0]\nscale[(triton.cdiv(x.numel(), 1024),)](x, x, x.numel(), BLOCK=1024)\n"
    loaded = replayer.LoadedTape(player, tape_of(changing + "return x\n"))
    x = torch.randn(COUNT, device="cuda")
    loaded.bind([x], {})
    result = loaded.run(guard=True, poison=0xFF)
    expect("a changed input shows", torch.equal(result.inputs_after[0], 2 * x)
           and result.aliases == [(0, "input", 0)], result.aliases)
    below = SCALE.replace("tl.store(out + i,", "tl.store(out + i - 4,")
    loaded = replayer.LoadedTape(player, tape_of(ALLOCATE + GRID + "return out\n", below))
    loaded.bind([x], {})
    try:
        result = loaded.run(guard=False, poison=0xFF)
        expect("a store before the buffer shows", result.outside != [], result.outside)
    except replayer.Fault as fault:
        expect("a store before the buffer shows", fault.code in (700, 717, 719), fault)


def check_faults(player: replayer.Replayer) -> None:
    bad = SCALE.replace("mask=i < count)", "mask=i < count + 4)")
    loop = SCALE.replace("    tl.store", "    while tl.load(x) == tl.load(x):\n        i = i + 0\n"
                         "        tl.store(out, 1.0)\n    tl.store")
    for what, kernel, wanted in (("an access behind the end", bad, replayer.Fault),
                                 ("a hang", loop, replayer.Hang)):
        try:
            loaded = replayer.LoadedTape(
                player, tape_of(ALLOCATE + GRID + "return out\n", kernel, COUNT - 8))
            loaded.bind([torch.randn(COUNT - 8, device="cuda")], {})
            begin = time.monotonic()
            loaded.run(guard=True, poison=0xFF, deadline_s=2.0)
            expect(what, False, "nothing happened")
        except (replayer.Fault, replayer.Hang) as error:
            expect(what, isinstance(error, wanted), f"{error!r} {time.monotonic() - begin:.2f} s")
        begin = time.monotonic()
        loaded = replayer.LoadedTape(player, tape_of(ALLOCATE + GRID + "return out\n"))
        x = torch.randn(COUNT, device="cuda")
        loaded.bind([x], {})
        expect("the next one is right",
               torch.equal(loaded.run(guard=True, poison=1).outputs, 2 * x),
               f"{time.monotonic() - begin:.2f} s")
    try:
        huge = ALLOCATE + "w = torch.empty(40 << 30, dtype=torch.uint8, device='cuda')\n" + GRID
        loaded = replayer.LoadedTape(
            player, tape_of(huge + "scale[(1,)](w.view(torch.float32), out, 4, BLOCK=1024)\n"
                            "return out\n"))
        loaded.bind([torch.randn(COUNT, device="cuda")], {})
        loaded.run(guard=True, poison=0xFF)
        loaded.run(guard=False, poison=0xFF)
        loaded.run(guard=True, poison=0xFF)
        expect("a large buffer runs or is refused", True, "runs")
    except (replayer.OutOfMemory, NotReplayable, AssertionError) as error:
        expect("a large buffer runs or is refused", True, repr(error)[:160])


def check_clock(player: replayer.Replayer) -> None:
    """The same Triton kernel by both clocks."""
    import triton
    from evaluator_gpu.baseline import TorchContender

    space: dict[str, Any] = {}
    source = Path(tempfile.mkdtemp()) / "direct.py"
    source.write_text(support.HEAD + SCALE)
    exec(compile(source.read_text(), str(source), "exec"), space)  # noqa: S102 - our own text
    triton.runtime.driver.reset_active()
    scale = space["scale"]
    for count in (1 << 14, 1 << 20, 1 << 24, 1 << 28):
        x = torch.randn(count, device="cuda")
        out = torch.empty_like(x)
        grid = (triton.cdiv(count, 1024),)

        def call() -> None:
            scale[grid](x, out, count, BLOCK=1024)

        direct = TorchContender("direct", call)
        direct.warm_up()
        loaded = replayer.LoadedTape(player, tape_of(ALLOCATE + GRID + "return out\n",
                                                     count=count))
        loaded.bind([x], {})
        theirs, ours = [], []
        for _ in range(4):
            theirs.append(statistics.median(direct.sample(40)))
            samples = loaded.time(43, poisons=[1], pause_ns=30000)["milliseconds"]
            ours.append(statistics.median(samples[3:]))
        a, b = statistics.median(theirs), statistics.median(ours)
        expect(f"both clocks agree at {count} elements", abs(a / b - 1) < 0.1,
               f"torch {a * 1e3:.2f} us, replay {b * 1e3:.2f} us, ratio {a / b:.4f}")
        del x, out


CHECKS: tuple[Callable[[replayer.Replayer], None], ...] = (
    check_results, check_watched, check_faults, check_clock)


def main() -> int:
    """Runs every check; 1 if one failed."""
    player = replayer.Replayer([str(Path(sys.argv[1]).resolve())])
    for check in CHECKS:
        try:
            check(player)
        except Exception as error:  # noqa: BLE001 - the next check may still tell something
            expect(check.__name__, False, repr(error))
    player.stop()
    print(f"{len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
