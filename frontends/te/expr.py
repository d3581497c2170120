"""Expressions: affine in indices where they can be, else terms; operators of both."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NoReturn

import attrs

from tileir.builder.contraction import (
    AffineBound,
    AffineIndex,
    Apply,
    Cast,
    Index,
    Number,
    Position,
    Term,
    affine,
    kind_of,
)
from tileir.frontends.te.errors import error
from tileir.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64, Element, Scalar

DTYPES: dict[str, Element] = {
    "float16": F16, "bfloat16": BF16, "float32": F32, "float64": F64, "int8": I8, "int16": I16,
    "int32": I32, "int64": I64, "bool": I1,
}  # fmt: skip


class Arithmetic:
    """Operators of expressions, of axes, and of tensors without dimensions."""

    __array_ufunc__ = None  # numbers of numpy on the left leave the operators to expressions

    def __add__(self, other: Any) -> PrimExpr:
        return _add(self, other, 1)

    def __radd__(self, other: Any) -> PrimExpr:
        return _add(other, self, 1)

    def __sub__(self, other: Any) -> PrimExpr:
        return _add(self, other, -1)

    def __rsub__(self, other: Any) -> PrimExpr:
        return _add(other, self, -1)

    def __mul__(self, other: Any) -> PrimExpr:
        return _multiply(self, other)

    def __rmul__(self, other: Any) -> PrimExpr:
        return _multiply(other, self)

    def __truediv__(self, other: Any) -> PrimExpr:
        return _divide(self, other)

    def __rtruediv__(self, other: Any) -> PrimExpr:
        return _divide(other, self)

    def __floordiv__(self, other: Any) -> PrimExpr:
        return apply_function("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> PrimExpr:
        return apply_function("floordiv", other, self)

    def __mod__(self, other: Any) -> PrimExpr:
        return apply_function("mod", self, other)

    def __rmod__(self, other: Any) -> PrimExpr:
        return apply_function("mod", other, self)

    def __pow__(self, other: Any) -> PrimExpr:
        return apply_function("pow", self, other)

    def __neg__(self) -> PrimExpr:
        result = expr(self).form
        return PrimExpr(-result if isinstance(result, AffineIndex) else Apply("neg", (result,)))

    def __abs__(self) -> PrimExpr:
        return apply_function("abs", self)

    def __lt__(self, other: Any) -> PrimExpr:
        return _compare("lt", self, other)

    def __le__(self, other: Any) -> PrimExpr:
        return _compare("le", self, other)

    def __gt__(self, other: Any) -> PrimExpr:
        return _compare("gt", self, other)

    def __ge__(self, other: Any) -> PrimExpr:
        return _compare("ge", self, other)

    def __bool__(self) -> NoReturn:
        raise error("TIR1501", "an expression has no truth while a program is made")

    def __iter__(self) -> NoReturn:
        raise error("TIR1501", "an expression cannot be listed")

    def astype(self, dtype: str) -> PrimExpr:
        """Rounded or converted to `dtype`."""
        return PrimExpr(Cast(element_of(dtype), expr(self).term))


class Operators(Arithmetic):
    """Operators of what is compared by them too."""

    __hash__ = None  # type: ignore[assignment] - == makes an expression

    def __eq__(self, other: object) -> PrimExpr:  # type: ignore[override]
        return _compare("eq", self, other)

    def __ne__(self, other: object) -> PrimExpr:  # type: ignore[override]
        return _compare("ne", self, other)


@attrs.frozen(eq=False)
class PrimExpr(Operators):
    """A scalar expression.

    `bounds` are its conditions if it is a conjunction of bounds on indices, else None.
    """

    form: AffineIndex | Term
    bounds: tuple[AffineBound, ...] | None = None

    @property
    def term(self) -> Term:
        """The expression as a term of `tileir.builder.contraction`."""
        if not isinstance(self.form, AffineIndex):
            return self.form
        return Position(self.form) if self.form.terms else Number(self.form.constant)

    @property
    def dtype(self) -> str:
        """The numpy name of the element type in which the expression is computed."""
        kind = kind_of(self.term)
        return next(name for name, element in DTYPES.items() if element is kind)


@attrs.frozen(eq=False)
class IterVar(Operators):
    """An axis of a tensor or of a reduction, or a part of one that a schedule has made."""

    name: str
    dom: range
    index: Index
    reduces: bool = False

    def __hash__(self) -> int:
        return id(self)


def expr(item: Any) -> PrimExpr:
    """An expression of an expression, axis, tensor without dimensions, or number. Raises
    TensorExpressionError."""
    if isinstance(item, PrimExpr):
        return item
    if isinstance(item, IterVar):
        return PrimExpr(affine(item.index))
    if isinstance(item, bool) or type(item).__name__ == "bool_":
        return PrimExpr(Number(bool(item)))
    if isinstance(item, Integral):
        item = int(item)
        if not -(1 << 31) <= item < 1 << 31:
            raise error("TIR1501", f"{item} is no 32-bit integer")
        return PrimExpr(affine(item))
    if isinstance(item, Real):
        return PrimExpr(Number(float(item)))
    if hasattr(item, "scalar"):
        return item.scalar()
    raise error("TIR1501", f"{item!r} is no expression")


def element_of(dtype: str) -> Element:
    """The element type of a name. Raises TensorExpressionError."""
    if dtype not in DTYPES:
        raise error("TIR1502", f"there is no type {dtype}; there are: {', '.join(DTYPES)}")
    return DTYPES[dtype]


def apply_function(name: str, *items: Any) -> PrimExpr:
    """A function of expressions; floor division and remainder of constants are folded."""
    result = [expr(x) for x in items]
    constants = [
        x.form.constant for x in result if isinstance(x.form, AffineIndex) and not x.form.terms
    ]
    if name in ("floordiv", "mod") and len(constants) == 2:
        if not constants[1]:
            raise error("TIR1501", "an integer is divided by 0")
        return PrimExpr(
            affine(
                constants[0] // constants[1] if name == "floordiv" else constants[0] % constants[1]
            )
        )
    return PrimExpr(Apply(name, tuple(x.term for x in result)))


def is_float(item: PrimExpr) -> bool:
    """Whether an expression is of floats."""
    kind = kind_of(item.term)
    return isinstance(kind, Scalar) and kind.is_float


def _add(x: Any, y: Any, sign: int) -> PrimExpr:
    left, right = expr(x), expr(y)
    if isinstance(left.form, AffineIndex) and isinstance(right.form, AffineIndex):
        return PrimExpr(left.form + right.form * sign)
    return PrimExpr(Apply("add" if sign > 0 else "sub", (left.term, right.term)))


def _multiply(x: Any, y: Any) -> PrimExpr:
    left, right = expr(x), expr(y)
    for one, other in ((left.form, right.form), (right.form, left.form)):
        if isinstance(one, AffineIndex) and isinstance(other, AffineIndex) and not other.terms:
            return PrimExpr(one * other.constant)
    return PrimExpr(Apply("mul", (left.term, right.term)))


def _divide(x: Any, y: Any) -> PrimExpr:
    left, right = expr(x), expr(y)
    if not is_float(left) and not is_float(right):
        raise error("TIR1501", "integers are divided by `//`, or as floats: `x.astype(...)`")
    return PrimExpr(Apply("div", (left.term, right.term)))


def _compare(name: str, x: Any, y: Any) -> PrimExpr:
    left, right = expr(x), expr(y)
    term = Apply(name, (left.term, right.term))
    if not isinstance(left.form, AffineIndex) or not isinstance(right.form, AffineIndex):
        return PrimExpr(term)
    of = left.form - right.form
    limits = {"lt": (None, 0), "le": (None, 1), "gt": (1, None), "ge": (0, None), "eq": (0, 1)}
    if name not in limits or not of.terms:
        return PrimExpr(term)
    return PrimExpr(term, (AffineBound(of, *limits[name]),))
