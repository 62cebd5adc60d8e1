"""What PyTorch operators a task runs: bytes, arithmetic, precision, reduction depth.

The reference runs on fake `cuda` tensors, which hold no data, so that PyTorch chooses the kernels
it would choose on a GPU and a shape of any size costs milliseconds. A task that needs data
(`.item()`, `nonzero`) is traced while it really runs on the CPU.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from kernel_evolve_worker.correctness.layout import Layout, Recency, layout_of
from kernel_evolve_worker.task import on_cpu, quiet_fakes

_NO_KERNEL = ("aten.empty", "aten.detach", "aten.lift", "aten._local_scalar", "aten.alias",
              "aten.new_empty", "prim.", "aten.sym_", "aten.is_", "aten._assert")
_WRITE_ONLY = ("aten.copy_", "aten.fill_", "aten.zero_", "aten.normal_", "aten.uniform_")


@dataclass(frozen=True)
class Operator:
    """One operator that launches a kernel. Bytes count each distinct tensor once."""

    name: str  # "aten.mm.default"
    read_bytes: int
    written_bytes: int
    flops: int  # of matrix products, convolutions and attention; 0 for anything else
    dtype: torch.dtype | None  # of the first floating-point output
    depth: int  # how many values of an operand go into one value of the result
    layout: Layout = Layout()
    reused: tuple[tuple[int, int], ...] = ()  # (bytes read again, bytes moved since); see Recency


@dataclass
class Trace:
    """The operators of one run and where it ran: "cuda" (fake), "cpu" (fake) or "run"."""

    operators: list[Operator] = field(default_factory=list)
    where: str = "cuda"

    @property
    def depth(self) -> int:
        """D: the longest reduction of the reference."""
        return max([1, *(op.depth for op in self.operators)])

    @property
    def flops(self) -> int:
        return sum(op.flops for op in self.operators)

    @property
    def dtypes(self) -> set[torch.dtype]:
        """Floating-point types in which results are stored on the way."""
        return {op.dtype for op in self.operators if op.dtype is not None}

    def has(self, *fragments: str) -> bool:
        """Whether an operator's name contains one of `fragments`."""
        return any(f in op.name for op in self.operators for f in fragments)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Operator] = []
        self.recency = Recency()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: A002
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = str(func)
        if not _is_view(func) and not name.startswith(_NO_KERNEL):
            self.operators.append(_describe(func, name, args, kwargs, out, self.recency))
        return out


def _is_view(func: Any) -> bool:
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [x for x in tree_flatten(value)[0] if isinstance(x, torch.Tensor)]


def _size(tensor: torch.Tensor) -> int:
    """Bytes behind a tensor; expanded dimensions are stored once."""
    count = 1
    for length, stride in zip(tensor.shape, tensor.stride()):
        count *= length if stride != 0 else 1
    return count * tensor.element_size()


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _describe(func: Any, name: str, args: Any, kwargs: Any, out: Any,
              recency: Recency) -> Operator:
    inputs, outputs = _tensors((args, kwargs)), _tensors(out)
    write_only = _storage(inputs[0]) if name.startswith(_WRITE_ONLY) and inputs else None
    read = {_storage(x): _size(x) for x in inputs if _storage(x) != write_only}
    written = {_storage(x): _size(x) for x in outputs}
    floats = [x.dtype for x in outputs if x.is_floating_point()]
    flops = _flops(func, args, kwargs, out)
    return Operator(
        name=name,
        read_bytes=sum(read.values()),
        written_bytes=sum(written.values()),
        flops=flops,
        dtype=floats[0] if floats else None,
        depth=_depth(name, args, inputs, outputs, flops),
        layout=layout_of(func, name, args, inputs, outputs, flops),
        reused=recency.step(read, written),
    )


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    from torch.utils.flop_counter import flop_registry

    formula = flop_registry.get(func.overloadpacket)
    if formula is None:
        return 0
    try:
        return int(formula(*args, **kwargs, out_val=out))
    except Exception:  # noqa: BLE001 - a formula that doesn't know this overload
        return 0


