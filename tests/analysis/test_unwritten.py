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


SEVERAL = """tir 1.0

define kernel void @k(f32* {x} %x, f32* {y} %y, f32* {z} %z, f32** {far} %far) {{
entry:
  {op}
  ret
}}
"""


@pytest.mark.parametrize(
    ("promises", "op", "stated"),
    [
        ({"x": "readonly", "y": "noalias"}, "store %y, 1.0", "x"),
        ({"x": "readonly", "y": "noalias"}, "store %z, 1.0", ""),
        ({"x": "readonly", "y": "noalias", "z": "noalias"}, "store %z, 1.0", "x"),
        ({"x": "readonly", "y": "readonly noalias"}, "store %z, 1.0", "y"),
        ({"x": "readonly", "y": "readonly noalias", "z": "noalias"}, "store %z, 1.0", "xy"),
        ({"x": "readonly", "y": "readonly"}, "store %z, 1.0", ""),
        # an unknown address may be one of a parameter that is not noalias
        ({"x": "readonly", "y": "readonly noalias"}, "%p = load f32* %far\n  store %p, 1.0", "y"),
        # another instance may write what this one reads with order
        ({"x": "readonly noalias"}, "%v = load f32 %x", "x"),
        ({"x": "readonly noalias"}, "%v = load f32 %x {volatile = true}", ""),
        ({"x": "readonly noalias"}, "%v = load f32 %y {volatile = true}", "x"),
        # promises of other parameters say nothing
        ({"x": "noalias", "y": "noalias"}, "store %z, 1.0", ""),
    ],
)
def test_no_written_parameter_reaches_the_memory(promises, op, stated):
    words = dict.fromkeys(("x", "y", "z", "far"), "") | promises
    kernel = parse(SEVERAL.format(op=op, **words)).kernel()
    assert {v.name for v in unwritten(kernel)} == set(stated)


def test_a_function_that_is_no_kernel_may_be_called_between_writes():
    text = TEXT.format(x="readonly noalias", y="").replace("kernel void", "void")
    assert unwritten(parse(text).functions["copy"]) == frozenset()
