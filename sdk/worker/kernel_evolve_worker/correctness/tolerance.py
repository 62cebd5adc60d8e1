"""The numeric rule: how far an output may be from the fp64 reference.

Rows are the last dimension (tensors with rows shorter than MIN_ROW are one row). With e = y - y64,
RMS_row the rms of y64's row, E = max(rms(eager - y64), C) and C the rms change of y64 when inputs
move by one unit roundoff:

  each element: |e| <= tol (RMS_row + |y64|) + 8 D^p E
  each row:     rms(e) <= max(4 E, f RMS_row) + D^q C,  f = u sqrt(D) within bounds

D is the reduction depth of the reference. Constants per precision: constants.py. All functions are
pure; tensors may have any strides and live on any one device; results are float64, there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from kernel_evolve_worker.correctness import constants
from kernel_evolve_worker.correctness.constants import NumberRule


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` as a matrix of rows [R, L]; R = 1 where rows would be too short to have an rms."""
    if tensor.dim() > 1 and tensor.shape[-1] >= constants.MIN_ROW:
        return tensor.reshape(-1, tensor.shape[-1])
    return tensor.reshape(1, -1)


def _chunks(rows: int, length: int):
    """Slices of rows that hold at most CHUNK elements each."""
    step = max(1, constants.CHUNK // max(1, length))
    return (slice(i, min(rows, i + step)) for i in range(0, rows, step))


def row_rms(tensor: torch.Tensor, minus: torch.Tensor | None = None) -> torch.Tensor:
    """rms per row of `tensor - minus`, float64 [R]."""
    a = rows_of(tensor)
    b = None if minus is None else rows_of(minus)
    out = torch.empty(a.shape[0], dtype=torch.float64, device=a.device)
    for part in _chunks(*a.shape):
        x = a[part].double()
        if b is not None:
            x = x - b[part].double()
        out[part] = torch.linalg.vector_norm(x, dim=1) / math.sqrt(max(1, a.shape[1]))
    return out


@dataclass
class Reference:
    """What is known of one floating-point output: everything the rule needs besides `y`.

    y64: float64, the output's shape. size, base, condition: RMS_row, E and C per row [R].
    """

    y64: torch.Tensor
    size: torch.Tensor
    base: torch.Tensor
    condition: torch.Tensor
    rule: NumberRule
    depth: int = 1

    @property
    def bytes(self) -> int:
        return self.y64.numel() * 8 + self.base.numel() * 24

    def counts(self, eager: torch.Tensor) -> bool:
        """Whether eager keeps the margin, so that this reference tells right from wrong.

        It doesn't where eager's own error, or what one roundoff in the inputs does, is as large as
        what the element rule allows, nor where every output is the same number.
        """
        if not bool(torch.isfinite(eager).all()) or not bool(torch.isfinite(self.size).all()):
            return False
        allowed = self.rule.element / constants.MARGIN * self.size
        good = float((self.base <= allowed).double().mean())
        first = self.y64.reshape(-1)[0]
        varied = self.y64.numel() == 1 or bool((self.y64 != first).any())
        return good >= constants.MARGIN_ROWS and varied and bool((self.size > 0).any())

    def element_limit(self) -> torch.Tensor:
        """The part of the element rule that is the same for a whole row, [R]."""
        slack = self.rule.element_base * self.depth**self.rule.depth_power
        return self.rule.element * self.size + slack * self.base

    def row_limit(self) -> torch.Tensor:
        """What the row rule allows rms(e) to be, [R]."""
        rule = self.rule
        share = min(max(rule.unit * math.sqrt(self.depth), rule.row_floor), rule.row_ceiling)
        limit = torch.maximum(rule.row_base * self.base, share * self.size)
        return limit + self.depth**rule.condition_power * self.condition


def make_reference(
    y64: torch.Tensor,
    eager: torch.Tensor,
    moved: list[torch.Tensor],
    rule: NumberRule,
    depth: int,
) -> Reference:
    """The Reference of one output from fp64, eager and the perturbed fp64 runs `moved`."""
    size = row_rms(y64)
    condition = torch.zeros_like(size)
    for other in moved:
        condition += row_rms(other, y64).square()
    condition = (condition / max(1, len(moved))).sqrt()
    base = torch.maximum(row_rms(eager, y64), condition)
    return Reference(y64, size, base, condition, rule, max(1, depth))


@dataclass
class Comparison:
    """The outcome for one tensor.

    ok: both rules hold and the NaN and Inf masks are equal. excess: the largest ratio of error to
    what is allowed (<= 1 when ok). wrong: bool, rows view [R, L] of the failing elements, or None.
    rows: whether the row rule failed while every element was inside. relative: rms(e) / rms(y64).
    """

    ok: bool
    excess: float
    relative: float
    wrong: torch.Tensor | None = None
    rows: bool = False
    masks: bool = True


def compare(reference: Reference, y: torch.Tensor) -> Comparison:
    """Applies the rule to `y`, which has the reference's shape."""
    want, got = rows_of(reference.y64), rows_of(y)
    element, row = reference.element_limit(), reference.row_limit()
    found = Comparison(ok=True, excess=0.0, relative=0.0)
    squares = 0.0
    for part in _chunks(*want.shape):
        squares += _compare_rows(found, reference, want, got, element, row, part)
    scale = float(reference.size.square().sum()) * want.shape[1]
    found.relative = math.sqrt(squares / scale) if scale > 0 else math.sqrt(squares)
    if not found.masks:
        found.excess = math.inf
    return found


def _compare_rows(found: Comparison, reference: Reference, want: torch.Tensor, got: torch.Tensor,
                  element: torch.Tensor, row: torch.Tensor, part: slice) -> float:
    """Compares the rows `part` and adds to `found`; returns the sum of squared errors."""
    root = math.sqrt(max(1, want.shape[1]))
    target = want[part]
    error = (got[part] - target).abs_()  # float64: the target's type wins
    allowed = target.abs().mul_(reference.rule.element).add_(element[part, None])
    norms = torch.linalg.vector_norm(error, dim=1)
    rms = norms / root
    # The common case takes few passes over the data; NaN anywhere fails both comparisons.
    worst = float((error / allowed).max())
    if worst <= 1.0 and bool((rms <= row[part]).all()):
        ratio = torch.where(rms > 0, rms / row[part], 0.0)
        found.excess = max(found.excess, worst, float(ratio.max()))
        return float(norms.square().sum())

    actual = got[part].double()
    both = torch.isfinite(actual) & torch.isfinite(target)
    same = (actual == target) | (torch.isnan(actual) & torch.isnan(target))
    error.masked_fill_(~both, 0.0)
    allowed.masked_fill_(~torch.isfinite(allowed), 0.0)
    mask_differs = ~both & ~same
    wrong = (error > allowed) | mask_differs
    norms = torch.linalg.vector_norm(error, dim=1)
    rms = norms / root
    only_row = (rms > row[part]) & ~wrong.any(dim=1)
    ratio = torch.where(error > 0, error / allowed, 0.0)
    row_ratio = torch.where(rms > 0, rms / row[part], 0.0)
    found.excess = max(found.excess, float(ratio.max()), float(row_ratio.max()))
    found.masks = found.masks and not bool(mask_differs.any())
    found.rows = found.rows or bool(only_row.any())
    # No single element stands out in such a row: those that carry its error are named.
    wrong |= only_row[:, None] & (error >= rms[:, None])
    if bool(wrong.any()):
        found.ok = False
        if found.wrong is None:
            found.wrong = torch.zeros(want.shape, dtype=torch.bool, device=want.device)
        found.wrong[part] = wrong
    return float(norms.square().sum())
