"""Sentences and lines for the author of a wrong candidate that every evaluator uses.

Nothing here reveals seeds or how the data was made: variants are called by what they are like.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernel_evolve_worker.correctness.check import Finding
from kernel_evolve_worker.correctness.reference import Expected

_DATA = {
    "own": "the task's own inputs",
    "reweighted": "the task's own inputs with other weights",
    "redrawn": "other draws of the task's own inputs",
    "normal": "zero-mean inputs",
    "large": "large inputs (around 1e5)",
    "small": "small inputs (around 1e-6)",
    "heavy_tail": "inputs with a few large values",
    "mean_100": "inputs with a large mean",
    "ramp": "inputs in which every element differs",
    "one_hot": "inputs with one 1 per row",
    "ones": "constant inputs",
    "zeros": "zero inputs",
}


def data_name(variant: str, perturbed: bool = False) -> str:
    """What a variant is called in messages."""
    name = _DATA.get(variant) or _DATA.get(variant.rstrip("0123456789_"), "other data")
    return f"{name} and other weights" if perturbed and variant != "reweighted" else name


def on_data(text: str, expected: Expected) -> str:
    """The sentence `text` with the data on which it holds before its full stop."""
    name = data_name(expected.name, expected.perturbed)
    return f"{text.removesuffix('.')} (on {name})."


def explain(finding: Finding, expected: Expected, passed: Iterable[str]) -> list[str]:
    """What is known about a difference, one line each; `passed` names the variants before it."""
    lines = [f"{finding.text[0].upper()}{finding.text[1:]}", *finding.details]
    right = ", ".join(data_name(variant) for variant in passed)
    if right:
        lines.append(f"it was right on {right}")
    if expected.perturbed:
        lines.append("the weights differ from those at construction: read them in each call, "
                     "and don't fold them into constants in __init__")
    return lines
