"""Tensor descriptors as base, extents and strides; their accesses as addresses under masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from tileir.backend.transforms.op_builder import OpBuilder
from tileir.field import Successor
from tileir.ir import Block, Function, Parameter
from tileir.op import Op
from tileir.ops.arith import Add, And, Mul, SMax
from tileir.ops.atomic import AtomicRMW
from tileir.ops.compare import ICmp, IntegerPredicate
from tileir.ops.memory import Load, Store
from tileir.ops.shape import GetElementPtr
from tileir.types import I64, Descriptor, Tile, pointer
from tileir.values import Constant, Operand, Value, constant

Mask: TypeAlias = Operand


@attrs.frozen(eq=False)
class Parts:
    """A descriptor: scalars, extents (at least 0) and strides as i64."""

    base: Operand
    extents: tuple[Operand, ...]
    strides: tuple[Operand, ...]
    padding: str

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What is carried along an edge."""
        return (self.base, *self.extents, *self.strides)


def expand_descriptors(function: Function, *, maps: bool = False) -> Function:
    """`function` without descriptors; itself where it has none. With `maps` those that parameters
    hold stay, which are tensor maps.

    before:
        %d = make_descriptor tensor_desc<f32<8>> %p, [%n, i64 1]
        %v = descriptor_load f32<8> %d, %i
    after:
        %at = add i64<8> (the range from %i)
        %in, _ = icmp (i1<8>, i1<8>) %at, (%n everywhere) {predicate = ult}
        %q = getelementptr f32*<8> (%p everywhere), %at
        %v = load f32<8> %q, %in, 0.0
    """
    return _Expansion(function, maps).run()


class _Expansion:
    def __init__(self, function: Function, maps: bool) -> None:
        self.function, self.maps = function, maps
        self.parts: dict[Value, Parts] = {}

    def run(self) -> Function:
        padding = _paddings(self.function)
        heads = {b.label: self._head(b, padding) for b in self.function.blocks.values()}
        from tileir.analysis.cfg import cfg  # the order in which definitions come before uses

        order = cfg(self.function).order
        parameters = [p for old in self.function.parameters for p in self._taken_apart(old)]
        made = {label: self._block(self.function.blocks[label], heads) for label in order}
        blocks = {n: made.get(n, b) for n, b in self.function.blocks.items()}
        changed = self.function.with_blocks(blocks)
        same = len(parameters) == len(changed.parameters)
        return changed if same else changed.evolve(parameters=tuple(parameters))

    def _taken_apart(self, parameter: Parameter) -> list[Parameter]:
        """A parameter, or base, extents and strides of one that is a descriptor; what lies
        outside it reads as zero."""
        kind = parameter.type
        if self.maps or not isinstance(kind, Descriptor):
            return [parameter]
        parts = self._parts(parameter.value, kind, "zero")
        first = attrs.evolve(parameter, value=parts.base)
        return [first, *(Parameter(v) for v in parts.operands[1:] if isinstance(v, Value))]

    def _parts(self, value: Value, kind: Descriptor, padding: str) -> Parts:
        rank = len(kind.block.shape)
        base = Value(pointer(kind.block.element), value.name)
        numbers = tuple([Value(I64) for _ in range(2 * rank)])
        self.parts[value] = Parts(base, numbers[:rank], numbers[rank:], padding)
        return self.parts[value]

    def _head(self, block: Block, padding: Mapping[Value, str]) -> tuple[Value, ...]:
        """The parameters of `block`, those that are descriptors taken apart."""
        found: list[Value] = []
        for value in block.parameters:
            if not isinstance(value.type, Descriptor):
                found.append(value)
                continue
            parts = self._parts(value, value.type, padding.get(value, "zero"))
            found += [v for v in parts.operands if isinstance(v, Value)]
        return tuple(found)

    def _block(self, block: Block, heads: Mapping[str, tuple[Value, ...]]) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            ops += self._expanded(op)
        head = heads[block.label]
        if (
            head == block.parameters
            and len(ops) == len(block.ops)
            and all(a is b for a, b in zip(ops, block.ops, strict=True))
        ):
            return block
        return attrs.evolve(block, parameters=head, ops=ops)

    def _expanded(self, op: Any) -> list[Op]:
        if op.mnemonic == "make_descriptor":
            return self._made(op)
        if op.is_terminator:
            return [self._edges(op)]
        rule = _ACCESSES.get(op.mnemonic)
        if rule is None:
            return [op]
        make = OpBuilder(op)
        rule(make, op, self.parts[op.descriptor])
        return make.ops

    def _made(self, op: Any) -> list[Op]:
        make = OpBuilder(op)
        extents = [_extent(make, n) for n in op.dimensions[::2]]
        strides = [make.wide(n) for n in op.dimensions[1::2]]
        self.parts[op.result] = Parts(op.base, tuple(extents), tuple(strides), op.padding.value)
        return make.ops

    def _edges(self, op: Any) -> Op:
        """A terminator whose arguments that are descriptors are taken apart."""
        changes = {
            field.name: Successor(edge.label, self._arguments(edge))
            for field in op.fields()
            if isinstance(edge := getattr(op, field.name), Successor)
            and any(isinstance(a.type, Descriptor) for a in edge.arguments)
        }
        return op.evolve(**changes) if changes else op

    def _arguments(self, edge: Successor) -> tuple[Operand, ...]:
        found: list[Operand] = []
        for argument in edge.arguments:
            parts = self.parts.get(argument) if isinstance(argument, Value) else None
            found += (argument,) if parts is None else parts.operands
        return tuple(found)


