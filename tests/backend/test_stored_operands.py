"""Dots of which nothing is copied ahead, by warpgroups: threads against the interpreter."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.analysis.loops import loops
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.live_registers import shared_of_one_block
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.software_pipeline.stored_operands import multiply_stored_operands
from tileir.backend.target import target
from tileir.builder import F16, F32, I8, I32, Builder, arg, pointer
from tileir.machine import dtype_of
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.gpu import SharedAlloc


def chained_matmuls(rows: int, columns: int, depth: int, iterations: int = 1) -> Any:
    """out = (q k^T) v + q h, `iterations` times, where q is read by two of the matmuls."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "qkvh"}
    with b.kernel("chained", **kinds, out=pointer(F32)) as (q, k, v, h, out):

        def grid(m: int, n: int) -> Any:
            return b.arange(m)[:, None] * n + b.arange(n)[None, :]

        def build_iteration() -> None:
            queries = (q + grid(rows, depth)).load()
            keys = (k + grid(columns, depth)).load()
            values, states = (v + grid(columns, depth)).load(), (h + grid(depth, depth)).load()
            first = b.dot(queries, states, b.full((rows, depth), 0.0, F32))
            weights = b.dot(queries, b.trans(keys, order=(1, 0)), b.full((rows, columns), 0.0, F32))
            dot = b.dot((weights * 0.5).to(F16), values, first)
            to = out + grid(rows, depth)
            to.store(to.load() + dot)

        if iterations == 1:
            build_iteration()
        else:
            with b.for_(0, iterations, stages=1):
                build_iteration()
    return b.module()


def simple(element: Any, total: Any, m: int, n: int, k: int) -> Any:
    """out = x y^T."""
    b = Builder()
    kinds = {name: arg(pointer(element), aligned=16) for name in "xy"}
    with b.kernel("simple", **kinds, out=pointer(total)) as (x, y, out):
        left = (x + (b.arange(m)[:, None] * k + b.arange(k)[None, :])).load()
        right = (y + (b.arange(n)[:, None] * k + b.arange(k)[None, :])).load()
        precision = "tf32" if element is F32 else "ieee"
        zero = b.full((m, n), 0, total)
        dot = b.dot(left, b.trans(right, order=(1, 0)), zero, precision=precision)
        (out + (b.arange(m)[:, None] * n + b.arange(n)[None, :])).store(dot)
    return b.module()


def random_operands(element: Any, *shapes: tuple[int, int]) -> list[Any]:
    random = np.random.default_rng(0)
    return [random.integers(-3, 4, s).astype(dtype_of(element)) for s in shapes]


def kernel_ops(module: Any, warps: int) -> list[Op]:
    """The ops of the kernel with barriers."""
    done = run_pipeline(
        module, target("sm_90a"), Options(num_warps=warps, warp_specialize=False), None
    )
    return [*done.stages["barriers"].functions[done.kernel].ops]


def ops(module: Any, warps: int) -> list[str]:
    return [op.mnemonic for op in kernel_ops(module, warps)]


def count_stores(names: list[str]) -> int:
    """The number of operands that threads store, or copies."""
    return names.count("gpu.local_store") + names.count("gpu.async_copy")


def agree(module: Any, arguments: list[Any], warps: int) -> None:
    name = next(iter(module.functions))
    expected, actual = ([a.copy() for a in arguments] for _ in range(2))
    tileir.interpret(module, name, (1,), expected)
    options: dict[str, Any] = {"target": "sm_90a", "warp_specialize": False, "num_warps": warps}
    SimtExecutor().launch(module, name, (1,), actual, **options)
    np.testing.assert_allclose(actual[-1], expected[-1], rtol=1e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("warps", "rows", "columns", "depth", "iterations"), [
    (4, 64, 32, 64, 1), (8, 64, 64, 32, 1), (8, 128, 32, 64, 1), (4, 64, 32, 32, 3),
])  # fmt: skip
def test_chained_dots(warps: int, rows: int, columns: int, depth: int, iterations: int) -> None:
    module = chained_matmuls(rows, columns, depth, iterations)
    shapes = (rows, depth), (columns, depth), (columns, depth), (depth, depth)
    agree(module, [*random_operands(F16, *shapes), np.zeros((rows, depth), np.float32)], warps)
    names = ops(module, warps)
    assert "dot" not in names and names.count("gpu.wgmma") == 3
    assert count_stores(names) == 4, "operands that two dots read are stored once"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("warps", [4, 8])
