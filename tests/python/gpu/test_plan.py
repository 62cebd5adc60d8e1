"""What becomes of a tape: a plan, or one sentence why not. Nothing in a tape is believed."""

from __future__ import annotations

import math
import random
import struct
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import support
import torch
from evaluator_gpu.plan import NotReplayable, check_ref, make_plan, scalar_bytes
from kernel_evolve_worker.recording.tape import Tape, TapeError
from support import tape_of, texts

ASSEMBLY = texts.SCALE.replace("tl.load(x + i, mask=i < count) * 2", """tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [tl.load(x + i, mask=i < count)], tl.float32, True, 1)""")
MADE = """
x = args[0]
out = {made}
scale[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
return out
"""


class Plans(unittest.TestCase):
    def test_a_launch(self) -> None:
        plan = make_plan(tape_of())
        kernel, = plan.text["kernels"]
        self.assertEqual((kernel["name"], kernel["threads"], kernel["fresh"]),
                         ("scale", 128, False))
        self.assertEqual(plan.text["buffers"], [{"bytes": 400, "data": 0}, {"bytes": 400}])
        step, = plan.text["steps"]
        self.assertEqual(step["grid"], [2, 1, 1])
        self.assertEqual(step["parameters"], [
            {"buffer": 0, "offset": 0}, {"buffer": 1, "offset": 0}, {"value": "64000000"},
            {"value": "00" * 8}, {"value": "00" * 8}])
        self.assertEqual(plan.text["results"], [{"buffer": 1, "offset": 0, "bytes": 400}])
        self.assertTrue(plan.hashed)
        places = [*plan.data.items(), *plan.fetch.items()]
        self.assertEqual(len({place for _, place in places}), len(places))
        for _, place in places:
            self.assertEqual(place % 256, 0)
            self.assertLessEqual(place + 400, plan.shared_bytes)

    def test_views_start_where_they_start(self) -> None:
        tape = tape_of("x = args[0][10:50]\nout = torch.empty(50, device=x.device)[4:44]\n"
                       "scale[(1,)](x, out, 40, BLOCK=64)\nreturn out")
        plan = make_plan(tape)
        self.assertEqual([p.get("offset") for p in plan.text["steps"][0]["parameters"][:2]],
                         [40, 16])
        self.assertEqual(plan.text["results"], [{"buffer": 1, "offset": 16, "bytes": 160}])

    def test_outputs_with_gaps_are_not_hashed(self) -> None:
        plan = make_plan(tape_of(texts.CALL.replace("return out", "return out[::2], out")))
        self.assertFalse(plan.hashed)
        self.assertEqual(len(plan.text["results"]), 1)

    def test_a_transposed_output_has_no_gaps(self) -> None:
        plan = make_plan(tape_of(texts.CALL.replace("return out", "return out.view(10, 10).t()")))
        self.assertTrue(plan.hashed)

    def test_an_empty_grid_stays(self) -> None:
        plan = make_plan(tape_of(texts.CALL.replace("(triton.cdiv(x.numel(), 64),)", "(0,)")))
        self.assertEqual(plan.text["steps"][0]["grid"], [0, 1, 1])

    def test_fills(self) -> None:
        for made, byte in (("torch.zeros_like(x)", 0), ("torch.zeros(100, device='cuda')", 0),
                           ("x.new_zeros(100)", 0), ("torch.empty_like(x).zero_()", 0),
                           ("torch.full_like(x, 0.0)", 0), ("torch.empty_like(x).fill_(0)", 0),
                           ("torch.full((100,), 0., device='cuda')", 0),
                           ("x.new_full((100,), 0.0)", 0)):
            with self.subTest(made=made):
                plan = make_plan(tape_of(MADE.format(made=made)))
                self.assertIn({"fill": byte, "buffer": 1, "offset": 0, "bytes": 400},
                              plan.text["steps"])

    def test_a_fill_with_a_byte_that_repeats(self) -> None:
        kernel = texts.SCALE.replace("* 2", "* 2.0")
        made = "torch.full((100,), -1, dtype=torch.int32, device='cuda')"
        plan = make_plan(tape_of(MADE.format(made=made), kernel))
        self.assertEqual(plan.text["steps"][0]["fill"], 255)

    def test_a_part_that_is_filled(self) -> None:
        made = "torch.empty_like(x)\nout[10:20].zero_()"
        plan = make_plan(tape_of(MADE.format(made=made)))
        self.assertEqual(plan.text["steps"][0],
                         {"fill": 0, "buffer": 1, "offset": 40, "bytes": 40})


