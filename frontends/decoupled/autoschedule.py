"""Automatic scheduling: schedules for an algorithm, with fusions, block and tensor sizes, ranked by
`costs`.

The candidates fuse all Funcs that can be fused, or all but one, or none. Each kernel then has its
own best sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tileir.errors import TileirError
from tileir.frontends.decoupled.candidates import candidates
from tileir.frontends.decoupled.cost_model import H200, GpuRates, Uses, estimate, uses_of
from tileir.frontends.decoupled.fusion import Group, group, groups, reductions
from tileir.frontends.decoupled.model import Definitions, Func, topological_order
from tileir.frontends.decoupled.nodes import accesses
from tileir.frontends.decoupled.plan import FuncPlan
from tileir.frontends.decoupled.program import Program
from tileir.frontends.decoupled.schedule import Fusion, Schedule
from tileir.frontends.decoupled.shorthand import shorten
from tileir.frontends.decoupled.split_reductions import cut
from tileir.frontends.decoupled.tensors import Tensor, row_major
from tileir.types import F32, Scalar


@attrs.frozen
class ScheduledProgram:
    """A scheduled program and the seconds its kernels are estimated to take."""

    program: Program
    seconds: float

    @property
    def schedule(self) -> str:
        """The schedule in shorthand."""
        return shorten(self.program.definitions)


def autoschedule(
    program: Program,
    arguments: Sequence[Any],
    *,
    name: str | None = None,
    types: Mapping[str, Any] | None = None,
    machine: GpuRates = H200,
    count: int = 1,
    **sizes: int,
) -> list[ScheduledProgram]:
    """The `count` schedules that promise most for a Func (the one that is compiled, else the last)
    on arrays like `arguments`, the best first. Whatever schedule the program has is left aside.
    Raises LaunchError for arguments that do not fit."""
    target = name or (program.compiled_funcs or (list(program.funcs)[-1],))[0]
    bare = program.without_schedule().with_schedule(f"{target}.compile();")
    plan = bare.function(target).plan(*arguments, types=types, **sizes)
    scalars = dict.fromkeys(bare.function(target).scalars, F32)
    search = _ScheduleSearch(bare.definitions, target, plan, scalars, machine)
    result = sorted(search.all(count), key=lambda s: s.seconds)
    return _legal(result, target, arguments, types, sizes, count)


def estimate_seconds(
    program: Program,
    arguments: Sequence[Any],
    *,
    name: str | None = None,
    types: Mapping[str, Any] | None = None,
    machine: GpuRates = H200,
    **sizes: int,
) -> float:
    """Seconds that the schedule of a program is estimated to take."""
    function = program.function(name)
    plan = function.plan(*arguments, types=types, **sizes)
    scalars = dict.fromkeys(function.scalars, F32)
    search = _ScheduleSearch(program.definitions, function.name, plan, scalars, machine)
    return sum(search.seconds(own) for own in groups(program.definitions, function.name))


def _legal(
    candidates: Sequence[ScheduledProgram],
    name: str,
    arguments: Sequence[Any],
    types: Mapping[str, Any] | None,
    sizes: Mapping[str, int],
    count: int,
) -> list[ScheduledProgram]:
    """The first that kernels are made of."""
    legal: list[ScheduledProgram] = []
    for one in candidates:
        if len(legal) == count:
            break
        try:
            one.program.function(name).plan(*arguments, types=types, **sizes)
        except TileirError:
            continue
        legal.append(one)
    return legal


@attrs.define
class _ScheduleSearch:
    definitions: Definitions
    name: str
    plan: FuncPlan
    scalars: Mapping[str, Scalar]
    machine: GpuRates
    _uses: dict[Any, Uses] = attrs.field(factory=dict[Any, Uses])
    _cache: dict[str, list[tuple[float, Group, Schedule]]] = attrs.field(factory=dict)

    def all(self, count: int) -> Iterator[ScheduledProgram]:
        """The best schedules of every way to fuse."""
        for fusion in self._fusions():
            yield from self._combine_groups(fusion, count)

    def _fusions(self) -> Iterator[Definitions]:
        """The definitions with all Funcs fused, all but one, and none."""
        funcs = [f for f in reversed(topological_order(self.definitions)) if f.name != self.name]
        every = (True,) * len(funcs)
        options = [every, *((*every[:i], False, *every[i + 1 :]) for i in range(len(funcs)))]
        options.append((False,) * len(funcs))
        seen: set[tuple[tuple[str, Fusion], ...]] = set()
        for chosen in options:
            definitions = self.definitions
            for func, fused in zip(funcs, chosen, strict=True):
                fusion = _fusion(definitions, func) if fused else None
                if fusion:
                    definitions = _with(definitions, func.name, fusion=fusion)
            key = tuple(
                (f.name, f.schedule.fusion) for f in definitions.funcs.values() if f.schedule.fusion
            )
            if key not in seen:
                seen.add(key)
                yield definitions

    def _combine_groups(self, definitions: Definitions, count: int) -> Iterator[ScheduledProgram]:
        ranked = [self._rank_schedules(own)[:count] for own in groups(definitions, self.name)]
        if not all(ranked):
            return
        best = tuple(options[0] for options in ranked)
        for i, options in enumerate(ranked):
            for option in options if i == len(ranked) - 1 else options[1:]:
                chosen = (*best[:i], option, *best[i + 1 :])
                program = definitions
                for _, own, schedule in chosen:
                    program = _with(program, own.root.name, **_settings(schedule))
                yield ScheduledProgram(Program(program), sum(seconds for seconds, _, _ in chosen))

    def _rank_schedules(self, own: Group) -> list[tuple[float, Group, Schedule]]:
        """Schedules for a kernel, the best first."""
        key = own.root.name, own.root.schedule, tuple((f.name, f.schedule) for f in own.members)
        if repr(key) not in self._cache:
            self._cache[repr(key)] = self._sort_by_estimate(own)
        return self._cache[repr(key)]

    def _sort_by_estimate(self, own: Group) -> list[tuple[float, Group, Schedule]]:
        sizes, tensors = self.plan.sizes, self._tensors(own)
        result: list[tuple[float, Group, Schedule]] = []
        for schedule in candidates(own, sizes, tensors):
            restricted = attrs.evolve(
                schedule, fusion=own.root.schedule.fusion, compiled=own.root.schedule.compiled
            )
            root = attrs.evolve(own.root, schedule=restricted)
            seconds = self._seconds(attrs.evolve(own, root=root), tensors)
            result.append((seconds, own, restricted))
        return sorted(result, key=lambda item: item[0])

    def seconds(self, own: Group) -> float:
        """The predicted time of a kernel with its schedule, in seconds."""
        return self._seconds(own, self._tensors(own))

    def _tensors(self, own: Group) -> dict[str, Tensor]:
        tensors = dict(self.plan.tensors)
        for func in own.funcs:
            shape = [self.plan.sizes[label] for label in func.labels]
            tensors.setdefault(func.name, row_major(F32, shape))
        return tensors

    def _seconds(self, own: Group, tensors: Mapping[str, Tensor]) -> float:
        """The predicted time of the kernels of the group, in seconds."""
        done = cut(own, self.plan.sizes, self.definitions.shapes)
        sizes = {**self.plan.sizes, **done.sizes}
        tensors_so_far = dict(tensors)
        seconds = 0.0
        for part in done.groups:
            shape = [sizes[label] for label in part.root.labels]
            tensors_so_far.setdefault(part.root.name, row_major(F32, shape))
            uses = self._uses_of(part)
            seconds += estimate(
                part, sizes, tensors_so_far, self.scalars, self.machine, uses
            ).seconds
        return seconds

    def _uses_of(self, part: Group) -> Uses:
        key = part.root.value, part.root.labels, tuple(f.name for f in part.members)
        if key not in self._uses:
            self._uses[key] = uses_of(part, self.definitions.shapes)
        return self._uses[key]


def _settings(schedule: Schedule) -> dict[str, Any]:
    names = ("blocks", "tensors", "order", "num_warps", "num_stages", "online", "atomic", "reverse",
             "evict_first", "evict_last", "roles", "persistent")  # fmt: skip
    return {name: getattr(schedule, name) for name in names}


def _with(definitions: Definitions, name: str, **changes: Any) -> Definitions:
    func = definitions.funcs[name]
    schedule = attrs.evolve(func.schedule, **changes)
    return attrs.evolve(
        definitions, funcs={**definitions.funcs, name: attrs.evolve(func, schedule=schedule)}
    )


# Fusion -------------------------------------------------------------------------------------------


def _fusion(definitions: Definitions, func: Func) -> Fusion | None:
    """The place at which a Func can be fused so that its values need no memory; None if there is
    none."""
    readers = [
        f for f in definitions.funcs.values() if any(a.name == func.name for a in accesses(f.value))
    ]
    if not readers:
        return None
    for reader in readers:
        for fusion in _levels(func, reader):
            result = _with(definitions, func.name, fusion=fusion)
            roots = {_root(result, r) for r in readers}
            if len(roots) == 1 and func.name in {
                f.name for f in group(result, roots.pop()).members
            }:
                return fusion
    return None


def _levels(func: Func, reader: Func) -> Iterator[Fusion]:
    last = func.labels[-1]
    outer = func.labels == reader.labels[: len(func.labels)]
    if outer or last in {r.label for r in reductions(reader)}:
        yield Fusion(reader.name, last)


def _root(definitions: Definitions, func: Func) -> str:
    while func.schedule.fusion:
        func = definitions.funcs[func.schedule.fusion.into]
    return func.name
