"""What the compiler made of each kernel, copied before the candidate can lay hands on it.

Triton hands its CompiledKernel to whoever launches or warms up a kernel, and nothing keeps a
candidate from exchanging the texts and figures in it. So they are copied as it is constructed,
and the tape is written from the copies; `Compilations` holds those, and no object that a candidate
gets refers to one by an attribute.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator
from typing import Any

from triton.backends.nvidia.compiler import CUDAOptions
from triton.compiler.compiler import CompiledKernel

from kernel_evolve_worker.recording.resources import usage

_STAGES = ("ttir", "ptx", "cubin")


class Forged(BaseException):
    """The candidate changed what the compiler made; the text is one sentence.

    Not an Exception, so that a candidate's `except Exception` doesn't swallow it.
    """


class Compiled:
    """One compiled kernel. fn: Triton's JITFunction; metadata: by name; texts: by stage."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._src = kernel.src
        self._asm = kernel.asm
        self._group = kernel.metadata
        self._packed = kernel.packed_metadata
        self.fn = kernel.src.fn
        self.name = str(kernel.metadata.name)
        self.texts = {stage: kernel.asm[stage] for stage in _STAGES}
        self.metadata: dict[str, Any] = copy.deepcopy(kernel.metadata._asdict())
        self.signature = dict(kernel.src.signature)
        self.params = [p.name for p in self.fn.params]
        self.line = definition_line(self.fn)
        self.elsewhere = _elsewhere(self.metadata)

    @functools.cached_property
    def resources(self) -> dict[str, Any]:
        return usage(self.texts["cubin"], self.metadata["shared"])

    def intact(self) -> bool:
        """Whether Triton's own object still says what the compiler made."""
        now = self._kernel.__dict__
        same = (now.get("src") is self._src and now.get("asm") is self._asm
                and now.get("metadata") is self._group and self._src.__dict__.get("fn") is self.fn
                and now.get("kernel") is self.texts["cubin"]
                and now.get("packed_metadata") is self._packed)
        return (same and all(dict.get(self._asm, key) is text for key, text in self.texts.items())
                and self._group._asdict() == self.metadata
                and self._src.__dict__.get("signature") == self.signature)


class Compilations:
    """All kernels that were compiled since `watched` was entered. Not thread-safe."""

    def __init__(self) -> None:
        self._all: dict[int, Compiled] = {}
        _libraries()  # before the candidate can have a say

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, each new CompiledKernel is copied."""
        known, construct = self._all, CompiledKernel.__init__

        @functools.wraps(construct)
        def constructed(kernel: Any, src: Any, *args: Any, **kwargs: Any) -> None:
            construct(kernel, src, *args, **kwargs)
            compiled = known[id(src)] = Compiled(kernel)
            self._check(compiled)

        CompiledKernel.__init__ = constructed
        try:
            yield
        finally:
            CompiledKernel.__init__ = construct

    def of(self, src: Any) -> Compiled:
        """The kernel made from Triton's `src`. Raises Forged where there is none, or changed."""
        found = self._all.get(id(src))
        if found is None:
            raise Forged("a kernel is launched that the compiler didn't make")
        self._check(found)
        return found

    def resources(self, cubin: bytes) -> dict[str, Any]:
        """Those of the kernel with this machine code; empty where there is none."""
        return next((compiled.resources for compiled in self._all.values()
                     if compiled.texts["cubin"] is cubin), {})

    def check(self) -> None:
        """Raises Forged where a kernel isn't any more what the compiler made."""
        for compiled in self._all.values():
            self._check(compiled)

    def _check(self, compiled: Compiled) -> None:
        if compiled.elsewhere:
            raise Forged(f"the option {compiled.elsewhere} of {compiled.name} gives the compiler "
                         "something else to compile than the kernel's source for this GPU: leave "
                         "it out")
        if not compiled.intact():
            raise Forged(f"what the compiler made of {compiled.name} was changed afterwards: leave "
                         "the texts and the metadata of compiled kernels as they are")


def _elsewhere(metadata: dict[str, Any]) -> str | None:
    """The option by which machine code comes from elsewhere than the TTIR, None where none does."""
    if metadata.get("ir_override"):
        return "ir_override"
    if tuple(map(tuple, metadata.get("extern_libs") or ())) != _libraries():
        return "extern_libs"
    target = metadata.get("target")
    wanted = f"sm{getattr(target, 'arch', '')}"
    return "arch" if metadata.get("arch") not in (None, wanted, f"{wanted}a") else None


@functools.cache
def _libraries() -> tuple[tuple[str, str], ...]:
    """The libraries that the compiler links by itself."""
    return tuple(map(tuple, CUDAOptions().extern_libs))


def definition_line(fn: Any) -> int | None:
    """The line of `def` of a kernel in its file."""
    for offset, line in enumerate(getattr(fn, "raw_src", [])):
        if line.lstrip().startswith("def "):
            return fn.starting_line_number + offset
    return getattr(fn, "starting_line_number", None)
