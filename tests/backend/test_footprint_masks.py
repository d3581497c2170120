"""Masks of windows that `stage-halo` stages together: what they ask of elements, by row and
column, and of outputs; whatever the numbers, what is staged is masked alike, and nothing more is
read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend.halo.stage_halo import stage_halo
from tileir.textual import parse


def taps(mask: str, stride: int = 1) -> str:
    """`y[i, j] = sum of x[stride i + r, stride j + s]` over 3 x 3 taps of an image, rows 32
    elements apart, where `mask` holds: lines that make `%in` of row `%r` and column `%c`."""
    lines = [
        "define kernel void @k(f32* noalias %x, f32* noalias %y, i32 %n, i32 %m) {", "entry:",
        "  %pi = program_id i32", "  %bi = mul i32 %pi, 4 {overflow = nsw}",
        "  %ri = make_range i32<4>", "  %ci = make_range i32<8>",
        "  %li = expand_dims i32<4, 1> %ri {axis = 1}",
        "  %lj = expand_dims i32<1, 8> %ci {axis = 0}",
        "  %si = splat i32<4, 1> %bi", "  %i = add i32<4, 1> %si, %li {overflow = nsw}",
        "  %ns = splat i32<4, 8> %n", "  %ms = splat i32<4, 8> %m", "  %xs = splat f32*<4, 8> %x",
        "  %none = fsub f32<4, 8> 0.0, 0.0",
    ]  # fmt: skip
    total = "%none"
    for t in range(9):
        lines += [
            f"  %ri{t} = mul i32<4, 1> %i, {stride} {{overflow = nsw}}",
            f"  %cj{t} = mul i32<1, 8> %lj, {stride} {{overflow = nsw}}",
            f"  %r{t} = add i32<4, 1> %ri{t}, {t // 3} {{overflow = nsw}}",
            f"  %c{t} = add i32<1, 8> %cj{t}, {t % 3} {{overflow = nsw}}",
            f"  %row{t} = broadcast i32<4, 8> %r{t}", f"  %col{t} = broadcast i32<4, 8> %c{t}",
            f"  %out{t} = broadcast i32<4, 8> %i", f"  %oc{t} = broadcast i32<4, 8> %lj",
            f"  %far{t} = mul i32<4, 8> %row{t}, 32 {{overflow = nsw}}",
            f"  %at{t} = add i32<4, 8> %far{t}, %col{t} {{overflow = nsw}}",
            *(f"  {line}" for line in mask.replace("#", str(t)).splitlines()),
            f"  %p{t} = getelementptr f32*<4, 8> %xs, %at{t}",
            f"  %v{t} = load f32<4, 8> %p{t}, %in{t}, 0.0",
            f"  %s{t} = fadd f32<4, 8> {total}, %v{t}",
        ]  # fmt: skip
        total = f"%s{t}"
    return "\n".join([
        "tir 1.0", "", *lines, "  %ys = splat f32*<4, 8> %y", "  %ib = broadcast i32<4, 8> %i",
        "  %jb = broadcast i32<4, 8> %lj", "  %io = mul i32<4, 8> %ib, 8",
        "  %o = add i32<4, 8> %io, %jb", "  %q = getelementptr f32*<4, 8> %ys, %o",
        f"  store %q, {total}", "  ret", "}", "",
    ])  # fmt: skip


def less(left: str, right: str, relation: str = "slt", name: str = "%in#") -> str:
    return f"{name}, _ = icmp (i1<4, 8>, i1<4, 8>) {left}, {right} {{predicate = {relation}}}"


MASKS: dict[str, tuple[str, Callable[[Any, Any, int, int], Any]]] = {
    "rows": (less("%row#", "%ns"), lambda r, c, n, m: r < n),
    "columns": (less("%ms", "%col#", "sgt"), lambda r, c, n, m: c < m),
    "both": (
        "\n".join([less("%row#", "%ns", "sle", "%a#"), less("%col#", "%ms", "slt", "%b#"),
                   "%in# = and i1<4, 8> %a#, %b#"]),
        lambda r, c, n, m: (r <= n) & (c < m),
    ),
    "from a row on": (less("%row#", "%ns", "sge"), lambda r, c, n, m: r >= n),
    "places": (less("%at#", "%ns"), lambda r, c, n, m: 32 * r + c < n),
    "places from": (less("%at#", "%ns", "sgt"), lambda r, c, n, m: 32 * r + c > n),
    "a slope": (
        "%two# = mul i32<4, 8> %col#, 2 {overflow = nsw}\n"
        "%sum# = add i32<4, 8> %row#, %two# {overflow = nsw}\n" + less("%sum#", "%ms"),
        lambda r, c, n, m: r + 2 * c < m,
    ),
    "twice the row": (
        "%two# = mul i32<4, 8> %row#, 2 {overflow = nsw}\n" + less("%two#", "%ns"),
        lambda r, c, n, m: 2 * r < n,
    ),
    "a number of the columns": (
        "%much# = mul i32<4, 8> %col#, %ms {overflow = nsw}\n" + less("%much#", "%ns"),
        lambda r, c, n, m: c * m < n,
    ),
    "no place": (less("%ns", "%ms"), lambda r, c, n, m: (n < m) & (r == r) & (c == c)),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MASKS)
def test_what_masks_ask_of_rows_and_columns(name: str) -> None:
    """Whatever the numbers, what is staged is masked alike, and nothing more is read."""
    mask, holds = MASKS[name]
    module = parse(taps(mask))
    outcome = stage_halo(module)
    assert outcome.statistics["footprints staged"] == 1
    r, c = np.meshgrid(np.arange(10), np.arange(10), indexing="ij")
    for n, m in ((4, 7), (100, 9), (7, 3), (0, 1), (-3, 20), (230, 5)):
        inside = holds(r, c, n, m)
        x = np.random.default_rng(n + 9).integers(-8, 9, (10, 32)).astype(np.float32)
        last = int((32 * r + c)[inside].max(initial=0)) + 1
        masked = np.where(inside, x[:, :10], 0)
        expected = sum(masked[a : a + 8, b : b + 8] for a in range(3) for b in range(3))
        y = np.full((8, 8), np.nan, np.float32)
        tileir.interpret(outcome.ir, "k", (2,), [x.ravel()[:last].copy(), y, n, m])  # type: ignore[arg-type]
        assert (y == expected).all(), (n, m)


OUTPUTS: dict[str, tuple[str, Callable[[Any, Any, int, int], Any]]] = {
    "rows": (less("%out#", "%ns"), lambda i, j, n, m: i < n),
    "columns": (less("%oc#", "%ms", "sle"), lambda i, j, n, m: j <= m),
    "from a row on": (less("%out#", "%ns", "sge"), lambda i, j, n, m: i >= n),
    "from a column on": (less("%ms", "%oc#"), lambda i, j, n, m: j > m),
    "both": (
        "\n".join([less("%out#", "%ns", "slt", "%a#"), less("%oc#", "%ms", "sge", "%b#"),
                   "%in# = and i1<4, 8> %a#, %b#"]),
        lambda i, j, n, m: (i < n) & (j >= m),
    ),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", OUTPUTS)
def test_what_masks_ask_of_outputs(name: str, stride: int) -> None:
    """An element is read where any output that reaches it is asked for, and none else."""
    mask, holds = OUTPUTS[name]
    module = parse(taps(mask, stride))
    outcome = stage_halo(module, gain=0)
    assert outcome.statistics["footprints staged"] == 1
    i, j = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    for n, m in ((4, 3), (7, 7), (3, 5), (0, -1), (8, 0), (-3, 20), (1, 6)):
        requested = np.broadcast_to(holds(i, j, n, m), (8, 8))
        x = np.random.default_rng(n + 9).integers(-8, 9, (24, 32)).astype(np.float32)
        end = 7 * stride + 1
        parts = (x[a : a + end : stride, b : b + end : stride] for a in range(3) for b in range(3))
        whole = sum(parts)
        last = int((32 * (stride * i + 2) + stride * j + 2)[requested].max(initial=0)) + 1
        y = np.full((8, 8), np.nan, np.float32)
        statistics = tileir.interpret(outcome.ir, "k", (2,), [x.ravel()[:last].copy(), y, n, m])  # type: ignore[arg-type]
        assert (y == np.where(requested, whole, 0)).all(), (n, m)
        blocks = (requested[:4], requested[4:])
        assert statistics.accesses.bytes_read == 4 * sum(elements_read(b, stride) for b in blocks)


@pytest.mark.parametrize("place", ["out", "oc"])
def test_outputs_between_two_bounds_are_not_staged(place: str) -> None:
    """An element may be within each bound, for one output or another, and no output within both:
    more would be read than is asked for. Bounds from one side are staged."""

    def both(first: str, second: str) -> str:
        lines = [less(f"%{place}#", "%ns", first, "%a#"), less(f"%{place}#", "%ms", second, "%b#")]
        return "\n".join([*lines, "%in# = and i1<4, 8> %a#, %b#"])

    for first, second in (("sge", "slt"), ("slt", "sge"), ("sle", "sgt")):
        outcome = stage_halo(parse(taps(both(first, second))), gain=0)
        assert "footprints staged" not in outcome.statistics
    for name in ("slt", "sge"):
        outcome = stage_halo(parse(taps(both(name, name))), gain=0)
        assert outcome.statistics["footprints staged"] == 1


def elements_read(requested: Any, stride: int) -> int:
    """How many elements the outputs of a block that are `asked` for read."""
    places = [(stride * i, stride * j) for i, j in np.argwhere(requested)]
    return len({(i + a, j + b) for i, j in places for a in range(3) for b in range(3)})


def test_masks_that_differ_are_no_masks_of_a_union() -> None:
    """Windows that ask different things of an element stay as they are, and so do those that ask
    more of it than their place."""
    mask = less("%row#", "%ns")
    for other in (less("%col#", "%ns"), less("%row#", "%ms"), less("%row#", "%ns", "sgt")):
        text = taps(mask).replace(mask.replace("#", "4"), other.replace("#", "4"))
        assert "footprints staged" not in stage_halo(parse(text)).statistics


def test_a_window_that_holds_something_else_outside_chooses_itself() -> None:
    """The stage holds what the first window does where their masks are false."""
    text = taps(less("%row#", "%ns")).replace("%in4, 0.0", "%in4, 2.0")
    outcome = stage_halo(parse(text))
    assert outcome.statistics["footprints staged"] == 1
    x = np.random.default_rng(1).integers(-8, 9, (10, 32)).astype(np.float32)
    rows = np.arange(10)[:, None] < 4
    zeros, twos = (np.where(rows, x[:, :10], fill) for fill in (0, 2))
    values = [twos if t == 4 else zeros for t in range(9)]
    expected = sum(values[t][t // 3 :, t % 3 :][:8, :8] for t in range(9))
    y = np.full((8, 8), np.nan, np.float32)
    statistics = tileir.interpret(outcome.ir, "k", (2,), [x.ravel(), y, 4, 0])  # type: ignore[arg-type]
    assert (y == expected).all()
    assert statistics.ops["select"] == statistics.instances
