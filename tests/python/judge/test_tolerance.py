"""The numeric rule lets honest rewrites through and stops wrong ones."""

from __future__ import annotations

import unittest
from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernel_evolve_worker.correctness import constants, tolerance

Function = Callable[..., torch.Tensor]


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Rounded to TF32's 10 bits of fraction."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def reference(f: Function, xs: list[torch.Tensor], depth: int,
              rule: constants.NumberRule = constants.FP32) -> tolerance.Reference:
    generator = torch.Generator().manual_seed(3)
    moved = []
    for _ in range(3):
        shaken = [
            x.double() * (1 + rule.perturbation * (torch.rand(x.shape, generator=generator) * 2 - 1)
                          .double()) for x in xs
        ]
        moved.append(f(*shaken))
    return tolerance.make_reference(f(*[x.double() for x in xs]), f(*xs), moved, rule, depth)


class Rule(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)

    def judge(self, f: Function, xs: list[torch.Tensor], depth: int,
              honest: dict[str, torch.Tensor], wrong: dict[str, torch.Tensor],
              rule: constants.NumberRule = constants.FP32) -> None:
        ref = reference(f, xs, depth, rule)
        self.assertTrue(ref.counts(f(*xs)), "eager keeps the margin")
        self.assertTrue(tolerance.compare(ref, f(*xs)).ok, "eager itself")
        for name, y in honest.items():
            result = tolerance.compare(ref, y)
            self.assertTrue(result.ok, f"{name}: {result.excess:.3g} times the allowance")
            self.assertLessEqual(result.excess, 1.0, name)
        for name, y in wrong.items():
            result = tolerance.compare(ref, y)
            self.assertFalse(result.ok, name)
            self.assertTrue(bool(result.wrong.any()), f"{name}: some element is named")


