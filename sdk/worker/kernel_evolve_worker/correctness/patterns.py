"""Finds what wrong elements have in common, in words that help the author of a kernel."""

from __future__ import annotations

import torch

_SHOWN = 3  # wrong elements shown with their values
_LOOKED_AT = 1 << 16  # wrong elements a pattern is looked for in


def describe(want: torch.Tensor, got: torch.Tensor, wrong: torch.Tensor) -> list[str]:
    """Lines about the elements where `wrong` (bool, the tensors' shape) is set.

    First where they are, then what their values have in common, then a few of them.
    """
    if not bool(wrong.any()):
        return []
    places = wrong.reshape(-1).nonzero()[:, 0]
    lines = [_where(wrong, places)]
    some = places[:: max(1, places.numel() // _LOOKED_AT)]
    a = want.reshape(-1)[some].double()
    b = got.reshape(-1)[some].double()
    value = _value_pattern(a, b) or _layout_pattern(want, got)
    if value:
        lines.append(value)
    for place in _spread(places, _SHOWN):
        index = [int(i) for i in torch.unravel_index(place.cpu(), wrong.shape)]
        lines.append(f"at {index}: got {_number(got, place)}, expected {_number(want, place)}")
    return lines


def _spread(places: torch.Tensor, count: int) -> list[torch.Tensor]:
    """The first, the last and some between."""
    last = places.numel() - 1
    picks = sorted({round(i * last / max(1, count - 1)) for i in range(count)})
    return [places[i] for i in picks]


def _number(tensor: torch.Tensor, place: torch.Tensor) -> str:
    value = tensor.reshape(-1)[place].item()
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _where(wrong: torch.Tensor, places: torch.Tensor) -> str:
    total = wrong.numel()
    if places.numel() == total:
        return "all elements are wrong"
    for dim in reversed(range(wrong.dim())):
        length = wrong.shape[dim]
        if length < 2:
            continue
        others = [d for d in range(wrong.dim()) if d != dim]
        hit = wrong.any(dim=others) if others else wrong
        along = hit.nonzero()[:, 0]
        first, count = int(along[0]), along.numel()
        if count == length:
            continue
        if first > 0 and count == length - first:
            return (f"a tail: all wrong elements lie in the last {count} of {length} positions of "
                    f"dimension {dim}")
        if count > 2:
            steps = torch.unique(along[1:] - along[:-1])
            if steps.numel() == 1 and int(steps[0]) > 1:
                return (f"a stride: every {int(steps[0])}th position of dimension {dim} is wrong, "
                        f"starting at {first}")
        if count == int(along[-1]) - first + 1:
            return (f"all wrong elements lie in positions {first} to {int(along[-1])} of {length} "
                    f"of dimension {dim}")
    if int(places[-1]) - int(places[0]) + 1 == places.numel() and int(places[-1]) == total - 1:
        return f"a tail: the last {places.numel()} elements are wrong"
    return f"{places.numel()} of {total} elements are wrong"


def _value_pattern(want: torch.Tensor, got: torch.Tensor) -> str | None:
    if bool(torch.isnan(got).all()):
        return ("all of them are NaN: memory that was never written, or lanes that were masked off "
                "without other=")
    if bool((got == 0).all()):
        return "all of them are 0"
    if bool((got == got[0]).all()) and got.numel() > 2 and bool((want != want[0]).any()):
        return f"all of them are {float(got[0]):.6g}"
    finite = torch.isfinite(want) & torch.isfinite(got) & (want.abs() > 1e-30)
    if int(finite.sum()) < 3:
        return None
    ratio = got[finite] / want[finite]
    middle = float(ratio.median())
    if abs(middle - 1) > 1e-3 and bool(((ratio - middle).abs() <= 1e-3 * abs(middle)).all()):
        return f"a constant factor: each is {middle:.6g} times what is expected"
    difference = (got - want)[finite]
    middle = float(difference.median())
    spread = float((difference - middle).abs().max())
    if abs(middle) > 1e-6 and spread <= 1e-3 * abs(middle):
        return f"a constant offset: each is {middle:+.6g} from what is expected"
    return None


def _layout_pattern(want: torch.Tensor, got: torch.Tensor) -> str | None:
    if want.dim() < 2 or want.numel() > 1 << 22:
        return None
    other = want.mT.reshape(want.shape) if want.numel() else want
    close = (got.double() - other.double()).abs() <= 1e-3 * (other.double().abs() + 1e-30)
    if bool(close.all()) and not torch.equal(want, other):
        return "the values are right but transposed: rows and columns are swapped"
    return None
