"""Arithmetic on four bytes at a time: every pair of bytes, and what kernels execute."""

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.rules.packed_bytes import OF_WORDS
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.builder import F16, I8, I32, Builder, arg, pointer

_EVERY = np.arange(256, dtype=np.uint8)
_OF_NUMPY = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "add": np.add, "sub": np.subtract,
}  # fmt: skip
_SHIFTS = sorted(OF_WORDS.keys() - _OF_NUMPY.keys())


def word_of(t, values):
    return t.pack(I8, [ThreadValues(x.view(np.int8)) for x in values])


def bytes_of(t, word):
    return [x.array.view(np.uint8) for x in t.unpack(I8, word)]


@for_each("name", list(_OF_NUMPY))
def test_every_pair_of_bytes(name):
    """The neighbours of a byte have other values, which neither carry nor borrow."""
    t = SimtThread(256 * 256, (0, 0, 0), (1, 1, 1), SimtMemory(0))
    left, right = (x.ravel() for x in np.meshgrid(_EVERY, _EVERY))
    a, b = ([np.roll(x, i * step) for i in range(4)] for x, step in ((left, 77), (right, 9999)))
    result = bytes_of(t, OF_WORDS[name](t, word_of(t, a), word_of(t, b)))
    for x, y, total in zip(a, b, result, strict=True):
        np.testing.assert_array_equal(total, _OF_NUMPY[name](x, y))


@for_each("amount", range(1, 8))
@for_each("name", _SHIFTS)
def test_every_byte_by_every_amount(name, amount):
    t = SimtThread(256, (0, 0, 0), (1, 1, 1), SimtMemory(0))
    values = [np.roll(_EVERY, i * 37) for i in range(4)]
    result = bytes_of(t, OF_WORDS[name](t, word_of(t, values), amount))
    for x, shifted in zip(values, result, strict=True):
        signed = (x.view(np.int8) >> amount).view(np.uint8)
        expected = {"shl": x << amount, "lshr": x >> amount, "ashr": signed}[name]
        np.testing.assert_array_equal(shifted, expected.astype(np.uint8))


def halves(target, *, alone=False):
    """The low halves of bytes less 8, then the high ones; with `alone`, bytes that no word has."""
    b = Builder()
    data, out = arg(pointer(I8), aligned=16), arg(pointer(target), aligned=16)
    with b.kernel("k", x=data, y=out) as (x, y):
        at = b.arange(512)
        packed = (x + (at * 3 if alone else at)).load()
        (y + at).store(((packed & 15) - 8).to(target))
        (y + (at + 512)).store((packed >> 4).to(target))
    return b.module()


@pytest.mark.parametrize("alone", [False, True])
def test_weights_are_unpacked_by_words(alone):
    """One shift for the high halves of four bytes, and no byte in a register of its own."""
    ptx = compile_kernel(halves(F16, alone=alone), "sm_90", {"num_warps": 1}).ptx
    assert ptx.count("sub.rn.f16x2") == 16
    assert ptx.count("shr") == 4 and ".s16" not in ptx and ".u16" not in ptx


@pytest.mark.parametrize("target", [F16, I32], ids=str)
@pytest.mark.parametrize("alone", [False, True])
def test_halves_against_the_interpreter(alone, target):
    data = np.arange(1536).astype(np.int8)
    out = np.zeros(1024, np.float16 if target is F16 else np.int32)
    module = halves(target, alone=alone)
    _, out = assert_equal_results(module, [data, out], target="sm_90", num_warps=1)
    if not alone:
        low, high = (data[:512] & 15) - 8, data[:512] >> 4
        np.testing.assert_array_equal(out, np.concatenate([low, high]))


def test_bytes_that_are_compared_stay_alone():
    """Bytes that no word has are packed only if they become floats four at a time."""
    ptx = compile_kernel(halves(I32, alone=True), "sm_90", {"num_warps": 1}).ptx
    assert "prmt" not in ptx