class Fp32(Rule):
    def matmul(self, a: torch.Tensor, b: torch.Tensor) -> None:
        sequential = torch.zeros(a.shape[0], b.shape[1])
        for k in range(0, a.shape[1], 16):
            sequential = sequential + a[:, k:k + 16] @ b[k:k + 16]
        self.judge(
            lambda x, y: x @ y, [a, b], a.shape[1],
            {"other order": sequential, "split in two":
             a[:, ::2] @ b[::2] + a[:, 1::2] @ b[1::2]},
            {"tf32": tf32(a) @ tf32(b), "fp16 operands": a.half().float() @ b.half().float(),
             "bf16 operands": a.bfloat16().float() @ b.bfloat16().float(),
             "one term dropped": a[:, :-1] @ b[:-1], "32 terms dropped": a[:, :-32] @ b[:-32]})

    def test_matmul_of_normal_numbers(self) -> None:
        self.matmul(torch.randn(64, 2048), torch.randn(2048, 64))

    def test_matmul_of_positive_numbers(self) -> None:
        self.matmul(torch.rand(64, 2048), torch.rand(2048, 64))

    def test_long_sums(self) -> None:
        x = torch.rand(32, 1 << 16)
        serial = torch.zeros(32)
        for i in range(0, 1 << 16, 512):
            serial = serial + x[:, i:i + 512].sum(1)
        self.judge(lambda t: t.sum(1), [x], 1 << 16,
                   {"tile after tile": serial, "tree": x.view(32, 256, 256).sum(1).sum(1)},
                   {"tail dropped": x[:, :-1024].sum(1), "32 dropped": x[:, :-32].sum(1)})

    def test_softmax(self) -> None:
        x = torch.randn(64, 2048)
        e = torch.exp(x - x.amax(1, keepdim=True))
        self.judge(lambda t: t.softmax(1), [x], 2048,
                   {"without the maximum": torch.exp(x) / torch.exp(x).sum(1, keepdim=True)},
                   {"last one left out of the sum": e / e[:, :-1].sum(1, keepdim=True)})

    def test_layer_norm(self) -> None:
        def norm(t: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
            return F.layer_norm(t, t.shape[-1:], eps=eps)

        x = torch.randn(64, 1024)
        m = x.mean(1, keepdim=True)
        one_pass = (x - m) / torch.sqrt((x * x).mean(1, keepdim=True) - m * m + 1e-5)
        sample = (x - m) / torch.sqrt((x - m).square().sum(1, keepdim=True) / 1023 + 1e-5)
        self.judge(norm, [x], 1024, {"one pass on zero-mean data": one_pass},
                   {"n - 1": sample, "no epsilon": norm(x, 0.0), "another epsilon": norm(x, 1e-6)})

    def test_one_pass_variance_is_refused_where_the_mean_is_large(self) -> None:
        x = torch.randn(64, 1024) + 100.0
        m = x.mean(1, keepdim=True)
        one_pass = (x - m) / torch.sqrt((x * x).mean(1, keepdim=True) - m * m + 1e-5)
        self.judge(lambda t: F.layer_norm(t, t.shape[-1:]), [x], 1024, {}, {"one pass": one_pass})

    def test_pointwise(self) -> None:
        x = torch.randn(128, 256)
        self.judge(F.gelu, [x], 1, {"by erf": 0.5 * x * (1 + torch.erf(x * 0.5**0.5))},
                   {"by tanh": F.gelu(x, approximate="tanh"), "relu": x.relu()})
        self.judge(torch.relu, [x], 1, {"one ulp off": x.relu() * (1 + 2.0**-23)},
                   {"1e-4 off": x.relu() * 1.0001})

    def test_small_rows_among_large_ones_count(self) -> None:
        x = torch.randn(256, 64) * torch.logspace(-6, 3, 256)[:, None]
        zeroed = (x * 2).clone()
        zeroed[:10] = 0
        self.judge(lambda t: t * 2, [x], 1, {"exact": x + x}, {"small rows zero": zeroed})

    def test_a_single_wrong_element_is_found_and_named(self) -> None:
        x = torch.randn(64, 64)
        ref = reference(lambda t: t * 3, [x], 1)
        y = x * 3
        y[5, 7] += 0.01
        result = tolerance.compare(ref, y)
        self.assertEqual(result.wrong.nonzero().tolist(), [[5, 7]])

    def test_nan_and_inf_are_never_within_tolerance(self) -> None:
        x = torch.randn(64, 64)
        ref = reference(lambda t: t * 3, [x], 1)
        for special in (float("nan"), float("inf")):
            y = x * 3
            y[0, 0] = special
            result = tolerance.compare(ref, y)
            self.assertFalse(result.ok)
            self.assertFalse(result.masks)

    def test_an_exact_zero_result_has_to_be_exact(self) -> None:
        x = torch.zeros(64, 64)
        ref = reference(lambda t: t * 3, [x], 1)
        self.assertTrue(tolerance.compare(ref, x).ok)
        self.assertFalse(tolerance.compare(ref, x + 1e-30).ok)


class HalfPrecisions(Rule):
    """One rounding per stored value is honest; working in the narrow type isn't."""

    def check(self, dtype: torch.dtype) -> None:
        rule = constants.RULES[dtype]
        a, b = torch.randn(64, 2048).to(dtype), torch.randn(2048, 64).to(dtype)
        exact = a.double() @ b.double()
        narrow = torch.zeros(64, 64, dtype=dtype)
        for k in range(0, 2048, 32):
            narrow = narrow + (a[:, k:k + 32].float() @ b[k:k + 32].float()).to(dtype)
        self.judge(lambda x, y: x @ y, [a, b], 2048,
                   {"fp32 sums, rounded once": exact.to(dtype),
                    "rounded twice": (exact.to(dtype).double() * 3).to(dtype).double().div(3)
                    .to(dtype)},
                   {"summed in the narrow type": narrow,
                    "one term dropped": (a[:, :-1].float() @ b[:-1].float()).to(dtype)}, rule)
        x = torch.randn(64, 1024).to(dtype)
        s = x.float().softmax(1)
        self.judge(lambda t: t.softmax(1), [x], 1024, {"through fp32": s.to(dtype)},
                   {"8 left out of the sum": (x.float().exp() / x.float()[:, :-8].exp()
                                              .sum(1, keepdim=True) * 1.01).to(dtype)}, rule)

    def test_fp16(self) -> None:
        self.check(torch.float16)

    def test_bf16(self) -> None:
        self.check(torch.bfloat16)

    def test_chopping_is_honest_and_two_units_off_is_not(self) -> None:
        x = torch.randn(64, 512).bfloat16()
        exact = x.float() * 1.2345
        chopped = (exact.view(torch.int32) & ~0xFFFF).view(torch.float32).bfloat16()
        self.judge(lambda t: t * 1.2345, [x], 1, {"chopped": chopped},
                   {"1% off": (exact * 1.01).bfloat16()}, constants.BF16)


class TellingRightFromWrong(unittest.TestCase):
    """Data on which eager itself is unreliable proves nothing, and doesn't count."""

    def counts(self, f: Function, x: torch.Tensor, depth: int) -> bool:
        return reference(f, [x], depth).counts(f(x))

    def test_sums_that_cancel_do_not_count(self) -> None:
        x = torch.randn(64, 4096)
        x = x - x.double().mean(1, keepdim=True).float()
        self.assertFalse(self.counts(lambda t: t.sum(1), x, 4096))

    def test_a_norm_of_constant_rows_does_not_count(self) -> None:
        self.assertFalse(self.counts(lambda t: F.layer_norm(t, (256,)), torch.full((4, 256), 0.1),
                                     256))

    def test_a_constant_result_does_not_count(self) -> None:
        self.assertFalse(self.counts(torch.relu, -torch.rand(64, 64), 1))
        self.assertFalse(self.counts(lambda t: t * 2, torch.ones(64, 64), 1))

    def test_overflow_does_not_count(self) -> None:
        self.assertFalse(self.counts(torch.exp, torch.full((4, 64), 200.0), 1))

    def test_ordinary_data_counts(self) -> None:
        self.assertTrue(self.counts(torch.relu, torch.randn(64, 64), 1))


if __name__ == "__main__":
    unittest.main()
