"""What the builder makes survives the text: printed, read and printed again, and it means the
same."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.sizes import few_or_all
from tileir import Module, interpret, verify
from tileir.testing.structured import EXTENT, STORES, Statement, bodies, build
from tileir.textual import parse, print_module

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KERNELS: list[tuple[str, str, tuple[int, ...]]] = [
    ("flash_attention", "flash_attention", (16, 8, 24)),
    ("matmul_builder", "matmul", (16, 24, 8)),
    ("softmax_builder", "softmax", (50,)),
]


@pytest.mark.parametrize(("file", "function", "shape"), KERNELS)
def test_the_examples_round_trip(file: str, function: str, shape: tuple[int, ...]) -> None:
    spec = importlib.util.spec_from_file_location(file, EXAMPLES / f"{file}.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    text = print_module(getattr(example, function)(*shape))
    assert f"{file}.py" in text
    assert print_module(parse(text)) == text


@pytest.mark.parametrize("examples", few_or_all(8, 60))
def test_programs_round_trip(examples: int) -> None:
    settings(max_examples=examples)(given(bodies(3, 0))(round_trips))()


def round_trips(program: list[Statement]) -> None:
    module = build(program)
    verify(module)
    text = print_module(module)
    reparsed = parse(text)
    assert print_module(reparsed) == text
    for left, right in zip(_results(module), _results(reparsed), strict=True):
        np.testing.assert_array_equal(left, right)


def _results(module: Module) -> tuple[Any, Any]:
    out, floats = np.zeros((STORES + 1, EXTENT), np.int32), np.zeros(EXTENT, np.float32)
    arguments = {
        "a": 3, "b": -4, "t_in": np.arange(EXTENT, dtype=np.int32),
        "f_in": np.linspace(-1, 1, EXTENT, dtype=np.float32), "out": out, "fout": floats,
    }  # fmt: skip
    interpret(module, "main", (1,), arguments)
    return out, floats
