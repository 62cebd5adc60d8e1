"""Inputs on which a candidate is judged: the task's own, and variants that keep each one's domain.

A variant replaces every tensor leaf of the inputs by new values of the same shape, strides and
dtype. What a value may be is read off the task's own inputs (`domain_of`): integers keep their
range, masks and permutations are shuffled, zeros of a structured matrix stay zero, probabilities
stay probabilities, positive stays positive. All draws come from the generator handed in, whose
device has to be the inputs'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

# Order of use: the first ones tell most, so an expensive reference uses only those.
#   normal      zero mean; runs with perturbed weights: stale folds, precision class
#   large       x 2^17: conversions to fp16, exponentials without a maximum
#   small       x 2^-20: epsilons, flushed subnormals, fp16 underflow
#   heavy_tail  few large values among small ones: lost accuracy, wrong maxima
#   mean_100    one-pass variances, cancellation
#   ramp        every element differs and is known by its place: swapped indices, missed tails
#   one_hot     nearly everything zero: which element feeds which
#   ones, zeros constants
NAMES = ("normal", "large", "small", "heavy_tail", "mean_100", "ramp", "one_hot", "ones", "zeros")

_SAMPLE = 1 << 16  # elements looked at where looking at all would cost as much as the reference


@dataclass(frozen=True)
class Domain:
    """What the values of one input tensor are.

    kind: "fixed" (kept verbatim), "shuffle" (same values, other places), "integer", "simplex",
    "unit", "positive", "nonnegative" or "real". low, high: smallest and largest value.
    zeros: bool mask of structural zeros, or None. symmetric: equal to its transpose.
    """

    kind: str
    low: float = 0.0
    high: float = 0.0
    zeros: torch.Tensor | None = None
    symmetric: bool = False


def domain_of(tensor: torch.Tensor) -> Domain:
    """The domain that `tensor`, one of the task's own inputs, shows."""
    if tensor.numel() == 0 or tensor.is_complex():
        return Domain("fixed")
    if tensor.dtype == torch.bool:
        return Domain("shuffle")
    if not tensor.is_floating_point():
        return _integer_domain(tensor)
    if not bool(torch.isfinite(tensor).all()):
        return Domain("fixed")  # an additive mask: its infinities are its meaning
    low, high = float(tensor.min()), float(tensor.max())
    sample = tensor.reshape(-1)[:_SAMPLE]
    if low < high and tensor.numel() > 2 and torch.unique(sample).numel() == 2:
        if torch.unique(tensor).numel() == 2:
            return Domain("shuffle", low, high)  # a mask
    zeros = _structural_zeros(tensor)
    symmetric = _is_symmetric(tensor)
    if zeros is None and low >= 0 and high <= 1 and tensor.shape and tensor.shape[-1] > 1:
        sums = tensor.double().sum(-1)
        if bool(((sums - 1).abs() < 1e-3).all()):
            return Domain("simplex", low, high)
    if low == high or low < 0:
        kind = "real"
    elif high <= 1:
        kind = "unit"
    else:
        kind = "positive" if low > 0 else "nonnegative"
    return Domain(kind, low, high, zeros, symmetric)


def _integer_domain(tensor: torch.Tensor) -> Domain:
    low, high = int(tensor.min()), int(tensor.max())
    flat = tensor.reshape(-1)
    if low == high:
        return Domain("fixed")
    if flat.numel() > 2:
        if bool((flat[1:] >= flat[:-1]).all()):
            return Domain("fixed")  # offsets or positions: any other values may be meaningless
        if high - low + 1 == flat.numel() and torch.unique(flat).numel() == flat.numel():
            return Domain("shuffle")  # a permutation stays one
    return Domain("integer", low, high)


def _structural_zeros(tensor: torch.Tensor) -> torch.Tensor | None:
    """Zeros of a triangular, diagonal or sparse matrix; none where a quarter isn't zero."""
    if tensor.dim() < 2:
        return None
    zeros = tensor == 0
    return zeros if 0.25 <= float(zeros.float().mean()) < 1.0 else None


def _is_symmetric(tensor: torch.Tensor) -> bool:
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] < 2:
        return False
    return torch.equal(tensor, tensor.mT)


