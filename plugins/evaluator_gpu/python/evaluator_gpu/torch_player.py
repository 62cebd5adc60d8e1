"""Runs a plan that has PyTorch's operators between its launches; see REPLAY.md.

What ke_replay's Player does, in a process that has PyTorch and, like it, no code of a candidate and
no expected value.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from typing import Any

import torch

from evaluator_gpu import constants, descriptors
from evaluator_gpu.torch_memory import Driver, DriverError, Memory, as_tensor
from kernel_evolve_worker.recording.tape import decode_value, dtype_named

_REDZONE = 0xA5
_FLUSH = 4  # times the L2, as in ke_replay
_SLEEP_CYCLES_PER_NS = 2.0  # of torch.cuda._sleep
# Overwrites so many words of a block's shared memory, as ke_replay's ke_scrub does.
_SCRUB = b"""
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry scrub(.param .u32 words) {
  .reg .u32 %word, %step, %count, %base, %place, %value;
  .reg .pred %end;
  ld.param.u32 %count, [words];
  mov.u32 %word, %tid.x;
  mov.u32 %step, %ntid.x;
  mov.u32 %base, room;
  mov.u32 %value, 0xA5A5A5A5;
NEXT:
  setp.ge.u32 %end, %word, %count;
  @%end bra DONE;
  mad.lo.u32 %place, %word, 4, %base;
  st.shared.u32 [%place], %value;
  add.u32 %word, %word, %step;
  bra NEXT;
DONE:
  ret;
}
\0"""
_SCRUB_THREADS = 1024
_SLOT = 128  # bytes, and the alignment, that a parameter gets: a CUtensorMap is the largest
_PROMOTE_128 = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_SHARED_PER_BLOCK = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
_RESOURCES = {"registers": 4, "local_bytes": 3, "static_shared_bytes": 1}
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


class Refused(Exception):
    """An operator can't be run here as it was recorded; the text says which and why."""


