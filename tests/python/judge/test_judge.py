"""From a recording to a verdict: what is a win, what isn't, and what the author is told."""

from __future__ import annotations

import json
import time
import unittest
from types import SimpleNamespace
from unittest import mock

import torch
import torch.nn.functional as F
from support import KERNEL, context, judge, request, task_source, tools

from evaluator_simulator import judge as judging
from evaluator_simulator import verdict as verdicts
from evaluator_simulator.execution import AtenStats, LaunchStats
from kernel_evolve_worker.correctness import constants
from kernel_evolve_worker.errors import WorkerError

# Three operators in eager, one kernel in a rewrite: a clear win where it is right.
CHAIN = task_source("return F.relu(x * 2 + y) * 0.5", "torch.randn(256, 512), torch.randn(512)")


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.relu(x * 2 + y) * 0.5


class Shape(unittest.TestCase):
    def test_a_right_and_faster_candidate_wins(self) -> None:
        verdict = judge(CHAIN, chain)
        self.assertEqual(
            (verdict["stage"], verdict["ok"], verdict["correct"], verdict["weak"], verdict["win"],
             verdict["code"]), ("done", True, True, False, True, "faster"))
        metrics = verdict["metrics"]
        self.assertGreater(metrics["speedup"], 1)
        self.assertAlmostEqual(
            metrics["speedup"], metrics["original_time"] / metrics["optimized_time"])
        self.assertIsNone(metrics["error"])
        self.assertIn("modelled", verdict["reason"])

    def test_every_promised_field_is_there_and_is_json(self) -> None:
        verdict = json.loads(json.dumps(judge(CHAIN, chain), allow_nan=False))
        self.assertEqual(set(verdict), {
            "format", "class", "evaluator", "stage", "asked", "ok", "correct", "weak", "win",
            "code", "reason", "feedback", "metrics", "kernels", "coverage", "skipped",
            "provenance", "seconds"})
        self.assertEqual(verdict["class"], "modelled")
        self.assertEqual(verdict["evaluator"],
                         {"name": "simulator", "version": "1.1.0", "protocol": 1})
        self.assertLessEqual(len(verdict["feedback"]), 25)
        self.assertGreaterEqual(
            set(verdict["kernels"][0]),
            {"name", "grid", "num_warps", "num_stages", "registers", "spills", "shared_bytes",
             "line"})
        self.assertEqual(verdict["kernels"][0]["grid"], [1024, 1, 1])
        self.assertIn("not measured", verdict["provenance"]["time"])

    def test_nothing_tells_the_seed(self) -> None:
        verdict = judging.judge(request(CHAIN, seed=918273645), context(), tools(chain))
        self.assertNotIn("918273645", json.dumps(verdict))

    def test_compile_only_reports_the_kernels_and_judges_nothing(self) -> None:
        verdict = judging.judge(request(CHAIN, "compile"), context(), tools(None))
        self.assertEqual((verdict["asked"], verdict["stage"], verdict["ok"], verdict["correct"],
                          verdict["win"], verdict["code"]),
                         ("compile", "done", True, None, False, "compiled"))
        self.assertEqual(verdict["kernels"][0]["registers"], 40)
        self.assertIn("40 registers", " ".join(verdict["feedback"]))

    def test_a_failed_recording_is_a_verdict(self) -> None:
        record = {"ok": False, "stage": "compile", "code": "compile_error", "reason": "line 3: no.",
                  "feedback": ["line 3: no."]}
        for asked in ("full", "compile"):
            verdict = judging.judge({**request(CHAIN, asked), "record": record}, context(),
                                    tools(None))
            self.assertEqual((verdict["stage"], verdict["ok"], verdict["correct"], verdict["code"],
                              verdict["reason"], verdict["asked"]),
                             ("compile", False, None, "compile_error", "line 3: no.", asked))
        crashed = verdicts.from_record_failure(
            {"ok": False, "stage": "correctness", "code": "crashed", "reason": "It died."}, "full")
        self.assertFalse(crashed["correct"])
        self.assertEqual(crashed["metrics"]["error"], "It died.")

    def test_a_tape_that_is_none(self) -> None:
        for tape in ({"path": "/nowhere/tape.json"}, {"path": 7}, {}, None, "a\0b", [1]):
            for asked in ("full", "compile"):
                found = judging.judge(request(CHAIN, asked, tape=tape), context())
                with self.subTest(tape=tape, asked=asked):
                    self.assertEqual((found["stage"], found["code"], found["ok"], found["correct"]),
                                     ("integrity", "no_recording", False, None))

    def test_references_are_made_once_for_all_candidates(self) -> None:
        ctx = context()
        judging.judge(request(CHAIN), ctx, tools(chain))
        references = ctx.state["references"][1]
        made = dict(references._kept)
        second = judging.judge(request(CHAIN), ctx, tools(chain))
        self.assertIs(ctx.state["references"][1], references)
        self.assertEqual({k: id(v) for k, v in made.items()},
                         {k: id(v) for k, v in references._kept.items()})
        self.assertTrue(second["win"])

    def test_progress_is_told(self) -> None:
        told: list[str] = []
        ctx = context()
        ctx.send_progress = lambda data: told.append(data["text"])
        judging.judge(request(CHAIN), ctx, tools(chain))
        self.assertIn("trying the task: running the reference", told)
        self.assertIn("running the kernels on the task's own inputs", told)

    def test_an_expensive_reference_gets_fewer_variants_and_says_so(self) -> None:
        told: list[str] = []
        ctx = context()
        ctx.send_progress = lambda data: told.append(data["text"])
        with mock.patch.object(constants, "EXPENSIVE_S", 0.0):
            verdict = judging.judge(request(CHAIN), ctx, tools(chain))
        self.assertTrue(verdict["win"])
        self.assertEqual([v["variant"] for v in verdict["coverage"]["variants"]],
                         ["own", "normal", "large", "small"])
        skipped = " ".join(verdict["skipped"])
        self.assertIn("variants left out because the reference is expensive: heavy_tail", skipped)
        self.assertIn("1 perturbed fp64 run instead of 3", skipped)
        self.assertIn("reference 2/4: zero-mean inputs", told)

    def test_references_beyond_the_memory_bound_are_made_again_and_said_so(self) -> None:
        ctx = context()
        with mock.patch.object(constants, "CACHE_BYTES", 0):
            for _ in range(2):
                verdict = judging.judge(request(CHAIN), ctx, tools(chain))
        self.assertTrue(verdict["win"])
        self.assertIn("made again for each candidate", " ".join(verdict["skipped"]))

    def test_a_near_deadline_leaves_variants_out(self) -> None:
        ctx = context()
        ctx.deadline = time.monotonic() + 5.5
        verdict = judging.judge(request(CHAIN), ctx, tools(chain))
        self.assertEqual((verdict["weak"], verdict["win"]), (True, False))
        self.assertIn("deadline is near", " ".join(verdict["skipped"]))