class Operators(unittest.TestCase):
    def test_between_launches(self) -> None:
        for made, name in (("x + 1", "aten.add.Tensor"),
                           ("torch.ones_like(x)", "aten.ones_like.default"),
                           ("torch.full_like(x, 1.5)", "aten.full_like.default"),
                           ("torch.empty_like(x)\nout[::2].zero_()", "aten.zero_.default")):
            with self.subTest(made=made):
                tape = tape_of(MADE.format(made=made))
                plan = make_plan(tape)
                self.assertEqual(plan.pytorch, name)
                operator, launch = plan.text["steps"]
                self.assertEqual(operator["aten"], tape.steps[0])
                self.assertEqual(launch["kernel"], 0)
                self.assertEqual(plan.text["names"], plan.names)
        self.assertIsNone(make_plan(tape_of()).pytorch)

    def test_fills_beside_them_are_operators(self) -> None:
        plan = make_plan(tape_of(MADE.format(made="torch.zeros_like(x + 1)")))
        self.assertEqual(["aten" in step for step in plan.text["steps"]], [True, True, False])

    def test_workspaces(self) -> None:
        tape = tape_of(MADE.format(made="torch.empty_like(x)\nout, i = (x + 1).sort()"))
        unused = [list(tape.buffers)[n] for n in make_plan(tape).text["unused"]]
        self.assertIn(tape.steps[1]["out"][1]["buffer"], unused)
        self.assertNotIn(tape.steps[1]["out"][0]["buffer"], unused)

    def test_what_a_forged_tape_may_not_call(self) -> None:
        for name in ("aten.from_file.default", "aten.set_.source_Tensor", "aten.resize_.default",
                     "aten._local_scalar_dense.default", "aten.nonzero.default",
                     "prims.add.default", "aten.add", "aten.__class__.mro",
                     "aten.nothing.default", "mine.op.default"):
            with self.subTest(name=name):
                tape = tape_of(MADE.format(made="x + 1"))
                tape.steps[0]["name"] = name
                with self.assertRaises(NotReplayable) as caught:
                    make_plan(tape)
                self.assertEqual(str(caught.exception), f"the operator {name}")

    def test_references_are_checked(self) -> None:
        tape = tape_of(MADE.format(made="x + 1"))
        tape.steps[0]["args"][0]["tensor"]["offset"] = 1
        with self.assertRaises(TapeError):
            make_plan(tape)


