"""Functions of Triton-C that other files call but whose results none of them compares: program ids,
functions of floats, sums along an axis, and selections of mixed operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.frontends.triton_c import parse

Array = np.ndarray[Any, Any]
FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}


def run(text: str, *arguments: Any, grid: tuple[int, ...] = (1,)) -> None:
    """Run the kernel of a program in the interpreter."""
    parse(text).kernel()[grid](*arguments, on="interpreter")


@for_each("axis", range(3))
def test_program_ids_and_their_number_are_those_of_an_axis(axis: int) -> None:
    grid = (2, 3, 4)
    ids, counts = (np.zeros(24, np.int32) for _ in range(2))
    others = [a for a in range(3) if a != axis]
    text = f"""kernel void k(int* ids, int* counts) {{
        int place = (get_program_id(0) * 3 + get_range_id(1)) * 4 + get_program_id(2);
        *(ids + place) = get_program_id({axis}) + 10 * get_range_id({others[0]});
        *(counts + place) = get_num_programs({axis}) * 10 + get_num_program({others[1]}); }}"""
    run(text, ids, counts, grid=grid)
    index = np.indices(grid)
    assert (ids.reshape(grid) == index[axis] + 10 * index[others[0]]).all()
    assert (counts == 10 * grid[axis] + grid[others[1]]).all()


@for_each("axis", range(3))
def test_a_global_range_begins_at_the_program_id_of_its_axis(axis: int) -> None:
    """Times its own size, which is stated or that of the declaration."""
    grid = (2, 3, 4)
    out = np.zeros((24, 8), np.int32)
    text = f"""kernel void k(int* out) {{
        int i[8] = 0 ... 8;
        int place = (get_program_id(0) * 3 + get_program_id(1)) * 4 + get_program_id(2);
        int own[8] = get_global_range({axis});
        *(out + place * 8 + i) = own + 100 * get_global_range[8]({axis}); }}"""
    run(text, out.reshape(-1), grid=grid)
    first = np.indices(grid)[axis].reshape(24, 1) * 8
    assert (out == 101 * (first + np.arange(8))).all()


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.sqrt, "sqrtf": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "abs": np.abs, "fabs": np.abs,
}  # fmt: skip


@for_each("kind", FLOATS)
def test_functions_of_floats_are_those_of_numpy(kind: str) -> None:
    x = np.array([0.25, 1, 1.5, 2, 3.75, 0.125, 5, 0.5], FLOATS[kind])
    y = np.where(np.arange(8) % 2, -x, x)
    calls = " ".join(
        f"*(out + {8 * row} + i) = {name}({'v' if name in ('sqrt', 'sqrtf', 'log') else 'w'});"
        for row, name in enumerate(FUNCTIONS)
    )
    out = np.zeros((len(FUNCTIONS), 8), FLOATS[kind])
    text = f"""kernel void k({kind}* x, {kind}* y, {kind}* out) {{ int i[8] = 0 ... 8;
        {kind} v[8] = *(x + i); {kind} w[8] = *(y + i); {calls} }}"""
    run(text, x, y, out.reshape(-1))
    for row, (name, function) in zip(out, FUNCTIONS.items(), strict=True):
        expected = function(x if name in ("sqrt", "sqrtf", "log") else y)
        rtol = 4 * np.finfo(FLOATS[kind]).eps
        np.testing.assert_allclose(row, expected, rtol=rtol, err_msg=name)


@for_each("kind", ["char", "unsigned char", "int", "unsigned int", "long"])
def test_functions_of_integers_are_of_their_numbers_as_floats(kind: str) -> None:
    """The result is a float, of the number with its sign."""
    numbers = {"exp": 5, "sqrt": 5, "log": 5, "floor": 5, "sin": -6, "cos": -6, "tanh": -6}
    if kind.startswith("unsigned"):
        numbers.update(sqrt=250, log=250, sin=250, cos=250, tanh=250, floor=250)
    calls = " ".join(
        f"v = {n}; *(out + {2 * i}) = {name}(v); *(out + {2 * i + 1}) = {name}(v) / 3;"
        for i, (name, n) in enumerate(numbers.items())
    )
    out = np.zeros((len(numbers), 2), np.float64)
    run(f"kernel void k(double* out) {{ {kind} v = 0; {calls} }}", out.reshape(-1))
    for row, (name, n) in zip(out, numbers.items(), strict=True):
        one = FUNCTIONS[name](np.float32(n))
        np.testing.assert_allclose(row, [one, one / np.float32(3)], rtol=1e-6, err_msg=name)


SUMMED = {
    "bool": (np.bool_, "int"), "char": (np.int8, "int"), "unsigned short": (np.uint16, "int"),
    "int": (np.int32, "int"), "unsigned int": (np.uint32, "unsigned int"),
    "long": (np.int64, "long"), "half": (np.float16, "half"), "float": (np.float32, "float"),
    "double": (np.float64, "double"),
}  # fmt: skip
"""By the type of the elements, numpy's name of it, and the type of the sum."""


