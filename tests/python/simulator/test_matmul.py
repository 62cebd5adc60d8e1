"""Matrix products: precisions, epilogues, and attention."""

from __future__ import annotations

import unittest
from typing import Any

import torch
import torch.nn.functional as F
from support import run


class Products(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(11)

    def agrees(self, execution: Any, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
        self.assertIsNone(execution.uncovered)
        self.assertEqual(execution.faults, [])
        self.assertEqual(execution.outputs.dtype, expected.dtype)
        torch.testing.assert_close(execution.outputs, expected, rtol=tolerance, atol=tolerance)
        self.assertEqual(execution.programs_run, execution.programs_total)

    MATMUL = """
        @triton.jit
        def matmul(a, b, bias, out, M, N, K, PRECISION: tl.constexpr, BM: tl.constexpr,
                   BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
            pid = tl.program_id(0)
            rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
            group = pid // (GROUP * columns)
            size = min(rows - group * GROUP, GROUP)
            pm = group * GROUP + (pid % (GROUP * columns)) % size
            pn = (pid % (GROUP * columns)) // size
            m = pm * BM + tl.arange(0, BM)
            n = pn * BN + tl.arange(0, BN)
            k = tl.arange(0, BK)
            pa = a + (m % M)[:, None] * K + k[None, :]
            pb = b + k[:, None] * N + (n % N)[None, :]
            total = tl.zeros((BM, BN), dtype=tl.float32)
            for i in range(0, tl.cdiv(K, BK)):
                x = tl.load(pa, mask=k[None, :] < K - i * BK, other=0.0)
                y = tl.load(pb, mask=k[:, None] < K - i * BK, other=0.0)
                total = tl.dot(x, y, total, input_precision=PRECISION)
                pa += BK
                pb += BK * N
            inside = (m[:, None] < M) & (n[None, :] < N)
            value = total + tl.load(bias + n, mask=n < N, other=0.0)[None, :]
            value = tl.maximum(value, 0.0)
            tl.store(out + m[:, None] * N + n[None, :], value, mask=inside)
    """

    @staticmethod
    def matmul(precision: str) -> str:
        return f"""
            a, b, bias = args
            M, K = a.shape
            N = b.shape[1]
            out = torch.empty((M, N), device=a.device, dtype=a.dtype)
            grid = (triton.cdiv(M, 32) * triton.cdiv(N, 32),)
            matmul[grid](a, b, bias, out, M, N, K, "{precision}", BM=32, BN=32, BK=32, GROUP=2)
            return out
        """

    def test_a_matmul_with_an_epilogue(self) -> None:
        a, b, bias = torch.randn(100, 70), torch.randn(70, 90), torch.randn(90)
        execution = run("torch.randn(100, 70), torch.randn(70, 90), torch.randn(90)",
                        self.MATMUL, self.matmul("ieee"), [a, b, bias])
        self.agrees(execution, F.relu(a @ b + bias), 1e-4)
        flops = execution.launches[0].flops
        self.assertEqual(flops["dot_ieee"], 2 * 32 * 32 * 32 * 3 * 12)

    def test_tf32_keeps_ten_bits_of_mantissa(self) -> None:
        a, b, bias = torch.randn(64, 64), torch.randn(64, 64), torch.zeros(64)
        execution = run("torch.randn(64, 64), torch.randn(64, 64), torch.randn(64)",
                        self.MATMUL, self.matmul("tf32"), [a, b, bias])
        exact = F.relu(a.double() @ b.double()).float()
        error = (execution.outputs - exact).abs().max().item()
        self.assertGreater(error, 1e-4)
        self.assertLess(error, 2e-2)
        self.assertIn("dot_tf32", execution.launches[0].flops)

    def test_a_matmul_of_half_precision_accumulates_in_fp32(self) -> None:
        for dtype, kind in ((torch.float16, "dot_fp16"), (torch.bfloat16, "dot_bf16")):
            with self.subTest(dtype=dtype):
                a, b = torch.randn(64, 96).to(dtype), torch.randn(96, 64).to(dtype)
                bias = torch.randn(64).to(dtype)
                spec = f"torch.randn(64, 96).to({dtype}), torch.randn(96, 64).to({dtype}), " \
                       f"torch.randn(64).to({dtype})"
                execution = run(spec, self.MATMUL, self.matmul("ieee"), [a, b, bias])
                expected = F.relu(a.float() @ b.float() + bias.float()).to(dtype)
                self.agrees(execution, expected, 1e-2)
                self.assertIn(kind, execution.launches[0].flops)

    def test_attention_with_a_causal_loop_of_different_lengths(self) -> None:
        kernel = """
            @triton.jit
            def attention(q, k, v, out, T, scale, D: tl.constexpr, BM: tl.constexpr,
                          BN: tl.constexpr):
                block = tl.program_id(0)
                head = tl.program_id(1) * T * D
                m = block * BM + tl.arange(0, BM)
                d = tl.arange(0, D)
                query = tl.load(q + head + m[:, None] * D + d[None, :])
                top = tl.full((BM,), -float("inf"), tl.float32)
                total = tl.zeros((BM,), tl.float32)
                acc = tl.zeros((BM, D), tl.float32)
                for start in range(0, (block + 1) * BM, BN):
                    n = start + tl.arange(0, BN)
                    key = tl.load(k + head + n[None, :] * D + d[:, None])
                    s = tl.dot(query, key, input_precision="ieee") * scale
                    s = tl.where(m[:, None] >= n[None, :], s, -float("inf"))
                    new = tl.maximum(top, tl.max(s, 1))
                    p = tl.exp(s - new[:, None])
                    fade = tl.exp(top - new)
                    total = total * fade + tl.sum(p, 1)
                    value = tl.load(v + head + n[:, None] * D + d[None, :])
                    acc = acc * fade[:, None] + tl.dot(p, value, input_precision="ieee")
                    top = new
                tl.store(out + head + m[:, None] * D + d[None, :], acc / total[:, None])
        """
        forward = """
            q, k, v = args
            out = torch.empty_like(q)
            heads = q.shape[0] * q.shape[1]
            attention[(q.shape[2] // 32, heads)](q, k, v, out, q.shape[2], q.shape[3] ** -0.5,
                                                 D=q.shape[3], BM=32, BN=16)
            return out
        """
        q, k, v = (torch.randn(2, 3, 128, 32) for _ in range(3))
        execution = run(", ".join(["torch.randn(2, 3, 128, 32)"] * 3), kernel, forward, [q, k, v])
        self.agrees(execution, F.scaled_dot_product_attention(q, k, v, is_causal=True), 1e-4)


if __name__ == "__main__":
    unittest.main()
