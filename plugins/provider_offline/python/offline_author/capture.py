"""Captures a task's forward as ATen operations, on fake CUDA tensors, without a GPU.

Parameters and buffers become inputs with names, so nothing of a weight's value enters the graph.
`torch.diag` and the normalisations stay whole (the full core table would turn the first into
arange, eq and where); everything that PyTorch can split into elementwise parts is split.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from kernel_evolve_worker.errors import WorkerError
from kernel_evolve_worker.task import LoadedTask, construct, on_cpu
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

#: Operators that the author rewrites itself; splitting them would only hide them.
KEPT_WHOLE = (
    "aten::diag_embed",
    "aten::_softmax",
    "aten::_log_softmax",
    "aten::_safe_softmax",
    "aten::native_layer_norm",
    "aten::gelu",
    "aten::logsumexp",
    "aten::var",
    "aten::var_mean",
    "aten::sum",
    "aten::all",
    "aten::linalg_vector_norm",
    "aten::mv",
    "aten::dot",
    "aten::trace",
    "aten::leaky_relu",
    "aten::where",
    "aten::roll",
    "aten::stack",
    "aten::eye",
    "aten::flip",
)


class NotRewritable(Exception):
    """Nothing can be written for the task; the text is one sentence that names the operators."""


@dataclass(frozen=True)
class Argument:
    """One tensor among the arguments of forward. `path` is Python, such as `x` or `pair[1]`."""

    path: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class State:
    """A parameter, buffer or plain tensor attribute. `persistent`: it is in the state dict."""

    name: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    is_parameter: bool
    persistent: bool
    value: torch.Tensor
    requires_grad: bool


@dataclass
class Captured:
    """A task as a graph. Placeholders are `state` then `arguments`, in order."""

    name: str
    graph: fx.GraphModule
    state: list[State]
    arguments: list[Argument]
    scalars: dict[str, Any]  # path of a non-tensor argument of forward: the value it was given
    model: torch.nn.Module
    model_class: type
    init_values: dict[str, Any]
    out_spec: pytree.TreeSpec
    precision: str  # "ieee" or "tf32": what the task asks PyTorch for in fp32 matrix products


def decompositions() -> dict[Any, Callable]:
    """The core table of PyTorch without what the author keeps whole."""
    from torch._decomp import core_aten_decompositions

    kept = set(KEPT_WHOLE)
    return {op: f for op, f in core_aten_decompositions().items() if op._schema.name not in kept}


def capture(task: LoadedTask) -> Captured:
    """Captures `task`. Raises NotRewritable, or WorkerError when the task itself is at fault."""
    model = construct(task, 0)
    precision = "tf32" if _tf32_allowed() else "ieee"
    state = _lift_state(model)
    with FakeTensorMode(allow_non_fake_inputs=True), on_cpu():
        given = task.get_inputs()
    if not isinstance(given, (list, tuple)):
        raise WorkerError(
            "validation",
            f"get_inputs of the task '{task.name}' has to return a list with the arguments of "
            "forward.",
        )
    paths = _paths(model, list(given))
    leaves, spec = pytree.tree_flatten(list(given))
    arguments, scalars, tensor_places = [], {}, []
    for i, (path, leaf) in enumerate(zip(paths, leaves, strict=True)):
        if isinstance(leaf, torch.Tensor):
            tensor_places.append(i)
            arguments.append(Argument(path, tuple(leaf.shape), tuple(leaf.stride()), leaf.dtype))
        else:
            scalars[path] = leaf
    _refuse(task, state, arguments)

    out_spec: list[pytree.TreeSpec] = []

    def run(*flat: torch.Tensor) -> list[Any]:
        weights = {s.name: t for s, t in zip(state, flat, strict=False)}
        filled = list(leaves)
        for place, tensor in zip(tensor_places, flat[len(state) :], strict=True):
            filled[place] = tensor
        result = torch.func.functional_call(
            model, weights, tuple(pytree.tree_unflatten(filled, spec))
        )
        out, tree = pytree.tree_flatten(result)
        out_spec.append(tree)
        return out

    graph = _trace(task, run, [*state, *arguments])
    return Captured(
        name=task.name,
        graph=graph,
        state=state,
        arguments=arguments,
        scalars=scalars,
        model=model,
        model_class=task.Model,
        init_values=_init_values(task),
        out_spec=out_spec[-1],
        precision=precision,
    )


def _trace(task: LoadedTask, run: Callable, places: list[Argument | State]) -> fx.GraphModule:
    try:
        graph = _trace_on("cuda", task, run, places)
    except NotRewritable:
        raise
    except Exception as error:  # some operators of a GPU ask its driver even about a fake tensor
        try:
            graph = _trace_on("cpu", task, run, places)
        except NotRewritable:
            raise
        except Exception:  # the first error is the one that concerns the task
            text = " ".join(str(error).split())[:200]
            raise NotRewritable(
                f"forward of the task '{task.name}' can't be captured as one graph of operators: "
                f"{type(error).__name__}: {text}"
            ) from None
    graph.graph.eliminate_dead_code()
    return graph


def _trace_on(
    device: str, task: LoadedTask, run: Callable, places: list[Argument | State]
) -> fx.GraphModule:
    """The graph of `run` on fake tensors. Whatever a user's forward raises passes through."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        stack.enter_context(torch.no_grad())
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        fakes = [
            torch.empty_strided(p.size, p.stride, dtype=p.dtype, device=device) for p in places
        ]
        try:
            pure = torch.func.functionalize(run, remove="mutations")
            return make_fx(pure, decomposition_table=decompositions())(*fakes)
        except DataDependentOutputException as error:
            raise NotRewritable(
                f"forward of the task '{task.name}' decides by a value of a tensor "
                f"({_where(error, task)}), so its operators can't be captured as one graph."
            ) from None
        except Exception as error:
            text = str(error)
            if "data-dependent" in text or "DynamicOutputShape" in type(error).__name__:
                raise NotRewritable(
                    f"forward of the task '{task.name}' has a result whose size depends on the "
                    f"data ({_where(error, task)}), so its operators can't be captured as one "
                    "graph."
                ) from None
            raise


