"""Instructions of sm_90 as machine code, and an ELF file with them."""

import struct


def load(scoreboard=0, width=6, into=8, address=2):
    """LDG of 128 bits (width 4: of 32)."""
    return struct.pack("<2Q", 0x981 | into << 16 | address << 24, width << 9 | scoreboard << 46)


def wide(into, multiplier, base=4):
    """IMAD.WIDE: the registers `into` and the next are `base` + `multiplier` * constant."""
    return struct.pack("<2Q", 0x825 | 7 << 12 | into << 16 | multiplier << 24, base)


def use(scoreboard=0):
    """An instruction that waits for a scoreboard."""
    return struct.pack("<2Q", 0x220, 1 << scoreboard << 52)


def branch(instructions):
    """BRA to what is so many instructions after the next one."""
    offset = instructions * 4
    low = 0x947 | (offset & 0xFF) << 16 | (offset >> 8 & (1 << 30) - 1) << 34
    return struct.pack("<2Q", low, offset >> 38 & 0x3FFFF)


STORED, LOADED = (struct.pack("<2Q", opcode, 0) for opcode in (0x387, 0x983))
"""STL and LDL: a spilled register."""

JUMP = struct.pack("<2Q", 0x947, 0)


def elf(text):
    """An ELF file with this machine code."""
    names = b"\0.text.k\0.data\0"
    body = bytes(64) + text + names
    sections = [(0, 64, 8), (1, 64, len(text)), (9, 64, 8), (0, 64 + len(text), len(names))]
    table = b"".join(
        struct.pack("<2I4Q", name, 1, 0, 0, at, length) + bytes(24) for name, at, length in sections
    )
    cubin = bytearray(body + table)
    struct.pack_into("<Q", cubin, 0x28, len(body))
    struct.pack_into("<3H", cubin, 0x3A, 64, len(sections), 3)
    return bytes(cubin)
