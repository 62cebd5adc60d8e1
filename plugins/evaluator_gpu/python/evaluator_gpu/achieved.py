"""What a measured candidate makes of the machine: bytes and arithmetic beside the peaks.

Both are counted on the task, not on the candidate: a candidate that moves more than it must, or
computes less than eager does, shows as a low or as an impossible share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from evaluator_gpu import floors

# Operations per clock and SM of compute capability 9.0, dense, a fused multiply-add being two: the
# data sheet's figures of the H200 (67 fp32, 67 fp64 matrix, 494 TF32, 989 half, 1979 8-bit, in
# TFLOP/s) over 132 SMs and the clocks that they stand for (1.98 GHz fp32, 1.83 GHz matrix).
_PER_CLOCK = {"fp32": 256, "fp64": 256, "tf32": 2048, "half": 4096, "8-bit": 8192}
_MATRIX = re.compile(r"\b(?:wgmma\.mma_async|mma)\.[\w.:]*")
_KINDS = (("tf32", "tf32"), ("f64", "fp64"), ("e4m3", "8-bit"), ("e5m2", "8-bit"), ("s8", "8-bit"),
          ("u8", "8-bit"), ("bf16", "half"), ("f16", "half"))


@dataclass(frozen=True)
class Achieved:
    """Of one measured time. Shares are of the peak, 0 where the device doesn't tell it."""

    bytes: int  # of inputs that matter and of outputs: what has to move at least once
    bytes_per_second: float
    bandwidth_share: float
    flops: int  # of eager's matrix products, convolutions and attention; 0 for anything else
    flops_per_second: float
    arithmetic: str  # the fastest instruction that the candidate's machine code uses
    arithmetic_share: float

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def lines(self) -> list[str]:
        """For the candidate's author."""
        lines = []
        if self.bytes:
            lines.append(
                f"has to move {_amount(self.bytes, 'B')} at least (inputs that matter, outputs): "
                f"{_amount(self.bytes_per_second, 'B/s')}" + _share(self.bandwidth_share,
                                                                    "bandwidth"))
        if self.flops:
            line = (f"eager's own {_amount(self.flops, 'FLOP')} in this time: "
                    f"{_amount(self.flops_per_second, 'FLOP/s')}")
            if self.arithmetic_share > 1:
                line += f", more than the peak of {self.arithmetic}: it computes less than eager"
            else:
                line += _share(self.arithmetic_share, self.arithmetic)
            lines.append(line)
        return lines


def use_of_machine(milliseconds: float, *, moved: int, flops: int,
                   kernels: Iterable[dict[str, Any]], info: dict[str, Any]) -> Achieved:
    """What a time means.

    moved: bytes; kernels: of the tape; info: what ke_replay says of the device.
    """
    seconds = milliseconds * 1e-3
    kind = arithmetic_of(kernel.get("ptx") or "" for kernel in kernels)
    bandwidth = floors.bandwidth(info)
    peak = 1e3 * info.get("sms", 0) * info.get("clock_khz", 0) * _PER_CLOCK[kind]
    return Achieved(moved, moved / seconds, moved / seconds / bandwidth if bandwidth else 0.0,
                    flops, flops / seconds, kind, flops / seconds / peak if peak else 0.0)


def arithmetic_of(texts: Iterable[str]) -> str:
    """The fastest kind of arithmetic in kernels' PTX: "fp32" where none has matrix instructions."""
    found = {"fp32"}
    for text in texts:
        for instruction in _MATRIX.findall(text):
            found.update(kind for mark, kind in _KINDS if f".{mark}" in instruction)
    return max(found, key=lambda kind: (_PER_CLOCK[kind], kind))


def _share(share: float, of_what: str) -> str:
    return f", {share:.0%} of the peak {of_what}" if share else ""


def _amount(value: float, unit: str) -> str:
    """ "4.2 GB": three digits at most."""
    for prefix in ("", "k", "M", "G", "T"):
        if value < 1000 or prefix == "T":
            break
        value /= 1000
    return f"{value:.3g} {prefix}{unit}"
