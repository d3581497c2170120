"""Minima and maxima of extended numbers are computed before the extension."""

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import tileir
from tests.launches import results
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.target import target
from tileir.backend.transforms.narrow_extremes import narrow_extremes
from tileir.builder import BF16, F16, F32, F64, Builder, arg, pointer
from tileir.types import element_of, shape_of

EXTREMES = ["fminnum", "fmaxnum", "fminimum", "fmaximum"]
KINDS = {BF16: bfloat16, F16: np.float16}


def module_of(
    combiner: str, element: Any = BF16, wide: Any = F32, rows: int = 256, columns: int = 64,
    body: Any = None,
) -> tileir.Module:  # fmt: skip
    """The extremes of the columns of x, extended to `wide`, after `body` if there is one."""
    b = Builder()
    kinds = {"x": arg(pointer(element), aligned=16), "y": arg(pointer(wide), aligned=16)}
    with b.kernel("k", **kinds) as (x, y):
        column = b.arange(columns)
        value = (x + (b.arange(rows)[:, None] * columns + column[None, :])).load().to(wide)
        (y + column).store((body(b, value) if body else value).reduce(0, combiner))
    return b.module()


def combines(function: Any) -> list[Any]:
    """The elements that are combined."""
    return [element_of(op.inputs[0].type) for op in function.ops if op.mnemonic == "reduce"]


@pytest.mark.parametrize("combiner", EXTREMES)
@pytest.mark.parametrize("element", KINDS)
def test_extremes_are_extended_afterwards(element: Any, combiner: str) -> None:
    function = narrow_extremes(module_of(combiner, element).kernel())
    assert combines(function) == [element]
    (extension,) = (op for op in function.ops if op.mnemonic == "fpext")
    assert shape_of(extension.results[0].type) == (64,)


@pytest.mark.parametrize(
    ("combiner", "element", "wide", "body"),
    [
        ("fadd", BF16, F32, None),
        ("fmul", F16, F32, None),
        ("fmaxnum", F32, F64, None),
        ("fmaxnum", BF16, F32, lambda b, x: x * 2.0),
        ("fmaxnum", BF16, F32, lambda b, x: x.to(F16).to(F32).exp()),
    ],
)
def test_other_reductions_stay(combiner: str, element: Any, wide: Any, body: Any) -> None:
    """Sums are rounded; f32 numbers are compared one at a time; computed numbers are not
    extended."""
    function = module_of(combiner, element, wide, body=body).kernel()
    assert narrow_extremes(function) is function


TEXT = """tir 1.0
define kernel void @k(bf16* %x, f32* %y, i1* %m) {
entry:
  %at = make_range i32<64>
  %xs = splat bf16*<64> %x
  %ms = splat i1*<64> %m
  %px = getelementptr bf16*<64> %xs, %at
  %pm = getelementptr i1*<64> %ms, %at
  %b = load bf16<64> %px
  %c = load i1<64> %pm
  EXTENDED %w = fpext f32<64> %b
  REDUCED %r = reduce f32 %w {combiner = fmaxnum}
  store %y, %r
  ret
}
"""


@pytest.mark.parametrize("place", ["EXTENDED", "REDUCED"])
def test_predicated_ops_stay(place: str) -> None:
    text = TEXT.replace(place, "@%c").replace("EXTENDED", "").replace("REDUCED", "")
    function = tileir.textual.parse(text).kernel()
    assert narrow_extremes(function) is function


@pytest.mark.parametrize("combiner", EXTREMES)
@pytest.mark.parametrize("element", KINDS)
def test_every_number_against_others(element: Any, combiner: str) -> None:
    """All numbers, each next to zeros of both signs, infinities, NaNs of both signs, the least and
    largest magnitudes and others: bits, and not only values, stay. A NaN may have other bits."""
    kind = KINDS[element]
    others = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.5]
    partners = np.array(others, kind)
    least = np.array([1, 0x8001], np.uint16).view(kind)
    largest = np.array([np.finfo(np.float16).max, -3.0e4], kind)
    partners = np.concatenate([partners, least, largest])
    numbers = np.arange(1 << 16, dtype=np.uint16).view(kind)
    module = module_of(combiner, element, rows=2, columns=1 << 16)
    function = narrow_extremes(module.kernel())
    assert combines(function) == [element]
    changed = module.evolve(functions={function.name: function})
    for partner in partners:
        x = np.concatenate([numbers, np.full(1 << 16, partner)])
        before, after = (np.zeros(1 << 16, np.float32) for _ in range(2))
        tileir.interpret(module, "k", (1,), {"x": x, "y": before})
        tileir.interpret(changed, "k", (1,), {"x": x, "y": after})
        is_nan = np.isnan(before)
        np.testing.assert_array_equal(np.isnan(after), is_nan)
        np.testing.assert_array_equal(*(v.view(np.uint32)[~is_nan] for v in (before, after)))


@pytest.mark.parametrize("combiner", ["fmaxnum", "fminimum"])
def test_chunks_of_a_large_tile_are_combined_as_they_are_loaded(combiner: str) -> None:
    """A tile that exceeds the registers is read in chunks: the numbers of a thread are compared two
    at a time."""
    module = module_of(combiner, rows=1024)
    done = run_pipeline(module, target("sm_90a"), Options(num_warps=4), None)
    ops = list(done.stages["layouts"].functions["k"].ops)
    chunks = [op for op in ops if op.mnemonic == combiner and len(shape_of(op.result.type)) == 2]
    assert chunks and all(element_of(op.result.type) is BF16 for op in chunks)
    random = np.random.default_rng(1)
    x = random.standard_normal((1024, 64)).astype(bfloat16)
    x[random.integers(0, 1024, 64), np.arange(64)] = np.nan
    x[:, 3], x[:, 4] = np.nan, -0.0
    arrays = [x.reshape(-1), np.zeros(64, np.float32)]
    before, after = results(module, arrays, target="sm_90a", num_warps=4)
    np.testing.assert_array_equal(after[1], before[1])
