"""Properties of the machine code in a cubin: its size, and the loads that are in flight at once."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import attrs

INSTRUCTION_BYTES = 16
"""Bytes of an instruction (as for the other fields: Jia et al., "Dissecting the NVIDIA Volta GPU
Architecture via Microbenchmarking", 2018, which later processors follow)."""

_NOBITS = 8
"""The type of a section without bytes (System V ABI, "Sections")."""

_LOAD = 0x981
"""The opcode of LDG."""

_SPILLS = frozenset({0x387, 0x983})
"""The opcodes of STL and LDL, which access local memory."""

_JUMPS = frozenset({0x941, 0x947, 0x949, 0x94D})
"""Opcodes that end a basic block: BSYNC, BRA, BRX, EXIT."""

_BRANCH = 0x947
"""The opcode of BRA."""

_BARRIERS = frozenset({0x91D, 0xB1D})
"""Opcodes of DEPBAR and BAR, which loads do not pass."""

_WIDE = frozenset({0x225, 0x425, 0x825, 0xA25})
"""Opcodes of IMAD.WIDE, whose result is two registers: addresses, as a rule."""

_NOTHING = 0xFF
"""RZ, as a register that is written or read."""

_ALWAYS = 7
"""PT, as an instruction's predicate."""

_WORDS = {4: 1, 5: 2, 6: 4}
"""Registers that a load fills, by the field of its width."""

_COMPARED = 8
"""Cubins of one kernel that are compared with each other: what is known of them is kept."""


@attrs.frozen
class LoadsInFlight:
    """Loads from global memory that are in flight at once, in registers per thread that they fill.

    `block` is the maximum of what the loads of one basic block fill. `together` is `block` times
    the smallest share of a block's loads that are in flight at once, on average over its waits,
    over the blocks that load at least half of the maximum. Both are 0 if there are no loads.
    """

    together: int
    block: int

    @staticmethod
    @lru_cache(_COMPARED)
    def of(cubin: bytes) -> LoadsInFlight:
        """The loads in flight of the kernel in an ELF file. A load sets a scoreboard, and
        instructions state the scoreboards that they wait for."""
        runs, blocks = [0], [(0, set[int]())]
        scoreboards = 0
        for is_header, instructions in _basic_blocks(cubin):
            size, of_block = 0, set[int]()
            if is_header:  # only loads of the loop itself count as in flight
                scoreboards = 0
                runs.append(0)
            for low, high in instructions:
                if high >> 52 & 0x3F & scoreboards:
                    scoreboards = 0
                    runs.append(0)
                if low & 0xFFF == _LOAD:
                    words = _WORDS.get(high >> 9 & 7, 1)
                    scoreboards |= 1 << (high >> 46 & 7)
                    runs[-1] += words
                    size += words
                    of_block.add(len(runs) - 1)
            blocks.append((size, of_block))
        largest = max(size for size, _ in blocks)
        together = [
            -(-largest * sum(runs[i] for i in of_block) // (len(of_block) * size))
            for size, of_block in blocks
            if size and 2 * size >= largest
        ]
        return LoadsInFlight(min(together, default=0), largest)


@lru_cache(_COMPARED)
def independent_loads(cubin: bytes) -> int:
    """The maximum, over basic blocks, of the registers per thread that loads fill whose addresses
    do not depend on each other. No schedule can have more in flight. A load whose address depends
    on an earlier load of the block waits for it, and loads do not move across barriers."""
    return max((_independent_loads(block) for _, block in _basic_blocks(cubin)), default=0)


def _independent_loads(instructions: Sequence[tuple[int, int]]) -> int:
    """The registers that independent loads of one basic block fill."""
    most, depths, words = 0, dict[int, int](), dict[int, int]()
    for low, high in instructions:
        opcode, target, first = low & 0xFFF, low >> 16 & 0xFF, low >> 24 & 0xFF
        if opcode == _LOAD:
            depth = max(depths.get(first, 0), depths.get(first + 1, 0))
            filled = _WORDS.get(high >> 9 & 7, 1)
            words[depth] = words.get(depth, 0) + filled
            depths.update((target + i, depth + 1) for i in range(filled))
        elif opcode in _BARRIERS:
            most = max(most, *words.values()) if words else most
            depths, words = {}, {}
        elif target != _NOTHING:
            read = [first, high & 0xFF]
            # Otherwise the operand is a constant or absent.
            read += [low >> 32 & 0xFF] if opcode >> 9 == 1 else []
            depth = max(depths.get(register, 0) for register in read)
            for register in (target, target + 1) if opcode in _WIDE else (target,):
                if depth:
                    depths[register] = depth
                elif low >> 12 & 7 == _ALWAYS:
                    depths.pop(register, None)
    return max(most, *words.values()) if words else most


def spills_around_loops(cubin: bytes) -> bool:
    """Whether there are loops, the instructions between a branch and an earlier target of it, and
    none of them stores spilled registers or loads them."""
    has_loop = False
    for code in _code(cubin):
        instructions = _instructions(code)
        opcodes = [low & 0xFFF for low, _ in instructions]
        for n, instruction in enumerate(instructions):
            first = n + 1 + _displacement(*instruction) if opcodes[n] == _BRANCH else n
            if not _SPILLS.isdisjoint(opcodes[first:n]):
                return False
            has_loop |= first < n
    return has_loop


def code_bytes(cubin: bytes) -> int:
    """The size of the machine code in an ELF file, in bytes."""
    return sum(map(len, _code(cubin)))


def sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """The names and contents of the sections of a 64-bit ELF file. Contents are empty for a section
    that is not stored in the file (SHT_NOBITS)."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<3H", elf, 0x3A)
    headers = [struct.unpack_from("<2I4Q", elf, table + i * size) for i in range(count)]
    for name, kind, _, _, start, length in headers:
        begin = headers[names][4] + name
        text = elf[begin : elf.index(b"\0", begin)].decode()
        yield text, b"" if kind == _NOBITS else elf[start : start + length]


def _basic_blocks(cubin: bytes) -> Iterator[tuple[bool, list[tuple[int, int]]]]:
    """For each basic block in order, whether a later instruction branches to it, and its
    instructions. A block ends at a jump, or before the target of a branch."""
    for code in _code(cubin):
        instructions = _instructions(code)
        branches = [n for n, (low, _) in enumerate(instructions) if low & 0xFFF == _BRANCH]
        targets = {n + 1 + _displacement(*instructions[n]): n for n in branches}
        starts = {n + 1 for n, (low, _) in enumerate(instructions) if low & 0xFFF in _JUMPS}
        inside = sorted(n for n in starts | targets.keys() if 0 < n < len(instructions))
        for begin, end in pairwise((0, *inside, len(instructions))):
            yield targets.get(begin, -1) >= begin, instructions[begin:end]


def _instructions(code: bytes) -> list[tuple[int, int]]:
    """The instructions of machine code, each as its low and its high 8 bytes."""
    whole = len(code) - len(code) % INSTRUCTION_BYTES
    return list(struct.iter_unpack("<2Q", code[:whole]))


def _displacement(low: int, high: int) -> int:
    """The number of instructions from the one after a BRA to its target. The offset, a multiple of
    4 bytes, is encoded with its low 8 bits separate from the other 48."""
    others = (low >> 34) | (high & 0x3FFFF) << 30
    offset = (others - ((others >> 47) << 48)) << 8 | low >> 16 & 0xFF
    return offset * 4 // INSTRUCTION_BYTES


def _code(cubin: bytes) -> Iterator[bytes]:
    return (body for name, body in sections(cubin) if name.startswith(".text."))
