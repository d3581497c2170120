"""Loads, stores, atomics, tensor descriptors."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tileir.builder import Expr
from tileir.frontends.ttir.block_pointers import BlockPointer, parts
from tileir.frontends.ttir.errors import UnsupportedStatement
from tileir.frontends.ttir.frame import RegionReader, rule
from tileir.frontends.ttir.nodes import Operation
from tileir.frontends.ttir.op_names import ATOMIC_OPERATIONS
from tileir.frontends.ttir.types import block_pointer_type, parse_descriptor
from tileir.types import (
    I1,
    I16,
    I32,
    I64,
    Descriptor,
    Element,
    Pointer,
    Scalar,
    Tile,
    element_of,
    pointer as make_pointer,
    shape_of,
    tile,
)

_EVICTIONS = {"evict_first": "first", "evict_last": "last"}
_POLICY = re.compile(r"(cache_modifier|eviction_policy) = (\w+)")


@rule("tt.addptr")
def _addptr(f: RegionReader, s: Operation) -> Expr:
    return f.b.getelementptr(*f.operands(s))


@rule("tt.load")
def _load(f: RegionReader, s: Operation) -> Expr:
    first = f.lookup(s.operands[0])
    if isinstance(first, BlockPointer):
        return _load_block(f, s, first)
    pointer, *operands = f.operands(s)
    if len(operands) == 1 and f.masked_off == "zero":
        kind = element_of(pointer.type)
        if not isinstance(kind, Pointer):
            raise UnsupportedStatement(f"tt.load needs pointers, not {pointer.type}")
        operands.append(f.b.constant(tile(kind.pointee, shape_of(pointer.type)), 0))
    return f.b.load(pointer, *operands, **_load_policy(s))


@rule("tt.store")
def _store(f: RegionReader, s: Operation) -> None:
    first = f.lookup(s.operands[0])
    if isinstance(first, BlockPointer):
        value, mask = f.value(s.operands[1]), first.mask(f.b, _checked_axes(s))
        f.b.store(first.pointers(f.b), value, *([] if mask is None else [mask]), **_policy(s))
    else:
        f.b.store(*f.operands(s), **_policy(s))


def _load_policy(s: Operation) -> dict[str, Any]:
    return {"volatile": True} if s.options.get("isVolatile") else _policy(s)


def _policy(s: Operation) -> dict[str, Any]:
    """The cache policy of a load or store.

    Triton 3.9 writes one attribute, older releases two. A volatile access ignores these hints; an
    access with a cache modifier ignores all others.
    """
    stated = dict(_POLICY.findall(str(s.options.get("cachePolicy", ""))))
    cache = stated.get("cache_modifier") or s.options.get("cacheModifier", "none")
    eviction = stated.get("eviction_policy") or s.options.get("evictionPolicy")
    result: dict[str, Any] = {}
    if cache != "none":
        result["cache"] = cache
    elif eviction in _EVICTIONS:
        result["eviction"] = _EVICTIONS[eviction]
    return result


# Block pointers -------------------------------------------------------------------------------


@rule("tt.make_tensor_ptr")
def _make_block_pointer(f: RegionReader, s: Operation) -> BlockPointer:
    (base,), *groups = ([f.value(n) for n in group] for group in s.groups())
    described_as = s.result
    if not isinstance(described_as, Descriptor):
        raise UnsupportedStatement(f"{s.name} needs a block, not {described_as}")
    kind = block_pointer_type(described_as.block)
    extents, strides, offsets = (tuple(_wide(f, x) for x in group) for group in groups)
    if not isinstance(base.type, Pointer) or base.type.pointee is not kind.block.element:
        raise UnsupportedStatement(
            f"a pointer to blocks of {kind.block} cannot have the base {base.type}"
        )
    if not len(extents) == len(strides) == len(offsets) == len(kind.block.shape):
        raise UnsupportedStatement(f"{s.name} needs a number for each axis of {kind.block}")
    return BlockPointer(kind, base, extents, strides, offsets)


@rule("tt.advance")
def _advance(f: RegionReader, s: Operation) -> BlockPointer:
    first, *steps = (f.lookup(n) for n in s.operands)
    if not isinstance(first, BlockPointer) or len(steps) != len(first.offsets):
        raise UnsupportedStatement(f"{s.name} needs a block pointer and a number for each axis")
    moved = zip(first.offsets, parts(steps), strict=True)
    offsets = tuple(f.b.add(x, _wide(f, step)) for x, step in moved)
    return BlockPointer(first.type, first.base, first.extents, first.strides, offsets)


def _wide(f: RegionReader, x: Expr) -> Expr:
    return f.b.sext(x, I64) if x.type is I32 else x


def _checked_axes(s: Operation) -> list[int]:
    """The axes in which an access of a block is masked. Raises UnsupportedStatement."""
    axes = s.options.get("boundaryCheck", [])
    if not isinstance(axes, list):
        raise UnsupportedStatement(f"{s.name} needs a list of axes as boundaryCheck")
    return [int(axis) for axis in axes]  # type: ignore[arg-type]


def _load_block(f: RegionReader, s: Operation, block: BlockPointer) -> Expr:
    """Load a block. Elements outside of the array are zeros or NaNs, or the value of masked-off
    loads."""
    b, kind = f.b, block.type.block
    mask = block.mask(b, _checked_axes(s))
    if mask is None:
        return b.load(block.pointers(b), **_load_policy(s))
    padding, operands = s.options.get("padding"), [mask]
    if padding is not None or f.masked_off == "zero":
        operands.append(b.constant(kind, math.nan if padding == _NAN else 0))
    return b.load(block.pointers(b), *operands, **_load_policy(s))


_NAN = 2
"""The padding of Triton's PAD_NAN."""


