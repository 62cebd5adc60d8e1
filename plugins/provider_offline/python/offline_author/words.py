"""What the author says: the analysis of a task, the summary of a candidate, the lesson of a try."""

from __future__ import annotations

from typing import Any

from offline_author import genes as g
from offline_author.author import Study
from offline_author.program import Matmul, Reduction
from offline_author.schedule import Group

_KIND_WORDS = {
    "pointwise": "one elementwise pass",
    "rows": "one pass per row with its reductions in registers",
    "matmul": "a tiled matrix product with its epilogue",
}


def analysis(made: Study) -> dict[str, Any]:
    """The arguments of submit_analysis."""
    if made.refusal:
        names = ", ".join(dict.fromkeys(made.operators))
        captured = f" Captured operators: {names}." if names else ""
        text = f"Nothing can be rewritten: {made.refusal}{captured}"
        return {"analysis": text, "ideas": [], "rewritable": False}
    assert made.program is not None
    program = made.program
    parts = [f"Captured operators: {', '.join(made.operators)}."]
    for text in dict.fromkeys(program.rewrites):
        parts.append(f"Rewrite: {text}.")
    for i, group in enumerate(made.kernels, start=1):
        parts.append(f"Kernel {i}: {_KIND_WORDS[group.kind]} ({_shape(group)}).")
    if program.left:
        parts.append(f"Stays in PyTorch: {', '.join(dict.fromkeys(program.left))}.")
    gigabytes = _traffic(made) / 1e9
    parts.append(f"The kernels move at least {gigabytes:.4g} GB.")
    return {"analysis": " ".join(parts), "ideas": _ideas(made), "rewritable": True}


def _shape(group: Group) -> str:
    head = group.members[0].d
    if isinstance(head, Matmul):
        b, m, k = head.a.shape
        size = f"[{m}, {k}] @ [{k}, {head.b.shape[-1]}]"
        return f"{size}, {b} times" if b > 1 else size
    if group.kind == "rows":
        reductions = [m.d.op for m in group.members if isinstance(m.d, Reduction)]
        rows, red = _times(group.rows), _times(group.red)
        return f"{rows} rows of {red}; {', '.join(reductions)}"
    return f"{_times(group.rows)} elements, {len(group.stored)} outputs"


def _times(size: tuple[int, ...]) -> str:
    return " x ".join(str(n) for n in size) or "1"


def _traffic(made: Study) -> int:
    """Bytes that the kernels read and write at least: each buffer once per kernel."""
    assert made.program is not None
    total = 0
    for group in made.kernels:
        touched = {**group.read(), **{n: made.program.buffers[n] for n in group.stored}}
        total += sum(b.numel * b.dtype.itemsize for b in touched.values())
    return total


def _ideas(made: Study) -> list[str]:
    """What the search is going to move, and what a person might try beyond it."""
    ideas = []
    kinds = {x.kind for x in made.kernels}
    names = sorted({n.rpartition(".")[2] for n in made.space.values})
    ideas.append(f"move the genes {', '.join(names)}, one at a time, around the best point")
    if "matmul" in kinds:
        ideas.append("a matrix product in fp32 is bound by arithmetic: tile shapes decide")
    if len(made.kernels) > 1:
        ideas.append(f"the {len(made.kernels)} kernels pass values through memory: fuse further")
    if kinds == {"pointwise"}:
        ideas.append("the kernel is bound by memory: only wide, coalesced accesses help")
    return ideas


def title(made: Study) -> str:
    """What the candidate is, in a few words."""
    assert made.program is not None
    counts = {k: sum(x.kind == k for x in made.kernels) for k in _KIND_WORDS}
    names = {"pointwise": "elementwise", "rows": "row", "matmul": "matrix"}
    texts = [
        f"{n} {names[k]} kernel{'s' if n > 1 else ''}" for k, n in counts.items() if n
    ]  # fmt: skip
    stays = f", {len(made.program.left)} operators in PyTorch" if made.program.left else ""
    rewritten = ", rewritten algebra" if made.program.rewrites else ""
    return f"{' and '.join(texts)}{rewritten}{stays}"


def summary(made: Study, choice: g.Choice) -> str:
    """One line; the search reads the genes back from it."""
    head = "search space exhausted; the best again: " if choice.exhausted else ""
    return f"{head}{title(made)}; {choice.why}; genes {g.spelled(choice.genes)}"


def lesson(context: dict[str, Any]) -> dict[str, str]:
    """The arguments of record_lesson, from the last verdict and what it changed."""
    last = context.get("last") or {}
    verdict = last.get("verdict") or {}
    genes = g.of_summary(last.get("summary", ""))
    name = last.get("id", "the candidate")
    if not verdict:
        return {"lesson": "No verdict is known yet.", "next": "Try the first guess."}
    if not (verdict.get("ok") and verdict.get("correct", True) is not False):
        stage, reason = verdict.get("stage", "?"), verdict.get("reason", "")
        where = f" with {g.spelled(genes)}" if genes else ""
        return {"lesson": f"{name}{where} failed at {stage}: {reason}",
                "next": "Move away from these genes."}  # fmt: skip
    speedup = (verdict.get("metrics") or {}).get("speedup")
    gained = f"{speedup:.4g}x" if isinstance(speedup, (int, float)) else "no measured speedup"
    before = _before(context, last)
    if before is None or genes is None:
        return {"lesson": f"{name} reaches {gained}.", "next": "Move one gene at a time."}
    old = g.of_summary(before.get("summary", "")) or {}
    moved = ", ".join(f"{n} {old.get(n)} -> {v}" for n, v in genes.items() if old.get(n) != v)
    then = before.get("speedup")
    if not isinstance(then, (int, float)) or not isinstance(speedup, (int, float)):
        return {"lesson": f"{name} reaches {gained} with {moved or 'the same genes'}.",
                "next": "Move one gene at a time."}  # fmt: skip
    ratio = speedup / then if then else float("inf")
    verb = "helps" if ratio > 1.005 else "hurts" if ratio < 0.995 else "changes nothing"
    text = (f"{moved or 'The same genes'}: {gained} after {then:.4g}x with {before['id']}, "
            f"a factor of {ratio:.4g}; it {verb}.")  # fmt: skip
    follow = {"helps": "Go on in this direction.", "hurts": "Turn back and move another gene.",
              "changes nothing": "Move another gene."}[verb]  # fmt: skip
    return {"lesson": text, "next": follow}


def _before(context: dict[str, Any], last: dict[str, Any]) -> dict[str, Any] | None:
    """The attempt to compare with: the last one's parent, else the best of the earlier ones."""
    earlier = []
    for attempt in context.get("attempts") or []:
        if attempt.get("id") == last.get("id"):
            break
        earlier.append(attempt)
    for attempt in earlier:
        if attempt.get("id") == last.get("parent"):
            return attempt
    good = [a for a in earlier if a.get("ok") and isinstance(a.get("speedup"), (int, float))]
    return max(good, key=lambda a: a["speedup"]) if good else None
