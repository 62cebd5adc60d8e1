"""Checks kernels with tensor descriptors (TMA) in both replays on this machine's GPU.

usage: descriptors.py BUILD

Descriptors made on the host and on the device (in scratch memory), whole tiles and cut ones, two
types, a swizzled product; results, repeats, and a store through a map that reaches too far. Prints
one line a check; exits with 1 if one fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from replay import FAILED, expect, tape_of

import torch  # noqa: E402 - replay sets the paths
from evaluator_gpu import plan, replayer  # noqa: E402

HOST = """
@triton.jit
def scale(source, target, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    target.store([i, 0], source.load([i, 0]) * 2)
"""
ON_HOST = """
from triton.tools.tensor_descriptor import TensorDescriptor
x = args[0]
out = torch.empty_like(x)
scale[(triton.cdiv(x.shape[0], 32),)](TensorDescriptor.from_tensor(x, [32, 64]),
                                      TensorDescriptor.from_tensor(out, [32, 64]), BLOCK=32)
return out
"""
DEVICE = """
@triton.jit
def scale(x, out, rows, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, 64], [64, 1], [BLOCK, 64])
    target = tl.make_tensor_descriptor(out, [rows, 64], [64, 1], [BLOCK, 64])
    i = tl.program_id(0) * BLOCK
    target.store([i, 0], source.load([i, 0]) * 2)
"""
ON_DEVICE = """
x = args[0]
triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
out = torch.empty_like(x)
scale[(triton.cdiv(x.shape[0], 32),)](x, out, x.shape[0], BLOCK=32)
return out
"""
PRODUCT = """
@triton.jit
def scale(a, b, out, K, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, j = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, D):
        total = tl.dot(a.load([i, k]), b.load([k, j]), total)
    out.store([i, j], total.to(tl.bfloat16))
"""
MULTIPLY = """
from triton.tools.tensor_descriptor import TensorDescriptor
a, b = args
out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
scale[(a.shape[0] // 128, b.shape[1] // 128)](
    TensorDescriptor.from_tensor(a, [128, 64]), TensorDescriptor.from_tensor(b, [64, 128]),
    TensorDescriptor.from_tensor(out, [128, 128]), a.shape[1], 128, 128, 64)
return out
"""
# A map that says that the output has more rows than it has.
TOO_FAR = ON_HOST.replace("TensorDescriptor.from_tensor(out, [32, 64])",
                          "TensorDescriptor(out, [4096, 64], [64, 1], [32, 64])").replace(
                              "x.shape[0], 32)", "4096, 32)")


def check(player: replayer.Replayer, needs_torch: bool) -> None:
    def loaded_of(*arguments: str, inputs: str) -> replayer.LoadedTape:
        tape = tape_of(*arguments, inputs=inputs)
        made = plan._plan(tape, "a check") if needs_torch else plan.make_plan(tape)
        return replayer.LoadedTape(player, tape, plan=made)

    for where, forward, kernel in (("host", ON_HOST, HOST), ("device", ON_DEVICE, DEVICE)):
        for kind in ("float32", "bfloat16"):
            for rows in (4096, 1000):
                loaded = loaded_of(forward, kernel,
                                   inputs=f"torch.randn({rows}, 64, dtype=torch.{kind})")
                x = torch.randn(rows, 64, device="cuda", dtype=getattr(torch, kind))
                same(f"{where} {kind} {rows} rows", loaded, [x], lambda x: 2 * x)
    loaded = loaded_of(MULTIPLY, PRODUCT, inputs="torch.randn(512, 512, dtype=torch.bfloat16), "
                                                 "torch.randn(512, 512, dtype=torch.bfloat16)")
    pair = [torch.randn(512, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    same("a swizzled product", loaded, pair, lambda a, b: a @ b, 0.5)
    loaded = loaded_of(TOO_FAR, HOST, inputs="torch.randn(64, 64)")
    loaded.bind([torch.randn(64, 64, device="cuda")], {})
    try:
        outside = loaded.run(guard=True, poison=1).outside
        expect("a map that reaches too far", outside != [], outside)
    except replayer.Fault as fault:
        expect("a map that reaches too far", fault.code in (700, 719), fault)


def same(what: str, loaded: replayer.LoadedTape, inputs: list[torch.Tensor],
         wanted: Callable[..., torch.Tensor], tolerance: float = 0.0) -> None:
    """Runs with and without guards and timed calls give what is wanted."""
    loaded.bind(inputs, {})
    runs = [loaded.run(guard=guard, poison=poison, seed=3)
            for guard, poison in ((True, 0xFF), (False, 0x3C), (True, 0xBC))]
    right = wanted(*inputs).double()
    off = max((run.outputs.double() - right).abs().max().item() for run in runs)
    expect(what, off <= tolerance, off)
    expect(f"{what}: runs repeat, nothing else is changed",
           len({tuple(r.hashes) for r in runs}) == 1
           and all(r.outside == [] and r.changed == [] for r in runs))
    timed = loaded.time(9, poisons=[0xFF, 0x3C], pause_ns=30000, seed=3, hashes=runs[0].hashes)
    expect(f"{what}: timed calls are right", timed["wrong"] == 0, timed["milliseconds"][-1])


def main() -> int:
    binary = Path(sys.argv[1]).resolve() / "lib/kernel_evolve/plugins/evaluator_gpu/ke_replay"
    for name, command, needs_torch in (("native", [str(binary)], False),
                                       ("PyTorch", replayer.torch_command(), True)):
        print(f"the {name} replay", flush=True)
        player = replayer.Replayer(command)
        try:
            check(player, needs_torch)
        except Exception as error:  # noqa: BLE001 - the other replay may still tell something
            expect(f"the {name} replay", False, repr(error))
        player.stop()
    print(f"{len(FAILED)} failed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