# Atomics --------------------------------------------------------------------------------------

_SCOPES = {"gpu": "gpu", "cta": "cta", "sys": "sys"}


def _ordering(words: Sequence[str]) -> tuple[Any, Any]:
    """The memory order, which the op checks, and the scope."""
    order, scope = words
    return order, _SCOPES[scope]


@rule("tt.atomic_rmw")
def _atomic_rmw(f: RegionReader, s: Operation) -> Expr:
    name, (sem, scope) = s.words[0], _ordering(s.words[1:3])
    op: Any = ATOMIC_OPERATIONS.get(name, name)
    return f.b.atomic_rmw(*f.operands(s), op=op, sem=sem, scope=scope)


@rule("tt.atomic_cas")
def _atomic_cas(f: RegionReader, s: Operation) -> Expr:
    sem, scope = _ordering(s.words[:2])
    return f.b.atomic_cas(*f.operands(s), sem=sem, scope=scope)


@rule("tt.atomic_load")
def _atomic_load(f: RegionReader, s: Operation) -> Expr:
    """Load by an atomic operation that does not change memory."""
    pointer, *mask = f.operands(s)
    bits = _integers(f, pointer)
    zero = f.b.constant(tile(_pointee(bits), shape_of(bits.type)), 0)
    sem, scope = _ordering(s.words[:2])
    result = f.b.atomic_rmw(bits, zero, *mask, op="or", sem=sem, scope=scope)
    return result if result.type is s.result else f.b.bitcast(result, s.result)


@rule("tt.atomic_store")
def _atomic_store(f: RegionReader, s: Operation) -> None:
    """Store by an exchange whose result is unused."""
    pointer, value, *mask = f.operands(s)
    bits = _integers(f, pointer)
    kind = tile(_pointee(bits), shape_of(bits.type))
    word = value if value.type is kind else f.b.bitcast(value, kind)
    sem, scope = _ordering(s.words[:2])
    f.b.atomic_rmw(bits, word, *mask, op="xchg", sem=sem, scope=scope)


@rule("tt.atomic_poll")
def _atomic_poll(f: RegionReader, s: Operation) -> Expr:
    """Load until each element has had its expected value."""
    pointer, expected, *limit = f.operands(s)
    if limit or any("timeout" in name for name in s.options):
        raise UnsupportedStatement("a poll with a timeout is not supported")
    sem, scope = _ordering(s.words[:2])
    b, shape = f.b, shape_of(pointer.type)
    zero = b.constant(tile(_pointee(pointer), shape), 0)
    kind = tile(I1, shape)
    poll, done = b.block("poll", kind), b.block("polled")
    b.br(poll(b.constant(kind, False)))
    b.enter(poll)
    value = b.atomic_rmw(pointer, zero, op="or", sem=sem, scope=scope)
    reached = b.or_(poll.parameters[0], b.icmp(value, expected, predicate="eq")[0])
    flat = reached.reshape(math.prod(shape)) if len(shape) > 1 else reached
    b.cond_br(
        b.reduce([flat], axis=0, combiner="and")[0] if shape else reached, done, poll(reached)
    )
    b.enter(done)
    return reached


def _pointee(pointer: Expr) -> Element:
    kind = element_of(pointer.type)
    if not isinstance(kind, Pointer) or not isinstance(kind.pointee, Scalar):
        raise UnsupportedStatement(
            f"an atomic access needs pointers to numbers, not {pointer.type}"
        )
    return kind.pointee


