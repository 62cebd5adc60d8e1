"""What is kept between calls shows, wherever it is kept; what only looks like it stays allowed."""

from __future__ import annotations

import sys
import types
import unittest

import torch
from kernel_evolve_worker.recording.foreign import first_foreign_change, foreign_state
from kernel_evolve_worker.recording.rules import ALLOWED_MODULES
from kernel_evolve_worker.recording.remembered import Opaque, first_change, remembered

HEAD = """
import abc, collections, contextlib, dataclasses, enum, functools, itertools, math, typing
import torch
from torch import nn
"""

# What a module says once, and what it does in each call.
KEPT = {
    "calls = 0": "global calls; calls += 1",
    "class A:\n    def __call__(self, seen=[]): seen.append(1)\na = A()": "a()",
    "kept = []\npush = kept.append\ndel kept": "push(1)",
    "class B:\n    @property\n    def x(self, seen=[]): seen.append(1)\nb = B()": "b.x",
    "turns = itertools.cycle([1, 2])": "next(turns)",
    "class C(itertools.cycle): pass\nturns = C([1, 2])": "next(turns)",
    "turns = map(int, itertools.cycle([1, 2]))": "next(turns)",
    "turns = zip(range(9), range(9))": "next(turns)",
    "turns, _ = itertools.tee([1] * 9)": "next(turns)",
    "turns = itertools.count()": "next(turns)",
    "turns = reversed([1] * 9)": "next(turns)",
    "turns = iter([1] * 9)": "next(turns)",
    "def g(n=0):\n    while True:\n        n += 1\n        yield n\nturns = g()": "next(turns)",
    "@functools.lru_cache\ndef state(): return []": "state().append(1)",
    "state = functools.partial(dict)": "state.n = getattr(state, 'n', 0) + 1",
    "class K: pass\nk = K()\nd = {k: 0}": "d[k] += 1",
    "class E(enum.Enum):\n    A = 1": "E.A.n = getattr(E.A, 'n', 0) + 1",
    "q = collections.deque([1, 2, 3])": "q.rotate(1)",
    "q = bytearray(1)": "q[0] += 1",
    "q = {1, 2}": "q.add(len(q) + 1)",
    "q = ValueError(1)": "q.args = (*q.args, 1)",
    "drawn = torch.Generator()": "drawn.manual_seed(drawn.initial_seed() + 1)",
    "w = torch.zeros(2)": "w.n = getattr(w, 'n', 0) + 1",
    "w = torch.zeros(2)\nw.data": "w.requires_grad_(not w.requires_grad)",
    "@contextlib.contextmanager\ndef c(seen=[]):\n    seen.append(1)\n    yield": "with c(): pass",
    "f, = (nn.functional.softmax,)": "f.n = getattr(f, 'n', 0) + 1",
}
FOREIGN = {
    "import warnings": "warnings.simplefilter('ignore', lineno=len(warnings.filters))",
    "L, = (nn.Linear,)": "L.n = getattr(L, 'n', 0) + 1",
    "class P(abc.ABC): pass": "P.register(type('Q', (), {}))",
    "m = nn.ReLU()": "m.register_forward_hook(print).remove()",
    "seed = torch.random.initial_seed": "torch.random.manual_seed(seed() + 1)",
}
ALLOWED = {
    "@functools.lru_cache\ndef sms(): return 132": "sms()",
    "@dataclasses.dataclass(frozen=True)\nclass D:\n    a: int = 1\nd = D()": "hash(d)",
    "N = collections.namedtuple('N', 'a b')\nn = N(1, 2)": "n.a",
    "class E(enum.IntEnum):\n    A = 1": "E.A + 1",
    "class P(abc.ABC): pass": "P()",
    "T = typing.Optional[int]\nclass M(typing.NamedTuple):\n    a: int": "M(1)",
    "table = {torch.float32: torch.add}\nf = torch.finfo(torch.float32)": "table[torch.float32]",
    "n = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.GRU(2, 2), nn.Embedding(3, 2))":
        "n.train()",
    "obj = object()\ncut = slice(1, 2)\nr = range(3)\nsize = torch.Size([1])": "r[1]",
}


def run(once: str, each: str) -> tuple[str | None, str | None]:
    """What differs between the third call and the second: in the candidate, in others' modules."""
    module = sys.modules["candidate"] = types.ModuleType("candidate")
    body = "\n".join(f"    {line}" for line in each.split("; "))
    exec(f"{HEAD}{once}\ndef each():\n{body}\n", vars(module))  # noqa: S102 - the test's own
    seen, around = [], []
    for _ in range(3):
        module.each()
        seen.append(remembered(module, torch.nn.Module()))
        around.append(foreign_state(ALLOWED_MODULES))
    return first_change(*seen[1:]), first_foreign_change(*around[1:])


class Remembered(unittest.TestCase):
    def tearDown(self) -> None:
        sys.modules.pop("candidate", None)

    def test_what_is_kept(self) -> None:
        for once, each in KEPT.items():
            with self.subTest(once):
                self.assertIsNotNone(run(once, each)[0])

    def test_what_is_kept_in_modules_of_others(self) -> None:
        for once, each in FOREIGN.items():
            with self.subTest(once):
                self.assertIsNotNone(run(once, each)[1])

    def test_what_is_no_memory(self) -> None:
        for once, each in ALLOWED.items():
            with self.subTest(once):
                self.assertEqual(run(once, each), (None, None))

    def test_hits_of_a_cache_count_where_they_are_asked_for(self) -> None:
        module = types.ModuleType("candidate")
        exec(HEAD + "@functools.lru_cache\ndef tick(): return 0", vars(module))  # noqa: S102
        module.tick()
        before = remembered(module, torch.nn.Module(), counts_hits=True)
        module.tick()
        after = remembered(module, torch.nn.Module(), counts_hits=True)
        self.assertEqual(first_change(before, after), "the cache of tick")

    def test_attributes_of_inputs(self) -> None:
        module, x = types.ModuleType("candidate"), torch.zeros(2)
        before = remembered(module, torch.nn.Module(), [x])
        x.calls = 1
        after = remembered(module, torch.nn.Module(), [x])
        self.assertEqual(first_change(before, after), "tensor 0.calls")

    def test_what_cannot_be_compared(self) -> None:
        module = types.ModuleType("candidate")
        vars(module)["lines"] = open(__file__, encoding="utf-8")  # noqa: SIM115
        self.addCleanup(vars(module)["lines"].close)
        with self.assertRaisesRegex(Opaque, "lines is a TextIOWrapper, whose state"):
            remembered(module, torch.nn.Module())


if __name__ == "__main__":
    unittest.main()
