"""Loads of a loop with dots whose elements repeat: each word of memory is loaded once.

Weights that are packed in words, several along one dimension, are mostly loaded with the word of
each weight: neighbours load the same word and shift it differently. The words alone are loaded, and
repeated in registers, where each thread owns some of the repeated elements anyway. Copies to shared
memory then have the size of what is in memory. A join of a value with itself, of which interleaved
copies are made, repeats it likewise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import attrs

from tileir.analysis.alignment import alignment
from tileir.analysis.uses import arguments, definitions
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.shape_ops import dimension_of_operand, is_layout_only
from tileir.effects import Effects
from tileir.field import SEVERAL, FieldKind
from tileir.ir import Function
from tileir.layout import Vector
from tileir.op import Op
from tileir.ops.arith import Add, Mul, Overflow
from tileir.ops.division import SDiv, UDiv
from tileir.ops.memory import Load
from tileir.ops.rearrange import Join
from tileir.ops.shape import Broadcast, MakeRange, Reshape
from tileir.passes.dce import dce
from tileir.types import Tile, shape_of
from tileir.values import Constant, Operand, Undef, Value


def load_once(function: Function, blocks: Iterable[str]) -> Function:
    """`function` with a load of one of each group of equal elements, which are then repeated, in
    place of each load in `blocks` whose addresses and masks are equal in groups of neighbours."""
    widths, emitter = AccessWidths(function), _StridedSlices(function)
    replaced: dict[Op, list[Op]] = {}
    for label in blocks:
        for op in function.blocks[label].ops:
            if isinstance(op, Load):
                replaced[op] = _with_one_of_each(op, widths, emitter)
            elif isinstance(op, Join) and op.low is op.high and isinstance(op.low.type, Tile):
                replaced[op] = _repeat(op.low, op.results[0], len(shape_of(op.low.type)), 2)
    if not any(replaced.values()):
        return function

    def rewritten(op: Op) -> list[Op]:
        return [*(replaced.get(op) or (op,)), *emitter.after.get(op, ())]

    changed = {
        label: attrs.evolve(block, ops=tuple(x for op in block.ops for x in rewritten(op)))
        for label, block in function.blocks.items()
    }
    return dce(function.with_blocks(changed))


def _with_one_of_each(op: Load, widths: AccessWidths, emitter: _StridedSlices) -> list[Op]:
    """The ops in place of a load; none where it has no equal elements, or may not be changed."""
    kind = op.results[0].type
    if not isinstance(kind, Tile) or op.volatile or op.predicate is not None:
        return []
    if op.other is not None and not isinstance(op.other, Constant):
        return []
    facts = [widths.facts.of(v) for v in (op.pointer, op.mask) if v is not None]
    for dim, extent in enumerate(kind.shape):
        count = extent
        for fact in facts:
            count = _common_power(count, fact.constancy[dim])
        if count < _LEAST or (count == extent and len(kind.shape) == 1):
            continue
        parts = [
            emitter.slice_of(v, dim, count)
            for v in (op.pointer, op.mask, op.other)
            if v is not None
        ]
        if None in parts:
            continue
        operands = iter(parts)
        names = [n for n in ("pointer", "mask", "other") if getattr(op, n) is not None]
        load = op.evolve(**{name: next(operands) for name in names}, results=())
        return [load, *_repeat(load.results[0], op.results[0], dim, count)]
    return []


_LEAST = 2
"""The fewest equal neighbours of which only one is loaded."""


def _common_power(a: int, b: int) -> int:
    """The largest power of two that divides both."""
    both = a | b
    return both & -both


def _repeat(value: Operand, result: Value, dim: int, count: int) -> list[Op]:
    """The ops that repeat each element of `value` along `dim`, so that `result` has `count`
    neighbours for it; a new dimension where `value` has none."""
    kind, whole = cast(Tile, value.type), cast(Tile, result.type)
    is_new = dim == len(kind.shape)
    if not is_new and kind.shape[dim] == 1:
        return [Broadcast(value, whole, results=(result,))]
    at = dim if is_new else dim + 1
    single = Reshape(value, Tile(kind.element, (*kind.shape[:at], 1, *kind.shape[at:])))
    wide = Tile(kind.element, (*kind.shape[:at], count, *kind.shape[at:]))
    if is_new:
        return [single, Broadcast(single.result, wide, results=(result,))]
    spread = Broadcast(single.result, wide)
    return [single, spread, Reshape(spread.result, whole, results=(result,))]


@attrs.define(eq=False, repr=False)
class _StridedSlices:
    """Emits tiles of every nth element along a dimension of tiles that are computed of ranges and
    scalars. `after` are the emitted ops, by the op that computes the whole tile."""

    function: Function
    after: dict[Op, list[Op]] = attrs.field(factory=dict)
    _slices: dict[tuple[Value, int, int], Operand | None] = attrs.field(factory=dict)

    def slice_of(self, operand: Operand, dim: int, every: int) -> Operand | None:
        """Elements 0, `every`, 2 `every`, ... of `operand` along `dim`; None where it depends on
        more than arithmetic."""
        if not isinstance(operand.type, Tile):
            return operand
        kind = _fewer(operand.type, dim, every)
        if isinstance(operand, Constant):
            return Constant(kind, operand.bits)
        if isinstance(operand, Undef):
            return Undef(kind)
        key = operand, dim, every
        if key not in self._slices:
            op = definitions(self.function).get(operand)
            self._slices[key] = None if op is None else self._slice_of(op, operand, *key[1:])
        return self._slices[key]

    def _slice_of(self, op: Op, operand: Value, dim: int, every: int) -> Operand | None:
        if op.predicate is not None or op.effects & ~Effects.TRAP:
            return None
        kind = _fewer(cast(Tile, operand.type), dim, every)
        if isinstance(op, MakeRange):
            return self._range(op, kind, every)
        if isinstance(op, (SDiv, UDiv)) and self._divides(op, dim, every):
            return self._quotients(op, kind, dim, every)
        if not op.elementwise and not is_layout_only(op):
            return None
        along = dim if op.elementwise else dimension_of_operand(op, dim)
        parts = [x if along is None else self.slice_of(x, along, every) for x in op.inputs]
        if None in parts or op.fields(FieldKind.OPTIONAL, *SEVERAL):
            return None
        operands = iter(parts)
        changes = op.map_fields(lambda _: next(operands), lambda t: _fewer(t, dim, every))
        part = self._emit(op, op.evolve(**changes, results=()))
        return part.results[op.results.index(operand)]

    def _range(self, op: MakeRange, kind: Tile, every: int) -> Operand:
        element = cast(Any, kind.element)
        start = Constant(kind, op.start & ((1 << element.bits) - 1))
        if kind.size == 1:
            return start
        steps = self._steps(op, kind, 0, every)
        return self._emit(op, Add(steps, start, location=op.location)).results[0]

    def _steps(self, op: Op, kind: Tile, dim: int, step: int) -> Value:
        """0, `step`, 2 `step`, ... along `dim` of a tile of `kind`."""
        line = Tile(kind.element, (kind.shape[dim],))
        value = self._emit(op, MakeRange(line, location=op.location)).results[0]
        if step > 1:
            scaled = Mul(value, Constant(line, step), location=op.location)
            value = self._emit(op, scaled).results[0]
        if len(kind.shape) > 1:
            row = Tile(kind.element, tuple(n if d == dim else 1 for d, n in enumerate(kind.shape)))
            value = self._emit(op, Reshape(value, row, location=op.location)).results[0]
            value = self._emit(op, Broadcast(value, kind, location=op.location)).results[0]
        return value

    def _divides(self, op: SDiv | UDiv, dim: int, every: int) -> bool:
        """Whether every nth dividend along `dim` is a multiple of the divisor, from a multiple on:
        their quotients have one distance."""
        if not isinstance(op.rhs, Constant) or not op.rhs.bits or every % op.rhs.bits:
            return False
        facts, extent = alignment(self.function).of(op.lhs), cast(Tile, op.lhs.type).shape[dim]
        # Unsigned numbers do not pass 2^n within a group that starts at a multiple of its size.
        start = op.rhs.bits if isinstance(op, SDiv) else max(op.rhs.bits, extent)
        return facts.contiguity[dim] >= extent and facts.multiple[dim] % start == 0

    def _quotients(self, op: SDiv | UDiv, kind: Tile, dim: int, every: int) -> Operand | None:
        """The quotients as a sum of the first one and of steps, which are known to be neighbours
        where a step is 1."""
        extent = cast(Tile, op.lhs.type).shape[dim]
        dividend = self.slice_of(op.lhs, dim, extent)
        if dividend is None:
            return None
        divisor = Constant(dividend.type, cast(Constant, op.rhs).bits)
        first = self._emit(op, op.evolve(lhs=dividend, rhs=divisor, results=())).results[0]
        if kind.shape[dim] == 1:
            return first
        spread = self._emit(op, Broadcast(first, kind, location=op.location)).results[0]
        steps = self._steps(op, kind, dim, every // divisor.bits)
        total = Add(spread, steps, overflow=Overflow.NSW, location=op.location)
        return self._emit(op, total).results[0]

    def _emit(self, whole: Op, op: Op) -> Op:
        self.after.setdefault(whole, []).append(op)
        return op


def _fewer(kind: Any, dim: int, every: int) -> Tile:
    shape: Vector = kind.shape
    return Tile(kind.element, (*shape[:dim], shape[dim] // every, *shape[dim + 1 :]))


def repeats_words(function: Function, pointer: Operand, width: int) -> bool:
    """Whether loads of `width` neighbours may read the same words many times: from a table, or at
    quotients."""
    return (width == 1 and _is_looked_up(function, pointer)) or _may_repeat(function, pointer)


def _may_repeat(function: Function, pointer: Operand) -> bool:
    """Whether elements have addresses at quotients of indices by an unknown size, as when each word
    of packed weights is loaded for every weight in it. Threads that load the same word read it from
    the L1 cache; asynchronous copies would repeat it in shared memory."""
    origin, passed = definitions(function), arguments(function)
    waiting, seen = [pointer], set[Operand]()
    while waiting:
        value = waiting.pop()
        if value in seen or not isinstance(value, Value) or not isinstance(value.type, Tile):
            continue
        seen.add(value)
        op = origin.get(value)
        if op is None:
            waiting += passed.get(value, ())
        elif isinstance(op, (SDiv, UDiv)) and not isinstance(op.rhs, Constant):
            return True
        elif not isinstance(op, Load):
            waiting += op.inputs
    return False


def _is_looked_up(function: Function, pointer: Operand) -> bool:
    """Whether each element has an address that depends on a loaded value, as in a table lookup: the
    words of weights are copied ahead, and the table is in the L1 cache."""
    origin, waiting, seen = definitions(function), [pointer], set[Operand]()
    while waiting:
        value = waiting.pop()
        op = origin.get(value) if isinstance(value, Value) else None
        if op is None or value in seen or shape_of(value.type) != shape_of(pointer.type):
            continue
        seen.add(value)
        if isinstance(op, Load):
            return True
        if op.elementwise:
            waiting += op.inputs
    return False
