"""Machine code comes from the candidate's process: it is read, or refused with one sentence."""

from __future__ import annotations

import random
import struct
import unittest

from evaluator_gpu.elf import Image, NotAllowed
from support import cubin_of, tape_of, texts


def header_of(data: bytes, name: bytes) -> int:
    """Where the header of the section called `name` lies."""
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    table, = struct.unpack_from("<Q", data, offset + names * size + 24)
    for number in range(count):
        at = offset + number * size
        start = table + struct.unpack_from("<I", data, at)[0]
        if data[start:data.index(b"\0", start)] == name:
            return at
    raise AssertionError(name)


def changed(data: bytes, at: int, form: str, value: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(form, out, at, value)
    return bytes(out)


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.data = cubin_of(tape_of())

    def refused(self, data: bytes, sentence: str, name: str = "scale") -> None:
        with self.assertRaises(NotAllowed) as caught:
            Image(data).kernel(name)
        self.assertIn(sentence, str(caught.exception))

    def test_a_kernel_and_its_parameters(self) -> None:
        image = Image(self.data)
        self.assertEqual(image.kernel("scale")[:3], [8, 8, 4])
        self.assertFalse(image.lasting)
        self.refused(self.data, "without that kernel", "other")

    def test_other_files(self) -> None:
        self.refused(b"", "no 64-bit ELF file")
        self.refused(b"#!/bin/sh\n" * 20, "no 64-bit ELF file")
        self.refused(changed(self.data, 4, "<B", 1), "no 64-bit ELF file")
        self.refused(changed(self.data, 18, "<H", 62), "another device")
        self.refused(changed(self.data, 60, "<H", 0), "without names")
        self.refused(changed(self.data, 62, "<H", 60000), "without names")

    def test_headers_far_outside(self) -> None:
        for value in (1 << 20, 1 << 63, (1 << 64) - 1):
            self.refused(changed(self.data, 40, "<Q", value), "cut off")

    def test_cut_anywhere(self) -> None:
        offset, = struct.unpack_from("<Q", self.data, 40)
        size, count = struct.unpack_from("<HH", self.data, 58)
        # What follows the headers is for the driver, which refuses it with an error of its own.
        for length in range(0, offset + size * (count - 1), 61):
            with self.subTest(length=length), self.assertRaises(NotAllowed):
                Image(self.data[:length]).kernel("scale")

    def test_flipped_anywhere(self) -> None:
        chooser = random.Random(5)
        headers, = struct.unpack_from("<Q", self.data, 40)
        for number in range(4000):
            data = bytearray(self.data)
            # Half of them where the structure is.
            low = headers if number % 2 else 0
            for _ in range(chooser.choice((1, 1, 1, 8))):
                data[chooser.randrange(low, len(data))] = chooser.randrange(256)
            try:
                sizes = Image(bytes(data)).kernel("scale")
            except NotAllowed as error:
                self.assertNotIn("\n", str(error))
            else:
                self.assertTrue(all(isinstance(n, int) and 0 <= n < 1 << 14 for n in sizes))

    def test_two_sections_of_one_name(self) -> None:
        note = header_of(self.data, b".nv.compat")
        text, = struct.unpack_from("<I", self.data, header_of(self.data, b".text.scale"))
        self.refused(changed(self.data, note, "<I", text), "two sections of one name")

    def test_a_further_kernel(self) -> None:
        data = self.data
        # Another section gets a name that starts like a kernel's.
        offset, = struct.unpack_from("<Q", data, 40)
        size, _, names = struct.unpack_from("<HHH", data, 58)
        table, = struct.unpack_from("<Q", data, offset + names * size + 24)
        place = data.index(b".nv.compat\0", table)
        data = data[:place] + b".text.more" + data[place + 10:]
        self.refused(data, "further kernels")

    def test_parameters_that_cannot_be_read(self) -> None:
        at = header_of(self.data, b".nv.info.scale")
        offset, = struct.unpack_from("<Q", self.data, at + 24)
        place = self.data.index(b"\x04\x17", offset)
        # The ordinal of the first one found becomes 9.
        self.refused(changed(self.data, place + 4 + 4, "<H", 9), "parameters can't be read")


class Lasting(unittest.TestCase):
    """Modules whose variables outlive a launch are loaded anew."""

    def test_a_variable_in_any_section_that_may_be_written(self) -> None:
        data = cubin_of(tape_of())
        at = header_of(data, b".nv.compat")
        self.assertTrue(Image(changed(data, at + 8, "<Q", 3)).lasting)
        self.assertFalse(Image(changed(data, at + 8, "<Q", 2)).lasting)

    def test_shared_memory_does_not_last(self) -> None:
        kernel = texts.SCALE.replace(
            "tl.load(x + i, mask=i < count) * 2",
            "tl.sum(tl.reshape(tl.load(x + i, mask=i < count), (8, 8)), axis=0)[None, :] + "
            "tl.reshape(tl.load(x + i, mask=i < count), (8, 8))").replace(
            "tl.store(out + i,", "tl.store(out + tl.reshape(i, (8, 8)),").replace(
            "mask=i < count)\n", "mask=tl.reshape(i, (8, 8)) < count)\n")
        self.assertFalse(Image(cubin_of(tape_of(kernel=kernel))).lasting)

    def test_what_is_printed_lasts(self) -> None:
        kernel = texts.SCALE.replace("    tl.store", "    tl.device_print('i', i)\n    tl.store")
        self.assertTrue(Image(cubin_of(tape_of(kernel=kernel))).lasting)


if __name__ == "__main__":
    unittest.main()
