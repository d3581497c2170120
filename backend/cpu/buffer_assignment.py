"""Which tiles of a function lie in buffers: sums of products, which stay where the product adds to
them, over the edges of loops too; and factors, which are put there once, where they are made.

Values share a buffer if one becomes the other by a product or an edge and no two of them are alive
at once, as registers are coalesced (Chaitin, "Register allocation & spilling via graph coloring",
1982).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from tileir.analysis.cache import cached
from tileir.analysis.cfg import cfg
from tileir.analysis.liveness import liveness
from tileir.analysis.uses import definitions, uses
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.types import F16, F32, Element, Tile, element_of
from tileir.values import Value

PRODUCT, SLICE = "cpu.dot", "cpu.slice"


@attrs.frozen
class OperandForm:
    """How products read a factor: as elements of `work`, which integers become by their sign, f32
    rounded to TF32 where that is asked for; `panels`: as a second factor; `turned`: what is read is
    the transpose."""

    work: Element
    signed: bool
    tf32: bool
    panels: bool
    transposed: bool = False


@attrs.frozen
class BufferAssignment:
    """Of values, the number of the buffer they lie in, and the factors they are; and the ops whose
    results nobody reads, since factors are put as they were before them."""

    sums: Mapping[Value, int]
    factors: Mapping[Value, tuple[OperandForm, ...]]
    unread: frozenset[Op]


def work_of(op: Any) -> Element:
    """The type that a product is added in."""
    total = element_of(op.c.type)
    assert isinstance(total, Element)
    return F32 if total is F16 else total


def factors_of(op: Any) -> tuple[OperandForm, OperandForm]:
    """How a product reads its factors."""
    work, rounded = work_of(op), op.precision.value == "tf32"
    return OperandForm(work, op.lhs_signed, rounded, False), OperandForm(
        work, op.rhs_signed, rounded, True
    )


def source_of(function: Function, operand: Any, factor: OperandForm) -> tuple[Any, OperandForm]:
    """The tile that is to be put where a product reads `operand`: what that is the transpose of, or
    has in another layout."""
    while (op := _seen_through(definitions(function).get(operand))) is not None:
        operand = op.inputs[0]
        if op.mnemonic == "trans":
            factor = attrs.evolve(factor, transposed=not factor.transposed)
    return operand, factor


def _seen_through(op: Any) -> Op | None:
    """`op` if it moves elements to other layouts or transposes matrices, and nothing else."""
    if op is None or op.predicate is not None or op.mnemonic not in ("trans", "gpu.convert_layout"):
        return None
    rank = len(op.results[0].type.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return op if op.mnemonic != "trans" or tuple(op.order) == swapped else None


def _unread(function: Function) -> frozenset[Op]:
    """What only leads to factors, and is seen through."""
    found: set[Op] = set()
    for label in reversed(cfg(function).order):
        for op in reversed(function.blocks[label].ops):
            if _seen_through(op) is not None and all(
                user in found or (user.mnemonic == PRODUCT and user.inputs[2] is not value)
                for value in op.results
                for user in uses(function).get(value, ())
            ):
                found.add(op)
    return frozenset(found)


@cached
def assign_buffers(function: Function) -> BufferAssignment:
    """The homes of tiles in `function`."""
    products = [op for op in function.ops if op.mnemonic == PRODUCT]
    if not products:
        return BufferAssignment({}, {}, frozenset())
    factors: dict[Value, dict[OperandForm, None]] = {}
    for op in products:
        for operand, read in zip(op.inputs, factors_of(op), strict=False):
            value, factor = source_of(function, operand, read)
            if type(value) is Value:
                factors.setdefault(value, {})[factor] = None
    read = {v: tuple(found) for v, found in factors.items()}
    return BufferAssignment(_sums(function, products), read, _unread(function))


def _sums(function: Function, products: list[Op]) -> dict[Value, int]:
    held = [op.results[0] for op in products if element_of(op.results[0].type) is work_of(op)]
    classes = _CoalescingClasses({v: {v} for v in held}, _alive_at(function))
    pairs = [(op.results[0], op.inputs[2]) for op in products if op.results[0] in classes.members]
    for one, other in pairs:
        classes.join(one, other)
    while any(classes.join(a, p) or classes.join(p, a) for p, a in _passed(function)):
        """Until nothing changes: what an edge joins, another may go on from."""
    numbers = {id(members): i for i, members in enumerate(classes.members.values())}
    return {v: numbers[id(members)] for v, members in classes.members.items()}


def _passed(function: Function) -> Iterator[tuple[Value, Value]]:
    """Parameters of blocks that are tiles, with what edges pass them."""
    for label in cfg(function).order:
        for edge in function.blocks[label].successors:
            parameters = function.blocks[edge.label].parameters
            for parameter, argument in zip(parameters, edge.arguments, strict=True):
                if type(argument) is Value and isinstance(parameter.type, Tile):
                    yield parameter, argument


@attrs.frozen
class _CoalescingClasses:
    """The values that share each value's buffer; and those alive where each is defined."""

    members: dict[Value, set[Value]]
    alive: Mapping[Value, frozenset[Value]]

    def join(self, held: Any, other: Any) -> bool:
        """Give `other` the buffer of `held`, which has one, unless it has it already or may not;
        whether that changed anything."""
        if held not in self.members or type(other) is not Value or other.type != held.type:
            return False
        ours, theirs = self.members[held], self.members.get(other, {other})
        if ours is theirs or any(self._clash(a, b) for a in ours for b in theirs):
            return False
        ours |= theirs
        self.members.update(dict.fromkeys(theirs, ours))
        return True

    def _clash(self, a: Value, b: Value) -> bool:
        return a in self.alive[b] or b in self.alive[a]


def _alive_at(function: Function) -> dict[Value, frozenset[Value]]:
    """The tiles that are alive where each is defined, other than itself."""
    found: dict[Value, frozenset[Value]] = {}
    for label in cfg(function).order:
        block = function.blocks[label]
        alive = set(_tiles(liveness(function).leaving[label]))
        for op in reversed(block.ops):
            defined = set(_tiles(op.results))
            found.update({v: frozenset((alive | defined) - {v}) for v in defined})
            alive -= defined
            alive.update(_tiles(v for v in op.operands if type(v) is Value))
        found.update(_at_start(block, alive))
    return found


def _at_start(block: Block, alive: set[Value]) -> dict[Value, frozenset[Value]]:
    parameters = set(_tiles(block.parameters))
    return {v: frozenset((alive | parameters) - {v}) for v in parameters}


def _tiles(values: Iterable[Any]) -> Iterator[Value]:
    return (v for v in values if isinstance(v.type, Tile))
