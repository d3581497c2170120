"""The language: types, control flow, functions, reductions, atomics, as Triton defines them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.frontends.triton.sources import kernel_of
from tests.sizes import for_each
from tileir import TileirError


def ran(kernel: Any, *arguments: Any, grid: Any = (1,), **named: Any) -> None:
    kernel[grid](*arguments, **named)


def type_of(source: Any, **types: str) -> str:
    """The type of what `source`, a kernel that stores to `out`, stores."""
    module = source.module({**types, "out": "*fp64"})
    (store,) = [op for op in module.kernel().ops if op.mnemonic == "store"]
    return str(store.inputs[1].type)


@triton.jit
def sum_kernel(x, y, out, n, OP: tl.constexpr):
    a, b = tl.load(x), tl.load(y)
    if OP == "add":
        c = a + b
    elif OP == "div":
        c = a / b
    elif OP == "floordiv":
        c = a // b
    elif OP == "mod":
        c = a % b
    elif OP == "shr":
        c = a >> b
    elif OP == "lt":
        c = a < b
    else:
        c = a * 1.5
    tl.store(out, c)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("x", "y", "op", "expected"),
    [
        (np.int32(-7), np.int32(2), "floordiv", -3),
        (np.int32(-7), np.int32(2), "mod", -1),
        (np.uint32(2**32 - 7), np.uint32(2), "floordiv", (2**32 - 7) // 2),
        (np.int32(-8), np.int32(1), "shr", -4),
        (np.uint32(2**32 - 8), np.uint32(1), "shr", 2**31 - 4),
        (np.int32(7), np.int32(2), "div", 3.5),
        (np.int8(100), np.int16(100), "add", 200),
        (np.uint8(200), np.uint8(100), "add", 44),
        (np.int32(-1), np.uint32(1), "lt", 0),
        (np.int32(-1), np.int32(1), "lt", 1),
        (np.float16(3), np.float16(2), "div", 1.5),
        (np.int64(3), np.int32(2), "mul", 4.5),
    ],
)
def test_operators_follow_the_types(x: Any, y: Any, op: str, expected: float) -> None:
    out = np.zeros(1, np.float64)
    ran(sum_kernel, np.array([x]), np.array([y]), out, 1, op)
    assert out[0] == expected


@triton.jit
def collatz(out, start):
    n = start
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(out, steps)


def test_while_and_if_carry_names() -> None:
    out = np.zeros(1, np.int32)
    ran(collatz, out, 27)
    assert out[0] == 111


@triton.jit
def first_above(x, n, limit):
    for i in range(n):
        if tl.load(x + i) > limit:
            return i, True
    return -1, False


@triton.jit
def search(x, out, n, limit):
    where, below = first_above(x, n, limit)
    if not below:
        tl.store(out, -1)
        return
    tl.store(out, where)


@pytest.mark.parametrize(("limit", "place"), [(3.5, 4), (9.0, -1), (-1.0, 0)])
def test_functions_return_early_with_tuples(limit: float, place: int) -> None:
    out = np.zeros(1, np.int32)
    ran(search, np.arange(8, dtype=np.float32), out, 8, limit)
    assert out[0] == place


@triton.jit
def unrolled_total(x, out, N: tl.constexpr, SCALE: tl.constexpr = 2.0):
    total = tl.zeros((N,), tl.float32)
    for i in tl.static_range(3):
        part = tl.load(x + i * N + tl.arange(0, N))
        total += part * (SCALE if i % 2 else 1.0)
    for step in (1, 2):
        total = total + step
    tl.store(out + tl.arange(0, N), total)


def test_static_loops_are_unrolled() -> None:
    x, out = np.arange(15, dtype=np.float32).reshape(3, 5), np.zeros(5, np.float32)
    ran(unrolled_total, x, out, 5)
    assert (out == x[0] + 2 * x[1] + x[2] + 3).all()
    module = unrolled_total.module({"x": "*fp32", "out": "*fp32"}, {"N": 5, "SCALE": 2.0})
    assert len(module.kernel("unrolled_total").blocks) == 1


@triton.jit
def combine(m0, s0, m1, s1):
    m = tl.maximum(m0, m1)
    return m, s0 * tl.exp(m0 - m) + s1 * tl.exp(m1 - m)


@triton.jit
def statistics(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    m, s = tl.reduce((v, tl.full((N,), 1.0, tl.float32)), 0, combine)
    tl.store(out, m)
    tl.store(out + 1, tl.log(s) + m)
    tl.store(out + 2, tl.argmax(v, 0).to(tl.float32))
    tl.store(out + 3, tl.min(v, 0))
    value, place = tl.max(v, 0, return_indices=True)
    low, first = tl.min(v, 0, True)
    tl.store(out + 4, value - place)
    tl.store(out + 5, low - first)
    tl.store(out + 8 + i, tl.cumsum(v, 0))
    tl.store(out + 8 + N + i, tl.associative_scan(v, 0, larger))


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", [1, 7, 32])
def test_reductions_by_name_and_by_function(n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    out = np.zeros(8 + 2 * n, np.float32)
    ran(statistics, x, out, n)
    log_sum = np.log(np.exp(x.astype(np.float64)).sum())
    expected = [x.max(), log_sum, x.argmax(), x.min(), x.max() - x.argmax(), x.min() - x.argmin()]
    np.testing.assert_allclose(out[:6], expected, rtol=1e-5)
    np.testing.assert_allclose(out[8 : 8 + n], np.cumsum(x), rtol=1e-5, atol=1e-6)
    assert (out[8 + n :] == np.maximum.accumulate(x)).all()


@triton.jit
def block_pointers(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    here = tl.make_block_ptr(x, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    there = tl.make_block_ptr(out, (M,), (1,), (tl.program_id(0) * BM,), (BM,), (0,))
    total = tl.zeros((BM,), tl.float32)
    for _ in range(0, N, BN):
        total += tl.sum(tl.load(here, boundary_check=(0, 1), padding_option="zero"), 1)
        here = tl.advance(here, (0, BN))
    tl.store(there, total, boundary_check=(0,))


@pytest.mark.parametrize("shape", [(8, 8), (5, 13)])
def test_block_pointers_advance_through_a_loop(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    out = np.zeros(shape[0], np.float32)
    ran(block_pointers, x, out, *shape, 4, 4, grid=(2,))
    np.testing.assert_allclose(out, x.sum(1), rtol=1e-5, atol=1e-5)


@triton.jit
def descriptors(x, out, M, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    target = tl.make_tensor_descriptor(out, [N, M], [M, 1], [B, B])
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    target.store([j, i], source.load([i, j]).T)


def test_descriptors_move_blocks() -> None:
    x = np.arange(6 * 9, dtype=np.float32).reshape(6, 9)
    out = np.zeros((9, 6), np.float32)
    ran(descriptors, x, out, 6, 9, 4, grid=(2, 3))
    assert (out == x.T).all()


@triton.jit
def histogram_of(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + i, i < n, 0), 1, mask=i < n)


def test_atomics_from_several_instances() -> None:
    x = np.random.default_rng(3).integers(0, 5, 50, dtype=np.int32)
    out = np.zeros(5, np.int32)
    ran(histogram_of, x, out, 50, 16, grid=lambda meta: (triton.cdiv(50, meta["BLOCK"]),))
    assert (out == np.bincount(x, minlength=5)).all()


@triton.jit
def random_numbers(out, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.randint(seed, i))
    tl.store(out + N + i, (tl.rand(seed, i) * 1000).to(tl.uint32))


def test_random_numbers_are_philox(benchmarks: Callable[[str], Any]) -> None:
    out = np.zeros(64, np.uint32)
    ran(random_numbers, out, 42, 32)
    words = benchmarks("checks").philox([np.arange(32), 0, 0, 0], [42, 0])
    assert (out[:32] == words[0]).all()
    assert (out[32:] < 1000).all()


@triton.autotune(
    [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64}, num_warps=2)], key=["n"]
)
@triton.heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0})
@triton.jit
def tuned_increment(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i) + 1)
    else:
        tl.store(out + i, tl.load(x + i, i < n) + 1, i < n)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", [128, 100])
def test_tuned_parameters(n: int) -> None:
    x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    tuned_increment[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert (out == x + 1).all()
    assert tuned_increment.best_config in tuned_increment.configs


def test_benchmarks_make_tables(capsys: pytest.CaptureFixture[str]) -> None:
    @triton.testing.perf_report(
        triton.testing.Benchmark(["n"], [1, 2], "provider", ["a", "b"], ["A", "B"], "demo", {})
    )
    def measure(n: int, provider: str) -> float:
        return n * (2 if provider == "b" else 1)

    assert measure.run() is None
    result = measure.run(print_data=True, show_plots=False, return_df=True)
    assert getattr(result, "to_numpy", lambda: np.array(result))().tolist() == [
        [1, 1, 2],
        [2, 2, 4],
    ]
    assert "demo" in capsys.readouterr().out
    assert triton.testing.do_bench(lambda: None, warmup=1, rep=1) >= 0


def test_integers_one_and_multiples_of_16_are_specialized() -> None:
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    module = histogram_like.warmup(x, out, 1, 48, grid=(1,))
    parameters = {p.name: p.attributes for p in module.kernel("histogram_like").parameters}
    assert "stride" not in parameters
    assert parameters["n"].multiple_of == 16
    assert parameters["x"].aligned == 16


@triton.jit
def histogram_like(x, out, stride, n):
    tl.store(out, tl.load(x + stride * n))


@triton.jit
def sort_kernel(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DIM: tl.constexpr,
                DOWN: tl.constexpr):  # fmt: skip
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    value = tl.load(x + i * N + j)
    if K == 0:
        tl.store(out + i * N + j, tl.sort(value, DIM, DOWN))
    else:
        best = value.topk(K, DIM)
        R: tl.constexpr = best.shape[0]
        C: tl.constexpr = best.shape[1]
        tl.store(out + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], best)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.float16, np.bool_])
@pytest.mark.parametrize(("dim", "down"), [(0, False), (1, True), (-1, False)])
def test_tensors_are_sorted_along_a_dimension(dtype: type, dim: int, down: bool) -> None:
    x = np.random.default_rng(1).integers(0, 250, (6, 7)).astype(dtype)
    expected = np.sort(x, dim)
    expected = np.flip(expected, dim) if down else expected
    out = np.zeros_like(x)
    ran(sort_kernel, x, out, 6, 7, 0, dim, down)
    np.testing.assert_array_equal(out, expected)
    out = np.zeros((3, 7) if dim == 0 else (6, 3), dtype)
    ran(sort_kernel, x, out, 6, 7, 3, dim, down)
    best = np.flip(np.sort(x, dim), dim)
    np.testing.assert_array_equal(out, best[:3] if dim == 0 else best[:, :3])


@triton.jit
def sort(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DOWN: tl.constexpr):
    """A kernel that has the name of a function of the library that it calls."""
    i = tl.arange(0, M)[:, None]
    value = tl.load(x + i * N + tl.arange(0, N)[None, :])
    if K == 0:
        tl.store(out + i * N + tl.arange(0, N)[None, :], tl.sort(value, descending=DOWN))
    else:
        tl.store(out + i * K + tl.arange(0, K)[None, :], tl.topk(value, K, descending=DOWN))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float32])
@pytest.mark.parametrize(("rows", "columns"), [(3, 8), (1, 32), (5, 1)])
@pytest.mark.parametrize("down", [False, True])
def test_rows_of_powers_of_two_are_sorted(dtype: type, rows: int, columns: int, down: bool) -> None:
    """By a network in registers and lanes; NaNs of either sign are last, zeros keep their bits."""
    executor = {"on": "simt"} if columns == 32 else {}
    x = np.random.default_rng(3).integers(-100, 100, (rows, columns)).astype(dtype)
    if np.issubdtype(dtype, np.floating) and columns > 4:
        x[0, :5] = np.nan, -np.nan, -0.0, 0.0, np.inf
    expected = np.sort(x, 1)[:, :: -1 if down else 1]
    for count in (0, 1, min(4, columns)):
        out = np.zeros((rows, count or columns), dtype)
        ran(sort, x, out, rows, columns, count, down, **executor)
        np.testing.assert_array_equal(out, expected[:, : count or columns])
        if count == 0 and np.issubdtype(dtype, np.floating) and columns > 4:
            assert np.signbit(out[out == 0]).sum() == np.signbit(x[x == 0]).sum()


@triton.jit
def jumps_of_unrolled_loops(out, n, AT: tl.constexpr, LEAVES: tl.constexpr, INNER: tl.constexpr):
    total = n
    for i in tl.static_range(3):
        if INNER:
            for j in tl.static_range(2):
                if j == AT:
                    if LEAVES:
                        break
                    continue
                total += 10
        if i == AT:
            if LEAVES:
                break
            continue
        total += i + 1
    tl.store(out, total)


def total_of_jumps(n: int, at: int, leaves: bool, inner: bool) -> int:
    """The same in Python."""
    total = n
    for i in range(3):
        for j in range(2 * inner):
            if j == at:
                if leaves:
                    break
                continue
            total += 10
        if i == at:
            if leaves:
                break
            continue
        total += i + 1
    return total


@for_each(
    ("at", "leaves", "inner"),
    [(at, leaves, inner) for at in range(-1, 4) for leaves in (0, 1) for inner in (0, 1)],
)
def test_what_follows_an_unrolled_loop_is_reached_from_every_jump(
    at: int, leaves: bool, inner: bool
) -> None:
    """Also from one in the last iteration."""
    out = np.zeros(1, np.int32)
    jumps_of_unrolled_loops[(1,)](out, 5, AT=at, LEAVES=leaves, INNER=inner, on="interpreter")
    assert out[0] == total_of_jumps(5, at, leaves, inner)


@triton.jit
def ends_in_a_branch(out, n, IN_ELSE: tl.constexpr):
    if IN_ELSE:
        if n > 3:
            new = n * 2
        else:
            tl.store(out, -1)
            return
    else:
        if n > 3:
            tl.store(out, -1)
            return
        else:
            new = n * 3
    tl.store(out, new)


@for_each(("in_else", "n"), [(in_else, n) for in_else in (False, True) for n in (3, 4)])
def test_names_of_the_branch_that_goes_on_stay(in_else: bool, n: int) -> None:
    out = np.zeros(1, np.int32)
    ends_in_a_branch[(1,)](out, n, IN_ELSE=in_else, on="interpreter")
    assert out[0] == (-1 if (n > 3) != in_else else n * (2 if in_else else 3))


@triton.jit
def names_of_comprehensions(out, n, K: tl.constexpr):
    i = n * 2
    squares = [i * i for i in range(K)]
    sums = [a + b for a, b in ((1, 2), (3, 4)) if a > 1]
    tl.store(out, i)
    tl.store(out + 1, squares[K - 1])
    tl.store(out + 2, sums[0])
    k = 7
    for j in tl.static_range(2):
        tl.store(out + 3 + j, [k + j for k in (10, 20)][j])
    tl.store(out + 5, k)


@triton.jit
def name_after_a_comprehension(out):
    squares = [m * m for m in range(3)]
    tl.store(out, squares[2] + m)  # noqa: F821


def test_names_of_a_comprehension_end_with_it() -> None:
    """As in Python: a name of the same spelling keeps its value, and there is none that was not
    there before."""
    out = np.zeros(6, np.int32)
    ran(names_of_comprehensions, out, 5, K=3, on="interpreter")
    assert out.tolist() == [10, 4, 7, 10, 21, 7]
    with pytest.raises(triton.CompilationError, match="m "):
        ran(name_after_a_comprehension, out, on="interpreter")


@triton.jit
def chained_comparisons(out, x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, a < b < c)
    tl.store(out + N + i, a <= b == c)
    tl.store(out + 2 * N + i, a > b >= c != a)
    tl.store(out + 3 * N + i, 0 < a < 2 <= b)
    tl.store(out + 4 * N + i, N > 3 > 2 < c)


def test_chains_compare_neighbours() -> None:
    x, y, z = (a.ravel().astype(np.int32) for a in np.meshgrid(*[np.arange(4)] * 3))
    out = np.zeros((5, 64), np.int32)
    ran(chained_comparisons, out, x, y, z, N=64, on="interpreter")
    expected = [
        (x < y) & (y < z), (x <= y) & (y == z), (x > y) & (y >= z) & (z != x),
        (x > 0) & (x < 2) & (y >= 2), z > 2,
    ]  # fmt: skip
    assert (out == np.array(expected)).all()


LOGIC = {"0": 0, "1": 1, "False": 0, "True": 1, "no": 0, "yes": 1, "n": 0, "m": 1}
"""Operands of `and` and `or`, known while compiling or not, and their truth."""


@for_each("words", product(("and", "or"), repeat=2))
def test_logic_is_that_of_python(words: tuple[str, str]) -> None:
    """Of two and of three operands. What decides the result while compiling ends it: what follows
    is not looked at."""
    chains = [f"{x} {words[0]} {y}" for x, y in product(LOGIC, repeat=2)]
    chains += [
        f"{x} {words[0]} {y} {words[1]} {z}"
        for x, y, z in product(("0", "True", "no", "m"), repeat=3)
    ]
    chains += ["0 and missing", "True or missing"]
    lines = ["def k(out, m, n):", "    no, yes = n > 0, m > 0"]
    lines += [f"    tl.store(out + {i}, 1 if {one} else 0)" for i, one in enumerate(chains)]
    out = np.full(len(chains), 7, np.int32)
    kernel_of("\n".join(lines))[(1,)](out, 5, 0, on="interpreter")
    names = {"no": False, "yes": True, "n": 0, "m": 5}
    assert out.tolist() == [int(bool(eval(one, dict(names)))) for one in chains]


@for_each(("one", "other", "is_same"), [
    ("1", "1", True), ("1", "True", False), ("1", "1.0", False), ("0", "False", False),
    ("2.5", "2.5", True), ("2", "3", False), ("'a'", "'a'", True), ("tl.int32", "tl.int64", False),
    ("(1, 2)", "(1, 2)", True), ("None", "0", False),
])  # fmt: skip
def test_what_is_known_is_known_after_paths_that_agree(one: str, other: str, is_same: bool) -> None:
    """Values are equal and of one type, or the name is not known after both."""
    text = f"""def k(out, n):
    if n > 0:
        known: tl.constexpr = {one}
    else:
        known: tl.constexpr = {other}
    tl.static_assert(known == {one})
    tl.store(out, 1)
"""
    out = np.zeros(1, np.int32)
    try:
        kernel_of(text)[(1,)](out, 5, on="interpreter")
    except TileirError as error:
        assert not is_same and error.line == 6, str(error)
    else:
        assert is_same and out[0] == 1
