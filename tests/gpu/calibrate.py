"""Measures the cases in tests/kernels on this machine's GPU, or lists or models them without one.

usage: calibrate.py OUT [--seconds N] [--compilers N] [--only TEXT...]
       calibrate.py --list
       calibrate.py --model OUT [--only TEXT...]

Needs PyTorch and Triton alone. OUT is one JSON file, written anew after each case: provenance and,
per case, the median and spread in ms of eager and of the candidate, their largest difference, and
what the compiler made of the kernels. A case that fails leaves its error and the rest goes on.
N seconds end the run between two cases; what is left is listed as not run. Kernels are compiled
first by processes of their own, so that the clock runs on an idle machine.

Method: each sample on a cold L2 (four times its size is read), queued behind a pause of the GPU
longer than the host needs to queue the call, timed by CUDA events around one call.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "kernels"))

import cases  # noqa: E402
import torch  # noqa: E402

SAMPLES = 15
DROPPED = 2  # first samples, which find other clocks
WARMUP = 3
CASE_SECONDS = 0.5  # a slow call is sampled less often
FEWEST = 5
COMPILE_SECONDS = 45  # after that the rest is compiled while measuring
CYCLES_PER_NS = 2.0  # of torch.cuda._sleep; a device that clocks lower sleeps longer
MIN_PAUSE_NS = 50_000
MAX_PAUSE_NS = 20_000_000


def load(text: str, name: str, folder: Path) -> ModuleType:
    """The text as a module; Triton reads kernels from a file."""
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Sampler:
    """Times calls on a cold L2. Times are in ms."""

    def __init__(self) -> None:
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.flush = torch.zeros(l2, dtype=torch.int32, device="cuda")
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def _one(self, call: Callable[[], Any], pause: int) -> float:
        begin, end = self.events
        self.flush.sum()
        torch.cuda._sleep(pause)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def measure(self, call: Callable[[], Any]) -> dict[str, Any]:
        """{"ms", "low", "high" (5th and 95th percentile), "samples", "host_ms"}."""
        longest = 0.0
        for _ in range(WARMUP):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            longest = time.perf_counter() - begin
        torch.cuda.synchronize()
        pause = int(min(max(2e9 * longest, MIN_PAUSE_NS), MAX_PAUSE_NS) * CYCLES_PER_NS)
        first = self._one(call, pause)
        count = max(FEWEST, min(SAMPLES + DROPPED, int(CASE_SECONDS / (first * 1e-3 + 1e-9))))
        samples = [self._one(call, pause) for _ in range(count)][DROPPED:]
        cuts = statistics.quantiles(samples, n=20)
        return {"ms": round(statistics.median(samples), 6), "low": round(cuts[0], 6),
                "high": round(cuts[-1], 6), "samples": len(samples),
                "host_ms": round(longest * 1e3, 4)}


def compiled_kernels(module: ModuleType) -> list[dict[str, Any]]:
    """Registers, spills and shared memory of what a candidate launched, as Triton says."""
    found = []
    for value in vars(module).values():
        for cache in getattr(value, "device_caches", {}).values():
            for kernel in cache[0].values():
                meta = kernel.metadata
                found.append({"name": value.__name__, "registers": kernel.n_regs,
                              "spills": kernel.n_spills, "shared": meta.shared,
                              "warps": meta.num_warps, "stages": meta.num_stages})
    return found


def difference(expected: Any, got: Any) -> float:
    """The largest difference, relative to the largest expected value."""
    pairs = zip(torch.utils._pytree.tree_leaves(expected), torch.utils._pytree.tree_leaves(got),
                strict=True)
    return max((a.double() - b.double()).abs().max().item()
               / max(a.double().abs().max().item(), 1e-30) for a, b in pairs)


class Runner:
    """Loads and measures cases in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _inputs(self, task: ModuleType) -> list[Any]:
        torch.manual_seed(1)
        with torch.device("cuda"):  # drawn there: the CPU would need longer than the kernels
            given = task.get_inputs()
        return [x.cuda() if isinstance(x, torch.Tensor) else x for x in given]

    def _model(self, made: type, arguments: Any) -> torch.nn.Module:
        torch.manual_seed(0)
        model = made(**arguments) if isinstance(arguments, dict) else made(*arguments)
        return model.cuda()

    def compile(self, case: cases.Case, _: dict[str, Any]) -> None:
        """Runs the candidate once, which leaves its kernels in Triton's cache."""
        if not case.candidate:
            return
        task = load(case.task, f"task_of_{case.name}", self.folder)
        module = load(case.candidate, f"candidate_of_{case.name}", self.folder)
        inputs = self._inputs(task)
        with torch.no_grad():
            self._model(module.ModelNew, task.get_init_inputs())(*inputs)
            torch.cuda.synchronize()

    def measure(self, case: cases.Case, sampler: Sampler, entry: dict[str, Any]) -> None:
        """Fills the entry of one case."""
        task = load(case.task, f"task_of_{case.name}", self.folder)
        inputs = self._inputs(task)
        arguments = task.get_init_inputs()
        reference = self._model(task.Model, arguments)
        with torch.no_grad():
            entry["eager"] = sampler.measure(lambda: reference(*inputs))
            if case.candidate:
                begin = time.perf_counter()
                module = load(case.candidate, f"candidate_of_{case.name}", self.folder)
                contender = self._model(module.ModelNew, arguments)
                contender.load_state_dict(reference.state_dict())
                entry["difference"] = difference(reference(*inputs), contender(*inputs))
                entry["first_call_s"] = round(time.perf_counter() - begin, 2)
                entry["candidate"] = sampler.measure(lambda: contender(*inputs))
                try:
                    entry["kernels"] = compiled_kernels(module)
                except (AttributeError, KeyError, TypeError, RuntimeError) as error:
                    entry["kernels_error"] = str(error)[:200]  # another Triton keeps them elsewhere


