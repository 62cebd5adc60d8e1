"""A kernel as text, with what its launch needs; and the lines that all kernels share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from offline_author.expr import Buffer
from offline_author.genes import Space

HEADER_RULE = 96


@dataclass
class Kernel:
    """One launch. `arguments`: the buffers, in the order of the kernel's pointers.

    `grid` is Python text over literal numbers; `constants` are the constexpr arguments.
    """

    name: str
    source: str
    arguments: list[Buffer]
    outputs: list[Buffer]
    grid: str
    constants: dict[str, int]
    num_warps: int
    num_stages: int
    note: str = ""
    space: Space = field(default_factory=Space)


def kernel_source(
    name: str, note: list[str], pointers: list[Buffer], constants: dict[str, Any],
    lines: list[str],
) -> str:  # fmt: skip
    """The text of a kernel: decorator, signature (broken at 100 columns), comment, body."""
    params = [f"{b.name}_ptr" for b in pointers] + [f"{c}: tl.constexpr" for c in constants]
    head = f"def {name}({', '.join(params)}):"
    if len(head) > 100:
        head = f"def {name}(\n    " + ",\n    ".join(params) + ",\n):"
    comment = [f"    # {text}" for text in note]
    return "\n".join(["@triton.jit", head, *comment, *lines])


def next_power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def cdiv(a: int, b: int) -> int:
    return -(-a // b)
