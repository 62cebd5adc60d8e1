"""Expressions that eager PyTorch runs: operators alone, at several sizes, and in chains.

EXPRESSIONS: family -> name -> (the inputs, which are called x, y and z; the expression).
SETUP: name -> text before the class.
"""


def _chain(length: int) -> str:
    return "x" + " + 1" * length


def _square(side: int, dtype: str = "float32", count: int = 1) -> str:
    return ", ".join([f"torch.randn({side}, {side}).to(torch.{dtype})"] * count)


TF32 = "torch.backends.cuda.matmul.allow_tf32 = True\n\n\n"

EXPRESSIONS = {
    "eager launch": {
        "nothing": ("torch.randn(1024)", "x"),
        **{f"tiny_chain_{n}": ("torch.randn(1024)", _chain(n)) for n in (1, 2, 4, 8, 16, 32)},
        "tiny_sum": ("torch.randn(1024)", "x.sum()"),
        "tiny_softmax": ("torch.randn(4, 256)", "torch.softmax(x, -1)"),
        "tiny_mm": (_square(64, count=2), "x @ y"),
        "tiny_layer_norm": ("torch.randn(4, 256)", "F.layer_norm(x, (256,))"),
        "tiny_zeros": ("torch.randn(1024)", "torch.zeros_like(x)"),
        "tiny_copy": ("torch.randn(1024)", "x.clone()"),
    },
    "eager pointwise": {
        **{f"add_scalar_{n}": (f"torch.randn({count})", "x + 1") for n, count in {
            "64k": 1 << 16, "256k": 1 << 18, "1m": 1 << 20, "2m": 1 << 21, "4m": 1 << 22,
            "8m": 1 << 23, "16m": 1 << 24, "64m": 1 << 26}.items()},
        "add_16m": ("torch.randn(1 << 24), torch.randn(1 << 24)", "x + y"),
        "add_16m_bf16": ("torch.randn(1 << 24).bfloat16(), torch.randn(1 << 24).bfloat16()",
                         "x + y"),
        "exp_16m": ("torch.randn(1 << 24)", "torch.exp(x)"),
        "gelu_4m": ("torch.randn(1 << 22)", "F.gelu(x)"),
        "gelu_16m": ("torch.randn(1 << 24)", "F.gelu(x)"),
        "tanh_16m": ("torch.randn(1 << 24)", "torch.tanh(x)"),
        "pow_16m": ("torch.rand(1 << 24)", "torch.pow(x, 1.7)"),
        "sin_fp64_4m": ("torch.rand(1 << 22).double()", "torch.sin(x)"),
        "add_fp64_8m": ("torch.rand(1 << 23).double()", "x + 1"),
        "divide_16m": ("torch.rand(1 << 24), torch.rand(1 << 24)", "x / y"),
        "where_16m": ("torch.randn(1 << 24)", "torch.where(x > 0, x, 0.1)"),
        "greater_16m": ("torch.randn(1 << 24)", "x > 0"),
        "to_bf16_16m": ("torch.randn(1 << 24)", "x.bfloat16()"),
        "add_row": (f"{_square(4096)}, torch.randn(4096)", "x + y"),
        "add_column": (f"{_square(4096)}, torch.randn(4096, 1)", "x + y"),
        "zeros_16m": ("torch.randn(1 << 24)", "torch.zeros_like(x)"),
    },
    "eager chain": {
        f"chain_of_4_{n}": (f"torch.randn({count})", "torch.relu(x * 2 + 1) * 3")
        for n, count in {"64k": 1 << 16, "1m": 1 << 20, "2m": 1 << 21, "4m": 1 << 22,
                         "8m": 1 << 23, "16m": 1 << 24, "64m": 1 << 26}.items()
    },
    "eager layout": {
        "contiguous_t": (_square(4096), "x.t().contiguous()"),
        "contiguous_t_1k": (_square(1024), "x.t().contiguous()"),
        "add_t": (_square(4096, count=2), "x.t() + y"),
        "permute_4d": ("torch.randn(16, 1024, 16, 64)", "x.permute(0, 2, 1, 3).contiguous()"),
        "permute_nchw": ("torch.randn(32, 64, 64, 64)", "x.permute(0, 2, 3, 1).contiguous()"),
        "every_second": ("torch.randn(4096, 8192)", "x[:, ::2].contiguous()"),
        "cat": (_square(4096, count=2), "torch.cat([x, y], 1)"),
        "flip": (_square(4096), "torch.flip(x, (1,))"),
        "repeat": ("torch.randn(2048, 2048)", "x.repeat(2, 2)"),
        "pad": (_square(4096), "F.pad(x, (1, 1, 1, 1))"),
        "tril": (_square(4096), "torch.tril(x)"),
    },
    "eager reduction": {
        "sum_16m": ("torch.randn(1 << 24)", "x.sum()"),
        "sum_1m": ("torch.randn(1 << 20)", "x.sum()"),
        "sum_rows": (_square(4096), "x.sum(-1)"),
        "sum_short_rows": ("torch.randn(1 << 16, 64)", "x.sum(-1)"),
        "sum_columns": (_square(4096), "x.sum(0)"),
        "sum_middle": ("torch.randn(64, 512, 512)", "x.sum(1)"),
        "mean_rows_bf16": (_square(4096, "bfloat16"), "x.mean(-1)"),
        "amax_rows": (_square(4096), "x.amax(-1)"),
        "argmax_rows": (_square(4096), "x.argmax(-1)"),
        "var_rows": (_square(4096), "x.var(-1)"),
        "norm": (_square(4096), "x.norm()"),
        "any_rows": (_square(4096), "(x > 3).any(-1)"),
        "cumsum_rows": (_square(4096), "x.cumsum(-1)"),
        "sort_1m": ("torch.randn(1 << 20)", "x.sort().values"),
        "topk_rows": (_square(4096), "x.topk(8, -1).values"),
        "logsumexp": (_square(4096), "x.logsumexp(-1)"),
    },
    "eager norm": {
        "softmax_4k": (_square(4096), "torch.softmax(x, -1)"),
        "softmax_1k": ("torch.randn(16384, 1024)", "torch.softmax(x, -1)"),
        "softmax_columns": (_square(4096), "torch.softmax(x, 0)"),
        "softmax_4k_bf16": (_square(4096, "bfloat16"), "torch.softmax(x, -1)"),
        "log_softmax_32k": ("torch.randn(512, 32768)", "torch.log_softmax(x, -1)"),
        "layer_norm_4k": (_square(4096), "F.layer_norm(x, (4096,))"),
        "layer_norm_256": ("torch.randn(65536, 256)", "F.layer_norm(x, (256,))"),
        "rms_norm_4k": (_square(4096), "F.rms_norm(x, (4096,))"),
        "group_norm": ("torch.randn(32, 64, 64, 64)", "F.group_norm(x, 8)"),
        "batch_norm": ("torch.randn(32, 64, 64, 64), torch.zeros(64), torch.ones(64)",
                       "F.batch_norm(x, y, z)"),
    },
    "eager matmul": {
        **{f"mm_fp32_{n}": (_square(n, count=2), "x @ y") for n in (256, 512, 1024, 2048, 4096)},
        **{f"mm_tf32_{n}": (_square(n, count=2), "x @ y") for n in (512, 1024, 4096)},
        **{f"mm_fp16_{n}": (_square(n, "float16", 2), "x @ y") for n in (512, 1024, 2048, 4096)},
        **{f"mm_bf16_{n}": (_square(n, "bfloat16", 2), "x @ y") for n in (512, 4096)},
        "mm_fp64_1024": (_square(1024, "float64", 2), "x @ y"),
        "mm_fp32_turned": (_square(2048, count=2), "x @ y.t()"),
        "linear_512": (f"{_square(512, count=2)}, torch.randn(512)", "F.linear(x, y, z)"),
        "linear_bf16": ("torch.randn(4096, 1024).bfloat16(), torch.randn(4096, 1024).bfloat16(), "
                        "torch.randn(4096).bfloat16()", "F.linear(x, y, z)"),
        "mm_fp32_skinny": ("torch.randn(16, 4096), torch.randn(4096, 4096)", "x @ y"),
        "mm_bf16_skinny": ("torch.randn(16, 8192).bfloat16(), torch.randn(8192, 8192).bfloat16()",
                           "x @ y"),
        "mm_fp32_long_k": ("torch.randn(64, 65536), torch.randn(65536, 64)", "x @ y"),
        "mv_8k": ("torch.randn(8192, 8192), torch.randn(8192)", "torch.mv(x, y)"),
        "bmm_fp32": ("torch.randn(64, 256, 256), torch.randn(64, 256, 256)", "torch.bmm(x, y)"),
        "bmm_bf16": ("torch.randn(64, 512, 64).bfloat16(), torch.randn(64, 64, 512).bfloat16()",
                     "torch.bmm(x, y)"),
        "conv_3x3": ("torch.randn(16, 64, 56, 56), torch.randn(64, 64, 3, 3)",
                     "F.conv2d(x, y, padding=1)"),
        "conv_3x3_bf16": ("torch.randn(16, 64, 56, 56).bfloat16(), "
                          "torch.randn(64, 64, 3, 3).bfloat16()", "F.conv2d(x, y, padding=1)"),
        "attention": (", ".join(["torch.randn(4, 16, 1024, 64).bfloat16()"] * 3),
                      "F.scaled_dot_product_attention(x, y, z)"),
        "attention_fp32": (", ".join(["torch.randn(4, 16, 512, 64)"] * 3),
                           "F.scaled_dot_product_attention(x, y, z)"),
    },
    "eager gather": {
        "embedding": ("torch.randint(0, 50000, (16384,)), torch.randn(50000, 256)",
                      "F.embedding(x, y)"),
        "index_16m": ("torch.randint(0, 1 << 24, (1 << 22,)), torch.randn(1 << 24)", "y[x]"),
        "gather_rows": ("torch.randint(0, 4096, (4096, 4096)), torch.randn(4096, 4096)",
                        "torch.gather(y, 1, x)"),
        "index_select": ("torch.randint(0, 4096, (4096,)), torch.randn(4096, 4096)",
                         "torch.index_select(y, 1, x)"),
        "scatter_add": ("torch.randint(0, 4096, (1024, 4096)), torch.randn(1024, 4096)",
                        "torch.zeros_like(y).scatter_add(1, x, y)"),
        "masked_fill": (_square(4096), "x.masked_fill(x > 0, 0.0)"),
        "cross_entropy": ("torch.randn(4096, 4096), torch.randint(0, 4096, (4096,))",
                          "F.cross_entropy(x, y)"),
    },
}

SETUP = {name: TF32 for name in EXPRESSIONS["eager matmul"] if name.startswith("mm_tf32")}
