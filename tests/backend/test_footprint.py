"""The arithmetic of `stage-halo`: terms, iterations of loops, and what windows cover together."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import tileir
from tests.backend.convolutions import Convolution
from tileir.analysis.loops import loops
from tileir.analysis.polynomial import Iteration, Lane, Polynomial, Symbol, number, symbol
from tileir.backend.halo import footprint
from tileir.backend.halo.constant_trip_loops import iteration_space, values_per_iteration
from tileir.backend.halo.footprint import Footprint, WindowLoad, footprint_of
from tileir.backend.halo.split_forms import (
    common_generators,
    divide_exactly,
    fold_fixed,
    quotient_by,
    scale,
    split_form,
    symbols,
)
from tileir.backend.halo.stage_halo import stage_halo
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.ops.memory import Load
from tileir.textual import parse, print_module
from tileir.types import F32, I32, Pointer, Tile
from tileir.values import Value

N, W = Value(I32, "n"), Value(I32, "w")
ROWS, COLUMNS = Lane(0), Lane(1)
AROUND = Iteration("loop")
ALL: tuple[Symbol, ...] = (ROWS, COLUMNS, AROUND, N, W)


def moving(which: Symbol) -> bool:
    return isinstance(which, (Lane, Iteration))


def forms(seed: int) -> Iterator[Polynomial]:
    """Random polynomials, of whose monomials no two variables move."""
    r = random.Random(seed)
    for _ in range(8):
        form = number(r.randint(-9, 9))
        for _ in range(r.randint(0, 4)):
            product = number(r.choice([-3, -1, 1, 2, 7]))
            for which in r.sample([N, W], r.randint(0, 2)):
                product = product * symbol(which)
            if r.random() < 0.7:
                product = product * symbol(r.choice([ROWS, COLUMNS, AROUND]))
            form = form + product
        yield form


# Terms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_terms_make_the_form_they_are_of(seed: int) -> None:
    at: dict[Symbol, int] = {ROWS: 3, COLUMNS: 5, AROUND: 2, N: 11, W: 101}
    for form in forms(seed):
        parts = split_form(form, moving)
        assert parts is not None
        for fixed in ({}, {AROUND: 2}, {AROUND: 2, COLUMNS: 5}):
            result = fold_fixed(parts, fixed)
            assert result.steps.keys() == parts.steps.keys() - fixed.keys()
            assert not any(moving(s) for s in symbols([*result.steps.values(), result.rest]))
            total = result.rest.evaluate(at.__getitem__) + sum(
                step.evaluate(at.__getitem__) * at[s] for s, step in result.steps.items()
            )
            assert total == form.evaluate(at.__getitem__)
        product = symbol(ROWS) * symbol(AROUND) * number(3)
        assert split_form(form + product, moving) is None
        assert split_form(form + symbol(ROWS) * symbol(ROWS), moving) is None


def test_multiples() -> None:
    form = symbol(W) * number(4) + number(6)
    assert divide_exactly(form, 2) == symbol(W) * number(2) + number(3)
    assert divide_exactly(form, 4) is None and divide_exactly(form, 0) is None
    assert scale(form, -2) == symbol(W) * number(-8) + number(-12)
    assert scale(form, 0) == number(0)
    for times in (-3, 0, 1, 5):
        assert quotient_by(scale(form, times), form) == times
    assert quotient_by(form, scale(form, 2)) is None
    assert quotient_by(form + number(1), form) is None
    assert quotient_by(symbol(N), form) is None
    assert symbols([form, symbol(N) * symbol(W)]) == {N, W}


def test_what_many_forms_are_multiples_of() -> None:
    w, n = symbol(W), symbol(N)
    assert common_generators([]) == [] and common_generators([number(0), number(0)]) == []
    assert common_generators([number(6), number(4), number(-10)]) in ([number(2)], [number(-2)])
    assert common_generators([w * number(4), n, w * number(6), number(0), n * number(3)]) == [
        w * number(2),
        n,
    ]
    form = w * number(2) + n * number(4)
    assert common_generators([form, scale(form, 3)]) == [form]
    assert common_generators([scale(form, 3), scale(form, 2)]) == [form]
    assert common_generators([form, w + n]) == [form, w + n]


# Iterations --------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [(3, 3), (1, 5), (4, 2)])
@pytest.mark.parametrize("style", ["nested", "flat"])
def test_numbers_of_every_iteration(window: tuple[int, int], style: str) -> None:
    """Row and column of the window, as the program computes them in each iteration."""
    c = Convolution(window=window, loops=style, dilation=3)
    function = parse(c.text()).kernel(None)
    label = next(b.label for b in function.blocks.values() if any(
        isinstance(op, Load) for op in b.ops))  # fmt: skip
    root = min((x for x in loops(function).by_header.values()), key=lambda x: x.depth)
    around = iteration_space(function, root, label)
    assert around is not None
    assert around.counts == (window if style == "nested" else (window[0] * window[1],))
    inside: dict[str, Value] = {
        v.name: v for b in function.blocks.values() for v in (
            *b.parameters, *(x for op in b.ops for x in op.results)) if v.name
    }  # fmt: skip
    expected: list[Symbol] = [inside["r"], inside["s"]]
    expected += [Iteration(h) for h in around.headers]
    values = values_per_iteration(function, around, expected)
    assert values is not None
    origins = [(at[inside["r"]], at[inside["s"]]) for at in values]
    assert origins == list(itertools.product(range(window[0]), range(window[1])))
    trips = [tuple(at[Iteration(h)] for h in around.headers) for at in values]
    assert trips == list(itertools.product(*map(range, around.counts)))
    assert values_per_iteration(function, around, [inside["xs"]]) is None
    assert values_per_iteration(function, around, [Lane(0)]) is None
    only = values_per_iteration(function, around, [Iteration(around.headers[0])])
    assert only is not None and len(only) == len(values)


def test_numbers_computed_from_the_counter_by_several_ops() -> None:
    """Whatever depends on iterations and literals alone is known in each of them."""
    text = """tir 1.0
