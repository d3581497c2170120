"""Layout assignment: which thread owns which element of every tile.

Memory accesses are anchors: their layout follows the direction in which addresses are contiguous
and the width that alignment allows (the paper's coalescing, section 5.2.2). Values keep the layout
of their definition. Values that are cheap to rematerialize (ranges, splats, broadcasts and
arithmetic on them alone, and loads of vectors of at most one element for each thread) have no
layout of their own. They are rematerialized in every requested layout, so that address arithmetic
never moves between threads. `gpu.convert_layout` converts the remaining values. The result of a
reduction across warps has the layout in which it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions
from tileir.backend.layouts.anchors import AnchorLayouts, DotLayoutMap
from tileir.backend.layouts.cost_model import PRIVATE, ComponentLayouts
from tileir.backend.layouts.shape_ops import (
    HALVES,
    is_layout_only,
    operand_layout,
    operand_layout_of,
    result_layout,
    transposed_layout,
)
from tileir.backend.stage import has_op
from tileir.effects import Effects
from tileir.field import FieldKind, Successor
from tileir.ir import Block, Function
from tileir.layout import Layout, layout as build_layout
from tileir.op import Op
from tileir.ops.shape import Reshape
from tileir.types import Buffer, Tile, Type, shape_of
from tileir.values import Constant, Operand, Undef, Value

_LANES = 32
_REPEATED = frozenset({
    "load", "gpu.local_load", "gpu.local_gather", "add", "sub", "mul", "shl", "and", "or", "xor",
    "icmp", "select", "sext", "zext", "trunc", "fadd", "fsub", "fmul", "fcmp", "fpext", "fptrunc",
    "bitcast", "inttoptr", "getelementptr",
})  # fmt: skip
"""Ops of about one instruction, and loads."""
_MOST_REPEATED = 8
"""The maximum number of such ops that are rematerialized in each requested layout of a value."""

_FEWEST_DIVIDED = 3
"""The logarithm of the number of accesses of a thread from which on lanes load different elements
and exchange them. ptxas places such accesses between those whose addresses they load, and waits for
them several times: a sum of gathered rows then had 12 rows of 16 in flight."""


def assign_layouts(function: Function, anchors: AnchorLayouts) -> Function:
    """`function` with a layout in the type of every tile, and conversions where they differ."""
    return _Assignment(function, anchors).run()


class _Assignment:
    """One run. `layout_of` maps values that are not cheap to their layouts, `asked` each value to
    the requested layouts with the blocks that request them, `layout_variants` an old value and a
    layout to the new value. `free` are the loads that follow their operands' layout; `here` is the
    same as `layout_variants` for conversions in the block that is being rewritten."""

    def __init__(self, function: Function, anchors: AnchorLayouts) -> None:
        self.function, self.anchors = function, anchors
        self.order, self.around = cfg(function).order, loops(function)
        self.edges: dict[str, list[Successor]] = {}
        self.dots = _dot_layouts_of(function, anchors)
        self.cheap: set[Value] = set()
        self.transposed: set[Value] = set()
        """Cheap values that are transposes of others: what is computed from these is not cheap."""
        self.loaded: dict[Value, int] = {}
        """For cheap values that are computed from loaded ones: the ops that they depend on."""
        self.free = frozenset[Op]()
        self.reloads = not has_op(function, "gpu.wgmma")
        """Whether short loads are cheap. Next to wgmma they are `free` instead."""
        self.layout_of: dict[Value, Layout] = {}
        self.requested_layouts: dict[Value, dict[Layout, set[str]]] = {}
        self.layout_variants: dict[tuple[Value, Layout | None], Value] = {}
        self.here: dict[tuple[Value, Layout | None], Value] = {}

    def run(self) -> Function:
        for op in self.function.ops:
            for edge in op.successors:
                self.edges.setdefault(edge.label, []).append(edge)
        blocks = [self.function.blocks[label] for label in self.order]
        for block in blocks:
            for op in block.ops:
                if any(_is_tile(r) for r in op.results) and self._is_cheap(op):
                    self.cheap.update(op.results)
        choices = ComponentLayouts(self.function, self.anchors, self.dots, self.cheap)
        self.layout_of, self.free = choices.layouts_of(self.order, self.edges), choices.free
        for block in reversed(blocks):
            for op in reversed(block.ops):
                self._ask(op, block.label)
                if op.mnemonic == "reduce":
                    self._settle_reduction(op)
        for parameter in self.function.parameters:
            self.layout_variants[parameter.value, None] = parameter.value
        new = {b.label: self._parameters(b) for b in blocks}
        return self.function.with_blocks({b.label: self._rewrite(b, new[b.label]) for b in blocks})

    # Layouts of values ---------------------------------------------------------------------

    def _is_cheap(self, op: Op) -> bool:
        if is_layout_only(op):
            if self._is_transposed(op) or any(v in self.transposed for v in op.inputs):
                self.transposed.update(op.results)
            return True
        loads = op.effects is Effects.READ and op.mnemonic in _REPEATED
        if loads:
            if not self._is_short_load(op):
                return False
        elif not (op.elementwise or op.is_identity) or op.effects & ~Effects.TRAP:
            return False
        if not all(self._cheap_operand(v) for v in op.operands):
            return False
        work = sum(self.loaded.get(cast(Value, v), 0) for v in dict.fromkeys(op.operands))
        if work or loads:
            work += 1
            if work > _MOST_REPEATED or op.mnemonic not in _REPEATED:
                return False
            self.loaded.update(dict.fromkeys(op.results, work))
        return True

    def _is_transposed(self, op: Op) -> bool:
        """Whether `op` transposes a tile with a layout of its own. Next to dots, only their results
        and tiles that loops carry count: what is computed from others is mostly an operand."""
        if op.mnemonic != "trans" or self._cheap_operand(op.inputs[0]):
            return False
        source, defined = cast(Value, op.inputs[0]), definitions(self.function)
        return not self.anchors.multiplies or source in self.dots.values or source not in defined

    def _is_short_load(self, op: Op) -> bool:
        """Whether `op` loads a vector of at most one element for each thread, or gathers so few
        elements from shared memory, which may be loaded in each requested layout: the first cache,
        or the shared memory to which it was copied, serves that as well as a conversion would, and
        no thread waits for another."""
        shape = shape_of(op.results[0].type)
        is_vector = sum(n > 1 for n in shape) <= 1 or op.mnemonic == "gpu.local_gather"
        short = prod(shape) <= _LANES * self.anchors.num_warps and is_vector
        return short and op.predicate is None and self.reloads

    def _cheap_operand(self, operand: Operand) -> bool:
        if type(operand) is not Value or not _is_tile(operand):
            return True
        return operand in self.cheap and operand not in self.transposed

    def _source(self, op: Op) -> Layout | None:
        """The layout of the first operand that has one, and the shape of the first operand."""
        shape = shape_of(op.inputs[0].type) if op.inputs else ()
        for operand in op.inputs:
            if (
                type(operand) is Value
                and operand in self.layout_of
                and shape_of(operand.type) == shape
            ):
                return self.layout_of[operand]
        return None

    def _settle_reduction(self, op: Op) -> None:
        """Assign the results of `op`, which warps exchange through shared memory, the layout that
        their users request, so that they are not exchanged twice."""
        results = [r for r in op.results if _is_tile(r)]
        requested = dict.fromkeys(
            layout for r in results for layout in self.requested_layouts.get(r, ())
        )
        if not requested:
            return
        from tileir.backend.layouts.reduction_plan import may_read_in  # few kernels need it

        operand = cast(Tile, op.inputs[0].type)
        source = self._source(op) or self.anchors.default_layout(operand)
        if not any(self.layout_of[r] in requested for r in results):
            target = next(iter(requested))
            if may_read_in(source, cast(Any, op).axis, target):
                self.layout_of.update(dict.fromkeys(results, target))

    # Requested layouts ----------------------------------------------------------------------

    def _ask(self, op: Op, label: str) -> None:
        if _of_scalars(op):
            return
        tiles = [r for r in op.results if _is_tile(r)]
        if tiles and tiles[0] in self.cheap:
            layouts: list[Layout | None] = self._requested_layouts(tiles)
        else:
            layouts = [self.layout_of[tiles[0]] if tiles else None]
        for layout in layouts:
            for operand, needed in self._needs(op, layout):
                if type(operand) is Value and needed is not None:
                    self.requested_layouts.setdefault(operand, {}).setdefault(needed, set()).add(
                        label
                    )

    def _requested_layouts(self, results: list[Value]) -> list[Layout | None]:
        """The layouts that are requested for any of an op's results."""
        return list({layout: None for r in results for layout in self.requested_layouts.get(r, {})})

    def _needs(self, op: Op, layout: Layout | None) -> list[tuple[Operand, Layout | None]]:
        """Each operand of `op` with its required layout if the result has `layout`."""
        needs: list[tuple[Operand, Layout | None]] = []
        if layout is not None and op.mnemonic == "load" and op.results[0] in self.cheap:
            layout = _divide_among_lanes(layout)
        for index, operand in enumerate(op.inputs):
            needs.append((operand, self._required_layout(op, index, operand, layout)))
        if op.predicate is not None:
            shape = shape_of(op.predicate.type)
            like = next((n for v, n in needs if shape and shape_of(v.type) == shape), layout)
            needs.append((op.predicate, like if shape else None))
        for edge in op.successors:
            needs += self._edge_needs(edge)
        return needs

    def _edge_needs(self, edge: Successor) -> list[tuple[Operand, Layout | None]]:
        parameters = self.function.blocks[edge.label].parameters
        return [
            (argument, self.layout_of.get(parameter))
            for argument, parameter in zip(edge.arguments, parameters, strict=True)
        ]

    def _required_layout(
        self, op: Op, index: int, operand: Operand, layout: Layout | None
    ) -> Layout | None:
        if not _is_tile(operand):
            return None
        name = op.mnemonic
        if name in PRIVATE:
            return self.layout_of[cast(Value, op.inputs[0])]
        if not isinstance(operand.type, Tile):
            return None
        if layout is not None and is_layout_only(op):
            return operand_layout(op, operand.type, layout)
        if layout is not None and (op.elementwise or op.shares_layout or _is_index(name, index)):
            return layout
        anchor = self.anchors.of(op)
        if anchor is not None:
            if op in self.free or (op.results and op.results[0] in self.cheap):
                return layout
            return self._layout_of_stored_value(op) or anchor
        if (dot_layout := self.dots.operand(op, index)) is not None:
            return dot_layout
        if name == "reshape" and layout is not None and operand in self.cheap:
            same = layout.reshape(shape_of(op.results[0].type), operand.type.shape)
            return same or self.anchors.default_layout(operand.type)
        if (
            name in HALVES
            and layout is not None
            and (half := operand_layout_of(op, layout)) is not None
        ):
            return half
        alike = name in HALVES and operand.type is op.inputs[0].type
        if alike or name in ("reduce", "histogram", "inline_asm"):
            return self._source(op) or self.anchors.default_layout(operand.type)
        if type(operand) is Value and operand in self.layout_of:
            return self.layout_of[operand]
        return (
            self.anchors.of_columns(op)
            or self._layout_of_transpose(op, operand)
            or self.anchors.default_layout(operand.type)
        )

    def _layout_of_transpose(self, op: Op, operand: Operand) -> Layout | None:
        """The layout of the transpose of a result of a dot that `op` stores in rows of shared
        memory: `stmatrix.trans` stores the registers as they are. None for other operands."""
        if not self.anchors.stores_rows(op) or not has_op(self.function, "gpu.wgmma"):
            return None
        trans = definitions(self.function).get(cast(Value, operand))
        if trans is None or trans.mnemonic != "trans":
            return None
        from tileir.backend.layouts.mma import is_fragment_of_result  # few stores need it

        source = self.layout_of.get(cast(Value, trans.inputs[0]))
        if source is None or cast(Tile, operand.type).element.bits != 16:
            return None
        return transposed_layout(trans, source) if is_fragment_of_result(source) else None

    def _layout_of_stored_value(self, op: Op) -> Layout | None:
        """The layout of the value that an op stores, if a store from this layout costs the same.
        Pointers that are in the op's own layout already, and not cheap, stay there, if it is as
        wide: a conversion of the value moves fewer bits."""
        if op.results:
            return None
        for operand in op.inputs[1:2]:
            stored_layout = self.layout_of.get(operand) if type(operand) is Value else None
            if stored_layout is None or not self.anchors.serves(op, stored_layout):
                continue
            pointers = self.layout_of.get(cast(Value, op.inputs[0]))
            own = self.anchors.of(op)
            stays = pointers is not None and pointers == own != stored_layout
            if not stays or self.anchors.widens(op, stored_layout):
                return stored_layout
        return None

    # Rewriting --------------------------------------------------------------------------------

    def _parameters(self, block: Block) -> tuple[Value, ...]:
        new: list[Value] = []
        for old in block.parameters:
            assigned = self.layout_of.get(old)
            value = old if assigned is None else Value(_laid_out(old.type, assigned), old.name)
            self.layout_variants[old, assigned] = value
            new.append(value)
        return tuple(new)

    def _rewrite(self, block: Block, parameters: tuple[Value, ...]) -> Block:
        ops: list[Op] = []
        self.here = {}
        for old in block.parameters:
            self._convert(old, block.label, ops)
        for op in block.ops:
            if _of_scalars(op):
                self.layout_variants.update({(r, None): r for r in op.results})
                ops.append(op)
                continue
            tiles = [r for r in op.results if _is_tile(r)]
            if tiles and tiles[0] in self.cheap:
                for layout in self._requested_layouts(tiles):
                    self._make(op, layout, ops)
                continue
            self._make(op, self.layout_of[tiles[0]] if tiles else None, ops)
            for result in tiles:
                self._convert(result, block.label, ops)
        return attrs.evolve(block, parameters=parameters, ops=tuple(ops))

    def _make(self, op: Op, layout: Layout | None, ops: list[Op]) -> None:
        needed = iter(self._needs(op, layout))
        changes = op.map_fields(
            lambda _: self._operand(*next(needed), ops),
            lambda kind: kind if layout is None else with_layout(kind, layout),
        )
        if op.predicate is not None:
            changes["predicate"] = self._operand(*next(needed), ops)
        for field in op.fields(FieldKind.SUCCESSOR):
            edge = cast(Successor, getattr(op, field.name))
            arguments = tuple([self._operand(*next(needed), ops) for _ in edge.arguments])
            changes[field.name] = Successor(edge.label, arguments)
        if op.elementwise and layout is not None:  # the results have the layout of the operands
            results = tuple([Value(_laid_out(r.type, layout), r.name) for r in op.results])
            new = op.with_fields(**changes, results=results)
        else:
            new = self._with_inferred_results(op.with_fields(**changes, results=()), op, layout)
        ops.append(new)
        for old, value in zip(op.results, new.results, strict=True):
            self._settle(old, value, layout, ops)

    def _with_inferred_results(self, new: Op, op: Op, layout: Layout | None) -> Op:
        """`new`, which is `op` with new operands, with the result types that follow from these."""
        provided = _layout_from_operands(new, layout)
        if isinstance(new, Reshape) and provided is not None:
            new = attrs.evolve(new, to=with_layout(new.to, provided), results=())
        results = tuple(
            self._result(new_result, old, provided or self.layout_of.get(old, layout))
            for new_result, old in zip(new.results, op.results, strict=True)
        )
        return new.with_fields(results=results)

    def _result(self, new: Value, old: Value, layout: Layout | None) -> Value:
        """The new result, in `layout` if the op does not determine the layout; a scalar stays the
        old result."""
        kind = new.type
        if not isinstance(kind, Tile):
            return Value(kind, old.name) if isinstance(kind, Buffer) else old
        if kind.layout is None and layout is not None:
            kind = _laid_out(kind, layout)
        return Value(kind, old.name)

    def _settle(self, old: Value, value: Value, layout: Layout | None, ops: list[Op]) -> None:
        """Record `value` in place of `old`, with a conversion if the op has another layout than
        planned."""
        if not _is_tile(value):
            self.layout_variants[old, None] = value
            return
        planned = cast(Layout, self.layout_of.get(old, layout))
        if isinstance(value.type, Tile) and value.type.layout != planned:
            value = self._append_conversion(value, planned, ops)
        self.layout_variants[old, planned] = value

    def _convert(self, old: Value, label: str, ops: list[Op]) -> None:
        """Convert `old`, which is defined in block `label`, from its layout to every other
        requested one. The conversion is placed at the definition if that is outside of a loop
        around the uses."""
        assigned = self.layout_of.get(old)
        if assigned is None:
            return
        depth = self.around.depth(label)
        for layout, labels in self.requested_layouts.get(old, {}).items():
            if layout != assigned and any(self.around.depth(other) >= depth for other in labels):
                self.layout_variants[old, layout] = self._append_conversion(
                    self.layout_variants[old, assigned], layout, ops
                )

    def _append_conversion(self, value: Value, layout: Layout, ops: list[Op]) -> Value:
        from tileir.ops.gpu import ConvertLayout  # elementwise kernels need none

        op = ConvertLayout(value, layout=layout)
        conversion = attrs.evolve(op, results=(Value(op.result.type, value.name),))
        ops.append(conversion)
        return conversion.result

    def _operand(self, operand: Operand, layout: Layout | None, ops: list[Op]) -> Operand:
        if type(operand) is Value:
            converted = self.layout_variants.get((operand, layout)) or self.here.get(
                (operand, layout)
            )
            if converted is None:
                assert layout is not None
                source = self.layout_variants[operand, self.layout_of[operand]]
                converted = self.here[operand, layout] = self._append_conversion(
                    source, layout, ops
                )
            return converted
        kind = operand.type if layout is None else _laid_out(operand.type, layout)
        if isinstance(operand, Constant):
            return Constant(kind, operand.bits)
        return Undef(kind)


