"""The load of a part of a union: addresses and masks by row and column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs

from tileir.analysis.polynomial import Polynomial
from tileir.backend.halo.footprint import Footprint
from tileir.backend.halo.footprint_masks import Condition, IndexBound, along
from tileir.backend.halo.split_forms import scaled
from tileir.backend.transforms.polynomial_emitter import PolynomialEmitter
from tileir.op import Op
from tileir.ops.arith import Add, And, Mul, SDiv, SMax, SMin, SRem
from tileir.ops.cast import SExt
from tileir.ops.compare import ICmp, IntegerPredicate
from tileir.ops.shape import Broadcast, ExpandDims, GetElementPtr, MakeRange, Splat
from tileir.types import I32, I64, Element, Scalar, Tile, element_of, shape_of
from tileir.values import Constant, Operand, Value, constant

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


@attrs.define
class FootprintPart:
    """`width` columns of a union from column `first` on; what is written goes to `numbers.ops`.
    `start` points to row 0 and column 0."""

    numbers: PolynomialEmitter
    union: Footprint
    start: Value
    first: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.union.height, self.width

    def made(self, op: Op) -> Value:
        """The result of `op`, which is written."""
        self.numbers.ops.append(op)
        return op.results[0]

    # Addresses ----------------------------------------------------------------------------------

    def pointer(self) -> Operand:
        """Where the elements are."""
        rows, columns = self._steps(0, self.union.rows), self._steps(1, self.union.columns)
        pointer: Operand = self._filled(self.start, (self.shape[0], 1))
        if rows is not None:
            pointer = self.made(GetElementPtr(pointer, rows))
        assert columns is not None
        return self.made(GetElementPtr(self._spread(pointer), self._spread(columns)))

    def _steps(self, axis: int, unit: Polynomial) -> Operand | None:
        """How far rows, or columns, are from the first of the union, in elements."""
        if not unit.terms:
            return None
        count, size = self._index(axis), unit.constant
        if size == 1:
            return count
        furthest = self.first + max(self.shape)
        kind = I32 if size is not None and abs(size) * furthest < _MOST else I64
        factor = PolynomialEmitter(self.numbers.function, kind, self.numbers.ops).write(unit)
        return self.made(Mul(self._as(count, kind), self._filled(factor, shape_of(count.type))))

    def _index(self, axis: int) -> Operand:
        """The numbers of the rows, or columns, as a tile of one column or row."""
        start = self.first if axis else 0
        key = ("index", axis, start, self.shape[axis])
        return self.numbers.once(key, lambda: self._range(axis, start))

    def _range(self, axis: int, start: int) -> Operand:
        found = self.made(MakeRange(Tile(I32, (self.shape[axis],)), start=start))
        return self.made(ExpandDims(found, axis=1 - axis))

    def _as(self, index: Operand, kind: Scalar) -> Operand:
        """A tile of i32 as one of `kind`."""
        wanted = Tile(kind, shape_of(index.type))
        return index if index.type is wanted else self.made(SExt(index, to=wanted))

    def _filled(self, scalar: Operand, shape: tuple[int, ...]) -> Operand:
        kind = Tile(cast(Element, scalar.type), shape)
        if isinstance(scalar, Constant):
            return Constant(kind, scalar.bits)
        return self.made(Splat(scalar, to=kind))

    def _spread(self, value: Operand) -> Operand:
        """A row or column at the whole shape."""
        wanted = Tile(cast(Element, element_of(value.type)), self.shape)
        if isinstance(value, Constant):
            return Constant(wanted, value.bits)
        return value if value.type is wanted else self.made(Broadcast(value, to=wanted))

    # Masks --------------------------------------------------------------------------------------

    def mask(self, asked: Sequence[Condition]) -> Operand | None:
        """What is `asked` of every element; None for nothing. Rows and columns come together
        last, so that what only rows decide is computed once per row."""
        parts: dict[int | None, Operand] = {}
        for axis, one in along(asked):
            found = self._passes(one, axis)
            held = parts.get(axis)
            parts[axis] = found if held is None else self.made(And(held, found))
        whole: Operand | None = None
        for part in parts.values():
            spread = self._spread(part)
            whole = spread if whole is None else self.made(And(whole, spread))
        return whole

    def _passes(self, one: Condition, axis: int | None) -> Operand:
        if isinstance(one, IndexBound):
            return self._at_least(self._deciding(one), one.step, one.rest)
        units = [(at, unit) for at, unit in enumerate((one.rows, one.columns)) if unit.terms]
        if not units:
            found = self._compare("sge", self.numbers.write(one.rest), constant(I64, 0))
            return self._filled(found, (self.shape[0], 1))
        size = units[0][1].constant
        if axis is not None and size in (1, -1):
            return self._at_least(self._index(axis), size, one.rest)
        return self._wide(units, one.rest)

    def _compare(self, relation: str, a: Operand, b: Operand) -> Value:
        return self.made(ICmp(a, b, predicate_=IntegerPredicate(relation)))

    def _at_least(self, index: Operand, step: int, rest: Polynomial) -> Operand:
        """Where `step`, 1 or -1, times `index` plus `rest` is 0 or more. An index is far from the
        ends of i32, so that the bound may be brought within them."""
        bound = scaled(rest, -step)
        key = ("bound", *bound.terms.items())
        limit = self.numbers.once(key, lambda: self._narrow(bound))
        relation = "sge" if step > 0 else "sle"
        return self._compare(relation, index, self._filled(limit, shape_of(index.type)))

    def _narrow(self, form: Polynomial) -> Operand:
        """A number as an i32, the nearest one where it is none."""
        if (value := form.constant) is not None:
            return constant(I32, min(max(value, _LEAST), _MOST))
        wide = self.numbers.write(form)
        wide = self.made(SMin(wide, constant(I64, _MOST)))
        wide = self.made(SMax(wide, constant(I64, _LEAST)))
        return PolynomialEmitter(self.numbers.function, I32, self.numbers.ops).cast(wide)

    def _deciding(self, one: IndexBound) -> Operand:
        """The index of the tile that decides for each row or column."""
        at = self._index(one.axis)
        kind = at.type
        if one.step > 0:
            at = at if one.stride == 1 else self.made(SDiv(at, constant(kind, one.stride)))
            return self.made(SMin(at, constant(kind, one.last)))
        if one.reach:
            far = self.made(Add(at, constant(kind, -one.reach)))
            near: Operand = constant(kind, 0)
            if one.apart > 1:
                near = self.made(SRem(at, constant(kind, one.apart)))
            at = self.made(SMax(far, near))
        if one.stride == 1:
            return at
        at = self.made(Add(at, constant(kind, one.stride - 1)))
        return self.made(SDiv(at, constant(kind, one.stride)))

    def _wide(self, units: Sequence[tuple[int, Polynomial]], rest: Polynomial) -> Operand:
        """Where multiples of the row and the column, and `rest`, make 0 or more."""
        total: Operand | None = None
        for axis, unit in units:
            index = self._as(self._index(axis), I64)
            factor = self._filled(self.numbers.write(unit), shape_of(index.type))
            moved: Operand = self.made(Mul(index, factor))
            if len(units) > 1:
                moved = self._spread(moved)
            total = moved if total is None else self.made(Add(total, moved))
        assert total is not None
        limit = self._filled(self.numbers.write(scaled(rest, -1)), shape_of(total.type))
        return self._compare("sge", total, limit)
