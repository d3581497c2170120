"""The order in which dots by `mma` add along K.

Each lane of a fragment of A or B owns some of its columns or rows. The assignment of elements along
K to these positions is free, as long as it is the same in A and B, because a dot adds over all of
K. If operands are computed in layouts whose lanes own the same rows as those of fragments, but
other elements along K (such as the neighbours that a lane loads at once), the dot uses that order
along K. No element then moves between lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import attrs

from tileir.analysis.uses import arguments, definitions
from tileir.backend.layouts.anchors import AnchorLayouts, DotLayoutMap
from tileir.backend.layouts.dot_layouts import DotLayouts, KOrder, k_order
from tileir.ir import Function
from tileir.layout import Layout
from tileir.op import Op
from tileir.ops.gpu import LocalLoad
from tileir.types import Tile, element_of, shape_of
from tileir.values import Operand, Value

Sources: TypeAlias = tuple[Layout | None, Layout | None]
"""The layouts in which A and B are computed, as far as they are known."""


def with_k_orders(function: Function, dots: DotLayoutMap, anchors: AnchorLayouts) -> DotLayoutMap:
    """`dots`, with operands in the order along K for which the fewest bytes move between lanes.
    Dots that share an operand have one order, so that it is not needed in two layouts."""
    origin, loaded = definitions(function), _reads_of_fragments(function, dots)
    chosen = dict(dots.dots)
    for group in _groups(dots.dots, origin):
        every = {op: _sources(op, origin, loaded, dots, anchors) for op in group}
        sources_of = {op: sources for op, sources in every.items() if sources is not None}
        orders = {
            o for op, sources in sources_of.items() for o in _orders(dots.dots[op], op, sources)
        }
        if len(sources_of) < len(group):
            continue
        least = sum(
            _bytes_to_move(op, dots.dots[op], sources) for op, sources in sources_of.items()
        )
        for order in sorted(orders):
            if not all(_fits(op, order) for op in group):
                continue
            layouts = {op: dots.dots[op].in_order(order) for op in group}
            moved = sum(
                _bytes_to_move(op, layouts[op], sources) for op, sources in sources_of.items()
            )
            if moved < least:
                least, chosen = moved, {**chosen, **layouts}
    return attrs.evolve(dots, dots=chosen)


def _groups(dots: Mapping[Op, DotLayouts], origin: Mapping[Value, Op]) -> Iterator[list[Op]]:
    """Yield groups of dots of matrices by `mma` that share operands."""
    groups: dict[Op, list[Op]] = {}
    users: dict[Operand, Op] = {}
    for op, layouts in dots.items():
        if layouts.mma is None or len(shape_of(cast(Any, op).c.type)) != 2:
            continue
        groups[op] = [op]
        for operand in op.inputs[:2]:
            first = users.setdefault(_before_transposition(operand, origin), op)
            if groups[first] is not groups[op]:
                groups[first] += groups[op]
                for other in groups[op]:
                    groups[other] = groups[first]
    yield from {id(group): group for group in groups.values()}.values()


def _before_transposition(operand: Operand, origin: Mapping[Value, Op]) -> Operand:
    while isinstance(operand, Value) and (op := origin.get(operand)) and op.mnemonic == "trans":
        operand = op.inputs[0]
    return operand


def _sources(
    dot: Op, origin: Mapping[Value, Op], loaded: set[Operand], dots: DotLayoutMap,
    anchors: AnchorLayouts,
) -> Sources | None:  # fmt: skip
    """The layouts in which the operands are computed, element by element, of what is loaded, or of
    results of dots. None where one is read from shared memory, which has instructions for the usual
    order."""
    layouts: list[Layout | None] = []
    for operand in dot.inputs[:2]:
        first = _before_transposition(operand, origin)
        if first in loaded:
            return None
        waiting: list[tuple[Operand, bool]] = [(operand, False)]
        source, seen = None, set[Operand]()
        while waiting:
            value, turned = waiting.pop()
            op = origin.get(value) if isinstance(value, Value) else None
            if op is None or value in seen:
                continue
            seen.add(value)
            layout = dots.dots[op].c if op in dots.dots else anchors.of(op)
            if _is_read_in_pairs(op, dots.dots[dot]):
                source = source or _of_pairs(dots.dots[dot], len(layouts))
            elif layout is not None and op.results:
                source = source or (layout.transpose((1, 0)) if turned else layout)
            elif op.mnemonic == "trans":
                waiting.append((op.inputs[0], not turned))
            elif op.elementwise:
                shape = shape_of(value.type)
                waiting += [(v, turned) for v in op.inputs if shape_of(v.type) == shape]
        layouts.append(source)
    return layouts[0], layouts[1]


def _reads_of_fragments(function: Function, dots: DotLayoutMap) -> set[Operand]:
    """The operands that are read from shared memory in the layout of a fragment, in their iteration
    or in the one before. Loops also carry results of dots, which have another."""
    origin, passed = definitions(function), arguments(function)

    def is_read(value: Operand) -> bool:
        op = origin.get(value) if isinstance(value, Value) else None
        return op is None or op.mnemonic == "trans" or isinstance(op, LocalLoad)

    return {v for v in dots.values if is_read(v) and all(map(is_read, passed.get(v, ())))}


_PAIRS = (2, 4)
"""The steps along K of the lanes that own two neighbours each."""


def _is_read_in_pairs(op: Op, layouts: DotLayouts) -> bool:
    """Whether `op` reads 16-bit elements in shared memory, of which `ldmatrix` loads two neighbours
    for a lane, for a dot of 32-bit elements: in its usual order, a lane would read each alone."""
    if not isinstance(op, LocalLoad) or layouts.mma is None or layouts.mma.per_word != 1:
        return False
    return cast(Any, element_of(op.type)).bits == 16


def _of_pairs(layouts: DotLayouts, operand: int) -> Layout:
    """The layout of operand A or B, 0 or 1, whose lanes own neighbours along K."""
    assert layouts.mma is not None
    ordered = layouts.in_order(k_order(layouts.mma, _PAIRS))
    return (ordered.a, ordered.b)[operand]


def _orders(layouts: DotLayouts, dot: Op, sources: Sources) -> Iterator[KOrder]:
    """Yield the orders along K in which lanes own what they own in a source."""
    for source, k in zip(sources, (1, 0), strict=True):
        if source is None or source.rank != 2 or len(source.lane) != 5 or layouts.mma is None:
            continue
        along, outer = source.lane[:2], source.lane[2:]
        steps = [v[k] for v in along]
        if source.digits("lane") or any(v[1 - k] for v in along) or any(v[k] for v in outer):
            continue
        if all(step and not step & (step - 1) for step in steps) and steps[0] != steps[1]:
            yield k_order(layouts.mma, steps)


def _fits(dot: Op, order: KOrder) -> bool:
    return shape_of(dot.inputs[0].type)[-1] % (1 << len(order)) == 0


def _bytes_to_move(dot: Op, layouts: DotLayouts, sources: Sequence[Layout | None]) -> int:
    """The bytes of operands that threads exchange."""
    moved = 0
    for operand, source, requested in zip(
        dot.inputs[:2], sources, (layouts.a, layouts.b), strict=True
    ):
        tile = cast(Tile, operand.type)
        if source is not None and not _is_renamed(source, requested):
            moved += tile.size * tile.element.bytes
    return moved


def _is_renamed(source: Layout, requested: Layout) -> bool:
    """Whether threads own the same elements in two layouts, in any registers."""
    alike = source.thread_part == requested.thread_part
    return alike and set(source.registers) == set(requested.registers)
