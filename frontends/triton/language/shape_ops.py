"""Creation of tensors, shapes and types, and program ids."""

from __future__ import annotations

import math
from typing import Any

from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language import arithmetic
from tileir.frontends.triton.language.builtin import (
    CompileScope,
    axis_of,
    builtin,
    extents,
    method,
    static,
    static_integer,
)
from tileir.frontends.triton.tensor import Kind, Tensor, describe
from tileir.types import tile


@builtin
def program_id(s: CompileScope, axis: Any) -> Tensor:
    """Index of the program instance along `axis`; int32."""
    return Tensor(s.b.program_id(axis=static_integer(axis, "axis")), dtypes.int32)


@builtin
def num_programs(s: CompileScope, axis: Any) -> Tensor:
    """Number of program instances along `axis`; int32."""
    return Tensor(s.b.num_programs(axis=static_integer(axis, "axis")), dtypes.int32)


@builtin
def arange(s: CompileScope, start: Any, end: Any = None) -> Tensor:
    """`start, start + 1, ..., end - 1`; with one bound, from 0; int32. The length need not be a
    power of two."""
    bounds = (0, start) if end is None else (start, end)
    low, high = (static_integer(bound, "a bound of arange") for bound in bounds)
    if high <= low:
        raise KernelError(f"arange({low}, {high}) has no element")
    return Tensor(s.b.arange(low, high), dtypes.int32)


@builtin
def full(s: CompileScope, shape: Any, value: Any, dtype: Kind) -> Tensor:
    """`value` everywhere."""
    sizes = (
        extents((shape,)) if isinstance(shape, (tuple, list)) else (static_integer(shape, "shape"),)
    )
    if isinstance(value, (int, float)):
        return tensor.literal(s.b, value, dtype, sizes)
    return semantic.broadcast_to(semantic.cast(tensor.of(s.b, value), dtype), sizes)


@builtin
def zeros(s: CompileScope, shape: Any, dtype: Kind) -> Tensor:
    """0 everywhere."""
    return full.apply(s, shape, 0, dtype)


@builtin
def zeros_like(s: CompileScope, input: Tensor) -> Tensor:
    """0 at the shape and type of `input`."""
    return tensor.literal(s.b, 0, input.dtype, input.shape)


@builtin
def full_like(s: CompileScope, input: Tensor, value: Any) -> Tensor:
    """`value` at the shape and type of `input`."""
    return full.apply(s, input.shape, value, input.dtype)


@method
def to(
    s: CompileScope, input: Any, dtype: Kind, fp_downcast_rounding: Any = None, bitcast: Any = False
) -> Tensor:
    """`input` with its elements converted, or with the same bits seen as another type."""
    value = tensor.of(s.b, input)
    dtype = dtype.scalar
    if bitcast:
        return semantic.bitcast(value, dtype)
    modes = {None: None, "rtne": None, "rtz": "rz"}
    if fp_downcast_rounding not in modes:
        raise KernelError(f"there is no rounding {fp_downcast_rounding!r}; there are rtne and rtz")
    if fp_downcast_rounding is not None and not _is_narrowing(value.dtype, dtype):
        kinds = f"{value.dtype} to {dtype}"
        raise KernelError(
            f"fp_downcast_rounding needs a conversion to a narrower float, not {kinds}"
        )
    return semantic.cast(value, dtype, rounding=modes[fp_downcast_rounding])


def _is_narrowing(old: Kind, new: Kind) -> bool:
    """Whether a conversion is of floats to floats of fewer bits."""
    floats = [k for k in (old, new) if isinstance(k, dtypes.DType) and k.is_floating()]
    return len(floats) == 2 and floats[0].primitive_bitwidth > floats[1].primitive_bitwidth


@method
def cast(
    s: CompileScope, input: Any, dtype: Kind, fp_downcast_rounding: Any = None, bitcast: Any = False
) -> Tensor:
    """The same as `input.to(dtype)`."""
    return to.apply(s, input, dtype, fp_downcast_rounding, bitcast)


@method
def broadcast_to(s: CompileScope, input: Tensor, *shape: Any) -> Tensor:
    """`input` replicated to `shape`."""
    return semantic.broadcast_to(tensor.of(s.b, input), extents(shape))


@builtin
def broadcast(s: CompileScope, input: Any, other: Any) -> tuple[Tensor, ...]:
    """Both at one shape."""
    return semantic.broadcast(tensor.of(s.b, input), tensor.of(s.b, other))


@method
def expand_dims(s: CompileScope, input: Tensor, axis: Any) -> Tensor:
    """Dimensions of extent 1 put in at `axis`, one or several."""
    result = static(axis, "axis")
    places = result if isinstance(result, tuple) else (result,)
    rank = len(input.shape) + len(places)
    new = {n % rank for n in places if -rank <= n < rank}
    if len(new) != len(places):
        raise KernelError(f"axes {places} do not fit a tensor of {rank} dimensions")
    extents = iter(input.shape)
    return _reshape(input, tuple(1 if i in new else next(extents) for i in range(rank)))


