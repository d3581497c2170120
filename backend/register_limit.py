"""The register limit under which more blocks of a kernel are resident, where that costs no spills.

ptxas allocates as many registers as a thread may have without regard to what the next multiple of
blocks leaves it. A kernel of 512 threads that takes 69 registers has one resident block, and two
with 64, which hide each other's waits.
"""

from __future__ import annotations

import re
import struct

import attrs

from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions
from tileir.backend.assembler import Assembled
from tileir.backend.gpu_models import GpuModel
from tileir.backend.target import REGISTER_GRAIN
from tileir.ir import Function
from tileir.values import Operand, Value

_LEAST = 0.005
"""The least part of the time for which a kernel is assembled again."""

_FEWEST = 0.7
"""The part of the registers below which a limit spills, as a rule."""

_PADDING = 128
"""Bytes to a multiple of which ptxas pads code."""

_INSTANCE = frozenset({"program_id", "num_programs"})
"""Ops that tell which part of the work an instance does."""


@attrs.frozen
class RegisterLimit:
    """At most `registers` per thread, for which a kernel may grow by the part `gain`."""

    registers: int
    gain: float

    def of(self, ptx: str) -> str:
        """`ptx`, its kernel limited."""
        return re.sub(r"(?m)^(\.reqntid .*)$", rf"\1\n.maxnreg {self.registers}", ptx, count=1)

    def is_better(self, limited: Assembled, free: Assembled) -> bool:
        """Whether a kernel is faster with the limit than without: it spills nothing, and its code
        grows by less than what more resident blocks save."""
        grown = code_bytes(limited.cubin) - code_bytes(free.cubin) - _PADDING
        return not limited.spills and grown <= self.gain * code_bytes(free.cubin)


def limit_for_more_blocks(
    machine: GpuModel, warps: int, shared: int, code: Assembled
) -> RegisterLimit | None:
    """The limit under which another block of `warps` warps and `shared` bytes is resident than of
    `code`; None where registers do not bound the number of blocks, or where that gains little or
    takes far fewer registers than the code needs."""
    target = machine.target
    if code.spills or not code.registers:
        return None
    words = target.register_words(warps, code.registers)
    resident = target.resident_blocks(warps, words, shared)
    for more in (resident + 1, resident + 2, resident + 3, resident + 4):
        most = target.registers_per_processor // (more * warps * target.lanes)
        most = most // REGISTER_GRAIN * REGISTER_GRAIN
        if most < _FEWEST * code.registers:
            return None
        there = target.resident_blocks(warps, target.register_words(warps, most), shared)
        if there <= resident:
            return None
        gain = machine.gain_of_more_blocks(resident, there)
        if gain >= _LEAST:
            return RegisterLimit(most, gain)
    return None


def divides_its_loops(function: Function) -> bool:
    """Whether a loop of `function` is left depending on the instance: instances then divide the
    iterations between them, and a launch has as many as the device has multiprocessors. More
    resident blocks would gain nothing."""
    conditions = [
        function.blocks[label].terminator.inputs[0]
        for loop in loops(function).by_header.values()
        for label in loop.order
        if len(edges := function.blocks[label].successors) > 1
        and any(edge.label not in loop.order for edge in edges)
    ]
    return bool(conditions) and _depend_on_instance(conditions, function)


def _depend_on_instance(operands: list[Operand], function: Function) -> bool:
    """Whether arithmetic, through the values that loops carry, leads to an id of the instance."""
    defined, incoming = definitions(function), _incoming(function)
    pending, seen = list(operands), set[Operand]()
    while pending:
        value = pending.pop()
        if not isinstance(value, Value) or value in seen:
            continue
        seen.add(value)
        op = defined.get(value)
        if op is None:
            pending += incoming.get(value, ())
        elif op.mnemonic in _INSTANCE:
            return True
        elif op.elementwise:
            pending += op.operands
    return False


def _incoming(function: Function) -> dict[Value, list[Operand]]:
    """What each parameter of a block gets from the edges to it."""
    incoming: dict[Value, list[Operand]] = {}
    for block in function.blocks.values():
        for edge in block.successors:
            parameters = function.blocks[edge.label].parameters
            for parameter, argument in zip(parameters, edge.arguments, strict=True):
                incoming.setdefault(parameter, []).append(argument)
    return incoming


def code_bytes(cubin: bytes) -> int:
    """Bytes of the machine code in an ELF file: its sections `.text.*`."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<3H", cubin, 0x3A)
    headers = [struct.unpack_from("<2I4Q", cubin, table + i * size) for i in range(count)]
    strings = headers[names][4]
    return sum(header[5] for header in headers if cubin.startswith(b".text.", strings + header[0]))
