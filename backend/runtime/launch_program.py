"""Launch programs, which a launcher in machine code executes between packing the arguments of a
call and calling `cuLaunchKernel`. They test whether this version of a kernel is the one to launch,
and compute tensor maps and the grid.

    program = LaunchProgram((Planned(host, blocks),))
    code = assemble(program, ("f16*", "f16*", "f16*", "i32"))    None: launch through Python

`tileir.backend.runtime.launcher.program` executes the code.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeAlias

import attrs

from tileir.backend.codegen.tma_boxes import box_of
from tileir.backend.runtime.launcher.program import MAPS, ROWS
from tileir.backend.runtime.launcher.structures import (
    DIMENSIONS,
    InstructionStruct,
    TensorMapStruct,
)
from tileir.backend.tma.host_expressions import HostOp, Operand
from tileir.backend.tma.host_plan import HostPlan, MapRecipe

ELEMENT_TYPES: Mapping[str, int] = {
    "i8": 0, "f8e4m3": 0, "f8e5m2": 0, "i16": 1, "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 8,
    "bf16": 9,
}  # fmt: skip
"""CUtensorMapDataType of an element (cuda.h)."""

_ROW = 256
"""Bytes of a row of a table: 16 words, the map."""


@attrs.frozen
class Refused:
    """The condition that the host plan of another version rejects the arguments. `units` are their
    alignments (`HostPlan.non_tma_alignments`)."""

    host: HostPlan
    units: tuple[int, ...] | None


@attrs.frozen
class SameGridAndWords:
    """The condition that the grid, and the words at these positions, are equal."""

    grid: tuple[int, int, int]
    words: tuple[tuple[int, int], ...]


@attrs.frozen
class OverlapCheck:
    """The condition that no pair of the given memory ranges overlaps, or, if not `disjoint`, that
    some pair overlaps. The address and the size of each range are words after those of the kernel.
    """

    pairs: tuple[tuple[int, int], ...]
    disjoint: bool


@attrs.frozen
class Planned:
    """The condition that the host plan accepts the arguments. `blocks` is the number of blocks that
    run at once in a persistent kernel."""

    host: HostPlan
    blocks: int = 1


Condition: TypeAlias = Refused | SameGridAndWords | OverlapCheck | Planned


@attrs.frozen
class LaunchProgram:
    """The conditions of a launch, in order. The grid of blocks is the grid of instances, after
    changes by a plan, times `cluster`."""

    conditions: tuple[Condition, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)


@attrs.frozen(eq=False)
class ProgramCode:
    """A program in the form that machine code executes: the address of its instructions, the number
    of registers, the number of words that it appends to those of the arguments, and the number of
    tensor maps. `owned` keeps it alive."""

    address: int
    registers: int
    extents: int
    maps: int
    owned: tuple[Any, ...]


class Opcode(IntEnum):
    """The opcodes. The operands `a` and `b` are registers unless stated otherwise."""

    END = 0
    """Launch."""
    CONSTANT = 1
    WORD = 2
    """Word `a`."""
    EXTENT = 3
    """Extent `a` of the grid."""
    ADD = 4
    """Signed integers of 64 - `immediate` bits, as in all opcodes up to `DIVIDE_CEIL`."""
    SUB = 5
    MUL = 6
    DIVIDE = 7
    DIVIDE_FLOOR = 8
    DIVIDE_CEIL = 9
    AND = 10
    OR = 11
    XOR = 12
    MIN = 13
    MAX = 14
    EQ = 15
    NE = 16
    LT = 17
    LE = 18
    ULT = 19
    ULE = 20
    MOVE = 21
    """`a` + `b` * `immediate`."""
    SELECT = 22
    """`b` where `a` is not 0, else register `immediate`."""
    GUARD = 23
    """Fail where `a` is 0."""
    REQUIRE = 24
    """The entry does not apply where something failed."""
    MAP = 25
    """Make tensor map number `a` of the recipe at `immediate`; the entry does not apply where there
    is none."""
    UNIT = 26
    """The least row alignment of the tensors that no map describes; fail where there is no rule for
    them: `b` is 0, or an extent is less than 1."""
    EXPECT = 27
    """The entry applies only where `a` is `immediate`."""
    REFUSE = 28
    """The entry applies only where something failed; forget it."""
    SET_GRID = 29
    SET_WORD = 30


@lru_cache(256)
def assemble(program: LaunchProgram, words: tuple[str, ...]) -> ProgramCode | None:
    """The code of `program` for a kernel that takes words of the types `words`; None if it exceeds
    the capacity of the machine code. Equal programs share their tables of tensor maps."""
    plans = [c.host for c in program.conditions if isinstance(c, (Refused, Planned))]
    recipes = [recipe for plan in plans for recipe in plan.maps]
    if any(len(r.block) > DIMENSIONS for r in recipes):
        return None
    if max((len(p.maps) for p in plans), default=0) > MAPS:
        return None
    return _Assembly(words).code(program)


@attrs.define(eq=False)
class _Assembly:
    """The instructions of a program, as they are appended."""

    words: tuple[str, ...]
    ops: list[InstructionStruct] = attrs.field(factory=list)
    registers: int = 1
    constants: dict[int, int] = attrs.field(factory=dict)
    owned: list[Any] = attrs.field(factory=list)
    extents: int = 0
    maps: int = 0
    positions: int = 3
    """One more than the largest position of a word, or axis of a grid."""

    def code(self, program: LaunchProgram) -> ProgramCode:
        for condition in program.conditions:
            match condition:
                case Refused():
                    self._refusal(condition)
                case SameGridAndWords():
                    self._equality(condition)
                case OverlapCheck():
                    self._ranges(condition)
                case Planned():
                    self._plan(condition)
        for axis, blocks in enumerate(program.cluster):
            if blocks > 1:
                self.set_grid(axis, self.op(Opcode.MUL, self.extent(axis), self.constant(blocks)))
        self.effect(Opcode.END)
        ops = (InstructionStruct * len(self.ops))(*self.ops)
        # The executor also reads operands that are not registers.
        registers = max(self.registers, self.positions) + 1
        return ProgramCode(
            ctypes.addressof(ops), registers, self.extents, self.maps, (ops, *self.owned)
        )

    # Instructions -----------------------------------------------------------------------------

    def op(self, code: Opcode, a: int = 0, b: int = 0, immediate: int = 0) -> int:
        """Append an instruction; its result register."""
        self.registers += 1
        self.ops.append(InstructionStruct(code, self.registers - 1, a, b, immediate))
        return self.registers - 1

    def effect(
        self, code: Opcode, a: int = 0, b: int = 0, immediate: int = 0, result: int = 0
    ) -> None:
        """Append an instruction without a result register of its own."""
        self.ops.append(InstructionStruct(code, result, a, b, immediate))

    def constant(self, number: int) -> int:
        """The register that contains a number."""
        if number not in self.constants:
            self.constants[number] = self.op(Opcode.CONSTANT, immediate=_as_signed(number))
        return self.constants[number]

    def whole_word(self, position: int) -> int:
        """The register that contains a word of 64 bits."""
        self.positions = max(self.positions, position + 1)
        return self.op(Opcode.WORD, position)

    def extent(self, axis: int) -> int:
        """The register that contains an extent of the grid."""
        return self.op(Opcode.EXTENT, axis)

    def set_grid(self, axis: int, register: int) -> None:
        """Replace an extent of the grid."""
        self.effect(Opcode.SET_GRID, register, result=axis)

    def word(self, position: int) -> int:
        """The register that contains an argument as host plans take it: signed, and an i1 as 0 or
        1."""
        kind = self.words[position]
        bits = int(kind[1:]) if kind[0] == "i" and kind[1:].isdigit() else 64
        register = self.whole_word(position)
        if bits == 1:
            return self.op(Opcode.AND, register, self.constant(1))
        return self.op(Opcode.ADD, register, self.constant(0), 64 - bits) if bits < 64 else register

    # Conditions -------------------------------------------------------------------------------

    def _equality(self, condition: SameGridAndWords) -> None:
        for axis, extent in enumerate(condition.grid):
            self.effect(Opcode.EXPECT, self.extent(axis), immediate=extent)
        for position, word in condition.words:
            number = _as_kind(word, self.words[position])
            self.effect(Opcode.EXPECT, self.word(position), immediate=number)

    def _ranges(self, condition: OverlapCheck) -> None:
        positions = dict.fromkeys(position for pair in condition.pairs for position in pair)
        begin = {position: self.whole_word(position) for position in positions}
        end = {p: self.op(Opcode.ADD, begin[p], self.whole_word(p + 1)) for p in positions}
        every = self.constant(1)
        for a, b in condition.pairs:
            orders = self.op(Opcode.ULE, end[a], begin[b]), self.op(Opcode.ULE, end[b], begin[a])
            every = self.op(Opcode.AND, every, self.op(Opcode.OR, *orders))
        self.effect(Opcode.EXPECT, every, immediate=int(condition.disjoint))

    def _refusal(self, condition: Refused) -> None:
        """Append the test of a `Refused` condition. Extents of the grid count as 1, as in
        `HostPlan.non_tma_alignments`."""
        host, units = condition.host, condition.units
        registers = self._steps(host, [self.constant(1)] * 3)
        if units is not None:
            self.effect(Opcode.REQUIRE)
        alignments = [self.op(Opcode.CONSTANT) for _ in range(host.arguments)]
        for recipe in host.maps:
            place = self._map(recipe, registers, table=False)
            owned = recipe.parameter >= 0
            result = alignments[recipe.parameter] if owned else 0
            self.effect(Opcode.UNIT, 0, int(owned), place, result)
        if units is None:
            self.effect(Opcode.REFUSE)
            return
        self.effect(Opcode.REQUIRE)
        for register, unit in zip(alignments, units, strict=True):
            self.effect(Opcode.EXPECT, register, immediate=unit)

    def _plan(self, condition: Planned) -> None:
        host = condition.host
        extents = [self.extent(axis) for axis in range(3)] if host.persistent else []
        registers = self._steps(host, extents)
        self.effect(Opcode.REQUIRE)
        for number, recipe in enumerate(host.maps):
            self.effect(Opcode.MAP, number, immediate=self._map(recipe, registers, table=True))
        self.maps = len(host.maps)
        if not host.persistent:
            return
        for position, register in enumerate(extents, len(self.words)):
            self.effect(Opcode.SET_WORD, register, result=position)
        self.extents = 3
        x, y, z = extents
        instances = self.op(Opcode.MUL, self.op(Opcode.MUL, x, y), z)
        batches = self.op(Opcode.DIVIDE_CEIL, instances, self.constant(host.persistent))
        self.set_grid(0, self.op(Opcode.MIN, batches, self.constant(condition.blocks)))
        self.set_grid(1, self.constant(1))
        self.set_grid(2, self.constant(1))

    def _steps(self, host: HostPlan, extents: Sequence[int]) -> dict[str, int]:
        """The registers of the names of a plan, after the test of its guards."""
        extents_read = host.arguments - len(self.words)
        registers = {f"a{len(self.words) + i}": r for i, r in enumerate(extents[:extents_read])}
        for operand in _argument_names(host):
            if operand[0] == "a" and operand not in registers:
                registers[operand] = self.word(int(operand[1:]))
        for index, step in enumerate(host.steps):
            operands = [self._operand(x, registers) for x in step.operands]
            registers[f"v{index}"] = self._step(step, operands)
        for guard in host.guards:
            self.effect(Opcode.GUARD, self._operand(guard, registers))
        return registers

    def _operand(self, operand: Operand, registers: Mapping[str, int]) -> int:
        return self.constant(operand) if isinstance(operand, int) else registers[operand]

    def _step(self, step: HostOp, operands: Sequence[int]) -> int:
        """The register of the result of a step, computed as by its `text`."""
        name, (a, *later) = step.mnemonic, operands
        b = later[0] if later else 0
        unused = 64 - step.bits if step.bits > 1 else 0
        match name:
            case "icmp":
                return self._comparison(step, a, b)
            case "getelementptr":
                return self.op(Opcode.MOVE, a, b, step.size)
            case "select":
                return self.op(Opcode.SELECT, a, b, later[1])
            case "sext":
                return self.op(Opcode.SUB, self.constant(0), a) if step.source == 1 else a
            case "zext":
                return self._as_unsigned(a, step.source)
            case "and" | "or" | "xor" | "smin" | "smax":
                return self.op(_PLAIN[name], a, b)
            case "neg":
                result = self.op(Opcode.SUB, self.constant(0), a, unused)
            case "trunc":
                result = self.op(Opcode.ADD, a, self.constant(0), unused)
            case _:
                code = _DIVISIONS.get(step.word, Opcode.DIVIDE) if name == "sdiv" else _PLAIN[name]
                result = self.op(code, a, b, unused)
        return result if step.bits > 1 else self.op(Opcode.AND, result, self.constant(1))

    def _comparison(self, step: HostOp, a: int, b: int) -> int:
        word, negated = step.word.removeprefix("not "), step.word.startswith("not ")
        unsigned, relation = word[0] == "u", word[-2:]
        if unsigned:
            a, b = self._as_unsigned(a, step.source), self._as_unsigned(b, step.source)
        if relation in ("eq", "ne"):
            return self.op(Opcode.EQ if (relation == "eq") is not negated else Opcode.NE, a, b)
        if negated:
            relation = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}[relation]
        if relation in ("gt", "ge"):
            a, b, relation = b, a, {"gt": "lt", "ge": "le"}[relation]
        less = relation == "lt"
        if unsigned:
            return self.op(Opcode.ULT if less else Opcode.ULE, a, b)
        return self.op(Opcode.LT if less else Opcode.LE, a, b)

    def _as_unsigned(self, register: int, bits: int) -> int:
        if bits >= 64:
            return register
        return self.op(Opcode.AND, register, self.constant((1 << bits) - 1))

    def _map(self, recipe: MapRecipe, registers: Mapping[str, int], *, table: bool) -> int:
        """The address of the structure of a recipe. It has a table of encoded maps if `table`."""
        rank = len(recipe.block)
        record = TensorMapStruct(
            base=self._operand(recipe.base, registers), rank=rank, size=recipe.size
        )
        record.extents[:rank] = [self._operand(n, registers) for n in recipe.extents]
        record.strides[:rank] = [self._operand(n, registers) for n in recipe.strides]
        if table:
            record.type, record.swizzle = ELEMENT_TYPES[recipe.element], recipe.swizzle
            record.fill = 0 if recipe.padding == "zero" else 1
            record.box[:rank] = box_of(recipe.block, recipe.size, recipe.swizzle)[::-1]
            memory, record.table = _table()
            self.owned.append(memory)
        self.owned.append(record)
        return ctypes.addressof(record)


_PLAIN = {
    "add": Opcode.ADD, "sub": Opcode.SUB, "mul": Opcode.MUL, "and": Opcode.AND, "or": Opcode.OR,
    "xor": Opcode.XOR, "smin": Opcode.MIN, "smax": Opcode.MAX,
}  # fmt: skip
_DIVISIONS = {"floor": Opcode.DIVIDE_FLOOR, "ceil": Opcode.DIVIDE_CEIL}


def _table() -> tuple[Any, int]:
    """A table of zeros, which no tensor map has as its words, and its address, a multiple of 64."""
    memory = (ctypes.c_uint8 * (ROWS * _ROW + 63))()
    return memory, ctypes.addressof(memory) + -ctypes.addressof(memory) % 64


def _argument_names(host: HostPlan) -> list[str]:
    """The names of the arguments to which a plan refers, each once."""
    operands = [x for s in host.steps for x in s.operands] + [*host.guards]
    operands += [x for m in host.maps for x in (m.base, *m.extents, *m.strides)]
    return list(dict.fromkeys(x for x in operands if isinstance(x, str) and x[0] == "a"))


def _as_signed(number: int) -> int:
    """The same 64 bits as a signed number."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _as_kind(word: int, kind: str) -> int:
    """A word as `_Assembly.word` converts one of type `kind`."""
    bits = int(kind[1:])
    if bits == 1:
        return word & 1
    return (word + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
