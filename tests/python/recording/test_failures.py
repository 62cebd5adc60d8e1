"""What a candidate is told when it can't be recorded: the stage, the reason, its own line."""

from __future__ import annotations

import itertools
import textwrap
import unittest
import unittest.mock
from typing import Any

import torch.nn as nn
from kernel_evolve_worker.recording import policy
from support import CALL, SCALE, candidate, line_of, recorded, task


class Failures(unittest.TestCase):
    def fails(self, code: str, stage: str, kind: str, sentence: str, at: str | None = None,
              task_text: str | None = None) -> dict[str, Any]:
        result = recorded(code, task_text)
        self.assertFalse(result["ok"])
        self.assertEqual((result["stage"], result["code"]), (stage, kind), result["reason"])
        self.assertIn(sentence, result["reason"])
        self.assertNotIn("\n", result["reason"])
        self.assertNotIn("Traceback", result["reason"])
        self.assertEqual(result["line"], line_of(code, at) if at else None, result["reason"])
        self.assertEqual(result["left"], [])
        return result

    # -- the compiler -------------------------------------------------------------------------

    def test_an_unknown_name_in_a_kernel(self) -> None:
        code = candidate(kernel=SCALE.replace("* 2", "* factor"))
        self.fails(code, "compile", "compile_error", "NameError: factor is not defined", "* factor")

    def test_an_error_in_a_helper(self) -> None:
        kernel = """
@triton.jit
def helper(x):
    y = x + 1
    return tl.unknown(y)
""" + SCALE.replace("* 2", "* helper(2)")
        self.fails(candidate(kernel=kernel), "compile", "compile_error", "unknown", "tl.unknown")

    def test_shapes_that_do_not_fit(self) -> None:
        code = candidate(kernel=SCALE.replace("* 2", "* tl.arange(0, 32)"))
        self.fails(code, "compile", "compile_error", "", "tl.arange(0, 32)")

    def test_a_range_that_is_no_power_of_two(self) -> None:
        code = candidate(CALL.replace("BLOCK=64", "BLOCK=60"))
        self.fails(code, "compile", "compile_error", "power of 2", "tl.arange(0, BLOCK)")

    def test_more_shared_memory_than_there_is(self) -> None:
        kernel = """
@triton.jit
def scale(a, out, count, BLOCK: tl.constexpr):
    m = tl.arange(0, BLOCK)
    x = a + m[:, None] * count + m[None, :]
    y = a + m[:, None] * count + m[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(count):
        total = tl.dot(tl.load(x), tl.load(y), total)
        x += BLOCK
        y += BLOCK * count
    tl.store(out + m[:, None] * BLOCK + m[None, :], total)
"""
        forward = CALL.replace("BLOCK=64", "BLOCK=128, num_stages=6")
        self.fails(candidate(forward, kernel), "compile", "out_of_resources",
                   "of shared memory, the GPU has 232448: use smaller blocks or fewer stages",
                   "def scale")

    def test_what_the_assembler_refuses(self) -> None:
        kernel = SCALE.replace("mask=i < count) *", "mask=i < count, eviction_policy='evict_first',"
                               " cache_modifier='.cg') *")
        self.fails(candidate(kernel=kernel), "compile", "ptxas_error", "ptxas rejects scale: ",
                   "def scale")

    def test_a_descriptor_on_the_device_without_an_allocator(self) -> None:
        kernel = """
@triton.jit
def scale(x, out, count, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[count, 64], strides=[64, 1], block_shape=[8, 64])
    i = tl.arange(0, 8)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(out + i, source.load([0, 0]))
"""
        self.fails(candidate(kernel=kernel), "compile", "compile_error", "no allocator was set",
                   "scale[(")

    def test_an_unknown_argument_of_a_launch(self) -> None:
        code = candidate(CALL.replace("BLOCK=64", "BLOCK=64, num_wraps=4"))
        self.fails(code, "compile", "compile_error", "num_wraps", "num_wraps")

    def test_a_missing_argument_of_a_launch(self) -> None:
        code = candidate(CALL.replace(", BLOCK=64", ""))
        self.fails(code, "compile", "compile_error", "BLOCK", "scale[(")

    # -- Python -------------------------------------------------------------------------------

    def test_an_exception_in_forward(self) -> None:
        self.fails(candidate("y = args[0]\nreturn y.shape[3]"), "integrity", "candidate_error",
                   "IndexError in forward", "y.shape[3]")

    def test_an_exception_in_init(self) -> None:
        self.fails(candidate(init="self.a = 1 // 0"), "integrity", "candidate_error",
                   "ZeroDivisionError in ModelNew.__init__", "1 // 0")

    def test_an_exception_while_the_file_is_imported(self) -> None:
        self.fails(candidate(kernel=SCALE + "\nundefined_name\n"), "integrity", "candidate_error",
                   "NameError while the file is imported", "undefined_name")

    def test_wrong_shapes_for_an_operator(self) -> None:
        self.fails(candidate("return args[0] @ torch.zeros(7, 7, device='cuda')"), "integrity",
                   "candidate_error", "RuntimeError in forward", "args[0] @")

    def test_more_memory_than_there_is(self) -> None:
        self.fails(candidate("big = [0] * 10**12\n" + CALL), "integrity", "candidate_error",
                   "the candidate takes more memory than there is, in forward.", "big =")
        code = candidate("big = torch.empty(10**13, device='cuda')\n" + CALL)
        self.fails(code, "integrity", "candidate_error", "in forward: 38146972 MiB at once.",
                   "big =")

    def test_an_exit(self) -> None:
        self.fails(candidate("raise SystemExit(0)"), "integrity", "candidate_error",
                   "SystemExit in forward", "raise SystemExit")

    def test_a_module_that_is_none(self) -> None:
        code = candidate().replace("ModelNew(nn.Module)", "ModelNew").replace(
            "super().__init__()", "pass")
        self.fails(code, "integrity", "no_module", "derive it from one")

    def test_a_tensor_in_host_memory(self) -> None:
        forward = CALL.replace("torch.empty_like(x)", "torch.empty(100)")
        self.fails(candidate(forward), "integrity", "candidate_error",
                   "out cannot be accessed from Triton (cpu tensor?)", "scale[(")

    def test_tensors_on_two_devices(self) -> None:
        self.fails(candidate("return args[0] + torch.arange(100)"), "integrity", "candidate_error",
                   "Expected all tensors to be on the same device", "torch.arange")

    # -- what a recording can't hold ----------------------------------------------------------

    def test_decisions_on_data(self) -> None:
        for forward, what in {
            "return args[0] * args[0].sum().item()": "aten._local_scalar_dense",
            "return args[0] if args[0].sum() > 0 else -args[0]": "aten.",
            "return args[0].nonzero()": "aten.nonzero",
            "return args[0][args[0] > 0]": "aten.index.Tensor with a mask",
            "return torch.tensor(args[0].tolist(), device='cuda')": "torch.Tensor.tolist",
            "return args[0].cpu().cuda()": "torch.Tensor.cpu",
            "return torch.randn(100, device='cuda')": "aten.randn",
            "return torch.nn.functional.dropout(args[0], 0.5)": "random numbers inside forward",
        }.items():
            with self.subTest(forward=forward):
                self.fails(candidate(forward), "correctness", "uncovered",
                           f"uncovered: {what}" if what.startswith(("aten", "torch")) else what,
                           "return")

    def test_what_only_a_gpu_could_answer(self) -> None:
        for call in ("torch.cuda.streams.Stream()", "torch.cuda.Event()", "torch.Stream()",
                     "torch.cuda.memory_stats()", "torch.cuda.utilization()",
                     "torch.accelerator.memory_stats()", "torch.cuda.memory.memory_snapshot()"):
            with self.subTest(call):
                code = candidate(f"try:\n    {call}\nexcept Exception:\n    pass\n" + CALL)
                self.fails(code, "correctness", "uncovered", "uncovered: torch.", call)

    def test_a_refusal_that_the_candidate_catches(self) -> None:
        forward = """
            try:
                args[0].sum().item()
            except BaseException:
                pass
            return args[0]
        """
        self.fails(candidate(forward), "correctness", "uncovered", "aten._local_scalar_dense")

    # -- state --------------------------------------------------------------------------------

    def test_a_result_kept_from_an_earlier_call(self) -> None:
        forward = """
            if self.kept is None:
                self.kept = args[0] * 2
            return self.kept
        """
        self.fails(candidate(forward, init="self.kept = None"), "integrity", "state_across_calls",
                   "an earlier call made")

    def test_calls_that_differ(self) -> None:
        forward = """
            self.calls += 1
            return args[0] * self.calls
        """
        self.fails(candidate(forward, init="self.calls = 0"), "integrity", "not_repeatable",
                   "two calls of forward")

    def test_a_counter_that_would_strike_later(self) -> None:
        strike = "\nif {} > 9: return args[0]\n" + CALL
        hidden = {
            "self.calls": candidate("self.calls += 1" + strike.format("self.calls"),
                                    init="self.calls = 0"),
            "ModelNew.calls": candidate("ModelNew.calls += 1" + strike.format("ModelNew.calls"),
                                        init="ModelNew.calls = 0"),
            "SEEN": candidate("SEEN.append(1)" + strike.format("len(SEEN)"),
                              kernel=SCALE + "\nSEEN = []\n"),
            "STEPS (left)": candidate("n = 10 - len(list(zip(STEPS, [0])))\n" + CALL,
                                      kernel=SCALE + "\nSTEPS = iter([1] * 50)\n"),
            "count (defaults)": candidate("n = count()" + strike.format("n"), kernel=SCALE + """
def count(seen=[]):
    seen.append(1)
    return len(seen)
"""),
            "count (closure)": candidate("n = count()" + strike.format("n"), kernel=SCALE + """
def make():
    seen = []
    def count():
        seen.append(1)
        return len(seen)
    return count
count = make()
"""),
        }
        for where, code in hidden.items():
            with self.subTest(where):
                self.fails(code, "integrity", "state_across_calls", "forward changes ")

    def test_what_the_first_call_builds_may_stay(self) -> None:
        forward = "if self.block is None:\n    self.block = 64\n" + CALL
        self.assertTrue(recorded(candidate(forward, init="self.block = None"))["ok"])

    def test_a_launch_outside_forward(self) -> None:
        init = "x = torch.zeros(100, device='cuda'); scale[(2,)](x, x, 100, BLOCK=64)"
        self.fails(candidate(init=init), "integrity", "candidate_error",
                   "kernels may only be launched in forward", "scale[(2,)]")

    def test_options_that_compile_something_else(self) -> None:
        for option in ("extern_libs={'mine': __file__}", "arch='sm80'"):
            call = CALL.replace("BLOCK=64", f"BLOCK=64, {option}").replace(
                "__file__", "scale.file_name")
            with self.subTest(option):
                self.fails(candidate(call), "integrity", "forged",
                           f"the option {option.partition('=')[0]} of scale", "scale[(")
                caught = "try:" + textwrap.indent(call, "    ") + "\nexcept BaseException:\n" \
                    "    return torch.zeros_like(x)\n"
                self.fails(candidate(caught), "integrity", "forged", "gives the compiler something")

    def test_what_is_not_covered_is_not_swallowed(self) -> None:
        for tried in ("x.cpu()", "torch.cuda.Stream()", "torch.vmap(torch.sin)(x)",
                      "torch.cond(torch.tensor(True), torch.sin, torch.cos, (x,))",
                      "x.sum().item()", "nn.ReLU().compile()(x)"):
            forward = f"x = args[0]\ntry: {tried}\nexcept BaseException: pass\n" + CALL
            with self.subTest(tried), unittest.mock.patch.object(policy, "check", lambda _: None):
                self.fails(candidate(forward), "correctness", "uncovered", "uncovered: ")
        early = SCALE + "\ntry: torch.cuda.Event()\nexcept BaseException: pass\n"
        self.fails(candidate(kernel=early), "correctness", "uncovered", "the device's clock")
        self.assertTrue(recorded(candidate())["ok"])  # nothing of it is kept for the next

    def test_weights_that_are_not_loaded(self) -> None:
        load = candidate(init="self.w = nn.Parameter(torch.ones(3))") + textwrap.indent("""
def load_state_dict(self, state, **kwargs):
    return super().load_state_dict({"w": torch.ones(3)}, **kwargs)
""", "    ")
        result = recorded(load, task(init="self.w = nn.Parameter(torch.ones(3))"))
        self.assertEqual((result["stage"], result["code"]), ("integrity", "weights_mismatch"))
        self.assertIn("doesn't keep the weight w that load_state_dict gives it", result["reason"])

    def test_weights_of_any_type_are_loaded(self) -> None:
        init = "\n".join(
            f"self.register_buffer('b{i}', torch.zeros({shape}).to(torch.{kind}))"
            for i, (kind, shape) in enumerate(itertools.product(
                ("float8_e5m2", "bfloat16", "float64", "bool", "int8"), ("3, 2", "0"))))
        init += "\nself.register_buffer('nan', torch.tensor(float('nan')))"
        result = recorded(candidate(init=init), task(init=init))
        self.assertTrue(result["ok"], result)

    def test_a_class_of_others_that_is_changed(self) -> None:
        for statement, name in (
            ("next(iter([nn.Softmax])).forward = lambda self, x: x", "Softmax.forward"),
            ("max([nn.ReLU], key=str).extra = lambda self: 1", "ReLU.extra"),
            ("min([nn.GELU], key=str).forward = print", "GELU.forward"),
        ):
            code = candidate(kernel=SCALE + statement)
            kind = next(k for k in (nn.Softmax, nn.ReLU, nn.GELU) if k.__name__ in name)
            before = kind.forward
            with self.subTest(statement):
                try:
                    self.fails(code, "policy", "monkey_patch", f"{name} belongs to a module")
                finally:
                    kind.forward = before
                    if hasattr(kind, "extra"):
                        del kind.extra

    def test_refusals_come_before_anything_runs(self) -> None:
        self.fails(candidate(kernel="import os"), "policy", "import", "os is not allowed",
                   "import os")
        self.fails("def f(:", "parse", "syntax_error", "line 1", "def f(:")

    def test_weights_for_a_model_that_has_none(self) -> None:
        result = recorded(candidate(init="self.w = nn.Parameter(torch.zeros(3))"), task())
        self.assertTrue(result["ok"])
        self.assertEqual(result["loaded"].state, [])


if __name__ == "__main__":
    unittest.main()
