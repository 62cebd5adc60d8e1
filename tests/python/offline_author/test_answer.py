"""The author's answers: one tool call per request, from the structured context alone."""

from __future__ import annotations

import ast
import inspect
import json
import unittest
from typing import Any

import torch
from kernel_evolve_worker import task as tasks
from kernel_evolve_worker.errors import WorkerError
from offline_author.answer import answer
from offline_author.genes import of_summary

import families
import support

TOOLS = {
    "generate": ["submit_kernel", "edit_kernel"],
    "analyze": ["submit_analysis"],
    "reflect": ["record_lesson"],
}


def ask(purpose: str, source: str = "", seed: int = 3, tools: list[str] | None = None,
        **context: Any) -> dict[str, Any]:  # fmt: skip
    """The canonical response to a request as the nodes send it."""
    request = {
        "messages": [{"role": "user", "content": "ignored by the offline author"}],
        "tools": [{"name": n, "description": "", "parameters": {}}
                  for n in (TOOLS[purpose] if tools is None else tools)],
        "tool_choice": "required",
        "sampling": {},
        "context": {
            "purpose": purpose,
            "task": {"path": "/tasks/sample.py", "name": "sample", "source": source},
            "hints": [], "start": None, "attempts": [], "parent": None, "best": None, "last": None,
            "lessons": [], "analysis": "", "generation": 1, **context,
        },
    }  # fmt: skip
    return answer({"request": request, "seed": seed}, None)


