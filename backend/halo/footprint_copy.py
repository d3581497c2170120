"""The load of a part of a footprint: addresses and masks by row and column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs

from tileir.analysis.polynomial import Polynomial
from tileir.backend.halo.footprint import Footprint
from tileir.backend.halo.footprint_masks import Condition, IndexBound, with_axes
from tileir.backend.halo.split_forms import scale
from tileir.backend.transforms.polynomial_emitter import PolynomialEmitter
from tileir.op import Op
from tileir.ops.arith import Add, And, ICmp, IntegerPredicate, Mul, SMax, SMin
from tileir.ops.cast import SExt
from tileir.ops.division import SDiv, SRem
from tileir.ops.shape import Broadcast, ExpandDims, GetElementPtr, MakeRange, Splat
from tileir.types import I32, I64, Element, Scalar, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value, constant

_MIN, _MAX = -(1 << 31), (1 << 31) - 1


@attrs.define
class FootprintPart:
    """`width` columns of a footprint from column `first` on. Its ops are appended to
    `emitter.ops`. `start` points to row 0 and column 0."""

    emitter: PolynomialEmitter
    footprint: Footprint
    start: Value
    first: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.footprint.height, self.width

    def append(self, op: Op) -> Value:
        """Append `op`; returns its first result."""
        self.emitter.ops.append(op)
        return op.results[0]

    # Addresses ----------------------------------------------------------------------------------

    def pointer(self) -> Operand:
        """The tile of pointers to the elements."""
        rows, columns = self._steps(0, self.footprint.rows), self._steps(1, self.footprint.columns)
        pointer: Operand = self._splat(self.start, (self.shape[0], 1))
        if rows is not None:
            pointer = self.append(GetElementPtr(pointer, rows))
        assert columns is not None
        return self.append(GetElementPtr(self._broadcast(pointer), self._broadcast(columns)))

    def _steps(self, axis: int, unit: Polynomial) -> Operand | None:
        """The offsets of the rows (columns, if `axis` is 1) from the first one, in elements."""
        if not unit.terms:
            return None
        count, size = self._indices(axis), unit.constant
        if size == 1:
            return count
        furthest = self.first + max(self.shape)
        kind = I32 if size is not None and abs(size) * furthest < _MAX else I64
        step = PolynomialEmitter(self.emitter.function, kind, self.emitter.ops).emit(unit)
        return self.append(Mul(self._convert(count, kind), self._splat(step, shape_of(count.type))))

    def _indices(self, axis: int) -> Operand:
        """The indices of the rows (columns, if `axis` is 1) as a tile of one column (row)."""
        start = self.first if axis else 0
        key = ("index", axis, start, self.shape[axis])
        return self.emitter.once(key, lambda: self._range(axis, start))

    def _range(self, axis: int, start: int) -> Operand:
        indices = self.append(MakeRange(Tile(I32, (self.shape[axis],)), start=start))
        return self.append(ExpandDims(indices, axis=1 - axis))

    def _convert(self, index: Operand, kind: Scalar) -> Operand:
        """The i32 tile `index` converted to elements of `kind`."""
        tile = Tile(kind, shape_of(index.type))
        return index if index.type is tile else self.append(SExt(index, to=tile))

    def _splat(self, scalar: Operand, shape: tuple[int, ...]) -> Operand:
        kind = Tile(cast(Element, scalar.type), shape)
        if isinstance(scalar, Constant):
            return Constant(kind, scalar.bits)
        return self.append(Splat(scalar, to=kind))

    def _broadcast(self, value: Operand) -> Operand:
        """A row or column broadcast to the whole shape."""
        tile = Tile(cast(Element, element_of(value.type)), self.shape)
        if isinstance(value, Constant):
            return Constant(tile, value.bits)
        return value if value.type is tile else self.append(Broadcast(value, to=tile))

    # Masks --------------------------------------------------------------------------------------

    def mask(self, conditions: Sequence[Condition]) -> Operand | None:
        """The mask of `conditions`; None for no conditions. Conditions on rows and on columns are
        combined last, so that a condition on rows is computed once per row."""
        parts: dict[int | None, Operand] = {}
        for axis, condition in with_axes(conditions):
            passes = self._emit_condition(condition, axis)
            earlier = parts.get(axis)
            parts[axis] = passes if earlier is None else self.append(And(earlier, passes))
        conjunction: Operand | None = None
        for part in parts.values():
            spread = self._broadcast(part)
            conjunction = spread if conjunction is None else self.append(And(conjunction, spread))
        return conjunction

    def _emit_condition(self, condition: Condition, axis: int | None) -> Operand:
        if isinstance(condition, IndexBound):
            return self._at_least(
                self._emit_deciding_index(condition), condition.step, condition.rest
            )
        units = [
            (at, unit) for at, unit in enumerate((condition.rows, condition.columns)) if unit.terms
        ]
        if not units:
            comparison = self._compare("sge", self.emitter.emit(condition.rest), constant(I64, 0))
            return self._splat(comparison, (self.shape[0], 1))
        size = units[0][1].constant
        if axis is not None and size in (1, -1):
            return self._at_least(self._indices(axis), size, condition.rest)
        return self._emit_half_plane(units, condition.rest)

    def _compare(self, relation: str, a: Operand, b: Operand) -> Value:
        return self.append(ICmp(a, b, predicate_=IntegerPredicate(relation)))

    def _at_least(self, index: Operand, step: int, constant_part: Polynomial) -> Operand:
        """The mask of `step` * `index` + `constant_part` >= 0; `step` is 1 or -1. An index is far
        from the limits of i32, so that the bound may be clamped to them."""
        bound = scale(constant_part, -step)
        key = ("bound", *bound.terms.items())
        limit = self.emitter.once(key, lambda: self._clamp_to_i32(bound))
        relation = "sge" if step > 0 else "sle"
        return self._compare(relation, index, self._splat(limit, shape_of(index.type)))

    def _clamp_to_i32(self, form: Polynomial) -> Operand:
        """The value of `form` clamped to the range of i32."""
        if (value := form.constant) is not None:
            return constant(I32, min(max(value, _MIN), _MAX))
        wide = self.emitter.emit(form)
        wide = self.append(SMin(wide, constant(I64, _MAX)))
        wide = self.append(SMax(wide, constant(I64, _MIN)))
        return PolynomialEmitter(self.emitter.function, I32, self.emitter.ops).cast(wide)

    def _emit_deciding_index(self, bound: IndexBound) -> Operand:
        """The deciding index of the tile for each row or column."""
        at = self._indices(bound.axis)
        kind = at.type
        if bound.step > 0:
            at = at if bound.stride == 1 else self.append(SDiv(at, constant(kind, bound.stride)))
            return self.append(SMin(at, constant(kind, bound.last)))
        if bound.reach:
            far = self.append(Add(at, constant(kind, -bound.reach)))
            near: Operand = constant(kind, 0)
            if bound.modulus > 1:
                near = self.append(SRem(at, constant(kind, bound.modulus)))
            at = self.append(SMax(far, near))
        if bound.stride == 1:
            return at
        at = self.append(Add(at, constant(kind, bound.stride - 1)))
        return self.append(SDiv(at, constant(kind, bound.stride)))

    def _emit_half_plane(
        self, units: Sequence[tuple[int, Polynomial]], constant_part: Polynomial
    ) -> Operand:
        """The mask of `units` times their indices plus `constant_part` >= 0, in i64."""
        total: Operand | None = None
        for axis, unit in units:
            index = self._convert(self._indices(axis), I64)
            step = self._splat(self.emitter.emit(unit), shape_of(index.type))
            term: Operand = self.append(Mul(index, step))
            if len(units) > 1:
                term = self._broadcast(term)
            total = term if total is None else self.append(Add(total, term))
        assert total is not None
        limit = self._splat(self.emitter.emit(scale(constant_part, -1)), shape_of(total.type))
        return self._compare("sge", total, limit)
