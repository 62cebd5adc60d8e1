"""Executes a launch tape on given data.

`execute` builds the tape's buffers, replays PyTorch's operators with PyTorch on the CPU, runs every
kernel launch in the TTIR interpreter and returns values, counts and faults. No Python of the
candidate runs. Buffers live from their first to their last use.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import torch
from kernel_evolve_worker.correctness.layout import Recency, layout_of
from kernel_evolve_worker.recording.tape import (
    Tape,
    TapeError,
    decode_tree,
    decode_value,
    dtype_named,
    tree_refs,
)
from kernel_evolve_worker.tensors import distinct, write_values
from torch.utils._pytree import tree_leaves

from .access import LaunchMemory
from .dataflow import OVERWRITES, reaching
from .execution import AtenStats, Execution, LaunchStats
from .interpreter import LANES_PER_BOX, Launch, TimeUp, descriptor_block, run_launch
from .memory import UNWRITTEN, Buffer, Faults
from .prices import Unpriced, flops, is_priced
from .room import available, needed
from .ttir_parser import Module, ParseError, accessed_params, parse
from .values import Descriptor, Pointer, Uncovered, dtype_of


@lru_cache(maxsize=64)
def _parsed(text: str, file: str | None) -> tuple[Module, set[int], set[int]]:
    """A kernel's module and the parameters that it reads and writes through; kept per text."""
    module = parse(text, file)
    return (module, *accessed_params(module.kernel))


@lru_cache(maxsize=512)
def _operator(name: str) -> Any:
    """The operator called "aten.add.Tensor"; nothing outside aten is ever called."""
    parts = name.split(".")
    if len(parts) != 3 or parts[0] != "aten":
        raise Uncovered(f"the operator {name}")
    try:
        return getattr(getattr(torch.ops.aten, parts[1]), parts[2])
    except AttributeError:
        raise Uncovered(f"the operator {name}, which this PyTorch doesn't have") from None


def execute(tape: Tape, inputs: list[Any], state: dict[str, torch.Tensor], budget_s: float,
            threads: int | None = None, lanes_per_box: int = LANES_PER_BOX) -> Execution:
    """Runs the tape on other data.

    inputs: the flattened arguments of forward, tensors where the tape has a reference. state:
    weights and buffers by the reference's names. Neither is changed. budget_s: seconds after which
    the execution ends as uncovered. threads: PyTorch's thread count for this process, None to
    leave it. Faults of the candidate are in the result; a tape that is malformed raises TapeError.
    """
    if threads:
        torch.set_num_threads(threads)
    started = time.monotonic()
    machine = _Machine(tape, started + budget_s, lanes_per_box)
    result = machine.result
    try:
        with torch.no_grad():
            machine.check_room()
            machine.bind(inputs, state)
            machine.run()
            machine.finish(inputs, state)
    except Uncovered as reason:
        result.uncovered = f"uncovered: {reason}"
        result.outputs = None
    except TimeUp:
        result.uncovered = (
            f"uncovered: time budget: {budget_s:g} s were spent after {result.programs_run} of "
            f"{result.programs_total} programs{machine.position()}"
        )
        result.outputs = None
    except ParseError as error:
        result.uncovered = f"uncovered: a kernel's text that can't be read: {error}"
        result.outputs = None
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
            raise
        result.uncovered = "uncovered: memory: this process has too little for what forward does"
        result.outputs = None
    result.faults = machine.faults.list()
    result.seconds = time.monotonic() - started
    return result


