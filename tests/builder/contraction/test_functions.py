"""Functions of terms against numpy, the types they are computed in, and the arrays of a call."""

import math

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.builder import BF16, F16, F32, F64, I1, I8, I16, I32, I64
from tileir.builder.contraction import (
    Apply,
    Cast,
    Number,
    Position,
    Program,
    Reduce,
    affine,
    contraction,
    elementwise,
)
from tileir.builder.contraction.element_types import kind_of, stored_kind
from tileir.builder.contraction.function import TensorFunction, element_and_shape
from tileir.builder.contraction.functions import JOININGS, compute_type
from tileir.errors import LaunchError

from .oracle import Index, Tensor, at, indices

WHOLE = np.array([-7, -6, -2, -1, 0, 1, 2, 5, 9, 1000], np.int32)
OTHER = np.array([3, -3, -5, 7, 4, 1, 2, -9, 6, 10], np.int32)
REAL = np.array([-2.5, -1.5, -0.75, -0.5, 0.0, 0.25, 0.5, 1.5, 2.5, 3.75], np.float32)
SECOND = np.array([1.5, -0.75, 2.0, -2.0, 1.0, 0.5, -1.0, 1.5, 2.5, -3.0], np.float32)

BOTH = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    "floordiv": lambda x, y: np.floor(x / y), "mod": lambda x, y: x - np.floor(x / y) * y,
}  # fmt: skip
"""Of two numbers, whole and real."""

OF_WHOLE = {
    "quotient": lambda x, y: np.trunc(x / y), "remainder": np.fmod, "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
    "shl": lambda x, y: x << abs(y), "shr": lambda x, y: x >> abs(y),
}  # fmt: skip
OF_REAL = {
    "quotient": np.divide, "div": np.divide, "remainder": np.fmod,
    "pow": lambda x, y: np.power(np.abs(x) + 1, y),
}  # fmt: skip

OF_ONE = {
    "neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "trunc": np.trunc, "not": np.logical_not,
}  # fmt: skip
ROOTS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "expm1": np.expm1, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "asin": lambda x: np.arcsin(x),
    "acos": np.arccos, "acosh": np.arccosh, "atanh": np.arctanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": np.vectorize(math.erf),
}  # fmt: skip
"""Of the reals: whole numbers become f32."""


def evaluate_terms(terms, inputs, on="interpreter"):
    """What terms over one index are of arrays, by name, all in one program."""
    i = Index("i")
    count = len(next(iter(inputs.values())))
    tensors = {n: Tensor(n, element_and_shape(x)[0], x.shape) for n, x in inputs.items()}
    reads = {n: at(t, i) for n, t in tensors.items()}
    stages = [
        elementwise(Tensor(name, kind_of(result := term(reads)), (count,)), (i,), result)
        for name, term in terms.items()
    ]
    program = Program(tuple(stages), tuple(s.output for s in stages))
    results = program.run({tensors[n]: x for n, x in inputs.items()}, on)
    return {s.output.name: results[s.output] for s in stages}


def of_two(names):
    return {n: lambda r, n=n: Apply(n, (r["x"], r["y"])) for n in names}


def same(actual, expected):
    for name, reference in expected.items():
        values, reference = actual[name].astype(np.float64), np.asarray(reference, np.float64)
        np.testing.assert_allclose(values, reference, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("x", "y", "more"), [(WHOLE, OTHER, OF_WHOLE), (REAL, SECOND, OF_REAL)])
def test_functions_of_two_numbers(x, y, more):
    table = {**BOTH, **more}
    terms = of_two(table)
    if x is WHOLE:
        terms |= {n: lambda r, n=n: Apply(n, (r["x"], Apply("abs", (r["y"],)))) for n in
                  ("shl", "shr")}  # fmt: skip
    else:
        base = lambda r: Apply("add", (Apply("abs", (r["x"],)), Number(1)))  # noqa: E731
        terms["pow"] = lambda r: Apply("pow", (base(r), r["y"]))
    result = evaluate_terms(terms, {"x": x, "y": y})
    same(result, {n: f(x, y) for n, f in table.items()})
    whole = {n for n, f in result.items() if f.dtype == np.int32}
    assert whole == (set(table) - {n for n, f in result.items() if f.dtype == bool}
                     if x is WHOLE else set())  # fmt: skip
    conditions = {"lt", "le", "gt", "ge", "eq", "ne", "and", "or"}
    assert {n for n, f in result.items() if f.dtype == bool} == conditions


