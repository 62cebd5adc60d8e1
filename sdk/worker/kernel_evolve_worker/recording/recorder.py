"""Writes a tape while a candidate's forward runs.

`Recorder` is a dispatch mode: it sees every PyTorch operator below autograd, and the recording
driver hands it every kernel launch. Operators are not computed. They run on meta tensors, which
have shapes and no data; what comes out gets uninitialised memory of its own. So the data in memory
means nothing, and an operator that would bring data to Python is refused as uncovered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from kernel_evolve_worker.recording.compiled import Compiled
from kernel_evolve_worker.recording.facade import Placement, Uncovered, storage_key
from kernel_evolve_worker.recording.operators import STORAGE, refusal
from kernel_evolve_worker.recording.tape import (
    NotRecordable,
    Tape,
    dtype_name,
    encode_tree,
    encode_value,
)

MAX_CONSTANT_BYTES = 512 << 20

_EMPTY = frozenset({
    "aten.empty.memory_format", "aten.empty_strided.default", "aten.empty_permuted.default",
    "aten.empty_like.default", "aten.new_empty.default", "aten.new_empty_strided.default",
})  # fmt: skip

# Share their argument's memory although their schema doesn't say so.
_VIEWS = frozenset({
    "aten._unsafe_view.default", "aten.lift_fresh.default", "aten.lift.default",
    "aten._reshape_alias.default", "aten.detach.default",
})  # fmt: skip


class StaleTensor(Exception):
    """forward uses a tensor that an earlier call of forward made; the text is one sentence."""


class HostOutput(Exception):
    """forward returns a tensor in host memory; the text is one sentence."""


class Recorder(TorchDispatchMode):
    """Records one call of forward. Use once; not thread-safe.

    earlier: storages that earlier calls made, by key; using one of them is refused.
    source: the candidate's file, whose path is kept out of the tape.
    """

    # torch.cond and the like come here, too; else PyTorch itself would raise, and name this class.
    supports_higher_order_operators = True

    def __init__(self, placement: Placement, earlier: set[int], source: str) -> None:
        super().__init__()
        self.tape = Tape()
        self.placement = placement
        self.earlier = earlier
        self.source = source
        self.made: set[int] = set()
        self._names: dict[int, str] = {}
        self._keep: list[torch.Tensor] = []
        self._kernels: dict[Compiled, str] = {}
        self._paused = 0
        self._constant_bytes = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: PyTorch would load its compiler, which takes seconds, only to keep it out of here."""
        return False

    # -- buffers ------------------------------------------------------------------------------

    def _register(self, tensor: torch.Tensor, origin: str) -> str:
        key = storage_key(tensor)
        name = f"b{len(self.tape.buffers)}"
        self._names[key] = name
        self._keep.append(tensor.detach())
        self.tape.buffers[name] = {"bytes": tensor.untyped_storage().nbytes(),
                                   "itemsize": tensor.element_size(), "origin": origin}
        if origin in ("empty", "op"):
            self.made.add(key)
        return name

    def ref(self, tensor: torch.Tensor, origin: str = "constant") -> dict[str, Any]:
        """The tape's reference to a tensor; a storage seen for the first time is `origin`."""
        if tensor.layout != torch.strided:
            raise Uncovered(f"a tensor of layout {tensor.layout}")
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
            raise Uncovered(f"a tensor of class {type(tensor).__name__}")
        if tensor.dtype.is_complex or tensor.is_quantized:
            raise Uncovered(f"a tensor of type {tensor.dtype}")
        key = storage_key(tensor)
        name = self._names.get(key)
        if name is None:
            if key in self.earlier:
                raise StaleTensor(
                    f"forward uses a tensor of shape {list(tensor.shape)} that an earlier call "
                    "made; allocate what forward needs in each call")
            name = self._register(tensor, origin)
            if origin == "constant":
                self._store_constant(name, tensor)
        return {"buffer": name, "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape),
                "stride": list(tensor.stride()), "offset": tensor.storage_offset()}

    def _store_constant(self, name: str, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        if size == 0:
            self.tape.buffers[name]["fill"] = 0
            return
        with self.pause():
            content = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,), (1,))
            first = int(content[0])
            if bool((content == first).all()):
                self.tape.buffers[name]["fill"] = first
                return
            self._constant_bytes += size
            if self._constant_bytes > MAX_CONSTANT_BYTES:
                raise Uncovered(f"more than {MAX_CONSTANT_BYTES >> 20} MiB of constants made "
                                    "in __init__")
            self.tape.blobs[name] = bytes(content.numpy().data)

    def bind(self, inputs: list[Any], state: list[tuple[str, str, torch.Tensor]]) -> None:
        """Names the arguments' tensors (None stands for others) and the weights.

        state: (the reference's name, the candidate's name, tensor).
        """
        self.tape.inputs = [
            self.ref(x, "input") if isinstance(x, torch.Tensor) else None for x in inputs
        ]
        self.tape.state = [{"name": name, "own_name": own, "ref": self.ref(tensor, "state")}
                           for name, own, tensor in state]

    def finish(self, outputs: Any) -> None:
        """Writes down what forward returned. Raises HostOutput, Uncovered."""
        for tensor in tree_leaves(outputs):
            if isinstance(tensor, torch.Tensor) and self.placement.is_host(tensor):
                raise HostOutput(f"forward returns a tensor of shape {list(tensor.shape)} in host "
                                 "memory: make outputs with device=x.device")
        try:
            self.tape.outputs = encode_tree(outputs, self.ref)
        except NotRecordable as error:
            raise Uncovered(f"{error}") from None

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Inside, operators run as usual and leave no trace."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    # -- operators ----------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),  # noqa: A002
                           kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if self._paused:
            return func(*args, **kwargs)
        name = str(func)
        if not isinstance(func, torch._ops.OpOverload):
            raise Uncovered(f"the operator {name}: it takes functions")
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if name in _VIEWS or _is_view(func):
            return func(*args, **kwargs)
        self._refuse(func, name, args, kwargs)
        if name in _EMPTY:
            result = func(*args, **kwargs)
            self._register(result, "empty")
            return result
        return self._record(func, name, args, kwargs)

    def _refuse(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> None:
        why = refusal(func, drops=not _never_drops(func, args, kwargs))
        if why is not None:
            raise Uncovered(f"{name}{why}" if why else f"the operator {name}")
        if name.startswith("aten.index") and len(args) > 1 and isinstance(args[1], (list, tuple)):
            masks = [i for i in args[1]
                     if isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8)]
            if masks:
                raise Uncovered(f"{name} with a mask: the shape depends on data")

    def _record(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        given, spec = tree_flatten((args, kwargs))
        written = _written(func, name, args, kwargs)
        try:
            step = {"op": "aten", "name": name,
                    "args": encode_value(list(args), self.ref),
                    "kwargs": {k: encode_value(v, self.ref) for k, v in kwargs.items()}}
        except NotRecordable as error:
            raise Uncovered(f"{name} with {error}") from None
        step["writes"] = [self.ref(tensor) for tensor in written]
        results = self._shapes(func, name, given, spec)
        leaves, out_spec = tree_flatten(results)
        returned = _returned(func, args, kwargs, leaves)
        outputs, refs = [], []
        for leaf, same in zip(leaves, returned):
            if not isinstance(leaf, torch.Tensor):
                outputs.append(leaf)
                refs.append(None)
                continue
            if same is None:
                same = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype)
                self._register(same, "op")
            outputs.append(same)
            refs.append(self.ref(same))
        step["out"] = refs
        self.tape.steps.append(step)
        return tree_unflatten(outputs, out_spec)

    def _shapes(self, func: Any, name: str, given: list[Any], spec: Any) -> Any:
        """The operator's results without data."""
        args, kwargs = tree_unflatten([_meta(x) for x in given], spec)
        makes = "device" in kwargs or not any(isinstance(x, torch.Tensor) for x in given)
        if makes and any(argument.name == "device" for argument in func._schema.arguments):
            kwargs["device"] = torch.device("meta")
        try:
            return func(*args, **kwargs)
        except NotImplementedError:
            pass
        args, kwargs = tree_unflatten(given, spec)
        try:
            return func(*args, **kwargs)
        except (IndexError, RuntimeError) as error:
            raise Uncovered(f"{name}: {str(error).splitlines()[0][:120]}") from None

    # -- launches -----------------------------------------------------------------------------

    def launch(self, compiled: Compiled, grid: tuple[int, int, int], args: tuple) -> None:
        """Called by the driver for a launch. args: the kernel's, constexprs included."""
        with torch._C.DisableTorchFunction(), self.pause():
            encoded: list[dict[str, Any]] = []
            for (name, kind), value in zip(compiled.signature.items(), args):
                self._argument(name, kind, value, encoded)
            self.tape.steps.append({"op": "launch", "kernel": self._kernel(compiled),
                                    "grid": list(grid), "args": encoded})

    def _argument(self, name: str, kind: Any, value: Any, out: list[dict[str, Any]]) -> None:
        if isinstance(kind, tuple):
            for index, (inner, item) in enumerate(zip(kind, value)):
                self._argument(f"{name}.{index}", inner, item, out)
        elif kind == "constexpr" or value is None:
            return
        elif kind.startswith("*"):
            if not isinstance(value, torch.Tensor):
                raise Uncovered(f"an address for the kernel's parameter {name}")
            self._on_device(name, value)
            out.append({"name": name, "tensor": self.ref(value), "type": kind})
        elif kind.startswith("tensordesc"):
            self._on_device(name, value.base)
            if getattr(value, "round_f32_to_tf32", False):
                raise Uncovered("a tensor descriptor that rounds to TF32")
            out.append({"name": name, "type": kind, "descriptor": {
                "tensor": self.ref(value.base), "shape": [int(n) for n in value.shape],
                "strides": [int(n) for n in value.strides],
                "block": [int(n) for n in value.block_shape],
                "padding": getattr(value, "padding", "zero")}})
        elif isinstance(value, (bool, int, float)):
            out.append({"name": name, "scalar": encode_value(value, None), "type": kind})
        else:
            raise Uncovered(f"an argument of type {type(value).__name__} for the kernel's "
                                f"parameter {name}")

    def _on_device(self, name: str, tensor: torch.Tensor) -> None:
        if self.placement.is_host(tensor):
            raise ValueError(f"Pointer argument {name} cannot be accessed from Triton (cpu "
                             "tensor?): create it with device=x.device")

    def _kernel(self, compiled: Compiled) -> str:
        known = self._kernels.get(compiled)
        if known is None:
            known = self._kernels[compiled] = f"k{len(self._kernels)}"
            self.tape.kernels[known] = describe_kernel(compiled, self.source)
            self.tape.cubins[known] = bytes(compiled.texts["cubin"])
        return known