def _dot_layouts_of(function: Function, anchors: AnchorLayouts) -> DotLayoutMap:
    if not has_op(function, "dot", "gpu.wgmma_wait"):
        return DotLayoutMap({}, {}, {})
    from tileir.backend.layouts.dot_layouts import dot_layouts_of

    dots = dot_layouts_of(function, anchors.num_warps)
    if all(operand in dots.values for op in dots.dots for operand in op.inputs[:2]):
        return dots  # operands come from shared memory, as those of most matmuls
    from tileir.backend.layouts.k_orders import with_k_orders

    return with_k_orders(function, dots, anchors)


def _divide_among_lanes(stated: Layout) -> Layout:
    """The layout in which a vector is loaded that is needed as `stated`: its registers are divided
    among lanes which would load the same elements. Neighbours are loaded by one access, and stay
    together."""
    free = [i for i, vector in enumerate(stated.lane) if not any(vector)]
    count = len(stated.register)
    if stated.repeats or not _FEWEST_DIVIDED <= count <= len(free):
        return stated
    if any(sum(vector) == 1 for vector in stated.register):
        return stated
    lanes = list(stated.lane)
    for place, vector in zip(free[:count], stated.register, strict=True):
        lanes[place] = vector
    return build_layout(stated.rank, (), tuple(lanes), stated.warp, stated.block)


