"""Schedules found from algorithms alone: right, and what one would choose where that is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.builder import F16, F32
from tileir.frontends.decoupled import Tensor, parse
from tileir.frontends.decoupled.autoschedule import autoschedule, estimate_seconds as alone
from tileir.frontends.decoupled.cost_model import GpuRates, estimate
from tileir.frontends.decoupled.explore import space
from tileir.frontends.decoupled.fusion import group
from tileir.frontends.decoupled.shorthand import expand
from tileir.frontends.decoupled.tensors import row_major

from . import definitions as d

SIZES: dict[str, dict[str, int]] = {
    "ADD": {"x": 5, "y": 70}, "SOFTMAX": {"x": 5, "y": 70}, "RMS_NORM": {"x": 5, "y": 70},
    "SWISH": {"x": 5, "y": 70}, "ROW_TOTALS": {"x": 3, "k": 5000}, "GEGLU": {"x": 3, "y": 300},
    "TWO_MATMULS": {"m": 33, "n": 20, "k": 17, "l": 40}, "DYT": {"x": 4, "y": 33},
    "ATTENTION": {"m": 20, "n": 33, "k": 19, "l": 40}, "TVD": {"x": 5, "y": 90},
    "KL": {"x": 5, "y": 90}, "MATMUL": {"m": 40, "n": 20, "k": 700},
    "MMSIGMOID": {"m": 17, "n": 33, "k": 40}, "INNER_2MM": {"m": 17, "n": 20, "k": 16, "l": 40},
    "FLASH": {"h": 2, "m": 20, "n": 16, "k": 16, "l": 150},
}  # fmt: skip


def f32(*shape: int) -> Tensor:
    return row_major(F32, shape)


def f16(*shape: int) -> Tensor:
    return row_major(F16, shape)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SIZES)
def test_schedules_found_are_right(name: str) -> None:
    program, sizes = parse(getattr(d, name)), SIZES[name]
    rng = np.random.default_rng(1)
    inputs = program.function().arguments(sizes, lambda shape: rng.random(shape, np.float32))
    schedule = autoschedule(program, inputs, count=2)
    assert len(schedule) == 2 and schedule[0].seconds <= schedule[1].seconds
    for one in schedule:
        function = one.program.function()
        expected = function.reference(*inputs)
        np.testing.assert_allclose(function(*inputs), expected, rtol=1e-4, atol=1e-4)


def best(source: str, *arguments: Any, **types: str) -> Any:
    (result,) = autoschedule(parse(source), arguments, types=types)
    target = result.program.compiled_funcs[0]
    return result, result.program.funcs[target].schedule


def test_a_large_matmul_gets_large_tiles_in_groups() -> None:
    _, schedule = best(d.MATMUL, f16(4096, 4096), f16(4096, 4096), matmul="float16")
    assert schedule.blocks["m"] * schedule.blocks["n"] >= 128 * 128
    assert any(level.inner for level in schedule.order)
    assert schedule.num_stages >= 3


def test_instances_of_a_shallow_matmul_write_rows() -> None:
    """Its result is most of what moves."""
    _, schedule = best(d.MMSIGMOID, f16(8192, 128), f16(128, 8192), mmsigmoid="float16")
    assert [(level.label, level.inner) for level in schedule.order] == [("m", None), ("n", None)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["FLASH", "MATMUL", "SOFTMAX", "INNER_2MM"])
def test_what_schedules_share_of_a_search_is_what_each_has_alone(name: str) -> None:
    program, sizes = parse(getattr(d, name)), SIZES[name]
    arguments = program.function().arguments(sizes, lambda shape: np.zeros(shape, np.float32))
    schedule = autoschedule(program, arguments, count=30)
    assert len(schedule) > 15
    for one in schedule:
        assert one.seconds == pytest.approx(alone(one.program, arguments), rel=1e-12)


def test_a_deep_matmul_is_split_along_k() -> None:
    best_schedule, schedule = best(d.MATMUL, f16(64, 16384), f16(16384, 64))
    assert "k" in schedule.blocks
    launches = best_schedule.program.function().plan(f16(64, 16384), f16(16384, 64)).launches
    assert len(launches) == 2 and launches[0].instances >= 66


@pytest.mark.slow
def test_attention_is_one_kernel_that_goes_over_the_keys_once() -> None:
    key = Tensor(F16, (64, 128, 2048), (2048 * 128, 1, 128))
    best_schedule, schedule = best(d.FLASH, f16(64, 2048, 128), key, f16(64, 2048, 128), 0.1)
    assert schedule.online == {"l"} and schedule.blocks["m"] >= 64
    assert not {f.schedule.fusion for f in best_schedule.program.funcs.values()} - {
        f.schedule.fusion for f in group(best_schedule.program.definitions, "attention").funcs
    }


@pytest.mark.slow
def test_of_causal_attention_the_longest_rows_come_first() -> None:
    score = "rdot(Q[h, m, k], K[h, k, l], k) * scale"
    source = d.FLASH.replace(score, f"where(l <= reshape(m, m, 1), {score}, -inf)")
    key = Tensor(F16, (16, 128, 2048), (2048 * 128, 1, 128))
    best_schedule, schedule = best(source, f16(16, 2048, 128), key, f16(16, 2048, 128), 0.1)
    assert schedule.reverse == {"m"} and schedule.order[0].label == "m"
    assert "reverse(m)" in best_schedule.schedule


def test_rows_that_fit_stay_where_they_are() -> None:
    best_schedule, schedule = best(d.SOFTMAX, f32(16384, 4096))
    assert (
        schedule.tensors["y"] == 0
        and len(best_schedule.program.function().plan(f32(8, 64)).launches) == 1
    )


def test_few_long_rows_are_shared_by_blocks() -> None:
    _, schedule = best(d.ROW_TOTALS, f32(2, 1 << 22))
    assert schedule.blocks["k"] < 1 << 22


def test_estimates_follow_what_a_schedule_does() -> None:
    def seconds(schedule: str, *shape: int) -> float:
        program = parse(d.RELU).with_schedule(schedule)
        plan = program.function().plan(f32(*shape))
        return estimate(
            group(program.definitions, "relu_out"), plan.sizes, plan.tensors, {}
        ).seconds

    whole = "relu_out.block(x:1, y:1024); relu_out.tensorize(y:0); relu_out.num_warps(4);"
    lone = "relu_out.tensorize(y:1024); relu_out.num_warps(4);"
    narrow = "relu_out.block(x:16, y:1); relu_out.tensorize(x:0); relu_out.num_warps(4);"
    assert seconds(whole, 8192, 8192) < seconds(narrow, 8192, 8192) < seconds(lone, 8192, 8192)
    assert seconds(whole, 8192, 8192) == pytest.approx(2 * 4 * 8192**2 / 4.2e12, rel=0.4)


FUSED = "exp_A @ sum_exp_A.y; sum_exp_A @ softmax_out.x; "
SPACES = [
    ("RELU", "relu_out = x:{1|4|16}/0 y:{512|2048|4096}/0 w{1|4|16}", [f32(8192, 8192)]),
    ("RELU", "relu_out = x:{1|4|16}/0 y:{512|2048|4096}/0 w{1|4|16}", [f32(100, 5000)]),
    ("SOFTMAX", FUSED + "softmax_out = x:{1|4|8}/0 y:/{0|1024} w{1|4|8}", [f32(16384, 4096)]),
    ("SOFTMAX", FUSED + "softmax_out = x:{1|4|8}/0 y:/{0|1024} w{1|4|8}", [f32(300, 77)]),
    (
        "MATMUL",
        "matmul = m:{64|128|256}/0 n:{64|128|256}/0 k:/{32|64} w{4|8} s{3|4}",
        [f16(4096, 4096), f16(4096, 4096)],
    ),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "template", "arguments"), SPACES)
def test_what_is_chosen_is_within_a_twentieth_of_the_best_of_a_search(
    name: str, template: str, arguments: list[Tensor]
) -> None:
    """Both by the estimate, which is all there is without a GPU."""
    types = {"matmul": "float16"} if name == "MATMUL" else {}
    program = parse(getattr(d, name))
    (chosen,) = autoschedule(program, arguments, types=types)
    target = chosen.program.compiled_funcs[0]

    bare = program.without_schedule().with_schedule(f"{target}.compile();")
    legal, illegal = space(bare, template)
    estimates = [estimated_seconds(one, target, arguments, types) for one in legal.values()]
    assert not illegal and len(estimates) >= 18
    assert chosen.seconds <= min(estimates) * 1.05


def estimated_seconds(
    program: Any, target: str, arguments: list[Tensor], types: dict[str, str]
) -> float:
    plan = program.function(target).plan(*arguments, types=types)
    return estimate(group(program.definitions, target), plan.sizes, plan.tensors, {}).seconds


def test_a_tensor_beyond_its_dimension_is_all_of_it() -> None:
    def seconds(size: int) -> float:
        program = parse(d.SOFTMAX).without_schedule().with_schedule("softmax_out.compile();")
        one = program.with_schedule(expand(f"{FUSED} softmax_out = x:8/0 y:/{size} w4"))
        return estimated_seconds(one, "softmax_out", [f32(300, 77)], {})

    assert seconds(1024) == seconds(128) == seconds(0)


FREE = GpuRates(
    memory=math.inf, cache=math.inf, mapped=math.inf, elements=math.inf, latency=0, start=0, warp=0,
    matmuls=dict.fromkeys(("f16", "f32"), math.inf), launch=1.0,
)  # fmt: skip
"""A machine on which nothing but a launch takes time: estimates count kernels."""


@for_each(
    ("schedule", "kernels"),
    [
        ("", 3),
        ("exp_A @ sum_exp_A.y", 3),  # it has another reader, and a kernel for it
        (FUSED, 1),
        ("sum_exp_A @ softmax_out.x", 2),
        ("sum_exp_A = y:16/0", 4),
        (FUSED + "softmax_out = x:8 y:16/0", 1),
    ],
)
def test_kernels_of_a_schedule_take_time_one_after_the_other(schedule: str, kernels: int) -> None:
    bare = parse(d.SOFTMAX).without_schedule().with_schedule("softmax_out.compile();")
    program = bare.with_schedule(expand(schedule))
    assert alone(program, [f32(64, 128)], machine=FREE) == kernels
    assert len(program.function().plan(f32(64, 128)).launches) == kernels


@for_each("name", ["SOFTMAX", "SWISH", "TWO_MATMULS", "ATTENTION"])
def test_where_only_launches_take_time_a_single_kernel_is_chosen(name: str) -> None:
    program = parse(getattr(d, name))
    arguments = program.function().arguments(SIZES[name], lambda shape: f32(*shape))
    (schedule,) = autoschedule(program, arguments, machine=FREE)
    assert schedule.seconds == 1
    plan = schedule.program.function().plan(*arguments)
    assert len(plan.launches) == 1 and not plan.scratch


def test_a_search_is_for_the_func_that_is_named_or_compiled_or_the_last() -> None:
    source = "Func f, g; In A; Var x; f[x] = A[x] + 1; g[x] = f[x] * 2;"
    for more, name, target in (
        ("", None, "g"), ("f.compile();", None, "f"), ("g.compile(); f.compile();", "f", "f"),
        ("f.compile(); f.block(x:3); f.num_warps(1);", None, "f"),
    ):  # fmt: skip
        (schedule,) = autoschedule(parse(source + more), [f32(5000)], name=name)
        assert schedule.program.compiled_funcs == (target,)
        assert schedule.program.funcs[target].schedule.blocks["x"] >= 512
    both = parse(source + "f.compile(); g.compile();")
    assert alone(both, [f32(64)], name="f", machine=FREE) == 1
    assert alone(both, [f32(64)], name="g", machine=FREE) == 2


def test_as_many_schedules_as_asked_for_each_another() -> None:
    for count in (1, 3, 8):
        schedules = autoschedule(parse(d.RELU), [f32(100, 5000)], count=count)
        assert len({one.schedule for one in schedules}) == count == len(schedules)
        seconds = [one.seconds for one in schedules]
        assert seconds == sorted(seconds)
    every = autoschedule(parse(d.RELU), [f32(100, 5000)], count=1000)
    assert len(every) == 9  # of test_candidates.py


def test_sizes_that_no_array_has_are_arguments_of_a_search() -> None:
    source = "Func f; Var x, y; f[x, y] = reshape(x, x, 1) * 10 + y; f.compile();"
    (schedule,) = autoschedule(parse(source), [], x=7, y=2000)
    assert schedule.program.funcs["f"].schedule.blocks["y"] in (512, 1024, 2000)
    assert schedule.seconds == alone(schedule.program, [], x=7, y=2000)
