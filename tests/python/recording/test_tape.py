"""The tape's file: what is written is what is read, and anything else is refused."""

from __future__ import annotations

import json
import math
import tempfile
import unittest
from pathlib import Path
from typing import Any

import torch
from kernel_evolve_worker.recording.tape import (
    NotRecordable,
    Tape,
    TapeError,
    decode_tree,
    decode_value,
    encode_tree,
    encode_value,
    tree_refs,
)


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "tape.json"

    def test_a_tape_survives_its_file(self) -> None:
        tape = Tape(buffers={"b0": {"bytes": 4, "itemsize": 1, "origin": "constant"},
                             "b1": {"bytes": 3, "itemsize": 1, "origin": "constant", "fill": 7}},
                    outputs={"value": 1}, blobs={"b0": b"\x00\x01\x02\xff"})
        tape.save(self.path)
        read = Tape.load(self.path)
        self.assertEqual(read.to_json(), tape.to_json())
        self.assertEqual((read.blob("b0"), read.blob("b1")), (b"\x00\x01\x02\xff", b"\x07" * 3))

    def test_a_file_that_is_no_tape(self) -> None:
        for text in ("", "[]", "{}", '{"tape": 3}', '{"tape": 2}'):
            with self.subTest(text=text):
                self.path.write_text(text)
                with self.assertRaises(TapeError):
                    Tape.load(self.path)
        with self.assertRaises(TapeError):
            Tape.load(self.path.with_name("none.json"))

    def test_a_blob_lies_in_the_tape_s_own_folder_or_nowhere(self) -> None:
        (self.path.parent / "secret.bin").write_bytes(b"abcd")
        tape = Tape(buffers={"b0": {"bytes": 4, "itemsize": 1, "origin": "constant",
                                    "blob": "../secret.bin"}}, outputs={"value": None})
        tape.save(self.path)
        with self.assertRaises(TapeError):
            Tape.load(self.path).blob("b0")
        folder = self.path.with_name("tape.json.blobs")
        folder.mkdir(exist_ok=True)
        (folder / "secret.bin").symlink_to(self.path.parent / "secret.bin")
        with self.assertRaises(TapeError):
            Tape.load(self.path).blob("b0")

    def test_a_tape_that_says_what_no_tape_says(self) -> None:
        ref = {"buffer": "b0", "dtype": "float32", "shape": [2], "stride": [1], "offset": 0}
        launch = {"op": "launch", "kernel": "k0", "grid": [1, 1, 1],
                  "args": [{"name": "x", "type": "*fp32", "tensor": ref}]}
        aten = {"op": "aten", "name": "aten.add.Tensor", "args": [{"tensor": ref}, 1],
                "kwargs": {}, "out": [ref], "writes": []}
        right = {
            "inputs": [ref, None], "state": [{"name": "w", "own_name": "w", "ref": ref}],
            "buffers": {"b0": {"bytes": 8, "itemsize": 4, "origin": "input"}},
            "kernels": {"k0": {"name": "k", "ttir": "", "ptx": "", "metadata": {"num_warps": 4},
                               "resources": {"registers": 8, "spills": None}, "line": 3}},
            "steps": [launch, aten], "outputs": {"tuple": [{"tensor": ref}, {"value": 1.5}]},
        }
        Tape(**right).save(self.path)
        Tape.load(self.path)
        wrong: list[dict[str, Any]] = [
            {"buffers": {}}, {"buffers": {"b0": {"bytes": -8, "origin": "input"}}},
            {"buffers": {"b0": {"bytes": 8, "origin": "moon"}}}, {"buffers": []},
            {"inputs": [{**ref, "offset": 1}]}, {"inputs": [{**ref, "stride": [-1]}]},
            {"inputs": [{**ref, "shape": [3]}]}, {"inputs": [{**ref, "dtype": "nn"}]},
            {"inputs": [{**ref, "shape": [True]}]}, {"inputs": 1}, {"state": [{}]},
            {"steps": [{"op": "copy"}]}, {"steps": [{**launch, "grid": "all"}]},
            {"steps": [{**launch, "grid": [1, 1]}]}, {"steps": [{**launch, "grid": [-1, 1, 1]}]},
            {"steps": [{**launch, "kernel": "k1"}]}, {"steps": [{**launch, "args": [{}]}]},
            {"steps": [{**aten, "args": [{"tensor": ref, "float": "1"}]}]},
            {"steps": [{**aten, "args": {}}]}, {"steps": [{**aten, "out": [7]}]},
            {"outputs": {"tensor": None}}, {"outputs": {}}, {"outputs": {"set": []}},
            {"kernels": {"k0": {"name": "k", "ttir": 3, "ptx": ""}}},
            {"kernels": {"k0": {"name": "k", "ttir": "", "ptx": "", "line": "3"}}},
            {"host": []}, {"outputs": json.loads('{"list": [' * 80 + '{"value": 1}' + ']}' * 80)},
        ]
        for change in wrong:
            with self.subTest(change=str(change)[:90]), self.assertRaises(TapeError):
                Tape(**{**right, **change}).save(self.path)
                Tape.load(self.path)


class Values(unittest.TestCase):
    def test_arguments_of_operators(self) -> None:
        tensor = torch.zeros(2)
        given = [1, 2.5, math.inf, True, None, "sum", torch.float16, torch.strided,
                 torch.channels_last, torch.device("cpu"), [tensor, [3]], (4, 5)]
        text = json.dumps(encode_value(given, lambda _: {"buffer": "b0"}), allow_nan=False)
        back = decode_value(json.loads(text), lambda ref: ref["buffer"])
        self.assertEqual(back, [*given[:10], ["b0", [3]], [4, 5]])
        with self.assertRaises(NotRecordable):
            encode_value(3j, None)

    def test_trees_of_outputs(self) -> None:
        tensor = torch.zeros(2)
        tree = encode_tree({"a": (tensor, [None, 2.0]), 3: math.nan}, lambda _: "ref")
        self.assertEqual(tree_refs(tree), ["ref"])
        back = decode_tree(json.loads(json.dumps(tree, allow_nan=False)), lambda ref: ref)
        self.assertEqual(back["a"], ("ref", [None, 2.0]))
        self.assertTrue(math.isnan(back[3]))
        with self.assertRaises(NotRecordable):
            encode_tree(object(), None)


if __name__ == "__main__":
    unittest.main()
