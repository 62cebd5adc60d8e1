"""A task is loaded, constructed and run; every mistake in it is one clear sentence."""

from __future__ import annotations

import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import torch

from kernel_evolve_worker import task as tasks
from kernel_evolve_worker.errors import WorkerError

GOOD = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, BLOCK_M=128):
        super().__init__()
        self.BLOCK_M = BLOCK_M

    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
"""


def load(source: str, path: str = "/tasks/sample.py") -> tasks.LoadedTask:
    return tasks.load_task(textwrap.dedent(source), path)


class LoadsWhatIsRight(unittest.TestCase):
    def test_gives_the_three_names_and_the_stem(self) -> None:
        task = load(GOOD)
        self.assertTrue(issubclass(task.Model, torch.nn.Module))
        self.assertEqual(task.name, "sample")
        self.assertEqual(tasks.make_inputs(task, 1)[0].shape, (4, 8))

    def test_init_inputs_may_be_nothing_a_list_or_keywords(self) -> None:
        for given, block in (("[]", 128), ("None", 128), ("[32]", 32), ("{'BLOCK_M': 64}", 64),
                             ("(16,)", 16), ("[[], {'BLOCK_M': 8}]", 8)):
            source = GOOD.replace("    return []", f"    return {given}")
            # [[], {...}] doesn't fit as two positional arguments of a one-argument constructor
            self.assertEqual(tasks.construct(load(source), 0).BLOCK_M, block, given)

    def test_the_same_seed_draws_the_same_and_another_seed_does_not(self) -> None:
        task = load(GOOD)
        first, again, other = (tasks.make_inputs(task, s)[0] for s in (5, 5, 6))
        self.assertTrue(torch.equal(first, again))
        self.assertFalse(torch.equal(first, other))

    def test_a_task_written_for_cuda_runs_on_the_cpu(self) -> None:
        source = """
            import torch
            import torch.nn as nn

            DEVICE = torch.device("cuda:0")

            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.w = nn.Parameter(torch.ones(8, device=DEVICE))
                    self.linear = nn.Linear(8, 8, device="cuda").cuda()

                def forward(self, x):
                    y = self.linear(x.to("cuda")) + self.w + torch.zeros(8, device=x.device)
                    torch.cuda.synchronize()
                    return y

            def get_inputs():
                with torch.device("cuda"):
                    return [torch.randn(4, 8), torch.randn(4, 8, device="cuda").cuda()][:1]

            def get_init_inputs():
                return []
        """
        task = load(source)
        output = tasks.run_forward(task, tasks.construct(task, 0), tasks.make_inputs(task, 0))
        self.assertEqual(output.device.type, "cpu")
        self.assertFalse(output.requires_grad)

    def test_a_task_may_import_its_neighbours_and_use_dataclasses(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "beside_the_task.py").write_text("FACTOR = 3\n")
            source = ("from __future__ import annotations\nimport dataclasses\n"
                      "import beside_the_task\n\n@dataclasses.dataclass\nclass P:\n    a: int = 1\n"
                      + GOOD)
            before = list(sys.path)
            self.assertEqual(load(source, f"{folder}/sample.py").name, "sample")
            self.assertEqual(sys.path, before)


class SaysWhatIsWrong(unittest.TestCase):
    def refuses(self, source: str, *expected: str) -> str:
        """Every step is tried, as an evaluation would; the sentence contains `expected`."""
        with self.assertRaises(WorkerError) as caught:
            task = load(source)
            tasks.run_forward(task, tasks.construct(task, 0), tasks.make_inputs(task, 0))
        error = caught.exception
        self.assertEqual(error.error_class, "validation")
        message = str(error)
        for part in expected:
            self.assertIn(part, message)
        self.assertNotIn("\n", message)
        self.assertNotIn("Traceback", message)
        self.assertLess(len(message), 500)
        return message

    def test_empty(self) -> None:
        self.refuses("  \n\n", "sample.py is empty", "Model, get_inputs and get_init_inputs")

    def test_binary(self) -> None:
        self.refuses("\x7fELF\0\0", "sample.py is a binary file")

    def test_syntax_error_names_the_line(self) -> None:
        self.refuses("import torch\n\ndef f(:\n    pass\n", "syntax error in line 3")

    def test_missing_names_are_all_named(self) -> None:
        self.refuses("import torch\n", "doesn't define Model, get_inputs and get_init_inputs")
        for name in tasks.REQUIRED:
            source = GOOD.replace(f"class {name}(", "class Other(")
            source = source.replace(f"def {name}(", "def other(")
            self.refuses(source, f"doesn't define {name};")

    def test_model_is_no_module(self) -> None:
        self.refuses(GOOD.replace("(nn.Module)", "(dict)"), "subclass of torch.nn.Module")
        self.refuses(GOOD + "\nModel = Model()\n", "Model of the task", "is a Model;", "subclass")

    def test_get_inputs_is_no_function(self) -> None:
        self.refuses(GOOD + "\nget_inputs = [1]\n", "get_inputs", "is list", "function")

    def test_raising_says_step_line_type_and_text(self) -> None:
        self.refuses("raise ValueError('no\\nluck')\n", "at import, line 1: ValueError: no luck")
        self.refuses(GOOD.replace("self.BLOCK_M = BLOCK_M", "1 / 0"),
                     "in Model.__init__, line 9: ZeroDivisionError: division by zero")
        self.refuses(GOOD.replace("return x * 2", "return x @ x"),
                     "in forward, line 12: RuntimeError: ")
        self.refuses(GOOD.replace("return [torch.randn(4, 8)]", "raise KeyError('k')"),
                     "in get_inputs, line 16: KeyError: 'k'")
        self.refuses(GOOD.replace("return []", "raise OSError"), "in get_init_inputs", "OSError")

    def test_leaving_the_process_is_a_mistake_too(self) -> None:
        self.refuses("import sys\nsys.exit(3)\n", "at import, line 2: SystemExit: 3")

    def test_module_that_is_not_there(self) -> None:
        self.refuses("import surely_not_installed.sub\n" + GOOD,
                     "needs the module 'surely_not_installed'", "install it there or remove")

    def test_init_arguments_that_do_not_fit(self) -> None:
        self.refuses(GOOD.replace("return []", "return [1, 2]"),
                     "get_init_inputs", "doesn't fit Model.__init__(BLOCK_M=128)", "too many")
        self.refuses(GOOD.replace("return []", "return {'block': 1}"), "doesn't fit", "'block'")
        self.refuses(GOOD.replace("return []", "return 7"), "returns a int", "list of arguments")

    def test_inputs_that_are_no_list(self) -> None:
        self.refuses(GOOD.replace("[torch.randn(4, 8)]", "torch.randn(4, 8)"),
                     "get_inputs", "returns a single tensor", "list")

    def test_inputs_larger_than_memory_are_refused_before_they_are_made(self) -> None:
        self.refuses(GOOD.replace("torch.randn(4, 8)", "torch.randn(1 << 24, 1 << 20)"),
                     "GiB", "use smaller shapes")


if __name__ == "__main__":
    unittest.main()
