"""Floats of small integers by their bits: every integer, and what the kernels hold."""

import numpy as np
import pytest

import tileir
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.rules.f8_f4 import widen_four_e5m2, widen_some
from tileir.backend.codegen.rules.small_integers import BY_BITS, by_bits, four_by_bits
from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.builder import BF16, F8E4M3, F8E5M2, F16, F32, I8, Builder, arg, pointer
from tileir.machine import dtype_of
from tileir.types import Tile


def thread(count):
    return SimtThread(count, (0, 0, 0), (1, 1, 1), SimtMemory(0))


@for_each("signed", [False, True])
@for_each(("source", "target"), list(BY_BITS))
def test_every_integer(source, target, signed):
    half = 1 << source.bits - 1
    raw = np.arange(2 * half)
    worth = np.where(raw >= half, raw - 2 * half, raw)
    stored = ThreadValues(worth.astype(dtype_of(source)))
    values = by_bits(thread(len(raw)), signed, source, target, stored).array
    expected = (worth if signed else raw).astype(dtype_of(target))
    assert values.dtype == expected.dtype and (values == expected).all()
    assert not np.signbit(values[0])


@for_each("signed", [False, True])
@for_each("target", [F16, BF16, F32])
def test_every_byte_of_four(target, signed):
    raw = np.arange(-128, 128) + (0 if signed else 128)
    values = [np.roll(raw, i * 37) for i in range(4)]
    stored = [ThreadValues(v.astype(np.uint8).view(np.int8)) for v in values]
    bits = four_by_bits(thread(256), target, stored, signed=signed)
    for result, value in zip(bits, values, strict=True):
        assert result.array.dtype == dtype_of(target)
        assert (result.array == value.astype(dtype_of(target))).all()
        assert not np.signbit(result.array[value == 0]).any()


@for_each("less", [-128, -8, 0, 1, 8, 127])
@for_each("target", [F16, BF16, F32])
def test_every_byte_without_sign_less_a_number(target, less):
    raw = np.arange(128)
    values = [np.roll(raw, i * 37) for i in range(4)]
    stored = [ThreadValues(v.astype(np.int8)) for v in values]
    bits = four_by_bits(thread(128), target, stored, has_sign=False, less=less)
    for result, value in zip(bits, values, strict=True):
        assert result.array.dtype == dtype_of(target)
        assert (result.array == (value - less).astype(dtype_of(target))).all()
        assert not np.signbit(result.array[value == less]).any()


def halves_less(target, amount, mask):
    b = Builder()
    x, y = arg(pointer(I8), aligned=16), arg(pointer(target), aligned=16)
    with b.kernel("k", x=x, y=y) as (x, y):
        at = b.arange(256)
        (y + at).store((((x + at).load() & mask) - amount).to(target))
    return b.module()


@for_each("target", [F16, BF16, F32])
@for_each(("amount", "mask", "is_part"), [
    (8, 15, True), (-3, 63, True), (0, 127, True), (8, 255, False), (-100, 127, False),
])  # fmt: skip
def test_an_offset_of_bytes_without_sign_is_part_of_their_conversion(target, amount, mask, is_part):
    """Not where the difference wraps, or where the byte may be negative."""
    module = halves_less(target, amount, mask)
    ptx = compile_kernel(module, "sm_90", {"num_warps": 1}).ptx
    of_signs = ptx.count("xor.b32") + ptx.count("and.b32")
    assert (of_signs == (2 if mask < 255 else 0)) == is_part
    data = np.arange(256, dtype=np.uint8).view(np.int8)
    mine, theirs = np.zeros(256, dtype_of(target)), np.zeros(256, dtype_of(target))
    tileir.interpret(module, None, 1, [data, theirs])
    SimtExecutor().launch(module, None, 1, [data, mine], target="sm_90", num_warps=1)
    np.testing.assert_array_equal(mine.astype(np.float64), theirs.astype(np.float64))


@for_each(("target", "signed"), [(F16, True), (BF16, True), (F16, False)])
def test_bytes_are_converted_by_pairs(target, signed):
    ptx = kernel(I8, target, signed).ptx
    name = f"{target.name}x2"
    assert ptx.count(f"sub.rn.{name}") == 8 and ptx.count("prmt.b32") == 8


@for_each("signed", [False, True])
def test_bytes_become_singles_by_words(signed):
    """A permutation and a sum for each, and one instruction for the signs of four."""
    ptx = kernel(I8, F32, signed).ptx
    assert ptx.count("prmt.b32") == 16 and ptx.count("add.rn.f32") == 16
    assert ptx.count("xor.b32") == (4 if signed else 0)


def kernel(element, target, signed=True):
    b = Builder()
    data, out = arg(pointer(element), aligned=16), arg(pointer(target), aligned=16)
    with b.kernel("k", x=data, y=out) as (x, y):
        at = b.arange(512)
        (y + at).store((x + at).load().to(target, signed=signed))
    return compile_kernel(b.module(), "sm_90", {"num_warps": 1})


@pytest.mark.parametrize("target", [F16, BF16, F32], ids=str)
def test_no_integer_is_converted(target):
    ptx = kernel(I8, target).ptx
    assert f"cvt.rn.{target.name}.s" not in ptx and "cvt.rn.f32.s" not in ptx
    assert "sub.rn" in ptx or "add.rn" in ptx


def test_two_neighbours_are_widened_by_an_instruction():
    assert kernel(F8E4M3, F32).ptx.count("cvt.rn.f16x2.e4m3x2") == 8


@pytest.mark.parametrize("count", [1, 2])
def test_every_e4m3(count):
    raw = np.arange(256, dtype=np.uint8)
    values = [raw, raw[::-1].copy()][:count]
    result = widen_some(thread(256), [ThreadValues(x.view(dtype_of(F8E4M3))) for x in values])
    assert len(result) == count
    for x, half in zip(values, result, strict=True):
        expected = x.view(dtype_of(F8E4M3)).astype(np.float32)
        assert np.array_equal(half.array.astype(np.float32), expected, equal_nan=True)


def test_every_e5m2():
    """An f16 is an e5m2 and 8 more digits, the payloads of NaNs included."""
    raw = np.arange(256, dtype=np.uint8)
    values = [np.roll(raw, i * 37) for i in range(4)]
    result = widen_four_e5m2(thread(256), [ThreadValues(x.view(np.int8)) for x in values])
    for x, half in zip(values, result, strict=True):
        assert np.array_equal(half.array.view(np.uint16), x.astype(np.uint16) << 8)


@pytest.mark.parametrize("target", [F16, BF16, F32], ids=str)
def test_two_e5m2_are_widened_by_an_instruction(target):
    assert kernel(F8E5M2, target).ptx.count("prmt.b32") == 8


@for_each("saturate", [False, True])
@for_each("target", [F16, BF16, F32])
def test_infinities_of_four_e5m2_saturate(target, saturate):
    b = Builder()
    x, y = arg(pointer(F8E5M2), aligned=16), arg(pointer(target), aligned=16)
    with b.kernel("k", x=x, y=y) as (x, y):
        at = b.arange(256)
        (y + at).store(b.fpcast((x + at).load(), to=Tile(target, (256,)), saturate=saturate))
    data = np.arange(256, dtype=np.uint8).view(dtype_of(F8E5M2))
    mine, theirs = np.zeros(256, dtype_of(target)), np.zeros(256, dtype_of(target))
    tileir.interpret(b.module(), None, 1, [data, theirs])
    SimtExecutor().launch(b.module(), None, 1, [data, mine], num_warps=1)
    np.testing.assert_array_equal(mine.astype(np.float64), theirs.astype(np.float64))
