"""Loads and stores: policies, masks and masked-off elements, blocks at each edge."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir.ops.memory import Load, Store

from .sources import kernel_of

POLICIES: dict[str, tuple[str, str, bool]] = {
    "": ("none", "normal", False),
    "cache_modifier='.cg'": ("cg", "normal", False),
    "cache_modifier='.cs', eviction_policy='evict_normal'": ("cs", "normal", False),
    "eviction_policy='evict_first'": ("none", "first", False),
    "eviction_policy='evict_last'": ("none", "last", False),
    "volatile=True": ("none", "normal", True),
    "volatile=False": ("none", "normal", False),
}


@for_each("policy", POLICIES)
def test_policies_of_accesses(policy: str) -> None:
    stored = "" if "volatile" in policy else policy
    source = f"def k(x):\n    tl.store(x, tl.load(x, {policy}) + 1, {stored})\n"
    ops = list(kernel_of(source).module({"x": "*i32"}).functions["k"].ops)
    (load,), (store,) = ([op for op in ops if isinstance(op, kind)] for kind in (Load, Store))
    assert (load.cache.value, load.eviction.value, load.volatile) == POLICIES[policy]
    if stored:
        assert (store.cache.value, store.eviction.value) == POLICIES[policy][:2]


@triton.jit
def blocks(x, y, out, r, c, CHECKED: tl.constexpr, PADDING: tl.constexpr):
    source = tl.make_block_ptr(x, (4, 6), (7, 1), (0, 0), (4, 4), (1, 0)).advance((r, c))
    v = tl.load(source, boundary_check=CHECKED, padding_option=PADDING)
    i = tl.arange(0, 4)
    tl.store(out + i[:, None] * 4 + i[None, :], v)
    target = tl.make_block_ptr(y, (4, 6), (7, 1), (r, c), (4, 4), (1, 0))
    tl.store(target, v, boundary_check=CHECKED)


@for_each(
    ("padding", "checked"),
    [("nan", axes) for axes in ((0,), (1,), (0, 1), (-1,), (-2, 1))] + [("", (1,)), ("zero", (0,))],
)
def test_blocks_at_each_edge(padding: str, checked: tuple[int, ...]) -> None:
    """Elements outside of checked dimensions are padding, and are not written."""
    x = np.arange(1, 29, dtype=np.float32).reshape(4, 7)
    around = np.full((12, 14), np.nan if padding == "nan" else 0, np.float32)
    around[4:8, 4:10] = x[:, :6]
    rows = (-4, -1, 1) if {0, -2} & {*checked} else (0,)
    columns = (-1, 2, 3) if {1, -1} & {*checked} else (1,)
    for r, c in product(rows, columns):
        y, out = np.zeros_like(x), np.zeros((4, 4), np.float32)
        blocks[(1,)](x, y, out, r, c, checked, padding, on="interpreter")
        np.testing.assert_array_equal(out, around[4 + r : 8 + r, 4 + c : 8 + c])
        written = np.zeros((12, 14), bool)
        written[4 + r : 8 + r, 4 + c : 8 + c] = True
        expected = np.where(written[4:8, 4:11] & (np.arange(7) < 6), x, 0)
        np.testing.assert_array_equal(y, expected)


X = np.arange(32, dtype=np.int32) + 1
MASKS: dict[str, Any] = {
    "i < 2": lambda i, j: i < 2, "j < 5": lambda i, j: j < 5, "i + j > 3": lambda i, j: i + j > 3,
    "True": lambda i, j: i >= 0, "False": lambda i, j: i < 0, "n > 1": lambda i, j: i >= 0,
    "i": lambda i, j: i != 0,
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "0": 0, "-7": -7, "2.75": 2, "n": 3, "i": lambda i, j: i, "j - 9": lambda i, j: j - 9,
    "(i * j).to(tl.float32)": lambda i, j: i * j,
}  # fmt: skip


@for_each("mask", MASKS)
def test_masked_off_elements(mask: str) -> None:
    """Masks and values are broadcast to the pointers, and converted to the type of elements."""
    i, j = np.arange(4)[:, None], np.arange(8)[None, :]
    chosen = np.broadcast_to(MASKS[mask](i, j), (4, 8))
    lines = [
        f"    tl.store(out + {32 * number} + i * 8 + j, tl.load(x + i * 8 + j, {mask}, {other}))"
        for number, other in enumerate(OTHERS)
    ]
    last = 32 * len(OTHERS)
    lines.append(f"    tl.store(out + {last} + i * 8 + j, tl.load(x + i * 8 + j, mask={mask}))")
    lines.append(f"    tl.store(out + {last + 32} + i * 8 + j, n + j, mask={mask})")
    head = "def k(x, out, n):\n    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]\n"
    out = np.full(last + 64, -1, np.int32)
    kernel_of(head + "\n".join(lines))[(1,)](X, out, 3, on="interpreter")
    expected = [
        np.where(chosen, X.reshape(4, 8), other(i, j) if callable(other) else other)
        for other in (*OTHERS.values(), 0)
    ]
    expected.append(np.where(chosen, 3 + j, -1))
    np.testing.assert_array_equal(out.reshape(-1, 4, 8), expected)


@for_each("dim", [None, 0, 1, 2, -1, -2])
def test_softmax_along_each_dimension(dim: int | None) -> None:
    """The first, if none is stated."""
    x = np.random.default_rng(0).standard_normal((2, 4, 8)).astype(np.float32) * 20
    out = np.zeros(64, np.float32)
    source = f"""def k(x, out):
    i = tl.arange(0, 64)
    tl.store(out + i, tl.softmax(tl.load(x + i).reshape(2, 4, 8), {dim}).ravel())
"""
    kernel_of(source)[(1,)](x, out, on="interpreter")
    e = np.exp(x - x.max(dim or 0, keepdims=True))
    np.testing.assert_allclose(out.reshape(x.shape), e / e.sum(dim or 0, keepdims=True), rtol=1e-5)
