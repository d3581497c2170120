"""The choice of the split-K factor (the number of blocks of a cluster that share K) by the cost
model."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs

from tileir.backend.legalize.link_inline import legalize
from tileir.backend.metadata import Metadata
from tileir.backend.performance_model.cost import ResourceUse, RoleProfile, estimate, machine_of
from tileir.backend.performance_model.model_warp_specialized import LINE
from tileir.backend.performance_model.work import WorkEstimate, work_of
from tileir.ir import Function, Module
from tileir.types import element_of, shape_of

_CHOICES = (2, 4, 8)
_FEWEST_ROWS = 8
_GAIN = 0.9
"""The largest ratio of the time with split-K to the time without at which split-K is chosen."""

_STAGES, _REGISTERS = 6, 128
"""Typical values of a warp-specialized kernel."""

_GROUP = 4
"""Warps that multiply together, and warps that load."""


def best_ranks(
    module: Module, plan: Metadata, grid: Sequence[int], values: Sequence[int], processors: int
) -> int:
    """The fastest split-K factor of the kernel of `plan`, by the cost model, for `grid` instances
    on `processors` multiprocessors: 1, 2, 4 or 8. `values` are its arguments, with descriptors
    expanded; values of arguments that are not integers are ignored."""
    instances = prod(grid)
    if 2 * instances > processors:
        return 1
    function = legalize(module, plan.kernel).functions[plan.kernel]
    names = (str(p.value.name) for p in function.parameters)
    work = work_of(function, (*grid, 1, 1)[:3], dict(zip(names, values, strict=False)))
    times = {
        n: _seconds(function, work, plan, n, (instances, processors)) for n in _fitting(function)
    }
    best = min(times, key=lambda n: times[n], default=1)
    return best if times.get(best, 1.0) < _GAIN * times.get(1, 0.0) else 1


def _accumulators(function: Function) -> list[Any]:
    """The types of the accumulators of dots."""
    return [op.c.type for op in function.ops if op.mnemonic == "dot"]  # type: ignore[attr-defined]


def _fitting(function: Function) -> list[int]:
    """The split-K factors that divide the number of rows of every accumulator."""
    rows = [shape_of(kind)[0] for kind in _accumulators(function)]
    return [1, *(n for n in _CHOICES if all(m % n == 0 and m // n >= _FEWEST_ROWS for m in rows))]


def _seconds(
    function: Function, work: WorkEstimate, plan: Metadata, ranks: int, scale: tuple[int, int]
) -> float:
    """The predicted time with `ranks` blocks that share K."""
    instances, processors = scale
    size = sum(prod(shape_of(kind)) * element_of(kind).bytes for kind in _accumulators(function))  # type: ignore[union-attr]
    roles = RoleProfile(
        work.read / max(1.0, work.steps) / LINE,
        _STAGES,
        max(1, plan.num_warps // _GROUP - 1),
        cluster=ranks,
        remote=float(size),
        alone=True,
    )
    use = ResourceUse(plan.num_warps, plan.shared, _REGISTERS, _STAGES, roles=roles)
    machine = attrs.evolve(machine_of(plan.target), processors=processors)
    return estimate(work, use, instances, machine).seconds
