"""Tiles that are in buffers: which share one, and that each is read before it is overwritten."""

import numpy as np
import pytest

import tileir
from tileir.backend.cpu import microkernel
from tileir.backend.cpu.buffer_assignment import assign_buffers
from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.backend.cpu.dots import layout_free_dots
from tileir.backend.cpu.executor import CpuExecutor
from tileir.backend.cpu.vector_registers import Registers
from tileir.builder import F16, F32, F64, I8, I32, Builder, pointer

DTYPES = {F16: np.float16, F32: np.float32, F64: np.float64, I8: np.int8, I32: np.int32}
M, N, K = 8, 64, 32


def kernel(body, operand=F32, total=F32):
    """A kernel that stores what `body` makes of A and B's tiles, and of a number of iterations."""
    b = Builder()
    kinds = {"a": pointer(operand), "b": pointer(operand), "c": pointer(total)}
    with b.kernel("k", **kinds, n=I32) as (x, y, z, n):

        def tile(base, rows, columns):
            return base + (b.arange(rows)[:, None] * columns + b.arange(columns)[None, :])

        accumulators = body(b, lambda: tile(x, M, K).load(), lambda: tile(y, K, N).load(), n)
        for i, value in enumerate(accumulators):
            tile(z + i * M * N, M, N).store(value)
    return b.module()


def agree(module, operand=F32, total=F32, iterations=(3,)):
    """The interpreter and native code compute the same accumulators of whole numbers, in each
    number of iterations."""
    random = np.random.default_rng(1)
    a, c = (random.integers(-2, 3, s).astype(DTYPES[operand]) for s in ((M, K), (K, N)))
    executor = CpuExecutor()
    for n in iterations:
        expected, actual = (np.zeros((2, M, N), DTYPES[total]) for _ in range(2))
        tileir.interpret(module, None, 1, [a, c, expected, n])
        for checked in (False, True):
            actual[:] = 0
            executor.launch(module, None, 1, [a, c, actual, n], checked=checked)
            np.testing.assert_array_equal(actual, expected)


def buffers(module):
    """How many buffers accumulators of the kernel take, and how many values are in them."""
    accumulators = assign_buffers(layout_free_dots(module.functions["k"])).accumulators
    return len(set(accumulators.values())), len(accumulators)


def zeros(b, total=F32):
    return b.full((M, N), 0, total)


def in_a_loop(total=F32):
    def body(b, a, c, n):
        state = b.var(zeros(b, total))
        with b.for_(0, n):
            state.set(b.dot(a(), c(), state.get()))
        return [state.get()]

    return body


TYPES = [(F32, F32), (F64, F64), (F16, F32), (F16, F16), (I8, I32)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("operand", "total"), TYPES)
def test_an_accumulator_keeps_its_buffer_over_a_loop(operand, total):
    module = kernel(in_a_loop(total), operand, total)
    assert buffers(module) == ((0, 0) if total is F16 else (1, 2))
    agree(module, operand, total)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("registers", [Registers(32, 64), Registers(16, 32), Registers(32, 16)])
@pytest.mark.parametrize(("operand", "total"), TYPES)
def test_registers_of_other_machines(monkeypatch, operand, total, registers):
    """AVX-512, AVX2 and 128 bits: the accumulators of a block fit, and come out the same."""
    monkeypatch.setattr(microkernel, "registers", lambda: registers)
    block = microkernel.kernel_for(total)
    assert block.rows * block.columns * total.bytes <= registers.count * registers.bytes
    agree(kernel(in_a_loop(total), operand, total), operand, total)


def two_in_a_row(b, a, c, n):
    total = b.var(zeros(b))
    with b.for_(0, n):
        total.set(b.dot(a() + 1.0, c(), b.dot(a(), c(), total.get())))
    return [total.get()]


def scale_between_matmuls(b, a, c, n):
    """As attention does: the sum is scaled between matmuls."""
    total = b.var(zeros(b))
    with b.for_(0, n) as i:
        total.set(b.dot(a(), c(), total.get() * i.to(F32)))
    return [total.get() + 1.0]


def exchange_totals(b, a, c, n):
    one, other = b.var(zeros(b)), b.var(b.full((M, N), 1.0, F32))
    with b.for_(0, n):
        before = other.get()
        other.set(b.dot(a(), c(), one.get()))
        one.set(before)
    return [one.get(), other.get()]


def keep_previous_total(b, a, c, n):
    """The sum before the last matmul is needed after it."""
    total, last = b.var(zeros(b)), b.var(zeros(b))
    with b.for_(0, n):
        before = total.get()
        total.set(b.dot(a(), c(), before))
        last.set(before)
    return [total.get(), last.get()]


def twice_from_one(b, a, c, n):
    start = b.dot(a(), c(), b.full((M, N), 2.0, F32))
    return [b.dot(a(), c() + 1.0, start), b.dot(a() * 2.0, c(), start)]


