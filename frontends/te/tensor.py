"""Tensors: placeholders, and tensors computed from others."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import attrs

from tileir import Location
from tileir.builder import contraction
from tileir.builder.contraction import (
    AffineIndex,
    ComputeStage,
    Index,
    Read,
    Reduce,
    Term,
    elementwise,
    free,
    reads,
    stored_kind,
    walk,
)
from tileir.frontends.te.errors import at_location, error, here
from tileir.frontends.te.expr import (
    DTYPES,
    Arithmetic,
    IterVar,
    Operators,
    PrimExpr,
    element_of,
    expr,
    is_float,
)

LARGEST = 1 << 31
"""A tensor has fewer elements than this."""


@attrs.frozen(eq=False)
class Tensor(contraction.Tensor, Arithmetic):
    """A tensor of constant shape, row-major; `A[i, j]` is an element.

    A computed tensor has a `term`, the axes of its elements and of its reductions, and the tensors
    that it reads. A placeholder has none of them.
    """

    location: Location = attrs.field(kw_only=True)
    axis: tuple[IterVar, ...] = attrs.field(default=(), kw_only=True)
    reduce_axis: tuple[IterVar, ...] = attrs.field(default=(), kw_only=True)
    term: Term | None = attrs.field(default=None, kw_only=True)
    inputs: tuple[Tensor, ...] = attrs.field(default=(), kw_only=True)

    @property
    def op(self) -> Operation:
        """The operation that computes the tensor, or its placeholder."""
        return Operation(self)

    @property
    def stage(self) -> ComputeStage:
        """The stage of the contraction that computes the tensor."""
        assert self.term is not None
        return elementwise(self, tuple(a.index for a in self.axis), self.term, self.location)

    @property
    def dtype(self) -> str:
        """The numpy name of the element type, such as `float32`."""
        return next(name for name, element in DTYPES.items() if element is self.element)

    def __getitem__(self, positions: Any) -> PrimExpr:
        """The element at `positions`, expressions of integers. Raises TensorExpressionError."""
        listed = positions if isinstance(positions, tuple) else (positions,)
        if len(listed) != len(self.shape):
            count = len(self.shape)
            raise error("TIR1502", f"{self.name} has {count} dimensions, not {len(listed)}")
        return PrimExpr(Read(self, tuple(_position(self, x) for x in listed)))

    def __call__(self, *positions: Any) -> PrimExpr:
        """The element at `positions`."""
        return self[positions]

    def __str__(self) -> str:
        return self.name

    def __iter__(self) -> Any:
        raise error("TIR1501", f"the tensor {self.name} cannot be listed")

    def scalar(self) -> PrimExpr:
        """The element of a tensor without dimensions. Raises TensorExpressionError."""
        if self.shape:
            raise error("TIR1501", f"the tensor {self.name} has elements: {self.name}[...]")
        return PrimExpr(Read(self, ()))


@attrs.frozen
class Operation:
    """The operation that computes a tensor, with its axes, as in TVM."""

    output: Tensor

    @property
    def name(self) -> str:
        """The name of the tensor."""
        return self.output.name

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The axes of the tensor's elements, outermost first."""
        return self.output.axis

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The axes of the reduction that computes an element."""
        return self.output.reduce_axis


@attrs.frozen(eq=False)
class Var(Operators):
    """A scalar argument of the program."""

    tensor: Tensor

    def __str__(self) -> str:
        return self.tensor.name

    def scalar(self) -> PrimExpr:
        """The value of the scalar."""
        return self.tensor.scalar()


def placeholder(
    shape: Sequence[int] | int, dtype: str = "float32", name: str = "placeholder"
) -> Tensor:
    """Return an input tensor of `shape` (integers) and `dtype`, a name of numpy. Raises
    TensorExpressionError."""
    return Tensor(_word(name), element_of(dtype), _extents(shape), location=here())


def var(name: str = "n", dtype: str = "int32") -> Var:
    """Return a scalar argument of type `dtype`, a name of numpy.

    It cannot be an extent of a tensor: extents are constants. Raises TensorExpressionError.
    """
    return Var(Tensor(_word(name), element_of(dtype), (), by_value=True, location=here()))


def reduce_axis(dom: tuple[int, int], name: str = "rv") -> IterVar:
    """Return an axis to reduce over: `dom` is the pair (first, end) of integers, `end` excluded.

    Raises TensorExpressionError.
    """
    if not isinstance(dom, (tuple, list)) or len(dom) != 2:
        raise error("TIR1502", f"an axis goes from a number to a number, not {dom!r}")
    low, high = (_constant_integer(x) for x in dom)
    return IterVar(name, range(low, max(low, high)), Index(_word(name)), reduces=True)


def compute(
    shape: Sequence[int] | int, fcompute: Callable[..., Any], name: str = "compute"
) -> Tensor:
    """Return the tensor of `shape` whose element at i, j, ... is the `PrimExpr` `fcompute(i, j,
    ...)`.

    The element type is that of the expression. Raises TensorExpressionError.
    """
    extents, place = _extents(shape), here()
    names = _arguments(fcompute, len(extents))
    axes = tuple(IterVar(n, range(e), Index(n)) for n, e in zip(names, extents, strict=True))
    value = fcompute(*axes)
    if isinstance(value, (tuple, list)):
        raise error("TIR1502", "a tensor has one value per element: compute others on their own")
    term = expr(value).term
    with at_location(place):
        _check_axes(term, axes)
    inner = (x for t in walk(term) if isinstance(t, Reduce) for x in t.over)
    reduced = tuple(IterVar(i.name, span, i, reduces=True) for i, span in dict(inner).items())
    inputs = tuple(dict.fromkeys(r.tensor for r in reads(term) if isinstance(r.tensor, Tensor)))
    return Tensor(
        _word(name), stored_kind(term), extents, location=place, axis=axes, reduce_axis=reduced,
        term=term, inputs=inputs,
    )  # fmt: skip


def _check_axes(term: Term, axes: Sequence[IterVar]) -> None:
    unbound = free(term) - {axis.index for axis in axes}
    if unbound:
        index = next(iter(unbound))
        raise error("TIR1503", f"{index} is the axis of no reduction, and no index here")


def _arguments(fcompute: Any, count: int) -> list[str]:
    """Names for the indices of a function."""
    try:
        parameters = list(inspect.signature(fcompute).parameters.values())
    except (TypeError, ValueError):
        raise error("TIR1502", f"a function of indices is needed, not {fcompute!r}") from None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in kinds and p.default is p.empty]
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        names = (names + [f"i{n}" for n in range(count)])[: max(count, len(names))]
    if len(names) != count:
        message = f"the function takes {len(names)} indices, and there are {count} dimensions"
        raise error("TIR1502", message)
    return names


def _extents(shape: Sequence[int] | int) -> tuple[int, ...]:
    listed = shape if isinstance(shape, (tuple, list)) else (shape,)
    extents = tuple(_constant_integer(n) for n in listed)
    if any(n < 0 for n in extents) or prod(extents) >= LARGEST:
        raise error("TIR1502", f"there is no tensor of shape {extents}")
    return extents


def _constant_integer(item: Any) -> int:
    """A known integer. Raises TensorExpressionError."""
    if isinstance(item, PrimExpr):
        result = item.form
        if isinstance(result, AffineIndex) and not result.terms:
            return result.constant
    elif not isinstance(item, bool) and hasattr(item, "__index__") and abs(int(item)) < LARGEST:
        return int(item)
    raise error("TIR1502", f"an extent is a whole number, known before, not {item}")


def _position(tensor: Tensor, item: Any) -> AffineIndex | Term:
    result = expr(item)
    if is_float(result):
        raise error("TIR1502", f"{tensor.name} is read at a position that is not an integer")
    return result.form


def _word(name: str) -> str:
    """A name that kernels can have."""
    return re.sub(r"\W", "_", str(name)) or "_"
