"""From a task to a file: capture, rewrite, cut into kernels, write with the chosen genes."""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from kernel_evolve_worker.task import LoadedTask, load_task

from offline_author import genes as g
from offline_author import matmul_kernel, pointwise_kernel, rows_kernel
from offline_author.capture import Captured, NotRewritable, capture
from offline_author.expr import ViewError
from offline_author.kernel import Kernel
from offline_author.lower import is_trivial, lower
from offline_author.module_text import ModuleWriter
from offline_author.program import Pointwise, Program
from offline_author.schedule import Group, schedule

_WRITERS = {"pointwise": pointwise_kernel, "rows": rows_kernel, "matmul": matmul_kernel}

_CHECKS = '''
def _expect(name, tensor, dtype, size, stride):
    """The kernels index memory as the task's inputs lie; anything else must not reach them."""
    if tensor.dtype != dtype or tuple(tensor.shape) != size:
        raise ValueError(f"{name} has to be a {dtype} tensor of shape {size}")
    for count, have, want in zip(size, tensor.stride(), stride):
        if count > 1 and have != want:
            raise ValueError(f"{name} has to have the strides {stride}")
'''
_VALUE_CHECK = '''
def _expect_value(name, value, wanted):
    """Numbers are written into the kernels."""
    if value != wanted:
        raise ValueError(f"{name} has to be {wanted!r}")
'''


@dataclass
class Study:
    """What is known of a task. `refusal`: why nothing can be written for it, or ""."""

    task: LoadedTask
    captured: Captured | None
    program: Program | None
    groups: list[Group]
    space: g.Space
    spaces: list[g.Space]
    refusal: str
    operators: list[str]

    @property
    def kernels(self) -> list[Group]:
        return [x for x in self.groups if x.kind != "torch"]


RECURSION_LIMIT = 8000

_STUDIES: dict[str, Study] = {}
_KEPT = 8


def study(source: str, path: str) -> Study:
    """Studies a task; the last few are remembered. Raises WorkerError for a task at fault."""
    key = hashlib.sha256(f"{path}\0{source}".encode()).hexdigest()
    if key not in _STUDIES:
        if len(_STUDIES) >= _KEPT:
            _STUDIES.pop(next(iter(_STUDIES)))
        with _deep_recursion():
            _STUDIES[key] = _study(load_task(source, path))
    return _STUDIES[key]


@contextlib.contextmanager
def _deep_recursion() -> Iterator[None]:
    """An expression is as deep as its chain of operators is long."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _study(task: LoadedTask) -> Study:
    captured: Captured | None = None
    operators: list[str] = []
    try:
        captured = capture(task)
        operators = [
            str(n.target).removesuffix(".default")
            for n in captured.graph.graph.nodes
            if n.op == "call_function" and str(n.target).startswith("aten.")
        ]
        program = lower(captured)
        groups = schedule(program)
        spaces = [_WRITERS[x.kind].space(program, x) for x in groups if x.kind != "torch"]
        _refuse_pointless(task, program, groups)
        space = g.joined(spaces)
        made = Study(task, captured, program, groups, space, spaces, "", operators)
        write(made, space.default)  # what can't be written has to be found now, not later
        return made
    except NotRewritable as error:
        why = str(error)
    except RecursionError:
        why = (
            f"the chain of operators of the task '{task.name}' is too long for the offline "
            "author."
        )
    except ViewError as error:
        why = (
            f"the task '{task.name}' sees memory in a way the offline author can't follow: "
            f"{error}"
        )
    return Study(task, captured, None, [], g.Space(), [], why, operators)


def _refuse_pointless(task: LoadedTask, program: Program, groups: list[Group]) -> None:
    kernels = [x for x in groups if x.kind != "torch"]
    work = [m.d for x in kernels for m in x.members if not is_trivial(m.d)]
    moves = [m.d for x in kernels for m in x.members if isinstance(m.d, Pointwise)]
    if work or (moves and not program.left):
        return
    if program.left:
        names = ", ".join(dict.fromkeys(program.left))
        one = len(set(program.left)) == 1
        raise NotRewritable(
            f"the task '{task.name}' consists of {names}, {'an operator' if one else 'operators'} "
            f"that the offline author leaves to PyTorch, so there is nothing to fuse."
        )
    raise NotRewritable(f"the task '{task.name}' computes nothing: it returns what it is given.")


def write(made: Study, genes: g.Genes) -> str:
    """The candidate's file. The same study and genes give the same text."""
    with _deep_recursion():
        return _write(made, genes)


def _write(made: Study, genes: g.Genes) -> str:
    assert made.captured is not None and made.program is not None
    program = made.program
    launches: list[tuple[Group, Kernel | None]] = []
    number, names = 0, set()
    for group in made.groups:
        if group.kind == "torch":
            launches.append((group, None))
            continue
        space = made.spaces[number]
        number += 1
        name = _kernel_name(group, names)
        own = g.part(genes, number, space)
        launches.append((group, _WRITERS[group.kind].build(program, group, own, name)))
    writer = ModuleWriter(made.captured, program)
    constructor, forward = writer.constructor(), writer.forward(launches)
    checks = ""
    if made.captured.arguments:
        checks += _CHECKS
    if made.captured.scalars:
        checks += ("\n" if checks else "") + _VALUE_CHECK
    parts = ["\n".join(_header(made, genes)), "\n".join(_imports())]
    parts += [k.source for _, k in launches if k is not None]
    if checks:
        parts.append(checks.strip("\n"))
    cls = ["class ModelNew(nn.Module):", *(f"    {x}" for x in constructor), "",
           *(f"    {x}" for x in forward)]  # fmt: skip
    parts.append("\n".join(cls))
    return "\n\n\n".join(parts).replace("\n\n\nimport", "\n\nimport", 1) + "\n"


def _kernel_name(group: Group, taken: set[str]) -> str:
    labels = [m.d.label for m in group.members]
    head = "fused" if group.kind == "pointwise" else labels[0]
    if group.kind == "rows":
        head = "rows_" + "_".join(dict.fromkeys(x for x in labels if x != "out"))
    if group.kind == "matmul":
        head = "matmul" if len(labels) == 1 else "matmul_epilogue"
    head = re.sub(r"\W", "_", head)[:48].strip("_") + "_kernel"
    name, i = head, 2
    while name in taken:
        name, i = f"{head}_{i}", i + 1
    taken.add(name)
    return name


def _header(made: Study, genes: g.Genes) -> list[str]:
    assert made.program is not None
    lines = ["# Written by the offline author of KernelEvolve from the operators of the task",
             f"# {made.task.name}: {_some(made.operators)}."]  # fmt: skip
    for text in dict.fromkeys(made.program.rewrites):
        lines.append(f"# Rewritten: {text}.")
    if made.program.left:
        lines.append(f"# Stays in PyTorch: {_some(made.program.left)}.")
    lines.append(f"# genes: {g.spelled(genes)}")
    return lines


def _some(names: list[str]) -> str:
    short = [n.removeprefix("aten.") for n in dict.fromkeys(names)]
    return ", ".join(short[:8]) + (f" and {len(short) - 8} more" if len(short) > 8 else "")


def _imports() -> list[str]:
    return ["import torch", "import torch.nn as nn", "import triton",
            "import triton.language as tl"]  # fmt: skip