class Uncovered(unittest.TestCase):
    def refused(self, sentence: str, *args: Any, **kwargs: Any) -> None:
        with self.assertRaises(NotReplayable) as caught:
            make_plan(tape_of(*args, **kwargs))
        self.assertIn(sentence, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def spoilt(self, sentence: str, change: Callable[[Tape], Any]) -> None:
        tape = tape_of()
        change(tape)
        with self.assertRaises(NotReplayable) as caught:
            make_plan(tape)
        self.assertIn(sentence, str(caught.exception))

    def test_inline_assembly(self) -> None:
        self.refused("inline assembly in the kernel scale", kernel=ASSEMBLY)

    def test_special_launches(self) -> None:
        for key, value, what in (("num_ctas", 2, "a cluster of programs (kernel scale)"),
                                 ("launch_cooperative_grid", True, "a cooperative launch"),
                                 ("launch_pdl", True, "a programmatic dependent launch")):
            with self.subTest(key=key):
                self.spoilt(what, lambda tape: tape.kernels["k0"]["metadata"].update({key: value}))

    def test_machine_code_that_is_none(self) -> None:
        def change(tape: Tape) -> None:
            path = tape.cubin_path("k0")
            before = path.read_bytes()
            self.addCleanup(path.write_bytes, before)
            path.write_bytes(before[:100])
        self.spoilt("machine code that is cut off (kernel scale)", change)

    def test_another_kernel_s_name(self) -> None:
        self.spoilt("machine code without that kernel",
                    lambda tape: tape.kernels["k0"].update(name="other"))

    def test_a_type_that_is_not_known(self) -> None:
        self.spoilt("an argument of type fp8e4nv",
                    lambda tape: tape.steps[0]["args"][2].update(type="fp8e4nv"))

    def test_more_than_a_gpu_has(self) -> None:
        self.spoilt("100 GiB of buffers",
                    lambda tape: tape.buffers["b1"].update(bytes=100 << 30))


class Contradictions(unittest.TestCase):
    """Tapes that recording would not write: TapeError, one sentence."""

    def refused(self, change: Callable[[Tape], Any], sentence: str = "") -> None:
        tape = tape_of()
        change(tape)
        with self.assertRaises(TapeError) as caught:
            make_plan(tape)
        self.assertIn(sentence, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_references(self) -> None:
        def ref(**change: Any) -> Callable[[Tape], Any]:
            return lambda tape: tape.steps[0]["args"][1]["tensor"].update(change)
        for change in (ref(shape=[101]), ref(stride=[2]), ref(offset=1), ref(offset=1 << 80),
                       ref(dtype="float64"), ref(shape=[1 << 70]), ref(shape=[0], offset=101)):
            self.refused(change, "outside its buffer b1")
        for change in (ref(offset=-1), ref(stride=[-1]), ref(shape=[-1]), ref(shape=[10, 10]),
                       ref(offset=math.nan), ref(shape=[1.0]), ref(offset=True),
                       ref(offset=[1]), ref(stride=["1"])):
            self.refused(change, "a reference that makes no sense")
        self.refused(ref(buffer="b9"), "unknown buffer b9")
        self.refused(ref(dtype="nothing"), "unknown dtype")
        self.refused(ref(dtype=3))
        self.refused(ref(shape=7))

    def test_outputs_and_inputs(self) -> None:
        self.refused(lambda tape: tape.outputs["tensor"].update(shape=[101]), "outside its buffer")
        self.refused(lambda tape: tape.inputs[0].update(shape=[101]), "outside its buffer")
        self.refused(lambda tape: tape.inputs[0].update(buffer="b1"), "memory that is nobody's")
        self.refused(lambda tape: setattr(tape, "outputs", {"what": 1}), "unknown output")
        self.refused(lambda tape: setattr(tape, "outputs", None))
        self.refused(lambda tape: setattr(tape, "inputs", [3]))

    def test_parameters_that_disagree_with_the_machine_code(self) -> None:
        def args(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Tape], Any]:
            return lambda tape: change(tape.steps[0]["args"])
        self.refused(args(lambda a: a.pop()), "other parameters than its launch")
        self.refused(args(lambda a: a[2].update(type="i64")), "other parameters than its launch")
        self.refused(args(lambda a: a.__setitem__(2, a[1])), "other parameters than its launch")
        self.refused(args(lambda a: a.extend([a[1]] * 3)),
                     "has 5 parameters and is launched with 6")
        self.refused(args(lambda a: a.clear()))

    def test_numbers(self) -> None:
        for grid in ([1, 1], [1, 1, -1], [1 << 31, 1, 1], [1, 1, 1, 1], ["x", 1, 1], 7):
            self.refused(lambda tape, grid=grid: tape.steps[0].update(grid=grid))
        for warps in (33, -4, "x"):
            self.refused(lambda tape, warps=warps: tape.kernels["k0"]["metadata"].update(
                num_warps=warps))
        self.refused(lambda tape: tape.kernels["k0"]["metadata"].update(shared=1 << 30))
        self.refused(lambda tape: tape.buffers["b1"].update(bytes=-1), "negative size")
        self.refused(lambda tape: tape.buffers["b1"].update(bytes="many"))
        for value in ("x", None, [1], {"float": "x"}, {"double": 1}, 1e400, math.nan):
            self.refused(lambda tape, value=value: tape.steps[0]["args"][2].update(scalar=value))

    def test_names(self) -> None:
        self.refused(lambda tape: tape.steps[0].update(kernel="k7"), "unknown kernel k7")
        self.refused(lambda tape: tape.kernels["k0"].update(cubin="none.cubin"), "no compiled form")
        self.refused(lambda tape: tape.kernels["k0"].update(cubin=None), "no compiled form")
        self.refused(lambda tape: tape.kernels["k0"].update(cubin="../../etc/passwd"))
        self.refused(lambda tape: tape.kernels["k0"].pop("ttir"))
        self.refused(lambda tape: tape.steps[0].pop("op"))

    def test_anything_else(self) -> None:
        """Any one value of a tape exchanged: a plan or one of the two errors, never another."""
        values = (None, -1, 1 << 70, 0.5, math.inf, "x", [], {}, [[]], True)
        tries = 0
        chooser = random.Random(3)
        for path in list(_paths(tape_of().to_json())):
            tape = tape_of()
            place: Any = tape.to_json()
            for key in path[:-1]:
                place = place[key]
            if not path[1:]:
                continue  # whole fields: Tape.load checks these
            place[path[-1]] = chooser.choice(values)
            tries += 1
            with self.subTest(path=path, value=place[path[-1]]):
                try:
                    make_plan(tape)
                except (NotReplayable, TapeError) as error:
                    self.assertNotIn("\n", str(error))
        self.assertGreater(tries, 50)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*path, key))
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _paths(item, (*path, number))


