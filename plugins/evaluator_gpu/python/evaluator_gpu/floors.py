"""The least time that a task can take: faster than this isn't fast, it is wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

# A share of the data sheet's bandwidth that no kernel exceeds; the rest is our uncertainty.
_REACHABLE = 1.0


def bytes_that_matter(model: torch.nn.Module, inputs: list[Any]) -> int:
    """Bytes of inputs and weights on which the outputs depend, found by differentiation.

    An element whose gradient is zero is taken as one that need not be read, so this is a lower
    bound. 0 where the model can't be differentiated.
    """
    def leaf(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.detach().clone().requires_grad_(True)
        return value

    try:
        given = tree_map(leaf, list(inputs))
        weights = {k: leaf(v) for k, v in model.state_dict().items()}
        with torch.enable_grad():
            out = torch.func.functional_call(model, weights, tuple(given))
            results = [x for x in tree_leaves(out)
                       if isinstance(x, torch.Tensor) and x.requires_grad]
            if not results:
                return 0
            generator = torch.Generator(device=results[0].device).manual_seed(11)
            loss = sum((x.double() * torch.randn(x.shape, generator=generator, device=x.device,
                                                 dtype=torch.float64)).sum() for x in results)
            loss.backward()
    except Exception:  # noqa: BLE001 - whatever PyTorch can't differentiate has no floor
        return 0
    seen: set[int] = set()
    total = 0
    for value in [*tree_leaves(given), *weights.values()]:
        if not isinstance(value, torch.Tensor) or value.grad is None or id(value) in seen:
            continue
        seen.add(id(value))
        total += int(torch.count_nonzero(value.grad)) * value.element_size()
    return total


def bytes_of_outputs(model: torch.nn.Module, inputs: list[Any]) -> int:
    """Bytes of what the model returns."""
    with torch.no_grad():
        results = tree_leaves(model(*inputs))
    return sum(x.numel() * x.element_size() for x in results if isinstance(x, torch.Tensor))


def bandwidth(info: dict[str, Any]) -> float:
    """The device's peak bytes per second, from what ke_replay says of it; 0 if unknown."""
    clock, width = info.get("memory_clock_khz", 0), info.get("bus_bits", 0)
    return _REACHABLE * 2e3 * clock * width / 8
