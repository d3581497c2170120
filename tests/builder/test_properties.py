"""Random structured programs mean what the same programs mean in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.sizes import few_or_all
from tileir import Module, interpret
from tileir.ir import Function
from tileir.testing.structured import EXTENT, STORES, Statement, bodies, build, run


def result(module: Module, a: int, b: int, t: Any, f: Any) -> tuple[Any, Any]:
    out, floats = np.zeros((STORES + 1, EXTENT), np.int32), np.zeros(EXTENT, np.float32)
    arguments = {"a": a, "b": b, "t_in": t, "f_in": f, "out": out, "fout": floats}
    interpret(module, "main", (1,), arguments)
    return out, floats


@pytest.mark.parametrize("examples", few_or_all(15, 150))
def test_the_interpreter_agrees_with_python(examples: int) -> None:
    programs = given(bodies(3, 0), st.integers(-9, 9), st.integers(-(2**31), 2**31 - 1))
    settings(max_examples=examples)(programs(agrees_with_python))()


def agrees_with_python(program: list[Statement], a: int, b: int) -> None:
    t = np.arange(EXTENT, dtype=np.int32) * 7 - 11
    f = np.linspace(-2, 2, EXTENT, dtype=np.float32)
    module = build(program)
    expected, results = run(program, a, b, t, f), result(module, a, b, t, f)
    for left, right in zip(expected, results, strict=True):
        np.testing.assert_array_equal(left, right)
    assert not list(trivial_parameters(module.kernel("main")))


def trivial_parameters(function: Function) -> Any:
    """Block parameters that receive one value only, besides themselves."""
    edges = [edge for block in function.blocks.values() for edge in block.successors]
    for block in function.blocks.values():
        entering = [edge for edge in edges if edge.label == block.label]
        for place, parameter in enumerate(block.parameters):
            received = {edge.arguments[place] for edge in entering} - {parameter}
            if parameter.name != "i" and len(received) < 2:
                yield block.label, parameter


@settings(max_examples=15)
@given(bodies(3, 0))
def test_building_twice_gives_the_same_module(program: list[Statement]) -> None:
    first, second = (shape_of(build(program)) for _ in range(2))
    assert first == second


def shape_of(module: Module) -> Any:
    """Labels, ops and edges, without the identity of values."""
    blocks = module.kernel("main").blocks.values()
    return [
        (b.label, len(b.parameters), [(o.mnemonic, o.attributes) for o in b.ops]) for b in blocks
    ]
