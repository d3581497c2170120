"""Offsets whose terms are added to pointers one after the other."""

import re

import numpy as np
import pytest

import tileir
from tests.launches import assert_equal_results
from tileir.analysis.loops import loops
from tileir.analysis.uses import definitions
from tileir.backend import Options, compile as compile_kernel
from tileir.builder import F16, F32, I32, I64, Builder, arg, pointer
from tileir.executor import executor
from tileir.ops.arith import Add, Mul
from tileir.passes.dce import dce
from tileir.textual import parse
from tileir.types import Tile


def module_of(*lines, shape="1, 256", strides="i64 %s, i64 %t"):
    """A kernel that copies elements of %x to %out at the offsets %r, which `lines` compute of the
    column %c, the row %w of a tile, and the strides %s and %t."""
    rows, columns = shape.split(", ")
    return parse(
        f"tir 1.0\n\ndefine kernel void @k(i16* %x, i16* %out, {strides}) {{\nentry:\n"
        f"  %c0 = make_range i64<{columns}>\n  %c = reshape i64<1, {columns}> %c0\n"
        f"  %w0 = make_range i64<{rows}>\n  %w = reshape i64<{rows}, 1> %w0\n"
        + "".join(f"  {line}\n" for line in lines)
        + "".join(
            f"  %{p}s = splat i16*<{shape}> %{p}\n"
            f"  %{p}i = getelementptr i16*<{shape}> %{p}s, %{r}\n"
            for p, r in (("x", "r"), ("out", "q"))
        )
        + f"  %v = load i16<{shape}> %xi\n  store %outi, %v\n  ret\n}}\n"
    )


def adds(name, kind, *terms):
    """Lines that add `terms` up to `name`."""
    lines, total = [], terms[0]
    for k, term in enumerate(terms[1:], 2):
        result = name if k == len(terms) else f"{name}.{k}"
        lines.append(f"%{result} = add {kind} {total}, {term}")
        total = f"%{result}"
    return lines


