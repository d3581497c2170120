"""Pipelined matmuls: copies ahead through shared memory, against the interpreter."""

import re

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.software_pipeline.async_pipeline import async_pipeline
from tileir.backend.software_pipeline.occupancy import register_limit
from tileir.backend.target import target
from tileir.builder import F8E4M3, F8E5M2, F16, F32, I8, I32, Builder, arg, pointer
from tileir.machine import dtype_of
from tileir.textual import parse, print_module


def matmul(
    element,
    total,
    block,
    *,
    transposed=False,
    tested_last=False,
    stages=None,
    multiple=4,
    precision="ieee",
):
    """C = A B, or A B^T, with masks at every edge."""
    (bm, bn, bk), b = block, Builder()
    kinds = {name: arg(pointer(element), aligned=16, readonly=True) for name in "ab"}
    sizes = {name: arg(I32, multiple_of=multiple) for name in "mnk"}
    with b.kernel("matmul", **kinds, c=pointer(total), **sizes) as (x, y, z, m, n, k):
        rows = (b.program_id(axis=0) * bm + b.arange(bm))[:, None]
        columns = (b.program_id(axis=1) * bn + b.arange(bn))[None, :]
        depth = b.arange(bk)
        left = b.var(x + (rows * k + depth[None, :]))
        if transposed:
            right = b.var(y + (columns.reshape(bn)[:, None] * k + depth[None, :]))
        else:
            right = b.var(y + (depth[:, None] * n + columns))
        zero = 0 if total.is_integer else 0.0
        acc = b.var(b.full((bm, bn), zero, total))
        with b.for_(0, k, bk, **({} if stages is None else {"stages": stages})) as at:
            inside = depth < k - at
            mask = (rows < m).broadcast_to(bm, bk) & inside[None, :].broadcast_to(bm, bk)
            va = left.get().load(mask, 0 if element.is_integer else 0.0)
            if transposed:
                low = (columns.reshape(bn)[:, None] < n).broadcast_to(bn, bk)
                mask = low & inside[None, :].broadcast_to(bn, bk)
                vb = right.get().load(mask, 0 if element.is_integer else 0.0)
                vb = b.trans(vb, order=[1, 0])
            else:
                low = (columns < n).broadcast_to(bk, bn)
                mask = low & inside[:, None].broadcast_to(bk, bn)
                vb = right.get().load(mask, 0 if element.is_integer else 0.0)
            acc.set(b.dot(va, vb, acc.get(), precision=precision))
            left.set(left.get() + bk)
            right.set(right.get() + (bk if transposed else n * bk))
        mask = (rows < m).broadcast_to(bm, bn) & (columns < n).broadcast_to(bm, bn)
        (z + (rows * n + columns)).store(acc.get(), mask)
    return b.module()


def arrays(element, total, m, n, k, transposed):
    random, dtype = np.random.default_rng(m), dtype_of(element)
    shapes = (m, k), (n, k) if transposed else (k, n)
    if element.is_integer:
        inputs = [random.integers(-99, 99, s).astype(dtype) for s in shapes]
    else:
        inputs = [random.normal(size=s).astype(dtype) for s in shapes]
    return [*inputs, np.zeros((m, n), dtype_of(total)), m, n, k]


def run(launch, module, grid, arguments, **options):
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    launch(module, "matmul", grid, copies, **options)
    return copies[2]


