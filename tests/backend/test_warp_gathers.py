"""Gathers along an axis that each warp owns whole: the barriers that they need, and threads against
the interpreter."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.backend.test_reduction_layouts import drawn_layout, with_diagonals
from tests.backend.thread_coordinates import coordinates
from tests.sizes import few_or_all
from tileir import interpret
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.hazards import _is_private
from tileir.backend.shared_memory.requirements import is_warp_local
from tileir.backend.shared_memory.warp_gathers import gathers_within_warps
from tileir.builder import F32, Builder, arg, pointer
from tileir.layout import Repeat, layout
from tileir.layout_tilings import blocked_layout
from tileir.ops.gpu import ConvertLayout
from tileir.types import Tile
from tileir.values import Value


def butterflies(shape: tuple[int, int], axis: int, steps: int = 3) -> Any:
    """Each step adds to every element the one whose coordinate along `axis` differs in a bit."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind) as (x, y):
        rows, columns = b.arange(shape[0])[:, None], b.arange(shape[1])[None, :]
        at = rows * shape[1] + columns
        value = (x + at).load()
        for step in range(steps):
            index = ((rows if axis == 0 else columns) ^ (1 << step)).broadcast_to(*shape)
            value = value + b.gather(value, index, axis=axis)
        (y + at).store(value)
    return b.module()


@pytest.mark.parametrize(
    ("shape", "axis", "near"),
    [((16, 64), 1, True), ((16, 64), 0, False), ((2, 32), 1, False), ((1, 512), 1, False)],
)
def test_warps_wait_only_for_what_others_wrote(shape, axis, near):
    """Rows of 64 belong to one warp each. Columns are divided; two rows are owned by several warps,
    of which the first stores them; and one row of 512 is divided."""
    module = butterflies(shape, axis)
    ptx = compile_kernel(module, "sm_90", Options(num_warps=4)).ptx
    assert ("bar.sync" in ptx) is not near
    assert ("bar.warp.sync" in ptx) is near
    x = np.random.default_rng(1).integers(-8, 9, shape).astype(np.float32)
    expected, actual = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    interpret(module, "k", (1,), [x, expected])
    SimtExecutor().launch(module, "k", 1, [x, actual], num_warps=4)
    np.testing.assert_array_equal(actual, expected)


ROWS = blocked_layout((16, 64), (1, 0), 2, 4)
"""A warp owns whole rows."""


def tile(it: Any, *shape: int) -> Tile:
    return Tile(F32, shape or it.extents, it)


@pytest.mark.parametrize(
    ("source", "result", "axis", "near"),
    [
        (tile(ROWS), tile(ROWS), 1, True),
        (tile(ROWS), tile(blocked_layout((16, 128), (1, 0), 4, 4)), 1, True),
        (tile(ROWS), tile(ROWS), 0, False),
        (tile(ROWS), tile(blocked_layout((16, 64), (0, 1), 2, 4)), 1, False),
        (tile(ROWS, 12, 64), tile(ROWS, 12, 64), 1, False),
    ],
    ids=["rows", "longer rows", "columns", "other warps", "padding"],
)
def test_the_same_warp_writes_and_reads(source, result, axis, near):
    assert gathers_within_warps(source, result, axis) is near


def test_elements_of_several_warps():
    """The first warp stores an element that several own; and one warp needs no barrier of a warp in
    place of another."""
    several = layout(
        2, repeats=(Repeat("register", 4, 0), Repeat("lane", 32, 1), Repeat("warp", 4, None))
    )
    assert not gathers_within_warps(tile(several), tile(several), 1)
    alone = blocked_layout((4, 32), (1, 0), 1, 1)
    assert not gathers_within_warps(tile(alone), tile(alone), 1)


OTHERS = blocked_layout((16, 64), (0, 1), 2, 4)
"""A warp owns whole columns."""


def test_ops_share_bytes_where_both_stay_within_warps():
    """The bytes of a warp are then its own, whatever it reads of them."""
    values = {it: Value(Tile(F32, (16, 64), it)) for it in (ROWS, OTHERS)}
    longer = blocked_layout((16, 128), (1, 0), 4, 4)
    ops: list[Any] = [
        SimpleNamespace(mnemonic="gather", source=source, result=Value(tile(to)), axis=axis)
        for source in values.values() for to in (ROWS, OTHERS, longer) for axis in (0, 1)
        if to is not longer or axis == 1
    ]  # fmt: skip
    turned = blocked_layout((16, 64), (1, 0), 1, 4)
    ops += [ConvertLayout(v, layout=to) for v in values.values() for to in (ROWS, OTHERS, turned)]
    expected = [
        (a, b) for a in ops for b in ops
        if is_warp_local(a) and is_warp_local(b) and a.mnemonic == b.mnemonic
        and a.source.type is b.source.type and (a.mnemonic == "gather" or a.layout == b.layout)
    ]  # fmt: skip
    assert [(a, b) for a in ops for b in ops if _is_private(a, b)] == expected
    assert len(expected) > 2 and any(a is not b for a, b in expected)


def warps_by_element(it: Any) -> dict[tuple[int, ...], set[int]]:
    """The warps that own each element."""
    owners: dict[tuple[int, ...], set[int]] = {}
    for register in range(it.size("register")):
        for thread, place in enumerate(coordinates(it, register)):
            owners.setdefault(tuple(map(int, place)), set()).add(thread // 32)
    return owners


@pytest.mark.parametrize("count", few_or_all(500, 9000))
def test_a_warp_reads_what_it_alone_owns(count):
    """Whatever the index along the axis is."""
    near = 0
    for seed in range(count):
        choose = random.Random(seed)
        source = drawn_layout(choose)
        if not source.repeats and choose.random() < 0.5:
            source = with_diagonals(source, choose)
        result = source
        if not source.repeats and choose.random() < 0.3:
            result = with_diagonals(source, choose)
        axis = choose.randrange(2)
        if result.extents != source.extents or not gathers_within_warps(
            tile(source), tile(result), axis
        ):
            continue
        near += 1
        rows: dict[int, set[int]] = {}
        for place, warps in warps_by_element(source).items():
            assert len(warps) == 1, seed
            rows.setdefault(place[1 - axis], set()).update(warps)
        for place, warps in warps_by_element(result).items():
            assert warps == rows[place[1 - axis]], seed
    assert near > count // 50
