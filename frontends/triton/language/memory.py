"""Loads, stores and atomics, through pointers, block pointers and tensor descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tileir.builder import Builder
from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.dtypes import PointerType
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language.builtin import (
    METHODS,
    Builtin,
    CompileScope,
    builtin,
    extents,
    method,
    static,
)
from tileir.frontends.triton.tensor import Tensor, describe
from tileir.types import Descriptor, Tile

_CACHES = {"": "none", ".ca": "ca", ".cg": "cg", ".cs": "cs", ".cv": "cv", ".wb": "wb", ".wt": "wt"}
_EVICTIONS = {"": "normal", "evict_first": "first", "evict_last": "last", "evict_normal": "normal"}


@attrs.frozen(eq=False)
class BlockPointer:
    """A tile of a strided tensor in memory: `make_block_ptr`. Offsets count in elements."""

    base: Tensor
    shape: tuple[Tensor, ...]
    strides: tuple[Tensor, ...]
    offsets: tuple[Tensor, ...]
    block_shape: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def dtype(self) -> PointerType:
        """The type of a pointer to one element."""
        assert isinstance(self.base.dtype, PointerType)
        return self.base.dtype

    type = dtype

    def __repr__(self) -> str:
        return f"of {self.block_shape} {self.dtype.element_ty}"


@attrs.frozen(eq=False)
class TensorDescriptor:
    """A strided tensor in memory, read and written in blocks: `make_tensor_descriptor`."""

    value: Tensor
    shape: tuple[Tensor, ...]
    strides: tuple[Tensor, ...]
    block_shape: tuple[int, ...]
    dtype: dtypes.DType

    def __repr__(self) -> str:
        return f"of {self.block_shape} {self.dtype}"


@builtin
def load(
    s: CompileScope, pointer: Any, mask: Any = None, other: Any = None, boundary_check: Any = (),
    padding_option: Any = "", cache_modifier: Any = "", eviction_policy: Any = "",
    volatile: Any = False,
) -> Tensor:  # fmt: skip
    """Load the elements that `pointer` points to.

    Elements whose `mask` is false, or that are out of the bounds of a block pointer, are `other`: 0
    by default, as Triton's compiler and interpreter implement it.
    """
    if isinstance(pointer, TensorDescriptor):
        raise KernelError("a tensor descriptor is read by its method load")
    if isinstance(pointer, BlockPointer):
        if mask is not None or other is not None:
            raise KernelError("a block pointer takes boundary_check, not mask and other")
        pointer, mask = _block(s, pointer, boundary_check)
        other = _padding(static(padding_option, "padding_option"), mask)
    else:
        _check_plain(boundary_check, padding_option)
    place = _pointer(pointer)
    kind = _pointee(place)
    guard = _mask(s, place, mask)
    place = guard[0]
    if other is not None and guard[1] is None:
        raise KernelError("`other` is the value of masked-off elements: it needs a mask")
    left_out = 0 if other is None else other
    filler = None if guard[1] is None else _as(s, left_out, kind, place.shape).expr
    result = s.b.load(
        place.expr, guard[1], filler, **_policy(cache_modifier, eviction_policy, volatile)
    )
    return Tensor(result, kind)


def _padding(option: str, mask: Tensor | None) -> float | None:
    if option not in ("", "zero", "nan"):
        raise KernelError(f"padding_option is zero or nan, not {option!r}")
    return float("nan") if option == "nan" and mask is not None else None


@builtin
def store(
    s: CompileScope, pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (),
    cache_modifier: Any = "", eviction_policy: Any = "",
) -> None:  # fmt: skip
    """Write `value`, converted to the pointee type, where `mask` is true."""
    if isinstance(pointer, BlockPointer):
        if mask is not None:
            raise KernelError("a block pointer takes boundary_check, not mask")
        pointer, mask = _block(s, pointer, boundary_check)
    else:
        _check_plain(boundary_check)
    place, guard = _mask(s, _pointer(pointer), mask)
    shape = place.shape
    written = tensor.of(s.b, value) if not isinstance(value, (int, float)) else None
    if written is not None and not shape and written.shape:
        raise KernelError(f"a scalar pointer is no place for {describe(written)}")
    new = _as(s, value, _pointee(place), shape)
    s.b.store(place.expr, new.expr, guard, **_policy(cache_modifier, eviction_policy, False))


def _pointer(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or not isinstance(value.dtype, PointerType):
        raise KernelError(f"a pointer is needed, not {describe(value)}")
    return value


def _pointee(pointer: Tensor) -> dtypes.DType:
    assert isinstance(pointer.dtype, PointerType)
    return pointer.dtype.element_ty


def _as(s: CompileScope, value: Any, kind: dtypes.DType, shape: tuple[int, ...]) -> Tensor:
    """`value` at a type and shape."""
    if isinstance(value, (int, float)):
        small = value if kind.is_floating() else int(value)
        return tensor.literal(s.b, small, kind, shape)
    return semantic.broadcast_to(semantic.cast(tensor.of(s.b, value), kind), shape)


def _mask(s: CompileScope, pointer: Tensor, mask: Any) -> tuple[Tensor, Any]:
    """Pointers and mask broadcast to one shape: that of the pointers, unless they are a scalar."""
    if mask is None:
        return pointer, None
    chosen = semantic.condition(s.b, mask)
    if not pointer.shape and chosen.shape:
        raise KernelError(f"a scalar pointer has no use for a mask of shape {chosen.shape}")
    place, guard = semantic.broadcast(pointer, chosen)
    return place, guard.expr


def _policy(cache: Any, eviction: Any, volatile: Any) -> dict[str, Any]:
    cache, eviction = static(cache, "cache_modifier"), static(eviction, "eviction_policy")
    if cache not in _CACHES:
        raise KernelError(f"there is no cache_modifier {cache!r}; there are {', '.join(_CACHES)}")
    if eviction not in _EVICTIONS:
        raise KernelError(f"there is no eviction_policy {eviction!r}")
    result: dict[str, Any] = {"cache": _CACHES[cache], "eviction": _EVICTIONS[eviction]}
    if static(volatile, "volatile"):
        result["volatile"] = True
    return {k: v for k, v in result.items() if v not in ("none", "normal")}


# Block pointers -------------------------------------------------------------------------------


@builtin
def make_block_ptr(
    s: CompileScope,
    base: Tensor,
    shape: Any,
    strides: Any,
    offsets: Any,
    block_shape: Any,
    order: Any,
) -> BlockPointer:
    """A pointer to a block of the tensor at `base`."""
    sizes = extents((block_shape,))
    parts = [tuple(tensor.of(s.b, n) for n in numbers) for numbers in (shape, strides, offsets)]
    if any(len(part) != len(sizes) for part in parts):
        raise KernelError("shape, strides, offsets and block_shape must be equally long")
    places, steps, starts = parts
    wide = tuple(semantic.cast(n, dtypes.int64) for n in steps)
    return BlockPointer(_pointer(base), places, wide, starts, sizes, extents((order,)))


@method
def advance(s: CompileScope, base: BlockPointer, offsets: Any) -> BlockPointer:
    """The same block pointer, moved by `offsets` elements."""
    if not isinstance(base, BlockPointer):
        raise KernelError(f"advance moves a block pointer, not {describe(base)}")
    if len(offsets) != len(base.offsets):
        raise KernelError(f"{len(offsets)} offsets for a block of {len(base.offsets)} dimensions")
    moved = zip(base.offsets, offsets, strict=True)
    return attrs.evolve(base, offsets=tuple(semantic.add(s.b, a, o) for a, o in moved))


def _block(
    s: CompileScope, block: BlockPointer, boundary_check: Any
) -> tuple[Tensor, Tensor | None]:
    """The pointers of a block, and the mask of those inside along the checked dimensions."""
    b, rank = s.b, len(block.block_shape)
    numbers = () if boundary_check is None else extents((boundary_check,))
    checked = {_dimension(block, d) for d in numbers}
    place, mask = block.base, None
    for d, size in enumerate(block.block_shape):
        along = tuple(size if i == d else 1 for i in range(rank))
        count = Tensor(b.arange(size).reshape(*along), dtypes.int32)
        at = semantic.add(b, block.offsets[d], count)
        step = semantic.mul(b, semantic.cast(at, dtypes.int64), block.strides[d])
        place = semantic.add(b, place, step)
        if d in checked:
            below = semantic.compare("lt")(b, at, block.shape[d])
            inside = semantic.logical_and(b, semantic.compare("ge")(b, at, 0), below)
            mask = inside if mask is None else semantic.logical_and(b, mask, inside)
    return semantic.broadcast_to(place, block.block_shape), mask


def _dimension(block: BlockPointer, number: int) -> int:
    """A dimension of a block, counted from the front. Raises KernelError."""
    rank = len(block.block_shape)
    if not -rank <= number < rank:
        raise KernelError(f"boundary_check: a block of {rank} dimensions has no {number}")
    return number % rank


def _check_plain(boundary_check: Any, padding_option: Any = "") -> None:
    """Reject arguments that only block pointers accept. Raises KernelError."""
    if boundary_check not in ((), None) or static(padding_option, "padding_option"):
        message = "boundary_check and padding_option are of block pointers; a pointer takes a mask"
        raise KernelError(message)


# Tensor descriptors ---------------------------------------------------------------------------


@builtin
def make_tensor_descriptor(
    s: CompileScope,
    base: Tensor,
    shape: Any,
    strides: Any,
    block_shape: Any,
    padding_option: Any = "zero",
) -> TensorDescriptor:
    """A descriptor of the tensor at `base`, accessed in blocks of `block_shape`."""
    sizes = extents((block_shape,))
    lengths = tuple(semantic.cast(tensor.of(s.b, n), dtypes.int32) for n in shape)
    steps = tuple(semantic.cast(tensor.of(s.b, n), dtypes.int64) for n in strides)
    if not len(lengths) == len(steps) == len(sizes):
        raise KernelError("shape, strides and block_shape must be equally long")
    option = static(padding_option, "padding_option") or "zero"
    return described_tensor(s.b, _pointer(base), lengths, steps, sizes, option)


def described_tensor(
    b: Builder, base: Tensor, lengths: tuple[Tensor, ...], steps: tuple[Tensor, ...],
    sizes: tuple[int, ...], padding: Any,
) -> TensorDescriptor:  # fmt: skip
    """A descriptor of extents `lengths` (int32) and strides `steps` (int64), in elements."""
    kind = _pointee(base)
    block = Descriptor(Tile(kind.element, sizes))
    pairs = [(n.expr, m.expr) for n, m in zip(lengths, steps, strict=True)]
    result = b.make_descriptor(base.expr, block, pairs, padding=padding)
    return TensorDescriptor(Tensor(result, base.dtype), lengths, steps, sizes, kind)


def _indices(s: CompileScope, offsets: Any) -> list[Any]:
    return [semantic.cast(tensor.of(s.b, o), dtypes.int32).expr for o in offsets]


@builtin
def load_tensor_descriptor(s: CompileScope, desc: TensorDescriptor, offsets: Any) -> Tensor:
    """The block at `offsets`; elements outside of the tensor are 0."""
    result = s.b.descriptor_load(desc.value.expr, _indices(s, offsets))
    return Tensor(result, desc.dtype)


@builtin
def store_tensor_descriptor(
    s: CompileScope, desc: TensorDescriptor, offsets: Any, value: Any
) -> None:
    """Write the block at `offsets`, except what is outside of the tensor."""
    new = _as(s, value, desc.dtype, desc.block_shape)
    s.b.descriptor_store(desc.value.expr, new.expr, _indices(s, offsets))


def _by_kind(
    signed: str, unsigned: str, floating: str | None
) -> Callable[[dtypes.DType], str | None]:
    """The word of an atomic operation by the type of the elements; None where there is none."""

    def word_of(kind: dtypes.DType) -> str | None:
        if kind.is_floating():
            return floating
        return signed if kind.signed else unsigned

    return word_of


_REDUCTIONS: dict[str, Callable[[dtypes.DType], str | None]] = {
    "atomic_add": _by_kind("add", "add", "fadd"),
    "atomic_max": _by_kind("smax", "umax", "fmax"),
    "atomic_min": _by_kind("smin", "umin", "fmin"),
    "atomic_and": _by_kind("and", "and", None),
    "atomic_or": _by_kind("or", "or", None),
    "atomic_xor": _by_kind("xor", "xor", None),
}
"""Atomic operations of memory and of descriptors, by the function's name."""


