"""A task: the user's PyTorch file, loaded, constructed and run with one clear sentence per mistake.

A task is a Python file that defines `Model` (a `torch.nn.Module`), `get_inputs()` (a list with the
arguments of `forward`) and `get_init_inputs()` (arguments of `Model.__init__`: a list, or a dict of
keywords). Tasks may ask for the device `cuda`: everything here runs inside `on_cpu()`, which
answers such requests with CPU storage. Only `run_forward` takes another device, for a model and
inputs that were moved there.

Every mistake of a task is a `WorkerError` of class `validation` whose message is one sentence that
says which step went wrong, where, and what to do. Nothing here is thread-safe: loading registers a
module, and seeding touches the process's generators.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import linecache
import logging
import math
import random
import re
import resource
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernel_evolve_worker.errors import WorkerError

REQUIRED = ("Model", "get_inputs", "get_init_inputs")


@dataclass(frozen=True)
class LoadedTask:
    """The three names a task defines. `name` is the file's stem, used in messages."""

    Model: type[torch.nn.Module]  # named after what the task calls it
    get_inputs: Callable[[], Any]
    get_init_inputs: Callable[[], Any]
    name: str
    path: str = ""


class _CpuPlacement(TorchFunctionMode):
    """Sends every request for a CUDA device to the CPU, so that tasks for a GPU run here."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # noqa: A002
        if func is torch.Tensor.cuda:
            return args[0]
        return func(*_to_cpu(args), **_to_cpu(kwargs or {}))


def _to_cpu(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str):
        return "cpu" if value == "cuda" or value.startswith("cuda:") else value
    if type(value) in (list, tuple):
        return type(value)(_to_cpu(item) for item in value)
    if type(value) is dict:
        return {key: _to_cpu(item) for key, item in value.items()}
    return value


class _SizeGuard(TorchFunctionMode):
    """Refuses a tensor that can't fit before it is made and takes the machine down."""

    factories = frozenset({torch.randn, torch.rand, torch.randint, torch.empty, torch.zeros,
                           torch.ones, torch.full, torch.normal})

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label

    def __torch_function__(self, func, types, args=(), kwargs=None):  # noqa: A002
        kwargs = kwargs or {}
        if func in self.factories:
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            needed = _count(args, kwargs) * dtype.itemsize
            # A small one needs no look at the machine.
            if needed > 1 << 28 and needed > (here := available_memory()):
                raise invalid(f"{self.label} makes a tensor of {needed / 2**30:.1f} GiB, more than "
                              f"the {here / 2**30:.1f} GiB free here; use smaller shapes.")
        return func(*args, **kwargs)