class NoWin(unittest.TestCase):
    def test_right_but_slower(self) -> None:
        slow = judge(task_source("return x * 2", "torch.randn(256, 512)"), lambda x: x * 2,
                     launches=[])
        self.assertEqual(slow["code"], "no_kernel")
        source = task_source("return x * 2", "torch.randn(256, 512)")
        good = tools(lambda x: x * 2)
        execute = good.execute

        def twice(*args):
            result = execute(*args)
            result.launches *= 3
            return result

        verdict = judging.judge(request(source), context(), judging.Tools(good.load_tape, twice))
        self.assertEqual((verdict["ok"], verdict["correct"], verdict["win"], verdict["code"]),
                         (True, True, False, "not_faster"))

    def test_a_candidate_without_a_kernel_never_wins(self) -> None:
        verdict = judge(CHAIN, chain, launches=[])
        self.assertEqual((verdict["ok"], verdict["correct"], verdict["win"], verdict["code"]),
                         (True, True, False, "no_kernel"))
        self.assertIn("no Triton kernel", verdict["reason"])

    def test_too_few_inputs_that_tell_right_from_wrong_is_weak(self) -> None:
        # The inputs can't be varied: offsets stay as they are, and every draw is the same.
        source = task_source("return x.float() * 2 + self.w", "torch.arange(64)",
                             init="self.w = nn.Parameter(torch.ones(64))")
        verdict = judge(source, lambda x, w: x.float() * 2 + w)
        self.assertEqual((verdict["ok"], verdict["weak"], verdict["win"], verdict["code"]),
                         (True, True, False, "weak"))

    def test_draws_of_the_task_help_where_inputs_cannot_be_varied(self) -> None:
        source = task_source("return F.relu(x.float().sin() * 2 + 1) * 0.5",
                             "torch.randint(0, 10000, (64, 64)).sort().values.reshape(-1)"
                             ".sort().values")
        verdict = judge(source, lambda x: F.relu(x.float().sin() * 2 + 1) * 0.5)
        self.assertFalse(verdict["weak"])
        self.assertTrue(verdict["win"])


    def test_variants_on_which_the_reference_raises_are_left_out(self) -> None:
        source = task_source("return torch.linalg.inv(x) * 2 + 1",
                             "torch.randn(32, 32) + 10 * torch.eye(32)")
        verdict = judge(source, lambda x: torch.linalg.inv(x) * 2 + 1)
        self.assertTrue(verdict["ok"], verdict["reason"])
        left_out = [v["variant"] for v in verdict["coverage"]["variants"] if not v["finite"]]
        self.assertIn("zeros", left_out)

    def test_attention_left_to_pytorch_costs_what_it_costs_eager(self) -> None:
        source = task_source("return F.scaled_dot_product_attention(x, y, z)",
                             ", ".join(["torch.randn(2, 4, 256, 32)"] * 3))
        op = AtenStats("aten.some_attention_of_the_cpu.default", 0, 1, 1, 0, "float32")
        verdict = judge(source, F.scaled_dot_product_attention, aten=[op])
        self.assertFalse(verdict["win"], verdict["reason"])

    def test_float_atomics_are_named(self) -> None:
        launch = LaunchStats("k0", "fused", (8, 1, 1), 8, float_atomics=True)
        verdict = judge(CHAIN, chain, launches=[launch])
        self.assertIn("atomics", " ".join(verdict["skipped"]))


