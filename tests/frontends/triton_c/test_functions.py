"""Functions of Triton-C on tiles of every integer type, against numpy; atomic accesses under masks
and predicates."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.executor import executor
from tileir.frontends.triton_c import parse, program
from tileir.frontends.triton_c.errors import ProgramError
from tileir.frontends.triton_c.values import shape_of_all

TYPES = {
    "char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16,
    "int": np.int32, "unsigned int": np.uint32, "long": np.int64, "unsigned long": np.uint64,
}  # fmt: skip
Array = np.ndarray[Any, Any]


def promoted_type(kind: Any) -> Any:
    """The type in which C computes with numbers of a type."""
    return np.int32 if np.dtype(kind).itemsize < 4 else kind


def absolute(x: Array) -> Array:
    return x if x.dtype.kind == "u" else np.abs(x)


@for_each("name", TYPES)
def test_functions_of_integers_are_those_of_their_signs(name: str) -> None:
    kind = TYPES[name]
    ends, wide = np.iinfo(kind), promoted_type(kind)
    x = np.array([ends.min, ends.min + 1, 0, 1, 2, ends.max // 2 + 1, ends.max - 1, ends.max], kind)
    y = np.roll(x, 3)
    out = np.zeros(4 * 8, wide)
    result = {np.int32: "int"}.get(wide, name)
    text = f"""kernel void k({name}* x, {name}* y, {result}* out) {{
        int i[8] = 0 ... 8;
        {name} a[8] = *(x + i); {name} b[8] = *(y + i);
        *(out + i) = max(a, b); *(out + 8 + i) = min(a, b); *(out + 16 + i) = abs(a);
        {name} c[8] = 100; *(out + 24) = sum(c, 0);
    }}"""
    parse(text).kernel()[(1,)](x, y, out, on="interpreter")
    a, b = x.astype(wide), y.astype(wide)
    with np.errstate(over="ignore"):
        assert (out[:8] == np.maximum(a, b)).all() and (out[8:16] == np.minimum(a, b)).all()
        assert (out[16:24] == absolute(a)).all()
    assert out[24] == 800


CONDITIONS: dict[str, Callable[[Array], Array]] = {
    "i < 5": lambda i: i < 5, "i > 2": lambda i: i > 2, "(i & 1) == 0": lambda i: i % 2 == 0,
}  # fmt: skip
UPDATES = {
    "atomic_add(out + i, 3{})": 7 + 3,
    "atomic_xchg(out + i, 3{})": 3,
    "@({}) atomic_cas(out + i, 7, 3)": 3,
    "@({}) *(out + i) = 3": 3,
}  # fmt: skip
"""Updates of numbers that are 7 under a condition, and what they are then."""


@for_each(("outer", "inner", "update"), product(CONDITIONS, CONDITIONS, UPDATES))
def test_updates_are_made_where_every_condition_holds(outer: str, inner: str, update: str) -> None:
    own = inner if update.startswith("@") else f", {inner}"
    text = f"int i[8] = 0 ... 8; @({outer}) {update.format(own)};"
    out, i = np.full(8, 7, np.int32), np.arange(8)
    parse(f"kernel void k(int* out) {{ {text} }}").kernel()[(1,)](out, on="interpreter")
    chosen = CONDITIONS[outer](i) & CONDITIONS[inner](i)
    assert out.tolist() == np.where(chosen, UPDATES[update], 7).tolist()


HEAD = """kernel void k(int n, float x, int* out) {
int i[8] = 0 ... 8; float a[16, 16] = 1; float c[16, 16] = 0; int t[8] = i * 2;
"""
CALLS: dict[str, tuple[list[str], int]] = {
    "get_program_id": (["0"], 1), "get_num_programs": (["0"], 1), "dot": (["a", "a", "c"], 2),
    "max": (["n", "3"], 2), "min": (["x", "n"], 2), "select": (["n > 0", "n", "x"], 3),
    "sqrt": (["x"], 1), "exp": (["a"], 1), "abs": (["n"], 1), "sum": (["t", "0"], 2),
    "bitcast": (["x"], 1), "atomic_add": (["out", "n", "n > 1"], 2),
    "atomic_xchg": (["out + i", "t", "i < 3"], 2), "atomic_cas": (["out", "n", "3"], 3),
    "__debug_barrier": ([], 0), "get_global_range[8]": (["0"], 1),
}  # fmt: skip
"""By function, as many arguments as it takes, and how few it takes."""
POINTERS = {"atomic_add": 1, "atomic_xchg": 1, "atomic_cas": 1}
"""The number of first arguments that are pointers; of other functions none is."""


def code_of(call: str) -> str | None:
    """The code of the error that a call is; None if it is none."""
    try:
        parse(f"{HEAD}{call};\n}}", "f.c").module()
    except TileirError as error:
        assert (error.location.line, error.column) == (3, 1), call
        return error.code
    return None


@for_each("name", CALLS)
def test_functions_refuse_other_arguments_at_their_place(name: str) -> None:
    arguments, least = CALLS[name]
    for count in range(least, len(arguments) + 1):
        assert code_of(f"{name}({', '.join(arguments[:count])})") is None
    for wrong in (arguments[: least - 1] if least else None, [*arguments, "n"]):
        if wrong is not None:
            assert code_of(f"{name}({', '.join(wrong)})") == "TIR1003", wrong
    for place in range(POINTERS.get(name, 0), len(arguments)):
        wrong = [*arguments[:place], "out", *arguments[place + 1 :]]
        is_axis = arguments[place] == "0"
        assert code_of(f"{name}({', '.join(wrong)})") == ("TIR1004" if is_axis else "TIR1003")
    for place in range(POINTERS.get(name, 0)):
        for number in ("n", "3", "2.5"):
            assert code_of(f"{name}({', '.join([number, *arguments[1:]])})") == "TIR1003", place


OF_SAME_BITS = {"int": "float", "short": "half", "long": "double"}


@for_each("name", ["bool", "half", "float", "double", *TYPES])
def test_bits_of_a_type_are_those_of_the_other_of_its_width(name: str) -> None:
    """Where there is one of the other kind, and a sign; refused elsewhere."""
    other = {**OF_SAME_BITS, **{b: a for a, b in OF_SAME_BITS.items()}}.get(name, "int")
    text = f"""kernel void k({name}* x, {other}* out) {{ int i[8] = 0 ... 8;
        *(out + i) = bitcast(*(x + i)); }}"""
    if name not in {*OF_SAME_BITS, *OF_SAME_BITS.values()}:
        with pytest.raises(TileirError, match="not seen as another type"):
            parse(text).module()
        return
    kinds = {**TYPES, "half": np.float16, "float": np.float32, "double": np.float64}
    x = np.array([0, 1, 3, -1, -2, 100, 120, -128]).astype(kinds[name])
    out = np.zeros(8, kinds[other])
    parse(text).kernel()[(1,)](x, out, on="interpreter")
    assert out.tobytes() == x.tobytes()


AXES: dict[str, tuple[Callable[[int], bool], str]] = {
    "sum(a, {})": (lambda axis: axis in (0, 1), "TIR1003"),
    "sum(t, {})": (lambda axis: axis == 0, "TIR1003"),
    "sum(n, {})": (lambda axis: False, "TIR1003"),
    "trans(a, 1, {})": (lambda axis: axis == 0, "TIR1003"),
    "trans(a, {}, 0)": (lambda axis: axis == 1, "TIR1003"),
    "get_program_id({})": (lambda axis: axis in (0, 1, 2), "TIR0114"),
    "get_num_programs({})": (lambda axis: axis in (0, 1, 2), "TIR0114"),
    "reshape(t, 2, {})": (lambda extent: extent in (4, -1), "TIR0807"),
    "reshape(a, {}, 64)": (lambda extent: extent in (4, -1), "TIR0807"),
}
"""Calls with a constant, the values that it may have, and the code of the error for all others."""


@for_each(("call", "axis"), product(AXES, range(-2, 6)))
def test_axes_and_extents_are_those_that_there_are(call: str, axis: int) -> None:
    is_right, code = AXES[call]
    assert code_of(call.format(axis)) == (None if is_right(axis) else code)


@for_each("test", ("true", "false", "2 > 1", "1 > 2", "0.5", "n > 4", "n > 5", "n", "n - 5"))
@for_each(("then", "otherwise"), (("3", "4"), ("n", "4"), ("3", "*out"), ("n", "*out")))
def test_choices_take_the_side_of_their_condition(test: str, then: str, otherwise: str) -> None:
    """Known while compiling or not, in expressions, statements, functions and under predicates."""
    out = np.full(5, 7, np.int32)
    text = f"""kernel void k(int n, int* out) {{
        int a = {then}; int b = {otherwise};
        *(out + 1) = {test} ? {then} : {otherwise}; *(out + 2) = select({test}, a, b);
        if ({test}) *(out + 3) = {then}; else *(out + 3) = {otherwise};
        *(out + 4) = b; @({test}) *(out + 4) = a;
    }}"""
    parse(text).kernel()[(1,)](5, out, on="interpreter")
    numbers = {"3": 3, "4": 4, "n": 5, "*out": 7}
    holds = test not in ("false", "1 > 2", "n > 5", "n - 5")
    assert out[1:].tolist() == [numbers[then if holds else otherwise]] * 4


SHAPES = ((), (16,), (32,), (1,), (32, 16), (32, 1), (1, 16), (16, 32), (2, 32, 16), (2, 1, 1))


@for_each(("one", "other"), product(SHAPES, repeat=2))
def test_tiles_are_broadcast_from_the_last_dimension_on(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    """As in numpy, or refused."""
    try:
        expected = np.broadcast_shapes(one, other)
    except ValueError:
        with pytest.raises(ProgramError, match="do not broadcast"):
            shape_of_all(one, other)
    else:
        assert shape_of_all(one, other) == expected


def test_rows_are_added_to_tiles() -> None:
    out = np.zeros((4, 8), np.int32)
    text = """kernel void k(int* out) {
        int i[4] = 0 ... 4; int j[8] = 0 ... 8;
        *(out + i[:, newaxis] * 8 + j) = i[:, newaxis] * 10 + j;
    }"""
    parse(text).kernel()[(1,)](out, on="interpreter")
    assert (out == np.arange(4)[:, None] * 10 + np.arange(8)).all()


@for_each("kind", ("half", "float", "double"))
def test_the_larger_of_a_number_and_a_nan_is_the_number(kind: str) -> None:
    """Of two of them none is, and of zeros any."""
    names = {"half": np.float16, "float": np.float32, "double": np.float64}
    numbers = np.array([np.nan, -np.inf, -2, 0, 1.5, np.inf], names[kind])
    a, b = (np.ascontiguousarray(x.reshape(-1)) for x in np.meshgrid(numbers, numbers))
    a, b = np.resize(a, 64), np.resize(b, 64)
    out = np.zeros(128, names[kind])
    text = f"""kernel void k({kind}* a, {kind}* b, {kind}* out) {{
        int i[64] = 0 ... 64; {kind} x[64] = *(a + i); {kind} y[64] = *(b + i);
        *(out + i) = max(x, y); *(out + 64 + i) = min(x, y);
    }}"""
    parse(text).kernel()[(1,)](a, b, out, on="interpreter")
    np.testing.assert_array_equal(out, np.concatenate([np.fmax(a, b), np.fmin(a, b)]))


OPERATORS = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")


@for_each("sign", OPERATORS)
@for_each(("left", "right"), product(("out", "(out + i)", "n", "i", "3"), repeat=2))
def test_pointers_move_by_integers_and_do_nothing_else(sign: str, left: str, right: str) -> None:
    pointers = ["out" in left, "out" in right]
    moves = (sign == "+" and sum(pointers) == 1) or (sign == "-" and pointers == [True, False])
    source = f"{HEAD}{left} {sign} {right};\n}}"
    if moves or not any(pointers):
        parse(source, "f.c").module()
        return
    try:
        parse(source, "f.c").module()
    except TileirError as error:
        assert (error.code, error.location.line) == ("TIR1003", 3)
    else:
        raise AssertionError(source)


def test_a_range_has_the_size_of_the_declaration_that_it_is_in() -> None:
    """And none elsewhere, whatever was declared before."""
    assert code_of("int u[8] = get_global_range(0)") is None
    assert code_of("get_global_range(0)") == "TIR1003"
    assert code_of("get_global_range(0)[8]") is not None


FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}


def usual_type(left: str, right: str) -> Any:
    """Of two floats the wider one; a float next to an integer."""
    floats = [FLOATS[name] for name in (left, right) if name in FLOATS]
    return max(floats, key=lambda kind: np.dtype(kind).itemsize)


@for_each(("left", "right"), [
    (a, b) for a, b in product((*FLOATS, "int", "unsigned char", "long"), repeat=2)
    if a in FLOATS or b in FLOATS
])  # fmt: skip
def test_operators_of_floats_are_of_the_wider_type(left: str, right: str) -> None:
    """Numbers whose total no narrower type holds."""
    names, wide = {**TYPES, **FLOATS}, usual_type(left, right)
    digits = {np.float16: 10, np.float32: 23, np.float64: 52}[wide]
    x, y = np.array([1], names[left]), np.array([1], names[right])
    fine = 2.0**-digits
    for array, name in ((x, left), (y, right)):
        if name in FLOATS and names[name] is wide:
            array[0] += fine
            break
    out = np.zeros(4, np.float64)
    text = f"""kernel void k({left}* x, {right}* y, double* out) {{
        {left} a = *x; {right} b = *y;
        *out = a * b; *(out + 1) = max(a, b); *(out + 2) = a / b; *(out + 3) = a == b;
    }}"""
    parse(text).kernel()[(1,)](x, y, out, on="interpreter")
    a, b = x.astype(wide), y.astype(wide)
    assert out.tolist() == [float((a * b)[0]), float(max(a, b)[0]), float((a / b)[0]), a == b]


@for_each(("kind", "total"), [("half", "float"), ("float", "float"), ("double", "double")])
def test_dots_of_halves_are_added_as_floats(kind: str, total: str) -> None:
    """Sums that are beyond the largest half, and finer than its digits."""
    out = np.zeros(256, FLOATS[total])
    text = f"""kernel void k({kind}* x, {total}* out) {{
        int i[16] = 0 ... 16; {kind} a[16, 16] = *(x + i[:, newaxis] * 16 + i[newaxis, :]);
        *(out + i[:, newaxis] * 16 + i[newaxis, :]) = dot(a, a) + 0.25; }}"""
    x = np.full(256, 80, FLOATS[kind])
    parse(text).kernel()[(1,)](x, out, on="interpreter")
    assert (out == 16 * 80 * 80 + 0.25).all()


@for_each(("kind", "more"), product(FLOATS, (*FLOATS, "int", "unsigned char")))
def test_what_a_dot_is_added_to_has_the_type_of_the_sum(kind: str, more: str) -> None:
    """The digits of a number that is added are those of the sum, not those of the operands."""
    total = FLOATS["float" if kind == "half" else kind]
    out, names = np.zeros(256, np.float64), {**TYPES, **FLOATS}
    text = f"""kernel void k({kind}* x, {more}* y, double* out) {{
        int i[16] = 0 ... 16; int p[16, 16] = i[:, newaxis] * 16 + i[newaxis, :];
        {kind} a[16, 16] = *(x + p); {more} c[16, 16] = *(y + p); *(out + p) = dot(a, a, c); }}"""
    x = np.eye(16).reshape(-1).astype(FLOATS[kind])
    y = (np.arange(256) * (1 + 2.0**-30 + 2.0**-20)).astype(names[more])
    parse(text).kernel()[(1,)](x, y, out, on="interpreter")
    assert (out == (x.astype(total) + y.astype(total)).astype(np.float64)).all()


INDEX = "i[:, newaxis, newaxis] * 16 + j[newaxis, :, newaxis] * 8 + k[newaxis, newaxis, :]"
MOVES: dict[str, Callable[[Array], Array]] = {
    "reshape(a, 8, 8)": lambda a: a.reshape(8, 8), "reshape(a, 64)": lambda a: a.reshape(64),
    "reshape(a, 2, 2, 4, 4)": lambda a: a.reshape(2, 2, 4, 4),
    "trans(a)": lambda a: a.transpose(2, 1, 0),
    **{f"trans(a, {x}, {y}, {z})": lambda a, order=(x, y, z): a.transpose(order)
       for x, y, z in permutations(range(3))},
    "trans(reshape(a, 16, 4))": lambda a: a.reshape(16, 4).T,
}  # fmt: skip
"""Functions that move the elements of a tile of 4 x 2 x 8."""


@for_each("move", MOVES)
def test_functions_move_elements_as_numpy_does(move: str) -> None:
    a = np.arange(64, dtype=np.int32).reshape(4, 2, 8)
    expected, out = MOVES[move](a), np.zeros(64, np.int32)
    text = f"""kernel void k(int* x, int* out) {{
        int i[4] = 0 ... 4; int j[2] = 0 ... 2; int k[8] = 0 ... 8; int p[64] = 0 ... 64;
        int a[4, 2, 8] = *(x + {INDEX}); *(out + p) = reshape({move}, 64); __debug_barrier(); }}"""
    function = parse(text).kernel()
    function[(1,)](a.reshape(-1), out, on="interpreter")
    assert (out == expected.reshape(-1)).all()
    assert sum(op.mnemonic.endswith("barrier") for op in parse(text).module().kernel().ops) == 1


@for_each("shapes", product((16, 32, 64), repeat=3))
def test_dots_of_any_sizes(shapes: tuple[int, int, int]) -> None:
    """The second extent of the first operand is the first extent of the second."""
    m, k, n = shapes
    text = f"""kernel void k(float* x, float* y, float* out) {{
        int i[{m}] = 0 ... {m}; int j[{n}] = 0 ... {n}; int t[{k}] = 0 ... {k};
        float a[{m}, {k}] = *(x + i[:, newaxis] * {k} + t[newaxis, :]);
        float b[{k}, {n}] = *(y + t[:, newaxis] * {n} + j[newaxis, :]);
        *(out + i[:, newaxis] * {n} + j[newaxis, :]) = dot(a, b); }}"""
    x, y = (np.arange(a * b, dtype=np.float32).reshape(a, b) % 5 for a, b in ((m, k), (k, n)))
    out = np.zeros((m, n), np.float32)
    parse(text).kernel()[(1,)](x.reshape(-1), y.reshape(-1), out.reshape(-1), on="interpreter")
    assert (out == x @ y).all()
    turned = text.replace("dot(a, b)", "dot(b, a)")
    if n != m:
        try:
            parse(turned).module()
        except TileirError as error:
            assert error.code == "TIR1003"
        else:
            raise AssertionError(turned)


class Measured:
    """An executor that runs each candidate twice and takes the time to be its number."""

    name = "measured"

    def measure(self, candidates: Any, arguments: Any, *, remember: bool = False) -> list[float]:
        for _ in range(2):
            for c in candidates:
                executor("interpreter").launch(c.module, c.kernel, c.grid, [*arguments.values()])
        return [float(abs(i - 1)) for i in range(len(candidates))]


def test_what_is_measured_leaves_the_arguments_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "executor", lambda _: Measured())
    text = """const tunable int N = {2, 4, 8};
    kernel void k(int* x, int* y, int step) { int i[N] = 0 ... N; *(x + i) += step; *y += N; }"""
    x, y = np.arange(8, dtype=np.int32), np.zeros(1, np.int32)
    assert parse(text).kernel().fastest((1,), x, y, 3, on="measured") == {"N": 4}
    assert x.tolist() == list(range(8)) and y.tolist() == [0]
