"""Device memory between unmapped pages, as tensors: what ke_replay's Buffer is, for PyTorch."""

from __future__ import annotations

import ctypes

import torch

ALIGNMENT = 512  # as PyTorch's own allocator: by it, libraries choose their kernels


class DriverError(Exception):
    """The driver refused a call; code: CUDA's."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error {code}")
        self.code = code


class Driver:
    """The CUDA driver; every call raises DriverError."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise DriverError(code)


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Properties(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", _Location),
                ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 32)]


class _Access(ctypes.Structure):  # CUmemAccessDesc
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class _Pointer:
    """Memory at an address, in the form that PyTorch takes."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 2}


def as_tensor(address: int, size: int) -> torch.Tensor:
    """`size` bytes of device memory, uint8."""
    return torch.as_tensor(_Pointer(address, size), device="cuda")


class Memory:
    """`size` bytes; `whole` are the mapped ones, `content` those asked for, at `whole`'s end
    (guard) or start. Given back by `free`, after which the tensors must not be used."""

    def __init__(self, driver: Driver, size: int, guard: bool) -> None:
        self._driver = driver
        location = _Location(1, torch.cuda.current_device())
        self._properties = _Properties(type=1, location=location)
        page = ctypes.c_size_t()
        driver("cuMemGetAllocationGranularity", ctypes.byref(page),
               ctypes.byref(self._properties), 0)
        room = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        self._mapped = -(-room // page.value) * page.value
        self._reserved = self._mapped + 2 * page.value
        self._base, self._handle = ctypes.c_uint64(), ctypes.c_uint64()
        driver("cuMemAddressReserve", ctypes.byref(self._base), ctypes.c_size_t(self._reserved),
               ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        self._start = self._base.value + page.value
        try:
            driver("cuMemCreate", ctypes.byref(self._handle), ctypes.c_size_t(self._mapped),
                   ctypes.byref(self._properties), ctypes.c_uint64(0))
            driver("cuMemMap", ctypes.c_uint64(self._start), ctypes.c_size_t(self._mapped),
                   ctypes.c_size_t(0), self._handle, ctypes.c_uint64(0))
            access = _Access(location, 3)
            driver("cuMemSetAccess", ctypes.c_uint64(self._start), ctypes.c_size_t(self._mapped),
                   ctypes.byref(access), ctypes.c_size_t(1))
        except DriverError:
            self._release(mapped=False)
            raise
        self.whole = as_tensor(self._start, self._mapped)
        begin = self._mapped - room if guard else 0
        self.content = self.whole[begin:begin + size]
        self.edges = [self.whole[:begin], self.whole[begin + size:]]

    def free(self) -> None:
        """Gives the memory back."""
        self._release(mapped=True)

    def _release(self, mapped: bool) -> None:
        if mapped:
            self._driver("cuMemUnmap", ctypes.c_uint64(self._start),
                         ctypes.c_size_t(self._mapped))
        if self._handle.value:
            self._driver("cuMemRelease", self._handle)
        self._driver("cuMemAddressFree", self._base, ctypes.c_size_t(self._reserved))
