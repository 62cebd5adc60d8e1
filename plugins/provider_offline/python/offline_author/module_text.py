"""The class `ModelNew`: constructor, the holders of its parameters, and forward."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from offline_author.capture import Captured, NotRewritable
from offline_author.expr import Buffer, Load, contiguous_strides, product, same_strides
from offline_author.kernel import Kernel
from offline_author.program import DTYPE_NAMES, Program, TorchOp
from offline_author.schedule import Group

#: A buffer with at most this many elements is written out as numbers.
LITERAL_LIMIT = 64

#: Modules that are built as themselves: their arguments, read from the module.
_KNOWN: dict[type, Any] = {
    nn.Linear: lambda m: [m.in_features, m.out_features, f"bias={m.bias is not None}"],
    nn.LayerNorm: lambda m: [tuple(m.normalized_shape), f"eps={m.eps}",
                             f"elementwise_affine={m.elementwise_affine}",
                             f"bias={m.bias is not None}"],
    nn.GroupNorm: lambda m: [m.num_groups, m.num_channels, f"eps={m.eps}", f"affine={m.affine}"],
    nn.Embedding: lambda m: [m.num_embeddings, m.embedding_dim],
    **{
        kind: lambda m: [m.num_features, f"eps={m.eps}", f"affine={m.affine}",
                         f"track_running_stats={m.track_running_stats}"]
        for kind in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    },
    **{
        kind: lambda m: [m.in_channels, m.out_channels, m.kernel_size, f"stride={m.stride}",
                         f"padding={m.padding!r}", f"dilation={m.dilation}", f"groups={m.groups}",
                         f"bias={m.bias is not None}"]
        for kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    },
}  # fmt: skip
if hasattr(nn, "RMSNorm"):
    _KNOWN[nn.RMSNorm] = lambda m: [
        tuple(m.normalized_shape), f"eps={m.eps}", f"elementwise_affine={m.elementwise_affine}"
    ]  # fmt: skip

_SIMPLE = (int, float, bool, str, type(None))


def signature_text(parameters: list[inspect.Parameter], what: str) -> str:
    """Parameters with their defaults, without annotations. Raises NotRewritable."""
    texts = []
    star = False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not star:
            texts.append("*")
            star = True
        star = star or p.kind is p.VAR_POSITIONAL
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = ""
        if p.default is not p.empty:
            if not _is_simple(p.default):
                raise NotRewritable(
                    f"the default of the parameter {p.name} of {what} is a "
                    f"{type(p.default).__name__}, which can't be written as a literal."
                )
            default = f"={p.default!r}"
        texts.append(f"{prefix}{p.name}{default}")
    return ", ".join(["self", *texts])


def _is_simple(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_simple(v) for v in value)
    return type(value) in _SIMPLE


class ModuleWriter:
    """Writes the class for one program and its kernels."""

    def __init__(self, captured: Captured, program: Program) -> None:
        self.captured = captured
        self.program = program
        self.used = {b.python for d in program.defs for b in d.inputs if b.kind == "state"}
        self.used |= {o.buffer.python for o in program.outputs if isinstance(o, Load)}
        self.first_path: dict[int, str] = {}

    # The constructor.

    def constructor(self) -> list[str]:
        parameters = list(self.captured.init_values.values())
        lines = [f"def __init__({signature_text(parameters, 'Model.__init__')}):",
                 "    super().__init__()"]  # fmt: skip
        lines += [f"    {text}" for text in self._holder(self.captured.model, "self")]
        return lines

    def _holder(self, module: nn.Module, path: str) -> list[str]:
        """Lines that give `path` the parameters and buffers of `module`, under the same names."""
        lines: list[str] = []
        known = _KNOWN.get(type(module)) if path != "self" else None
        if known is not None:
            arguments = [str(a) for a in known(module)]
            kinds = {p.dtype for p in module.parameters(recurse=False)}
            if len(kinds) == 1 and kinds != {torch.float32}:
                arguments.append(f"dtype={kinds.pop()}")
            lines.append(f"{path} = nn.{type(module).__name__}({', '.join(arguments)})")
            for name, parameter in module.named_parameters(recurse=False):
                first = self.first_path.setdefault(id(parameter), f"{path}.{name}")
                if first != f"{path}.{name}":
                    lines.append(f"{path}.{name} = {first}")
            return lines
        if path != "self":
            lines.append(self._opened(module, path))
        if not isinstance(module, nn.ParameterList):
            for name, parameter in module.named_parameters(recurse=False):
                text = self._parameter(parameter, path, name)
                note = "  # values: load_state_dict" if "torch.zeros" in text else ""
                lines.append(f"{_member(path, name)} = {text}{note}")
        for name, tensor in module.named_buffers(recurse=False):
            text = self._buffer(module, path, name, tensor)
            if text:
                lines.append(text)
        for name, child in module.named_children():
            if any(True for _ in (*child.parameters(), *child.buffers())):
                lines += self._holder(child, _member(path, name))
        return lines

    def _opened(self, module: nn.Module, path: str) -> str:
        if isinstance(module, nn.ParameterList):
            items = [self._parameter(p, path, n) for n, p in
                     module.named_parameters(recurse=False)]  # fmt: skip
            return f"{path} = nn.ParameterList([{', '.join(items)}])"
        if isinstance(module, nn.ParameterDict):
            return f"{path} = nn.ParameterDict()"
        if isinstance(module, nn.ModuleDict):
            return f"{path} = nn.ModuleDict()"
        names = [n for n, _ in module.named_children()]
        if names and names == [str(i) for i in range(len(names))]:
            return f"{path} = nn.ModuleList([nn.Module() for _ in range({len(names)})])"
        return f"{path} = nn.Module()"

    def _parameter(self, parameter: nn.Parameter, path: str, name: str) -> str:
        here = _member(path, name)
        first = self.first_path.setdefault(id(parameter), here)
        if first != here:
            return first
        grad = "" if parameter.requires_grad else ", requires_grad=False"
        return f"nn.Parameter({_made(parameter.detach())}{grad})"

    def _buffer(self, module: nn.Module, path: str, name: str, tensor: torch.Tensor) -> str:
        saved = name not in module._non_persistent_buffers_set
        here = _member(path, name)
        first = self.first_path.setdefault(id(tensor), here)
        if not saved and here not in self.used:
            return ""
        value = first if first != here else _known_value(tensor)
        if value is None:
            if not saved:
                raise NotRewritable(
                    f"the tensor {name} of the task '{self.captured.name}' isn't in its state dict "
                    "and too large to be written into a file; register it as a persistent buffer."
                )
            value = _made(tensor)
        keep = "" if saved else ", persistent=False"
        return f"{path}.register_buffer({name!r}, {value}{keep})"

    # Forward.

    def forward(self, launches: list[tuple[Group, Kernel | None]]) -> list[str]:
        signature = list(inspect.signature(self.captured.model_class.forward).parameters.values())
        lines = [f"def forward({signature_text(signature[1:], 'forward')}):"]
        body = [self._expectation(a) for a in self.captured.arguments]
        for path, value in self.captured.scalars.items():
            if not _is_simple(value):
                raise NotRewritable(
                    f"the argument {path} of forward is a {type(value).__name__}, which the "
                    "rewritten forward can't check."
                )
            body.append(f'_expect_value("{path}", {path}, {value!r})')
        body.append(f"device = {self.program.device_of}.device")
        for group, kernel in launches:
            if kernel is None:
                d = group.members[0].d
                assert isinstance(d, TorchOp)
                body += torch_lines(d)
            else:
                body += [f"{o.name} = {allocation(o)}" for o in kernel.outputs]
                body += _launch(kernel)
        body.append(f"return {self._result()}")
        return lines + [f"    {text}" for text in body]

    def _expectation(self, argument: Any) -> str:
        size = _tuple(argument.size)
        return (
            f'_expect("{argument.path}", {argument.path}, {DTYPE_NAMES[argument.dtype]}, {size}, '
            f"{_tuple(argument.stride)})"
        )

    def _result(self) -> str:
        leaves = [_Text(view_text(o)) if isinstance(o, Load) else o for o in self.program.outputs]
        return _structure(pytree.tree_unflatten(leaves, self.captured.out_spec))


class _Text(str):
    """Python text that stands for itself in a result's structure."""


