"""Matmuls on a CPU. Operands and accumulators are in buffers on the stack (`assign_buffers`), and a
function of the module multiplies them.

The operands are widened to the type of accumulation, which is exact.
"""

from __future__ import annotations

from typing import Any

import attrs

from tileir.backend.codegen.lowering import Fragment, Rule, scalar_of
from tileir.backend.codegen.rules.cast import float_to_float
from tileir.backend.codegen.rules.memory import by_register, load_groups
from tileir.backend.cpu.buffer_assignment import (
    CPU_DOT,
    SLICE,
    OperandForm,
    assign_buffers,
    operand_forms_of,
    work_of,
)
from tileir.backend.cpu.matrix_buffers import Matrix, call
from tileir.backend.cpu.microkernel import matmul_function
from tileir.ir import Function
from tileir.layout import Vector
from tileir.ops.dot import Dot
from tileir.ops.rearrange import ExtractSlice
from tileir.rewrite import Walk, rewrite
from tileir.types import I32, Element
from tileir.values import Value, is_zero


class CpuDot(Dot):
    """A `dot` whose operands and result may have any layout."""

    mnemonic = CPU_DOT


class BufferSlice(ExtractSlice):
    """An `extract_slice` of a tile in a buffer."""

    mnemonic = SLICE


def layout_free_dots(function: Function) -> Function:
    """`function` with every `dot` replaced by one that accepts any layout."""
    return rewrite(function, {"dot": lambda op, _: _as(CpuDot, op)})


def buffered_tiles(function: Function) -> frozenset[Value]:
    """The accumulators of `function` that are in buffers."""
    return frozenset(assign_buffers(layout_free_dots(function)).accumulators)


def direct_slices(function: Function) -> Function:
    """`function`, whose dots are `layout_free_dots`, with slices of tiles in buffers replaced by
    ops that read the slices from the buffers."""
    accumulators = assign_buffers(function).accumulators

    def direct(op: Any, walk: Walk) -> Any:
        return _as(BufferSlice, op) if op.value in accumulators and op.strides is None else op

    return rewrite(function, {"extract_slice": direct}) if accumulators else function


def _as(kind: type[Any], op: Any) -> Any:
    """`op` as an op of class `kind`, which has the same fields."""
    return kind(**{f.name: getattr(op, f.name) for f in attrs.fields(type(op)) if f.init})


def read_as(thread: Any, element: Element, form: OperandForm, x: Any) -> Any:
    """An operand element as dots read it."""
    if element is not form.work:
        if element.is_integer:
            x = thread.convert("sext" if form.signed else "zext", element, I32, x)
        else:
            x = float_to_float(thread, element, form.work, x, "rn", False)
    return thread.round_tf32(x) if form.tf32 else x


def _dot(lowering: Any, op: Any) -> list[Fragment]:
    thread: Any = lowering.thread
    total, work = scalar_of(op.c.type), work_of(op)
    first, second = operand_forms_of(op)
    a, b = lowering.operand_buffer(op.a, first), lowering.operand_buffer(op.b, second)
    accumulator, in_place = lowering.accumulator_buffer(op.result), total is work
    if not in_place:
        accumulator = Matrix(thread.fresh(), work, op.c.type.shape).allocate(thread)
    if is_zero(op.c):
        accumulator.clear(thread)
    elif not in_place or lowering.accumulator_buffer(op.c) is not accumulator:
        for register, x in enumerate(lowering.fragment(op.c)):
            wide = x if in_place else float_to_float(thread, total, work, x, "rn", False)
            accumulator.put(lowering, op.c.type, register, wide)
    sizes = (accumulator.shape[-2], accumulator.pitch, a.shape[-1], a.pitch)
    call(thread, matmul_function(thread, work), (a, b, accumulator), sizes)
    if in_place:
        lowering.settle_whole(op.result)
        return [[]]
    values = [
        thread.convert("fptrunc", work, total, x) for x in accumulator.get(lowering, op.c.type)
    ]
    for register, x in enumerate(values):
        lowering.settle(op.result, register, x)
    lowering.finish_operands(op.result)
    return [values]


def _slice(lowering: Any, op: Any) -> list[Fragment]:
    """A slice loaded from the buffer of the tile. A tile without a buffer is stored to a temporary
    one."""
    thread: Any = lowering.thread
    kind: Any = op.value.type
    matrix = lowering.accumulator_buffer(op.value)
    if matrix is None:
        matrix = Matrix(thread.fresh(), kind.element, kind.shape).allocate(thread)
        matrix.put_all(lowering, kind, lowering.fragment(op.value))
    part = matrix.part(thread, [lowering.scalar(o) for o in op.offsets])
    return [part.get(lowering, op.result.type)]


def _load(lowering: Any, op: Any) -> list[Fragment]:
    """Load as on other targets. Results that belong in buffers are stored register by register, to
    limit register pressure."""
    groups: list[tuple[Vector, Fragment]] = []
    for group, parts in load_groups(lowering, op):
        for register, x in zip(group, parts, strict=True):
            lowering.settle(op.result, register, x)
        groups.append((group, parts))
    lowering.finish_operands(op.result)
    return [by_register(groups)]


RULES: dict[str, Rule] = {CPU_DOT: _dot, "load": _load, SLICE: _slice}

STORING = frozenset({CPU_DOT, "load"})
"""Ops whose rules write their results to the buffers."""
