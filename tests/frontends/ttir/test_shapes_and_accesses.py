"""Rearrangements, matmuls and accesses of TTIR, in each form that a release writes."""

from __future__ import annotations

from itertools import permutations, product

import ml_dtypes
import numpy as np
import pytest

from tileir import InterpretError, interpret
from tileir.frontends.ttir import read
from tileir.ops.dot import Dot
from tileir.ops.memory import Load, Store

from .programs import Kernel

F32 = np.float32


def operations(module, kind):
    """All ops of a kind."""
    return [
        op for block in module.kernel().blocks.values() for op in block.ops if isinstance(op, kind)
    ]


def as_shape(k, name, kind, *shape):
    """The input `name` as a tensor of `shape`."""
    size = len(k.inputs[name])
    k.statements.append(
        f"%{name}_t = tt.reshape %{name} : {k.tensor(kind, size)} -> {k.tensor(kind, *shape)}"
    )
    return f"%{name}_t", np.reshape(k.inputs[name], shape)


def flat(k, name, kind, value, values):
    """A result: the tensor `value`, which has to be `values`."""
    size = np.size(values)
    text = f"tt.reshape {value} : {k.tensor(kind, *np.shape(values))} -> {k.tensor(kind, size)}"
    k.add(name, kind, text, np.ravel(values))


def test_orders_of_axes():
    """Without an order, the last two axes change places."""
    k = Kernel(32, x=("i32", range(32)))
    for shape in ((4, 8), (2, 4, 4), (2, 2, 4, 2)):
        rank = len(shape)
        _, x = as_shape(k, "x", "i32", *shape)
        name = f"x{rank}"
        k.statements[-1] = k.statements[-1].replace("%x_t", f"%{name}")
        last_two = (*range(rank - 2), rank - 1, rank - 2)
        for number, order in enumerate([None, *permutations(range(rank))]):
            by = order or last_two
            listed = f" {{order = array<i32: {', '.join(map(str, by))}>}}" if order else ""
            types = f"{k.tensor('i32', *shape)} -> {k.tensor('i32', *(shape[a] for a in by))}"
            k.statements.append(f"%{name}_{number} = tt.trans %{name}{listed} : {types}")
            flat(k, f"{name}_{number}_out", "i32", f"%{name}_{number}", x.transpose(by))
    k.check()


def test_rearrangements():
    k = Kernel(16, x=("i32", range(16)), y=("i32", range(100, 116)), i=("i32", [3, 0, 1, 2] * 4),
               s=("i32", [7]))  # fmt: skip
    _, x = as_shape(k, "x", "i32", 4, 4)
    _, i = as_shape(k, "i", "i32", 4, 4)
    m, v = k.tensor("i32", 4, 4), k.tensor("i32")
    for axis in (0, 1):
        k.statements.append(
            f"%g{axis} = tt.gather %x_t[%i_t] {{axis = {axis} : i32}} : ({m}, {m}) -> {m}"
        )
        flat(k, f"gather{axis}", "i32", f"%g{axis}", np.take_along_axis(x, i, axis))
        shape = (1, 16) if axis == 0 else (16, 1)
        wide = (2, 16) if axis == 0 else (16, 2)
        types = f"{v} -> {k.tensor('i32', *shape)}"
        k.statements.append(f"%e{axis} = tt.expand_dims %x {{axis = {axis} : i32}} : {types}")
        types = f"{k.tensor('i32', *shape)} -> {k.tensor('i32', *wide)}"
        k.statements.append(f"%b{axis} = tt.broadcast %e{axis} : {types}")
        expected = np.broadcast_to(np.arange(16).reshape(shape), wide)
        flat(k, f"broadcast{axis}", "i32", f"%b{axis}", expected)
    k.statements.append(f"%j = tt.join %x, %y : {v} -> {k.tensor('i32', 16, 2)}")
    flat(k, "join", "i32", "%j", np.stack([np.arange(16), np.arange(100, 116)], 1))
    k.statements.append(f"%l, %r = tt.split %j : {k.tensor('i32', 16, 2)} -> {v}")
    k.add("left", "i32", f"tt.view %l : {v} -> {v}", range(16))
    k.add("right", "i32", f"tt.view %r : {v} -> {v}", range(100, 116))
    both = [*range(16), *range(100, 116)]
    k.add("cat", "i32", f"tt.cat %x, %y : {v} -> {k.tensor('i32', 32)}", both)
    k.statements.append(f"%one = tt.unsplat %s : {k.tensor('i32', 1)}")
    k.add("splat", "i32", f"tt.splat %one : i32 -> {v}", [7] * 16)
    k.add("range", "i32", f"tt.make_range {{end = 24 : i32, start = 8 : i32}} : {v}", range(8, 24))
    k.add("counts", "i32", f"tt.histogram %i : {v} -> {v}", [4] * 4 + [0] * 12)
    k.statements.append(f"%few = arith.cmpi slt, %x, %i : {v}")
    counted = np.bincount(i.ravel()[np.arange(16) < i.ravel()], minlength=16)
    k.add("some", "i32", f"tt.histogram %i, %few : {v} -> {v}", counted)
    k.check()


