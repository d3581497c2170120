"""Conversions to and from 8-bit floats, by instructions and by bits, against the interpreter."""

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.codegen.rules.f8_f4 import narrow, narrow_four, widen
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.builder import BF16, F8E4M3, F8E5M2, F32, Builder, arg, pointer
from tileir.machine import dtype_of
from tileir.machine.casts import to_float
from tileir.testing.attention import attention

KINDS = [F8E4M3, F8E5M2]


def thread(count, by_instruction):
    simt_thread = SimtThread(count, (0, 0, 0), (1, 1, 1), SimtMemory(0))
    simt_thread.f8_conversion = by_instruction
    return simt_thread


def same(actual, expected):
    bits = actual.view(np.uint8) == expected.view(np.uint8)
    nan = [np.isnan(x.view(expected.dtype).astype(np.float32)) for x in (actual, expected)]
    return bits | (nan[0] & nan[1])


@for_each("by_instruction", [False, True])
@for_each("saturate", [False, True])
@for_each("kind", KINDS)
def test_narrowing(kind, saturate, by_instruction):
    random = np.random.default_rng(0)
    every = np.arange(256, dtype=np.uint8).view(dtype_of(kind)).astype(np.float32)
    between = [
        np.nextafter(x, np.float32(s * 1e9)) for x in (every, every * 1.0625) for s in (-1, 1)
    ]
    raw = random.integers(0, 1 << 32, 4000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = np.float32([464, -464, 480, 61440, -61440, 65536, np.inf, -np.inf, 448, 57344])
    with np.errstate(all="ignore"):
        x = np.concatenate([every, *between, (every[:-1] + every[1:]) / 2, raw, edges])
        x = x.astype(np.float32)
        expected = to_float(x, dtype_of(kind), saturate=saturate)
        array = narrow(
            thread(len(x), by_instruction), F32, kind, ThreadValues(x), "rn", saturate
        ).array
    assert same(array, expected).all()


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_four_are_narrowed_as_one_is(kind, saturate):
    random = np.random.default_rng(1)
    raw = random.integers(0, 1 << 32, (4, 2000), dtype=np.uint64).astype(np.uint32).view(np.float32)
    raw[:, :6] = random.permuted(np.float32([[448, 465, -465, 61440, np.inf, np.nan]] * 4), axis=1)
    machine = thread(raw.shape[1], True)
    result = narrow_four(machine, F32, kind, [ThreadValues(x) for x in raw], saturate)
    for x, low in zip(raw, result, strict=True):
        assert same(
            low.array, narrow(machine, F32, kind, ThreadValues(x), "rn", saturate).array
        ).all()


@pytest.mark.parametrize(("saturate", "compared"), [(True, False), (False, True)])
def test_four_neighbours_are_a_word_made_by_two_instructions(saturate, compared):
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), y=arg(pointer(F8E4M3), aligned=4)) as (
        x,
        y,
    ):
        at = b.arange(128)
        (y + at).store((x + at).load().to(F8E4M3, saturate=saturate))
    compiled = compile_kernel(b.module(), "sm_90", {"num_warps": 1})
    assert compiled.ptx.count("cvt.rn.satfinite.e4m3x2.f32") == 2
    assert ("setp" in compiled.ptx) == compared and len(compiled.cubin) > 0


def test_halves_of_words_are_joined_by_one_permutation():
    """The operand of a chained matmul of 8 bits: what lanes exchange are words, taken from the
    conversion and given to the matmul as they are."""
    options = Options(warp_specialize=True, persistent=True)
    module = attention(128, 128, 128, F8E4M3, BF16, v_transposed=True)
    ptx = compile_kernel(module, "sm_90a", options).ptx
    words = 64 * 128 // 128 // 4  # of the weights of a step, a thread
    assert ptx.count("prmt.b32") == words
    assert ptx.count("cvt.rn.satfinite.e4m3x2.f32") == 2 * 2 * words  # for the first step, too


@pytest.mark.parametrize("by_instruction", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_widening(kind, by_instruction):
    raw = np.arange(256, dtype=np.uint8)
    array = widen(thread(256, by_instruction), kind, ThreadValues(raw.view(np.int8))).array
    np.testing.assert_array_equal(array, raw.view(dtype_of(kind)).astype(np.float32))


@pytest.mark.parametrize(("target", "expected"), [("sm_80", 0), ("sm_89", 1), ("sm_90", 1)])
def test_instructions_are_used_where_there_are_any(target, expected):
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F8E4M3)) as (x, y):
        y.store(b.fpcast(x.load(), to=F8E4M3, saturate=True))
    compiled = compile_kernel(b.module(), target)
    assert compiled.ptx.count("cvt.rn.satfinite.e4m3x2.f32") == expected
    assert len(compiled.cubin) > 0
