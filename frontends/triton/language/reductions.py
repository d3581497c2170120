"""Reductions and scans, by name or by a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir.builder import Expr
from tileir.frontends.triton import dtypes, semantic
from tileir.frontends.triton.dtypes import DType
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language.arithmetic import FUNCTIONS
from tileir.frontends.triton.language.builtin import (
    METHODS,
    Builtin,
    CompileScope,
    axis_of,
    method,
    static,
)
from tileir.frontends.triton.tensor import Kind, Tensor, describe, literal


def _reduction(
    name: str, widen: Callable[[DType], DType], combiner: Callable[[DType], str]
) -> Builtin:
    """A reduction of one tensor by an operation of the IR, on the type that `widen` gives."""

    def apply(
        s: CompileScope, input: Tensor, axis: Any = None, keep_dims: Any = False, dtype: Any = None
    ) -> Tensor:
        _check_reduced(input, name)
        kind = widen(input.dtype) if dtype is None else dtype  # type: ignore[arg-type]
        value = semantic.cast(input, kind)
        return _reduce(s, (value,), axis, keep_dims, combiner(kind))[0]

    return _as_method(name, apply)


def _extremum(name: str) -> Builtin:
    """The largest or smallest element, with its index if that is requested."""
    plain = _reduction(name, _for_extremum, _extremum_combiner(name))

    def apply(
        s: CompileScope, input: Tensor, axis: Any = None, return_indices: Any = False,
        return_indices_tie_break_left: Any = True, keep_dims: Any = False,
    ) -> Any:  # fmt: skip
        if static(return_indices, "return_indices"):
            return _extreme(s, input, axis, keep_dims, largest=name == "max")
        return plain.apply(s, input, axis, keep_dims)

    return _as_method(name, apply)


def _as_method(name: str, apply: Callable[..., Any]) -> Builtin:
    builtin = Builtin(name, apply)
    METHODS[name] = builtin
    return builtin


def _check_reduced(x: Any, name: str) -> None:
    if not isinstance(x, Tensor) or not isinstance(x.dtype, DType):
        raise KernelError(f"{name} needs tensors of numbers, not {describe(x)}")


def _accumulator_type(kind: DType) -> DType:
    if kind.is_int() and kind.primitive_bitwidth < 32:
        return dtypes.int32 if kind.signed else dtypes.uint32
    return dtypes.float32 if kind.is_bf16() else kind


def _for_extremum(kind: DType) -> DType:
    if kind.primitive_bitwidth >= 32:
        return kind
    if kind.is_floating():
        return dtypes.float32
    return dtypes.int32 if kind.signed else dtypes.uint32


def _integer_or_float(integer: str, floating: str) -> Callable[[DType], str]:
    return lambda kind: floating if kind.is_floating() else integer


def _extremum_combiner(name: str) -> Callable[[DType], str]:
    def combiner(kind: DType) -> str:
        if kind.is_floating():
            return f"f{name}num"
        return f"{'s' if kind.signed else 'u'}{name}"

    return combiner


sum_ = _reduction("sum", _accumulator_type, _integer_or_float("add", "fadd"))
max_ = _extremum("max")
min_ = _extremum("min")
xor_sum = _reduction("xor_sum", _accumulator_type, _integer_or_float("xor", "xor"))
reduce_or = _reduction("reduce_or", _accumulator_type, _integer_or_float("or", "or"))


def _reduce(
    s: CompileScope, values: tuple[Tensor, ...], axis: Any, keep_dims: Any, combiner: Any
) -> tuple[Tensor, ...]:
    """All `values` reduced together along `axis`, or over everything."""
    shape = values[0].shape
    if not shape:
        return values
    place = None if static(axis, "axis") is None else axis_of(values[0], axis)
    flat = [v.expr.reshape(-1) if place is None else v.expr for v in values]
    reduced = s.b.reduce(flat, axis=place or 0, combiner=combiner)
    result = reduced if isinstance(reduced, tuple) else (reduced,)
    if static(keep_dims, "keep_dims"):
        result_shape = tuple(1 if place is None or i == place else n for i, n in enumerate(shape))
        result = tuple(x.reshape(*result_shape) for x in result)
    return tuple(Tensor(x, v.dtype) for x, v in zip(result, values, strict=True))


def _function(s: CompileScope, function: Any, kinds: list[Kind]) -> Callable[..., Any]:
    """A function of the user as a function of Exprs."""

    def combine(*places: Expr) -> Any:
        tensors = [Tensor(x, k) for x, k in zip(places, kinds * 2, strict=True)]
        result = s.call(function, tensors, {})
        several = result if isinstance(result, tuple) else (result,)
        if len(several) != len(kinds):
            message = f"{combine.__name__} gives {len(several)} values of {len(kinds)} reduced"
            raise KernelError(message)
        return tuple(
            semantic.cast(t if isinstance(t, Tensor) else literal(s.b, t, k), k).expr
            for t, k in zip(several, kinds, strict=True)
        )

    combine.__name__ = getattr(function, "__name__", "combine")
    return combine


def _several(input: Any) -> tuple[Tensor, ...]:
    values = input if isinstance(input, tuple) else (input,)
    for value in values:
        _check_reduced(value, "a reduction")
    return semantic.broadcast(*values)


@method
def reduce_(s: CompileScope, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """Reduce one or several tensors along `axis` by a function that combines two elements."""
    values = _several(input)
    combiner = _function(s, combine_fn, [v.dtype for v in values])
    result = _reduce(s, values, axis, keep_dims, combiner)
    return result if isinstance(input, tuple) else result[0]


@method
def associative_scan(
    s: CompileScope, input: Any, axis: Any, combine_fn: Any, reverse: Any = False
) -> Any:
    """Running reduction of one or several tensors along `axis`."""
    values = _several(input)
    combiner = _function(s, combine_fn, [v.dtype for v in values])
    result = _scan(s, values, axis, reverse, combiner)
    return result if isinstance(input, tuple) else result[0]


def _scan(
    s: CompileScope, values: tuple[Tensor, ...], axis: Any, reverse: Any, combiner: Any
) -> tuple[Tensor, ...]:
    place = axis_of(values[0], axis)
    backwards = bool(static(reverse, "reverse"))
    scanned = s.b.scan([v.expr for v in values], axis=place, combiner=combiner, reverse=backwards)
    result = scanned if isinstance(scanned, tuple) else (scanned,)
    return tuple(Tensor(x, v.dtype) for x, v in zip(result, values, strict=True))


def _running(name: str, combiner: Callable[[DType], str]) -> Builtin:
    def apply(
        s: CompileScope, input: Tensor, axis: Any = 0, reverse: Any = False, dtype: Any = None
    ) -> Tensor:
        _check_reduced(input, name)
        kind = _accumulator_type(input.dtype) if dtype is None else dtype  # type: ignore[arg-type]
        value = semantic.cast(input, kind)
        return _scan(s, (value,), axis, reverse, combiner(kind))[0]

    return _as_method(name, apply)


cumsum = _running("cumsum", _integer_or_float("add", "fadd"))
cumprod = _running("cumprod", _integer_or_float("mul", "fmul"))


def _arg(name: str, largest: bool) -> Builtin:
    def apply(
        s: CompileScope, input: Tensor, axis: Any = None, tie_break_left: Any = True,
        keep_dims: Any = False,
    ) -> Tensor:  # fmt: skip
        return _extreme(s, input, axis, keep_dims, largest)[1]

    return _as_method(name, apply)


def _extreme(
    s: CompileScope, x: Tensor, axis: Any, keep_dims: Any, largest: bool
) -> tuple[Tensor, Tensor]:
    """The extreme along `axis` and the index of its first occurrence; a NaN is the extreme."""
    _check_reduced(x, "an index of an extreme")
    if static(axis, "axis") is None:
        flat, place = Tensor(x.expr.reshape(-1), x.dtype), 0
    else:
        flat, place = x, axis_of(x, axis)
    value = semantic.cast(flat, _for_extremum(flat.dtype))  # type: ignore[arg-type]
    along = tuple(n if i == place else 1 for i, n in enumerate(value.shape))
    count = Tensor(s.b.arange(value.shape[place]).reshape(*along), dtypes.int32)
    index = semantic.broadcast_to(count, value.shape)
    beats = semantic.compare("gt" if largest else "lt")

    def better(v: Expr, i: Expr, w: Expr, j: Expr) -> tuple[Expr, Expr]:
        b, mine, other = s.b, Tensor(v, value.dtype), Tensor(w, value.dtype)
        equal = semantic.compare("eq")(b, mine, other)
        earlier = semantic.compare("lt")(b, Tensor(i, dtypes.int32), Tensor(j, dtypes.int32))
        take = semantic.either(b, beats(b, mine, other), semantic.logical_and(b, equal, earlier))
        return b.select(take.expr, v, w), b.select(take.expr, i, j)

    result = _reduce(s, (value, index), place, keep_dims, better)
    return result[0], result[1]


argmax = _arg("argmax", largest=True)
argmin = _arg("argmin", largest=False)


@method
def softmax(
    s: CompileScope, x: Tensor, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False
) -> Tensor:
    """`exp(x - max) / sum` along `dim`, the first."""
    axis = 0 if dim is None else dim
    less = semantic.sub(s.b, x, max_.apply(s, x, axis, keep_dims=True))
    top = FUNCTIONS["exp"].apply(s, less)
    return semantic.truediv(s.b, top, sum_.apply(s, top, axis, keep_dims=True))
