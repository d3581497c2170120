"""Scans, computed in the layout of the operand: nothing moves unless the layout is swizzled along
the axis.

The coordinate along the axis is a number in mixed radix whose digits are registers, lanes or warps.
Scanned blocks of elements are joined to larger ones, from the lowest digit up: in registers one
after the other, in lanes by a shuffle per bit, in warps through shared memory with one barrier. The
prefix before a block is kept separately and joined to the block's elements once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import attrs

from tileir.backend.codegen.combiners import identity
from tileir.backend.codegen.emit.reduction import (
    Item,
    Join,
    WarpPartials,
    check_axis_is_pure,
    combine_function,
    element_index,
    partial,
    presence,
    read_partials,
)
from tileir.backend.codegen.lowering import Fragment, Lowering, scalar_of
from tileir.backend.layouts.reduction_plan import align_to_16
from tileir.backend.layouts.scan_plan import ScanDigit, carries_flags, digits_along, runs
from tileir.layout import Layout, Repeat, Vector, layout
from tileir.types import I1, I32, Element

_WORD = 4
"""Bytes of the elements that one instruction joins."""

_FEW_BITS = 2
"""The number of bits of the lane for which a butterfly takes half the shuffles."""


@attrs.frozen
class _Carry:
    """The prefix before a block; it exists only where `has` is true, if that is not None."""

    item: Item
    has: str | None


@attrs.define
class _Segment:
    """Registers whose elements are scanned from the first of them on, and the prefix before
    them."""

    registers: list[int]
    items: list[Item]
    carry: _Carry | None = None


@attrs.frozen
class _LaneTotals:
    """The result of a scan across lanes for a block.

    - `through`: the elements of the block up to and with those of this lane, joined.
    - `mask`, `step`: the bits of the index of the lane along the axis, and the lowest of them.
    """

    through: Item
    mask: int
    step: int


@attrs.define
class _Block:
    """Neighbours along the axis, in one row, and their total.

    With `lanes`, the total is that of this lane's elements, and no segment has a prefix of other
    lanes yet.
    """

    segments: list[_Segment]
    total: Item
    lanes: _LaneTotals | None = None


def scan_tile(lowering: Lowering, op: Any) -> list[Fragment]:
    """The fragments of the results of a `scan`."""
    source: Layout = op.values[0].type.layout
    check_axis_is_pure(lowering, op, source)
    return _Scan(lowering, op, source).run()


@attrs.define
class _Scan:
    """One scan of one thread."""

    lowering: Lowering
    op: Any
    source: Layout
    elements: list[Element] = attrs.field(init=False)
    join: Join = attrs.field(init=False)
    base: int = attrs.field(init=False)

    def run(self) -> list[Fragment]:
        op, flags = self.op, carries_flags(self.op)
        elements = [scalar_of(v.type) for v in op.values]
        self.join = combine_function(self.lowering, op, elements, flags)
        self.elements = [*elements, I1] if flags else elements
        self.base = self.lowering.scratch.get(op, 0)
        digits = digits_along(self.source, op.axis)
        blocks = {v: _Block([_Segment([r], [item])], item) for r, v, item in self._items(flags)}
        for start, run in runs(digits):
            last = start + len(run) == len(digits)
            step: Callable[..., dict[Vector, _Block]]
            step = {"register": self._registers, "lane": self._lanes, "warp": self._warps}[
                run[0].kind
            ]
            blocks = step(blocks, run, last)
        for block in blocks.values():
            self._settle(block, last=True)
        return self._results(blocks, len(elements))

    def _items(self, flags: bool) -> Iterator[tuple[int, Vector, Item]]:
        """Yield the register, coordinates and item of each element. Leading padding is the
        identity."""
        op, lowering = self.op, self.lowering
        columns = [lowering.fragment(v) for v in op.values]
        shape = op.values[0].type.shape
        for register, vector in enumerate(self.source.registers):
            item = tuple(column[register] for column in columns)
            inside = lowering.inside(self.source, shape, register) if op.reverse else None
            if flags:
                item = (*item, presence(lowering, inside))
            elif inside is not None and not isinstance(op.combiner, str):
                item = (self._or_identity(item[0], inside),)
            yield register, vector, item

    def _or_identity(self, handle: str, inside: str) -> str:
        thread, element = self.lowering.thread, self.elements[0]
        neutral = thread.constant(element, identity(self.op.combiner.value, element))
        return neutral if inside == "false" else thread.select(element, inside, handle, neutral)

    # Each kind of digit --------------------------------------------------------

    def _registers(
        self, blocks: dict[Vector, _Block], run: list[ScanDigit], last: bool
    ) -> dict[Vector, _Block]:
        rows: dict[Vector, list[tuple[int, _Block]]] = {}
        for vector, block in blocks.items():
            coordinate = vector[self.op.axis]
            at = sum(d.step * (d.at(coordinate)) for d in run)
            key = (*vector[: self.op.axis], coordinate - at, *vector[self.op.axis + 1 :])
            rows.setdefault(key, []).append((at, block))
        return {key: self._sequence(row, last) for key, row in rows.items()}

    def _sequence(self, row: list[tuple[int, _Block]], last: bool) -> _Block:
        """Join the blocks of one row, one after the other."""
        row.sort(key=lambda pair: pair[0], reverse=self.op.reverse)
        blocks = [block for _, block in row]
        if self._joins_are_long and all(block.lanes for block in blocks):
            return self._sequence_of_lanes(blocks, last)
        for block in blocks:
            self._settle(block, last=False)
        merged = blocks[0]
        for block in blocks[1:]:
            if _is_run(merged) and _is_run(block) and len(block.segments[0].items) == 1:
                total = self.join(merged.total, block.total)
                merged.segments[0].registers += block.segments[0].registers
                merged.segments[0].items.append(total)
                merged = _Block(merged.segments, total)
                continue
            for segment in block.segments:
                segment.carry = self._before(_Carry(merged.total, None), segment.carry)
            total = self.join(merged.total, block.total)
            merged = _Block(merged.segments + block.segments, total)
        return merged

    def _sequence_of_lanes(self, blocks: list[_Block], last: bool) -> _Block:
        """Join the blocks of one row, which are scanned across lanes, with one join for each. The
        lane before this one then has what comes before this lane's elements, so that what precedes
        the block is joined to it already. The shuffles of a block wait for those of the block
        before it, which costs less than a long join."""
        segments: list[_Segment] = []
        before: Item | None = None
        for block in blocks:
            lanes = block.lanes
            assert lanes is not None
            through = lanes.through if before is None else self.join(before, lanes.through)
            self._follow(block, lanes, through, before)
            segments += block.segments
            if not last or block is not blocks[-1]:
                before = self._of_last_lane(lanes, through)
        assert before is not None
        return _Block(segments, before)

    @property
    def _joins_are_long(self) -> bool:
        """Whether a join takes several instructions."""
        return isinstance(self.op.combiner, str) or any(e.bytes > _WORD for e in self.elements)

    def _lanes(
        self, blocks: dict[Vector, _Block], run: list[ScanDigit], last: bool
    ) -> dict[Vector, _Block]:
        """Scan across lanes.

        `_totals_of_lanes` needs the fewest combinations and keeps one value per block. A butterfly
        needs fewer shuffles. It is used over few lanes if the combiner is one instruction, unless
        threads have one element each, whose prefix is then the result.
        """
        weights = [d.weight for d in run]
        is_function = isinstance(self.op.combiner, str)
        for block in blocks.values():
            alone = _single(block) and len(block.segments[0].items) == 1
            joins_least = is_function or alone or len(weights) > _FEW_BITS
            if joins_least and weights == sorted(weights):
                block.lanes = self._totals_of_lanes(block, weights)
            else:
                self._butterfly(block, weights, last)
        return blocks

    def _totals_of_lanes(self, block: _Block, weights: list[int]) -> _LaneTotals:
        """One join for every bit of the lane: the upper half of the lanes take the total of the
        lower half from its last lane (Sklansky, "Conditional-sum addition logic", 1960)."""
        reverse = self.op.reverse
        through, below = block.total, 0
        for weight in weights:
            end = weight if reverse else below
            source = self._lane(~(weight | below), end)
            preceding = self._shuffle_from(through, source)
            upper = self._set(weight, not reverse)
            through = self._select(upper, self.join(preceding, through), through)
            below |= weight
        return _LaneTotals(through, sum(weights), weights[0])

    def _settle(self, block: _Block, last: bool) -> None:
        """Put what other lanes have before the elements of `block`, if it was scanned across lanes.
        Its total is then that of all lanes, unless it is the `last`."""
        lanes = block.lanes
        if lanes is not None:
            self._follow(block, lanes, lanes.through, None)
            if not last:
                block.total = self._of_last_lane(lanes, lanes.through)

    def _follow(
        self, block: _Block, lanes: _LaneTotals, through: Item, before: Item | None
    ) -> None:
        """Put what comes before this lane, that is `through` of the lane before it, before the
        elements of `block`. The first lane has `before` there, if it is not None. Where a lane has
        all elements of its part of the block, `through` is the result of its last one."""
        block.lanes = None
        final = list[_Segment]()
        if _is_run(block):
            (segment,) = block.segments
            segment.items.pop()
            final = [_Segment([segment.registers.pop()], [through])]
            if not segment.registers:
                block.segments = []
        if block.segments:
            preceding = self._shuffle_from(through, self._lane_before(lanes.mask, lanes.step))
            follows = self._has_lane_before(lanes.mask)
            carry = _Carry(preceding, follows)
            if before is not None:
                carry = _Carry(self._select(follows, preceding, before), None)
            self._lead(block, carry)
        block.segments += final

    def _of_last_lane(self, lanes: _LaneTotals, item: Item) -> Item:
        """`item` of the last lane."""
        end = 0 if self.op.reverse else lanes.mask
        return self._shuffle_from(item, self._lane(~lanes.mask, end))

    def _butterfly(self, block: _Block, weights: list[int], last: bool) -> None:
        """A shuffle and a join of totals for every bit of the lane; what comes before a lane is
        joined apart."""
        carry: _Carry | None = None
        for index, weight in enumerate(weights):
            preceding = self._shuffle_item(block.total, weight)
            upper = self._set(weight, not self.op.reverse)
            carry = self._before_where(upper, preceding, carry)
            if not last or index + 1 < len(weights):
                block.total = self._join_in_order(upper, preceding, block.total)
        self._lead(block, carry)

    def _join_in_order(self, upper: str, other: Item, mine: Item) -> Item:
        """`other` and `mine` combined, the one of the lower lane first."""
        if not isinstance(self.op.combiner, str):
            return self.join(mine, other)
        return self._select(upper, self.join(other, mine), self.join(mine, other))

    def _warps(
        self, blocks: dict[Vector, _Block], run: list[ScanDigit], last: bool
    ) -> dict[Vector, _Block]:
        """Scan across warps: the first lane that knows the total of a warp's block writes it.

        If lanes were scanned just before, this is the last of them, and no other needs the total.
        """
        lowering, thread = self.lowering, self.lowering.thread
        place, run_number = self._place(run), self._number(run)
        indices = {vector: self._index(vector, run) for vector in blocks}

        def write() -> list[str]:
            for vector, block in blocks.items():
                total = block.total if block.lanes is None else block.lanes.through
                for i, (element, x) in enumerate(zip(self.elements, total, strict=True)):
                    at = partial(lowering, place, i, indices[vector], run_number)
                    thread.store_shared(element, at, [x])
            return []

        thread.when(self._writes(run, next(iter(blocks.values())).lanes), (), write)
        thread.barrier()
        for vector, block in blocks.items():
            self._settle(block, last=True)
            self._across_threads(
                block, read_partials(lowering, place, indices[vector]), run_number, last
            )
        return blocks

    def _across_threads(self, block: _Block, totals: list[Item], number: str, last: bool) -> None:
        thread = self.lowering.thread
        order = range(len(totals))[:: -1 if self.op.reverse else 1]
        relation, carry = ("ult" if self.op.reverse else "ugt"), None
        so_far: Item | None = None
        for index in order[:-1]:
            so_far = totals[index] if so_far is None else self.join(so_far, totals[index])
            after = thread.compare(relation, I32, number, thread.integer(index))
            if carry is None:
                carry = _Carry(so_far, after)
            else:
                carry = _Carry(self._select(after, so_far, carry.item), carry.has)
        self._lead(block, carry)
        if not last and so_far is not None:
            block.total = self.join(so_far, totals[order[-1]])

    def _place(self, run: list[ScanDigit]) -> WarpPartials:
        """The position of the totals of warps in shared memory."""
        axis, bases = self.op.axis, list[int]()
        above = [d for d in digits_along(self.source, axis) if d.step >= run[0].step]
        count = prod(self.source.slice(axis).extents) * prod(d.count for d in above)
        for element in self.elements:
            bases.append(self.base)
            self.base += align_to_16(count * element.bytes)
        return WarpPartials(tuple(bases), prod(d.count for d in run), tuple(self.elements))

    def _index(self, vector: Vector, run: list[ScanDigit]) -> str:
        """The index of a block among those that exchange totals: its row, then its position along
        the axis above this run."""
        lowering, axis = self.lowering, self.op.axis
        thread, result = lowering.thread, self.source.slice(axis)
        above = [d for d in digits_along(self.source, axis) if d.step > run[-1].step]
        register, weight = 0, 1
        for digit in above:
            register += weight * digit.at(vector[axis]) if digit.kind == "register" else 0
            weight *= digit.count
        row = result.registers.index((*vector[:axis], *vector[axis + 1 :]))
        index = element_index(lowering, result, row)
        scaled = thread.binary("mul", I32, index, thread.integer(weight), "nsw nuw")
        along = thread.binary("add", I32, self._number(above), thread.integer(register), "nsw nuw")
        return thread.binary("add", I32, scaled, along, "nsw nuw")

    def _number(self, digits: list[ScanDigit]) -> str:
        """The number whose digits are `digits` of lanes and warps, lowest first, an i32."""
        thread, total, scale = self.lowering.thread, None, 1
        for digit in digits:
            if digit.kind != "register":
                index = thread.lane() if digit.kind == "lane" else thread.warp()
                value = thread.binary("udiv", I32, index, thread.integer(digit.weight))
                value = thread.binary("urem", I32, value, thread.integer(digit.count))
                value = thread.binary("mul", I32, value, thread.integer(scale), "nsw nuw")
                total = value if total is None else thread.binary("add", I32, total, value)
            scale *= digit.count
        return thread.integer(0) if total is None else total

    def _writes(self, run: list[ScanDigit], lanes: _LaneTotals | None) -> str:
        """Whether this thread writes the totals of blocks below `run`: the first one, or the first
        one that is the last of `lanes`."""
        lowering, thread = self.lowering, self.lowering.thread
        is_first = lowering.first_owner(self._writers(run, lanes.mask if lanes else 0))
        if lanes is None:
            return is_first or "true"
        field = thread.binary("and", I32, thread.lane(), thread.integer(lanes.mask))
        end = thread.integer(0 if self.op.reverse else lanes.mask)
        is_last = thread.compare("eq", I32, field, end)
        return is_last if is_first is None else thread.binary("and", I1, is_first, is_last)

    def _writers(self, run: list[ScanDigit], kept: int) -> Layout:
        """A layout in which threads along the axis below `run` are replicated, but for lanes that
        differ in the bits `kept` of their index."""
        axis, below = self.op.axis, run[0].step

        def collapse(v: Vector) -> Vector:
            return (0,) * len(v) if 0 < v[axis] < below else v

        warps = tuple(map(collapse, self.source.atom("warp")))
        lanes = tuple(
            v if kept >> bit & 1 else collapse(v) for bit, v in enumerate(self.source.atom("lane"))
        )
        repeats: list[Repeat] = []
        digits = iter(self.source.digits("warp"))
        for repeat in self.source.repeats:
            if repeat.axis == "warp":
                low = 0 < next(digits).step[axis] < below
                repeats.append(attrs.evolve(repeat, dim=None) if low else repeat)
        return layout(self.source.rank, (), lanes, warps, repeats=tuple(repeats))

    # Carries ----------------------------------------------------------------------------------

    def _lead(self, block: _Block, carry: _Carry | None) -> None:
        """Put `carry` before every segment of `block`."""
        if carry is not None:
            for segment in block.segments:
                segment.carry = self._before(carry, segment.carry)

    def _before(self, first: _Carry, then: _Carry | None) -> _Carry:
        """The carry of `first` followed by `then`."""
        if then is None:
            return first
        joined = self.join(first.item, then.item)
        if then.has is not None:
            joined = self._select(then.has, joined, first.item)
        if first.has is None:
            return _Carry(joined, None)
        item = self._select(first.has, joined, then.item)
        if then.has is None:
            return _Carry(item, None)
        return _Carry(item, self.lowering.thread.binary("or", I1, first.has, then.has))

    def _before_where(self, upper: str, other: Item, carry: _Carry | None) -> _Carry:
        return self._before(_Carry(other, upper), carry)

    def _results(self, blocks: dict[Vector, _Block], count: int) -> list[Fragment]:
        results: list[Fragment] = [[""] * len(self.source.registers) for _ in range(count)]
        for block in blocks.values():
            for segment in block.segments:
                for register, item in zip(segment.registers, segment.items, strict=True):
                    prefix = self._after(segment.carry, item)
                    for i in range(count):
                        results[i][register] = prefix[i]
        return results

    def _after(self, carry: _Carry | None, item: Item) -> Item:
        if carry is None:
            return item
        joined = self.join(carry.item, item)
        return joined if carry.has is None else self._select(carry.has, joined, item)

    # Threads ----------------------------------------------------------------------------------

    def _shuffle_item(self, item: Item, mask: int) -> Item:
        thread = self.lowering.thread
        return tuple(
            thread.shuffle_xor(e, x, mask) for e, x in zip(self.elements, item, strict=True)
        )

    def _set(self, mask: int, value: bool) -> str:
        """Whether a bit of the lane index is set, or, if not `value`, clear."""
        thread = self.lowering.thread
        name = "ne" if value else "eq"

        def make() -> str:
            field = thread.binary("and", I32, thread.lane(), thread.integer(mask))
            return thread.compare(name, I32, field, thread.integer(0))

        return thread.once(f"lane {mask} {name}", make)

    def _shuffle_from(self, item: Item, lane: str) -> Item:
        thread = self.lowering.thread
        return tuple(
            thread.shuffle_index(e, x, lane) for e, x in zip(self.elements, item, strict=True)
        )

    def _lane(self, mask: int, set_: int) -> str:
        """The index of the lane that keeps the bits `mask` of this lane's index, with the bits
        `set_` set."""
        thread = self.lowering.thread

        def make() -> str:
            masked = thread.binary("and", I32, thread.lane(), thread.integer(mask & 31))
            return thread.binary("or", I32, masked, thread.integer(set_))

        return thread.once(f"lane & {mask & 31} | {set_}", make)

    def _lane_before(self, mask: int, step: int) -> str:
        """The index of the lane before this one, in the order of the number that the bits `mask`
        make up, whose lowest bit is `step`. The result for the first lane is arbitrary. A borrow
        passes through the bits outside the mask."""
        thread, reverse = self.lowering.thread, self.op.reverse

        def make() -> str:
            masked = thread.binary("and", I32, thread.lane(), thread.integer(31 & ~mask))
            filled = thread.binary(
                "or" if reverse else "and", I32, thread.lane(),
                thread.integer(31 & ~mask if reverse else mask),
            )  # fmt: skip
            name = "add" if reverse else "sub"
            moved = thread.binary(name, I32, filled, thread.integer(step))
            moved = thread.binary("and", I32, moved, thread.integer(mask))
            return thread.binary("or", I32, masked, moved)

        return thread.once(f"lane before {mask} {reverse}", make)

    def _has_lane_before(self, mask: int) -> str:
        thread, reverse = self.lowering.thread, self.op.reverse

        def make() -> str:
            field = thread.binary("and", I32, thread.lane(), thread.integer(mask))
            return thread.compare("ne", I32, field, thread.integer(mask if reverse else 0))

        return thread.once(f"lane {mask} follows {reverse}", make)

    def _select(self, condition: str, a: Item, b: Item) -> Item:
        thread = self.lowering.thread
        pairs = zip(self.elements, a, b, strict=True)
        return tuple(thread.select(e, condition, x, y) for e, x, y in pairs)


def _single(block: _Block) -> bool:
    """Whether a block is one segment of a thread without a prefix."""
    return len(block.segments) == 1 and block.segments[0].carry is None


def _is_run(block: _Block) -> bool:
    """Whether all elements of a block are in one thread, so that the last one is the total."""
    return _single(block) and block.segments[0].items[-1] is block.total
