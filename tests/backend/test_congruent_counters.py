"""Counters that differ by a constant become one (`merge-congruent-counters`)."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.transforms.congruent_counters import merge_congruent_counters
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.interp import interpret
from tileir.ir import Function, Module
from tileir.ops.arith import Add
from tileir.textual import parse

TEXT = """tir 1.0
define kernel void @f(i32* %x, i32 %first, i32 %n) {
entry:
  %before = sub i32 %first, 8
  br loop
loop:
  %i = phi i32 [%first, entry], [%j, body]
  %late = phi i32 [%before, entry], [%later, body]
  %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
  cond_br %more, body, done
body:
  %p = getelementptr i32* %x, %i
  %later = add i32 %late, 8
  store %p, %later
  %j = add i32 %i, 8
  br loop
done:
  ret
}
"""


def counters(text: str) -> tuple[Function, Function]:
    """The function, and the function with its counters merged."""
    function = parse(text).functions["f"]
    return function, merge_congruent_counters(function)


def run_and_read(function: Function) -> list[int]:
    array = np.zeros(64, np.int32)
    interpret(Module({"f": function}), "f", (1,), [array, 9, 40])
    return array.tolist()


@pytest.mark.parametrize(("distance", "adds"), [(8, 1), (16, 2), (0, 2), (-8, 2)])
def test_a_counter_is_computed_from_another(distance: int, adds: int) -> None:
    function, merged = counters(TEXT.replace("sub i32 %first, 8", f"sub i32 %first, {distance}"))
    assert len(merged.blocks["loop"].parameters) == 1
    assert sum(isinstance(op, Add) for op in merged.ops) == adds
    assert run_and_read(merged) == run_and_read(function)


def test_counters_wrap_around() -> None:
    text = TEXT.replace("i32 %first, 8", "i32 %first, -2147483648")
    function, merged = counters(text)
    assert merged is not function and run_and_read(merged) == run_and_read(function)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%late, 8", "%late, 4"),  # another step
        ("%before = sub i32 %first, 8", "%before = mul i32 %first, 8"),
        ("%before = sub i32 %first, 8", "%before = sub i32 %n, 8"),
        ("store %p, %later", "store %p, %late"),  # read before it is incremented
        ("[%later, body]", "[%first, body]"),
    ],
)  # fmt: skip
def test_counters_that_stay(old: str, new: str) -> None:
    assert old in TEXT
    function, merged = counters(TEXT.replace(old, new))
    assert merged is function


ROWS, COLUMNS, DEPTH, BLOCKS = 64, 32, 32, 3


def persistent_matmul() -> Module:
    """`matmul(x, y, z, m, n, k)`: z [m, n] = x [m, k] y [n, k]ᵀ by `BLOCKS` instances. The loop
    counts the tiles of its epilogue separately, and loads row 0 in place of rows outside."""
    b, kind = Builder(), arg(pointer(F16), aligned=16, noalias=True)
    kinds = dict.fromkeys("xyz", kind)
    with b.kernel("matmul", **kinds, m=I32, n=I32, k=I32) as (x, y, z, m, n, k):
        tiles_n = (n + (COLUMNS - 1)) // COLUMNS
        tiles = (m + (ROWS - 1)) // ROWS * tiles_n
        start, depth = b.program_id(axis=0), b.arange(DEPTH)
        stored_tile = b.var(start - BLOCKS)
        with b.for_(start, tiles, BLOCKS) as tile:
            i, j = (
                b.arange(ROWS) + tile // tiles_n * ROWS,
                b.arange(COLUMNS) + tile % tiles_n * COLUMNS,
            )
            rows, columns = b.where(i < m, i, 0)[:, None], b.where(j < n, j, 0)[None, :]
            acc = b.var(b.full((ROWS, COLUMNS), 0.0, F32))
            with b.for_(0, k, DEPTH) as at:
                inside = depth < k - at
                low = inside[None, :].broadcast_to(ROWS, DEPTH)
                high = inside[:, None].broadcast_to(DEPTH, COLUMNS)
                left = (x + (rows * k + (depth + at)[None, :])).load(low, 0.0)
                right = (y + (columns * k + (depth + at)[:, None])).load(high, 0.0)
                acc.set(b.dot(left, right, acc.get()))
            stored_tile.set(stored_tile.get() + BLOCKS)
            at = stored_tile.get()
            i = (b.arange(ROWS) + at // tiles_n * ROWS)[:, None]
            j = (b.arange(COLUMNS) + at % tiles_n * COLUMNS)[None, :]
            mask = (i < m).broadcast_to(ROWS, COLUMNS) & (j < n).broadcast_to(ROWS, COLUMNS)
            (z + (i * n + j)).store(acc.get().to(F16), mask)
    return b.module()


def test_a_persistent_matmul_with_two_counters_has_tensor_maps() -> None:
    """The rows that are loaded are known to be those that are stored."""
    module, (m, n, k) = persistent_matmul(), (136, 72, 72)
    options = {"persistent": False, "num_stages": 2}
    assert "cp.async.bulk.tensor" in compile_kernel(module, "sm_90a", options).ptx
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (n, k)))
    z = np.full((m, n), np.nan, np.float16)
    arguments = [x, y, z, m, n, k]
    SimtExecutor().launch(module, None, BLOCKS, arguments, target="sm_90a", **options)
    np.testing.assert_allclose(z, x.astype(float) @ y.T.astype(float), rtol=0, atol=0.05)