class _Machine:
    """The memory and the position of one execution."""

    def __init__(self, tape: Tape, deadline: float, lanes_per_box: int) -> None:
        self.tape = tape
        self.deadline = deadline
        self.lanes_per_box = lanes_per_box
        self.result = Execution()
        self.faults = Faults()
        self.buffers: dict[str, Buffer] = {}
        self.kernel: str | None = None
        self.recency = Recency()
        self.wrote: dict[int, set[str]] = {}  # what launches wrote and read, by their steps
        self.read: dict[int, set[str]] = {}
        self.written = self._written_buffers()
        self.last_use = self._last_uses()
        self.constants: dict[str, torch.Tensor] = {}
        for step in tape.launches:
            x, y, z = step["grid"]
            self.result.programs_total += x * y * z

    def position(self) -> str:
        return f", in the kernel {self.kernel}" if self.kernel else ""

    # -- what the steps touch -----------------------------------------------------------------

    def _module(self, key: str) -> tuple[Module, set[int], set[int]]:
        return _parsed(self.tape.kernels[key]["ttir"], self.tape.host.get("file"))

    def _step_writes(self, step: dict[str, Any]) -> set[str]:
        if step["op"] == "launch":
            _, _, written = self._module(step["kernel"])
            return {buffer for index, buffer in _launch_buffers(step) if index in written}
        return {ref["buffer"] for ref in [*step["out"], *step.get("writes", [])] if ref}

    def _written_buffers(self) -> set[str]:
        found: set[str] = set()
        try:
            for step in self.tape.steps:
                found |= self._step_writes(step)
        except ParseError:  # execution reports it with its place
            return set(self.tape.buffers)
        return found

    def _last_uses(self) -> dict[str, int]:
        """The step after which a buffer is garbage; buffers that the result needs have none."""
        last: dict[str, int] = {}
        for index, step in enumerate(self.tape.steps):
            for name in _mentioned(step):
                last[name] = index
        kept = {ref["buffer"] for ref in tree_refs(self.tape.outputs)}
        kept |= {ref["buffer"] for ref in self.tape.inputs if ref}
        kept |= {entry["ref"]["buffer"] for entry in self.tape.state}
        kept |= {n for n, b in self.tape.buffers.items() if b["origin"] == "constant"}
        return {name: index for name, index in last.items() if name not in kept}

    # -- buffers ------------------------------------------------------------------------------

    def buffer(self, name: str) -> Buffer:
        """The buffer called `name`, made at its first use."""
        if name not in self.buffers:
            description = self.tape.buffers.get(name)
            if description is None:
                raise TapeError(f"the tape names the unknown buffer {name}")
            made = Buffer(name, description["bytes"], description.get("itemsize", 4),
                          description["origin"])
            if description["origin"] == "constant" and made.size:
                content = torch.frombuffer(bytearray(self.tape.blob(name)), dtype=torch.uint8)
                made.bytes[: made.size] = content
                if name in self.written:
                    self.constants[name] = content
            self.buffers[name] = made
        return self.buffers[name]

    def tensor(self, ref: dict[str, Any]) -> torch.Tensor:
        return self.buffer(ref["buffer"]).view(dtype_named(ref["dtype"]), ref["shape"],
                                               ref["stride"], ref["offset"])

    def check_room(self) -> None:
        """Raises Uncovered where the buffers can't be held in memory."""
        adopted = {ref["buffer"] for ref in self.tape.inputs if ref}
        adopted |= {entry["ref"]["buffer"] for entry in self.tape.state}
        need = needed(self.tape, self.written, [_mentioned(step) for step in self.tape.steps],
                      self.last_use, adopted - self.written)
        room = available()
        if room is not None and need > room:
            raise Uncovered(f"memory: the tensors that forward uses at once take {need >> 20} MiB "
                            f"here, and {room >> 20} MiB are left")

    def bind(self, inputs: list[Any], state: dict[str, torch.Tensor]) -> None:
        """Fills the buffers of inputs and state with the caller's values."""
        if len(inputs) != len(self.tape.inputs):
            raise Uncovered(f"{len(inputs)} inputs where the recording had "
                            f"{len(self.tape.inputs)}")
        pairs = [(f"input {i}", ref, value)
                 for i, (ref, value) in enumerate(zip(self.tape.inputs, inputs)) if ref]
        for entry in self.tape.state:
            if entry["name"] not in state:
                raise Uncovered(f"no value for the weight {entry['name']}")
            pairs.append((f"the weight {entry['name']}", entry["ref"], state[entry["name"]]))
        shared = [ref["buffer"] for _, ref, _ in pairs]
        for what, ref, value in pairs:
            if (not isinstance(value, torch.Tensor) or list(value.shape) != ref["shape"]
                    or value.dtype != dtype_named(ref["dtype"])):
                raise Uncovered(f"{what} of another shape or type than in the recording")
            buffer = self.buffer(ref["buffer"])
            value = value.detach()
            whole = (ref["offset"] == 0 and value.is_contiguous()
                     and list(value.stride()) == ref["stride"]
                     and value.numel() * value.element_size() == buffer.size)
            if whole and buffer.name not in self.written and shared.count(buffer.name) == 1:
                buffer.adopt(value)
            else:
                write_values(self.tensor(ref), value)

    # -- steps --------------------------------------------------------------------------------

    def run(self) -> None:
        for index, step in enumerate(self.tape.steps):
            if time.monotonic() > self.deadline:
                raise TimeUp
            if step["op"] == "launch":
                self._launch(index, step)
            else:
                self._aten(index, step)
            for name in _mentioned(step):
                if self.last_use.get(name) == index:
                    self.buffers.pop(name, None)

    def _launch(self, index: int, step: dict[str, Any]) -> None:
        kernel = self.tape.kernels[step["kernel"]]
        self.kernel = kernel["name"]
        module, read, written = self._module(step["kernel"])
        x, y, z = step["grid"]
        stats = LaunchStats(step["kernel"], kernel["name"], (x, y, z), x * y * z, index)
        self.result.launches.append(stats)
        reads = {name for position, name in _launch_buffers(step) if position in read}
        writes = {name for position, name in _launch_buffers(step) if position in written}
        for name in writes:
            self.buffer(name).prepare_write()
        memory = LaunchMemory(step["kernel"], index, self.faults, writes, reads & writes, 1)
        launch = Launch(module, (x, y, z), self._arguments(module, step))
        try:
            if stats.programs:
                run_launch(launch, memory, stats, self.deadline, self.lanes_per_box)
        finally:
            self.result.programs_run += stats.programs_run
        for name in writes:
            self.buffer(name).settle()
        wrote = memory.traffic.written_bytes()
        stats.reused = self.recency.step(memory.traffic.read_bytes(), wrote)
        self.wrote[index] = {name for name, size in wrote.items() if size}
        self.read[index] = reads
        self.kernel = None

    def _arguments(self, module: Module, step: dict[str, Any]) -> list[Any]:
        params = module.kernel.params
        values: list[Any] = []
        for argument in step["args"]:
            if len(values) >= len(params):
                raise Uncovered(f"more arguments than the kernel {module.kernel.name} has")
            name, kind = params[len(values)]
            name = name.lstrip("%")
            if "tensor" in argument:
                ref = argument["tensor"]
                values.append(self._pointer(ref, name, kind.pointee))
            elif "descriptor" in argument:
                values += self._descriptor(argument["descriptor"], name, kind.element)
            else:
                dtype = dtype_of(kind.element)
                values.append(_scalar(argument["scalar"], dtype))
        if len(values) != len(params):
            raise Uncovered(f"{len(values)} arguments where the kernel {module.kernel.name} has "
                            f"{len(params)}")
        return values

    def _pointer(self, ref: dict[str, Any], name: str, pointee: str | None) -> Pointer:
        if pointee is None:
            raise Uncovered(f"a tensor for the parameter {name}, which is no pointer")
        dtype = dtype_named(ref["dtype"])
        if dtype_of(pointee).itemsize != dtype.itemsize:
            raise Uncovered(f"a {ref['dtype']} tensor for the parameter {name}, a pointer to "
                            f"{pointee}")
        offset = torch.tensor([ref["offset"]], dtype=torch.int64)
        return Pointer(self.buffer(ref["buffer"]), offset, pointee, name)

    def _descriptor(self, given: dict[str, Any], name: str, element: str) -> list[Any]:
        """A host descriptor stands for itself, its shape (i32) and its strides (i64)."""
        block = descriptor_block(element)
        found = element.rsplit("x", 1)[1].split(">")[0].split(",")[0]
        pointer = self._pointer(given["tensor"], name, found)
        sizes = [torch.tensor([n], dtype=torch.int64) for n in given["shape"]]
        strides = [torch.tensor([n], dtype=torch.int64) for n in given["strides"]]
        made = Descriptor(pointer, tuple(sizes), tuple(strides), block,
                          given.get("padding") == "nan")
        return [made, *(size.to(torch.int32) for size in sizes), *strides]

    def _aten(self, index: int, step: dict[str, Any]) -> None:
        name = step["name"]
        self.kernel = None
        operator = _operator(name)
        if not is_priced(operator):
            raise Uncovered(f"{name}, whose time is not modelled")
        refs: list[dict[str, Any]] = []

        def take(ref: dict[str, Any]) -> torch.Tensor:
            refs.append(ref)
            return self.tensor(ref)

        args = decode_value(step["args"], take)
        read = len(refs)
        kwargs = {key: decode_value(value, take) for key, value in step["kwargs"].items()}
        given_out = step.get("writes", [])
        self._check_initialised(index, name,
                                refs[:read] + [r for r in refs[read:] if r not in given_out])
        started = time.monotonic()
        try:
            given = operator(*args, **kwargs)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise Uncovered(f"{name} on this data: {text[:160]}") from None
        results = list(given) if isinstance(given, (tuple, list)) else [given]
        stats = AtenStats(name, index)
        reads = {(r["buffer"], r["offset"]): _bytes(r) for r in refs}
        stats.read_bytes = sum(reads.values())
        try:
            stats.flops = flops(operator, args, kwargs, given)
        except Unpriced:
            raise Uncovered(f"{name} with such arguments, whose time is not modelled") from None
        old = {ref["buffer"] for ref in refs}
        for ref, value in zip(step["out"], results):
            if ref is None:
                continue
            stats.written_bytes += _bytes(ref)
            unused = self.last_use.get(ref["buffer"]) == index
            self._take_result(name, ref, value, ref["buffer"] in old, unused)
        if step["out"] and step["out"][0]:
            stats.dtype = step["out"][0]["dtype"]
        self._lay_out(stats, operator, args, kwargs, results, reads, step["out"])
        stats.seconds = time.monotonic() - started
        self.result.aten.append(stats)

    def _lay_out(self, stats: AtenStats, operator: Any, args: Any, kwargs: Any, results: list[Any],
                 reads: dict[tuple[str, int], int], out: list[dict[str, Any] | None]) -> None:
        """Fills in how an operator's tensors lie and when they were used last."""
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        made = [x for x in results if isinstance(x, torch.Tensor)]
        stats.layout = layout_of(operator, stats.name, args, inputs, made, stats.flops)
        read: dict[str, int] = {}
        for (buffer, _), size in reads.items():
            read[buffer] = read.get(buffer, 0) + size
        stats.reused = self.recency.step(
            read, {ref["buffer"]: _bytes(ref) for ref in out if ref})

    def _take_result(self, name: str, ref: dict[str, Any], value: Any, in_place: bool,
                     unused: bool) -> None:
        """Stores a result. unused: nothing later reads it."""
        if (not isinstance(value, torch.Tensor) or list(value.shape) != ref["shape"]
                or value.dtype != dtype_named(ref["dtype"])):
            if unused:  # a workspace, whose size is the library's own affair
                return
            raise Uncovered(f"{name}, whose result has another shape or type here")
        buffer = self.buffer(ref["buffer"])
        if not in_place:
            fresh = (value.is_contiguous() and list(value.stride()) == ref["stride"]
                     and ref["offset"] == 0 and value.storage_offset() == 0
                     and value.numel() * value.element_size() == buffer.size
                     and not any(value.untyped_storage().data_ptr()
                                 == other.bytes.untyped_storage().data_ptr()
                                 for other in self.buffers.values()))
            if fresh:
                buffer.adopt(value)
            else:
                write_values(self.tensor(ref), value)
        shadow = buffer.shadow_view(value.dtype, ref["shape"], ref["stride"], ref["offset"])
        if shadow is not None:
            distinct(shadow).fill_(0)
        else:
            buffer.forget()
        buffer.settle()

    def _check_initialised(self, index: int, name: str, refs: list[dict[str, Any]]) -> None:
        for position, ref in enumerate(refs):
            if position == 0 and name.startswith(OVERWRITES):
                continue
            missing = self._unwritten(ref)
            if missing is not None and bool(missing.any()):
                where = int(missing.reshape(-1).to(torch.uint8).argmax())
                self.faults.add("uninitialised", count=int(missing.sum()), buffer=ref["buffer"],
                                extent=missing.numel(), offset=where, step=index)

    def _unwritten(self, ref: dict[str, Any]) -> torch.Tensor | None:
        """Which elements of a reference nothing wrote; None where all are known to be written."""
        buffer = self.buffer(ref["buffer"])
        if not buffer.holes:
            return None
        shadow = buffer.shadow_view(dtype_named(ref["dtype"]), ref["shape"], ref["stride"],
                                    ref["offset"])
        return None if shadow is None else shadow == UNWRITTEN

    # -- the end ------------------------------------------------------------------------------

    def finish(self, inputs: list[Any], state: dict[str, torch.Tensor]) -> None:
        """Collects outputs and what became of inputs, state and constants."""
        result = self.result
        matters = reaching(self.tape, self.wrote, self.read)
        for launch in result.launches:
            launch.reaches_output = launch.step in matters
        owners: dict[str, tuple[str, Any]] = {
            name: ("constant", name)
            for name, description in self.tape.buffers.items()
            if description["origin"] == "constant"
        }
        for entry in self.tape.state:
            owners[entry["ref"]["buffer"]] = ("state", entry["name"])
        for index, ref in enumerate(self.tape.inputs):
            if ref:
                owners[ref["buffer"]] = ("input", index)
        for index, ref in enumerate(tree_refs(self.tape.outputs)):
            if ref["buffer"] in owners:
                result.aliases.append((index, *owners[ref["buffer"]]))
            missing = self._unwritten(ref)
            if missing is not None and bool(missing.any()):
                where = int(missing.reshape(-1).to(torch.uint8).argmax())
                self.faults.add("unwritten", count=int(missing.sum()), buffer=ref["buffer"],
                                extent=missing.numel(), offset=where)
        result.outputs = decode_tree(self.tape.outputs, self.tensor)
        result.inputs_after = [
            None if ref is None else value if ref["buffer"] not in self.written
            else self.tensor(ref)
            for ref, value in zip(self.tape.inputs, inputs)
        ]
        result.state_after = {
            entry["name"]: self.tensor(entry["ref"]) if entry["ref"]["buffer"] in self.written
            else state[entry["name"]]
            for entry in self.tape.state
        }
        result.constants_changed = [
            name for name, before in self.constants.items()
            if not torch.equal(self.buffers[name].bytes[: before.numel()], before)
        ]