@pytest.mark.parametrize("form", ["{}", "{{axis = {} : i32}}"])
def test_places_in_a_grid(form):
    lines = ["module {", "tt.func public @kernel(%x: !tt.ptr<i32>) {"]
    names = "xyz" if form == "{}" else (0, 1, 2)
    for axis, name in enumerate(names):
        lines.append(f"%id{axis} = tt.get_program_id {form.format(name)} : i32")
        lines.append(f"%n{axis} = tt.get_num_programs {form.format(name)} : i32")
    lines += [
        "%a = arith.muli %id2, %n1 : i32", "%b = arith.addi %a, %id1 : i32",
        "%c = arith.muli %b, %n0 : i32", "%at = arith.addi %c, %id0 : i32",
        "%p = tt.addptr %x, %at : !tt.ptr<i32>, i32", "tt.store %p, %n2 : !tt.ptr<i32>",
        "tt.return", "}", "}",
    ]  # fmt: skip
    x = np.zeros(30, np.int32)
    interpret(read("\n".join(lines)), "kernel", (2, 3, 5), [x])
    assert (x == 5).all()


# Matmuls --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "precision"),
    [
        ("", "ieee"), (" {allowTF32 = false}", "ieee"), (" {allowTF32 = true}", "tf32"),
        (", inputPrecision = tf32", "tf32"), (", inputPrecision = ieee", "ieee"),
        (", inputPrecision = tf32x3", "tf32x3"),
    ],
)  # fmt: skip
def test_precisions_of_matmuls(written, precision):
    k = Kernel(256, x=("f32", [0.0] * 256))
    as_shape(k, "x", "f32", 16, 16)
    m = k.tensor("f32", 16, 16)
    k.statements.append(f"%d = tt.dot %x_t, %x_t, %x_t{written} : {m} * {m} -> {m}")
    flat(k, "out", "f32", "%d", np.zeros((16, 16)))
    (dot,) = operations(k.read(), Dot)
    assert dot.precision.value == precision


