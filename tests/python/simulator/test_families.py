"""Kernels that people write: what the simulator computes is what PyTorch computes."""

from __future__ import annotations

import unittest
from typing import Any

import torch
import torch.nn.functional as F
from support import run


class Families(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(11)

    def agrees(self, execution: Any, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
        self.assertIsNone(execution.uncovered)
        self.assertEqual(execution.faults, [])
        self.assertEqual(execution.outputs.dtype, expected.dtype)
        torch.testing.assert_close(execution.outputs, expected, rtol=tolerance, atol=tolerance)
        self.assertEqual(execution.programs_run, execution.programs_total)

    def test_rows_scaled_by_a_vector(self) -> None:
        kernel = """
            @triton.jit
            def scale(a, b, d, out, columns, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
                inside = column < columns
                x = tl.load(b + row * columns + column, mask=inside)
                y = tl.load(d + row * columns + column, mask=inside)
                tl.store(out + row * columns + column, tl.load(a + row) * x + y, mask=inside)
        """
        forward = """
            a, b, d = args
            out = torch.empty_like(b)
            scale[(b.shape[0], triton.cdiv(b.shape[1], 64))](a, b, d, out, b.shape[1], BLOCK=64)
            return out
        """
        a, b, d = torch.randn(96), torch.randn(96, 200), torch.randn(96, 200)
        execution = run("torch.randn(96), torch.randn(96, 200), torch.randn(96, 200)", kernel,
                        forward, [a, b, d])
        self.agrees(execution, a[:, None] * b + d)
        launch = execution.launches[0]
        self.assertEqual((launch.grid, launch.programs), ((96, 4, 1), 384))
        self.assertEqual(launch.read_bytes, (96 + 2 * 96 * 200) * 4)
        self.assertEqual(launch.written_bytes, 96 * 200 * 4)
        self.assertEqual(launch.flops, {"fp32": 2 * 96 * 256})

    def test_a_pointwise_chain_with_broadcasts_over_a_flat_index(self) -> None:
        kernel = """
            @triton.jit
            def chain(x, bias, out, count, columns, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                inside = i < count
                value = tl.load(x + i, mask=inside) + tl.load(bias + i % columns, mask=inside)
                tl.store(out + i, value * tl.sigmoid(value) + 0.5, mask=inside)
        """
        forward = """
            x, bias = args
            out = torch.empty_like(x)
            grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
            chain[grid](x, bias, out, x.numel(), x.shape[1], BLOCK=128)
            return out
        """
        x, bias = torch.randn(37, 51), torch.randn(51)
        execution = run("torch.randn(37, 51), torch.randn(51)", kernel, forward, [x, bias])
        self.agrees(execution, F.silu(x + bias) + 0.5)

    def test_row_reductions(self) -> None:
        kernel = """
            @triton.jit
            def reduce(x, total, top, low, where, where_low, columns, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                column = tl.arange(0, BLOCK)
                inside = column < columns
                values = tl.load(x + row * columns + column, mask=inside, other=0.0)
                up = tl.where(inside, values, -float("inf"))
                down = tl.where(inside, values, float("inf"))
                tl.store(total + row, tl.sum(values, 0))
                tl.store(top + row, tl.max(up, 0))
                tl.store(low + row, tl.min(down, 0))
                tl.store(where + row, tl.argmax(up, 0))
                tl.store(where_low + row, tl.argmin(down, 0))
        """
        forward = """
            x, = args
            rows, columns = x.shape
            out = [torch.empty(rows, device=x.device) for _ in range(3)]
            index = [torch.empty(rows, device=x.device, dtype=torch.int64) for _ in range(2)]
            reduce[(rows,)](x, *out, *index, columns, BLOCK=triton.next_power_of_2(columns))
            return (*out, *index)
        """
        x = torch.randn(40, 100)
        x[3, 20] = x[3, 70] = 9.0  # ties go to the first
        execution = run("torch.randn(40, 100)", kernel, forward, [x])
        self.assertEqual((execution.uncovered, execution.faults), (None, []))
        total, top, low, where, where_low = execution.outputs
        torch.testing.assert_close(total, x.sum(1))
        self.assertTrue(torch.equal(top, x.amax(1)))
        self.assertTrue(torch.equal(low, x.amin(1)))
        self.assertTrue(torch.equal(where, x.argmax(1)))
        self.assertTrue(torch.equal(where_low, x.argmin(1)))

    def test_softmax(self) -> None:
        kernel = """
            @triton.jit
            def softmax(x, out, columns, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                column = tl.arange(0, BLOCK)
                inside = column < columns
                v = tl.load(x + row * columns + column, mask=inside, other=-float("inf"))
                v = v.to(tl.float32)
                e = tl.exp(v - tl.max(v, 0))
                tl.store(out + row * columns + column, e / tl.sum(e, 0), mask=inside)
        """
        forward = """
            x, = args
            out = torch.empty_like(x)
            softmax[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024)
            return out
        """
        for dtype, tolerance in ((torch.float32, 1e-6), (torch.bfloat16, 1e-2)):
            with self.subTest(dtype=dtype):
                x = torch.randn(60, 1000).to(dtype)
                execution = run(f"torch.randn(60, 1000).to({dtype})", kernel, forward, [x])
                self.agrees(execution, torch.softmax(x, 1), tolerance)

    def test_layer_norm_with_weights_that_the_recording_never_saw(self) -> None:
        kernel = """
            @triton.jit
            def norm(x, w, b, out, columns, eps, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                total = tl.zeros((BLOCK,), tl.float32)
                for start in range(0, columns, BLOCK):
                    column = start + tl.arange(0, BLOCK)
                    total += tl.load(x + row * columns + column, mask=column < columns, other=0.0)
                mean = tl.sum(total, 0) / columns
                squares = tl.zeros((BLOCK,), tl.float32)
                for start in range(0, columns, BLOCK):
                    column = start + tl.arange(0, BLOCK)
                    v = tl.load(x + row * columns + column, mask=column < columns, other=0.0)
                    v = tl.where(column < columns, v - mean, 0.0)
                    squares += v * v
                scale = tl.rsqrt(tl.sum(squares, 0) / columns + eps)
                for start in range(0, columns, BLOCK):
                    column = start + tl.arange(0, BLOCK)
                    inside = column < columns
                    v = tl.load(x + row * columns + column, mask=inside)
                    v = (v - mean) * scale * tl.load(w + column, mask=inside)
                    tl.store(out + row * columns + column, v + tl.load(b + column, mask=inside),
                             mask=inside)
        """
        forward = """
            x, = args
            out = torch.empty_like(x)
            norm[(x.shape[0],)](x, self.norm.weight, self.norm.bias, out, x.shape[1],
                                self.norm.eps, BLOCK=128)
            return out
        """
        x, w, b = torch.randn(33, 300) + 3, torch.randn(300), torch.randn(300)
        execution = run("torch.randn(33, 300)", kernel, forward, [x],
                        {"norm.weight": w, "norm.bias": b}, model="self.norm = nn.LayerNorm(300)",
                        init="self.norm = nn.LayerNorm(300)")
        self.agrees(execution, F.layer_norm(x, (300,), w, b), 1e-4)

    def test_rms_norm_in_half_precision(self) -> None:
        kernel = """
            @triton.jit
            def norm(x, w, out, columns, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                column = tl.arange(0, BLOCK)
                inside = column < columns
                v = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
                scale = tl.rsqrt(tl.sum(v * v, 0) / columns + 1e-6)
                w = tl.load(w + column, mask=inside, other=0.0)
                tl.store(out + row * columns + column, (v * scale).to(tl.float16) * w, mask=inside)
        """
        forward = """
            x, w = args
            out = torch.empty_like(x)
            norm[(x.shape[0],)](x, w, out, x.shape[1], BLOCK=256)
            return out
        """
        x, w = torch.randn(20, 200).half(), torch.randn(200).half()
        execution = run("torch.randn(20, 200).half(), torch.randn(200).half()", kernel, forward,
                        [x, w])
        wide = x.float()
        expected = (wide * torch.rsqrt(wide.pow(2).mean(1, keepdim=True) + 1e-6)).half() * w
        self.agrees(execution, expected, 2e-3)

    def test_prefix_sums(self) -> None:
        kernel = """
            @triton.jit
            def scan(x, out, back, columns, BLOCK: tl.constexpr):
                row = tl.program_id(0)
                column = tl.arange(0, BLOCK)
                inside = column < columns
                v = tl.load(x + row * columns + column, mask=inside, other=0.0)
                tl.store(out + row * columns + column, tl.cumsum(v, 0), mask=inside)
                tl.store(back + row * columns + column, tl.cumsum(v, 0, reverse=True), mask=inside)
        """
        forward = """
            x, = args
            out, back = torch.empty_like(x), torch.empty_like(x)
            scan[(x.shape[0],)](x, out, back, x.shape[1], BLOCK=64)
            return out, back
        """
        x = torch.randn(10, 50)
        execution = run("torch.randn(10, 50)", kernel, forward, [x])
        self.assertEqual((execution.uncovered, execution.faults), (None, []))
        torch.testing.assert_close(execution.outputs[0], x.cumsum(1), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(execution.outputs[1], x.flip(1).cumsum(1).flip(1), rtol=1e-5,
                                   atol=1e-5)

    def test_atomics_add_up_across_programs(self) -> None:
        kernel = """
            @triton.jit
            def add(x, total, top, ticket, order, count, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                v = tl.load(x + i, mask=i < count, other=0.0)
                tl.atomic_add(total, tl.sum(v, 0))
                tl.atomic_max(top, tl.max(v, 0))
                tl.store(order + tl.program_id(0), tl.atomic_add(ticket, 1))
        """
        forward = """
            x, = args
            total = torch.zeros(1, device=x.device)
            top = torch.full((1,), -100.0, device=x.device)
            ticket = torch.zeros(1, device=x.device, dtype=torch.int32)
            order = torch.empty(20, device=x.device, dtype=torch.int32)
            add[(20,)](x, total, top, ticket, order, x.numel(), BLOCK=64)
            return total, top, ticket, order
        """
        x = torch.randn(1250)
        execution = run("torch.randn(1250)", kernel, forward, [x], lanes_per_box=512)
        self.assertEqual((execution.uncovered, execution.faults), (None, []))
        total, top, ticket, order = execution.outputs
        torch.testing.assert_close(total[0], x.sum(), rtol=1e-4, atol=1e-4)
        self.assertEqual(top.item(), x.max().item())
        self.assertEqual(ticket.item(), 20)
        self.assertEqual(sorted(order.tolist()), list(range(20)))
        self.assertTrue(execution.launches[0].float_atomics)

    def test_helpers_branches_and_early_returns(self) -> None:
        kernel = """
            @triton.jit(noinline=True)
            def twice(value, count):
                return value * 2, count + 1

            @triton.jit
            def branch(x, out, last, BLOCK: tl.constexpr):
                pid = tl.program_id(0)
                if pid >= last:
                    return
                i = pid * BLOCK + tl.arange(0, BLOCK)
                v = tl.load(x + i)
                total, count = twice(tl.sum(v, 0), pid)
                if total > 0:
                    v = v + count
                    if pid % 2 == 0:
                        v = -v
                else:
                    v = v * total
                steps = 0
                while steps < pid:
                    v += 1.0
                    steps += 1
                tl.store(out + i, v)
        """
        forward = """
            x, = args
            out = x.clone()
            branch[(12,)](x, out, 10, BLOCK=32)
            return out
        """
        x = torch.randn(12 * 32)
        rows = x.reshape(12, 32).clone()
        for p in range(10):
            total = rows[p].sum() * 2
            if total > 0:
                rows[p] += p + 1
                if p % 2 == 0:
                    rows[p] = -rows[p]
            else:
                rows[p] *= total
            rows[p] += p
        execution = run("torch.randn(384)", kernel, forward, [x])
        self.agrees(execution, rows.reshape(-1), 1e-4)

    def test_persistent_programs_that_take_several_tiles(self) -> None:
        kernel = """
            @triton.jit
            def work(x, out, tiles, BLOCK: tl.constexpr):
                for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                    i = tile * BLOCK + tl.arange(0, BLOCK)
                    tl.store(out + i, tl.load(x + i) * 3.0)
        """
        forward = """
            x, = args
            out = torch.empty_like(x)
            work[(7,)](x, out, x.numel() // 64, BLOCK=64)
            return out
        """
        x = torch.randn(64 * 23)
        self.agrees(run("torch.randn(64 * 23)", kernel, forward, [x]), x * 3)

    def test_tensor_descriptors_read_zeros_outside(self) -> None:
        kernel = """
            @triton.jit
            def copy(source, target, BM: tl.constexpr, BN: tl.constexpr):
                m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
                value = source.load([m, n])
                target.store([m, n], value + tl.sum(value, 1)[:, None])
        """
        forward = """
            x, = args
            out = torch.empty_like(x)
            source = TensorDescriptor.from_tensor(x, [16, 32])
            target = TensorDescriptor.from_tensor(out, [16, 32])
            copy[(3, 2)](source, target, BM=16, BN=32)
            return out
        """
        x = torch.randn(40, 60)
        source = "from triton.tools.tensor_descriptor import TensorDescriptor\n"
        import textwrap
        execution = run("torch.randn(40, 60)", source + textwrap.dedent(kernel), forward, [x])
        sums = torch.cat([x[:, :32].sum(1, keepdim=True).expand(-1, 32),
                          x[:, 32:].sum(1, keepdim=True).expand(-1, 28)], 1)
        self.agrees(execution, x + sums)

    def test_strided_inputs_and_views(self) -> None:
        kernel = """
            @triton.jit
            def transpose(x, out, M, N, sm, sn, B: tl.constexpr):
                m = tl.program_id(0) * B + tl.arange(0, B)
                n = tl.program_id(1) * B + tl.arange(0, B)
                inside = (m[:, None] < M) & (n[None, :] < N)
                v = tl.load(x + m[:, None] * sm + n[None, :] * sn, mask=inside)
                tl.store(out + n[:, None] * M + m[None, :], tl.trans(v),
                         mask=(n[:, None] < N) & (m[None, :] < M))
        """
        forward = """
            x = args[0][2:, ::2]
            M, N = x.shape
            out = torch.empty((N, M), device=x.device)
            transpose[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, out, M, N, x.stride(0),
                                                                x.stride(1), B=16)
            return out.view(-1)[: N * M].view(N, M)
        """
        x = torch.randn(50, 80).t()
        self.agrees(run("torch.randn(50, 80).t()", kernel, forward, [x]), x[2:, ::2].t())

    def test_operators_of_pytorch_between_launches(self) -> None:
        kernel = """
            @triton.jit
            def double(x, count, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                v = tl.load(x + i, mask=i < count, other=0.0)
                tl.store(x + i, v * 2, mask=i < count)
        """
        forward = """
            x, y = args
            z = torch.relu(x) @ y
            z.add_(1.0)
            double[(triton.cdiv(z.numel(), 64),)](z, z.numel(), BLOCK=64)
            x.mul_(0.5)
            return {"z": z.sum(1), "rest": [z[:, :2], None]}
        """
        x, y = torch.randn(10, 12), torch.randn(12, 9)
        execution = run("torch.randn(10, 12), torch.randn(12, 9)", kernel, forward, [x, y])
        self.assertEqual((execution.uncovered, execution.faults), (None, []))
        z = (torch.relu(x) @ y + 1) * 2
        torch.testing.assert_close(execution.outputs["z"], z.sum(1))
        torch.testing.assert_close(execution.outputs["rest"][0], z[:, :2])
        self.assertIsNone(execution.outputs["rest"][1])
        self.assertTrue(torch.equal(execution.inputs_after[0], x * 0.5))
        self.assertEqual([a.name for a in execution.aten][:2], ["aten.relu.default",
                                                                "aten.mm.default"])
        self.assertEqual(execution.aten[1].flops, 2 * 10 * 12 * 9)

    def test_functions_by_name(self) -> None:
        kernel = """
            from triton.language.extra import libdevice

            @triton.jit
            def apply(x, out, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                v = tl.load(x + i)
                a = libdevice.tanh(v) + tl.erf(v) + libdevice.pow(tl.abs(v), 1.5)
                b = tl.exp2(v) + tl.log(tl.abs(v) + 1) + tl.cos(v) * tl.sin(v)
                c = tl.math.fma(v, v, v) + tl.clamp(v, -0.5, 0.5) + tl.floor(v) + tl.sqrt_rn(v * v)
                tl.store(out + i, a + b + c + tl.div_rn(v, 3.0))
        """
        forward = """
            x, = args
            out = torch.empty_like(x)
            apply[(1,)](x, out, BLOCK=256)
            return out
        """
        x = torch.randn(256)
        expected = (x.tanh() + x.erf() + x.abs().pow(1.5) + x.exp2() + (x.abs() + 1).log()
                    + x.cos() * x.sin() + x * x + x + x.clamp(-0.5, 0.5) + x.floor()
                    + x.abs() + x / 3)
        self.agrees(run("torch.randn(256)", kernel, forward, [x]), expected, 1e-5)

    def test_sorting_and_integer_arithmetic(self) -> None:
        kernel = """
            @triton.jit
            def mix(x, y, out, bits, BLOCK: tl.constexpr):
                i = tl.arange(0, BLOCK)
                tl.store(out + i, tl.flip(tl.sort(tl.load(x + i)), 0))
                v = tl.load(y + i)
                u = v.to(tl.uint32, bitcast=True)
                w = (u >> 3) // 7 % 1000 + (u < 100) + (v << 2) % 5 - (v >> 1)
                tl.store(bits + i, w.to(tl.int32) ^ (v & 255) | 1)
        """
        forward = """
            x, y = args
            out, bits = torch.empty_like(x), torch.empty_like(y)
            mix[(1,)](x, y, out, bits, BLOCK=64)
            return out, bits
        """
        x = torch.randn(64)
        y = torch.randint(-(1 << 31), 1 << 31, (64,), dtype=torch.int32)
        y[:4] = torch.tensor([0, 1, 99, -1])
        execution = run("torch.randn(64), torch.randint(0, 99, (64,), dtype=torch.int32)", kernel,
                        forward, [x, y])
        self.assertEqual((execution.uncovered, execution.faults), (None, []))
        self.assertTrue(torch.equal(execution.outputs[0], x.sort(descending=True)[0]))

        def wrap(value: int) -> int:
            return (value + (1 << 31)) % (1 << 32) - (1 << 31)

        for given, found in zip(y.tolist(), execution.outputs[1].tolist()):
            u = given % (1 << 32)
            shifted = wrap(given << 2)
            rest = abs(shifted) % 5 * (1 if shifted >= 0 else -1)
            w = wrap((u >> 3) // 7 % 1000 + (u < 100) + rest - (given >> 1))
            self.assertEqual(found, wrap(w ^ (given & 255) | 1), given)

    def test_random_numbers_of_a_kernel_are_those_of_triton(self) -> None:
        kernel = """
            @triton.jit
            def draw(out, seed, BLOCK: tl.constexpr):
                i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(out + i, tl.rand(seed, i))
        """
        forward = """
            out = torch.empty(4096, device=args[0].device)
            draw[(32,)](out, 7, BLOCK=128)
            return out
        """
        out = run("torch.randn(1)", kernel, forward, [torch.randn(1)]).outputs
        self.assertTrue(bool((out >= 0).all() and (out < 1).all()))
        self.assertAlmostEqual(out.mean().item(), 0.5, delta=0.02)
        self.assertEqual(out.unique().numel(), 4096)


if __name__ == "__main__":
    unittest.main()
