"""One element of a tile as a scalar: what it is worth, against the whole tile."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tileir.analysis.uses import definitions
from tileir.machine import Machine, Tensor
from tileir.passes.scalarize import Scalarizer
from tileir.textual import parse
from tileir.types import shape_of
from tileir.values import Constant, Value

TEXT = """tir 1.0

define void @f(i32 %n, i32 %m, i32*<8> %p) {{
entry:
  %i = make_range i32<4> {{start = 3}}
  %j = make_range i32<8>
  %c = expand_dims i32<4, 1> %i {{axis = 1}}
  %r = expand_dims i32<1, 8> %j {{axis = 0}}
  %rows = broadcast i32<4, 8> %c
  %columns = broadcast i32<4, 8> %r
  %ns = splat i32<4, 8> %n
  %ten = mul i32<4, 8> %rows, 10
  %at = add i32<4, 8> %ten, %columns
  %more = add i32<4, 8> %at, %ns
  %v = {line}
  ret
}}
"""
N, M = 7, -3

LINES = {
    "splat i32<2, 3> %n": lambda at: np.full((2, 3), N),
    "add i32<4, 8> %more, 5": lambda at: at + N + 5,
    "expand_dims i32<4, 1, 8> %more {axis = 1}": lambda at: (at + N)[:, None],
    "trans i32<8, 4> %more {order = [1, 0]}": lambda at: (at + N).T,
    "reshape i32<2, 16> %more": lambda at: (at + N).reshape(2, 16),
    "reshape i32<2, 2, 8> %more": lambda at: (at + N).reshape(2, 2, 8),
    "reshape i32<32> %more": lambda at: (at + N).reshape(32),
    "sext i64<4, 8> %at": lambda at: at,
    "make_range i32<4> {start = -2}": lambda at: np.arange(-2, 2),
}
OTHERS = (
    "load i32<8> %p {volatile = true}",
    "load i32<8> %p", "reduce i32<8> %more {axis = 0, combiner = add}",
    "scan i32<4, 8> %more {axis = 1, combiner = add}", "gather i32<8> %j, %j",
)  # fmt: skip


def element(line: str) -> tuple[Any, Value]:
    function = parse(TEXT.format(line=line)).functions["f"]
    value = next(v for op in function.ops for v in op.results if v.name == "v")
    return function, value


def worth(lanes: Scalarizer, value: Any, arguments: dict[str, int]) -> int:
    """The number that a scalar is, after what was made for it."""
    machine, env = Machine(), dict[Any, Any]()

    def of(operand: Any) -> Tensor:
        if isinstance(operand, Constant):
            kind: Any = operand.type
            return Tensor(np.array(operand.value, f"i{kind.bytes}"))
        return (
            env[operand] if operand in env else Tensor(np.array(arguments[operand.name], np.int32))
        )

    for op in lanes.ops:
        outcome = op.evaluate(machine, *map(of, op.inputs))
        env[op.results[0]] = outcome
        assert not shape_of(op.results[0].type)
    return int(of(value).data)


@pytest.mark.parametrize("line", LINES)
def test_elements_are_those_of_the_tile(line: str) -> None:
    at = 10 * np.arange(3, 7)[:, None] + np.arange(8)
    expected = LINES[line](at)
    function, value = element(line)
    assert expected.shape == shape_of(value.type)
    for index in itertools.product(*map(range, expected.shape)):
        lanes = Scalarizer(definitions(function))
        scalar = lanes.at(value, index)
        assert scalar is not None
        assert worth(lanes, scalar, {"n": N, "m": M}) == expected[index]
        assert {v.name for v in lanes.leaves} == (
            {"n"} if "%more" in line or "%n" in line else set()
        )


def test_three_dimensions_in_any_order() -> None:
    for order in itertools.permutations(range(3)):
        expected = (10 * np.arange(3, 7)[:, None] + np.arange(8)).reshape(2, 2, 8).transpose(order)
        text = TEXT.format(line=f"trans i32<{', '.join(map(str, expected.shape))}> %q "
                                f"{{order = [{', '.join(map(str, order))}]}}")  # fmt: skip
        text = text.replace("  %v =", "  %q = reshape i32<2, 2, 8> %at\n  %v =")
        function = parse(text).functions["f"]
        value = next(v for op in function.ops for v in op.results if v.name == "v")
        for index in itertools.product(*map(range, expected.shape)):
            lanes = Scalarizer(definitions(function))
            assert worth(lanes, lanes.at(value, index), {}) == expected[index]


@pytest.mark.parametrize("line", OTHERS)
def test_what_takes_more_than_arithmetic_has_none(line: str) -> None:
    function, value = element(line)
    index = (0,) * len(shape_of(value.type))
    assert Scalarizer(definitions(function)).at(value, index) is None


def test_an_element_is_made_once() -> None:
    function, value = element("add i32<4, 8> %more, %more")
    lanes = Scalarizer(definitions(function))
    first = lanes.at(value, (1, 2))
    count = len(lanes.ops)
    assert lanes.at(value, (1, 2)) is first and len(lanes.ops) == count == 4
    assert lanes.at(value, (1, 3)) is not first and len(lanes.ops) > count


def test_what_is_broadcast_is_element_0() -> None:
    text = TEXT.format(line="broadcast i32<4, 8> %q")
    function = parse(text.replace("  %v =", "  %q = reshape i32<4, 1> %i\n  %v =")).functions["f"]
    value = next(v for op in function.ops for v in op.results if v.name == "v")
    for i, j in itertools.product(range(4), range(8)):
        lanes = Scalarizer(definitions(function))
        assert worth(lanes, lanes.at(value, (i, j)), {}) == 3 + i


def test_ops_under_predicates_are_left_alone() -> None:
    text = TEXT.format(line="add i32<4, 8> %at, 1").replace("i32*<8> %p", "i32*<8> %p, i1 %holds")
    function = parse(text.replace("%v =", "@%holds %v =")).functions["f"]
    value = next(v for op in function.ops for v in op.results if v.name == "v")
    assert Scalarizer(definitions(function)).at(value, (0, 0)) is None