def describe_kernel(compiled: Compiled, source: str) -> dict[str, Any]:
    """A kernel's entry in the tape."""
    fields = ("num_warps", "num_ctas", "num_stages", "shared", "maxnreg", "global_scratch_size",
              "enable_fp_fusion", "launch_cooperative_grid", "launch_pdl", "cluster_dims",
              "tensordesc_meta")
    return {
        "name": compiled.name,
        "ttir": str(compiled.texts["ttir"]).replace(source, "candidate.py"),
        "ptx": str(compiled.texts["ptx"]).replace(source, "candidate.py"),
        "metadata": {name: compiled.metadata[name] for name in fields
                     if name in compiled.metadata},
        "resources": compiled.resources,
        "line": compiled.line,
        "params": compiled.params,
    }


# -- schemas --------------------------------------------------------------------------------------


def _is_view(func: Any) -> bool:
    """Whether results share memory with an argument, which is not changed."""
    schema = func._schema
    if torch.Tag.inplace_view in func.tags and not str(func).startswith(STORAGE):
        return True
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def _arguments(func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """(schema's argument, value) of a call."""
    for index, argument in enumerate(func._schema.arguments):
        if not argument.kwarg_only and index < len(args):
            yield argument, args[index]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def _never_drops(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an operator with a dropout is called with its rate at zero."""
    rates = [argument.name for argument in func._schema.arguments if argument.name == "dropout_p"]
    given = [value for argument, value in _arguments(func, args, kwargs)
             if argument.name == "dropout_p"]
    return bool(rates) and not any(given)


def _written(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that a call changes."""
    found = [x for argument, value in _arguments(func, args, kwargs)
             if argument.alias_info is not None and argument.alias_info.is_write
             for x in tree_leaves(value) if isinstance(x, torch.Tensor)]
    if name == "aten.native_batch_norm.default" and args[5]:  # its schema doesn't say so
        found += [x for x in args[3:5] if isinstance(x, torch.Tensor)]
    return found


def _returned(func: Any, args: Any, kwargs: dict[str, Any],
              leaves: list[Any]) -> list[torch.Tensor | None]:
    """Per result the argument that it is, None for new tensors."""
    returns = func._schema.returns
    if len(returns) != len(leaves):
        return [None] * len(leaves)
    found: list[torch.Tensor | None] = []
    for result in returns:
        same = None
        if result.alias_info is not None and result.alias_info.is_write:
            for argument, value in _arguments(func, args, kwargs):
                info = argument.alias_info
                if info is not None and info.before_set & result.alias_info.before_set:
                    same = value if isinstance(value, torch.Tensor) else None
        found.append(same)
    return found


def _meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return value


def forward_outputs_to_tensors(value: Any) -> Any:
    """Parameters returned by forward as the tensors that they are."""
    return tree_map(lambda x: x.detach() if isinstance(x, torch.nn.Parameter) else x, value)
