"""`lower-predicates` puts numbers in lanes whose predicate is false: they change no result,
whatever the combiner, the type and the other numbers are."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.errors import InterpretError
from tileir.interp import interpret
from tileir.machine import dtype_of
from tileir.passmanager import run
from tileir.textual import parse
from tileir.types import F16, F32, F64, I8, I32, I64, Scalar

INTEGERS = ("add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax")
FLOATS = ("fadd", "fmul", "fminimum", "fmaximum", "fminnum", "fmaxnum")
CASES = [*product((I8, I32, I64), INTEGERS), *product((F16, F32, F64), FLOATS)]
KERNEL = """tir 1.0

define kernel void @k({element}* %x, i8* %active, {element}* %out) {{
entry:
  %i = make_range i32<64>
  %xs = splat {element}*<64> %x
  %p = getelementptr {element}*<64> %xs, %i
  %v = load {element}<64> %p
  %as = splat i8*<64> %active
  %q = getelementptr i8*<64> %as, %i
  %a = load i8<64> %q
  %m, _ = icmp (i1<64>, i1<64>) %a, 0 {{predicate = ne}}
  %rows = reshape {element}<16, 4> %v
  %taken = reshape i1<16, 4> %m
  @%taken %r = {op}
  %os = splat {element}*{shape} %out
  {index}
  %t = getelementptr {element}*{shape} %os, %n
  {store}
  ret
}}
"""
OPS = {
    "reduce": {
        "op": "reduce {element}<16> %rows {{axis = 1, combiner = {combiner}}}",
        "shape": "<16>", "index": "%n = make_range i32<16>", "store": "store %t, %r",
    },
    "scan": {
        "op": "scan {element}<16, 4> %rows {{axis = 1, combiner = {combiner}}}",
        "shape": "<16, 4>", "index": "%n = reshape i32<16, 4> %i", "store": "store %t, %r, %taken",
    },
}  # fmt: skip


def rows_of(element: Scalar, chance: np.random.Generator) -> np.ndarray:
    """Rows of random numbers, of one special number, and of several."""
    dtype = dtype_of(element)
    if element.is_integer:
        ends = np.iinfo(dtype)
        special = np.array([ends.min, ends.max, 0, -1, 1], dtype)
        rows = chance.integers(ends.min, ends.max, (16, 4), dtype, endpoint=True)
    else:
        special = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan], dtype)
        rows = chance.standard_normal((16, 4)).astype(dtype)
    rows[:5] = special[:, None]
    rows[5:10] = chance.choice(special, (5, 4))
    return rows


@for_each(("element", "combiner", "op"), [(*c, op) for c, op in product(CASES, OPS)])
def test_numbers_of_lanes_that_take_no_part(element: Scalar, combiner: str, op: str) -> None:
    chance = np.random.default_rng(len(combiner))
    words = {"element": str(element), "combiner": combiner}
    text = KERNEL.format(element=element, **{n: t.format(**words) for n, t in OPS[op].items()})
    module = parse(text)
    lowered = run(module, "lower-predicates").module
    assert "@%" not in str(lowered)
    rows = rows_of(element, chance)
    active = chance.integers(0, 2, (16, 4)).astype(np.int8)
    active[np.arange(16), chance.integers(0, 4, 16)] = 1  # a result of no lane is undefined
    results = []
    for each in (module, lowered):
        out = np.zeros(64, rows.dtype)
        with np.errstate(all="ignore"):
            interpret(each, "k", 1, [rows.reshape(-1).copy(), active.reshape(-1).copy(), out])
        results.append(out)
    bits = [np.where(x != x, 0, x).astype(x.dtype).view(f"u{x.dtype.itemsize}") for x in results]
    assert (bits[0] == bits[1]).all() and (np.isnan(results[0]) == np.isnan(results[1])).all()


CLAIM = """tir 1.0

define kernel void @k(i32* %x) {{
entry:
  %i = make_range i32<8>
  %n = load i32 %x
  %ns = splat i32<8> %n
  %low, %high = icmp (i1<8>, i1<8>) %i, %ns {{predicate = slt}}
  %some, %none = icmp (i1, i1) %n, 3 {{predicate = slt}}
  {assumption}
  store %x, 0
  ret
}}
"""


@pytest.mark.parametrize("op", ["assert", "assume"])
@pytest.mark.parametrize(
    ("predicate", "condition", "holds"),
    [("%low", "%low", True), ("%high", "%low", False), ("%low", "%high", False),
     ("%some", "%some", True), ("%none", "%some", True), ("%some", "%none", False)],
)  # fmt: skip
def test_claims_are_of_lanes_that_take_part(
    op: str, predicate: str, condition: str, holds: bool
) -> None:
    module = parse(CLAIM.format(assumption=f"@{predicate} {op} {condition}"))
    lowered = run(module, "lower-predicates").module
    assert lowered is not module
    for each in (module, lowered):
        x = np.array([2], np.int32)
        assert _passes(each, x) == holds


def _passes(module: Any, x: np.ndarray) -> bool:
    try:
        interpret(module, "k", 1, [x])
    except InterpretError:
        return False
    return True
