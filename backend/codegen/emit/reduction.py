"""Reductions: within registers, then across lanes by shuffles, then across warps through shared
memory with one barrier. Padding takes part as the combiner's identity, or, if the combiner is a
function, not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias, cast

import attrs

from tileir.analysis import memoize
from tileir.analysis.uses import passed_to, uses
from tileir.backend.codegen.combiners import combine_named, identity
from tileir.backend.codegen.lowering import Fragment, Lowering, scalar_of
from tileir.backend.layouts.anchors import vector_run
from tileir.backend.layouts.reduction_plan import (
    align_to_16,
    is_divided,
    lanes_along,
    may_have_padding,
    reduces_along,
    scans_along,
    warps_along,
)
from tileir.backend.live_registers import ThreadRegisters, live_registers
from tileir.backend.stage import has_op
from tileir.ir import Function
from tileir.layout import Layout, Repeat, layout
from tileir.op import Op
from tileir.ops.floats import FastMath
from tileir.ops.reduce import FLOAT_EXTREMES, Combiner
from tileir.ops.shape import ExpandDims, Reshape, Trans
from tileir.types import BF16, F16, I1, I32, Element, Tile

Item: TypeAlias = tuple[str, ...]
"""One handle per operand; for functions over padded tiles also whether the item is present."""

Join: TypeAlias = Callable[[Item, Item], Item]


def reduce_tile(lowering: Lowering, op: Any) -> list[Fragment]:
    """The fragments of the results of a `reduce`. A number on which branches depend is lane 0's:
    all lanes have the same, but ptxas does not know, and assumes that lanes diverge. Loops then
    have no registers for a whole warp, and each `wgmma` needs more instructions."""
    fragments = reduce_across_threads(lowering, op, reduce_within_thread(lowering, op))
    if any(map(any, op.values[0].type.layout.lane)) and _decides_branches(lowering.function, op):
        thread, first = lowering.thread, lowering.thread.integer(0)
        kinds = [scalar_of(v.type) for v in op.values]
        fragments = [
            [thread.shuffle_index(kind, x, first) for x in fragment]
            for kind, fragment in zip(kinds, fragments, strict=True)
        ]
    return fragments


def _decides_branches(function: Function, op: Op) -> bool:
    """Whether a branch depends on a result of `op`, which are numbers."""
    waiting = [v for v in op.results if not isinstance(v.type, Tile)]
    seen = set(waiting)
    while waiting:
        value = waiting.pop()
        for reader in uses(function).get(value, ()):
            if len(reader.successors) > 1 and value in reader.inputs:
                return True
            following = (*reader.results, *passed_to(function, reader, value))
            more = [v for v in following if v not in seen and not isinstance(v.type, Tile)]
            seen.update(more)
            waiting += more
    return False


def reduce_within_thread(lowering: Lowering, op: Any) -> list[Item]:
    """The partial results of a thread's own elements, by register of the result."""
    source: Layout = op.values[0].type.layout
    check_axis_is_pure(lowering, op, source)
    join, padded = _join(lowering, op)
    groups = _groups(lowering, op, source.slice(op.axis), padded)
    if _adds_multiplications(lowering, op):
        return [_chains(group, join, len(groups)) for group in groups]
    narrow = _before_extension(lowering, op)
    if narrow is not None:
        return [_extreme_before_extension(lowering, op, group, *narrow) for group in groups]
    return [tree(group, join) for group in groups]


def reduce_across_threads(lowering: Lowering, op: Any, items: list[Item]) -> list[Fragment]:
    """The fragments of the results, from `items` of `reduce_within_thread`."""
    source: Layout = op.values[0].type.layout
    elements = [scalar_of(v.type) for v in op.values]
    join, padded = _join(lowering, op)
    carried = [*elements, I1] if padded else elements
    masks = lanes_along(source, op.axis)
    if is_divided(op):
        items, _ = _divided_by_lanes(lowering, carried, items, masks, join)
        return [[item[i] for item in items] for i in range(len(elements))]
    combined = _by_instruction(lowering, op, items) if len(masks) == _LANE_BITS else None
    if combined is None:
        function = isinstance(op.combiner, str)
        splits = _splits(len(items), len(masks), _FUNCTION if function else _NAMED)
        splits = 0 if _fills_registers(lowering, op) else splits
        combined = _across_lanes(lowering, carried, items, masks, join, splits)
    items = combined
    if warps_along(source, op.axis) > 1:
        items = _across_warps(lowering, op, source.slice(op.axis), carried, items, join)
    return [[item[i] for item in items] for i in range(len(elements))]


