"""How far neighbours of a tile of pointers lie apart, by dimension."""

from __future__ import annotations

import pytest

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


def found(*terms: str) -> list[StrideClass]:
    """The distances of `%x` moved by all of `terms`, one after the other."""
    lines, last = list[str](), "%xs"
    for n, term in enumerate(terms):
        lines.append(f"  %p{n} = getelementptr f32*<16, 8> {last}, %{term}")
        last = f"%p{n}"
    function = parse(TEXT.format(lines="\n".join(lines))).kernel()
    value = next(v for op in function.ops for v in op.results if v.name == last[1:])
    return distances(function, value)


@pytest.mark.parametrize(
    ("terms", "wanted"),
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
def test_the_farthest_of_the_terms(terms: tuple[str, ...], wanted: list[StrideClass]) -> None:
    assert found(*terms) == wanted
    assert found(*terms[::-1]) == wanted
