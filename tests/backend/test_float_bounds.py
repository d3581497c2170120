"""Numbers below which floats are not, and the logarithms that need no cases of smaller ones."""

import math

import numpy as np
import pytest

from tileir.analysis.uses import definitions
from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.float_bounds import least
from tileir.backend.executors import SimtExecutor
from tileir.builder import F32, Builder, pointer

SIZE = 64
BOUNDS = {
    "maximum": (lambda b, x: b.fmaxnum(x, b.constant(x.type, 0.25)), 0.25),
    "maximum that keeps NaN": (lambda b, x: b.fmaximum(b.constant(x.type, 2.0), x), 2.0),
    "sum": (lambda b, x: b.exp(x) + 1.0, 0.999),
    "sum of magnitudes": (lambda b, x: b.fabs(x) + b.exp2(x), -math.inf),
    "minimum": (lambda b, x: b.fminnum(x, b.constant(x.type, 0.25)), -math.inf),
    "sum of any": (lambda b, x: x + 1.0, -math.inf),
    "sum with a negative number": (lambda b, x: b.exp(x) - 1.0, -math.inf),
    "maximum of a NaN": (lambda b, x: b.fmaxnum(x, b.constant(x.type, math.nan)), -math.inf),
    "maximum of a negative number": (lambda b, x: b.fmaxnum(x, b.constant(x.type, -1.0)), -1.0),
}


def program(formula, name=None):
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        i = b.arange(SIZE)
        value = formula(b, (x + i).load())
        (y + i).store(getattr(b, name)(value) if name else value)
    return b.module()


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_bounds(name):
    formula, expected = BOUNDS[name]
    function = program(formula).functions["k"]
    (store,) = (op for op in function.ops if op.mnemonic == "store")
    assert least(store.inputs[1], definitions(function).get) == expected


def test_bounds_of_masked_values_are_not_known():
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        i = b.arange(SIZE)
        v = (x + i).load()
        (y + i).store(b.fmaxnum(v, b.constant(v.type, 1.0), when=i < 3))
    function = b.module().functions["k"]
    (store,) = (op for op in function.ops if op.mnemonic == "store")
    assert least(store.inputs[1], definitions(function).get) == -math.inf


@pytest.mark.parametrize("bound", [1e-7, 2.0**-126, 2.0**-127, 0.0, -1.0])
@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_logarithms_of_bounded_numbers(name, bound):
    module = program(lambda b, x: b.fmaxnum(x, b.constant(x.type, bound)), name)
    x = np.exp(np.random.default_rng(2).uniform(-110, 88, SIZE)).astype(np.float32)
    x[:8] = 0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -3.0, 1e-45
    y = np.zeros(SIZE, np.float32)
    SimtExecutor().launch(module, "k", 1, [x, y])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(np.fmax(x, np.float32(bound)).astype(np.float64))
    np.testing.assert_allclose(y, expected, rtol=3e-7)
    without = program(lambda b, x: b.fmaximum(x, x), name)
    lengths = [len(compile_kernel(m, "sm_90").ptx) for m in (module, without)]
    assert (lengths[0] < lengths[1] - 200) == (bound >= 2.0**-126)


@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_a_nan_that_a_bound_keeps_has_no_logarithm(name):
    module = program(lambda b, x: b.fmaximum(x, b.constant(x.type, 1e-7)), name)
    x = np.array([math.nan, math.inf, 1.0] + [0.5] * (SIZE - 3), np.float32)
    y = np.zeros(SIZE, np.float32)
    SimtExecutor().launch(module, "k", 1, [x, y])
    assert np.isnan(y[0]) and y[1] == math.inf and y[2] == 0
