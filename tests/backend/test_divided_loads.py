"""Vectors that each lane of a warp needs whole are loaded once, and exchanged within the warp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.backend.layouts.assign_layouts import _divide_among_lanes
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.layout import Layout
from tileir.layout_text import parse_layout
from tileir.ops.gpu import ConvertLayout
from tileir.ops.memory import Load
from tileir.types import Tile

COLUMNS = 64


def sum_rows(rows: int, blocks: int = 1) -> Any:
    """The weighted sum of rows of x, each `rows` of them by one load."""
    b = Builder()
    names = {"x": arg(pointer(F16), aligned=16), "places": pointer(I32), "weights": pointer(F32)}
    with b.kernel("k", **names, out=pointer(F32), n=I32) as (x, places, weights, out, n):
        columns = b.arange(COLUMNS)
        total = b.var(b.full((COLUMNS,), 0.0, F32))
        with b.for_(0, blocks) as i:
            at = b.arange(rows) + i * rows
            place = (places + at).load(at < n, 0)
            weight = (weights + at).load(at < n, 0.0)
            read = (x + (place[:, None] * COLUMNS + columns[None, :])).load()
            total.set(
                total.get() + b.reduce(read.to(F32) * weight[:, None], axis=0, combiner="fadd")
            )
        (out + columns).store(total.get())
    return b.module()


def vectors(rows: int) -> list[tuple[int, int]]:
    """The registers of a thread for each vector that it loads, and those after conversions."""
    compiled = compile_kernel(sum_rows(rows), "sm_90a", {"num_warps": 4})
    function = compiled.tir_at("layouts").kernel()
    loads = [op for op in function.ops if isinstance(op, Load) and _rank(op.result) == 1]
    converted = {op.inputs[0]: op.result for op in function.ops if isinstance(op, ConvertLayout)}
    return [(_size(op.result), _size(converted.get(op.result, op.result))) for op in loads]


def _rank(value: Any) -> int:
    return len(value.type.shape) if isinstance(value.type, Tile) else 0


def _size(value: Any) -> int:
    return value.type.layout.size("register")


def test_each_lane_loads_one_element() -> None:
    assert vectors(128) == [(1, 8), (1, 8)]


def test_few_elements_are_loaded_by_each_lane() -> None:
    assert vectors(64) == [(4, 4), (4, 4)]


@pytest.mark.parametrize("n", [0, 1, 100, 256])
def test_threads_agree(n: int) -> None:
    random = np.random.default_rng(n)
    x = random.integers(-3, 4, (50, COLUMNS)).astype(np.float16)
    places = random.integers(0, 50, 256).astype(np.int32)
    weights = random.integers(-3, 4, 256).astype(np.float32)
    arguments = [x, places, weights, np.full(COLUMNS, 7, np.float32), n]
    assert_equal_results(sum_rows(128, 2), arguments, num_warps=4, target="sm_90a")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[[8], [16], [32]], lane = [[0], [0], [0], [1], [2]]",
         "[], lane = [[8], [16], [32], [1], [2]]"),
        ("[[8], [16]], lane = [[0], [0], [0], [1], [2]]", None),  # few
        ("[[8], [16], [32]], lane = [[0], [0], [64], [1], [2]]", None),  # too few lanes
        ("[[1], [16], [32]], lane = [[0], [0], [0], [8], [2]]", None),  # neighbours
    ],
)  # fmt: skip
def test_registers_are_divide_among_lanes_without_elements(before: str, after: str | None) -> None:
    def parse(text: str) -> Layout:
        return parse_layout(f"layout(rank = 1, register = {text}, warp = [[4]])")

    assert _divide_among_lanes(parse(before)) == parse(after or before)
