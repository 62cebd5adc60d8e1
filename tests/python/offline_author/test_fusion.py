"""How many kernels a task becomes, what algebra is saved, and what stays in PyTorch."""

from __future__ import annotations

import unittest

from offline_author import author

import families
import support

KERNELS = {
    "diag_left": 1,
    "diag_diag": 1,
    "chain": 1,
    "activations": 1,
    "two_results": 1,
    "reshaped": 1,
    "triangle": 1,
    "row_norms": 1,
    "row_variance": 1,
    "softmax": 1,
    "softmax_by_hand": 1,
    "softmax_down": 1,
    "logsumexp": 1,
    "layer_norm_by_hand": 1,
    "layer_norm_residual": 1,
    "two_norms": 1,
    "rms_norm_by_hand": 1,
    "normalise": 1,
    "linear_gelu": 1,
    "linear_residual": 1,
    "transposed_result": 1,
    "linear_norm": 2,
    "two_linears": 2,
    "gated": 2,
    "attention": 3,
}


def study(source: str) -> author.Study:
    return author.study(source, "/tasks/sample.py")


class Fusion(unittest.TestCase):
    def test_kernels_per_task(self) -> None:
        sources = families.sources()
        found = {name: support.kernel_count(sources[name]) for name in KERNELS}
        self.assertEqual(found, KERNELS)

    def test_repeated_and_dead_work_is_done_once_or_never(self) -> None:
        source = support.task(
            "dead = x.exp()\nreturn x.softmax(-1) + x.softmax(-1)", "torch.randn(5, 40)"
        )
        code = support.candidate(source)
        self.assertEqual(code.count("tl.max("), 1)
        self.assertEqual(code.count("tl.sum("), 1)
        self.assertEqual(support.kernel_count(source), 1)

    def test_identities_and_views_cost_nothing(self) -> None:
        source = support.task(
            "y = x.view(8, 5).contiguous().clone().t().t()\n"
            "return F.dropout(y, 0.3, training=False).reshape(40) + 1",
            "torch.randn(40)",
        )
        code = support.candidate(source)
        self.assertEqual(code.count("tl.load("), 1)
        self.assertEqual(code.count("tl.store("), 1)

    def test_a_broadcast_is_never_written_out(self) -> None:
        source = support.task("x + a.expand(64, 48)", "torch.randn(64, 48), torch.randn(48)",
                              signature="x, a")  # fmt: skip
        self.assertEqual(support.candidate(source).count("torch.empty("), 1)


class Algebra(unittest.TestCase):
    def test_products_with_diagonals_have_no_product_left(self) -> None:
        for name in ("diag_left", "diag_right", "diag_transposed", "diag_batched", "diag_diag"):
            with self.subTest(name):
                code = support.candidate(families.sources()[name])
                self.assertNotIn("tl.dot", code)
                self.assertIn("# Rewritten:", code)

    def test_no_spelling_is_special(self) -> None:
        """The operators decide, not the names or the text of a task."""
        forms = ("torch.diag(p) @ q", "torch.matmul(p.diag(), q)", "p.diag_embed().mm(q)",
                 "torch.mm(torch.diagflat(p), q)")  # fmt: skip
        inputs = "torch.randn(24), torch.randn(24, 40)"
        bodies = set()
        for form in forms:
            code = support.candidate(support.task(form, inputs, signature="p, q"))
            bodies.add(code[code.index("@triton.jit") : code.index("def _expect")])
        self.assertEqual(len(bodies), 1)

    def test_the_sum_of_a_product_needs_no_product(self) -> None:
        for name in ("sum_of_product", "sum_of_product_down", "trace_of_product", "matrix_vector"):
            with self.subTest(name):
                self.assertNotIn("tl.dot", support.candidate(families.sources()[name]))

    def test_fp32_products_are_ieee_unless_the_task_asks_for_tf32(self) -> None:
        source = families.sources()["linear_gelu"]
        self.assertIn('input_precision="ieee"', support.candidate(source))
        import torch

        loose = source.replace("class Model", "torch.backends.cuda.matmul.allow_tf32 = True\n\n\n"
                               "class Model", 1)  # fmt: skip
        try:
            self.assertIn('input_precision="tf32"', support.candidate(loose))
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False


class WhatStays(unittest.TestCase):
    def test_other_operators_are_named_in_a_comment(self) -> None:
        code = support.candidate(families.sources()["sort_then_scale"])
        self.assertIn("# Stays in PyTorch: sort", code)
        self.assertIn("sort, sort_2 = torch.sort(x)", code)

    def test_a_task_of_such_operators_only_is_refused_by_name(self) -> None:
        for forward, name in (
            ("x.sort(-1).values", "aten.sort"),
            ("x.cumsum(-1)", "aten.cumsum"),
            ("torch.topk(x, 3).values", "aten.topk"),
        ):
            with self.subTest(name):
                made = study(support.task(forward, "torch.randn(8, 8)"))
                self.assertIn(name, made.refusal)
                self.assertIn("leaves to PyTorch", made.refusal)

    def test_control_flow_that_depends_on_data(self) -> None:
        made = study(support.task("if x.sum() > 0:\n    return x\nreturn -x", "torch.randn(8)"))
        self.assertIn("aten._local_scalar_dense.default, line ", made.refusal)

    def test_sizes_that_depend_on_data(self) -> None:
        made = study(support.task("x[x > 0] * 2", "torch.randn(8)"))
        self.assertIn("depends on the data", made.refusal)

    def test_random_numbers(self) -> None:
        made = study(support.task("x + torch.rand_like(x)", "torch.randn(8)"))
        self.assertIn("random", made.refusal)

    def test_inputs_changed_in_place(self) -> None:
        made = study(support.task("x.add_(1)\nreturn x * 2", "torch.randn(8)"))
        self.assertIn("in place", made.refusal)

    def test_a_task_that_computes_nothing(self) -> None:
        made = study(support.task("x.view(2, 4)", "torch.randn(8)"))
        self.assertIn("computes nothing", made.refusal)

    def test_shape_dependent_control_flow_is_captured(self) -> None:
        source = support.task(
            "if x.shape[0] > 4:\n    x = x * 2\nfor i in range(3):\n    x = x + i\nreturn x",
            "torch.randn(8, 40)",
        )
        self.assertEqual(support.kernel_count(source), 1)


if __name__ == "__main__":
    unittest.main()
