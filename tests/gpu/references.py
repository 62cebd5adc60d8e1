"""Makes the references of the example tasks on a GPU and judges right and wrong answers by them.

usage: PYTHONPATH=sdk/worker python tests/gpu/references.py [--device cuda] [TASK.py...]

For each task (default: all of examples/tasks): it is tried; every variant is made; eager's own
results have to pass; the same results times 1.01 (16-bit types: 1.1; integers: plus one) have to
fail, as have results on the CPU. Prints one line a task; exits with 1 where anything is otherwise.
No test that runs by default needs a GPU, so this is no test of the suite.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from kernel_evolve_worker.correctness.check import Finding, check
from kernel_evolve_worker.correctness.reference import (
    Expected,
    References,
    load_snapshot,
    snapshot,
)
from kernel_evolve_worker.correctness.trial import try_references
from kernel_evolve_worker.correctness.variants import clone_inputs
from kernel_evolve_worker.task import load_task, run_forward

SEED = 20240607


class Mistake(Exception):
    """What the references got wrong, in one sentence."""


def spoiled(value: Any) -> Any:
    """A wrong answer near the right one."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point():  # 1 % is one rounding of a 16-bit type
        return value * (1.01 if value.element_size() > 2 else 1.1)
    return ~value if value.dtype == torch.bool else value + 1


def look_at(tensors: list[Any], device: torch.device, what: str) -> None:
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.device != device:
            raise Mistake(f"{what} is on {tensor.device}")


def try_variant(references: References, expected: Expected) -> None:
    """Raises Mistake where `expected` is on the wrong device or judges wrongly."""
    name, device = expected.name, references.device
    look_at([*expected.inputs, *expected.state.values()], device, f"an input or weight of {name}")
    if not expected.finite:
        return
    for leaf in expected.leaves:
        if leaf is not None:
            numbers = leaf.numbers
            parts = [numbers.y64, numbers.size, numbers.base, numbers.condition] if numbers else []
            look_at([leaf.exact, *parts], device, f"a result of {name}")
    load_snapshot(references.model, expected.state)
    structure = tree_flatten(references.own_inputs)[1]
    inputs = clone_inputs(tree_unflatten(expected.inputs, structure))
    result = run_forward(references.task, references.model, inputs, device)
    after, state = tree_leaves(inputs), snapshot(references.model)

    def judge(answer: Any) -> Finding | None:
        return check(expected, answer, after, state, [])

    finding = judge(result)
    if finding is not None:
        raise Mistake(f"eager's own results are refused on {name}: {finding.text}")
    if expected.counts and judge(tree_map(spoiled, result)) is None:
        raise Mistake(f"wrong results pass on {name}")
    if device.type == "cuda":
        away = judge(tree_map(lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, result))
        if away is None or away.code != "output_device":
            raise Mistake(f"results on the CPU give {away} on {name}")


def try_task(path: Path, device: str) -> str:
    """What there is to say of the task at `path`; raises what is wrong with it."""
    start = time.monotonic()
    references = References(load_task(path.read_text("utf-8"), str(path)), SEED, device)
    try_references(references)
    counted, finite, names = [], 0, [*references.names(), "redrawn_1"]
    for name in names:
        expected = references.expected(name)
        try_variant(references, expected)
        finite += expected.finite
        if expected.counts and name != "own":
            counted.append(name)
    if len(counted) < 3:
        raise Mistake(f"only {len(counted)} variants count")
    memory = (f", at most {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB"
              if references.device.type == "cuda" else "")
    notes = "".join(f"; {note}" for note in references.notes)
    return (f"{references.rule.name}, {finite} of {len(names)} variants finite, {len(counted)} "
            f"count, fp64 run {references.precise_seconds:.3f} s, "
            f"{time.monotonic() - start:.1f} s in all{memory}{notes}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("tasks", nargs="*", type=Path)
    given = parser.parse_args()
    folder = Path(__file__).parents[2] / "examples" / "tasks"
    failed = 0
    for path in given.tasks or sorted(folder.glob("*.py")):
        try:
            print(f"{path.name}: {try_task(path, given.device)}", flush=True)
        except Exception as error:  # noqa: BLE001 - reported, and the next task is tried
            failed += 1
            print(f"{path.name}: FAILED: {type(error).__name__}: {error}", flush=True)
            if not isinstance(error, Mistake):
                traceback.print_exc()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
