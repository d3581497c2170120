"""How LLVM generates machine code for CPUs."""

from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.backend.cpu.jit import generate
from tileir.backend.nvptx.llvm_codegen import llvm_binding
from tileir.textual import parse

TEXT = """tir 1.0
define kernel void @k(f32* %x, f32* %y) {
entry:
  %l = make_range i32<256>
  %xs = splat f32*<256> %x
  %p = getelementptr f32*<256> %xs, %l
  %v = load f32<256> %p
  %e = exp f32<256> %v
  %s = fadd f32<256> %e, %v
  %ys = splat f32*<256> %y
  %q = getelementptr f32*<256> %ys, %l
  store %q, %s
  ret
}
"""


def test_nothing_is_scheduled_after_register_allocation() -> None:
    """LLVM's scheduler for that takes 12 s for a block of 6,000 instructions."""
    text = compile_kernel(parse(TEXT), checked=False).llvm
    code, binding = generate(text, 3), llvm_binding()
    try:
        binding.set_option("tileir", "-post-RA-scheduler=true")
        scheduled = generate(text, 3)
    finally:
        binding.set_option("tileir", "-post-RA-scheduler=false")
    assert code != scheduled
    assert code == generate(text, 3)
