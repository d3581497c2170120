"""What operators and methods of Expr compute, against numpy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import interpret
from tileir.builder import F8E4M3, F16, F32, F64, I1, I8, I16, I32, I64, Builder, pointer

ELEMENTS = {
    np.dtype(np.int8): I8, np.dtype(np.int16): I16, np.dtype(np.int32): I32,
    np.dtype(np.int64): I64, np.dtype(np.float16): F16, np.dtype(np.float32): F32,
    np.dtype(np.float64): F64, np.dtype(np.bool_): I1,
}  # fmt: skip


def evaluate(make: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """What `make` computes on tiles holding `arrays`."""
    b, like = Builder(), np.asarray(make(*arrays, reference=True))
    names = {f"x{i}": pointer(ELEMENTS[a.dtype]) for i, a in enumerate(arrays)}
    with b.kernel("k", **names, out=pointer(ELEMENTS[like.dtype])) as (*inputs, out):
        tiles = []
        for p, a in zip(inputs, arrays, strict=True):
            tiles.append((p + b.arange(a.size)).load().reshape(*a.shape))
        op = make(*tiles, reference=False)
        assert op.shape == like.shape
        flat = op.reshape(-1) if op.shape else op[None]
        (out + b.arange(like.size)).store(flat)
    output = np.zeros(like.size, like.dtype)
    parameters = {f"x{i}": a.ravel().copy() for i, a in enumerate(arrays)}
    interpret(b.module(), "k", (1,), {**parameters, "out": output})
    return output.reshape(like.shape)


def check(make: Callable[..., Any], *arrays: np.ndarray) -> None:
    """`make` means on tiles what it means on arrays."""
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(make, *arrays), make(*arrays, reference=True))


RANDOM = np.random.default_rng(0)
INTEGERS = (
    RANDOM.integers(-100, 100, (3, 5), dtype=np.int32),
    RANDOM.integers(1, 9, (3, 5), dtype=np.int32) * RANDOM.choice([-1, 1], (3, 5)).astype(np.int32),
)
REALS = (
    np.array([[1.5, -0.0, np.nan, np.inf, 2.0]], np.float32),
    np.array([[0.5], [-3.0], [np.nan]], np.float32),
)


def both(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function for tiles and for arrays."""
    return lambda *values, reference: function(*values)


@pytest.mark.parametrize(
    "function",
    [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_,
     operator.or_, operator.xor, operator.lt, operator.le, operator.gt, operator.ge, operator.eq,
     operator.ne, lambda x, y: x << (y & 3), lambda x, y: x >> (y & 3), lambda x, y: -x + ~y,
     lambda x, y: abs(x) - y, lambda x, y: 7 - x * 2 + 3, lambda x, y: 100 // y - 100 % y],
)  # fmt: skip
def test_integers(function: Callable[..., Any]) -> None:
    check(both(function), *INTEGERS)
    check(both(function), *(a.astype(np.int8) for a in INTEGERS))


@pytest.mark.parametrize(
    "function",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.le,
     operator.gt, operator.ge, operator.eq, operator.ne, lambda x, y: abs(-x),
     lambda x, y: 2 - x / 4 + y],
)  # fmt: skip
def test_floats(function: Callable[..., Any]) -> None:
    check(both(function), *REALS)


def test_c_division_and_unsigned_readings() -> None:
    x, y = INTEGERS
    quotient, rest = (
        evaluate(_pair(lambda x, y: x.sdiv(y)), x, y),
        evaluate(_pair(lambda x, y: x.srem(y)), x, y),
    )
    np.testing.assert_array_equal(quotient, np.trunc(x / y))
    np.testing.assert_array_equal(rest, np.fmod(x, y))
    up = evaluate(_pair(lambda x, y: x.builder.cdiv(x, y)), x, y)
    np.testing.assert_array_equal(up, np.ceil(x / y))
    for method, function in (("udiv", operator.floordiv), ("urem", operator.mod)):
        result = evaluate(_pair(operator.methodcaller(method, 7)), x)
        np.testing.assert_array_equal(result.view(np.uint32), function(x.view(np.uint32), 7))
    np.testing.assert_array_equal(
        evaluate(_pair(lambda x: x.lshr(3)), x).view(np.uint32), x.view(np.uint32) >> 3
    )
    flags = evaluate(lambda x, y, reference: x < y if reference else x.ult(y), x, y)
    np.testing.assert_array_equal(flags, x.view(np.uint32) < y.view(np.uint32))


def _pair(on_tiles: Callable[..., Any]) -> Callable[..., Any]:
    """`on_tiles` for tiles; for arrays only the shape and type of the first."""
    return lambda *values, reference: values[0] if reference else on_tiles(*values)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_reductions(axis: int | None) -> None:
    x, _ = INTEGERS
    for name in ("sum", "max", "min"):
        check(lambda v, reference, n=name: _in_type_of(getattr(v, n)(axis), v), x)
        check(lambda v, reference, n=name: _in_type_of(getattr(v, n)(axis, keepdims=True), v), x)
    check(lambda v, reference: v.max(axis), REALS[0])
    product = np.prod(x, axis, dtype=np.int32)
    result = evaluate(
        lambda v, reference: product if reference else v.reduce(axis, lambda a, b: a * b), x
    )
    np.testing.assert_array_equal(result, product)


