"""Matmuls: threads against the interpreter, for every type, shape and way to multiply."""

import itertools
import re

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.bank_conflicts import wavefronts
from tileir.backend.shared_memory.fma_dot_staging import _place
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.simt.counts import Counts
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.builder import BF16, F8E4M3, F8E5M2, F16, F32, F64, I4, I8, I32, Builder, pointer, tile
from tileir.executor import executor
from tileir.layout import layout
from tileir.machine import dtype_of
from tileir.types import Tile

FLOATS = [(F16, F32), (F16, F16), (BF16, F32), (F32, F32), (F64, F64), (F8E4M3, F32), (F8E5M2, F16)]
SHAPES = [(16, 8, 16), (32, 24, 40), (48, 20, 7), (1, 5, 3), (7, 9, 33)]
HALF_ULP = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
RELATIVE_ERROR = {"tf32": 2.0**-11, "tf32x3": 2.0**-21, "bf16x3": 2.0**-16, "bf16x6": 2.0**-22}


def product(a, b, c, precision="ieee", lhs_signed=True, rhs_signed=True):
    """A kernel: p3 = p0 p1 + p2."""
    builder = Builder()
    kinds = {f"p{i}": pointer(t.element) for i, t in enumerate((a, b, c, c))}
    with builder.kernel("product", **kinds) as pointers:
        values = [
            (p + offsets(builder, t.shape)).load()
            for p, t in zip(pointers, (a, b, c), strict=False)
        ]
        signs = {"lhs_signed": lhs_signed, "rhs_signed": rhs_signed}
        dot = builder.dot(*values, precision=precision, **signs)
        (pointers[3] + offsets(builder, c.shape)).store(dot)
    return builder.module()


def offsets(builder, shape):
    total, step = 0, 1
    for dim in reversed(range(len(shape))):
        index = tuple(slice(None) if d == dim else None for d in range(len(shape)))
        total = (builder.arange(shape[dim]) * step)[index].broadcast_to(*shape) + total
        step *= shape[dim]
    return total


def arrays(kinds, seed=0):
    random = np.random.default_rng(seed)
    operands = []
    for kind in kinds:
        dtype = dtype_of(kind.element)
        if kind.element.is_integer:
            data = random.integers(-128, 128, kind.shape).astype(dtype)
        else:
            data = random.normal(size=kind.shape).astype(dtype)
        operands.append(data)
    return [*operands, np.zeros_like(operands[2])]


def check(module, kinds, relative_error=0.0, **options):
    """Within (K + 1) half-ulps of |a| |b| + |c|, at the precision of the operands."""
    inputs = arrays(kinds)
    expected, actual = ([x.copy() for x in inputs] for _ in range(2))
    tileir.interpret(module, "product", (1,), expected)
    SimtExecutor().launch(module, "product", 1, actual, **options)
    if kinds[2].element.is_integer:
        np.testing.assert_array_equal(actual[3], expected[3])
        return
    a, b, c = (np.abs(x.astype(np.float64)) for x in inputs[:3])
    unit = HALF_ULP[inputs[3].dtype.name] * (a.shape[-1] + 1) + 4 * relative_error
    off = np.abs(actual[3].astype(np.float64) - expected[3].astype(np.float64))
    assert (off <= unit * (a @ b + c) + 1e-30).all()


def kinds_of(element, total, m, n, k, batch=()):
    return tile(element, (*batch, m, k)), tile(element, (*batch, k, n)), tile(total, (*batch, m, n))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("warps", [1, 4, 6])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("pair", FLOATS, ids=lambda p: f"{p[0]}-{p[1]}")
def test_floats(pair, shape, warps):
    kinds = kinds_of(*pair, *shape)
    check(product(*kinds), kinds, num_warps=warps)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [(F16, F32), (F32, F32), (F64, F64)], ids=str)
