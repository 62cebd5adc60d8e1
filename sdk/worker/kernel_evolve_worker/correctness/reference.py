"""The reference's side of a judgement: inputs, weights and what has to come out.

`References` belongs to one task and one secret seed, lives as long as the judge's process, and
makes each variant when it is first needed. It keeps what it made up to CACHE_BYTES; a variant
beyond that is made again for each candidate. Not thread-safe.

On a GPU the weights and the task's own inputs are those of the CPU, drawn there and moved;
everything made from them is drawn on the GPU, so its numbers differ from the CPU's.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernel_evolve_worker.correctness import (
    constants,
    outputs,
    placement,
    precise,
    tolerance,
    variants,
)
from kernel_evolve_worker.correctness.constants import NumberRule
from kernel_evolve_worker.correctness.trace import Trace, trace_operators
from kernel_evolve_worker.errors import WorkerError
from kernel_evolve_worker.task import (
    LoadedTask,
    available_memory,
    construct,
    is_device_failure,
    is_out_of_memory,
    make_inputs,
    run_forward,
)
from kernel_evolve_worker.tensors import write_values

FIRST = "first"  # the purpose of a run whose results may be used again
# Precision from coarse to fine: the coarsest type in which the reference stores a result decides.
_COARSE_FIRST = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


@dataclass
class Leaf:
    """What one tensor has to be: `numbers` for floats, `exact` otherwise, maybe by `selection`."""

    exact: torch.Tensor | None = None
    numbers: tolerance.Reference | None = None
    selection: outputs.Selection | None = None

    @property
    def bytes(self) -> int:
        exact = self.exact.numel() * self.exact.element_size() if self.exact is not None else 0
        return exact + (self.numbers.bytes if self.numbers else 0)


@dataclass
class Expected:
    """One variant: its inputs and weights, and what the reference makes of them.

    inputs: leaves in tree order. state: the weights before the call, by name. leaves: per output
    leaf, None where it is no tensor. inputs_after, state_after: only what the reference changes.
    counts: whether the variant tells right from wrong. seconds: what it cost to make.
    """

    name: str
    inputs: list[Any]
    state: dict[str, torch.Tensor]
    tree: outputs.Tree
    leaves: list[Leaf | None]
    inputs_after: dict[int, Leaf] = field(default_factory=dict)
    state_after: dict[str, Leaf] = field(default_factory=dict)
    perturbed: bool = False
    finite: bool = True
    counts: bool = True
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        known = [*self.leaves, *self.inputs_after.values(), *self.state_after.values()]
        own = sum(x.numel() * x.element_size() for x in self.inputs if isinstance(x, torch.Tensor))
        return own + sum(leaf.bytes for leaf in known if leaf is not None)


@dataclass
class _Run:
    """One run of the reference: its outputs, and what it left behind."""

    outputs: Any
    inputs: list[Any]
    state: dict[str, torch.Tensor]


class References:
    """Expected results of one task under one secret seed, on one device."""

    def __init__(self, task: LoadedTask, seed: int, device: str = "cpu") -> None:
        """Constructs the reference and draws the task's own inputs; raises its mistakes.

        device: "cpu" or "cuda[:n]", where the reference runs and all its tensors live.
        """
        self.task = task
        self.device = placement.device_of(device)
        self._seed = seed
        self._cache = self._cache_bytes()
        self._model = self._construct()
        self._initial = snapshot(self._model)
        self._own = self._draw_inputs("inputs")
        self._domains = variants.domains_of(self._own)
        self._wide: torch.nn.Module | None = None
        self._kept: dict[str, Expected] = {}
        self._trace: Trace | None = None
        self._first: _Run | None = None
        self.kept_bytes = 0
        self.precise_seconds = 0.0
        self.notes: list[str] = []  # what was left out, one sentence each
        self.large = self._look_at_size()

    @property
    def _on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def _cache_bytes(self) -> int:
        """What may be kept between candidates; the candidate needs the rest of a GPU."""
        if not self._on_gpu:
            return constants.CACHE_BYTES
        return min(constants.CACHE_BYTES, available_memory(self.device) // 4)

    def _construct(self) -> torch.nn.Module:
        """A fresh model with the secret weights, drawn on the CPU."""
        model = construct(self.task, self._number("weights"))
        return model if self.device.type == "cpu" else placement.place_model(model, self.device)

    def _draw_inputs(self, purpose: str) -> list[Any]:
        """A draw of the task's own inputs, made on the CPU."""
        return placement.place(make_inputs(self.task, self._number(purpose)), self.device)

    def _look_at_size(self) -> bool:
        """Whether the reference is worth all cores; threads cost a small one more than they give.

        Refuses a task whose references can't fit; a lower bound, so it refuses no other.
        """
        own = sum(x.numel() * x.element_size() for x in tree_leaves(self._own)
                  if isinstance(x, torch.Tensor))
        large = own > constants.LARGE_BYTES
        try:
            operators = self.trace.operators
        except Exception:  # noqa: BLE001 - a forward that raises is reported when it runs
            return large
        largest = max([0, *(op.written_bytes for op in operators)])
        needed = 3 * own + 3 * largest  # a variant's inputs and results, each also in float64
        here = available_memory(self.device)
        if needed > here:
            raise self._too_large(f": {needed / 2**30:.1f} GiB are needed at least, "
                                  f"{here / 2**30:.1f} GiB are free")
        return large or self.trace.flops > constants.LARGE_FLOPS

    def _too_large(self, why: str = "") -> WorkerError:
        where, more = ("here", " or raise the evaluator's memory limit")
        if self._on_gpu:
            where, more = ("of the GPU", "")
        return WorkerError(
            "validation",
            f"The task {self.task.name} is too large to be judged in the memory {where}{why}; use "
            f"smaller shapes{more}.")

    def _number(self, purpose: str) -> int:
        """A number that only who knows the seed can know, one per purpose."""
        digest = hashlib.sha256(f"{self._seed}/{purpose}".encode()).digest()
        return int.from_bytes(digest[:7], "big")

    def _generator(self, purpose: str) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(self._number(purpose))

    @property
    def own_inputs(self) -> list[Any]:
        """The task's own inputs; callers copy before they write."""
        return self._own

    @property
    def model(self) -> torch.nn.Module:
        return self._model

    @property
    def trace(self) -> Trace:
        """The reference's operators, found on first use."""
        if self._trace is None:
            # A model of its own: forward may keep tensors, and a fake one must not stay in ours.
            fresh = construct(self.task, self._number("weights"))
            self._trace = trace_operators(fresh, placement.place(self._own, torch.device("cpu")))
        return self._trace

    @property
    def rule(self) -> NumberRule:
        """The precision class of the task, from what its operators store."""
        seen = self.trace.dtypes
        coarsest = next((d for d in _COARSE_FIRST if d in seen), torch.float32)
        if coarsest == torch.float32 and self.allows_tf32:
            return constants.TF32
        return constants.RULES[coarsest]

    @property
    def allows_tf32(self) -> bool:
        """Whether the task's matrix products or convolutions run in TF32 on a GPU."""
        if _says_tf32(torch.backends.cuda.matmul) and self.trace.flops:
            return True
        return _says_tf32(torch.backends.cudnn) and self.trace.has("convolution", "cudnn_conv")

    @property
    def expensive(self) -> bool:
        return self.precise_seconds > constants.EXPENSIVE_S

    @property
    def has_weights(self) -> bool:
        return any(t.is_floating_point() for t in self._initial.values())

    def names(self) -> list[str]:
        """Variants in order of use, the task's own inputs ("own") first.

        Beside these, "redrawn_1" and so on are further draws of the task's own inputs. A task whose
        inputs can't be varied is judged on other weights and on such draws.
        """
        if not any(d is not None and d.kind != "fixed" for d in self._domains):
            return ["own", "reweighted"] if self.has_weights else ["own"]
        return ["own", *variants.NAMES]

    def run(self, purpose: str) -> Any:
        """Eager's outputs on copies of the own inputs; generators are seeded by `purpose`."""
        run = self._eager(self._own, self._initial, purpose)
        if purpose == FIRST:
            self._first = run  # the own inputs' results, which `expected` needs next
        return run.outputs

    def expected(self, name: str) -> Expected:
        """The variant `name`; made on first use. Raises WorkerError when memory runs out."""
        found = self._kept.get(name)
        if found is not None:
            return found
        start = time.monotonic()
        try:
            made = self._make(name)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise self._too_large() from None
        if self._on_gpu:
            torch.cuda.synchronize(self.device)
        made.seconds = time.monotonic() - start
        if self.kept_bytes + made.bytes <= self._cache:
            self._kept[name] = made
            self.kept_bytes += made.bytes
        else:
            self._note("references beyond the cache's "
                       f"{self._cache / 2**30:.3g} GiB are made again for each candidate")
        return made

    def is_ready(self, name: str) -> bool:
        return name in self._kept

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # Making one variant ---------------------------------------------------------------------

    def _make(self, name: str) -> Expected:
        if name in ("own", "reweighted"):
            given = self._own
        elif name.startswith("redrawn"):
            given = self._draw_inputs(f"inputs/{name}")
        else:
            given = variants.make_variant(
                name, self._own, self._domains, self._generator(f"variant/{name}"))
        state = self._initial
        perturbed = name in ("normal", "reweighted") and self.has_weights
        if perturbed:
            load_snapshot(self._model, self._initial)
            variants.perturb_weights(
                self._model, self._generator("weights/moved"), constants.WEIGHT_STEP)
            state = snapshot(self._model)
        leaves_in = tree_leaves(given)
        if name.startswith("redrawn") and not self._is_new(leaves_in):
            return self._useless(name, leaves_in)
        eager = self._first if name == "own" else None
        self._first = None
        try:
            eager = eager or self._eager(given, state)
        except WorkerError as error:
            if name == "own" or is_device_failure(error):
                raise
            return self._useless(name, leaves_in)  # a singular matrix, say: outside the domain
        tree = outputs.describe(eager.outputs, eager.inputs, dict(eager.state))
        results = outputs.leaves_of(eager.outputs)
        finite = all(
            bool(torch.isfinite(x).all()) for x in results
            if isinstance(x, torch.Tensor) and x.is_floating_point())
        expected = Expected(name, leaves_in, state, tree, [], perturbed=perturbed, finite=finite)
        if not finite:
            expected.counts = False
            return expected

        wide, moved = self._precise(given, state, eager)
        rule, depth = self.rule, self.trace.depth
        floats = []
        for index, value in enumerate(results):
            leaf = self._leaf(value, [outputs.leaves_of(r.outputs)[index] for r in (wide, *moved)],
                              rule, depth)
            if leaf is not None and leaf.exact is not None:
                leaf.selection = outputs.find_selection(value, leaves_in, results)
            if leaf is not None and leaf.numbers is not None:
                floats.append(leaf.numbers.counts(value))
            expected.leaves.append(leaf)
        for index, (before, after) in enumerate(zip(leaves_in, eager.inputs)):
            if isinstance(before, torch.Tensor) and not same_bits(before, after):
                expected.inputs_after[index] = self._leaf(
                    after, [r.inputs[index] for r in (wide, *moved)], rule, depth)
        for key, before in state.items():
            if not same_bits(before, eager.state[key]):
                expected.state_after[key] = self._leaf(
                    eager.state[key], [r.state[key] for r in (wide, *moved)], rule, depth)
        expected.counts = all(floats) if floats else _varied(results)
        return expected

    def _useless(self, name: str, leaves: list[Any]) -> Expected:
        """A variant on which the reference gives nothing to compare with."""
        empty = outputs.describe((), (), {})
        return Expected(name, leaves, self._initial, empty, [], finite=False, counts=False)

    def _is_new(self, leaves: list[Any]) -> bool:
        """Whether a further draw has the own inputs' shapes and other values."""
        own = tree_leaves(self._own)
        if len(own) != len(leaves):
            return False
        pairs = [(a, b) for a, b in zip(own, leaves) if isinstance(a, torch.Tensor)]
        same_kind = all(isinstance(b, torch.Tensor) and a.shape == b.shape and a.dtype == b.dtype
                        for a, b in pairs)
        return same_kind and any(not same_bits(a, b) for a, b in pairs)

    @staticmethod
    def _leaf(eager: Any, wide: list[Any], rule: NumberRule, depth: int) -> Leaf | None:
        if not isinstance(eager, torch.Tensor):
            return None
        if not eager.is_floating_point():
            return Leaf(exact=eager.clone())
        y64 = wide[0].to(torch.float64)
        return Leaf(numbers=tolerance.make_reference(
            y64, eager, [w.to(torch.float64) for w in wide[1:]], rule, depth))

    def _eager(self, given: list[Any], state: dict[str, torch.Tensor],
               purpose: str = "forward") -> _Run:
        load_snapshot(self._model, state)
        fresh = variants.clone_inputs(given)
        torch.manual_seed(self._number(purpose))
        out = run_forward(self.task, self._model, fresh, self.device)
        after = {k: v for k, v in self._model.state_dict().items() if isinstance(v, torch.Tensor)}
        kept = _detach_from_state(out, after)
        return _Run(out, tree_leaves(fresh), kept)

    def _precise(self, given: list[Any], state: dict[str, torch.Tensor],
                 eager: _Run) -> tuple[_Run, list[_Run]]:
        """fp64 on the same data, and on data moved by one unit roundoff (for C)."""
        unit = self.rule.perturbation
        generator = self._generator("condition")
        try:
            if self._on_gpu and self._wide is None:
                self._wide_run(given, state, None, 0.0)  # loads kernels, which is no cost of a run
            start = time.monotonic()
            wide = self._wide_run(given, state, None, 0.0)
            self.precise_seconds = max(self.precise_seconds, time.monotonic() - start)
        except (WorkerError, RuntimeError) as error:
            if is_out_of_memory(error) or is_device_failure(error):
                raise
            self._note("the reference doesn't run in fp64, so its own results are the yardstick")
            return eager, self._moved_eager(given, state, generator, unit)
        count = constants.CONDITION_RUNS
        if self.expensive:
            count = constants.CONDITION_RUNS_EXPENSIVE
            self._note(f"conditioning from {count} perturbed fp64 run instead of "
                       f"{constants.CONDITION_RUNS}: the reference is expensive")
        return wide, [self._wide_run(given, state, generator, unit) for _ in range(count)]

    def _wide_run(self, given: list[Any], state: dict[str, torch.Tensor],
                  generator: torch.Generator | None, unit: float) -> _Run:
        if self._wide is None:
            self._wide = precise.widen_model(self._construct())
        moved = {k: v.double() if v.is_floating_point() else v for k, v in state.items()}
        if generator is not None:
            for tensor in moved.values():
                if tensor.is_floating_point():
                    precise.move(tensor, generator, unit)
        load_snapshot(self._wide, moved)
        inputs = precise.widen_inputs(given, generator, unit)
        torch.manual_seed(self._number("forward"))
        with precise.in_float64():
            out = run_forward(self.task, self._wide, inputs, self.device)
        after = {k: v for k, v in self._wide.state_dict().items() if isinstance(v, torch.Tensor)}
        return _Run(out, tree_leaves(inputs), _detach_from_state(out, after))

    def _moved_eager(self, given: list[Any], state: dict[str, torch.Tensor],
                     generator: torch.Generator, unit: float) -> list[_Run]:
        runs = []
        for _ in range(constants.CONDITION_RUNS):
            leaves = variants.clone_inputs(given)
            for tensor in tree_leaves(leaves):
                if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                    # Half a unit of the type itself: anything smaller would be rounded away.
                    wide = tensor.double()
                    precise.move(wide, generator, 2 * unit)
                    write_values(tensor, wide)
            runs.append(self._eager(leaves, state))
        return runs