def _count(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Elements that a factory is asked for: sizes one by one, or the first sequence of sizes."""
    size = kwargs.get("size") or next((x for x in args if isinstance(x, (list, tuple))), None)
    if size is None:
        size = args
    return math.prod(x for x in size if isinstance(x, int))


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Inside, tensors asked for on `cuda` are made on the CPU; `.cuda()` returns the tensor."""
    real_synchronize = torch.cuda.synchronize
    torch.cuda.synchronize = lambda *_, **__: None
    try:
        with _CpuPlacement():
            yield
    finally:
        torch.cuda.synchronize = real_synchronize


def on_device(device: torch.device | str) -> contextlib.AbstractContextManager[None]:
    """Inside, what a task asks for on `cuda` is made on `device`: "cpu" or "cuda[:n]"."""
    where = torch.device(device)
    if where.type == "cpu":
        return on_cpu()
    return torch.cuda.device(where) if where.type == "cuda" else contextlib.nullcontext()


@contextlib.contextmanager
def quiet_fakes() -> Iterator[None]:
    """Inside, PyTorch doesn't print the traceback of every operator that fails on fake tensors."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def one_line(text: object, limit: int = 240) -> str:
    """`text` on one line without runs of blanks, cut after `limit` characters."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def invalid(message: str) -> WorkerError:
    """The error for a mistake of the task; `message` is one sentence."""
    return WorkerError("validation", message)


def set_seed(seed: int) -> None:
    """Seeds the generators that a task may draw from: torch's, Python's, and NumPy's if loaded."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def load_task(source: str, path: str) -> LoadedTask:
    """Executes the text of a task and returns what it defines.

    `path` is used for messages, and its folder for imports of modules that lie beside the task.
    Raises WorkerError (validation) for every mistake; a task that never ends is the caller's
    deadline's business.
    """
    file = Path(path or "task.py")
    label = f"The task {file.name}"
    if "\0" in source:
        raise invalid(f"{label} is a binary file; a task is a Python file that defines Model, "
                      "get_inputs and get_init_inputs.")
    if not source.strip():
        raise invalid(f"{label} is empty; a task defines Model, get_inputs and get_init_inputs.")
    try:
        code = compile(source, str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise invalid(f"{label} has a syntax error in line {error.lineno}: "
                      f"{one_line(error.msg)}.") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise invalid(f"{label} can't be read as Python: {one_line(error)}.") from None

    digest = hashlib.sha256(f"{file}\0{source}".encode("utf-8", "replace")).hexdigest()[:16]
    module = types.ModuleType(f"kernel_evolve_task_{digest}")
    module.__file__ = str(file)
    # Dataclasses look their module up by name, and `inspect.getsource` reads the line cache.
    sys.modules[module.__name__] = module
    linecache.cache[str(file)] = (len(source), None, source.splitlines(keepends=True), str(file))
    with _step(label, "at import", str(file)), _importable(file.parent), on_cpu():
        exec(code, module.__dict__)  # the user's own file, run as the user asked
    return _checked(module, label, file)


def _checked(module: types.ModuleType, label: str, file: Path) -> LoadedTask:
    missing = [name for name in REQUIRED if not hasattr(module, name)]
    if missing:
        names = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
        raise invalid(f"{label} doesn't define {names}; a task defines Model, get_inputs and "
                      "get_init_inputs.")
    model = module.Model
    if not (isinstance(model, type) and issubclass(model, torch.nn.Module)):
        what = f"a {type(model).__name__}" if not isinstance(model, type) else "another class"
        raise invalid(f"Model of the task {file.name} is {what}; it has to be a subclass of "
                      "torch.nn.Module.")
    for name in REQUIRED[1:]:
        if not callable(getattr(module, name)):
            raise invalid(f"{name} of the task {file.name} is "
                          f"{type(getattr(module, name)).__name__}; it has to be a function.")
    return LoadedTask(model, module.get_inputs, module.get_init_inputs, file.stem, str(file))


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Lets the task import its neighbours; last on the path, so that it can shadow nothing."""
    entry = str(folder)
    sys.path.append(entry)
    try:
        yield
    finally:
        if sys.path and sys.path[-1] == entry:
            sys.path.pop()


@contextlib.contextmanager
def _step(label: str, where: str, path: str,
          device: torch.device | str = "cpu") -> Iterator[None]:
    """Turns whatever the task raises into one sentence; planned errors pass unchanged.

    device: where the step's tensors live; on a GPU, mixing it with the CPU is a mistake of its own.
    """
    try:
        yield
    except (WorkerError, KeyboardInterrupt):
        raise
    except ModuleNotFoundError as error:
        name = (error.name or one_line(error)).split(".")[0]
        raise invalid(f"{label} needs the module '{name}', which isn't installed for "
                      f"{sys.executable}; install it there or remove the import.") from None
    except BaseException as error:  # noqa: BLE001 - SystemExit included: it is the task's, too
        if is_out_of_memory(error):
            raise invalid(f"{label} needs more memory than this machine gives {where}: "
                          f"{one_line(error, 160)}; use smaller shapes.") from None
        line = _line_of(error, path)
        text = one_line(error)
        mixed = torch.device(device).type != "cpu" and _mixes_devices(str(error))
        hint = "; tensors made in forward need device=x.device" if mixed else ""
        raise invalid(f"{label} raises {where}{f', line {line}' if line else ''}: "
                      f"{type(error).__name__}{': ' + text if text else ''}{hint}") from None


def _line_of(error: BaseException, path: str) -> int | None:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    return lines[-1] if lines else None


def _mixes_devices(text: str) -> bool:
    """Whether PyTorch's message says that tensors on the CPU and on a GPU met."""
    lower = text.lower()
    if "on the same device" in lower or ("torch.cuda." in lower and "(torch." in lower):
        return True
    return bool(re.search(r"\bcpu\b", lower) and re.search(r"\b(cuda|gpu)\b", lower))


_OUT_OF_MEMORY = ("can't allocate memory", "CUDA out of memory", "CUDA error: out of memory",
                  "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that an allocation failed (Python's or PyTorch's, on any device)."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(f in str(error) for f in _OUT_OF_MEMORY)


def is_device_failure(error: BaseException) -> bool:
    """Whether `error`, also as a sentence about a task, comes from the GPU and not from the data.

    After most of them (a failed assertion on the device, say) this process can't use the GPU again.
    """
    text = str(error)
    return "CUDA error" in text or "CUDA out of memory" in text


def available_memory(device: torch.device | str = "cpu") -> int:
    """Bytes that this process can still allocate on `device` ("cpu" or "cuda[:n]").

    A very large number where nothing limits it. What PyTorch holds back of a GPU counts as free.
    """
    where = torch.device(device)
    if where.type == "cuda":
        held = torch.cuda.memory_reserved(where) - torch.cuda.memory_allocated(where)
        return torch.cuda.mem_get_info(where)[0] + held
    limits = [1 << 62]
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    with contextlib.suppress(OSError, ValueError, IndexError):
        if soft != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
            limits.append(soft - pages * resource.getpagesize())
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(int(line.split()[1]) * 1024)
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        whole = int((group / "memory.max").read_text("ascii"))
        limits.append(whole - int((group / "memory.current").read_text("ascii")))
    return max(0, min(limits))


def init_arguments(task: LoadedTask) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of `Model.__init__`: a list is positional, a dict is keywords.

    The pair `[list, dict]` is taken as positional and keyword arguments where it doesn't fit as
    two positional ones.
    """
    label = f"The task {Path(task.path or task.name).name}"
    with _step(label, "in get_init_inputs", task.path), on_cpu():
        given = task.get_init_inputs()
    if given is None:
        given = []
    if isinstance(given, dict):
        args, kwargs = [], dict(given)
    elif isinstance(given, (list, tuple)):
        args, kwargs = list(given), {}
    else:
        raise invalid(f"get_init_inputs of {label[0].lower()}{label[1:]} returns a "
                      f"{type(given).__name__}; it has to return a list of arguments or a dict of "
                      "keyword arguments.")
    try:
        signature = inspect.signature(task.Model)
    except (TypeError, ValueError):
        return args, kwargs
    try:
        signature.bind(*args, **kwargs)
        return args, kwargs
    except TypeError as error:
        pair = (len(args) == 2 and isinstance(args[0], (list, tuple)) and isinstance(args[1], dict))
        if pair:
            with contextlib.suppress(TypeError):
                signature.bind(*args[0], **args[1])
                return list(args[0]), dict(args[1])
        raise invalid(f"get_init_inputs of {label[0].lower()}{label[1:]} doesn't fit "
                      f"Model.__init__{_short(signature)}: {one_line(error)}.") from None


def _short(signature: inspect.Signature) -> str:
    return one_line(str(signature.replace(return_annotation=inspect.Signature.empty)), 100)


def construct(task: LoadedTask, seed: int) -> torch.nn.Module:
    """A fresh `Model` on the CPU, its weights drawn after seeding with `seed`."""
    args, kwargs = init_arguments(task)
    label = f"The task {Path(task.path or task.name).name}"
    with _step(label, "in Model.__init__", task.path), on_cpu(), _SizeGuard(label):
        set_seed(seed)
        return task.Model(*args, **kwargs)


def make_inputs(task: LoadedTask, seed: int) -> list[Any]:
    """The arguments of `forward`, on the CPU, drawn after seeding with `seed`."""
    label = f"The task {Path(task.path or task.name).name}"
    with _step(label, "in get_inputs", task.path), on_cpu(), _SizeGuard(label):
        set_seed(seed)
        given = task.get_inputs()
    if not isinstance(given, (list, tuple)):
        kind = "single tensor" if isinstance(given, torch.Tensor) else type(given).__name__
        raise invalid(f"get_inputs of {label[0].lower()}{label[1:]} returns a {kind}; it has to "
                      "return a list with the arguments of forward.")
    return list(given)


def run_forward(task: LoadedTask, model: torch.nn.Module, inputs: list[Any],
                device: torch.device | str = "cpu") -> Any:
    """`model(*inputs)` without gradients; whatever it raises becomes one sentence.

    Model and inputs live on `device`, "cpu" or "cuda[:n]". On a GPU the results are ready when this
    returns, so that what fails there is raised here.
    """
    label = f"The task {Path(task.path or task.name).name}"
    with _step(label, "in forward", task.path, device), on_device(device), torch.no_grad():
        out = model(*inputs)
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize()
        return out
