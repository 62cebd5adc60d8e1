"""Genes: the tunable numbers of the kernels, and the search over them.

A space lists the values of each gene, a rule for which combinations make sense, and a first guess.
The search is coordinate descent around the best point known, read from the attempts' summaries, so
it needs no memory of its own: the same attempts give the same next point.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Genes = dict[str, int]

_IN_SUMMARY = re.compile(r"genes (\{[^{}]*\})")
#: Beyond this many points the search calls a space exhausted.
POINT_LIMIT = 4096


@dataclass
class Space:
    """Values of each gene in rising order, the first guess, and which points make sense."""

    values: dict[str, list[int]] = field(default_factory=dict)
    default: Genes = field(default_factory=dict)
    legal: Callable[[Genes], bool] = lambda genes: True

    def with_hints(self, hints: Genes) -> Space:
        """The space with genes fixed by the user; a value that isn't listed is added."""
        values = dict(self.values)
        default = dict(self.default)
        for name, value in hints.items():
            for mine in self.values:
                if mine == name or mine.rpartition(".")[2] == name:
                    values[mine] = [value]
                    default[mine] = value
        fixed = {n for n in values if len(values[n]) == 1 and values[n] != self.values[n]}
        legal = self.legal if not fixed else lambda genes: True
        return Space(values, default, legal)


def joined(spaces: list[Space]) -> Space:
    """The space of a file with several kernels: from the second on, genes are `k2.NAME`."""
    if len(spaces) == 1:
        return spaces[0]
    values: dict[str, list[int]] = {}
    default: Genes = {}
    for i, space in enumerate(spaces, start=1):
        for name, options in space.values.items():
            values[gene_name(i, name)] = options
            default[gene_name(i, name)] = space.default[name]

    def legal(genes: Genes) -> bool:
        return all(s.legal(part(genes, i, s)) for i, s in enumerate(spaces, start=1))

    return Space(values, default, legal)


def gene_name(kernel: int, name: str) -> str:
    return name if kernel == 1 else f"k{kernel}.{name}"


def part(genes: Genes, kernel: int, space: Space) -> Genes:
    """The genes of one kernel of the file, under their plain names."""
    return {n: genes.get(gene_name(kernel, n), space.default[n]) for n in space.values}


def spelled(genes: Genes) -> str:
    return json.dumps(genes)


def of_summary(summary: str) -> Genes | None:
    """The genes named in a candidate's summary, or None."""
    found = _IN_SUMMARY.search(summary or "")
    if found is None:
        return None
    try:
        genes = json.loads(found.group(1))
    except ValueError:
        return None
    return genes if all(isinstance(v, int) for v in genes.values()) else None


def stalled(attempts: list[dict[str, Any]], patience: int) -> bool:
    """Whether the last `patience` attempts brought nothing better than those before them."""
    speeds = [a.get("speedup") or 0.0 if _works(a) else 0.0 for a in attempts]
    return len(speeds) > patience and max(speeds[-patience:]) <= max(speeds[:-patience])


def of_hints(hints: list[Any]) -> Genes:
    """Genes that a user's hints fix, such as `num_warps=8` anywhere in the text."""
    found: Genes = {}
    for hint in hints:
        for name, value in re.findall(r"\b([A-Za-z_][\w.]*)\s*=\s*(\d+)\b", str(hint)):
            found[name] = int(value)
    return found


@dataclass
class Choice:
    """The next point, or the best known again with `exhausted` set."""

    genes: Genes
    exhausted: bool
    why: str


@dataclass
class Search:
    """What is known of a space, and what to try next."""

    space: Space
    attempts: list[dict[str, Any]]
    parent: Genes | None
    seed: int

    def choose(self) -> Choice:
        tried: dict[str, dict[str, Any]] = {}
        for attempt in self.attempts:
            genes = of_summary(attempt.get("summary", ""))
            if genes is not None and set(genes) == set(self.space.values):
                tried[self._key(genes)] = {"genes": genes, **attempt}
        start = self._first()
        if self._key(start) not in tried:
            return Choice(start, False, "first guess")
        good = [t for t in tried.values() if _works(t)]
        if not good:
            return self._away(tried)
        best = max(good, key=lambda t: t.get("speedup") or 0.0)["genes"]
        base = best
        if self.parent is not None and any(t["genes"] == self.parent for t in good):
            base = self.parent
        for centre in (base, best):
            for point in self._around(centre):
                if self._key(point) not in tried:
                    return Choice(point, False, f"{_moved(centre, point)} from {spelled(centre)}")
        rest = [p for p in self._every() if self._key(p) not in tried]
        if rest:
            rest.sort(key=lambda p: (self._distance(p, best), self._key(p)))
            nearest = [p for p in rest if self._distance(p, best) == self._distance(rest[0], best)]
            point = nearest[random.Random(self.seed).randrange(len(nearest))]
            return Choice(point, False, f"{_moved(best, point)} from {spelled(best)}")
        return Choice(best, True, "search space exhausted")

    def _first(self) -> Genes:
        if self.space.legal(self.space.default):
            return dict(self.space.default)
        return next(iter(self._every()), dict(self.space.default))

    def _key(self, genes: Genes) -> str:
        return json.dumps(genes, sort_keys=True)

    def _around(self, centre: Genes) -> Iterator[Genes]:
        """Legal points that differ in one gene: next values first, then farther ones.

        The order of the genes, and which direction comes first, follow the seed.
        """
        order = list(self.space.values)
        turn = random.Random(self.seed)
        turn.shuffle(order)
        for step in range(1, max((len(v) for v in self.space.values.values()), default=1)):
            for name in order:
                options = self.space.values[name]
                if centre.get(name) not in options:
                    continue
                at = options.index(centre[name])
                for place in (at + step, at - step):
                    if 0 <= place < len(options):
                        point = {**centre, name: options[place]}
                        if self.space.legal(point):
                            yield point

    def _every(self) -> Iterator[Genes]:
        names = list(self.space.values)
        points = itertools.product(*(self.space.values[n] for n in names))
        for values in itertools.islice(points, POINT_LIMIT):
            genes = dict(zip(names, values, strict=True))
            if self.space.legal(genes):
                yield genes

    def _distance(self, one: Genes, other: Genes) -> int:
        """Steps between two points, over all genes."""
        total = 0
        for name, options in self.space.values.items():
            places = [options.index(g[name]) if g.get(name) in options else 0 for g in (one, other)]
            total += abs(places[0] - places[1])
        return total

    def _away(self, tried: dict[str, dict[str, Any]]) -> Choice:
        """Nothing works yet: the point farthest from all failures, small tiles first."""
        failed = [t["genes"] for t in tried.values()]
        rest = [p for p in self._every() if self._key(p) not in tried]
        if not rest:
            return Choice(failed[-1], True, "search space exhausted")

        def rank(p: Genes) -> tuple:
            near = min(self._distance(p, f) for f in failed)
            size = sum(v for n, v in p.items() if n.rpartition(".")[2].startswith("BLOCK"))
            return (-near, size, self._key(p))

        point = min(rest, key=rank)
        return Choice(point, False, f"away from {len(failed)} failed point"
                      f"{'s' if len(failed) != 1 else ''}")  # fmt: skip


def _works(attempt: dict[str, Any]) -> bool:
    """A point to search around: it ran, was right, or has only been compiled so far."""
    return bool(attempt.get("ok")) and attempt.get("correct") is not False


def _moved(old: Genes, new: Genes) -> str:
    return ", ".join(f"{n} {old.get(n)} -> {v}" for n, v in new.items() if old.get(n) != v)