def guarded(work: Callable[[dict[str, Any]], None], family: str) -> dict[str, Any]:
    """The entry that `work` fills; with "error" where it fails."""
    tf32 = torch.backends.cuda.matmul.allow_tf32
    entry: dict[str, Any] = {"family": family}
    try:
        work(entry)
    except Exception as error:  # noqa: BLE001 - the next case may well run
        text = " ".join(str(error).split())
        entry["error"] = f"{type(error).__name__}: {text[:400]}"
    finally:
        torch.backends.cuda.matmul.allow_tf32 = tf32
    return entry


def compile_all(options: argparse.Namespace) -> None:
    """Lets processes of their own compile the kernels, each its share."""
    command = [sys.executable, str(Path(__file__).resolve()), "unused", "--only", *options.only]
    children = [subprocess.Popen([*command, "--share", str(i), str(options.compilers)],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for i in range(options.compilers)]
    deadline = time.monotonic() + COMPILE_SECONDS
    for child in children:
        try:
            child.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def provenance() -> dict[str, Any]:
    """Where and how the figures were taken."""
    import triton

    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in [*sorted(cases.FOLDER.glob("*.py")), Path(cases.__file__)]:
        digest.update(path.read_bytes())
    query = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit"
    try:
        said = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name, "multiprocessors": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size, query: said, "torch": torch.__version__,
        "triton": triton.__version__, "cuda": torch.version.cuda,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "script": "tests/gpu/calibrate.py", "sha256": digest.hexdigest(),
        "method": f"median of at most {SAMPLES} samples, cold L2, queued launches, CUDA events; ms",
    }


def measure_all(options: argparse.Namespace, chosen: list[cases.Case], begin: float) -> int:
    """Measures and writes OUT; 1 where a case failed."""
    if options.compilers:
        compile_all(options)
        print(f"compiled after {time.monotonic() - begin:.1f} s", flush=True)
    report: dict[str, Any] = {"provenance": provenance(), "cases": {}, "not_run": []}
    sampler = Sampler()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        for case in chosen:
            if time.monotonic() - begin > options.seconds:
                report["not_run"].append(case.name)
                continue
            entry = guarded(partial(runner.measure, case, sampler), case.family)
            if case.family == "tasks":
                entry["source"] = case.candidate
            report["cases"][case.name] = entry
            print(f"{time.monotonic() - begin:6.1f} {case.name:26s} {brief(entry)}", flush=True)
            write(options.out, report)
    report["seconds"] = round(time.monotonic() - begin, 1)
    write(options.out, report)
    failed = [name for name, entry in report["cases"].items() if "error" in entry]
    print(f"{len(report['cases'])} cases, {len(failed)} failed, {len(report['not_run'])} not run, "
          f"{report['seconds']} s")
    return 1 if failed else 0


def brief(entry: dict[str, Any]) -> str:
    """One line for people."""
    if "error" in entry:
        return f"ERROR {entry['error'][:160]}"
    return "  ".join(f"{who} {entry[who]['ms']:.4f}" for who in ("eager", "candidate")
                     if who in entry) + (f"  off by {entry['difference']:.1e}"
                                         if "difference" in entry else "")


def write(path: str, report: dict[str, Any]) -> None:
    """Writes the file whole or not at all."""
    Path(f"{path}.new").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    os.replace(f"{path}.new", path)


def main() -> int:
    begin = time.monotonic()
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--compilers", type=int, default=12)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names or of families")
    parser.add_argument("--share", nargs=2, type=int, help="compile every so many-th case, end")
    options = parser.parse_args()
    chosen = [case for case in cases.everything() if not options.only
              or any(text in case.name or text == case.family for text in options.only)]
    if options.list:
        for case in chosen:
            print(f"{case.family:16s} {case.name:26s} {'pair' if case.candidate else 'eager'}")
        print(f"{sum(bool(case.candidate) for case in chosen)} pairs, {len(chosen)} cases")
        return 0
    if options.share:
        first, step = options.share
        with tempfile.TemporaryDirectory() as folder:
            runner = Runner(Path(folder))
            for case in [c for c in chosen if c.candidate][first::step]:
                guarded(partial(runner.compile, case), case.family)
        return 0
    if options.out is None:
        parser.error("OUT is missing")
    if options.model:
        import modelled

        return modelled.write_all(chosen, Path(options.out))
    return measure_all(options, chosen, begin)


if __name__ == "__main__":
    sys.exit(main())
