"""The trial of the task itself, before any candidate is judged on it.

A task is refused, with one sentence, when it can't tell right from wrong: it is random, its outputs
are not finite or not there, or a lazy answer (zeros, a constant, a copied input, only the first
tile, another draw's result) would pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernel_evolve_worker.correctness import constants, outputs
from kernel_evolve_worker.correctness.check import check_leaf
from kernel_evolve_worker.correctness.reference import FIRST, Expected, References
from kernel_evolve_worker.task import invalid


def try_references(references: References) -> None:
    """Raises WorkerError (validation) with one sentence where the task is unfit; else returns."""
    name = references.task.name
    first = references.run(FIRST)
    results = outputs.leaves_of(first)
    tensors = [x for x in results if isinstance(x, torch.Tensor)]
    if not tensors:
        raise invalid(f"forward of the task {name} returns no tensor; it has to return the result "
                      "that a rewrite is compared with.")
    for index, tensor in enumerate(results):
        if isinstance(tensor, torch.Tensor) and tensor.numel() == 0:
            raise invalid(f"{_name(index, results)} of the task {name} has no elements (shape "
                          f"{list(tensor.shape)}); use inputs that give a result.")
        if isinstance(tensor, torch.Tensor) and tensor.is_complex():
            raise invalid(f"{_name(index, results)} of the task {name} is complex, which Triton "
                          "kernels can't return; return real and imaginary parts.")
    for index, tensor in enumerate(results):
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            bad = int((~torch.isfinite(tensor)).sum())
            if bad:
                raise invalid(f"{_name(index, results)} of the task {name} has NaN or Inf in {bad} "
                              f"of {tensor.numel()} elements on its own inputs; no rewrite can be "
                              "compared with that.")
    _refuse_random(references, first)
    _refuse_weak(references.expected("own"), name)


def _name(index: int, results: list) -> str:
    text = outputs.name_of(index, len(results))
    return text[0].upper() + text[1:]


def _refuse_random(references: References, first: object) -> None:
    again = outputs.leaves_of(references.run("again"))
    for index, (a, b) in enumerate(zip(outputs.leaves_of(first), again)):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape:
            if torch.equal(a, b) or (a.is_floating_point() and _close(a, b)):
                continue
        elif not isinstance(a, torch.Tensor) and outputs.same_plain(a, b):
            continue
        model = references.model
        dropout = any("Dropout" in type(m).__name__ and m.training for m in model.modules())
        why = ("it has dropout in training mode; call self.eval() at the end of Model.__init__"
               if dropout else "forward has to give the same result for the same inputs")
        raise invalid(f"The task {references.task.name} is random: "
                      f"{outputs.name_of(index, len(again))} differs between two runs on the same "
                      f"inputs ({why}).")


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal up to the order of a parallel sum."""
    unit = constants.RULES.get(a.dtype, constants.FP32).unit
    x, y = a.double(), b.double()
    scale = float(x.square().mean().sqrt())
    return bool(((x - y).abs() <= constants.REPEAT_ULPS * unit * (scale + x.abs())).all())


def _refuse_weak(own: Expected, name: str) -> None:
    count = len(own.leaves)
    for what, mutant in _mutants(own):
        survives = True
        for index, leaf in enumerate(own.leaves):
            if leaf is None:
                continue
            changed = mutant(index)
            if changed is None or check_leaf(leaf, changed, outputs.name_of(index, count)):
                survives = False
                break
        if survives:
            raise invalid(f"The task {name} is too weak to judge a rewrite: {what} would pass as "
                          "its result; use inputs on which the result matters.")


def _right_answer(own: Expected, index: int) -> torch.Tensor:
    """The reference's output `index` in its own dtype."""
    leaf, layout = own.leaves[index], own.tree.leaves[index]
    assert leaf is not None
    source = leaf.exact if leaf.exact is not None else leaf.numbers.y64
    return source.to(layout.dtype)


def _mutants(own: Expected) -> Iterator[tuple[str, object]]:
    """Lazy answers: (what it is, function from output number to tensor or None if none)."""
    yield "all zeros", lambda i: torch.zeros_like(_right_answer(own, i))

    def constant(i: int) -> torch.Tensor | None:
        right = _right_answer(own, i)
        if right.numel() < 2:
            return None  # one number always equals its own mean
        value = right.double().mean() if right.is_floating_point() else right.reshape(-1)[0]
        return torch.full_like(right, value.item())

    yield "one constant", constant

    def first_tile(i: int) -> torch.Tensor | None:
        right = _right_answer(own, i)
        keep = min(1024, right.numel() // 2)
        if keep == 0:
            return None
        out = torch.zeros_like(right)
        out.reshape(-1)[:keep] = right.reshape(-1)[:keep]
        return out

    yield "only the first tile", first_tile
    for number, value in enumerate(own.inputs):
        if not isinstance(value, torch.Tensor):
            continue

        def copied(i: int, value: torch.Tensor = value) -> torch.Tensor | None:
            layout = own.tree.leaves[i]
            same = tuple(value.shape) == layout.shape and value.dtype == layout.dtype
            return value if same else None

        yield f"a copy of input {number}", copied
