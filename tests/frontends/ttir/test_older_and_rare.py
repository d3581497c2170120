"""Forms that few texts have: block pointers, listed constants, functions of packs of elements,
approximate division, symbols of libraries, gathers by their older names."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.errors import TileirError
from tileir.executor import executor
from tileir.frontends.ttir import CompilationError, read
from tileir.frontends.ttir.export import export
from tileir.machine.tensor import dtype_of
from tileir.types import F8E4M3, F8E5M2

RUN = ["interpreter", "simt", "cpu"]

BLOCKS = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %w: !tt.ptr<f32>, %y: !tt.ptr<f32>, %m: i32, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i64
    %c8 = arith.constant 8 : i32
    %c4 = arith.constant 4 : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<4x8xf32>
    %rows = arith.extsi %m : i32 to i64
    %columns = arith.extsi %n : i32 to i64
    %p = tt.make_tensor_ptr %x, [%rows, %columns], [%columns, %c1], [%c0, %c0] {order = array<i32: 1, 0>} : <tensor<4x8xf32>>
    %q = tt.make_tensor_ptr %w, [%columns], [%c1], [%c0] {order = array<i32: 0>} : <tensor<8xf32>>
    %r:2 = scf.for %i = %c0 to %n step %c8 iter_args(%b = %p, %acc = %zero) -> (!tt.ptr<tensor<4x8xf32>>, tensor<4x8xf32>)  : i32 {
      %v = tt.load %b {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32} : !tt.ptr<tensor<4x8xf32>>
      %sum = arith.addf %acc, %v : tensor<4x8xf32>
      %first = arith.cmpi eq, %i, %c0 : i32
      %next = scf.if %first -> (!tt.ptr<tensor<4x8xf32>>) {
        %far = tt.advance %b, [%c0, %c8] : <tensor<4x8xf32>>
        scf.yield %far : !tt.ptr<tensor<4x8xf32>>
      } else {
        %near = tt.advance %b, [%c0, %c4] : <tensor<4x8xf32>>
        scf.yield %near : !tt.ptr<tensor<4x8xf32>>
      }
      scf.yield %next, %sum : !tt.ptr<tensor<4x8xf32>>, tensor<4x8xf32>
    }
    %u = tt.load %q {boundaryCheck = array<i32: 0>, padding = 2 : i32} : !tt.ptr<tensor<8xf32>>
    %k = tt.expand_dims %u {axis = 0 : i32} : tensor<8xf32> -> tensor<1x8xf32>
    %l = tt.broadcast %k : tensor<1x8xf32> -> tensor<4x8xf32>
    %sums = arith.addf %r#1, %l : tensor<4x8xf32>
    %to = tt.make_tensor_ptr %y, [%rows, %columns], [%columns, %c1], [%c0, %c0] {order = array<i32: 1, 0>} : <tensor<4x8xf32>>
    tt.store %to, %sums {boundaryCheck = array<i32: 0, 1>} : !tt.ptr<tensor<4x8xf32>>
    tt.return
  }
}
"""  # noqa: E501
"""A sum of blocks of x, the second 8 columns after the first, others 4, and w or NaN."""


def ran(source, on, *arguments):
    """The arguments after a launch."""
    inputs = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    executor(on).launch(read(source, num_warps=4), "kernel", 1, inputs)
    return inputs