def _fills_registers(lowering: Lowering, op: Any) -> bool:
    """Whether a thread has too few registers for what is alive across `op`. ptxas can then finish
    the rows of a result before it begins with those of the next one, so that less is alive. If
    lanes share the items, each result needs all of them. Results of dots are alive as a whole in
    any order."""
    function, target = lowering.function, lowering.target
    if _multiplies(function):
        return False
    threads = lowering.num_warps * target.lanes
    available = ThreadRegisters(threads, target.available_registers(threads))
    return not available.fits(live_registers(function).get(op, 0))


@memoize
def _multiplies(function: Function) -> bool:
    return has_op(function, "dot", "gpu.wgmma")


_LANE_BITS = 5
_OF_BITS = (Combiner.AND, Combiner.OR, Combiner.XOR)


def _by_instruction(lowering: Lowering, op: Any, items: list[Item]) -> list[Item] | None:
    """Each item combined over all lanes by one instruction; None if the target has no such
    instruction."""
    element = scalar_of(op.values[0].type)
    is_integer = len(op.values) == 1 and getattr(element, "is_integer", False)
    if isinstance(op.combiner, str) or not is_integer or element.bits not in (1, 8, 16, 32):
        return None
    if element.bits == 1 and op.combiner not in _OF_BITS:
        return None
    combined: list[Item] = []
    for (value,) in items:
        total = lowering.thread.reduce_lanes(element, op.combiner.value, value)
        if total is None:
            return None
        combined.append((total,))
    return combined


def _join(lowering: Lowering, op: Any) -> tuple[Join, bool]:
    """The function that combines two items, and whether items have a presence flag."""
    padded = isinstance(op.combiner, str) and may_have_padding(op)
    elements = [scalar_of(v.type) for v in op.values]
    return combine_function(lowering, op, elements, padded), padded


_NAMED, _FUNCTION = 1.0, 4.0
"""Instructions of a named combiner, and about those of a function, per element."""
_SHUFFLE, _EXCHANGE = 2.0, 2.0
"""A shuffle, which has half the throughput of a select, and the selects of an exchange."""


def _splits(count: int, masks: int, join: float) -> int:
    """The number of steps over lanes, for the lowest cost, in which two lanes share `count` items:
    each lane combines half of them."""

    def cost(splits: int) -> float:
        halves = sum(count / 2**i for i in range(1, splits + 1))
        butterflies = (masks - splits) * count / 2**splits
        there = halves * (_SHUFFLE + _EXCHANGE + join)
        return there + butterflies * (_SHUFFLE + join) + halves * (_SHUFFLE + _EXCHANGE)

    possible = (count & -count).bit_length() - 1 if count else 0
    return min(range(min(possible, masks) + 1), key=cost)


def _across_lanes(
    lowering: Lowering, elements: Sequence[Element], items: list[Item], masks: list[int],
    join: Join, splits: int,
) -> list[Item]:  # fmt: skip
    """Every item combined over the lanes that differ in the bits of `masks`.

    In each of the first `splits` steps, each lane of a pair combines half of the items, so that the
    next step has half as many. At the end the lanes exchange the results. The other steps are
    butterflies.
    """
    items, split = _divided_by_lanes(lowering, elements, items, masks, join, splits)
    for mask in reversed(split):
        shuffled = [_shuffle_item(lowering, elements, item, mask) for item in items]
        pairs = [
            _ordered_pair(lowering, elements, mask, a, b)
            for a, b in zip(items, shuffled, strict=True)
        ]
        items = [mine for mine, _ in pairs] + [other for _, other in pairs]
    return items


