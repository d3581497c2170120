"""Decomposition of tensor descriptors into base, extents and strides, and of their accesses into
masked pointer accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from tileir.backend.transforms.op_builder import OpBuilder
from tileir.field import Successor
from tileir.ir import Block, Function, Parameter
from tileir.op import Op
from tileir.ops.arith import Add, And, ICmp, IntegerPredicate, Mul, SMax
from tileir.ops.atomic import AtomicRMW
from tileir.ops.memory import Load, Store
from tileir.ops.shape import GetElementPtr, Reshape
from tileir.rewrite import rewrite
from tileir.types import I64, Descriptor, Tile, pointer, shape_of
from tileir.values import Constant, Operand, Value, constant

Mask: TypeAlias = Operand


@attrs.frozen(eq=False)
class ExpandedDescriptor:
    """A descriptor as scalars: the base pointer, extents (i64, at least 0), and strides (i64, in
    elements). `padding` is `zero` or `nan`."""

    base: Operand
    extents: tuple[Operand, ...]
    strides: tuple[Operand, ...]
    padding: str

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The scalars that replace the descriptor as an argument."""
        return (self.base, *self.extents, *self.strides)


def expand_descriptors(function: Function, *, maps: bool = False) -> Function:
    """`function` without descriptors; itself where it has none. With `maps`, parameters that are
    descriptors stay: they are tensor maps.

    before:
        %d = make_descriptor tensor_desc<f32<8>> %p, [%n, i64 1]
        %v = descriptor_load f32<8> %d, %i
    after:
        %at = add i64<8> (the range from %i)
        %in, _ = icmp (i1<8>, i1<8>) %at, (%n everywhere) {predicate = ult}
        %q = getelementptr f32*<8> (%p everywhere), %at
        %v = load f32<8> %q, %in, 0.0
    """
    expanded = _Expansion(function, maps).run()
    return _without_repeated_reshapes(expanded) if _drops_dimensions(function) else expanded


def _drops_dimensions(function: Function) -> bool:
    """Whether blocks that are loaded have dimensions of extent 1."""
    return any(
        op.mnemonic in _ACCESSES and bool(op.results) and 1 in shape_of(op.results[0].type)
        for op in function.ops
    )


def _without_repeated_reshapes(function: Function) -> Function:
    """`function` without reshapes of reshapes: a block of a batch that is reshaped to a matrix is
    the loaded matrix, which an operand of a dot is read from where it was copied to."""
    from tileir.passes.dce import dce  # few kernels load blocks of batches
    from tileir.passes.laws.law import rules
    from tileir.passes.laws.shapes import RESHAPES

    return dce(rewrite(function, rules(RESHAPES)))