class Scalars(unittest.TestCase):
    """As Triton's launcher packs them."""

    def test_integers(self) -> None:
        for kind in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"):
            bits = int(kind[1:])
            dtype = np.dtype(f"{'int' if kind[0] == 'i' else 'uint'}{bits}")
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            for value in (0, 1, 7, int(low), int(high)):
                with self.subTest(kind=kind, value=value):
                    self.assertEqual(scalar_bytes(value, kind), np.array(value, dtype).tobytes())
            self.assertEqual(scalar_bytes(int(high) + 1 - int(low) + 5, kind),
                             np.array(5, dtype).tobytes())  # wraps

    def test_truth(self) -> None:
        for kind in ("i1", "u1"):
            self.assertEqual((scalar_bytes(True, kind), scalar_bytes(False, kind)),
                             (b"\1", b"\0"))

    def test_floats(self) -> None:
        values = (0.0, -0.0, 1.0, -1.5, 0.1, 1e-3, 3.14159, 65504.0, 1e-8, math.inf, -math.inf)
        for kind, dtype in (("fp16", np.float16), ("fp32", np.float32), ("f32", np.float32),
                            ("fp64", np.float64)):
            for value in values:
                with self.subTest(kind=kind, value=value):
                    self.assertEqual(scalar_bytes(value, kind), np.array(value, dtype).tobytes())
            self.assertTrue(np.isnan(np.frombuffer(scalar_bytes(math.nan, kind), dtype)[0]))
            self.assertEqual(scalar_bytes(3, kind), np.array(3, dtype).tobytes())

    def test_floats_beyond_their_type(self) -> None:
        self.assertEqual(scalar_bytes(1e300, "fp32"), struct.pack("<f", math.inf))
        self.assertEqual(scalar_bytes(-1e300, "bf16"), b"\x80\xff")
        with self.assertRaises(NotReplayable):  # Triton's launch raises here
            scalar_bytes(1e6, "fp16")

    def test_bfloat16_is_cut_off(self) -> None:
        for value in (0.0, 1.0, 0.1, -0.3, 1.00390625, 3e38, math.inf, math.nan):
            with self.subTest(value=value):
                whole = torch.tensor([value], dtype=torch.float32).view(torch.int32)
                cut = (whole >> 16).to(torch.int16)
                self.assertEqual(scalar_bytes(value, "bf16"), cut.numpy().tobytes())


class References(unittest.TestCase):
    def test_the_last_byte(self) -> None:
        tape = Tape(buffers={"b0": {"bytes": 400, "itemsize": 4, "origin": "input"}})

        def end(shape: list[int], stride: list[int], offset: int = 0) -> int:
            return check_ref(tape, {"buffer": "b0", "dtype": "float32", "shape": shape,
                                    "stride": stride, "offset": offset})
        self.assertEqual(end([100], [1]), 400)
        self.assertEqual(end([10, 5], [10, 2], 1), 400)
        self.assertEqual(end([5], [0], 3), 16)
        self.assertEqual(end([], [], 99), 400)
        self.assertEqual(end([0, 9], [9, 1], 100), 400)


if __name__ == "__main__":
    unittest.main()
