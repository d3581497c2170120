"""What an op may not do before threads have met: the bytes it shares with what came before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.ranges import ranges
from tileir.analysis.shared_buffers import WAIT, alive
from tileir.analysis.underlying_pointers import underlying_pointers
from tileir.analysis.uses import definitions
from tileir.backend.codegen.replicated_loads import loads_by_first_owner
from tileir.backend.shared_memory.requirements import BUFFERS, SharedMemoryPlan, is_warp_local
from tileir.backend.shared_memory.thread_conflicts import (
    AccessingThreads,
    Base,
    GlobalAccess,
    SyncScope,
    only_thread_zero,
    required_sync,
    spans_disjoint,
)
from tileir.effects import Effects
from tileir.field import Successor
from tileir.ir import Function
from tileir.op import Op
from tileir.types import AddressSpace, Pointer, element_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.analysis.affine_mod32 import AddressForms

Room: TypeAlias = tuple[int, int, Op]
"""Shared bytes from the first to the one behind the last, and the op they were allotted to."""

_MOST_KEPT = 64
"""Accesses through one parameter that are told apart."""

_HOLDERS = {
    "load": AccessingThreads.EVERY,
    **dict.fromkeys(
        ("store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store"), AccessingThreads.FIRST
    ),
}
"""Which threads make the access of an op."""

_TOUCHES = Effects.READ | Effects.WRITE

_MEETING = frozenset(
    {"gpu.barrier", "barrier", "gpu.mbarrier_alloc", "gpu.join", "gpu.cluster_mbarrier_arrive"}
)
"""Ops whose rules wait for all threads themselves, before they do anything."""


_TRUSTED = frozenset(
    {"gpu.mbarrier_expect", "gpu.mbarrier_arrive", "gpu.mbarrier_wait", "gpu.async_fence",
     "gpu.cluster_arrive", "gpu.cluster_wait", "gpu.cluster_mbarrier_wait"}
)  # fmt: skip
"""Ops that order what copies and products beside the threads do, and blocks of a cluster: as the
program has them."""


@attrs.frozen
class PendingAccess:
    """An access since the last barrier. `met`: its warp has met. `step`: it was made one or more
    rounds ago, and every round moves its address by so many bytes; None where it moved
    otherwise."""

    access: GlobalAccess
    met: bool = False
    step: int | None = 0


@attrs.define
class BarrierState:
    """What has happened since the last barrier of the block. `fenced`: threads passed a fence.
    `acquired`: ops that acquired something, by one thread or several."""

    shared: set[Room] = attrs.field(factory=set)
    near: set[Op] = attrs.field(factory=set)
    """Ops in whose rooms lanes may still read what their own warp wrote."""
    touched: dict[Base, set[PendingAccess]] = attrs.field(factory=dict)
    fenced: bool = False
    acquired: set[Op] = attrs.field(factory=set)

    def copy(self) -> BarrierState:
        """The same, to be changed."""
        touched = {base: set(held) for base, held in self.touched.items()}
        return BarrierState(
            set(self.shared), set(self.near), touched, self.fenced, set(self.acquired)
        )

    def accessed(self, but_by_thread_0: bool) -> bool:
        """Whether a thread accessed global memory, other than thread 0 where that is left out."""
        entries = (e for held in self.touched.values() for e in held)
        return any(not (but_by_thread_0 and only_thread_zero(e.access)) for e in entries)

    def join(self, other: BarrierState) -> bool:
        """Add what happened on another path; whether that is anything new."""
        before = self._size()
        self.fenced |= other.fenced
        self.acquired |= other.acquired
        self.shared |= other.shared
        self.near |= other.near
        for base, entries in other.touched.items():
            self.touched.setdefault(base, set()).update(entries)
        return self._size() > before

    def _size(self) -> int:
        """How much has happened: what is joined only grows."""
        return (
            len(self.shared)
            + len(self.near)
            + self.fenced
            + len(self.acquired)
            + sum(map(len, self.touched.values()))
        )

    def wait(self, scope: SyncScope) -> None:
        """A barrier."""
        if scope is not SyncScope.NONE:
            self.near.clear()
        if scope is SyncScope.BLOCK:
            self.shared.clear()
            self.touched.clear()
            self.fenced = False
            self.acquired.clear()
        elif scope is SyncScope.WARP:
            for base, entries in self.touched.items():
                self.touched[base] = {attrs.evolve(e, met=True) for e in entries}


@attrs.frozen
class MemoryUses:
    """What the ops of a function do to memory: global memory by `accesses`, shared memory in
    `rooms`; `relevant` are the ops of every block that count."""

    accesses: Mapping[Op, tuple[GlobalAccess, ...]]
    rooms: Mapping[Op, Room]
    pointers: Mapping[GlobalAccess, Operand]
    relevant: Mapping[str, list[Op]]
    landing: Mapping[Op, tuple[Room, ...]]
    """By op that waits for copies: what they land in, as if it were written there and then."""


def uses_of(function: Function, memory: SharedMemoryPlan) -> MemoryUses:
    """The uses of memory by `function`, whose ops have shared memory as `memory` says. Accesses
    through parameters that nobody writes through are left out, unless something releases."""
    pointers: dict[GlobalAccess, Operand] = {}
    touching = [op for op in function.ops if op.effects & _TOUCHES]
    every = {op: made for op in touching if (made := _accesses(function, op, pointers))}
    written = {a.base for made in every.values() for a in made if a.writes}
    releasing = any(map(releases, function.ops))
    accesses = {
        op: made
        for op, made in every.items()
        if releasing or None in written or any(a.base in written or a.base is None for a in made)
    }
    if not written and not releasing:
        accesses = {}
    rooms = {op: room for op in function.ops if (room := _room(function, op, memory))}
    landing = _landing(function, memory)
    using = accesses.keys() | rooms.keys() | landing.keys()
    relevant = {
        label: [op for op in function.blocks[label].ops
                if op in using or op.mnemonic in _MEETING or releases(op)]
        for label in cfg(function).order
    }  # fmt: skip
    return MemoryUses(accesses, rooms, pointers, relevant, landing)


@attrs.define
class Hazards:
    """Whether ops may do what they do. `warps`: of the block, None where it is not known."""

    function: Function
    uses: MemoryUses
    warps: int | None
    _known: dict[tuple[GlobalAccess, GlobalAccess, int], SyncScope] = attrs.field(factory=dict)
    _whole: dict[Base, GlobalAccess] = attrs.field(factory=dict)
    _placed: dict[GlobalAccess, GlobalAccess] = attrs.field(factory=dict)

    def enter(self, since: BarrierState, source: str, label: str) -> BarrierState:
        """What `since`, at the end of `source`, is when block `label` begins, which gives values
        anew."""
        made = BarrierState(
            set(since.shared), set(since.near), {}, since.fenced, set(since.acquired)
        )
        for base, entries in since.touched.items():
            made.touched[base] = {self._entered(e, source, label) for e in entries}
        return made

    def before(self, op: Op, since: BarrierState) -> SyncScope:
        """Who must wait before `op`."""
        room = self.uses.rooms.get(op)
        if room is not None and any(_overlap(op, room, other) for other in since.shared):
            return SyncScope.BLOCK
        mine = self.uses.accesses.get(op, ())
        if since.fenced and (mine or releases(op)):
            return SyncScope.BLOCK
        by_thread_0 = bool(mine) and all(map(only_thread_zero, mine))
        if releases(op) and since.accessed(but_by_thread_0=by_thread_0):
            return SyncScope.BLOCK
        if (mine or releases(op)) and self._acquired(since, but_by_thread_0=by_thread_0):
            return SyncScope.BLOCK
        found = SyncScope.WARP if op in since.near else SyncScope.NONE
        for access in mine:
            for entry in _near(access.base, since):
                if access.writes or entry.access.writes:
                    found = max(found, self._between(entry, access))
        return found

    def do(self, op: Op, since: BarrierState) -> None:
        """`op` happens. What goes through room of its own waits in between."""
        if op.mnemonic in _MEETING:
            since.wait(SyncScope.WARP if getattr(op, "warp", False) else SyncScope.BLOCK)
            return
        since.fenced |= op.mnemonic == "fence"
        since.shared.update(self.uses.landing.get(op, ()))
        if op.mnemonic in BUFFERS:
            return
        room = self.uses.rooms.get(op)
        own = room is not None and room[2] is op
        if own:
            near = is_warp_local(op)
            since.wait(SyncScope.WARP if near else SyncScope.BLOCK)
            since.near |= {op} if near else set()
        if room is not None:
            since.shared.add(room)
        if own:
            return
        for access in self.uses.accesses.get(op, ()):
            self._add(access, since)
        if acquires(op) and op in self.uses.accesses:
            since.acquired.add(op)

    def _acquired(self, since: BarrierState, *, but_by_thread_0: bool) -> bool:
        """Whether a thread acquired something, which others do not know yet, other than thread 0
        where that is left out."""
        accesses = self.uses.accesses
        return any(
            not (but_by_thread_0 and all(map(only_thread_zero, accesses[op])))
            for op in since.acquired
        )

    def _add(self, access: GlobalAccess, since: BarrierState) -> None:
        held = since.touched.setdefault(access.base, set())
        if len(held) < _MOST_KEPT:
            held.add(PendingAccess(access))
            return
        whole = self._whole.setdefault(
            access.base, attrs.evolve(access, writes=True, who=AccessingThreads.ANY)
        )
        since.touched[access.base] = {PendingAccess(whole, step=None)}

    def _between(self, entry: PendingAccess, access: GlobalAccess) -> SyncScope:
        """Who must wait between the two, and has not yet."""
        if only_thread_zero(entry.access) and only_thread_zero(access):
            return SyncScope.NONE
        if entry.step is None:
            return SyncScope.NONE if self._apart(entry.access, access) else SyncScope.BLOCK
        key = (entry.access, access, entry.step)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._scope(entry, access)
        return SyncScope.NONE if entry.met and known is SyncScope.WARP else known

    def _scope(self, entry: PendingAccess, access: GlobalAccess) -> SyncScope:
        if self._apart(entry.access, access):
            return SyncScope.NONE
        if not entry.step and self._terms_apart(self._at(entry.access), self._at(access)):
            return SyncScope.NONE
        found = required_sync(self._at(entry.access), self._at(access), self.warps, entry.step or 0)
        return SyncScope.BLOCK if found is SyncScope.WARP and self.warps is None else found

    def _at(self, access: GlobalAccess) -> GlobalAccess:
        """The access with its address."""
        known = self._placed.get(access)
        if known is None:
            form = self._addresses.of(self.uses.pointers[access])
            known = self._placed[access] = attrs.evolve(access, form=form)
        return known

    @property
    def _addresses(self) -> AddressForms:
        from tileir.analysis.affine_mod32 import addresses

        return addresses(self.function)

    def _entered(self, entry: PendingAccess, source: str, label: str) -> PendingAccess:
        """The access as seen from the round that begins."""
        form = None if entry.step is None else self._at(entry.access).form
        if form is None or self._addresses.stays(form, label):
            return entry
        edges = self.function.blocks[source].successors
        (edge,) = {e.label: e for e in edges if e.label == label}.values()
        step = self._step(form.terms, edge)
        if step is not None and entry.step not in (0, step):
            step = None
        return attrs.evolve(entry, step=step)

    def _step(self, terms: frozenset[tuple[Value, int]], edge: Successor) -> int | None:
        """By how much `terms` grow when control takes `edge`, None where that is not known."""
        parameters = self.function.blocks[edge.label].parameters
        given = dict(zip(parameters, edge.arguments, strict=True))
        step = 0
        for value, factor in terms:
            if edge.label not in self._addresses.changes[value]:
                continue
            form = self._addresses.of(given[value]) if value in given else None
            if form is None or form.terms != frozenset({(value, 1)}):
                return None
            step += form.start * factor
        return step or None

    def _apart(self, a: GlobalAccess, b: GlobalAccess) -> bool:
        """Whether the ranges of integers keep two accesses apart."""
        if AccessingThreads.ANY in (a.who, b.who):
            return False
        from tileir.backend.shared_memory.byte_ranges import byte_ranges, ranges_disjoint

        near = byte_ranges(self.function)
        places = [self.uses.pointers[x] for x in (a, b)]
        first, second = (near.get(p) if isinstance(p, Value) else None for p in places)
        return ranges_disjoint(first, second)

    def _terms_apart(self, a: GlobalAccess, b: GlobalAccess) -> bool:
        """Whether what one address has added and the other has not keeps them apart: pieces of a
        tile before a loop over its other pieces."""
        if a.form is None or b.form is None:
            return False
        bounds, low, high = ranges(self.function), 0, 0
        for terms, sign in ((b.form.terms - a.form.terms, 1), (a.form.terms - b.form.terms, -1)):
            for value, factor in terms:
                if isinstance(element_of(value.type), Pointer):
                    return False
                ends = [sign * factor * bound for bound in bounds.of(value)]
                low, high = low + min(ends), high + max(ends)
        return spans_disjoint(a, b, (low, high))


def releases(op: Any) -> bool:
    """Whether an op that synchronises orders accesses beside its own."""
    if not op.effects & Effects.SYNC or op.mnemonic in _MEETING or op.mnemonic in _TRUSTED:
        return False
    return getattr(getattr(op, "sem", None), "value", "") != "relaxed"


def acquires(op: Any) -> bool:
    """Whether what follows an access comes after what others released."""
    sem = getattr(getattr(op, "sem", None), "value", "")
    return sem in ("acquire", "acq_rel") and op.mnemonic not in _MEETING | _TRUSTED


def _near(base: Base, since: BarrierState) -> Iterator[PendingAccess]:
    """Accesses through `base`, or what may be that."""
    for other, entries in since.touched.items():
        if base is None or other is None or other is base:
            yield from entries


def _overlap(op: Op, mine: Room, other: Room) -> bool:
    """Whether `op` must wait for who uses `other`. Accesses of one buffer come with the barriers
    they need, but for who had its bytes before it was allotted, itself on an earlier round. Of an
    op that stays within warps no other warp has the bytes."""
    if mine[2] is other[2] and (mine[2] is not op or is_warp_local(op)):
        return False
    return mine[0] < other[1] and other[0] < mine[1]


def _accesses(
    function: Function, op: Op, pointers: dict[GlobalAccess, Operand]
) -> tuple[GlobalAccess, ...]:
    found: list[GlobalAccess] = []
    writes = bool(op.effects & Effects.WRITE) and not any(map(_is_shared, op.inputs))
    for operand in op.inputs:
        if _is_global(operand):
            base = (
                underlying_pointers(function).get(operand) if isinstance(operand, Value) else None
            )
            once = op.mnemonic == "load" and op in loads_by_first_owner(function)
            who = (
                AccessingThreads.FIRST if once else _HOLDERS.get(op.mnemonic, AccessingThreads.ANY)
            )
            made = GlobalAccess(base, operand.type, None, writes, who)
            pointers[made] = operand
            found.append(made)
    return tuple(found)


def _room(function: Function, op: Op, memory: SharedMemoryPlan) -> Room | None:
    """The shared bytes that `op`, or the buffer it accesses, was allotted."""
    owner = op if op in memory.offsets else _buffer(function, op)
    if owner is None or owner not in memory.offsets:
        return None
    offset = memory.offsets[owner]
    return offset, offset + memory.sizes[owner], owner


def _landing(function: Function, memory: SharedMemoryPlan) -> dict[Op, tuple[Room, ...]]:
    made, copying = definitions(function), alive(function).copying
    found: dict[Op, tuple[Room, ...]] = {}
    for op, buffers in copying.items():
        if op.mnemonic == WAIT and buffers:
            owners = [made[v] for v in buffers if made[v] in memory.offsets]
            ends = [memory.offsets[x] + memory.sizes[x] for x in owners]
            found[op] = tuple(
                (memory.offsets[x], end, x) for x, end in zip(owners, ends, strict=True)
            )
    return found


def _buffer(function: Function, op: Op) -> Op | None:
    shared = [v for v in op.inputs if isinstance(v, Value) and _is_shared(v)]
    return definitions(function).get(shared[0]) if shared else None


def _is_global(operand: Operand) -> bool:
    """Whether `operand` points to memory whose hazards are looked for here."""
    found = element_of(operand.type)
    return isinstance(found, Pointer) and found.space is not AddressSpace.SHARED


def _is_shared(operand: Operand) -> bool:
    found = element_of(operand.type)
    return isinstance(found, Pointer) and found.space is AddressSpace.SHARED
