"""Loads, stores, atomics, tensor descriptors."""

from __future__ import annotations

import re
from typing import Any

from tileir.builder import Expr
from tileir.frontends.ttir.arithmetic import hinted
from tileir.frontends.ttir.errors import Refused
from tileir.frontends.ttir.frame import Frame, rule
from tileir.frontends.ttir.nodes import Statement
from tileir.frontends.ttir.types import described
from tileir.types import Descriptor, Pointer, Scalar, Tile, element_of, shape_of, tile

_EVICTIONS = {"evict_first": "first", "evict_last": "last"}
_POLICY = re.compile(r"(cache_modifier|eviction_policy) = (\w+)")


@rule("tt.addptr")
def _addptr(f: Frame, s: Statement) -> Expr:
    return hinted(f, s, f.b.getelementptr(*f.operands(s)))


@rule("tt.load")
def _load(f: Frame, s: Statement) -> Expr:
    pointer, *rest = f.operands(s)
    if len(rest) == 1 and f.masked_off == "zero":
        kind = element_of(pointer.type)
        if not isinstance(kind, Pointer):
            raise Refused(f"a load is from pointers, not from {pointer.type}")
        rest.append(f.b.constant(tile(kind.pointee, shape_of(pointer.type)), 0))
    options = _policy(s)
    if s.options.get("isVolatile"):
        options["volatile"] = True
    return f.b.load(pointer, *rest, **options)


@rule("tt.store")
def _store(f: Frame, s: Statement) -> None:
    f.b.store(*f.operands(s), **_policy(s))


def _policy(s: Statement) -> dict[str, Any]:
    """Where a load or store wants its lines kept; Triton 3.9 writes one attribute, older ones
    two."""
    stated = dict(_POLICY.findall(str(s.options.get("cachePolicy", ""))))
    cache = stated.get("cache_modifier") or s.options.get("cacheModifier", "none")
    eviction = stated.get("eviction_policy") or s.options.get("evictionPolicy")
    found: dict[str, Any] = {}
    if cache != "none":
        found["cache"] = cache
    if eviction in _EVICTIONS:
        found["eviction"] = _EVICTIONS[eviction]
    return found


# Atomics --------------------------------------------------------------------------------------

_ATOMIC = {"max": "smax", "min": "smin", "exch": "xchg"}
_SCOPES = {"gpu": "gpu", "cta": "cta", "sys": "sys"}


@rule("tt.atomic_rmw")
def _atomic_rmw(f: Frame, s: Statement) -> Expr:
    op, sem, scope = s.words[:3]
    return f.b.atomic_rmw(*f.operands(s), op=_ATOMIC.get(op, op), sem=sem, scope=_SCOPES[scope])


@rule("tt.atomic_cas")
def _atomic_cas(f: Frame, s: Statement) -> Expr:
    sem, scope = s.words[:2]
    return f.b.atomic_cas(*f.operands(s), sem=sem, scope=_SCOPES[scope])


# Tensor descriptors ---------------------------------------------------------------------------

_PADDINGS = {1: "zero", 2: "nan"}


@rule("tt.make_tensor_descriptor")
def _make_descriptor(f: Frame, s: Statement) -> Expr:
    (base,), extents, strides = ([f.value(n) for n in group] for group in s.groups())
    kind = s.result
    if not isinstance(kind, Descriptor):
        if not isinstance(kind, Tile):
            raise Refused(f"a descriptor is of blocks, not of {kind}")
        kind = described(f"<{kind}>")
    padding = s.options.get("padding", 1)
    pairs = list(zip(extents, strides, strict=True))
    return f.b.make_descriptor(base, kind, pairs, padding=_PADDINGS.get(padding, "zero"))


@rule("tt.descriptor_load", "tt.experimental_descriptor_load")
def _descriptor_load(f: Frame, s: Statement) -> Expr:
    descriptor, *indices = f.operands(s)
    found = f.b.descriptor_load(descriptor, indices)
    wanted = shape_of(s.result)
    return found if found.shape == wanted else found.reshape(*wanted)


@rule("tt.descriptor_store", "tt.experimental_descriptor_store")
def _descriptor_store(f: Frame, s: Statement) -> None:
    descriptor, *indices, value = f.operands(s)
    f.b.descriptor_store(descriptor, _whole(descriptor, value), indices)


_REDUCTIONS = {
    "add": ("add", "fadd"), "min": ("smin", "fmin"), "max": ("smax", "fmax"), "and": ("and", ""),
    "or": ("or", ""), "xor": ("xor", ""),
}  # fmt: skip


@rule("tt.descriptor_reduce")
def _descriptor_reduce(f: Frame, s: Statement) -> None:
    descriptor, *indices, value = f.operands(s)
    kind = element_of(value.type)
    op = _REDUCTIONS[s.words[0]][isinstance(kind, Scalar) and kind.is_float]
    f.b.descriptor_reduce(descriptor, _whole(descriptor, value), indices, op=op)


def _whole(descriptor: Expr, value: Expr) -> Expr:
    """`value` at the shape of the blocks, which may have dimensions of extent 1 beside."""
    kind = descriptor.type
    if not isinstance(kind, Descriptor):
        raise Refused(f"a descriptor is needed, not {kind}")
    return value.reshape(*kind.block.shape) if kind.block.shape != value.shape else value


@rule("tt.descriptor_gather")
def _descriptor_gather(f: Frame, s: Statement) -> Expr:
    return f.b.descriptor_gather(*f.operands(s))


@rule("tt.descriptor_scatter")
def _descriptor_scatter(f: Frame, s: Statement) -> None:
    descriptor, rows, column, value = f.operands(s)
    f.b.descriptor_scatter(descriptor, value, rows, column)
