"""What machine code says of itself: a cubin is an ELF file with sections of NVIDIA's (`cuobjdump
--dump-elf` shows them, CUDA Binary Utilities)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_SIZED, _REGISTERS = 4, 0x2F
"""The format of an attribute with its size, and EIATTR_REGCOUNT: a symbol and its registers."""


def registers(cubin: bytes) -> int:
    """The most registers that a function of `cubin` takes, a kernel those of what it calls; 0
    where it does not say."""
    return max((count for _, count in _counts(_section(cubin, b".nv.info"))), default=0)


def _section(cubin: bytes, name: bytes) -> bytes:
    """What a section holds; nothing where there is none (ELF-64 Object File Format)."""
    (start,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<3H", cubin, 58)
    headers = [struct.unpack_from("<2I4Q", cubin, start + i * size) for i in range(count)]
    texts = headers[names][4]
    for title, _, _, _, offset, length in headers:
        if cubin.startswith(name + b"\0", texts + title):
            return cubin[offset : offset + length]
    return b""


def _counts(attributes: bytes) -> Iterator[tuple[int, int]]:
    """Functions, as numbers of symbols, and their registers."""
    place = 0
    while place < len(attributes):
        form, which, size = struct.unpack_from("<BBH", attributes, place)
        place += 4
        if form == _SIZED:
            if which == _REGISTERS:
                yield struct.unpack_from("<2I", attributes, place)
            place += size