def _descriptor_reduce(name: str, chosen: Callable[[dtypes.DType], Any]) -> Builtin:
    def apply(s: CompileScope, desc: TensorDescriptor, offsets: Any, value: Any) -> None:
        op = chosen(desc.dtype)
        if op is None:
            raise KernelError(f"{name} needs integers, not {desc.dtype}")
        new = _as(s, value, desc.dtype, desc.block_shape)
        s.b.descriptor_reduce(desc.value.expr, new.expr, _indices(s, offsets), op=op)

    return Builtin(name, apply)


@builtin
def gather_rows(
    s: CompileScope, desc: TensorDescriptor, x_offsets: Tensor, y_offset: Any
) -> Tensor:
    """Rows `x_offsets` of the tensor, from column `y_offset`."""
    column = semantic.cast(tensor.of(s.b, y_offset), dtypes.int32)
    return Tensor(s.b.descriptor_gather(desc.value.expr, x_offsets.expr, column.expr), desc.dtype)


@builtin
def scatter_rows(
    s: CompileScope, desc: TensorDescriptor, value: Tensor, x_offsets: Tensor, y_offset: Any
) -> None:
    """Write rows `x_offsets` of the tensor, from column `y_offset`."""
    column = semantic.cast(tensor.of(s.b, y_offset), dtypes.int32)
    s.b.descriptor_scatter(desc.value.expr, value.expr, x_offsets.expr, column.expr)


