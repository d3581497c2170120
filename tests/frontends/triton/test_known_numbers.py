"""Numbers that are known while compiling, as scalars of a type: what operators compute of them is
known, too, as an extent or a constexpr has to be. And the functions that only compilers need."""

from __future__ import annotations

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.frontends.triton.sources import kernel_of
from tests.sizes import for_each
from tileir import TileirError

KNOWN = {
    "-a": -7, "a + b": 4, "a - b": 10, "a * b": -21, "a // b": -2, "a % b": 1, "b // a": 0,
    "b % a": -3, "-a // b": 2, "-a % b": -1, "b * 2": -6, "2 - b": 5,
    "a < b": False, "a > b": True, "a <= 7": True, "a >= 8": False, "a == 7": True, "a != 7": False,
    "u > 1": True, "u + 1": 3, "u * 2147483647": 2**32 - 2, "s - 1": 99,
}  # fmt: skip
"""Expressions of 7, -3, the unsigned number 2, and 100 as int8, and their values: quotients are
rounded to zero, and remainders have the sign of the dividend, as in C."""
UNKNOWN = ("a // z", "a % z", "m - 1", "s + s", "u - a", "u + 4294967295", "u * 2147483648")
"""Expressions that divide by 0, or leave their type: the kernel computes them when it runs."""


def values(name: str) -> list[str]:
    return [
        f"def {name}(out):", "    a, b = tl.to_tensor(7), tl.to_tensor(-3)",
        "    u, z = tl.full([], 2, tl.uint32), tl.to_tensor(0)",
        "    m, s = tl.to_tensor(-2147483648), tl.full([], 100, tl.int8)",
    ]  # fmt: skip


def test_results_of_known_numbers_are_known() -> None:
    checks = [f"    tl.static_assert(({text}) == {n}, '{text}')" for text, n in KNOWN.items()]
    lines = [*values("k"), *checks]
    kernel_of("\n".join(lines))[(1,)](np.zeros(1, np.int64), on="interpreter")


@for_each("text", UNKNOWN)
def test_results_that_do_not_exist_are_not_known(text: str) -> None:
    lines = [*values("k"), f"    tl.static_assert(({text}) != 1)"]
    with pytest.raises(TileirError, match="must be a constexpr"):
        kernel_of("\n".join(lines))[(1,)](np.zeros(1, np.int64), on="interpreter")


@triton.jit
def small(x, y, out, n):
    tl.assume(n > 3)
    column, row = tl.broadcast(tl.load(x + tl.arange(0, 4))[:, None], tl.arange(0, 2)[None, :])
    i = tl.arange(0, 4)[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(out + i, column * 10 + row)
    tl.store(y, tl.to_tensor(2.5))


def test_operands_are_broadcast_to_one_shape() -> None:
    x, y, out = np.arange(4, dtype=np.int32), np.zeros(1, np.float32), np.zeros((4, 2), np.int32)
    small[(1,)](x, y, out, 5, on="interpreter")
    assert out.tolist() == [[0, 1], [10, 11], [20, 21], [30, 31]] and y[0] == 2.5


def test_an_assumption_that_is_false_is_reported() -> None:
    """By the interpreter, which the compiler's other executors do not."""
    x, y, out = np.arange(4, dtype=np.int32), np.zeros(1, np.float32), np.zeros((4, 2), np.int32)
    with pytest.raises(TileirError, match="assum"):
        small[(1,)](x, y, out, 3, on="interpreter")


@for_each("call", [
    "tl.reduce(p + i, 0, f)", "tl.reduce(1, 0, f)", "tl.associative_scan((i, p + i), 0, f)",
    "tl.sum(p + i)", "tl.max(p + i, return_indices=True)", "tl.cumsum(p + i)",
])  # fmt: skip
def test_only_tensors_of_numbers_are_reduced(call: str) -> None:
    lines = [
        "def k(p):", "    i = tl.arange(0, 4)", f"    r = {call}",
    ]  # fmt: skip
    with pytest.raises(TileirError, match="needs tensors of numbers"):
        kernel_of("\n".join(lines), outside={"f": triton.jit(smaller)})[(1,)](
            np.zeros(4, np.int32), on="interpreter"
        )


def smaller(a, b):
    return tl.minimum(a, b)


def test_a_pointer_says_whether_it_is_read_only() -> None:
    assert tl.pointer_type(tl.int8, const=True).is_const()
    assert not tl.pointer_type(tl.int8).is_const()
    assert tl.pointer_type(tl.int8).address_space == 1
    assert [t.cache_key_part for t in (tl.int8, tl.bfloat16)] == ["int8", "bf16"]


def test_what_a_static_assertion_and_a_static_print_say(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["def k(x):", "    tl.static_print('a', 3, tl.arange(0, 4), sep='-', end='!')"]
    kernel_of("\n".join(lines))[(1,)](np.zeros(1, np.int32), on="interpreter")
    assert capsys.readouterr().out == "a-3-int32<4>!"
    for arguments, message in (("False, 'why not'", "static_assert: why not"),
                               ("1 > 2", "static_assert does not hold")):  # fmt: skip
        lines = ["def k(x):", f"    tl.static_assert({arguments})"]
        with pytest.raises(TileirError, match=message):
            kernel_of("\n".join(lines))[(1,)](np.zeros(1, np.int32), on="interpreter")


def test_parts_of_tuples() -> None:
    items = (
        "len(several[1:3]) == 2", "several[1:3][1] == 2", "several[:2][1] == 1",
        "len(several[:2]) == 2", "several[2:][0] == 2", "several[::2][1] == 2",
        "several[3:0:-2][1] == 1", "several[-1] == 3",
    )  # fmt: skip
    lines = ["def k(x):", "    several = (0, 1, 2, 3)"]
    lines += [f"    tl.static_assert({item}, '{item}')" for item in items]
    kernel_of("\n".join(lines))[(1,)](np.zeros(1, np.int32), on="interpreter")
