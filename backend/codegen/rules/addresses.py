"""Addresses of the elements of a thread, as distances from the address of its first element.

The offset `row * stride + column` takes a multiplication and an addition of 32 bits for each row of
a thread, and each pointer that it is added to takes an addition of 64 bits. A row keeps a register
for its offset from the load of one tensor to the store of another one. The distance from the first
row is a literal times the stride, which is the same in all threads: one instruction adds it to the
address of the first row, and no row keeps a register.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tileir.analysis.affine import affine
from tileir.analysis.affine_forms import AffineForm
from tileir.analysis.loops import loops
from tileir.analysis.polynomial import Iteration, Lane, Polynomial, ProgramIndex, Symbol, number
from tileir.analysis.uses import defining_blocks
from tileir.backend.codegen.lowering import Fragment, Lowering, contributions_overlap, scalar_of
from tileir.backend.codegen.rules.shape import FEWEST_ROWS
from tileir.backend.stage import has_op
from tileir.layout import Vector
from tileir.ops.shape import GetElementPtr, Splat
from tileir.types import I32, I64, Pointer, Tile, element_of
from tileir.values import Value

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle


def addresses(lowering: Lowering, op: Any) -> Fragment | None:
    """The addresses of the elements of a thread that `op`, a `getelementptr`, computes; None if it
    is better to compute each by itself.

    That is so if a thread has few rows, or if their distances are literals, which become parts of
    the accesses. In loops, distances would take instructions in each iteration, unless threads only
    copy: no register keeps an address from one iteration to the next. In kernels with dots, few
    rows are loaded by threads, and accumulators take the registers.
    """
    tile, function = op.result.type, lowering.function
    if not (isinstance(tile, Tile) and lowering.thread.adds_wide_multiples):
        return None
    copies = not function.kernel and has_op(function, "gpu.async_copy")
    if not (function.kernel or copies):
        return None
    form = _from_scalar(lowering, op.result)
    if form is None or not _has_strides(form, len(tile.shape)):
        return None
    if _rows(form, tile) < FEWEST_ROWS:
        return None
    if any(contributions_overlap(tile.layout, d) for d in range(len(tile.shape))):
        return None
    if has_op(function, "dot", "dot_scaled", "gpu.wgmma", "gpu.role"):
        return None
    if not copies and loops(function).depth(defining_blocks(function)[op.result]):
        return None
    return _Addresses(lowering, form, tile).of_registers()


def _from_scalar(lowering: Lowering, pointers: Value) -> AffineForm | None:
    """The form of a tile of pointers whose base is the scalar pointer that the tile repeats; None
    if it has none. The scalar is computed once for all tiles that begin there."""
    forms, value = affine(lowering.function), pointers
    while isinstance(value.type, Tile):
        op = lowering.origin(value)
        if op is None or not (op.moves_elements or isinstance(op, GetElementPtr | Splat)):
            return None
        value = cast(Value, op.inputs[0])
    whole, start = forms.of(pointers), forms.of(value)
    if whole is None or start is None or whole.base is not start.base:
        return None
    return AffineForm(value, whole.offset - start.offset, whole.assuming)


def _has_strides(form: AffineForm, rank: int) -> bool:
    """Whether `form` is exact modulo 2 to the power of 64, and its neighbours along each dimension
    have a distance that depends on scalars alone."""
    if any(element_of(op.results[0].type) is not I64 for op in form.assuming):
        return False
    strides = [form.stride(d) for d in range(rank)]
    if None in strides or any(isinstance(s, Iteration) for m in form.offset.terms for s in m):
        return False
    terms = [m for stride in strides for m in cast(Polynomial, stride).terms]
    return not any(isinstance(symbol, Lane) for m in terms for symbol in m)


def _rows(form: AffineForm, tile: Tile) -> int:
    """The number of different distances of a thread's elements from its first one that are no
    literals."""
    strides = [cast(Polynomial, form.stride(d)) for d in range(len(tile.shape))]
    varying = [d for d, stride in enumerate(strides) if stride.constant is None]
    return len({tuple(v[d] for d in varying) for v in tile.layout.registers}) if varying else 1


class _Addresses:
    """The addresses of the elements of `tile` in one thread. All terms are computed with 64 bits:
    an element whose offset does not wrap has its address, whatever the first element has."""

    def __init__(self, lowering: Lowering, form: AffineForm, tile: Tile) -> None:
        self.lowering, self.thread, self.layout = lowering, lowering.thread, tile.layout
        self.kind = cast(Pointer, scalar_of(tile))
        self.base = lowering.scalar(cast(Value, form.base))
        self.strides = [cast(Polynomial, form.stride(d)) for d in range(len(tile.shape))]
        self.uniform = form.offset
        for d in range(len(tile.shape)):
            self.uniform = self.uniform.without(Lane(d))

    def of_registers(self) -> Fragment:
        """The address of each register."""
        first, result = self._first(), list[Any]()
        rows: dict[Vector, Handle] = {}
        for vector in self.layout.registers:
            literals = [stride.constant is not None for stride in self.strides]
            row = tuple(0 if near else x for x, near in zip(vector, literals, strict=True))
            if row not in rows:
                rows[row] = self._advance(first, self._distance(row))
            within = tuple(x if near else 0 for x, near in zip(vector, literals, strict=True))
            result.append(self._advance(rows[row], self._distance(within)))
        return result

    def _first(self) -> Handle:
        """The address of the element at the coordinates that the thread contributes."""
        pointer = self._advance(self.base, self.uniform)
        for d, stride in enumerate(self.strides):
            at = self.lowering.offset(self.layout, d)
            if at is not None and stride.terms:
                wide = self.thread.convert("sext", I32, I64, at)
                step = self.thread.binary("mul", I64, wide, self._value(stride))
                pointer = self.thread.advance(self.kind, pointer, step, I64)
        return pointer

    def _distance(self, vector: Vector) -> Polynomial:
        """The number of elements between the address of the first register and that at `vector`."""
        total = number(0)
        for stride, steps in zip(self.strides, vector, strict=True):
            total = total + stride * number(steps)
        return total

    def _advance(self, pointer: Handle, distance: Polynomial) -> Handle:
        if not distance.terms:
            return pointer
        return self.thread.advance(self.kind, pointer, self._value(distance), I64)

    def _value(self, polynomial: Polynomial) -> Handle:
        """The value of `polynomial`, an i64."""
        total = self._literal(polynomial.terms.get((), 0))
        for monomial, factor in polynomial.terms.items():
            if monomial:  # two scalars of 32 bits are multiplied by one instruction
                product = self._symbol(monomial[0])
                for symbol in monomial[1:]:
                    product = self.thread.binary("mul", I64, product, self._symbol(symbol))
                product = self.thread.binary("mul", I64, product, self._literal(factor))
                total = self.thread.binary("add", I64, total, product)
        return total

    def _literal(self, number: int) -> Handle:
        return self.thread.constant(I64, number & ((1 << I64.bits) - 1))

    def _symbol(self, symbol: Symbol) -> Handle:
        if isinstance(symbol, ProgramIndex):
            return self.thread.convert("sext", I32, I64, self.thread.program_id(symbol.axis))
        assert isinstance(symbol, Value)
        return self.thread.convert(
            "sext", scalar_of(symbol.type), I64, self.lowering.scalar(symbol)
        )
