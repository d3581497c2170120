"""Loads, stores, atomics and descriptors at every storable type, through whole kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tileir import textual
from tileir.interp import interpret
from tileir.machine import dtype_of
from tileir.ops.atomic import AtomicKind, fits_kind
from tileir.ops.matrix import SHAPES
from tileir.signature import STORABLE
from tileir.types import F32, I32, SCALARS, Element, Pointer, pointer

from .ops_casts import width
from .ops_inputs import numbers

ELEMENTS: list[Element] = [s for s in SCALARS.values() if s in STORABLE.scalars] + [pointer(F32)]


def type_text(element: Element, shape: tuple[int, ...]) -> str:
    return f"{element}<{', '.join(map(str, shape))}>" if shape else str(element)


def addresses(name: str, element: Element, shape: tuple[int, ...]) -> str:
    """Pointers `%NAME.p` to as many elements of `%NAME` as the shape has."""
    if not shape:
        return f"  %{name}.p = getelementptr {element}* %{name}, i32 0\n"
    count, flat, tiled = math.prod(shape), f"%{name}.f", type_text(I32, shape)
    return (
        f"  {flat} = make_range i32<{count}>\n  %{name}.o = reshape {tiled} {flat}\n"
        f"  %{name}.s = splat {type_text(pointer(element), shape)} %{name}\n"
        f"  %{name}.p = getelementptr {type_text(pointer(element), shape)} %{name}.s, %{name}.o\n"
    )


def run(element: Element, shape: tuple[int, ...], body: str, **arrays: Any) -> None:
    """A kernel with a pointer `%NAME` and pointers `%NAME.p` for each array, of `element` but
    for `m`, of i1."""
    kinds = {n: SCALARS["i1"] if n == "m" else element for n in arrays}
    head = ", ".join(f"{kind}* %{n}" for n, kind in kinds.items())
    setup = "".join(addresses(n, kind, shape) for n, kind in kinds.items())
    text = f"tir 1.0\ndefine kernel void @k({head}) {{\nentry:\n{setup}{body}  ret\n}}\n"
    interpret(textual.parse(text), "k", (1,), list(arrays.values()))


def data(element: Element, count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if isinstance(element, Pointer):
        return rng.integers(0, 1 << 62, count).astype(np.uint64)
    return numbers(element, count, rng)


def bits(array: Any) -> Any:
    return array.view(f"u{array.dtype.itemsize}")


@pytest.mark.sampled(32)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_loads_and_stores_move_bits(element: Element, shape: tuple[int, ...]) -> None:
    count = math.prod(shape)
    x, y, z = (data(element, count, seed) for seed in (1, 2, 3))
    m = np.random.default_rng(4).random(count) < 0.5
    kind, masks = type_text(element, shape), type_text(SCALARS["i1"], shape)
    body = f"""\
  %mask = load {masks} %m.p
  %other = load {kind} %y.p
  %v = load {kind} %x.p, %mask, %other
  store %y.p, %v
  store %z.p, %v, %mask
"""
    before = z.copy()
    chosen = np.where(m, bits(x), bits(y))
    run(element, shape, body, x=x, y=y, z=z, m=m)
    np.testing.assert_array_equal(bits(y), chosen)
    np.testing.assert_array_equal(bits(z), np.where(m, bits(x), bits(before)))


def update_lane(kind: str, old: Any, value: Any) -> Any:
    """One lane of an atomic, in Python's numbers."""
    n = width(np.asarray(old))
    a, b = (
        int(v) & ((1 << n) - 1) if kind[0] != "f" and kind != "xchg" else v for v in (old, value)
    )
    rules: dict[str, Any] = {
        "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b, "add": lambda: a + b,
        "umax": lambda: max(a, b), "umin": lambda: min(a, b), "smax": lambda: max(old, value),
        "smin": lambda: min(old, value), "xchg": lambda: value,
        "inc": lambda: 0 if a >= b else a + 1,
        "dec": lambda: b if a == 0 or a > b else a - 1,
        "fadd": lambda: old + value, "fmax": lambda: np.fmax(old, value),
        "fmin": lambda: np.fmin(old, value),
    }  # fmt: skip
    content = rules[kind]()
    if kind[0] == "f" or kind == "xchg":
        return content
    content = int(content) & ((1 << n) - 1)
    return content - (1 << n) if content >> (n - 1) else content


def tame(element: Element, array: Any) -> Any:
    """No zeros and NaNs, whose sign and order are other tests' matter."""
    if isinstance(element, Pointer) or element.is_integer:
        return array
    wide = array.astype(np.float64)
    return np.where((wide != 0) & np.isfinite(wide), wide, 2.5).astype(array.dtype)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", AtomicKind, ids=lambda k: k.value)
def test_atomics_return_the_old_and_write_the_new(kind: AtomicKind) -> None:
    ran = 0
    for element in ELEMENTS:
        if fits_kind(kind, element) is not None:
            continue
        for shape in SHAPES:
            atomic(kind.value, element, shape)
            ran += 1
    assert ran >= len(SHAPES)