def make_variant(
    name: str, inputs: list[Any], domains: list[Domain | None], generator: torch.Generator
) -> list[Any]:
    """The arguments of `forward` for variant `name`; non-tensors are kept.

    `domains` has one entry per leaf of `inputs`, None for leaves that are no tensors.
    """
    leaves, spec = tree_flatten(inputs)
    new = [
        leaf if domain is None else _new_values(name, leaf, domain, generator)
        for leaf, domain in zip(leaves, domains)
    ]
    return tree_unflatten(new, spec)


def domains_of(inputs: list[Any]) -> list[Domain | None]:
    """`domain_of` for every leaf, None for leaves that are no tensors."""
    leaves, _ = tree_flatten(inputs)
    return [domain_of(x) if isinstance(x, torch.Tensor) else None for x in leaves]


def clone_leaf(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same sizes and strides that shares no memory, zero strides included."""
    return _like(tensor, tensor)


def clone_inputs(inputs: list[Any]) -> list[Any]:
    """`inputs` with every tensor copied, strides kept."""
    leaves, spec = tree_flatten(inputs)
    return tree_unflatten(
        [clone_leaf(x) if isinstance(x, torch.Tensor) else x for x in leaves], spec)


def _like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """`values` in a fresh storage laid out like `tensor`, on the device of `values`.

    Expanded dimensions stay expanded.
    """
    narrow = values
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            narrow = narrow.narrow(dim, 0, 1)
    out = torch.empty_strided(
        narrow.shape, tensor.stride(), dtype=tensor.dtype, device=values.device)
    out.copy_(narrow)
    return out.expand(tensor.shape) if out.shape != tensor.shape else out


def _new_values(
    name: str, tensor: torch.Tensor, domain: Domain, generator: torch.Generator
) -> torch.Tensor:
    if domain.kind == "fixed":
        return clone_leaf(tensor)
    shape = tensor.shape
    if domain.kind == "shuffle":
        flat = tensor.reshape(-1)
        order = torch.randperm(flat.numel(), generator=generator, device=generator.device)
        return _like(tensor, flat[order].reshape(shape))
    if domain.kind == "integer":
        values = torch.randint(
            int(domain.low), int(domain.high) + 1, shape, generator=generator, dtype=torch.int64,
            device=generator.device)
        return _like(tensor, values.to(tensor.dtype))
    values = _DRAWS[_family(domain.kind)][name](shape, generator)
    if domain.symmetric:
        values = torch.triu(values) + torch.triu(values, 1).mT
    if domain.zeros is not None:
        values = values.masked_fill(domain.zeros, 0.0)
    # What overflows in a narrow type is the type's largest number: still finite, still extreme.
    limit = torch.finfo(tensor.dtype).max
    if limit < 1e30:
        values = values.clamp_(-limit, limit)
    return _like(tensor, values)


def _family(kind: str) -> str:
    return "positive" if kind == "nonnegative" else kind


Shape = torch.Size
Draw = Callable[[Shape, torch.Generator], torch.Tensor]


def _normal(shape: Shape, g: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=g, device=g.device)


def _uniform(shape: Shape, g: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=g, device=g.device)


def _ramp(shape: Shape, g: torch.Generator) -> torch.Tensor:
    """Every element differs from its neighbours in every dimension, within [0, 1)."""
    count = torch.arange(
        max(1, torch.Size(shape).numel()), dtype=torch.float64, device=g.device)
    golden = 0.6180339887498949  # multiples of an irrational number never repeat modulo 1
    return (count * golden).frac().float()[: torch.Size(shape).numel()].reshape(shape)


def _one_hot(shape: Shape, g: torch.Generator) -> torch.Tensor:
    """One 1 per row, at a random place."""
    out = torch.zeros(shape, device=g.device)
    if not shape:
        return out + 1
    rows = out.reshape(-1, shape[-1])
    rows[torch.arange(rows.shape[0], device=g.device),
         torch.randint(shape[-1], (rows.shape[0],), generator=g, device=g.device)] = 1.0
    return rows.reshape(shape)


def _heavy(shape: Shape, g: torch.Generator) -> torch.Tensor:
    """Student's t with about two degrees of freedom, cut at 1e4."""
    x = _normal(shape, g)
    return (x / _uniform(shape, g).clamp_(min=1e-6).sqrt_()).clamp_(-1e4, 1e4)


def _constant(value: float) -> Draw:
    return lambda shape, g: torch.full(shape, value, device=g.device)


_REAL: dict[str, Draw] = {
    "normal": _normal,
    "large": lambda s, g: _normal(s, g) * 2.0**17,
    "small": lambda s, g: _normal(s, g) * 2.0**-20,
    "heavy_tail": _heavy,
    "mean_100": lambda s, g: _normal(s, g) + 100.0,
    "ramp": lambda s, g: _ramp(s, g) * 4.0 - 2.0,
    "one_hot": _one_hot,
    "ones": _constant(1.0),
    "zeros": _constant(0.0),
}
_POSITIVE: dict[str, Draw] = {
    "normal": lambda s, g: _normal(s, g).exp_(),
    "large": lambda s, g: _normal(s, g).exp_() * 2.0**17,
    "small": lambda s, g: _normal(s, g).exp_() * 2.0**-20,
    "heavy_tail": lambda s, g: _heavy(s, g).abs_().add_(1e-3),
    "mean_100": lambda s, g: _uniform(s, g) + 100.0,
    "ramp": lambda s, g: _ramp(s, g) * 4.0 + 0.01,
    "one_hot": lambda s, g: _one_hot(s, g) + 0.01,
    "ones": _constant(1.0),
    "zeros": _constant(1e-6),
}
_UNIT: dict[str, Draw] = {
    "normal": _uniform,
    "large": lambda s, g: 1.0 - _uniform(s, g) * 2.0**-6,
    "small": lambda s, g: _uniform(s, g) * 2.0**-20,
    "heavy_tail": lambda s, g: _uniform(s, g).pow_(8),
    "mean_100": lambda s, g: _uniform(s, g) * 0.25 + 0.375,
    "ramp": _ramp,
    "one_hot": lambda s, g: _one_hot(s, g) * 0.98 + 0.01,
    "ones": _constant(1.0),
    "zeros": _constant(0.0),
}
_SIMPLEX: dict[str, Draw] = {
    "normal": lambda s, g: _normal(s, g).softmax(-1),
    "large": lambda s, g: (_normal(s, g) * 8).softmax(-1),
    "small": lambda s, g: (_normal(s, g) * 2.0**-6).softmax(-1),
    "heavy_tail": lambda s, g: _heavy(s, g).clamp_(-20, 20).softmax(-1),
    "mean_100": lambda s, g: _uniform(s, g).softmax(-1),
    "ramp": lambda s, g: _ramp(s, g).softmax(-1),
    "one_hot": _one_hot,
    "ones": lambda s, g: torch.full(s, 1.0 / max(1, s[-1]), device=g.device),
    "zeros": lambda s, g: torch.full(s, 1.0 / max(1, s[-1]), device=g.device),
}
_DRAWS = {"real": _REAL, "positive": _POSITIVE, "unit": _UNIT, "simplex": _SIMPLEX}


def perturb_weights(model: torch.nn.Module, generator: torch.Generator, step: float) -> bool:
    """Moves the floating-point weights of `model` in place; False where there are none.

    Parameters move by a factor exp(step n) and by a share of their size (biases are often zero);
    buffers keep sign and zeros (variances, masks), and buffers with two values are left alone.
    The generator's device has to be the model's.
    """
    device = generator.device
    moved = False
    seen: set[int] = set()
    names = {id(p) for p in model.parameters()}
    with torch.no_grad():
        for tensor in model.state_dict(keep_vars=True).values():
            if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
                continue
            if tensor.data_ptr() in seen or tensor.numel() == 0:
                continue
            seen.add(tensor.data_ptr())
            if id(tensor) in names:
                size = float(tensor.float().square().mean().sqrt()) or step
                shift = torch.randn(
                    tensor.shape, generator=generator, device=device) * (step * size)
            elif torch.unique(tensor).numel() <= 2 and tensor.numel() > 2:
                if not bool((tensor == 1).all() | (tensor == 0).all()):
                    continue
                shift = 0.0
            else:
                shift = 0.0
            factor = torch.exp(
                torch.randn(tensor.shape, generator=generator, device=device) * step)
            tensor.copy_(tensor * factor + shift)
            moved = True
    return moved
