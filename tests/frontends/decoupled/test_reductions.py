"""Reductions: cut into blocks both ways, and kept up to date in one pass."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

import tileir.backend
from tests.sizes import for_each
from tileir.frontends.decoupled import CompilationError, parse

from . import definitions as d

ON = pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).random(shape, np.float32) + np.float32(0.25)


def reduction_function(op: str, schedule: str, post: str = "", reduced: str = "A[x, k] * 2") -> Any:
    source = f"Func out; In A; Var x; RVar k; out[x] = {op}({reduced}, k){post}; out.compile();"
    return parse(source).with_schedule(schedule).function()


@for_each("dtype", ["int8", "int16", "int32", "int64", "float16", "float64"])
@for_each("op", ["rsum", "rmax", "rmin"])
@for_each("sign", [-1, 1])
@for_each("tensors", ["x:0, k:0", "x:0, k:16", ""])
def test_reductions_of_every_type_begin_with_their_neutral_element(
    dtype: str, op: str, sign: int, tensors: str
) -> None:
    schedule = f"out.block(x:4); {f'out.tensorize({tensors});' if tensors else ''}"
    function = reduction_function(op, schedule, reduced="A[x, k]")
    A = (sign * (np.arange(6 * 21).reshape(6, 21) % 13 + 2)).astype(dtype)
    result = function(A, on="interpreter")
    combine = {"rsum": np.sum, "rmax": np.max, "rmin": np.min}[op]
    assert (result == combine(A.astype(np.float64), axis=1)).all()


@for_each("op", ["rsum", "rmax", "rmin"])
@for_each("extra", ["", "out.atomic(k);"])
def test_blocks_of_a_reduction_are_joined(op: str, extra: str) -> None:
    check_blocks(op, extra, "interpreter")


@for_each(("dtype", "large"), [("int32", 2**28 + 1), ("int64", 2**56 + 1), ("float32", 2**21 + 1),
                               ("float64", 2**49 + 0.5)])  # fmt: skip
@for_each("op", ["rsum", "rmax", "rmin"])
def test_parts_have_every_bit_of_what_is_reduced(dtype: str, large: Any, op: str) -> None:
    """The parts of a sum cancel, but for their last bits."""
    A = np.array([[large] * 4 + [1 - large] * 4] * 2, dtype)
    result = reduction_function(op, "out.block(x:2, k:4);", reduced="A[x, k]")(A)
    assert (result == result.dtype.type({"rsum": 4, "rmax": large, "rmin": 1 - large}[op])).all()


@pytest.mark.sampled(1)
@ON
@pytest.mark.parametrize("op", ["rsum", "rmax", "rmin"])
@pytest.mark.parametrize("extra", ["", "out.atomic(k);"])
def test_blocks_are_joined_on_every_executor(op: str, extra: str, on: str) -> None:
    check_blocks(op, extra, on)


def check_blocks(op: str, extra: str, on: str) -> None:
    schedule = f"out.block(x:4, k:32); out.tensorize(x:0, k:16); {extra}"
    function, A = reduction_function(op, schedule), normal(6, 100)
    result = function(A, on=on)
    np.testing.assert_allclose(result, function.reference(A), rtol=1e-5, atol=1e-5)
    assert [launch.instances for launch in function.plan(A).launches] == (
        [2, 8] if extra else [8, 2]
    )


@for_each("op", ["rsum", "rmax", "rmin"])
@for_each("reduced", ["A[x, k]", "-A[x, k]", "A[x, k] * 2", "A[x, k] + 1", "A[x, k] * (k + 1)"])
@for_each("sign", [-1, 1])
@for_each("tensors", ["x:0, k:0", "x:0, k:16", "k:16", ""])
def test_positions_outside_of_a_tensor_take_no_part(
    op: str, reduced: str, sign: int, tensors: str
) -> None:
    """Of what is read, and of what is computed, whatever its sign: the neutral element of one
    reduction is 0, and of the others it is not."""
    schedule = f"out.block(x:4); {f'out.tensorize({tensors});' if tensors else ''}"
    function = reduction_function(op, schedule, reduced=reduced)
    A = (sign * (np.arange(6 * 21).reshape(6, 21) % 13 + 2)).astype(np.float32)
    result = function(A, on="interpreter")
    np.testing.assert_allclose(result, function.reference(A), rtol=1e-6)


@for_each("extra", ["", "out.atomic(k);"])
@for_each("levels", ["k, x", "k:ki/2, x, ki", "x:xi/2, k, xi", "x:xi/2, k:ki/2, xi, ki",
                     "k:ki/2, x:xi/2, ki, xi"])  # fmt: skip
def test_the_grid_of_a_reduction_that_is_cut_may_be_mapped(levels: str, extra: str) -> None:
    """Levels of the dimension that is cut are none of the kernels without it."""
    schedule = f"out.block(x:2, k:16); out.tensorize(x:0, k:16); out.map({levels}); {extra}"
    function, A = reduction_function("rsum", schedule), normal(3, 40)
    np.testing.assert_allclose(function(A), function.reference(A), rtol=1e-5, atol=1e-5)


def test_reductions_may_be_cut_within_an_expression() -> None:
    source = """
    Func out; In A, B, W; SIn eps; Var x, y; RVar k;
    out[x, y] = A[x, y] * rsqrt(rsum(pow(A[x, k], 2), k) / len(y) + eps) * W[y]
        + reshape(rmax(B[k, x], k), x, 1);
    out.block(x:2, y:16, k:8); out.tensorize(x:0, y:0, k:0); out.map(x:xi/2, y, xi);
    out.compile();
    """
    function = parse(source).function()
    inputs = normal(5, 33), normal(33, 5), normal(33), 0.25
    assert len(function.plan(*inputs).launches) == 3
    np.testing.assert_allclose(function(*inputs), function.reference(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_matmuls_are_cut_along_their_inner_dimension() -> None:
    split = "matmul.block(m:16, n:16, k:32); matmul.tensorize(m:0, n:0, k:16);"
    A, B = normal(33, 70), normal(70, 20)
    for schedule in (split, split + "matmul.atomic(k);"):
        function = parse(d.MATMUL).with_schedule(schedule).function()
        assert len(function.plan(A, B).launches) == 2
        np.testing.assert_allclose(function(A, B), A @ B, rtol=1e-5, atol=1e-5)


def test_a_block_as_large_as_the_dimension_is_one_kernel() -> None:
    function = reduction_function("rsum", "out.block(k:128);")
    assert len(function.plan(normal(3, 100)).launches) == 1


@pytest.mark.slow
def test_nested_reductions_of_several_dimensions() -> None:
    source = """
    Func out; In A; Var x; RVar k, l;
    out[x] = rsum(rmax(A[x, k, l] + k, l) * 2, k) + rmin(rsum(A[x, k, l], k), l);
    out.tensorize(x:2, k:4, l:8); out.compile();
    """
    for extra in ("", "out.block(k:4);", "out.block(k:4, l:9, x:2);"):
        function, A = parse(source).with_schedule(extra).function(), normal(3, 7, 13)
        np.testing.assert_allclose(function(A), function.reference(A), rtol=1e-5, atol=1e-5)


# Online -------------------------------------------------------------------------------------------

SOFTMAX = """
Func out, top, e, total; In A; Var x, y; RVar k;
top[x] = rmax(A[x, k], k);
e[x, k] = exp(A[x, k] - reshape(top[x], x, 1));
total[x] = rsum(e[x, k], k);
out[x, y] = exp(A[x, y] - reshape(top[x], x, 1)) / reshape(total[x], x, 1);
out.block(x:4); out.tensorize(x:0, y:32, k:32);
top.fuse_at(out, x); e.fuse_at(total, k); total.fuse_at(out, x);
out.compile();
"""


def loops(function: Any, *args: Any) -> int:
    (kernel,) = function.plan(*args).module.functions.values()
    return sum(label.startswith("loop") for label in kernel.blocks)


@pytest.mark.sampled(1)
@ON
def test_softmax_in_two_passes(on: str) -> None:
    A = normal(6, 100) * 50
    plain, online = (
        parse(SOFTMAX).with_schedule(s).function() for s in ("", "out.online(k);")
    )  # fmt: skip
    assert (loops(plain, A), loops(online, A)) == (3, 2)
    np.testing.assert_allclose(online(A, on=on), online.reference(A), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@ON
def test_flash_attention(on: str) -> None:
    inputs = normal(2, 19, 16) * 3, normal(2, 16, 70) * 3, normal(2, 70, 24), 0.25
    function = parse(d.FLASH).with_schedule(d.FLASH_SCHEDULE).function()
    (kernel,) = function.plan(*inputs).module.functions.values()
    assert loops(function, *inputs) == 1
    assert sum(op.mnemonic == "dot" for op in kernel.ops) == 2
    np.testing.assert_allclose(
        function(*inputs, on=on), function.reference(*inputs), rtol=1e-4, atol=1e-5
    )


CAUSAL = d.FLASH.replace(
    "rdot(Q[h, m, k], K[h, k, l], k) * scale",
    "where(l <= reshape(m, m, 1), rdot(Q[h, m, k], K[h, k, l], k) * scale, -inf)",
)


@pytest.mark.sampled(1)
@ON
def test_causal_attention_ends_where_nothing_more_is_seen(on: str) -> None:
    inputs = normal(1, 70, 16), normal(1, 16, 70), normal(1, 70, 16), 0.25
    for source in (CAUSAL, CAUSAL.replace("l <= reshape(m, m, 1)", "reshape(m, m, 1) >= l")):
        function = parse(source).with_schedule(d.FLASH_SCHEDULE).function()
        result, expected = function(*inputs, on=on), function.reference(*inputs)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
        assert has_exit(function, *inputs)


@pytest.mark.parametrize("block", [1, 4, 13, 16])
@pytest.mark.parametrize("positions", [1, 13, 16])
def test_causal_attention_of_any_number_of_blocks(block: int, positions: int) -> None:
    """One block of rows included, whose last position is known."""
    inputs = normal(2, positions, 8), normal(2, 8, positions), normal(2, positions, 8), 0.25
    schedule = d.FLASH_SCHEDULE.replace("m:16", f"m:{block}").replace("l:32", "l:4")
    function = parse(CAUSAL).with_schedule(schedule).function()
    result = function(*inputs, on="interpreter")
    np.testing.assert_allclose(result, function.reference(*inputs), rtol=1e-4, atol=1e-5)


LAZY = """
Func out, top, total, p, s; In Q, K, V; Var m, n; RVar k, l;
s[m, l] = {score};
top[m] = rmax(s[m, l], l);
p[m, l] = exp2(s[m, l] * (1.5 / sqrt(len(k))) - reshape(top[m] * (1.5 / sqrt(len(k))), m, 1));
total[m] = rsum(p[m, l], l);
out[m, n] = {value};
out.block(m:16); out.tensorize(m:0, n:0, k:0, l:16); out.online(l); out.math(approx);
s.fuse_at(p, l); top.fuse_at(out, m); p.fuse_at(out, l); total.fuse_at(out, m); out.compile();
"""
SCORE = "rdot(Q[m, k], K[k, l], k)"
VALUES = (
    "rdot(p[m, l], V[l, n], l) / reshape(total[m], m, 1)",
    "rdot(p[m, l], V[l, n], l) - reshape(total[m], m, 1)",
    "rdot(p[m, l], V[l, n], l) + reshape(top[m] * total[m], m, 1)",
)


@pytest.mark.slow
@pytest.mark.parametrize("score", [SCORE, f"where(l <= reshape(m, m, 1), {SCORE}, -inf)"])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("step", [0.01, 3.0])
@ON
def test_levels_that_lag_maxima_change_no_results(
    on: str, step: float, value: str, score: str
) -> None:
    """Scores that grow with every block, by less and by more than a level may lag."""
    q, k, v = normal(40, 16), normal(16, 64), normal(64, 16)
    k = k + q[:1].T * (np.arange(64, dtype=np.float32) // 16 * step)
    function = parse(LAZY.format(score=score, value=value)).function()
    assert loops(function, q, k, v) == 1
    assert has_exit(function, q, k, v) == ("where" in score)
    result, expected = function(q, k, v, on=on), function.reference(q, k, v)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


@pytest.mark.parametrize("blocks", ["m:16 l:16", "m:15 l:16", "m:5 l:4"])
@pytest.mark.parametrize("test", ["l <= {m}", "l < {m}", "{m} >= l", "{m} > l"])
def test_a_mask_is_left_out_where_every_position_is_below(test: str, blocks: str) -> None:
    """Also where the last position of one tile is the first one of the other."""
    rows, columns = blocks.split()
    hidden = f"where({test.format(m='reshape(m, m, 1)')}, {SCORE}, -inf)"
    source = LAZY.format(score=hidden, value=VALUES[0])
    source = source.replace("m:16", rows).replace("l:16", columns)
    inputs = normal(40, 16), normal(16, 64), normal(64, 16)
    function = parse(source).function()
    result, expected = function(*inputs, on="interpreter"), function.reference(*inputs)
    np.testing.assert_allclose(result[1:], expected[1:], rtol=1e-4, atol=1e-4)


def test_levels_follow_maxima_seldom_and_masks_are_made_at_the_edge() -> None:
    source = LAZY.format(score=f"where(l <= reshape(m, m, 1), {SCORE}, -inf)", value=VALUES[0])
    inputs = normal(40, 16), normal(16, 64), normal(64, 16)
    (kernel,) = parse(source).function().plan(*inputs).module.functions.values()
    names = [op.mnemonic for op in kernel.ops]
    assert names.count("select") == 3 and "fma" in names and names.count("cond_br") == 2
    loads = [op for label, block in kernel.blocks.items() for op in block.ops
             if op.mnemonic == "load" and label != "entry"]  # fmt: skip
    assert len(loads) == 2  # of K and V, not of Q


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp", "exp2"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_warps_join_maxima_only_where_a_level_rises(name: str, sign: str) -> None:
    """A vote of the warp goes before what lanes pass on: the largest of a row, and scales."""
    source = LAZY.format(score=SCORE, value=VALUES[0]).replace("exp2(", f"{name}({sign}")
    function = parse(source.replace("m:16", "m:64").replace("l:16", "l:64")).function()
    inputs = [normal(*shape).astype(np.float16) for shape in ((64, 32), (32, 192), (192, 64))]
    module = function.plan(*inputs).module
    ptx = tileir.backend.compile(module, "sm_90a").ptx
    loop = ptx[ptx.index("wgmma.mma_async") :]
    assert "vote" in loop[: loop.index("shfl")]
    result, expected = function(*inputs, on="simt"), function.reference(*inputs)
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-2 * abs(expected).max())


def has_exit(function: Any, *args: Any) -> bool:
    (kernel,) = function.plan(*args).module.functions.values()
    return any(op.mnemonic == "smin" for op in kernel.ops)


TOP = "reshape(top[h, m], h, m, 1)"
WEIGHTS = {
    f"exp(s[h, m, l] - {TOP})": True,
    f"exp(s[h, m, l] * 2 - {TOP})": True,
    f"exp(2 * s[h, m, l] + {TOP})": True,
    f"exp(s[h, m, l] / 2 - {TOP})": True,
    f"exp(s[h, m, l] - {TOP}) / 3": True,
    f"{TOP} * exp2(s[h, m, l])": True,
    f"exp({TOP} - s[h, m, l])": False,
    f"exp(s[h, m, l] * 0 - {TOP})": False,
    f"exp(0 * s[h, m, l] - {TOP})": False,
    f"exp(s[h, m, l] * (0 - 1) - {TOP})": False,
    f"exp(s[h, m, l] * (2 + len(k)) - {TOP})": True,
    f"exp(s[h, m, l] * (2 + scale) - {TOP})": False,
    f"exp(s[h, m, l] * (scale / 2) - {TOP})": False,
    f"exp(s[h, m, l] / (2 * scale) - {TOP})": False,
    f"exp(s[h, m, l] / (0 - 2) - {TOP})": False,
    f"exp(2 / s[h, m, l] - {TOP})": False,
    f"exp(s[h, m, l] * {TOP})": False,
    f"3 / exp(s[h, m, l] - {TOP})": False,
    f"exp(s[h, m, l] - {TOP}) + 1": False,
}
"""Weights, and whether they are 0 where a score is minus infinity."""


def test_a_pass_ends_early_only_where_nothing_is_left_to_add() -> None:
    inputs = normal(1, 70, 16), normal(1, 16, 70), normal(1, 70, 16), 0.25
    ends = {True: 0, False: 0}
    for weight, vanishes in WEIGHTS.items():
        source = CAUSAL.replace(f"exp(s[h, m, l] - {TOP})", weight)
        function = parse(source).with_schedule(d.FLASH_SCHEDULE).function()
        try:
            exits = has_exit(function, *inputs)
        except CompilationError:  # weights that cannot follow a maximum that changes
            continue
        assert exits == vanishes, weight
        ends[vanishes] += 1
    assert min(ends.values()) >= 3, ends


HIDDEN = "where(l <= reshape(m, m, 1), A[m, l], -inf)"
TERMS = {
    "exp(H)": True,
    "exp(H) / 3": True,
    "exp(H) * exp(H)": True,
    "-exp2(H)": True,
    "exp(H - 2)": True,
    "exp(H + 2)": True,
    "exp(H * 2)": True,
    "exp(H / 2)": True,
    "exp(H) * (l + 1)": True,
    "exp(1 * H) * A[m, l]": True,
    "exp(A[m, l] + H)": True,
    "exp(H + H)": True,
    "exp(H) / (l + 1)": True,
    "exp(2 * H - A[m, l])": True,
    "3 / exp(H)": False,
    "exp(H) / exp(H)": False,
    "exp(H) * exp(0 - H)": False,
    "exp(H - H)": False,
    "exp(H + 2 * H - H)": False,
    "exp(H) - 1": False,
    "exp(2 - H)": False,
    "exp(0 * H)": False,
    "exp(-H)": False,
    "exp(A[m, l] * H)": False,
    "exp(H * 0 + H)": False,
    "exp(H) + 1": False,
    "exp(2 / H)": False,
    "1 - exp(H)": False,
    "exp(H) / H": False,
}
"""Terms of a total, and whether they are 0 where H, a score, is minus infinity."""


@for_each("term", TERMS)
def test_a_pass_over_terms_ends_where_all_later_ones_are_0(term: str) -> None:
    """What is no number there, as 0 / 0, is part of the total."""
    total = f"rsum({term}, l) + rmax(H, l)".replace("H", HIDDEN)
    source = f"Func f; In A; Var m; RVar l; f[m] = {total}; f.online(l); f.compile();"
    function = parse(source).with_schedule("f.block(m:8); f.tensorize(m:0, l:8);").function()
    A = (1 + np.abs(normal(24, 24))).astype(np.float32)
    assert has_exit(function, A) == TERMS[term]
    with np.errstate(all="ignore"):
        expected = function.reference(A)
    np.testing.assert_allclose(function(A, on="interpreter"), expected, rtol=1e-4)


@pytest.mark.slow
def test_a_pass_that_is_needed_goes_to_its_end() -> None:
    inputs = normal(1, 40, 16), normal(1, 16, 40), normal(1, 40, 16), 0.25
    for old, new in (
        ("rsum(p[h, m, l], l)", "rsum(p[h, m, l], l) + rsum(1 + 0 * s[h, m, l], l) * 0"),
        ("-inf", "-100"),
        ("l <= reshape", "l != reshape"),
    ):
        source = CAUSAL.replace(old, new)
        function = parse(source).with_schedule(d.FLASH_SCHEDULE).function()
        assert not has_exit(function, *inputs)
        if "0 * s" not in new:
            result, expected = function(*inputs), function.reference(*inputs)
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_half_precision_is_an_operand_of_the_matmul_as_it_is() -> None:
    inputs = [
        a.astype(np.float16) for a in (normal(1, 32, 16), normal(1, 16, 64), normal(1, 64, 16))
    ]
    function = parse(d.FLASH).with_schedule(d.FLASH_SCHEDULE).function()
    module = function.module(*inputs, 0.25, types={"attention": "float16"})
    dots = [op for op in module.kernel("attention").ops if op.mnemonic == "dot"]
    assert all(str(op.a.type).startswith("f16") for op in dots)
    result = function(*inputs, 0.25, types={"attention": "float16"})
    assert result.dtype == np.float16
    np.testing.assert_allclose(result, function.reference(*inputs, 0.25), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    "value",
    [
        "rsum(A[x, k] - reshape(top[x], x, 1), k)",
        "rsum(pow(exp(A[x, k] - reshape(top[x], x, 1)), 2), k)",
        "rsum(exp(A[x, k] - reshape(top[x], x, 1)) + 1, k)",
        "rmin(exp(A[x, k] - reshape(top[x], x, 1)), k)",
        "rsum(exp(A[x, k] * reshape(top[x], x, 1) * A[x, k]), k)",
        "rsum(A[x, k] / exp(reshape(top[x], x, 1)), k)",
    ],
)
def test_what_cannot_be_kept_up_to_date_is_refused(value: str) -> None:
    source = f"""
    Func out, top; In A; Var x; RVar k;
    top[x] = rmax(A[x, k], k);
    out[x] = {value};
    top.fuse_at(out, x); out.online(k); out.tensorize(k:4); out.compile();
    """
    with pytest.raises(CompilationError) as caught:
        parse(source).function()(normal(3, 9))
    assert caught.value.code == "TIR1204" and caught.value.line == 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "value",
    [
        "rsum(exp2((A[x, k] - reshape(top[x], x, 1)) * 2) * A[x, k], k)",
        "rsum(-exp(1 - reshape(top[x], x, 1) + A[x, k]) / 3, k)",
        "rsum(where(A[x, k] > 0, exp(A[x, k] - reshape(top[x], x, 1)), 0), k) / top[x]",
        "rsum(A[x, k], k) + top[x]",
    ],
)
def test_what_can_is(value: str) -> None:
    source = f"""
    Func out, top; In A; Var x; RVar k;
    top[x] = rmax(A[x, k], k);
    out[x] = {value};
    top.fuse_at(out, x); out.online(k); out.tensorize(k:4); out.compile();
    """
    function, A = parse(source).function(), normal(3, 9)
    assert loops(function, A) == 2
    np.testing.assert_allclose(function(A), function.reference(A), rtol=1e-5, atol=1e-6)


RISEN = "A[x, k] - reshape(rmax(A[x, k], k), x, 1)"
OTHER_ROWS = "reshape(A[x, k], x, 1, k) - reshape(rmax(A[x, k], k), x, 1, 1)"
SEVERAL = {
    "f[x]": [
        f"rsum({one}(({RISEN}) * {scale}), k) / rsum({other}({RISEN}), k)"
        for one, other, scale in product(("exp", "exp2"), ("exp", "exp2"), (1, 0.5))
    ],
    "f[x, y]": [
        f"rsum({one}({OTHER_ROWS}) * {other}(B[y, k] - reshape(rmax(B[y, k], k), y, 1)), k)"
        for one, other in product(("exp", "exp2"), repeat=2)
    ],
}
"""Two sums that follow one maximum, of bases and scales of their own; and a sum that follows two
maxima, of rows of their own."""


@for_each("more", ("", "f.math(approx);"))
@for_each(("labels", "value"), [(labels, v) for labels in SEVERAL for v in SEVERAL[labels]])
def test_sums_and_maxima_that_follow_each_other(labels: str, value: str, more: str) -> None:
    """Of numbers of which each step has far larger ones than the step before."""
    names, tensors = ("A, B", "x:0, y:0") if "y" in labels else ("A", "x:0")
    source = f"Func f; In {names}; Var x, y; RVar k; {labels} = {value};"
    schedule = f"f.online(k); f.tensorize({tensors}, k:4); {more} f.compile();"
    function = parse(f"{source} {schedule}").function()
    rising = np.arange(40, dtype=np.float32) * 3
    arrays = (normal(3, 40) + rising, normal(5, 40) + rising)[: len(names.split())]
    result = function(*arrays, on="interpreter")
    np.testing.assert_allclose(result, function.reference(*arrays), rtol=1e-5, atol=1e-6)


EXPONENTS = (
    "A[x, k] - T", "-T + A[x, k]", "A[x, k] + -T", "-(T - A[x, k])", "2 * (A[x, k] - T)",
    "(A[x, k] - T) / 2", "A[x, k] - 0.5 * T", "A[x, k] + T", "A[x, k] - T - T", "T * A[x, k]",
    "(A[x, k] - T) * w",
)  # fmt: skip
TERMS_OF_EXPONENTIALS = {
    "E": True, "-E": True, "E * A[x, k]": True, "A[x, k] / 3 * E": True, "E / 3": True,
    "3 / E": False, "A[x, k] / E": False, "E / E": False, "E * E": False,
    "where(A[x, k] > 0, E, 0)": True, "where(A[x, k] > 0, 0, E)": True,
    "where(A[x, k] > 0, E, 1)": False, "where(A[x, k] > 0, A[x, k], E)": False,
    "where(A[x, k] > T, E, 0)": False, "where(A[x, k] > 0, E, E)": True,
    "E + 1": False, "E + E": False, "E - A[x, k]": False,
}  # fmt: skip
"""What is summed, with exponentials E of what depends on a maximum T; and whether it can follow the
maximum, if the exponent grows by a multiple of what T grows by."""


@for_each("more", ("", "out.math(approx);"))
@for_each("term", TERMS_OF_EXPONENTIALS)
def test_sums_that_follow_a_maximum_are_right_or_refused(term: str, more: str) -> None:
    """In one pass, in which the maximum rises with every step."""
    A = np.sort(normal(3, 9), 1)
    for (number, exponent), w in product(enumerate(EXPONENTS), (2.0, -0.5)):
        if w < 0 and "w" not in exponent:
            continue
        text = term.replace("E", f"exp{2 if number % 2 else ''}({exponent})")
        source = f"""
        Func out, top; In A; SIn w; Var x; RVar k;
        top[x] = rmax(A[x, k], k);
        out[x] = rsum({text.replace("T", "reshape(top[x], x, 1)")}, k);
        top.fuse_at(out, x); out.online(k); out.tensorize(k:4); {more} out.compile();
        """
        try:
            function = parse(source).function()
            named = dict.fromkeys(function.scalars, w)
            result = function(A, on="interpreter", **named)
        except CompilationError as error:
            is_refused = not TERMS_OF_EXPONENTIALS[term] or exponent == "T * A[x, k]"
            assert error.code == "TIR1204" and is_refused, text
        else:
            assert TERMS_OF_EXPONENTIALS[term], text
            np.testing.assert_allclose(
                result, function.reference(A, **named), rtol=1e-5, atol=1e-6, err_msg=text
            )


@for_each(("exponent", "is_checked"), [
    ("A[x, k] - T", False), ("-T + A[x, k] + T / 2", True), ("2 * (A[x, k] - T)", False),
    ("-(T - A[x, k])", False), ("(A[x, k] - T) / sqrt(len(k))", False), ("A[x, k] - T - T", False),
    ("A[x, k] + T", True), ("(A[x, k] - T) * w", True), ("(A[x, k] - T) / (0 - 2)", True),
])  # fmt: skip
def test_multipliers_that_are_never_infinite_are_not_checked(
    exponent: str, is_checked: bool
) -> None:
    source = f"""
    Func out, top; In A; SIn w; Var x; RVar k;
    top[x] = rmax(A[x, k], k);
    out[x] = rsum(exp({exponent.replace("T", "reshape(top[x], x, 1)")}), k);
    top.fuse_at(out, x); out.online(k); out.tensorize(k:4); out.compile();
    """
    function = parse(source).function()
    named = dict.fromkeys(function.scalars, 2.0)
    (kernel,) = function.plan(normal(3, 8), **named).module.functions.values()
    assert any(op.mnemonic == "select" for op in kernel.ops) is is_checked


@for_each("seed", range(5))
def test_rows_that_are_divided_by_their_total(seed: int) -> None:
    """A dimension of the result is also reduced: whatever blocks and tiles cut it, and whatever is
    fused, the total is that of whole rows."""
    choose = random.Random(seed)
    block, tile = choose.choice((1, 2, 4, 8, 16)), choose.choice((0, 1, 2, 4))
    lines = [f"f.block(x:{choose.choice((1, 2, 4))}, y:{block});"]
    lines += [f"f.tensorize(x:{choose.choice((0, 1))}, y:{min(tile, block)});"]
    lines += [
        line for line in ("e.fuse_at(f, x);", "total.fuse_at(f, x);") if choose.random() < 0.8
    ]
    function = parse(f"""
    Func e, total, f; In A; Var x; RVar y;
    e[x, y] = exp(A[x, y]); total[x] = rsum(e[x, y], y);
    f[x, y] = e[x, y] / reshape(total[x], x, 1); {" ".join(lines)} f.compile();
    """).function()
    A = np.random.default_rng(seed).random(
        (choose.randint(1, 5), choose.randint(1, 11)), np.float32
    )
    np.testing.assert_allclose(function(A), function.reference(A), rtol=1e-5)
