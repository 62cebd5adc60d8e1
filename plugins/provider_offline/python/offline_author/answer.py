"""The entry of the offline author: a canonical request in, a canonical response out.

It reads only the request's `context`, the structured copy of what the messages say to a model, and
answers with one tool call. The same request and seed give the same bytes.
"""

from __future__ import annotations

from typing import Any

from kernel_evolve_worker.errors import WorkerError

from offline_author import genes as g
from offline_author import words
from offline_author.author import Study, study, write
from offline_author.capture import NotRewritable

MODEL = "offline-author"


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
    if purpose not in ("analyze", "generate"):
        raise WorkerError(
            "invalid_output",
            "the offline author knows the purposes analyze, generate and reflect, not "
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
    if purpose == "analyze" or made.refusal:
        return _call(asked, tools, "submit_analysis", words.analysis(made), made.refusal)
    return _generate(asked, tools, made, surroundings, seed)


def _generate(
    asked: dict[str, Any], tools: list[str], made: Study, surroundings: dict[str, Any], seed: int
) -> dict[str, Any]:
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
    arguments = {"code": code, "summary": words.summary(made, choice)}
    return _call(asked, tools, "submit_kernel", arguments)


def _call(
    asked: dict[str, Any], tools: list[str], name: str, arguments: dict[str, Any], why: str = ""
) -> dict[str, Any]:
    if name not in tools:
        raise WorkerError(
            "invalid_output",
            f"the offline author answers with the tool {name}, which the request doesn't offer"
            f"{f'; {why}' if why else '.'}",
        )
    return {
        "text": "",
        "reasoning": "",
        "tool_calls": [{"id": "call_1", "name": name, "arguments": arguments}],
        "usage": {"input_tokens": 0, "output_tokens": 0},
        "finish_reason": "tool_calls",
        "model": MODEL,
    }