def _divided_by_lanes(
    lowering: Lowering, elements: Sequence[Element], items: list[Item], masks: list[int],
    join: Join, splits: int | None = None,
) -> tuple[list[Item], list[int]]:  # fmt: skip
    """The items that each lane has of those that are combined over lanes, before the lanes exchange
    them, and the masks of the lanes that divided them: the first half belongs to the lane whose bit
    is 0. Lanes divide them in `splits` steps, or as often as they can."""
    unsplit_masks, split = list(masks), list[int]()
    while unsplit_masks and (len(items) > 1 if splits is None else len(split) < splits):
        mask, half = unsplit_masks.pop(), len(items) // 2
        pairs = [
            _ordered_pair(lowering, elements, mask, a, b)
            for a, b in zip(items[:half], items[half:], strict=True)
        ]
        items = [
            join(mine, _shuffle_item(lowering, elements, other, mask)) for mine, other in pairs
        ]
        split.append(mask)
    for mask in unsplit_masks:
        items = [join(item, _shuffle_item(lowering, elements, item, mask)) for item in items]
    return items, split


def _ordered_pair(
    lowering: Lowering, elements: Sequence[Element], mask: int, a: Item, b: Item
) -> tuple[Item, Item]:
    """`a` and `b`, exchanged in lanes whose bit `mask` is set."""
    thread = lowering.thread

    def make() -> str:
        bits = thread.binary("and", I32, thread.lane(), thread.integer(mask))
        return thread.compare("ne", I32, bits, thread.integer(0))

    upper = thread.once(f"lane {mask} ne", make)
    triples = list(zip(elements, a, b, strict=True))
    first = tuple(thread.select(e, upper, y, x) for e, x, y in triples)
    return first, tuple(thread.select(e, upper, x, y) for e, x, y in triples)


def combine_function(
    lowering: Lowering, op: Any, elements: Sequence[Element], flagged: bool
) -> Join:
    """The function that combines two items."""
    if not isinstance(op.combiner, str):
        name = op.combiner.value
        return lambda a, b: (combine_named(lowering.thread, name, elements[0], a[0], b[0]),)

    def call(a: Item, b: Item) -> Item:
        operands = [*zip(elements, a, strict=False), *zip(elements, b, strict=False)]
        return tuple(lowering.thread.call(f"f.{op.combiner}", list(elements), operands))

    return _optional_join(lowering, elements, call) if flagged else call


def _optional_join(lowering: Lowering, elements: Sequence[Element], call: Join) -> Join:
    """Combine items either of which may be absent. The last handle of an item is its presence
    flag."""
    thread = lowering.thread

    def join(a: Item, b: Item) -> Item:
        flagged: list[str] = []
        for element, x, y, joined in zip(elements, a, b, call(a, b), strict=False):
            one = thread.select(element, b[-1], joined, x)
            flagged.append(thread.select(element, a[-1], one, y))
        return (*flagged, thread.binary("or", I1, a[-1], b[-1]))

    return join


def tree(items: list[Item], join: Join) -> Item:
    """Combine neighbouring items pairwise, then the results pairwise: the chains of dependent
    instructions are short."""
    while len(items) > 1:
        half = [join(a, b) for a, b in zip(items[::2], items[1::2], strict=False)]
        items = half + items[len(items) - len(items) % 2 :]
    return items[0]


_REARRANGING = (ExpandDims, Reshape, Trans)


def _before_extension(lowering: Lowering, op: Any) -> tuple[Element, dict[int, Any]] | None:
    """The element type before the extension, and the narrow handle by the `id` of each extended
    one, if the op is a minimum or maximum of f16 or bf16 numbers that were extended.

    A GPU compares two narrow numbers per instruction, and the extension changes no comparison. None
    on a CPU, which would extend the numbers for each comparison.
    """
    source = lowering.origin(op.values[0])
    while source is not None and isinstance(source, _REARRANGING):
        source = lowering.origin(source.inputs[0])
    if op.combiner not in FLOAT_EXTREMES or source is None or source.mnemonic != "fpext":
        return None
    element = scalar_of(source.inputs[0].type)
    if element not in (F16, BF16) or not lowering.thread.approximates:
        return None
    wide, short = (lowering.fragment(v) for v in (source.results[0], source.inputs[0]))
    return element, {id(w): n for w, n in zip(wide, short, strict=True)}


