"""Operators on values: an Expr computes with Python's operators.

The ops themselves are strict. Operators broadcast, convert to a common element type and convert
Python numbers to literals, by the rules of `tileir.builder.promotion`. Integers are signed unless
the name of a method states otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from tileir.builder import arithmetic as rules, tiles
from tileir.builder.builder_value import Wrapped
from tileir.builder.errors import mistake
from tileir.builder.promotion import at, to_element
from tileir.types import Element, Pointer, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable


class Expr(Wrapped):
    """A value with Python's operators, which insert ops through `builder`; `value` is the operand.

    Operators broadcast and convert their operands (`tileir.builder.promotion`). Operands that do
    not fit raise BuildError at the line of the caller.
    """

    __slots__ = ()
    __array_ufunc__ = None
    """Numpy leaves its numbers' operators to ours."""
    __hash__ = None  # type: ignore[assignment] - == makes an op, so there is no equality

    def __repr__(self) -> str:
        return f"<Expr {self.type}>"

    # Arithmetic -----------------------------------------------------------------------------

    def __add__(self, other: Any) -> Expr:
        return rules.add(self.builder, self, other)

    def __radd__(self, other: Any) -> Expr:
        return rules.add(self.builder, other, self)

    def __sub__(self, other: Any) -> Expr:
        return rules.subtract(self.builder, self, other)

    def __rsub__(self, other: Any) -> Expr:
        return rules.subtract(self.builder, other, self)

    def __mul__(self, other: Any) -> Expr:
        return self._binary(other, "mul", "fmul")

    def __rmul__(self, other: Any) -> Expr:
        return self._binary_reflected(other, "mul", "fmul")

    def __truediv__(self, other: Any) -> Expr:
        return rules.divide(self.builder, self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return rules.divide(self.builder, other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return self._binary(other, "sdiv", None, rounding="floor")

    def __rfloordiv__(self, other: Any) -> Expr:
        return self._binary_reflected(other, "sdiv", None, rounding="floor")

    def __mod__(self, other: Any) -> Expr:
        return self._binary(other, "srem", None, rounding="floor")

    def __rmod__(self, other: Any) -> Expr:
        return self._binary_reflected(other, "srem", None, rounding="floor")

    def __pow__(self, other: Any) -> Expr:
        return self._binary(other, None, "pow")

    def __rpow__(self, other: Any) -> Expr:
        return self._binary_reflected(other, None, "pow")

    def __matmul__(self, other: Expr) -> Expr:
        return tiles.dot(self.builder, self, other)

    def __neg__(self) -> Expr:
        return rules.negate(self.builder, self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return rules.absolute(self.builder, self.value)

    # Bits -------------------------------------------------------------------------------------

    def __and__(self, other: Any) -> Expr:
        return self._binary(other, "and", None)

    def __rand__(self, other: Any) -> Expr:
        return self._binary_reflected(other, "and", None)

    def __or__(self, other: Any) -> Expr:
        return self._binary(other, "or", None)

    def __ror__(self, other: Any) -> Expr:
        return self._binary_reflected(other, "or", None)

    def __xor__(self, other: Any) -> Expr:
        return self._binary(other, "xor", None)

    def __rxor__(self, other: Any) -> Expr:
        return self._binary_reflected(other, "xor", None)

    def __lshift__(self, other: Any) -> Expr:
        return self._binary(other, "shl", None)

    def __rlshift__(self, other: Any) -> Expr:
        return self._binary_reflected(other, "shl", None)

    def __rshift__(self, other: Any) -> Expr:
        return self._binary(other, "ashr", None)

    def __rrshift__(self, other: Any) -> Expr:
        return self._binary_reflected(other, "ashr", None)

    def __invert__(self) -> Expr:
        return rules.invert(self.builder, self.value)

    # Comparison -------------------------------------------------------------------------------

    def __lt__(self, other: Any) -> Expr:
        return rules.compare(self.builder, self, other, "slt", "olt")

    def __le__(self, other: Any) -> Expr:
        return rules.compare(self.builder, self, other, "sle", "ole")

    def __gt__(self, other: Any) -> Expr:
        return rules.compare(self.builder, self, other, "sgt", "ogt")

    def __ge__(self, other: Any) -> Expr:
        return rules.compare(self.builder, self, other, "sge", "oge")

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return rules.compare(self.builder, self, other, "eq", "oeq")

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return rules.compare(self.builder, self, other, "ne", "une")

    def __bool__(self) -> NoReturn:
        raise mistake(
            "TIR0809",
            "this value is known only when the program runs: branch with b.if_(...), choose "
            "with b.where(...), join conditions with & and |",
        )

    def __index__(self) -> NoReturn:
        raise mistake(
            "TIR0809",
            "this value is known only when the program runs, and Python needs a number: write a "
            "loop with b.for_(...), and call functions of the builder, such as b.sin(x)",
        )

    # Unsigned readings --------------------------------------------------------------------------

    def udiv(self, other: Any) -> Expr:
        """Return the quotient of unsigned integers, rounded down."""
        return self._binary(other, "udiv", None)

    def urem(self, other: Any) -> Expr:
        """Return the remainder of unsigned integers."""
        return self._binary(other, "urem", None)

    def sdiv(self, other: Any) -> Expr:
        """Return the quotient of signed integers, rounded to zero (`//` rounds down)."""
        return self._binary(other, "sdiv", None)

    def srem(self, other: Any) -> Expr:
        """Return the remainder of `sdiv`, with the sign of the dividend (`%` has the sign of the
        divisor)."""
        return self._binary(other, "srem", None)

    def lshr(self, other: Any) -> Expr:
        """Shift right, filling with zeros (`>>` copies the sign)."""
        return self._binary(other, "lshr", None)

    def ult(self, other: Any) -> Expr:
        """Compare unsigned integers: less than."""
        return rules.compare(self.builder, self, other, "ult", "ult")

    def ule(self, other: Any) -> Expr:
        """Compare unsigned integers: less than or equal."""
        return rules.compare(self.builder, self, other, "ule", "ule")

    def ugt(self, other: Any) -> Expr:
        """Compare unsigned integers: greater than."""
        return rules.compare(self.builder, self, other, "ugt", "ugt")

    def uge(self, other: Any) -> Expr:
        """Compare unsigned integers: greater than or equal."""
        return rules.compare(self.builder, self, other, "uge", "uge")

    # Shape and type -----------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Expr:
        """`x[:, None]`: `None` adds a dimension of extent 1, `:` and `...` keep what is there."""
        return tiles.index(self, index)

    def __iter__(self) -> NoReturn:
        raise mistake("TIR0804", "the elements of a tile cannot be listed: reduce or gather them")

    def to(self, element: Element, *, signed: bool = True, **attributes: Any) -> Expr:
        """Convert the elements to the type `element`.

        Integers are converted as signed or unsigned ones, i1 as 0 and 1. An element converted to i1
        is true if it is not 0. `rounding` and `saturate` are attributes of the cast op.
        """
        if not isinstance(element, (Scalar, Pointer)):
            raise mistake("TIR0808", f"an element type is needed, as F32, not {element!r}")
        value = to_element(self.builder, self.value, element, signed=signed, **attributes)
        return Expr(self.builder, value)

    @property
    def T(self) -> Expr:  # noqa: N802 - the name arrays have it under
        """The transpose: [A, B, ...] becomes [..., B, A]."""
        return self.permute(*reversed(range(len(self.shape))))

    def permute(self, *order: int) -> Expr:
        """Transpose: dimension `i` of the result is dimension `order[i]` of this tile."""
        return self.builder.insert("trans", self, order=tuple(order))

    def reshape(self, *shape: int) -> Expr:
        """Return the same elements, in row-major order, as a tile of `shape`.

        One extent may be -1; it follows from the others. A scalar fills the shape.
        """
        return tiles.reshape(self, tiles.extents_of(shape))

    def broadcast_to(self, *shape: int) -> Expr:
        """Broadcast this value to `shape` by the rules of numpy: extents of 1, and missing leading
        dimensions, are replicated."""
        return Expr(self.builder, at(self.builder, self.value, tiles.extents_of(shape)))

    # Reductions -----------------------------------------------------------------------------------

    def sum(self, axis: int | None = None, *, keepdims: bool = False) -> Expr:
        """Add the elements along `axis`, or all elements if it is None.

        The axis is dropped, or kept with extent 1 with `keepdims`. The result for all elements is a
        scalar. The type is that of the elements; i1 is counted in i32.
        """
        return tiles.reduce(tiles.bool_to_i32(self), axis, keepdims, "add", "fadd")

    def max(self, axis: int | None = None, *, keepdims: bool = False) -> Expr:
        """Return the largest element along `axis`, or of all elements; shapes are those of `sum`.

        Integers are signed. The result is NaN if an element is NaN.
        """
        return tiles.reduce(self, axis, keepdims, *tiles.extrema(self.value, largest=True))

    def min(self, axis: int | None = None, *, keepdims: bool = False) -> Expr:
        """Return the smallest element along `axis`, or of all elements; shapes are those of `sum`.

        Integers are signed. The result is NaN if an element is NaN.
        """
        return tiles.reduce(self, axis, keepdims, *tiles.extrema(self.value, largest=False))

    def argmax(self, axis: int | None = None) -> Expr:
        """Return the index (i32) of the largest element along `axis`, or in row-major order if it
        is None: the first of equal ones, or the first NaN."""
        return tiles.arg_extremum(self, axis, largest=True)

    def argmin(self, axis: int | None = None) -> Expr:
        """Return the index (i32) of the smallest element along `axis`, or in row-major order if it
        is None: the first of equal ones, or the first NaN."""
        return tiles.arg_extremum(self, axis, largest=False)

    def reduce(self, axis: int | None, combine: str | Callable[[Expr, Expr], Expr]) -> Expr:
        """Combine the elements along `axis`, which is dropped, or all elements if it is None.

        `combine` is the name of a combiner of the op `reduce`, or a function of two scalars. The
        order of the combinations is not specified.
        """
        return tiles.reduce(self, axis, False, combine, combine)

    def scan(
        self, axis: int, combine: str | Callable[[Expr, Expr], Expr], *, reverse: bool = False
    ) -> Expr:
        """Return the inclusive scan by `combine` along `axis`, with the shape of this tile;
        `reverse` starts at the end."""
        return tiles.scan(self, axis, combine, reverse)

    def cumsum(self, axis: int = 0) -> Expr:
        """Return the inclusive scan by addition along `axis`, with the shape of this tile; i1 is
        added in i32."""
        combiner = "fadd" if rules.is_float(self.value) else "add"
        return tiles.scan(tiles.bool_to_i32(self), axis, combiner, False)

    # Memory ---------------------------------------------------------------------------------------

    def load(self, mask: Any = None, other: Any = None, **attributes: Any) -> Expr:
        """Load the elements that these pointers point to; the result has their shape.

        Lanes in which `mask` (i1) is false return `other`, or undefined values without it. `mask`
        and `other` are broadcast to the pointers, and `other` is converted to the pointee type.
        `attributes` are those of the op `load`.
        """
        return tiles.load(self, mask, other, attributes)

    def store(self, value: Any, mask: Any = None, **attributes: Any) -> None:
        """Store `value` where `mask` (i1) is true.

        The value is converted to the pointee type and broadcast to the pointers. `attributes` are
        those of the op `store`.
        """
        tiles.store(self, value, mask, attributes)

    def atomic(self, op: str, value: Any, mask: Any = None, **attributes: Any) -> Expr:
        """Perform the atomic read-modify-write `op` where `mask` (i1) is true.

        `op` is an operation of the op `atomic_rmw`: `add`, `fadd`, `smax`, `xchg`, ... Returns the
        old values, with the shape of the pointers.
        """
        return tiles.atomic(self, op, value, mask, attributes)

    # Functions; attributes such as fast="approx" as the ops have them -----------------------

    def exp(self, **attributes: Any) -> Expr:
        """Return e to the power of this value, elementwise, of floats; `attributes` are those of
        the op `exp`."""
        return self.builder.insert("exp", self, **attributes)

    def exp2(self, **attributes: Any) -> Expr:
        """Return 2 to the power of this value, elementwise, of floats; `attributes` are those of
        the op `exp2`."""
        return self.builder.insert("exp2", self, **attributes)

    def log(self, **attributes: Any) -> Expr:
        """Return the natural logarithm, elementwise, of floats; `attributes` are those of the op
        `log`."""
        return self.builder.insert("log", self, **attributes)

    def log2(self, **attributes: Any) -> Expr:
        """Return the logarithm to base 2, elementwise, of floats; `attributes` are those of the op
        `log2`."""
        return self.builder.insert("log2", self, **attributes)

    def sqrt(self, **attributes: Any) -> Expr:
        """Return the square root, elementwise, of floats; `attributes` are those of the op
        `sqrt`."""
        return self.builder.insert("sqrt", self, **attributes)

    def rsqrt(self, **attributes: Any) -> Expr:
        """Return 1 / square root, elementwise, of floats; `attributes` are those of the op
        `rsqrt`."""
        return self.builder.insert("rsqrt", self, **attributes)

    def tanh(self, **attributes: Any) -> Expr:
        """Return the hyperbolic tangent, elementwise, of floats; `attributes` are those of the op
        `tanh`."""
        return self.builder.insert("tanh", self, **attributes)

    def dot(self, other: Expr, accumulator: Any = None, **attributes: Any) -> Expr:
        """Return the matmul of [.., M, K] and [.., K, N] plus `accumulator`, [.., M, N]; rank 2 or
        3.

        Without an accumulator the result starts at zero: in f64 for f64, i32 for integers, f32 for
        other types. `attributes` are those of the op `dot`.
        """
        return tiles.dot(self.builder, self, other, accumulator, **attributes)

    # ----------------------------------------------------------------------------------------------

    def _binary(self, other: Any, integer: str | None, floating: str | None, **more: Any) -> Expr:
        return rules.binary(self.builder, self, other, integer, floating, **more)

    def _binary_reflected(
        self, other: Any, integer: str | None, floating: str | None, **more: Any
    ) -> Expr:
        return rules.binary(self.builder, other, self, integer, floating, **more)
