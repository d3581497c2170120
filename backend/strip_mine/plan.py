"""What is cut, and in which order the loops run.

Sinks are the ops that make loops: stores of large tiles, and reductions of large tiles whose
result is needed whole. Everything between is computed again for each piece. A sink runs at a
level: after the reductions it depends on, and where memory is in the state it reads. Sinks of one
level and extent share a loop.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import attrs

from tileir.analysis.partial import kept_undefined
from tileir.analysis.underlying_pointers import base_pointer
from tileir.backend.strip_mine.addresses import elements_distinct
from tileir.backend.strip_mine.register_limits import is_large, words
from tileir.backend.strip_mine.slicing import (
    ChunkSlice,
    Need,
    chain_of,
    dimension,
    operand_chunks_once,
    tiled_operands,
)
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Tile, shape_of
from tileir.values import Operand, Value

_PRIVATE = frozenset({"gpu.private_load", "gpu.private_store"})
_ORDERED = Effects.WRITE | Effects.SYNC
_FENCES = Effects.SYNC | Effects.OUTSIDE | Effects.CONTROL
_ROUNDS = 64


@attrs.define(eq=False)
class Sink:
    """An op computed by a loop over pieces along dimension `dim` of its tiles."""

    op: Op
    dim: int
    chain: ChunkSlice
    stages: bool = False
    """Whether its pieces are computed once, for all loops that need them."""
    level: int = 0

    @property
    def tile(self) -> Operand:
        """What its pieces are pieces of."""
        return self.op.results[0] if self.stages else tile_of(self.op)

    @property
    def extent(self) -> int:
        return shape_of(self.tile.type)[self.dim]

    @property
    def backward(self) -> bool:
        """Whether the last piece comes first."""
        said = cast(Any, self.op)
        return self.op.mnemonic == "scan" and said.axis == self.dim and bool(said.reverse)

    @property
    def needs(self) -> list[Need]:
        return tiled_operands(self.op, self.dim)

    def behind(self, other: Sink) -> int:
        """The first level at which pieces may follow those of `other`, in the same loop if both
        go the same way."""
        return other.level + (self.backward != other.backward)


@attrs.define
class Plan:
    """Sinks by op, and the level of every op that is kept, of one stretch of straight-line code.
    Kept ops of level n run before the loops of level n."""

    sinks: dict[Op, Sink]
    kept: dict[Op, int]

    def loops(self, level: int) -> list[list[Sink]]:
        """The sinks of `level`, by loop, in program order."""
        found: dict[tuple[int, bool], list[Sink]] = {}
        for sink in self.sinks.values():
            if sink.level == level:
                found.setdefault((sink.extent, sink.backward), []).append(sink)
        return list(found.values())

    @property
    def staged(self) -> list[Op]:
        """Ops of which pieces are computed once, for loops that come later."""
        return [op for op, sink in self.sinks.items() if sink.stages]

    def cuts(self, op: Op) -> bool:
        """Whether pieces of `op` are all that is left of it."""
        return op not in self.kept

    @property
    def levels(self) -> range:
        highest = max([*self.kept.values(), *(s.level for s in self.sinks.values())], default=0)
        return range(highest + 1)


def tile_of(op: Op) -> Operand:
    """The operand whose elements a sink goes through."""
    return op.inputs[2] if op.mnemonic == "gpu.private_store" else op.inputs[0]


def is_reorderable(op: Op, limit: int) -> bool:
    """Whether ops around `op` may be moved past it, as far as values and memory allow."""
    if op.is_atomic or op.mnemonic == "gpu.private_store":
        return is_large(op, limit)
    writes = op.effects & Effects.WRITE and op.mnemonic != "store"
    return not op.effects & _FENCES and not writes


def straight_line_regions(ops: Sequence[Op], limit: int) -> Iterator[tuple[Op, ...]]:
    """`ops` in parts that neither synchronise nor act outside; what does is a part of its own,
    except for atomic accesses to tiles of more than `limit` words."""
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
    """Plans stretches of `function`; tiles of more than `limit` words are large. With `apart`, as
    if every parameter were `noalias`. Pieces of `sliced` values are slices of them."""

    function: Function
    definitions: Mapping[Value, Op]
    limit: int
    sliced: Container[Value] = ()
    apart: bool = False

    def plan(self, ops: Sequence[Op], outside: set[Value]) -> Plan | None:
        """The plan of a stretch, given the values read outside it; None where nothing is cut."""
        found = self.planned(ops, outside, results=False)
        if found is not None and not found.staged:
            return found
        other = self.planned(ops, outside, results=True)
        return min(filter(None, (found, other)), key=_kept_words, default=None)

    def planned(
        self,
        ops: Sequence[Op],
        outside: set[Value],
        *,
        results: bool,
        staged: Mapping[Op, None] = MappingProxyType({}),
    ) -> Plan | None:
        """The plan in which `staged` ops are, and loads that memory forbids to repeat; with
        `results`, what is stored is, where that is what forbids it."""
        staged = dict(staged)
        made = {v: op for op in ops for v in op.results} if results else {}
        while True:
            found = self._choose(ops, outside, staged)
            if found is None or not found.sinks:
                return None
            culprit = self._order(ops, found)
            if culprit is True:
                return found
            op = culprit and _stage_for(*culprit, found, made)
            if not op:
                return None
            staged[op] = None

    # What is cut --------------------------------------------------------------------------

    def _choose(
        self, ops: Sequence[Op], outside: set[Value], staged: Mapping[Op, None]
    ) -> Plan | None:
        """What is cut and what stays; None where `staged` ops cannot be."""
        here, late = set(ops), self._after_reductions(ops)
        live, sinks, kept = set(outside), dict[Op, Sink](), list[Op]()
        for op in reversed(ops):
            users = [s for s in sinks.values() if op in s.chain.staged]
            needed = bool(live.intersection(op.results))
            if not op.effects & _ORDERED and not users and not needed:
                continue
            if users:
                sink = self._stage(op, users, here, staged)
                if sink is None or needed:
                    return None
            else:
                whole = not self._large(op) or (needed and op.is_atomic)
                sink = None if whole else self._sink(op, here, late, staged)
            if sink is not None:
                sinks[op] = sink
                live.update(sink.chain.whole)
            else:
                kept.append(op)
                live.update(v for v in op.operands if type(v) is Value)
        return Plan(dict(reversed(sinks.items())), dict.fromkeys(kept[::-1], 0))

    def _stage(
        self, op: Op, users: list[Sink], here: set[Op], staged: Mapping[Op, None]
    ) -> Sink | None:
        """The loop that computes the pieces of `op` as all `users` need them."""
        (dim, *others) = {s.chain.staged[op] for s in users}
        needs = operand_chunks_once(op, dim)
        if others or needs is None:
            return None
        before = {o for o in staged if o is not op}
        chain = chain_of(needs, self.definitions, here, before, self.sliced)
        fits = chain is not None and chain.largest <= self.limit
        return Sink(op, dim, chain, stages=True) if chain is not None and fits else None

    def _large(self, op: Op) -> bool:
        return is_large(op, self.limit)

    def _after_reductions(self, ops: Sequence[Op]) -> set[Value]:
        """Values that depend on a reduction of a large tile."""
        found: set[Value] = set()
        for op in ops:
            large = op.mnemonic == "reduce" and self._large(op)
            if large or any(v in found for v in op.operands if type(v) is Value):
                found.update(op.results)
        return found

    def _sink(
        self, op: Op, here: set[Op], late: set[Value], staged: Mapping[Op, None]
    ) -> Sink | None:
        """The cheapest way to cut `op`: waiting for as few reductions as possible, along the
        first dimension. The sums of a reduction must not be large themselves; a piece of a store
        may be, and is cut again along another dimension, unless something is staged."""
        found: list[tuple[int, int, Sink]] = []
        for dim in self._dimensions(op):
            chain = chain_of(tiled_operands(op, dim), self.definitions, here, staged, self.sliced)
            if chain is None:
                continue
            moved = any(load.mnemonic == "gpu.private_load" for load in chain.loads)
            again = op.mnemonic == "store" and not (staged or chain.staged or moved)
            fits = again or chain.largest <= self.limit
            if fits:
                waits = len(late.intersection(chain.whole))
                found.append((waits, dim, Sink(op, dim, chain)))
        return min(found, key=lambda f: f[:2])[2] if found else None

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
        """Whether a constant can stand for the lanes that take no part in a reduction.

        A function has no known neutral element. A predicate that is undefined in places is no
        condition to select the constant by.
        """
        if op.predicate is None:
            return True
        partial = op.predicate in kept_undefined(self.function)
        return isinstance(cast(Any, op).combiner, str) and not partial

    # When it runs -------------------------------------------------------------------------

    def _order(self, ops: Sequence[Op], plan: Plan) -> tuple[Op, Op] | bool:
        """Set the levels; False where memory forbids, or an access and the sink that would have to
        run behind itself to come behind it."""
        conflicts, together = self._conflicts(ops, plan)
        for _ in range(_ROUNDS):
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
        return next(_repeated([*conflicts, *together], plan), False)

    def _settle(self, ops: Sequence[Op], plan: Plan) -> None:
        """Raise levels to those of what ops depend on."""
        ready: dict[Value, int] = {}
        for op in ops:
            if op in plan.sinks:
                sink = plan.sinks[op]
                needs = (ready.get(v, 0) for v in sink.chain.whole)
                made = (sink.behind(plan.sinks[o]) for o in sink.chain.staged)
                sink.level = max([sink.level, *needs, *made])
                ready.update(dict.fromkeys(op.results, sink.level + 1))
            elif op in plan.kept:
                needs = (ready.get(v, 0) for v in op.operands if type(v) is Value)
                plan.kept[op] = max([plan.kept[op], *needs])
                ready.update(dict.fromkeys(op.results, plan.kept[op]))

    def _conflicts(
        self, ops: Sequence[Op], plan: Plan
    ) -> tuple[list[tuple[Op, Op]], list[tuple[Op, Op]]]:
        """Pairs of accesses that must stay in order, in program order; and loads with stores to
        where they read, which share the last loop that needs the load."""
        apart, together = list[tuple[Op, Op]](), list[tuple[Op, Op]]()
        loads = {load for sink in plan.sinks.values() for load in sink.chain.loads}
        touching = [
            op
            for op in ops
            if op.effects & (Effects.READ | Effects.WRITE)
            and (op in plan.sinks or op in plan.kept or op in loads)
        ]
        for place, after in enumerate(touching):
            for before in touching[:place]:
                either = before.effects | after.effects
                if not either & _ORDERED or self._apart(before, after):
                    continue
                same = self._same_place(before, after, plan)
                (together if same else apart).append((before, after))
        return apart, together

    def _apart(self, a: Op, b: Op) -> bool:
        """Whether two accesses certainly touch different memory."""
        private = [op.inputs[0] for op in (a, b) if op.mnemonic in _PRIVATE]
        if private:
            return len(private) == 1 or private[0] is not private[1]
        if (a.effects | b.effects) & Effects.SYNC:
            return False
        first, second = (base_pointer(x.inputs[0], self.definitions) for x in (a, b))
        promised = {p.value for p in self.function.parameters if p.attributes.noalias}
        parameters = {p.value for p in self.function.parameters}
        known = first in parameters and second in parameters and first is not second
        return known and (self.apart or bool(promised & {first, second}))

    def _same_place(self, before: Op, after: Op, plan: Plan) -> bool:
        """Whether `after` stores exactly where `before` reads the same piece, and no two elements
        share an address, so that pieces do not meet."""
        sink = plan.sinks.get(after)
        if sink is None or before not in sink.chain.loads or before in plan.kept:
            return False
        pointer = after.inputs[0]
        if after.mnemonic in _PRIVATE:
            return before.inputs[0] is pointer  # pieces are the same ones everywhere
        alone = all(n == 1 for d, n in enumerate(shape_of(pointer.type)) if d != sink.dim)
        return (
            before.inputs[0] is pointer and alone and elements_distinct(pointer, self.definitions)
        )


def _stage_for(before: Op, after: Op, plan: Plan, definitions: Mapping[Value, Op]) -> Op | None:
    """The op that, once its pieces are staged, lets sink `after` run behind `before`: what defines
    the value that `after` stores, where it is among `definitions`, or else `before` itself."""
    sink = plan.sinks[after]
    value = after.inputs[1] if after.mnemonic == "store" else None
    made = definitions.get(value) if type(value) is Value else None
    if made is not None and made not in plan.sinks and (value, sink.dim) in sink.chain.seen:
        return made
    return None if before in plan.sinks or not before.results else before


def _repeated(conflicts: Sequence[tuple[Op, Op]], plan: Plan) -> Iterator[tuple[Op, Op]]:
    """Loads that loops repeat, with one of these, of which a store comes in between."""
    for before, _ in conflicts:
        for sink in plan.sinks.values():
            if before in sink.chain.loads:
                yield before, sink.op


def _kept_words(plan: Plan) -> int:
    """Words of what is staged."""
    return sum(words(v.type) for op in plan.staged for v in op.results)


def _delay(plan: Plan, before: Op, after: Op) -> bool | Sink:
    """Move `after` behind `before`: whether anything moved, or the sink that cannot be."""
    latest = max(_times(plan, before))
    changed = False
    for op in _runs(plan, after):
        sink = plan.sinks.get(op)
        if sink is None:
            if 2 * plan.kept[op] < latest:
                plan.kept[op], changed = (latest + 1) // 2, True
        elif 2 * sink.level + 1 <= latest:
            if op is before or before in sink.chain.loads:
                return sink
            sink.level, changed = latest // 2 + latest % 2, True
    return changed


def _join(plan: Plan, before: Op, after: Op) -> bool:
    """Move the store `after` into the last of the loops that need the load `before`, if it comes
    earlier."""
    sink = plan.sinks[after]
    last = max(sink.behind(s) for s in plan.sinks.values() if before in s.chain.loads)
    changed, sink.level = sink.level < last, max(sink.level, last)
    return changed


def _runs(plan: Plan, op: Op) -> list[Op]:
    """The ops at which `op` happens: itself, and for a load the sinks that read through it."""
    users = [s.op for s in plan.sinks.values() if op in s.chain.loads]
    return [op, *users] if op in plan.kept or op in plan.sinks else users


def _times(plan: Plan, op: Op) -> list[int]:
    return [
        2 * plan.sinks[o].level + 1 if o in plan.sinks else 2 * plan.kept[o]
        for o in _runs(plan, op)
    ]
