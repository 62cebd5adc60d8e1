"""Detours to what a candidate may not reach, through all that Python hands things on with."""

from __future__ import annotations

import unittest

import torch
from kernel_evolve_worker.recording.policy import check
from support import SCALE, candidate

HEAD = "import math, functools, typing, enum, abc, dataclasses, warnings\n"

# By the code of the refusal.
DETOURS = {
    "forbidden_name": (
        "try: {}[torch]\nexcept KeyError as e: e.args[0].os",
        "class A:\n    @property\n    def m(self): return 1\n    @m.setter\n"
        "    def m(self, v): v.os\nA().m = torch",
        "def g():\n    m = yield\n    m.os\ng().send(torch)",
        "class A:\n    def __lt__(self, o): return o\n(A() < torch).os",
        "class A:\n    def __setitem__(self, k, v): v.os\nA()[0] = torch",
        "class A:\n    def __iadd__(self, o): return o\na = A()\na += torch\na.os",
        "class A:\n    def __enter__(self): return self.m\n    def __exit__(self, *a): pass\n"
        "a = A()\na.m = torch\nwith a as b: b.os",
        "class A:\n    def __iter__(self): return iter([torch])\nb, = A()\nb.os",
        "class A: m = triton\ny = torch if 1 else A\ny.m.runtime.autotuner.time",
        "assert 0, torch.os",
        "try:\n    assert 0, torch\nexcept AssertionError as e: e.args[0].os",
        "class A(torch.autograd.function.FunctionMeta): pass",
        "class A:\n    __annotations__ = {'x=open(1)': 1}",
        "f = functools.partial(nn.functional.__setattr__, 'relu')",
        "w = functools.wraps(nn.ReLU)",
        "T = typing.get_type_hints",
        "from typing import ForwardRef as R",
        "enum.global_enum(1)",
        "enum.EnumMeta('X', (), {})",
        "torch.UntypedStorage.from_file('x')",
        "x = scale.signature.from_callable",
        "def deco(f): return torch\n@deco\nclass A: pass\nA.os",
        "import math as __name__",
        "def f(__name__): pass",
        "class A:\n    def __init__(self, m): self.__m = m\n"
        "    def go(self): return self.__m.os\nA(torch).go()",
        "d = dict(m=torch)\nd['m'].os",
        "d = {**{'m': torch}}\nfor k, v in d.items(): v.os",
        "[*map(lambda m: m.os, (torch,))]",
        "f = max\nf(torch, torch).os",
        "m = torch\ndef f():\n    def g():\n        return m\n    return g\nf()().os",
        "class A:\n    def __getitem__(self, m): return m.os\nA()[torch]",
        "def len(m): return m\nlen(torch).os",
        "x = print.__self__",
        "m, = {torch}\nm.os",
        "m = [torch, nn][-1:][0]\nm.os",
        "for m in (torch,) * 2: m.os",
        "m = torch\nm: object\nm.os",
        "m = None or torch\nm.os",
        "(x := type)('X', (), {})",
        "class A(nn.Module, **{'metaclass': 1}): pass",
        "__builtins__ = 1",
        "lambda m=torch: m.os",
        "(lambda *m: m[0].os)(torch)",
        "async def f(): pass",
        "torch.utils.data.dataloader.threading",
        "import triton.runtime.autotuner as a\na.time",
        "torch.accelerator.torch.os",
        "math.__spec__",
        "tl.core.inspect",
        "x = \"\".join\nx = x.__self__",
        "class P(typing.NamedTuple('P', [('a', int)])): pass\nP(torch).a.os",
        "@dataclasses.dataclass\nclass P:\n    a: object\ndataclasses.asdict(P(torch))['a'].os",
        "next(iter([torch])).os",
        "def f():\n    try: return torch\n    finally: pass\nf().os",
        "nn.ReLU().compile()",
        "class A(nn.Module):\n    def f(self): getattr(self, 'compile')()",
        "class A(nn.ReLU): pass\nA.mro()[1]",
        "scale.bench_time",
        "T = type(1)\nclass A(T): pass",
        "f = torch.backends.cuda.enable_flash_sdp",
        "from torch.backends.cudnn import set_flags",
        "import contextlib\ncontextlib.redirect_stdout(None)",
        "def f(): raise StopIteration(torch)\ntry: f()\nexcept StopIteration as e: e.value.os",
    ),
    "monkey_patch": (
        "warnings.filters.append",
        "k = warnings.filters\nk += [1]",
        "list.append(warnings.filters, 1)",
        "functools.wraps(nn.ReLU)(nn.functional)",
        "dataclasses.dataclass(nn.ReLU)",
        "torch.utils.set_module(nn.ReLU, 'x')",
        "nn.Module.register_buffer(nn.functional, 'x', None)",
        "nn.Module.train(nn.ReLU)",
        "type(torch.ones(1)).add = None",
        "T = type(torch.ones(1))\nT.add = None",
        "[T] = [type(nn.ReLU())]\nfor T.forward in [None]: pass",
    ),
    "import": (
        "if __name__ == '__main__':\n    pass\nelse:\n    import os",
        "def h(f):\n    if __name__ == '__main__': import os",
    ),
}

