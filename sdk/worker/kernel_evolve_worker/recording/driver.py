"""A Triton driver that compiles for sm_90 as a GPU would have it, and records launches.

With `recording_driver(on_launch)` active, `kernel[grid](...)` binds, specialises and compiles
exactly as on an H200; in place of the launch, `on_launch` gets the compiled kernel, the grid and
the arguments. Autotuning chooses by `relative_time` of the compiled configurations and records
only the launch of the chosen one. Written for Triton 3.6 to 3.9: their drivers differ inside
(3.6 generates a launcher in C, 3.9 has `utils.launch`), but both ask a driver for `launcher_cls`
and call what it makes with the grid, stream, function, metadata, two hooks and the arguments.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.testing
from triton.backends.compiler import GPUTarget
from triton.runtime.autotuner import Autotuner

from kernel_evolve_worker.recording.compiled import Compilations, Compiled
from kernel_evolve_worker.recording.facade import DEVICE, H200
from kernel_evolve_worker.recording.resources import relative_time

ARCH = 90
MAX_CONFIGS = 16  # autotuning more than this costs a user a minute at the first call
_HOOKED = 9  # arguments of a launch before the kernel's own


class AutotuneTooWide(Exception):
    """A kernel's autotuning has more than MAX_CONFIGS configurations; the text is one sentence."""


class RecordingDriver:
    """See the module's text. on_launch(compiled, grid, arguments); `last`: for error messages.

    What Triton, and so a candidate, gets as its driver is `active`, which refers to this object in
    closures only.
    """

    def __init__(self, on_launch: Callable[[Compiled, tuple[int, int, int], tuple], None]) -> None:
        self.compilations = Compilations()
        self.last: Compiled | None = None
        self.trials: list[tuple[Compiled, tuple]] | None = None
        self.pause: Callable[[], Any] = contextlib.nullcontext
        self._on_launch = on_launch
        self.active = _active(self)

    def launcher(self, src: Any, _: Any) -> Callable[..., None]:
        """What Triton calls to launch the kernel made from `src`."""
        compilations = self.compilations
        compiled = self.last = compilations.of(src)

        def launch(*args: Any) -> None:
            compilations.of(src)
            grid = tuple(int(n) for n in args[:3])
            self.allocate_scratch(compiled.metadata, grid)
            if self.trials is not None:
                self.trials.append((compiled, grid))
            else:
                self._on_launch(compiled, grid, args[_HOOKED:])

        return launch

    def allocate_scratch(self, metadata: dict[str, Any], grid: tuple) -> None:
        """Asks Triton's allocator as a real launch does: it raises if the candidate set none."""
        size = metadata.get("global_scratch_size", 0)
        if size:
            from triton.runtime import _allocation

            holder = _allocation._allocator
            allocate = holder.get() if hasattr(holder, "get") else holder
            with self.pause():
                allocate(grid[0] * grid[1] * grid[2] * size, metadata["global_scratch_align"], 0)

    def benchmark(self, call: Callable[[], Any], *_: Any, quantiles: Any = None, **__: Any) -> Any:
        """Compiles what `call` launches and gives it a relative time; records nothing."""
        outer, self.trials = self.trials, []
        try:
            with self.pause():
                call()
            cost = sum(relative_time(compiled.resources, compiled.metadata["num_warps"],
                                     grid[0] * grid[1] * grid[2])
                       for compiled, grid in self.trials)
        finally:
            self.trials = outer
        return [cost] * len(quantiles) if quantiles else cost


def _active(driver: RecordingDriver) -> Any:
    """Triton's driver: named as a GPU's, and without an attribute that leads to `driver`."""

    def launcher_cls(src: Any, metadata: Any) -> Callable[..., None]:
        return driver.launcher(src, metadata)

    def benchmark(call: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
        return driver.benchmark(call, *args, **kwargs)

    answers: dict[str, Any] = {
        "utils": _utils(driver),
        "launcher_cls": launcher_cls,
        "is_active": lambda: True,
        "get_current_target": lambda: GPUTarget("cuda", ARCH, 32),
        "get_current_device": lambda: 0,
        "set_current_device": lambda *_: None,
        "get_current_stream": lambda *_: 0,
        "get_device_capability": lambda *_: (ARCH // 10, ARCH % 10),
        "get_active_torch_device": lambda: DEVICE,
        "get_device_interface": lambda: torch.cuda,
        "map_python_to_cpp_type": lambda kind: kind,
        "assemble_tensormap_to_arg": lambda _, args: args,
        "allocate_default_profile_scratch": lambda *_: None,
        "get_empty_cache_for_benchmark": lambda: None,
        "clear_cache": lambda _: None,
        "get_benchmarker": lambda: benchmark,
    }
    return _object("CudaDriver", answers)


def _utils(driver: RecordingDriver) -> Any:
    """The part of the driver that talks to a device."""
    handles = itertools.count(0x5581_C0DE_0000, 0x40)

    def load_binary(name: str, kernel: bytes, *_: Any) -> tuple[int, int, int, int, int]:
        """Module, function, registers, spilled words, threads per program."""
        found = driver.compilations.resources(kernel)
        return (next(handles), next(handles), found.get("registers") or 32,
                (found.get("spills") or 0) // 4, 1024)

    properties = {
        "max_shared_mem": H200["shared_memory_per_block_optin"],
        "multiprocessor_count": H200["multi_processor_count"],
        "max_num_regs": H200["regs_per_multiprocessor"],
        "warpSize": 32,
        "sm_clock_rate": H200["clock_rate"],
        "mem_clock_rate": H200["memory_clock_rate"],
        "mem_bus_width": H200["memory_bus_width"],
    }
    return _object("CudaUtils", {
        "load_binary": load_binary,
        "unload_module": lambda *_: None,
        "get_device_properties": lambda *_: dict(properties),
        "get_current_device": lambda: 0,
        "set_current_device": lambda *_: None,
    })


def _object(name: str, answers: dict[str, Any]) -> Any:
    """An object of a class called `name`, with functions and values and nothing that can be set."""
    members = {key: staticmethod(answer) if callable(answer) else answer
               for key, answer in answers.items()}
    kind = type(name, (), {**members, "__slots__": (),
                           "__module__": "triton.backends.nvidia.driver"})
    return kind()


@contextlib.contextmanager
def recording_driver(driver: RecordingDriver) -> Iterator[RecordingDriver]:
    """Makes `driver` Triton's active driver and benchmark; restores them. Not thread-safe."""
    config = triton.runtime.driver
    before = config._active  # the public getter would look for a GPU
    prune = Autotuner.prune_configs

    clocks = {name: getattr(triton.testing, name) for name in ("do_bench", "do_bench_cudagraph")
              if hasattr(triton.testing, name)}

    def limited(self: Any, *args: Any, **kwargs: Any) -> Any:
        configs = prune(self, *args, **kwargs)
        if len(configs) > MAX_CONFIGS:
            name = getattr(self.base_fn, "__name__", "a kernel")
            raise AutotuneTooWide(
                f"the autotuning of {name} has {len(configs)} configurations; at most "
                f"{MAX_CONFIGS} are allowed")
        return configs

    config.set_active(driver.active)
    Autotuner.prune_configs = limited
    for name in clocks:
        setattr(triton.testing, name, driver.active.get_benchmarker())
    try:
        with driver.compilations.watched():
            yield driver
    finally:
        # Kernels unload through the active driver when they die: never leave it without one.
        config._active = before or driver.active
        Autotuner.prune_configs = prune
        for name, clock in clocks.items():
            setattr(triton.testing, name, clock)
