"""Tapes through ke_replay, on the driver that the C++ tests build, and its failures."""

from __future__ import annotations

import os
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import torch
from evaluator_gpu import replayer as module
from evaluator_gpu.plan import make_plan
from evaluator_gpu.replayer import Fault, Hang, LoadedTape, OutOfMemory, Replayer
from kernel_evolve_worker.errors import WorkerError
from kernel_evolve_worker.recording.tape import Tape
from support import built, tape_of, texts

BUILT = built()


class Failures(unittest.TestCase):
    def unavailable(self, command: list[str], sentence: str) -> None:
        replayer = Replayer(command)
        self.addCleanup(replayer.memory.close)
        with self.assertRaises(WorkerError) as caught:
            replayer.start()
        self.assertEqual(caught.exception.error_class, "unavailable")
        self.assertIn(sentence, str(caught.exception))
        self.assertFalse(replayer.running)

    def script(self, text: str) -> list[str]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "replay.sh"
        path.write_text(text)
        return ["/bin/sh", str(path)]

    def test_a_program_that_is_not_there(self) -> None:
        self.unavailable(["/nowhere/ke_replay"], "the replay ke_replay can't be started")

    def test_a_program_that_ends_at_once(self) -> None:
        self.unavailable(self.script("exit 1\n"), "the GPU doesn't answer")

    def test_a_program_that_says_why_not(self) -> None:
        self.unavailable(self.script('echo \'{"ok": false, "message": "no luck"}\'\n'), "no luck.")

    def test_a_request_without_a_process(self) -> None:
        with self.assertRaises(WorkerError):
            Replayer(["/nowhere/ke_replay"]).ask("run")

    def test_a_process_that_ends_in_a_request(self) -> None:
        endings = {"exit 3": "the replay's process ended with status 3",
                   "kill -9 $$": "signal 9 ended the replay's process",
                   "exec >&-; exec sleep 60": "the replay's process stopped answering"}
        for ending, sentence in endings.items():
            replayer = Replayer(self.script(f'echo \'{{"ok": true}}\'\nread line\n{ending}\n'))
            self.addCleanup(replayer.memory.close)
            replayer.start()
            with mock.patch.object(module, "_END_S", 1.0), self.assertRaises(Fault) as caught:
                replayer.ask("run")
            self.assertEqual(str(caught.exception), sentence)
            self.assertFalse(replayer.running)


