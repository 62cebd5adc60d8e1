"""Structured control flow: loops, branches and calls, for programs that may disagree.

Where all running programs agree, a branch or a loop is simply taken. Where they don't, both sides
run with the other programs switched off (`run.active`) and the results are blended.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from .registry import operation
from .values import Uncovered, blend, dense

if TYPE_CHECKING:
    from .interpreter import Run
    from .ttir_parser import Op

_FOR = re.compile(
    r"(?:unsigned )?(%[\w$.\-]+) = (%[\w$.\-#]+) to (%[\w$.\-#]+) step (%[\w$.\-#]+)"
    r"(?:\s+iter_args\((.*?)\))?"
)
_PAIR = re.compile(r"(%[\w$.\-]+) = (%[\w$.\-]+(?:#\d+)?)")


def _agreed(value: torch.Tensor, active: torch.Tensor | None) -> int | bool | None:
    """The one value that all running programs hold, or None."""
    value = value.reshape(-1)
    if value.numel() > 1 and active is not None:
        value = value[active]
    if value.numel() == 0:
        return None
    first = value[0]
    return first.item() if value.numel() == 1 or bool((value == first).all()) else None


@operation("scf.for")
def _for(run: Run, op: Op, args: list[Any]) -> Any:
    if "header" not in op.cache:
        match = _FOR.match(op.rest)
        if not match:
            raise Uncovered(f"scf.for {op.rest[:60]}")
        op.cache["header"] = (*match.groups()[:4], _PAIR.findall(match[5] or ""))
    variable, low, high, step, pairs = op.cache["header"]
    env, body = run.env, op.regions[0].entry
    low, high, step = dense(env[low]), dense(env[high]), dense(env[step])
    values = [env[initial] for _, initial in pairs]
    names = [name for name, _ in pairs]
    bounds = [_agreed(value, run.active) for value in (low, high, step)]
    if None not in bounds:
        for index in range(*bounds):
            env[variable] = torch.tensor([index], dtype=low.dtype)
            values = _iterate(run, body, names, values)
    else:
        values = _for_divergent(run, body, variable, (low, high, step), names, values)
    return _results(op, values)


def _iterate(run: Run, body: Any, names: list[str], values: list[Any]) -> list[Any]:
    for name, value in zip(names, values):
        run.env[name] = value
    return run.block(body)


def _for_divergent(run: Run, body: Any, variable: str, bounds: tuple[torch.Tensor, ...],
                   names: list[str], values: list[Any]) -> list[Any]:
    """A loop whose trip count differs between programs: the short ones are switched off."""
    low, high, step = (bound.to(torch.int64).reshape(-1) for bound in bounds)
    if bool((step <= 0).any()):
        raise Uncovered("scf.for with a step that is not positive")
    trips = ((high - low + step - 1) // step).clamp(min=0).expand(run.programs)
    outer = run.active
    longest = trips if outer is None else trips[outer]
    for turn in range(int(longest.max()) if longest.numel() else 0):
        on = trips > turn
        now = on if outer is None else on & outer
        run.set_active(None if bool(now.all()) else now)
        run.env[variable] = (low + turn * step).to(bounds[0].dtype)
        new = _iterate(run, body, names, values)
        values = new if run.active is None else [blend(now, n, v) for n, v in zip(new, values)]
    run.set_active(outer)
    return values


@operation("scf.while")
def _while(run: Run, op: Op, args: list[Any]) -> Any:
    if "pairs" not in op.cache:
        op.cache["pairs"] = _PAIR.findall(op.rest)
    pairs = op.cache["pairs"]
    env = run.env
    names = [name for name, _ in pairs]
    values = [env[initial] for _, initial in pairs]
    before, after = (region.entry for region in op.regions)
    outer, passed = run.active, None
    while True:
        condition, *given = _iterate(run, before, names, values)
        condition = dense(condition).reshape(-1)
        passed = given if passed is None or run.active is None else [
            blend(run.active, n, p) for n, p in zip(given, passed)
        ]
        agreed = _agreed(condition, run.active)
        if agreed is None:
            now = condition if run.active is None else condition & run.active
            run.set_active(now.expand(run.programs))
        elif not agreed:
            break
        for (name, _), value in zip(after.arguments, passed):
            env[name] = value
        values = run.block(after)
    run.set_active(outer)
    return _results(op, passed)


@operation("scf.if")
def _if(run: Run, op: Op, args: list[Any]) -> Any:
    condition = dense(run.env[op.operands[0]]).reshape(-1)
    agreed = _agreed(condition, run.active)
    if agreed is not None:
        if agreed:
            return _results(op, run.block(op.regions[0].entry))
        return _results(op, run.block(op.regions[1].entry)) if len(op.regions) > 1 else None
    outer = run.active
    condition = condition.expand(run.programs)
    run.set_active(condition if outer is None else condition & outer)
    yes = run.block(op.regions[0].entry)
    no: list[Any] = []
    if len(op.regions) > 1:
        run.set_active(~condition if outer is None else ~condition & outer)
        no = run.block(op.regions[1].entry)
    run.set_active(outer)
    if not op.results:
        return None
    return _results(op, [blend(condition, y, n) for y, n in zip(yes, no)])


def _results(op: Op, values: list[Any]) -> Any:
    return values if len(op.results) > 1 else (values[0] if op.results else None)


@operation("tt.call")
def _call(run: Run, op: Op, args: list[Any]) -> Any:
    match = re.match(r"@(\"[^\"]+\"|[\w$.\-]+)", op.rest)
    function = run.module.functions.get(match[1].strip('"')) if match else None
    if function is None:
        raise Uncovered(f"tt.call {op.rest[:60]}")
    return _results(op, run.call(function, args))


@operation("scf.yield", "tt.reduce.return", "tt.scan.return", "scf.condition", "tt.return")
def _terminator(run: Run, op: Op, args: list[Any]) -> Any:
    run.yielded = args
    return None


@operation("cf.br")
def _jump(run: Run, op: Op, args: list[Any]) -> Any:
    run.yielded = ("jump", _targets(run, op)[0])
    return None


@operation("cf.cond_br")
def _branch(run: Run, op: Op, args: list[Any]) -> Any:
    run.yielded = ("branch", dense(args[0]).reshape(-1), *_targets(run, op))
    return None


def _targets(run: Run, op: Op) -> list[tuple[str, list[Any]]]:
    if "targets" not in op.cache:
        op.cache["targets"] = [
            (label, re.findall(r"%[\w$.\-]+(?:#\d+)?", given or ""))
            for label, given in re.findall(r"(\^\w+)(?:\(([^)]*)\))?", op.rest)
        ]
    return [(label, [run.env[name] for name in names]) for label, names in op.cache["targets"]]


def take_jump(run: Run, region: Any, outcome: tuple[Any, ...]) -> list[Any]:
    """Continues a function after a jump, to its return; gives the returned values."""
    if outcome[0] == "jump":
        return run.region_from(region, *outcome[1])
    _, condition, yes, no = outcome
    agreed = _agreed(condition, run.active)
    if agreed is not None:
        return run.region_from(region, *(yes if agreed else no))
    outer = run.active
    condition = condition.expand(run.programs)
    run.set_active(condition if outer is None else condition & outer)
    first = run.region_from(region, *yes)
    run.set_active(~condition if outer is None else ~condition & outer)
    second = run.region_from(region, *no)
    run.set_active(outer)
    return [blend(condition, y, n) for y, n in zip(first, second)]