@method
def reshape(s: CompileScope, input: Tensor, *shape: Any, can_reorder: Any = False) -> Tensor:
    """The elements of `input`, in row-major order, at another shape; one extent may be -1."""
    sizes = extents(shape)
    if -1 in sizes and sizes.count(-1) == 1:
        stated = -math.prod(sizes)
        sizes = tuple(math.prod(input.shape) // stated if n == -1 and stated else n for n in sizes)
    return _reshape(input, sizes)


@method
def view(s: CompileScope, input: Tensor, *shape: Any) -> Tensor:
    """The same as `reshape`."""
    return reshape.apply(s, input, *shape)


@method
def ravel(s: CompileScope, x: Tensor, can_reorder: Any = False) -> Tensor:
    """All elements in one dimension."""
    return _reshape(x, (math.prod(x.shape),))


def _reshape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    if math.prod(shape) != math.prod(x.shape):
        raise KernelError(f"{describe(x)} cannot be reshaped to {shape}")
    return Tensor(x.expr.reshape(*shape), x.dtype) if x.shape != shape else x


@method
def trans(s: CompileScope, input: Tensor, *dims: Any) -> Tensor:
    """Dimensions in the order `dims`, or the last two exchanged."""
    rank = len(input.shape)
    order = extents(dims) if dims else (*range(rank - 2), rank - 1, rank - 2)
    if sorted(order) != list(range(rank)) or rank < 2:
        raise KernelError(f"{order} is no order of the dimensions of {describe(input)}")
    return Tensor(input.expr.permute(*order), input.dtype)


@method
def permute(s: CompileScope, input: Tensor, *dims: Any) -> Tensor:
    """Dimensions in the order `dims`."""
    return trans.apply(s, input, *dims)


@builtin
def join(s: CompileScope, a: Any, b: Any) -> Tensor:
    """Both side by side in a new last dimension of extent 2."""
    left, right = semantic.common(s.b, a, b)
    if not left.shape:
        left, right = _reshape(left, (1,)), _reshape(right, (1,))
        return _reshape(Tensor(s.b.join(left.expr, right.expr), left.dtype), (2,))
    return Tensor(s.b.join(left.expr, right.expr), left.dtype)


@method
def split(s: CompileScope, a: Tensor) -> tuple[Tensor, Tensor]:
    """The two halves along a last dimension of extent 2."""
    if not a.shape or a.shape[-1] != 2:
        raise KernelError(f"split needs a last dimension of extent 2, not {describe(a)}")
    whole_ = _reshape(a, (1, 2)) if len(a.shape) == 1 else a
    low, high = (Tensor(x, a.dtype) for x in s.b.split(whole_.expr))
    return (_reshape(low, a.shape[:-1]), _reshape(high, a.shape[:-1]))


@builtin
def interleave(s: CompileScope, a: Any, b: Any) -> Tensor:
    """Elements of both, alternating along the last dimension."""
    joined = join.apply(s, a, b)
    if len(joined.shape) == 1:
        return joined
    return _reshape(joined, (*joined.shape[:-2], 2 * joined.shape[-2]))


@builtin
def cat(
    s: CompileScope, input: Tensor, other: Tensor, can_reorder: Any = False, dim: Any = 0
) -> Tensor:
    """`other` after `input` along `dim`."""
    kind = input.dtype
    if kind != other.dtype:
        raise KernelError(f"{describe(input)} and {describe(other)} do not have the same type")
    axis = axis_of(input, dim)
    return Tensor(s.b.cat(input.expr, other.expr, axis=axis), kind)


@builtin
def squeeze(s: CompileScope, x: Tensor, dim: Any) -> Tensor:
    """`x` without its dimension `dim`, of extent 1."""
    axis = axis_of(x, dim)
    if x.shape[axis] != 1:
        raise KernelError(f"dimension {axis} of {describe(x)} does not have extent 1")
    return _reshape(x, x.shape[:axis] + x.shape[axis + 1 :])


@builtin
def unsqueeze(s: CompileScope, x: Tensor, dim: Any) -> Tensor:
    """`x` with a dimension of extent 1 put in at `dim`."""
    return expand_dims.apply(s, x, dim)


@method
def gather(s: CompileScope, src: Tensor, index: Tensor, axis: Any) -> Tensor:
    """Elements of `src` at places `index` along `axis`."""
    if not index.dtype.is_int():
        raise KernelError(f"places are integers, not {describe(index)}")
    where = semantic.cast(index, dtypes.int32)
    return Tensor(s.b.gather(src.expr, where.expr, axis=axis_of(src, axis)), src.dtype)


@method
def flip(s: CompileScope, x: Tensor, dim: Any = None) -> Tensor:
    """Elements along `dim` (the last) in opposite order."""
    axis = len(x.shape) - 1 if dim is None else axis_of(x, dim)
    count = x.shape[axis]
    places = s.b.sub(
        s.b.constant(tile(dtypes.int32.element, (count,)), count - 1), s.b.arange(count)
    )
    along = tuple(count if i == axis else 1 for i in range(len(x.shape)))
    index = Tensor(places, dtypes.int32)
    return gather.apply(s, x, semantic.broadcast_to(_reshape(index, along), x.shape), axis)


@method
def histogram(s: CompileScope, input: Tensor, num_bins: Any, mask: Any = None) -> Tensor:
    """Count the elements that equal 0, 1, ..., `num_bins - 1`; int32."""
    if not input.dtype.is_int():
        raise KernelError(f"a histogram needs integers, not {describe(input)}")
    kind = tile(dtypes.int32.element, (static_integer(num_bins, "num_bins"),))
    chosen = None
    if mask is not None:
        chosen = semantic.broadcast_to(semantic.condition(s.b, mask), input.shape).expr
    value = semantic.cast(input, dtypes.int32)
    return Tensor(s.b.histogram(value.expr, kind, chosen), dtypes.int32)


@builtin
def where(s: CompileScope, condition: Any, x: Any, y: Any) -> Tensor:
    """`x` where `condition`, else `y`."""
    return semantic.where(s.b, condition, x, y)


@method
def item(s: CompileScope, x: Tensor) -> Tensor:
    """The one element of a tensor, as a scalar."""
    return _reshape(x, ())


@method
def extract_slice(
    s: CompileScope, x: Tensor, offsets: Any, sizes: Any, strides: Any = None
) -> Tensor:
    """The part of `x` at `offsets` (compile-time or run-time values) of shape `sizes`."""
    steps = None if strides is None else extents((strides,))
    kind = tile(x.dtype.element, extents((sizes,)))
    places = [tensor.of(s.b, o).expr for o in offsets]
    return Tensor(s.b.extract_slice(x.expr, kind, places, strides=steps), x.dtype)


@method
def insert_slice(
    s: CompileScope, ful: Tensor, sub: Tensor, offsets: Any, sizes: Any = None, strides: Any = None
) -> Tensor:
    """`ful` with `sub` in place of its part at `offsets`."""
    steps = None if strides is None else extents((strides,))
    places = [tensor.of(s.b, o).expr for o in offsets]
    return Tensor(s.b.insert_slice(ful.expr, sub.expr, places, strides=steps), ful.dtype)


@builtin
def swizzle2d(
    s: CompileScope, i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any
) -> tuple[Any, ...]:
    """The position, in a matrix traversed column by column within groups of `size_g` rows, of the
    element with number `i * size_j + j`."""
    b = s.b
    at = semantic.add(b, semantic.mul(b, i, size_j), j)
    group = semantic.mul(b, size_g, size_j)
    first = semantic.mul(b, semantic.floordiv(b, at, group), size_g)
    rows = arithmetic.minimum.apply(s, semantic.sub(b, size_i, first), size_g)
    within = semantic.mod(b, at, group)
    row = semantic.add(b, first, semantic.mod(b, within, rows))
    return row, semantic.floordiv(b, within, rows)


@builtin
def map_elementwise(s: CompileScope, scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """A function of scalars applied to every element. All elements are computed at once, so the
    function decides by `tl.where`, not by `if`."""
    if static_integer(pack, "pack") != 1:
        raise KernelError("map_elementwise takes one element of each tensor at a time: pack = 1")
    return s.call(scalar_fn, semantic.broadcast(*(tensor.of(s.b, x) for x in args)), {})


@builtin
def condition(s: CompileScope, arg1: Any, disable_licm: Any = False) -> Any:
    """The condition of a `while`, with requests to the compiler, which have no effect."""
    return arg1


@builtin
def to_tensor(s: CompileScope, x: Any) -> Tensor:
    """A number as a scalar."""
    return tensor.of(s.b, x)


def _hint(name: str) -> Any:
    def apply(s: CompileScope, input: Any, values: Any) -> Tensor:
        x = tensor.of(s.b, input)
        result = static(values, "values")
        hints = result if isinstance(result, tuple) else (result,)
        if len(hints) != max(1, len(x.shape)):
            raise KernelError(f"{describe(x)} needs one value per dimension, not {len(hints)}")
        if x.number is not None or x.dtype is dtypes.int1:  # which hints say nothing of
            return x
        return Tensor(getattr(s.b, name)(x.expr, values=hints), x.dtype)

    return apply


multiple_of = builtin(_hint("multiple_of"))
max_contiguous = builtin(_hint("contiguous"))
max_constancy = builtin(_hint("constant_run"))

HINTS = (multiple_of, max_contiguous, max_constancy)
"""Functions that promise a property of their argument."""


@builtin
def assume(s: CompileScope, cond: Any) -> None:
    """Promise that `cond` is true."""
    s.b.assume(semantic.condition(s.b, cond).expr)


@builtin
def debug_barrier(s: CompileScope) -> None:
    """Wait for the threads of the program instance."""
    s.b.barrier()
