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

# Detours to the module os, or to what a module keeps, each in the words of a candidate.
DETOURS = (
    "torch.os", "[torch][0].os", "{'a': torch}['a'].os", "(lambda m: m.os)(torch)",
    "getattr(torch, 'os')", "(torch if 1 else 2).os", "nn.functional.torch.os",
    "def f(m): return m.os\nf(torch)", "def f(): return torch\nf().os",
    "def f(m=torch): return m.os", "def f(*a): return a[0].os\nf(torch)",
    "def f():\n    yield torch\nfor m in f(): m.os", "a, *b = (1, torch)\nb[0].os",
    "m = n = torch\nn.os", "(m := torch).os", "with nullcontext(torch) as m:\n    m.os",
    "list(map(lambda m: m.os, [torch]))", "class A:\n    m = torch\nA.m.os",
    "class A:\n    def __init__(self, m): self.m = m\nA(torch).m.os",
    "kept = []\nkept.append(torch)\nkept[0].os", "kept = {}\nkept['t'] = torch\nkept['t'].os",
    "match torch:\n    case object(os=o):\n        o", "g = lambda: torch\ng().os",
    "try:\n    raise ValueError(torch)\nexcept ValueError as e:\n    e.args[0].os",
    "triton.runtime.jit.inspect", "torch.serialization.load('x')", "torch.cuda.graphs.CUDAGraph",
    "triton.compile", "g = getattr", "map(getattr, [torch], ['os'])", "x.gi_frame", "x.tb_frame",
    "getattr(x, 'f_globals')", "scale.used_global_vals", "type('X', (), {})", "math.__loader__",
    "class A:\n    def __del__(self): pass", "class A:\n    def __new__(cls): pass",
    "class A([nn.Module][0]): pass", "B = f()\nclass A(B): pass",
)
CHANGES = (
    "(m,) = (torch,)\nm.equal = None", "for m in [torch]: m.equal = None",
    "def f(m): m.equal = None\nf(torch)", "f, = (nn.functional,)\nf.relu = None",
    "nn.Linear.forward = None", "torch.backends.cuda.matmul.allow_tf32 |= True",
    "import warnings\nwarnings.filters.append(1)",
    "import warnings\nkept = warnings.filters\nkept[0] = 1",
)
IMPORTED = ("from contextlib import os", "from torch import sys as s",
            "from triton.runtime.autotuner import time")

ALLOWED = (
    "from __future__ import annotations",
    "import math, functools, itertools",
    "from typing import Optional",
    "from dataclasses import dataclass",
    "from triton.language.extra import libdevice",
    "from triton.tools.tensor_descriptor import TensorDescriptor",
    "DEVICE = triton.runtime.driver.active.get_active_torch_device()",
    "import torch.nn.functional as F",
    "import triton\ntry:\n    pass\nexcept triton.runtime.errors.OutOfResources: pass",
    "from collections import namedtuple\nclass P(namedtuple('P', 'a b')): pass",
    "from typing import NamedTuple, Generic, TypeVar\nclass G(Generic[TypeVar('T')]): pass",
    "from enum import IntEnum\nclass E(IntEnum):\n    A = 1",
    "import torch\nimport triton.language as tl\nTYPES = {torch.float16: tl.float16}\n"
    "TYPES[torch.float32] = tl.float32\nsizes = []\nsizes.append(torch.float32.itemsize)",
    "import torch\nlinear = torch.nn.Linear(1, 1)\nlinear.bias = None\nlinear.weight.data = 1",
    "class A:\n    def __add__(self, other): return self\n    def __str__(self): return ''",
    "from triton import Config\nlist_of = [Config({'B': b}) for b in (1, 2)]",
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

    def test_detours(self) -> None:
        for statements, code in ((DETOURS, "forbidden_name"), (CHANGES, "monkey_patch"),
                                 (IMPORTED, "import")):
            for statement in statements:
                with self.subTest(statement):
                    refusal = check("import math\nfrom contextlib import nullcontext\n"
                                    + candidate(kernel=statement))
                    self.assertEqual(getattr(refusal, "code", None), code, refusal)

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
