"""What a candidate may not say, and the one sentence that it is told."""

from __future__ import annotations

import unittest

from kernel_evolve_worker.recording.policy import check
from support import CALL, candidate

REFUSED = {
    # statement: (code, part of the sentence)
    "import os": ("import", "the module os is not allowed"),
    "import subprocess as s": ("import", "the module subprocess"),
    "from ctypes import cdll": ("import", "the module ctypes"),
    "from . import reference": ("import", "neighbouring files"),
    "from torch import *": ("import", "import the names from torch that you need"),
    "import numpy as np": ("import", "the module numpy"),
    "from torch.utils import cpp_extension": ("forbidden_name", "it compiles C++"),
    "import torch.utils.cpp_extension": ("forbidden_name", "it compiles C++"),
    "from torch import load": ("forbidden_name", "torch.load is not allowed: it reads files"),
    "import torch._C": ("forbidden_name", "_C is an internal of torch"),
    "x = torch.load('weights')": ("forbidden_name", "torch.load"),
    "x = torch.ops.aten.mm": ("forbidden_name", "torch.ops"),
    "f = torch.compile(nn.ReLU())": ("forbidden_name", "torch.compile is not allowed"),
    "exec('x = 1')": ("forbidden_name", "exec is not allowed: it runs text as code"),
    "x = eval('1')": ("forbidden_name", "eval"),
    "f = open": ("forbidden_name", "open is not allowed"),
    "__import__('os')": ("forbidden_name", "__import__"),
    "x = getattr(torch, 'lo' + 'ad')": ("forbidden_name", "getattr needs its name as plain text"),
    "x = getattr(torch, '__dict__')": ("forbidden_name", "__dict__"),
    "x = getattr(torch, 'load')": ("forbidden_name", "torch.load"),
    "x = ().__class__": ("forbidden_name", "the attribute __class__"),
    "x = '{0.__globals__}'": ("forbidden_name", "not even in a string"),
    "x = __builtins__": ("forbidden_name", "__builtins__"),
    "torch.relu = None": ("monkey_patch", "torch.relu belongs to a module"),
    "F = torch.nn.functional\nF.relu = None": ("monkey_patch", "torch.nn.functional.relu"),
    "tl.load = None": ("monkey_patch", "triton.language.load"),
    "torch.backends.cuda.matmul.allow_tf32 = True": ("monkey_patch", "may not be changed"),
    "del torch.relu": ("monkey_patch", "torch.relu"),
    "setattr(torch, 'relu', None)": ("forbidden_name", "setattr"),
    "torch.set_float32_matmul_precision('high')": ("forbidden_name", "changes global state"),
    "triton.runtime.driver.set_active(None)": ("forbidden_name", "it replaces the driver"),
    "from triton.testing import do_bench": ("forbidden_name", "it takes the clock"),
    "def f():\n    global g\n    g = 1": ("global_state", "keep state in ModelNew"),
    "class T(type): pass": ("forbidden_name", "metaclasses"),
}

ALLOWED = (
    "from __future__ import annotations",
    "import math, functools, itertools",
    "from typing import Optional",
    "from dataclasses import dataclass",
    "from triton.language.extra import libdevice",
    "from triton.tools.tensor_descriptor import TensorDescriptor",
    "DEVICE = triton.runtime.driver.active.get_active_torch_device()",
    "import torch.nn.functional as F",
    "x = hasattr(tl, 'make_tensor_descriptor')",
    "x = getattr(tl, 'dot')",
    "if __name__ == '__main__':\n    pass",
    "'''A docstring about __init__ and open files.'''",
)


class Policy(unittest.TestCase):
    def test_refusals(self) -> None:
        for statement, (code, sentence) in REFUSED.items():
            with self.subTest(statement=statement):
                source = candidate(kernel=statement)
                refusal = check(source)
                self.assertIsNotNone(refusal)
                self.assertEqual((refusal.stage, refusal.code), ("policy", code))
                self.assertIn(sentence, refusal.reason)
                first = source.splitlines().index(statement.splitlines()[0]) + 1
                self.assertIn(refusal.line - first, range(len(statement.splitlines())))
                self.assertTrue(refusal.reason.startswith(f"line {refusal.line}: "))
                self.assertNotIn("\n", refusal.reason)

    def test_what_kernels_need(self) -> None:
        for statement in ALLOWED:
            with self.subTest(statement=statement):
                self.assertIsNone(check(statement + "\n" + candidate()))

    def test_a_syntax_error_names_its_line(self) -> None:
        refusal = check("import torch\ndef f(:\n    pass\n")
        self.assertEqual((refusal.stage, refusal.code, refusal.line), ("parse", "syntax_error", 2))
        self.assertIn("syntax error on line 2: ", refusal.reason)

    def test_text_that_no_parser_survives(self) -> None:
        self.assertEqual(check("x = 1\0").stage, "parse")
        self.assertEqual(check("(" * 5000 + ")" * 5000).stage, "parse")
        self.assertEqual(check("x = " + "-" * 50000 + "1").stage, "parse")
        self.assertEqual(check("#" * (1 << 19)).code, "too_large")

    def test_the_class_has_to_be_there(self) -> None:
        self.assertEqual(check("import torch").code, "no_model_new")

    def test_deriving_from_the_reference(self) -> None:
        source = candidate().replace("ModelNew(nn.Module)", "ModelNew(Model)")
        self.assertEqual(check(source).code, "subclasses_reference")

    def test_the_first_line_that_is_refused_is_reported(self) -> None:
        refusal = check(candidate(kernel="import os\nimport sys", forward="exec('')\n" + CALL))
        self.assertIn("os", refusal.reason)


if __name__ == "__main__":
    unittest.main()
