"""Comparison of an executor's results with the interpreter's, within the numerics class of the
op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tileir.machine import dtype_of
from tileir.testing.matrix_kernels import MatrixCase
from tileir.types import F8E8M0 as _E8M0, element_of, shape_of

Array = np.ndarray[Any, Any]
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
_SMALLEST = {
    "float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074,
}  # fmt: skip
_APPROXIMATE = 2.0**-9
"""The error that `fast` allows on the operands of cells, relative or absolute (PTX ISA, sin,
tanh)."""


def differences(case: MatrixCase, expected: Sequence[Array], arrays: Sequence[Array]) -> str:
    """A description of the differences between `arrays` and `expected`; "" if there are none."""
    for (name, _, _), good, mine in zip(case.sources, expected, arrays, strict=True):
        fine = _same(good, mine)
        if name == "" and good.dtype.name in _EPSILON and not fine.all():
            with np.errstate(all="ignore"):
                off = np.abs(good.astype(np.float64) - mine.astype(np.float64))
                fine |= off <= _bound(case, expected, good)
        if not fine.all():
            at = int(np.argmin(fine.reshape(-1)))
            return (
                f"{name or 'result'}[{at}] is {mine.reshape(-1)[at]!r}, "
                f"not {good.reshape(-1)[at]!r}"
            )
    return ""


def _same(a: Array, b: Array) -> Array:
    """Equal bits, or both NaN."""
    bits = f"u{a.dtype.itemsize}"
    same = a.view(bits) == b.view(bits)
    if a.dtype.kind in "biu":
        return same
    with np.errstate(all="ignore"):
        return same | (np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64)))


def _bound(case: MatrixCase, arrays: Sequence[Array], good: Array) -> Array | float:
    """The largest difference that the op's class allows. It includes the error of the interpreter
    itself."""
    op: Any = case.op
    wide, unit = good.astype(np.float64), _EPSILON[good.dtype.name]
    if getattr(getattr(op, "fast", None), "value", "none") in ("approx", "fast"):
        return np.maximum(1.0, np.abs(wide)) * max(_APPROXIMATE, 2 * unit)
    if op.mnemonic in ("reduce", "scan"):
        return _reduction_bound(case, arrays, wide, unit)
    if op.mnemonic in ("dot", "dot_scaled"):
        return _dot_bound(case, arrays, unit)
    ulp = 4.0 if op.mnemonic == "extern_elementwise" else op.numerics.ulp or 0.0
    return (ulp + (1.0 if ulp else 0.0)) * np.maximum(
        np.abs(wide) * unit, _SMALLEST[good.dtype.name]
    )


def _reduction_bound(
    case: MatrixCase, arrays: Sequence[Array], wide: Array, unit: float
) -> Array | float:
    """The error bound of a reduction. For fadd, it is half a unit in the last place of the sum of
    magnitudes per addition; for fmul, half a unit of the result per multiplication."""
    op: Any = case.op
    kind = op.values[0].type
    x = np.abs(case.operand_array("values", arrays).astype(np.float64)).reshape(shape_of(kind))
    length = shape_of(kind)[op.axis]
    combiner = getattr(op.combiner, "value", op.combiner)
    if combiner == "fmul":
        return length * unit * np.abs(wide)
    if combiner != "fadd":
        return 0.0
    total = x.sum(op.axis, keepdims=op.mnemonic == "scan")
    return (length * unit * np.broadcast_to(total, _result_shape(case))).reshape(-1)


def _result_shape(case: MatrixCase) -> tuple[int, ...]:
    return shape_of(case.op.results[0].type)


def _dot_bound(case: MatrixCase, arrays: Sequence[Array], unit: float) -> Array:
    op: Any = case.op
    k = shape_of(op.b.type)[-2] * 2
    by_name = dict(zip((name for name, _, _ in case.sources), arrays, strict=True))
    by_name |= case.constants
    largest = 1.0
    for name in ("a", "b", "a_scale", "b_scale"):
        if name in by_name:
            largest *= float(np.abs(_wide(op, name, by_name[name])).max())
    return np.array(
        (k + 1) * unit * (k * largest + float(np.abs(by_name["c"].astype(float)).max()))
    )


def _wide(op: Any, name: str, array: Array) -> Array:
    element = str(element_of(getattr(op, name).type))
    if name.endswith("scale") and element == "i8":
        array = array.view(dtype_of(_E8M0))
    packed = element == "i8" and not name.endswith("scale")
    return np.array([6.0]) if packed else array.astype(np.float64)
