"""The distances between neighbours of a tile of pointers, by dimension."""

from __future__ import annotations

import pytest

from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.anchors import AnchorLayouts, vector_run
from tileir.backend.layouts.stride_classes import StrideClass, distances
from tileir.textual import parse

SAME, COMPUTED, LOOKED_UP, STRIDED = StrideClass

TEXT = """tir 1.0

define kernel void @k(f32* %x, i32* %table, i32 %n, i32 %w) {{
entry:
  %i = make_range i32<16>
  %j = make_range i32<8>
  %r = expand_dims i32<16, 1> %i {{axis = 1}}
  %c = expand_dims i32<1, 8> %j {{axis = 0}}
  %rows = broadcast i32<16, 8> %r
  %columns = broadcast i32<16, 8> %c
  %ws = splat i32<16, 1> %w
  %far = mul i32<16, 1> %r, %ws
  %strided = broadcast i32<16, 8> %far
  %ts = splat i32*<16, 1> %table
  %tp = getelementptr i32*<16, 1> %ts, %r
  %t = load i32<16, 1> %tp
  %looked = broadcast i32<16, 8> %t
  %t3 = mul i32<16, 1> %t, 3
  %scaled = broadcast i32<16, 8> %t3
  %half = sdiv i32<1, 8> %c, 3
  %computed = broadcast i32<16, 8> %half
  %ns = splat i32<16, 8> %n
  %odd = srem i32<16, 8> %ns, 7
  %one = load i32 %table
  %ones = splat i32<16, 8> %one
  %thirds = sdiv i32<16, 8> %strided, 3
  %xs = splat f32*<16, 8> %x
{lines}
  ret
}}
"""


def classes(*terms: str) -> list[StrideClass]:
    """The distances of `%x` moved by all of `terms`, one after the other."""
    lines, last = list[str](), "%xs"
    for n, term in enumerate(terms):
        lines.append(f"  %p{n} = getelementptr f32*<16, 8> {last}, %{term}")
        last = f"%p{n}"
    function = parse(TEXT.format(lines="\n".join(lines))).kernel()
    value = next(v for op in function.ops for v in op.results if v.name == last[1:])
    return distances(function, value)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ((), [SAME, SAME]), (("columns",), [SAME, COMPUTED]), (("rows",), [COMPUTED, SAME]),
        (("strided",), [STRIDED, SAME]), (("strided", "columns"), [STRIDED, COMPUTED]),
        (("looked",), [LOOKED_UP, SAME]), (("looked", "columns"), [LOOKED_UP, COMPUTED]),
        (("looked", "strided"), [STRIDED, SAME]), (("computed",), [SAME, COMPUTED]),
        (("computed", "looked"), [LOOKED_UP, COMPUTED]), (("ns",), [SAME, SAME]),
        (("ones",), [SAME, SAME]), (("thirds",), [COMPUTED, COMPUTED]),
        (("ns", "columns"), [SAME, COMPUTED]), (("scaled",), [LOOKED_UP, SAME]),
    ],
)  # fmt: skip
def test_the_farthest_of_the_terms(terms: tuple[str, ...], expected: list[StrideClass]) -> None:
    assert classes(*terms) == expected
    assert classes(*terms[::-1]) == expected


ROWS = """tir 1.0

define kernel void @k(f16* %x, i32 %m, i32 multiple_of(16) %n) {{
entry:
  %i = make_range i32<16>
  %j = make_range i32<32>
  %r = expand_dims i32<16, 1> %i {{axis = 1}}
  %c = expand_dims i32<1, 32> %j {{axis = 0}}
  %rs = mul i32<16, 1> %r, {rows}
  %cs = mul i32<1, 32> %c, {columns}
  %rows = broadcast i32<16, 32> %rs
  %columns = broadcast i32<16, 32> %cs
  %at = add i32<16, 32> %rows, %columns
  %xs = splat f16*<16, 32> %x
  %p = getelementptr f16*<16, 32> %xs, %at
  %v = load f16<16, 32> %p
  {use}
  store %p, %v
  ret
}}
"""
DOT = "%d = dot f32<16, 16> %v, f16<32, 16> 1.0, 0.0"
M, N = "%ms", "%ns"


@pytest.mark.parametrize(
    ("rows", "columns", "use", "fast"),
    [
        ("4", "16", "", 0), ("16", "4", "", 1), ("16", "16", "", 1),
        (M, N, DOT, 0), (N, M, DOT, 1), (M, M, DOT, 1), (M, N, "", 1), (N, "8", DOT, 1),
        ("8", M, DOT, 0), (M, "64", "", 0), (M, "63", "", 1), ("64", M, "", 1), ("64", "96", "", 0),
    ],
)  # fmt: skip
def test_lanes_follow_the_stride_that_is_likely_shorter(
    rows: str, columns: str, use: str, fast: int
) -> None:
    """A literal is compared; a parameter that is a multiple of 16 is likely longer than one that is
    not, unless it is 0, as of a broadcast operand, which no dot has. Neighbours at
    128 bytes are in different lines, whatever the parameter is."""
    text = ROWS.format(rows=rows, columns=columns, use=use)
    for symbol, name in ((M, "m"), (N, "n")):
        for side, shape in (("rs", "16, 1"), ("cs", "1, 32")):
            splat = f"  {symbol}.{side} = splat i32<{shape}> %{name}\n"
            line = f"  %{side} = mul i32<{shape}> %{side[0]}, {symbol}\n"
            text = text.replace(line, splat + line.replace(symbol, f"{symbol}.{side}"))
    function = parse(text).kernel()
    (load,) = (op for op in function.ops if op.mnemonic == "load")
    assert AccessWidths(function).nearest(load.inputs[0]) == fast


PLACED = """tir 1.0

define kernel void @k(i64* aligned(16) %values, i64* aligned(16) %places, i64* aligned(16) %out) {{
entry:
  %i = make_range i32<1024>
  %vs = splat i64*<1024> %values
  %vp = getelementptr i64*<1024> %vs, %i
  %v = load i64<1024> %vp
  %ps = splat i64*<1024> %places
  %pp = getelementptr i64*<1024> %ps, %i
  %place = load i64<1024> %pp
  %os = splat i64*<1024> %out
  %q = getelementptr i64*<1024> %os, {at}
  {write}
  ret
}}
"""
STORE, ADD = "store %q, %v", "%old = atomic_rmw i64<1024> %q, %v {op = add}"


@pytest.mark.parametrize(
    ("at", "write", "run"), [("%place", STORE, 1), ("%i", STORE, 2), ("%place", ADD, 2)]
)
def test_lanes_own_neighbours_that_are_written_where_a_table_says(
    at: str, write: str, run: int
) -> None:
    """Places in a table mostly increase by little: lanes of one store then share sectors. Atomics
    of neighbours that do wait for each other."""
    function = parse(PLACED.format(at=at, write=write)).kernel()
    (writer,) = (op for op in function.ops if op.mnemonic in ("store", "atomic_rmw"))
    layout = AnchorLayouts(function, AccessWidths(function), 4).of(writer)
    assert layout is not None
    assert vector_run(layout, 0) == run
