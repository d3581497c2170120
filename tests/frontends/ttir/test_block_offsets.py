"""Offsets of blocks do not wrap, so that what is divided by them stays contiguous."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.executor import executor
from tileir.frontends.ttir import read

RUN = ["interpreter", "simt", "cpu"]
N, GRID = 512, 4

RANGE = "%r = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32>"
BLOCK = f"""\
    %n = arith.constant 512 : i32
    %pid = tt.get_program_id x : i32
    %first = arith.muli %pid, %n : i32
    {RANGE}
    %s = tt.splat %first : i32 -> tensor<512xi32>
    %i = arith.addi %s, %r : tensor<512xi32>
"""
SWAP = """\
    %c64 = arith.constant dense<64> : tensor<512xi32>
    %c128 = arith.constant dense<128> : tensor<512xi32>
    %x0 = arith.remsi %i, %c64 : tensor<512xi32>
    %x1 = arith.divsi %i, %c64 : tensor<512xi32>
    %row = arith.muli %x1, %c128 : tensor<512xi32>
    %half = arith.addi %x0, %c64 : tensor<512xi32>
    %source = arith.addi %half, %row : tensor<512xi32>
"""
"""The upper halves of rows of 128: what Inductor makes of `x[..., 64:]`."""

PARTS = f"""\
    %n = arith.constant 512 : i32
    %long = arith.constant 25088 : i32
    %two = arith.constant 2 : i32
    %pid = tt.get_program_id x : i32
    {RANGE}
    %part = arith.divsi %pid, %two : i32
    %begin = arith.muli %part, %long : i32
    %b = tt.splat %begin : i32 -> tensor<512xi32>
    %i = arith.addi %r, %b : tensor<512xi32>
    %c3136 = arith.constant dense<3136> : tensor<512xi32>
    %source = arith.remsi %i, %c3136 : tensor<512xi32>
"""
"""A part of a channel of 56 x 56, as in Inductor's batch norm."""

HASH = f"""\
    %k = arith.constant 1540483477 : i32
    %pid = tt.get_program_id x : i32
    %seed = arith.muli %pid, %k : i32
    {RANGE}
    %s = tt.splat %seed : i32 -> tensor<512xi32>
    %h = arith.addi %s, %r : tensor<512xi32>
    %c = arith.constant dense<17> : tensor<512xi32>
    %m = arith.muli %h, %c : tensor<512xi32>
    %c512 = arith.constant dense<512> : tensor<512xi32>
    %q = arith.remsi %m, %c512 : tensor<512xi32>
    %source = math.absi %q : tensor<512xi32>
"""


def program(offsets: str) -> str:
    promise = "{tt.divisibility = 16 : i32}"
    return f"""\
module {{
  tt.func public @kernel(%x: !tt.ptr<f32> {promise}, %y: !tt.ptr<f32> {promise}) {{
{offsets}
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %source : tensor<512x!tt.ptr<f32>>, tensor<512xi32>
    %v = tt.load %xp : tensor<512x!tt.ptr<f32>>
    %m1 = arith.constant 512 : i32
    %id = tt.get_program_id x : i32
    %o = arith.muli %id, %m1 : i32
    %yo = tt.addptr %y, %o : !tt.ptr<f32>, i32
    %ys = tt.splat %yo : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %r : tensor<512x!tt.ptr<f32>>, tensor<512xi32>
    tt.store %yp, %v : tensor<512x!tt.ptr<f32>>
    tt.return
  }}
}}
"""


INDEX = np.arange(N * GRID)
PROGRAM, LANE = INDEX // N, (INDEX % N)