class _Expansion:
    def __init__(self, function: Function, maps: bool) -> None:
        self.function, self.maps = function, maps
        self.expansions: dict[Value, ExpandedDescriptor] = {}

    def run(self) -> Function:
        padding = _paddings(self.function)
        heads = {b.label: self._head(b, padding) for b in self.function.blocks.values()}
        from tileir.analysis.cfg import cfg  # the order in which definitions come before uses

        order = cfg(self.function).order
        parameters = [p for old in self.function.parameters for p in self._expand_parameter(old)]
        expanded = {label: self._block(self.function.blocks[label], heads) for label in order}
        blocks = {n: expanded.get(n, b) for n, b in self.function.blocks.items()}
        changed = self.function.with_blocks(blocks)
        has_same_parameters = len(parameters) == len(changed.parameters)
        return changed if has_same_parameters else changed.evolve(parameters=tuple(parameters))

    def _expand_parameter(self, parameter: Parameter) -> list[Parameter]:
        """A parameter, or base, extents and strides of a descriptor. Elements outside the tensor
        are read as zero."""
        kind = parameter.type
        if self.maps or not isinstance(kind, Descriptor):
            return [parameter]
        expansion = self._new_expansion(parameter.value, kind, "zero")
        first = attrs.evolve(parameter, value=expansion.base)
        return [first, *(Parameter(v) for v in expansion.operands[1:] if isinstance(v, Value))]

    def _new_expansion(self, value: Value, kind: Descriptor, padding: str) -> ExpandedDescriptor:
        rank = len(kind.block.shape)
        base = Value(pointer(kind.block.element), value.name)
        numbers = tuple([Value(I64) for _ in range(2 * rank)])
        self.expansions[value] = ExpandedDescriptor(base, numbers[:rank], numbers[rank:], padding)
        return self.expansions[value]

    def _head(self, block: Block, padding: Mapping[Value, str]) -> tuple[Value, ...]:
        """The parameters of `block`, with descriptors replaced by their scalars."""
        head: list[Value] = []
        for value in block.parameters:
            if not isinstance(value.type, Descriptor):
                head.append(value)
                continue
            expansion = self._new_expansion(value, value.type, padding.get(value, "zero"))
            head += [v for v in expansion.operands if isinstance(v, Value)]
        return tuple(head)

    def _block(self, block: Block, heads: Mapping[str, tuple[Value, ...]]) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            ops += self._expand_op(op)
        head = heads[block.label]
        if (
            head == block.parameters
            and len(ops) == len(block.ops)
            and all(a is b for a, b in zip(ops, block.ops, strict=True))
        ):
            return block
        return attrs.evolve(block, parameters=head, ops=ops)

    def _expand_op(self, op: Any) -> list[Op]:
        if op.mnemonic == "make_descriptor":
            return self._expand_make(op)
        if op.is_terminator:
            return [self._expand_edges(op)]
        if op.mnemonic not in _ACCESSES:
            return [op]
        builder = OpBuilder(op)
        _access(builder, op, self.expansions[op.descriptor])
        return builder.ops

    def _expand_make(self, op: Any) -> list[Op]:
        builder = OpBuilder(op)
        extents = [_extent(builder, n) for n in op.dimensions[::2]]
        strides = [builder.to_i64(n) for n in op.dimensions[1::2]]
        self.expansions[op.result] = ExpandedDescriptor(
            op.base, tuple(extents), tuple(strides), op.padding.value
        )
        return builder.ops

    def _expand_edges(self, op: Any) -> Op:
        """A terminator, with descriptors among its arguments replaced by their scalars."""
        changes = {
            field.name: Successor(edge.label, self._expand_arguments(edge))
            for field in op.fields()
            if isinstance(edge := getattr(op, field.name), Successor)
            and any(isinstance(a.type, Descriptor) for a in edge.arguments)
        }
        return op.evolve(**changes) if changes else op

    def _expand_arguments(self, edge: Successor) -> tuple[Operand, ...]:
        arguments: list[Operand] = []
        for argument in edge.arguments:
            expansion = self.expansions.get(argument) if isinstance(argument, Value) else None
            arguments += (argument,) if expansion is None else expansion.operands
        return tuple(arguments)


def _paddings(function: Function) -> dict[Value, str]:
    """The padding of every descriptor; block parameters have that of their arguments."""
    makers: list[Any] = [op for op in function.ops if op.mnemonic == "make_descriptor"]
    padding_of: dict[Value, str] = {op.result: op.padding.value for op in makers}
    padding_of.update(
        (p.value, "zero") for p in function.parameters if isinstance(p.type, Descriptor)
    )
    changed = True
    while changed:
        changed = False
        for block in function.blocks.values():
            for edge in block.successors:
                target = function.blocks[edge.label]
                for value, argument in zip(target.parameters, edge.arguments, strict=True):
                    padding = padding_of.get(argument) if isinstance(argument, Value) else None
                    if padding is not None and padding_of.get(value) is None:
                        padding_of[value] = padding
                        changed = True
    return padding_of


def _extent(builder: OpBuilder, n: Operand) -> Operand:
    """An extent as i64; negative extents become 0."""
    if isinstance(n, Constant):
        return constant(I64, max(0, int(n.value)))
    return builder.add(SMax(builder.to_i64(n), constant(I64, 0)))


# Accesses -------------------------------------------------------------------------------------


Positions: TypeAlias = list[tuple[Operand, int]]
"""i64 tiles of one dimension: positions in the tensor along its dimension of that number."""