@pytest.mark.parametrize(("x", "y"), [(WHOLE, 3), (REAL, 2.0), (WHOLE, 2.5)])
@pytest.mark.parametrize("first", [False, True])
def test_functions_of_a_number_and_a_literal(x, y, first):
    names = {n: f for n, f in BOTH.items() if n not in ("and", "or")}
    x = x[x != 0] if first else x
    order = (lambda r: (Number(y), r["x"])) if first else (lambda r: (r["x"], Number(y)))
    result = evaluate_terms({n: lambda r, n=n: Apply(n, order(r)) for n in names}, {"x": x})
    same(result, {n: f(y, x) if first else f(x, y) for n, f in names.items()})
    quotients = evaluate_terms({"q": lambda r: Apply("quotient", order(r))}, {"x": x})["q"]
    exact = y / x if first else x / y
    real = x.dtype == np.float32 or isinstance(y, float)
    same({"q": quotients}, {"q": exact if real else np.trunc(exact)})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_lanes_beyond_the_end_are_divided_by_nothing(on):
    """Tensors of 10 elements in tiles of 16, the last of which hold zeros."""
    names = ("quotient", "remainder", "floordiv", "mod")
    table = {n: {**BOTH, **OF_WHOLE}[n] for n in names}
    same(evaluate_terms(of_two(table), {"x": WHOLE, "y": OTHER}, on),
         {n: f(WHOLE, OTHER) for n, f in table.items()})  # fmt: skip


@pytest.mark.parametrize("x", [WHOLE, REAL])
def test_functions_of_one_number(x):
    result = evaluate_terms({n: lambda r, n=n: Apply(n, (r["x"],)) for n in OF_ONE}, {"x": x})
    same(result, {n: f(x) for n, f in OF_ONE.items()})
    assert all(f.dtype == x.dtype for n, f in result.items() if n != "not")


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_functions_of_the_reals(dtype):
    x = np.array([1], np.int32) if dtype == np.int32 else np.array([0.25, 0.5, 0.75], np.float32)
    table = {n: f for n, f in ROOTS.items() if n not in ("acosh", "atanh")}
    result = evaluate_terms({n: lambda r, n=n: Apply(n, (r["x"],)) for n in table}, {"x": x})
    same(result, {n: f(x.astype(np.float64)) for n, f in table.items()})
    assert all(f.dtype == np.float32 for f in result.values())


def test_what_is_defined_elsewhere():
    terms = {
        "acosh": lambda r: Apply("acosh", (Apply("add", (r["x"], Number(1))),)),
        "atanh": lambda r: Apply("atanh", (Apply("sub", (r["x"], Number(0.5))),)),
        "bit_not": lambda r: Apply("bit_not", (Cast(I32, r["x"]),)),
        "select": lambda r: Apply("select", (r["x"], r["x"], Number(7))),
        "chosen": lambda r: Apply("select", (r["x"], Number(1.5), Number(0))),
        "counted": lambda r: Apply("select", (r["x"], Number(1), Number(0))),
        "three": lambda r: Apply("add", (Number(1), Number(2))),
        "whole": lambda r: Apply("quotient", (Number(7), Number(2))),
        "real": lambda r: Apply("quotient", (Number(7.0), Number(2.0))),
        "said": lambda r: Apply("not", (Number(False),)),
        "place": lambda r: Position(affine(Index("i")) * 0 + 4),
    }
    x = np.array([0, 0.25, 0.5], np.float32)
    expected = {
        "acosh": np.arccosh(x + 1), "atanh": np.arctanh(x - 0.5), "bit_not": [-1] * 3,
        "select": [7, 0.25, 0.5], "chosen": [0, 1.5, 1.5], "counted": [0, 1, 1],
        "three": [3] * 3, "whole": [3] * 3, "real": [3.5] * 3,
        "said": [True] * 3, "place": [4] * 3,
    }  # fmt: skip
    result = evaluate_terms(terms, {"x": x})
    same(result, expected)
    assert [result[n].dtype for n in ("chosen", "counted")] == [np.float32, np.int32]


@for_each(
    ("element", "computed_in"),
    [
        (F16, F32),
        (BF16, F32),
        (F32, F32),
        (F64, F64),
        (I8, I32),
        (I16, I32),
        (I32, I32),
        (I64, I64),
        (I1, I1),
    ],
)
def test_narrow_types_are_computed_in_wider_ones(element, computed_in):
    assert compute_type(element) is computed_in
    (i,) = indices("i")
    read = at(Tensor("a", element, (4,)), i)
    assert kind_of(read) is computed_in and stored_kind(read) is element
    assert kind_of(Apply("lt", (read, read))) is I1
    added = Apply("add", (read, Number(1)))
    assert kind_of(added) is computed_in and stored_kind(added) is element
    real = Apply("add", (Number(1.5), read))
    assert kind_of(real) is (computed_in if element.is_float else F32)


