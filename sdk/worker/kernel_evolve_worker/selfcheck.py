"""The worker's self-check, for `doctor`: does the compiler work inside the jail?"""

from __future__ import annotations

import os
import time
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernel_evolve_worker.errors import WorkerError


@triton.jit
def _copy(source, target, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(source + offsets, mask=offsets < n), mask=offsets < n)


def selfcheck(request: dict[str, Any], context: Any) -> dict[str, Any]:
    """Compiles a copy kernel for sm_90. Returns {"compile_s": seconds, "ptxas": path}.

    Raises WorkerError (unavailable) with what the compiler said.
    """
    ptxas = os.path.join(os.path.dirname(triton.backends.__file__), "nvidia", "bin", "ptxas")
    if not os.access(ptxas, os.X_OK):
        raise WorkerError("unavailable", f"Triton's ptxas is missing at {ptxas}; install the "
                                         "package triton again.")
    begin = time.monotonic()
    source = ASTSource(
        fn=_copy,
        signature={"source": "*fp32", "target": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        constexprs={(3,): 256},
    )
    try:
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
    except Exception as error:  # noqa: BLE001 - whatever it is, the user reads one sentence
        text = " ".join(str(error).split())[:300]
        raise WorkerError("unavailable", f"Triton can't compile for sm_90 here: {text}") from None
    return {"compile_s": time.monotonic() - begin, "ptxas": ptxas}
