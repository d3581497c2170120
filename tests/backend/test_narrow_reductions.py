"""64-bit integers are combined in 32 bits if the results fit."""

from typing import Any

import numpy as np
import pytest

import tileir
from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.backend.transforms.narrow_reductions import narrow_reductions
from tileir.builder import I1, I8, I32, I64, Builder, arg, pointer
from tileir.textual import parse
from tileir.types import element_of

NAMED = ["add", "mul", "and", "or", "xor", "smin", "smax"]
WIDE = (0, 1, -1, (1 << 31) - 1, -(1 << 31), 1 << 31, (1 << 32) + 5, (1 << 63) - 1, -(1 << 63))


def module_of(
    combiner: str, element: Any = I1, *, op: str = "scan", size: int = 64, signed: bool = False,
    body: Any = None,
) -> tileir.Module:  # fmt: skip
    """The combined prefixes of x, or all of x, extended to 64 bits, after `body`."""
    b = Builder()
    with b.kernel("k", x=pointer(element), y=arg(pointer(I64), aligned=16)) as (x, y):
        at = b.arange(size)
        value = (x + at).load()
        value = value.to(I64) if signed or element is I64 else value.to(I64, signed=False)
        value = body(value) if body else value
        result = getattr(value, op)(0, combiner)
        (y + at if op == "scan" else y).store(result)
    return b.module()


def combines(function: Any) -> list[Any]:
    """The elements that are combined."""
    return [element_of(op.inputs[0].type) for op in function.ops
            if op.mnemonic in ("reduce", "scan")]  # fmt: skip


def agrees(module: Any, x: Any, size: int) -> None:
    """The narrowed kernel has the same results."""
    function = narrow_reductions(module.kernel())
    changed = module.evolve(functions={**module.functions, function.name: function})
    before, after = (np.zeros(size, np.int64) for _ in range(2))
    tileir.interpret(module, "k", (1,), {"x": x, "y": before})
    tileir.interpret(changed, "k", (1,), {"x": x, "y": after})
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("op", ["scan", "reduce"])
@pytest.mark.parametrize("combiner", ["add", "mul", "and", "or", "smin", "smax"])
def test_flags_are_combined_in_32_bits(combiner: str, op: str) -> None:
    module = module_of(combiner, op=op)
    assert combines(narrow_reductions(module.kernel())) == [I32]
    for seed in range(4):
        x = np.random.default_rng(seed).integers(0, 2, 64).astype(np.bool_)
        agrees(module, x | (seed == 1), 64)


@pytest.mark.parametrize("combiner", ["add", "smin", "smax"])
@pytest.mark.parametrize("element", [I8, I32])
def test_extended_numbers_are_combined_in_32_bits(element: Any, combiner: str) -> None:
    """Negative numbers stay negative; the sum of 64 numbers of 32 bits may not fit."""
    module = module_of(combiner, element, signed=True)
    narrow = element is I8 or combiner != "add"
    assert combines(narrow_reductions(module.kernel())) == [I32 if narrow else I64]
    kind = np.int8 if element is I8 else np.int32
    ends = np.iinfo(kind)
    for least, most in ((ends.min, ends.min), (ends.min, ends.max), (ends.max, ends.max)):
        agrees(module, np.random.default_rng(0).integers(least, most, 64, kind, True), 64)


def test_the_sum_of_the_largest_numbers_fits_exactly() -> None:
    """2^16 times 2^15 - 1 is less than 2^31; so is 2^15 times 2^16 - 1, but not twice that."""
    for bits, size, fits in ((15, 1 << 16, True), (16, 1 << 15, True), (16, 1 << 16, False)):
        module = module_of(
            "add", I64, op="reduce", size=size, body=lambda v, n=bits: v & ((1 << n) - 1)
        )
        function = narrow_reductions(module.kernel())
        assert combines(function) == [I32 if fits else I64]
        agrees(module, np.full(size, -1, np.int64), 1)


@pytest.mark.parametrize("combiner", NAMED)
def test_64_bits_stay(combiner: str) -> None:
    function = module_of(combiner, I64).kernel()
    assert narrow_reductions(function) is function


@pytest.mark.parametrize("combiner", ["umin", "umax"])
def test_unsigned_extremes_stay(combiner: str) -> None:
    function = module_of(combiner, I8, signed=True).kernel()
    assert narrow_reductions(function) is function


def test_negative_flags_that_are_multiplied_stay() -> None:
    """-1 times -1 is neither -1 nor 0."""
    function = module_of("mul", body=lambda v: v * -1).kernel()
    assert narrow_reductions(function) is function


TEXT = """tir 1.0
define kernel void @k(i1* %x, i64* %y) {
entry:
  %at = make_range i32<64>
  %few, _ = icmp (i1<64>, i1<64>) %at, 9 {predicate = slt}
  %xs = splat i1*<64> %x
  %px = getelementptr i1*<64> %xs, %at
  %b = load i1<64> %px
  %w = zext i64<64> %b
  PREDICATE %r = reduce i64 %w {combiner = add}
  store %y, %r
  ret
}
"""


@pytest.mark.parametrize("predicate", ["", "@%few"])
def test_predicated_ops_stay(predicate: str) -> None:
    function = parse(TEXT.replace("PREDICATE", predicate)).kernel()
    assert (narrow_reductions(function) is function) == bool(predicate)


def test_flags_take_one_shuffle_per_step() -> None:
    ptx = compile_kernel(module_of("mul", size=32), target="sm_90a").ptx
    assert ptx.count("shfl.sync") == 5


@pytest.mark.parametrize("combiner", ["add", "mul"])
def test_results_are_the_same_everywhere(combiner: str) -> None:
    x = np.random.default_rng(3).integers(0, 2, 256).astype(np.bool_) | (combiner == "mul")
    assert_equal_results(module_of(combiner, size=256), [x, np.zeros(256, np.int64)], num_warps=2)
