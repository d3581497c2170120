"""Blocks of descriptors with dimensions of extent 1: matrices of batches, and their rows."""

import numpy as np

import tileir
import tileir.textual
from tests.launches import assert_equal_results
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.legalize.descriptors import expand_descriptors
from tileir.types import shape_of

MATMUL = """\
tir 1.0

define kernel void @k(f16* aligned(16) %x, f16* aligned(16) %y, f32* aligned(16) %z) {
entry:
  %batch = program_id i32 {axis = 1}
  %pid = program_id i32
  %row = mul i32 %pid, 64
  %a = make_descriptor AB %x, [i32 2, i32 12800], [i32 100, i32 128], [i32 128, i32 1]
  %b = make_descriptor AB %y, [i32 2, i32 8192], [i32 64, i32 128], [i32 128, i32 1]
  %c = make_descriptor C %z, [i32 2, i32 6400], [i32 100, i32 64], [i32 64, i32 1]
  br loop
loop:
  %k = phi i32 [0, entry], [%next, loop]
  %sum = phi f32<64, 64> [0.0, entry], [%total, loop]
  %l = descriptor_load f16<1, 64, 32> %a, %batch, %row, %k
  %r = descriptor_load f16<1, 64, 32> %b, %batch, 0, %k
  %left = reshape f16<64, 32> %l
  %square = reshape f16<64, 32> %r
  %right = trans f16<32, 64> %square {order = [1, 0]}
  %total = dot f32<64, 64> %left, %right, %sum
  %next = add i32 %k, 32
  %more, _ = icmp (i1, i1) %next, 128 {predicate = slt}
  cond_br %more, loop, done
done:
  %out = reshape f32<1, 64, 64> %total
  descriptor_store %c, %out, %batch, %row, 0
  ret
}
""".replace("AB", "tensor_desc<f16<1, 64, 32>>").replace("C", "tensor_desc<f32<1, 64, 64>>")


def arguments():
    random = np.random.default_rng(0)
    x = random.integers(-4, 4, (2, 100, 128)).astype(np.float16)
    y = random.integers(-4, 4, (2, 64, 128)).astype(np.float16)
    z = np.full((2, 100, 64), 7, np.float32)
    return [x, y, z], np.einsum("bmk,bnk->bmn", x.astype(np.float32), y.astype(np.float32))


@for_each("batches", [2, 3])
def test_blocks_of_one_batch_are_operands_of_dots(batches):
    """They are copied asynchronously. The third batch is outside of the tensors."""
    module = tileir.textual.parse(MATMUL)
    function = expand_descriptors(module.functions["k"])
    accesses = [op for op in function.ops if op.mnemonic in ("load", "store")]
    assert {shape_of(op.inputs[0].type) for op in accesses} == {(64, 32), (64, 64)}
    options = {"num_warps": 4, "num_stages": 3, "warp_specialize": False}
    ptx = compile_kernel(module, "sm_90a", options=options).ptx
    assert "cp.async" in ptx and "wgmma" in ptx and "ld.global" not in ptx
    assert "ldmatrix" not in ptx  # both operands are read from where they were copied to
    inputs, expected = arguments()
    results = assert_equal_results(module, inputs, (2, batches), target="sm_90a", **options)
    np.testing.assert_array_equal(results[2], expected)


@for_each("op", ["descriptor_store", "descriptor_reduce"])
def test_rows_of_one_element(op):
    """All dimensions of a block may have the extent 1."""
    added = "{op = fadd}" if op == "descriptor_reduce" else ""
    text = f"""
tir 1.0

define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y) {{
entry:
  %pid = program_id i32
  %a = make_descriptor tensor_desc<f32<1, 1>> %x, [i32 3, i32 4], [i32 4, i32 1]
  %b = make_descriptor tensor_desc<f32<1, 1>> %y, [i32 3, i32 4], [i32 4, i32 1]
  %v = descriptor_load f32<1, 1> %a, %pid, 2
  {op} %b, %v, %pid, 1 {added}
  ret
}}
"""
    module = tileir.textual.parse(text)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays = [x, np.zeros_like(x)]
    _, y = assert_equal_results(module, arrays, (5, 1), target="sm_90a", num_warps=1)
    np.testing.assert_array_equal(y[:, 1], x[:, 2])
    assert y.sum() == x[:, 2].sum()
