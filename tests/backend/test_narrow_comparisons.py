"""Comparisons of 64-bit indices with a scalar: which have 32 bits, and results."""

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.transforms.narrow_comparisons import narrow_comparisons
from tileir.textual import parse

SIZE = 64


def kernel(wide="sext i64<64> %i", total="add i64<64> %starts, %wide", compared="%t, %labels",
           predicate="eq", index="make_range i32<64>"):  # fmt: skip
    """%x[i] = whether %start + i is compared with %label."""
    return (
        "tir 1.0\n\ndefine kernel void @k(i32* %x, i64 %start, i64 %label) {\nentry:\n"
        "  %range = make_range i32<64>\n"
        f"  %i = {index}\n  %wide = {wide}\n"
        "  %starts = splat i64<64> %start\n  %labels = splat i64<64> %label\n"
        f"  %t = {total}\n"
        f"  %c, _ = icmp (i1<64>, i1<64>) {compared} {{predicate = {predicate}}}\n"
        "  %r = zext i32<64> %c\n  %xs = splat i32*<64> %x\n"
        "  %q = getelementptr i32*<64> %xs, %range\n  store %q, %r\n  ret\n}\n"
    )


def compared_bits(text, threads=SIZE // 8):
    """The bits of the tiles that are compared after the pass."""
    function = narrow_comparisons(parse(text).kernel(), threads)
    return [op.lhs.type.element.bits for op in function.ops if op.mnemonic == "icmp"]


NARROWED = {
    "as it is written": kernel(),
    "not equal": kernel(predicate="ne"),
    "the label first": kernel(compared="%labels, %t"),
    "the indices first": kernel(total="add i64<64> %wide, %starts"),
    "unsigned": kernel(wide="zext i64<64> %i"),
    "a literal label": kernel(compared="%t, 5"),
    "a literal start": kernel(total="add i64<64> %wide, 7"),
    "indices of a block": kernel(index="add i32<64> %range, 4096"),
}
KEPT = {
    "an order": kernel(predicate="slt"),
    "indices that may be negative": kernel(index="sub i32<64> %range, 1"),
    "labels of each element": kernel(compared="%t, %wide"),
    "multiples": kernel(total="mul i64<64> %starts, %wide"),
    "two scalars": kernel(total="add i64<64> %starts, %labels"),
    "indices of 16 bits": kernel(index="make_range i16<64>"),
    "no start": kernel(total="add i64<64> %wide, %wide"),
}


@pytest.mark.parametrize("name", NARROWED)
def test_sums_of_a_scalar_and_indices_are_compared_in_32_bits(name):
    assert compared_bits(NARROWED[name]) == [32]


@pytest.mark.parametrize("name", KEPT)
def test_others_are_not(name):
    assert compared_bits(KEPT[name]) == [64]


def test_few_elements_of_a_thread_are_not():
    assert compared_bits(kernel(), SIZE // 8 + 1) == [64]


STARTS = (0, 3, -70, 1 << 31, -(1 << 31), (1 << 32) - 5, (1 << 63) - 10, -(1 << 63))
DIFFERENCES = (0, 1, 63, 64, -1, 1 << 31, (1 << 31) + 5, 1 << 32, (1 << 32) + 5, -(1 << 32) + 5)


@pytest.mark.parametrize("name", ["as it is written", "not equal"])
def test_results_are_those_of_64_bits(name):
    """Of differences that 32 bits hold and others whose low 32 bits are those of an index."""
    module = parse(NARROWED[name])
    narrow = module.with_functions({"k": narrow_comparisons(module.functions["k"], 1)})
    for start in STARTS:
        for difference in DIFFERENCES:
            label = (start + difference + (1 << 63)) % (1 << 64) - (1 << 63)
            results = [np.zeros(SIZE, np.int32) for _ in range(2)]
            for program, result in zip((module, narrow), results, strict=True):
                tileir.interpret(program, "k", 1, [result, start, label])
            np.testing.assert_array_equal(*results)
            assert ((results[0] == 1) == (name == "as it is written")).sum() == (
                1 if 0 <= difference < SIZE else 0
            )


def test_the_code_of_a_kernel_has_no_64_bit_comparisons():
    module = parse(kernel().replace("64>", "512>"))
    ptx = compile_kernel(module, "sm_90", Options(num_warps=1)).ptx
    assert "setp.eq.s64" not in ptx and "setp.eq.b64" not in ptx
    x = np.zeros(512, np.int32)
    SimtExecutor().launch(module, "k", 1, [x, 1000, 1300], num_warps=1)
    np.testing.assert_array_equal(np.flatnonzero(x), [300])