def test_a_transpose_of_a_result_is_read_in_shared_memory(warps: int) -> None:
    """Other threads computed the rows of A as columns: it passes through shared memory anyway."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xy"}
    with b.kernel("gram", **kinds, out=pointer(F32)) as (x, y, out):
        places = b.arange(128)[:, None] * 128 + b.arange(128)[None, :]
        left, right, zero = (x + places).load(), (y + places).load(), b.full((128, 128), 0.0, F32)
        scores = (b.dot(left, right, zero) * 0.125).to(F16)
        (out + places).store(b.dot(b.trans(scores, order=(1, 0)), right, zero))
    module = b.module()
    x, y = random_operands(F16, (128, 128), (128, 128))
    agree(module, [x, y, np.zeros((128, 128), np.float32)], warps)
    names = ops(module, warps)
    assert names.count("gpu.wgmma") == 2 and count_stores(names) == 3
    before = names[: names.index("store")]
    assert before.count("gpu.convert_layout") <= 1, "that of the result alone"


@pytest.mark.parametrize("form", ["halved", "divided by columns", "of two branches"])
def test_converted_operands_are_stored_as_they_were_loaded(form: str) -> None:
    """Along the dimension in which their elements were contiguous, many bytes at a time."""
    b = Builder()
    with b.kernel(
        "mixed", x=arg(pointer(F16), aligned=16), y=arg(pointer(F32), aligned=16), out=pointer(F32)
    ) as (x, y, out):
        rows, columns = b.arange(64)[:, None], b.arange(64)[None, :]
        places = y + (rows + columns * 64)
        right = b.var(b.full((64, 64), 0.0, F32))
        if form == "of two branches":
            with b.if_(b.program_id(axis=0) < 1):
                right.set(places.load())
            with b.else_():
                right.set(places.load(mask=columns < 60, other=0.0))
        else:
            right.set(places.load())
        scale = (y + columns).load() * 0.0 + 2.0 if form == "divided by columns" else 2.0
        half = (right.get() / scale).to(F16)
        product = b.dot((x + (rows * 64 + columns)).load(), half, b.full((64, 64), 0.0, F32))
        (out + (rows * 64 + columns)).store(product)
    module = b.module()
    x, y = random_operands(F16, (64, 64))[0], random_operands(F32, (64, 64))[0]
    agree(module, [x, y, np.zeros((64, 64), np.float32)], 4)
    done = run_pipeline(module, target("sm_90a"), Options(num_warps=4, warp_specialize=False), None)
    function = done.stages["barriers"].functions[done.kernel]
    places = [SharedTile.of(op) for op in function.ops if isinstance(op, SharedAlloc)]
    assert [place.fast for place in places] == [1, 0]


def test_tiles_that_are_transposed_are_computed_where_they_are_used() -> None:
    """Weights that only indices decide multiply a result as their transpose: nothing is moved."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xy"}
    with b.kernel("weighted", **kinds, z=arg(pointer(F32)), out=pointer(F32)) as (x, y, z, out):
        i = b.arange(64)
        places = i[:, None] * 64 + i[None, :]
        gates = (z + i).load()
        exponents = b.var(gates[:, None] - gates[None, :])
        with b.if_(b.program_id(axis=0) < 1):
            exponents.set(b.where(i[:, None] >= i[None, :], exponents.get(), -10.0))
        weights = b.exp(exponents.get())
        product = b.dot((x + places).load(), (y + places).load(), b.full((64, 64), 0.0, F32))
        (out + places).store(product * b.trans(weights, order=(1, 0)))
    module = b.module()
    gates = np.linspace(-1, 1, 64, dtype=np.float32)
    agree(
        module,
        [*random_operands(F16, (64, 64), (64, 64)), gates, np.zeros((64, 64), np.float32)],
        4,
    )
    names = ops(module, 4)
    assert names.count("gpu.convert_layout") <= 1 == names.count("gpu.wgmma"), "of the gates"


