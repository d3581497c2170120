"""The work of one program instance: arithmetic, memory traffic and iterations, counted on the
program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from tileir.analysis.induction import trip_count
from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions
from tileir.effects import ACCESSES, Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.passes.fold import fold_op
from tileir.rewrite import Replace, Walk
from tileir.types import Pointer, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value

_UNKNOWN_TRIPS = 16
"""Assumed trip count of a loop whose iterations are unknown before it runs."""


@attrs.frozen
class WorkEstimate:
    """The work of an average program instance.

    - `dots`: operations of matmuls (two per multiply-add), by the bits of their operands; negative
      bits stand for f32 without tensor cores.
    - `arithmetic`: other operations on elements.
    - `read`, `written`: bytes of global memory.
    - `steps`: iterations of the loop that reads most.
    - `operand_bytes`: bytes of operands as wgmma reads them: A once, and B once for every 64 rows
      of A.
    """

    dots: Mapping[int, float]
    arithmetic: float
    read: float
    written: float
    steps: float
    operand_bytes: float = 0.0

    @property
    def operations(self) -> float:
        """The number of operations of matmuls."""
        return sum(self.dots.values())

    def divide_steps(self, blocks: int) -> WorkEstimate:
        """The work of one of `blocks` blocks that share the iterations."""
        if blocks == 1:
            return self
        return WorkEstimate(
            {bits: count / blocks for bits, count in self.dots.items()}, self.arithmetic / blocks,
            self.read / blocks, self.written / blocks, -(-self.steps // blocks),
            self.operand_bytes / blocks,
        )  # fmt: skip


def work_of(function: Function, grid: Sequence[int], numbers: Mapping[str, int]) -> WorkEstimate:
    """The work of the middle instance of `grid`. `numbers` are the kernel's integer arguments by
    name. A loop with an unknown number of iterations counts as 16 iterations."""
    trip_counts = _TripCounts(function, grid, numbers).by_block()
    dots: dict[int, float] = {}
    arithmetic, read, written, operand_bytes, steps = 0.0, 0.0, 0.0, 0.0, {1.0: 0.0}
    for label, block in function.blocks.items():
        times = trip_counts[label]
        for op in block.ops:
            if op.mnemonic in ("dot", "dot_scaled"):
                bits = _operand_bits(op)
                dots[bits] = dots.get(bits, 0.0) + times * _operations(op)
                operand_bytes += times * _operand_elements(op) * abs(bits) / 8
                continue
            moved = _bytes(op) * times
            if op.effects & Effects.READ:
                read += moved
                steps[times] = steps.get(times, 0.0) + moved
            if op.effects & Effects.WRITE:
                written += moved
            arithmetic += times * _elements(op)
    most = max(steps, key=lambda n: steps[n])
    return WorkEstimate(dots, arithmetic, read, written, most, operand_bytes)


def _operations(op: Any) -> float:
    *batch, m, n = shape_of(op.c.type)
    k = shape_of(op.a.type)[-1]
    total = 2.0 * m * n * k
    for extent in batch:
        total *= extent
    return total


def _operand_elements(op: Any) -> float:
    """The number of elements of both operands that wgmma reads; an instruction covers 64 rows of
    A."""
    m, n = shape_of(op.c.type)[-2:]
    k = shape_of(op.a.type)[-1]
    return float(m * k + -(-m // 64) * n * k)


def _operand_bits(op: Any) -> int:
    """The bits of an operand element; negative for f32 that is not rounded to TF32."""
    bits = getattr(element_of(op.a.type), "bits", 32)
    precision = getattr(getattr(op, "precision", None), "value", "")
    return -bits if bits == 32 and precision == "ieee" else bits


def _elements(op: Op) -> float:
    """The number of elements that `op` computes."""
    kinds = [r.type for r in op.results if isinstance(r.type, Tile)]
    return float(max((kind.size for kind in kinds), default=0)) if op.elementwise else 0.0


def _bytes(op: Op) -> float:
    """The number of bytes that an access through pointers moves."""
    if not op.effects & ACCESSES or not op.inputs:
        return 0.0
    kind: Any = op.inputs[0].type
    element = element_of(kind)
    if not isinstance(element, Pointer):
        return 0.0
    pointee: Any = element.pointee
    count = kind.size if isinstance(kind, Tile) else 1
    return float(count * max(1, getattr(pointee, "bits", 8) // 8))


@attrs.frozen
class _TripCounts:
    """The number of executions of each block in one instance, computed by evaluating scalars on the
    kernel's integer arguments."""

    function: Function
    grid: Sequence[int]
    numbers: Mapping[str, int]
    _constants: dict[Value, Constant | None] = attrs.field(init=False, factory=dict)

    def by_block(self) -> dict[str, float]:
        """The number of executions of every block: the trip counts of the loops around it,
        multiplied."""
        function, nest = self.function, loops(self.function)
        self._constants.update(self._parameters())
        counts: dict[str, float] = {}
        for header, loop in nest.by_header.items():
            outer = 1.0 if loop.parent is None else counts[loop.parent]
            counted = trip_count(function, loop)
            counts[header] = outer * (_UNKNOWN_TRIPS if counted is None else self._count(counted))
        around = {label: nest.around(label) for label in function.blocks}
        return {
            label: 1.0 if loop is None else counts[loop.header] for label, loop in around.items()
        }

    def _parameters(self) -> Iterator[tuple[Value, Constant]]:
        for parameter in self.function.parameters:
            number = self.numbers.get(str(parameter.name))
            kind: Any = parameter.type
            if number is not None and getattr(kind, "is_integer", False):
                yield parameter.value, Constant(kind, number & ((1 << kind.bits) - 1))

    def _count(self, counted: Any) -> float:
        """The trip count of a loop, which may depend on values known at launch."""
        if counted.count is not None:
            return max(1.0, float(counted.count))
        ends = (counted.of.start, counted.of.step, counted.bound)
        start, step, bound = (self._number(operand) for operand in ends)
        if start is None or step is None or bound is None or step == 0:
            return float(_UNKNOWN_TRIPS)
        inclusive = counted.relation.endswith("e") and counted.relation != "ne"
        distance = abs(bound - start) + inclusive
        return max(1.0, float(-(-distance // abs(step))))

    def _number(self, operand: Operand) -> int | None:
        value = self._value(operand)
        return None if value is None else int(value.value)

    def _value(self, operand: Operand) -> Constant | None:
        """The value of a scalar as a literal, if all its inputs are known."""
        if isinstance(operand, Constant):
            return operand
        if not isinstance(operand, Value):
            return None
        if operand not in self._constants:
            self._constants[operand] = None
            self._constants[operand] = self._compute(operand)
        return self._constants[operand]

    def _compute(self, value: Value) -> Constant | None:
        op: Any = definitions(self.function).get(value)
        if op is None or isinstance(value.type, Tile):
            return None
        if op.mnemonic in ("program_id", "num_programs"):
            extent = (*self.grid, 1, 1, 1)[op.axis]
            return Constant(value.type, extent // 2 if op.mnemonic == "program_id" else extent)
        env = {v: self._value(v) for v in op.inputs if isinstance(v, Value)}
        constants = {v: literal for v, literal in env.items() if literal is not None}
        if len(constants) < len(env):
            return None
        answer = fold_op(op.remap(constants), Walk(_same))
        if not isinstance(answer, Replace):
            return None
        at = next(i for i, result in enumerate(op.results) if result is value)
        computed = answer.values[at]
        return computed if isinstance(computed, Constant) else None


_same: Callable[[Op, Walk], Op] = lambda op, _: op  # noqa: E731
"""The rule that keeps every op."""