@unittest.skipUnless(BUILT, "ke_replay and the driver for tests are not built")
class Replays(unittest.TestCase):
    def setUp(self) -> None:
        assert BUILT is not None
        self.binary, driver = BUILT
        self.environment({"LD_LIBRARY_PATH": str(driver)})
        self.replayer = Replayer([str(self.binary)])
        self.addCleanup(self.replayer.memory.close)
        self.addCleanup(self.replayer.stop)
        self.x = torch.randn(100)

    def environment(self, values: dict[str, str]) -> None:
        patch = mock.patch.dict(os.environ, values)
        patch.start()
        self.addCleanup(patch.stop)

    def loaded(self, tape: Tape | None = None) -> LoadedTape:
        loaded = LoadedTape(self.replayer, tape or tape_of(), device="cpu")
        loaded.bind([self.x], {})
        return loaded

    def doing(self, kernel: str, tape: Tape | None = None) -> LoadedTape:
        """A tape whose launch runs another kernel of the imagined driver."""
        tape = tape or tape_of()
        plan = make_plan(tape)
        plan.text["kernels"][0]["name"] = kernel
        loaded = LoadedTape(self.replayer, tape, device="cpu", plan=plan)
        loaded.bind([self.x], {})
        return loaded

    def test_no_driver(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "libcuda.so.1").touch()
            self.environment({"LD_LIBRARY_PATH": folder})
            with self.assertRaises(WorkerError) as caught:
                self.replayer.start()
        self.assertEqual(caught.exception.error_class, "unavailable")
        self.assertIn("there is no NVIDIA driver", str(caught.exception))

    def test_results(self) -> None:
        loaded = self.loaded()
        self.assertEqual(self.replayer.info["name"], "Imagined GPU")
        self.assertEqual(loaded.kernels[0]["registers"], 32)
        for guard in (True, False):
            result = loaded.run(guard=guard, poison=0xFF, seed=5)
            self.assertTrue(torch.equal(result.outputs, 2 * self.x))
            self.assertTrue(torch.equal(result.inputs_after[0], self.x))
            for name in loaded.plan.fetch:  # nothing is left for a kernel to find
                self.assertFalse(loaded._fetched(name).any())
            self.assertEqual((result.aliases, result.constants_changed, result.changed,
                              result.outside), ([], [], [], []))
        self.assertEqual(loaded.run(guard=True, poison=1, seed=5).hashes, result.hashes)
        self.assertNotEqual(loaded.run(guard=True, poison=1, seed=6).hashes, result.hashes)

    def test_other_inputs(self) -> None:
        loaded = self.loaded()
        for _ in range(3):
            x = torch.randn(100)
            loaded.bind([x], {})
            self.assertTrue(torch.equal(loaded.run(guard=True, poison=0).outputs, 2 * x))
        with self.assertRaises(WorkerError):
            loaded.bind([torch.randn(101)], {})

    def test_several_inputs_each_have_their_own_place(self) -> None:
        forward = """
        first, second = torch.empty_like(args[0]), torch.empty_like(args[1])
        scale[(1,)](args[0], first, 7, BLOCK=64)
        scale[(2,)](args[1], second, 100, BLOCK=64)
        return first, second
        """
        tape = tape_of(forward, inputs="torch.randn(7), torch.randn(100)")
        loaded = LoadedTape(self.replayer, tape, device="cpu")
        for _ in range(2):
            inputs = [torch.randn(7), torch.randn(100)]
            loaded.bind(inputs, {})
            result = loaded.run(guard=True, poison=0xFF)
            for output, value in zip(result.outputs, inputs):
                self.assertTrue(torch.equal(output, 2 * value))

    def test_an_input_that_is_changed_and_returned(self) -> None:
        loaded = self.loaded(tape_of("x = args[0]\nscale[(2,)](x, x, 100, BLOCK=64)\nreturn x"))
        result = loaded.run(guard=True, poison=0xFF)
        self.assertTrue(torch.equal(result.inputs_after[0], 2 * self.x))
        self.assertEqual(len(result.changed), 1)
        self.assertEqual(loaded.time(3, poisons=[1], pause_ns=1)["changed"], result.changed)
        self.assertEqual(result.aliases, [(0, "input", 0)])

    def test_constants(self) -> None:
        init = "self.c = torch.arange(100, dtype=torch.float32, device='cuda')"
        forward = "c = self.c\nout = torch.empty_like(c)\n" \
                  "scale[(2,)](c, {to}, 100, BLOCK=64)\nreturn out, args[0]"
        result = self.loaded(tape_of(forward.format(to="out"), init=init)).run(
            guard=True, poison=0xFF)
        self.assertTrue(torch.equal(result.outputs[0], 2 * torch.arange(100.0)))
        self.assertTrue(torch.equal(result.outputs[1], self.x))
        result = self.loaded(tape_of(forward.format(to="c"), init=init)).run(
            guard=True, poison=0xFF)
        self.assertEqual(len(result.constants_changed), 1)

    def test_fills_and_views(self) -> None:
        forward = """
        x = args[0]
        out = torch.zeros(120, device=x.device)
        scale[(2,)](x, out[16:116], 100, BLOCK=64)
        return out[1:]
        """
        result = self.loaded(tape_of(forward)).run(guard=True, poison=0xFF)
        wanted = torch.zeros(119)
        wanted[15:115] = 2 * self.x
        self.assertTrue(torch.equal(result.outputs, wanted))

    def test_an_empty_grid(self) -> None:
        forward = texts.CALL.replace("(triton.cdiv(x.numel(), 64),)", "(0,)")
        result = self.loaded(tape_of(forward)).run(guard=True, poison=0x41)
        self.assertEqual(set(result.outputs.view(torch.uint8).tolist()), {0x41})

    def test_time(self) -> None:
        loaded = self.loaded()
        checked = loaded.run(guard=False, poison=0xFF, seed=3)
        answer = loaded.time(7, poisons=[9], pause_ns=1000, seed=3, hashes=checked.hashes)
        self.assertEqual(answer["milliseconds"], [answer["milliseconds"][0]] * 7)
        self.assertAlmostEqual(answer["milliseconds"][0], 0.001, places=6)
        self.assertEqual((answer["wrong"], answer["outside"]), (0, []))
        self.assertEqual(loaded.time(7, poisons=[9], pause_ns=1000, seed=3, hashes=[1])["wrong"], 7)

    def test_a_fault_names_the_step_and_the_next_tape_gets_another_process(self) -> None:
        broken = self.doing("outside")  # far: the second address is taken for an offset
        with self.assertRaises(Fault) as caught:
            broken.run(guard=True, poison=0xFF)
        self.assertEqual((caught.exception.step, caught.exception.code), (0, 700))
        self.assertFalse(self.replayer.running)
        self.assertTrue(torch.equal(self.loaded().run(guard=True, poison=1).outputs, 2 * self.x))

    def test_a_hang_is_ended(self) -> None:
        stuck = self.doing("hang")
        begin = time.monotonic()
        with self.assertRaises(Hang):
            stuck.run(guard=True, poison=0xFF, deadline_s=0.2)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertFalse(self.replayer.running)
        self.assertTrue(torch.equal(self.loaded().run(guard=True, poison=1).outputs, 2 * self.x))

    def test_what_a_kernel_prints_is_no_answer(self) -> None:
        loaded = self.doing("print")
        self.assertEqual(loaded.run(guard=True, poison=0xFF).outside, [])
        self.assertEqual(len(loaded.time(4, poisons=[0], pause_ns=1)["milliseconds"]), 4)

    def test_a_process_that_died_while_it_was_idle(self) -> None:
        tape = tape_of()
        first = LoadedTape(self.replayer, tape, "cpu")
        process = self.replayer._process
        assert process is not None
        process.kill()
        process.wait()
        again = LoadedTape(self.replayer, tape, "cpu")
        self.assertEqual(again.kernels, first.kernels)
        self.assertIsNot(self.replayer._process, process)

    def test_what_is_written_beside_scratch_memory_has_a_name(self) -> None:
        loaded = LoadedTape(self.replayer, tape_of(), "cpu")
        self.assertEqual(loaded._names([0, len(loaded.tape.buffers)]),
                         [next(iter(loaded.tape.buffers)), "scratch memory"])

    def test_too_little_memory(self) -> None:
        self.environment({"FAKE_CUDA_MEMORY": str(1 << 20)})
        forward = texts.CALL.replace("torch.empty_like(x)", "torch.empty(1 << 20, device='cuda')")
        with self.assertRaises(OutOfMemory):
            self.loaded(tape_of(forward)).run(guard=True, poison=0xFF)

    def test_more_shared_memory_gets_another_process(self) -> None:
        self.loaded()
        first = self.replayer._process
        self.replayer.start(len(self.replayer.memory))
        self.assertIs(self.replayer._process, first)
        self.replayer.start(len(self.replayer.memory) + 1)
        self.assertIsNot(self.replayer._process, first)
        self.assertTrue(torch.equal(self.loaded().run(guard=True, poison=1).outputs, 2 * self.x))


if __name__ == "__main__":
    unittest.main()
