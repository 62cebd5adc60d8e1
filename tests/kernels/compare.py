"""Compares modelled with measured times for all cases: by family, by shipped task, in rank.

usage: compare.py [--cases] [--write]

Needs no execution: counts.json and h200.json hold both sides. --cases prints each case; --write
puts the tables into the simulator's MODEL.md, where a test finds out whether they are still true.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import stored  # noqa: E402
from evaluator_simulator import hardware, model  # noqa: E402

DOCUMENT = stored.HERE.parents[1] / "plugins/evaluator_simulator/MODEL.md"
BEGIN, END = "<!-- tables: tests/kernels/compare.py --write -->", "<!-- end of tables -->"


@dataclass(frozen=True)
class Compared:
    """Times in ms; candidate: 0 where the case has none. measured_*: medians."""

    name: str
    family: str
    eager: float
    candidate: float
    measured_eager: float
    measured_candidate: float

    @property
    def ratio(self) -> float:
        return self.eager / self.candidate

    @property
    def measured_ratio(self) -> float:
        return self.measured_eager / self.measured_candidate

    @property
    def false_win(self) -> bool:
        """Modelled faster, measured not."""
        return self.ratio > hardware.CLAIM and self.measured_ratio <= 1.0


def modelled(counts: stored.Counts) -> tuple[float, float]:
    """Seconds of eager and of the candidate (0: none)."""
    eager = model.eager_time(counts.operators, counts.tf32)
    if counts.launches is None:
        return eager, 0.0
    steps = [model.launch_time(stats, shape).seconds for stats, shape in counts.launches]
    steps += [model.aten_time(op, counts.tf32) for op in counts.aten]
    return eager, model.call_time(steps)


def compare() -> list[Compared]:
    """All cases."""
    measured = json.loads(stored.MEASURED.read_text(encoding="utf-8"))["cases"]
    found = []
    for name, counts in stored.load().items():
        eager, candidate = modelled(counts)
        entry = measured[name]
        found.append(Compared(name, counts.family, eager * 1e3, candidate * 1e3,
                              entry["eager"]["ms"],
                              entry["candidate"]["ms"] if "candidate" in entry else 0.0))
    return found


def pairs(cases: Iterable[Compared]) -> list[Compared]:
    return [case for case in cases if case.candidate]


def ranks(values: list[float]) -> list[float]:
    """1 for the smallest; equal ones share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in range(first, last + 1):
            found[order[place]] = (first + last) / 2 + 1
        first = last + 1
    return found


def rank_correlation(cases: list[Compared]) -> float:
    """Spearman's, of modelled and measured ratios."""
    one, other = (ranks([getattr(case, key) for case in cases])
                  for key in ("ratio", "measured_ratio"))
    middle = (len(cases) + 1) / 2
    shared = sum((a - middle) * (b - middle) for a, b in zip(one, other))
    return shared / math.sqrt(sum((a - middle) ** 2 for a in one)
                              * sum((b - middle) ** 2 for b in other))


def unseen(cases: list[Compared]) -> list[Compared]:
    """Those that no constant is taken from: hardware.py doesn't name them."""
    text = Path(hardware.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b", text))
    return [case for case in cases if case.name not in named and case.family != "tasks"]


def spread(values: list[float]) -> str:
    """"0.95 (0.81 to 1.20)": the geometric mean and the extremes of quotients."""
    mean = math.exp(sum(math.log(value) for value in values) / len(values))
    return f"{mean:.2f} ({min(values):.2f} to {max(values):.2f})"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _family_rows(cases: list[Compared]) -> list[str]:
    """One line per family; modelled / measured."""
    kinds: list[tuple[str, Callable[[Compared], float]]] = [
        ("eager", lambda c: c.eager / c.measured_eager),
        ("candidate", lambda c: c.candidate / c.measured_candidate),
        ("ratio", lambda c: c.ratio / c.measured_ratio)]
    lines = [_row(["family", "cases", *(kind for kind, _ in kinds)]), "|---|---|---|---|---|"]
    for family in dict.fromkeys(case.family for case in cases):
        members = [case for case in cases if case.family == family]
        cells = [spread([quotient(case) for case in members])
                 if kind == "eager" or members[0].candidate else "" for kind, quotient in kinds]
        lines.append(_row([family, str(len(members)), *cells]))
    return lines


def _task_rows(cases: list[Compared]) -> list[str]:
    lines = [_row(["task", "eager modelled", "measured", "candidate modelled", "measured",
                   "ratio modelled", "measured"]), "|---|---|---|---|---|---|---|"]
    for case in cases:
        if case.family == "tasks":
            lines.append(_row([
                case.name.removeprefix("task_"), f"{case.eager:.4f}", f"{case.measured_eager:.4f}",
                f"{case.candidate:.4f}", f"{case.measured_candidate:.4f}",
                f"{case.ratio:.3g}", f"{case.measured_ratio:.3g}"]))
    return lines


def tables() -> str:
    """What MODEL.md says between its marks."""
    cases = compare()
    both = pairs(cases)
    held = unseen(both)
    false = [case.name for case in both if case.false_win]
    return "\n".join([
        "Shipped tasks, candidates as the offline author guesses first, milliseconds:", "",
        *_task_rows(cases), "",
        "Modelled / measured by family, geometric mean (smallest to largest):", "",
        *_family_rows(cases), "",
        f"Rank correlation (Spearman) of modelled and measured ratio over {len(both)} pairs: "
        f"{rank_correlation(both):.3f};",
        f"over the {len(held)} that no constant is taken from: {rank_correlation(held):.3f}.",
        f"Modelled above {hardware.CLAIM:g}x but measured not faster: "
        f"{', '.join(false) or 'none'}."])


def main() -> int:
    if "--cases" in sys.argv:
        for case in compare():
            line = (f"{case.name:26s} eager {case.eager:9.4f} measured {case.measured_eager:9.4f} "
                    f"({case.eager / case.measured_eager:.2f})")
            if case.candidate:
                line += (f"  candidate {case.candidate:8.4f} {case.measured_candidate:8.4f} "
                         f"({case.candidate / case.measured_candidate:.2f})  ratio "
                         f"{case.ratio:8.3f} {case.measured_ratio:8.3f}")
            print(line + ("  FALSE WIN" if case.candidate and case.false_win else ""))
    if "--write" in sys.argv:
        text = DOCUMENT.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        DOCUMENT.write_text(f"{before}{BEGIN}\n{tables()}\n{END}{after}", encoding="utf-8")
    else:
        print(tables())
    return 0


if __name__ == "__main__":
    sys.exit(main())
