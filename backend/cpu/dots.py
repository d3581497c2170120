"""Matrix products on a CPU: factors and sums lie in buffers on the stack (`assign_buffers`), and a
function of the module multiplies them.

The factors are widened to the type that products are added in, which is exact.
"""

from __future__ import annotations

from typing import Any

import attrs

from tileir.backend.codegen.lowering import Fragment, Rule, scalar_of
from tileir.backend.codegen.rules.cast import float_to_float
from tileir.backend.codegen.rules.memory import loaded
from tileir.backend.cpu.buffer_assignment import (
    PRODUCT,
    SLICE,
    OperandForm,
    assign_buffers,
    factors_of,
    work_of,
)
from tileir.backend.cpu.matrix_buffers import Matrix, call
from tileir.backend.cpu.microkernel import product_function
from tileir.ir import Function
from tileir.ops.dot import Dot
from tileir.ops.shape import ExtractSlice
from tileir.rewrite import Walk, rewrite
from tileir.types import I32, Element
from tileir.values import Value, is_zero


class CpuDot(Dot):
    """A `dot` whose operands and result may have any layout."""

    mnemonic = PRODUCT


class BufferSlice(ExtractSlice):
    """An `extract_slice` of a tile that lies in a buffer."""

    mnemonic = SLICE


def layout_free_dots(function: Function) -> Function:
    """`function` with every `dot` as one without wishes for layouts."""
    return rewrite(function, {"dot": lambda op, _: _as(CpuDot, op)})


def buffered_tiles(function: Function) -> frozenset[Value]:
    """The tiles of `function` that lie in buffers where products add to them."""
    return frozenset(assign_buffers(layout_free_dots(function)).sums)


def direct_slices(function: Function) -> Function:
    """`function`, whose dots are `layout_free_dots`, with slices of tiles that lie in buffers as
    ops that read them there."""
    sums = assign_buffers(function).sums

    def direct(op: Any, walk: Walk) -> Any:
        return _as(BufferSlice, op) if op.value in sums and op.strides is None else op

    return rewrite(function, {"extract_slice": direct}) if sums else function


def _as(kind: type[Any], op: Any) -> Any:
    """`op` as one of `kind`, whose fields are the same."""
    return kind(**{f.name: getattr(op, f.name) for f in attrs.fields(type(op)) if f.init})


def read_as(thread: Any, element: Element, factor: OperandForm, x: Any) -> Any:
    """An element of a factor as products read it."""
    if element is not factor.work:
        if element.is_integer:
            x = thread.convert("sext" if factor.signed else "zext", element, I32, x)
        else:
            x = float_to_float(thread, element, factor.work, x, "rn", False)
    return thread.round_tf32(x) if factor.tf32 else x


def _dot(lowering: Any, op: Any) -> list[Fragment]:
    thread: Any = lowering.thread
    total, work = scalar_of(op.c.type), work_of(op)
    first, second = factors_of(op)
    a, b = lowering.factor(op.a, first), lowering.factor(op.b, second)
    sums, held = lowering.home(op.result), total is work
    if not held:
        sums = Matrix(thread.fresh(), work, op.c.type.shape).allocate(thread)
    if is_zero(op.c):
        sums.clear(thread)
    elif not held or lowering.home(op.c) is not sums:
        for register, x in enumerate(lowering.fragment(op.c)):
            wide = x if held else float_to_float(thread, total, work, x, "rn", False)
            sums.put(lowering, op.c.type, register, wide)
    sizes = (sums.shape[-2], sums.pitch, a.shape[-1], a.pitch)
    call(thread, product_function(thread, work), (a, b, sums), sizes)
    if held:
        lowering.settle_whole(op.result)
        return [[]]
    found = [thread.convert("fptrunc", work, total, x) for x in sums.get(lowering, op.c.type)]
    for register, x in enumerate(found):
        lowering.settle(op.result, register, x)
    lowering.settled(op.result)
    return [found]


def _slice(lowering: Any, op: Any) -> list[Fragment]:
    """A slice from where the tile lies; of one that, with its layout, lies nowhere, from where it
    is put for this."""
    thread: Any = lowering.thread
    kind: Any = op.value.type
    whole = lowering.home(op.value)
    if whole is None:
        whole = Matrix(thread.fresh(), kind.element, kind.shape).allocate(thread)
        whole.put_all(lowering, kind, lowering.fragment(op.value))
    part = whole.part(thread, [lowering.scalar(o) for o in op.offsets])
    return [part.get(lowering, op.result.type)]


def _load(lowering: Any, op: Any) -> list[Fragment]:
    """As everywhere; what lies in buffers is put there register by register, so that registers do
    not run out."""
    found: Fragment = []
    for group, parts in loaded(lowering, op):
        for register, x in zip(group, parts, strict=True):
            lowering.settle(op.result, register, x)
        found += parts
    lowering.settled(op.result)
    return [found]


RULES: dict[str, Rule] = {PRODUCT: _dot, "load": _load, SLICE: _slice}

STORING = frozenset({PRODUCT, "load"})
"""Ops whose rules put their results where they lie."""
