"""The cost model of kernels whose warps have roles: what it reads off them, and where it goes."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from matmuls import inputs, problem

from tileir.backend.compile import LoweredKernel, Options, run_pipeline
from tileir.backend.measurement.arguments import numbers_in
from tileir.backend.performance_model.cost import (
    Estimate,
    ResourceUse,
    RoleProfile,
    estimate,
    machine_of,
)
from tileir.backend.performance_model.resource_use import use_of
from tileir.backend.performance_model.work import WorkEstimate, work_of
from tileir.backend.target import target
from tileir.backend.tuning import GpuMeter
from tileir.backend.tuning.launch_variant import LaunchVariant, launched_variant
from tileir.testing.kernels import matmul

SM90, MACHINE = target("sm_90a"), machine_of("sm_90a")
TILE = WorkEstimate({16: 2.0 * 128 * 128 * 4096}, 1e5, 2e6, 3e4, 64, 3e6)
"""128x128x64 and 64 steps."""
ROLES = RoleProfile(256.0, 6, 2, alone=True)
DEEP = WorkEstimate({16: 2.0 * 64 * 64 * 16384}, 1e5, 4e6, 8e3, 256, 4e6)


def estimated_seconds(
    roles: RoleProfile = ROLES,
    work: WorkEstimate = TILE,
    instances: int = 1024,
    footprint: float = 0.0,
) -> Estimate:
    use = ResourceUse(12, 200_000, 128, roles=roles)
    return estimate(work, use, instances, MACHINE, footprint)


def seconds(instances: int = 1024, work: WorkEstimate = TILE, **changed: Any) -> float:
    return estimated_seconds(attrs.evolve(ROLES, **changed), work, instances).seconds


def launched_as(numbers: dict[str, int], options: dict[str, Any], **tile: Any) -> LaunchVariant:
    """A matmul as a launcher takes it."""
    module = matmul(**{"bm": 128, "bn": 128, "bk": 64, **tile})

    def make(units: tuple[int, ...]) -> LoweredKernel:
        return run_pipeline(
            module, SM90, attrs.evolve(Options(**options), non_tma_alignments=units), None
        )

    return launched_variant(make, numbers)


def roles_in(
    m: int, n: int, k: int, options: dict[str, Any] | None = None, **tile: Any
) -> RoleProfile:
    numbers = {"m": m, "n": n, "k": k}
    it = launched_as(numbers, options or {}, **tile)
    done = it.staged
    work = work_of(done.stages["legal"].functions[done.kernel], (64, 1, 1), numbers)
    use = use_of(done, SM90, work, it.maps)
    assert use.roles is not None
    return use.roles


# What is read off kernels -------------------------------------------------------------------------


def test_copies_ask_for_lines() -> None:
    """A step of 128x128x64 copies 128 rows of a line, and 64 rows of two."""
    plain = roles_in(4096, 4096, 4096)
    assert plain == RoleProfile(256.0, 6, 2, limit=255, divisions=plain.divisions, alone=True)
    assert roles_in(4096, 4096, 4096, bn=256).requests == 128 + 64 * 4
    assert roles_in(4096, 4096, 4096, transposed=True, bn=256).requests == 128 + 256


def test_panels_narrower_than_a_line_are_requests_all_the_same() -> None:
    """224 columns are 7 panels of 32: rows of 64 bytes."""
    assert roles_in(4096, 4096, 4096, bn=224).requests == 128 + 64 * 7
    assert roles_in(4096, 4096, 4096, bn=224, transposed=True).requests == 128 + 224


def test_rows_that_begin_within_half_lines_are_asked_for_by_halves() -> None:
    """Rows of 14000 bytes begin at 0, 48, 32 and 16 bytes of a half line: 128 bytes touch 2, 3, 3
    and 3 of them, 64 bytes 1, 2, 2 and 2."""
    assert roles_in(2048, 7000, 2048).requests == 128 + 128 * 2.75
    assert roles_in(2048, 7000, 2048, bn=224).requests == 128 + 64 * 7 * 1.75
    assert roles_in(2048, 7008, 2048).requests == 256  # multiples of 64 bytes


def test_threads_load_what_no_map_can_have() -> None:
    """Rows of 8457 elements are read and written one by one, 64x128 of them by 128 threads."""
    odd = roles_in(35, 8457, 4096, bm=64)
    assert (odd.requests, odd.elements, odd.loads, odd.unit) == (64, 64, 64, 2)
    assert odd.stores == 64 * 128
    even = roles_in(4096, 4100, 4096)
    assert (even.requests, even.elements, even.loads, even.unit) == (128, 64, 16, 8)
    assert roles_in(4096, 4096, 4098).loads == 32  # operand A, by pairs
    assert even.limit == 104 and odd.limit == 255


def test_clusters_and_pingpong() -> None:
    shared = roles_in(64, 64, 16384, {"split_k": 8, "persistent": False}, bm=64, bn=16, bk=128)
    assert (shared.cluster, shared.remote, shared.alone) == (8, 64 * 16 * 4, False)
    cast = roles_in(4096, 4096, 4096, {"multicast": 2})
    assert (cast.together, cast.cluster, cast.requests) == (2, 1, 192)
    assert roles_in(4096, 4096, 4096, {"pingpong": True}, bm=64).groups == 2
    assert roles_in(4096, 4096, 4096, bm=64).groups == 1


def test_b_of_odd_columns_is_n_major() -> None:
    assert roles_in(1760, 1760, 1760, bn=200).odd == 8
    assert roles_in(1760, 1760, 1760, bn=200, transposed=True).odd == 0
    assert roles_in(1760, 1760, 1760, bn=176).odd == 0


def test_a_flat_grid_needs_no_division() -> None:
    flat = roles_in(4096, 4096, 4096, {"persistent": False}, flat=True)
    assert flat.divisions == 0 < roles_in(4096, 4096, 4096, {"persistent": False}).divisions


def test_what_is_launched() -> None:
    whole = launched_as({"m": 64, "n": 128, "k": 256}, {})
    assert len(whole.maps) == 3 and whole.footprint == 2 * (64 * 256 + 256 * 128 + 64 * 128)
    odd = launched_as({"m": 64, "n": 129, "k": 256}, {})
    assert len(odd.maps) == 1 and odd.footprint == 2 * (64 * 256 + 256 * 129 + 64 * 129)
    unknown = launched_as({"m": 64, "n": 128}, {})
    assert unknown.maps == () and unknown.footprint is None
    without = launched_as({"m": 0, "n": 128, "k": 256}, {})  # which a guard refuses
    assert without.maps == ()
    plain = launched_as({"m": 64, "n": 128, "k": 256}, {"warp_specialize": False})
    assert plain.maps == () and plain.footprint is None


# Where it goes ------------------------------------------------------------------------------------


def test_two_processors_share_a_port() -> None:
    """Copies of as many blocks as there are ports take less; matmuls do not."""
    copying = {"requests": 2048.0}
    assert seconds(67, **copying) > 1.3 * seconds(66, **copying)
    assert seconds(67) == pytest.approx(seconds(66), rel=1e-3)


def test_requests_take_longer_than_matmuls_from_some_number_on() -> None:
    times = [seconds(requests=float(n)) for n in (128, 256, 512, 1024)]
    assert times[0] == times[1] < times[2] < times[3]
    assert estimated_seconds(attrs.evolve(ROLES, requests=2048.0), instances=60).bound == "traffic"
    assert estimated_seconds(instances=60).bound == "matmuls"


def test_clusters_of_four_leave_processors_unused() -> None:
    """31 of them run at once, and 66 of two."""
    assert seconds(124, together=4) < 0.7 * seconds(125, together=4)
    assert seconds(132, together=2) < 0.7 * seconds(133, together=2)


def test_waves_of_blocks_that_take_each_others_place() -> None:
    copying = attrs.evolve(TILE, dots={})
    overhead = seconds(1320, copying, alone=False) - seconds(1320, copying)
    assert overhead == pytest.approx(9 * 0.74e-6, rel=0.05)


def test_threads_take_longer_by_small_loads_and_few_registers() -> None:
    wide, narrow = (attrs.evolve(ROLES, elements=64.0, loads=n) for n in (16.0, 64.0))
    few, fewer = (attrs.evolve(narrow, unit=2, limit=n) for n in (104, 80))
    times = [estimated_seconds(roles).seconds for roles in (ROLES, wide, narrow, few, fewer)]
    assert times == sorted(times)
    assert times[3] > 1.3 * times[2] and times[4] > 2 * times[3]


def test_scattered_elements_and_what_is_computed_first() -> None:
    assert seconds(gathers=400.0) > 2 * seconds()
    computing = [seconds(60, arithmetic=60_000.0, groups=n) for n in (3, 2, 1)]
    assert computing == sorted(computing)
    first = [seconds(60, arithmetic=60_000.0, registers=r) for r in (False, True)]
    assert seconds(60) < first[0] < first[1]


def test_memory_and_power_are_limits() -> None:
    assert estimated_seconds(footprint=2e9).seconds > 2 * estimated_seconds().seconds
    hot = estimated_seconds(instances=100_000)
    assert hot.parts["power"] > 0.9 * hot.parts["matmuls"]
    assert hot.seconds > hot.parts["power"] == pytest.approx(1e5 * TILE.dots[16] / 760e12)


def test_blocks_that_share_an_instance() -> None:
    """Few deep instances gain by a cluster, many do not, and neither do shallow ones."""
    alone = attrs.evolve(ROLES, requests=128.0, num_stages=4)
    shared = attrs.evolve(alone, cluster=8, remote=16384.0)
    assert (
        estimated_seconds(shared, DEEP, 1).seconds < 0.5 * estimated_seconds(alone, DEEP, 1).seconds
    )
    assert estimated_seconds(shared, DEEP, 1).parts["cluster barriers"] > 1.2e-6
    assert (
        estimated_seconds(shared, DEEP, 1320).seconds > estimated_seconds(alone, DEEP, 1320).seconds
    )
    flat = attrs.evolve(DEEP.divide_steps(128), steps=2)
    assert estimated_seconds(shared, flat, 1).seconds > estimated_seconds(alone, flat, 1).seconds
    assert DEEP.divide_steps(3).steps == 86 and DEEP.divide_steps(1) is DEEP


def test_matmuls_by_warpgroups_are_ranked_as_they_were_measured() -> None:
    """Microseconds at 4096 of warp-specialized f16 matmuls, on one H200
    (benchmarks/matmul_shapes.py)."""
    measured = {
        (128, 256, 64): 192.6, (128, 128, 64): 209.4, (64, 256, 64): 212.6, (128, 192, 64): 223.2,
        (64, 128, 64): 251.0, (64, 64, 64): 357.8,
    }  # fmt: skip
    meter, numbers = GpuMeter("sm_90a"), numbers_in(inputs(4096))
    reference = problem(
        4096, problem(4096).space.with_choices(num_warps=(None,), num_stages=(None,))
    )
    expected: dict[Any, float] = {}
    for m, n, k in measured:
        chosen = {"M": m, "N": n, "K": k, "num_warps": None, "num_stages": None}
        expected[m, n, k] = meter.survey(reference.job(chosen), numbers).seconds or 0.0
    assert min(expected, key=lambda t: expected[t]) == (128, 256, 64)
    assert all(0.7 < expected[t] * 1e6 / measured[t] < 1.4 for t in measured)