class Player:
    """The plan that was loaded last, and its buffers. Each `do_` answers the request so named and
    raises Refused, DriverError and what PyTorch raises. step: the last one that was begun."""

    def __init__(self, fd: int, size: int) -> None:
        torch.cuda.init()
        self._driver = Driver()
        self._shared = torch.frombuffer(mmap.mmap(fd, size), dtype=torch.uint8)
        torch.cuda.cudart().cudaHostRegister(self._shared.data_ptr(), size, 0)
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._flush = torch.zeros(_FLUSH * properties.L2_cache_size // 4, dtype=torch.int32,
                                  device="cuda")
        self._sms = properties.multi_processor_count
        shared = ctypes.c_int()
        self._driver("cuDeviceGetAttribute", ctypes.byref(shared), _SHARED_PER_BLOCK,
                     torch.cuda.current_device())
        self._shared_bytes = shared.value
        self._scrub = self._function(_SCRUB, "scrub", self._shared_bytes)[1]
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self._plan: dict[str, Any] = {}
        self._modules: dict[int, ctypes.c_void_p] = {}
        self._functions: dict[int, ctypes.c_void_p] = {}
        self._originals: dict[int, torch.Tensor] = {}
        self._buffers: dict[bool, dict[int, Memory]] = {}  # by guard and number
        self._used: dict[int, Memory] = {}
        self._guard, self._poison = True, 0
        self._results: dict[int, torch.Tensor] = {}  # of operators, where they are buffers now
        self._pause_ns = 0
        self.step = -1

    def describe(self) -> dict[str, Any]:
        """What the first answer says of the device."""
        return {"name": torch.cuda.get_device_name()}

    # -- the plan -------------------------------------------------------------------------------

    def do_load(self, plan: dict[str, Any]) -> dict[str, Any]:
        self._forget()
        self._plan = plan
        resources = []
        for number, kernel in enumerate(plan["kernels"]):
            self._load(number)
            values = {key: self._attribute(number, of) for key, of in _RESOURCES.items()}
            resident = ctypes.c_int()
            self._driver("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(resident),
                         self._functions[number], kernel["threads"],
                         ctypes.c_size_t(kernel["shared"]))
            resources.append({**values, "programs_per_sm": resident.value})
        self.do_write([i for i, b in enumerate(plan["buffers"]) if "data" in b])
        return {"kernels": resources}

    def _forget(self) -> None:
        self._results, self._originals, self._used = {}, {}, {}
        torch.cuda.synchronize()
        for guard in list(self._buffers):
            self._free(guard)
        for module in self._modules.values():
            self._driver("cuModuleUnload", module)
        self._modules, self._functions = {}, {}
        self._pause_ns = 0

    def _free(self, guard: bool) -> None:
        for memory in self._buffers.pop(guard, {}).values():
            memory.free()

    def _attribute(self, number: int, attribute: int) -> int:
        value = ctypes.c_int()
        self._driver("cuFuncGetAttribute", ctypes.byref(value), attribute,
                     self._functions[number])
        return value.value

    def _load(self, number: int) -> None:
        kernel = self._plan["kernels"][number]
        if number in self._modules:
            self._driver("cuModuleUnload", self._modules.pop(number))
        with open(kernel["cubin"], "rb") as file:
            image = file.read()
        self._modules[number], self._functions[number] = self._function(
            image, kernel["name"], kernel["shared"])

    def _function(self, image: bytes, name: str, shared: int) -> \
            tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """The module of an image, and its function `name` with that much dynamic shared memory."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._driver("cuModuleLoadData", ctypes.byref(module), image)
        self._driver("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        if shared > 48 << 10:
            self._driver("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
        return module, function

    def do_write(self, buffers: list[int]) -> dict[str, Any]:
        for number in buffers:
            start, size = (self._plan["buffers"][number][key] for key in ("data", "bytes"))
            self._originals[number] = self._shared[start:start + size].cuda()
        torch.cuda.synchronize()
        return {}

    def do_fetch(self, buffers: list[list[int]]) -> dict[str, Any]:
        for number, place in buffers:
            content = self._content(number)
            self._shared[place:place + content.numel()].copy_(content)
        torch.cuda.synchronize()
        return {}

    # -- running --------------------------------------------------------------------------------

    def do_run(self, guard: bool, poison: int, seed: int, launches: bool = True) -> dict[str, Any]:
        """launches: whether kernels are launched; without, operators alone run."""
        self._prepare(guard, poison)
        self._empty_caches()
        torch.cuda.synchronize()
        with torch.no_grad():
            self._run_steps(guard, launches)
        torch.cuda.synchronize()
        return {"outside": self._outside(), "changed": self._changed(), "hashes": self._hash(seed)}

    def _prepare(self, guard: bool, poison: int) -> None:
        """Fresh contents; operators' results get memory of their own when they run."""
        self._results = {}
        self._poison = poison
        _fill_pool(poison)
        self._flush.zero_()  # a kernel that finds it leaves nothing there
        for number, kernel in enumerate(self._plan["kernels"]):
            if kernel["fresh"]:
                self._load(number)
        if guard not in self._buffers:
            self._buffers[guard] = {}
        self._used = self._buffers[guard]
        self._guard = guard
        late = {*self._plan["late"], *self._plan["unused"]}  # made when something is put there
        for number in range(len(self._plan["buffers"])):
            if number in self._used or number not in late:
                self._renew(number)

    def _renew(self, number: int) -> Memory:
        """The buffer with its first content, or poison; made where there is none."""
        memory = self._used.get(number)
        if memory is None:
            size = self._plan["buffers"][number]["bytes"]
            memory = self._used[number] = Memory(self._driver, size, self._guard)
        for edge in memory.edges:
            edge.fill_(_REDZONE)
        if number in self._originals:
            memory.content.copy_(self._originals[number])
        else:
            memory.content.fill_(self._poison)
        return memory

    def _content(self, number: int) -> torch.Tensor:
        known = self._results.get(number)
        if known is not None:
            return known
        memory = self._used.get(number)
        return (self._renew(number) if memory is None else memory).content

    def _tensor(self, ref: dict[str, Any]) -> torch.Tensor:
        memory = self._content(self._plan["names"][ref["buffer"]])
        dtype = dtype_named(ref["dtype"])
        whole = memory[:memory.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
        return whole.as_strided(ref["shape"], ref["stride"],
                                whole.storage_offset() + ref["offset"])

    def _run_steps(self, guard: bool, launches: bool = True) -> None:
        for self.step, step in enumerate(self._plan["steps"]):
            if "aten" in step:
                self._operator(step["aten"], guard)
            elif launches:
                self._launch(step)
            if guard:
                torch.cuda.synchronize()  # so that a fault has a number
        self.step = -1

    def _operator(self, step: dict[str, Any], guard: bool) -> None:
        _, name, overload = step["name"].split(".")
        function = getattr(getattr(torch.ops.aten, name), overload)
        args = [_on_device(decode_value(value, self._tensor)) for value in step["args"]]
        kwargs = {k: _on_device(decode_value(v, self._tensor)) for k, v in step["kwargs"].items()}
        try:
            results = function(*args, **kwargs)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            if _CUDA_ERROR in str(error):
                raise
            raise Refused(f"{step['name']}: {_first_line(error)}") from None
        results = results if isinstance(results, (tuple, list)) else [results]
        changed = [_place(ref) for ref in step.get("writes", [])]
        for result, ref in zip(results, step["out"]):
            if ref is not None and isinstance(result, torch.Tensor) and _place(ref) not in changed:
                self._keep(step["name"], result, ref, guard)

    def _keep(self, name: str, result: torch.Tensor, ref: dict[str, Any], guard: bool) -> None:
        """A result becomes its buffer, as it does in PyTorch. It is copied where every access is
        watched, and where it lies otherwise than recorded."""
        number = self._plan["names"][ref["buffer"]]
        size = self._plan["buffers"][number]["bytes"]
        if list(result.shape) != ref["shape"] or result.dtype != dtype_named(ref["dtype"]):
            if number in self._plan["unused"]:  # a workspace is the library's own affair
                return
            raise Refused(f"{name}, whose result has another shape or type here")
        storage = result.untyped_storage()
        if (not guard and result.storage_offset() == ref["offset"] and storage.nbytes() >= size
                and list(result.stride()) == ref["stride"]):
            empty = torch.empty(0, dtype=torch.uint8, device="cuda")
            self._results[number] = empty.set_(storage, 0, (size,), (1,))
        else:
            self._tensor(ref).copy_(result)

    def _launch(self, step: dict[str, Any]) -> None:
        if 0 in step["grid"]:
            return
        kernel = self._plan["kernels"][step["kernel"]]
        self._start(self._functions[step["kernel"]], step["grid"], kernel["threads"],
                    kernel["shared"], [self._bytes(p) for p in step["parameters"]])

    def _start(self, function: ctypes.c_void_p, grid: list[int], threads: int, shared: int,
               parameters: list[bytes]) -> None:
        room = ctypes.create_string_buffer(_SLOT * (len(parameters) + 1))
        first = -(-ctypes.addressof(room) // _SLOT) * _SLOT
        for number, value in enumerate(parameters):
            ctypes.memmove(first + number * _SLOT, value, len(value))
        pointers = (ctypes.c_void_p * len(parameters))(
            *(first + number * _SLOT for number in range(len(parameters))))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._driver("cuLaunchKernel", function, *grid, threads, 1, 1, shared, stream, pointers,
                     None)

    def _bytes(self, parameter: dict[str, Any]) -> bytes:
        if "buffer" not in parameter:
            return bytes.fromhex(parameter["value"]).ljust(8, b"\0")
        address = self._content(parameter["buffer"]).data_ptr() + parameter["offset"]
        if "map" in parameter:
            return self._encoded(parameter["map"], address)
        return address.to_bytes(8, "little")

    def _encoded(self, given: dict[str, Any], address: int) -> bytes:
        """A CUtensorMap, as ke_replay makes it."""
        room = ctypes.create_string_buffer(2 * _SLOT)
        out = -(-ctypes.addressof(room) // _SLOT) * _SLOT
        count = len(given["shape"])
        long, word = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
        try:
            self._driver("cuTensorMapEncodeTiled", ctypes.c_void_p(out), given["type"], count,
                         ctypes.c_uint64(address), long(*given["shape"]), long(*given["strides"]),
                         word(*given["box"]), word(*[1] * count), 0, given["swizzle"],
                         _PROMOTE_128, int(given["nan"]))
        except DriverError:
            raise Refused("a tensor descriptor that the driver refuses") from None
        return ctypes.string_at(out, descriptors.BYTES)

    def _outside(self) -> list[int]:
        return [number for number, memory in sorted(self._used.items())
                if any(bool((edge != _REDZONE).any()) for edge in memory.edges)]

    def _changed(self) -> list[int]:
        return [number for number, original in self._originals.items()
                if not torch.equal(original, self._content(number))]

    def _hash(self, seed: int) -> list[int]:
        """Of the results, by place and seed."""
        found = []
        for part in self._plan["results"]:
            data = self._content(part["buffer"])[part["offset"]:part["offset"] + part["bytes"]]
            generator = torch.Generator(device="cuda").manual_seed(seed)
            total = 0
            for piece in data.split(1 << 24):
                weights = torch.randint(1 << 62, piece.shape, generator=generator, device="cuda")
                total += int((weights * (piece.to(torch.int64) + 1)).sum())
            found.append(total % (1 << 63))
        return found

    # -- time -----------------------------------------------------------------------------------

    def do_time(self, samples: int, poisons: list[int], pause_ns: int, seed: int,
                hashes: list[int], keep: int | None = None,
                fetch: list[list[int]] | None = None) -> dict[str, Any]:
        """keep: the number of the sample whose results `fetch` are copied out and whose `changed`
        is told, otherwise the last one's."""
        milliseconds, wrong, outside, changed = [], 0, set(), []
        begin, end = self._events
        torch.cuda.synchronize()
        self._free(True)  # results of runs before, which a kernel could take for its own
        with torch.no_grad():
            self._find_pause(pause_ns, poisons[0])
            for number in range(samples):
                self._prepare(False, poisons[number % len(poisons)])
                self._empty_caches()
                torch.cuda._sleep(int(_SLEEP_CYCLES_PER_NS * self._pause_ns))
                begin.record()
                self._run_steps(False)
                end.record()
                end.synchronize()
                milliseconds.append(begin.elapsed_time(end))
                outside.update(self._outside())
                wrong += bool(hashes) and self._hash(seed) != hashes
                if number == (samples - 1 if keep is None else keep):
                    changed = self._changed()
                    self.do_fetch(fetch or [])
        return {"milliseconds": milliseconds, "wrong": wrong, "outside": sorted(outside),
                "changed": changed}

    def _empty_caches(self) -> None:
        """Nothing of the last call stays in a cache or in shared memory."""
        self._driver("cuCtxResetPersistingL2Cache")
        self._flush.sum()
        self._start(self._scrub, [self._sms, 1, 1], _SCRUB_THREADS, self._shared_bytes,
                    [(self._shared_bytes // 4).to_bytes(4, "little")])

    def _find_pause(self, least_ns: int, poison: int) -> None:
        """How long queueing the steps takes, found once for a plan."""
        if self._pause_ns:
            return
        self._prepare(False, poison)
        longest = 0.0
        for _ in range(3):
            start = time.perf_counter()
            self._run_steps(False)
            longest = max(longest, time.perf_counter() - start)
            torch.cuda.synchronize()
        self._pause_ns = min(max(least_ns, int(2e9 * longest)), constants.MAX_PAUSE_NS)


def failure(error: Exception, step: int) -> tuple[dict[str, Any], bool]:
    """The answer that tells an error, and whether the process can't go on."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, Refused):
        return {"ok": False, "kind": "uncovered", "message": text}, False
    if isinstance(error, torch.OutOfMemoryError) or (
            isinstance(error, DriverError) and error.code == _OUT_OF_MEMORY):
        return {"ok": False, "kind": "cuda", "code": _OUT_OF_MEMORY, "message": text}, True
    code = error.code if isinstance(error, DriverError) else _code(error)
    if code is None:
        return {"ok": False, "kind": "request",
                "message": f"{type(error).__name__}: {_first_line(error)}"}, False
    lasting = code >= 700 and code not in (701, 704)
    return {"ok": False, "kind": "fault", "code": code, "step": step, "message": text,
            "lasting": lasting}, lasting


# Words of PyTorch's message, and CUDA's number.
_ERRORS = {"illegal memory access": 700, "out of resources": 701, "device-side assert": 710,
           "misaligned address": 716}


_CUDA_ERROR = "CUDA error"


def _code(error: Exception) -> int | None:
    """CUDA's number of PyTorch's error; None where it is none of the device's."""
    text = str(error)
    known = (code for words, code in _ERRORS.items() if words in text)
    return next(known, 719 if _CUDA_ERROR in text else None)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")[:160]


def _fill_pool(poison: int) -> None:
    """Overwrites what PyTorch's allocator holds and nobody uses: a kernel that finds it finds
    nothing of an earlier call."""
    torch.cuda.synchronize()
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if not block["state"].startswith("active"):
                as_tensor(address, block["size"]).fill_(poison)
            address += block["size"]


def _place(ref: dict[str, Any]) -> tuple[Any, ...]:
    return ref["buffer"], ref["offset"], tuple(ref["shape"]), tuple(ref["stride"])


def _on_device(value: Any) -> Any:
    """The recording's devices are this GPU."""
    if isinstance(value, list):
        return [_on_device(item) for item in value]
    return torch.device("cuda") if isinstance(value, torch.device) else value