def call(response: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return response["tool_calls"][0]["name"], response["tool_calls"][0]["arguments"]


def attempt(arguments: dict[str, Any], number: int, speedup: float | None, **more: Any) -> dict:
    return {
        "id": f"c{number}", "summary": arguments["summary"], "parent": None, "stage": "done",
        "ok": speedup is not None, "correct": speedup is not None, "speedup": speedup,
        "reason": "", **more,
    }  # fmt: skip


class Generate(unittest.TestCase):
    def test_the_response_is_canonical(self) -> None:
        response = ask("generate", families.sources()["softmax"])
        self.assertEqual(response["finish_reason"], "tool_calls")
        self.assertEqual(response["usage"], {"input_tokens": 0, "output_tokens": 0})
        name, arguments = call(response)
        self.assertEqual(name, "submit_kernel")
        self.assertEqual(set(arguments), {"code", "summary"})

    def test_the_same_request_gives_the_same_bytes(self) -> None:
        from offline_author import author

        for name in ("layer_norm_residual", "linear_norm", "attention"):
            first = json.dumps(ask("generate", families.sources()[name]))
            author._STUDIES.clear()
            self.assertEqual(first, json.dumps(ask("generate", families.sources()[name])))

    def test_genes_stand_in_the_summary_and_in_the_file(self) -> None:
        _, arguments = call(ask("generate", families.sources()["softmax"]))
        genes = of_summary(arguments["summary"])
        self.assertIn(f"# genes: {json.dumps(genes)}\n", arguments["code"])
        self.assertIn(f"num_warps={genes['num_warps']}", arguments["code"])

    def test_every_try_is_a_new_point_until_the_space_is_exhausted(self) -> None:
        source = families.sources()["one_dimension"]
        seen: list[str] = []
        attempts: list[dict[str, Any]] = []
        for i in range(100):
            _, arguments = call(ask("generate", source, attempts=attempts))
            if "search space exhausted" in arguments["summary"]:
                break
            genes = json.dumps(of_summary(arguments["summary"]), sort_keys=True)
            self.assertNotIn(genes, seen)
            seen.append(genes)
            attempts.append(attempt(arguments, i, 1.0 + (i == 4)))
        else:
            self.fail("the space has fewer than a hundred points")
        self.assertGreater(len(seen), 10)
        best = of_summary(attempts[4]["summary"])
        self.assertEqual(of_summary(arguments["summary"]), best)

    def test_hints_fix_genes(self) -> None:
        source = families.sources()["linear_norm"]
        _, arguments = call(ask("generate", source, hints=["please use num_warps=8", "BLOCK_K=64"]))
        genes = of_summary(arguments["summary"])
        self.assertEqual([v for n, v in genes.items() if n.endswith("num_warps")], [8, 8])
        self.assertEqual(genes["BLOCK_K"], 64)

    def test_what_cannot_be_rewritten_is_said_once_and_for_all(self) -> None:
        source = support.task("x.sort(-1).values", "torch.randn(8, 8)")
        name, arguments = call(ask("generate", source, tools=["submit_kernel", "submit_analysis"]))
        self.assertEqual(name, "submit_analysis")
        self.assertFalse(arguments["rewritable"])
        with self.assertRaises(WorkerError) as raised:
            ask("generate", source)
        self.assertEqual(raised.exception.error_class, "invalid_output")
        self.assertIn("aten.sort", raised.exception.message)

    def test_a_task_at_fault_is_the_tasks_error(self) -> None:
        with self.assertRaises(WorkerError) as raised:
            ask("generate", "import torch\n")
        self.assertEqual(raised.exception.error_class, "validation")

    def test_a_request_without_the_tool_is_refused(self) -> None:
        for purpose in TOOLS:
            with self.subTest(purpose), self.assertRaises(WorkerError) as raised:
                ask(purpose, families.sources()["softmax"], tools=["inspect"])
            self.assertEqual(raised.exception.error_class, "invalid_output")


class TheWrittenModule(unittest.TestCase):
    def test_signatures_and_state_are_the_references(self) -> None:
        for name in ("default_argument", "own_module", "tied_weights", "two_linears",
                     "parameter_list", "convolution", "batch_norm"):  # fmt: skip
            with self.subTest(name):
                source = families.sources()[name]
                reference = tasks.load_task(source, "/tasks/sample.py")
                made = self._load(support.candidate(source))
                for method in ("__init__", "forward"):
                    wanted, given = (
                        inspect.signature(getattr(c, method)) for c in (reference.Model, made)
                    )
                    self.assertEqual(str(wanted), str(given))
                state = tasks.construct(reference, 0).state_dict()
                other = made().state_dict()
                self.assertEqual(
                    [(k, v.shape, v.dtype) for k, v in state.items()],
                    [(k, v.shape, v.dtype) for k, v in other.items()],
                )

    def test_it_neither_imports_nor_inherits_from_the_task(self) -> None:
        code = support.candidate(families.sources()["own_module"])
        tree = ast.parse(code)
        imports = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        self.assertEqual(imports, {"torch", "torch.nn", "triton", "triton.language"})
        classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
        self.assertEqual([ast.unparse(c.bases[0]) for c in classes], ["nn.Module"])

    def test_other_strides_are_refused_not_misread(self) -> None:
        made = self._load(support.candidate(families.sources()["transposed"]))()
        with self.assertRaisesRegex(ValueError, "strides"):
            made(torch.randn(70, 50).t().contiguous().t(), torch.randn(50, 70))

    @staticmethod
    def _load(code: str) -> type:
        """The class, its kernels unusable: they are defined without a source file."""
        plain = "\n".join(x for x in code.splitlines() if x != "@triton.jit")
        names: dict[str, Any] = {"__name__": "candidate"}
        exec(plain, names)
        return names["ModelNew"]


class Analyze(unittest.TestCase):
    def test_it_names_operators_rewrites_and_kernels(self) -> None:
        name, arguments = call(ask("analyze", families.sources()["diag_left"]))
        self.assertEqual(name, "submit_analysis")
        self.assertTrue(arguments["rewritable"])
        for text in ("aten.diag_embed", "aten.mm", "disappear", "Kernel 1: one elementwise pass"):
            self.assertIn(text, arguments["analysis"])
        self.assertTrue(arguments["ideas"])

    def test_examples_say_what_they_are(self) -> None:
        refused = {"sort": "aten.sort", "data_dependent": "_local_scalar_dense"}
        files = sorted(support.EXAMPLES.glob("*.py"))
        self.assertGreaterEqual(len(files), 8)
        for file in files:
            with self.subTest(file.name):
                _, arguments = call(ask("analyze", file.read_text()))
                self.assertEqual(arguments["rewritable"], file.stem not in refused)
                self.assertIn(refused.get(file.stem, "Kernel 1"), arguments["analysis"])


class Reflect(unittest.TestCase):
    OLD = {"id": "c1", "summary": 'x; genes {"BLOCK": 256, "num_warps": 4}', "speedup": 2.0,
           "ok": True, "correct": True, "stage": "done", "parent": None}  # fmt: skip

    def _last(self, **verdict: Any) -> dict[str, Any]:
        summary = 'x; genes {"BLOCK": 512, "num_warps": 4}'
        return {"id": "c2", "parent": "c1", "code": "", "summary": summary, "verdict": verdict}

    def test_a_step_up(self) -> None:
        last = self._last(ok=True, correct=True, stage="done", metrics={"speedup": 3.0})
        name, arguments = call(ask("reflect", attempts=[self.OLD], last=last))
        self.assertEqual(name, "record_lesson")
        self.assertEqual(arguments["lesson"], "BLOCK 256 -> 512: 3x after 2x with c1, a factor of "
                         "1.5; it helps.")  # fmt: skip
        self.assertEqual(arguments["next"], "Go on in this direction.")

    def test_a_step_down(self) -> None:
        last = self._last(ok=True, correct=True, stage="done", metrics={"speedup": 1.0})
        _, arguments = call(ask("reflect", attempts=[self.OLD], last=last))
        self.assertIn("it hurts", arguments["lesson"])

    def test_a_failure(self) -> None:
        last = self._last(ok=False, correct=None, stage="compile", reason="out of shared memory")
        _, arguments = call(ask("reflect", attempts=[self.OLD], last=last))
        self.assertIn("failed at compile: out of shared memory", arguments["lesson"])
        self.assertEqual(arguments["next"], "Move away from these genes.")


if __name__ == "__main__":
    unittest.main()
