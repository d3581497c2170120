"""Hazards: the bytes that an op shares with earlier accesses of other threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.loops import loops
from tileir.analysis.ranges import ranges
from tileir.analysis.shared_buffers import WAIT, WGMMA_WAIT, alive
from tileir.analysis.underlying_pointers import Roots, possible_pointers, underlying_pointers
from tileir.analysis.uses import definitions
from tileir.backend.shared_memory.replicated_loads import loads_by_first_owner
from tileir.backend.shared_memory.requirements import SharedMemoryPlan, is_warp_local
from tileir.backend.shared_memory.thread_conflicts import (
    AccessingThreads,
    Base,
    GlobalAccess,
    SyncScope,
    joint_length,
    only_thread_zero,
    required_sync,
    spans_disjoint,
)
from tileir.effects import ACCESSES, Effects
from tileir.field import Successor
from tileir.ir import Function
from tileir.op import Op
from tileir.types import AddressSpace, Pointer, Tile, element_of, shape_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.analysis.affine_mod32 import AddressForms
    from tileir.backend.shared_memory.runtime_steps import LoopProgress, RuntimeStep

SharedRange: TypeAlias = tuple[int, int, Op]
"""A range of shared bytes, the second bound exclusive, and the op it is allocated for."""

_MOST_KEPT = 64
"""The number of accesses through one parameter that are tracked separately."""


ROLE = "gpu.role"


@attrs.frozen
class PendingAccess:
    """An access since the last barrier. `warp_synchronized`: its warp has synchronized since.
    `step`: it was made one or more iterations ago, and each iteration moves its address by `step`
    bytes, which may be known at run time only; None where the address moved otherwise."""

    access: GlobalAccess
    warp_synchronized: bool = False
    step: int | RuntimeStep | None = 0


@attrs.define(eq=False, repr=False)
class HazardState:
    """The accesses since the last barrier of the block. `fenced`: threads passed a fence.
    `acquired`: ops that acquired memory, by one thread or several."""

    shared: set[SharedRange] = attrs.field(factory=set)
    near: set[Op] = attrs.field(factory=set)
    """Ops in whose ranges lanes may still read what their own warp wrote."""
    touched: dict[Base, set[PendingAccess]] = attrs.field(factory=dict)
    fenced: bool = False
    acquired: set[Op] = attrs.field(factory=set)

    def copy(self) -> HazardState:
        """A copy of this state that can be changed."""
        touched = {base: set(accesses) for base, accesses in self.touched.items()}
        return HazardState(
            set(self.shared), set(self.near), touched, self.fenced, set(self.acquired)
        )

    def has_global_access(self, but_by_thread_0: bool) -> bool:
        """Whether a thread accessed global memory, other than thread 0 where that is left out."""
        entries = (e for entries_of_base in self.touched.values() for e in entries_of_base)
        return any(not (but_by_thread_0 and only_thread_zero(e.access)) for e in entries)

    def join(self, other: HazardState) -> bool:
        """Add the accesses of another path. Returns whether any is new."""
        before = self._size()
        self.fenced |= other.fenced
        self.acquired |= other.acquired
        self.shared |= other.shared
        self.near |= other.near
        for base, entries in other.touched.items():
            self.touched.setdefault(base, set()).update(entries)
        return self._size() > before

    def _size(self) -> int:
        """The number of recorded accesses; it only grows under joins."""
        return (
            len(self.shared)
            + len(self.near)
            + self.fenced
            + len(self.acquired)
            + sum(map(len, self.touched.values()))
        )

    def wait(self, scope: SyncScope) -> None:
        """Record a barrier."""
        if scope is not SyncScope.NONE:
            self.near.clear()
        if scope is SyncScope.BLOCK:
            self.shared.clear()
            self.touched.clear()
            self.fenced = False
            self.acquired.clear()
        elif scope is SyncScope.WARP:
            for base, entries in self.touched.items():
                self.touched[base] = {attrs.evolve(e, warp_synchronized=True) for e in entries}


@attrs.frozen(eq=False, repr=False)
class MemoryUses:
    """The memory accesses of a function: `accesses` to global memory, `shared_ranges` in shared
    memory. `relevant` holds the ops of every block that access memory or synchronize."""

    accesses: Mapping[Op, tuple[GlobalAccess, ...]]
    shared_ranges: Mapping[Op, SharedRange]
    pointers: Mapping[GlobalAccess, Operand]
    relevant: Mapping[str, list[Op]]
    landing: Mapping[Op, tuple[SharedRange, ...]]
    """For each op that waits for copies, their destinations; for each op that waits for wgmma,
    their operands. They count as accessed at the wait."""


def uses_of(function: Function, memory: SharedMemoryPlan) -> MemoryUses:
    """The memory accesses of `function`, with shared memory allocated by `memory`. Accesses through
    parameters that are never written are omitted, unless an op releases."""
    pointers: dict[GlobalAccess, Operand] = {}
    touching = [op for op in function.ops if op.effects & ACCESSES]
    every = {
        op: op_accesses for op in touching if (op_accesses := _accesses(function, op, pointers))
    }
    written = {a.roots for op_accesses in every.values() for a in op_accesses if a.writes}
    releasing = any(map(releases, function.ops))
    accesses = {
        op: op_accesses
        for op, op_accesses in every.items()
        if releasing or any(_may_alias(a.roots, roots) for a in op_accesses for roots in written)
    }
    if not written and not any(releases(op) and op.mnemonic != ROLE for op in function.ops):
        accesses = {}  # roles run at the same time: a barrier between two would never be passed
    shared_ranges = {
        op: byte_range for op in function.ops if (byte_range := _byte_range(function, op, memory))
    }
    landing = _landing(function, memory)
    using = accesses.keys() | shared_ranges.keys() | landing.keys()
    relevant = {
        label: [op for op in function.blocks[label].ops
                if op in using or op.waits_for_threads or releases(op)]
        for label in cfg(function).order
    }  # fmt: skip
    return MemoryUses(accesses, shared_ranges, pointers, relevant, landing)


@attrs.define(eq=False, repr=False)
class Hazards:
    """Hazard checks of a function. `warps`: number of warps of the block, None where it is
    unknown. `assumed`: steps of loops that are assumed to be at least as long as the number of
    bytes that is noted here; None if nothing is assumed."""

    function: Function
    uses: MemoryUses
    warps: int | None
    assumed: dict[RuntimeStep, int] | None = None
    has_runtime_steps: bool = False
    """Whether an address moves by a step that is known at run time only."""
    _labels: frozenset[str] | None = None
    _forms: AddressForms | None = None
    _progress: LoopProgress | None = None
    _scopes: dict[tuple[GlobalAccess, GlobalAccess, int | RuntimeStep], SyncScope] = attrs.field(
        factory=dict
    )
    _whole: dict[Base, GlobalAccess] = attrs.field(factory=dict)
    _placed: dict[GlobalAccess, GlobalAccess] = attrs.field(factory=dict)

    def enter(self, since: HazardState, source: str, label: str) -> HazardState:
        """Transfer the state `since` at the end of `source` to the start of block `label`, which
        redefines values."""
        entered = HazardState(
            set(since.shared), set(since.near), {}, since.fenced, set(since.acquired)
        )
        if label not in self._changing:
            entered.touched.update({base: set(each) for base, each in since.touched.items()})
            return entered
        for base, entries in since.touched.items():
            entered.touched[base] = {self._in_next_iteration(e, source, label) for e in entries}
        return entered

    def before(self, op: Op, since: HazardState) -> SyncScope:
        """The threads that must synchronize before `op`."""
        byte_range = self.uses.shared_ranges.get(op)
        if byte_range is not None and any(
            _overlap(op, byte_range, other) for other in since.shared
        ):
            return SyncScope.BLOCK
        mine = self.uses.accesses.get(op, ())
        if since.fenced and (mine or releases(op)):
            return SyncScope.BLOCK
        by_thread_0 = bool(mine) and all(map(only_thread_zero, mine))
        if releases(op) and since.has_global_access(but_by_thread_0=by_thread_0):
            return SyncScope.BLOCK
        if (mine or releases(op)) and self._has_acquire(since, but_by_thread_0=by_thread_0):
            return SyncScope.BLOCK
        is_near = any(_is_private(op, other) for other in since.near)
        scope = SyncScope.WARP if is_near else SyncScope.NONE
        for access in mine:
            for entry in _near(access, since):
                if access.writes or entry.access.writes:
                    scope = max(scope, self._between(entry, access))
        return scope

    def do(self, op: Op, since: HazardState) -> None:
        """Record the accesses of `op`. An op with a range of its own synchronizes within itself."""
        if op.waits_for_threads:
            since.wait(SyncScope.WARP if getattr(op, "warp", False) else SyncScope.BLOCK)
            return
        since.fenced |= op.mnemonic == "fence"
        since.shared.update(self.uses.landing.get(op, ()))
        if op.allocates_shared:
            return
        byte_range = self.uses.shared_ranges.get(op)
        own = byte_range is not None and byte_range[2] is op
        if own:
            near = is_warp_local(op)
            since.wait(SyncScope.WARP if near else SyncScope.BLOCK)
            since.near |= {op} if near else set()
        if byte_range is not None:
            since.shared.add(byte_range)
        if own:
            return
        for access in self.uses.accesses.get(op, ()):
            self._add(access, since)
        if acquires(op) and op in self.uses.accesses:
            since.acquired.add(op)

    def _has_acquire(self, since: HazardState, *, but_by_thread_0: bool) -> bool:
        """Whether a thread has acquired memory since the last barrier; `but_by_thread_0` leaves
        thread 0 out."""
        accesses = self.uses.accesses
        return any(
            not (but_by_thread_0 and all(map(only_thread_zero, accesses[op])))
            for op in since.acquired
        )

    def _add(self, access: GlobalAccess, since: HazardState) -> None:
        entries = since.touched.setdefault(access.base, set())
        if len(entries) < _MOST_KEPT:
            entries.add(PendingAccess(access))
            return
        roots = None if access.base is None else access.roots
        access_of_base = self._whole.setdefault(
            access.base,
            attrs.evolve(access, roots=roots, writes=True, threads=AccessingThreads.ANY),
        )
        since.touched[access.base] = {PendingAccess(access_of_base, step=None)}

    def _between(self, entry: PendingAccess, access: GlobalAccess) -> SyncScope:
        """The threads that must synchronize between the two and have not yet done so."""
        if only_thread_zero(entry.access) and only_thread_zero(access):
            return SyncScope.NONE
        if entry.step is None:
            return SyncScope.NONE if self._are_disjoint(entry.access, access) else SyncScope.BLOCK
        key = (entry.access, access, entry.step)
        scope = self._scopes.get(key)
        if scope is None:
            scope = self._scopes[key] = self._scope(entry, access)
        return SyncScope.NONE if entry.warp_synchronized and scope is SyncScope.WARP else scope

    def _scope(self, entry: PendingAccess, access: GlobalAccess) -> SyncScope:
        if self._are_disjoint(entry.access, access):
            return SyncScope.NONE
        first, second, step = self._at(entry.access), self._at(access), entry.step or 0
        if not isinstance(step, int):
            return self._scope_if_far(first, second, step)
        if not step and self._terms_disjoint(first, second):
            return SyncScope.NONE
        scope = required_sync(first, second, self.warps, step)
        if scope is SyncScope.BLOCK and not step and access in self._in_loops:
            scope = self._scope_if_displaced(first, second)
        if scope is SyncScope.BLOCK and not step and self.assumed is not None:
            scope = self._scope_from_start(first, second)
        return SyncScope.BLOCK if scope is SyncScope.WARP and self.warps is None else scope

    def _scope_if_far(self, a: GlobalAccess, b: GlobalAccess, step: RuntimeStep) -> SyncScope:
        """The threads that must synchronize between `a`, an iteration or more ago, and `b`: none
        if it is assumed that a step is as long as what both access."""
        if self.assumed is None or a.form is None or b.form is None or a.form.terms != b.form.terms:
            return SyncScope.BLOCK
        length = joint_length(a, b)
        if length is None:
            return SyncScope.BLOCK
        self.assumed[step] = max(length, self.assumed.get(step, 0))
        return SyncScope.NONE

    def _scope_if_displaced(self, a: GlobalAccess, b: GlobalAccess) -> SyncScope:
        """The same for `a` and `b` in one iteration of a loop, at a distance that is known at run
        time. Outside of loops, a barrier costs no more than its condition."""
        if a.form is None or b.form is None:
            return SyncScope.BLOCK
        distance = self._loops.between(a.form, b.form)
        if distance is None:
            return SyncScope.BLOCK
        self.has_runtime_steps = True
        same = attrs.evolve(a, form=attrs.evolve(a.form, terms=b.form.terms))
        return self._scope_if_far(same, b, distance)

    def _scope_from_start(self, a: GlobalAccess, b: GlobalAccess) -> SyncScope:
        """The same for `a` before a loop and `b` in it, at whole numbers of steps from `a`."""
        if a.form is None or b.form is None:
            return SyncScope.BLOCK
        between = self._loops.distance(a.form, b.form)
        multiple = None if between is None else between[1].multiple_in(between[0])
        if between is None or multiple is None:
            return SyncScope.BLOCK
        steps, rest = multiple
        moved = attrs.evolve(b, form=attrs.evolve(b.form, start=a.form.start + rest))
        same = attrs.evolve(a, form=attrs.evolve(a.form, terms=b.form.terms))
        far = self._scope_if_far(same, moved, between[1])
        return far if steps > 0 else max(far, required_sync(same, moved, self.warps))

    def _at(self, access: GlobalAccess) -> GlobalAccess:
        """The access with its address."""
        placed = self._placed.get(access)
        if placed is None:
            form = self._addresses.of(self.uses.pointers[access])
            extents = self._extents(access) if form is not None else None
            placed = self._placed[access] = attrs.evolve(access, form=form, extents=extents)
        return placed

    def _extents(self, access: GlobalAccess) -> tuple[int, ...] | None:
        """The elements of each dimension that the mask of `access` lets it access at most."""
        if access.mask is None:
            return None
        from tileir.backend.shared_memory.mask_extents import extents  # few kernels need it

        return extents(access.mask, shape_of(access.type), self._addresses, self.function)

    @property
    def _addresses(self) -> AddressForms:
        if self._forms is None:
            from tileir.analysis.affine_mod32 import addresses

            self._forms = addresses(self._with_constant_strides())
        return self._forms

    def _with_constant_strides(self) -> Function:
        """The function whose address forms compare rows, where a loop may access what it wrote."""
        function, accesses = self.function, self.uses.accesses
        if not self._in_loops:
            return function
        from tileir.backend.shared_memory.separate_rows import with_constant_strides

        by_base: dict[Value | None, list[tuple[Op, Operand]]] = {}
        for op, each in accesses.items():
            for access in each:
                by_base.setdefault(access.base, []).append((op, self.uses.pointers[access]))
        return with_constant_strides(function, by_base)

    @cached_property
    def _in_loops(self) -> frozenset[GlobalAccess]:
        """The accesses in loops."""
        function, accesses = self.function, self.uses.accesses
        inside = {label for loop in loops(function).by_header.values() for label in loop.order}
        ops = (op for label in inside for op in function.blocks[label].ops)
        return frozenset(access for op in ops for access in accesses.get(op, ()))

    @property
    def _loops(self) -> LoopProgress:
        if self._progress is None:
            from tileir.backend.shared_memory.runtime_steps import LoopProgress

            self._progress = LoopProgress(self.function, self._addresses)
        return self._progress

    @property
    def _changing(self) -> frozenset[str]:
        """The labels of blocks that change the value of a term of an address."""
        if self._labels is None:
            self._labels = frozenset().union(*self._addresses.changes.values())
        return self._labels

    def _in_next_iteration(self, entry: PendingAccess, source: str, label: str) -> PendingAccess:
        """The access as seen from the iteration that begins."""
        form = None if entry.step is None else self._at(entry.access).form
        if form is None or self._addresses.stays(form, label):
            return entry
        edges = self.function.blocks[source].successors
        (edge,) = {e.label: e for e in edges if e.label == label}.values()
        step: int | RuntimeStep | None = self._step(form.terms, edge)
        if step is None:
            step = self._loops.step(form, source, label)
            self.has_runtime_steps |= step is not None
        if step is not None and entry.step not in (0, step):
            step = None
        return attrs.evolve(entry, step=step)

    def _step(self, terms: frozenset[tuple[Value, int]], edge: Successor) -> int | None:
        """The growth of `terms` along `edge`; None where it is unknown."""
        parameters = self.function.blocks[edge.label].parameters
        incoming = dict(zip(parameters, edge.arguments, strict=True))
        step = 0
        for value, coefficient in terms:
            if edge.label not in self._addresses.changes[value]:
                continue
            form = self._addresses.of(incoming[value]) if value in incoming else None
            if form is None or form.terms != frozenset({(value, 1)}):
                return None
            step += form.start * coefficient
        return step or None

    def _are_disjoint(self, a: GlobalAccess, b: GlobalAccess) -> bool:
        """Whether integer ranges, or remainders of addresses, prove two accesses disjoint."""
        if AccessingThreads.ANY in (a.threads, b.threads):
            return False
        from tileir.backend.shared_memory.byte_ranges import byte_ranges, ranges_disjoint
        from tileir.backend.shared_memory.residues import residues_disjoint

        near = byte_ranges(self.function)
        places = self.uses.pointers[a], self.uses.pointers[b]
        first, second = (near.get(p) if isinstance(p, Value) else None for p in places)
        if ranges_disjoint(first, second):
            return True
        return residues_disjoint(self.function, places, (a.size, b.size))

    def _terms_disjoint(self, a: GlobalAccess, b: GlobalAccess) -> bool:
        """Whether the terms that only one of the addresses contains prove them disjoint: for
        instance chunks of a tile before a loop over its other chunks."""
        if a.form is None or b.form is None:
            return False
        bounds, low, high = ranges(self.function), 0, 0
        for terms, sign in ((b.form.terms - a.form.terms, 1), (a.form.terms - b.form.terms, -1)):
            for value, coefficient in terms:
                if isinstance(element_of(value.type), Pointer):
                    return False
                ends = [sign * coefficient * bound for bound in bounds.of(value)]
                low, high = low + min(ends), high + max(ends)
        return spans_disjoint(a, b, (low, high))


def releases(op: Any) -> bool:
    """Whether an op that synchronizes also orders accesses of other ops."""
    if not op.effects & Effects.SYNC or op.waits_for_threads or op.orders_async:
        return False
    return getattr(getattr(op, "sem", None), "value", "") != "relaxed"


def acquires(op: Any) -> bool:
    """Whether accesses after `op` are ordered after releases of others."""
    sem = getattr(getattr(op, "sem", None), "value", "")
    return sem in ("acquire", "acq_rel") and not (op.waits_for_threads or op.orders_async)


def _near(access: GlobalAccess, since: HazardState) -> Iterator[PendingAccess]:
    """Yield accesses through the base of `access`, or through a base that may alias it."""
    for other, entries in since.touched.items():
        if access.base is None or other is None:
            yield from (e for e in entries if _may_alias(access.roots, e.access.roots))
        elif other is access.base:
            yield from entries


def _may_alias(a: Roots, b: Roots) -> bool:
    """Whether a pointer into one of `a` and a pointer into one of `b` may point to the same
    memory."""
    return a is None or b is None or not a.isdisjoint(b)


def _overlap(op: Op, mine: SharedRange, other: SharedRange) -> bool:
    """Whether `op` must wait for the users of `other`. Accesses of one buffer come with the
    barriers they need, except for the previous owner of its bytes, which may be the buffer itself
    in an earlier iteration. The bytes of an op that stays within a warp are private to the warp, in
    all such ops alike."""
    if mine[2] is other[2] and mine[2] is not op:
        return False
    if mine[2] is op and mine[:2] == other[:2] and _is_private(op, other[2]):
        return False
    return mine[0] < other[1] and other[0] < mine[1]


def _is_private(op: Any, other: Any) -> bool:
    """Whether `op` stays within a warp, and `other`, in the same range, gives each warp the same
    bytes."""
    if not is_warp_local(op) or other.mnemonic != op.mnemonic:
        return False
    if other is op or op.mnemonic == "gather":  # the range has the source alone
        return other.source.type is op.source.type and is_warp_local(other)
    return other.source.type is op.source.type and other.layout == op.layout


def _threads(function: Function, op: Op) -> AccessingThreads:
    """The threads, among the owners of an element, that access memory for it."""
    if op.mnemonic == "load" and op not in loads_by_first_owner(function):
        return AccessingThreads.EVERY
    is_simple = op.is_atomic or op.mnemonic in ("load", "store")
    return AccessingThreads.FIRST if is_simple else AccessingThreads.ANY


def _accesses(
    function: Function, op: Op, pointers: dict[GlobalAccess, Operand]
) -> tuple[GlobalAccess, ...]:
    accesses: list[GlobalAccess] = []
    writes = bool(op.effects & Effects.WRITE) and not any(map(_is_shared, op.inputs))
    for operand in op.inputs:
        if _is_global(operand):
            base, roots = (
                (underlying_pointers(function).get(operand), possible_pointers(function)[operand])
                if isinstance(operand, Value)
                else (None, None)
            )
            mask = getattr(op, "mask", None) if isinstance(operand.type, Tile) else None
            access = GlobalAccess(
                base, roots, operand.type, None, writes, _threads(function, op), mask
            )
            pointers[access] = operand
            accesses.append(access)
    return tuple(accesses)


def _byte_range(function: Function, op: Op, memory: SharedMemoryPlan) -> SharedRange | None:
    """The bytes of shared memory that are allocated for `op`, or for the buffer that it
    accesses."""
    owner = op if op in memory.offsets else _buffer(function, op)
    if owner is None or owner not in memory.offsets:
        return None
    offset = memory.offsets[owner]
    return offset, offset + memory.sizes[owner], owner


def _landing(function: Function, memory: SharedMemoryPlan) -> dict[Op, tuple[SharedRange, ...]]:
    defining_ops, liveness = definitions(function), alive(function)
    landing: dict[Op, tuple[SharedRange, ...]] = {}
    for op, under_way in liveness.copying.items():
        buffers = liveness.multiplying[op] if op.mnemonic == WGMMA_WAIT else under_way
        if op.mnemonic in (WAIT, WGMMA_WAIT) and buffers:
            owners = [x for v in buffers if (x := defining_ops.get(v)) in memory.offsets and x]
            ends = [memory.offsets[x] + memory.sizes[x] for x in owners]
            landing[op] = tuple(
                (memory.offsets[x], end, x) for x, end in zip(owners, ends, strict=True)
            )
    return landing


def _buffer(function: Function, op: Op) -> Op | None:
    shared = [v for v in op.inputs if isinstance(v, Value) and _is_shared(v)]
    return definitions(function).get(shared[0]) if shared else None


def _is_global(operand: Operand) -> bool:
    """Whether `operand` points to memory that hazard detection covers."""
    element = element_of(operand.type)
    return isinstance(element, Pointer) and element.space is not AddressSpace.SHARED


def _is_shared(operand: Operand) -> bool:
    element = element_of(operand.type)
    return isinstance(element, Pointer) and element.space is AddressSpace.SHARED
