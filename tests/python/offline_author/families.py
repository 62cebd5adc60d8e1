"""The tasks that the author has to rewrite: one row per family and shape, small on purpose.

name: (body of forward, inputs, further arguments of support.task)
"""

from __future__ import annotations

from support import task

R = "torch.randn"

_TABLE: dict[str, tuple] = {
    # Diagonal matrices.
    "diag_left": ("torch.diag(a) @ b + d", f"{R}(37), {R}(37, 50), {R}(37, 50)", "a, b, d"),
    "diag_right": ("b @ torch.diag(a)", f"{R}(50), {R}(37, 50)", "a, b"),
    "diag_transposed": ("torch.diag(a).T @ b", f"{R}(37), {R}(37, 50)", "a, b"),
    "diag_batched": ("torch.diag_embed(a) @ b", f"{R}(3, 17), {R}(3, 17, 40)", "a, b"),
    "diag_diag": ("torch.diag(a) @ torch.diag(b)", f"{R}(37), {R}(37)", "a, b"),
    "diag_itself": ("torch.diag(a) + b", f"{R}(33), {R}(33, 33)", "a, b"),
    # Elementwise work over many kinds of memory.
    "chain": ("F.gelu(x + b) * 0.5 + 1", f"{R}(19, 45), {R}(45)", "x, b"),
    "one_dimension": ("torch.sigmoid(x) * y", f"{R}(1003), {R}(1003)", "x, y"),
    "scalar_tensor": ("x * s + 1", f"{R}(70), torch.tensor(2.5)", "x, s"),
    "zero_dimensions": ("x * 2 + y", "torch.tensor(1.5), torch.tensor(2.5)", "x, y"),
    "three_dimensions": ("x * a[:, None, :] + b", f"{R}(3, 5, 40), {R}(3, 40), {R}(5, 40)",
                         "x, a, b"),
    "short_rows": ("x * a + b", f"{R}(40, 5, 3), {R}(5, 1), {R}(3)", "x, a, b"),
    "strided": ("x * 2 + y", f"{R}(20, 90)[:, ::2], {R}(20, 45)", "x, y"),
    "transposed": ("x.t() * 2 + y", f"{R}(70, 50), {R}(50, 70)", "x, y"),
    "permuted": ("(x.permute(2, 0, 1) + y).contiguous()", f"{R}(5, 6, 40), {R}(40, 5, 6)",
                 "x, y"),
    "both_permuted": ("x.permute(1, 0) * 2", f"{R}(33, 47)"),
    "expanded": ("x * y", f"{R}(1, 40).expand(9, 40), {R}(9, 40)", "x, y"),
    "reshaped": ("(x * 2).reshape(6, -1) + y", f"{R}(2, 3, 20), {R}(6, 20)", "x, y"),
    "reshaped_with_bias": ("(x + b).reshape(4, -1) * 2", f"{R}(4, 3, 20), {R}(20)", "x, b"),
    "sliced": ("x[:, 3:20] * x[:, 4:21]", f"{R}(12, 33)"),
    "chunks": ("a, b = x.chunk(2, dim=-1)\nreturn a * torch.sigmoid(b)", f"{R}(9, 66)"),
    "mask": ("torch.where(m, x, torch.zeros_like(x)) * 2", f"{R}(9, 66), {R}(9, 66) > 0", "x, m"),
    "masked_fill": ("x.masked_fill(m == 0, -1e4)", f"{R}(4, 9, 33), torch.randint(0, 2, (9, 33))",
                    "x, m"),
    "triangle": ("torch.tril(x) + torch.triu(x, 1) * 2", f"{R}(40, 40)"),
    "ramp": ("x + torch.arange(45, device=x.device)", f"{R}(7, 45)"),
    "integers": ("(x * 3 + y) & 7", "torch.randint(0, 99, (300,)), torch.randint(0, 9, (300,))",
                 "x, y"),
    "comparison": ("(x > y) | (x < -1)", f"{R}(300), {R}(300)", "x, y"),
    "double": ("torch.tanh(x) + 0.1", f"{R}(300, dtype=torch.float64)"),
    "activations": (
        "F.silu(x) + F.mish(x) + F.softplus(x) + F.elu(x) + F.leaky_relu(x) + torch.tanh(x) "
        "+ F.hardswish(x) + F.relu6(x) + F.gelu(x, approximate='tanh') + F.selu(x)",
        f"{R}(9, 66) * 3"),
    "small_arguments": ("torch.tanh(x) + torch.expm1(x) + torch.log1p(x)", f"{R}(600) * 1e-5"),
    "powers": ("x ** 2 + x ** 3 + x.abs() ** 0.5 + 1 / (x.abs() + 1)", f"{R}(300)"),
    "relu_keeps_nan": ("torch.relu(x / x)", "torch.tensor([0.0, 1.0, -2.0, 0.0] * 20)"),
    "clamps": ("x.clamp(-1, 1) + x.clamp(min=0) + torch.maximum(x, y)", f"{R}(300), {R}(300)",
               "x, y"),
    "bfloat16_chain": ("F.gelu(x + b) * x", f"{R}(9, 66).bfloat16(), {R}(66).bfloat16()", "x, b"),
    "mixed_types": ("x * y + 1", f"{R}(9, 66).half(), {R}(9, 66)", "x, y"),
    "cast": ("x.to(torch.float16)", f"{R}(9, 66)"),
    "two_results": ("return x + y, {'d': x - y, 'n': None}", f"{R}(9, 66), {R}(9, 66)", "x, y"),
    "default_argument": ("x * scale", f"{R}(300)", "x, scale=0.5"),
    "number_argument": ("x * scale", f"{R}(300), 0.25", "x, scale"),
    "list_argument": ("xs[0] * xs[1]", f"[{R}(300), {R}(300)]", "xs"),
    "in_place": ("y = x * 2\ny.add_(1)\nreturn y.relu_()", f"{R}(300)"),
    "dropout_off": ("F.dropout(x, 0.5, training=False) * 2", f"{R}(300)"),
    "batch_norm": ("self.bn(x).relu()", f"{R}(3, 5, 40)", "x",
                   "self.bn = nn.BatchNorm1d(5)\nself.eval()"),
    # Reductions of rows.
    "row_sum": ("(x * x).sum(-1)", f"{R}(9, 66)"),
    "row_mean": ("x.mean(dim=-1, keepdim=True)", f"{R}(2, 9, 66)"),
    "row_extremes": ("x.amax(-1) - x.amin(-1)", f"{R}(9, 66)"),
    "row_max_values": ("x.max(dim=-1).values * 2", f"{R}(9, 66)"),
    "row_variance": ("x.var(dim=-1) + x.std(dim=-1, unbiased=False)", f"{R}(9, 66) + 5"),
    "row_norms": ("x.norm(dim=-1) + x.norm(p=1, dim=-1) + x.norm(p=float('inf'), dim=-1)",
                  f"{R}(9, 66)"),
    "logsumexp": ("torch.logsumexp(x, dim=-1)", f"{R}(9, 66) * 5"),
    "row_of_a_transposed": ("x.t().sum(-1)", f"{R}(66, 40)"),
    "row_strided": ("x[:, ::3].softmax(-1)", f"{R}(9, 99)"),
    "any_row": ("(x > 2).any(dim=-1)", f"{R}(9, 66)"),
    "integer_sum": ("x.sum(-1)", "torch.randint(0, 9, (9, 66), dtype=torch.int32)"),
    "two_last_dimensions": ("x.mean(dim=(-2, -1))", f"{R}(5, 6, 33)"),
    "outer_and_inner": ("x.sum(dim=(0, 2))", f"{R}(5, 6, 33)"),
    "columns": ("x.sum(0)", f"{R}(66, 40)"),
    "middle_dimension": ("x.mean(1)", f"{R}(4, 33, 40)"),
    "softmax_down": ("x.softmax(dim=0)", f"{R}(33, 40)"),
    "softmax_middle": ("x.softmax(dim=1)", f"{R}(3, 20, 33)"),
    "normalise": ("F.normalize(x, dim=-1)", f"{R}(9, 66)"),
    "cosine": ("F.cosine_similarity(x, y, dim=-1)", f"{R}(9, 66), {R}(9, 66)", "x, y"),
    # Softmax and norms.
    "softmax": ("x.softmax(-1)", f"{R}(9, 66)"),
    "softmax_scaled_mask": ("(x * 0.125 + m).softmax(-1)", f"{R}(2, 9, 66), {R}(9, 66)", "x, m"),
    "softmax_one_dimension": ("x.softmax(-1)", f"{R}(77)"),
    "softmax_bfloat16": ("x.softmax(-1)", f"{R}(9, 66).bfloat16()"),
    "log_softmax_half": ("F.log_softmax(x, dim=-1)", f"{R}(9, 66).half()"),
    "softmax_by_hand": ("e = torch.exp(x - x.max(dim=-1, keepdim=True).values)\n"
                        "return e / e.sum(-1, keepdim=True)", f"{R}(9, 66)"),
    "layer_norm": ("self.n(x)", f"{R}(3, 7, 66)", "x", "self.n = nn.LayerNorm(66)"),
    "layer_norm_plain": ("F.layer_norm(x, (7, 66))", f"{R}(3, 7, 66)"),
    "layer_norm_by_hand": ("m = x.mean(-1, keepdim=True)\n"
                           "v = ((x - m) ** 2).mean(-1, keepdim=True)\n"
                           "return (x - m) / torch.sqrt(v + 1e-5) * self.w",
                           f"{R}(9, 66) * 0.1 + 3", "x", "self.w = nn.Parameter(torch.ones(66))"),
    "layer_norm_residual": ("h = x + r\nreturn h, self.n(h)", f"{R}(9, 66), {R}(9, 66)", "x, r",
                            "self.n = nn.LayerNorm(66)"),
    "two_norms": ("self.b(F.gelu(self.a(x)))", f"{R}(9, 66)", "x",
                  "self.a = nn.LayerNorm(66)\nself.b = nn.LayerNorm(66, elementwise_affine=False)"),
    "rms_norm": ("F.rms_norm(x, (66,), self.w, 1e-6)", f"{R}(9, 66)", "x",
                 "self.w = nn.Parameter(torch.ones(66))"),
    "rms_norm_by_hand": ("x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w",
                         f"{R}(9, 66)", "x", "self.w = nn.Parameter(torch.ones(66))"),
    "group_norm": ("self.n(x).relu()", f"{R}(3, 8, 5, 6)", "x", "self.n = nn.GroupNorm(4, 8)"),
    "instance_norm": ("F.instance_norm(x)", f"{R}(2, 3, 8, 9)"),
    # Whole reductions and losses.
    "total": ("x.sum()", f"{R}(200, 300)"),
    "mean_square_error": ("F.mse_loss(x, y)", f"{R}(120, 130), {R}(120, 130)", "x, y"),
    "total_variance": ("x.var()", f"{R}(200, 300)"),
    "cross_entropy_parts": ("-(F.log_softmax(x, -1) * t).sum(-1).mean()",
                            f"{R}(9, 66), torch.rand(9, 66)", "x, t"),
    # Matrix products.
    "linear_gelu": ("F.gelu(self.l(x))", f"{R}(33, 50)", "x", "self.l = nn.Linear(50, 70)"),
    "linear_rank_three": ("self.l(x) * 0.5 + x.sum()", f"{R}(2, 9, 20)", "x",
                          "self.l = nn.Linear(20, 33, bias=False)"),
    "linear_residual": ("x + F.relu(self.l(x))", f"{R}(2, 9, 40)", "x",
                        "self.l = nn.Linear(40, 40)"),
    "linear_position": ("self.l(x) + self.p", f"{R}(3, 9, 20)", "x",
                        "self.l = nn.Linear(20, 33)\nself.p = nn.Parameter(torch.zeros(9, 33))"),
    "linear_softmax": ("self.l(x).softmax(-1)", f"{R}(9, 20)", "x", "self.l = nn.Linear(20, 33)"),
    "linear_norm": ("self.n(F.gelu(self.l(x)))", f"{R}(9, 20)", "x",
                    "self.l = nn.Linear(20, 33)\nself.n = nn.LayerNorm(33)"),
    "two_linears": ("self.net(x)", f"{R}(9, 20)", "x",
                    "self.net = nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 17))"),
    "gated": ("F.silu(x @ a) * (x @ b)", f"{R}(9, 20), {R}(20, 33), {R}(20, 33)", "x, a, b"),
    "scaled_factor": ("(x * s) @ w", f"{R}(9, 20), {R}(20), {R}(20, 33)", "x, s, w"),
    "transposed_result": ("(a @ b).t() + c", f"{R}(20, 30), {R}(30, 40), {R}(40, 20)", "a, b, c"),
    "mm_alone": ("a @ b", f"{R}(20, 30), {R}(30, 40)", "a, b"),
    "mm_bfloat16": ("torch.relu(a @ b.t())", f"{R}(20, 30).bfloat16(), {R}(40, 30).bfloat16()",
                    "a, b"),
    "batched": ("torch.bmm(a, b) * 0.5 + c", f"{R}(3, 17, 20), {R}(3, 20, 33), {R}(3, 17, 33)",
                "a, b, c"),
    "attention": ("F.scaled_dot_product_attention(q, k, v)",
                  f"{R}(1, 2, 17, 16), {R}(1, 2, 17, 16), {R}(1, 2, 17, 16)", "q, k, v"),
    "einsum": ("torch.einsum('bij,bjk->bik', a, b)", f"{R}(2, 17, 20), {R}(2, 20, 18)", "a, b"),
    "lstm_cell": ("h, c = self.l(x, (h, c))\nreturn h, c", f"{R}(5, 20), {R}(5, 16), {R}(5, 16)",
                  "x, h, c", "self.l = nn.LSTMCell(20, 16)"),
    "matrix_vector": ("a @ v + 1", f"{R}(33, 50), {R}(50)", "a, v"),
    "outer": ("torch.outer(a, b) * 2", f"{R}(33), {R}(50)", "a, b"),
    "dot": ("torch.dot(a, b)", f"{R}(333), {R}(333)", "a, b"),
    "sum_of_product": ("(a @ b).sum(-1)", f"{R}(33, 20), {R}(20, 50)", "a, b"),
    "sum_of_product_down": ("(a @ b).sum(0)", f"{R}(33, 20), {R}(20, 50)", "a, b"),
    "trace_of_product": ("torch.trace(a @ b)", f"{R}(33, 20), {R}(20, 33)", "a, b"),
    # Parts that stay in PyTorch.
    "sort_then_scale": ("x.sort(-1).values * 2 + 1", f"{R}(9, 66)"),
    "cumulative": ("torch.cumsum(x * 2, -1).softmax(-1)", f"{R}(9, 66)"),
    "convolution": ("F.gelu(self.c(x)) + 1", f"{R}(2, 3, 9, 9)", "x",
                    "self.c = nn.Conv2d(3, 4, 3, padding=1)"),
    "concatenation": ("torch.cat([x * 2, y], 1).relu()", f"{R}(9, 20), {R}(9, 13)", "x, y"),
    "embedding": ("self.n(self.e(i))", "torch.randint(0, 50, (3, 7))", "i",
                  "self.e = nn.Embedding(50, 40)\nself.n = nn.LayerNorm(40)"),
    "index": ("x[i] + 1", f"{R}(9, 50), torch.randint(0, 9, (4,))", "x, i"),
    # Holders of parameters.
    "plain_attribute": ("x * self.s", f"{R}(300)", "x", "self.s = torch.full((300,), 2.0)"),
    "registered_mask": ("x.masked_fill(self.m == 0, -1e4).softmax(-1)", f"{R}(3, 40, 40)", "x",
                        "m = torch.tril(torch.ones(40, 40))\n"
                        "self.register_buffer('m', m, persistent=False)"),
    "tied_weights": ("self.b(F.relu(self.a(x)))", f"{R}(9, 20)", "x",
                     "self.a = nn.Linear(20, 20)\nself.b = nn.Linear(20, 20)\n"
                     "self.b.weight = self.a.weight"),
    "parameter_list": ("x * self.p[0] + self.p[1]", f"{R}(9, 20)", "x",
                       "ones, zeros = torch.ones(20), torch.zeros(20)\n"
                       "self.p = nn.ParameterList([nn.Parameter(ones), nn.Parameter(zeros)])"),
    "own_module": ("self.block(x)", f"{R}(9, 20)", "x", "self.block = Block()"),
}  # fmt: skip

_BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(20))
        self.layers = nn.ModuleList([nn.Linear(20, 20) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) * self.gain
        return x
"""


def sources() -> dict[str, str]:
    """Name and source of every task of the table."""
    made = {}
    for name, (forward, inputs, *more) in _TABLE.items():
        signature, init = (*more, "x", "")[:2] if more else ("x", "")
        if len(more) == 1:
            init = ""
        made[name] = task(forward, inputs, init, signature, _BLOCK if name == "own_module" else "")
    return made