class Wrong(unittest.TestCase):
    def refused(self, source: str, forward, code: str, *expected: str, **change) -> dict:
        verdict = judge(source, forward, **change)
        self.assertEqual((verdict["stage"], verdict["ok"], verdict["correct"], verdict["win"],
                          verdict["code"]), ("correctness", False, False, False, code), verdict)
        text = verdict["reason"] + "\n" + "\n".join(verdict["feedback"])
        for part in expected:
            self.assertIn(part, text)
        self.assertEqual(verdict["metrics"]["error"], verdict["reason"])
        self.assertNotIn("\n", verdict["reason"])
        return verdict

    def test_a_tail_that_is_missing(self) -> None:
        def cut(x, y):
            out = chain(x, y)
            out[:, 500:] = 0
            return out
        self.refused(CHAIN, cut, "wrong_values",
                     "a tail: all wrong elements lie in the last 12 of 512 positions of dim",
                     "all of them are 0", "on the task's own inputs")

    def test_a_constant_factor(self) -> None:
        self.refused(CHAIN, lambda x, y: chain(x, y) * 2, "wrong_values",
                     "a constant factor: each is 2 times what is expected")

    def test_a_stride(self) -> None:
        def every_fourth(x, y):
            out = chain(x, y)
            out[:, 1::4] += 1
            return out
        self.refused(CHAIN, every_fourth, "wrong_values",
                     "every 4th position of dimension 1 is wrong, starting at 1",
                     "a constant offset: each is +1")

    def test_swapped_rows_and_columns(self) -> None:
        source = task_source("return x * 2", "torch.randn(64, 64)")
        self.refused(source, lambda x: (x * 2).t().contiguous(), "wrong_values", "transposed")

    def test_low_precision(self) -> None:
        source = task_source("return x @ y", "torch.randn(64, 256), torch.randn(256, 64)")
        self.refused(source, lambda x, y: x.half().float() @ y.half().float(), "inaccurate",
                     "less accurate than the reference", "accumulate in fp32")

    def test_right_on_own_inputs_but_not_on_others(self) -> None:
        source = task_source("return x.softmax(-1)", "torch.randn(64, 256)")

        def no_maximum(x):
            return x.exp() / x.exp().sum(-1, keepdim=True)
        self.refused(source, no_maximum, "not_finite", "NaN or Inf where the reference is finite",
                     "large inputs", "it was right on the task's own inputs")

    def test_weights_folded_at_construction(self) -> None:
        source = task_source("return F.relu(x + self.w) * 2", "torch.randn(64, 128)",
                             init="self.w = nn.Parameter(torch.randn(128))")
        kept = {}

        def stale(x, w):
            kept.setdefault("w", w)
            return F.relu(x + kept["w"]) * 2
        self.refused(source, stale, "wrong_values", "other weights", "don't fold them")
        self.assertTrue(judge(source, lambda x, w: F.relu(x + w) * 2)["win"])

    def test_output_type_shape_tree_and_layout(self) -> None:
        self.refused(CHAIN, lambda x, y: chain(x, y).double(), "output_dtype",
                     "dtype float64; the reference's is float32")
        self.refused(CHAIN, lambda x, y: chain(x, y).reshape(512, 256), "output_shape",
                     "[512, 256]", "[256, 512]")
        self.refused(CHAIN, lambda x, y: (chain(x, y),), "output_tree",
                     "a tuple of 1", "a tensor")
        self.refused(CHAIN, lambda x, y: None, "output_type", "is None")
        dicts = task_source("return {'b': x * 2, 'a': x + y}", "torch.randn(8, 8), torch.randn(8)")
        self.refused(dicts, lambda x, y: {"a": x + y, "c": x * 2}, "output_tree",
                     "a dict of 2 with the keys a, c")
        self.assertTrue(judge(dicts, lambda x, y: {"a": x + y, "b": x * 2})["ok"])
        wide = torch.zeros(256, 1024)

        def gaps(x, y):
            wide[:, ::2] = chain(x, y)
            return wide[:, ::2]
        self.refused(CHAIN, gaps, "output_stride", "gaps or overlaps")
        dense = judge(CHAIN, lambda x, y: chain(x, y).t().contiguous().t())
        self.assertTrue(dense["ok"], "another dense order is as good")

    def test_an_output_that_is_an_input(self) -> None:
        def in_place(x, y):
            return x.copy_(chain(x, y))
        self.refused(CHAIN, in_place, "output_alias", "shares memory with input 0")

    def test_an_input_that_changes(self) -> None:
        def clobbers(x, y):
            out = chain(x, y)
            y.zero_()
            return out
        self.refused(CHAIN, clobbers, "input_changed", "changes input 1")

    def test_inputs_and_buffers_end_as_the_reference_leaves_them(self) -> None:
        source = task_source("y.add_(x); return x * 3 + 1",
                             "torch.randn(64, 64), torch.randn(64, 64)")

        def same(x, y):
            y.add_(x)
            return x * 3 + 1
        self.assertTrue(judge(source, same)["ok"])
        self.refused(source, lambda x, y: x * 3 + 1, "wrong_values", "input 1 after the call")
        norm = task_source("return self.n(x)", "torch.randn(256, 32)",
                           init="self.n = nn.BatchNorm1d(32)")

        def batch_norm(x, **s):
            return F.batch_norm(x, s["n.running_mean"], s["n.running_var"], s["n.weight"],
                                s["n.bias"], training=True)

        def whole(x, **s):
            s["n.num_batches_tracked"].add_(1)
            return batch_norm(x, **s)
        self.assertTrue(judge(norm, whole)["ok"])
        self.refused(norm, batch_norm, "wrong_values",
                     "buffer n.num_batches_tracked after the call")

    def test_faults_of_the_execution_come_with_line_and_advice(self) -> None:
        fault = {"kind": "out_of_bounds_load", "buffer": "b0", "param": "x_ptr", "kernel": "k0",
                 "line": 23, "count": 32, "program": [31, 0, 0], "offset": 4096, "extent": 4096,
                 "step": 0}
        verdict = self.refused(CHAIN, chain, "out_of_bounds", "kernel fused reads outside x_ptr",
                               "line 23", "mask the load", faults=[fault])
        self.assertIn("first at element 4096 of 4096), program [31, 0, 0]", verdict["reason"])
        for kind in ("uninitialised", "unwritten", "race", "false_hint"):
            self.refused(CHAIN, chain, kind, faults=[{**fault, "kind": kind}])

    def test_a_tensor_that_forward_changes_for_the_next_call(self) -> None:
        self.refused(CHAIN, chain, "constants_changed", "next call starts from other values",
                     constants_changed=["scratch"])

    def test_uncovered_is_neither_right_nor_wrong(self) -> None:
        verdict = judge(CHAIN, chain, outputs=None, uncovered="uncovered: tt.histogram")
        self.assertEqual((verdict["ok"], verdict["correct"], verdict["win"], verdict["code"],
                          verdict["stage"]), (False, None, False, "uncovered", "correctness"))
        self.assertEqual(verdict["reason"], "uncovered: tt.histogram")