def _structure(value: Any) -> str:
    if isinstance(value, _Text):
        return str(value)
    if type(value) is tuple:
        inner = ", ".join(_structure(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) is list:
        return f"[{', '.join(_structure(v) for v in value)}]"
    if type(value) is dict:
        return "{" + ", ".join(f"{k!r}: {_structure(v)}" for k, v in value.items()) + "}"
    if _is_simple(value):
        return repr(value)
    raise NotRewritable(
        f"forward returns a {type(value).__name__}; the rewritten forward can return tensors, "
        "tuples, lists and dicts."
    )


def _member(path: str, name: str) -> str:
    if name.isdigit():
        return f"{path}[{name}]"
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{name!r}]"


def _tuple(numbers: tuple[int, ...]) -> str:
    return repr(tuple(int(n) for n in numbers))


def _known_value(tensor: torch.Tensor) -> str | None:
    """Python that makes the tensor's value: one number, few numbers, a ramp or a triangle."""
    value = tensor.detach().cpu()
    kind = DTYPE_NAMES.get(value.dtype)
    if kind is None or value.numel() == 0:
        return None
    size = _tuple(tuple(value.shape))
    first = value.reshape(-1)[0]
    if bool((value == first).all()):
        return f"torch.full({size}, {_number(first.item())}, dtype={kind})"
    if value.numel() <= LITERAL_LIMIT:
        return f"torch.tensor({value.tolist()}, dtype={kind})"
    if value.dim() == 1 and torch.equal(value, torch.arange(value.numel(), dtype=value.dtype)):
        return f"torch.arange({value.numel()}, dtype={kind})"
    if value.dim() >= 2:
        ones = torch.ones_like(value)
        for name, function in (("tril", torch.tril), ("triu", torch.triu)):
            for k in (0, 1, -1):
                if torch.equal(value, function(ones, k)):
                    return f"torch.{name}(torch.ones({size}, dtype={kind}), {k})"
    return None


