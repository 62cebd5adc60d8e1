"""What the author writes computes what the task computes, for every family and odd shape.

The kernels run under Triton's interpreter in a child process: fit for their arithmetic and
addresses. What they compile to is tested in test_recorded.py.
"""

from __future__ import annotations

import itertools
import unittest

from kernel_evolve_worker.recording import policy
from offline_author import author

import families
import support

#: The interpreter's bfloat16 products are wrong; the simulator runs this one in test_recorded.py.
NOT_FOR_THE_INTERPRETER = {"mm_bfloat16"}


class FirstGuessesAreRight(unittest.TestCase):
    def test_every_family_within_the_static_policy(self) -> None:
        sources = {
            name: text
            for name, text in families.sources().items()
            if name not in NOT_FOR_THE_INTERPRETER
        }
        jobs = [{"source": s, "code": support.candidate(s)} for s in sources.values()]
        for name, job in zip(sources, jobs, strict=True):
            with self.subTest(name):
                self.assertIsNone(policy.check(job["code"]))
        self.assertEqual(support.worst(support.execute(jobs), list(sources)), "")


class GenesChangeOnlySpeed(unittest.TestCase):
    """Rows longer than a block are walked in loops; tiles of every shape keep the edges right."""

    LONG = {
        "softmax": ("x.softmax(-1)", "torch.randn(3, 1100)"),
        "layer_norm": ("F.layer_norm(x, (1100,))", "torch.randn(3, 1100) + 4"),
        "norm_of_a_sum": ("x = x + y\nreturn x, x / x.norm(dim=-1, keepdim=True)",
                          "torch.randn(2, 3, 1100), torch.randn(3, 1100)", "x, y"),
        "statistics": ("x.amax(-1), x.var(-1), torch.logsumexp(x, -1)", "torch.randn(3, 1100)"),
        "integers": ("x.amax(-1) - x.amin(-1)", "torch.randint(-99, 99, (3, 1100))"),
    }  # fmt: skip

    def test_long_rows_in_loops(self) -> None:
        names, jobs = [], []
        for name, (forward, inputs, *more) in self.LONG.items():
            source = support.task(forward, inputs, signature=more[0] if more else "x")
            for width in (512, 1024):
                code = support.candidate(source, {"BLOCK_M": 2, "BLOCK_N": width})
                self.assertIn("for start in range(0, 1100, BLOCK_N):", code)
                names.append(f"{name} in blocks of {width}")
                jobs.append({"source": source, "code": code})
        self.assertEqual(support.worst(support.execute(jobs), names), "")

    def test_columns_in_loops(self) -> None:
        source = support.task("x.softmax(0)", "torch.randn(70, 40)")
        code = support.candidate(source, {"BLOCK_M": 16, "BLOCK_N": 32})
        self.assertIn("for start", code)
        found = support.execute([{"source": source, "code": code}])
        self.assertEqual(support.worst(found, ["softmax down"]), "")

    def test_points_all_over_the_spaces(self) -> None:
        """Every tenth or so legal point of four kinds of kernel."""
        names, jobs = [], []
        for name in ("chain", "three_dimensions", "transposed", "linear_gelu", "rms_norm"):
            source = families.sources()[name]
            space = author.study(source, "/tasks/sample.py").space
            points = [
                dict(zip(space.values, values, strict=True))
                for values in itertools.product(*space.values.values())
            ]
            legal = [p for p in points if space.legal(p)]
            for genes in legal[:: max(1, len(legal) // 5)]:
                names.append(f"{name} with {genes}")
                jobs.append({"source": source, "code": support.candidate(source, genes)})
        self.assertEqual(support.worst(support.execute(jobs), names), "")


if __name__ == "__main__":
    unittest.main()