def test_truths_are_counted_and_the_largest_of_them_is_true() -> None:
    x = np.array([[True, False, True], [False, False, False]])
    check(lambda v, reference: _as_i32(v.sum(1)), x)
    check(lambda v, reference: _as_i32(v.cumsum(1)), x)
    for name in ("max", "min"):
        check(lambda v, reference, n=name: getattr(v, n)(1), x)
    largest = evaluate(_pair(lambda v, w: v.builder.maximum(v, w)), x, ~x)
    np.testing.assert_array_equal(largest, np.ones_like(x))


def _in_type_of(value: Any, like: Any) -> Any:
    """Numpy widens sums; tiles do not."""
    return value.astype(like.dtype) if isinstance(value, np.generic | np.ndarray) else value


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_index_of_the_extreme(name: str, axis: int) -> None:
    ties = np.array([[3, 1, 3], [1, 3, 3]], np.int32)
    holes = np.array([[1, np.nan, 0, np.nan], [2, 2, -1, -1]], np.float32)
    for x in (ties, holes, *INTEGERS):
        check(lambda v, reference: _as_i32(getattr(v, name)(axis)), x)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_index_of_the_extreme_of_all_elements(name: str) -> None:
    for x in (np.array([[3, 1, 3], [1, 3, 3]], np.int32), *INTEGERS):
        check(lambda v, reference: _as_i32(getattr(v, name)()), x)


def _as_i32(value: Any) -> Any:
    return value.astype(np.int32) if isinstance(value, np.generic | np.ndarray) else value


def test_running_totals_and_matmuls() -> None:
    x, y = INTEGERS
    check(lambda v, reference: _in_type_of(v.cumsum(1), v), x)
    a, b = x.astype(np.float32), y.T.astype(np.float32).copy()
    check(both(operator.matmul), a, b)
    check(both(lambda a: a @ a.T), a)
    whole = x.astype(np.int8)
    result = evaluate(lambda v, reference: x @ x.T if reference else v @ v.T, whole)
    np.testing.assert_array_equal(result, x @ x.T)


def test_choices() -> None:
    x, y = INTEGERS

    def make(x: Any, y: Any, reference: bool) -> Any:
        where, largest = (
            (np.where, np.maximum) if reference else (x.builder.where, x.builder.maximum)
        )
        return where(x < y, largest(x, 3), y)

    check(make, x, y)


def test_conversions() -> None:
    x = np.array([-3.7, -1.0, -0.0, 0.5, 127.9], np.float32)
    for element, dtype in ((I32, np.int32), (F16, np.float16), (F64, np.float64), (I8, np.int8)):
        check(lambda v, reference, e=element, d=dtype: v.astype(d) if reference else v.to(e), x)
    check(lambda v, reference: v != 0 if reference else v.to(I1), x)
    n = np.array([-1, 0, 200], np.int32)
    check(lambda v, reference: v.astype(np.int8) if reference else v.to(I8), n)
    unsigned = evaluate(
        lambda v, reference: v.astype(np.int64) if reference else v.to(I64, signed=False), n
    )
    np.testing.assert_array_equal(unsigned, n.view(np.uint32).astype(np.int64))
    small = evaluate(lambda v, reference: v if reference else v.to(F8E4M3).to(I32), n)
    assert small.tolist() == [-1, 0, 192]


def test_atomics_return_the_old_value() -> None:
    b = Builder()
    with b.kernel("k", x=pointer(I32), old=pointer(I32)) as (x, old):
        me = b.program_id(axis=0)
        (old + me).store(x.atomic("add", 2))
    x, old = np.array([5], np.int32), np.zeros(4, np.int32)
    interpret(b.module(), "k", (4,), {"x": x, "old": old})
    assert x[0] == 13
    assert sorted(old) == [5, 7, 9, 11]


def test_numpys_numbers_leave_operators_to_expressions() -> None:
    b = Builder()
    with b.kernel("k", x=I32, y=F32) as (x, y):
        assert (np.int64(3) + x).type is I32
        assert (np.float32(3) * y).type is F32
        assert (np.float64(3) < y).type is I1


@for_each(("offset", "kind"), [
        (0, I32), ((1 << 31) - 1, I32), (1 << 31, I64), (1 << 40, I64), (-1, I32),
        (-(1 << 31), I32), (-(1 << 31) - 1, I64), (-(1 << 32), I64), (-(1 << 40), I64),
    ])  # fmt: skip
def test_offsets_are_as_wide_as_they_must_be(offset: int, kind: Any) -> None:
    b = Builder()
    with b.kernel("k", p=pointer(F32)) as (p,):
        (p + offset).store(1.0)
    moves = [op for op in b.module().kernel("k").ops if op.mnemonic == "getelementptr"]
    assert [(op.index.type, op.index.value) for op in moves] == [(kind, offset)]


def test_blocks_can_be_looked_up_though_their_parameters_cannot() -> None:
    """Parameters are compared by ops, blocks by none."""
    b = Builder()
    with b.kernel("k"):
        first, second = b.block("loop", I32), b.block("loop", I32)
        seen = {first: 1, second: 2}
        assert seen[first] == 1 and seen[second] == 2 and first != second
        b.ret()