def _where(error: Exception, task: LoadedTask) -> str:
    """The operator that an error names and the last line of the task that it passed."""
    func = getattr(error, "func", None)
    name = str(func) if func is not None else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if task.path and f.filename == task.path]
    return f"{name}, line {lines[-1]}" if lines else name


@contextlib.contextmanager
def _quiet():
    """PyTorch logs a traceback for an error that is caught and reworded here."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _lift_state(model: torch.nn.Module) -> list[State]:
    """Names every tensor the module holds; plain attributes are turned into buffers first."""
    plain: set[str] = set()
    for prefix, module in model.named_modules():
        for key, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor):
                delattr(module, key)
                module.register_buffer(key, value, persistent=False)
                plain.add(f"{prefix}.{key}" if prefix else key)
    saved = set(model.state_dict().keys())
    state = []
    for is_parameter, items in (
        (True, model.named_parameters()),
        (False, model.named_buffers()),
    ):
        for name, tensor in items:
            value = tensor.detach()
            state.append(
                State(
                    name,
                    tuple(value.shape),
                    tuple(value.stride()),
                    value.dtype,
                    is_parameter,
                    name in saved,
                    value,
                    is_parameter and tensor.requires_grad,
                )
            )
    return state


def _paths(model: torch.nn.Module, given: list[Any]) -> list[str]:
    """Python spellings of the leaves of forward's arguments, in the order of the pytree."""
    parameters = [
        p for p in inspect.signature(model.forward).parameters.values() if p.kind != p.KEYWORD_ONLY
    ]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise NotRewritable(
            "forward takes *args or **kwargs, whose places in the rewritten forward have no name; "
            "name its arguments."
        )
    if len(given) > len(parameters):
        raise WorkerError(
            "validation",
            f"get_inputs returns {len(given)} arguments, but forward takes {len(parameters)}.",
        )
    names = [p.name for p in parameters]
    found = []
    for path, _leaf in pytree.tree_flatten_with_path(given)[0]:
        head, *rest = path
        found.append(names[head.idx] + pytree.keystr(tuple(rest)))
    return found


def _init_values(task: LoadedTask) -> dict[str, Any]:
    """The defaults of `Model.__init__`'s parameters, for the signature of the written class."""
    if task.Model.__init__ is torch.nn.Module.__init__:
        return {}
    signature = inspect.signature(task.Model.__init__)
    return {p.name: p for p in list(signature.parameters.values())[1:]}


def _tf32_allowed() -> bool:
    return bool(torch.backends.cuda.matmul.allow_tf32)


def _refuse(task: LoadedTask, state: list[State], arguments: list[Argument]) -> None:
    for place in (*state, *arguments):
        name = place.name if isinstance(place, State) else place.path
        if place.dtype.is_complex:
            raise NotRewritable(f"the task '{task.name}' computes with complex numbers ({name}).")
        if 0 in place.size:
            raise NotRewritable(f"the tensor {name} of the task '{task.name}' has no elements.")
