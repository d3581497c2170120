"""Halves of packed weights that are joined, scaled, rounded and multiplied: what moves between
threads is rounded first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.backend.layouts.shape_ops import stays
from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.builder import F16, F32, I8, I32, Builder, arg, pointer

OPTIONS = {"num_warps": 4, "num_stages": 3, "warp_specialize": False}
ROWS, K = 16, 64


def matmul(form: str, columns: int = 128, element: Any = F32, group: int = 16) -> Any:
    """out = x w, with two weights of four bits in a byte: neighbours along n (`n`), or neighbours
    along k of a matrix that is transposed (`k`). They are computed with as numbers of `element`,
    and have a scale per `group` columns of B in memory, none if `group` is 0."""
    b = Builder()
    kinds = {"x": arg(pointer(F16), aligned=16), "w": arg(pointer(I8), aligned=16)}
    kinds |= {"scales": arg(pointer(F16), aligned=16), "out": arg(pointer(F32), aligned=16)}
    shape = (K, columns) if form == "n" else (columns, K)
    with b.kernel("k", **kinds, iterations=arg(I32)) as (x, w, scales, out, iterations):
        total = b.var(b.full((ROWS, columns), 0.0, F32))
        with b.for_(0, iterations, stages=3) as i:
            at = b.arange(ROWS)[:, None] * K + b.arange(K)[None, :] + i * (ROWS * K)
            half = shape[1] // 2
            words = b.arange(shape[0])[:, None] * half + b.arange(half)[None, :]
            word = (w + (words + i * (shape[0] * half))).load()
            whole = b.join((word & 15).to(element), ((word >> 4) & 15).to(element))
            if group:
                groups = shape[1] // group
                places = b.arange(shape[0])[:, None] * groups + b.arange(groups)[None, :]
                scale = (scales + (places + i * (shape[0] * groups))).load().to(element)
                whole = whole.reshape(shape[0], groups, group) * scale[:, :, None]
            whole = whole.reshape(*shape).to(F16)
            right = whole if form == "n" else b.trans(whole, order=(1, 0))
            total.set(b.dot((x + at).load(), right, total.get()))
        places = b.arange(ROWS)[:, None] * columns + b.arange(columns)[None, :]
        (out + places).store(total.get())
    return b.module()


def ops_of(module: Any) -> Any:
    return list(compile_kernel(module, "sm_90a", OPTIONS).tir_at("barriers").functions["k"].ops)


def exchanges(ops: Any) -> list[tuple[Any, tuple[int, ...]]]:
    """The elements and shapes of the tiles that a conversion moves between threads."""
    return [
        (op.inputs[0].type.element, op.inputs[0].type.shape)
        for op in ops
        if op.mnemonic == "gpu.convert_layout"
        and not isinstance(conversion(op.inputs[0].type, op.result.type.layout), tuple)
    ]


@pytest.mark.parametrize("columns", [64, 128])
@pytest.mark.parametrize("group", [0, 16, 32])
def test_weights_are_rounded_before_they_move(group: int, columns: int) -> None:
    """Neighbours of a row of B belong to different lanes of `mma.sync`."""
    ops = ops_of(matmul("n", columns, group=group))
    assert all(stays(op) for op in ops if op.mnemonic == "join")
    tiles = [(element, shape) for element, shape in exchanges(ops) if shape != (ROWS, columns)]
    assert (F16, (K, columns)) in tiles
    assert all(np.prod(shape) <= K * columns // 16 for element, shape in tiles if element is F32)


@pytest.mark.parametrize("group", [0, 16])
def test_weights_that_are_not_rounded_are_joined_and_move(group: int) -> None:
    """A join itself moves nothing, in any layout."""
    ops = ops_of(matmul("n", element=F16, group=group))
    assert all(stays(op) for op in ops if op.mnemonic == "join")
    assert F32 not in [element for element, shape in exchanges(ops) if shape != (ROWS, 128)]


@pytest.mark.parametrize("group", [0, 16])
def test_neighbours_along_k_do_not_move(group: int) -> None:
    """A lane of `mma.sync` has both halves: the bytes are read from shared memory by the lanes that
    need them."""
    ops = ops_of(matmul("k", group=group))
    assert all(stays(op) for op in ops if op.mnemonic == "join")
    shapes = [shape for _, shape in exchanges(ops)]
    assert not {(K, 128), (128, K), (128, K // 2, 2)}.intersection(shapes)


@pytest.mark.parametrize("form", ["n", "k"])
@pytest.mark.parametrize(("element", "group"), [(F32, 0), (F32, 16), (F16, 16)])
def test_threads_agree_with_the_interpreter(form: str, element: Any, group: int) -> None:
    random = np.random.default_rng(5)
    columns = 64
    arrays = [
        random.integers(-2, 3, (2, ROWS, K)).astype(np.float16),
        random.integers(-128, 128, (2, K, columns // 2)).astype(np.int8),
        random.choice([0.5, 1, 2], (2, K, columns // max(group, 1))).astype(np.float16),
        np.zeros((ROWS, columns), np.float32),
    ]
    module = matmul(form, columns, element, group)
    assert_equal_results(module, [*arrays, 2], target="sm_90a", **OPTIONS)


def test_halves_that_are_fixed_are_joined_where_they_are() -> None:
    """A join of loaded halves whose result is stored by other lanes moves its result once."""
    b = Builder()
    kinds = {name: arg(pointer(F32), aligned=16) for name in "xyz"}
    with b.kernel("k", **kinds) as (x, y, z):
        places = b.arange(32)[:, None] * 32 + b.arange(32)[None, :]
        whole = b.join((x + places).load(), (y + places).load()).reshape(32, 64)
        at = b.arange(64)[:, None] * 32 + b.arange(32)[None, :]
        (z + at).store(b.trans(whole, order=(1, 0)))
    module = b.module()
    joins = [op for op in ops_of(module) if op.mnemonic == "join"]
    assert joins and all(stays(op) for op in joins)
    numbers = np.arange(1024, dtype=np.float32)
    arrays = [numbers, -numbers, np.zeros(2048, np.float32)]
    assert_equal_results(module, arrays, target="sm_90a", num_warps=4)
