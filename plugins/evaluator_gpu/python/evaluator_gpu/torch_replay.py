"""A replay as ke_replay is one, for tapes with operators of PyTorch between the launches.

usage: torch_replay.py PATHS SHARED_FD SHARED_BYTES DEVICE

Speaks the protocol of REPLAY.md and holds no code of the candidate either; but its buffers come
from PyTorch's allocator, so that what is written around them is noticed only within PAD bytes, and
a read outside may go unnoticed.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import threading
from typing import Any

PAD = 1 << 16  # bytes before and behind each buffer that nothing may write
_REDZONE = 0xA5
_FLUSH = 4  # times the L2


def main() -> int:
    sys.path[:0] = sys.argv[1].split(os.pathsep)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    # The protocol's stdout is kept from whatever PyTorch prints.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(line: dict[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    try:
        player = _player(int(sys.argv[2]), int(sys.argv[3]))
    except Exception as error:  # noqa: BLE001 - the other side tells the user
        say({"ok": False, "kind": "device", "message": f"{type(error).__name__}: {error}"[:300]})
        return 3
    say({"ok": True, **player.describe()})
    for line in sys.stdin:
        answer, lasting = _answer(player, json.loads(line))
        say(answer)
        if lasting:
            os._exit(4)
    os._exit(0)


def _end_with_stdin() -> None:
    import select

    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(0)


def _answer(player: Any, request: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    import torch

    try:
        return {"ok": True, **getattr(player, f"do_{request.pop('op')}")(**request)}, False
    except torch.OutOfMemoryError as error:
        return {"ok": False, "kind": "cuda", "code": 2, "message": str(error)[:300]}, True
    except LaunchFailed as error:
        lasting = error.code >= 700 and error.code not in (701, 704)
        return {"ok": False, "kind": "fault", "code": error.code, "step": player.step,
                "message": f"CUDA error {error.code}", "lasting": lasting}, lasting
    except RuntimeError as error:
        text = str(error)
        code = 700 if "illegal memory access" in text else 719
        return {"ok": False, "kind": "fault", "code": code, "step": player.step,
                "message": text[:300], "lasting": True}, True


class LaunchFailed(Exception):
    """The driver refused a call; code: CUDA's."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


