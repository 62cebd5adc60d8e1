"""What a candidate is compared with: the task's own model, eager and through torch.compile.

Runs in the trusted process, which never loads a candidate. Times are taken as ke_replay takes a
tape's: cold L2, launches queued behind a pause, events around one call.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch

from evaluator_gpu import constants

_FLUSH = 4  # times the L2, as in ke_replay
_SLEEP_CYCLES_PER_NS = 2.0  # of torch.cuda._sleep; a device that clocks lower sleeps longer


class TorchContender:
    """A call of PyTorch."""

    def __init__(self, name: str, call: Callable[[], Any]) -> None:
        self.name = name
        self._call = call
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self._flush = torch.zeros(_FLUSH * l2 // 4, dtype=torch.int32, device="cuda")
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self._pause = 0

    def warm_up(self, calls: int = 3) -> None:
        """First calls, which compile and choose; then finds how long queueing a call takes."""
        with torch.no_grad():
            for _ in range(calls):
                self._call()
            torch.cuda.synchronize()
            longest = 0.0
            for _ in range(3):
                begin = time.perf_counter()
                self._call()
                longest = max(longest, time.perf_counter() - begin)
                torch.cuda.synchronize()
        pause_ns = min(max(2e9 * longest, constants.MIN_PAUSE_NS), constants.MAX_PAUSE_NS)
        self._pause = int(pause_ns * _SLEEP_CYCLES_PER_NS)

    def sample(self, count: int) -> list[float]:
        begin, end = self._events
        found = []
        with torch.no_grad():
            for _ in range(constants.DROPPED + count):
                self._flush.sum()
                torch.cuda._sleep(self._pause)
                begin.record()
                self._call()
                end.record()
                end.synchronize()
                found.append(begin.elapsed_time(end))
        return found[constants.DROPPED:]


def eager(model: torch.nn.Module, inputs: list[Any]) -> TorchContender:
    """The model as it is."""
    made = TorchContender("eager", lambda: model(*inputs))
    made.warm_up()
    return made


def compiled(model: torch.nn.Module, inputs: list[Any]) -> tuple[TorchContender | None, str]:
    """The model through torch.compile, or None and one sentence why there is no such baseline."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no workers: they would outlive us
    begin = time.monotonic()
    try:
        import torch._dynamo

        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        function = torch.compile(model, dynamic=False)
        made = TorchContender("compile", lambda: function(*inputs))
        made.warm_up()
    except Exception as error:  # noqa: BLE001 - whatever the compiler says, eager remains
        return None, no_baseline(error)
    breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    note = f"torch.compile took {time.monotonic() - begin:.1f} s"
    return made, note + (f", with {breaks} graph breaks" if breaks else "")


def no_baseline(error: Exception) -> str:
    """Why there is no torch.compile baseline, in a sentence without its period."""
    text = " ".join(str(error).split())
    return f"no torch.compile baseline: {type(error).__name__}: {text[:160]}"
