"""Signalling NaN: `fminnum` and `fmaxnum` give the number next to one, wherever they run (IEEE
754-2019, minimumNumber and maximumNumber)."""

import math

import ml_dtypes
import numpy as np
import pytest

from tileir.executor import executor
from tileir.textual import parse

BITS = {
    "f16": (np.uint16, 0x7C01, np.float16), "bf16": (np.uint16, 0x7F81, ml_dtypes.bfloat16),
    "f32": (np.uint32, 0x7F800001, np.float32), "f64": (np.uint64, 0x7FF0000000000001, np.float64),
}  # fmt: skip
MADE = {
    "scalar": "  %a = bitcast {e} %i0\n  %b = bitcast {e} %i1\n  %r = {op} {e} %a, %b\n",
    "tile": "  %a = bitcast {e} %i0\n  %s = splat {e}<64> %a\n  %b = bitcast {e} %i1\n"
            "  %t = splat {e}<64> %b\n  %m = {op} {e}<64> %s, %t\n"
            "  %k = splat {e}*<64> %y\n  store %k, %m\n  %r = load {e} %y\n",
    "reduction": "  %xs = splat {i}*<2> %x\n  %l = make_range i32<2>\n"
                 "  %q = getelementptr {i}*<2> %xs, %l\n  %v = load {i}<2> %q\n"
                 "  %f = bitcast {e}<2> %v\n  %r = reduce {e} %f {{combiner = {op}}}\n",
}  # fmt: skip
TEXT = """tir 1.0
define kernel void @k({i}* %x, {e}* %y) {{
entry:
  %i0 = load {i} %x
  %p = getelementptr {i}* %x, i32 1
  %i1 = load {i} %p
{lines}  store %y, %r
  ret
}}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
@pytest.mark.parametrize("op", ["fminnum", "fmaxnum"])
@pytest.mark.parametrize("element", BITS)
def test_the_number_is_the_result(element, op, on):
    integer, signalling, kind = BITS[element]
    i = f"i{np.dtype(integer).itemsize * 8}"
    sixteen = np.array(16.0, kind).view(integer)
    for name, lines in MADE.items():
        text = TEXT.format(i=i, e=element, lines=lines.format(e=element, op=op, i=i))
        for operand_bits in ((signalling, sixteen), (sixteen, signalling)):
            y = np.zeros(1, kind)
            executor(on).launch(parse(text), "k", 1, [np.array(operand_bits, integer), y])
            assert float(y[0]) == 16.0, (name, operand_bits)
        y = np.zeros(1, kind)
        executor(on).launch(parse(text), "k", 1, [np.array([signalling] * 2, integer), y])
        assert math.isnan(float(y[0])), name


@pytest.mark.sampled(3)
@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
@pytest.mark.parametrize("element", BITS)
def test_bounds_of_a_clamp_that_are_nan_bound_nothing(element, on):
    integer, signalling, kind = BITS[element]
    i = f"i{np.dtype(integer).itemsize * 8}"
    sixteen = np.array(16.0, kind).view(integer)
    for operands in ("%b, 0.0, %a", "%b, %a, 20.0"):
        text = f"  %a = bitcast {element} %i0\n  %b = bitcast {element} %i1\n"
        text += f"  %r = clampf {element} {operands}\n"
        y = np.zeros(1, kind)
        module = parse(TEXT.format(i=i, e=element, lines=text))
        executor(on).launch(module, "k", 1, [np.array([signalling, sixteen], integer), y])
        assert float(y[0]) == 16.0, operands