def _scalar(value: Any, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(value, dict):  # {"float": "inf"}
        value = float(value["float"])
    if dtype.is_floating_point or dtype == torch.bool:
        return torch.tensor([value], dtype=dtype)
    bits = 8 * dtype.itemsize
    value = int(value) & ((1 << bits) - 1)  # an unsigned argument keeps its bits
    return torch.tensor([value - (1 << bits) if value >> (bits - 1) else value], dtype=dtype)


def _launch_buffers(step: dict[str, Any]) -> list[tuple[int, str]]:
    """(index of the kernel's parameter, buffer) of every pointer and descriptor of a launch."""
    found, position = [], 0
    for argument in step["args"]:
        if "tensor" in argument:
            found.append((position, argument["tensor"]["buffer"]))
        if "descriptor" in argument:
            found.append((position, argument["descriptor"]["tensor"]["buffer"]))
            position += 2 * len(argument["descriptor"]["shape"])
        position += 1
    return found


def _mentioned(step: dict[str, Any]) -> set[str]:
    """The buffers that a step uses."""
    if step["op"] == "launch":
        return {name for _, name in _launch_buffers(step)}
    found: set[str] = {ref["buffer"] for ref in step["out"] if ref}
    decode_value(step["args"], lambda ref: found.add(ref["buffer"]))
    for value in step["kwargs"].values():
        decode_value(value, lambda ref: found.add(ref["buffer"]))
    return found


def _bytes(ref: dict[str, Any]) -> int:
    """The bytes that a reference's distinct elements take."""
    count = 1
    for size, stride in zip(ref["shape"], ref["stride"]):
        count *= size if stride else min(size, 1)
    return count * dtype_named(ref["dtype"]).itemsize