def _depth(name: str, args: Any, inputs: list[torch.Tensor], outputs: list[torch.Tensor],
           flops: int) -> int:
    if not inputs or not outputs:
        return 1
    result = max(1, outputs[0].numel())
    if flops:
        return max(1, flops // (2 * result))
    if "layer_norm" in name and len(args) > 1 and isinstance(args[1], (list, tuple)):
        return max(1, math.prod(args[1]))
    if "group_norm" in name or "batch_norm" in name:
        channels = max(1, inputs[0].shape[1] if inputs[0].dim() > 1 else 1)
        return max(1, inputs[0].numel() // channels)
    if any(f in name for f in ("softmax", "cumsum", "cumprod", "logcumsumexp")):
        dim = args[1] if len(args) > 1 and isinstance(args[1], int) else -1
        return inputs[0].shape[dim] if inputs[0].dim() else 1
    return max(1, max(x.numel() for x in inputs) // result)


class _FusedAttention(TorchFunctionMode):
    """Counts attention as the one fused kernel that a GPU runs.

    PyTorch asks the real device which kernel to take; without one it would count the dozen
    operators of its fallback, and eager would look slower than it is.
    """

    plain = staticmethod(functional.scaled_dot_product_attention)

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):  # noqa: A002
        run = self.count if func is self.plain else func
        return run(*args, **(kwargs or {}))

    def count(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
              attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
              is_causal: bool = False, **_: Any) -> torch.Tensor:
        """Records the operator; returns an empty result of the right shape."""
        batch = query.shape[:-2]
        out = query.new_empty((*batch, query.shape[-2], value.shape[-1]))
        used = [x for x in (query, key, value, attn_mask) if x is not None]
        products = query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1])
        flops = 2 * math.prod(batch) * products
        read = {_storage(x): _size(x) for x in used}
        self.recorder.operators.append(Operator(
            name="aten.scaled_dot_product_attention.default",
            read_bytes=sum(read.values()),
            written_bytes=_size(out),
            flops=flops // 2 if is_causal else flops,
            dtype=out.dtype,
            depth=key.shape[-2],
            layout=Layout(product=(math.prod(batch), query.shape[-2], value.shape[-1])),
            reused=self.recorder.recency.step(read, {_storage(out): _size(out)}),
        ))
        return out


@contextlib.contextmanager
def _fused_attention(recorder: _Recorder) -> Iterator[None]:
    """Inside, attention is counted as one kernel, also where PyTorch's own modules call it."""
    mode = _FusedAttention(recorder)
    fast = torch.backends.mha.get_fastpath_enabled()
    # The fast path of nn.TransformerEncoderLayer is one operator that hides a dozen kernels.
    torch.backends.mha.set_fastpath_enabled(False)
    functional.scaled_dot_product_attention = mode.count
    try:
        with mode:
            yield
    finally:
        functional.scaled_dot_product_attention = mode.plain
        torch.backends.mha.set_fastpath_enabled(fast)


def trace_operators(model: torch.nn.Module, inputs: list[Any]) -> Trace:
    """The operators of `model(*inputs)`; both stay untouched unless the task needs data.

    Raises whatever the task raises when it really runs.
    """
    for device in ("cuda", "cpu"):
        try:
            return Trace(_fake_run(model, inputs, device), device)
        except Exception:  # noqa: BLE001 - needs data, or mixes devices: the next way is tried
            continue
    state = {k: v.clone() for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)}
    fresh = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, inputs)
    with torch.no_grad(), on_cpu(), _Recorder() as recorder:
        torch.func.functional_call(model, state, tuple(fresh), tie_weights=False)
    return Trace(recorder.operators, "run")


def _fake_run(model: torch.nn.Module, inputs: list[Any], device: str) -> list[Operator]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    def fake(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
        return made

    def run(call: Callable[[], Any]) -> list[Operator]:
        with _Recorder() as recorder, _fused_attention(recorder):
            call()
        return recorder.operators

    with quiet_fakes(), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        state = {k: fake(v) for k, v in model.state_dict().items()}
        arguments = tuple(tree_map(fake, inputs))

        def call() -> Any:
            # Tied parameters come under every name they have: each is given its own value.
            return torch.func.functional_call(model, state, arguments, tie_weights=False)

        if device == "cuda":
            return run(call)
        with on_cpu():
            return run(call)