DESCRIPTOR_METHODS: dict[str, Builtin] = {
    "load": load_tensor_descriptor,
    "store": store_tensor_descriptor,
    "gather": gather_rows,
    "scatter": scatter_rows,
    **{name: _descriptor_reduce(name, chosen) for name, chosen in _REDUCTIONS.items()},
}


# Atomics --------------------------------------------------------------------------------------


def _atomic(name: str, op: Any) -> Builtin:
    def apply(
        s: CompileScope,
        pointer: Any,
        val: Any,
        mask: Any = None,
        sem: Any = None,
        scope: Any = None,
    ) -> Tensor:
        place, guard = _mask(s, _pointer(pointer), mask)
        kind = _pointee(place)
        new = _as(s, val, kind, place.shape)
        how = op(kind)
        if how is None:
            raise KernelError(f"{name} is not of {kind}")
        old = s.b.atomic_rmw(place.expr, new.expr, guard, op=how, **_order(sem, scope))
        return Tensor(old, kind)

    apply.__doc__ = f"Atomic {name.removeprefix('atomic_')}; what was there before."
    result = Builtin(name, apply)
    METHODS[name] = result
    return result


def _order(sem: Any, scope: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if sem is not None:
        result["sem"] = static(sem, "sem")
    if scope is not None:
        result["scope"] = static(scope, "scope")
    return result


atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor = (
    _atomic(name, chosen) for name, chosen in _REDUCTIONS.items()
)
atomic_xchg = _atomic("atomic_xchg", _by_kind("xchg", "xchg", "xchg"))


@method
def atomic_cas(
    s: CompileScope, pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None
) -> Tensor:
    """Write `val` where memory equals `cmp`; returns the old values."""
    place = _pointer(pointer)
    kind = _pointee(place)
    old, new = (_as(s, x, kind, place.shape).expr for x in (cmp, val))
    return Tensor(s.b.atomic_cas(place.expr, old, new, **_order(sem, scope)), kind)