define kernel void @k(i32* %x, i32 %n) {
entry:
  br loop
loop:
  %t = phi i32 [0, entry], [%next, loop]
  %half = sdiv i32 %t, 2
  %third = srem i32 %t, 3
  %six = mul i32 2, 3
  %both = mul i32 %half, %third
  %all = add i32 %both, %six
  %given = mul i32 %half, %n
  %p = getelementptr i32* %x, %all
  store %p, %given
  %next = add i32 %t, 1
  %more, _ = icmp (i1, i1) %next, 6 {predicate = slt}
  cond_br %more, loop, done
done:
  ret
}
"""
    function = parse(text).functions["k"]
    (loop,) = loops(function).by_header.values()
    around = iteration_space(function, loop, "loop")
    assert around is not None
    named = {v.name: v for op in function.ops for v in op.results}
    values = values_per_iteration(function, around, [named["all"]])
    assert values is not None
    assert [at[named["all"]] for at in values] == [t // 2 * (t % 3) + 6 for t in range(6)]
    assert values_per_iteration(function, around, [named["given"]]) is None


# Unions -------------------------------------------------------------------------------------------


def read(
    shape: tuple[int, ...], steps: Mapping[Symbol, Polynomial], rest: Polynomial,
    around: tuple[Mapping[Symbol, int], ...] = ({},),
) -> WindowLoad:  # fmt: skip
    """A load of a tile of this shape, in these iterations."""
    op = Load(Value(Tile(Pointer(F32), shape)))
    form = rest
    for which, step in steps.items():
        form = form + step * symbol(which)
    parts = split_form(form, moving)
    assert parts is not None
    return WindowLoad(op, parts, around, {})


def read_addresses(access: WindowLoad, of: Callable[[Symbol], int]) -> set[int]:
    """Addresses that a load reads, over lanes and iterations."""
    seen: set[int] = set()
    for lanes in itertools.product(*map(range, access.shape)):
        for at in access.iterations:
            where = {Lane(d): n for d, n in enumerate(lanes)} | dict(at)
            seen.add(
                access.form.rest.evaluate(of)
                + sum(s.evaluate(of) * where[w] for w, s in access.form.steps.items())
            )
    return seen


def check(reads: list[WindowLoad], footprint: Footprint, of: Callable[[Symbol], int]) -> None:
    """Rows and columns cover what is read, and each window is where it reads."""
    rows, columns = footprint.rows.evaluate(of), footprint.columns.evaluate(of)
    start = footprint.origin.evaluate(of)
    whole = {start + rows * r + columns * c for r in range(footprint.height)
             for c in range(footprint.width)}  # fmt: skip
    assert whole == set().union(*(read_addresses(r, of) for r in reads))
    assert len(footprint.windows) == len(reads)
    for read, window in zip(reads, footprint.windows, strict=True):
        assert window.read is read
        mine = {
            start + rows * (r + sum(n * window.lane(d)[0] for d, n in enumerate(lanes)))
            + columns * (c + sum(n * window.lane(d)[1] for d, n in enumerate(lanes)))
            for r, c in window.origins
            for lanes in itertools.product(*map(range, read.shape))
        }  # fmt: skip
        assert mine == read_addresses(read, of)
        assert all(r >= 0 and c >= 0 for r, c in window.origins)
        first = dict.fromkeys(read.form.steps, 0)
        moved = read.form.rest.evaluate(of) - start
        assert first and rows * window.first[0] + columns * window.first[1] == moved


@pytest.mark.parametrize(
    ("pitch", "style"),
    [("known", "written out"), ("known", "iterations"), ("known", "turned"),
     ("unknown", "written out"), ("unknown", "iterations")],
)  # fmt: skip
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("window", [(3, 3), (2, 5), (4, 2)])
def test_windows_of_a_convolution(pitch: str, stride: int, style: str, window: Any) -> None:
    """Windows of 4 x 8 outputs, at rows and columns from -1 on; `turned` from the last on."""
    row = number(64) if pitch == "known" else symbol(W)
    lanes: dict[Symbol, Polynomial] = {ROWS: row * number(stride), COLUMNS: number(stride)}
    start = symbol(N) - row - number(1)
    if style == "written out":
        origins = itertools.product(range(window[0]), range(window[1]))
        reads = [read((4, 8), lanes, start + row * number(r) + number(s)) for r, s in origins]
    else:
        inner = Iteration("inner")
        sign = number(-1 if style == "turned" else 1)
        around = tuple(
            {AROUND: r, inner: s} for r, s in itertools.product(*map(range, window))
        )  # fmt: skip
        last = row * number(window[0] - 1) + number(window[1] - 1)
        steps = {**lanes, AROUND: row * sign, inner: sign}
        reads = [read((4, 8), steps, start + (last if style == "turned" else number(0)), around)]
    footprint = footprint_of(reads)
    height, width = (stride * (n - 1) + k for n, k in zip((4, 8), window, strict=True))
    assert footprint is not None
    assert (footprint.height, footprint.width) == (height, width)
    assert footprint.elements_read == 32 * window[0] * window[1]
    check(reads, footprint, {N: 1000, W: 64}.__getitem__)


def test_windows_of_a_row() -> None:
    """Taps of one dimension: rows are no distance, or the larger of two."""
    taps = [read((16,), {ROWS: number(1)}, number(3 * s)) for s in range(4)]
    footprint = footprint_of(taps)
    assert footprint is not None and (footprint.height, footprint.width) == (1, 25)
    check(taps, footprint, {}.__getitem__)
    same = read((16, 8), {ROWS: number(1)}, symbol(N))
    footprint = footprint_of([same, read((16, 8), {ROWS: number(1)}, symbol(N) + number(8))])
    assert footprint is not None and (
        footprint.height,
        footprint.width,
        footprint.elements_read,
    ) == (1, 24, 32)


def test_what_has_no_union() -> None:
    one = read((8,), {ROWS: number(1)}, number(0))
    assert footprint_of([one, read((8,), {ROWS: number(1)}, number(9))]) is None
    assert footprint_of([one, read((8,), {ROWS: number(-1)}, number(7))]) is None
    mixed = {ROWS: symbol(W), COLUMNS: symbol(N)}
    far = read((4, 8), mixed, number(1))
    assert footprint_of([read((4, 8), mixed, number(0)), far]) is None


def test_gaps_are_not_looked_for_where_a_footprint_is_of_no_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Loads of one long row after the other cover all elements once. Looking for gaps takes as long
    as there are elements."""
    rows = [read((4096,), {ROWS: number(1)}, number(4096 * n)) for n in range(64)]
    result = footprint_of(rows)
    assert result is not None and result.elements_read == result.height * result.width

    def refuse(*_: Any) -> bool:
        raise AssertionError("gaps are looked for")

    monkeypatch.setattr(footprint, "_is_covered", refuse)
    assert footprint_of(rows, lambda f: f.elements_read > f.height * f.width) is None