def powers() -> Any:
    """out = x (y[i] h)^n y[i] ... h, for i < m, each matmul divided by four."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xyh"}
    with b.kernel("powers", **kinds, out=pointer(F32), n=arg(I32), m=arg(I32)) as args:
        x, y, h, out, n, m = args
        places = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        zero, states = b.full((64, 64), 0.0, F32), (h + places).load()
        power = b.var((x + places).load())
        with b.for_(0, m, stages=1) as i:
            keys = (y + (places + i * 4096)).load()
            with b.for_(0, n, stages=1):
                half = (b.dot(power.get(), keys, zero) * 0.25).to(F16)
                power.set((b.dot(half, states, zero) * 0.25).to(F16))
            power.set((b.dot(power.get(), keys, zero) * 0.25).to(F16))
        (out + places).store(b.dot(power.get(), states, zero))
    return b.module()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("inner", "outer"), [(0, 1), (1, 0), (2, 3), (3, 1)])
@pytest.mark.parametrize("warps", [4, 8])
def test_operands_that_a_loop_does_not_change(inner: int, outer: int, warps: int) -> None:
    """They are stored before the outermost loop that does not change them, once for all dots
    after it; those of an outer loop's iteration wait for what the iteration before reads."""
    module = powers()
    x, y, h = random_operands(F16, (64, 64), (3 * 64, 64), (64, 64))
    arguments = [x, y, h, np.zeros((64, 64), np.float32), inner, outer]
    expected, actual = (
        [a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in "ab"
    )
    tileir.interpret(module, "powers", (1,), expected)
    options: dict[str, Any] = {"target": "sm_90a", "warp_specialize": False, "num_warps": warps}
    SimtExecutor().launch(module, "powers", (1,), actual, **options)
    np.testing.assert_allclose(actual[3], expected[3], rtol=1e-3)
    done = run_pipeline(
        module, target("sm_90a"), Options(num_warps=warps, warp_specialize=False), None
    )
    function = done.stages["barriers"].functions[done.kernel]
    around = loops(function)
    depths = [
        around.depth(label)
        for label, block in function.blocks.items()
        for op in block.ops
        if op.mnemonic == "gpu.local_store"
    ]
    assert sorted(depths) == [0, 1]
    assert [op.mnemonic for op in function.ops].count("gpu.wgmma") == 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("warps", [4, 8])
def test_results_that_become_operand_b(warps: int) -> None:
    """Buffers that are not needed at the same time share bytes, after barriers."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xy"}
    with b.kernel("powers", **kinds, out=pointer(F32)) as (x, y, out):
        rows, columns = b.arange(128)[:, None], b.arange(128)[None, :]
        places = rows * 64 + b.arange(64)[None, :]
        left, zero = (x + (rows * 128 + columns)).load(), b.full((128, 64), 0.0, F32)
        power = (y + places).load()
        for _ in range(3):
            power = (b.dot(left, power, zero) * 0.25).to(F16)
        (out + places).store(power.to(F32))
    module = b.module()
    x, y = random_operands(F16, (128, 128), (128, 64))
    agree(module, [x * np.float16(0.125), y, np.zeros((128, 64), np.float32)], warps)
    assert ops(module, warps).count("gpu.wgmma") == 3


@pytest.mark.parametrize(("element", "total"), [(F16, F32), (F32, F32), (I8, I32)])
def test_types(element: Any, total: Any) -> None:
    module = simple(element, total, 64, 32, 64)
    arguments = [*random_operands(element, (64, 64), (32, 64)), np.zeros((64, 32), dtype_of(total))]
    agree(module, arguments, 4)
    assert ops(module, 4).count("gpu.wgmma") == 1


@pytest.mark.parametrize(("lhs", "rhs"), [("true", "false"), ("false", "true")])
def test_operands_of_different_signs(lhs: str, rhs: str) -> None:
    signs = f"{{lhs_signed = {lhs}, rhs_signed = {rhs}}}"
    text = tileir.textual.print_module(simple(I8, I32, 64, 32, 64))
    module = tileir.textual.parse(re.sub(r"( = dot [^\n{]*?)( loc\(|\n)", rf"\1 {signs}\2", text))
    arguments = [*random_operands(I8, (64, 64), (32, 64)), np.zeros((64, 32), np.int32)]
    agree(module, arguments, 4)
    assert ops(module, 4).count("gpu.wgmma") == 1


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
@pytest.mark.parametrize("along", [0, 1])
def test_operands_a_and_b_in_other_orders(order: tuple[int, int], along: int) -> None:
    """out = x' y', where x and y are contiguous along a dimension and their order is changed."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xy"}
    with b.kernel("turned", **kinds, out=pointer(F32)) as (x, y, out):
        rows, columns = b.arange(64)[:, None], b.arange(64)[None, :]
        places = rows * 64 + columns if along else rows + columns * 64
        left, right = (b.trans((p + places).load(), order=order) for p in (x, y))
        product = b.dot(left, right, b.full((64, 64), 0.0, F32))
        (out + (rows * 64 + columns)).store(product)
    module = b.module()
    agree(module, [*random_operands(F16, (64, 64), (64, 64)), np.zeros((64, 64), np.float32)], 4)
    assert ops(module, 4).count("gpu.wgmma") == 1


