"""Compares what a candidate left behind with what the reference makes: the first difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from kernel_evolve_worker.correctness import outputs, patterns, tolerance
from kernel_evolve_worker.correctness.reference import Expected, Leaf, same_bits


@dataclass(frozen=True)
class Finding:
    """Why a candidate is wrong: a stable code, one sentence, and lines of detail for its author."""

    code: str
    text: str
    details: tuple[str, ...] = field(default=())


def check(
    expected: Expected,
    result: Any,
    inputs_after: list[Any],
    state_after: dict[str, torch.Tensor],
    aliases: Iterable[tuple[int, str, Any]],
) -> Finding | None:
    """The first difference between a candidate's run on `expected.inputs` and the reference's.

    Tensors have to live on the references' device; outputs elsewhere are a difference.
    result: the tree that forward returned. inputs_after: per input leaf, what it holds after the
    call. state_after: the weights after the call, by the reference's names; absent: untouched.
    aliases: see `outputs.check_structure`. None means equal by the rules.
    """
    problem = outputs.check_structure(expected.tree, result, aliases)
    if problem:
        return Finding(problem.code, f"{problem.text}.")
    leaves = outputs.leaves_of(result)
    for index, leaf in enumerate(expected.leaves):
        if leaf is None:
            continue
        finding = check_leaf(leaf, leaves[index], outputs.name_of(index, len(leaves)))
        if finding:
            return finding
    return _check_inputs(expected, inputs_after) or _check_state(expected, state_after)


def check_leaf(leaf: Leaf, got: torch.Tensor, name: str) -> Finding | None:
    """Compares one tensor of the right shape and dtype."""
    if leaf.numbers is not None:
        return _check_numbers(leaf.numbers, got, name)
    assert leaf.exact is not None
    if torch.equal(leaf.exact, got):
        return None
    if leaf.selection is not None and leaf.selection.equal(got):
        return None
    wrong = leaf.exact != got
    text = (f"{name} differs from the reference in {int(wrong.sum())} of {wrong.numel()} "
            f"elements; {outputs.dtype_name(got.dtype)} values have to be equal.")
    return Finding("wrong_values", text, tuple(patterns.describe(leaf.exact, got, wrong)))


def _check_numbers(reference: tolerance.Reference, got: torch.Tensor, name: str) -> Finding | None:
    comparison = tolerance.compare(reference, got)
    if comparison.ok:
        return None
    assert comparison.wrong is not None
    wrong = comparison.wrong.reshape(reference.y64.shape)
    count, total = int(wrong.sum()), wrong.numel()
    details = patterns.describe(reference.y64, got, wrong)
    if not comparison.masks:
        bad = int((~torch.isfinite(got) & torch.isfinite(reference.y64)).sum())
        return Finding("not_finite", f"{name} has NaN or Inf where the reference is finite: {bad} "
                       f"of {total} elements.", tuple(details))
    error = f"relative error {comparison.relative:.2g}, {comparison.excess:.3g} times the allowance"
    # Small and nearly everywhere: rounding. Small and in few places: something else is wrong there.
    if comparison.relative < 0.03 and (comparison.rows or count > total // 10):
        details.append(_precision_hint(reference, comparison.relative))
        return Finding("inaccurate", f"{name} is less accurate than the reference ({error}).",
                       tuple(details))
    return Finding("wrong_values", f"{name} is wrong in {count} of {total} elements ({error}).",
                   tuple(details))


def _precision_hint(reference: tolerance.Reference, relative: float) -> str:
    if reference.rule.name == "fp32" and relative < 5e-3:
        return ("an error of this size is what TF32, fp16 or bf16 operands give: keep fp32 "
                "products exact (input_precision=\"ieee\" in tl.dot) and accumulate in fp32")
    if reference.rule.name in ("fp16", "bf16"):
        return "accumulate in fp32 and convert to the 16-bit type once, when storing"
    return "keep the reference's order of magnitude of rounding: accumulate in fp32 or wider"


def _check_inputs(expected: Expected, after: list[Any]) -> Finding | None:
    for index, (before, now) in enumerate(zip(expected.inputs, after)):
        if not isinstance(before, torch.Tensor) or not isinstance(now, torch.Tensor):
            continue
        leaf = expected.inputs_after.get(index)
        if leaf is None:
            if not same_bits(before, now):
                return Finding("input_changed", f"forward changes input {index}; the reference "
                               "leaves it as it is.")
            continue
        finding = check_leaf(leaf, now, f"input {index} after the call")
        if finding:
            return finding
    return None


def _check_state(expected: Expected, after: dict[str, torch.Tensor]) -> Finding | None:
    for key, leaf in expected.state_after.items():
        now = after.get(key, expected.state[key])
        if tuple(now.shape) != tuple(expected.state[key].shape):
            return Finding("state_changed", f"the buffer {key} has another shape after the call.")
        finding = check_leaf(leaf, now, f"the buffer {key} after the call")
        if finding:
            return finding
    for key, now in after.items():
        if key in expected.state_after or key not in expected.state:
            continue
        if not same_bits(expected.state[key], now):
            return Finding("state_changed", f"forward changes the weight {key}; the reference "
                           "leaves it as it is.")
    return None
