"""Turns what went wrong with a candidate into a stage, a code and one sentence with its line."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

from kernel_evolve_worker.correctness.untrusted import plain
from kernel_evolve_worker.recording.compiled import Forged, definition_line
from kernel_evolve_worker.recording.driver import AutotuneTooWide
from kernel_evolve_worker.recording.facade import Uncovered
from kernel_evolve_worker.recording.recorder import HostOutput, StaleTensor
from kernel_evolve_worker.recording.remembered import Opaque
from kernel_evolve_worker.recording.transfer import Mismatch

MAX_TEXT = 300


def failure(stage: str, code: str, reason: str, line: int | None = None,
            feedback: list[str] | None = None) -> dict[str, Any]:
    """The record of a candidate that gave no tape."""
    lines = [plain(text) for text in feedback or [reason]]
    return {"ok": False, "stage": stage, "code": code, "reason": plain(reason), "line": line,
            "feedback": lines}


def one_line(text: object) -> str:
    flat = " ".join(str(text).split())
    return flat if len(flat) <= MAX_TEXT else flat[: MAX_TEXT - 3] + "..."


def own_line(error: BaseException, source: str) -> int | None:
    """The last line of the candidate's file in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == source]
    return lines[-1] if lines else None


def describe(error: BaseException, source: str, where: str, last: Any = None,
             printed: str = "") -> dict[str, Any]:
    """The record for an exception that left the candidate's code.

    source: the candidate's path. where: what was running, "in forward". last: the kernel that was
    launched last, for errors that name none. printed: what the compiler wrote to stderr.
    """
    line = own_line(error, source)
    if isinstance(error, Uncovered):
        at = f" (line {line})" if line else ""
        return failure("correctness", "uncovered", f"uncovered: {one_line(error)}{at}", line)
    if isinstance(error, HostOutput):
        return failure("correctness", "output_device", f"{one_line(error)}.")
    if isinstance(error, Mismatch):
        return failure("integrity", "weights_mismatch", str(error))
    if isinstance(error, (StaleTensor, Opaque)):
        return failure("integrity", "state_across_calls", f"{_place(line)}{one_line(error)}.", line)
    if isinstance(error, Forged):
        return failure("integrity", "forged", f"{_place(line)}{one_line(error)}.", line)
    if isinstance(error, AutotuneTooWide):
        return failure("policy", "autotune_too_wide", f"{_place(line)}{one_line(error)}.", line)
    wanted = _out_of_memory(error)
    if wanted is not None:
        return failure("integrity", "candidate_error",
                       f"{_place(line)}the candidate takes more memory than there is, {where}"
                       f"{wanted}.", line)
    compiled = _compiler_error(error, source, line, last, printed)
    if compiled is not None:
        return compiled
    text = one_line(error)
    kind = type(error).__name__
    return failure("integrity", "candidate_error",
                   f"{_place(line)}{kind} {where}{': ' + text if text else '.'}", line)


def _out_of_memory(error: BaseException) -> str | None:
    """How much an allocation that failed asked for, in words; None for other errors."""
    if isinstance(error, MemoryError):
        return ""
    if not isinstance(error, RuntimeError) or "allocate memory" not in str(error):
        return None
    asked = re.search(r"tried to allocate (\d+) bytes", str(error))
    return f": {int(asked[1]) >> 20} MiB at once" if asked else ""


def _place(line: int | None) -> str:
    return f"line {line}: " if line else ""


def _compiler_error(error: BaseException, source: str, line: int | None, last: Any,
                    printed: str) -> dict[str, Any] | None:
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import AutotunerError, OutOfResources, PTXASError

    if isinstance(error, CompilationError):
        return _front_end(error, source, line)
    kernel = _kernel_in(error) or getattr(last, "fn", None)
    name = getattr(kernel, "__name__", "the kernel")
    defined = definition_line(kernel) if kernel is not None else line
    if isinstance(error, OutOfResources):
        return failure(
            "compile", "out_of_resources",
            f"{_place(defined)}{name} needs {error.required} of {error.name}, the GPU has "
            f"{error.limit}: use smaller blocks or fewer stages.", defined)
    if isinstance(error, PTXASError):
        found = re.search(r"(?:; error|ptxas fatal|ptxas error)\s*:\s*(.+)",
                          error.error_message or "")
        return failure("compile", "ptxas_error",
                       f"{_place(defined)}ptxas rejects {name}: "
                       f"{one_line(found[1] if found else error)}", defined)
    if isinstance(error, AutotunerError):
        return failure("compile", "autotune_error", f"{_place(line)}{one_line(error)}", line)
    inside = any("/triton/" in frame.filename
                 for frame in traceback.extract_tb(error.__traceback__)[-1:])
    if inside:
        diagnostic = _diagnostic(printed, source)
        if diagnostic is not None:
            where, text = diagnostic
            return failure("compile", "compile_error",
                           f"{_place(where or defined)}{one_line(text)}", where or defined)
        text = one_line(error)
        kind = type(error).__name__
        return failure("compile", "compile_error",
                       f"{_place(line or defined)}{kind}{': ' + text if text else '.'}",
                       line or defined)
    return None


def _kernel_in(error: BaseException) -> Any:
    """The kernel that Triton was compiling when the error arose."""
    from triton.runtime.jit import JITFunction

    found, trace = None, error.__traceback__
    while trace is not None:
        holder = trace.tb_frame.f_locals.get("self")
        if type(holder) is JITFunction:
            found = holder
        trace = trace.tb_next
    return found


def _front_end(error: Any, source: str, line: int | None) -> dict[str, Any]:
    """An error of Triton's front end: the innermost function and its own line."""
    inner, seen = error, set()
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        cause = inner.__cause__ or inner.__context__
        if not hasattr(cause, "node"):
            break
        inner = cause
    offset = getattr(getattr(inner, "node", None), "lineno", None)
    start = _start_of(getattr(inner, "src", None), source)
    at = start + offset - 1 if start is not None and offset is not None else line
    text = inner.error_message
    if not text:
        cause = inner.__cause__ or inner.__context__
        text = f"{type(cause).__name__}: {cause}" if cause is not None else type(inner).__name__
    text = one_line(text)
    match = re.match(r"(\w+(?:Error|Exception))\((['\"])(.*)\2,?\)$", text)
    if match:  # repr of an exception
        text = f"{match[1]}: {match[3]}"
    return failure("compile", "compile_error", f"{_place(at)}{text}", at)


def _start_of(src: str | None, source: str) -> int | None:
    """The line of the candidate's file on which the text of a Triton function begins."""
    try:
        lines = [line.strip() for line in Path(source).read_text(encoding="utf-8").splitlines()]
    except OSError:
        return None
    wanted = [line.strip() for line in (src or "").splitlines()]
    for start in range(len(lines) if wanted else 0):
        if lines[start : start + len(wanted)] == wanted:
            return start + 1
    return None


def _diagnostic(printed: str, source: str) -> tuple[int | None, str] | None:
    """(line, text) of the first error that the compiler wrote to stderr."""
    for row in printed.splitlines():
        match = re.search(r"(?:\"?([^\s\"]+)\"?:(\d+):\d+\)?: )?error: (.+)", row)
        if match:
            own = match[1] is not None and match[1].endswith(source.rsplit("/", 1)[-1])
            return (int(match[2]) if own else None), match[3]
    return None