SCALED = """\
module {
  tt.func public @kernel(%x: !tt.ptr<i8>, %s: !tt.ptr<i8>, %t: !tt.ptr<i8>, %out: !tt.ptr<f32>) {
    %i = tt.make_range {end = 2048 : i32, start = 0 : i32} : tensor<2048xi32>
    %x_s = tt.splat %x : !tt.ptr<i8> -> tensor<2048x!tt.ptr<i8>>
    %x_p = tt.addptr %x_s, %i : tensor<2048x!tt.ptr<i8>>, tensor<2048xi32>
    %v = tt.load %x_p : tensor<2048x!tt.ptr<i8>>
    %l_8 = tt.reshape %v : tensor<2048xi8> -> tensor<32x64xi8>
    %l = tt.bitcast %l_8 : tensor<32x64xi8> -> tensor<32x64xLHS>
    %r_8 = tt.trans %l_8 {order = array<i32: 1, 0>} : tensor<32x64xi8> -> tensor<64x32xi8>
    %r = tt.bitcast %r_8 : tensor<64x32xi8> -> tensor<64x32xRHS>
    %j = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %s_s = tt.splat %s : !tt.ptr<i8> -> tensor<64x!tt.ptr<i8>>
    %s_p = tt.addptr %s_s, %j : tensor<64x!tt.ptr<i8>>, tensor<64xi32>
    %s_v = tt.load %s_p : tensor<64x!tt.ptr<i8>>
    %sl = tt.reshape %s_v : tensor<64xi8> -> tensor<32x2xi8>
    %t_s = tt.splat %t : !tt.ptr<i8> -> tensor<64x!tt.ptr<i8>>
    %t_p = tt.addptr %t_s, %j : tensor<64x!tt.ptr<i8>>, tensor<64xi32>
    %t_v = tt.load %t_p : tensor<64x!tt.ptr<i8>>
    %sr = tt.reshape %t_v : tensor<64xi8> -> tensor<32x2xi8>
    %c = arith.constant dense<0.0> : tensor<32x32xf32>
    %d = tt.dot_scaled OPERANDS -> tensor<32x32xf32>
    %k = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
    %f = tt.reshape %d : tensor<32x32xf32> -> tensor<1024xf32>
    %o_s = tt.splat %out : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
    %o_p = tt.addptr %o_s, %k : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
    tt.store %o_p, %f : tensor<1024x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("scaled", [(), ("l",), ("r",), ("l", "r")], ids="".join)
@pytest.mark.parametrize("formats", [("e4m3", "e5m2"), ("e5m2", "e4m3")])
def test_scales_of_either_operand(scaled, formats):
    element = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}
    types = {
        "l": f"tensor<32x64x{element[formats[0]]}>",
        "r": f"tensor<64x32x{element[formats[1]]}>",
    }
    operands = ", ".join(f"%{s} scale %s{s}" if s in scaled else f"%{s}" for s in "lr")
    stated = " * ".join(f"{types[s]}, tensor<32x2xi8>" if s in scaled else types[s] for s in "lr")
    text = f"{operands}, %c lhs = {formats[0]} rhs = {formats[1]} {{fastMath = false}} : {stated}"
    source = SCALED.replace("OPERANDS", text)
    source = source.replace("LHS", element[formats[0]]).replace("RHS", element[formats[1]])
    x = np.random.default_rng(0).integers(0x20, 0x40, 2048).astype(np.int8)
    s, t = ((np.arange(64) * n % 5 + 125).astype(np.int8) for n in (1, 3))
    out = np.zeros(1024, F32)
    interpret(read(source), "kernel", 1, [x, s, t, out])
    kinds = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
    left, right = (x.reshape(32, 64).view(kinds[f]).astype(F32) for f in formats)
    powers = [
        np.exp2(n.view(np.uint8).astype(F32) - 127).reshape(32, 2).repeat(32, 1) for n in (s, t)
    ]
    left, right = (
        n * power if side in scaled else n
        for side, n, power in zip("lr", (left, right), powers, strict=True)
    )
    np.testing.assert_allclose(out.reshape(32, 32), left @ right.T, rtol=1e-4)


# Accesses -------------------------------------------------------------------------------------

POLICIES = [
    ("cacheModifier = cg", "cache_modifier = cg", ("cg", "normal")),
    ("evictionPolicy = evict_first", "eviction_policy = evict_first", ("none", "first")),
    ("evictionPolicy = evict_last", "eviction_policy = evict_last", ("none", "last")),
    ("evictionPolicy = evict_normal", "eviction_policy = evict_normal", ("none", "normal")),
    (
        "cacheModifier = cs evictionPolicy = evict_last",
        "cache_modifier = cs, eviction_policy = evict_last",
        ("cs", "normal"),
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), POLICIES)
def test_policies_of_accesses(old, new, expected):
    """Up to 3.8, and from 3.9 on. A cache modifier is used alone, and a volatile load has none."""
    for policy in (f" {old}", f" {{cachePolicy = #tt.cache_policy<{new}>}}"):
        k = Kernel(8, x=("f32", range(8)))
        k.add("y", "f32", f"arith.addf %x, %x : {k.tensor('f32')}", np.arange(8) * 2)
        text = k.text().replace("load %p_x", f"load %p_x{policy}")
        module = read(text.replace("%p_y, %y", f"%p_y, %y{policy}"))
        for op in operations(module, (Load, Store)):
            assert (op.cache.value, op.eviction.value) == expected
        text = k.text().replace("load %p_x", "load %p_x {isVolatile = true}")
        (load,) = operations(read(text), Load)
        assert load.volatile and load.cache.value == "none"


BLOCK = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %r: i32, %c: i32) {
    %rows = arith.constant 4 : i64
    %columns = arith.constant 6 : i64
    %pitch = arith.constant 7 : i64
    %one = arith.constant 1 : i64
    %p = tt.make_tensor_ptr %x, [%rows, %columns], [%pitch, %one], [%r, %c] {order = array<i32: 1, 0>} : <tensor<4x4xf32>>
    %v = tt.load %p {boundaryCheck = array<i32: AXES>PADDING} : !tt.ptr<tensor<4x4xf32>>
    %f = tt.reshape %v : tensor<4x4xf32> -> tensor<16xf32>
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %y_s = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %y_p = tt.addptr %y_s, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %y_p, %f : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize(("padding", "outside"), [(None, 0.0), (1, 0.0), (2, np.nan)])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (1, 0)])
def test_blocks_at_each_edge(padding, outside, axes):
    """Elements outside of checked axes are zeros or NaN, or, if no padding is stated, what other
    masked-off elements are."""
    stated = "" if padding is None else f", padding = {padding} : i32"
    source = BLOCK.replace("AXES", ", ".join(map(str, axes))).replace("PADDING", stated)
    x = np.arange(1, 29, dtype=F32).reshape(4, 7)
    around = np.full((12, 14), outside, F32)
    around[4:8, 4:10] = x[:, :6]
    rows = (-4, -1, 0, 1, 4) if 0 in axes else (0,)
    columns = (-4, -1, 0, 2, 3, 6) if 1 in axes else (1,)
    module = read(source)
    for r, c in product(rows, columns):
        y = np.zeros(16, F32)
        interpret(module, "kernel", 1, [x, y, r, c])
        np.testing.assert_array_equal(y.reshape(4, 4), around[4 + r : 8 + r, 4 + c : 8 + c])
    undefined = read(source, masked_off="undefined")
    edge = (3, 1) if 0 in axes else (0, 5)
    if padding is not None:
        interpret(undefined, "kernel", 1, [x, np.zeros(16, F32), *edge])
        return
    with pytest.raises(InterpretError) as caught:
        interpret(undefined, "kernel", 1, [x, np.zeros(16, F32), *edge])
    assert caught.value.code == "TIR0505"


DESCRIPTORS = """\
module {
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %z: !tt.ptr<f32>, %r: i32, %c: i32) {
    %planes = arith.constant 2 : i32
    %rows = arith.constant 5 : i32
    %columns = arith.constant 8 : i32
    %plane = arith.constant 60 : i64
    %pitch = arith.constant 12 : i64
    %one = arith.constant 1 : i64
    %c1 = arith.constant 1 : i32
    %d = tt.make_tensor_descriptor %x, [%planes, %rows, %columns], [%plane, %pitch, %one]PADDING : <f32>, <1x4x4xf32>
    %e = tt.make_tensor_descriptor %y, [%planes, %rows, %columns], [%plane, %pitch, %one] : <f32>, <1x4x4xf32>
    %g = tt.make_tensor_descriptor %z, [%planes, %rows, %columns], [%plane, %pitch, %one] : <f32>, <1x4x4xf32>
    %v = tt.descriptor_load %d[%c1, %r, %c] : !tt.tensordesc<1x4x4xf32> -> tensor<4x4xf32>
    %w = arith.addf %v, %v : tensor<4x4xf32>
    tt.descriptor_store %e[%c1, %r, %c], %w : !tt.tensordesc<1x4x4xf32>, tensor<4x4xf32>
    tt.descriptor_reduce add, %g[%c1, %r, %c], %w : !tt.tensordesc<1x4x4xf32>, tensor<4x4xf32>
    tt.return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("padding", "outside"),
    [("", 0.0), (" {padding = 1 : i32}", 0.0), (" {padding = 2 : i32}", np.nan)],
)
def test_blocks_of_descriptors(padding, outside):
    """Blocks with an axis of one position, which the tile does not have, at each edge."""
    module = read(DESCRIPTORS.replace("PADDING", padding))
    x = np.arange(1, 121, dtype=F32).reshape(2, 5, 12)
    for r, c in ((0, 0), (-2, 1), (3, 2), (1, -3), (0, 6), (1, 4)):
        around = np.full((13, 16), outside, F32)
        around[4:9, 4:12] = x[1, :, :8]
        y, z = np.zeros_like(x), np.ones_like(x)
        interpret(module, "kernel", 1, [x, y, z, r, c])
        inside = np.zeros((13, 16), F32)
        inside[4 + r : 8 + r, 4 + c : 8 + c] = 2 * around[4 + r : 8 + r, 4 + c : 8 + c]
        expected = np.zeros_like(x)
        expected[1, :, :8] = inside[4:9, 4:12]
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(z, 1 + expected)
