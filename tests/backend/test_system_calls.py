"""Printing, failing, and code of others: what threads print, what assembles, what is refused."""

import re

import numpy as np
import pytest

import tileir
from tileir import textual
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.nvptx.libraries import functions_of
from tileir.backend.nvptx.llvm_codegen import llvm_binding
from tileir.errors import CompileError, LaunchError

PRINTS = """tir 1.0
define kernel void @k(f32* %x, i32 %n) {
entry:
  %r = make_range i32<4>
  %xs = splat f32*<4> %x
  %p = getelementptr f32*<4> %xs, %r
  %v = load f32<4> %p
  %h, _ = icmp (i1<4>, i1<4>) %r, 2 {predicate = slt}
  %s = add i32 %n, 0
  print %v {prefix = "x"}
  @%h print %v
  print %s {prefix = "n", hex = true}
  ret
}
"""


def lines(text, arguments, grid=1, **options):
    printed = []
    SimtExecutor().launch(textual.parse(text), None, grid, arguments, output=printed, **options)
    return printed


@pytest.mark.parametrize("warps", [1, 4])
def test_every_element_is_printed_once(warps):
    x = np.array([1, 2.5, -3, 0.1], np.float32)
    printed = lines(PRINTS, [x, 255], num_warps=warps)
    assert sorted(printed) == sorted(
        [f"(0, 0, 0) <string>:10: [{i}] x {v:.9g}" for i, v in enumerate(x)]
        + [f"(0, 0, 0) <string>:11: [{i}] {x[i]:.9g}" for i in range(2)]
        + ["(0, 0, 0) <string>:12: n 0xff"]
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_printing_assembles(target):
    compiled = compile_kernel(textual.parse(PRINTS), target)
    assert "vprintf" in compiled.ptx and len(compiled.cubin) > 0


def test_pointers_are_printed_as_numbers():
    text = PRINTS.replace("print %s {", "print %p {")
    compiled = compile_kernel(textual.parse(text), "sm_90", {"num_warps": 1})
    assert "n 0x%llx" in compiled.llvm and len(compiled.cubin) > 0


ASSERTS = """tir 1.0
define kernel void @k(i32 %n) {
entry:
  %c, _ = icmp (i1, i1) %n, 4 {predicate = slt}
  assert %c {message = "n below \\"4\\""}
  ret
}
"""


def test_a_failed_assertion_says_where_and_what():
    lines(ASSERTS, [3])
    with pytest.raises(LaunchError, match=r'<string>:5:3: error\[TIR0713\]: assert: n below "4"'):
        lines(ASSERTS, [4])
    compiled = compile_kernel(textual.parse(ASSERTS), "sm_90")
    assert "__assertfail" in compiled.ptx and len(compiled.cubin) > 0


ASSEMBLY = """tir 1.0
define kernel void @k(i8* aligned(16) %x) {
entry:
  %r = make_range i32<512>
  %xs = splat i8*<512> %x
  %p = getelementptr i8*<512> %xs, %r
  %v = load i8<512> %p
  %w = inline_asm i8<512> %v {text = "not.b32 $0, $1;", constraints = "=r,r", pack = 4}
  store %p, %w
  ret
}
"""


SCATTER = """tir 1.0
define kernel void @k(f32* %x, i32* %to, f32* %y) {
entry:
  %n = make_range i32<128>
  %xs = splat f32*<128> %x
  %px = getelementptr f32*<128> %xs, %n
  %v = load f32<128> %px
  %tos = splat i32*<128> %to
  %pt = getelementptr i32*<128> %tos, %n
  %i = load i32<128> %pt
  %c, _ = icmp (i1<128>, i1<128>) %i, 8 {predicate = ult}
  assert %c {message = "an index"}
  %ys = splat f32*<128> %y
  %py = getelementptr f32*<128> %ys, %i
  store %py, %v
  ret
}
"""


def test_loads_before_an_assertion_do_not_wait_for_it():
    ptx = compile_kernel(textual.parse(SCATTER), "sm_90", {"num_warps": 4}).ptx
    until_branch = ptx[: re.search(r"@!?%p\d+ bra", ptx).start()]
    assert until_branch.count("ld.global") == 2


def test_inline_assembly_needs_permission():
    module = textual.parse(ASSEMBLY)
    with pytest.raises(CompileError, match="TIR0712") as caught:
        compile_kernel(module, "sm_90")
    assert caught.value.diagnostics[0].location.line == 8
    compiled = compile_kernel(module, "sm_90", {"permit": ("inline_asm",), "num_warps": 1})
    assert compiled.ptx.count("not.b32") == 4 and len(compiled.cubin) > 0
    with pytest.raises(LaunchError, match="TIR0712"):
        lines(
            ASSEMBLY.replace("not.b32", "nop.b32"), [np.zeros(512, np.int8)], permit=("inline_asm",)
        )


@pytest.mark.parametrize(
    ("element", "pack", "letter", "calls", "moves"),
    [("f32", 1, "f", 16, 0), ("f32", 2, "f", 8, 0), ("f16", 1, "h", 16, 0), ("f16", 2, "r", 8, 1),
     ("i8", 4, "r", 4, 1), ("i32", 4, "r", 4, 0), ("f64", 2, "d", 8, 0)],
)  # fmt: skip
def test_elements_of_inline_assembly(element, pack, letter, calls, moves):
    """As many as asked for at once; those of fewer than 32 bits share a register, others have
    one each, of their own kind."""
    words = pack * {"i8": 1, "f16": 2}.get(element, 4) // 4 if moves else pack
    kinds = ",".join([f"={letter}"] * words + [letter] * words)
    module = textual.parse(f"""tir 1.0
define kernel void @k({element}* aligned(16) %x) {{
entry:
  %r = make_range i32<512>
  %xs = splat {element}*<512> %x
  %p = getelementptr {element}*<512> %xs, %r
  %v = load {element}<512> %p
  %w = inline_asm {element}<512> %v {{text = "// here", constraints = "{kinds}", pack = {pack}}}
  store %p, %w
  ret
}}
""")
    options = {"permit": ("inline_asm",), "num_warps": 1}
    assert compile_kernel(module, "sm_90", options).ptx.count("// here") == calls


@pytest.mark.parametrize(("kind", "pack", "packs"), [
    ("f32<96>", 2, [2, 1]), ("f32<96>", 4, [3]), ("f32<32>", 8, [1]), ("f32", 4, [1]),
])  # fmt: skip
@pytest.mark.parametrize("pure", ["true", "false"])
def test_missing_elements_of_the_last_pack_are_the_last_one(kind, pack, packs, pure):
    """Where Triton's are undefined. What is not pure is executed no more often."""
    places = ", ".join(f"${n}" for n in range(pack, 2 * pack))
    kinds = ",".join(["=f"] * pack + ["f"] * pack)
    shape = kind.removeprefix("f32")
    pointers = "  %xs = splat f32*<N> %x\n  %r = make_range i32<N>\n".replace("<N>", shape)
    pointers += f"  %p = getelementptr f32*{shape} %xs, %r\n"
    module = textual.parse(
        f"""tir 1.0
define kernel void @k(f32* %x) {{
entry:
{pointers if shape else "  %p = getelementptr f32* %x, i32 0"}
  %v = load {kind} %p
  %w = inline_asm {kind} %v {{text = "// of {places};", constraints = "{kinds}", pure = {pure},
    pack = {pack}}}
  store %p, %w
  ret
}}
""".replace(",\n    pack", ", pack")
    )
    ptx = compile_kernel(module, "sm_90", {"permit": ("inline_asm",), "num_warps": 1}).ptx
    matches = re.findall(r"// of (.*);", ptx)
    assert [len(set(registers.split(", "))) for registers in matches] == packs


EXTERN = """tir 1.0
define kernel void @k(f32* %x) {{
entry:
  %v = load f32 %x
  %w = extern_elementwise f32 %v {{symbol = "{symbol}"}}
  store %x, %w
  ret
}}
"""

LIBRARY = """
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 r) twice(.param .b32 a)
{ .reg .f32 %f; ld.param.f32 %f, [a]; add.f32 %f, %f, %f; st.param.f32 [r], %f; ret; }
"""


def test_functions_of_libraries_need_permission():
    module = textual.parse(EXTERN.format(symbol="twice"))
    with pytest.raises(CompileError, match="TIR0712"):
        compile_kernel(module, "sm_90")
    options = {"permit": ("extern",), "libraries": (LIBRARY,)}
    assert len(compile_kernel(module, "sm_90", options).cubin) > 0


LLVM_LIBRARY = """
target triple = "nvptx64-nvidia-cuda"
@three = internal addrspace(4) constant float 3.0
define float @thrice(float %x) {
  %s = load float, ptr addrspace(4) @three
  %y = call float @product(float %x, float %s)
  ret float %y
}
define float @product(float %x, float %y) noinline {
  %z = fmul float %x, %y
  ret float %z
}
define float @unused(float %x) {
  %y = call float @unknown(float %x)
  ret float %y
}
declare float @unknown(float)
"""


def bitcode(text):
    return llvm_binding().parse_assembly(text).as_bitcode()


def test_functions_of_bitcode_are_taken_with_what_they_call():
    text, functions = functions_of(bitcode(LLVM_LIBRARY), {"thrice", "fourfold"})
    assert functions == {"thrice"}
    assert "@product" in text and "@unused" not in text
    assert functions_of(bitcode(LLVM_LIBRARY), {"fourfold"}) == ("", set())
    with pytest.raises(CompileError, match="TIR0719"):
        functions_of(b"not bitcode", {"thrice"})


def test_functions_of_llvm_libraries_are_inlined():
    module = textual.parse(EXTERN.format(symbol="thrice"))
    text, _ = functions_of(bitcode(LLVM_LIBRARY), {"thrice"})
    options = {"permit": ("extern",), "libraries": (text,)}
    kernel = compile_kernel(module, "sm_90", options)
    assert "mul" in kernel.ptx and ".visible .func" not in kernel.ptx
    assert "@thrice" not in kernel.optimized_llvm
    assert len(kernel.cubin) > 0
    options["libraries"] = ("no LLVM IR",)
    with pytest.raises(CompileError, match="TIR0719"):
        compile_kernel(module, "sm_90", options)


def test_functions_of_libdevice_are_ours():
    module, x = textual.parse(EXTERN.format(symbol="__nv_expf")), np.array([1.5], np.float32)
    expected = x.copy()
    tileir.interpret(module, None, 1, [expected])
    SimtExecutor().launch(module, None, 1, [x])
    np.testing.assert_allclose(x, expected, rtol=2**-22)
