"""An expression as a short formula, for the comments of written kernels."""

from __future__ import annotations

from offline_author.expr import Const, Expr, Load, Pw

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^"}  # fmt: skip
WIDTH = 88


def formula(expr: Expr) -> str:
    """At most WIDTH characters; what doesn't fit is named by its operations instead."""
    text = _text(expr, 40)
    if text is not None and len(text) <= WIDTH:
        return text.removeprefix("(").removesuffix(")") if _is_wrapped(text) else text
    ops: list[str] = []
    names: list[str] = []
    _collect(expr, ops, names, set())
    return f"{', '.join(dict.fromkeys(ops))} of {', '.join(dict.fromkeys(names))}"[:WIDTH]


def _is_wrapped(text: str) -> bool:
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return False
    return True


def _text(expr: Expr, budget: int) -> str | None:
    if budget <= 0:
        return None
    if isinstance(expr, Const):
        return f"{expr.value:.6g}" if isinstance(expr.value, float) else str(expr.value)
    if isinstance(expr, Load):
        return "index" if expr.buffer.kind == "iota" else expr.buffer.name
    assert isinstance(expr, Pw)
    parts = [_text(a, budget - 1) for a in expr.args]
    if any(p is None for p in parts) or sum(len(p or "") for p in parts) > WIDTH:
        return None
    if expr.op in ("cast", "round"):
        return parts[0]
    if expr.op in _INFIX:
        return f"({parts[0]} {_INFIX[expr.op]} {parts[1]})"
    return f"{expr.op}({', '.join(p or '' for p in parts)})"


def _collect(expr: Expr, ops: list[str], names: list[str], seen: set[int]) -> None:
    if expr.uid in seen:
        return
    seen.add(expr.uid)
    if isinstance(expr, Load) and expr.buffer.kind != "iota":
        names.append(expr.buffer.name)
    if isinstance(expr, Pw):
        for a in expr.args:
            _collect(a, ops, names, seen)
        if expr.op not in ("cast", "round"):
            ops.append(expr.op)
