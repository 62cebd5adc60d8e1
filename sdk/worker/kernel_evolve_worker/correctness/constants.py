"""Every constant of the correctness rules, each with its reason.

Starting values, tried on honest and wrong variants of matmul, sums, norms, softmax and pointwise
functions (`tests/python/judge/test_tolerance.py` keeps a part of them). Change one only together
with those tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class NumberRule:
    """How far a number may be from fp64 when the reference works in one precision.

    unit: the unit roundoff u, half the distance of two neighbours at 1.
    perturbation: relative size of the input perturbation that measures conditioning (C).
    element: tol, each element's share of RMS_row + |y|.
    depth_power: the element rule allows `element_base * D**depth_power * E` beside that.
    row_base: the row rule allows `row_base * E`.
    row_floor, row_ceiling: bounds of f, the row rule's share of RMS_row; f = u sqrt(D) between.
    condition_power: the row rule adds `D**condition_power * C`.
    """

    name: str
    unit: float
    perturbation: float
    element: float
    element_base: float
    depth_power: float
    row_base: float
    row_floor: float
    row_ceiling: float
    condition_power: float


_U64, _U32, _U16, _UB16, _UTF32 = 2.0**-53, 2.0**-24, 2.0**-11, 2.0**-8, 2.0**-11

FP64 = NumberRule(
    "fp64", _U64, _U64, 1e-11, 8.0, 0.25, 4.0, 4 * _U64, 1e-13, 0.5)
# A sum of D products may be reordered: its error grows like u sqrt(D) against any other order's, so
# f follows sqrt(D), capped at 1e-5 because fp16 or TF32 inputs show up at about 3e-4.
FP32 = NumberRule(
    "fp32", _U32, _U32, 1e-4, 8.0, 0.25, 4.0, 4 * _U32, 1e-5, 0.5)
# The reference allows TF32: operands are rounded to 11 bits, so that is the conditioning's unit.
TF32 = NumberRule(
    "tf32", _UTF32, _UTF32, 8 * _UTF32, 8.0, 0.0, 4.0, 2 * _UTF32, 2 * _UTF32, 0.0)
# Half precisions store in 16 bits and sum in fp32, so the error is one rounding per stored value
# and doesn't grow with D: rounding once gives an rms of 0.41u, twice 0.6u, chopping instead of
# rounding 0.8u; 4E and 2u admit those. Dropping one of 4096 summands costs 1/64 = 4u of bf16, and
# is refused.
# Inputs are exact in these types, so conditioning is measured with fp32's unit.
FP16 = NumberRule(
    "fp16", _U16, _U32, 8 * _U16, 8.0, 0.0, 4.0, 2 * _U16, 2 * _U16, 0.5)
BF16 = NumberRule(
    "bf16", _UB16, _U32, 8 * _UB16, 8.0, 0.0, 4.0, 2 * _UB16, 2 * _UB16, 0.5)

RULES = {torch.float64: FP64, torch.float32: FP32, torch.float16: FP16, torch.bfloat16: BF16}

# A row shorter than this has no meaningful rms of its own; such tensors are judged as one row.
MIN_ROW = 32
# Eager has to keep this distance from the element rule, else the variant can't tell right from
# wrong.
MARGIN = 4.0
# The share of rows in which eager has to keep it: single rows cancel to nothing by chance.
MARGIN_ROWS = 0.9
# Variants beside the own inputs that have to count; with fewer the verdict is `weak`, never a win.
MIN_VARIANTS = 3
# Perturbed fp64 runs that give C. One has an uncertainty of some percent on a row of 1000 elements,
# and C enters with factors of 4 and more, so an expensive reference makes do with one.
CONDITION_RUNS = 3
CONDITION_RUNS_EXPENSIVE = 1
# Seconds of one fp64 run from which a reference is expensive: then one perturbed run, and no
# variant beyond MIN_VARIANTS.
EXPENSIVE_S = 1.0
# Seconds of one judgement after which no variant beyond MIN_VARIANTS is added.
JUDGEMENT_BUDGET_S = 30.0
# Bytes of references one judge keeps between candidates; beyond that they are computed again.
CACHE_BYTES = 3 << 30
# From here on a reference gets all cores (bytes of its inputs, operations).
LARGE_BYTES = 4 << 20
LARGE_FLOPS = 10**8
# Two runs of a deterministic reference may differ in the order of a parallel sum, not by more.
REPEAT_ULPS = 16.0
# Elements compared at a time: bounds the fp64 temporaries to some 100 MiB.
CHUNK = 1 << 22
# Largest relative step by which weights move between variants: exp(0.1 n) with normal n.
WEIGHT_STEP = 0.1
