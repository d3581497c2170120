"""Addresses of the rows of a thread, as distances from that of its first row."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileir
from tests.sizes import for_each
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.codegen.rules import addresses
from tileir.backend.executors import SimtExecutor
from tileir.ir import Module
from tileir.textual import parse

ROWS, COLUMNS, WARPS = 32, 32, 2
"""A tile of which a thread has one column and sixteen rows."""

TEXT = """tir 1.0

define kernel void @k(f32* %x, f32* %out, i32 %s, i32 %t, i32 %n) {{
entry:
  %r = make_range i32<{rows}>
  %c = make_range i32<32>
  %rc = expand_dims i32<{rows}, 1> %r {{axis = 1}}
  %cc = expand_dims i32<1, 32> %c {{axis = 0}}
  %rows = broadcast i32<{rows}, 32> %rc
  %columns = broadcast i32<{rows}, 32> %cc
  %ss = splat i32<{rows}, 32> %s
  %ts = splat i32<{rows}, 32> %t
  %pid = program_id i32
  %r32 = mul i32<{rows}, 32> %rows, 32
  %place = add i32<{rows}, 32> %r32, %columns
  %outs = splat f32*<{rows}, 32> %out
  %q = getelementptr f32*<{rows}, 32> %outs, %place
  %middle = getelementptr f32* %x, i32 5000
  %xs = splat f32*<{rows}, 32> %middle
  %mask, _ = icmp (i1<{rows}, 32>, i1<{rows}, 32>) %rows, {masked} {{predicate = sgt}}
{lines}
  ret
}}
"""

NSW = "{overflow = nsw}"
STRIDED = (
    f"%far = mul i32<32, 32> %rows, %ss {NSW}",
    f"%o = add i32<32, 32> %far, %columns {NSW}",
)
COPY = (
    "%p = getelementptr f32*<32, 32> %xs, %o",
    "%v = load f32<32, 32> %p, %mask, 0.0",
    "store %q, %v",
)
BOTH = (
    f"%far = mul i32<32, 32> %rows, %ss {NSW}",
    f"%near = mul i32<32, 32> %columns, %ts {NSW}",
    f"%o = add i32<32, 32> %far, %near {NSW}",
)
FROM_A_START = (
    f"%start = mul i32 %pid, %s {NSW}",
    f"%start7 = add i32 %start, 7 {NSW}",
    "%starts = splat i32<32, 32> %start7",
    f"%from = add i32<32, 32> %starts, %columns {NSW}",
    f"%far = mul i32<32, 32> %rows, %ss {NSW}",
    f"%o = add i32<32, 32> %far, %from {NSW}",
)
BACKWARDS = (
    f"%back = sub i32<32, 32> 31, %rows {NSW}",
    f"%far = mul i32<32, 32> %back, %ss {NSW}",
    f"%o = add i32<32, 32> %far, %columns {NSW}",
)
WIDE = (
    "%s64 = sext i64 %s",
    "%ss64 = splat i64<32, 32> %s64",
    "%rows64 = sext i64<32, 32> %rows",
    "%columns64 = sext i64<32, 32> %columns",
    "%far = mul i64<32, 32> %rows64, %ss64",
    "%o = add i64<32, 32> %far, %columns64",
)
CHAIN = (
    f"%far = mul i32<32, 32> %rows, %ss {NSW}",
    "%p0 = getelementptr f32*<32, 32> %xs, %far",
    "%p = getelementptr f32*<32, 32> %p0, %columns",
    *COPY[1:],
)
SCALED = (
    f"%rt = mul i32<32, 32> %rows, %ts {NSW}",
    f"%far = mul i32<32, 32> %rt, %ss {NSW}",
    f"%o = add i32<32, 32> %far, %columns {NSW}",
)
MOVED = (
    f"%moved = mul i32 %t, 100 {NSW}",
    "%start = getelementptr f32* %middle, %moved",
    "%generic = addrspacecast f32 addrspace(0)* %start",
    "%gs = splat f32 addrspace(0)*<32, 1> %generic",
    "%gt = broadcast f32 addrspace(0)*<32, 32> %gs",
    *STRIDED,
    "%p = getelementptr f32 addrspace(0)*<32, 32> %gt, %o",
    *COPY[1:],
)
AFFINE = {
    "strided": (*STRIDED, *COPY), "both": (*BOTH, *COPY), "start": (*FROM_A_START, *COPY),
    "backwards": (*BACKWARDS, *COPY), "wide": (*WIDE, *COPY), "chain": CHAIN, "moved": MOVED,
    "scaled": (*SCALED, *COPY),
}  # fmt: skip


def kernel(lines: tuple[str, ...], rows: int = ROWS, masked: int = -1) -> Module:
    """A kernel that copies elements of x, those in rows above `masked`, to a dense tile."""
    text = "\n".join(f"  {line}".replace("<32, 32>", f"<{rows}, 32>") for line in lines)
    return parse(TEXT.format(lines=text, rows=rows, masked=masked))


@pytest.fixture
def from_the_first(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets an item for each tile of addresses that are distances."""
    tiles: list[int] = []
    original = addresses._Addresses.of_registers

    def of_registers(self: Any) -> Any:
        tiles.append(1)
        return original(self)

    monkeypatch.setattr(addresses._Addresses, "of_registers", of_registers)
    return tiles


def copy(module: Module, stride: int) -> tuple[Any, Any]:
    """The output in the interpreter, and in the simulator of a GPU."""
    x, outputs = np.arange(10000, dtype=np.float32), list[Any]()
    for launch, options in (
        (tileir.interpret, {}),
        (SimtExecutor().launch, {"target": "sm_90a", "num_warps": WARPS}),
    ):
        outputs.append(np.zeros((ROWS, COLUMNS), np.float32))
        launch(module, "k", (1,), [x, outputs[-1], stride, 3, 0], **options)
    return outputs[0], outputs[1]