@for_each("kind", SUMMED)
def test_sums_are_along_their_axis(kind: str) -> None:
    """In the type that C computes in: a sum of eight bytes is not a byte."""
    element, total = SUMMED[kind]
    x = (np.arange(64) % 7 + (90 if element == np.int8 else 0)).astype(element)
    out = np.zeros(32 + 16 + 8, np.float64)
    text = f"""kernel void k({kind}* x, double* out) {{
        int p[32] = 0 ... 32; int q[16] = 0 ... 16; int r[8] = 0 ... 8; int all[64] = 0 ... 64;
        {kind} a[2, 4, 8] = reshape(*(x + all), 2, 4, 8);
        {total} s[4, 8] = sum(a, 0); {total} t[2, 8] = __sum(a, 1); {total} u[2, 4] = sum(a, 2);
        *(out + p) = reshape(s, 32); *(out + 32 + q) = reshape(t, 16);
        *(out + 48 + r) = __reshape(u, 8); }}"""
    run(text, x, out)
    sums = [x.reshape(2, 4, 8).sum(axis, dtype=np.float64).reshape(-1) for axis in range(3)]
    assert out.tolist() == np.concatenate(sums).tolist()


@for_each(("then", "otherwise", "expected"), [
    ("i", "10", lambda i: np.where(i < 3, i, 10)), ("10", "i", lambda i: np.where(i < 3, 10, i)),
    ("i", "0.5", lambda i: np.where(i < 3, i, 0.5)), ("n", "i", lambda i: np.where(i < 3, 7, i)),
    ("1", "2", lambda i: np.where(i < 3, 1, 2)), ("u", "n", lambda i: np.where(i < 3, i, 7)),
])  # fmt: skip
def test_selections_have_the_type_and_shape_of_both(
    then: str, otherwise: str, expected: Callable[[Array], Array]
) -> None:
    """By `select` and by `?:`, under a condition that is a tile."""
    out = np.zeros(16, np.float64)
    text = f"""kernel void k(int n, double* out) {{ int i[8] = 0 ... 8; unsigned char u[8] = i;
        *(out + i) = select(i < 3, {then}, {otherwise});
        *(out + 8 + i) = i < 3 ? {then} : {otherwise}; }}"""
    run(text, 7, out)
    assert out.tolist() == [*expected(np.arange(8)).tolist()] * 2


@pytest.mark.parametrize("right", [True, False])
def test_atomics_return_the_old_value(right: bool) -> None:
    """The value in memory before, also where no exchange is made."""
    out, old = np.full(8, 7, np.int32), np.zeros(24, np.int32)
    text = f"""kernel void k(int* out, int* old) {{ int i[8] = 0 ... 8;
        *(old + i) = atomic_add(out + i, i); *(old + 8 + i) = atomic_xchg(out + i, i * 2);
        *(old + 16 + i) = atomic_cas(out + i, {"i * 2" if right else "50"}, 100); }}"""
    run(text, out, old)
    i = np.arange(8)
    assert old.tolist() == [*[7] * 8, *(7 + i), *(2 * i)]
    assert out.tolist() == ([100] * 8 if right else (2 * i).tolist())


@pytest.mark.parametrize("kind", ["int", "float", "half", "double", "long"])
def test_atomic_additions_are_of_the_pointee(kind: str) -> None:
    element = {"int": np.int32, "long": np.int64, **FLOATS}[kind]
    out = np.array([1, 2.5 if kind in FLOATS else 2], element)
    run(f"kernel void k({kind}* out) {{ atomic_add(out, 2); __atomic_add(out + 1, 0.75); }}", out)
    assert out.tolist() == [3, 3.25 if kind in FLOATS else 2]


@pytest.mark.parametrize(
    "call", ["sqrt(out)", "abs(out)", "exp(out)", "max(out, out)", "sum(out, 0)"]
)
def test_pointers_are_no_operands_of_functions(call: str) -> None:
    with pytest.raises(TileirError) as caught:
        parse(f"kernel void k(int n, int* out) {{\n*out = {call}; }}").module()
    assert caught.value.line == 2