def _extreme_before_extension(
    lowering: Lowering, op: Any, group: list[Item], element: Element, short: dict[int, Any]
) -> Item:
    """The minimum or maximum of a group, computed in the narrow type and extended once. Items that
    were not extended, such as the combiner's identity, are compared in the wide type."""
    name, wide = op.combiner.value, scalar_of(op.values[0].type)

    def join(items: list[Item], of: Element) -> Item:
        return tree(items, lambda a, b: (combine_named(lowering.thread, name, of, a[0], b[0]),))

    narrow = [(short[id(item[0])],) for item in group if id(item[0]) in short]
    others = [item for item in group if id(item[0]) not in short]
    if narrow:
        (least,) = join(narrow, element)
        others.append((lowering.thread.convert("fpext", element, wide, least),))
    return join(others, wide)


_CHAIN = 4
"""The fewest multiplications that one chain of fused multiply-adds takes."""
_CHAINS = 8
"""Chains of a thread that hide the latency of an addition."""


def _adds_multiplications(lowering: Lowering, op: Any) -> bool:
    """Whether the op adds results of multiplications that may be fused with the additions."""
    source = lowering.origin(op.values[0])
    if op.combiner is not Combiner.FADD or source is None or source.mnemonic != "fmul":
        return False
    return cast(Any, source).fast in (FastMath.CONTRACT, FastMath.FAST)


