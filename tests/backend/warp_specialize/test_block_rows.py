"""Which blocks a tensor map holds: the rows of a box, along the dimension that is contiguous in
memory, are multiples of 16 bytes, whichever dimension of the tile that is."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.backend.warp_specialize.masked_blocks import kernel
from tests.sizes import for_each
from tileir import interpret
from tileir.builder import F8E5M2, F16, F32, I32, Builder, arg, pointer
from tileir.passmanager import run
from tileir.textual import parse
from tileir.types import Scalar
from tileir.values import Value


def loading_kernel(element: Scalar, rows: int, columns: int, contiguous: int) -> Any:
    """A dot of a block of a matrix whose elements along dimension `contiguous` are neighbours."""
    b = Builder()
    x, y = arg(pointer(element), aligned=16), arg(pointer(F32), noalias=True)
    with b.kernel("k", x=x, y=y, s=arg(I32, multiple_of=16)) as (x, y, s):
        r, c = b.arange(rows)[:, None], b.arange(columns)[None, :]
        r = r + b.program_id(axis=0) * rows
        block = (x + (r * s + c if contiguous else r + c * s)).load()
        ones = b.full((columns, 16), 1.0, element)
        result = b.dot(block, ones, b.full((rows, 16), 0.0, F32))
        (y + (r * 16 + b.arange(16)[None, :])).store(result)
    return b.module()


@for_each(
    ("element", "shape", "contiguous"),
    product((F16, F8E5M2), product((4, 8, 16, 32), repeat=2), (0, 1)),
)
def test_rows_of_boxes_are_multiples_of_16_bytes(
    element: Scalar, shape: tuple[int, int], contiguous: int
) -> None:
    module = loading_kernel(element, *shape, contiguous)
    described = run(module, "infer-descriptors").module
    loads = sum(op.mnemonic == "descriptor_load" for op in described.functions["k"].ops)
    assert loads == (shape[contiguous] * element.bytes % 16 == 0)
    if not loads or element is not F16:
        return
    pitch = 48
    x = np.random.default_rng(shape[0]).integers(-3, 4, 2 * 48 * 64).astype(np.float16)
    results: list[Any] = []
    for each in (module, described):
        y = np.full((2 * shape[0], 16), np.nan, np.float32)
        interpret(each, "k", (2,), [x.copy(), y, pitch])
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])


@for_each("terms", [("row+ss < ms", "col < ss"), ("col < ss", "row+ss < ms"),
                    ("row < ss", "col+ss < ms"), ("col+ss < ms", "row < ss")])  # fmt: skip
def test_a_parameter_that_is_an_extent_and_a_start_is_at_least_1(terms: tuple[str, ...]) -> None:
    """In whichever order the bounds are."""
    function = run(parse(kernel(*terms)), "infer-descriptors").module.functions["f"]
    least = {
        op.lhs.name: op.rhs.value
        for op in function.entry.ops
        if op.mnemonic == "icmp" and op.predicate_.value == "sge" and isinstance(op.lhs, Value)
    }
    assert least["s"] == 1
