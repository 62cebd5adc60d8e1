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
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.testing
from triton.backends.compiler import GPUTarget
from triton.runtime.autotuner import Autotuner

from kernel_evolve_worker.recording.facade import DEVICE, H200
from kernel_evolve_worker.recording.resources import relative_time, usage

ARCH = 90
MAX_CONFIGS = 16  # autotuning more than this costs a user a minute at the first call
_HOOKED = 9  # arguments of a launch before the kernel's own


class AutotuneTooWide(Exception):
    """A kernel's autotuning has more than MAX_CONFIGS configurations; the text is one sentence."""


class Launched:
    """A compiled kernel as the launcher sees it. `fn`: Triton's JITFunction."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.fn = src.fn
        self.signature = dict(src.signature)
        self.metadata = metadata
        self._resources: dict[str, Any] | None = None

    @property
    def compiled(self) -> Any:
        """Triton's CompiledKernel, which holds the text of every stage."""
        for cache in self.fn.device_caches.values():
            for kernel in cache[0].values():
                if getattr(kernel, "hash", None) == self.metadata.hash:
                    return kernel
        raise RuntimeError(f"Triton lost the compiled kernel {self.metadata.name}")

    @property
    def resources(self) -> dict[str, Any]:
        if self._resources is None:
            self._resources = usage(self.compiled.asm["cubin"], self.metadata.shared)
        return self._resources


class _Utils:
    """The part of the driver that talks to a device."""

    def load_binary(self, *_: Any) -> tuple[int, int, int, int, int]:
        return 1, 1, 0, 0, 1024  # module, function, registers, spills, threads per program

    def unload_module(self, *_: Any) -> None:
        pass

    def get_device_properties(self, *_: Any) -> dict[str, int]:
        return {
            "max_shared_mem": H200["shared_memory_per_block_optin"],
            "multiprocessor_count": H200["multi_processor_count"],
            "max_num_regs": H200["regs_per_multiprocessor"],
            "warpSize": 32,
            "sm_clock_rate": H200["clock_rate"],
            "mem_clock_rate": H200["memory_clock_rate"],
            "mem_bus_width": H200["memory_bus_width"],
        }

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, *_: Any) -> None:
        pass


class RecordingDriver:
    """See the module's text. on_launch(launched, grid, arguments); `last`: for error messages."""

    def __init__(self, on_launch: Callable[[Launched, tuple[int, int, int], tuple], None]) -> None:
        driver = self

        class Launcher:
            def __init__(self, src: Any, metadata: Any) -> None:
                self.launched = Launched(src, metadata)
                driver.last = self.launched

            def __call__(self, *args: Any) -> None:
                grid = tuple(int(n) for n in args[:3])
                driver.allocate_scratch(self.launched.metadata, grid)
                if driver.trials is not None:
                    driver.trials.append((self.launched, grid))
                else:
                    on_launch(self.launched, grid, args[_HOOKED:])

        self.utils = _Utils()
        self.launcher_cls = Launcher
        self.last: Launched | None = None
        self.trials: list[tuple[Launched, tuple]] | None = None
        self.pause: Callable[[], Any] = contextlib.nullcontext

    def allocate_scratch(self, metadata: Any, grid: tuple) -> None:
        """Asks Triton's allocator as a real launch does: it raises if the candidate set none."""
        size = getattr(metadata, "global_scratch_size", 0)
        if size:
            from triton.runtime import _allocation

            holder = _allocation._allocator
            allocate = holder.get() if hasattr(holder, "get") else holder
            with self.pause():
                allocate(grid[0] * grid[1] * grid[2] * size, metadata.global_scratch_align, 0)

    def is_active(self) -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", ARCH, 32)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, *_: Any) -> None:
        pass

    def get_current_stream(self, *_: Any) -> int:
        return 0

    def get_device_capability(self, *_: Any) -> tuple[int, int]:
        return ARCH // 10, ARCH % 10

    def get_active_torch_device(self) -> torch.device:
        return DEVICE

    def get_device_interface(self) -> Any:
        return torch.cuda

    def map_python_to_cpp_type(self, kind: str) -> str:
        return kind

    def assemble_tensormap_to_arg(self, _: Any, args: Any) -> Any:
        return args

    def allocate_default_profile_scratch(self, *_: Any) -> None:
        return None

    def get_empty_cache_for_benchmark(self) -> None:
        return None

    def clear_cache(self, _: Any) -> None:
        pass

    def get_benchmarker(self) -> Callable[..., Any]:
        return self.benchmark

    def benchmark(self, call: Callable[[], Any], *_: Any, quantiles: Any = None, **__: Any) -> Any:
        """Compiles what `call` launches and gives it a relative time; records nothing."""
        outer, self.trials = self.trials, []
        try:
            with self.pause():
                call()
            cost = sum(relative_time(launched.resources, launched.metadata.num_warps,
                                     grid[0] * grid[1] * grid[2])
                       for launched, grid in self.trials)
        finally:
            self.trials = outer
        return [cost] * len(quantiles) if quantiles else cost


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

    config.set_active(driver)
    Autotuner.prune_configs = limited
    for name in clocks:
        setattr(triton.testing, name, driver.benchmark)
    try:
        yield driver
    finally:
        # Kernels unload through the active driver when they die: never leave it without one.
        config._active = before or driver
        Autotuner.prune_configs = prune
        for name, clock in clocks.items():
            setattr(triton.testing, name, clock)