@pytest.mark.parametrize("warps", [1, 8])
def test_batches(pair, warps):
    for batch, *shape in ((3, 8, 4, 8), (4, 16, 24, 16), (5, 3, 5, 7)):
        kinds = kinds_of(*pair, *shape, batch=(batch,))
        check(product(*kinds), kinds, num_warps=warps)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("precision", sorted(RELATIVE_ERROR))
@pytest.mark.parametrize("shape", [(16, 8, 16), (20, 12, 19)], ids=str)
def test_precisions(precision, shape):
    kinds = kinds_of(F32, F32, *shape)
    check(product(*kinds, precision=precision), kinds, RELATIVE_ERROR[precision], num_warps=4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("signs", [(True, True), (False, True), (True, False), (False, False)])
def test_integers(signs):
    for shape in ((16, 8, 32), (20, 12, 33)):
        kinds = kinds_of(I8, I32, *shape)
        module = product(*kinds, lhs_signed=signs[0], rhs_signed=signs[1])
        check(module, kinds, num_warps=2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("pair", [*FLOATS, (I8, I32)], ids=lambda p: f"{p[0]}-{p[1]}")
def test_assembles(pair):
    for shape in ((32, 24, 40), (48, 20, 7)):
        module = product(*kinds_of(*pair, *shape))
        for target in ("sm_80", "sm_90a"):
            compiled = compile_kernel(module, target)
            assert compiled.metadata.spills == 0
            assert ("mma.sync" in compiled.ptx) == (pair != (F32, F32))


@pytest.mark.parametrize("precision", sorted(RELATIVE_ERROR))
def test_precisions_assemble(precision):
    compiled = compile_kernel(product(*kinds_of(F32, F32, 32, 16, 16), precision=precision))
    assert compiled.cubin and "mma.sync" in compiled.ptx
    # mma.sync truncates tf32 operands itself, which an exact remainder must not be computed from
    assert ("cvt.rna.tf32" in compiled.ptx) == (precision == "tf32x3")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sizes", [(64, 64, 16), (32, 32, 32), (16, 128, 32)], ids=str)
def test_operands_in_shared_memory_conflict_in_no_bank(sizes):
    m, n, k = sizes
    shapes, random = ((m, k), (k, n), (m, n)), np.random.default_rng(m)
    inputs = [random.integers(-4, 5, s).astype(np.float32) for s in shapes]
    out, counts = np.zeros((m, n), np.float32), Counts()
    module = product(*(tile(F32, s) for s in shapes))
    SimtExecutor().launch(module, None, 1, [*inputs, out], counts=counts, num_warps=4)
    np.testing.assert_array_equal(out, inputs[0] @ inputs[1] + inputs[2])
    (dot,) = [tally for op, tally in counts.by_op.items() if op.mnemonic == "dot"]
    assert dot.shared > 0 and dot.conflicts == 0


@pytest.mark.parametrize(("warps", "accesses"), [(8, 8), (4, 12), (2, 20)])
def test_threads_read_operands_by_few_accesses(warps, accesses):
    """Of 16 steps of K, an access reads four of a row or of a column. By 8 warps a thread has one
    of each, by 4 warps two rows; by 2 warps it reads four columns at once in each step."""
    module = product(*kinds_of(F32, F32, 16, 16, 16))
    ptx = compile_kernel(module, "sm_90", Options(num_warps=warps)).ptx
    widths = re.findall(r"ld\.shared(?:\.(v\d))?", ptx[ptx.index("bar.sync") :])
    assert accesses <= widths.count("v4") and len(widths) == accesses + 1, "and the accumulator"


def test_rows_of_an_operand_are_where_a_warp_takes_the_least_time():
    """A transpose, which 16 lanes hold in rows that are four apart, of which a row along K has
    eight in the same banks: 64 stores would take 512 wavefronts. Along M, 16 stores take 64, and
    four times 128 reads as many as four times 32 of four elements in rows along K."""
    stored = layout(
        2,
        register=[(1, 0), (2, 0), (0, 4), (0, 8), (0, 16), (0, 32)],
        lane=[(4, 0), (8, 0), (16, 0), (32, 0), (0, 1)],
        warp=[(0, 2)],
    )
    read = layout(
        2,
        register=[(0, 1), (0, 2), (0, 4), (0, 8), (8, 0), (16, 0), (32, 0)],
        lane=[(0, 0), (1, 0), (2, 0), (4, 0), (0, 0)],
        warp=[(0, 0)],
    )
    along_k = SharedTile(F32, (64, 64), 1, 3)
    along_m = SharedTile(F32, (64, 64), 0, 0)
    conflicting = [along_k.offset(stored.coordinate(lane=lane)) for lane in range(32)]
    assert wavefronts(conflicting, 4) == 8
    assert _place(Tile(F32, (64, 64), stored), 1, read) == along_m
    rows = layout(
        2,
        register=[(0, 1), (0, 2), (0, 4), (8, 0), (16, 0), (32, 0)],
        lane=[(0, 8), (0, 16), (0, 32), (1, 0), (2, 0)],
        warp=[(4, 0)],
    )
    assert _place(Tile(F32, (64, 64), rows), 1, read) == along_k


def test_the_simulator_rounds_to_tf32_to_nearest_and_away_from_zero() -> None:
    """PTX ISA, "cvt.rna.tf32": what is in the middle goes away from zero."""
    words = np.zeros(32, np.uint32)
    words[:5] = [0x3F801000, 0x3F800FFF, 0xBF801000, 0x3F803000, 0x7F800000]
    thread = SimtThread(32, (0, 0, 0), (1, 1, 1), SimtMemory(0))
    rounded = thread.round_tf32(ThreadValues(words.view(np.float32))).array.view(np.uint32)
    expected = [0x3F802000, 0x3F800000, 0xBF802000, 0x3F804000, 0x7F800000]
    assert rounded[:5].tolist() == expected


@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
@pytest.mark.parametrize("bits", [4, 8])
def test_each_operand_has_its_own_sign(bits, on):
    """Of 8 bits by MMA, and of 4 bits by multiply-adds: every number that an operand may be."""
    m, n, k = 16, 8, 32
    random = np.random.default_rng(bits)
    element, half = (I4, 8) if bits == 4 else (I8, 128)
    left, right = (
        random.integers(-half, half, s).astype(dtype_of(element)) for s in ((m, k), (k, n))
    )
    for signs in itertools.product((True, False), repeat=2):
        builder = Builder()
        kinds = {"a": pointer(element), "b": pointer(element), "c": pointer(I32)}
        with builder.kernel("product", **kinds) as (x, y, z):
            operands = [(p + offsets(builder, s)).load() for p, s in ((x, (m, k)), (y, (k, n)))]
            zero = builder.constant(tile(I32, (m, n)), 0)
            dot = builder.dot(*operands, zero, lhs_signed=signs[0], rhs_signed=signs[1])
            (z + offsets(builder, (m, n))).store(dot)
        c = np.zeros((m, n), np.int32)
        executor(on).launch(builder.module(), "product", 1, [left.copy(), right.copy(), c])
        a, b = (of_bits(x, bits, s) for x, s in zip((left, right), signs, strict=True))
        np.testing.assert_array_equal(c, a @ b)


def of_bits(x, bits, signed):
    """The numbers that the low bits of integers are."""
    low = x.astype(np.int32) & ((1 << bits) - 1)
    return low - ((low >> (bits - 1)) << bits) if signed else low


@pytest.mark.sampled(2)
@pytest.mark.parametrize("k", [256, 136, 132, 130, 131])
def test_long_dots_are_made_in_steps(k):
    """Of 16, 8, 4, 2 and 1 of K at a time."""
    kinds = kinds_of(F32, F32, 32, 32, k)
    check(product(*kinds), kinds, num_warps=4)
