"""Numpy-style broadcasting (MAPL'19 §3.2.2) and the common element types, as tables."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.builder import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    Builder,
    BuildError,
    pointer,
    tile,
)
from tileir.op import Op
from tileir.types import Scalar, element_of, shape_of

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((), (8,)),
    ((16,), (16,)),
    ((1,), (16,)),
    ((16,), (32, 16)),
    ((1, 16), (32, 16)),
    ((16,), (16, 1)),
    ((7, 1), (1, 5)),
    ((5,), (3, 1, 5)),
    ((2, 1, 4), (3, 1)),
    ((1, 1), (1,)),
    ((), (4, 1, 3)),
]


def build_ops(make: Callable[..., Any], *types: Any) -> tuple[Any, list[Op]]:
    """The Expr `make` returns on values of `types`, and the ops it took."""
    b = Builder()
    with b.function("f", None, **{f"x{i}": t for i, t in enumerate(types)}) as values:
        op = make(*values)
    return op, list(b.module().functions["f"].ops)[:-1]


@for_each(("left", "right"), [*SHAPES, *((b, a) for a, b in SHAPES)])
def test_shapes_broadcast_as_numpys_do(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    module, ops = build_ops(operator.add, tile(I32, left), tile(I32, right))
    assert module.shape == np.broadcast_shapes(left, right)
    assert ops[-1].mnemonic == "add"
    assert {op.mnemonic for op in ops[:-1]} <= {"splat", "reshape", "broadcast"}
    unchanged = sum(shape == module.shape for shape in (left, right))
    assert len(ops) >= 3 - unchanged


@pytest.mark.parametrize(
    ("left", "right"),
    [((16,), (15,)), ((16,), (16, 2)), ((3, 4), (4, 3)), ((2, 3, 4), (3, 3, 4)), ((0 + 2,), (3,))],
)
def test_other_shapes_are_refused(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="broadcast"):
        np.broadcast_shapes(left, right)
    with pytest.raises(BuildError) as caught:
        build_ops(operator.add, tile(I32, left), tile(I32, right))
    assert caught.value.code == "TIR0807"
    for shape in (left, right):
        assert f"<{', '.join(map(str, shape))}>" in str(caught.value)


def test_the_papers_listing_4() -> None:
    a, column, whole = tile(I32, (16,)), tile(I32, (16, 1)), tile(I32, (32, 16))
    module, ops = build_ops(lambda a, b: a[None, :] + b, a, whole)
    assert [op.mnemonic for op in ops] == ["reshape", "broadcast", "add"]
    assert module.shape == (32, 16)
    implicit, same = build_ops(operator.add, a, whole)
    assert [op.mnemonic for op in same] == ["reshape", "broadcast", "add"]
    assert implicit.type is module.type
    both, ops = build_ops(operator.add, a, column)
    assert [op.mnemonic for op in ops] == ["reshape", "broadcast", "broadcast", "add"]
    assert both.shape == (16, 16)


ELEMENTS: list[tuple[Scalar, Scalar, Scalar]] = [
    (I32, I32, I32),
    (I8, I32, I32),
    (I1, I8, I8),
    (I64, I32, I64),
    (F16, F32, F32),
    (F16, BF16, F32),
    (F64, F16, F64),
    (I32, F16, F16),
    (I64, F32, F32),
    (I1, F32, F32),
]


@for_each(("left", "right", "result"), ELEMENTS)
def test_common_element_types(left: Scalar, right: Scalar, result: Scalar) -> None:
    for types in ((left, right), (right, left)):
        module, _ = build_ops(operator.add, *types)
        assert module.type is result


NUMBERS: list[tuple[Any, Any, Any]] = [
    (I32, 1, I32),
    (I8, -128, I8),
    (F16, 1, F16),
    (F16, 1.5, F16),
    (F64, 1e300, F64),
    (I32, 0.5, F32),
    (I32, np.int64(3), I32),
    (F32, np.float32(3), F32),
    (tile(I32, (4,)), True, tile(I32, (4,))),
    (tile(I8, (2, 2)), 0.5, tile(F32, (2, 2))),
]


@for_each(("type_", "number", "result"), NUMBERS)
def test_numbers_take_the_type_of_the_value(type_: Any, number: Any, result: Any) -> None:
    for make in (lambda x: x + number, lambda x: number + x):
        module, _ = build_ops(make, type_)
        assert module.type is result


INT, FLOAT = tile(I32, (4,)), tile(F32, (4,))
OPERATORS: list[tuple[Callable[..., Any], str, str | None]] = [
    (operator.add, "add", "fadd"),
    (operator.sub, "sub", "fsub"),
    (operator.mul, "mul", "fmul"),
    (operator.floordiv, "sdiv", None),
    (operator.mod, "srem", None),
    (operator.and_, "and", None),
    (operator.or_, "or", None),
    (operator.xor, "xor", None),
    (operator.lshift, "shl", None),
    (operator.rshift, "ashr", None),
    (lambda x, y: x.udiv(y), "udiv", None),
    (lambda x, y: x.urem(y), "urem", None),
    (lambda x, y: x.sdiv(y), "sdiv", None),
    (lambda x, y: x.srem(y), "srem", None),
    (lambda x, y: x.lshr(y), "lshr", None),
    (lambda x, y: x.builder.maximum(x, y), "smax", "fmaximum"),
    (lambda x, y: x.builder.minimum(x, y), "smin", "fminimum"),
    (lambda x, y: x.builder.cdiv(x, y), "sdiv", None),
]


@for_each(("make", "integer", "floating"), OPERATORS)
def test_operators_are_ops(make: Callable[..., Any], integer: str, floating: str | None) -> None:
    assert [op.mnemonic for op in build_ops(make, INT, INT)[1]] == [integer]
    if floating is not None:
        assert [op.mnemonic for op in build_ops(make, FLOAT, FLOAT)[1]] == [floating]


def test_rounding_of_division_is_pythons() -> None:
    for make, rounding in (
        (operator.floordiv, "floor"),
        (operator.mod, "floor"),
        (lambda x, y: x.sdiv(y), "zero"),
        (lambda x, y: x.builder.cdiv(x, y), "ceil"),
    ):
        (op,) = build_ops(make, INT, INT)[1]
        assert op.attributes["rounding"].value == rounding


def test_true_division_is_of_floats() -> None:
    assert build_ops(operator.truediv, INT, INT)[0].type is FLOAT
    assert build_ops(operator.truediv, FLOAT, INT)[0].type is FLOAT
    assert build_ops(operator.truediv, I64, I32)[0].type is F64
    assert build_ops(lambda x: 1 / x, I32)[0].type is F32


COMPARISONS: list[tuple[Callable[..., Any], str, str, str]] = [
    (operator.lt, "slt", "olt", "ult"),
    (operator.le, "sle", "ole", "ule"),
    (operator.gt, "sgt", "ogt", "ugt"),
    (operator.ge, "sge", "oge", "uge"),
    (operator.eq, "eq", "oeq", "eq"),
    (operator.ne, "ne", "une", "ne"),
]


@pytest.mark.parametrize(("make", "signed", "floating", "unsigned"), COMPARISONS)
def test_comparisons(make: Callable[..., Any], signed: str, floating: str, unsigned: str) -> None:
    pointers = tile(pointer(F32), (4,))
    for type_, relation in ((INT, signed), (FLOAT, floating), (pointers, unsigned), (I1, unsigned)):
        module, ops = build_ops(make, type_, type_)
        assert [op.attributes["predicate_"].value for op in ops] == [relation]
        assert (element_of(module.type), module.shape) == (I1, shape_of(type_))


@pytest.mark.parametrize("relation", ["ult", "ule", "ugt", "uge"])
def test_comparisons_without_sign_are_methods(relation: str) -> None:
    for other in (INT, I32):
        module, ops = build_ops(lambda x, y: getattr(x, relation)(y), INT, other)
        assert ops[-1].attributes["predicate_"].value == relation
        assert (element_of(module.type), module.shape) == (I1, shape_of(INT))


CASTS: list[tuple[Any, Any, bool, str]] = [
    (I32, I64, True, "sext"),
    (I32, I64, False, "zext"),
    (I1, I32, True, "zext"),
    (I64, I8, True, "trunc"),
    (F32, F16, True, "fptrunc"),
    (F16, F64, True, "fpext"),
    (F16, BF16, True, "fpcast"),
    (F32, I32, True, "fptosi"),
    (F32, I32, False, "fptoui"),
    (I32, F32, True, "sitofp"),
    (I32, F32, False, "uitofp"),
    (I1, F32, True, "uitofp"),
    (I32, I1, True, "icmp"),
    (F32, I1, True, "fcmp"),
    (pointer(F32), I64, True, "ptrtoint"),
    (I64, pointer(F32), True, "inttoptr"),
    (pointer(F32), pointer(I8), True, "bitcast"),
]


@for_each(("old", "new", "signed", "mnemonic"), CASTS)
def test_to_chooses_the_cast(old: Any, new: Any, signed: bool, mnemonic: str) -> None:
    for shape in ((), (3, 5)):
        module, ops = build_ops(lambda x: x.to(new, signed=signed), tile(old, shape))
        assert [op.mnemonic for op in ops] == [mnemonic]
        assert module.type is tile(new, shape)
    assert build_ops(lambda x: x.to(old), old)[1] == []


def test_pointer_arithmetic_is_getelementptr() -> None:
    p, row = pointer(F32), tile(I32, (4,))
    for make in (operator.add, lambda p, i: i + p):
        module, ops = build_ops(make, p, row)
        assert [op.mnemonic for op in ops] == ["splat", "getelementptr"]
        assert module.type is tile(p, (4,))
    assert [op.mnemonic for op in build_ops(lambda p: p - 3, p)[1]] == ["getelementptr"]
    assert [op.mnemonic for op in build_ops(operator.sub, p, I32)[1]] == ["neg", "getelementptr"]
    big, _ = build_ops(lambda p: p + (1 << 40), p)
    assert big.type is p


INDICES: list[tuple[tuple[int, ...], Any, tuple[int, ...]]] = [
    ((8,), np.s_[:, None], (8, 1)),
    ((8,), np.s_[None, :], (1, 8)),
    ((8,), np.s_[None], (1, 8)),
    ((8,), np.s_[...], (8,)),
    ((8,), np.s_[..., None], (8, 1)),
    ((3, 5), np.s_[:, None, :], (3, 1, 5)),
    ((3, 5), np.s_[:, None], (3, 1, 5)),
    ((3, 5), np.s_[None, ..., None], (1, 3, 5, 1)),
    ((), np.s_[None, None], (1, 1)),
]


@for_each(("shape", "index", "result"), INDICES)
def test_indexing_adds_dimensions(
    shape: tuple[int, ...], index: Any, result: tuple[int, ...]
) -> None:
    assert np.zeros(shape)[index].shape == result
    assert build_ops(lambda x: x[index], tile(I32, shape))[0].shape == result


@for_each("old", [(24,), (4, 6), (2, 3, 4), (1, 24, 1)])
@for_each("new", [(-1,), (24, -1), (-1, 8), (2, -1, 3), (3, 2, 2, -1), (4, 6)])
def test_one_extent_of_a_new_shape_is_computed_as_numpy_does(
    old: tuple[int, ...], new: tuple[int, ...]
) -> None:
    module, _ = build_ops(lambda x: x.reshape(*new), tile(F32, old))
    assert module.shape == np.zeros(old).reshape(new).shape


@for_each(("left", "right"), [((3, 5), (5, 7)), ((2, 3, 5), (2, 5, 7)), ((4, 1, 6), (4, 6, 2))])
@for_each(("element", "total"), [(F16, F32), (F64, F64), (I8, I32)])
def test_matmuls_have_the_shape_of_numpys(
    left: tuple[int, ...], right: tuple[int, ...], element: Scalar, total: Scalar
) -> None:
    module, _ = build_ops(operator.matmul, tile(element, left), tile(element, right))
    assert module.type is tile(total, (np.zeros(left) @ np.zeros(right)).shape)


def test_shapes_of_methods() -> None:
    x = tile(F32, (3, 5))
    for make, shape in (
        (lambda x: x.T, (5, 3)),
        (lambda x: x.permute(1, 0), (5, 3)),
        (lambda x: x.reshape(-1), (15,)),
        (lambda x: x.reshape(5, 3, 1), (5, 3, 1)),
        (lambda x: x.sum(), ()),
        (lambda x: x.sum(0), (5,)),
        (lambda x: x.max(-1), (3,)),
        (lambda x: x.cumsum(1), (3, 5)),
        (lambda x: x @ x.T, (3, 3)),
        (lambda x: x.broadcast_to(2, 3, 5), (2, 3, 5)),
        (lambda x: x.builder.where(x > 0, x, 0.0), (3, 5)),
    ):
        assert build_ops(make, x)[0].shape == shape


@pytest.mark.parametrize("whole", [int, np.int64, np.uint8])
def test_extents_may_be_numpys_integers(whole: Any) -> None:
    b = Builder()
    with b.kernel("k"):
        row = b.arange(whole(4), whole(10))
        assert row.type is b.zeros(whole(6), I32).type is tile(I32, (6,))
        assert b.full([whole(2), 3], 1.5).shape == (2, 3)
        assert row.reshape(whole(3), -1).broadcast_to(whole(5), 3, 2).shape == (5, 3, 2)
    assert b.module()
