"""The entry of the offline author: a canonical request in, a canonical response out.

It reads only the request's `context`, the structured copy of what the messages say to a model, and
answers with one tool call; as an agent it stops, with words, when nothing improves. The same
request and seed give the same bytes.
"""

from __future__ import annotations

from typing import Any

from kernel_evolve_worker.errors import WorkerError

from offline_author import genes as g
from offline_author import words
from offline_author.author import Study, study, write
from offline_author.capture import NotRewritable

MODEL = "offline-author"
#: Attempts in a row without a better one after which an agent stops.
PATIENCE = 6


def answer(request: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answers {"request": canonical request, "seed": int}.

    `context` is the worker's; only its progress channel is used. Raises WorkerError: `validation`
    when the task is at fault, `invalid_output` when the request lacks the tool for the answer.
    """
    asked = request["request"]
    surroundings = asked.get("context") or {}
    purpose = surroundings.get("purpose", "generate")
    seed = int(request.get("seed") or asked.get("seed") or 0)
    tools = [t.get("name", "") for t in asked.get("tools") or []]
    if purpose == "reflect":
        return _call(asked, tools, "record_lesson", words.lesson(surroundings))
    if purpose not in ("analyze", "generate", "agent"):
        raise WorkerError(
            "invalid_output",
            "the offline author knows the purposes analyze, generate, reflect and agent, not "
            f"'{purpose}'.",
        )
    task = surroundings.get("task") or {}
    if not isinstance(task.get("source"), str):
        raise WorkerError(
            "invalid_output",
            "the request's context has no task, and the offline author reads nothing else.",
        )
    if hasattr(context, "progress"):
        context.progress("capturing the task's operators")
    made = study(task["source"], task.get("path") or f"{task.get('name', 'task')}.py")
    if purpose == "agent":
        return _agent(asked, tools, made, surroundings, seed)
    if purpose == "analyze" or made.refusal:
        return _call(asked, tools, "submit_analysis", words.analysis(made), made.refusal)
    return _generate(asked, tools, made, surroundings, seed)


def _agent(
    asked: dict[str, Any], tools: list[str], made: Study, surroundings: dict[str, Any], seed: int
) -> dict[str, Any]:
    """One turn of an agent: the next candidate, or words when there is nothing more to try."""
    if made.refusal:
        return _said(made.refusal)
    attempts = surroundings.get("attempts") or []
    if g.stalled(attempts, PATIENCE):
        return _said(f"The last {PATIENCE} candidates brought nothing.")
    choice, code = _next(made, surroundings, seed)
    if choice.exhausted:
        return _said("Every point of the search space has been tried.")
    arguments = {"candidate_code": code, "summary": words.summary(made, choice)}
    return _call(asked, tools, "validate_model", arguments)


def _generate(
    asked: dict[str, Any], tools: list[str], made: Study, surroundings: dict[str, Any], seed: int
) -> dict[str, Any]:
    choice, code = _next(made, surroundings, seed)
    arguments = {"code": code, "summary": words.summary(made, choice)}
    return _call(asked, tools, "submit_kernel", arguments)


def _next(made: Study, surroundings: dict[str, Any], seed: int) -> tuple[g.Choice, str]:
    """The next point of the search, and its file."""
    space = made.space.with_hints(g.of_hints(surroundings.get("hints") or []))
    parent = (surroundings.get("parent") or {}).get("summary", "")
    search = g.Search(space, surroundings.get("attempts") or [], g.of_summary(parent), seed)
    choice = search.choose()
    try:
        code = write(made, choice.genes)
    except NotRewritable as error:  # the first guess could be written: a rare shape of the genes
        raise WorkerError(
            "internal", f"the offline author can't write {choice.genes}: {error}"
        ) from None
    return choice, code


def _call(
    asked: dict[str, Any], tools: list[str], name: str, arguments: dict[str, Any], why: str = ""
) -> dict[str, Any]:
    if name not in tools:
        raise WorkerError(
            "invalid_output",
            f"the offline author answers with the tool {name}, which the request doesn't offer"
            f"{f'; {why}' if why else '.'}",
        )
    return _response("", [{"id": "call_1", "name": name, "arguments": arguments}])


def _said(text: str) -> dict[str, Any]:
    return _response(text, [])


def _response(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "text": text,
        "reasoning": "",
        "tool_calls": calls,
        "usage": {"input_tokens": 0, "output_tokens": 0},
        "finish_reason": "tool_calls" if calls else "stop",
        "model": MODEL,
    }
