"""Descriptor parameters of kernels with dots are their base, extents and strides."""

from __future__ import annotations

import numpy as np

import tileir
from tests.sizes import for_each
from tileir.backend.tma.expand_descriptor_parameters import expand_descriptor_parameters
from tileir.ops.descriptor import MakeDescriptor
from tileir.textual import parse
from tileir.types import I64

KERNEL = """tir 1.0
define kernel void @k(f32* aligned(16) %y, tensor_desc<f16<16, 32>> %a, i32 %n, tensor_desc<f16<2, 32, 16>> %b) {
entry:
  %x = descriptor_load f16<16, 32> %a, %n, 8
  %ws = descriptor_load f16<2, 32, 16> %b, 1, 0, 0
  %w, _ = split (f16<32, 16>, f16<32, 16>) %turned
  %d = dot f32<16, 16> %x, %w, 0.0
  %i = make_range i32<16>
  %r = expand_dims i32<16, 1> %i {axis = 1}
  %r16 = mul i32<16, 1> %r, 16
  %rows = broadcast i32<16, 16> %r16
  %q = expand_dims i32<1, 16> %i {axis = 0}
  %columns = broadcast i32<16, 16> %q
  %o = add i32<16, 16> %rows, %columns
  %ys = splat f32*<16, 16> %y
  %p = getelementptr f32*<16, 16> %ys, %o
  store %p, %d
  ret
}
""".replace("  %w, _ =", "  %turned = trans f16<32, 16, 2> %ws {order = [1, 2, 0]}\n  %w, _ =")  # noqa: E501


def test_each_descriptor_is_a_base_its_extents_and_then_its_strides() -> None:
    """In the place of the parameter; the others stay. The kernel reads the same elements, and zeros
    beyond an extent."""
    module = parse(KERNEL)
    function = expand_descriptor_parameters(module.kernel())
    names = [str(p.name) for p in function.parameters]
    kinds = [str(p.type) for p in function.parameters]
    assert kinds == ["f32*", "f16*", *["i64"] * 4, "i32", "f16*", *["i64"] * 6]
    assert [names[i] for i in (0, 1, 6, 7)] == ["y", "a", "n", "b"]
    assert function.parameters[0].attributes.aligned == 16
    for op, first, rank in zip(function.entry.ops, (1, 7), (2, 3), strict=False):
        assert isinstance(op, MakeDescriptor)
        values = [p.value for p in function.parameters[first : first + 1 + 2 * rank]]
        base, extents, strides = values[0], values[1 : 1 + rank], values[1 + rank :]
        assert op.base is base
        assert op.dimensions == tuple(
            v for pair in zip(extents, strides, strict=True) for v in pair
        )
    a = (np.arange(24 * 40) % 5).astype(np.float16)
    b = (np.arange(3 * 30 * 16) % 7).astype(np.float16)
    expanded = module.with_functions({"k": function})
    out = np.full((16, 16), -1, np.float32)
    extents = [np.int64(n) for n in (20, 36, 40, 1, 3, 30, 16, 480, 16, 1)]
    arguments = [out, a, *extents[:4], 7, b, *extents[4:]]
    tileir.interpret(expanded, "k", (1,), arguments)
    padded = np.zeros((40, 64), np.float32)
    padded[:20, :36] = a.reshape(24, 40)[:20, :36]
    weights = np.zeros((32, 16), np.float32)
    weights[:30] = b.reshape(3, 30, 16)[1]
    assert (out == padded[7:23, 8:40] @ weights).all()


@for_each("text", [
    KERNEL.replace("%d = dot f32<16, 16> %x, %w, 0.0", "%d = fpext f32<16, 16> f16<16, 16> 1.0"),
    KERNEL.replace("define kernel void", "define void"),
    """tir 1.0
    define kernel void @k(f32* %y) {
    entry:
      %d = dot f32<16, 16> f16<16, 16> 1.0, f16<16, 16> 1.0, 0.0
      ret
    }
    """,
])  # fmt: skip
def test_other_functions_keep_their_parameters(text: str) -> None:
    """Those without dots, that are no kernels, or that have no descriptors."""
    (function,) = parse(text).functions.values()
    assert expand_descriptor_parameters(function) is function


@for_each("rank", range(1, 4))
def test_extents_and_strides_are_of_64_bits(rank: int) -> None:
    shape = ", ".join(["16"] * rank)
    text = f"""tir 1.0
    define kernel void @k(tensor_desc<f16<{shape}>> %a) {{
    entry:
      %d = dot f32<16, 16> f16<16, 16> 1.0, f16<16, 16> 1.0, 0.0
      ret
    }}
    """
    _, *numbers = expand_descriptor_parameters(parse(text).kernel()).parameters
    assert [p.type for p in numbers] == [I64] * (2 * rank)
