"""Less common parts of Triton's language, each in a kernel of a few lines."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from support import run

ONE = """
    out = torch.empty_like(args[0])
    k[(1,)](*args, out)
    return out
"""


class Language(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(3)

    def outputs(self, inputs: str, kernel: str, forward: str, data: list[Any]) -> Any:
        execution = run(inputs, kernel, forward, data)
        self.assertEqual((execution.uncovered, execution.faults), (None, []))
        return execution.outputs

    def test_a_reduction_with_a_function_of_one_s_own_and_two_values(self) -> None:
        kernel = """
            @triton.jit
            def combine(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
                n = n_a + n_b
                delta = mean_b - mean_a
                return mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n, n

            @triton.jit
            def k(x, out, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                i = tl.arange(0, BLOCK)
                v = tl.load(x + row * BLOCK + i)
                one = tl.full((BLOCK,), 1.0, tl.float32)
                mean, m2, n = tl.reduce((v, tl.zeros_like(v), one), 0, combine)
                tl.store(out + row * 2, mean)
                tl.store(out + row * 2 + 1, m2 / n)
        """
        forward = """
            out = torch.empty(args[0].shape[0], 2, device=args[0].device)
            k[(args[0].shape[0],)](args[0], out, BLOCK=128)
            return out
        """
        x = torch.randn(9, 128)
        out = self.outputs("torch.randn(9, 128)", kernel, forward, [x])
        expected = torch.stack([x.mean(1), x.var(1, unbiased=False)], 1)
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)

    def test_an_associative_scan_of_pairs(self) -> None:
        kernel = """
            @triton.jit
            def step(a1, b1, a2, b2):
                return a1 * a2, a2 * b1 + b2

            @triton.jit
            def k(a, b, out):
                i = tl.arange(0, 32)
                _, h = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, step)
                tl.store(out + i, h)
        """
        a, b = torch.rand(32), torch.randn(32)
        out = self.outputs("torch.randn(32), torch.randn(32)", kernel, ONE, [a, b])
        h, expected = 0.0, []
        for x, y in zip(a.tolist(), b.tolist()):
            h = x * h + y
            expected.append(h)
        torch.testing.assert_close(out, torch.tensor(expected), rtol=1e-5, atol=1e-5)

    def test_reductions_along_either_axis_of_a_tile(self) -> None:
        kernel = """
            @triton.jit
            def k(x, out):
                i, j = tl.arange(0, 16), tl.arange(0, 32)
                v = tl.load(x + i[:, None] * 32 + j[None, :])
                r = tl.sum(v, 1)[:, None] + tl.max(v, 0)[None, :] + tl.sum(v)
                tl.store(out + i[:, None] * 32 + j[None, :], r)
        """
        x = torch.randn(16, 32)
        out = self.outputs("torch.randn(16, 32)", kernel, ONE, [x])
        torch.testing.assert_close(out, x.sum(1, keepdim=True) + x.amax(0) + x.sum(), rtol=1e-4,
                                   atol=1e-4)

    def test_joining_splitting_and_interleaving(self) -> None:
        kernel = """
            @triton.jit
            def k(x, out):
                i = tl.arange(0, 64)
                v = tl.load(x + i)
                even, odd = tl.split(tl.reshape(v, (32, 2)))
                tl.store(out + i, tl.interleave(odd, -even))
        """
        x = torch.randn(64)
        out = self.outputs("torch.randn(64)", kernel, ONE, [x])
        self.assertTrue(torch.equal(out, torch.stack([x[1::2], -x[::2]], 1).reshape(-1)))

    def test_gather_and_histogram(self) -> None:
        kernel = """
            @triton.jit
            def k(x, out):
                i = tl.arange(0, 64)
                v = tl.load(x + i)
                counts = tl.histogram(v, 16)
                tl.store(out + i, tl.gather(counts, v, 0))
        """
        x = torch.randint(0, 16, (64,), dtype=torch.int32)
        out = self.outputs("torch.zeros(64, dtype=torch.int32)", kernel, ONE, [x])
        self.assertTrue(torch.equal(out, x.long().bincount(minlength=16).int()[x.long()]))

    def test_a_histogram_with_a_mask(self) -> None:
        kernel = """
            @triton.jit
            def k(x, out):
                i = tl.arange(0, 64)
                v = tl.load(x + i)
                tl.store(out + tl.arange(0, 16), tl.histogram(v, 16, mask=i < 40))
        """
        forward = ONE.replace("torch.empty_like(args[0])",
                              "torch.empty(16, device='cuda', dtype=torch.int32)")
        x = torch.randint(0, 16, (64,), dtype=torch.int32)
        out = self.outputs("torch.zeros(64, dtype=torch.int32)", kernel, forward, [x])
        self.assertTrue(torch.equal(out, x[:40].long().bincount(minlength=16).int()))

    def test_split_k_with_atomics(self) -> None:
        kernel = """
            @triton.jit
            def k(a, b, out, K, B: tl.constexpr, S: tl.constexpr):
                m = tl.program_id(0) * B + tl.arange(0, B)
                n = tl.arange(0, B)
                total = tl.zeros((B, B), tl.float32)
                for start in tl.range(tl.program_id(1) * B, K, S * B, num_stages=2):
                    i = start + tl.arange(0, B)
                    total += tl.dot(tl.load(a + m[:, None] * K + i[None, :]),
                                    tl.load(b + i[:, None] * B + n[None, :]),
                                    input_precision="tf32x3")
                tl.atomic_add(out + m[:, None] * B + n[None, :], total)
        """
        forward = """
            a, b = args
            out = torch.zeros(a.shape[0], 16, device=a.device)
            k[(a.shape[0] // 16, 3)](a, b, out, a.shape[1], B=16, S=3)
            return out
        """
        a, b = torch.randn(32, 128), torch.randn(128, 16)
        out = self.outputs("torch.randn(32, 128), torch.randn(128, 16)", kernel, forward, [a, b])
        torch.testing.assert_close(out, a @ b, rtol=1e-4, atol=1e-4)

    def test_bytes_and_booleans(self) -> None:
        kernel = """
            @triton.jit
            def k(x, flag, out, N: tl.constexpr):
                i = tl.arange(0, N)
                v = tl.load(x + i)
                tl.store(out + i, tl.where(tl.load(flag + i), v.to(tl.float32), -1.0))
                tl.store(flag + i, v > 100)
        """
        forward = """
            out = torch.empty(64, device=args[0].device)
            k[(1,)](*args, out, N=64)
            return out, args[1]
        """
        x = torch.randint(0, 256, (64,), dtype=torch.uint8)
        flag = torch.rand(64) > 0.5
        out, new = self.outputs("torch.zeros(64, dtype=torch.uint8), torch.rand(64) > 0.5", kernel,
                                forward, [x, flag])
        self.assertTrue(torch.equal(out, torch.where(flag, x.float(), -1.0)))
        self.assertTrue(torch.equal(new, x > 100))

    def test_fp8_saturates_and_multiplies(self) -> None:
        kernel = """
            @triton.jit
            def k(a, b, out, low):
                i = tl.arange(0, 32)
                x = tl.load(a + i[:, None] * 32 + i[None, :])
                y = tl.load(b + i[:, None] * 32 + i[None, :])
                total = tl.dot(x, y)
                tl.store(out + i[:, None] * 32 + i[None, :], total)
                tl.store(low + i[:, None] * 32 + i[None, :], (total * 100).to(tl.float8e4nv))
        """
        forward = """
            a, b = args
            out = torch.empty(32, 32, device=a.device)
            low = torch.empty(32, 32, device=a.device, dtype=torch.float8_e4m3fn)
            k[(1,)](a, b, out, low)
            return out, low
        """
        a, b = (torch.randn(32, 32).to(torch.float8_e4m3fn) for _ in range(2))
        spec = "torch.randn(32, 32).to(torch.float8_e4m3fn)"
        out, low = self.outputs(f"{spec}, {spec}", kernel, forward, [a, b])
        expected = a.float() @ b.float()
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
        self.assertEqual(low.float().abs().max().item(), 448.0)
        self.assertFalse(bool(low.float().isnan().any()))

    def test_a_descriptor_made_on_the_device(self) -> None:
        kernel = """
            @triton.jit
            def k(x, out, M, N, B: tl.constexpr):
                source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1],
                                                   block_shape=[B, B])
                v = source.load([tl.program_id(0) * B, 0])
                m = tl.program_id(0) * B + tl.arange(0, B)
                n = tl.arange(0, B)
                tl.store(out + m[:, None] * B + n[None, :], v, mask=m[:, None] < M)
        """
        forward = """
            x = args[0]
            triton.set_allocator(lambda size, align, stream: torch.empty(size, device=x.device,
                                                                         dtype=torch.int8))
            out = torch.empty(x.shape[0], 16, device=x.device)
            k[(triton.cdiv(x.shape[0], 16),)](x, out, x.shape[0], x.shape[1], B=16)
            return out
        """
        x = torch.randn(40, 12)
        out = self.outputs("torch.randn(40, 12)", kernel, forward, [x])
        self.assertTrue(torch.equal(out, torch.nn.functional.pad(x, (0, 4))))

    def test_modifiers_int64_offsets_and_loops_unrolled_at_compile_time(self) -> None:
        kernel = """
            @triton.jit
            def k(x, out, B: tl.constexpr):
                pid = tl.program_id(0).to(tl.int64)
                i = pid * B + tl.arange(0, B)
                v = tl.load(x + i, eviction_policy="evict_first")
                for _ in tl.static_range(3):
                    v = v * 2
                tl.store(out + i, v, cache_modifier=".wt")
        """
        forward = """
            out = torch.empty_like(args[0])
            k[(8,)](args[0], out, B=32)
            return out
        """
        x = torch.randn(256)
        out = self.outputs("torch.randn(256)", kernel, forward, [x])
        self.assertTrue(torch.equal(out, x * 8))

    def test_arguments_that_are_floats_none_tuples_and_bools(self) -> None:
        kernel = """
            @triton.jit
            def k(x, bias, pair, scale, out, on, B: tl.constexpr):
                i = tl.arange(0, B)
                v = tl.load(x + i) * scale + pair[0] * pair[1]
                if bias is not None:
                    v += tl.load(bias + i)
                if on:
                    v = -v
                tl.store(out + i, v)
        """
        forward = """
            out = torch.empty_like(args[0])
            k[(1,)](args[0], None, (2.5, 3), 0.5, out, True, B=32)
            return out
        """
        x = torch.randn(32)
        out = self.outputs("torch.randn(32)", kernel, forward, [x])
        torch.testing.assert_close(out, -(x * 0.5 + 7.5))

    def test_a_store_in_a_branch_that_some_programs_take(self) -> None:
        kernel = """
            @triton.jit
            def k(x, out, B: tl.constexpr):
                pid = tl.program_id(0)
                i = pid * B + tl.arange(0, B)
                v = tl.load(x + i)
                if tl.sum(v, 0) > 0:
                    tl.store(out + i, v)
                else:
                    for j in range(pid):
                        v += j
                    tl.store(out + i, -v)
        """
        forward = """
            out = torch.empty_like(args[0])
            k[(16,)](args[0], out, B=16)
            return out
        """
        x = torch.randn(256)
        out = self.outputs("torch.randn(256)", kernel, forward, [x])
        rows = x.reshape(16, 16)
        extra = torch.tensor([p * (p - 1) / 2 for p in range(16)])[:, None]
        expected = torch.where(rows.sum(1, keepdim=True) > 0, rows, -(rows + extra))
        torch.testing.assert_close(out.reshape(16, 16), expected)

    def test_three_dimensional_grids_and_batched_dots(self) -> None:
        kernel = """
            @triton.jit
            def k(a, b, out, B: tl.constexpr):
                z = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * 2
                t = (z + tl.arange(0, 2))[:, None, None] * (B * B)
                i = tl.arange(0, B)
                tile = t + i[None, :, None] * B + i[None, None, :]
                tl.store(out + tile, tl.dot(tl.load(a + tile), tl.load(b + tile),
                                            input_precision="ieee") + tl.program_id(0))
        """
        forward = """
            out = torch.empty_like(args[0])
            k[(1, 2, 3)](*args, out, B=16)
            return out
        """
        a, b = torch.randn(12, 16, 16), torch.randn(12, 16, 16)
        spec = "torch.randn(12, 16, 16)"
        out = self.outputs(f"{spec}, {spec}", kernel, forward, [a, b])
        torch.testing.assert_close(out, a @ b, rtol=1e-4, atol=1e-4)

    def test_half_precision_rounds_after_each_operation(self) -> None:
        kernel = """
            @triton.jit
            def k(a, b, out):
                i = tl.arange(0, 256)
                x, y = tl.load(a + i), tl.load(b + i)
                tl.store(out + i, (x * y + x).to(tl.bfloat16))
        """
        for dtype in (torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                a, b = torch.randn(256).to(dtype), torch.randn(256).to(dtype)
                spec = f"torch.randn(256).to({dtype})"
                forward = ONE.replace("torch.empty_like(args[0])",
                                      "torch.empty(256, device='cuda', dtype=torch.bfloat16)")
                out = self.outputs(f"{spec}, {spec}", kernel, forward, [a, b])
                self.assertTrue(torch.equal(out, (a * b + a).bfloat16()))

    def test_unsigned_maxima_and_minima_by_atomics(self) -> None:
        kernel = """
            @triton.jit
            def k(x, top, low):
                v = tl.load(x + tl.program_id(0))
                tl.atomic_max(top, v)
                tl.atomic_min(low, v)
        """
        forward = """
            x = args[0]
            top, low = torch.full_like(x[:1], -1e30), torch.full_like(x[:1], 1e30)
            k[(50,)](x, top, low)
            return top, low
        """
        for sign in (1.0, -1.0):
            x = sign * (torch.rand(50) + 0.5)
            x[0] = 0.1
            top, low = self.outputs("torch.randn(50)", kernel, forward, [x])
            self.assertEqual((top.item(), low.item()), (x.max().item(), x.min().item()))


if __name__ == "__main__":
    unittest.main()
