"""Integers wrap; arithmetic that only places accesses is `nsw`."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir import TileirError
from tileir.builder import F32, I32, I64, Builder, arg, pointer
from tileir.frontends import ttir
from tileir.frontends.triton.index_nsw import mark_index_nsw
from tileir.frontends.triton.kernel import from_signature, module_of
from tileir.op import Op

RUN = ["interpreter", "simt", "cpu"]
N = 16
KINDS = [np.int32, np.int64, np.uint32, np.uint64]


@triton.jit
def compute(out, x, y, N: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    if OP == "add":
        c = a + b
    elif OP == "sub":
        c = a - b
    elif OP == "mul":
        c = a * b
    elif OP == "neg":
        c = -a
    elif OP == "shl":
        c = a << 7
    elif OP == "lcg":
        c = a * 1664525 + 1013904223
    elif OP == "sum":
        c = tl.sum(a) + b
    tl.store(out + i, c)


EXPECTED = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a,
    "shl": lambda a, b: a << a.dtype.type(7),
    "lcg": lambda a, b: a * a.dtype.type(1664525) + a.dtype.type(1013904223),
    "sum": lambda a, b: a.sum(dtype=a.dtype) + b,
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("op", EXPECTED)
def test_data_wraps(op, kind, on):
    limits = np.iinfo(kind)
    rng = np.random.default_rng(1)
    x, y = rng.integers(limits.min, limits.max, (2, N), kind, endpoint=True)
    x[:3], y[:3] = (limits.max, limits.min, limits.max), (limits.max, 1, 1)
    out = np.zeros(N, kind)
    compute[(1,)](out, x, y, N=N, OP=op, on=on)
    with np.errstate(over="ignore"):
        expected = EXPECTED[op](x, y)
    assert np.array_equal(out, expected)


@triton.jit
def draw(out, seed, N: tl.constexpr):
    """Random numbers of a counter, not of memory."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    state = (i + seed) * 1103515245 + 12345
    for _ in range(4):
        state = state * 69069 + 1
    tl.store(out + i, state)


@pytest.mark.parametrize("on", RUN)
def test_random_numbers_of_a_counter_wrap(on):
    out = np.zeros(2 * N, np.int32)
    draw[(2,)](out, 7, N=N, on=on)
    state = (np.arange(2 * N) + 7) * 1103515245 + 12345
    for _ in range(4):
        state = (state * 69069 + 1) & 0xFFFFFFFF
    assert np.array_equal(out, state.astype(np.int32))


@triton.jit
def look_up(out, keys, table, buckets, N: tl.constexpr, OF: tl.constexpr):
    i = tl.arange(0, N)
    if OF == "loaded":
        h = tl.load(keys + i) * 40503 + 1
    elif OF == "lanes":
        h = i * 1103515245 + 12345
    elif OF == "negative":
        h = i * -1640531527
    elif OF == "squares":
        h = (i + 50000) * (i + 60000)
    elif OF == "recurrence":
        h = i
        for _ in range(9):
            h = h * 16807
    elif OF == "unsigned":
        h = (i.to(tl.uint32) * 60001 * 60001).to(tl.int32, bitcast=True)
    elif OF == "terms":
        h = i + 1640531527 + 1640531527
    elif OF == "negative terms":
        h = i + -1640531527 + -1640531527
    elif OF == "differences":
        h = i - 1640531527 - 1640531527
    elif OF == "counter":
        h = i
        for _ in range(3000):
            h = h + buckets * 60000
    bucket = h % buckets
    bucket = tl.where(bucket < 0, bucket + buckets, bucket)
    tl.store(out + i, tl.load(table + bucket))