def _number(value: Any) -> str:
    text = repr(value)
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text


def _made(tensor: torch.Tensor) -> str:
    """A tensor to be filled by load_state_dict; the value itself where it is one number."""
    return _known_value(tensor) or (
        f"torch.zeros({_tuple(tuple(tensor.shape))}, dtype={DTYPE_NAMES[tensor.dtype]})"
    )


def allocation(b: Buffer) -> str:
    kind = DTYPE_NAMES[b.dtype]
    if same_strides(b.size, b.stride, contiguous_strides(b.size)):
        return f"torch.empty({_tuple(b.size)}, dtype={kind}, device=device)"
    return f"torch.empty_strided({_tuple(b.size)}, {_tuple(b.stride)}, dtype={kind}, device=device)"


def view_text(load: Load) -> str:
    """Python of a view of a buffer."""
    b = load.buffer
    if load.is_whole():
        return b.python
    size, stride = load.shape, load.stride
    if load.offset == 0 and len(size) == len(b.size):
        by_stride = {(n, s): i for i, (n, s) in enumerate(zip(b.size, b.stride, strict=True))}
        order = [by_stride.get(pair) for pair in zip(size, stride, strict=True)]
        if sorted(i for i in order if i is not None) == list(range(len(size))):
            return f"{b.python}.permute({', '.join(str(i) for i in order)})"
    whole = load.offset == 0 and b.numel == product(size)
    plain = [
        same_strides(*x, contiguous_strides(x[0])) for x in ((b.size, b.stride), (size, stride))
    ]
    if whole and all(plain):
        return f"{b.python}.view({', '.join(str(n) for n in size)})"
    offset = f"{b.python}.storage_offset() + {load.offset}"
    return f"{b.python}.as_strided({_tuple(size)}, {_tuple(stride)}, {offset})"


def public_name(target: Any) -> str:
    """How PyTorch's own interface spells an operator. Raises NotRewritable for an internal one."""
    name = target._schema.name.split("::")[1]
    if not name.startswith("_"):
        if hasattr(torch, name):
            return f"torch.{name}"
        if hasattr(nn.functional, name):
            return f"nn.functional.{name}"
    raise NotRewritable(
        f"the operator {target} stays in PyTorch, but PyTorch has no public function of that name."
    )


def torch_lines(d: TorchOp) -> list[str]:
    """The statement of an operator that stays in PyTorch."""
    if not isinstance(d.target, torch._ops.OpOverload):
        return [f"{d.out.name} = {d.target.text}"]
    if d.target._schema.name == "aten::index":
        places = ", ".join(":" if i is None else _argument(i) for i in d.args[1])
        return [f"{d.out.name} = {_argument(d.args[0])}[{places}]"]
    arguments = [_argument(a) for a in d.args]
    arguments += [f"{k}={_argument(v)}" for k, v in d.kwargs.items()]
    text = f"{public_name(d.target)}({', '.join(arguments)})"
    if not d.is_sequence:
        return [f"{d.out.name} = {text}"]
    names = ", ".join("_" if o is None else o.name for o in d.outs)
    return [f"{names}{',' if len(d.outs) == 1 else ''} = {text}"]


def _argument(value: Any) -> str:
    if isinstance(value, Load):
        return view_text(value)
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_argument(v) for v in value)
        if isinstance(value, tuple):
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        return f"[{inner}]"
    if isinstance(value, torch.device):
        return "device"
    if isinstance(value, float):
        return _number(value)
    return str(value) if isinstance(value, (torch.dtype, torch.layout)) else repr(value)


def _launch(kernel: Kernel) -> list[str]:
    arguments = [b.python for b in kernel.arguments]
    arguments += [f"{n}={v}" for n, v in kernel.constants.items()]
    arguments += [f"num_warps={kernel.num_warps}", f"num_stages={kernel.num_stages}"]
    head = f"{kernel.name}[{kernel.grid}]("
    text = ", ".join(arguments)
    if len(head) + len(text) + 1 <= 88:
        return [f"{head}{text})"]
    cut = len(kernel.arguments)
    return [head, f"    {', '.join(arguments[:cut])},", f"    {', '.join(arguments[cut:])},", ")"]
