"""Operands that operators and functions refuse, each next to ones that they take."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.triton.sources import kernel_of
from tileir import TileirError

OPERATORS = {
    "f // f": "// needs integers", "-(i > 1)": "- needs numbers, not int1",
    "~f": "~ needs integers, not fp32", "f & 1": "bitcast it first", "i | f": "bitcast it first",
    "f << 1": "is not shifted", "i >> f": "is not shifted",
    "u // i": "division of uint32 by int32: cast one", "i % u": "of int32 by uint32",
    "p * 2": "no common type", "-p": "arithmetic on pointer", "p + p": "moves by integers",
    "p - f": "moves by integers", "f.to(tl.pointer_type(tl.int8))": "fp32 cannot be cast",
    "p.to(tl.float32)": "cannot be cast to fp32", "tl.where(i > 0, p, 1)": "no common type",
    "tl.where(i > 0, p, q)": "no common type",
    "f.to(tl.int8, bitcast=True)": "bits of fp32 are not as many as of int8",
    "i.to(tl.float16, bitcast=True)": "bits of int32 are not as many",
    "f.to(tl.float16, fp_downcast_rounding='up')": "there is no rounding 'up'",
    "f.to(tl.float64, fp_downcast_rounding='rtz')": "narrower float, not fp32 to fp64",
    "f.to(tl.float32, fp_downcast_rounding='rtne')": "narrower float, not fp32 to fp32",
    "i.to(tl.float16, fp_downcast_rounding='rtz')": "narrower float, not int32 to fp16",
}  # fmt: skip
FUNCTIONS = {
    "tl.exp(p)": "exp needs floats", "tl.abs(p)": "abs of pointer",
    "tl.maximum(p, p)": "maximum of pointer", "tl.maximum(f, f, 3)": "propagate_nan is a value",
    "tl.cdiv(f, 2)": "cdiv needs integers", "tl.arange(4, 4)": "has no element",
    "tl.arange(0, n)": "must be a constexpr", "tl.zeros((4, n), tl.int8)": "must be a constexpr",
    "tl.full([2], 1.5, tl.int32)": "1.5 is no int32",
    "tl.full([2], 128, tl.int8)": "out of the range of int8",
    "tl.full([2], -1, tl.uint8)": "out of the range of uint8",
    "tl.full([2], 256, tl.uint8)": "out of the range of uint8",
    "tl.reshape(i, 3, 3)": "cannot be reshaped", "tl.reshape(i, 5, -1)": "cannot be reshaped",
    "tl.trans(i)": "no order of the dimensions", "tl.trans(i[:, None], 0, 0)": "no order",
    "tl.permute(i[:, None], 0)": "no order", "tl.split(i)": "last dimension of extent 2",
    "tl.split(n)": "last dimension of extent 2", "tl.cat(i, f)": "do not have the same type",
    "tl.expand_dims(i, 2)": "do not fit", "tl.expand_dims(i, (0, 0))": "do not fit",
    "tl.squeeze(i, 0)": "does not have extent 1", "i.gather(f, 0)": "places are integers",
}  # fmt: skip
ALONG_DIMENSIONS = {
    "tl.sum(i, 1)": "has no axis 1", "tl.sum(i, -2)": "has no axis -2",
    "f.histogram(4)": "a histogram needs integers",
    "tl.topk(i, 9)": "topk of 9 along 8", "tl.topk(i, 0)": "topk of 0", "tl.sort(n)": "sort needs",
    "tl.sort(p)": "sort needs tensors of numbers", "tl.multiple_of(i, (8, 8))": "one value per dim",
    "tl.dot(i, i)": "takes tiles of shapes", "tl.dot(i[:, None], i[:, None])": "takes tiles",
}  # fmt: skip
ACCESSES = {
    "tl.load(i)": "a pointer is needed", "tl.store(f, 1)": "a pointer is needed",
    "tl.load(p, other=1)": "needs a mask", "tl.load(p0, mask=i > 0)": "no use for a mask",
    "tl.load(p, boundary_check=(0,))": "of block pointers",
    "tl.load(p, padding_option='zero')": "of block pointers",
    "tl.load(p, cache_modifier='.xx')": "no cache_modifier", "tl.store(p0, i)": "no place for",
    "tl.load(p, eviction_policy='x')": "no eviction_policy 'x'",
    "tl.atomic_and(r, 1.0)": "atomic_and is not of fp32",
    "tl.atomic_xor(r, 1.0)": "atomic_xor is not of fp32",
    "tl.make_block_ptr(p0, (8,), (1, 1), (0,), (8,), (0,))": "equally long",
    "tl.load(tl.make_block_ptr(p0, (8,), (1,), (0,), (8,), (0,)), boundary_check=(1,))":
        "a block of 1 dimensions has no 1",
    "tl.load(tl.make_block_ptr(p0, (8,), (1,), (0,), (8,), (0,)), mask=i > 0)": "not mask",
    "tl.load(tl.make_block_ptr(p0, (8,), (1,), (0,), (8,), (0,)), boundary_check=(0,),"
    " padding_option='inf')": "zero or nan, not 'inf'",
    "tl.advance(p, (1,))": "advance moves a block pointer",
    "tl.advance(tl.make_block_ptr(p0, (8,), (1,), (0,), (8,), (0,)), (1, 1))": "2 offsets",
    "tl.make_tensor_descriptor(p0, [8], [1], [8, 8])": "equally long",
    "tl.map_elementwise(tl.abs, i, pack=2)": "pack = 1",
}  # fmt: skip
"""Expressions of int32, uint32 and float32 tensors `i`, `u` and `f`, a number `n`, pointers `p` and
`q` to int32 and int8, `r` to float32, and a scalar pointer `p0`, with what the error says."""

TAKEN = (
    "i // i", "-i", "-f", "~i", "~(i > 1)", "i & 1", "u | i", "i << 1", "i >> u", "u // u",
    "p - i", "tl.where(i > 0, p, p)", "p.to(tl.int64)", "tl.arange(3, 4)", "tl.abs(f)",
    "i.to(tl.pointer_type(tl.int8))", "f.to(tl.int32, bitcast=True)",
    "f.to(tl.float16, fp_downcast_rounding='rtz')",
    "f.to(tl.bfloat16, fp_downcast_rounding='rtne')",
    "tl.full([2], -128, tl.int8)", "tl.full([2], 255, tl.uint8)", "tl.reshape(i, 4, -1)",
    "tl.trans(i[:, None])", "tl.split(tl.reshape(i, 4, 2))", "tl.expand_dims(i, (0, -1))",
    "tl.squeeze(i[None, :], 0)", "i.gather(i % 8, 0)", "tl.sum(i, -1)", "tl.topk(i, 8)",
    "tl.sort(u)", "tl.load(p, other=1, mask=i > 0)", "tl.load(p, cache_modifier='.cg')",
    "tl.load(p0, mask=n > 0)", "tl.atomic_add(r, 1.0)", "tl.atomic_max(r, 1.0)",
    "tl.load(tl.make_block_ptr(p0, (8,), (1,), (0,), (8,), (0,)), boundary_check=(-1,),"
    " padding_option='zero')", "tl.multiple_of(i, 8)", "i.histogram(4)", "tl.cat(i, i)",
)  # fmt: skip


def compile_values(*texts: str) -> None:
    lines = [
        "def k(p0, q0, r0, n):", "    i = tl.arange(0, 8)", "    p, q, r = p0 + i, q0 + i, r0 + i",
        "    u, f = i.to(tl.uint32) + 1, i.to(tl.float32)", "    i = i + 1",
        *(f"    v = {text}" for text in texts),
    ]  # fmt: skip
    arguments = np.zeros(8, np.int32), np.zeros(8, np.int8), np.zeros(8, np.float32), 7
    kernel_of("\n".join(lines)).warmup(*arguments, grid=(1,))


@pytest.mark.parametrize("refused", [OPERATORS, FUNCTIONS, ALONG_DIMENSIONS, ACCESSES])
def test_operands_that_are_refused(refused: dict[str, str]) -> None:
    for text, message in refused.items():
        with pytest.raises(TileirError) as error:
            compile_values(text)
        assert message in str(error.value), text


def test_operands_that_are_taken() -> None:
    compile_values(*TAKEN)
