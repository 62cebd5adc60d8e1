"""What the check of a candidate's source costs beside reading the same text. Run by hand.

usage: PYTHONPATH=sdk/worker python policy_bench.py

Prints, for kernel files of several sizes, CPU milliseconds of ast.parse and compile, of the whole
policy, and their ratio: the least of a few runs of each, in turns.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable

from kernel_evolve_worker.recording import policy

ROUNDS = 7
HEAD = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n"
KERNEL = """

@triton.jit
def scale{i}(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < count) * 2, mask=i < count)


class {name}(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n))
        self.act = nn.functional.relu

    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
        scale{i}[grid](x, out, n, BLOCK=64, num_warps=4)
        return self.act(out) + self.weight[None, :]
"""


def kernels(size: int) -> str:
    """A file of at most `size` bytes and at least one kernel."""
    text, count = HEAD + KERNEL.format(i=0, name="ModelNew"), 1
    while True:
        more = KERNEL.format(i=count, name=f"Block{count}")
        if len(text) + len(more) > size:
            return text
        text, count = text + more, count + 1


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call."""
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1e3


def main() -> int:
    """Prints the figures."""
    print(f"{'KiB':>6} {'parse + compile':>16} {'policy':>8} {'ratio':>6}")
    for size in (4 << 10, 32 << 10, policy.MAX_SOURCE_BYTES):
        text = kernels(size)
        assert policy.check(text) is None
        samples = [(cpu_ms(lambda: (ast.parse(text), compile(text, "candidate", "exec"))),
                    cpu_ms(lambda: policy.check(text))) for _ in range(ROUNDS)]
        base, own = (min(column) for column in zip(*samples))
        print(f"{len(text) / 1024:>6.0f} {base:>16.1f} {own:>8.1f} {own / base:>6.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
