"""Staging of the footprint of overlapping windows, with its halo, in shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import attrs

from tileir.analysis import memoize
from tileir.analysis.affine import AffineForms, affine
from tileir.analysis.aliases import aliases
from tileir.analysis.dominance import dominance
from tileir.analysis.induction import induction_variables, trip_count
from tileir.analysis.loops import Loop, loops
from tileir.analysis.polynomial import Iteration, Lane, Symbol
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import defining_blocks
from tileir.backend.halo.constant_trip_loops import (
    ConstantLoopNest,
    iteration_space,
    values_per_iteration,
)
from tileir.backend.halo.emit_staging import HaloStaging, padded_width, window_ops
from tileir.backend.halo.footprint import Footprint, WindowLoad, footprint_of
from tileir.backend.halo.footprint_masks import Condition, IndexBound, common_conditions
from tileir.backend.halo.split_forms import Varies, fold_fixed, split_form, symbols
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.shared_memory.shared_tile import SharedTile
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

_WIDE = 8
"""Bytes of an access that one by elements does not replace."""


@pass_("stage-halo")
def stage_halo(module: Module, *, shared: int = 24576, gain: int = 2) -> PassResult:
    """Copy the footprint of overlapping windows to shared memory once, and read the windows from
    there.

    A stencil or convolution, as a loop over the taps of a filter or unrolled, loads most elements
    of a buffer several times. The loads of a block cover a tile and its halo. This pass loads these
    elements once, coalesced and masked, into shared memory, and a barrier makes them visible to all
    threads. `shared` is the limit of shared memory in bytes. `gain` is the minimum ratio of
    elements that the windows read to elements that they cover.

    - Addresses must be affine in lanes and iterations, and cover rows and columns without gaps.
    - The loops must have constant trip counts, and no op in them may write the buffer.
    - The masks of all windows must impose the same condition on the position of an element, or on
      an index of the tile (`footprint_masks.py`). No element is then loaded that was not loaded
      before.
    - Windows that threads load in vectors of 8 bytes or more are not staged: shared memory would
      take as many accesses, and the L1 cache holds the shared elements.

    All other loads stay as they are.

    before:
        define kernel void @box_filter(f32* noalias %x, f32* noalias %y, i32 %n) {
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

        define kernel void @box_filter(f32* noalias %x, f32* noalias %y, i32 %n) {
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
    outcomes = {name: stage_function_halo(f, shared, gain) for name, f in module.functions.items()}
    remarks = tuple(r for outcome in outcomes.values() for r in outcome.remarks)
    count = sum(outcome.statistics.get("footprints staged", 0) for outcome in outcomes.values())
    if not count:
        return PassResult(module, remarks)
    functions = {name: cast(Function, outcome.ir) for name, outcome in outcomes.items()}
    changed = module.evolve(functions=functions, stage="halo")
    return PassResult(changed, remarks, {"footprints staged": count})


def stage_function_halo(function: Function, shared: int = 24576, gain: int = 2) -> PassResult:
    """Stage halos, as `stage_halo`, in one function."""
    remarks: list[Diagnostic] = []
    count, before = 0, function
    while (candidate := _first_candidate(function, shared, gain)) is not None:
        remarks.append(candidate.remark())
        shared -= candidate.bytes
        function = candidate.apply()
        count += 1
    if function is before:
        return PassResult(function)
    return PassResult(dce(function), tuple(remarks), {"footprints staged": count})


@attrs.frozen
class HaloRegion:
    """The region that reads windows: `loop`, or block `label` from op number `start` on."""

    function: Function
    label: str
    loop: Loop | None = None
    start: int = 0

    def varies(self, symbol: Symbol) -> bool:
        """Whether a symbol is a lane or has several values in the region."""
        if isinstance(symbol, Lane) or self.loop is None:
            return isinstance(symbol, Lane)
        if isinstance(symbol, Iteration):
            return symbol.header in self.loop.blocks
        return (
            isinstance(symbol, Value) and defining_blocks(self.function)[symbol] in self.loop.blocks
        )

    def is_available(self, value: Value) -> bool:
        """Whether the definition of `value` dominates the region."""
        block = defining_blocks(self.function)[value]
        if self.loop is not None:
            before = block not in self.loop.blocks
            return before and dominance(self.function).dominates(block, self.loop.header)
        if block != self.label:
            return dominance(self.function).dominates(block, self.label)
        later = self.function.blocks[block].ops[self.start :]
        return all(value not in op.results for op in later)

    @property
    def is_repeated(self) -> bool:
        """Whether the region is in a loop, so that it may run more than once."""
        depth = loops(self.function).depth(self.label)
        return depth > (self.loop is not None)


@attrs.frozen
class StagingCandidate:
    """A footprint that is worth staging. `bytes` is the size of its shared buffer."""

    region: HaloRegion
    footprint: Footprint
    base: Value
    conditions: Sequence[Condition]
    padded_width: int
    bytes: int

    def remark(self) -> Diagnostic:
        """The remark on the staging, at the location of the first load."""
        size, op = (
            f"{self.footprint.height} x {self.footprint.width}",
            self.footprint.windows[0].read.op,
        )
        message = f"load: {size} elements are staged in shared memory once, and windows of them"
        return remark(
            "TIR0758", f"{message} read {self.footprint.elements_read} there", op.location
        )

    def apply(self) -> Function:
        """The function with the copy, and with its loads replaced by windows."""
        function, region = self.region.function, self.region
        staging = HaloStaging(
            function,
            self.footprint,
            self.base,
            self.conditions,
            self.padded_width,
            region.is_repeated,
        )
        copy = staging.emit()
        reads: dict[Op, list[Op]] = {
            w.read.op: window_ops(function, w, staging.buffer, self.conditions, staging.fill())
            for w in self.footprint.windows
        }
        if region.is_repeated:
            function = _at_entry(function, staging.allocation)
        else:
            copy = [staging.allocation, *copy]
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
    """`function` with `op` at the start of its entry block."""
    block = function.entry
    first = attrs.evolve(block, ops=(op, *block.ops))
    return function.with_blocks({**function.blocks, block.label: first})


def _before(function: Function, loop: Loop, ops: Sequence[Op]) -> Function:
    """`function` with `ops` in the preheader of `loop`."""
    label = loop.preheader
    if label is None:
        function, label = add_preheader(function, loop.header, loop.blocks)
    block = function.blocks[label]
    moved = attrs.evolve(block, ops=(*block.ops[:-1], *ops, block.ops[-1]))
    return function.with_blocks({**function.blocks, label: moved})


def _first_candidate(function: Function, shared: int, gain: int) -> StagingCandidate | None:
    """The first footprint that is worth staging: outer loops first, then inner ones, then
    blocks."""
    loads = {label: list(_stageable_loads(function, label)) for label in function.blocks}
    for region, inside in _regions(function, loads):
        for group in _groups(region, inside):
            candidate = _candidate(region, group, shared, gain)
            if candidate is not None:
                return candidate
    return None


def _stageable_loads(function: Function, label: str) -> Iterator[Load]:
    """Loads of numeric tiles that are neither predicated nor volatile."""
    for op in function.blocks[label].ops:
        if isinstance(op, Load) and isinstance(op.pointer.type, Tile):
            kind = element_of(op.results[0].type)
            numeric = isinstance(kind, Scalar) and kind.bits >= 8
            if numeric and op.predicate is None and not op.volatile:
                yield op


def _regions(
    function: Function, loads: dict[str, list[Load]]
) -> Iterator[tuple[HaloRegion, list[tuple[str, Load]]]]:
    if not any(loads.values()):
        return
    for header, loop in loops(function).by_header.items():
        inside = [(label, op) for label in loop.order for op in loads[label]]
        counted = inside and trip_count(function, loop)
        if counted and counted.count:
            yield HaloRegion(function, header, loop), inside
    for label, in_block in loads.items():
        if len(in_block) > 1 or any(map(_may_overlap, in_block)):
            yield HaloRegion(function, label), [(label, op) for op in in_block]


def _may_overlap(op: Load) -> bool:
    """Whether several elements of the tile may be one element of the buffer, as in a tile of
    windows per output."""
    return sum(extent > 1 for extent in shape_of(op.pointer.type)) > 1


def _start_at_first_load(region: HaloRegion, group: Sequence[WindowLoad]) -> HaloRegion:
    """`region`, if it is part of a block, from the first load of `group` on."""
    if region.loop is not None:
        return region
    ops = region.function.blocks[region.label].ops
    return attrs.evolve(region, start=ops.index(group[0].op))


def _groups(region: HaloRegion, inside: Sequence[tuple[str, Load]]) -> Iterator[list[WindowLoad]]:
    """Groups of loads with one base pointer: all of them, then each alone."""
    forms, updates = affine(region.function), _updates(region.function)
    by_base: dict[Value, list[WindowLoad]] = {}
    for label, op in inside:
        form = forms.of(op.pointer)
        if form is None or form.base is None or region.varies(form.base):
            continue
        read = _window_load(region, label, op, forms, updates)
        if read is not None:
            by_base.setdefault(form.base, []).append(read)
    for group in by_base.values():
        yield group
        if len(group) > 1:
            yield from ([read] for read in group)


@memoize
def _updates(function: Function) -> frozenset[Op]:
    """Updates of induction variables that do not wrap."""
    exact = ranges(function).exact
    updates: list[Op] = []
    for loop in loops(function).by_header.values():
        counted = trip_count(function, loop)
        for variable in induction_variables(function, loop):
            op = variable.update
            is_nsw = "nsw" in getattr(getattr(op, "overflow", None), "value", "")
            is_bounded = (
                counted is not None and counted.count is not None and counted.of == variable
            )
            if is_nsw or op in exact or is_bounded:
                updates.append(op)
    return frozenset(updates)


def _window_load(
    region: HaloRegion, label: str, op: Load, forms: AffineForms, updates: frozenset[Op]
) -> WindowLoad | None:
    """A load as a window; None where its address is not affine in lanes and iterations, or where
    its iterations are not constants."""
    space = (
        ConstantLoopNest()
        if region.loop is None
        else iteration_space(region.function, region.loop, label)
    )
    form = forms.of(op.pointer)
    if space is None or form is None or form.assuming - updates:
        return None
    parts = split_form(form.offset, region.varies)
    if parts is None:
        return None
    variables: list[Symbol] = [s for s in parts.steps if not isinstance(s, Lane)]
    values = values_per_iteration(region.function, space, variables)
    if values is None:
        return None
    values_of = {s: {at[s] for at in values} for s in variables}
    fixed: dict[Symbol, int] = {s: min(sizes) for s, sizes in values_of.items() if len(sizes) == 1}
    return WindowLoad(op, fold_fixed(parts, fixed), values, fixed)


def _candidate(
    region: HaloRegion, group: Sequence[WindowLoad], shared: int, gain: int
) -> StagingCandidate | None:
    """The footprint of `group`, if staging it is allowed and worth it, else None."""
    function, first = region.function, group[0].op
    if _are_wide(function, group):
        return None
    footprint = footprint_of(group, lambda footprint: _saves_loads(footprint, gain))
    if footprint is None:
        return None
    element = cast(Element, element_of(first.results[0].type))
    sizes = (footprint.width, padded_width(footprint, element))
    fitting = [w for w in sizes if _bytes(element, footprint.height, w) <= shared]
    if not fitting:
        return None
    region = _start_at_first_load(region, group)
    if not _is_unchanged(region, group):
        return None
    forms, updates = affine(function), _updates(function)
    varies: Varies = region.varies
    conditions = common_conditions(footprint, forms, ranges(function), varies, updates)
    base = forms.of(first.pointer)
    if (
        conditions is None
        or base is None
        or base.base is None
        or not region.is_available(base.base)
    ):
        return None
    if not all(
        writable(function, s, region.is_available) for s in _needed_symbols(footprint, conditions)
    ):
        return None
    size = _bytes(element, footprint.height, fitting[-1])
    return StagingCandidate(region, footprint, base.base, conditions, fitting[-1], size)


def _are_wide(function: Function, group: Sequence[WindowLoad]) -> bool:
    """Whether threads load all windows many bytes at a time, as with windows that differ by whole
    rows. The L1 cache then contains the elements that are loaded repeatedly; from shared memory,
    threads would read them one by one."""
    widths = AccessWidths(function)
    sizes = (cast(Element, element_of(w.op.results[0].type)).bytes for w in group)
    return all(
        widths.width(w.op, widths.nearest(w.op.pointer)) * size >= _WIDE
        for w, size in zip(group, sizes, strict=True)
    )


def _saves_loads(footprint: Footprint, gain: int) -> bool:
    """Whether each element is read `gain` times or more on average."""
    covered = footprint.height * footprint.width
    return footprint.elements_read > covered and footprint.elements_read >= gain * covered


def _bytes(element: Element, height: int, width: int) -> int:
    return SharedTile(element, (height, width), 1, 0).bytes


def _is_unchanged(region: HaloRegion, group: Sequence[WindowLoad]) -> bool:
    """Whether no op of the region may write the memory that `group` reads."""
    facts, function = aliases(region.function), region.function
    ops: Sequence[Op]
    if region.loop is not None:
        ops = [op for label in region.loop.order for op in function.blocks[label].ops]
    else:
        block = function.blocks[region.label].ops
        ops = block[region.start : max(block.index(read.op) for read in group) + 1]
    return not any(facts.may_change(op, read.op) for op in ops for read in group)


def _needed_symbols(footprint: Footprint, conditions: Sequence[Condition]) -> set[Symbol]:
    """The symbols that the copy is computed from."""
    forms = [footprint.origin, footprint.rows, footprint.columns]
    for condition in conditions:
        forms += (
            [condition.rest]
            if isinstance(condition, IndexBound)
            else [condition.rows, condition.columns, condition.rest]
        )
    return symbols(forms)
