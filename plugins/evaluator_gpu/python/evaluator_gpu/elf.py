"""Reads compiled kernels (cubins): which kernels and parameters they have, and what they may not.

A cubin is an ELF file. The process that compiled it also ran the candidate, so it may be anything.
Some have variables that outlive a launch: with them, a kernel could keep the last call's result and
hand it out again, so such a module is loaded anew before each sample.
"""

from __future__ import annotations

import hashlib
import re
import struct

MAX_BYTES = 64 << 20
_CUDA = 190  # e_machine
# Sections with variables that live as long as the module: by name, and whatever may be written.
_LASTING = (".nv.global", ".bss", ".data")
_WRITABLE = 1  # SHF_WRITE
_PER_LAUNCH = ".nv.shared."  # writable, and gone with the program
_DEBUG = re.compile(r"(\.rela?)?\.(debug|nv_debug)_")
_PARAMETER = 0x17  # EIATTR_KPARAM_INFO
_PARAMETER_45 = 0x45  # the same, of newer compilers
_SIZED = 0x04  # the attribute's value follows, led by its size


class NotAllowed(Exception):
    """The file is no kernel that may run; the text says what is wrong, without a full stop."""


class Image:
    """A cubin. lasting: whether it has variables. Raises NotAllowed where it isn't one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        if len(data) > MAX_BYTES or data[:4] != b"\x7fELF" or len(data) < 64 or data[4] != 2:
            raise NotAllowed("machine code that is no 64-bit ELF file")
        machine, = struct.unpack_from("<H", data, 18)
        offset, = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        if machine != _CUDA or size != 64:
            raise NotAllowed("machine code for another device")
        raw = [self._section(offset + i * size) for i in range(count)]
        if names >= len(raw):
            raise NotAllowed("machine code without names")
        table = self._content(raw[names])
        self.sections: dict[str, tuple[int, int, int, int, int]] = {}
        for section in raw[1:]:  # the first is nothing, by the format
            name = self._text(table, section[0])
            if name in self.sections:  # ours could be another one than the driver's
                raise NotAllowed("machine code with two sections of one name")
            self.sections[name] = section
        self.lasting = any(
            section[4] > 0 and not name.startswith(_PER_LAUNCH)
            and (name.startswith(_LASTING) or section[2] & _WRITABLE)
            for name, section in self.sections.items())

    def kernel(self, name: str) -> list[int]:
        """Sizes in bytes of the kernel's parameters, in order. Raises NotAllowed."""
        if f".text.{name}" not in self.sections:
            raise NotAllowed("machine code without that kernel")
        if sum(1 for section in self.sections if section.startswith(".text.")) != 1:
            raise NotAllowed("machine code with further kernels")
        info = self.sections.get(f".nv.info.{name}")
        found = self._parameters(self._content(info)) if info else {}
        if sorted(found) != list(range(len(found))):
            raise NotAllowed("machine code whose parameters can't be read")
        return [found[i] for i in range(len(found))]

    def digest(self) -> str:
        """What stands for all that is loaded: every section, but those for debuggers, in which the
        source's lines are."""
        found = hashlib.sha256(self._data[:24])  # kind of file, before the places of its parts
        for name, section in self.sections.items():
            if not _DEBUG.match(name):
                _, kind, flags, _, size = section
                found.update(repr((name, kind, flags, size)).encode())
                found.update(self._content(section))
        return found.hexdigest()

    def _section(self, at: int) -> tuple[int, int, int, int, int]:
        """(name, type, flags, offset, size)."""
        try:
            name, kind, flags, _, offset, size = struct.unpack_from("<IIQQQQ", self._data, at)
        except (struct.error, OverflowError):
            raise NotAllowed("machine code that is cut off") from None
        return name, kind, flags, offset, size

    def _content(self, section: tuple[int, int, int, int, int]) -> bytes:
        _, kind, _, offset, size = section
        if kind == 8:  # nothing in the file
            return b""
        if offset + size > len(self._data):
            raise NotAllowed("machine code that is cut off")
        return self._data[offset:offset + size]

    @staticmethod
    def _text(table: bytes, at: int) -> str:
        end = table.find(b"\0", at)
        return table[at:end if end >= 0 else None].decode("latin-1")

    @staticmethod
    def _parameters(info: bytes) -> dict[int, int]:
        found: dict[int, int] = {}
        at = 0
        while at + 4 <= len(info):
            form, attribute, value = struct.unpack_from("<BBH", info, at)
            at += 4
            if form != _SIZED:
                continue
            if attribute in (_PARAMETER, _PARAMETER_45) and value >= 12:
                _, ordinal, _, bits = struct.unpack_from("<IHHI", info, at)
                found[ordinal] = bits >> 18
            at += value
        return found