def _block_positions(builder: OpBuilder, op: Any) -> tuple[Positions, Tile]:
    """Positions of a block of the tensor, and its type."""
    positions: list[tuple[Operand, int]] = []
    for dim, (index, extent) in enumerate(zip(op.indices, op.block().shape, strict=True)):
        start = builder.splat(builder.to_i64(index), (extent,))
        positions.append((builder.add(Add(start, builder.range(extent))), dim))
    return positions, op.block()


def _row_positions(builder: OpBuilder, op: Any) -> tuple[Positions, Tile]:
    """Positions of rows of the tensor at indices, and the type of the rows."""
    width = op.block().shape[1]
    start = builder.splat(builder.to_i64(op.column), (width,))
    columns = builder.add(Add(start, builder.range(width)))
    return [(builder.to_i64(op.index), 0), (columns, 1)], op.rows()


def _pointers_and_mask(
    builder: OpBuilder,
    expansion: ExpandedDescriptor,
    positions: Positions,
    tile: Tile,
) -> tuple[Value, Mask]:
    """Pointers to the elements of a tile of type `tile`, and the mask of those in bounds."""
    offset: Operand | None = None
    inside: Operand | None = None
    axis = -1
    for at, dim in positions:
        (count,) = at.type.shape  # type: ignore[union-attr]
        axis += count > 1
        limit = builder.splat(expansion.extents[dim], (count,))
        comparison = ICmp(at, limit, predicate_=IntegerPredicate.ULT)
        builder.ops.append(attrs.evolve(comparison, location=builder.source.location))
        in_bounds = _spread(builder, builder.ops[-1].results[0], axis, tile.shape)
        stride = expansion.strides[dim]
        if not (isinstance(stride, Constant) and stride.bits == 1):
            at = builder.add(Mul(at, builder.splat(stride, (count,))))
        term = _spread(builder, at, axis, tile.shape)
        offset = term if offset is None else builder.add(Add(offset, term))
        inside = in_bounds if inside is None else builder.add(And(inside, in_bounds))
    assert offset is not None and inside is not None
    return builder.add(GetElementPtr(builder.splat(expansion.base, tile.shape), offset)), inside


def _spread(builder: OpBuilder, x: Operand, axis: int, shape: tuple[int, ...]) -> Operand:
    """A tile of one dimension along `axis`, or everywhere if it has one element."""
    if shape_of(x.type) != (1,):
        return builder.broadcast_from_axis(x, axis, shape)
    return builder.broadcast(builder.reshape(x, (1,) * len(shape)), shape)


def _padding(tile: Tile, word: str) -> Operand:
    if word == "zero":
        return Constant(tile, 0)
    return constant(tile, float("nan"))


def _access(builder: OpBuilder, op: Any, expansion: ExpandedDescriptor) -> None:
    """Append the load, store or atomic op on pointers that replaces an access through a descriptor.
    Blocks are accessed without their dimensions of extent 1, as dots and tensor maps require."""
    find_positions, kind = _ACCESSES[op.mnemonic]
    positions, block = find_positions(builder, op)
    tile = Tile(block.element, tuple(n for n in block.shape if n > 1) or (1,))
    pointers, inside = _pointers_and_mask(builder, expansion, positions, tile)
    if kind is Load:
        load = Load(pointers, inside, _padding(tile, expansion.padding))
        if tile is block:
            builder.add_final(load)
        else:
            loaded = builder.add(attrs.evolve(load, predicate=op.predicate))
            builder.add_final(Reshape(loaded, block))
        return
    value = builder.reshape(op.value, tile.shape)
    if kind is Store:
        builder.add_final(Store(pointers, value, inside))
    else:
        rmw = AtomicRMW(pointers, value, inside, op=op.op, sem=op.sem, scope=op.scope)
        builder.add_final(rmw)


_ACCESSES: dict[str, tuple[Callable[[OpBuilder, Any], tuple[Positions, Tile]], type[Op]]] = {
    "descriptor_load": (_block_positions, Load),
    "descriptor_store": (_block_positions, Store),
    "descriptor_reduce": (_block_positions, AtomicRMW),
    "descriptor_gather": (_row_positions, Load),
    "descriptor_scatter": (_row_positions, Store),
}
"""The function that returns the positions of an access, and the op that replaces it."""