def _is_index(name: str, index: int) -> bool:
    """Whether an operand is the indices of a gather, which are read element by element, as the
    result is written."""
    return name == "gather" and index == 1


def _layout_from_operands(op: Op, planned: Layout | None) -> Layout | None:
    """The layout of the results of an op whose operands determine it, or `planned` if they allow
    it. A reshape or join that moves elements becomes one that moves none, and a conversion:
    conversions choose where elements are placed in shared memory, whereas reshapes and joins store
    them in row-major order. So does a concatenation or split if that is possible."""
    if isinstance(op, Reshape) and not is_layout_only(op):
        moved = cast(Tile, op.value.type)
        return cast(Layout, moved.layout).reshape(moved.shape, shape_of(op.to))
    if op.mnemonic in HALVES and planned and isinstance(first := op.inputs[0].type, Tile):
        stays = operand_layout_of(op, planned) == first.layout
        return planned if stays else result_layout(op, first.layout)
    if op.mnemonic != "reduce":
        return None
    from tileir.backend.layouts.reduction_plan import divided_result, may_read_in

    axis, source = cast(Any, op).axis, cast(Layout, cast(Tile, op.inputs[0].type).layout)
    if may_read_in(source, axis, planned) or (planned and planned == divided_result(op, source)):
        return planned
    return source.slice(axis)