ROW = "i64<1, 256>"
UNIFORM = (
    f"%us = splat {ROW} %s",
    f"%ts = splat {ROW} %t",
    f"%ct = mul {ROW} %c, %ts",
)
TILE = "i64<32, 64>"
TWO_TERMS = (
    "%ss = splat i64<32, 1> %s",
    "%ws = mul i64<32, 1> %w, %ss",
    f"%rows = broadcast {TILE} %ws",
    "%ts = splat i64<1, 64> %t",
    "%ct = mul i64<1, 64> %c, %ts",
    f"%columns = broadcast {TILE} %ct",
)
CASES = {
    "uniform": ("1, 256", (*UNIFORM, *adds("r", ROW, "%us", "%ct"),
                           *adds("q", ROW, "%ct", "%us"))),
    "two": ("32, 64", (*TWO_TERMS, *adds("r", TILE, "%rows", "%columns"),
                       *adds("q", TILE, "%columns", "%rows"))),
    "three": ("32, 64", (*TWO_TERMS, f"%u = splat {TILE} %s",
                         *adds("r", TILE, "%rows", "%u", "%columns"),
                         *adds("q", TILE, "%u", "%columns", "%rows"))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_element_takes_one_addition(case):
    shape, lines = CASES[case]
    module = module_of(*lines, shape=shape)
    compiled = compile_kernel(module, "sm_90a", Options(num_warps=4))
    elements = len(re.findall(r"\b(?:ld|st)\.global", compiled.ptx))
    assert elements >= 4
    rows = 4 if shape.startswith("32") else 0
    additions = len(re.findall(r"\badd\.s64", compiled.ptx))
    assert additions <= elements + 2 * (1 + rows)


@pytest.mark.parametrize("case", CASES)
def test_pointers_are_the_same(case):
    shape, lines = CASES[case]
    module = module_of(*lines, shape=shape)
    x = np.arange(32 * 200, dtype=np.int16)
    expected, out = np.zeros_like(x), np.zeros_like(x)
    tileir.interpret(module, "k", 1, [x, expected, 130, 2])
    assert np.count_nonzero(expected) > 200
    executor("simt").launch(module, "k", 1, [x, out, 130, 2])
    np.testing.assert_array_equal(out, expected)


def additions_of(module):
    """How many ops of the compiled kernel add offsets to pointers."""
    compiled = compile_kernel(module, "sm_90a", Options(num_warps=4))
    return [op.mnemonic for op in compiled.tir_at("barriers").kernel().ops].count("getelementptr")


@pytest.mark.parametrize("case", CASES)
def test_terms_are_added_by_ops_of_their_own(case):
    shape, lines = CASES[case]
    assert (
        additions_of(module_of(*lines, shape=shape)) == {"uniform": 4, "two": 4, "three": 6}[case]
    )


@pytest.mark.parametrize(
    ("strides", "lines"),
    [
        pytest.param(
            "i32 %s, i32 %t",
            ("%c32 = trunc i32<1, 256> %c", "%us = splat i32<1, 256> %s",
             *adds("r", "i32<1, 256>", "%us", "%c32"), *adds("q", "i32<1, 256>", "%c32", "%us")),
            id="additions of 32 bits wrap",
        ),
        pytest.param(
            "i32 %s, i64 %t",
            ("%c32 = trunc i32<1, 256> %c", "%us = splat i32<1, 256> %s",
             *adds("r", "i32<1, 256>", "%us", "%c32"), f"%q = add {ROW} %c, 0"),
            id="additions of 32 bits wrap next to others of 64",
        ),
        pytest.param(
            "i64 %s, i64 %t", (*UNIFORM, *adds("q", ROW, "%us", "%ct"), f"%r = mul {ROW} %q, 1"),
            id="others read the sum",
        ),
        pytest.param(
            "i64 %s, i64 %t", (f"%r = splat {ROW} %s", f"%q = add {ROW} %c, 0"), id="no sum",
        ),
    ],
)  # fmt: skip
def test_other_offsets_stay(strides, lines):
    assert additions_of(module_of(*lines, strides=strides)) == 2


SIZE = 64


def rows_of_blocks(copied=True):
    """The sum of dots, or of elements, of blocks of rows that are `stride` elements apart."""
    b = Builder()
    names = {"x": arg(pointer(F16), aligned=16), "out": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **names, n=I32, stride=arg(I64, multiple_of=16)) as (x, out, n, stride):
        numbers = b.arange(SIZE)
        total = b.var(b.full((SIZE, SIZE), 0.0, F32))
        with b.for_(0, n, stages=2 if copied else 1) as i:
            rows = (i * SIZE).to(I64) + numbers.to(I64)
            at = (rows * stride)[:, None] + numbers.to(I64)[None, :]
            block = (x + at).load()
            if copied:
                total.set(b.dot(block, b.trans(block, order=(1, 0)), total.get()))
            else:
                total.set(total.get() + block.to(F32))
        (out + (numbers[:, None] * SIZE + numbers[None, :])).store(total.get())
    return b.module()


@pytest.mark.parametrize("copied", [True, False])
def test_multiples_of_strides_are_computed_before_loops_of_copies(copied):
    """Other loops have so many rows that their multiples would fill registers."""
    options = {"num_warps": 4, "warp_specialize": False}
    compiled = compile_kernel(rows_of_blocks(copied), "sm_90a", options)
    function = dce(compiled.tir_at("barriers").kernel())
    origin, around = definitions(function), loops(function)
    varying = [
        op
        for label, block in function.blocks.items()
        for op in block.ops
        if around.depth(label) and isinstance(op, Mul) and isinstance(op.result.type, Tile)
        and isinstance(origin.get(op.lhs), Add)
    ]  # fmt: skip
    assert (len(varying) == 0) == copied


@pytest.mark.parametrize("stride", [64, 80])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_threads_copy_the_same_rows(n, stride):
    random = np.random.default_rng(n)
    x = random.integers(-3, 4, (3 * SIZE, stride)).astype(np.float16)
    out = np.full((SIZE, SIZE), 7, np.float32)
    options = {"num_warps": 4, "target": "sm_90a", "warp_specialize": False}
    assert_equal_results(rows_of_blocks(), [x, out, n, stride], **options)
