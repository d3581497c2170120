"""Parameters that say that nothing writes what they point to while the kernel runs."""

import pytest

from tileir.analysis.aliases import unwritten
from tileir.backend import compile as compiled
from tileir.textual import parse

TEXT = """tir 1.0

define kernel void @copy(f32* aligned(16) {x} %x, f32* aligned(16) {y} %y) {{
entry:
  %i = make_range i32<256>
  %xs = splat f32*<256> %x
  %p = getelementptr f32*<256> %xs, %i
  %v = load f32<256> %p
  %ys = splat f32*<256> %y
  %q = getelementptr f32*<256> %ys, %i
  store %q, %v
  ret
}}
"""


@pytest.mark.parametrize(
    ("x", "y", "stated"),
    [
        ("readonly noalias", "", True),
        ("readonly", "noalias", True),
        ("readonly", "", False),
        ("", "noalias", False),
        ("noalias", "noalias", False),
    ],
)
def test_what_is_alone_or_never_written(x, y, stated):
    module = parse(TEXT.format(x=x, y=y))
    kernel = module.kernel()
    assert unwritten(kernel) == (frozenset({kernel.parameters[0].value} if stated else ()))
    assert ("ld.global.nc" in compiled(module).ptx) == (stated or (x, y) == ("noalias", "noalias"))
