"""The lock on the GPU, between processes, on a file in the place of the device's node."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from evaluator_gpu.device import Device, address, asked
from kernel_evolve_worker.errors import WorkerError
from support import ROOT

# Those that a plain interpreter can load.
DRIVERS = [path.parent for path in ROOT.glob("build*/tests/replay/driver/libcuda.so.1")
           if not any(mark in path.read_bytes() for mark in (b"__asan_init", b"__tsan_init"))]

# Holds the lock until its stdin ends.
_HOLDER = """
import sys
from evaluator_gpu.device import Device
device = Device()
device.node = sys.argv[1]
with device.held(60.0, print, alone=sys.argv[2] == "alone"):
    print("held", flush=True)
    sys.stdin.read()
"""


class Addresses(unittest.TestCase):
    def asked(self, environment: dict[str, str]) -> str:
        """What a process without CUDA, or with the driver of the tests, is told."""
        done = subprocess.run(
            [sys.executable, "-c", "from evaluator_gpu.device import address, asked\n"
             "print(asked(), address(), asked())"],
            env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    @unittest.skipUnless(DRIVERS, "the driver for tests is not built")
    def test_of_a_driver(self) -> None:
        told = self.asked({"LD_LIBRARY_PATH": str(DRIVERS[0])})
        self.assertEqual(told, "False 0000:01:00.0 True")

    def test_without_one(self) -> None:
        with mock.patch.object(ctypes, "CDLL", side_effect=OSError):
            self.assertEqual(address(), "")
        self.assertFalse(asked())


class Locks(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.device = Device()
        self.device.node = str(Path(folder.name) / "node")
        Path(self.device.node).touch()

    def holder(self, kind: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", _HOLDER, self.device.node, kind],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None and process.stdout is not None
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "held\n")
        return process

    def free(self, *, alone: bool) -> bool:
        try:
            with self.device.held(0.0, lambda text: None, alone=alone):
                return True
        except WorkerError as error:
            self.assertEqual(error.error_class, "unavailable")
            self.assertIn("in use by another measurement", str(error))
            return False

    def test_a_measurement_keeps_all_others_out(self) -> None:
        self.holder("alone")
        self.assertFalse(self.free(alone=True))
        self.assertFalse(self.free(alone=False))

    def test_checks_share(self) -> None:
        self.holder("shared")
        self.assertTrue(self.free(alone=False))
        self.assertFalse(self.free(alone=True))

    def test_the_lock_ends_with_its_holder(self) -> None:
        process = self.holder("alone")
        process.kill()
        process.wait()
        with self.device.held(10.0, lambda text: None, alone=True) as waited:
            self.assertLess(waited, 10.0)

    def test_it_is_given_back(self) -> None:
        for alone in (True, False, True):
            self.assertTrue(self.free(alone=alone))
        with self.assertRaises(ZeroDivisionError), \
                self.device.held(0.0, lambda text: None, alone=True):
            raise ZeroDivisionError
        self.assertTrue(self.free(alone=True))

    def test_without_a_node_there_is_nothing_to_lock(self) -> None:
        self.device.node = "/nowhere/nvidia0"
        self.assertTrue(self.free(alone=True))


class Answers(unittest.TestCase):
    def test_without_nvml_nothing_is_claimed(self) -> None:
        device = Device("0000:ff:00.0")  # no such device, also where NVML is
        if device._nvml is None:
            self.assertEqual(device.clocks(), {})
            self.assertFalse(device.throttled())
            self.assertIsNone(device.others(own=1))


if __name__ == "__main__":
    unittest.main()