def _paddings(function: Function) -> dict[Value, str]:
    """The padding of every block parameter that is a descriptor: that of what reaches it."""
    makers: list[Any] = [op for op in function.ops if op.mnemonic == "make_descriptor"]
    known: dict[Value, str] = {op.result: op.padding.value for op in makers}
    known.update((p.value, "zero") for p in function.parameters if isinstance(p.type, Descriptor))
    changed = True
    while changed:
        changed = False
        for block in function.blocks.values():
            for edge in block.successors:
                target = function.blocks[edge.label]
                for value, argument in zip(target.parameters, edge.arguments, strict=True):
                    word = known.get(argument) if isinstance(argument, Value) else None
                    if word is not None and known.get(value) is None:
                        known[value] = word
                        changed = True
    return known


def _extent(make: OpBuilder, n: Operand) -> Operand:
    """An extent as i64; a negative one holds nothing, like 0."""
    if isinstance(n, Constant):
        return constant(I64, max(0, int(n.value)))
    return make.add(SMax(make.wide(n), constant(I64, 0)))


# Accesses -------------------------------------------------------------------------------------


def _block_positions(make: OpBuilder, op: Any) -> list[tuple[Operand, int]]:
    """Positions along every dimension, each a tile of one dimension."""
    found: list[tuple[Operand, int]] = []
    for dim, (index, extent) in enumerate(zip(op.indices, op.block().shape, strict=True)):
        start = make.spread(make.wide(index), (extent,))
        found.append((make.add(Add(start, make.range(extent))), dim))
    return found


def _row_positions(make: OpBuilder, op: Any) -> list[tuple[Operand, int]]:
    width = op.block().shape[1]
    start = make.spread(make.wide(op.column), (width,))
    return [(make.wide(op.index), 0), (make.add(Add(start, make.range(width))), 1)]


def _places(
    make: OpBuilder, parts: Parts, positions: list[tuple[Operand, int]], whole: Tile
) -> tuple[Value, Mask]:
    """Pointers to the elements of `whole`, and which of them lie in the tensor."""
    offset: Operand | None = None
    inside: Operand | None = None
    for at, dim in positions:
        (count,) = at.type.shape  # type: ignore[union-attr]
        limit = make.spread(parts.extents[dim], (count,))
        here = ICmp(at, limit, predicate_=IntegerPredicate.ULT)
        make.ops.append(attrs.evolve(here, location=make.source.location))
        held = make.along(make.ops[-1].results[0], dim, whole.shape)
        stride = parts.strides[dim]
        if not (isinstance(stride, Constant) and stride.bits == 1):
            at = make.add(Mul(at, make.spread(stride, (count,))))
        moved = make.along(at, dim, whole.shape)
        offset = moved if offset is None else make.add(Add(offset, moved))
        inside = held if inside is None else make.add(And(inside, held))
    assert offset is not None and inside is not None
    return make.add(GetElementPtr(make.spread(parts.base, whole.shape), offset)), inside


def _padding(whole: Tile, word: str) -> Operand:
    if word == "zero":
        return Constant(whole, 0)
    return constant(whole, float("nan"))


def _load(make: OpBuilder, op: Any, parts: Parts) -> None:
    whole = op.block()
    pointers, inside = _places(make, parts, _block_positions(make, op), whole)
    make.last(Load(pointers, inside, _padding(whole, parts.padding)))


def _store(make: OpBuilder, op: Any, parts: Parts) -> None:
    pointers, inside = _places(make, parts, _block_positions(make, op), op.block())
    make.last(Store(pointers, op.value, inside))


def _reduce(make: OpBuilder, op: Any, parts: Parts) -> None:
    pointers, inside = _places(make, parts, _block_positions(make, op), op.block())
    make.last(AtomicRMW(pointers, op.value, inside, op=op.op, sem=op.sem, scope=op.scope))


def _gather(make: OpBuilder, op: Any, parts: Parts) -> None:
    whole = op.rows()
    pointers, inside = _places(make, parts, _row_positions(make, op), whole)
    make.last(Load(pointers, inside, _padding(whole, parts.padding)))


def _scatter(make: OpBuilder, op: Any, parts: Parts) -> None:
    pointers, inside = _places(make, parts, _row_positions(make, op), op.rows())
    make.last(Store(pointers, op.value, inside))


_ACCESSES: dict[str, Any] = {
    "descriptor_load": _load,
    "descriptor_store": _store,
    "descriptor_reduce": _reduce,
    "descriptor_gather": _gather,
    "descriptor_scatter": _scatter,
}