def _player(fd: int, size: int) -> Any:
    import torch

    from kernel_evolve_worker.recording.tape import decode_value, dtype_named

    cuda = ctypes.CDLL("libcuda.so.1")

    def check(code: int) -> None:
        if code:
            raise LaunchFailed(code)

    class Player:
        """The plan that was loaded last, and its buffers."""

        def __init__(self) -> None:
            torch.cuda.init()
            self.memory = torch.frombuffer(mmap.mmap(fd, size), dtype=torch.uint8)
            torch.cuda.cudart().cudaHostRegister(self.memory.data_ptr(), size, 0)
            l2 = torch.cuda.get_device_properties(0).L2_cache_size
            self.flush = torch.zeros(_FLUSH * l2 // 4, dtype=torch.int32, device="cuda")
            self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            self.step = -1
            self.pause_ns = 0

        def describe(self) -> dict[str, Any]:
            return {"name": torch.cuda.get_device_name()}

        def do_load(self, plan: dict[str, Any]) -> dict[str, Any]:
            self.plan = plan
            self.modules: dict[int, Any] = {}
            self.functions: dict[int, Any] = {}
            self.originals: dict[int, Any] = {}
            self.buffers: dict[int, Any] = {}
            resources = []
            for number, kernel in enumerate(plan["kernels"]):
                self._load(number)
                values = {}
                for key, attribute in (("registers", 4), ("local_bytes", 3),
                                       ("static_shared_bytes", 1)):
                    value = ctypes.c_int()
                    check(cuda.cuFuncGetAttribute(ctypes.byref(value), attribute,
                                                  self.functions[number]))
                    values[key] = value.value
                resident = ctypes.c_int()
                check(cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    ctypes.byref(resident), self.functions[number], kernel["threads"],
                    ctypes.c_size_t(kernel["shared"])))
                resources.append({**values, "programs_per_sm": resident.value})
            self.do_write([i for i, b in enumerate(plan["buffers"]) if "data" in b])
            return {"kernels": resources}

        def _load(self, number: int) -> None:
            kernel = self.plan["kernels"][number]
            if number in self.modules:
                check(cuda.cuModuleUnload(self.modules[number]))
            with open(kernel["cubin"], "rb") as file:
                image = file.read()
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            check(cuda.cuModuleLoadData(ctypes.byref(module), image))
            check(cuda.cuModuleGetFunction(ctypes.byref(function), module,
                                           kernel["name"].encode()))
            if kernel["shared"] > 48 << 10:
                check(cuda.cuFuncSetAttribute(function, 8, kernel["shared"]))
            self.modules[number], self.functions[number] = module, function

        def do_write(self, buffers: list[int]) -> dict[str, Any]:
            for number in buffers:
                buffer = self.plan["buffers"][number]
                start = buffer["data"]
                self.originals[number] = self.memory[start:start + buffer["bytes"]].cuda()
            torch.cuda.synchronize()
            return {}

        # -- running ----------------------------------------------------------------------------

        def prepare(self, poison: int) -> None:
            """Fresh contents; operators' results get memory of their own when they run."""
            self.results: dict[int, Any] = {}
            for number, kernel in enumerate(self.plan["kernels"]):
                if kernel["fresh"]:
                    self._load(number)
            for number, buffer in enumerate(self.plan["buffers"]):
                whole = self.buffers.get(number)
                if whole is None or whole.numel() != buffer["bytes"] + 2 * PAD:
                    whole = torch.empty(buffer["bytes"] + 2 * PAD, dtype=torch.uint8,
                                        device="cuda")
                    self.buffers[number] = whole
                whole[:PAD].fill_(_REDZONE)
                whole[PAD + buffer["bytes"]:].fill_(_REDZONE)
                if number in self.originals:
                    self.content(number).copy_(self.originals[number])
                else:
                    self.content(number).fill_(poison)

        def content(self, number: int) -> Any:
            if number in self.results:
                return self.results[number]
            return self.buffers[number][PAD:PAD + self.plan["buffers"][number]["bytes"]]

        def tensor(self, ref: dict[str, Any]) -> Any:
            memory = self.content(self.plan["names"][ref["buffer"]])
            dtype = dtype_named(ref["dtype"])
            whole = memory[:memory.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
            return whole.as_strided(ref["shape"], ref["stride"],
                                    whole.storage_offset() + ref["offset"])

        def run_steps(self) -> None:
            for self.step, step in enumerate(self.plan["steps"]):
                if "aten" in step:
                    self._operator(step["aten"])
                else:
                    self._launch(step)

        def _operator(self, step: dict[str, Any]) -> None:
            _, name, overload = step["name"].split(".")
            function = getattr(getattr(torch.ops.aten, name), overload)
            args = [_moved(decode_value(value, self.tensor)) for value in step["args"]]
            kwargs = {k: _moved(decode_value(v, self.tensor)) for k, v in step["kwargs"].items()}
            results = function(*args, **kwargs)
            results = results if isinstance(results, (tuple, list)) else [results]
            written = [(r["buffer"], r["offset"], r["shape"], r["stride"])
                       for r in step.get("writes", [])]
            for result, ref in zip(results, step["out"]):
                if ref is None or not isinstance(result, torch.Tensor):
                    continue
                if (ref["buffer"], ref["offset"], ref["shape"], ref["stride"]) not in written:
                    self._keep(result, ref)

        def _keep(self, result: Any, ref: dict[str, Any]) -> None:
            """A result becomes its buffer, as it does in PyTorch; copied only where it lies
            otherwise than recorded."""
            number = self.plan["names"][ref["buffer"]]
            size = self.plan["buffers"][number]["bytes"]
            storage = result.untyped_storage()
            if (result.storage_offset() == ref["offset"] and storage.nbytes() >= size
                    and list(result.stride()) == ref["stride"]):
                empty = torch.empty(0, dtype=torch.uint8, device="cuda")
                self.results[number] = empty.set_(storage, 0, (size,), (1,))
            else:
                self.tensor(ref).copy_(result)

        def _launch(self, step: dict[str, Any]) -> None:
            kernel = self.plan["kernels"][step["kernel"]]
            values = []
            for parameter in step["parameters"]:
                if "buffer" in parameter:
                    address = self.content(parameter["buffer"]).data_ptr()
                    values.append((address + parameter.get("offset", 0)).to_bytes(8, "little"))
                else:
                    values.append(bytes.fromhex(parameter["value"]).ljust(8, b"\0"))
            held = [ctypes.create_string_buffer(value, 8) for value in values]
            pointers = (ctypes.c_void_p * len(held))(*[ctypes.addressof(h) for h in held])
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            check(cuda.cuLaunchKernel(
                self.functions[step["kernel"]], *step["grid"], kernel["threads"], 1, 1,
                kernel["shared"], stream, pointers, None))

        def do_run(self, guard: bool, poison: int, seed: int) -> dict[str, Any]:
            self.prepare(poison)
            with torch.no_grad():
                self.run_steps()
            torch.cuda.synchronize()
            return {**self.findings(), "hashes": self.hashes(seed)}

        def findings(self) -> dict[str, Any]:
            changed, outside = [], []
            for number, buffer in enumerate(self.plan["buffers"]):
                if number in self.results:
                    continue
                whole = self.buffers[number]
                edges = torch.cat([whole[:PAD], whole[PAD + buffer["bytes"]:]])
                if not bool((edges == _REDZONE).all()):
                    outside.append(number)
                original = self.originals.get(number)
                if original is not None and not torch.equal(original, self.content(number)):
                    changed.append(number)
            return {"changed": changed, "outside": outside}

        def hashes(self, seed: int) -> list[int]:
            """Of the results, by place and seed."""
            found = []
            for part in self.plan["results"]:
                data = self.content(part["buffer"])[part["offset"]:part["offset"] + part["bytes"]]
                generator = torch.Generator(device="cuda").manual_seed(seed)
                total = 0
                for piece in data.split(1 << 24):
                    weights = torch.randint(1 << 62, piece.shape, generator=generator,
                                            device="cuda")
                    total += int((weights * (piece.to(torch.int64) + 1)).sum())
                found.append(total % (1 << 63))
            return found

        def do_fetch(self, buffers: list[list[int]]) -> dict[str, Any]:
            for number, place in buffers:
                content = self.content(number)
                self.memory[place:place + content.numel()].copy_(content)
            torch.cuda.synchronize()
            return {}

        # -- time -------------------------------------------------------------------------------

        def do_time(self, samples: int, poison: int, pause_ns: int, seed: int,
                    hashes: list[int]) -> dict[str, Any]:
            found, wrong = [], 0
            begin, end = self.events
            with torch.no_grad():
                self._find_pause(pause_ns)
                for number in range(samples):
                    self.prepare((poison ^ (number * 29)) & 0xFF)
                    self.flush.sum()
                    torch.cuda._sleep(2 * self.pause_ns)
                    begin.record()
                    self.run_steps()
                    end.record()
                    end.synchronize()
                    found.append(begin.elapsed_time(end))
                    wrong += bool(hashes) and self.hashes(seed) != hashes
            return {"milliseconds": found, "wrong": wrong, **self.findings()}

        def _find_pause(self, least_ns: int) -> None:
            """How long queueing the steps takes, found once per plan."""
            import time

            self.prepare(0)
            start = time.perf_counter()
            self.run_steps()
            self.pause_ns = max(least_ns, int(2e9 * (time.perf_counter() - start)))
            self.pause_ns = min(self.pause_ns, 20_000_000)
            torch.cuda.synchronize()

    def _moved(value: Any) -> Any:
        """Devices of the recording's host are this GPU."""
        if isinstance(value, list):
            return [_moved(item) for item in value]
        return torch.device("cuda") if isinstance(value, torch.device) else value

    return Player()


if __name__ == "__main__":
    sys.exit(main())
