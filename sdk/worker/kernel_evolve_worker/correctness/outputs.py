"""What a candidate has to return: the reference's tree, types, layout, and no surprising aliases.

An output is described once per reference run (`expect_outputs`) and compared with any number of
candidates (`check_structure`, `check_exact`). Functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Problem:
    """One difference: a stable code and a sentence about it, without the candidate's name."""

    code: str
    text: str


@dataclass(frozen=True)
class Layout:
    """Sizes, strides, type and kind of device ("cpu", "cuda") of one tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: str = "cpu"

    @staticmethod
    def of(tensor: torch.Tensor) -> Layout:
        return Layout(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.device.type)


@dataclass(frozen=True)
class Tree:
    """A reference's outputs: layouts for tensors, values for anything else, in tree order.

    spec: the structure, "*" for each leaf (see `flatten`). aliases: for each leaf, the input
    leaves (by number) and weights (by name) whose memory it shares.
    """

    leaves: tuple[Any, ...]
    spec: Any
    aliases: tuple[frozenset[int | str], ...]

    @property
    def tensors(self) -> list[int]:
        return [i for i, x in enumerate(self.leaves) if isinstance(x, Layout)]


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves and structure. Named tuples are tuples, dicts are ordered by key, None is a leaf."""
    leaves: list[Any] = []

    def walk(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return (kind, *(walk(item) for item in value))
        if isinstance(value, dict):
            return ("dict", *((k, walk(value[k])) for k in sorted(value, key=repr)))
        leaves.append(value)
        return "*"

    spec = walk(tree)
    return leaves, spec


def leaves_of(tree: Any) -> list[Any]:
    """Leaves in the order of `flatten`."""
    return flatten(tree)[0]


def _in_written_order(tree: Any) -> list[torch.Tensor]:
    """The tensors of a tree, dicts in their own order: how an execution numbers its outputs."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    items = tree.values() if isinstance(tree, dict) else tree
    if not isinstance(tree, (list, tuple, dict)):
        return []
    return [tensor for item in items for tensor in _in_written_order(item)]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def describe(outputs: Any, inputs: Iterable[Any], state: dict[str, torch.Tensor]) -> Tree:
    """The Tree of a reference's `outputs`, given the input leaves and the weights it ran on."""
    leaves, spec = flatten(outputs)
    named: list[tuple[int | str, Any]] = [*enumerate(inputs), *state.items()]
    memory = {
        key: _storage(x) for key, x in named if isinstance(x, torch.Tensor) and x.numel()
    }
    aliases = tuple(
        frozenset(i for i, place in memory.items() if place == _storage(x))
        if isinstance(x, torch.Tensor) and x.numel() else frozenset()
        for x in leaves
    )
    kept = tuple(Layout.of(x) if isinstance(x, torch.Tensor) else x for x in leaves)
    return Tree(kept, spec, aliases)


def name_of(index: int, count: int) -> str:
    """How a message calls output `index` of `count`."""
    return "the output" if count == 1 else f"output {index}"


def check_structure(tree: Tree, outputs: Any, aliases: Iterable[tuple[int, str, Any]]) -> \
        Problem | None:
    """The first difference in tree, type, dtype, shape, device, strides or aliasing, or None.

    aliases: (number of the output tensor, "input"|"state"|"constant", which) that share memory in
    the candidate.
    """
    leaves, spec = flatten(outputs)
    if spec != tree.spec:
        return Problem("output_tree", f"forward returns {_shape_of(spec, leaves)} where the "
                       f"reference returns {_shape_of(tree.spec, list(tree.leaves))}")
    count = len(leaves)
    for index, (want, got) in enumerate(zip(tree.leaves, leaves)):
        name = name_of(index, count)
        if not isinstance(want, Layout):
            if not same_plain(want, got):
                return Problem("output_value",
                               f"{name} is {_short(got)}; the reference returns {_short(want)}")
            continue
        if not isinstance(got, torch.Tensor):
            what = "None" if got is None else f"a {type(got).__name__}"
            return Problem("output_type", f"{name} is {what}; the reference returns a tensor")
        problem = _check_layout(want, got, name)
        if problem:
            return problem
    written = _in_written_order(outputs)
    for number, kind, which in aliases:
        index = next(i for i, leaf in enumerate(leaves) if leaf is written[number])
        if which in tree.aliases[index]:
            continue
        what = {"input": f"input {which}", "state": f"the weight {which}",
                "constant": f"the tensor {which} kept between calls"}
        return Problem("output_alias", f"{name_of(index, count)} shares memory with "
                       f"{what.get(kind, kind)}; the reference returns a tensor of its own")
    return None


def same_plain(want: Any, got: Any) -> bool:
    """Whether two leaves that are no tensors are equal; floats up to 1e-6 relative."""
    if type(want) is not type(got):
        return False
    if isinstance(want, float):
        return want == got or abs(want - got) <= 1e-6 * abs(want) or (want != want and got != got)
    return bool(want == got)


def _check_layout(want: Layout, got: torch.Tensor, name: str) -> Problem | None:
    if got.dtype != want.dtype:
        return Problem("output_dtype", f"{name} has dtype {dtype_name(got.dtype)}; the reference's "
                       f"is {dtype_name(want.dtype)}")
    if tuple(got.shape) != want.shape:
        return Problem("output_shape", f"{name} has shape {list(got.shape)}; the reference's is "
                       f"{list(want.shape)}")
    if got.device.type != want.device:
        return Problem("output_device", f"{name} is on the device {got.device.type}; the "
                       f"reference's is on {want.device}")
    if tuple(got.stride()) != want.stride and not is_dense(got):
        return Problem("output_stride", f"{name} has strides {list(got.stride())}, with gaps or "
                       f"overlaps; the reference's are {list(want.stride)}")
    return None


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps and overlaps, in any order."""
    expected = 1
    dims = sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n != 1)
    for stride, length in dims:
        if stride != expected:
            return False
        expected *= length
    return True


def dtype_name(dtype: torch.dtype) -> str:
    """ "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def _shape_of(spec: Any, leaves: list[Any]) -> str:
    if spec == "*":
        leaf = leaves[0]
        if leaf is None:
            return "None"
        tensor = isinstance(leaf, (torch.Tensor, Layout))
        return "a tensor" if tensor else f"a {type(leaf).__name__}"
    keys = f" with the keys {', '.join(str(k) for k, _ in spec[1:])}" if spec[0] == "dict" else ""
    return f"a {spec[0]} of {len(spec) - 1}{keys}"


@dataclass(frozen=True)
class Selection:
    """An index output that selects values of an input: compared by what it selects.

    source: the values selected from. dim: along which. squeezed: whether the output lacks `dim`.
    """

    source: torch.Tensor
    dim: int
    squeezed: bool
    selected: torch.Tensor

    def equal(self, indices: torch.Tensor) -> bool:
        """Whether `indices` selects the same values, each position along `dim` at most once."""
        length = self.source.shape[self.dim]
        if bool(((indices < 0) | (indices >= length)).any()):
            return False
        full = indices.unsqueeze(self.dim) if self.squeezed else indices
        if not torch.equal(self.source.gather(self.dim, full), self.selected):
            return False
        if full.shape[self.dim] < 2:
            return True
        ordered = full.sort(self.dim).values
        steps = ordered.narrow(self.dim, 1, ordered.shape[self.dim] - 1) - ordered.narrow(
            self.dim, 0, ordered.shape[self.dim] - 1)
        return bool((steps > 0).all())


def find_selection(
    indices: torch.Tensor, inputs: Iterable[Any], outputs: Iterable[Any]
) -> Selection | None:
    """How the reference's `indices` select from an input (argmax, topk, sort), if they do.

    Believed only where the selected values are another output of the reference, or the maximum or
    minimum along the dimension.
    """
    if indices.dtype != torch.int64 or indices.numel() == 0:
        return None
    others = [x for x in outputs if isinstance(x, torch.Tensor) and x.shape == indices.shape]
    for source in inputs:
        if not isinstance(source, torch.Tensor) or source.dtype == torch.bool or not source.dim():
            continue
        for dim in range(source.dim()):
            squeezed = list(source.shape[:dim]) + list(source.shape[dim + 1:])
            same = indices.dim() == source.dim() and all(
                a == b for d, (a, b) in enumerate(zip(indices.shape, source.shape)) if d != dim)
            if not same and list(indices.shape) != squeezed:
                continue
            if bool(((indices < 0) | (indices >= source.shape[dim])).any()):
                continue
            full = indices if same else indices.unsqueeze(dim)
            selected = source.gather(dim, full)
            flat = selected if same else selected.squeeze(dim)
            extreme = full.shape[dim] == 1 and any(
                torch.equal(selected, f(dim, keepdim=True)) for f in (source.amax, source.amin))
            if extreme or any(x.dtype == flat.dtype and torch.equal(x, flat) for x in others):
                return Selection(source, dim, not same, selected)
    return None