@pytest.mark.sampled(4)
@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize("n", [6, 8, 20])
def test_block_pointers(n, on):
    x = np.arange(3 * n, dtype=np.float32).reshape(3, n)
    w, before = np.arange(n, dtype=np.float32) * 100, np.full((3, n), -1, np.float32)
    *_, y, _, _ = ran(BLOCKS, on, x, w, before, 3, n)
    padded = np.pad(x, ((0, 0), (0, 32)))
    starts = [0, 8, 12][: -(-n // 8)]
    expected = sum(padded[:, s : s + 8] for s in starts)[:, :n]
    assert (y[:, :8] == expected + w[:8]).all()
    assert (y[:, 8:] == -1).all()


def test_padding_is_nan_where_asked():
    source = BLOCKS.replace("padding = 1", "padding = 2")
    x, w, y = np.ones((3, 6), np.float32), np.zeros(6, np.float32), np.zeros((3, 6), np.float32)
    source = source.replace("[%rows, %columns], [%columns", "[%c1, %columns], [%columns", 1)
    *_, result, _, _ = ran(source, "interpreter", x, w, y, 3, 6)
    assert np.isnan(result[1:]).all() and (result[0] == 1).all()


def test_unchecked_axes_have_no_mask():
    source = BLOCKS.replace(" {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32}", "")
    x, w, y = np.ones((3, 8), np.float32), np.zeros(8, np.float32), np.zeros((3, 8), np.float32)
    with pytest.raises(TileirError) as caught:
        ran(source, "interpreter", x, w, y, 3, 8)
    assert caught.value.code == "TIR0501"


def test_block_pointers_are_used_by_their_own_ops_only():
    source = BLOCKS.replace("%u = tt.load %q", "%o = arith.addi %q, %q : i32\n    %u = tt.load %q")
    with pytest.raises(CompilationError, match="%q is a pointer to a block of"):
        read(source)
    call = (
        "module {\n  tt.func private @kernel(%p: !tt.ptr<tensor<8xf32>>) {\n    tt.return\n  }\n}\n"
    )
    with pytest.raises(CompilationError, match="@kernel takes or gives a pointer to a block"):
        read(call)


def elements(body, source="f32", target="f32"):
    """y[i] = body of x[i], for 8 elements; `body` makes %r of %v."""
    return f"""\
module {{
  tt.func public @kernel(%x: !tt.ptr<{source}>, %y: !tt.ptr<{target}>) {{
    %i = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
    %s = tt.splat %x : !tt.ptr<{source}> -> tensor<8x!tt.ptr<{source}>>
    %p = tt.addptr %s, %i : tensor<8x!tt.ptr<{source}>>, tensor<8xi32>
    %v = tt.load %p : tensor<8x!tt.ptr<{source}>>
    {body}
    %t = tt.splat %y : !tt.ptr<{target}> -> tensor<8x!tt.ptr<{target}>>
    %q = tt.addptr %t, %i : tensor<8x!tt.ptr<{target}>>, tensor<8xi32>
    tt.store %q, %r : tensor<8x!tt.ptr<{target}>>
    tt.return
  }}
}}
"""


X = np.arange(1, 9, dtype=np.float32)


@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize(
    ("written", "kind", "values"),
    [
        ("[3, -1, 7, 7, 7, 7, 0, 2]", "i32", [3, -1, 7, 7, 7, 7, 0, 2]),
        ("[1.0, 0x7F800000, 2.5e-1, -0.0, 1.0, 1.0, 1.0, 1.0]", "f32",
         [1, np.inf, 0.25, -0.0, 1, 1, 1, 1]),
    ],
)  # fmt: skip
def test_listed_constants(written, kind, values, on):
    body = f"%r = arith.constant dense<{written}> : tensor<8x{kind}>"
    dtype = np.int32 if kind == "i32" else np.float32
    _, y = ran(elements(body, target=kind), on, X, np.zeros(8, dtype))
    assert y.tobytes() == np.array(values, dtype).tobytes()


def test_listed_constants_have_rows():
    body = """\
%c = arith.constant dense<[[1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2xi32>
    %r = tt.reshape %c : tensor<4x2xi32> -> tensor<8xi32>"""
    _, y = ran(elements(body, target="i32"), "interpreter", X, np.zeros(8, np.int32))
    assert (y == X).all()


@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize("kind", ["f8E4M3FN", "f8E5M2"])
def test_the_sign_of_8_bit_floats(kind, on):
    body = f"""\
%a = math.absf %v : tensor<8x{kind}>
    %r = arith.negf %a : tensor<8x{kind}>"""
    bits = np.array([0x00, 0x80, 0x38, 0xB8, 0x01, 0x81, 0x7B, 0xFB], np.uint8)
    dtype = dtype_of({"f8E4M3FN": F8E4M3, "f8E5M2": F8E5M2}[kind])
    _, y = ran(elements(body, kind, kind), on, bits.view(dtype), np.zeros(8, dtype))
    assert (y.view(np.uint8) == bits | 0x80).all()


@pytest.mark.parametrize(
    ("operands", "kinds", "signs", "shown"),
    [
        ("%v", "tensor<8xi8>", "0", ["x 254", "x 1"]),
        ("%v", "tensor<8xi8>", "1", ["x -2", "x 1"]),
        ("%v, %v", "tensor<8xi8>, tensor<8xi8>", "1, 0", ["x #0 -2", "x #1 254", "x #1 1"]),
    ],
)
def test_numbers_are_printed_with_the_sign_of_their_type(operands, kinds, signs, shown):
    body = f"""\
tt.print " x: " {{hex = false, isSigned = array<i32: {signs}>}} : {operands} : {kinds}
    %r = arith.addi %v, %v : tensor<8xi8>"""
    source, printed = elements(body, "i8", "i8"), []
    x = np.array([-2, 1, 0, 0, 0, 0, 0, 0], np.int8)
    executor("cpu").launch(read(source, num_warps=4), "kernel", 1, [x, x.copy()], output=printed)
    assert all(any(line.endswith(text) for line in printed) for text in shown)


PACKED = """\
%r = "tt.map_elementwise"(%v) <{pack = PACK : i32}> ({
    ^bb0(ARGUMENTS):
      %k = arith.mulf %a0, %a1 : f32
      tt.map_elementwise.return RESULTS : TYPES
    }) : (tensor<8xf32>) -> tensor<8xf32>"""


@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize("pack", [2, 4])
def test_functions_of_packs(pack, on):
    """The first of each pack becomes the first two multiplied, others change places."""
    names = [f"%a{i}" for i in range(pack)]
    body = (
        PACKED.replace("PACK", str(pack))
        .replace("ARGUMENTS", ", ".join(f"{n}: f32" for n in names))
        .replace("RESULTS", ", ".join(["%k", *reversed(names[1:])]))
        .replace("TYPES", ", ".join(["f32"] * pack))
    )
    _, y = ran(elements(body), on, X, np.zeros(8, np.float32))
    rows = X.reshape(-1, pack)
    expected = np.concatenate([rows[:, :1] * rows[:, 1:2], rows[:, :0:-1]], axis=1)
    assert (y.reshape(-1, pack) == expected).all()


@pytest.mark.parametrize("on", RUN)
def test_approximate_division(on):
    source = elements("%r = tt.approx_divf %v, %v : tensor<8xf32>")
    _, y = ran(source, on, X, np.zeros(8, np.float32))
    np.testing.assert_allclose(y, 1, rtol=2e-7)
    assert "div.full.f32" in compile_kernel(read(source), "sm_90a").ptx


@pytest.mark.parametrize("op", ["tt.precise_divf", "tt.precise_sqrt"])
def test_precise_functions_are_rounded_correctly(op):
    operands = "%v, %v" if op.endswith("divf") else "%v"
    ptx = compile_kernel(read(elements(f"%r = {op} {operands} : tensor<8xf32>")), "sm_90a").ptx
    assert "div.full" not in ptx
    assert "approx" not in ptx


@pytest.mark.parametrize("kind", ["f8E4M3FN", "f8E5M2"])
def test_negations_of_8_bit_floats(kind):
    body = (
        f"%a = tt.fp_to_fp %v, rounding = rtne : tensor<8xf32> -> tensor<8x{kind}>\n"
        f"    %b = arith.negf %a : tensor<8x{kind}>\n"
        f"    %r = tt.fp_to_fp %b : tensor<8x{kind}> -> tensor<8xf32>"
    )
    x = np.float32([1, -1, 0, -0.0, 4, -4, 0.5, -0.25])
    _, y = ran(elements(body), "interpreter", x, np.zeros(8, np.float32))
    np.testing.assert_array_equal(y.view(np.uint32), (-x).view(np.uint32))


@pytest.mark.parametrize("policy", ["first", "last"])
def test_eviction_policies_are_those_of_the_text(policy):
    source = elements("%r = arith.addf %v, %v : tensor<8xf32>").replace(
        "%v = tt.load %p :", f"%v = tt.load %p evictionPolicy = evict_{policy} :"
    )
    ptx = compile_kernel(read(source), "sm_90a").ptx
    assert f"evict_{policy}" in ptx


def test_block_pointers_move_back():
    source = """module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
    %n = arith.constant 16 : i64
    %one = arith.constant 1 : i64
    %c8 = arith.constant 8 : i32
    %back = arith.constant -8 : i32
    %p = tt.make_tensor_ptr %x, [%n], [%one], [%c8] {order = array<i32: 0>} : <tensor<8xf32>>
    %q = tt.advance %p, [%back] : <tensor<8xf32>>
    %v = tt.load %q {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<8xf32>>
    %t = tt.make_tensor_ptr %y, [%n], [%one], [%c8] {order = array<i32: 0>} : <tensor<8xf32>>
    tt.store %t, %v : !tt.ptr<tensor<8xf32>>
    tt.return
  }
}
"""
    x = np.arange(16, dtype=np.float32) + 1
    _, y = ran(source, "interpreter", x, np.zeros(16, np.float32))
    np.testing.assert_array_equal(y, [0] * 8 + [*x[:8]])


def test_inline_assembly_of_packs_is_compiled():
    body = (
        '%r = tt.elementwise_inline_asm "shl.b32 $0, $1, 3;" {constraints = "=r,r", '
        "packed_element = 4 : i32, pure = true} %v : tensor<8xi8> -> tensor<8xi8>"
    )
    module = read(elements(body, "i8", "i8"))
    assert "shl.b32" in compile_kernel(module, "sm_90a", {"permit": ("inline_asm",)}).ptx


ASSEMBLY = r"""%c = arith.constant dense<5> : tensor<8xi32>
    %r = tt.elementwise_inline_asm "{\0A\09shl.b32 $0, $1, $2; // \22\\n\22\0A}" {constraints = "=r,r,n", packed_element = 1 : i32, pure = true} %v, %c : tensor<8xi32>, tensor<8xi32> -> tensor<8xi32>"""  # noqa: E501


def test_assembly_has_several_lines_and_numbers():
    module = read(elements(ASSEMBLY, "i32", "i32"))
    text = '{\n\tshl.b32 $0, $1, $2; // "\\n"\n}'
    for each in (module, read(export(module))):
        (op,) = (x for x in each.kernel().ops if x.mnemonic == "inline_asm")
        assert op.text == text
    ptx = compile_kernel(module, "sm_90a", {"permit": ("inline_asm",)}).ptx
    assert re.search(r"shl\.b32 %r\d+, %r\d+, 5;", ptx)


def test_numbers_in_assembly_are_constants():
    source = elements(ASSEMBLY.replace("%v, %c :", "%v, %v :"), "i32", "i32")
    with pytest.raises(TileirError, match="an operand 'n' is a constant integer"):
        compile_kernel(read(source), "sm_90a", {"permit": ("inline_asm",)})


def test_functions_of_libraries_keep_their_symbols():
    """A kernel that needs a library is refused unless that is permitted."""
    body = (
        '%r = tt.extern_elementwise %v {libname = "mine", libpath = "/lib/mine.bc", pure = true, '
        'symbol = "my_function"} : (tensor<8xf32>) -> tensor<8xf32>'
    )
    module = read(elements(body))
    with pytest.raises(TileirError, match="my_function"):
        _ = compile_kernel(module, "sm_90a").ptx
    assert "my_function" in compile_kernel(module, "sm_90a", {"permit": ("extern",)}).llvm


GATHER = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
    %c0 = arith.constant 0 : i32
    %c32 = arith.constant 32 : i32
    %c1 = arith.constant 1 : i64
    %wide = arith.constant 32 : i64
    %d = tt.make_tensor_descriptor %x, [%c32, %c32], [%wide, %c1] : <f32>, <tensor<1x8xf32>>
    %e = tt.make_tensor_descriptor %y, [%c32, %c32], [%wide, %c1] : <f32>, <tensor<1x8xf32>>
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %k = arith.constant dense<3> : tensor<8xi32>
    %rows = arith.muli %i, %k : tensor<8xi32>
    %v = tt.experimental_descriptor_gather %d[%rows, %c0] : (!tt.tensordesc<tensor<1x8xf32>>, tensor<8xi32>, i32) -> tensor<8x8xf32>
    tt.experimental_descriptor_scatter %e[%i, %c0], %v : !tt.tensordesc<tensor<1x8xf32>>, tensor<8xi32>, i32, tensor<8x8xf32>
    tt.return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize("on", RUN)
def test_gathers_by_descriptors_of_3_3(on):
    x = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    _, y = ran(
        GATHER.replace(": <f32>, <tensor", ": !tt.ptr<f32>, <tensor"), on, x, np.zeros_like(x)
    )
    assert (y[:8, :8] == x[:24:3, :8]).all() and (y[8:] == 0).all()


OVERLAPPING = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>) {
    tt.grid_dependency_wait
    %v = tt.load %x : !tt.ptr<f32>
    tt.grid_dependency_launch_dependents
    tt.store %x, %v : !tt.ptr<f32>
    tt.return
  }
}
"""


def test_dependents_are_launched_where_kernels_may_overlap():
    plain, overlapped = (
        compile_kernel(read(OVERLAPPING, overlapped=o), "sm_90a", {"permit": ("inline_asm",)}).ptx
        for o in (False, True)
    )
    assert "griddepcontrol" not in plain
    waits = overlapped.index("griddepcontrol.wait")
    assert waits < overlapped.index("griddepcontrol.launch_dependents")


ROUNDED = """\
module {
  tt.func public @kernel(%x: !tt.ptr<i32>, %f: !tt.ptr<f32>, %y: !tt.ptr<i32>, %g: !tt.ptr<f32>) {
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %three = arith.constant dense<3> : tensor<8xi32>
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %xp = tt.addptr %xs, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %v = tt.load %xp : tensor<8x!tt.ptr<i32>>
    %fs = tt.splat %f : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %fp = tt.addptr %fs, %r : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    %w = tt.load %fp : tensor<8x!tt.ptr<f32>>
    %quotient = INTEGER : tensor<8xi32>
    %small = tt.fp_to_fp %w, rounding = ROUNDING : tensor<8xf32> -> tensor<8xKIND>
    %wide = tt.fp_to_fp %small : tensor<8xKIND> -> tensor<8xf32>
    %ys = tt.splat %y : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %yp = tt.addptr %ys, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    tt.store %yp, %quotient : tensor<8x!tt.ptr<i32>>
    %gs = tt.splat %g : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %gp = tt.addptr %gs, %r : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    tt.store %gp, %wide : tensor<8x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize(("integer", "expected"), [
    ("arith.floordivsi %v, %three", [-3, -2, -1, 0, 0, 1, 2, 2]),
    ("arith.ceildivsi %v, %three", [-2, -1, 0, 0, 1, 1, 2, 3]),
    ("arith.ceildivui %r, %three", [0, 1, 1, 1, 2, 2, 2, 3]),
    ("arith.ceildivui %v, %three", [1431655763, 1431655764, 1431655765, 0, 1, 1, 2, 3]),
    ("arith.constant dense<[1, 2, 2, 1, 3, 1, 3, 2]>", [1, 2, 2, 1, 3, 1, 3, 2]),
])  # fmt: skip
def test_quotients_and_lists(integer, expected, on):
    """Integers rounded down and up; a list whose values each are at several places."""
    source = ROUNDED.replace("INTEGER", integer).replace("ROUNDING", "rtne").replace("KIND", "f16")
    x = np.array([-8, -4, -1, 0, 1, 3, 6, 8], np.int32)
    zeros = np.zeros(8, np.int32), np.zeros(8, np.float32)
    actual = ran(source, on, x, np.zeros(8, np.float32), *zeros)
    np.testing.assert_array_equal(actual[2], expected)


@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize(
    ("rounding", "kind"), [("rtz", "bf16"), ("rtne", "bf16"), ("rtne", "f8E5M2")]
)
def test_roundings_of_floats(rounding, kind, on):
    """To zero, to the nearest, and, of 8 bits, to the greatest number at most."""
    source = ROUNDED.replace("INTEGER", "arith.addi %v, %three").replace("KIND", kind)
    source = source.replace("ROUNDING", rounding)
    f = np.array([1.0060, -1.0060, 1.0078125, 0.0, 1e8, -1e8, 3.0, 0.5], np.float32)
    x = np.zeros(8, np.int32)
    actual = ran(source, on, x, f, x, np.zeros(8, np.float32))[3]
    expected = np.array([1.0, -1.0, 1.0, 0.0, 57344.0, -57344.0, 3.0, 0.5], np.float32)
    if kind == "bf16":
        bits = f.view(np.uint32)
        if rounding == "rtne":
            bits = bits + 0x7FFF + (bits >> 16 & 1)
        expected = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    np.testing.assert_array_equal(actual, expected)


EXTREMES = """\
module {
  tt.func public @kernel(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i64
    %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %all = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %p = tt.addptr %all, %lanes : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %v = tt.load %p : tensor<16x!tt.ptr<i32>>
    %d = tt.make_tensor_descriptor %y, [%n], [%c1] : <i32>, BLOCK
    tt.descriptor_reduce KIND, %d[%c0], %v : !tt.tensordescTYPE, tensor<16xi32>
    tt.return
  }
}
"""


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("element", ["i32", "si32", "ui32"])
@pytest.mark.parametrize("type", ["<tensor<16xELEMENT>>", "<16xELEMENT>"])
def test_extremes_by_descriptors_have_the_sign_of_their_elements(kind, element, type):
    type = type.replace("ELEMENT", element)
    block = f"!tt.tensordesc{type}" if "tensor" not in type else f"<tensor<16x{element}>>"
    text = EXTREMES.replace("KIND", kind).replace("BLOCK", block).replace("TYPE", type)
    module = read(text)
    first, second = np.uint32([0, 1, 2**31 - 1, 2**31, 2**32 - 1]), np.uint32([5, 2**32 - 5, 2**31])
    x, y = np.resize(first, 16), np.resize(second, 16)
    seen = np.uint32 if element.startswith("u") else np.int32
    function = np.minimum if kind == "min" else np.maximum
    expected = function(x.view(seen), y.view(seen))
    for name in RUN:
        result = y.view(np.int32).copy()
        arguments = {"x": x.view(np.int32).copy(), "y": result, "n": 16}
        executor(name).launch(module, "kernel", (1, 1, 1), arguments)
        np.testing.assert_array_equal(result.view(seen), expected)