def test_what_no_warpgroups_compute_stays() -> None:
    """Too few warps, too few rows, operands beyond what a conversion leaves of shared memory."""
    for module, warps in (
        (simple(F16, F32, 64, 32, 64), 2),
        (simple(F16, F32, 32, 32, 64), 4),
        (simple(F16, F32, 64, 256, 256), 8),
    ):
        assert "gpu.wgmma" not in ops(module, warps)


@pytest.mark.parametrize(("element", "depth"), [(F32, 256), (F16, 512)])
def test_operands_beyond_half_of_shared_memory(element: Any, depth: int) -> None:
    """Both operands take half of the registers: no second block is resident in any case."""
    module = simple(element, F32, 64, 64, depth)
    arguments = [*random_operands(element, (64, depth), (64, depth)), np.zeros((64, 64), "f4")]
    agree(module, arguments, 8)
    assert ops(module, 8).count("gpu.wgmma") == 1
    half = target("sm_90a").shared_bytes // 2
    within = multiply_stored_operands(module.kernel(), 8, half)
    assert "gpu.wgmma" not in [op.mnemonic for op in within.ops]


def test_small_tiles_leave_memory_to_further_blocks() -> None:
    for columns, alone in ((32, False), (64, True)):
        kernel = simple(F32, F32, 64, columns, 256).kernel()
        dots = [op for op in kernel.ops if isinstance(op, Dot)]
        most = shared_of_one_block(kernel, dots, target("sm_90a"))
        assert bool(most) is alone
        assert most <= target("sm_90a").shared_bytes - 64 * 256 * 4, "a conversion fits besides"


@pytest.mark.parametrize("warps", [1, 2, 5, 6, 10])
def test_warps_that_are_no_whole_warpgroups_compute_nothing(warps: int) -> None:
    kernel = simple(F16, F32, 64 * max(1, warps // 4), 32, 64).kernel()
    assert multiply_stored_operands(kernel, warps, 1 << 20) is kernel
    assert multiply_stored_operands(kernel, 4, 1 << 20) is not kernel


def test_the_instruction_is_wgmma() -> None:
    module = chained_matmuls(64, 64, 64)
    assert (
        "wgmma.mma_async"
        in compile_kernel(module, "sm_90a", Options(num_warps=4, warp_specialize=False)).ptx
    )
    assert (
        "wgmma"
        not in compile_kernel(module, "sm_80", Options(num_warps=4, warp_specialize=False)).ptx
    )
