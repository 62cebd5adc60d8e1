"""Records a candidate: from its source to a tape, or to the reason why there is none.

`record` is the worker function. It runs in a process of its own that serves one candidate, because
the candidate's Python runs here. See TAPE.md for what it leaves behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton
from torch.utils._pytree import tree_leaves

from kernel_evolve_worker.context import Context
from kernel_evolve_worker.errors import WorkerError
from kernel_evolve_worker.recording import policy, transfer
from kernel_evolve_worker.recording.cuda import cuda_facade
from kernel_evolve_worker.recording.driver import RecordingDriver, recording_driver
from kernel_evolve_worker.recording.facade import (
    Facade,
    Placement,
    Uncovered,
    first_uncovered,
    forget_uncovered,
)
from kernel_evolve_worker.recording.failures import describe, failure
from kernel_evolve_worker.recording.foreign import (
    first_foreign_change,
    first_patch,
    foreign_code,
    foreign_state,
)
from kernel_evolve_worker.recording.modes import depends_on_mode
from kernel_evolve_worker.recording.recorder import Recorder, forward_outputs_to_tensors
from kernel_evolve_worker.recording.remembered import first_change, remembered
from kernel_evolve_worker.recording.rules import ALLOWED_MODULES
from kernel_evolve_worker.recording.tape import Tape
from kernel_evolve_worker.task import construct, init_arguments, load_task, make_inputs, set_seed

TARGET = "sm_90"
# Any seed would do: no value computed here reaches the tape except constants of __init__.
_SEED = 20240521


def versions() -> dict[str, str]:
    return {"torch": torch.__version__, "triton": triton.__version__,
            "python": platform.python_version()}


def record(request: dict[str, Any], context: Context) -> dict[str, Any]:
    """Records `request` {"task", "candidate": {"code"}, "tape_dir"?}.

    Returns {"ok": true, "tape": {"path", "launches", "kernels"}, "versions", "target", "seconds"},
    or {"ok": false, "stage", "code", "reason", "line", "feedback", ...} for a failure of the
    candidate. The tape is written into tape_dir (context.scratch/tapes by default). Raises
    WorkerError (validation) for mistakes of the task or the request.
    """
    started = time.monotonic()
    code = (request.get("candidate") or {}).get("code")
    task = request.get("task") or {}
    if not isinstance(code, str) or not isinstance(task.get("source"), str):
        raise WorkerError("validation", "a request to record needs task.source and candidate.code")
    result = _record(request, task, code, context)
    result.update(versions=versions(), target=TARGET,
                  seconds={"record": round(time.monotonic() - started, 3)})
    return result


def _record(request: dict[str, Any], task: dict[str, Any], code: str,
            context: Context) -> dict[str, Any]:
    refusal = policy.check(code)
    if refusal is not None:
        return failure(refusal.stage, refusal.code, refusal.reason, refusal.line)
    loaded = load_task(task["source"], task.get("path") or f"{task.get('name', 'task')}.py")
    reference = construct(loaded, _SEED)
    args, kwargs = init_arguments(loaded)
    inputs = make_inputs(loaded, _SEED)
    digest = hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()[:16]
    folder = Path(tempfile.mkdtemp(prefix=f"candidate-{digest}-", dir=context.scratch))
    try:
        with _cache_in(folder / "cache"):
            session = _Session(code, folder / "candidate.py", digest)
            found = session.run(reference, args, kwargs, inputs)
            if isinstance(found, Tape) and session.mode_matters and not depends_on_mode(
                    reference, task["source"]):
                other = "evaluation" if reference.training else "training"
                found = failure("correctness", "other_mode",
                                f"forward does something else in {other} mode, and the task's "
                                "Model does the same in both: leave self.training alone.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if isinstance(found, dict):
        return found
    found.versions, found.target = versions(), TARGET
    # Under a name of its own: another candidate with the same text may have other inputs.
    target = Path(request.get("tape_dir") or context.scratch / "tapes")
    path = found.save(target / f"{digest}-{folder.name[-8:]}.json")
    return {"ok": True, "feedback": [],
            "tape": {"path": str(path), "launches": len(found.launches),
                     "kernels": [k["name"] for k in found.kernels.values()]}}


@contextlib.contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """A compiler cache of this candidate alone: nothing from others, nothing for others."""
    before = os.environ.get("TRITON_CACHE_DIR")
    os.environ["TRITON_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("TRITON_CACHE_DIR", None)
        else:
            os.environ["TRITON_CACHE_DIR"] = before


class _Session:
    """One candidate on its way from text to tape."""

    def __init__(self, code: str, file: Path, digest: str) -> None:
        self.file = file
        self.module_name = f"kernel_evolve_candidate_{digest}"
        self.placement = Placement()
        self.facade = Facade(self.placement)
        self.driver = RecordingDriver(self._launched)
        self.recorder: Recorder | None = None
        self.mode_matters = False  # forward does something else in the other mode
        self.counts_hits = "cache_info" in code
        file.write_text(code, encoding="utf-8")
        forget_uncovered()

    def _launched(self, *args: Any) -> None:
        if self.recorder is None:
            raise RuntimeError("kernels may only be launched in forward, not in __init__ or while "
                               "the file is imported")
        self.recorder.launch(*args)

    def run(self, reference: torch.nn.Module, args: list[Any], kwargs: dict[str, Any],
            inputs: list[Any]) -> Tape | dict[str, Any]:
        """The tape, or the record of a failure."""
        with _Stderr() as printed, cuda_facade(), recording_driver(self.driver):
            where = "while the file is imported"
            code = foreign_code()
            try:
                with self.facade:
                    module = self._load()
                    where = "in ModelNew.__init__"
                    set_seed(_SEED)
                    model = module.ModelNew(*args, **kwargs)
                if not isinstance(model, torch.nn.Module):
                    return failure("integrity", "no_module",
                                   "ModelNew is not a torch.nn.Module: derive it from one.")
                where = "when the weights are copied"
                state = self._state(reference, model)
                where = "in forward"
                found = self._tape(module, model, inputs, state)
                patch = first_patch(code, foreign_code())
                return found if patch is None else failure(
                    "policy", "monkey_patch", f"{patch} belongs to a module and may not be "
                    "changed; keep what you need in ModelNew.")
            except WorkerError:
                raise
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # noqa: BLE001 - the candidate's, SystemExit included
                return describe(error, str(self.file), where, self.driver.last, printed.text())
            finally:
                sys.modules.pop(self.module_name, None)

    def _load(self) -> Any:
        spec = importlib.util.spec_from_file_location(self.module_name, self.file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.module_name] = module
        spec.loader.exec_module(module)
        return module

    def _state(self, reference: torch.nn.Module,
               model: torch.nn.Module) -> list[tuple[str, str, torch.Tensor]]:
        """Copies the weights; (reference's name, candidate's name, tensor) of each."""
        theirs = _tensors(reference)
        ours = _tensors(model)
        pairs = transfer.match(theirs, ours)
        given = transfer.named(pairs, theirs)
        for values in (transfer.others(given), given):
            with self.facade:
                model.load_state_dict(values, strict=False)  # as a user would
            transfer.check(values, _tensors(model))
        transfer.copy(pairs, theirs, ours)
        for tensor in [*model.parameters(), *model.buffers()]:
            self.placement.to_device(tensor)  # as ModelNew(...).cuda() does
        model.train(reference.training)
        return [(name, own, ours[own]) for name, own in pairs.items()]

    def _tape(self, module: Any, model: torch.nn.Module, inputs: list[Any],
              state: list[tuple[str, str, torch.Tensor]]) -> Tape | dict[str, Any]:
        """Calls forward to warm up, for the tape, to compare with it, and in the other mode."""
        earlier: set[int] = set()
        recorders: list[Recorder] = []
        memory: list[dict[str, str]] = []
        around: list[dict[Any, Any]] = []
        tensors = [*tree_leaves(inputs), *(tensor for _, _, tensor in state)]
        for _ in range(3):
            recorder = Recorder(self.placement, earlier, str(self.file))
            self._forward(recorder, model, inputs, state)
            earlier = earlier | recorder.made
            recorders.append(recorder)
            self.driver.compilations.check()
            memory.append(remembered(module, model, tensors, self.counts_hits))
            if len(recorders) > 1:
                around.append(foreign_state(ALLOWED_MODULES))
        _, first, second = (_essence(recorder.tape) for recorder in recorders)
        if first != second:
            return failure("integrity", "not_repeatable",
                           "two calls of forward with the same shapes do different things: make "
                           "forward independent of earlier calls.")
        # The first call may build what it needs; from then on nothing may change.
        changed = (first_change(memory[1], memory[2])
                   or first_foreign_change(*around))
        if changed is not None:
            return failure("integrity", "state_across_calls",
                           f"forward changes {changed} from call to call: make forward independent "
                           "of earlier calls.")
        copies = len(self.placement.copies)
        self.mode_matters = self._differs_in_other_mode(model, inputs, state, earlier, first)
        tape = recorders[1].tape
        tape.host = {"file": "candidate.py", "host_copies": copies,
                     "training": model.training}
        return tape

    def _differs_in_other_mode(self, model: torch.nn.Module, inputs: list[Any],
                               state: list[tuple[str, str, torch.Tensor]], earlier: set[int],
                               own: str) -> bool:
        mode = model.training
        recorder = Recorder(self.placement, earlier, str(self.file))
        try:
            model.train(not mode)
            self._forward(recorder, model, inputs, state)
            return _essence(recorder.tape) != own
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:  # noqa: BLE001 - whatever it is, it isn't what forward does
            return True
        finally:
            forget_uncovered()
            model.train(mode)

    def _forward(self, recorder: Recorder, model: torch.nn.Module, inputs: list[Any],
                 state: list[tuple[str, str, torch.Tensor]]) -> None:
        recorder.bind(tree_leaves(inputs), state)
        self.placement.copies.clear()  # those of one call are told
        self.recorder, self.driver.pause = recorder, recorder.pause
        self.facade.recording = True
        try:
            with torch.no_grad(), self.facade, recorder:
                outputs = model(*inputs)
            recorder.finish(forward_outputs_to_tensors(outputs))
        finally:
            self.facade.recording = False
            self.recorder = None
        caught = first_uncovered()
        if caught is not None:
            raise Uncovered(caught)


def _tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach() for name, value in module.state_dict().items()
            if isinstance(value, torch.Tensor)}


def _essence(tape: Tape) -> str:
    """What two recordings of one candidate must agree in."""
    blobs = {name: hashlib.sha256(content).hexdigest() for name, content in tape.blobs.items()}
    return json.dumps([tape.to_json(), blobs], sort_keys=True)


class _Stderr:
    """Keeps what C++ code writes to the process's stderr, and passes it on at the end."""

    def __enter__(self) -> _Stderr:
        self._file = tempfile.TemporaryFile()
        self._stream = sys.stderr  # the candidate may put another in its place
        self._stream.flush()
        self._saved = os.dup(2)
        os.dup2(self._file.fileno(), 2)
        return self

    def text(self) -> str:
        self._stream.flush()
        self._file.seek(0)
        return self._file.read().decode("utf-8", "replace")

    def __exit__(self, *_: Any) -> None:
        text = self.text()
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._file.close()
        if text:
            os.write(2, text[-4000:].encode("utf-8", "replace"))
