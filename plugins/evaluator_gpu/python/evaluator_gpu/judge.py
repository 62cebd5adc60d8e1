"""The judge: tries a task, and turns the recording of a candidate into a measured verdict.

Runs in a trusted process that never loads the candidate. The candidate's tape runs in ke_replay, a
process of its own on the same GPU, on data that the candidate has not seen; results are compared
here, on the GPU. One such process serves a task for a whole run and keeps its references, the
baselines and a replayer in `context.state`.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from typing import Any

import torch

from evaluator_gpu import constants, feedback, floors, known, timing
from evaluator_gpu.achieved import use_of_machine
from evaluator_gpu.bench import Bench, bench_for
from evaluator_gpu.compiled import Lost
from evaluator_gpu.contender import Suspect, TapeContender
from evaluator_gpu.plan import NotReplayable, make_plan
from evaluator_gpu.replayer import Fault, Hang, LoadedTape, OutOfMemory, Result
from evaluator_gpu.verdict import from_record_failure, make_verdict, no_recording, provenance
from kernel_evolve_worker.context import Context
from kernel_evolve_worker.correctness.check import check
from kernel_evolve_worker.correctness.judgement import Judgement
from kernel_evolve_worker.correctness.outputs import leaves_of
from kernel_evolve_worker.correctness.reference import Expected
from kernel_evolve_worker.correctness.untrusted import succeeded, tape_of
from kernel_evolve_worker.correctness.verdict import seconds_of
from kernel_evolve_worker.correctness.wording import on_data
from kernel_evolve_worker.recording.tape import Tape, TapeError


def try_task(request: dict[str, Any], context: Context) -> dict[str, Any]:
    """Tries the task of `request` {"task", "seed"?}; see correctness/trial.py.

    Returns {"ok": true, "name", "precision", "operators", "original_time" (measured ms), "notes"}.
    Raises WorkerError: validation for mistakes of the task, unavailable without a GPU.
    """
    bench = bench_for(request, context)
    if request.get("compile_baseline", True):
        bench.compile_baseline(context)  # which would disturb who measures
    with bench.device.held(context.time_left(), context.progress, alone=True):
        original = statistics.median(bench.eager.sample(constants.SCREENING))
    return {"ok": True, "name": bench.references.task.name,
            "precision": bench.references.rule.name,
            "operators": [op.name for op in bench.references.trace.operators],
            "original_time": original, "notes": list(bench.references.notes)}


def judge(request: dict[str, Any], context: Context) -> dict[str, Any]:
    """The verdict for `request` {"task", "record", "asked", "seed", "compile_baseline",
    "reuse_verdicts"}.

    record is what recording returned. reuse_verdicts: whether a candidate with the content of an
    earlier one gets its verdict. Raises WorkerError (validation) for mistakes of the task.
    """
    record, asked = request["record"], request.get("asked", "full")
    compares = bool(request.get("compile_baseline", True))
    if not succeeded(record):
        return from_record_failure(record, asked)
    try:
        tape = tape_of(record)
        plan = make_plan(tape)
        key = known.key_of(tape, plan, asked=asked, compares=compares)
    except NotReplayable as reason:
        text = f"uncovered: {reason}."
        return make_verdict(asked=asked, stage="correctness", ok=False, code="uncovered",
                            reason=text, feedback=[text], provenance=provenance(record),
                            seconds=seconds_of(record))
    except (TapeError, KeyError, TypeError, ValueError):
        return no_recording(record, asked)
    begin = time.monotonic()
    bench = bench_for(request, context)
    if request.get("reuse_verdicts", True):
        earlier = bench.verdicts.find(key, tape)
        if earlier is not None:
            return {**earlier, "seconds": seconds_of(record)}
    judgement = _Judgement(bench, record, tape, plan, context, asked, compares)
    judgement.spend("task", time.monotonic() - begin)
    verdict = judgement.verdict()
    bench.verdicts.keep(key, verdict, tape)
    return verdict


class _Judgement(Judgement[Result]):
    """One candidate before the judge."""

    def __init__(self, bench: Bench, record: dict[str, Any], tape: Tape, plan: Any,
                 context: Context, asked: str, compares: bool) -> None:
        super().__init__(bench.references, context)
        self.bench = bench
        self.replayers = bench.replayers(plan)
        self.record = record
        self.tape = tape
        self.plan = plan
        self.asked = asked
        self.compares = compares  # with torch.compile, too
        self.seconds = seconds_of(record)
        self.loaded: LoadedTape | None = None
        self.kernels: list[dict[str, Any]] = []
        self.seed = secrets.randbits(63)
        self.hashes: list[int] = []  # of the own inputs' runs, where they repeat bit by bit
        self.changed: list[str] = []  # buffers that they changed
        self.own: Expected | None = None  # what timed calls are compared with
        self.repeats = True
        self.atomics = feedback.adds_floats(tape) or not plan.repeats
        self.runs = 0
        self.poisons = draw_poisons()

    def verdict(self) -> dict[str, Any]:
        try:
            with self.bench.device.held(self.context.time_left(), self.progress, alone=False):
                begin = time.monotonic()
                if self.bench.released is not None:
                    self.spend("idle", begin - self.bench.released)
                self.loaded = self._load()
                self.kernels = feedback.kernel_entries(self.tape, self.plan.text,
                                                       self.loaded.kernels)
                self.spend("load", time.monotonic() - begin)
                if self.asked == "compile":
                    return self._compiled()
                self.replayers[1].begin(self.plan.shared_bytes)
                failure = self.correctness()
                if failure is not None:
                    return failure
                decoys = self._decoys()
                if decoys is not None:
                    return self._made(stage="done", ok=True, code="no_kernel", reason=decoys,
                                      correct=True)
                self._get_ready()
            return self._timed()
        except Fault as error:
            code, text = feedback.fault(error, self.tape)
            return self._failed(code, text)
        except NotReplayable as reason:
            return self._failed("uncovered", f"uncovered: {reason}.")
        except TapeError:  # a constant's file is gone or another one
            return no_recording(self.record, self.asked)
        except Hang:
            return self._failed("timeout", "the kernels didn't end within "
                                f"{self._deadline():.0f} s: look for a loop that doesn't end.")
        except OutOfMemory:
            return self._failed("out_of_memory", "the GPU has too little memory for the tensors "
                                "that forward makes.")
        except Suspect as error:
            return self._made(stage="audit", ok=False, code="results_differ", reason=str(error),
                              correct=False)
        finally:
            self.bench.released = time.monotonic()

    def _get_ready(self) -> None:
        """Makes what the measurement needs while others may use the device, too: contexts that come
        up and a compiler that tries kernels would disturb whoever has it alone."""
        self.replayers[1].start(self.plan.shared_bytes)
        assert self.loaded is not None
        self.own = self.references.expected("own")
        self.loaded.bind(self.own.inputs, self.own.state)
        if self.compares:
            begin = time.monotonic()
            self.bench.compile_baseline(self.context)
            self.spend("compile_baseline", time.monotonic() - begin)

    def _decoys(self) -> str | None:
        """Why the kernels count for nothing: there are none, or without them all is right, too."""
        if not self.tape.launches:
            return "correct, but no Triton kernel is launched, so no win."
        if self.plan.pytorch is None:
            return None  # nothing else could have written the outputs
        assert self.loaded is not None
        own = self.references.expected("own")
        self.loaded.bind(own.inputs, own.state)
        bare = self.loaded.run(guard=True, poison=self._poison(), seed=self.seed, launches=False,
                               deadline_s=self._deadline())
        if check(own, bare.outputs, bare.inputs_after, bare.state_after, bare.aliases) is not None:
            return None
        return ("correct, but no output depends on what a Triton kernel writes, so no win: have "
                "kernels do the work.")

    def _load(self) -> LoadedTape:
        return LoadedTape(self.replayers[0], self.tape, self.references.device, self.plan)

    # Correctness ----------------------------------------------------------------------------

    def _deadline(self) -> float:
        """Seconds that one run may take."""
        fair = constants.RUN_S + constants.HOPELESS * self.bench.eager_ms * 1e-3
        return min(fair, max(2.0, self.context.time_left() - 5.0))

    def execute(self, expected: Expected) -> Result:
        assert self.loaded is not None
        self.loaded.bind(expected.inputs, expected.state)
        self.runs += 1
        return self.loaded.run(guard=True, poison=self._poison(), seed=self.seed,
                               deadline_s=self._deadline())

    def _poison(self) -> int:
        """Of the last variant; one after the other, so that each meets some variants."""
        return self.poisons[self.runs % len(self.poisons)]

    def failure(self, expected: Expected, run: Result) -> dict[str, Any] | None:
        verdict = self._wrong(expected, run)
        if verdict is not None or expected.name != "own":
            return verdict
        assert self.loaded is not None
        others = [p for p in self.poisons if p != self._poison()]
        for number, poison in enumerate(others):
            again = self.loaded.run(guard=number > 0, poison=poison, seed=self.seed,
                                    deadline_s=self._deadline())
            verdict = self._wrong(expected, again)
            if verdict is not None:
                return verdict
            self.repeats = self.repeats and _same(run, again)
        if not self.repeats and not self.atomics:
            text = ("two runs on the same inputs give different results: look for elements that "
                    "two programs write, for ones that none writes, and for memory that is read "
                    "before it is written.")
            return self._failed("not_repeatable", text)
        self.changed = run.changed
        self.hashes = run.hashes if self.repeats else []
        return None

    def _wrong(self, expected: Expected, run: Result) -> dict[str, Any] | None:
        if run.outside:
            return self._failed("out_of_bounds", on_data(
                "forward writes outside its tensors: mask every store against the real size.",
                expected))
        if run.constants_changed:
            return self._failed("constants_changed", "forward changes a tensor made in __init__, "
                                "so the next call starts from other values: make it anew in each "
                                "call.")
        finding = check(expected, run.outputs, run.inputs_after, run.state_after, run.aliases)
        if finding is None:
            return None
        return self._made(stage="correctness", ok=False, code=finding.code, correct=False,
                          reason=on_data(finding.text, expected),
                          lines=self.explain(finding, expected))

    # Time -----------------------------------------------------------------------------------

    def _timed(self) -> dict[str, Any]:
        assert self.loaded is not None
        begin = time.monotonic()
        with self.bench.device.held(self.context.time_left(), self.progress, alone=True) as waited:
            self.spend("wait", waited)
            candidate = self._contender(self.loaded)
            first = statistics.median(candidate.sample(timing.drawn(constants.SCREENING)))
            original = statistics.median(self.bench.eager.sample(constants.SCREENING))
            if original / first < constants.SCREENING_FLOOR:
                self.spend("screen", time.monotonic() - begin - waited)
                return self._slow(original, first)
            self.spend("screen", time.monotonic() - begin - waited)
            self.progress("measuring")
            begin = time.monotonic()
            found = self._measure(candidate)
            if found.drifted("eager"):
                found = self._measure(candidate)
            self.spend("time", time.monotonic() - begin)
            begin = time.monotonic()
            if found.ratio("eager", "candidate").low > 1.0:
                found = self._confirmed(found)
            self.spend("confirm", time.monotonic() - begin)
            clocks = self.bench.device.clocks()
            throttled = self.bench.device.throttled()
        return self._measured(found, clocks, throttled)

    def _measure(self, candidate: TapeContender) -> timing.Measurement:
        bench = self.bench
        if self.compares and bench.compiled is not None:
            try:
                return timing.measure([bench.eager, bench.compiled, candidate], constants.ROUNDS)
            except Lost as reason:
                bench.drop_compiled(f"no torch.compile baseline: {reason}")
        return timing.measure([bench.eager, candidate], constants.ROUNDS)

    def _contender(self, loaded: LoadedTape) -> TapeContender:
        own = self.own
        assert own is not None

        def wrong(run: Result) -> bool:
            return check(own, run.outputs, run.inputs_after, run.state_after,
                         run.aliases) is not None

        return TapeContender(loaded, seed=self.seed, hashes=self.hashes, changed=self.changed,
                             poisons=self.poisons, sample_s=self._deadline(),
                             wrong=None if self._all_hashed else wrong)

    @property
    def _all_hashed(self) -> bool:
        """Whether hashes cover all that a call leaves behind."""
        return self.repeats and self.plan.hashed and bool(self.hashes) and not self.changed

    def _confirmed(self, found: timing.Measurement) -> timing.Measurement:
        """The measurement, or the one of a fresh process where that doesn't agree on a win."""
        self.progress("measuring again in a fresh process")
        self.replayers.reverse()
        loaded = self._load()
        self.replayers[1].stop()
        assert self.own is not None
        loaded.bind(self.own.inputs, self.own.state)
        self.loaded = loaded
        again = timing.measure(
            [self.bench.eager, self._contender(loaded)], constants.CONFIRMING_ROUNDS)
        return found if again.ratio("eager", "candidate").low > 1.0 else again

    def _slow(self, original: float, optimized: float) -> dict[str, Any]:
        ratio = original / optimized
        unsure = timing.systematic(original) + timing.systematic(optimized) + 0.02
        text = (f"correct, but not faster: {feedback.milliseconds(optimized)} against eager's "
                f"{feedback.milliseconds(original)}: {ratio:.3g}x (a first look).")
        return self._made(stage="done", ok=True, code="not_faster", reason=text, correct=True,
                          original=original, optimized=optimized,
                          interval=(ratio * math.exp(-unsure), ratio * math.exp(unsure)),
                          lines=[text, *feedback.kernel_lines(self.kernels)])

    def _measured(self, found: timing.Measurement, clocks: dict[str, int],
                  throttled: bool) -> dict[str, Any]:
        ratios = {name: found.ratio(name, "candidate") for name in ("eager", "compile")
                  if name in found.blocks}
        eager = ratios["eager"]
        code, stage, text = self._decide(found, eager, throttled)
        lines = [text]
        if "compile" in ratios:
            other = ratios["compile"]
            lines.append(f"against torch.compile ({feedback.milliseconds(other.original_ms)}): "
                         f"{other.value:.3g}x, between {other.low:.3g} and {other.high:.3g}")
        reached = use_of_machine(
            eager.optimized_ms, moved=self.bench.moved_bytes,
            flops=sum(op.flops for op in self.references.trace.operators),
            kernels=self.tape.kernels.values(), info=self.bench.info)
        lines += reached.lines()
        return self._made(
            stage=stage, ok=stage == "done", code=code, reason=text, correct=True,
            original=eager.original_ms, optimized=eager.optimized_ms, speedup=eager.value,
            interval=(eager.low, eager.high),
            against={name: ratio.to_json() for name, ratio in ratios.items()},
            achieved=reached.to_json(),
            lines=[*lines, *feedback.kernel_lines(self.kernels)],
            clocks=clocks, throttled=throttled, drift=found.drift("eager"))

    def _bandwidth_share(self, milliseconds: float) -> float:
        """The share of a time that reading what matters takes at the peak; 0 if unknown."""
        peak = floors.bandwidth(self.bench.info)
        return self.bench.floor_bytes / peak / (milliseconds * 1e-3) if peak else 0.0

    def _decide(self, found: timing.Measurement, eager: timing.Ratio,
                throttled: bool) -> tuple[str, str, str]:
        """(code, stage, sentence)."""
        times = (f"{feedback.milliseconds(eager.optimized_ms)} against eager's "
                 f"{feedback.milliseconds(eager.original_ms)}: {eager.value:.3g}x, between "
                 f"{eager.low:.3g} and {eager.high:.3g}")
        kinds = f"correct on {self.counted + 1} kinds of input"
        if self._bandwidth_share(eager.optimized_ms) > 1.1:
            return "too_fast", "audit", (f"{times}, which is less time than reading the inputs "
                                         "takes; not believed.")
        if found.drifted("eager") or throttled:
            return "unsteady", "timing", (f"the GPU's speed changed by {found.drift('eager'):.1%} "
                                          f"while it measured ({times}); measure again.")
        if self.weak:
            return "weak", "done", (f"no difference found, but only {self.counted} kinds of input "
                                    f"beside the task's own tell right from wrong, so no win; "
                                    f"{times}.")
        if eager.low > 1.0:
            return "faster", "done", f"{kinds}; {times}."
        return "not_faster", "done", f"{kinds}, but not faster for sure; {times}."

    # The verdict ----------------------------------------------------------------------------

    def _compiled(self) -> dict[str, Any]:
        count = len(self.kernels)
        text = (f"{count} kernel{'s' if count != 1 else ''} compiled and loaded." if count
                else "the candidate launches no Triton kernel.")
        return self._made(stage="done", ok=True, code="compiled" if count else "no_kernel",
                          reason=text, lines=feedback.kernel_lines(self.kernels))

    def _failed(self, code: str, text: str) -> dict[str, Any]:
        return self._made(stage="correctness", ok=False, code=code, reason=text, correct=False)

    def _made(self, *, stage: str, ok: bool, code: str, reason: str, correct: bool | None = None,
              lines: list[str] | None = None, original: float | None = None,
              optimized: float | None = None, speedup: float | None = None,
              interval: tuple[float, float] | None = None,
              against: dict[str, dict[str, Any]] | None = None,
              achieved: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        skipped = [*self.skipped, *self.references.notes,
                   *feedback.host_notes(self.tape, optimized,
                                        len(self.references.trace.operators))]
        compile_note = self.bench.compile_note if self.compares else None
        if compile_note and self.bench.compiled is None:
            skipped.append(compile_note)
        if feedback.has_promises(self.tape):
            skipped.append("what the kernels promise the compiler (tl.multiple_of, tl.assume and "
                           "their kin) is judged by what they do, not by whether it holds")
        if self.own is not None and not self._all_hashed:
            skipped.append("one timed call of each block was compared, not all: results that "
                           "don't repeat, have gaps or change inputs aren't told by a hash")
        others = self.bench.device.others(own=1 + self.bench.running())
        if others:
            skipped.append(f"{others} other processes hold a context on this GPU")
        info = self.bench.info
        if info.get("pageable_memory_access"):
            skipped.append("on this machine kernels can address the memory of the process that "
                           "launches them")
        return make_verdict(
            asked=self.asked, stage=stage, ok=ok, code=code, reason=reason, correct=correct,
            weak=bool(correct) and self.weak and self.asked == "full",
            feedback=lines or [reason], original_ms=original, optimized_ms=optimized,
            speedup=speedup, interval=interval, against=against, achieved=achieved,
            kernels=self.kernels, coverage=self.coverage(), skipped=skipped, seconds=self.seconds,
            provenance=provenance(
                self.record, precision=self.references.rule.name,
                reduction_depth=self.references.trace.depth,
                hardware={key: info.get(key) for key in
                          ("name", "driver", "sms", "l2_bytes", "memory_bytes",
                           "pageable_memory_access")},
                replay=f"PyTorch, for {self.plan.pytorch}" if self.plan.pytorch else "native",
                timing_protocol=constants.VERSION, compile=compile_note, **more))


def draw_poisons() -> list[int]:
    """The bytes that fill unwritten memory in the runs of one candidate, no two the same.

    Drawn, and the same for checked and for timed calls, so that a kernel can neither wait for one
    that it knows nor tell a timed call by it.
    """
    chooser = secrets.SystemRandom()
    poisons = [constants.POISON_NAN,
               *chooser.sample(constants.POISONS_ORDINARY, constants.POISONS_DRAWN)]
    chooser.shuffle(poisons)
    return poisons


def _same(a: Result, b: Result) -> bool:
    """Whether two runs left the same bits."""
    pairs = zip(leaves_of(a.outputs), leaves_of(b.outputs))
    return a.hashes == b.hashes and all(
        torch.equal(x.contiguous().view(torch.uint8), y.contiguous().view(torch.uint8))
        for x, y in pairs if isinstance(x, torch.Tensor) and x.numel() and x.dim())
