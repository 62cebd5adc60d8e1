"""Loads PyTorch and Triton and compiles one kernel, so that a forked child finds all of it done.

Nothing here may start a thread, compute a tensor or ask about CUDA: a fork would then give children
that hang or that CUDA refuses. The zygote checks the number of threads afterwards.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import warnings


class CannotStart(Exception):
    """The interpreter lacks something; the text is one sentence that says what to type."""


def limit_threads() -> None:
    """To be called before anything is imported that reads these."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def load(python: str) -> dict[str, str]:
    """Imports the libraries and returns the versions. Raises CannotStart."""
    versions = {"python": platform.python_version()}
    for name, label in (("torch", "PyTorch"), ("triton", "Triton")):
        try:
            module = __import__(name)
        except ModuleNotFoundError as error:
            what = label if error.name == name else f"{error.name}, which {label} needs,"
            raise CannotStart(
                f"{what} is not installed for {python}; type `python3 -m venv "
                "~/.local/share/kernel-evolve/venv && "
                "~/.local/share/kernel-evolve/venv/bin/pip install torch numpy`"
            ) from None
        except Exception as error:
            raise CannotStart(
                f"{label} cannot be imported by {python} ({type(error).__name__}: "
                f"{' '.join(str(error).split())[:200]}); reinstall it with "
                f"`{python} -m pip install --force-reinstall torch`"
            ) from None
        versions[name] = _version(name, module)
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(Exception):  # who needs it says what is missing
        # What PyTorch loads when operators are first traced: one to five seconds for each child.
        importlib.import_module("torch._dynamo")
    return versions


def _version(name: str, module: object) -> str:
    text = getattr(module, "__version__", None)
    return str(text) if text else importlib.metadata.version(name)


def compile_one_kernel(cache_dir: str) -> None:
    """Runs Triton's whole pipeline once, for a GPU that need not be here, into a private cache."""
    os.environ["TRITON_CACHE_DIR"] = cache_dir
    import triton
    from triton.backends.compiler import GPUTarget

    from kernel_evolve_worker import warm_kernel

    source = triton.compiler.ASTSource(
        fn=warm_kernel.add_one,
        signature={"x": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        constexprs={(2,): 128},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