def by_condition(b, a, c, n):
    total = b.var(b.dot(a(), c(), zeros(b)))
    with b.if_(n > 2):
        total.set(b.dot(a(), c() * 2.0, total.get()))
    return [total.get()]


def loop_carried_operand(b, a, c, n):
    """An operand that one iteration loads for the next."""
    total, left = b.var(zeros(b)), b.var(a())
    with b.for_(0, n) as i:
        total.set(b.dot(left.get(), c(), total.get()))
        left.set(a() + i.to(F32))
    return [total.get()]


def constant_operand(b, a, c, n):
    return [b.dot(b.full((M, K), 3.0, F32), c(), zeros(b)) + a().sum()]


def one_operand_twice(b, a, c, n):
    """An operand that other ops read too, and that is both operands."""
    left, ones = a(), b.full((K, M), 1.0, F32)
    square = b.dot(left, ones, b.full((M, M), 0.0, F32))
    return [
        b.dot(square, b.dot(square, b.dot(left, c(), zeros(b)), zeros(b)), zeros(b)) + left.sum()
    ]


BODIES = (
    two_in_a_row, scale_between_matmuls, exchange_totals, keep_previous_total, twice_from_one,
    by_condition, loop_carried_operand, constant_operand, one_operand_twice,
)  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("body", BODIES)
def test_accumulators_and_operands(body):
    agree(kernel(body), iterations=(0, 1, 3))


def test_what_is_live_at_once_is_disjoint():
    assert buffers(kernel(two_in_a_row)) == (1, 3)
    assert buffers(kernel(scale_between_matmuls)) == (1, 3)
    assert buffers(kernel(keep_previous_total)) == (1, 1)
    assert buffers(kernel(twice_from_one)) == (2, 3)


def llvm_of_transposed_dot(m, n, k, operand, *, left, right, by, batch=()):
    """C += A B, whose operands marked are transposed: `by` the op `trans`, or by their pointers."""
    total = {F16: F32, I8: I32}.get(operand, operand)
    b, order = Builder(), [0, 2, 1] if batch else [1, 0]

    def cells(*extents):
        index = 0
        for dim, extent in enumerate(extents):
            at = b.arange(extent)[
                tuple(slice(None) if d == dim else None for d in range(len(extents)))
            ]
            index = at + index * extent
        return index

    def tile(base, rows, columns, transposes):
        if not transposes:
            return (base + cells(*batch, rows, columns)).load()
        if by == "trans":
            return b.trans((base + cells(*batch, columns, rows)).load(), order=order)
        return (base + (b.arange(rows)[:, None] + b.arange(columns)[None, :] * rows)).load()

    with b.kernel("k", a=pointer(operand), b=pointer(operand), c=pointer(total)) as (x, y, z):
        at = z + cells(*batch, m, n)
        at.store(tile(x, m, k, left).dot(tile(y, k, n, right), at.load()))
    random = np.random.default_rng(m)
    a, c = (random.integers(-4, 5, (*batch, *s)).astype(DTYPES[operand])
            for s in ((m, k), (k, n)))  # fmt: skip
    expected = (a.astype(np.float64) @ c.astype(np.float64)).astype(DTYPES[total]) + 1
    a, c = (np.ascontiguousarray(np.swapaxes(v, -1, -2)) if transposes else v
            for v, transposes in ((a, left), (c, right)))  # fmt: skip
    actual = np.ones((*batch, m, n), DTYPES[total])
    CpuExecutor().launch(b.module(), None, 1, [a, c, actual])
    np.testing.assert_array_equal(actual, expected)
    return compile_kernel(b.module()).llvm


@pytest.mark.sampled(1)
@pytest.mark.parametrize("by", ["trans", "pointers"])
@pytest.mark.parametrize(("left", "right"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("operand", [F32, F64, F16, I8])
def test_transposed_operands(operand, left, right, by):
    text = llvm_of_transposed_dot(32, 32, 64, operand, left=left, right=right, by=by)
    assert text.count("call void @transpose.") == left + right
    assert "masked.scatter" not in text


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(5, 9, 7), (16, 8, 16), (33, 40, 70)])
@pytest.mark.parametrize("by", ["trans", "pointers"])
def test_transposed_operands_of_other_shapes(shape, by):
    llvm_of_transposed_dot(*shape, F32, left=True, right=True, by=by)


@pytest.mark.slow
def test_transposed_operands_in_batches():
    llvm_of_transposed_dot(16, 32, 16, F32, left=True, right=True, by="trans", batch=(3,))


@pytest.mark.slow
def test_a_transposed_accumulator_is_an_operand():
    def body(b, a, c, n):
        left, ones = a(), b.full((K, 16), 1.0, F32)
        narrow = b.dot(left, ones, b.full((M, 16), 0.0, F32))
        wide = b.dot(narrow.T, left, b.full((16, K), 0.0, F32))
        square = b.dot(left, wide.T, b.full((M, 16), 0.0, F32))
        return [b.dot(square, b.full((16, N), 1.0, F32), zeros(b)) + c().sum()]

    agree(kernel(body))
