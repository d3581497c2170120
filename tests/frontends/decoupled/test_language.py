"""The language: operations and functions, types, strides, sizes; primitives beyond the thesis."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.sizes import for_each
from tileir import Module, TileirError
from tileir.frontends.decoupled import Tensor, parse
from tileir.frontends.decoupled.functions import FUNCTIONS
from tileir.frontends.decoupled.reference import NUMPY
from tileir.frontends.decoupled.tensors import tensor_of
from tileir.textual import print_module
from tileir.types import F32

from . import definitions as d


def positive(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).random(shape, np.float32) + np.float32(0.25)


def whole(
    expression: str, *arrays: Any, more: str = "", on: str | None = None, **named: Any
) -> Any:
    """f[x, y] = expression over A, B, C[x, y], and what numpy has for it."""
    names = "ABC"[: len(arrays)]
    source = f"""
    Func f; In {", ".join(names)}; SIn s; Var x, y; RVar k;
    f[x, y] = {expression}; f.block(x:2); f.tensorize(x:0, y:0); f.compile(); {more}
    """
    function = parse(source).function()
    named.update(dict.fromkeys(function.scalars, 3))
    arrays = tuple(a for n, a in zip(names, arrays, strict=True) if n in function.tensors)
    return function(*arrays, on=on, **named), function.reference(*arrays, **named)


def test_functions_have_a_meaning_in_numpy() -> None:
    assert FUNCTIONS.keys() == NUMPY.keys()


@for_each("name", FUNCTIONS)
def test_functions(name: str) -> None:
    check_function(name, "interpreter")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_on_the_default_executor(name: str) -> None:
    check_function(name, None)


def check_function(name: str, on: str | None) -> None:
    function = FUNCTIONS[name]
    arrays = [positive(3, 5), positive(3, 5) + 1, positive(3, 5) + 2][: function.arity]
    if function.kind == "integer":
        arrays = [(a * 5e8).astype(np.int32) // (i * 1000 + 1) for i, a in enumerate(arrays)]
    operands = [f"{n}[x, y]" for n in "ABC"[: function.arity]]
    result, expected = whole(f"{name}({', '.join(operands)})", *arrays, on=on)
    np.testing.assert_allclose(result, expected, rtol=3e-6)
    if function.kind == "integer":
        return
    fixed = [operands[0], "1.5", "2"][: function.arity]
    if name == "where":
        fixed = ["A[x, y] > 0.5", "1", "A[x, y]"]
    numbers = ", ".join(["0.5"] * function.arity)
    result, expected = whole(f"{name}({', '.join(fixed)}) + {name}({numbers})", arrays[0], on=on)
    np.testing.assert_allclose(result, expected, rtol=3e-6)


MIXED = ("float32", "float64", "int32")


@for_each("name", [n for n, f in FUNCTIONS.items() if f.arity > 1 and f.kind != "integer"])
def test_functions_of_two_types_are_as_exact_as_the_wider_one(name: str) -> None:
    """A float64 operand, whichever it is, has all of its 53 bits in the result."""
    arity, random = FUNCTIONS[name].arity, np.random.default_rng(7)
    operands = ", ".join(f"{n}[x, y]" for n in "ABC"[:arity])
    for kinds in itertools.product(MIXED, repeat=arity):
        arrays = [(random.random((3, 5)) * 3 + i + 1).astype(k) for i, k in enumerate(kinds)]
        result, expected = whole(f"{name}({operands})", *arrays, on="interpreter")
        exact = "float64" in (kinds[1:] if name == "where" else kinds)
        np.testing.assert_allclose(
            result, expected, rtol=1e-12 if exact else 3e-6, err_msg=f"{kinds}"
        )
        assert result.dtype == np.float64 or not exact, kinds


OPERATIONS = [
    "-A[x, y] + +B[x, y] * 2 - 3 / A[x, y]", "A[x, y] % 0.3", "7 % 4 + -7 % 4 + A[x, y] * 0",
    "A[x, y] < B[x, y]", "(A[x, y] <= 0.5) * 2 + (A[x, y] > B[x, y])", "A[x, y] >= 0.5 == 1",
    "(A[x, y] != A[x, y]) - 1", "2 - 3 - 4 + 0 * A[x, y]", "2 / 3 / 4 * A[x, y]", "s * A[x, y]",
    "len(x) * len(y) / 2 + A[x, y]", "reshape(x, x, 1) * 10 + y",
    "pow(A[x, y], 4) + pow(A[x, y], 0.5)", "pow(2, A[x, y]) + pow(A[x, y], B[x, y])",
    "program_id() * 0 + A[x, y]", "1 < 2", "inf > x",
    "reshape(A[x, y], x, y) * 2", "where(y < 2, A[x, y], -inf) > -1", "s % 2 + x % 3",
    "rmax(A[x, k], k) * B[x, y] + rsum(1 + 0 * A[x, k], k)", "rsum(A[x, k] > 0.5, k) + B[x, y]",
    "rmin(A[x, k] * k, k) + A[x, y]",
]  # fmt: skip


@for_each("expression", OPERATIONS)
def test_operations(expression: str) -> None:
    check_operation(expression, "interpreter")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("expression", OPERATIONS)
def test_operations_on_the_default_executor(expression: str) -> None:
    check_operation(expression, None)


def check_operation(expression: str, on: str | None) -> None:
    names = [n for n in "AB" if f"{n}[" in expression]
    arrays = [positive(3, 5), positive(3, 5) + 1][: 1 + ("B" in names)]
    if names:
        result, expected = whole(expression, *arrays, on=on)
    else:
        result, expected = evaluate_with_sizes(expression, on)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def evaluate_with_sizes(expression: str, on: str | None) -> Any:
    source = f"Func f; Var x, y; SIn s; f[x, y] = {expression}; f.tensorize(y:0); f.compile();"
    function = parse(source).function()
    arguments = [3 for _ in function.scalars]
    return function(*arguments, on=on, x=3, y=5), function.reference(*arguments, x=3, y=5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_reshape_may_move_the_elements_of_a_tensor(on: str) -> None:
    source = "Func f; In A; Var x, y; f[x, y] = reshape(A[y, x], x, y) * 2; f.compile();"
    A = positive(7, 5)
    for schedule in ("f.tensorize(x:0, y:0);", "f.block(x:2, y:4); f.tensorize(y:0);", ""):
        result = parse(source).with_schedule(schedule).function()(A, on=on)
        assert (result == A.reshape(5, 7) * 2).all()


TYPES = ["float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "bool"]


@for_each("dtype", TYPES)
def test_types_of_tensors(dtype: str) -> None:
    check_types(dtype, "interpreter")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", TYPES)
def test_types_of_tensors_on_the_default_executor(dtype: str) -> None:
    check_types(dtype, None)


def check_types(dtype: str, on: str | None) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    A, B = ((np.arange(35).reshape(5, 7) * n % 5).astype(kind) for n in (1, 3))
    source = """
    Func f, g; In A, B; Var x, y; RVar k;
    f[x, y] = A[x, y] * 3 + B[x, y] / 2 - rsum(A[x, k], k) + rmax(B[x, k], k);
    f.tensorize(x:0, y:4, k:0); f.compile();
    g[x, y] = A[x, y] + B[x, y]; g.tensorize(y:0); g.compile();
    """
    program = parse(source)
    result = program.function("f")(A, B, on=on)
    assert result.dtype == (np.float64 if dtype.endswith("t64") else np.float32)
    np.testing.assert_allclose(result, program.function("f").reference(A, B), rtol=1e-3)
    kept = program.function("g")(A, B, types={"g": "int16"}, on=on)
    assert kept.dtype == np.int16 and (kept == A.astype(int) + B.astype(int)).all()


WIDE = {
    "int8": "int32", "int32": "int32", "int64": "int64", "float16": "float32",
    "float32": "float32", "float64": "float64",
}  # fmt: skip
"""Types of elements, and the types that they are computed in."""


@for_each(("left", "right"), itertools.product(WIDE, repeat=2))
def test_operators_of_any_two_types(left: str, right: str) -> None:
    """The wider type is computed in, and a float is wider than any integer. A result is float64
    where its expression is, as quotients of int64 are, else float32."""
    wide = [WIDE[left], WIDE[right]]
    floats = [kind for kind in wide if kind.startswith("float")]
    common = max(floats if len(floats) == 1 else wide, key=lambda kind: np.dtype(kind).itemsize)
    quotient = {"int32": "float32", "int64": "float64"}.get(common, common)
    arrays = []
    for kind, numbers in ((left, [3, -5, 7, 100]), (right, [2, 9, -4, 11])):
        ends = {"int32": [2**20 + 1], "int64": [2**40 + 1], "float64": [2**40 + 0.5]}
        arrays.append(np.array([numbers + ends.get(kind, [1])]).astype(kind))
    x, y = (array.astype(common) for array in arrays)
    for expression, result_type, expected in (
        ("A[x, y] + B[x, y]", common, x + y),
        ("A[x, y] / B[x, y]", quotient, x.astype(quotient) / y.astype(quotient)),
        ("rsum(A[x, k] - B[x, k], k) + 0 * A[x, y]", common, [[(x - y).sum()] * 5]),
    ):
        result, _ = whole(expression, *arrays, on="interpreter")
        assert result.dtype == ("float64" if result_type == "float64" else "float32"), expression
        precision = 1e-6 if result.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(result, expected, precision, err_msg=expression)


@for_each("kind", WIDE)
def test_operators_of_numbers_keep_the_type_of_elements(kind: str) -> None:
    """A whole number is of any type, others are float32 next to integers."""
    A = np.array([[3, -5, 7, 100, 9]]).astype(kind)
    for expression in ("A[x, y] * 2", "3 - A[x, y]", "A[x, y] + y", "A[x, y] * 2.5", "A[x, y] / 4"):
        result, expected = whole(expression, A, on="interpreter")
        is_wide = kind == "float64" or (kind == "int64" and "/" in expression)
        assert result.dtype == ("float64" if is_wide else "float32"), expression
        np.testing.assert_allclose(result, expected, rtol=1e-6)


FLOATS: dict[str, tuple[Any, list[float]]] = {
    "float16": (np.float16, [1, -3, 1 + 2**-10, 2047]),
    "bfloat16": (ml_dtypes.bfloat16, [1, -3, 2**20, 1 + 2**-7]),
    "float32": (np.float32, [1, -3, 2**20, 2047]), "float64": (np.float64, [1, -3, 7, 2047]),
    "int8": (np.int8, [1, -3, 127, -128]), "int32": (np.int32, [1, -3, 1000, 2047]),
}  # fmt: skip
"""Elements of matmuls, and numbers that no type of as few bits but their own holds."""


@for_each(("left", "right"), itertools.product(FLOATS, FLOATS))
def test_matmuls_of_any_two_types_lose_nothing(left: str, right: str) -> None:
    """Numbers are multiplied as they are, where neither type is wider: only a
    float32 next to 16 bits is rounded to these."""
    (a, numbers), (b, others) = FLOATS[left], FLOATS[right]
    A = np.diag(np.resize(np.array(numbers), 16)).astype(a)
    B = np.diag(np.resize(np.array(others), 16)).astype(b)
    function = parse(d.MATMUL).with_schedule("matmul.tensorize(m:0, n:0, k:0);").function()
    result = function(A, B, on="interpreter").astype(np.float64)
    floats = [n for n in (left, right) if n.startswith(("float", "bf"))]
    widths = {n: np.dtype(FLOATS[n][0]).itemsize for n in floats}
    sides = [A, B]
    if len(floats) == 2 and widths[left] != widths[right]:
        narrow = min(floats, key=lambda n: widths[n])
        with np.errstate(over="ignore"):
            sides = [x.astype(FLOATS[narrow][0]) for x in sides]
    with np.errstate(over="ignore"):
        expected = np.diag(sides[0]).astype(np.float64) * np.diag(sides[1]).astype(np.float64)
    np.testing.assert_allclose(np.diag(result), expected, rtol=2**-23)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "right"),
    [("int8", "int8"), ("float16", "float32"), ("float64", "float64"), ("int32", "float32")],
)
@pytest.mark.parametrize("tensors", ["m:0, n:0, k:0", "m:0, n:0, k:16", "m:8, k:4", "n:0"])
def test_types_of_matmuls(left: str, right: str, tensors: str) -> None:
    A = (np.arange(17 * 33).reshape(17, 33) % 7 - 3).astype(left)
    B = (np.arange(33 * 19).reshape(33, 19) % 5 - 2).astype(right)
    function = parse(d.MATMUL).with_schedule(f"matmul.tensorize({tensors});").function()
    assert (function(A, B) == function.reference(A, B)).all()


@pytest.mark.slow
def test_batches_of_matmuls() -> None:
    source = """
    Func f; In A, B; Var h, m, n; RVar k;
    f[h, m, n] = rdot(A[h, m, k], B[k, n], k); f.compile();
    """
    A, B = positive(3, 9, 16), positive(16, 10)
    for schedule in (
        "f.block(h:1); f.tensorize(m:0, n:0, k:0);",
        "f.tensorize(h:0, m:0, n:0, k:8);",
        "f.block(m:4); f.tensorize(m:0, n:0);",
    ):
        function = parse(source).with_schedule(schedule).function()
        np.testing.assert_allclose(function(A, B), A @ B, rtol=1e-5)  # fmt: skip


def test_arrays_keep_their_strides() -> None:
    A = positive(10, 12)[::2, ::3].T
    B = positive(5, 4).T
    assert A.shape == B.shape
    source = "Func f; In A, B; Var x, y; f[x, y] = A[x, y] - B[x, y];"
    function = parse(source + "f.tensorize(x:0, y:2); f.compile();").function()
    out = np.zeros((5, 4), np.float32).T
    assert function(A, B, out=out) is out
    assert (out == A - B).all()
    assert (function(B, B) == 0).all()


@for_each("dtype", ("float32", "float16", "int8", "float64"))
@for_each("first", range(5))
def test_arrays_may_begin_anywhere(dtype: str, first: int) -> None:
    """No access is wider than what the address of the array is aligned to, and none is reused for
    an array that is aligned less."""
    source = "Func f; In A; Var x; f[x] = A[x] + 1; f.block(x:256); f.tensorize(x:0); f.compile();"
    function = parse(source).function()
    memory = (np.arange(320) % 100).astype(dtype)
    memory = memory[-(memory.ctypes.data // memory.itemsize) % (16 // memory.itemsize) :]
    for start in (0, first):
        A = memory[start:][:256]
        assert tensor_of("A", A).aligned == (A.ctypes.data % 16 == 0)
        np.testing.assert_array_equal(function(A, on="simt"), A.astype(np.float64) + 1)


@for_each("field", ("first", "second", "third"))
def test_fields_of_records_are_arrays_if_records_are_whole_elements(field: str) -> None:
    kinds: Any = [("first", "f4"), ("second", "f8"), ("third", "i2"), ("fourth", "i2")]
    records = np.zeros(6, np.dtype(kinds))
    records[field] = np.arange(6)
    source = "Func f; In A; Var x; f[x] = A[x] + 1; f.compile();"
    if records.dtype.itemsize % records.dtype[field].itemsize == 0:
        assert parse(source).function()(records[field]).tolist() == list(range(1, 7))
    records = np.zeros(6, np.dtype([(field, "f8"), ("rest", "i2")]))
    with pytest.raises(TileirError, match="A has strides that are not whole elements"):
        parse(source).function()(records[field])


def test_offsets_are_wide_where_tensors_are() -> None:
    function = (
        parse(d.RELU).with_schedule("relu_out.block(x:1); relu_out.tensorize(y:64);").function()
    )
    far = function.module(Tensor(F32, (1 << 12, 1 << 20), (1 << 20, 1)))
    near = function.module(Tensor(F32, (1 << 10, 1 << 20), (1 << 20, 1)))
    backwards = function.module(Tensor(F32, (1 << 12, 1 << 20), (-(1 << 20), 1)))
    assert widths(far) == widths(backwards) == {"i64"} and widths(near) == {"i32"}


@for_each(("reach", "sign"), itertools.product((2**31 - 1, 2**31), (1, -1)))
def test_offsets_of_32_bits_reach_2_31_less_1_elements(reach: int, sign: int) -> None:
    function = (
        parse(d.RELU).with_schedule("relu_out.block(x:1); relu_out.tensorize(y:64);").function()
    )
    module = function.module(Tensor(F32, (2, 64), (sign * (reach - 63), 1)))
    assert ("i64" in widths(module)) == (reach == 2**31)


def widths(module: Module) -> set[str]:
    """Types of the offsets of pointers."""
    ops = [op for op in module.kernel("relu_out").ops if op.mnemonic == "getelementptr"]
    return {str(op.index.type).partition("<")[0] for op in ops}


def test_one_row_is_read_once_for_its_norm_and_its_elements() -> None:
    schedule = "rms_norm_out.block(x:1); rms_norm_out.tensorize(y:0, k:0);"
    program = parse(d.RMS_NORM).with_schedule(schedule)
    module = program.function().module(positive(3, 64), positive(64), 0.5, 0.5)
    assert sum(op.mnemonic == "load" for op in module.kernel("rms_norm_out").ops) == 2


def test_warps_stages_precision_and_approximation_reach_the_module() -> None:
    schedule = """mmsigmoid.block(m:16, n:16); mmsigmoid.tensorize(m:0, n:0, k:16);
    mmsigmoid.num_warps(2); mmsigmoid.num_stages(4); mmsigmoid.precision(tf32);
    mmsigmoid.math(approx);"""
    function = parse(d.MMSIGMOID).with_schedule(schedule).function()
    A, B = positive(16, 64) / 8, positive(64, 16) / 8
    text = print_module(function.module(A, B))
    for words in ("num_warps = 2", "stages = 4", "precision = tf32", "fast = approx"):
        assert words in text
    np.testing.assert_allclose(function(A, B), function.reference(A, B), rtol=1e-2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "tanh", "sigmoid", "rsqrt", "fdiv", "sin"])
def test_approximations_are_near(name: str) -> None:
    operands = "A[x, y], B[x, y]" if name == "fdiv" else "A[x, y]"
    result, expected = whole(f"{name}({operands}) / 3", positive(3, 5), positive(3, 5) + 1,
                            more="f.math(approx);")  # fmt: skip
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", ["-", "%", "<=", ">", "!="])
def test_numbers_are_computed_with_as_elements_are(op: str) -> None:
    """Of both signs, integers and floats; the remainder has the sign of the dividend."""
    pairs = [(a, b) for a in (7, -7, 3, 2.5) for b in (3, -3, 7, -2.5)]
    numbers = " + ".join(f"{4**n} * (({a}) {op} ({b}))" for n, (a, b) in enumerate(pairs[:8]))
    floats = " + ".join(f"{4**n} * (({a}) {op} ({b}))" for n, (a, b) in enumerate(pairs[8:]))
    result, expected = whole(f"A[x, y] + ({numbers}) + 0.001 * ({floats})", positive(2, 3))
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_plans_are_kept() -> None:
    function, A = parse(d.RELU).function(), positive(2, 3)
    assert function.plan(A) is function.plan(A)
    assert function.plan(A) is not function.plan(positive(2, 4))


def test_a_definition_may_compile_several_funcs() -> None:
    source = "Func f, g; In A; Var x; f[x] = A[x] + 1; g[x] = f[x] * 2; f.compile(); g.compile();"
    program, A = parse(source), positive(5)
    assert program.compiled_funcs == ("f", "g")
    assert (program.function("g")(A) == (A + 1) * 2).all()
    assert (program.function("f")(A) == A + 1).all()
    fused = program.with_schedule("f.fuse_at(g, x);")
    assert len(fused.function("g").plan(A).launches) == 1


@for_each("order", itertools.permutations(range(3)))
@for_each("stored", itertools.permutations(range(3)))
def test_tensors_of_three_dimensions_in_any_order_of_memory(
    order: tuple[int, ...], stored: tuple[int, ...]
) -> None:
    source = "Func f; In A; Var x, y, z; f[x, y, z] = A[x, y, z] * 2 - 1;"
    function = parse(source + "f.tensorize(x:0, y:0, z:0); f.compile();").function()
    A, out = (
        np.zeros([(3, 5, 7)[n] for n in axes], np.float32).transpose(np.argsort(axes))
        for axes in (order, stored)
    )
    A[...] = np.arange(105).reshape(3, 5, 7)
    assert function(A, out=out, on="interpreter") is out
    assert (out == A * 2 - 1).all()


@for_each("expression", ["A[x, y] % B[x, y]", "cdiv(A[x, y], B[x, y])", "A[x, y] % (B[x, y] % 5)"])
@for_each("blocks", ["", "x:2", "y:4", "x:2, y:4", "x:4, y:8"])
def test_lanes_outside_of_a_tensor_divide_by_nothing(expression: str, blocks: str) -> None:
    """Numbers beyond the last row or the last column are 0, and traps as divisors."""
    more = f"f.block({blocks});" if blocks else ""
    source = f"Func f; In A, B; Var x, y; f[x, y] = {expression};"
    function = parse(f"{source} {more} f.tensorize(x:0, y:0); f.compile();").function()
    A, B = np.arange(35).reshape(5, 7) * 3 - 50, np.arange(35).reshape(5, 7) % 4 + 1
    arrays = (A.astype(np.int32), B.astype(np.int32))
    assert (function(*arrays, on="interpreter") == function.reference(*arrays)).all()


@for_each(
    "tiles", ["x:0, y:0, k:0", "a:0, x:0, y:0, k:0", "b:0, x:0, y:0", "a:0, b:0, x:0, y:0, k:4"]
)
def test_matmuls_of_two_dimensions_of_batches(tiles: str) -> None:
    """Which tiles may have, or walk through one by one."""
    source = "Func f; In A, B; Var a, b, x, y; RVar k;"
    source += f"f[a, b, x, y] = rdot(A[a, b, x, k], B[a, b, k, y], k); f.tensorize({tiles});"
    A, B = (np.arange(2 * 3 * 4 * 8).reshape(2, 3, *s) % 7 for s in ((4, 8), (8, 4)))
    function = parse(source + "f.compile();").function()
    arrays = (A.astype(np.float32), B.astype(np.float32))
    assert (function(*arrays, on="interpreter") == A @ B).all()
