"""From a candidate's text to its tape."""

from __future__ import annotations

import unittest

import torch
from kernel_evolve_worker.errors import WorkerError
from support import CALL, SCALE, candidate, recorded, task


class Tapes(unittest.TestCase):
    def tape(self, code: str, task_text: str | None = None):
        result = recorded(code, task_text)
        self.assertTrue(result["ok"], result)
        self.assertEqual(result["left"], ["tapes"])  # neither the candidate nor a cache stays
        return result["loaded"]

    def test_a_launch_with_its_kernel(self) -> None:
        tape = self.tape(candidate())
        (step,) = tape.steps
        self.assertEqual((step["op"], step["kernel"], step["grid"]), ("launch", "k0", [2, 1, 1]))
        x, out, count = step["args"]
        self.assertEqual(x["tensor"], {"buffer": "b0", "dtype": "float32", "shape": [100],
                                       "stride": [1], "offset": 0})
        self.assertEqual(out["tensor"]["buffer"], "b1")
        self.assertEqual(count, {"name": "count", "scalar": 100, "type": "i32"})
        self.assertEqual(tape.buffers, {
            "b0": {"bytes": 400, "itemsize": 4, "origin": "input"},
            "b1": {"bytes": 400, "itemsize": 4, "origin": "empty"}})
        self.assertEqual(tape.outputs, {"tensor": out["tensor"]})
        kernel = tape.kernels["k0"]
        self.assertEqual((kernel["name"], kernel["metadata"]["num_warps"]), ("scale", 4))
        self.assertIn("tt.func public @scale", kernel["ttir"])
        self.assertIn(".target sm_90a", kernel["ptx"])
        self.assertIn('loc("candidate.py":', kernel["ttir"])
        self.assertGreater(kernel["resources"]["registers"], 0)
        self.assertEqual(kernel["resources"]["spills"], 0)
        self.assertEqual(candidate().splitlines()[kernel["line"] - 1],
                         "def scale(x, out, count, BLOCK: tl.constexpr):")

    def test_integers_that_are_one_and_constexprs_are_folded(self) -> None:
        forward = CALL.replace("x.numel(), BLOCK", "1, BLOCK")
        (step,) = self.tape(candidate(forward)).steps
        self.assertEqual([a["name"] for a in step["args"]], ["x", "out"])

    def test_views_are_references_into_one_buffer(self) -> None:
        forward = CALL.replace("args[0]", "args[0].view(10, 10).t()[1, 2:]").replace(
            "torch.empty_like(x)", "torch.empty(8, device=x.device)")
        (step,) = self.tape(candidate(forward)).steps
        self.assertEqual(step["args"][0]["tensor"], {"buffer": "b0", "dtype": "float32",
                                                     "shape": [8], "stride": [10], "offset": 21})

    def test_autotuning_records_the_chosen_launch_only(self) -> None:
        kernel = SCALE.replace("@triton.jit", """
@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128)
                          for w in (1, 4)], key=["count"], reset_to_zero=["out"])
@triton.jit""".strip())
        forward = CALL.replace(", BLOCK=64", "").replace(
            "(triton.cdiv(x.numel(), 64),)", "lambda m: (triton.cdiv(100, m['BLOCK']),)")
        tape = self.tape(candidate(forward, kernel))
        self.assertEqual([step["op"] for step in tape.steps], ["launch"])
        self.assertEqual(len(tape.kernels), 1)

    def test_autotuning_over_too_many_configurations_is_refused(self) -> None:
        kernel = SCALE.replace("@triton.jit", """
@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_stages=s) for s in range(1, 18)], key=[])
@triton.jit""".strip())
        result = recorded(candidate(CALL.replace(", BLOCK=64", ""), kernel))
        self.assertEqual((result["stage"], result["code"]), ("policy", "autotune_too_wide"))
        self.assertIn("the autotuning of scale has 17 configurations", result["reason"])

    def test_heuristics(self) -> None:
        kernel = SCALE.replace("@triton.jit", """
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["count"])})
@triton.jit""".strip())
        (step,) = self.tape(candidate(CALL.replace(", BLOCK=64", ""), kernel)).steps
        self.assertEqual(step["grid"], [2, 1, 1])

    def test_operators_of_pytorch_are_recorded_not_computed(self) -> None:
        forward = """
            x = args[0].view(10, 10)
            y = torch.nn.functional.gelu(x @ x) + 1
            y[0] = 3.0
            return y.mean(1), x.argmax()
        """
        tape = self.tape(candidate(forward))
        self.assertEqual([step["name"] for step in tape.steps],
                         ["aten.mm.default", "aten.gelu.default", "aten.add.Tensor",
                          "aten.fill_.Scalar", "aten.mean.dim", "aten.argmax.default"])
        fill = tape.steps[3]
        self.assertEqual(fill["out"], fill["writes"])
        self.assertEqual(fill["out"][0]["buffer"], tape.steps[2]["out"][0]["buffer"])

    def test_a_candidate_without_a_kernel_is_recorded(self) -> None:
        result = recorded(candidate("return args[0] * 2"))
        self.assertEqual((result["ok"], result["tape"]["launches"]), (True, 0))

    def test_what_a_gpu_would_answer(self) -> None:
        forward = """
            x = args[0]
            assert x.is_cuda and x.device.type == "cuda" and str(x.device) == "cuda:0"
            assert x.get_device() == 0 and not x.is_cpu
            assert torch.cuda.is_available() and torch.cuda.device_count() == 1
            assert torch.cuda.get_device_capability() == (9, 0)
            assert torch.cuda.get_device_properties(x.device).multi_processor_count == 132
            assert "H200" in torch.cuda.get_device_name(0)
            assert x.to("cuda").data_ptr() == x.cuda().data_ptr() == x.data_ptr()
            with torch.cuda.device(x.device), torch.device("cuda"):
                assert torch.zeros(3).is_cuda
            assert torch.zeros(3, device="cuda:0").is_cuda and x.new_zeros(3).is_cuda
            assert torch.ones(2, device=torch.device("cuda")).is_cuda
            assert not torch.zeros(3).is_cuda
            torch.cuda.synchronize()
            stream = torch.cuda.current_stream()
            assert type(stream).__name__ == "Stream" and isinstance(stream, torch.cuda.Stream)
            assert stream == torch.cuda.default_stream() and stream.query()
            assert "CudaDeviceProperties" in type(torch.cuda.get_device_properties(0)).__name__
            assert torch.cuda.is_available.__name__ == "is_available"
            assert torch.cuda.device.__name__ == "device" and type(torch.cuda.Event) is type
            assert torch.cuda.memory.memory_allocated() == torch.cuda.memory_allocated() > 0
            assert torch.accelerator.current_accelerator().type == "cuda"
            assert x.type() == "torch.cuda.FloatTensor"
            assert type(triton.runtime.driver.active).__name__ == "CudaDriver"
            return x
        """
        self.assertEqual(len(self.tape(candidate(forward)).outputs), 1)

    def test_the_real_torch_is_back_afterwards(self) -> None:
        recorded(candidate())
        self.assertFalse(torch.zeros(1).is_cuda)
        self.assertFalse(torch.cuda.is_initialized())
        self.assertEqual(str(torch.zeros(1).device), "cpu")

    def test_constants_of_init(self) -> None:
        init = """
            self.table = torch.arange(8, device="cuda").float()
            self.zeros = torch.zeros(1000, device="cuda")
        """
        tape = self.tape(candidate("return args[0][:8] + self.table + self.zeros[0]", init=init))
        constants = {n: b for n, b in tape.buffers.items() if b["origin"] == "constant"}
        self.assertEqual([b.get("fill") for b in constants.values()], [None, 0])
        (table, _) = constants
        values = torch.frombuffer(bytearray(tape.blob(table)), dtype=torch.float32)
        self.assertEqual(values.tolist(), list(range(8)))

    def test_the_mode_of_the_model_is_the_reference_s(self) -> None:
        tape = self.tape(candidate("return args[0] * (2 if self.training else 3)"),
                         task(init="self.eval()  # training: twice"))
        self.assertEqual(tape.steps[0]["args"][1], 3)

    def test_the_other_mode(self) -> None:
        by_mode = candidate("return args[0] * (2 if self.training else 3)")
        dropped = candidate("return nn.functional.dropout(args[0], 0.5, self.training)")
        for code in (by_mode, dropped, candidate("assert self.training\nreturn args[0] * 2")):
            for mode in ("pass", "self.eval()"):
                with self.subTest(code=code.splitlines()[-2], mode=mode):
                    result = recorded(code, task(init=mode))
                    self.assertFalse(result["ok"])
                    if mode == "pass" and code != dropped:
                        self.assertEqual(result["code"], "other_mode")
                        self.assertIn("something else in evaluation mode", result["reason"])
        for module, call in (("nn.Dropout(0.5)", "self.m(args[0])"),
                             ("nn.BatchNorm1d(100)", "self.m(args[0].view(1, 100))"),
                             ("nn.LSTM(100, 4)", "self.m(args[0].view(1, 1, 100))[0]")):
            with self.subTest(module=module):
                text = task(init=f"self.m = {module}; self.eval()").replace(
                    "return args[0]", f"return {call}")
                self.assertTrue(recorded(candidate(f"return {call}", init=f"self.m = {module}"),
                                         text)["ok"])


    def test_a_train_that_returns_nothing(self) -> None:
        code = candidate("return args[0] * 2") + (
            "    def train(self, mode=True):\n        self.training = mode\n")
        self.assertTrue(recorded(code)["ok"])

    def test_copies_of_one_call_are_told(self) -> None:
        tape = self.tape(candidate("return args[0] + torch.arange(100.0).cuda()"))
        self.assertEqual(tape.host["host_copies"], 1)