# The pass -----------------------------------------------------------------------------------------

FEW = [
    Convolution(block=(4, 8)), Convolution(block=(4, 8), loops="flat", padding=1, stride=2),
    Convolution(block=(4, 8), loops="none", dilation=2, padding=2),
    Convolution(block=(3, 5), padding=2, window=(5, 5), checked=False, width=23),
    Convolution(block=(2, 16), element="f16", window=(1, 7), padding=1),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("c", FEW, ids=range(len(FEW)))
def test_staged_convolutions_mean_what_they_meant(c: Convolution) -> None:
    """On images that blocks do not divide."""
    shape = (13, c.width or 19)
    outcome = stage_halo(parse(c.text()), gain=0)
    assert isinstance(outcome.ir, tileir.Module)
    assert outcome.statistics["footprints staged"] == 1
    r = np.random.default_rng(0)
    dtype = {"f32": np.float32, "f16": np.float16}[c.element]
    x, k = (r.integers(-8, 9, s).astype(dtype) for s in (shape, c.window))
    y = np.full(c.output(shape), np.nan, dtype)
    tileir.interpret(outcome.ir, "conv2d", c.grid(shape), c.arguments(x, k, y))
    assert (y == c.reference(x, k)).all()


def buffer_bytes(module: Any) -> list[int]:
    """Bytes of the buffers of a module."""
    ops: Any = [op for f in module.functions.values() for op in f.ops]
    allocations = (op for op in ops if op.mnemonic == "gpu.shared_alloc")
    return [
        SharedTile(op.type.pointee, op.shape[1:], op.fast, op.swizzle).bytes for op in allocations
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("c", FEW[:3], ids=range(3))
def test_buffers_fit_where_they_are_allowed(c: Convolution) -> None:
    """A buffer takes no more than it may, and where all of it fits, what it would take anyway."""
    module = parse(c.text())
    roomy = stage_halo(module, gain=0)
    (most,) = buffer_bytes(roomy.ir)
    assert print_module(stage_halo(module, gain=0, shared=most).ir) == print_module(roomy.ir)
    for shared in (most - 1, most // 2):
        assert sum(buffer_bytes(stage_halo(module, gain=0, shared=shared).ir)) <= shared
