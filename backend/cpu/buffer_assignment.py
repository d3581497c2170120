"""Assignment of tiles to buffers. Accumulators stay in place across dots and loop edges. Operands
of dots are packed once, where they are defined.

Values share a buffer if one becomes the other by a dot or an edge and no two of them are live at
once, as in register coalescing (Chaitin, "Register allocation & spilling via graph coloring",
1982).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.analysis.liveness import liveness
from tileir.analysis.uses import definitions, uses
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.types import F16, F32, Element, Tile, element_of
from tileir.values import Value

CPU_DOT, SLICE = "cpu.dot", "cpu.slice"


@attrs.frozen
class OperandForm:
    """The form in which dots read an operand: elements of type `work`.

    `signed` states whether integers are signed, `tf32` whether f32 is rounded to TF32, `panels`
    whether operand B is stored in panels of columns, and `transposed` whether the operand is read
    transposed.
    """

    work: Element
    signed: bool
    tf32: bool
    panels: bool
    transposed: bool = False


@attrs.frozen
class BufferAssignment:
    """The buffer number of each accumulator, the operand forms of each value, and the ops whose
    results are unused because operands are packed from the sources of these ops."""

    accumulators: Mapping[Value, int]
    operand_forms: Mapping[Value, tuple[OperandForm, ...]]
    unread: frozenset[Op]


def work_of(op: Any) -> Element:
    """The element type of accumulation."""
    total = element_of(op.c.type)
    assert isinstance(total, Element)
    return F32 if total is F16 else total


def operand_forms_of(op: Any) -> tuple[OperandForm, OperandForm]:
    """The forms in which a dot reads its operands."""
    work, rounded = work_of(op), op.precision.value == "tf32"
    return OperandForm(work, op.lhs_signed, rounded, False), OperandForm(
        work, op.rhs_signed, rounded, True
    )


def source_of(function: Function, operand: Any, form: OperandForm) -> tuple[Any, OperandForm]:
    """The tile to pack for the use `operand` of a dot: the source of a transpose or of a layout
    conversion."""
    while (op := _seen_through(definitions(function).get(operand))) is not None:
        operand = op.inputs[0]
        if op.mnemonic == "trans":
            form = attrs.evolve(form, transposed=not form.transposed)
    return operand, form


def _seen_through(op: Any) -> Op | None:
    """`op` if it only changes the layout or transposes matrices, else None."""
    if op is None or op.predicate is not None or op.mnemonic not in ("trans", "gpu.convert_layout"):
        return None
    rank = len(op.results[0].type.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return op if op.mnemonic != "trans" or tuple(op.order) == swapped else None


def _unread(function: Function) -> frozenset[Op]:
    """The ops that only feed operands of dots and are bypassed, since operands are packed from
    their sources."""
    unread: set[Op] = set()
    for label in reversed(cfg(function).order):
        for op in reversed(function.blocks[label].ops):
            if _seen_through(op) is not None and all(
                user in unread or (user.mnemonic == CPU_DOT and user.inputs[2] is not value)
                for value in op.results
                for user in uses(function).get(value, ())
            ):
                unread.add(op)
    return frozenset(unread)


@memoize
def assign_buffers(function: Function) -> BufferAssignment:
    """The buffer assignment of `function`."""
    dots = [op for op in function.ops if op.mnemonic == CPU_DOT]
    if not dots:
        return BufferAssignment({}, {}, frozenset())
    operand_forms: dict[Value, dict[OperandForm, None]] = {}
    for op in dots:
        for operand, read in zip(op.inputs, operand_forms_of(op), strict=False):
            value, form = source_of(function, operand, read)
            if type(value) is Value:
                operand_forms.setdefault(value, {})[form] = None
    read = {v: tuple(forms) for v, forms in operand_forms.items()}
    return BufferAssignment(_accumulators(function, dots), read, _unread(function))


def _accumulators(function: Function, dots: list[Op]) -> dict[Value, int]:
    accumulators = [op.results[0] for op in dots if element_of(op.results[0].type) is work_of(op)]
    classes = _CoalescingClasses({v: {v} for v in accumulators}, _alive_at(function))
    pairs = [(op.results[0], op.inputs[2]) for op in dots if op.results[0] in classes.members]
    for one, other in pairs:
        classes.join(one, other)
    while any(classes.join(a, p) or classes.join(p, a) for p, a in _edge_arguments(function)):
        """Until nothing changes: what an edge joins, another may go on from."""
    numbers = {id(group): i for i, group in enumerate(classes.members.values())}
    return {v: numbers[id(group)] for v, group in classes.members.items()}


def _edge_arguments(function: Function) -> Iterator[tuple[Value, Value]]:
    """Yield block parameters that are tiles, each with an argument that an edge passes to it."""
    for label in cfg(function).order:
        for edge in function.blocks[label].successors:
            parameters = function.blocks[edge.label].parameters
            for parameter, argument in zip(parameters, edge.arguments, strict=True):
                if type(argument) is Value and isinstance(parameter.type, Tile):
                    yield parameter, argument


@attrs.frozen
class _CoalescingClasses:
    """The values that share each value's buffer, and the values that are live where each is
    defined."""

    members: dict[Value, set[Value]]
    alive: Mapping[Value, frozenset[Value]]

    def join(self, live: Any, other: Any) -> bool:
        """Assign the buffer of `live` to `other`, unless they share it already or interfere. Return
        whether anything changed."""
        if live not in self.members or type(other) is not Value or other.type != live.type:
            return False
        ours, theirs = self.members[live], self.members.get(other, {other})
        if ours is theirs or any(self._clash(a, b) for a in ours for b in theirs):
            return False
        ours |= theirs
        self.members.update(dict.fromkeys(theirs, ours))
        return True

    def _clash(self, a: Value, b: Value) -> bool:
        return a in self.alive[b] or b in self.alive[a]


def _alive_at(function: Function) -> dict[Value, frozenset[Value]]:
    """The tiles other than itself that are live where each tile is defined."""
    live_values: dict[Value, frozenset[Value]] = {}
    for label in cfg(function).order:
        block = function.blocks[label]
        alive = set(_tiles(liveness(function).leaving[label]))
        for op in reversed(block.ops):
            defined = set(_tiles(op.results))
            live_values.update({v: frozenset((alive | defined) - {v}) for v in defined})
            alive -= defined
            alive.update(_tiles(v for v in op.operands if type(v) is Value))
        live_values.update(_at_start(block, alive))
    return live_values


def _at_start(block: Block, alive: set[Value]) -> dict[Value, frozenset[Value]]:
    parameters = set(_tiles(block.parameters))
    return {v: frozenset((alive | parameters) - {v}) for v in parameters}


def _tiles(values: Iterable[Any]) -> Iterator[Value]:
    return (v for v in values if isinstance(v.type, Tile))