@pytest.mark.parametrize("case", AFFINE)
@for_each("stride", [50, -41])
def test_the_same_elements_are_read(case: str, stride: int, from_the_first: list[int]) -> None:
    expected, actual = copy(kernel(AFFINE[case]), stride)
    np.testing.assert_array_equal(actual, expected)
    assert from_the_first and expected.any()


def test_a_masked_row_may_have_an_offset_that_wraps(from_the_first: list[int]) -> None:
    lines = (
        f"%before = sub i32<32, 32> %rows, 31 {NSW}",
        f"%far = mul i32<32, 32> %before, %ss {NSW}",
        f"%o = add i32<32, 32> %far, %columns {NSW}",
    )
    expected, actual = copy(kernel((*lines, *COPY), masked=30), 1 << 29)
    np.testing.assert_array_equal(actual, expected)
    assert from_the_first and expected[-1].any() and not expected[:-1].any()


@pytest.mark.parametrize("case", AFFINE)
def test_each_row_takes_one_instruction(case: str) -> None:
    ptx = compile_kernel(kernel(AFFINE[case]), "sm_90a", Options(num_warps=WARPS)).ptx
    assert len(re.findall(r"\bld\.(?!param)", ptx)) == ROWS // WARPS
    assert len(re.findall(r"\b(?:mul|mad)\.lo\.s32", ptx)) <= 1
    assert len(re.findall(r"\b(?:add\.s64|mad\.wide\.s32)", ptx)) <= ROWS // WARPS + 5


LITERAL = ("%far = mul i32<32, 32> %rows, 64", f"%o = add i32<32, 32> %far, %columns {NSW}", *COPY)
SQUARES = (
    f"%squares = mul i32<32, 32> %rows, %rows {NSW}",
    f"%far = mul i32<32, 32> %squares, %ss {NSW}",
    f"%o = add i32<32, 32> %far, %columns {NSW}",
    *COPY,
)
WRAPPING = ("%far = mul i32<32, 32> %rows, %ss", "%o = add i32<32, 32> %far, %columns", *COPY)
QUOTIENTS = (
    f"%far = mul i32<32, 32> %rows, %ss {NSW}",
    f"%sum = add i32<32, 32> %far, %columns {NSW}",
    "%o = sdiv i32<32, 32> %sum, 3",
    *COPY,
)
MULTIPLIED = (
    f"%product = mul i32<32, 32> %rows, %columns {NSW}",
    f"%far = mul i32<32, 32> %product, %ss {NSW}",
    f"%o = add i32<32, 32> %far, %columns {NSW}",
    *COPY,
)
CAST = (
    "%generic = addrspacecast f32 addrspace(0)*<32, 32> %xs",
    *STRIDED,
    "%p = getelementptr f32 addrspace(0)*<32, 32> %generic, %o",
    *COPY[1:],
)
IN_A_LOOP = (
    *STRIDED,
    "br body",
    "\nbody:",
    "%i = phi i32 [0, entry], [%next, body]",
    *COPY[:-1],
    "store %q, %v",
    "%next = add i32 %i, 1",
    "%more, _ = icmp (i1, i1) %next, %n {predicate = slt}",
    "cond_br %more, body, done",
    "\ndone:",
)
AFTER_A_LOOP = (
    "%n64 = sext i64 %n",
    "br body",
    "\nbody:",
    "%i = phi i64 [0, entry], [%next, body]",
    "%next = add i64 %i, 1",
    "%more, _ = icmp (i1, i1) %next, %n64 {predicate = slt}",
    "cond_br %more, body, done",
    "\ndone:",
    "%is = splat i64<32, 32> %i",
    "%rows64 = sext i64<32, 32> %rows",
    "%far = mul i64<32, 32> %rows64, %is",
    "%columns64 = sext i64<32, 32> %columns",
    "%o = add i64<32, 32> %far, %columns64",
    *COPY,
)
NEXT_TO_A_DOT = (
    *STRIDED,
    *COPY[:-1],
    "%h = fptrunc f16<32, 32> %v",
    "%d = dot f32<32, 32> %h, %h, 0.0",
    "store %q, %d",
)


@for_each(
    ("lines", "rows"),
    [
        ((*STRIDED, *COPY), 16),
        (LITERAL, ROWS),
        (SQUARES, ROWS),
        (WRAPPING, ROWS),
        (QUOTIENTS, ROWS),
        (MULTIPLIED, ROWS),
        (CAST, ROWS),
        (IN_A_LOOP, ROWS),
        (AFTER_A_LOOP, ROWS),
        (NEXT_TO_A_DOT, ROWS),
    ],
)
def test_other_addresses_are_computed_one_by_one(
    lines: tuple[str, ...], rows: int, from_the_first: list[int]
) -> None:
    """A thread has eight rows; distances are literals, differ by row or by column, may wrap, or are
    quotients; pointers are cast; the addresses are in a loop, or depend on its
    last iteration, or are next to a dot."""
    assert compile_kernel(kernel(lines, rows), "sm_90a", Options(num_warps=WARPS)).ptx
    assert not from_the_first


def test_coordinates_that_are_no_sums_are_computed_one_by_one(
    from_the_first: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "contributions_overlap", lambda layout, dim: dim == 1)
    module = kernel((*STRIDED, *COPY))
    assert compile_kernel(module, "sm_90a", Options(num_warps=WARPS)).ptx and not from_the_first