def atomic(kind: str, element: Element, shape: tuple[int, ...]) -> None:
    count = math.prod(shape)
    x, y, z = (tame(element, data(element, count, seed)) for seed in (5, 6, 7))
    m = np.random.default_rng(8).random(count) < 0.5
    tile, masks = type_text(element, shape), type_text(SCALARS["i1"], shape)
    body = f"""\
  %mask = load {masks} %m.p
  %v = load {tile} %y.p
  %old = atomic_rmw {tile} %x.p, %v, %mask {{op = {kind}}}
  store %z.p, %old, %mask
"""
    with np.errstate(all="ignore"):
        new = np.array([update_lane(kind, a, b) for a, b in zip(x, y, strict=True)]).astype(x.dtype)
    expected = np.where(m, bits(new), bits(x))
    kept = np.where(m, bits(x), bits(z))
    run(element, shape, body, x=x, y=y, z=z, m=m)
    np.testing.assert_array_equal(bits(x), expected)
    np.testing.assert_array_equal(bits(z), kept)


@pytest.mark.sampled(38)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("element", [e for e in ELEMENTS if e.bits >= 16], ids=str)
def test_exchange_where_equal(element: Element, shape: tuple[int, ...]) -> None:
    count = math.prod(shape)
    x, y = data(element, count, 9), data(element, count, 10)
    z = (
        np.where(np.arange(count) % 2 == 0, bits(x), bits(x) ^ 1)
        .astype(bits(x).dtype)
        .view(x.dtype)
    )
    tile = type_text(element, shape)
    body = f"""\
  %compare = load {tile} %z.p
  %new = load {tile} %y.p
  %old = atomic_cas {tile} %x.p, %compare, %new
  atomic_store %z.p, %old
  %again = atomic_load {tile} %z.p
  store %y.p, %again
"""
    old, new = x.copy(), y.copy()
    run(element, shape, body, x=x, y=y, z=z)
    expected = np.where(np.arange(count) % 2 == 0, bits(new), bits(old))
    np.testing.assert_array_equal(bits(x), expected)
    np.testing.assert_array_equal(bits(y), bits(old))


BLOCKED = [e for e in ELEMENTS if not isinstance(e, Pointer)]


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("element", BLOCKED, ids=str)
def test_descriptors_pad_reads_and_drop_writes(element: Any, padding: str) -> None:
    if padding == "nan" and not element.is_float:
        return
    x, z = data(element, 35, 11), data(element, 35, 12)
    before = z.copy()
    block, settings = f"{element}<4, 8>", f"{{padding = {padding}}}"
    body = f"""\
  %d = make_descriptor tensor_desc<{block}> %x, [i32 5, i64 7], [i32 7, i32 1] {settings}
  %e = make_descriptor tensor_desc<{block}> %z, [i32 5, i64 7], [i32 7, i32 1]
  %v = descriptor_load {block} %d, 3, -2
  descriptor_store %e, %v, 1, 1
"""
    head = f"{element}* %x, {element}* %z"
    text = f"tir 1.0\ndefine kernel void @k({head}) {{\nentry:\n{body}  ret\n}}\n"
    interpret(textual.parse(text), "k", (1,), [x, z])
    pad = np.zeros((), dtype_of(element))
    if padding == "nan":
        pad = np.array(math.nan).astype(pad.dtype)
    source, target = bits(x).reshape(5, 7), bits(before).reshape(5, 7).copy()
    for i, j in np.ndindex(4, 8):
        row, column = 3 + i, j - 2
        inside = row < 5 and 0 <= column < 7
        if 1 + i < 5 and 1 + j < 7:
            target[1 + i, 1 + j] = source[row, column] if inside else bits(pad)
    if padding == "zero":
        np.testing.assert_array_equal(bits(z).reshape(5, 7), target)
    else:
        results, expected = (a.astype(np.float64) for a in (z, target.view(z.dtype).reshape(-1)))
        np.testing.assert_array_equal(results, expected)


@pytest.mark.parametrize("element", BLOCKED, ids=str)
def test_rows_are_gathered_and_scattered(element: Any) -> None:
    x, z = data(element, 24, 13), data(element, 24, 14)
    before = z.copy()
    i = np.array([3, -1, 0, 9], np.int32)
    body = f"""\
  %r = make_range i32<4>
  %is = splat i32*<4> %i
  %ip = getelementptr i32*<4> %is, %r
  %rows = load i32<4> %ip
  %d = make_descriptor tensor_desc<{element}<1, 4>> %x, [i32 4, i32 6], [i32 6, i32 1]
  %e = make_descriptor tensor_desc<{element}<1, 4>> %z, [i32 4, i32 6], [i32 6, i32 1]
  %v = descriptor_gather {element}<4, 4> %d, %rows, 3
  descriptor_scatter %e, %v, %rows, 1
"""
    head = f"{element}* %x, {element}* %z, i32* %i"
    text = f"tir 1.0\ndefine kernel void @k({head}) {{\nentry:\n{body}  ret\n}}\n"
    interpret(textual.parse(text), "k", (1,), [x, z, i])
    source, target = bits(x).reshape(4, 6), bits(before).reshape(4, 6).copy()
    for row in (3, 0):
        target[row, 1:5] = [*source[row, 3:6], 0]
    np.testing.assert_array_equal(bits(z).reshape(4, 6), target)


def test_blocks_are_reduced_into_memory() -> None:
    x = np.arange(8, dtype=np.float32)
    text = """tir 1.0
define kernel void @k(f32* %x) {
entry:
  %d = make_descriptor tensor_desc<f32<8>> %x, [i32 8, i32 1]
  %v = splat f32<8> 2.0
  descriptor_reduce %d, %v, 5 {op = fadd}
  ret
}
"""
    interpret(textual.parse(text), "k", (1,), [x])
    assert x.tolist() == [0, 1, 2, 3, 4, 7, 8, 9]
