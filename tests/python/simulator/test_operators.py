"""PyTorch's operators in a candidate's forward are replayed on the judge's data."""

from __future__ import annotations

import textwrap
import unittest

import torch
import torch.nn.functional as F
from evaluator_simulator.prices import Unpriced, flops
from support import run

# forward body, init body, shapes of the inputs
CASES = {
    "convolution": ("return F.conv2d(args[0], self.w, padding=1).relu_()",
                    "self.w = nn.Parameter(torch.randn(5, 3, 3, 3))", [(2, 3, 8, 8)]),
    "attention": ("return F.scaled_dot_product_attention(*args, is_causal=True)", "",
                  [(2, 4, 16, 8)] * 3),
    "batch norm in training": ("return self.n(args[0])", "self.n = nn.BatchNorm2d(3)",
                               [(4, 3, 5, 5)]),
    "layer norm and linear": ("return self.l(self.n(args[0]))",
                              "self.n = nn.LayerNorm(16); self.l = nn.Linear(16, 7)", [(5, 16)]),
    "embedding of computed indices": ("return self.e((args[0].abs() * 3).long().clamp(max=9))",
                                      "self.e = nn.Embedding(10, 4)", [(6,)]),
    "shapes": ("x = args[0]\nreturn torch.cat([x.t().contiguous(), x.flip(1).t()])[1::2], "
               "torch.stack(x.unbind(0), 1).reshape(-1), x.expand(3, 4, 5).sum((0, 2))", "",
               [(4, 5)]),
    "sort and topk": ("v, i = args[0].sort(1)\nt = args[0].topk(2)\nreturn v, i, t.values", "",
                      [(4, 6)]),
    "writes through views": ("x = args[0].clone()\nx[:, 1] = 3.0\nx[0].mul_(2)\n"
                             "x.view(-1)[5:9].zero_()\nreturn x", "", [(4, 6)]),
    "constants of forward": ("return args[0] * torch.tensor([1.0, 2.0, 3.0], device='cuda') + "
                             "torch.arange(3, device='cuda') + torch.eye(3, device='cuda')", "",
                             [(3, 3)]),
    "an output given": ("out = torch.empty(4, 4, device='cuda')\n"
                        "torch.mm(args[0], args[0], out=out)\nreturn out.add(1, alpha=2)", "",
                        [(4, 4)]),
    "host numbers": ("return (args[0] * torch.tensor(2.0)).masked_fill(args[0] > 0, float('inf'))",
                     "", [(3, 3)]),
    "a norm over a group": ("return F.group_norm(args[0], 2) + F.softmax(args[0], 1).logsumexp(1, "
                            "keepdim=True)", "", [(2, 4, 6)]),
}


class Operators(unittest.TestCase):
    def test_replayed_on_other_data(self) -> None:
        for name, (body, init, shapes) in CASES.items():
            with self.subTest(name):
                inputs = ", ".join(f"torch.randn{shape}" for shape in shapes)
                torch.manual_seed(1)
                module = _module(body, init)
                data = [torch.randn(shape) for shape in shapes]
                before = {k: v.clone() for k, v in module.state_dict().items()}
                execution = run(inputs, "", body, data, before, model=init, init=init)
                self.assertEqual((execution.uncovered, execution.faults), (None, []))
                with torch.no_grad():
                    expected = module(*[x.clone() for x in data])
                torch.testing.assert_close(execution.outputs, expected, rtol=1e-5, atol=1e-5)
                for key, value in module.state_dict().items():
                    torch.testing.assert_close(execution.state_after[key], value)

    def test_an_operator_whose_time_is_not_modelled(self) -> None:
        init = "self.l = nn.LSTM(6, 4)"
        execution = run("torch.randn(3, 2, 6)", "", "return self.l(args[0])[0]",
                        [torch.randn(3, 2, 6)], torch.nn.Module.state_dict(_module("pass", init)),
                        model=init, init=init)
        self.assertRegex(execution.uncovered, r"^uncovered: aten\..*whose time is not modelled$")

    def test_operators_with_hidden_products_have_no_price_or_a_formula(self) -> None:
        a, b = torch.ones(8, 16), torch.ones(16, 4)
        cases = {
            "aten.mm.default": ((a, b), 2 * 8 * 16 * 4),
            "aten.addmm_.default": ((torch.ones(8, 4), a, b), 2 * 8 * 16 * 4),
            "aten.addbmm.default": ((torch.ones(8, 4), a[None], b[None]), 2 * 8 * 16 * 4),
            "aten._embedding_bag.default": (
                (b, torch.zeros(32, dtype=torch.long), torch.tensor([0])), 2 * 32 * 4),
            "aten.avg_pool2d.default": ((torch.ones(1, 8, 8), [3, 3], [1, 1]), 6 * 6 * 9),
            "aten.add.Tensor": ((a, a), 0), "aten.add_.Tensor": ((a, a), 0),
            "aten.sum.dim_IntList": ((a, [0]), 0), "aten.mv.default": ((a, a[0]), 0),
            "aten._cdist_forward.default": ((a, a, 2.0, None), None),
            "aten._trilinear.default": (
                (a, torch.ones(2, 16, 3), torch.ones(8, 3), [1, 3], [0], [1, 2], [2, 3]), None),
            "aten.linalg_lu_factor.default": ((torch.ones(4, 4),), None),
            "aten._addmm_activation.default": ((torch.ones(4), a, b), None),
            "aten._int_mm.default": ((a, b), None),
        }
        for name, (args, wanted) in cases.items():
            with self.subTest(name):
                _, packet, overload = name.split(".")
                operator = getattr(getattr(torch.ops.aten, packet, None), overload, None)
                if operator is None:
                    continue  # of a newer PyTorch
                try:
                    found = flops(operator, list(args), {}, operator(*args) if wanted else None)
                except Unpriced:
                    found = None
                self.assertEqual(found, wanted)


def _module(body: str, init: str) -> torch.nn.Module:
    """The same module, run by PyTorch itself."""
    text = ("class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            + textwrap.indent(init.replace("; ", "\n") or "pass", " " * 8)
            + "\n    def forward(self, *args):\n"
            + textwrap.indent(body.replace("'cuda'", "'cpu'"), " " * 8))
    names: dict = {"torch": torch, "nn": torch.nn, "F": F}
    exec(text, names)  # noqa: S102 - the test's own text
    return names["M"]()


if __name__ == "__main__":
    unittest.main()