class Indices(unittest.TestCase):
    def test_ties_are_compared_by_what_they_select(self) -> None:
        source = task_source("return x.max(1)", "torch.randint(0, 4, (64, 32)).float()")

        def last(x):
            values, _ = x.max(1)
            at = (x == values[:, None]).long() * torch.arange(1, 33)
            return values, at.argmax(1)

        def wrong(x):
            values, at = x.max(1)
            return values, (at + 1) % 32
        self.assertTrue(judge(source, last)["ok"])
        self.assertEqual(judge(source, wrong)["code"], "wrong_values")

    def test_integers_are_exact(self) -> None:
        source = task_source("return x * 2 + 1", "torch.randint(-50, 50, (64, 64))")
        self.assertTrue(judge(source, lambda x: x * 2 + 1)["win"])
        verdict = judge(source, lambda x: x * 2 + (x != 49))
        self.assertEqual(verdict["code"], "wrong_values")
        self.assertIn("have to be equal", verdict["reason"])


class Precision(unittest.TestCase):
    def test_half_precision_tasks(self) -> None:
        for dtype in ("bfloat16", "float16"):
            source = task_source("return F.gelu(x @ y)", f"torch.randn(64, 256).to(torch.{dtype}), "
                                 f"torch.randn(256, 64).to(torch.{dtype})")

            def fused(x, y):
                return F.gelu(x.float() @ y.float()).to(x.dtype)
            verdict = judge(source, fused)
            self.assertTrue(verdict["win"], verdict["reason"])
            self.assertEqual(verdict["provenance"]["precision"],
                             {"bfloat16": "bf16", "float16": "fp16"}[dtype])
            wrong = judge(source, lambda x, y: fused(x, y) * 1.02)
            self.assertEqual(wrong["code"], "inaccurate")

    def test_casts_inside_the_reference_do_not_narrow_the_yardstick(self) -> None:
        source = task_source(
            "return (x.float() * torch.ones(64, dtype=torch.float32)).softmax(-1).to(x.dtype)",
            "torch.randn(64, 64, dtype=torch.float32)")
        self.assertTrue(judge(source, lambda x: x.softmax(-1))["win"])