def _says_tf32(backend: Any) -> bool:
    """Whether a backend's flag allows TF32; newer PyTorch refuses to mix its two interfaces."""
    try:
        return bool(backend.allow_tf32)
    except RuntimeError:
        return getattr(backend, "fp32_precision", "") == "tf32"


def snapshot(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of everything in `state_dict()` that is a tensor."""
    return {
        k: v.detach().clone() for k, v in model.state_dict().items() if isinstance(v, torch.Tensor)
    }


def load_snapshot(model: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Writes `state` into the model's own tensors, in place."""
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if isinstance(tensor, torch.Tensor) and key in state:
                tensor.copy_(state[key])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same values, NaN equal to NaN."""
    if a is b or torch.equal(a, b):
        return True
    return a.is_floating_point() and torch.equal(a.isnan(), b.isnan()) and torch.equal(
        a.nan_to_num(), b.nan_to_num())


def _detach_from_state(out: Any, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights after a run: copies, unless an output shares memory with one."""
    shared = {x.untyped_storage().data_ptr() for x in tree_leaves(out)
              if isinstance(x, torch.Tensor)}
    return {
        k: v if v.untyped_storage().data_ptr() in shared else v.clone() for k, v in state.items()
    }


def _varied(results: list[Any]) -> bool:
    """Whether any tensor among exact results holds two different values."""
    tensors = [x for x in results if isinstance(x, torch.Tensor) and x.numel()]
    return any(x.numel() == 1 or bool((x != x.reshape(-1)[0]).any()) for x in tensors)
