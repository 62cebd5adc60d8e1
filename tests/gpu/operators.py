"""Checks the replay with PyTorch's operators (torch_replay.py) on this machine's GPU.

usage: operators.py BUILD

Results, what is written or read outside, faults, launches left out, and its clock beside
ke_replay's on the same kernel. Prints one line a check; exits with 1 if one fails.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from replay import ALLOCATE, COUNT, FAILED, GRID, SCALE, expect, tape_of

import torch  # noqa: E402 - replay sets the paths
from evaluator_gpu import plan, replayer  # noqa: E402

PRODUCT = """
x = args[0][:1024 * 1024].view(1024, 1024)
product = torch.mm(x, x)
out = torch.empty_like(product)
scale[(1024,)](product, out, 1024 * 1024, BLOCK=1024)
return out
"""


def check_results(player: replayer.Replayer) -> None:
    tape = tape_of(PRODUCT)
    loaded = replayer.LoadedTape(player, tape)
    expect("a product needs PyTorch", loaded.plan.pytorch == "aten.mm.default",
           loaded.plan.pytorch)
    x = torch.randn(COUNT, device="cuda")
    loaded.bind([x], {})
    square = x[:1024 * 1024].view(1024, 1024)
    wanted = 2 * (square @ square)
    runs = [loaded.run(guard=guard, poison=poison, seed=3)
            for guard, poison in ((True, 0xFF), (False, 0x3C), (True, 0xBC))]
    expect("results are right", all(torch.equal(r.outputs, wanted) for r in runs), "")
    expect("runs repeat", len({tuple(r.hashes) for r in runs}) == 1, runs[0].hashes)
    expect("nothing else is changed", all(r.outside == [] and r.changed == [] for r in runs), "")
    bare = loaded.run(guard=True, poison=0xFF, seed=3, launches=False)
    expect("without launches the output is unwritten", bool(torch.isnan(bare.outputs).all()), "")
    timed = loaded.time(9, poisons=[0xFF, 0x3C], pause_ns=30000, seed=3, hashes=runs[0].hashes,
                        keep=4)
    expect("timed calls have the same results", timed["wrong"] == 0, timed["milliseconds"][:3])
    expect("a timed call's results are kept", torch.equal(loaded.kept(timed).outputs, wanted), "")
    expect("other results are seen", loaded.time(
        3, poisons=[1], pause_ns=30000, seed=3, hashes=[1])["wrong"] == 3, "")


def check_faults(player: replayer.Replayer) -> None:
    far = SCALE.replace("tl.load(x + i", "tl.load(x + (1 << 28) + i")
    before = SCALE.replace("tl.store(out + i", "tl.store(out - 1024 * 1024 + i")
    for what, kernel in (("a read behind the end", far), ("a store before the start", before)):
        loaded = replayer.LoadedTape(player, tape_of(PRODUCT, kernel))
        x = torch.randn(COUNT, device="cuda")
        loaded.bind([x], {})
        try:
            seen = loaded.run(guard=True, poison=0xFF).outside
            expect(what, seen != [], seen)
        except replayer.Fault as fault:
            expect(what, fault.code in (700, 719) and fault.step == 1, fault)
        loaded = replayer.LoadedTape(player, tape_of(PRODUCT))
        loaded.bind([x], {})
        square = x[:1024 * 1024].view(1024, 1024)
        expect("the next one is right", torch.equal(loaded.run(guard=True, poison=1).outputs,
                                                    2 * (square @ square)), "")


def check_clock(player: replayer.Replayer, native: replayer.Replayer) -> None:
    for count in (1 << 14, 1 << 20, 1 << 24, 1 << 28):
        tape = tape_of(ALLOCATE + GRID + "return out\n", count=count)
        x = torch.randn(count, device="cuda")
        found = []
        for of, made in ((native, plan.make_plan(tape)), (player, plan._plan(tape, "a check"))):
            loaded = replayer.LoadedTape(of, tape, plan=made)
            loaded.bind([x], {})
            medians = [statistics.median(loaded.time(
                43, poisons=[1], pause_ns=30000)["milliseconds"][3:]) for _ in range(4)]
            found.append(statistics.median(medians))
        expect(f"both replays' clocks agree at {count} elements",
               abs(found[1] / found[0] - 1) < 0.1,
               f"native {found[0] * 1e3:.2f} us, PyTorch {found[1] * 1e3:.2f} us, "
               f"ratio {found[1] / found[0]:.4f}")


def main() -> int:
    binary = Path(sys.argv[1]).resolve() / "lib/kernel_evolve/plugins/evaluator_gpu/ke_replay"
    native = replayer.Replayer([str(binary)])
    player = replayer.Replayer(replayer.torch_command())
    check_results(player)
    check_faults(player)
    check_clock(player, native)
    for one in (player, native):
        one.stop()
    print(f"{len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
