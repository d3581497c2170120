"""Where kernels run for arrays of the host: native code, unless an instance may wait."""

import numpy as np
import pytest

from tileir.backend.cpu.spin_waits import may_spin_wait
from tileir.executor import executor, on_host
from tileir.textual import parse

SCALE = """tir 1.0
define kernel void @scale(f32* %x) {
entry:
  %i = make_range i32<64>
  %xs = splat f32*<64> %x
  %p = getelementptr f32*<64> %xs, %i
  %v = load f32<64> %p
  %w = fadd f32<64> %v, %v
  store %p, %w
  ret
}
"""
TICKETS = """tir 1.0
define kernel void @tickets(i32* %turn, i32* %order) {
entry:
  %me = program_id i32 {axis = 0}
  %last = sub i32 3, %me
  br wait
wait:
  %now = atomic_rmw i32 %turn, 0 {op = add}
  %mine, _ = icmp (i1, i1) %now, %last {predicate = eq}
  cond_br %mine, go, wait
go:
  %to = getelementptr i32* %order, %me
  store %to, %now
  %_ = atomic_rmw i32 %turn, 1 {op = add}
  ret
}
"""
ASSEMBLY = """tir 1.0
define kernel void @lanes(i32* %to) {
entry:
  %lane = inline_asm i32 {text = "mov.u32 $0, %laneid;", constraints = "=r"}
  store %to, %lane
  ret
}
"""


def test_native_code_is_the_default() -> None:
    module = parse(SCALE)
    assert on_host(module) == "cpu"
    x = np.arange(64, dtype=np.float32)
    executor(on_host(module)).launch(module, None, 1, [x])
    assert (x == 2 * np.arange(64)).all()


def test_what_was_compiled_is_compiled_once() -> None:
    module, x = parse(SCALE), np.ones(64, np.float32)
    first, second = (executor("cpu").launch(module, None, 1, [x]) for _ in range(2))
    other = executor("cpu").launch(module, None, 1, [x], opt_level=1)
    assert first is second and other is not first


def test_instances_that_wait_alternate() -> None:
    """The last instance goes first: run to its end, the first would wait for ever."""
    module = parse(TICKETS)
    assert may_spin_wait(module) and on_host(module) == "interpreter"
    current, order = np.zeros(1, np.int32), np.zeros(4, np.int32)
    executor(on_host(module)).launch(module, None, 4, [current, order])
    assert order.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("old", "new", "waits"),
    [
        ("%now = atomic_rmw i32 %turn, 0 {op = add}", "%now = load i32 %turn", False),
        (
            "%now = atomic_rmw i32 %turn, 0 {op = add}",
            "%now = load i32 %turn {volatile = true}",
            True,
        ),
    ],
)
def test_only_what_others_may_change_is_waited_for(old: str, new: str, waits: bool) -> None:
    assert may_spin_wait(parse(TICKETS.replace(old, new))) == waits


def test_what_no_cpu_runs_is_interpreted() -> None:
    assert on_host(parse(ASSEMBLY)) == "interpreter"
