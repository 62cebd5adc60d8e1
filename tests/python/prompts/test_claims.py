"""What the prompts tell a model about Triton, the hardware and the evaluator is true.

Kernels are compiled for sm_90, which needs no GPU. A claim that a new Triton
makes false fails here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
import triton.language as tl
from evaluator_simulator import hardware
from kernel_evolve_worker.recording import driver, facade, policy
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice

PROMPTS = Path(__file__).parents[3] / "graphs" / "prompts"
TARGET = GPUTarget("cuda", 90, 32)
HEAD = (
    "import math\nimport torch\nimport triton\nimport triton.language as tl\n"
    "from triton.language.extra import libdevice\nEPS = 1e-5\nKNOWN = tl.constexpr(2.0)\n\n\n"
    "def plain(a):\n    return a * 2\n\n\n"
)
F32 = {"x": "*fp32", "y": "*fp32", "n": "i32"}
F16 = {"x": "*fp16", "y": "*fp16", "n": "i32"}
START = "i = tl.arange(0, 128)\nv = tl.load(x + i)\n"


def page(name: str) -> str:
    return (PROMPTS / name).read_text(encoding="utf-8")


def names_after(text: str, marker: str) -> list[str]:
    """The identifiers of the sentence or list that follows `marker`."""
    part = text.split(marker, 1)[1]
    return re.findall(r"[a-z_][a-z_0-9]*", re.split(r"\.\s|\n\n|, for fp32", part, maxsplit=1)[0])


class Compiles(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        before = os.environ.get("TRITON_CACHE_DIR")
        os.environ["TRITON_CACHE_DIR"] = str(self.folder / "cache")
        self.addCleanup(self.restore, before)
        self.count = 0

    @staticmethod
    def restore(before: str | None) -> None:
        if before is None:
            os.environ.pop("TRITON_CACHE_DIR", None)
        else:
            os.environ["TRITON_CACHE_DIR"] = before

    def module(self, source: str) -> ModuleType:
        self.count += 1
        path = self.folder / f"claims_{self.count}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def compile(self, kernel: Any, types: dict[str, str], constants: dict[str, Any],
                options: dict[str, Any] | None = None) -> Any:  # fmt: skip
        names = list(kernel.arg_names)
        signature = {n: "constexpr" if n in constants else types[n] for n in names}
        values = {(names.index(n),): v for n, v in constants.items()}
        return triton.compile(ASTSource(kernel, signature, constexprs=values), target=TARGET,
                              options=options or {})  # fmt: skip

    def body(self, lines: str, types: dict[str, str], constants: dict[str, Any] | None = None,
             options: dict[str, Any] | None = None) -> Any:  # fmt: skip
        """Compiles a kernel with this body and these parameters."""
        constants = constants or {}
        arguments = [*types, *(f"{n}: tl.constexpr" for n in constants if n not in types)]
        text = HEAD + "@triton.jit\ndef kernel(" + ", ".join(arguments) + "):\n"
        text += "".join(f"    {line}\n" for line in lines.strip().splitlines())
        return self.compile(self.module(text).kernel, types, constants, options)

    def refused(self, lines: str, said: str, types: dict[str, str] | None = None,
                **more: Any) -> None:  # fmt: skip
        with self.subTest(lines=lines), self.assertRaises(Exception) as caught:
            self.body(lines, types or F32, **more)
        seen: list[str] = []
        error: BaseException | None = caught.exception
        while error is not None:
            seen.append(" ".join(str(error).split()))
            error = error.__cause__ or error.__context__
        self.assertTrue(any(said in text for text in seen), f"{lines}: {seen}")


class Language(Compiles):
    def test_the_names_that_exist_exist_and_the_others_do_not(self) -> None:
        text = page("inspect/language.md")
        there = names_after(text, "Exists in `tl`:")
        self.assertGreater(len(there), 30)
        for name in there:
            self.assertTrue(hasattr(tl, name), name)
        missing = names_after(text, "Does not exist:")
        self.assertIn("tanh", missing)
        for name in [*missing, "libdevice"]:
            if name != "tl":
                self.assertTrue(name == "libdevice" or not hasattr(tl, name), name)
        functions = names_after(text, "import libdevice` has")
        self.assertIn("log1p", functions)
        for name in functions:
            self.assertTrue(hasattr(libdevice, name), name)

    def test_the_compilers_sentences(self) -> None:
        for lines, said in (
            ("i = tl.arange(0, 100)\ntl.store(y + i, 1.0)", "must be a power of 2"),
            ("i = tl.arange(0, n)\ntl.store(y + i, 1.0)", "must be of type tl.constexpr"),
            ("z = tl.zeros((100,), tl.float32)", "Shape element 0 must be a power of 2"),
            ("i = tl.arange(0, 2097152)\ntl.store(y + i, 1.0)",
             "exceeds triton maximum tensor numel (1048576)"),
            (f"{START}acc = 0.0\nfor k in range(n):\n    acc += v\ntl.store(y + i, acc)",
             "Loop-carried variable"),
            (f"{START}if v > 0:\n    tl.store(y + i, v)", "Boolean value of Tensor"),
            (f"{START}tl.store(y, v[0])", "unsupported tensor index"),
            (f"{START}tl.store(y + tl.arange(0, 64), v[:64])", "unsupported tensor index"),
            (f"{START}v[0] = 1.0", "__setitem__ is not supported"),
            ("for k in range(n):\n    if k > 3:\n        break", "unsupported AST node type"),
            ("for k in range(n):\n    if k > 3:\n        continue", "unsupported AST node type"),
            ("for k in range(n):\n    if k > 3:\n        return", "Cannot have `return`"),
            (f"{START}f = lambda a: a\ntl.store(y + i, v)", "unsupported AST node type"),
            ("try:\n    tl.store(y, 1.0)\nexcept Exception:\n    pass",
             "unsupported AST node type"),
            (f"{START}tl.store(y + i, v * EPS)", "Cannot access global variable"),
            (f"{START}tl.store(y + i, plain(v))", "Unsupported function referenced"),
            ("i = tl.arange(0, 128)\ntl.store(y + i, tl.load(x + i, other=0.0))",
             "`other` cannot be provided without `mask`"),
            (f"{START}tl.store(y, v)", "Value argument cannot be block type"),
            (f"{START}tl.store(y + i, v ** 2)", ""),
        ):  # fmt: skip
            self.refused(lines, said)
        self.refused("tl.store(y, 1.0)", "num_warps must be a power of 2",
                     options={"num_warps": 3})  # fmt: skip
        self.refused("tl.store(y + s.to(tl.int64), 1.0)", "has no attribute 'to'",
                     constants={"s": 1})  # fmt: skip

    def test_functions_of_fp32_only(self) -> None:
        for name in ("exp", "log", "sqrt", "rsqrt", "sigmoid", "erf"):
            self.refused(f"{START}tl.store(y + i, tl.{name}(v))", "Expected dtype", F16)
            self.body(f"{START}tl.store(y + i, tl.{name}(v.to(tl.float32)))", F16)
        with self.assertRaises(Exception):
            self.body(f"{START}tl.store(y + i, libdevice.tanh(v))", F16)

    def test_what_is_said_to_work_works(self) -> None:
        for lines in (
            f"{START}tl.store(y + i, v * KNOWN)",
            f"{START}tl.store(y + i, libdevice.tanh(v) + libdevice.pow(v, v))",
            f"{START}tl.store(y + i, tl.maximum(v, 0.0) + v * tl.sigmoid(v))",
            "i = tl.arange(0, 128)\nv = tl.load(x + i, mask=i < n, other=-float('inf'))\n"
            "tl.store(y + i, tl.max(v, axis=0))",
            "k = 0\nwhile k < n:\n    tl.store(y + k, 1.0)\n    k += 1",
            "p = tl.program_id(0).to(tl.int64)\ntl.store(y + p * n, 1.0)",
        ):
            with self.subTest(lines=lines):
                self.body(lines, F32)
        self.body("v = tl.load(x)\nif b is not None:\n    v += tl.load(b)\ntl.store(y, v)",
                  {"x": "*fp32", "y": "*fp32"}, {"b": None})  # fmt: skip

    def test_arithmetic_that_surprises(self) -> None:
        def ttir(lines: str, types: dict[str, str]) -> str:
            return self.body(lines, types).asm["ttir"]

        half = ttir(f"{START}tl.store(y, tl.sum(v, axis=0))", F16)
        self.assertRegex(half, r"arith\.addf .* : f16", "a sum of fp16 adds in fp16")
        tiny = ttir(f"{START}tl.store(y + i, v * 1e-9)", F16)
        self.assertRegex(tiny, r"arith\.mulf .*xf16>", "a literal takes the tile's type")
        wide = ttir("p = tl.program_id(0)\ntl.store(y + p * n, 1.0)", F32)
        self.assertRegex(wide, r"arith\.muli .* : i32", "offsets are int32")
        self.assertIn("arith.divsi", ttir("tl.store(y, (tl.program_id(0) - 7) // 2)", F32))


class Products(Compiles):
    DOT = (
        "m = tl.arange(0, M)\nn = tl.arange(0, N)\nk = tl.arange(0, K)\n"
        "x = tl.load(a + m[:, None] * K + k[None, :])\n"
        "w = tl.load(b + k[:, None] * N + n[None, :])\n"
        "tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, w{more}))"
    )

    def dot(self, a: str, b: str, k: int = 32, more: str = "", c: str = "fp32") -> Any:
        types = {"a": f"*{a}", "b": f"*{b}", "c": f"*{c}"}
        return self.body(self.DOT.replace("{more}", more), types, {"M": 64, "N": 64, "K": k})

    def test_fp32_is_tf32_unless_told(self) -> None:
        self.assertIn("inputPrecision = tf32", self.dot("fp32", "fp32").asm["ttir"])
        ieee = self.dot("fp32", "fp32", more=', input_precision="ieee"').asm["ttir"]
        self.assertNotIn("tf32", ieee)

    def test_operands(self) -> None:
        for a, b in (("fp16", "fp32"), ("bf16", "fp16")):
            with self.assertRaises(Exception):
                self.dot(a, b)
        with self.assertRaises(Exception):
            self.dot("fp16", "fp16", k=8)
        self.dot("fp16", "fp16", k=16)
        with self.assertRaises(Exception):
            self.dot("bf16", "bf16", more=", out_dtype=tl.bfloat16", c="bf16")


class Examples(Compiles):
    KERNELS = {
        "scale_kernel": ({"x_ptr": "*fp16", "y_ptr": "*fp16", "n": "i32"}, {"BLOCK": 1024}),
        "softmax_kernel": ({"x_ptr": "*bf16", "y_ptr": "*bf16", "row_stride": "i32",
                            "cols": "i32"}, {"BLOCK": 1024}),
        "matmul_kernel": ({"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp16",
                           **{n: "i32" for n in ("m", "n", "k", "stride_am", "stride_ak",
                                                 "stride_bk", "stride_bn", "stride_cm",
                                                 "stride_cn")}},
                          {"BM": 128, "BN": 128, "BK": 64}),
    }  # fmt: skip

    def test_every_kernel_in_the_pages_compiles(self) -> None:
        found = 0
        for file in sorted((PROMPTS / "inspect").glob("*.md")):
            for code in re.findall(r"```python\n(.*?)```", file.read_text("utf-8"), re.DOTALL):
                module = self.module(HEAD + code)
                name = re.findall(r"^def (\w+)", code, re.MULTILINE)[0]
                types, constants = self.KERNELS[name]
                self.compile(getattr(module, name), types, constants)
                found += 1
        self.assertEqual(found, len(self.KERNELS))


class Figures(unittest.TestCase):
    def test_the_hardware_page_says_what_the_model_assumes(self) -> None:
        text = page("inspect/hardware.md")
        for number in (
            f"{hardware.SMS} SMs",
            f"{hardware.WARPS_PER_SM} warps",
            f"{hardware.PROGRAMS_PER_SM} programs",
            f"{facade.H200['shared_memory_per_block_optin']} bytes",
            f"{hardware.SHARED_PER_SM // 1024} KiB",
            f"{hardware.COPY_BANDWIDTH / 1e12:.1f} TB/s",
            f"{hardware.LAUNCH * 1e6:.0f} us",
            f"{hardware.PEAK_FMA / 1e12:.0f} TFLOP/s",
        ):
            self.assertIn(number, text)
        self.assertEqual(hardware.REGISTERS_PER_SM, 65536)

    def test_the_policy_page_says_what_the_policy_does(self) -> None:
        text = " ".join(page("inspect/evaluator.md").split())
        modules = re.findall(r"\w+", text.split("imports from ")[1].split(";")[0])
        self.assertIn("functools", modules)
        for module in modules:
            self.assertIsNone(policy.check(f"import {module}\n\n\nclass ModelNew:\n    pass\n"))
        refused = text.split("; not ")[1].split(".")[0]
        for module in re.findall(r"\w+", refused):
            self.assertIsNotNone(policy.check(f"import {module}\n\n\nclass ModelNew: ...\n"))
        names = text.split("No `exec`")[1].split("Integrity")[0]
        for name in ("eval", "open", "globals", "setattr"):
            self.assertIn(f"`{name}`", names)
            self.assertIn(name, policy.DENIED_CALLS)
        for name in ("torch.compile", "torch.jit", "torch.ops", "torch.library",
                     "torch.utils.cpp_extension"):  # fmt: skip
            self.assertIn(f"`{name}`", names)
            self.assertIn(name, policy.DENIED)

    def test_autotuning_is_as_wide_as_said(self) -> None:
        self.assertIn(f"{driver.MAX_CONFIGS} configurations at most", page("inspect/tuning.md"))


if __name__ == "__main__":
    unittest.main()