HASHES = {
    "loaded": lambda i, keys: keys * np.int32(40503) + np.int32(1),
    "lanes": lambda i, keys: i * np.int32(1103515245) + np.int32(12345),
    "negative": lambda i, keys: i * np.int32(-1640531527),
    "squares": lambda i, keys: (i + np.int32(50000)) * (i + np.int32(60000)),
    "recurrence": lambda i, keys: reduce(lambda h, _: h * np.int32(16807), range(9), i),
    "unsigned": lambda i, keys: i * np.int32(60001) * np.int32(60001),
    "terms": lambda i, keys: i + np.int32(1640531527) + np.int32(1640531527),
    "negative terms": lambda i, keys: i - np.int32(1640531527) - np.int32(1640531527),
    "differences": lambda i, keys: i - np.int32(1640531527) - np.int32(1640531527),
    "counter": lambda i, keys: i + np.int32(3000 * 13 * 60000 - 2**32),
}


def check_hash(of: str, on: str) -> None:
    keys = np.random.default_rng(2).integers(-(2**31), 2**31, N).astype(np.int32)
    table = np.random.default_rng(3).permutation(13).astype(np.int32)
    out = np.zeros(N, np.int32)
    look_up[(1,)](out, keys, table, 13, N=N, OF=of, on=on)
    hashed = HASHES[of](np.arange(N, dtype=np.int32), keys)
    assert np.array_equal(out, table[hashed % 13])


@for_each("of", HASHES)
def test_hashes_that_index_memory_wrap(of):
    """The interpreter reports an overflow of what is promised not to."""
    check_hash(of, "interpreter")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on", [on for on in RUN if on != "interpreter"])
@pytest.mark.parametrize("of", HASHES)
def test_hashes_are_those_of_every_executor(of, on):
    check_hash(of, on)


# Where nsw is set -------------------------------------------------------------------------------


def flags(module) -> list[tuple[str, str]]:
    """Each `add`, `sub` and `mul` of the kernel with its overflow attribute."""
    ops: list[Op] = list(module.kernel().ops)
    return [(op.mnemonic, op.overflow.value) for op in ops if op.mnemonic in ("add", "sub", "mul")]


@triton.jit
def copy_rows(x, y, n, stride, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.program_id(1) * N + tl.arange(0, N)
    tl.store(y + (row * stride + i), tl.load(x + (row * stride + i), mask=i < n), mask=i < n)


@triton.jit
def store_indices(y, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + i, i, mask=i < n)


@triton.jit
def gather_row(x, rows, y, stride, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + (tl.load(rows) * stride + i)))


@triton.jit
def unsigned_offset(x, n: tl.uint64, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + ((i + n) * 3), 1.0)


@triton.jit
def masked_multiple(x, n, stride, N: tl.constexpr):
    i = tl.program_id(0) * stride + tl.arange(0, N)
    tl.store(x + i, 1.0, mask=i < n)


@triton.jit
def compared_multiple(x, n, stride, N: tl.constexpr):
    """The multiple is no part of an address: it may be meant to wrap."""
    tl.store(x + tl.arange(0, N), 1.0, mask=tl.program_id(0) * stride < n)


@triton.jit
def chosen_multiple(x, n, stride, N: tl.constexpr):
    """The index is not linear in the multiple."""
    tl.store(x + tl.where(tl.program_id(0) * stride < n, tl.arange(0, N), 0), 1.0)


SIGNATURE = {"x": "*fp32", "y": "*i32", "rows": "*i32", "n": "i32", "stride": "i32"}


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (copy_rows, {"nsw"}),
        (store_indices, {"none"}),
        (gather_row, {"none"}),
        (unsigned_offset, {"none"}),
        (masked_multiple, {"nsw"}),
        (compared_multiple, {"none"}),
        (chosen_multiple, {"none"}),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_index_arithmetic_alone_is_nsw(kernel, expected):
    names = [node.arg for node in kernel.source.parameters]
    signature = {name: SIGNATURE[name] for name in names if name in SIGNATURE}
    if kernel is unsigned_offset:
        signature["n"] = "u64"
    module = module_of(kernel.source, from_signature(kernel.source, signature, {"N": N}))
    assert {overflow for _, overflow in flags(module)} == expected