class Weights(unittest.TestCase):
    LINEAR = "self.a = nn.Linear(4, 5); self.b = nn.Linear(4, 5)"

    def state(self, init: str, forward: str = "return args[0]", reference: str = LINEAR):
        return recorded(candidate(forward, init=init), task(init=reference))

    def pairs(self, result):
        self.assertTrue(result["ok"], result)
        return [(s["name"], s["own_name"]) for s in result["loaded"].state]

    def test_by_name(self) -> None:
        result = self.state(self.LINEAR + "; self.register_buffer('mine', torch.zeros(2))")
        self.assertEqual(self.pairs(result), [(n, n) for n in ("a.weight", "a.bias", "b.weight",
                                                              "b.bias")])

    def test_by_order(self) -> None:
        result = self.state("self.w = nn.Parameter(torch.zeros(5, 4))\n"
                            "self.c = nn.Parameter(torch.zeros(5))",
                            reference="self.a = nn.Linear(4, 5)")
        self.assertEqual(self.pairs(result), [("a.weight", "w"), ("a.bias", "c")])

    def test_by_value_where_the_order_differs(self) -> None:
        init = """
            a, b = nn.Linear(4, 5), nn.Linear(4, 5)
            self.bias_b, self.bias_a = b.bias, a.bias
            self.w = nn.ParameterList([b.weight, a.weight])
        """
        self.assertEqual(self.pairs(self.state(init)),
                         [("a.weight", "w.1"), ("a.bias", "bias_a"), ("b.weight", "w.0"),
                          ("b.bias", "bias_b")])

    def test_one_sentence_where_nothing_fits(self) -> None:
        result = self.state("self.w = nn.Parameter(torch.zeros(3))")
        self.assertEqual((result["stage"], result["code"]), ("integrity", "weights_mismatch"))
        self.assertIn("Model has a.weight [5, 4], a.bias [5], b.weight [5, 4], b.bias [5], "
                      "ModelNew has w [3]", result["reason"])

    def test_buffers_that_forward_changes(self) -> None:
        reference = "self.register_buffer('count', torch.zeros(1))"
        result = self.state(reference, "self.count += 1\nreturn args[0] * self.count", reference)
        step = result["loaded"].steps[0]
        self.assertEqual(step["writes"][0]["buffer"], result["loaded"].state[0]["ref"]["buffer"])


class Tasks(unittest.TestCase):
    def test_a_mistake_of_the_task_is_not_the_candidate_s(self) -> None:
        with self.assertRaises(WorkerError) as caught:
            recorded(candidate(), "import torch\n")
        self.assertEqual(caught.exception.error_class, "validation")


if __name__ == "__main__":
    unittest.main()