def _hash() -> np.ndarray:
    h = ((PROGRAM * 1540483477 + LANE) * 17).astype(np.int32)
    return np.abs(np.fmod(h, 512))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize(
    ("offsets", "source"),
    [
        (BLOCK + SWAP, INDEX % 64 + 64 + INDEX // 64 * 128),
        (PARTS, (LANE + PROGRAM // 2 * 25088) % 3136),
        (HASH, _hash()),
    ],
)
def test_offsets_are_those_of_triton(offsets: str, source: np.ndarray, on: str) -> None:
    x = np.random.default_rng(0).standard_normal(2 * N * GRID).astype(np.float32)
    y = np.zeros(N * GRID, np.float32)
    executor(on).launch(read(program(offsets), num_warps=4), "kernel", GRID, [x, y])
    np.testing.assert_array_equal(y, x[source])


@pytest.mark.parametrize("offsets", [BLOCK + SWAP, PARTS])
def test_quotients_and_remainders_of_blocks_load_vectors(offsets: str) -> None:
    kernel = compile_kernel(read(program(offsets), num_warps=4), "sm_90a")
    assert re.findall(r"ld\.global\S*", kernel.ptx) == ["ld.global.v4.b32"]


def test_remainders_by_a_size_that_is_given_load_vectors() -> None:
    splat_line = "    %t = tt.splat %size : i32 -> tensor<512xi32>\n"
    remainder_line = "    %source = arith.remsi %i, %t : tensor<512xi32>\n"
    text = program(BLOCK + splat_line + remainder_line).replace(
        "%y: !tt.ptr", "%size: i32 {tt.divisibility = 16 : i32}, %y: !tt.ptr"
    )
    kernel = compile_kernel(read(text, num_warps=4), "sm_90a")
    assert re.findall(r"ld\.global\S*", kernel.ptx) == ["ld.global.v4.b32"]


def test_indices_of_loops_that_step_by_blocks_load_vectors() -> None:
    """The number of elements is given, so that nothing else bounds the index."""
    lines = f"""\
    %c0 = arith.constant 0 : i32
    %c512 = arith.constant 512 : i32
    %c3136 = arith.constant dense<3136> : tensor<512xi32>
    %zero = arith.constant dense<0.0> : tensor<512xf32>
    {RANGE}
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>>
    %sum = scf.for %at = %c0 to %size step %c512 iter_args(%a = %zero) -> (tensor<512xf32>) : i32 {{
      %s = tt.splat %at : i32 -> tensor<512xi32>
      %i = arith.addi %s, %r : tensor<512xi32>
      %source = arith.remsi %i, %c3136 : tensor<512xi32>
      %xp = tt.addptr %xs, %source : tensor<512x!tt.ptr<f32>>, tensor<512xi32>
      %v = tt.load %xp : tensor<512x!tt.ptr<f32>>
      %b = arith.addf %a, %v : tensor<512xf32>
      scf.yield %b : tensor<512xf32>
    }}
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %r : tensor<512x!tt.ptr<f32>>, tensor<512xi32>
    tt.store %yp, %sum : tensor<512x!tt.ptr<f32>>
    tt.return
"""
    promise = "{tt.divisibility = 16 : i32}"
    text = (
        f"module {{\n  tt.func public @kernel(%x: !tt.ptr<f32> {promise}, %size: i32, "
        f"%y: !tt.ptr<f32> {promise}) {{\n{lines}  }}\n}}\n"
    )
    kernel = compile_kernel(read(text, num_warps=4), "sm_90a")
    assert set(re.findall(r"ld\.global\S*", kernel.ptx)) == {"ld.global.v4.b32"}


NUMBERS = (-512, -1, 0, 1, 512)


def may_assume_no_wrap(statements: str) -> bool:
    """Whether the multiplication of `%index` by 3, of which a contiguous dividend is made, is
    promised not to wrap. No address is made of it, which would promise that, too."""
    dividend = f"""\
      %three = arith.constant 3 : i32
      %times = arith.muli %index, %three : i32
      %ts = tt.splat %times : i32 -> tensor<512xi32>
      {RANGE}
      %i = arith.addi %ts, %r : tensor<512xi32>
      %c = arith.constant dense<3136> : tensor<512xi32>
      %q = arith.remsi %i, %c : tensor<512xi32>
      %f = arith.sitofp %q : tensor<512xi32> to tensor<512xf32>
      tt.store %ys, %f : tensor<512x!tt.ptr<f32>>
"""
    splat = "%ys = tt.splat %y : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>>\n"
    head = "tt.func public @kernel(%y: !tt.ptr<f32>, %size: i32, %p: !tt.ptr<i32>)"
    body = statements.replace("DIVIDEND", dividend)
    module = read(f"module {{\n{head} {{\n{splat}{body}tt.return\n}}\n}}\n", num_warps=4)
    lines = [line for line in str(module).splitlines() if re.search(r" = mul i32 .*\b3\b", line)]
    assert len(lines) == 1
    return "nsw" in lines[0]


@for_each(("low", "step"), product((*NUMBERS, None), repeat=2))
def test_what_a_loop_counts_is_no_dividend_unless_it_counts_up_from_0(
    low: int | None, step: int | None
) -> None:
    """By literals, or by a size that is given (None), which may be any."""
    names = {"low": low, "step": step}
    text = "".join(f"%{n} = arith.constant {x} : i32\n" for n, x in names.items() if x is not None)
    first, by = (f"%{n}" if x is not None else "%size" for n, x in names.items())
    loop = f"scf.for %index = {first} to %size step {by} : i32 {{\nDIVIDEND scf.yield\n}}\n"
    up = low is not None and low >= 0 and step is not None and step > 0
    assert may_assume_no_wrap(text + loop) == up


@for_each(
    ("statement", "is_index"),
    [
        ("%index = tt.get_program_id y : i32", True),
        ("%index = tt.get_num_programs z : i32", True),
        *((f"%index = arith.constant {n} : i32", n >= 0) for n in NUMBERS),
        ("%k = arith.constant 7 : i32\n%index = arith.remsi %size, %k : i32", False),
        ("%index = tt.load %p : !tt.ptr<i32>", False),
        ("%id = tt.get_program_id x : i32\n%index = arith.addi %id, %size : i32", False),
        ("%id = tt.get_program_id x : i32\n%index = arith.subi %id, %id : i32", False),
    ],
)
def test_what_may_be_negative_is_no_dividend(statement: str, is_index: bool) -> None:
    assert may_assume_no_wrap(f"{statement}\nDIVIDEND") == is_index


@for_each(
    ("block", "start", "fits"),
    [(n, 0, n % 512 == 0) for n in (512, 1024, 1536, 256, 64, 513, 768, 1)]
    + [(n, 0, False) for n in (-512, -1024, -1)]
    + [(512, 512, False), (1024, 512, False)],
)
def test_first_indices_are_multiples_of_the_range(block: int, start: int, fits: bool) -> None:
    """The sum of the first index of a block and of a range from 0 on is promised not to wrap,
    without a division or an address that would ask for it."""
    text = f"""\
module {{
  tt.func public @kernel(%y: !tt.ptr<i32>) {{
    %n = arith.constant {block} : i32
    %pid = tt.get_program_id x : i32
    %first = arith.muli %pid, %n : i32
    %r = tt.make_range {{end = {start + 512} : i32, start = {start} : i32}} : tensor<512xi32>
    %s = tt.splat %first : i32 -> tensor<512xi32>
    %i = arith.addi %s, %r : tensor<512xi32>
    %ys = tt.splat %y : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>>
    tt.store %ys, %i : tensor<512x!tt.ptr<i32>>
    tt.return
  }}
}}
"""
    lines = [x for x in str(read(text, num_warps=4)).splitlines() if " = add i32<512>" in x]
    assert len(lines) >= 1
    assert ("nsw" in lines[-1]) == fits


@for_each(
    ("first", "fits"),
    [
        ("%first = arith.muli %pid, %n : i32", True),
        ("%first = arith.muli %n, %pid : i32", True),
        ("%first = arith.muli %pid, %pid : i32", False),
        ("%first = arith.addi %pid, %n : i32", False),
        ("%first = arith.shli %pid, %n : i32", False),
        ("%first = tt.load %y : !tt.ptr<i32>", False),
        ("%first = arith.addi %size, %zero : i32", False),
    ],
)
def test_first_indices_are_multiples_of_a_block(first: str, fits: bool) -> None:
    """The index may be either operand. What is loaded or passed is added as it is."""
    text = f"""\
module {{
  tt.func public @kernel(%y: !tt.ptr<i32>, %size: i32) {{
    %zero = arith.constant 0 : i32
    %n = arith.constant 512 : i32
    %pid = tt.get_program_id x : i32
    {first}
    %r = tt.make_range {{end = 512 : i32, start = 0 : i32}} : tensor<512xi32>
    %s = tt.splat %first : i32 -> tensor<512xi32>
    %i = arith.addi %r, %s : tensor<512xi32>
    %ys = tt.splat %y : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>>
    tt.store %ys, %i : tensor<512x!tt.ptr<i32>>
    tt.return
  }}
}}
"""
    lines = str(read(text, num_warps=4)).splitlines()
    marked = [x for x in lines if " = add i32<512>" in x or " = mul i32 " in x]
    assert marked
    assert all(("nsw" in x) == fits for x in marked)


def test_sums_of_hashes_may_wrap() -> None:
    product = re.search(r"mul i32 %\w+, 1540483477.*", str(read(program(HASH), num_warps=4)))
    assert product
    assert "nsw" not in product[0]
