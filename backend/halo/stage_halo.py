"""Overlapping windows of one buffer, staged once with their halo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import attrs

from tileir.analysis.affine import AffineForms, affine
from tileir.analysis.aliases import aliases
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, induction_variables, loops, trip_count
from tileir.analysis.polynomial import Iteration, Lane, Symbol
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import defining_blocks
from tileir.backend.codegen.emit.shared_tile import SharedTile
from tileir.backend.halo.constant_trip_loops import IterationSpace, numbers, rounds
from tileir.backend.halo.emit_staging import Staging, room, window_ops
from tileir.backend.halo.footprint import Footprint, WindowLoad, union
from tileir.backend.halo.footprint_masks import Condition, IndexBound, conditions
from tileir.backend.halo.split_forms import Moving, settled, split_form, symbols
from tileir.backend.transforms.polynomial_emitter import writable
from tileir.errors import Diagnostic
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.memory import Load
from tileir.passes.cfg_edit import add_preheader
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_, remark
from tileir.types import Element, Scalar, Tile, element_of, shape_of
from tileir.values import Value


@pass_("stage-halo")
def stage_halo(module: Module, *, shared: int = 24576, gain: int = 2) -> PassResult:
    """Copy what overlapping windows cover into shared memory once, and read windows there.

    Where a loop over the taps of a filter, or a filter written out, loads the elements of one
    buffer again and again, a block's loads cover a tile and its halo. One load fetches these,
    coalesced, masked as the windows are; a barrier makes them seen by all. `shared` is the bytes
    that may be used, `gain` how many times more elements windows must read than they cover.

    Addresses must be sums of what moves, in rows and columns that the windows cover without gaps;
    the loops around, of a known number of rounds; nothing in them may write the buffer; and every
    window must ask the same of an element, or of an index of its tile (`masks.py`), so that no
    element is loaded that was not loaded before. All other loads stay as they are.

    before:
        define kernel void @sums(f32* noalias %x, f32* noalias %y, i32 %n) {
        entry:
          %i = make_range i32<64>
          %xs = splat f32*<64> %x
          %ns = splat i32<64> %n
          br loop
        loop:
          %t = phi i32 [0, entry], [%t.next, loop]
          %sum = phi f32<64> [0.0, entry], [%more, loop]
          %ts = splat i32<64> %t
          %at = add i32<64> %i, %ts {overflow = nsw}
          %in, _ = icmp (i1<64>, i1<64>) %at, %ns {predicate = slt}
          %p = getelementptr f32*<64> %xs, %at
          %v = load f32<64> %p, %in, 0.0
          %more = fadd f32<64> %sum, %v
          %t.next = add i32 %t, 1
          %again, _ = icmp (i1, i1) %t.next, 5 {predicate = slt}
          cond_br %again, loop, done
        done:
          %ys = splat f32*<64> %y
          %q = getelementptr f32*<64> %ys, %i
          store %q, %more
          ret
        }
    after:
        stage "halo"

        define kernel void @sums(f32* noalias %x, f32* noalias %y, i32 %n) {
        entry:
          %i = make_range i32<64>
          %0 = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 1, 68]}
          %1 = getelementptr f32* %x, i64 0
          %2 = make_range i32<64>
          %3 = expand_dims i32<1, 64> %2 {axis = 0}
          %4 = splat f32*<1, 1> %1
          %5 = broadcast f32*<1, 64> %4
          %6 = getelementptr f32*<1, 64> %5, %3
          %7 = sext i64 %n
          %8 = add i64 %7, -1
          %9 = smin i64 %8, 2147483647
          %10 = smax i64 %9, -2147483648
          %11 = trunc i32 %10
          %12 = splat i32<1, 64> %11
          %13, _ = icmp (i1<1, 64>, i1<1, 64>) %3, %12 {predicate = sle}
          %14 = load f32<1, 64> %6, %13, 0.0
          %15 = make_range i32<4> {start = 64}
          %16 = expand_dims i32<1, 4> %15 {axis = 0}
          %17 = splat f32*<1, 1> %1
          %18 = broadcast f32*<1, 4> %17
          %19 = getelementptr f32*<1, 4> %18, %16
          %20 = splat i32<1, 4> %11
          %21, _ = icmp (i1<1, 4>, i1<1, 4>) %16, %20 {predicate = sle}
          %22 = load f32<1, 4> %19, %21, 0.0
          gpu.local_store %14, %0, 0
          gpu.local_store %22, %0, 0 {offsets = [0, 64]}
          gpu.barrier
          br loop
        loop:
          %t = phi i32 [0, entry], [%t.next, loop]
          %sum = phi f32<64> [0.0, entry], [%more, loop]
          %v = gpu.local_gather f32<64> %0, 0, 0, %t {rows = [0], columns = [1]}
          %more = fadd f32<64> %sum, %v
          %t.next = add i32 %t, 1
          %again, _ = icmp (i1, i1) %t.next, 5 {predicate = slt}
          cond_br %again, loop, done
        done:
          %ys = splat f32*<64> %y
          %q = getelementptr f32*<64> %ys, %i
          store %q, %more
          ret
        }
    """
    found = {name: stage_function_halo(f, shared, gain) for name, f in module.functions.items()}
    remarks = tuple(r for outcome in found.values() for r in outcome.remarks)
    count = sum(outcome.statistics.get("unions staged", 0) for outcome in found.values())
    if not count:
        return PassResult(module, remarks)
    functions = {name: cast(Function, outcome.ir) for name, outcome in found.items()}
    changed = module.evolve(functions=functions, stage="halo")
    return PassResult(changed, remarks, {"unions staged": count})


def stage_function_halo(function: Function, shared: int = 24576, gain: int = 2) -> PassResult:
    """The same for one function."""
    remarks: list[Diagnostic] = []
    count, before = 0, function
    while (work := _first(function, shared, gain)) is not None:
        remarks.append(work.remark())
        shared -= work.bytes
        function = work.apply()
        count += 1
    if function is before:
        return PassResult(function)
    return PassResult(dce(function), tuple(remarks), {"unions staged": count})


@attrs.frozen
class Region:
    """Where windows are read: a loop, or from op `start` on in block `label`."""

    function: Function
    label: str
    loop: Loop | None = None
    start: int = 0

    def moving(self, which: Symbol) -> bool:
        """Whether a symbol is not the same throughout the region, or is a lane."""
        if isinstance(which, Lane) or self.loop is None:
            return isinstance(which, Lane)
        if isinstance(which, Iteration):
            return which.header in self.loop.blocks
        return (
            isinstance(which, Value) and defining_blocks(self.function)[which] in self.loop.blocks
        )

    def reached(self, value: Value) -> bool:
        """Whether `value` is defined before the region."""
        home = defining_blocks(self.function)[value]
        if self.loop is not None:
            before = home not in self.loop.blocks
            return before and dominance(self.function).dominates(home, self.loop.header)
        if home != self.label:
            return dominance(self.function).dominates(home, self.label)
        later = self.function.blocks[home].ops[self.start :]
        return all(value not in op.results for op in later)

    @property
    def again(self) -> bool:
        """Whether control may come back to it."""
        depth = loops(self.function).depth(self.label)
        return depth > (self.loop is not None)


@attrs.frozen
class StagingCandidate:
    """A union that is worth staging."""

    region: Region
    union: Footprint
    base: Value
    asked: Sequence[Condition]
    room: int
    bytes: int

    def remark(self) -> Diagnostic:
        """What is done, at the first load."""
        size, op = f"{self.union.height} x {self.union.width}", self.union.windows[0].read.op
        message = f"load: {size} elements are staged in shared memory once, and windows of them"
        return remark("TIR0758", f"{message} read {self.union.loaded} there", op.location)

    def apply(self) -> Function:
        """The function with the copy, and windows in place of loads."""
        function, region = self.region.function, self.region
        staging = Staging(function, self.union, self.base, self.asked, self.room, region.again)
        copy = staging.write()
        reads: dict[Op, list[Op]] = {
            w.read.op: window_ops(function, w, staging.buffer, self.asked, staging.fill())
            for w in self.union.windows
        }
        if region.again:
            function = _at_entry(function, staging.allot)
        else:
            copy = [staging.allot, *copy]
        if region.loop is None:
            first = function.blocks[region.label].ops[region.start]
            reads[first] = [*copy, *reads[first]]
        else:
            function = _before(function, region.loop, copy)
        blocks = {
            label: attrs.evolve(
                block, ops=tuple(new for op in block.ops for new in reads.get(op, (op,)))
            )
            if any(op in reads for op in block.ops)
            else block
            for label, block in function.blocks.items()
        }
        return function.with_blocks(blocks)


def _at_entry(function: Function, op: Op) -> Function:
    """`function` with `op` before everything else."""
    block = function.entry
    first = attrs.evolve(block, ops=(op, *block.ops))
    return function.with_blocks({**function.blocks, block.label: first})


def _before(function: Function, loop: Loop, ops: Sequence[Op]) -> Function:
    """`function` with `ops` run before `loop`."""
    label = loop.preheader
    if label is None:
        function, label = add_preheader(function, loop.header, loop.blocks)
    block = function.blocks[label]
    moved = attrs.evolve(block, ops=(*block.ops[:-1], *ops, block.ops[-1]))
    return function.with_blocks({**function.blocks, label: moved})


def _first(function: Function, shared: int, gain: int) -> StagingCandidate | None:
    """The first union that is worth staging, from outer loops to inner ones and to blocks."""
    loads = {label: list(_plain(function, label)) for label in function.blocks}
    for region, inside in _regions(function, loads):
        for group in _groups(region, inside):
            work = _work(region, group, shared, gain)
            if work is not None:
                return work
    return None


def _plain(function: Function, label: str) -> Iterator[Load]:
    """Loads of tiles of numbers that nothing but their mask tells about."""
    for op in function.blocks[label].ops:
        if isinstance(op, Load) and isinstance(op.pointer.type, Tile):
            kind = element_of(op.results[0].type)
            numeric = isinstance(kind, Scalar) and kind.bits >= 8
            if numeric and op.predicate is None and not op.volatile:
                yield op


def _regions(
    function: Function, loads: dict[str, list[Load]]
) -> Iterator[tuple[Region, list[tuple[str, Load]]]]:
    if not any(loads.values()):
        return
    for header, loop in loops(function).by_header.items():
        inside = [(label, op) for label in loop.order for op in loads[label]]
        counted = inside and trip_count(function, loop)
        if counted and counted.count:
            yield Region(function, header, loop), inside
    for label, found in loads.items():
        if len(found) > 1 or any(map(_may_overlap, found)):
            yield Region(function, label), [(label, op) for op in found]


def _may_overlap(op: Load) -> bool:
    """Whether elements of a tile may be the same element of the buffer, as those of a window for
    each output are."""
    return sum(extent > 1 for extent in shape_of(op.pointer.type)) > 1


def _from(region: Region, group: Sequence[WindowLoad]) -> Region:
    """A region that is part of a block from the first load of `group` on."""
    if region.loop is not None:
        return region
    ops = region.function.blocks[region.label].ops
    return attrs.evolve(region, start=ops.index(group[0].op))


def _groups(region: Region, inside: Sequence[tuple[str, Load]]) -> Iterator[list[WindowLoad]]:
    """Reads through one pointer: all of them, then each by itself."""
    forms, updates = affine(region.function), _updates(region.function)
    by_base: dict[Value, list[WindowLoad]] = {}
    for label, op in inside:
        form = forms.of(op.pointer)
        if form is None or form.base is None or region.moving(form.base):
            continue
        read = _read(region, label, op, forms, updates)
        if read is not None:
            by_base.setdefault(form.base, []).append(read)
    for found in by_base.values():
        yield found
        if len(found) > 1:
            yield from ([read] for read in found)


def _updates(function: Function) -> frozenset[Op]:
    """Ops that move induction variables and do not wrap."""
    exact = ranges(function).exact
    found: list[Op] = []
    for loop in loops(function).by_header.values():
        counted = trip_count(function, loop)
        for variable in induction_variables(function, loop):
            op = variable.update
            promised = "nsw" in getattr(getattr(op, "overflow", None), "value", "")
            ended = counted is not None and counted.count is not None and counted.of == variable
            if promised or op in exact or ended:
                found.append(op)
    return frozenset(found)


def _read(
    region: Region, label: str, op: Load, forms: AffineForms, updates: frozenset[Op]
) -> WindowLoad | None:
    """A load as one that reads through rows and columns; None where its address is no sum of
    what moves, or its rounds are not known."""
    around = (
        IterationSpace() if region.loop is None else rounds(region.function, region.loop, label)
    )
    form = forms.of(op.pointer)
    if around is None or form is None or form.assuming - updates:
        return None
    parts = split_form(form.offset, region.moving)
    if parts is None:
        return None
    wanted: list[Symbol] = [s for s in parts.steps if not isinstance(s, Lane)]
    found = numbers(region.function, around, wanted)
    if found is None:
        return None
    held = {s: {at[s] for at in found} for s in wanted}
    fixed: dict[Symbol, int] = {s: min(numbers) for s, numbers in held.items() if len(numbers) == 1}
    return WindowLoad(op, settled(parts, fixed), found, fixed)


def _work(
    region: Region, group: Sequence[WindowLoad], shared: int, gain: int
) -> StagingCandidate | None:
    """The union of `group`, if there is one that is worth staging and may be staged."""
    function, first = region.function, group[0].op
    found = union(group)
    if found is None:
        return None
    covered = found.height * found.width
    if found.loaded <= covered or found.loaded < gain * covered:
        return None
    element = cast(Element, element_of(first.results[0].type))
    sizes = (found.width, room(found, element))
    fitting = [w for w in sizes if _bytes(element, found.height, w) <= shared]
    if not fitting:
        return None
    region = _from(region, group)
    if not _unchanged(region, group):
        return None
    forms, updates = affine(function), _updates(function)
    moving: Moving = region.moving
    asked = conditions(found, forms, ranges(function), moving, updates)
    base = forms.of(first.pointer)
    if asked is None or base is None or base.base is None or not region.reached(base.base):
        return None
    if not all(writable(function, s, region.reached) for s in _needed(found, asked)):
        return None
    size = _bytes(element, found.height, fitting[-1])
    return StagingCandidate(region, found, base.base, asked, fitting[-1], size)


def _bytes(element: Element, height: int, width: int) -> int:
    return SharedTile(element, (height, width), 1, 0).bytes


def _unchanged(region: Region, group: Sequence[WindowLoad]) -> bool:
    """Whether nothing in the region may write what is read."""
    facts, function = aliases(region.function), region.function
    ops: Sequence[Op]
    if region.loop is not None:
        ops = [op for label in region.loop.order for op in function.blocks[label].ops]
    else:
        block = function.blocks[region.label].ops
        ops = block[region.start : max(block.index(read.op) for read in group) + 1]
    return not any(facts.may_change(op, read.op) for op in ops for read in group)


def _needed(found: Footprint, asked: Sequence[Condition]) -> set[Symbol]:
    """What the copy is computed from."""
    forms = [found.origin, found.rows, found.columns]
    for one in asked:
        forms += [one.rest] if isinstance(one, IndexBound) else [one.rows, one.columns, one.rest]
    return symbols(forms)