# Changes of what Triton keeps on a kernel, which is called scale.
KERNELS = (
    "scale.run = None",
    "scale._src = ''",
    "scale.device_caches[0] = {}",
    "scale.pre_run_hooks.append(print)",
    "scale.params[0].is_constexpr = True",
    "del scale.cache",
    "K = {'a': [scale]}\nK['a'][0].fn = None",
    "def f(k): k.run = None\nf(scale)",
    "def f(x): pass\nk = triton.autotune(configs=[], key=[])(triton.jit(f))\nk.configs[0] = 1",
    "j = triton.jit\n@j(noinline=True)\ndef k(x): pass\nk.hash = 'a'",
)


class Detours(unittest.TestCase):
    def test_each_is_refused_in_a_sentence(self) -> None:
        for code, statements in DETOURS.items():
            for statement in statements:
                with self.subTest(statement):
                    refusal = check(HEAD + candidate(kernel=statement))
                    self.assertIsNotNone(refusal)
                    self.assertEqual(refusal.code, code, refusal)
                    self.assertRegex(refusal.reason, r"^line \d+: .*[;:,] .*\.$")

    def test_what_triton_keeps_on_a_kernel(self) -> None:
        for statement in KERNELS:
            with self.subTest(statement):
                refusal = check(candidate(kernel=SCALE + statement))
                self.assertEqual(getattr(refusal, "code", None), "monkey_patch", refusal)
                self.assertIn(" of a kernel belongs to Triton and may not be changed; say it in ",
                              refusal.reason)

    def test_a_detour_of_many_steps(self) -> None:
        """Each name is given its meaning below the place where it is used."""
        for count in (14, 200):
            names = [f"def f{i}():\n    return a{i}\na{i} = a{i + 1}" for i in range(count)]
            refusal = check(candidate(kernel="\n".join([*names, f"a{count} = torch", "a0.os"])))
            self.assertIn("torch.os is not allowed: it is the module os", refusal.reason)

    def test_what_is_too_tangled_is_refused_before_long(self) -> None:
        names = [name for name in dir(torch) if name.isidentifier() and name[0] != "_"]
        for lines in (
            [*(f"a{i} = a{i + 1}" for i in range(8000)), "a8000 = torch"],
            [*(f"x = [x, torch.{name}]" for name in names), *(f"y{i} = x" for i in range(3000))],
            [*(f"a{i}, b{i} = b{i * 7 % 3000}, [a{i * 11 % 3000}]" for i in range(3000)),
             "a0, b0 = torch, triton", "a0.nn = b0"],
        ):
            self.assertIsNotNone(check(candidate(kernel="\n".join(lines))))

    def test_many_functions_of_one_name(self) -> None:
        lines = ["def f(a, b): return f(a, [b])"] * 2000 + ["f(torch, nn)"] * 2000
        self.assertIsNone(check(candidate(kernel="\n".join(lines))))


if __name__ == "__main__":
    unittest.main()
