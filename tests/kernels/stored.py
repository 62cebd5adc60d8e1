"""The counts of all cases, kept beside their measurements so that modelling needs no execution.

counts.json holds, per case, what modelled.counted found, without what is a default and without what
no time depends on; it is made by `calibrate.py --model OUT` and `stored.py OUT`. Needs PyTorch.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COUNTS = HERE / "counts.json"
MEASURED = HERE / "h200.json"
for _folder in ("sdk/worker", "plugins/evaluator_simulator/python"):
    if str(HERE.parents[1] / _folder) not in sys.path:
        sys.path.insert(0, str(HERE.parents[1] / _folder))

import torch  # noqa: E402
from evaluator_simulator.execution import AtenStats, LaunchStats  # noqa: E402
from evaluator_simulator.model import KernelShape  # noqa: E402
from kernel_evolve_worker.correctness.layout import Layout  # noqa: E402
from kernel_evolve_worker.correctness.trace import Operator  # noqa: E402

_UNUSED = {"kernel", "step", "seconds", "programs_run", "reaches_output", "float_atomics", "grid",
           "depth"}


@dataclasses.dataclass
class Counts:
    """What the model starts from. launches: None where the case has no candidate."""

    family: str
    tf32: bool
    operators: list[Operator]
    launches: list[tuple[LaunchStats, KernelShape]] | None
    aten: list[AtenStats]


def _pack(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """The fields that differ from their defaults and that matter."""
    packed = {}
    for field in dataclasses.fields(kind):
        value = values.get(field.name)
        if field.name == "layout":
            value = _pack(Layout, value) if value else {}
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if field.name in _UNUSED or value is None or value == default or value in ({}, [], ()):
            continue
        packed[field.name] = round(value, 3) if isinstance(value, float) else value
    return packed


def _tuples(value: Any) -> Any:
    return tuple(_tuples(x) for x in value) if isinstance(value, list) else value


def _unpack(kind: type, packed: dict[str, Any], **missing: Any) -> Any:
    values = {**missing, **{key: _tuples(value) for key, value in packed.items()}}
    if "layout" in values:
        values["layout"] = _unpack(Layout, values["layout"])
    return kind(**values)


def _runs(steps: list[Any]) -> list[Any]:
    """[step, how often it comes one after the other]..."""
    found: list[list[Any]] = []
    for step in steps:
        if found and found[-1][0] == step:
            found[-1][1] += 1
        else:
            found.append([step, 1])
    return found


def _steps(runs: list[Any]) -> list[Any]:
    return [step for step, times in runs for _ in range(times)]


def pack(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of modelled.write_all, made small."""
    found = {"family": entry["family"],
             "operators": _runs([_pack(Operator, op) for op in entry["operators"]])}
    if entry["tf32"]:
        found["tf32"] = True
    if "launches" in entry:
        found["launches"] = _runs([{"stats": _pack(LaunchStats, x["stats"]),
                                    "shape": _pack(KernelShape, x["shape"])}
                                   for x in entry["launches"]])
        found["aten"] = [_pack(AtenStats, x) for x in entry["aten"]]
    return found


def unpack(packed: dict[str, Any]) -> Counts:
    operators = [
        dataclasses.replace(op, dtype=getattr(torch, str(op.dtype), None)) for op in (
            _unpack(Operator, op, read_bytes=0, written_bytes=0, flops=0, dtype=None, depth=1)
            for op in _steps(packed["operators"]))]
    launches = None
    if "launches" in packed:
        launches = [(_unpack(LaunchStats, x["stats"], kernel="", grid=(1, 1, 1)),
                     _unpack(KernelShape, x["shape"])) for x in _steps(packed["launches"])]
    return Counts(packed["family"], packed.get("tf32", False), operators, launches,
                  [_unpack(AtenStats, x) for x in packed.get("aten", [])])


def load() -> dict[str, Counts]:
    """Every case by name."""
    return {name: unpack(entry)
            for name, entry in json.loads(COUNTS.read_text(encoding="utf-8")).items()}


def main() -> int:
    """Makes the counts in the files given small; later files replace cases of earlier ones."""
    found: dict[str, Any] = json.loads(COUNTS.read_text("utf-8")) if COUNTS.exists() else {}
    for path in sys.argv[1:]:
        for name, entry in json.loads(Path(path).read_text(encoding="utf-8")).items():
            if "error" in entry:
                print(f"{name}: {entry['error']}", file=sys.stderr)
                return 1
            found[name] = pack(entry)
    lines = [f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}"
             for name, entry in found.items()]
    COUNTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
