"""Loads of bytes of tiles whose other accesses are of larger elements."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

import tileir
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32, I8, I32, Builder, arg, pointer


def doubles_of_bytes(rows, columns, element=F32, loops=False, aligned=16):
    """A kernel that loads a matrix of bytes, and stores twice their values, in a loop if
    `loops`."""
    b = Builder()
    kinds = {"x": arg(pointer(I8), aligned=aligned), "y": arg(pointer(element), aligned=16)}
    with b.kernel("k", n=I32, **kinds) as (n, x, y):
        at = b.arange(rows)[:, None] * columns + b.arange(columns)[None, :]

        def copy(first):
            (y + (at + first)).store((x + (at + first)).load().to(element) * 2.0)

        if loops:
            with b.for_(0, n) as i:
                copy(i * (rows * columns))
        else:
            copy(0)
    return b.module()


def accesses(module):
    ptx = compile_kernel(module, "sm_90a", options={"num_warps": 4}).ptx
    return Counter(re.findall(r"(?:ld|st)\.global\S*", ptx))


@for_each(("rows", "columns"), [(128, 128), (64, 128), (16, 512)])
def test_bytes_of_large_tiles_are_loaded_16_at_a_time(rows, columns):
    """The larger elements are stored four at a time, neighbours by neighbouring lanes."""
    module, count = doubles_of_bytes(rows, columns), rows * columns // 128
    vectors = {"ld.global.v4.b32": count // 16, "st.global.v4.b32": count // 4}
    assert accesses(module) == vectors
    x = np.random.default_rng(0).integers(-128, 128, rows * columns).astype(np.int8)
    y, expected = np.zeros((2, rows * columns), np.float32)
    SimtExecutor().launch(module, None, 1, [0, x, y], num_warps=4)
    tileir.interpret(module, "k", (1,), {"n": 0, "x": x, "y": expected})
    np.testing.assert_array_equal(y, expected)
    assert expected.any()


def test_other_bytes_are_loaded_in_the_layout_of_the_other_accesses():
    """Of a tile of few elements; in a loop, whose iterations would wait at a barrier; where 8 at a
    time are stored; from addresses that are not aligned to 16 bytes."""
    assert accesses(doubles_of_bytes(64, 64))["ld.global.b32"] == 8
    assert accesses(doubles_of_bytes(128, 128, loops=True))["ld.global.b32"] == 32
    assert accesses(doubles_of_bytes(128, 128, F16))["ld.global.v2.b32"] == 16
    assert accesses(doubles_of_bytes(128, 128, aligned=4))["ld.global.b32"] == 32