CASES = [
    (F16, F32, (32, 32, 32), (64, 48, 96), False),
    (F16, F32, (32, 64, 16), (36, 60, 52), True),
    (F32, F32, (32, 32, 16), (36, 60, 52), False),
    (F32, F32, (32, 32, 8), (32, 36, 28), True),
    (I8, I32, (32, 16, 32), (36, 20, 100), True),
    (I8, I32, (32, 16, 32), (36, 20, 100), False),
    (F16, F32, (48, 24, 16), (52, 24, 4), False),
    (F8E4M3, F32, (16, 64, 64), (20, 72, 160), True),
    (F8E4M3, F32, (32, 32, 48), (36, 40, 100), False),
    (F8E5M2, F32, (32, 16, 32), (36, 20, 96), True),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("stages", "prefetch_operands"), [(None, True), (2, False), (3, True), (4, False)]
)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[2]}-{c[4]}")
def test_threads_agree(case, stages, prefetch_operands):
    element, total, block, (m, n, k), transposed = case
    module = matmul(element, total, block, transposed=transposed, stages=stages)
    inputs = arrays(element, total, m, n, k, transposed)
    grid = (-(-m // block[0]), -(-n // block[1]))
    expected = run(tileir.interpret, module, grid, inputs)
    result = run(
        SimtExecutor().launch,
        module,
        grid,
        inputs,
        num_warps=4,
        prefetch_operands=prefetch_operands,
    )
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("rows", "words"), [(16, 64), (32, 96)])
def test_small_floats_are_loaded_by_words(rows, words):
    """A lane owns 4 neighbours along K. `ldmatrix` loads 4 matrices of them, and an instruction
    converts two to a word of the fragments."""
    module = matmul(F8E4M3, F32, (rows, 64, 128), transposed=True, multiple=16)
    ptx = compile_kernel(module, "sm_90a", {"num_warps": 4, "warp_specialize": False}).ptx
    assert set(re.findall(r"ldmatrix\S*\.(x[124])\.", ptx)) == {"x4"}
    assert not re.findall(r"ld\.shared", ptx)
    assert len(re.findall(r"cvt\.rn\.f16x2\.e4m3x2", ptx)) == words


@pytest.mark.sampled(1)
@pytest.mark.parametrize("warps", [1, 4])
def test_an_operand_that_is_scaled_is_copied_ahead(warps):
    """And a store in the loop of what it has added up, to memory promised apart."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ab"}
    with b.kernel("matmul", **kinds, c=pointer(F32), n=arg(I32)) as (x, y, z, n):
        at = b.arange(32)[:, None] * 32 + b.arange(32)[None, :]
        left, total = b.var(x + at), b.var(b.full((32, 32), 0.0, F32))
        with b.for_(0, n, stages=2, independent_loads=True) as i:
            (z + (at + i * 1024)).store(total.get())
            scaled = (left.get().load().to(F32) * 0.5).to(F16)
            total.set(b.dot(scaled, (y + at).load(), total.get()))
            left.set(left.get() + 1024)
    random = np.random.default_rng(0)
    inputs = [random.normal(size=s).astype(np.float16) for s in ((128, 32), (32, 32))]
    inputs += [np.zeros((128, 32), np.float32), 4]
    expected = run(tileir.interpret, b.module(), (1,), inputs)
    result = run(SimtExecutor().launch, b.module(), (1,), inputs, num_warps=warps)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
    done = run_pipeline(b.module(), target("sm_80"), Options(num_warps=warps), None)
    kernel = done.stages["pipelined"].functions[done.kernel]
    assert print_module(done.stages["pipelined"]).count("gpu.shared_alloc") == 2
    assert register_limit(kernel, warps, target("sm_80")) is None, "a computed operand is whole"


def test_a_dot_before_the_loads_of_another():
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ab"}
    with b.kernel("matmul", **kinds, c=pointer(F32), n=arg(I32)) as (x, y, z, n):
        at = b.arange(16)[:, None] * 16 + b.arange(16)[None, :]
        left, fixed = b.var(x + at), (y + at).load()
        first, second = b.var(b.full((16, 16), 0.0, F32)), b.var(b.full((16, 16), 0.0, F32))
        with b.for_(0, n, stages=2):
            first.set(b.dot(fixed, fixed, first.get()))
            second.set(b.dot(left.get().load(), (y + at).load(), second.get()))
            left.set(left.get() + 256)
        (z + at).store(first.get() + second.get())
    random = np.random.default_rng(0)
    inputs = [random.normal(size=s).astype(np.float16) for s in ((48, 16), (16, 16))]
    inputs += [np.zeros((16, 16), np.float32), 3]
    expected = run(tileir.interpret, b.module(), (1,), inputs)
    result = run(
        SimtExecutor().launch, b.module(), (1,), inputs, num_warps=1, prefetch_operands=False
    )
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[2]}-{c[4]}")
def test_the_pass_keeps_the_meaning_and_prints(case):
    element, total, block, (m, n, k), transposed = case
    module = matmul(element, total, block, transposed=transposed)
    done = run_pipeline(module, target("sm_80"), Options(num_warps=4), None).stages["pipelined"]
    text = print_module(done)
    assert "gpu.async_copy" in text and "gpu.async_wait" in text
    inputs = arrays(element, total, m, n, k, transposed)
    grid = (-(-m // block[0]), -(-n // block[1]))
    expected = run(tileir.interpret, module, grid, inputs)
    result = run(tileir.interpret, done, grid, inputs)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(run(tileir.interpret, parse(text), grid, inputs), result)


@pytest.mark.parametrize("prefetch_operands", [True, False])
@pytest.mark.parametrize("depth", [16, 32, 64])
def test_the_first_fragments_are_read_an_iteration_before(depth, prefetch_operands):
    """Where there are several steps of K, and it is asked for: those of the first iteration come
    before the loop."""
    module = matmul(F16, F32, (32, 32, depth))
    function = async_pipeline(module, prefetch_operands=prefetch_operands).ir.functions["matmul"]
    prefetched = [op.mnemonic for op in function.entry.ops].count("gpu.local_load")
    assert prefetched == (2 if prefetch_operands and depth > 16 else 0)


def test_one_barrier_and_16_bytes_per_copy():
    module = matmul(F16, F32, (64, 64, 32))
    compiled = compile_kernel(module, "sm_80", Options(num_warps=4, num_stages=3))
    text = compiled.ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.shared" in text
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared" in text
    assert compiled.metadata.spills == 0
    (body,) = [
        block
        for block in compiled.tir_at("barriers").functions["matmul"].blocks.values()
        if any(op.mnemonic == "dot" for op in block.ops)
    ]
    assert [op.mnemonic for op in body.ops].count("gpu.barrier") == 1


@pytest.mark.parametrize(
    ("block", "stages", "depth"),
    [((32, 64, 64), 5, 4), ((32, 64, 128), 4, 3), ((16, 64, 64), 4, 4), ((32, 64, 128), 3, 3)],
    ids=["4 blocks for 3", "3 blocks for 2", "fewer bytes in flight", "one copy in flight"],
)
def test_one_stage_less_lets_another_block_be_resident(block, stages, depth):
    """As many bytes are in flight on a multiprocessor of sm_90, by more blocks."""
    module = matmul(F16, F32, block, multiple=16)
    options = Options(num_warps=4, num_stages=stages)
    done = run_pipeline(module, target("sm_90"), options, None).stages["pipelined"]
    buffers = [op for op in done.kernel().ops if op.mnemonic == "gpu.shared_alloc"]
    assert [op.shape[0] for op in buffers] == [depth, depth]


def test_stages_of_1_leave_the_loop_alone():
    module = matmul(F16, F32, (32, 32, 32), stages=1)
    done = run_pipeline(module, target("sm_80"), Options(num_warps=4), None).stages["pipelined"]
    assert "gpu.async_copy" not in print_module(done)


def squares(b, x, y):
    """A dot of what another one computes: nothing that is loaded reaches it but through that."""
    once = b.dot(x, y, b.full((64, 64), 0.0, F32)).to(F16)
    return b.dot(once, b.trans(once, order=(1, 0)), b.full((64, 64), 0.0, F32))


def dots(b, x, y):
    return b.dot(x, y, b.full((64, 64), 0.0, F32))


@pytest.mark.parametrize(
    ("step", "depth", "machine", "copied"),
    [
        (dots, 64, "sm_80", True), (dots, 64, "sm_90a", True), (squares, 64, "sm_80", True),
        (dots, 256, "sm_80", False), (squares, 64, "sm_90a", False),
    ],
)  # fmt: skip
def test_a_launch_of_one_stage_has_two_where_nothing_gets_scarce(step, depth, machine, copied):
    """A multiprocessor holds four blocks, and no dot leaves the warpgroups for `mma`."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xy"}
    with b.kernel("k", **kinds, z=arg(pointer(F32), aligned=16), n=I32) as (x, y, z, n):
        rows, k = b.arange(64), b.arange(depth)
        total = b.var(b.full((64, 64), 0.0, F32))
        with b.for_(0, n) as i:
            left = (x + (rows[:, None] * depth + k[None, :] + i * (64 * depth))).load()
            right = (y + (k[:, None] * 64 + rows[None, :] + i * (64 * depth))).load()
            total.set(total.get() + step(b, left, right))
        (z + (rows[:, None] * 64 + rows[None, :])).store(total.get())
    module = b.module()
    for stages, expected in ((1, copied), (2, True)):
        options = Options(num_warps=4, num_stages=stages, warp_specialize=False)
        done = run_pipeline(module, target(machine), options, None).stages["pipelined"]
        buffers = [op for op in done.kernel().ops if op.mnemonic == "gpu.shared_alloc"]
        ahead = any(op.mnemonic == "gpu.async_copy" for op in done.kernel().ops)
        assert ahead == expected and (not ahead or max(op.shape[0] for op in buffers) == 2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("transposed", [False, True])
def test_multiply_adds_read_16_bytes_of_both_operands(transposed):
    module = matmul(F32, F32, (64, 64, 32), transposed=transposed)
    ptx = compile_kernel(module, "sm_80", Options(num_warps=4, num_stages=2)).ptx
    assert "ld.shared.v4" in ptx
    assert "ld.shared.b32" not in ptx
    assert "ld.shared.v2" not in ptx


@pytest.mark.slow
def test_a_limit_of_registers_reaches_the_assembler():
    module = matmul(F32, F32, (64, 64, 16))
    free = compile_kernel(module, "sm_80", Options(num_warps=4, num_stages=2))
    limited = compile_kernel(module, "sm_80", Options(num_warps=4, num_stages=2, max_registers=80))
    assert ".maxnreg" not in free.ptx
    assert ".maxnreg 80" in limited.ptx
    assert limited.metadata.registers <= 80 < free.metadata.registers


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "bf16x3"])
@pytest.mark.parametrize("prefetch_operands", [True, False])
@pytest.mark.parametrize("columns", [64, 16])
def test_f32_by_matrix_instructions(precision, prefetch_operands, columns):
    module = matmul(F32, F32, (32, columns, 16), precision=precision)
    inputs = arrays(F32, F32, 36, 2 * columns - 4, 52, False)
    if precision == "tf32":  # rounded to nearest or truncated: numbers that it holds
        a, b, *others = inputs
        inputs = [*((x.view(np.int32) & ~0x1FFF).view(np.float32) for x in (a, b)), *others]
    expected = run(tileir.interpret, module, (2, 2), inputs)
    result = run(
        SimtExecutor().launch,
        module,
        (2, 2),
        inputs,
        num_warps=2,
        prefetch_operands=prefetch_operands,
    )
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
