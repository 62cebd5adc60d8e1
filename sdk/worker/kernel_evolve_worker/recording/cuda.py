"""`torch.cuda` and `torch.accelerator` as they are on a machine with one H200.

Answers have the names and types of the real ones, wherever in these modules they are asked for, so
that a candidate does while it is recorded what it would do on a GPU. What can't be answered so is
refused as uncovered, as a candidate could tell an error here from an answer there.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.accelerator
import torch.cuda.streams

from kernel_evolve_worker.recording.facade import DEVICE, H200, Uncovered

# Bytes that a process with a context and some tensors would show.
_ALLOCATED = 64 << 20
_CONTEXT = 1 << 30

# Public names of torch.cuda that say the same without a GPU.
_SAME = frozenset({
    "get_arch_list", "get_gencode_flags", "is_tf32_supported", "check_error", "cudaStatus",
    "classproperty", "can_device_access_peer", "is_current_stream_capturing", "is_built",
})  # fmt: skip
_MODULES = ("torch.cuda", "torch.accelerator")


def _refuse(what: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Uncovered(what)

    return refuse


def _class(original: Any, bases: tuple[type, ...] = (), **members: Any) -> Any:
    """A class that is named as `original` is."""
    return type(original.__name__, bases, {"__module__": original.__module__,
                                           "__qualname__": original.__qualname__, **members})


def _named(original: Any, answer: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(original)(lambda *args, **kwargs: answer(*args, **kwargs))


# -- objects --------------------------------------------------------------------------------------


def _device_properties() -> Any:
    """What get_device_properties gives: figures that can be read and not set."""
    figures = {**H200, "pci_bus_id": 26, "pci_device_id": 0, "pci_domain_id": 0,
               "gcnArchName": H200["name"], "uuid": "9c1d7a52-3f0e-4c57-8a1b-6d2e94f0b317"}
    members = {name: property(lambda _, value=value: value) for name, value in figures.items()}
    text = (f"_CudaDeviceProperties(name='{H200['name']}', major=9, minor=0, "
            f"total_memory={H200['total_memory'] >> 20}MB, "
            f"multi_processor_count={H200['multi_processor_count']}, "
            f"L2_cache_size={H200['L2_cache_size'] >> 20}MB)")
    kind = type("_CudaDeviceProperties", (), {"__module__": "torch._C", "__slots__": (),
                                              "__repr__": lambda _: text, **members})
    return kind()


class _NoSwitch:
    """torch.cuda.device(...): there is one device, so switching changes nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> bool:
        return False


def _streams() -> tuple[dict[Any, Any], Any]:
    """Replacements of the classes of streams and events by the originals, and the only stream."""
    several = _refuse("torch.cuda.Stream: several streams")
    clock = _refuse("torch.cuda.Event: the device's clock")
    base = _class(torch.Stream, __new__=several)
    stream = _class(
        torch.cuda.Stream, (base,), cuda_stream=0, stream_id=0, device=DEVICE, device_index=0,
        device_type=1, priority=0, query=lambda _: True, synchronize=lambda _: None,
        wait_stream=several, wait_event=clock, record_event=clock, __slots__=(),
        __repr__=lambda _: "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>")
    external = _class(torch.cuda.ExternalStream, (stream,))
    event = _class(torch.Event, __new__=clock)
    classes = {torch.Stream: base, torch.cuda.Stream: stream,
               torch.cuda.ExternalStream: external, torch.Event: event,
               torch.cuda.Event: _class(torch.cuda.Event, (event,))}
    return classes, object.__new__(stream)


# -- answers --------------------------------------------------------------------------------------


def _answers() -> dict[Any, Any]:
    """What stands in the place of each function and class, by the original."""
    classes, stream = _streams()
    properties = _device_properties()
    memory = (H200["total_memory"] - _CONTEXT, H200["total_memory"])
    cuda: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda *_: None,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_name": lambda *_: H200["name"],
        "is_bf16_supported": lambda *_, **__: True,
        "mem_get_info": lambda *_: memory,
        "memory_allocated": lambda *_: _ALLOCATED,
        "max_memory_allocated": lambda *_: _ALLOCATED,
        "memory_reserved": lambda *_: _ALLOCATED,
        "max_memory_reserved": lambda *_: _ALLOCATED,
        "reset_peak_memory_stats": lambda *_: None,
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "manual_seed": lambda *_: None,  # there is no generator to seed
        "manual_seed_all": lambda *_: None,
        "current_stream": lambda *_: stream,
        "default_stream": lambda *_: stream,
        "stream": _refuse("torch.cuda.stream: several streams"),
        "set_stream": _refuse("torch.cuda.set_stream: several streams"),
    }
    accelerator: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda *_, **__: torch.device("cuda"),
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": lambda *_: None,
        "set_device_idx": lambda *_: None,
        "synchronize": lambda *_: None,
        "current_stream": lambda *_: stream,
        "empty_cache": lambda: None,
        "get_device_capability": lambda *_: (9, 0),
        "get_memory_info": lambda *_: memory,
        "memory_allocated": lambda *_: _ALLOCATED,
        "max_memory_allocated": lambda *_: _ALLOCATED,
        "memory_reserved": lambda *_: _ALLOCATED,
        "max_memory_reserved": lambda *_: _ALLOCATED,
        "reset_peak_memory_stats": lambda *_: None,
    }
    found: dict[Any, Any] = dict(classes)
    found[torch.cuda.device] = switch = _class(torch.cuda.device, (_NoSwitch,))
    found[torch.cuda.device_of] = _class(torch.cuda.device_of, (switch,))
    for module, given in ((torch.cuda, cuda), (torch.accelerator, accelerator)):
        for name, answer in given.items():
            original = getattr(module, name, None)
            if original is not None:
                found[original] = _named(original, answer)
        for name, original in list(vars(module).items()):
            if _needs_gpu(name, original) and original not in found:
                refusal = _refuse(f"{module.__name__}.{name}: what it does on a GPU")
                found[original] = (_class(original, __new__=refusal) if isinstance(original, type)
                                   else _named(original, refusal))
    # Else PyTorch's compiler would stumble over something else in here. torch.cond uses it, too.
    found[torch.compile] = _named(torch.compile, _refuse(
        "torch.compile: it is the baseline, not a kernel"))
    for original in (torch.autocast, torch.cuda.amp.autocast):
        found[original] = _named(original, _refuse("torch.autocast"))
    return found


def _needs_gpu(name: str, original: Any) -> bool:
    """Whether a public name of these modules is one that only a GPU can answer for."""
    if name.startswith("_") or name in _SAME:
        return False
    if not isinstance(original, (type, types.FunctionType)):
        return False
    if isinstance(original, type) and (issubclass(original, BaseException)
                                       or name.endswith(("Tensor", "Storage"))):
        return False
    return (original.__module__ or "").startswith(_MODULES)


@contextlib.contextmanager
def cuda_facade() -> Iterator[None]:
    """Inside, PyTorch speaks of one H200; restored at the end. Not thread-safe."""
    answers = _answers()
    places = [module for name, module in list(sys.modules.items())
              if isinstance(module, types.ModuleType)
              and (name in ("torch", "torch.amp") or f"{name}.".startswith(
                  tuple(f"{root}." for root in _MODULES)))]
    saved = [(module, name, value)
             for module in places for name, value in list(vars(module).items())
             if isinstance(value, (type, types.FunctionType)) and value in answers]
    try:
        for module, name, value in saved:
            setattr(module, name, answers[value])
        yield
    finally:
        for module, name, value in saved:
            setattr(module, name, value)
