"""Mathematical functions as formulas over threads, against the interpreter's f64 kernels: within
the bound of each op, special values and signs of zeros exact."""

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.codegen.libm.expression import Term
from tileir.backend.codegen.libm.fmod import remainder
from tileir.backend.codegen.rules.math import _DOUBLE, _SINGLE
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.builder import Builder, pointer
from tileir.machine.functions import _F64
from tileir.op import lookup
from tileir.types import F32, F64

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e-45, -1e-45,
           1.17e-38, 3.4e38, -3.4e38, 65535.9, 65536, 1e9, 1e-20, -1e-20, 88.7, -103.9, -87.5,
           150, -150]  # fmt: skip
RANGES = (1.1, 4, 12, 100, 200, 1e5)


def evaluate(function, element, *operands):
    thread = SimtThread(len(operands[0]), (0, 0, 0), (1, 1, 1), SimtMemory(0))
    terms = [Term(thread, element, ThreadValues(np.ascontiguousarray(x))) for x in operands]
    with np.errstate(all="ignore"):
        return function(*terms).handle.array


def numbers(dtype, count):
    random = np.random.default_rng(count)
    raw = random.bytes(count * dtype.itemsize)
    spread = [random.uniform(-a, a, count // 8) for a in RANGES]
    near = 1 + random.uniform(-0.01, 0.01, count // 8)
    usual = np.concatenate([SPECIAL, near, *spread]).astype(dtype)
    values = np.concatenate([usual, np.frombuffer(raw, dtype)])
    return np.where(np.isnan(values), dtype.type(np.nan), values)


def operands(name, dtype, count):
    x = numbers(dtype, count)
    if name not in ("pow", "atan2"):
        return [x]
    random = np.random.default_rng(5)
    a, b = np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype))
    mild = np.clip(random.permutation(x), -20, 20)
    return [np.concatenate([x, a.ravel(), np.abs(x)]),
            np.concatenate([random.permutation(x), b.ravel(), mild])]  # fmt: skip


def check(name, result, exact):
    dtype = result.dtype
    with np.errstate(all="ignore"):
        near = exact.astype(dtype)
        unit = np.spacing(np.maximum(np.abs(near), np.finfo(dtype).tiny)).astype(np.float64)
        off = np.abs(result.astype(np.float64) - exact) / unit
    same = (near == result) | (np.isnan(near) & np.isnan(result))
    assert (same | (off <= lookup(name).numerics.ulp)).all(), np.nanmax(off[~same])
    zero = (near == 0) & (result == 0)
    assert (np.signbit(near) == np.signbit(result))[zero].all()


@pytest.mark.parametrize("name", sorted(_SINGLE))
def test_f32(name):
    x = operands(name, np.dtype(np.float32), 6000)
    with np.errstate(all="ignore"):
        exact = _F64[name](*(v.astype(np.float64) for v in x))
    check(name, evaluate(_SINGLE[name], F32, *x), exact)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(_DOUBLE))
def test_f64(name):
    x = operands(name, np.dtype(np.float64), 800)
    with np.errstate(all="ignore"):
        exact = _F64[name](*x)
    check(name, evaluate(_DOUBLE[name], F64, *x), exact)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("element", "dtype"), [(F32, np.float32), (F64, np.float64)])
def test_remainders_are_exact(element, dtype):
    x = numbers(np.dtype(dtype), 2000)
    random = np.random.default_rng(1)
    a, b = np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype))
    x, y = np.concatenate([x, a.ravel()]), np.concatenate([random.permutation(x), b.ravel()])
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    result = evaluate(remainder, element, x, y)
    same = (result == expected) & (np.signbit(result) == np.signbit(expected))
    assert (same | (np.isnan(result) & np.isnan(expected))).all()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("element", [F32, F64], ids=str)
@pytest.mark.parametrize("name", sorted(_SINGLE))
def test_llvm_tests_no_class_of_a_number(name, element):
    """Its tests of classes are expanded to many instructions: a formula compares bits instead."""
    b = Builder()
    with b.kernel("k", x=pointer(element), y=pointer(element), z=pointer(element)) as (x, y, z):
        i = b.arange(32)
        values = [(p + i).load() for p in (x, y)[: 2 if name in ("pow", "atan2") else 1]]
        (z + i).store(getattr(b, name)(*values))
    kernel = compile_kernel(b.module(), "sm_90", {"num_warps": 1})
    assert "call i1 @llvm.is.fpclass" not in kernel.optimized_llvm
