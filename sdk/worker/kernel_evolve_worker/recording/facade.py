"""Makes CPU tensors look like tensors on one H200 while a candidate is recorded.

`Facade` answers `x.is_cuda`, `x.device`, `device="cuda"`, `.cuda()` and refuses what would carry
data to Python; what `torch.cuda` says is in cuda.py. Which tensors a real run would have left in
host memory is kept track of in `Placement`, so that a forgotten device is an error here as it is
there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("cuda", 0)
_CPU = torch.device("cpu")

H200 = {
    "name": "NVIDIA H200",
    "major": 9,
    "minor": 0,
    "total_memory": 150754820096,
    "multi_processor_count": 132,
    "is_integrated": 0,
    "is_multi_gpu_board": 0,
    "max_threads_per_multi_processor": 2048,
    "max_threads_per_block": 1024,
    "regs_per_multiprocessor": 65536,
    "warp_size": 32,
    "L2_cache_size": 62914560,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "shared_memory_per_multiprocessor": 233472,
    "clock_rate": 1980000,
    "memory_clock_rate": 2619000,
    "memory_bus_width": 5120,
}


class Uncovered(BaseException):
    """The candidate does what a recording can't hold; the text says what.

    Not an Exception, so that a candidate's `except Exception` doesn't swallow it; a bare `except`
    and a `return` in `finally` do, which `first_uncovered` tells.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        _raised.append(text)


_raised: list[str] = []


def first_uncovered() -> str | None:
    """The text of the first Uncovered since `forget_uncovered`, None where there was none."""
    return _raised[0] if _raised else None


def forget_uncovered() -> None:
    """Starts anew, for another candidate."""
    _raised.clear()


class Placement:
    """Which storages would lie in host memory. Holds them, so that none is freed and reused."""

    def __init__(self) -> None:
        self._host: dict[int, torch.Tensor] = {}
        self.copies: list[str] = []  # host to device copies inside forward

    def is_host(self, tensor: torch.Tensor) -> bool:
        return storage_key(tensor) in self._host

    def to_host(self, tensor: torch.Tensor) -> None:
        self._host[storage_key(tensor)] = tensor.detach()

    def to_device(self, tensor: torch.Tensor) -> None:
        self._host.pop(storage_key(tensor), None)


def storage_key(tensor: torch.Tensor) -> int:
    """Identifies the storage behind a tensor for as long as the storage lives."""
    try:
        return tensor.untyped_storage()._cdata
    except NotImplementedError:
        raise Uncovered("a tensor without memory of its own, as torch.vmap and torch.func make "
                        "them") from None


def _device_constructors() -> Any:
    """The functions that `with torch.device(...)` gives a device to."""
    return getattr(torch.utils._device, "_device_constructors", frozenset)()


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


_FACTORIES = frozenset(
    getattr(torch, name)
    for name in (
        "arange", "as_tensor", "asarray", "bartlett_window", "blackman_window", "empty",
        "empty_strided", "eye", "from_numpy", "full", "hamming_window", "hann_window", "linspace",
        "logspace", "ones", "rand", "randint", "randn", "randperm", "scalar_tensor", "tensor",
        "tril_indices", "triu_indices", "zeros",
    )
)  # fmt: skip

# Ways to see a tensor's data from Python that PyTorch's dispatcher doesn't know of.
_PEEKS = {
    getattr(torch.Tensor, name): name
    for name in ("tolist", "numpy", "__array__", "__dlpack__", "untyped_storage", "storage",
                 "__reduce_ex__", "__deepcopy__", "map_", "apply_", "share_memory_")
    if hasattr(torch.Tensor, name)
}  # fmt: skip

# Functions that may take tensors of both places.
_MIXED = ("copy_", "to", "__setitem__", "__getitem__", "cuda", "type_as", "set_", "__set__",
          "index_put_", "index_put", "as_tensor", "detach")


