"""Offsets that are added to tiles of pointers one after the other, in the order of least
additions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, I32, Builder, arg, pointer
from tileir.ir import Block, Module
from tileir.ops.memory import Load
from tileir.ops.shape import GetElementPtr
from tileir.types import shape_of

ROWS, COLUMNS = 32, 32


def window(order: str, base: str = "tile") -> Module:
    """A copy of a tile whose pointers are sums, in the order of the letters: `c`, columns times a
    stride, `r`, rows times another, `q`, other rows, `s`, a number of the iteration. They begin at
    a pointer of each row, at a `scalar`, or at pointers that the loop does not compute."""
    b = Builder()
    data = arg(pointer(F16), aligned=2)
    with b.kernel("k", x=data, out=data, n=I32, stride=I32) as (x, out, n, stride):
        rows, columns = b.arange(ROWS)[:, None], b.arange(COLUMNS)[None, :]
        start = x if base == "scalar" else x + rows * 2
        if base == "full":
            start = start + columns * 3
        with b.for_(0, n, stages=1) as i:
            terms: dict[str, Any] = {"c": columns * stride, "r": rows * (stride + i), "q": rows * i}
            wide = {k: v.broadcast_to(ROWS, COLUMNS) for k, v in terms.items()}
            p = start.broadcast_to(ROWS, COLUMNS) if base == "tile" else start
            for letter in order:
                p = p + (i * 3 if letter == "s" else wide[letter])
            (out + (rows * COLUMNS + columns + i * ROWS * COLUMNS)).store(p.load())
    return b.module()


def output_of(launch: Any, module: Module, **options: Any) -> Any:
    out = np.zeros(2 * ROWS * COLUMNS, np.float16)
    launch(module, "k", (1,), [np.arange(2000, dtype=np.float16), out, 2, 7], **options)
    return out


@pytest.mark.parametrize("base", ["tile", "scalar", "full"])
@pytest.mark.parametrize("order", ["crs", "ccrq", "srcq", "ss", "qsc"])
def test_the_same_elements_are_read(order: str, base: str) -> None:
    module = window(order, base)
    expected = output_of(tileir.interpret, module)
    np.testing.assert_array_equal(
        output_of(SimtExecutor().launch, module, target="sm_90a", num_warps=4), expected
    )


@pytest.mark.parametrize("base", ["tile", "scalar", "full"])
def test_each_element_takes_one_addition_to_its_pointer(base: str) -> None:
    """Columns differ between the elements of a thread: rows and numbers are added once."""
    module = compile_kernel(window("crqs", base), "sm_90a", Options(num_warps=4)).tir_at("barriers")
    (block,) = (b for b in module.functions["k"].blocks.values() if reads(b))
    added = [op for op in block.ops if isinstance(op, GetElementPtr)]
    full = [op for op in added if shape_of(op.result.type) == (ROWS, COLUMNS)]
    assert len(full) == 2 + (base == "full"), "one for the load, and one for the store"


def reads(block: Block) -> bool:
    return any(isinstance(op, Load) for op in block.ops)
