"""What schedules say to the compiler and the caches: policies of tensors, roles, instances."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend import compile as compiled
from tileir.builder import F16
from tileir.frontends.decoupled import parse
from tileir.frontends.decoupled.program import Wrapper
from tileir.frontends.decoupled.shorthand import expand, shorten
from tileir.frontends.decoupled.tensors import row_major
from tileir.textual import print_module

NORM = """
Func norm; In X, W; Var x, y; RVar k;
norm[x, y] = X[x, y] * rsqrt(rsum(pow(X[x, k], 2), k) / len(y) + 0.5) * W[y];
norm.compile();
"""
MATMUL = """
Func mms; In A, B; Var m, n; RVar k;
mms[m, n] = sigmoid(rdot(A[m, k], B[k, n], k));
mms.compile(); mms.math(approx);
"""
ON = pytest.mark.parametrize("on", ["interpreter", "simt"])


def policies(schedule: str) -> list[tuple[str, str]]:
    """By access, in the order of the text: load or store, and its policy."""
    function = parse(NORM).with_schedule(expand(schedule)).function()
    text = print_module(function.module(np.zeros((4, 64), np.float32), np.zeros(64, np.float32)))
    lines = [line for line in text.splitlines() if re.search(r"= load|store", line)]
    results = [re.search(r"eviction = (\w+)", line) for line in lines]
    kinds = ["store" if "store" in line else "load" for line in lines]
    return list(zip(kinds, [m[1] if m else "normal" for m in results], strict=True))


def test_what_is_reread_is_evicted_after_the_last_time() -> None:
    assert policies("norm = x:1 y:/16 k:/16 evict_last(X, W)") == [
        ("load", "last"), ("load", "first"), ("load", "last"), ("store", "normal"),
    ]  # fmt: skip
    assert policies("norm = x:1 y:/0 k:/0 evict_last(X)") == [
        ("load", "last"), ("load", "normal"), ("store", "normal"),
    ]  # fmt: skip


def test_what_is_not_needed_later_goes_first() -> None:
    stated = policies("norm = x:1 y:/16 k:/16 evict_first(X, norm)")
    assert stated == [("load", "first"), ("load", "first"), ("load", "normal"), ("store", "first")]


@pytest.mark.sampled(1)
@ON
@pytest.mark.parametrize(
    "schedule",
    ["norm = x:1 y:/16 k:/16 evict_last(X, W)", "norm = x:2/0 y:/0 evict_first(X, norm)"],
)  # fmt: skip
def test_policies_change_no_result(on: str, schedule: str) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.random((5, 64), np.float32), rng.random(64, np.float32)
    function = parse(NORM).with_schedule(expand(schedule)).function()
    np.testing.assert_allclose(function(*inputs, on=on), function.reference(*inputs), rtol=1e-5)


def product(schedule: str) -> Wrapper:
    return parse(MATMUL).with_schedule(expand(f"mms = m:64/0 n:32/0 k:/0 w4 {schedule}")).function()


HALVES = row_major(F16, (256, 32)), row_major(F16, (32, 512))


@pytest.mark.parametrize(
    ("schedule", "roles", "loop"),
    [("", True, True), ("persistent(off)", True, False), ("roles(off)", False, False)],
)
def test_matmuls_with_and_without_roles_and_loops(schedule: str, roles: bool, loop: bool) -> None:
    plan = product(schedule).plan(*HALVES, types={"mms": "float16"})
    (launch,) = plan.launches
    done = compiled(plan.module, "sm_90a", kernel=launch.kernel)
    text = print_module(done.tir_at("pipelined"))
    assert ("gpu.role" in text) == roles
    assert (re.search(r"persistent = [1-9]", text) is not None) == loop


def test_a_sigmoid_is_a_power_and_a_reciprocal() -> None:
    plan = product("").plan(*HALVES, types={"mms": "float16"})
    ptx = compiled(plan.module, "sm_90a").ptx
    assert "div." not in ptx
    assert ptx.count("rcp.approx.ftz.f32") == ptx.count("ex2.approx.ftz.f32") == 64 * 32 // 128


@pytest.mark.sampled(3)
@ON
@pytest.mark.parametrize("schedule", ["persistent(off)", "roles(off)", "persistent(pingpong)"])
def test_matmuls_are_right(on: str, schedule: str) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float16) for shape in ((96, 32), (32, 40))]
    options = {"target": "sm_90a"} if on == "simt" else {}
    function = product(schedule)
    result = function(*inputs, on=on, options=options)
    np.testing.assert_allclose(result, function.reference(*inputs), rtol=1e-4, atol=1e-5)


def test_they_are_part_of_a_schedule_in_short() -> None:
    text = "mms = m:64/0 n:32/0 k:/0 evict_first(A, mms) evict_last(B) persistent(off) w4"
    program = parse(MATMUL.replace(" mms.math(approx);", "")).with_schedule(expand(text))
    assert shorten(program.definitions) == text + " compile()"


@for_each(("primitive", "first", "second"), [
    ("reverse", "x", "y"), ("evict_first", "X", "W"), ("evict_last", "X", "W"),
])  # fmt: skip
def test_primitives_take_several_names_one_by_one(primitive: str, first: str, second: str) -> None:
    """In either order."""
    blocks = "norm.block(x:2, y:4);"
    schedules = [
        parse(NORM + blocks + "".join(f"norm.{primitive}({names});" for names in names_of_each))
        .definitions.funcs["norm"]
        .schedule
        for names_of_each in ([f"{first}, {second}"], [first, second], [second, first])
    ]
    assert schedules[0] == schedules[1] == schedules[2]
    assert getattr(schedules[0], primitive) == {first, second}
