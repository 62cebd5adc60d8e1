"""The process of torch.compile: what it answers, and what its end leaves."""

from __future__ import annotations

import os
import signal
import time
import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock

from evaluator_gpu import baseline, bench, compiled
from evaluator_gpu.compiled import CompiledModel, Lost

TASK = {"name": "sample", "path": "/tasks/sample.py", "source": "class Model: pass"}


def answering(contender: Any, note: str) -> Any:
    """Replaces what a process does with a task."""
    return mock.patch.multiple(compiled, _compile=lambda request: (contender, note),
                               _load_compiler=lambda: None)


class Compiler(unittest.TestCase):
    def begun(self) -> CompiledModel:
        model = CompiledModel(TASK, 1)
        self.addCleanup(model.stop)
        model.compile("")
        return model

    def test_it_compiles_and_samples(self) -> None:
        contender = SimpleNamespace(sample=lambda count: [0.5] * count)
        with answering(contender, "torch.compile took 7.0 s"):
            model = self.begun()
            for _ in range(2):  # the answer is kept
                self.assertEqual(model.ready(60), (True, "torch.compile took 7.0 s"))
            self.assertEqual(model.sample(3), [0.5] * 3)

    def test_a_task_that_does_not_compile(self) -> None:
        with answering(None, "no torch.compile baseline: so"):
            self.assertEqual(self.begun().ready(60), (False, "no torch.compile baseline: so"))

    def test_a_process_that_is_killed(self) -> None:
        contender = SimpleNamespace(sample=lambda count: [0.5] * count)
        with answering(contender, "took 1 s"):
            model = self.begun()
            model.ready(60)
            os.kill(model._pid, signal.SIGKILL)
            for _ in range(2):
                with self.assertRaisesRegex(Lost, "the process of torch.compile"):
                    model.sample(3)

    def test_a_process_that_says_nothing(self) -> None:
        with answering(None, ""), mock.patch.object(compiled, "serve", lambda fd: signal.pause()):
            with self.assertRaisesRegex(Lost, "didn't answer within 0 s"):
                self.begun().ready(0.2)

    def test_nothing_of_it_stays(self) -> None:
        reads, writes = os.pipe()
        with answering(None, ""):
            model = self.begun()
            model.ready(60)
            os.close(writes)
            self.assertEqual(os.read(reads, 1), b"")  # the fork holds no end of it
        os.close(reads)
        pid = model._pid
        model.stop()
        model.stop()
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)

    def test_it_ends_with_its_owner(self) -> None:
        with answering(None, ""):
            model = self.begun()
            model.ready(60)
            model._socket.close()
            pid, _ = os.waitpid(model._pid, 0)
        self.assertEqual(pid, model._pid)
        model._pid = 0

    def test_a_fresh_interpreter_where_cuda_was_used(self) -> None:
        with mock.patch.object(compiled, "asked", lambda: True):
            model = self.begun()
        there, note = model.ready(120)  # the real one, on a task that has nothing to compile
        self.assertFalse(there)
        self.assertRegex(note, "^no torch.compile baseline: ")


class Benches(unittest.TestCase):
    def bench(self) -> Any:
        made = bench.Bench.__new__(bench.Bench)
        made._task, made._seed, made.bus = TASK, 1, ""
        made.compiled, made.compile_note, made._compilers = None, None, 0
        made._native = made._mixed = []
        self.addCleanup(made.stop)
        self.context: Any = SimpleNamespace(progress=lambda text: None, time_left=lambda: 60.0)
        return made

    def test_a_lost_compiler_is_started_again_and_not_forever(self) -> None:
        contender = SimpleNamespace(sample=lambda count: [0.5] * count)
        made = self.bench()
        with answering(contender, "took 1 s"):
            for _ in range(bench._COMPILERS):
                made.compile_baseline(self.context)
                self.assertEqual(made.compiled.sample(1), [0.5])
                self.assertEqual(made.running(), 1)
                made.drop_compiled("no torch.compile baseline: lost")
            made.compile_baseline(self.context)
        self.assertIsNone(made.compiled)
        self.assertEqual(made.compile_note, "no torch.compile baseline: lost")
        self.assertEqual(made.running(), 0)

    def test_one_that_is_lost_while_it_compiles_is_started_again(self) -> None:
        contender = SimpleNamespace(sample=lambda count: [0.5] * count)
        made = self.bench()
        with answering(contender, "took 1 s"):
            with mock.patch.object(compiled, "serve", lambda fd: os._exit(9)):
                made.compile_baseline(self.context)
            self.assertIsNone(made.compiled)
            self.assertIn("ended by itself", made.compile_note)
            made.compile_baseline(self.context)
        self.assertEqual((made.compiled.sample(1), made.compile_note), ([0.5], "took 1 s"))

    def test_a_task_that_does_not_compile_is_tried_once(self) -> None:
        made = self.bench()
        with answering(None, "no torch.compile baseline: so"):
            for _ in range(2):
                made.compile_baseline(self.context)
                self.assertIsNone(made.compiled)
                self.assertEqual(made.compile_note, "no torch.compile baseline: so")
        self.assertEqual(baseline.no_baseline(ValueError("a\nb")),
                         "no torch.compile baseline: ValueError: a b")

    def test_no_process_to_be_had(self) -> None:
        made = self.bench()
        with mock.patch.object(os, "fork", side_effect=BlockingIOError(11, "no more")):
            begin = time.monotonic()
            made.compile_baseline(self.context)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertIsNone(made.compiled)
        self.assertIn("no more", made.compile_note)


if __name__ == "__main__":
    unittest.main()
