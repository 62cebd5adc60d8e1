"""The Python side of KernelEvolve: a zygote that forks one jailed child per call.

A worker function is `def f(request: dict, context: Context) -> dict`; see ../PROTOCOL.md.
"""

from kernel_evolve_worker.context import Context
from kernel_evolve_worker.errors import WorkerError

__all__ = ["Context", "WorkerError"]
