"""Gives a candidate the reference's weights, and says which tensor is which.

`match` pairs the tensors of Model's state with those of ModelNew's: by name; else by order, where
both have the same shapes and types in the same order; else by value, where both were constructed
from the same seed and every value names its partner. Where none of these is unambiguous, it raises
Mismatch with one sentence.
"""

from __future__ import annotations

import torch


class Mismatch(Exception):
    """The weights of the candidate can't be told apart; the text is one sentence."""


def match(reference: dict[str, torch.Tensor],
          candidate: dict[str, torch.Tensor]) -> dict[str, str]:
    """{reference's name: candidate's name}, complete in the reference's names.

    Both arguments are state dicts of modules made from one seed. Tensors that only the candidate
    has are left out: they keep what its constructor gave them.
    """
    by_name = _by_name(reference, candidate)
    if by_name is not None:
        return by_name
    if [_kind(v) for v in reference.values()] == [_kind(v) for v in candidate.values()]:
        kinds = [_kind(v) for v in reference.values()]
        if len(set(kinds)) == len(kinds) or not candidate.keys() & reference.keys():
            return dict(zip(reference, candidate))
    by_value = _by_value(reference, candidate)
    if by_value is not None:
        return by_value
    raise Mismatch(
        f"the weights of ModelNew can't be matched with those of Model: Model has "
        f"{_listed(reference)}, ModelNew has {_listed(candidate)}; give ModelNew parameters with "
        "the same names and shapes."
    )


def copy(pairs: dict[str, str], reference: dict[str, torch.Tensor],
         candidate: dict[str, torch.Tensor]) -> None:
    """Copies the reference's values into the candidate's tensors, in place."""
    with torch.no_grad():
        for source, target in pairs.items():
            candidate[target].copy_(reference[source])


def named(pairs: dict[str, str], reference: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies of the reference's values by the candidate's names."""
    return {own: reference[name].clone() for name, own in pairs.items()}


def others(given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Values that no constructor gives: numbers that grow from element to element."""
    return {own: value + torch.linspace(1, 2, value.numel(), dtype=value.dtype).view(value.shape)
            if value.is_floating_point() and value.element_size() > 1 else value
            for own, value in given.items()}


def check(given: dict[str, torch.Tensor], arrived: dict[str, torch.Tensor]) -> None:
    """Raises Mismatch where the candidate holds others than the values that it was given."""
    for own, value in given.items():
        if own not in arrived or not torch.equal(_bits(arrived[own]), _bits(value)):
            raise Mismatch(f"ModelNew doesn't keep the weight {own} that load_state_dict gives "
                           "it: leave state_dict and load_state_dict as torch.nn.Module has them.")


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The content as bytes, so that NaN equals itself, and any type can be compared."""
    return tensor.reshape(-1).contiguous().view(torch.uint8)


def _kind(tensor: torch.Tensor) -> tuple[tuple[int, ...], torch.dtype]:
    return tuple(tensor.shape), tensor.dtype


def _by_name(reference: dict[str, torch.Tensor],
             candidate: dict[str, torch.Tensor]) -> dict[str, str] | None:
    if not all(name in candidate and _kind(candidate[name]) == _kind(value)
               for name, value in reference.items()):
        return None
    return {name: name for name in reference}


def _by_value(reference: dict[str, torch.Tensor],
              candidate: dict[str, torch.Tensor]) -> dict[str, str] | None:
    pairs: dict[str, str] = {}
    for name, value in reference.items():
        partners = [other for other, held in candidate.items()
                    if _kind(held) == _kind(value) and torch.equal(_bits(held), _bits(value))]
        if len(partners) != 1 or partners[0] in pairs.values():
            return None
        pairs[name] = partners[0]
    return pairs


def _listed(state: dict[str, torch.Tensor], limit: int = 4) -> str:
    if not state:
        return "none"
    shown = [f"{name} {list(value.shape)}" for name, value in list(state.items())[:limit]]
    more = len(state) - limit
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