def _chains(items: list[Item], join: Join, groups: int) -> Item:
    """Combine the items of one of `groups` results in a few chains with one accumulator each, then
    combine the accumulators. An addition to an accumulator fuses with the multiplication of its
    item into one instruction. An addition of two multiplied items would take two: each chain costs
    one more instruction. The chains of the other results run at the same time."""
    count = max(1, min(len(items) // _CHAIN, -(-_CHAINS // groups)))
    totals = items[:count]
    for first in range(count, len(items), count):
        row = items[first : first + count]
        totals[: len(row)] = [join(a, b) for a, b in zip(totals, row, strict=False)]
    return tree(totals, join)


def _groups(lowering: Lowering, op: Any, result: Layout, padded: bool) -> list[list[Item]]:
    """The items of one thread, grouped by the register of the result that they contribute to."""
    source, shape = op.values[0].type.layout, op.values[0].type.shape
    columns = [lowering.fragment(v) for v in op.values]
    where = {v: r for r, v in enumerate(result.registers)}
    groups: list[list[Item]] = [[] for _ in result.registers]
    for register, coordinate in enumerate(source.registers):
        target = where[(*coordinate[: op.axis], *coordinate[op.axis + 1 :])]
        inside = _takes_part(lowering, op, lowering.inside(source, shape, register), register)
        item = tuple(column[register] for column in columns)
        if padded:
            groups[target].append((*item, presence(lowering, inside)))
        else:
            groups[target].append(_or_identity(lowering, op, item, inside))
    return groups


def presence(lowering: Lowering, inside: str | None) -> str:
    """The presence flag of an item from its condition `inside`: None if always present, the text
    `false` if never."""
    if inside is None or inside == "false":
        return lowering.thread.constant(I1, 1 if inside is None else 0)
    return inside


def _takes_part(lowering: Lowering, op: Any, inside: str | None, register: int) -> str | None:
    """The conjunction of `inside` and the op's predicate."""
    if op.predicate is None or inside == "false":
        return inside
    predicates = lowering.fragment(op.predicate)
    holds = predicates[register if isinstance(op.predicate.type, Tile) else 0]
    if inside is None:
        return holds
    return lowering.thread.select(I1, inside, holds, lowering.thread.constant(I1, 0))


def _or_identity(lowering: Lowering, op: Any, item: Item, inside: str | None) -> Item:
    if inside is None or isinstance(op.combiner, str):
        return item
    element = scalar_of(op.values[0].type)
    neutral = lowering.thread.constant(element, identity(op.combiner.value, element))
    if inside == "false":
        return (neutral,)
    return (lowering.thread.select(element, inside, item[0], neutral),)


def _shuffle_item(lowering: Lowering, elements: Sequence[Element], item: Item, mask: int) -> Item:
    thread = lowering.thread
    return tuple(thread.shuffle_xor(e, x, mask) for e, x in zip(elements, item, strict=True))


@attrs.frozen
class WarpPartials:
    """The placement in shared memory of the partial results of warps. For each operand there is one
    partial per result element and warp along the axis. The partials of one element are contiguous;
    with an `element_step` of 1, those of one warp are."""

    bases: tuple[int, ...]
    warps: int
    elements: tuple[Element, ...]
    element_step: int = attrs.field(
        default=attrs.Factory(lambda self: cast(WarpPartials, self).warps, takes_self=True)
    )
    warp_step: int = 1

    def vector(self, layout: Layout, operand: int) -> int:
        """The number of consecutive registers that one access moves, because they are neighbours in
        shared memory."""
        if self.element_step != 1 or not layout.rank or self.elements[operand] is I1:
            return 1
        last = layout.rank - 1
        width = min(vector_run(layout, last), 16 // self.elements[operand].bytes)
        while layout.extents[last] % width or self.warp_step % width:
            width //= 2
        return width


def _across_warps(
    lowering: Lowering, op: Any, result: Layout, elements: Sequence[Element], items: list[Item],
    join: Join,
) -> list[Item]:  # fmt: skip
    """Combine the items of warps through shared memory.

    Each warp writes its items. Each thread combines the items of the elements that it owns in the
    layout of the result, which may differ from that of the items.
    """
    thread, source = lowering.thread, op.values[0].type.layout
    warps, count = warps_along(source, op.axis), prod(result.extents)
    bases, base = list[int](), lowering.scratch[op]
    for element in elements:
        bases.append(base)
        base += align_to_16(count * warps * element.bytes)
    steps = (1, count) if any(map(any, result.lane)) else (warps, 1)
    place = WarpPartials(tuple(bases), warps, tuple(elements), *steps)
    warp = lowering.offset(_warp_index(source, op.axis), 0)
    assert warp is not None

    first = lowering.first_owner(_writers(source, op.axis)) or "true"
    indices = [element_index(lowering, result, r) for r in range(len(items))]
    for i, element in enumerate(elements):
        width = place.vector(result, i)
        for r in range(0, len(items), width):
            at = partial(lowering, place, i, indices[r], warp)
            thread.store_shared_if(first, element, at, [item[i] for item in items[r : r + width]])
    thread.barrier()
    target = _layout_of_result(op) or result
    if target != result:
        indices = [element_index(lowering, target, r) for r in range(len(target.registers))]
    if _by_lanes(target, warps):
        return [_joined_by_lanes(lowering, place, index, join) for index in indices]
    if place.element_step == 1:
        columns = _read_columns(lowering, place, target, indices)
    else:
        columns = [read_partials(lowering, place, index) for index in indices]
    return [tree(column, join) for column in columns]


def _layout_of_result(op: Any) -> Layout | None:
    type = op.results[0].type
    return type.layout if isinstance(type, Tile) else None


def _by_lanes(result: Layout, warps: int) -> bool:
    """Whether each lane loads the partial of one warp, which pays if there are many warps and all
    lanes need the same partials."""
    is_power_of_two = not warps & (warps - 1) and not result.digits("lane")
    return 4 <= warps <= 32 and is_power_of_two and not any(map(any, result.lane))


def _joined_by_lanes(lowering: Lowering, place: WarpPartials, index: str, join: Join) -> Item:
    """The partials of all warps for one result element, loaded by as many lanes and combined by
    shuffles."""
    thread = lowering.thread
    lane = thread.binary("and", I32, thread.lane(), thread.integer(place.warps - 1))
    own: list[str] = []
    for i, element in enumerate(place.elements):
        own += thread.load_shared(element, 1, partial(lowering, place, i, index, lane))
    item: Item = tuple(own)
    for bit in range(place.warps.bit_length() - 1):
        item = join(item, _shuffle_item(lowering, place.elements, item, 1 << bit))
    return item


def _read_columns(
    lowering: Lowering, place: WarpPartials, layout: Layout, indices: Sequence[str]
) -> list[list[Item]]:
    """The partials of every warp for the result elements of each register in `layout`, in the order
    of warps, if the partials of a warp are contiguous."""
    thread = lowering.thread
    values: list[list[list[str]]] = []
    for i, element in enumerate(place.elements):
        width = place.vector(layout, i)
        rows: list[list[str]] = [[] for _ in range(place.warps)]
        for r in range(0, len(indices), width):
            at = partial(lowering, place, i, indices[r], None)
            for warp, row in enumerate(rows):
                step = thread.integer(warp * place.warp_step * element.bytes)
                moved = thread.binary("add", I32, at, step, "nsw nuw")
                row += thread.load_shared(element, width, moved)
        values.append(rows)
    return [
        [tuple(rows[warp][r] for rows in values) for warp in range(place.warps)]
        for r in range(len(indices))
    ]


def read_partials(lowering: Lowering, place: WarpPartials, index: str) -> list[Item]:
    """The partials of every warp for one result element, in the order of warps, if the partials of
    an element are contiguous."""
    columns: list[list[str]] = []
    for i, element in enumerate(place.elements):
        width = _load_width(place.warps, element.bytes)
        at = partial(lowering, place, i, index, None)
        column: list[str] = []
        for start in range(0, place.warps, width):
            moved = lowering.thread.binary(
                "add", I32, at, lowering.thread.integer(start * element.bytes), "nsw nuw"
            )
            column += lowering.thread.load_shared(element, width, moved)
        columns.append(column)
    return list(zip(*columns, strict=True))


def _load_width(warps: int, size: int) -> int:
    """The width of the widest load that divides a row of partials and stays aligned."""
    width = 1
    while width * 2 * size <= 16 and warps % (width * 2) == 0:
        width *= 2
    return width


def partial(
    lowering: Lowering, place: WarpPartials, operand: int, index: str, warp: str | None
) -> str:
    """The byte offset of the partial of result element `index`, of warp `warp`, or of the first
    warp if None."""
    thread, size = lowering.thread, place.elements[operand].bytes
    row = thread.binary("mul", I32, index, thread.integer(place.element_step * size), "nsw nuw")
    at = thread.binary("add", I32, row, thread.integer(place.bases[operand]), "nsw nuw")
    if warp is None:
        return at
    step = thread.binary("mul", I32, warp, thread.integer(place.warp_step * size), "nsw nuw")
    return thread.binary("add", I32, at, step, "nsw nuw")


def element_index(lowering: Lowering, result: Layout, register: int) -> str:
    """The row-major index of a result element within the extents that the layout covers, an i32."""
    thread, total = lowering.thread, lowering.thread.integer(0)
    for dim, extent in enumerate(result.extents):
        scaled = thread.binary("mul", I32, total, thread.integer(extent), "nsw nuw")
        at = lowering.coordinate(result, register, dim)
        total = thread.binary("add", I32, scaled, at, "nsw nuw")
    return total


def _warp_index(source: Layout, axis: int) -> Layout:
    """A layout of one dimension whose coordinate is the index of the warp along `axis`."""
    weight, vectors = 1, list[tuple[int, ...]]()
    for vector in source.warp:
        vectors.append((weight if vector[axis] else 0,))
        weight *= 2 if vector[axis] else 1
    repeats = [Repeat("warp", d.count, 0 if d.step[axis] else None) for d in source.digits("warp")]
    return layout(1, warp=tuple(vectors), repeats=tuple(repeats))


def _writers(source: Layout, axis: int) -> Layout:
    """A layout in which the lanes along the axis are replicated, so that the first owner of a
    partial result writes it."""
    lanes = tuple((0,) * source.rank if v[axis] else v for v in source.lane)
    repeats = tuple(r for r in source.repeats if r.axis == "warp")
    return layout(source.rank, (), lanes, source.warp, repeats=repeats)


def check_axis_is_pure(lowering: Lowering, op: Any, source: Layout) -> None:
    """Raise CompileError (TIR0706) for layouts in which the reduction is not supported."""
    if source.digits("lane"):
        raise lowering.refuse(op, "its operand's layout repeats lanes")
    is_possible = scans_along if op.mnemonic == "scan" else reduces_along
    if not is_possible(source, op.axis):
        raise lowering.refuse(op, f"its operand's layout is swizzled along axis {op.axis}")
