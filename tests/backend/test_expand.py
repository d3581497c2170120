"""Descriptors, scaled matmuls and guarded scans through the lowering, against the interpreter."""

import itertools
from typing import ClassVar

import numpy as np
import pytest

import tileir
from tileir import textual
from tileir.backend import KernelParameter
from tileir.backend.driver.launch import StridedTensor, pack
from tileir.backend.executors import SimtExecutor
from tileir.backend.transforms.op_builder import OpBuilder
from tileir.errors import LaunchError
from tileir.executor import executor
from tileir.ops.control import Return
from tileir.types import I8, I32, I64
from tileir.values import constant


def agree(text, *arrays):
    module = textual.parse("tir 1.0\n" + text)
    mine = [a.copy() for a in arrays]
    tileir.interpret(module, None, 1, list(arrays), allow_undef=True)
    for warps in (1, 4):
        actual = [a.copy() for a in mine]
        SimtExecutor().launch(module, None, 1, actual, num_warps=warps)
        for a, b in zip(arrays, actual, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("kind", "number"), [(I8, -3), (I32, -1), (I32, 7), (I64, -(1 << 40))])
def test_a_literal_as_i64_is_the_literal_of_the_number(kind, number):
    make = OpBuilder(Return())
    assert make.to_i64(constant(kind, number)) == constant(I64, number)
    assert not make.ops


def test_a_descriptor_through_a_loop():
    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    agree(
        """
define kernel void @k(f32* %x, f32* %y) {
entry:
  %d = make_descriptor tensor_desc<f32<4, 8>> %x, [i32 6, i64 10], [i32 10, i32 1] {padding = nan}
  %zero = splat f32<4, 8> f32 0.0
  br loop
loop:
  %i = phi i32 [0, entry], [%next, loop]
  %e = phi tensor_desc<f32<4, 8>> [%d, entry], [%e, loop]
  %s = phi f32<4, 8> [%zero, entry], [%t, loop]
  %v = descriptor_load f32<4, 8> %e, %i, %i
  %t = fadd f32<4, 8> %s, %v
  %next = add i32 %i, 1
  %more, _ = icmp (i1, i1) %next, 4 {predicate = slt}
  cond_br %more, loop, done
done:
  %o = make_descriptor tensor_desc<f32<4, 8>> %y, [i32 4, i64 8], [i32 8, i32 1]
  descriptor_store %o, %t, 0, 0
  ret
}
""",
        x,
        np.zeros((4, 8), np.float32),
    )


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_a_scan_by_a_function_under_a_predicate(reverse):
    random = np.random.default_rng(0)
    x = random.integers(-9, 9, 48).astype(np.int32)
    m = random.integers(0, 2, 48).astype(bool)
    agree(
        f"""
define i32 @first(i32 %a, i32 %b) {{
entry:
  %s = mul i32 %a, 3
  %t = add i32 %s, %b
  %u = sub i32 %t, %s
  %r = smax i32 %a, %u
  ret %r
}}
define kernel void @k(i32* %x, i1* %m, i32* %y) {{
entry:
  %r = make_range i32<48>
  %xs = splat i32*<48> %x
  %ms = splat i1*<48> %m
  %ys = splat i32*<48> %y
  %p = getelementptr i32*<48> %xs, %r
  %q = getelementptr i1*<48> %ms, %r
  %z = getelementptr i32*<48> %ys, %r
  %v = load i32<48> %p
  %h = load i1<48> %q
  @%h %s = scan i32<48> %v {{axis = 0, combiner = @first, reverse = {reverse}}}
  store %z, %s, %h
  ret
}}
""",
        x,
        m,
        np.zeros(48, np.int32),
    )


@pytest.mark.parametrize("strided", [False, True])
def test_a_descriptor_that_is_a_parameter(strided):
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    agree(
        """
define kernel void @k(tensor_desc<f32<4, 4>> %d, tensor_desc<f32<4, 4>> %e) {
entry:
  %v = descriptor_load f32<4, 4> %d, 1, 2
  descriptor_store %e, %v, 0, 0
  ret
}
""",
        x[::2, ::2] if strided else x,
        np.zeros((3, 4), np.float32),
    )


@pytest.mark.parametrize(("kind", "least"), [("i32", -(1 << 31)), ("i64", -(1 << 63))])
def test_a_tensor_of_a_negative_extent_has_no_elements(kind, least):
    module = textual.parse(f"""tir 1.0

define kernel void @k(i32* %x, i32* %y, i32* %z, {kind} %m, {kind} %n) {{
entry:
  %d = make_descriptor tensor_desc<i32<4, 4>> %x, [%m, i32 4], [%n, i32 1]
  %e = make_descriptor tensor_desc<i32<4, 4>> %y, [%m, i32 4], [%n, i32 1]
  %f = make_descriptor tensor_desc<i32<4, 4>> %z, [%m, i32 4], [%n, i32 1]
  %v = descriptor_load i32<4, 4> %d, 0, 0
  %one = splat i32<4, 4> i32 1
  %w = add i32<4, 4> %v, %one
  descriptor_store %e, %w, 0, 0
  descriptor_reduce %f, %w, 0, 0 {{op = add}}
  ret
}}
""")
    x = np.arange(1, 17, dtype=np.int32)
    for m, n in itertools.product((least, -2, 0, 3, 4), repeat=2):
        inside = np.zeros((4, 4), bool)
        inside[: max(m, 0), : max(n, 0)] = True
        expected = np.where(inside, x.reshape(4, 4) + 1, 0).reshape(-1)
        for on in ("interpreter", "cpu", "simt"):
            y, z = np.zeros((2, 16), np.int32)
            executor(on).launch(module, "k", (1, 1, 1), [x, y, z, m, n])
            np.testing.assert_array_equal(y, expected)
            np.testing.assert_array_equal(z, expected)


def test_what_a_launch_passes_for_a_descriptor():
    class Array:
        __cuda_array_interface__: ClassVar = {
            "data": (4096, False), "shape": (3, 5), "strides": (40, 8), "typestr": "<f4",
        }  # fmt: skip

    described, number = KernelParameter("d", "tensor_desc<f32<2, 2>>"), KernelParameter("n", "i32")
    passed = pack((described, number), (Array(), 7))
    assert [v.value for v in passed] == [4096, 3, 5, 10, 2, 7]
    whole = pack((described,), (StridedTensor(4096, (3, 5), (5, 1)),))
    assert [v.value for v in whole] == [4096, 3, 5, 5, 1]
    for wrong, message in (
        (4096, "must be an array"),
        (StridedTensor(4096, (3,), (1,)), "1 dimensions"),
    ):
        with pytest.raises(LaunchError, match=f"TIR0710.*argument d .*{message}"):
            pack((described,), (wrong,))
