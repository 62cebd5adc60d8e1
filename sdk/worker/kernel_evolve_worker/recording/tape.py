"""The launch tape: what a candidate's forward asked the device to do, as data.

A tape holds no Python of the candidate. The format is described in TAPE.md. Compiled kernels and
large constants lie beside the JSON file as raw bytes, in the folder `<file>.blobs`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernel_evolve_worker.recording import wellformed

FORMAT = 2


class TapeError(ValueError):
    """The file isn't a tape that this version reads; the message is one sentence."""


class NotRecordable(Exception):
    """A value that a tape can't hold; the text says what."""


@dataclass
class Tape:
    """See TAPE.md for every field. Not thread-safe; treat as read-only once saved.

    blobs: contents by buffer name, before saving; after loading, `blob()` reads the files. cubins:
    compiled kernels by name, likewise with `cubin_path()`.
    """

    inputs: list[dict[str, Any] | None] = field(default_factory=list)
    state: list[dict[str, Any]] = field(default_factory=list)
    buffers: dict[str, dict[str, Any]] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)
    outputs: Any = None
    versions: dict[str, str] = field(default_factory=dict)
    target: str = "sm_90"
    host: dict[str, Any] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    cubins: dict[str, bytes] = field(default_factory=dict)
    folder: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON form, without the blobs' bytes."""
        return {
            "tape": FORMAT,
            "versions": self.versions,
            "target": self.target,
            "inputs": self.inputs,
            "state": self.state,
            "buffers": self.buffers,
            "steps": self.steps,
            "kernels": self.kernels,
            "outputs": self.outputs,
            "host": self.host,
        }

    def save(self, path: str | Path) -> Path:
        """Writes the tape and its blobs; returns the path. Raises OSError."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = _blob_folder(path)
        if self.blobs or self.cubins:
            folder.mkdir(exist_ok=True)
        for name, content in self.blobs.items():
            (folder / f"{name}.bin").write_bytes(content)
            self.buffers[name]["blob"] = f"{name}.bin"
        for name, content in self.cubins.items():
            (folder / f"{name}.cubin").write_bytes(content)
            self.kernels[name]["cubin"] = f"{name}.cubin"
        path.write_text(json.dumps(self.to_json(), allow_nan=False), encoding="utf-8")
        self.folder = _blob_folder(path)
        return path

    @staticmethod
    def load(path: str | Path) -> Tape:
        """Reads a saved tape. Raises TapeError for a file that isn't one."""
        path = Path(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise TapeError(f"the tape {path.name} can't be read: {error}") from None
        if not isinstance(data, dict) or data.get("tape") != FORMAT:
            raise TapeError(f"the file {path.name} isn't a tape of format {FORMAT}")
        known = Tape().to_json().keys()
        if data.keys() != known:
            odd = sorted(data.keys() ^ known)
            raise TapeError(f"the tape {path.name} lacks or adds the field {odd[0]}")
        try:
            wellformed.check(data)
        except wellformed.Malformed as error:
            raise TapeError(f"the file {path.name} isn't a well-formed tape: {error}") from None
        return Tape(**{key: value for key, value in data.items() if key != "tape"},
                    folder=_blob_folder(path))

    def blob(self, name: str) -> bytes:
        """The content of a constant buffer at the start of forward. Raises TapeError."""
        if name in self.blobs:
            return self.blobs[name]
        description = self.buffers[name]
        if "fill" in description:
            return bytes([description["fill"]]) * description["bytes"]
        file = Path(description.get("blob", "")).name  # a tape names no file outside its folder
        if not file or self.folder is None:
            raise TapeError(f"the tape has no content for the constant {name}")
        path = self.folder / file
        try:
            # A link could lead to a file that the candidate itself could not read.
            if path.is_symlink() or not path.is_file():
                raise TapeError(f"the tape has no content for the constant {name}")
            if path.stat().st_size != description["bytes"]:
                raise TapeError(f"the constant {name} of the tape has the wrong size")
            return path.read_bytes()
        except OSError as error:
            raise TapeError(f"the constant {name} of the tape can't be read: {error}") from None

    def cubin_path(self, name: str) -> Path:
        """The file of a compiled kernel. Raises TapeError where there is none."""
        file = Path(self.kernels[name].get("cubin") or "").name  # none outside the tape's folder
        path = (self.folder or Path()) / file
        if not file or self.folder is None or path.is_symlink() or not path.is_file():
            raise TapeError(f"the tape has no compiled form of the kernel {name}")
        return path

    @property
    def launches(self) -> list[dict[str, Any]]:
        return [step for step in self.steps if step["op"] == "launch"]


def _blob_folder(path: Path) -> Path:
    return path.with_name(path.name + ".blobs")


# -- values ---------------------------------------------------------------------------------------


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dtype_named(name: str) -> torch.dtype:
    """The dtype called `name`; raises TapeError."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise TapeError(f"the tape names the unknown dtype {name}")
    return dtype


def encode_value(value: Any, encode_tensor: Any) -> Any:
    """The JSON form of an argument of an operator. Raises NotRecordable."""
    if isinstance(value, torch.Tensor):
        return {"tensor": encode_tensor(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, torch.device):
        return {"device": "cpu"}
    if isinstance(value, torch.layout):
        return {"layout": str(value).removeprefix("torch.")}
    if isinstance(value, torch.memory_format):
        return {"memory_format": str(value).removeprefix("torch.")}
    if isinstance(value, (list, tuple)):
        return [encode_value(item, encode_tensor) for item in value]
    raise NotRecordable(f"an argument of type {type(value).__name__}")


def decode_value(value: Any, decode_tensor: Any) -> Any:
    """The inverse of `encode_value`; `decode_tensor` turns a reference into a tensor."""
    if isinstance(value, list):
        return [decode_value(item, decode_tensor) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return decode_tensor(content)
    if kind == "float":
        return float(content)
    if kind == "dtype":
        return dtype_named(content)
    if kind == "device":
        return torch.device("cpu")
    if kind in ("layout", "memory_format"):
        found = getattr(torch, content, None)
        if isinstance(found, (torch.layout, torch.memory_format)):
            return found
    raise TapeError(f"the tape holds an unknown value {kind}")


def encode_tree(value: Any, encode_tensor: Any) -> Any:
    """The JSON form of what forward returned: tensors in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return {"tensor": encode_tensor(value)}
    if type(value) in (tuple, list):
        return {type(value).__name__: [encode_tree(item, encode_tensor) for item in value]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"tuple": [encode_tree(item, encode_tensor) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, (str, int)) for key in value):
        return {"dict": [[key, encode_tree(item, encode_tensor)] for key, item in value.items()]}
    if value is None or isinstance(value, (bool, int, str)):
        return {"value": value}
    if isinstance(value, float):
        return {"value": value} if math.isfinite(value) else {"float": repr(value)}
    raise NotRecordable(f"an output of type {type(value).__name__}")


def decode_tree(tree: Any, decode_tensor: Any) -> Any:
    """The inverse of `encode_tree`."""
    ((kind, content),) = tree.items()
    if kind == "tensor":
        return decode_tensor(content)
    if kind == "tuple":
        return tuple(decode_tree(item, decode_tensor) for item in content)
    if kind == "list":
        return [decode_tree(item, decode_tensor) for item in content]
    if kind == "dict":
        return {key: decode_tree(item, decode_tensor) for key, item in content}
    if kind == "float":
        return float(content)
    if kind == "value":
        return content
    raise TapeError(f"the tape holds an unknown output {kind}")


def tree_refs(tree: Any) -> list[dict[str, Any]]:
    """The tensor references of an output tree, in order."""
    found: list[dict[str, Any]] = []
    decode_tree(tree, lambda ref: found.append(ref))
    return found