@for_each("kind", ["sum", "product", "max", "min"])
@for_each("element", [I1, I8, I16, I32, I64, F16, BF16, F32, F64])
def test_what_is_joined_has_the_type_it_is_computed_in(kind, element):
    """Booleans that are added or multiplied give numbers; their maxima and minima are booleans."""
    i, j = indices("ij")
    read = at(Tensor("a", element, (3, 4)), i, j)
    joined = Reduce(kind, ((j, range(4)),), read)
    is_count = element is I1 and kind in ("sum", "product")
    expected = I32 if is_count else compute_type(element)
    assert kind_of(joined) is expected
    assert kind_of(Apply("add", (joined, joined))) is expected


@for_each("kind", ["sum", "product", "max", "min"])
@for_each("element", [F32, I32, I8])
def test_what_changes_nothing_when_joined(kind, element):
    neutral = JOININGS[kind].neutral(element)
    values = np.array([-128, -1, 0, 127] if element is I8 else [-(1 << 31), -1, 0, (1 << 31) - 1])
    join = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    assert (join(values, neutral) == values).all()
    if element is not F32:
        assert -(1 << element.bits - 1) <= neutral < 1 << element.bits - 1
    assert (JOININGS[kind].op(element)[0] == "f") == (element is F32)


@pytest.mark.parametrize(
    ("kind", "join", "neutral"),
    [("max", np.logical_or, 0), ("min", np.logical_and, 1), ("product", np.logical_and, 1)],
)
def test_what_changes_no_truth_when_joined(kind, join, neutral):
    assert JOININGS[kind].neutral(I1) == neutral
    (i,) = indices("i")
    out = Tensor("out", I1, ())
    for values in ([0, 0, 0], [0, 1, 0], [1, 1, 1]):
        a = Tensor("a", I1, (3,))
        program = Program((contraction(out, (), kind, at(a, i), {i: range(3)}),), (out,))
        result = program.run({a: np.array(values, bool)}, "interpreter")[out]
        assert bool(result) == join.reduce(np.array(values, bool))


@for_each(("item", "expected"), [
        (np.zeros((2, 3), np.float16), (F16, (2, 3))), (np.zeros(4, bool), (I1, (4,))),
        (np.zeros((), np.int64), (I64, ())), (3, (I32, ())), (True, (I32, ())), (0.5, (F32, ())),
        ((BF16, [4, 5]), (BF16, (4, 5))), (np.float64(1), (F32, ())), (np.int8(1), (I8, ())),
    ])  # fmt: skip
def test_what_arguments_are(item, expected):
    assert element_and_shape(item) == expected


@pytest.mark.parametrize("item", [np.zeros(3, np.complex64), "text", None, [1, 2], object()])
def test_what_is_no_array_of_numbers(item):
    with pytest.raises(LaunchError, match="an array of numbers is needed, not") as error:
        element_and_shape(item)
    assert error.value.code == "TIR0813"


def test_calls_of_functions():
    (i,) = indices("i")
    x, n, s = Tensor("x", F32, (4,)), Tensor("n", F32, (), by_value=True), Tensor("s", F32, ())
    out, twice = Tensor("out", F32, (4,)), Tensor("twice", F32, (4,))
    term = Apply("add", (Apply("mul", (at(x, i), at(n))), at(s)))
    first = elementwise(out, (i,), term)
    second = elementwise(twice, (i,), Apply("mul", (at(x, i), Number(2))))
    one = TensorFunction(Program((first,), (out,)), (x, n, s))
    two = TensorFunction(Program((first, second), (out, twice)), (x, n, s))
    data = np.arange(8, dtype=np.float32)[::2]
    assert one(data, 3.0, 1, on="interpreter").tolist() == [1, 7, 13, 19]
    array = np.full((), 2, np.float32)
    assert one(data, array, array, on="interpreter").tolist() == [2, 6, 10, 14]
    result = two(data, 1, 0.0, on="interpreter")
    assert [f.tolist() for f in result] == [[0, 2, 4, 6], [0, 4, 8, 12]]
    assert one.module.functions.keys() == {"k0_out"}
    for bad, message in (
        ((data,), "3 arrays are needed, not 1"),
        ((data[:2], 1, 1), r"x is f32 of shape \(4\), not f32 of shape \(2\)"),
        ((data.astype(np.float64), 1, 1), r"x is f32 of shape \(4\), not f64 of shape \(4\)"),
    ):
        with pytest.raises(LaunchError, match=message):
            one(*bad, on="interpreter")


def test_tensors_are_written_by_their_names():
    tensor = Tensor("weights", F32, (2, 3, 4))
    assert repr(tensor) == "weights"
    assert tensor.strides == (12, 4, 1)
    assert Tensor("s", F32, ()).strides == ()