def _integers(f: RegionReader, pointer: Expr) -> Expr:
    """`pointer` as one to integers of the size of what it points to."""
    element = _pointee(pointer)
    if isinstance(element, Scalar) and not element.is_float:
        return pointer
    kind = _INTEGERS[element.bits]
    return f.b.bitcast(pointer, tile(make_pointer(kind), shape_of(pointer.type)))


_INTEGERS = {16: I16, 32: I32, 64: I64}


# Programmatic dependent launch ----------------------------------------------------------------


@rule("tt.grid_dependency_wait")
def _dependency_wait(f: RegionReader, s: Operation) -> None:
    """Wait for the previous kernel. It is needed only if the kernel may begin before that one has
    ended, which the launcher states."""
    _grid_control(f, "wait")


@rule("tt.grid_dependency_launch_dependents")
def _dependency_launch(f: RegionReader, s: Operation) -> None:
    """The next kernel may begin once every block has executed this or has ended. Its own wait is
    for the end of this kernel and for its stores."""
    _grid_control(f, "launch_dependents")


def _grid_control(f: RegionReader, action: str) -> None:
    """The PTX instruction `griddepcontrol`, where the launcher lets kernels overlap."""
    if f.overlapped:
        text = f"griddepcontrol.{action}; mov.u32 $0, 0;"
        f.b.inline_asm([I32], [], text=text, constraints="=r", pure=False)


# Tensor descriptors ---------------------------------------------------------------------------

_PADDINGS: Mapping[int, Any] = {1: "zero", 2: "nan"}


@rule("tt.make_tensor_descriptor")
def _make_descriptor(f: RegionReader, s: Operation) -> Expr:
    (base,), extents, strides = ([f.value(n) for n in group] for group in s.groups())
    kind = s.result
    if not isinstance(kind, Descriptor):
        if not isinstance(kind, Tile):
            raise UnsupportedStatement(f"a descriptor describes blocks, not {kind}")
        kind = parse_descriptor(f"<{kind}>")
    padding = s.options.get("padding", 1)
    pairs = list(zip(extents, strides, strict=True))
    return f.b.make_descriptor(base, kind, pairs, padding=_PADDINGS.get(padding, "zero"))


@rule("tt.descriptor_load", "tt.experimental_descriptor_load")
def _descriptor_load(f: RegionReader, s: Operation) -> Expr:
    descriptor, *indices = f.operands(s)
    result = f.b.descriptor_load(descriptor, indices)
    shape = shape_of(s.result)
    return result if result.shape == shape else result.reshape(*shape)


@rule("tt.descriptor_store", "tt.experimental_descriptor_store")
def _descriptor_store(f: RegionReader, s: Operation) -> None:
    descriptor, *indices, value = f.operands(s)
    f.b.descriptor_store(descriptor, _at_block_shape(descriptor, value), indices)


_REDUCTIONS: Mapping[str, tuple[Any, Any, Any]] = {
    "add": ("add", "add", "fadd"), "min": ("smin", "umin", "fmin"), "max": ("smax", "umax", "fmax"),
    "and": ("and", "and", ""), "or": ("or", "or", ""), "xor": ("xor", "xor", ""),
}  # fmt: skip
"""Reductions of signed integers, of unsigned ones, and of floats."""


@rule("tt.descriptor_reduce")
def _descriptor_reduce(f: RegionReader, s: Operation) -> None:
    descriptor, *indices, value = f.operands(s)
    kind = element_of(value.type)
    is_float = isinstance(kind, Scalar) and kind.is_float
    op = _REDUCTIONS[s.words[0]][2 if is_float else s.unsigned]
    f.b.descriptor_reduce(descriptor, _at_block_shape(descriptor, value), indices, op=op)


def _at_block_shape(descriptor: Expr, value: Expr) -> Expr:
    """`value` at the shape of the blocks, which may have additional dimensions of extent 1."""
    kind = descriptor.type
    if not isinstance(kind, Descriptor):
        raise UnsupportedStatement(f"a descriptor is needed, not {kind}")
    return value.reshape(*kind.block.shape) if kind.block.shape != value.shape else value


@rule("tt.descriptor_gather", "tt.experimental_descriptor_gather")
def _descriptor_gather(f: RegionReader, s: Operation) -> Expr:
    return f.b.descriptor_gather(*f.operands(s))


@rule("tt.descriptor_scatter", "tt.experimental_descriptor_scatter")
def _descriptor_scatter(f: RegionReader, s: Operation) -> None:
    descriptor, rows, column, value = f.operands(s)
    f.b.descriptor_scatter(descriptor, value, rows, column)
