"""The cases that the time model is calibrated with: pairs of a task's and a candidate's source.

A file in calibration/ holds constants, the dict CASES, the text of a task behind the line
"# --- task" and the text of one or several candidates behind "# --- candidate [NAME]". A case is
such a file with some of its constants changed; "use" names the candidate. The file expressions.py
holds tasks alone, for what PyTorch runs without a candidate. Needs PyTorch, no GPU.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parent / "calibration"
ROOT = Path(__file__).resolve().parents[2]
_CUT = re.compile(r"^# --- (task|candidate(?: (\w+))?)$", re.MULTILINE)
_HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

"""


@dataclass(frozen=True)
class Case:
    """Two texts, as the evaluator is given them. candidate: "" where eager alone is of interest."""

    name: str
    family: str
    task: str
    candidate: str = ""


def _case(name: str, family: str, constants: dict[str, Any], parts: dict[str, str],
          use: str) -> Case:
    head = _HEAD + "".join(f"{key} = {value!r}\n" for key, value in constants.items()) + "\n\n"
    return Case(name, family, head + parts["task"], head + parts[f"candidate {use}".strip()])


def of_file(path: Path) -> Iterator[Case]:
    """The cases of one file; its stem is their family."""
    text = path.read_text(encoding="utf-8")
    marks = list(_CUT.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    parts = {mark[1]: text[mark.end():end].strip() + "\n" for mark, end in zip(marks, ends)}
    space: dict[str, Any] = {}
    exec(compile(text[: marks[0].start()], str(path), "exec"), space)  # noqa: S102 - our own text
    plain = {key: value for key, value in space.items() if key.isupper() and key != "CASES"
             and not key.startswith("_") and not isinstance(value, ModuleType)}
    for name, changes in space["CASES"].items():
        changed = {key: value for key, value in changes.items() if key != "use"}
        unknown = set(changed) - set(plain)
        assert not unknown, f"{path.name}: {name} changes unknown constants {unknown}"
        yield _case(name, path.stem, {**plain, **changed}, parts, changes.get("use", ""))


def expressions() -> Iterator[Case]:
    """Tasks without a candidate."""
    path = FOLDER / "expressions.py"
    space: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)  # noqa: S102
    for family, tasks in space["EXPRESSIONS"].items():
        for name, (inputs, expression) in tasks.items():
            task = (f"{_HEAD}\n{space['SETUP'].get(name, '')}class Model(nn.Module):\n"
                    "    def forward(self, x=None, y=None, z=None):\n"
                    f"        return {expression}\n\n\n"
                    f"def get_inputs():\n    return [{inputs}]\n\n\n"
                    "def get_init_inputs():\n    return []\n")
            yield Case(f"eager_{name}", family, task)


def kernels() -> list[Case]:
    """Every case with a candidate."""
    return [case for path in sorted(FOLDER.glob("*.py")) if path.stem != "expressions"
            for case in of_file(path)]


def shipped() -> Iterator[Case]:
    """The shipped tasks with the offline author's first guess, where it has one."""
    for folder in ("plugins/provider_offline/python", "sdk/worker"):
        if str(ROOT / folder) not in sys.path:
            sys.path.insert(0, str(ROOT / folder))
    from offline_author import author

    for path in sorted((ROOT / "examples/tasks").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        try:
            made = author.study(source, str(path))
            text = "" if made.refusal else author.write(made, made.space.default)
        except Exception as error:  # noqa: BLE001 - the other cases need no author
            print(f"no case of {path.stem}: {error!r}"[:300], file=sys.stderr, flush=True)
            continue
        if text:
            yield Case(f"task_{path.stem}", "tasks", source, text)


def everything() -> list[Case]:
    """All cases; the names are unique."""
    found = [*shipped(), *kernels(), *expressions()]
    assert len({case.name for case in found}) == len(found), "a name is used twice"
    return found