USES = {
    "offset": lambda b, p, i: (p + i).store(1.0),
    "extent": lambda b, p, i: (p + b.minimum(i, 9)).store(1.0),
    "mask": lambda b, p, i: (p + b.program_id(axis=0)).store(1.0, i < 9),
    "stored": lambda b, p, i: ((p + i).store(1.0), (p + b.program_id(axis=0)).store(i.to(F32))),
    "selecting": lambda b, p, i: p.store(b.where(i < 9, b.constant(F32, 1.0), 2.0)),
    "bits": lambda b, p, i: (p + (i ^ 5)).store(1.0),
    "unsigned": lambda b, p, i: (p + b.zext(i, I64)).store(1.0),
    "unused": lambda b, p, i: None,
}


@for_each("use", USES)
def test_every_use_counts(use):
    b = Builder()
    with b.kernel("k", p=pointer(F32), n=arg(I32)) as (p, n):
        USES[use](b, p, b.program_id(axis=0) * 4 + n)
    expected = "nsw" if use in ("offset", "extent", "mask") else "none"
    assert flags(mark_index_nsw(b.module())) == [("mul", expected), ("add", expected)]


@for_each(("op", "number", "expected"), [
    ("mul", 2**16, "nsw"), ("mul", 2**16 + 1, "none"), ("mul", -(2**16), "nsw"),
    ("mul", -(2**16) - 1, "none"), ("add", 2**30, "nsw"), ("add", 2**30 + 1, "none"),
    ("add", -(2**30), "nsw"), ("add", -(2**30) - 1, "none"), ("sub", 2**30, "nsw"),
    ("sub", 2**30 + 1, "none"),
])  # fmt: skip
def test_numbers_beyond_these_may_be_those_of_hashes(op, number, expected):
    """Where only a remainder reads the result."""
    b = Builder()
    with b.kernel("k", p=pointer(F32), n=I32) as (p, n):
        (p + getattr(b, op)(n, number).srem(7)).store(1.0)
    assert flags(mark_index_nsw(b.module())) == [(op, expected)]


TEXT = """
module {
  tt.func public @kernel(%x: !tt.ptr<i32>, %n: i32) {
    %c = arith.constant dense<1664525> : tensor<16xi32>
    %size = arith.constant 16 : i32
    %pid = tt.get_program_id x : i32
    %start = arith.muli %pid, %size : i32
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %at = tt.splat %start : i32 -> tensor<16xi32>
    %offset = arith.addi %at, %i : tensor<16xi32>
    %base = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %p = tt.addptr %base, %offset : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %v = tt.load %p : tensor<16x!tt.ptr<i32>>
    %w = arith.muli %v, %c : tensor<16xi32>
    tt.store %p, %w : tensor<16x!tt.ptr<i32>>
    tt.return
  }
}
"""


def test_ttir_has_the_same_rule():
    assert flags(ttir.read(TEXT)) == [("mul", "nsw"), ("add", "nsw"), ("mul", "none")]


@triton.jit
def asserts(x, ok, n, MASKED: tl.constexpr):
    i = tl.arange(0, 8)
    if MASKED:
        tl.device_assert(tl.load(x + i) > 0, "positive", mask=tl.load(ok + i) != 0)
    else:
        tl.device_assert(tl.load(x + i) > 0, "positive")


@pytest.mark.parametrize("on", ["interpreter", pytest.param("simt", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("masked", "checked", "fails"), [(True, 3, False), (True, 4, True), (False, 3, True)]
)
def test_an_assertion_is_of_the_elements_that_its_mask_selects(
    on: str, masked: bool, checked: int, fails: bool
) -> None:
    """Element 3 is not positive: the first `checked` elements are."""
    x, ok = np.array([1, 2, 3, 0, 5, 6, 7, 8]), np.arange(8) < checked
    arguments = x.astype(np.int32), ok.astype(np.int8), 8, masked
    asserts[(1,)](*arguments, on=on)  # not in debug mode
    if fails:
        with pytest.raises(TileirError, match="positive"):
            asserts[(1,)](*arguments, on=on, debug=True)
    else:
        asserts[(1,)](*arguments, on=on, debug=True)
