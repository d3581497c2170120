"""The plan of strip-mining: the ops that are strip-mined, and the order of the loops.

Sinks are the ops that become loops: stores of large tiles, and reductions of large tiles whose
result is needed whole. The ops they depend on are rematerialized for each chunk. Every sink has a
level: a loop runs after the reductions it depends on, and before or after the accesses that
conflict with it. Sinks of one level and extent share a loop.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import attrs

from tileir.analysis.partial import kept_undefined
from tileir.analysis.uses import base_pointer
from tileir.backend.demand import is_large, words
from tileir.backend.strip_mine.addresses import elements_distinct
from tileir.backend.strip_mine.slicing import (
    ChunkSlice,
    Need,
    dimension,
    operand_chunks_once,
    slice_of,
    tiled_operands,
)
from tileir.effects import ACCESSES, Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Tile, shape_of
from tileir.values import Operand, Value

_PRIVATE = frozenset({"gpu.private_load", "gpu.private_store"})
_ORDERED = Effects.WRITE | Effects.SYNC
_FENCES = Effects.SYNC | Effects.OUTSIDE | Effects.CONTROL
_MAX_ITERATIONS = 64
_STORED_BITS = (8, 16, 32)
"""Bits of the elements of buffers in shared memory."""


@attrs.define(eq=False)
class Sink:
    """An op computed by a loop over chunks along dimension `dim` of its tiles."""

    op: Op
    dim: int
    slice: ChunkSlice
    stages: bool = False
    """Whether its chunks are computed once, for all loops that need them."""
    level: int = 0

    @property
    def tile(self) -> Operand:
        """The tile that is divided into chunks."""
        return self.op.results[0] if self.stages else tile_of(self.op)

    @property
    def extent(self) -> int:
        return shape_of(self.tile.type)[self.dim]

    @property
    def backward(self) -> bool:
        """Whether the loop runs from the last chunk to the first."""
        attributes = cast(Any, self.op)
        return (
            self.op.mnemonic == "scan" and attributes.axis == self.dim and bool(attributes.reverse)
        )

    @property
    def needs(self) -> list[Need]:
        return tiled_operands(self.op, self.dim)

    def first_level_after(self, other: Sink) -> int:
        """The lowest level at which chunks of this sink may use those of `other`: that of `other`
        itself if both loops run in one direction."""
        return other.level + (self.backward != other.backward)


@attrs.define
class StripMinePlan:
    """Sinks by op, and the level of every op that is kept, of one region of straight-line code.
    Kept ops of level n run before the loops of level n."""

    sinks: dict[Op, Sink]
    kept: dict[Op, int]

    def loops(self, level: int) -> list[list[Sink]]:
        """The sinks of `level`, by loop, in program order."""
        loops: dict[tuple[int, bool], list[Sink]] = {}
        for sink in self.sinks.values():
            if sink.level == level:
                loops.setdefault((sink.extent, sink.backward), []).append(sink)
        return list(loops.values())

    @property
    def staged_ops(self) -> list[Op]:
        """Ops whose chunks are computed once and kept for later loops."""
        return [op for op, sink in self.sinks.items() if sink.stages]

    def cuts(self, op: Op) -> bool:
        """Whether `op` is replaced by its chunks."""
        return op not in self.kept

    @property
    def levels(self) -> range:
        highest = max([*self.kept.values(), *(s.level for s in self.sinks.values())], default=0)
        return range(highest + 1)


def tile_of(op: Op) -> Operand:
    """The operand of a sink that is divided into chunks."""
    return op.inputs[2] if op.mnemonic == "gpu.private_store" else op.inputs[0]


def is_reorderable(op: Op, limit: int) -> bool:
    """Whether ops around `op` may be moved past it, as far as values and memory allow."""
    if op.is_atomic or op.mnemonic == "gpu.private_store":
        return is_large(op, limit)
    writes = op.effects & Effects.WRITE and op.mnemonic != "store"
    return not op.effects & _FENCES and not writes


def straight_line_regions(ops: Sequence[Op], limit: int) -> Iterator[tuple[Op, ...]]:
    """`ops` in regions within which ops may be reordered. An op that synchronizes or has effects
    outside memory is a region of its own; an atomic access to a tile of more than `limit` words is
    not."""
    part: list[Op] = []
    for op in ops:
        if not is_reorderable(op, limit):
            if part:
                yield tuple(part)
            yield (op,)
            part = []
        else:
            part.append(op)
    if part:
        yield tuple(part)


@attrs.frozen
class Planner:
    """Plans regions of `function`. Tiles of more than `limit` words are large. With
    `assume_noalias`, every parameter counts as `noalias`. Chunks of `sliced` values are slices."""

    function: Function
    definitions: Mapping[Value, Op]
    limit: int
    sliced: Container[Value] = ()
    assume_noalias: bool = False

    def plan(self, ops: Sequence[Op], outside: set[Value]) -> StripMinePlan | None:
        """The plan of a region, of whose values `outside` are read elsewhere; None where nothing
        is strip-mined. It stages as few words as possible."""
        plan = self.plan_staging(ops, outside, results=False)
        if plan is not None and not plan.staged_ops:
            return plan
        plan_with_results = self.plan_staging(ops, outside, results=True)
        return min(filter(None, (plan, plan_with_results)), key=_kept_words, default=None)

    def plan_staging(
        self,
        ops: Sequence[Op],
        outside: set[Value],
        *,
        results: bool,
        staged: Mapping[Op, None] = MappingProxyType({}),
    ) -> StripMinePlan | None:
        """The plan that stages `staged` ops and the loads that must not be repeated. With
        `results`, it stages the stored value instead of the load, if it can."""
        staged = dict(staged)
        stored_definitions = {v: op for op in ops for v in op.results} if results else {}
        while True:
            plan = self._choose(ops, outside, staged)
            if plan is None or not plan.sinks:
                return None
            conflict = self._order(ops, plan)
            if conflict is True:
                return plan
            op = conflict and _stage_for(*conflict, plan, stored_definitions)
            if not op:
                return None
            staged[op] = None

    # Which ops become loops ----------------------------------------------------------------

    def _choose(
        self, ops: Sequence[Op], outside: set[Value], staged: Mapping[Op, None]
    ) -> StripMinePlan | None:
        """The sinks and the ops that stay whole; None where `staged` ops cannot be staged."""
        here, dependent = set(ops), self._after_reductions(ops)
        live, sinks, uncut = set(outside), dict[Op, Sink](), list[Op]()
        for op in reversed(ops):
            users = [s for s in sinks.values() if op in s.slice.staged]
            needed = bool(live.intersection(op.results))
            if not op.effects & _ORDERED and not users and not needed:
                continue
            if users:
                sink = self._stage(op, users, here, staged)
                if sink is None or needed:
                    return None
            else:
                is_uncut = not self._large(op) or (needed and op.is_atomic)
                sink = None if is_uncut else self._sink(op, here, dependent, staged)
            if sink is not None:
                sinks[op] = sink
                live.update(sink.slice.whole)
            else:
                uncut.append(op)
                live.update(v for v in op.operands if type(v) is Value)
        return StripMinePlan(dict(reversed(sinks.items())), dict.fromkeys(uncut[::-1], 0))

    def _stage(
        self, op: Op, users: list[Sink], here: set[Op], staged: Mapping[Op, None]
    ) -> Sink | None:
        """The sink that stages `op` for `users`; None where they need different dimensions."""
        (dim, *other_dims) = {s.slice.staged[op] for s in users}
        needs = operand_chunks_once(op, dim)
        if other_dims or needs is None:
            return None
        others_staged = {o for o in staged if o is not op}
        slice = slice_of(needs, self.definitions, here, others_staged, self.sliced)
        fits = slice is not None and slice.largest <= self.limit
        return Sink(op, dim, slice, stages=True) if slice is not None and fits else None

    def _large(self, op: Op) -> bool:
        return is_large(op, self.limit)

    def _after_reductions(self, ops: Sequence[Op]) -> set[Value]:
        """Values that depend on a reduction of a large tile."""
        dependent: set[Value] = set()
        for op in ops:
            large = op.mnemonic == "reduce" and self._large(op)
            if large or any(v in dependent for v in op.operands if type(v) is Value):
                dependent.update(op.results)
        return dependent

    def _sink(
        self, op: Op, here: set[Op], dependent: set[Value], staged: Mapping[Op, None]
    ) -> Sink | None:
        """The cheapest way to strip-mine `op`: the dimension that depends on the fewest reductions,
        the first one among equals. A reduction carries a chunk, which must not be large itself. A
        chunk of a store may be: it is cut again along another dimension, unless ops are staged."""
        candidates: list[tuple[int, int, Sink]] = []
        for dim in self._dimensions(op):
            slice = slice_of(tiled_operands(op, dim), self.definitions, here, staged, self.sliced)
            if slice is None:
                continue
            reads_spilled = any(load.mnemonic == "gpu.private_load" for load in slice.loads)
            cut_twice = op.mnemonic == "store" and not (staged or slice.staged or reads_spilled)
            fits = cut_twice or slice.largest <= self.limit
            if fits:
                waits = len(dependent.intersection(slice.whole))
                candidates.append((waits, dim, Sink(op, dim, slice)))
        return min(candidates, key=lambda f: f[:2])[2] if candidates else None

    def _dimensions(self, op: Op) -> list[int]:
        """Dimensions along which `op` may be a sink."""
        if op.mnemonic == "gpu.private_store":
            return [dimension(cast(Tile, tile_of(op).type))]
        shape = shape_of(op.inputs[0].type)
        if op.mnemonic == "reduce":
            axis: int = getattr(op, "axis", 0)
            return [axis] if shape[axis] > 1 and self._has_neutral(op) else []
        alone = op.is_atomic or op.mnemonic in ("store", "histogram")
        return [d for d, n in enumerate(shape) if n > 1 and alone]

    def _has_neutral(self, op: Op) -> bool:
        """Whether a constant can replace the lanes that a predicate excludes from a reduction.

        The neutral element of a function is unknown. A predicate with undefined lanes cannot be
        the condition of the `select` of that constant.
        """
        if op.predicate is None:
            return True
        partial = op.predicate in kept_undefined(self.function)
        return isinstance(cast(Any, op).combiner, str) and not partial

    def repeated_matrices(self, plan: StripMinePlan) -> set[Value]:
        """The matrices that `plan` keeps whole, and of which loops compute chunks as well, from
        loads of large tiles that it keeps whole, too. Slices of them cost less than these loads."""
        repeated: set[Value] = set()
        for sink in plan.sinks.values():
            kept = (load for load in sink.slice.loads if load in plan.kept)
            derived = {v for load in kept for v in load.results if words(v.type) > self.limit}
            computed = {v for v, _ in sink.slice.seen}
            for op in plan.kept if derived else ():
                if derived.intersection(v for v in op.operands if type(v) is Value):
                    derived.update(op.results)
                    matrices = (v for v in op.results if v in computed and self._is_stored(v))
                    repeated.update(matrices)
        return repeated

    def _is_stored(self, value: Value) -> bool:
        """Whether slices of `value` may be read from shared memory instead of registers."""
        kind = cast(Tile, value.type)
        is_matrix = len(kind.shape) == 2 and cast(Any, kind.element).bits in _STORED_BITS
        return is_matrix and words(kind) <= self.limit and value not in self.sliced

    # The order of the loops ----------------------------------------------------------------

    def _order(self, ops: Sequence[Op], plan: StripMinePlan) -> tuple[Op, Op] | bool:
        """Set the levels. True on success; False where conflicting accesses cannot be ordered; or
        an access and the sink that conflicts with it although its loop repeats the access."""
        conflicts, together = self._conflicts(ops, plan)
        for _ in range(_MAX_ITERATIONS):
            self._settle(ops, plan)
            changed = False
            for before, after in conflicts:
                verdict = _delay(plan, before, after)
                if isinstance(verdict, Sink):
                    return before, verdict.op
                changed |= verdict
            for before, after in together:
                changed |= _join(plan, before, after)
            if not changed:
                return True
        return next(_conflicts_of_repeated_loads([*conflicts, *together], plan), False)

    def _settle(self, ops: Sequence[Op], plan: StripMinePlan) -> None:
        """Raise the level of each op to that of the values it depends on."""
        ready: dict[Value, int] = {}
        for op in ops:
            if op in plan.sinks:
                sink = plan.sinks[op]
                needs = (ready.get(v, 0) for v in sink.slice.whole)
                after_staged = (sink.first_level_after(plan.sinks[o]) for o in sink.slice.staged)
                sink.level = max([sink.level, *needs, *after_staged])
                ready.update(dict.fromkeys(op.results, sink.level + 1))
            elif op in plan.kept:
                needs = (ready.get(v, 0) for v in op.operands if type(v) is Value)
                plan.kept[op] = max([plan.kept[op], *needs])
                ready.update(dict.fromkeys(op.results, plan.kept[op]))

    def _conflicts(
        self, ops: Sequence[Op], plan: StripMinePlan
    ) -> tuple[list[tuple[Op, Op]], list[tuple[Op, Op]]]:
        """Pairs of accesses that must stay in program order; and pairs of a load and a store to
        the same addresses, where the store belongs in the last loop that repeats the load."""
        ordered, together = list[tuple[Op, Op]](), list[tuple[Op, Op]]()
        loads = {load for sink in plan.sinks.values() for load in sink.slice.loads}
        accesses = [
            op
            for op in ops
            if op.effects & ACCESSES and (op in plan.sinks or op in plan.kept or op in loads)
        ]
        for position, after in enumerate(accesses):
            for before in accesses[:position]:
                either = before.effects | after.effects
                if not either & _ORDERED or self._are_disjoint(before, after):
                    continue
                same = self._same_place(before, after, plan)
                (together if same else ordered).append((before, after))
        return ordered, together

    def _are_disjoint(self, a: Op, b: Op) -> bool:
        """Whether two accesses are known to touch disjoint memory."""
        private = [op.inputs[0] for op in (a, b) if op.mnemonic in _PRIVATE]
        if private:
            return len(private) == 1 or private[0] is not private[1]
        if (a.effects | b.effects) & Effects.SYNC:
            return False
        first_root, second_root = (base_pointer(x.inputs[0], self.definitions) for x in (a, b))
        promised = {p.value for p in self.function.parameters if p.attributes.noalias}
        parameters = {p.value for p in self.function.parameters}
        distinct = (
            first_root in parameters and second_root in parameters and first_root is not second_root
        )
        return distinct and (self.assume_noalias or bool(promised & {first_root, second_root}))

    def _same_place(self, before: Op, after: Op, plan: StripMinePlan) -> bool:
        """Whether `after` stores exactly where `before` reads the same chunk, and no two elements
        share an address, so that different chunks never conflict."""
        sink = plan.sinks.get(after)
        if sink is None or before not in sink.slice.loads or before in plan.kept:
            return False
        pointer = after.inputs[0]
        if after.mnemonic in _PRIVATE:
            return before.inputs[0] is pointer  # chunks are the same ones everywhere
        is_row = all(n == 1 for d, n in enumerate(shape_of(pointer.type)) if d != sink.dim)
        return (
            before.inputs[0] is pointer and is_row and elements_distinct(pointer, self.definitions)
        )


def _stage_for(
    before: Op, after: Op, plan: StripMinePlan, definitions: Mapping[Value, Op]
) -> Op | None:
    """The op to stage so that sink `after` may run after `before`: the op that defines the value
    stored by `after` if it is among `definitions`, or else `before` itself."""
    sink = plan.sinks[after]
    value = after.inputs[1] if after.mnemonic == "store" else None
    producer = definitions.get(value) if type(value) is Value else None
    if producer is not None and producer not in plan.sinks and (value, sink.dim) in sink.slice.seen:
        return producer
    return None if before in plan.sinks or not before.results else before


def _conflicts_of_repeated_loads(
    conflicts: Sequence[tuple[Op, Op]], plan: StripMinePlan
) -> Iterator[tuple[Op, Op]]:
    """Conflicting accesses that a loop repeats, with the op of that loop."""
    for before, _ in conflicts:
        for sink in plan.sinks.values():
            if before in sink.slice.loads:
                yield before, sink.op


def _kept_words(plan: StripMinePlan) -> int:
    """Words of the staged values, over all threads."""
    return sum(words(v.type) for op in plan.staged_ops for v in op.results)


def _delay(plan: StripMinePlan, before: Op, after: Op) -> bool | Sink:
    """Raise the level of `after` past that of `before`: whether anything changed, or the sink that
    cannot run after `before` because it repeats `before`."""
    latest = max(_times(plan, before))
    changed = False
    for op in _runs(plan, after):
        sink = plan.sinks.get(op)
        if sink is None:
            if 2 * plan.kept[op] < latest:
                plan.kept[op], changed = (latest + 1) // 2, True
        elif 2 * sink.level + 1 <= latest:
            if op is before or before in sink.slice.loads:
                return sink
            sink.level, changed = latest // 2 + latest % 2, True
    return changed


def _join(plan: StripMinePlan, before: Op, after: Op) -> bool:
    """Raise the level of the store `after` to the last of the loops that repeat the load
    `before`. Returns whether it was lower."""
    sink = plan.sinks[after]
    last = max(sink.first_level_after(s) for s in plan.sinks.values() if before in s.slice.loads)
    changed, sink.level = sink.level < last, max(sink.level, last)
    return changed


def _runs(plan: StripMinePlan, op: Op) -> list[Op]:
    """The ops at which `op` executes: itself, and for a load the sinks that repeat it."""
    users = [s.op for s in plan.sinks.values() if op in s.slice.loads]
    return [op, *users] if op in plan.kept or op in plan.sinks else users


def _times(plan: StripMinePlan, op: Op) -> list[int]:
    return [
        2 * plan.sinks[o].level + 1 if o in plan.sinks else 2 * plan.kept[o]
        for o in _runs(plan, op)
    ]
