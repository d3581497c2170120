"""On residues the laws of algebra hold bit for bit, and different expressions differ."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.machine import Tensor, dtype_of
from tileir.machine.residue_machine import RingMachine
from tileir.op import lookup
from tileir.ops.matrix import SHAPES, cells
from tileir.types import BF16, F16, F32, F64, I32, Scalar, Tile
from tileir.values import constant

from .ops_inputs import tensor

MACHINE = RingMachine()
FLOATS = [F16, BF16, F32, F64]


def values(element: Scalar) -> list[Tensor]:
    rng = np.random.default_rng(11)
    tensors = []
    for _ in range(3):
        bits = rng.integers(0, 1 << 62, 64, dtype=np.uint64).astype(f"u{element.bytes}")
        tensors.append(Tensor(bits.view(dtype_of(element))))
    return tensors


def run(name: str, *operands: Tensor, **attributes: Any) -> Tensor:
    return MACHINE.elementwise(name, *operands, **attributes)


def literal(element: Scalar, number: float) -> Tensor:
    return MACHINE.constant(constant(Tile(element, (64,)), number))


def equal(left: Tensor, right: Tensor) -> bool:
    return left.data.tobytes() == right.data.tobytes()


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_laws_are_exact(element: Scalar) -> None:
    a, b, c = values(element)
    add, mul = (lambda x, y: run("fadd", x, y)), (lambda x, y: run("fmul", x, y))
    zero = literal(element, 0.0)
    assert equal(add(add(a, b), c), add(a, add(b, c)))
    assert equal(mul(mul(a, b), c), mul(a, mul(b, c)))
    assert equal(mul(a, add(b, c)), add(mul(a, b), mul(a, c)))
    assert equal(run("fma", a, b, c), add(mul(a, b), c))
    assert equal(run("fsub", a, a), zero)
    assert equal(run("fsub", a, b), add(a, run("fneg", b)))
    assert equal(mul(run("fdiv", a, b), b), add(a, zero))
    assert equal(run("fdiv", a, literal(element, 4.0)), mul(a, literal(element, 0.25)))
    assert equal(run("fabs", run("fneg", a)), run("fabs", a))
    assert equal(run("fmaxnum", a, run("fmaxnum", b, c)), run("fmaxnum", run("fmaxnum", a, b), c))
    assert equal(run("exp", zero), literal(element, 1.0))
    assert equal(run("fabs", literal(element, -3.0)), literal(element, 3.0))
    assert equal(
        run("copysign", literal(element, 3.0), literal(element, -0.5)),
        run("copysign", literal(element, -3.0), literal(element, -0.5)),
    )


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_different_expressions_differ(element: Scalar) -> None:
    a, b, c = values(element)
    assert not equal(run("fadd", a, b), run("fsub", a, b))
    assert not equal(run("fsub", a, b), run("fsub", b, a))
    assert not equal(run("fma", a, b, c), run("fma", a, c, b))
    assert not equal(run("exp", a), run("exp2", a))
    assert not equal(run("pow", a, b), run("pow", b, a))
    assert not equal(run("sin", a), run("cos", a))


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_constants_fold(element: Scalar) -> None:
    for left, right in ((0.25, 0.25), (1.5, -3.0), (2.0**-3, 7.0), (0.0, -0.0)):
        x, y = literal(element, left), literal(element, right)
        assert equal(run("fadd", x, y), literal(element, left + right))
        assert equal(run("fmul", x, y), literal(element, left * right))
        less = MACHINE.compare("fcmp", "olt", literal(element, -1.0), literal(element, 2.0))[0]
        assert less.data.all()


WHOLE = {
    "exp": math.exp, "exp2": lambda x: 2.0**x, "expm1": math.expm1, "log": math.log,
    "log2": math.log2, "log10": math.log10, "log1p": math.log1p, "sin": math.sin,
    "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan,
    "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "asinh": math.asinh,
    "acosh": math.acosh, "atanh": math.atanh, "erf": math.erf, "erfc": math.erfc,
    "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "cbrt": lambda x: x ** (1 / 3),
    "floor": math.floor, "ceil": math.ceil, "ftrunc": math.trunc, "fround": round, "frint": round,
}  # fmt: skip


@for_each("name", WHOLE)
def test_functions_of_0_and_1_that_are_whole_are_so(name: str) -> None:
    count = 0
    for number in (0.0, 1.0):
        try:
            expected = WHOLE[name](number)
        except (ValueError, ZeroDivisionError):
            continue
        if expected == int(expected):
            count += 1
            for element in FLOATS:
                got = run(name, literal(element, number))
                assert equal(got, literal(element, expected)), (element, number)
    assert count


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_dots_of_stacked_tiles_are_those_of_each(element: Scalar) -> None:
    rng = np.random.default_rng(5)

    def some(*shape: int) -> Any:
        bits = rng.integers(0, 1 << 62, shape, dtype=np.uint64).astype(f"u{element.bytes}")
        return bits.view(dtype_of(element))

    for m, n, k in ((3, 5, 7), (7, 2, 3), (1, 4, 6)):
        a, b, c = some(2, m, k), some(2, k, n), some(2, m, n)
        whole = MACHINE.dot(Tensor(a), Tensor(b), Tensor(c), "ieee", (True, True)).data
        for i in range(2):
            total = Tensor(c[i])
            for j in range(k):
                row, column = np.broadcast_arrays(a[i][:, j, None], b[i][None, j, :])
                total = run("fma", Tensor(row.copy()), Tensor(column.copy()), total)
            assert equal(Tensor(whole[i].copy()), total)


def test_additions_and_multiplications_do_not_depend_on_order() -> None:
    rng = np.random.default_rng(3)
    data = rng.integers(0, 1 << 32, (8, 33), dtype=np.uint64).astype(np.uint32).view(np.float32)
    order = rng.permutation(33)
    one = MACHINE.reduce((Tensor(data),), 1, "fadd", None)  # type: ignore[arg-type]
    other = MACHINE.reduce((Tensor(data[:, order]),), 1, "fadd", None)  # type: ignore[arg-type]
    assert equal(one, other)
    zero = Tensor(np.zeros((8, 8), np.float32))
    square = MACHINE.dot(Tensor(data), Tensor(data.T), zero, "ieee", (True, True))
    mixed = MACHINE.dot(Tensor(data[:, order]), Tensor(data.T[order]), zero, "tf32", (True, True))
    assert equal(square, mixed)


def test_small_integers_come_back() -> None:
    whole = Tensor(np.arange(-50, 50, dtype=np.int32))
    wide = MACHINE.convert("sitofp", whole, F32)
    assert MACHINE.convert("fptosi", wide, I32, saturate=False).data.tolist() == whole.data.tolist()
    longer = MACHINE.convert("fpext", wide, F64)
    assert equal(MACHINE.convert("sitofp", whole, F64), longer)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["fadd", "exp", "fptosi", "fpcast", "fcmp", "frem", "sitofp"])
def test_every_cell_runs(name: str) -> None:
    kind = lookup(name)
    assert kind is not None
    for shape in SHAPES[:4]:
        for op in cells(kind, shape):
            inputs = [tensor(v.type, 5 + i) for i, v in enumerate(op.inputs)]
            got = op.evaluate(MACHINE, *inputs)
            one = got[0] if isinstance(got, tuple) else got
            assert one.data.shape == shape and one.data.dtype == dtype_of(op.results[0].type)


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_infinities_are_the_ends_of_the_order(element: Scalar) -> None:
    for each in values(element):
        for sign, name in ((1, "fmaxnum"), (-1, "fminnum")):
            end = literal(element, sign * math.inf)
            assert equal(run(name, each, end), end)