_TILES = (Tile, Buffer)


def _is_tile(operand: Operand) -> bool:
    return isinstance(operand.type, _TILES)


def _of_scalars(op: Op) -> bool:
    """Whether layouts do not constrain an op, which is then kept with its operands."""
    return not any(
        [isinstance(v.type, _TILES) for v in (*op.results, *op.operands)]  # noqa: C419 - faster
    )


def _laid_out(type: Type, layout: Layout) -> Type:
    if isinstance(type, Buffer):
        tile_type = Tile(type.tile.element, type.tile.shape, layout)
        return Buffer(tile_type, type.count, type.space)
    return Tile(type.element, type.shape, layout) if isinstance(type, Tile) else type


def with_layout(stated: Any, layout: Layout) -> Any:
    """A type, or each of several, its tiles in `layout`."""
    if isinstance(stated, tuple):
        return tuple([_laid_out(cast(Type, t), layout) for t in stated])
    return _laid_out(stated, layout)


def in_layout(op: Op, layout: Layout, operands: Mapping[Value, Operand]) -> Op:
    """`op` with new results in `layout`, its literals in that layout, and `operands[v]` in place of
    each operand `v` that is among them."""

    def replace(operand: Operand) -> Operand:
        if isinstance(operand, Value):
            return operands.get(operand, operand)
        return attrs.evolve(operand, type=_laid_out(operand.type, layout))

    changes = op.map_fields(replace, lambda kind: with_layout(kind, layout))
    return op.with_fields(**changes, results=())
