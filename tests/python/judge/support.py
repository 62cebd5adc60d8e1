"""Tasks as text, and an executor that runs a Python function in place of a tape."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from evaluator_simulator import judge as judging
from evaluator_simulator.execution import Execution, LaunchStats
from kernel_evolve_worker.context import Context


def task_source(forward: str, inputs: str, init: str = "pass", head: str = "",
                arguments: str = "[]") -> str:
    """A task whose forward is `forward` (a body over its arguments x, y, z as far as needed)."""
    source = """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        {head}

        class Model(nn.Module):
            def __init__(self, *args):
                super().__init__()
                {init}

            def forward(self, x, y=None, z=None):
                {forward}

        def get_inputs():
            return [{inputs}]

        def get_init_inputs():
            return {arguments}
    """
    return textwrap.dedent(source).format(
        forward=forward, inputs=inputs, init=init, head=head, arguments=arguments)


def context() -> Context:
    return Context(scratch=Path("/nowhere"), deadline=time.monotonic() + 600)


def request(source: str, asked: str = "full", seed: int = 7, **record: Any) -> dict[str, Any]:
    return {
        "task": {"path": "/tasks/sample.py", "name": "sample", "source": source},
        "record": {"ok": True, "tape": {}, **record},
        "asked": asked,
        "seed": seed,
    }


KERNEL = {
    "name": "fused", "line": 12, "ptx": "fma.rn.f32", "metadata": {"num_warps": 4, "num_stages": 3},
    "resources": {"registers": 40, "spills": 0, "shared_bytes": 0},
}


def tools(forward: Callable[..., Any], **change: Any) -> judging.Tools:
    """An executor whose "tape" is `forward(*input leaves, **weights)`.

    The launch it reports reads every input and writes every output once, in 1024 programs. `change`
    overrides fields of the Execution; kernels=0 reports no launch.
    """

    def execute(_tape: Any, inputs: list[Any], state: dict[str, torch.Tensor],
                _budget: float) -> Execution:
        inputs = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        state = {key: value.clone() for key, value in state.items()}
        with torch.no_grad():
            out = forward(*inputs, **state)
        read = sum(x.numel() * x.element_size() for x in inputs if isinstance(x, torch.Tensor))
        results = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        written = sum(x.numel() * x.element_size() for x in results)
        launch = LaunchStats("k0", "fused", (1024, 1, 1), 1024, read_bytes=read,
                             written_bytes=written, bytes_per_program=(read + written) / 1024,
                             flops={"fp32": written})
        memory = {x.untyped_storage().data_ptr(): i for i, x in enumerate(inputs)
                  if isinstance(x, torch.Tensor)}
        aliases = [(i, "input", memory[x.untyped_storage().data_ptr()])
                   for i, x in enumerate(results) if x.untyped_storage().data_ptr() in memory]
        execution = Execution(outputs=out, inputs_after=inputs, state_after=state,
                              launches=[launch], aliases=aliases, programs_run=1024,
                              programs_total=1024)
        for key, value in change.items():
            setattr(execution, key, value)
        return execution

    tape = SimpleNamespace(kernels={"k0": KERNEL})
    return judging.Tools(load_tape=lambda record: tape, execute=execute)


def judge(source: str, forward: Callable[..., Any], **change: Any) -> dict[str, Any]:
    """The full verdict on the candidate `forward` for the task `source`."""
    return judging.judge(request(source), context(), tools(forward, **change))