class Facade(TorchFunctionMode):
    """Active while candidate code runs. `recording`: whether forward is being recorded."""

    def __init__(self, placement: Placement) -> None:
        super().__init__()
        self.placement = placement
        self.recording = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (),  # noqa: A002
                           kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        answer = _QUESTIONS.get(func) if _hashable(func) else None
        if answer is not None:
            return answer(self.placement, args[0])
        name = getattr(func, "__name__", str(func))
        if self.recording and _hashable(func) and func in _PEEKS:
            raise Uncovered(f"torch.Tensor.{name}: data goes to Python")
        moved = _Moved()
        args, kwargs = tree_map(moved.fix, args), tree_map(moved.fix, kwargs)
        if name == "cuda" and args and isinstance(args[0], torch.Tensor):
            return self._to_device(args[0])
        if name == "cpu" and args and isinstance(args[0], torch.Tensor):
            moved.host = True
        if name == "type" and len(args) == 1 and not kwargs and not self._host(args[0]):
            return func(*args).replace("torch.", "torch.cuda.", 1)
        if name in ("pin_memory", "record_stream") and args:
            return args[0] if name == "pin_memory" else None
        if moved.host and self.recording and name in ("cpu", "to") and not self._host(args[0]):
            raise Uncovered(f"torch.Tensor.{name}: a copy from the device to the host")
        kwargs.pop("pin_memory", None)
        if kwargs.get("device") is None and _hashable(func) and func in _device_constructors():
            # `with torch.device("cuda")` acts below this mode: answer for it here.
            default = getattr(torch.utils._device, "CURRENT_DEVICE", None)
            if default is not None and default.type == "cuda":
                moved.device = True
                kwargs["device"] = _CPU
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        hosts = [x for x in tensors if self._host(x)]
        if hosts and name not in _MIXED and len(hosts) < len(tensors):
            self._refuse_mixture(tensors)
        result = func(*args, **kwargs)
        self._place(func, name, moved, tensors, hosts, result)
        return result if not (moved.device and hosts and name == "to") else (
            self._to_device(result))

    def _host(self, tensor: torch.Tensor) -> bool:
        return self.placement.is_host(tensor)

    def _refuse_mixture(self, tensors: list[torch.Tensor]) -> None:
        if any(self._host(x) and x.dim() > 0 for x in tensors):
            raise RuntimeError("Expected all tensors to be on the same device, but found at least "
                               "two devices, cuda:0 and cpu!")

    def _to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self._host(tensor):
            return tensor
        if self.recording:
            self.placement.copies.append(f"a host tensor of shape {list(tensor.shape)}")
        copy = tensor.clone()
        self.placement.to_device(copy)
        return copy

    def _place(self, func: Any, name: str, moved: _Moved, tensors: list[torch.Tensor],
               hosts: list[torch.Tensor], result: Any) -> None:
        if _hashable(func) and func in _FACTORIES and isinstance(result, torch.Tensor):
            if moved.device or (name in ("as_tensor", "asarray") and tensors and not hosts):
                self.placement.to_device(result)
            else:
                self.placement.to_host(result)
            return
        if hosts and len(hosts) == len(tensors) and not moved.device:
            for x in tree_leaves(result):
                if isinstance(x, torch.Tensor):
                    self.placement.to_host(x)


class _Moved:
    """Turns device arguments into the CPU; remembers what was asked for."""

    def __init__(self) -> None:
        self.device = False
        self.host = False

    def fix(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            kind = value.type
        elif isinstance(value, str) and (value in ("cpu", "cuda") or value.startswith("cuda:")):
            kind = value.split(":")[0]
        else:
            return value
        if kind == "cuda":
            self.device = True
            return _CPU
        if kind == "cpu":
            self.host = True
        return value


def _hashable(func: Any) -> bool:
    try:
        hash(func)
    except TypeError:
        return False
    return True


_QUESTIONS: dict[Any, Callable[[Placement, torch.Tensor], Any]] = {
    _getter("is_cuda"): lambda place, x: not place.is_host(x),
    _getter("is_cpu"): lambda place, x: place.is_host(x),
    _getter("device"): lambda place, x: _CPU if place.is_host(x) else DEVICE,
    torch.Tensor.get_device: lambda place, x: -1 if place.is_host(x) else 0,
    torch.Tensor.is_pinned: lambda place, x: False,
}
