"""Launches of a kernel by the interpreter and, after its lowering, by all threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tileir
from tileir.backend.executors import SimtExecutor
from tileir.ir import Module


def results(
    module: Module, arguments: Sequence[Any], grid: int | tuple[int, ...] = 1, **options: Any
) -> tuple[list[Any], list[Any]]:
    """`arguments` after the only kernel of `module` is interpreted, and after threads execute it as
    `options` lower it. Each has its own copies of the arrays."""
    interpreted, executed = (
        [x.copy() if isinstance(x, np.ndarray) else x for x in arguments] for _ in range(2)
    )
    tileir.interpret(module, None, grid, interpreted)
    SimtExecutor().launch(module, None, grid, executed, **options)
    return interpreted, executed


def assert_equal_results(
    module: Module, arguments: Sequence[Any], grid: int | tuple[int, ...] = 1, **options: Any
) -> list[Any]:
    """Assert that both leave the same numbers in every array, and return these."""
    interpreted, executed = results(module, arguments, grid, **options)
    for expected, actual in zip(interpreted, executed, strict=True):
        np.testing.assert_array_equal(actual, expected)
    return interpreted