class Trial(unittest.TestCase):
    def test_a_good_task_is_described(self) -> None:
        told = judging.try_task({"task": request(CHAIN)["task"]}, context())
        self.assertTrue(told["ok"])
        self.assertEqual(told["precision"], "fp32")
        self.assertGreater(told["original_time"], 0)
        self.assertIn("aten.relu.default", told["operators"])

    def refuses(self, source: str, *expected: str) -> None:
        with self.assertRaises(WorkerError) as caught:
            judging.judge(request(source), context(), tools(lambda *a, **k: None))
        self.assertEqual(caught.exception.error_class, "validation")
        for part in expected:
            self.assertIn(part, str(caught.exception))

    def test_random(self) -> None:
        self.refuses(task_source("return x + torch.randn(4, 4)", "torch.randn(4, 4)"),
                     "is random", "same result for the same inputs")

    def test_dropout_in_training_mode(self) -> None:
        self.refuses(task_source("return self.d(x)", "torch.randn(64, 64)",
                                 init="self.d = nn.Dropout(0.5)"), "is random", "self.eval()")
        fine = task_source("return self.d(x) * 2 + 1", "torch.randn(64, 64)",
                           init="self.d = nn.Dropout(0.5); self.eval()")
        self.assertTrue(judge(fine, lambda x: x * 2 + 1)["ok"])

    def test_outputs_that_are_not_finite(self) -> None:
        self.refuses(task_source("return x.log()", "-torch.rand(4, 4)"),
                     "NaN or Inf in 16 of 16 elements")

    def test_no_output(self) -> None:
        self.refuses(task_source("return None", "torch.randn(4)"), "returns no tensor")
        self.refuses(task_source("return x[:0]", "torch.randn(4)"), "no elements")

    def test_results_that_a_lazy_answer_would_match(self) -> None:
        self.refuses(task_source("return x * 0", "torch.randn(4, 4)"), "too weak", "all zeros")
        self.refuses(task_source("return x * 0 + 3", "torch.randn(4, 4)"), "too weak",
                     "one constant")
        self.refuses(task_source("return F.relu(x)", "torch.rand(4, 4)"), "too weak",
                     "a copy of input 0")
        self.refuses(task_source("return F.relu(x)", "torch.cat([torch.rand(32, 32) - 0.5, "
                                 "-torch.rand(64, 32)])"), "too weak", "only the first tile")

    def test_mistakes_of_the_task_come_through(self) -> None:
        self.refuses("import torch\n", "doesn't define Model")
        self.refuses(task_source("return x @ x", "torch.randn(4, 8)"), "raises in forward")


class CompileWithoutKernels(unittest.TestCase):
    def test_says_so(self) -> None:
        empty = judging.Tools(lambda record: SimpleNamespace(kernels={}), None)
        verdict = judging.judge(request(CHAIN, "compile"), context(), empty)
        self.assertEqual((verdict["ok"], verdict["code"]), (True, "no_kernel"))
        self.assertEqual(KERNEL["name"], "fused")


if __name__ == "__main__":
    unittest.main()
