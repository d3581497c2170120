"""Where barriers stand."""

from __future__ import annotations

import pytest

from tests.backend.shared_memory.barrier_cases import HEAD, barriers_of, expected_barriers, kernel
from tests.backend.shared_memory.barrier_cases_control_flow import ORDER, PATHS
from tests.backend.shared_memory.barrier_cases_global import GLOBAL
from tests.backend.shared_memory.barrier_cases_loops import LOOPS
from tests.backend.shared_memory.barrier_cases_shared import SHARED
from tileir.backend.shared_memory.place_barriers import place_barriers
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.ops.gpu import BlockBarrier
from tileir.passmanager import run
from tileir.textual import parse


@pytest.mark.parametrize("name", GLOBAL)
def test_through_global_memory(name: str) -> None:
    assert barriers_of(GLOBAL[name]) == expected_barriers(GLOBAL[name])


@pytest.mark.parametrize("name", ORDER)
def test_releases_and_fences(name: str) -> None:
    assert barriers_of(ORDER[name]) == expected_barriers(ORDER[name])


@pytest.mark.parametrize("name", PATHS)
def test_along_the_ways_that_control_takes(name: str) -> None:
    assert barriers_of(PATHS[name]) == expected_barriers(PATHS[name])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_whose_back_edges_synchronize(name: str) -> None:
    assert barriers_of(LOOPS[name]) == expected_barriers(LOOPS[name])


def many(count: int, first: str, line: str, mark: str) -> str:
    """`count` accesses like `first`, each an element further, then `line` after all of them."""
    lines = [f"  %p{i} = getelementptr f32* %x, i32 {i}\n{first.format(i)}" for i in range(count)]
    end = f"  %far = getelementptr f32* %x, i32 {count}\n  {mark}\n  {line}\n"
    return "\n".join(lines) + "\n" + end


LOADS, STORES = "  %v{0} = load f32 %p{0}", "  store %p{0}, 1.0"


def test_many_accesses_of_one_parameter_are_distinguished() -> None:
    for body in (
        many(64, LOADS, "store %far, 1.0", ""),
        many(65, LOADS, "store %far, 1.0", "!block"),
        many(64, STORES, "%a = load f32 %far", ""),
        many(65, STORES, "%a = load f32 %far", "!block"),
        many(65, STORES, "%a = load f32<64, #a> %yp", ""),
    ):
        assert barriers_of(body) == expected_barriers(body)


def test_without_tiles_the_number_of_warps_is_not_known() -> None:
    text = """tir 1.0
    stage "allocated"
    define kernel void @k(f32* %x) {num_warps = 1} {
    entry:
      store %x, 1.0
      %a = load f32 %x
      ret
    }
    """
    function = parse(text).kernel()
    for warps, kind in ((None, False), (1, True), (2, False)):
        ops = place_barriers(function, SharedMemoryPlan.of(function), warps).ops
        assert [op.warp for op in ops if isinstance(op, BlockBarrier)] == [kind]


def test_where_nothing_is_written_no_thread_waits() -> None:
    function = kernel("  %a = load f32<64, #a> %p\n  %b = load f32<64, #a> %q\n")
    assert place_barriers(function, SharedMemoryPlan.of(function)) is function
    lonely = kernel("  store %p, %v\n  %a = load f32<64, #a> %p\n")
    assert place_barriers(lonely, SharedMemoryPlan.of(lonely)) is lonely


def test_a_barrier_stands_where_the_op_does() -> None:
    text = HEAD + '  store %p, %v\n  %a = load f32<64, #a> %q loc("f.py":7:3)\n  ret\n}\n'
    function = run(parse(text), "insert-barriers").module.kernel()
    (barrier,) = [op for op in function.ops if isinstance(op, BlockBarrier)]
    assert barrier.location is not None and barrier.location.line == 7


@pytest.mark.parametrize("name", SHARED)
def test_through_shared_memory(name: str) -> None:
    assert barriers_of(SHARED[name]) == expected_barriers(SHARED[name])


def test_blocks_that_need_none_stay() -> None:
    lines = "  store %p, %v\n  br next\nnext:\n  %a = load f32<64, #a> %q\n  ret\n}\n"
    before = parse(HEAD + lines).kernel()
    after = place_barriers(before, SharedMemoryPlan.of(before))
    assert after.blocks["entry"] is before.blocks["entry"]
    assert after.blocks["next"] is not before.blocks["next"]
