"""Scaled matmuls as plain ones, for every way of packing operands: what they mean stays."""

import attrs
import numpy as np
import pytest

import tileir
from tileir import textual
from tileir.backend.executors import SimtExecutor
from tileir.backend.legalize.scaled_dots import expand_scaled

TEXT = """tir 1.0
define kernel void @k(i8* %a, i8* %b, f32* %c, i8* %s, i8* %t) {{
entry:
  {a}
  {b}
  {c}
  {s}
  {t}
  %z = dot_scaled {ct} %a.v, %b.v, %c.v, %s.v, %t.v {{lhs = {lhs}, rhs = {rhs}, lhs_k_pack = {lp}, rhs_k_pack = {rp}}}
  store %c.p, %z
  ret
}}
"""  # noqa: E501


def tile_load(name, kind, shape):
    """Lines that load a dense tile from a pointer, as `%name.v`."""
    count, element = int(np.prod(shape)), kind
    extents = ", ".join(map(str, shape))
    return f"""%{name}.i = make_range i32<{count}>
  %{name}.j = reshape i32<{extents}> %{name}.i
  %{name}.s = splat {element}*<{extents}> %{name}
  %{name}.p = getelementptr {element}*<{extents}> %{name}.s, %{name}.j
  %{name}.v = load {element}<{extents}> %{name}.p"""


def program(batch, lhs_packed, rhs_packed):
    """A matmul of e2m1 in bytes, two of them along K or along M and N."""
    m, n, k = 16, 8, 64
    shapes = {
        "a": (*batch, m, k // 2) if lhs_packed else (*batch, m // 2, k),
        "b": (*batch, k // 2, n) if rhs_packed else (*batch, k, n // 2),
        "c": (*batch, m, n), "s": (*batch, m, k // 32), "t": (*batch, n, k // 32),
    }  # fmt: skip
    parts = {x: tile_load(x, "f32" if x == "c" else "i8", s) for x, s in shapes.items()}
    kind = f"f32<{', '.join(map(str, shapes['c']))}>"
    words = {"lp": str(lhs_packed).lower(), "rp": str(rhs_packed).lower()}
    text = TEXT.format(**parts, ct=kind, lhs="e2m1", rhs="e2m1", **words)
    random = np.random.default_rng(m)
    inputs = [random.integers(-128, 128, shapes[x]).astype(np.int8) for x in "ab"]
    accumulator = random.integers(-9, 9, shapes["c"]).astype(np.float32)
    scales = [random.integers(124, 128, shapes[x]).astype(np.uint8).view(np.int8) for x in "st"]
    return textual.parse(text), [*inputs, accumulator, *scales]


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize("lhs_packed", [True, False])
@pytest.mark.parametrize("rhs_packed", [True, False])
def test_operands_in_bytes(batch, lhs_packed, rhs_packed):
    module, arguments = program(batch, lhs_packed, rhs_packed)
    function = expand_scaled(module.functions["k"])
    assert all(op.mnemonic != "dot_scaled" for op in function.ops)
    plain = attrs.evolve(module, functions={"k": function})
    actual = [[a.copy() for a in arguments] for _ in range(2)]
    tileir.interpret(module, None, 1, actual[0])
    tileir.interpret(plain, None, 1, actual[1])
    np.testing.assert_array_equal(actual[1][2], actual[0][2])
    assert np.abs(actual[0][2]).max() > 50


RANK_1 = """tir 1.0
define kernel void @k(f32* %x, f32* %y) {
entry:
  %d = make_descriptor tensor_desc<f32<16>> %x, [i32 10, i32 1] {padding = zero}
  %v = descriptor_load f32<16> %d, 3
  %o = make_descriptor tensor_desc<f32<16>> %y, [i32 20, i32 1]
  descriptor_store %o, %v, 6
  ret
}
"""


def test_a_descriptor_of_one_dimension():
    x, module = np.arange(10, dtype=np.float32), textual.parse(RANK_1)
    out = [[x, np.full(20, -1, np.float32)] for _ in range(2)]
    tileir.interpret(module, None, 1, out[0])
    SimtExecutor().launch(module, None, 1, out[1], num_warps=1)
    np.testing.assert_array_equal(out[1][1], out[0][1])
    assert out[0][1].tolist() == [-1] * 6 + [3, 4, 5, 6, 7, 8, 9] + [0] * 7
