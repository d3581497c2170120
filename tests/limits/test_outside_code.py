"""Code of others is checked before LLVM: constraints, text, symbols; targets check themselves."""

import numpy as np
import pytest
from attrs import evolve

from tests.sizes import for_each
from tileir.backend import TARGETS, compile as compile_kernel
from tileir.backend.processors import OLDEST
from tileir.backend.target import Target
from tileir.builder import Builder
from tileir.errors import CompileError, DefectError, LaunchError, UnsupportedError
from tileir.executor import executor
from tileir.textual import parse
from tileir.types import F16, I32, Tile, pointer

PERMITTED = {"permit": ("inline_asm", "extern")}


def assembly(text, constraints, results="i32", operands="%n"):
    head = "%v = " if results else ""
    more = "" if results else ", pure = false"
    return parse(f"""tir 1.0
define kernel void @k(i32* %x, i32 %n, f32 %f, f64 %d, i64 %l, i1 %b) {{
entry:
  {head}inline_asm {results} {operands} {{text = "{text}", constraints = "{constraints}"{more}}}
  ret
}}
""")


GOOD = [
    ("mov.b32 $0, $1;", "=r,r"),
    ("mov.b32 ${0}, ${1};", "=&r,0"),
    ("mov.b32 $0, %laneid; // $$", "=r,r"),
    ("{ .reg .b32 t; mov.b32 $0, $1; }", "=r,r,~{memory},~{cc}"),
    ("L${:uid}: mov.b32 $0, $1;", "=r, r"),
]
REGISTERS = "=r,i =r,n =r,m =r,q =q,r =r,{r1} =r,1 =r,9 =r,X =r,b =h,r =b,r =r,\u00e9 =r,h"
CONSTRAINTS = (
    "=zzz{} ={r0} =m =i =r r =r,r,r =r,=r r,r =r,r,~x =r,r,~{} =r,r|f =r,*r =*r,r +r =r,%r"
)
CONSTRAINTS += " =&,r =r,,r =r&,r =r=r,r " + REGISTERS
TEXTS = [
    "$", "$x", "$2", "${2}", "${0:x}", "${0", "${", "${:foo}", "$-1", "$99999999999", "$(a$|b$)",
    "$0 {", "} $0", "$0 // }\\n {", "\u00e9 $0", "$0 \\u0000",
]  # fmt: skip


@pytest.mark.parametrize(("text", "constraints"), GOOD)
def test_what_fits_is_assembled(text, constraints):
    assert compile_kernel(assembly(text, constraints), "sm_80", PERMITTED).cubin


@for_each("constraints", [*CONSTRAINTS.split(), ""])
def test_constraints_that_do_not_fit_are_refused(constraints):
    with pytest.raises(CompileError) as caught:
        compile_kernel(assembly("mov.b32 $0, 1;", constraints), "sm_90a", PERMITTED)
    assert caught.value.code == "TIR0719" and caught.value.line == 4


@for_each("text", TEXTS)
def test_text_that_names_no_operand_is_refused(text):
    with pytest.raises(CompileError) as caught:
        compile_kernel(assembly(text, "=r,r"), "sm_90a", PERMITTED)
    assert caught.value.code == "TIR0719" and caught.value.line == 4


@pytest.mark.parametrize(
    ("results", "operands", "constraints"),
    [("f32", "%f", "=f,d"), ("f64", "%d", "=f,d"), ("i64", "%l", "=r,l"), ("i64", "%l", "=l,r"),
     ("i32", "%b", "=r,x"), ("i32", "%n", "=r,b"), ("(i32, i64)", "%n", "=r,=r,r")],
)  # fmt: skip
def test_registers_hold_what_they_are_for(results, operands, constraints):
    head = "%v, %w" if results.startswith("(") else "%v"
    module = parse(f"""tir 1.0
define kernel void @k(i32* %x, i32 %n, f32 %f, f64 %d, i64 %l, i1 %b) {{
entry:
  {head} = inline_asm {results} {operands} {{text = "", constraints = "{constraints}"}}
  ret
}}
""")
    with pytest.raises(CompileError, match="TIR0719"):
        compile_kernel(module, "sm_90a", PERMITTED)


def test_functions_that_are_called_need_permission_as_well():
    text = """tir 1.0
define private noinline i32 @f(i32 %n) {
entry:
  %v = inline_asm i32 %n {text = "mov.b32 $0, $1;", constraints = "=r,r"}
  ret %v
}
define kernel void @k(i32* %x, i32 %n) {
entry:
  %v = call i32 @f, %n
  store %x, %v
  ret
}
"""
    with pytest.raises(CompileError, match=r"4:3: error\[TIR0712\]"):
        compile_kernel(parse(text))
    assert compile_kernel(parse(text), options=PERMITTED).cubin
    with pytest.raises(CompileError, match=r"4:3: error\[TIR0719\]"):
        compile_kernel(parse(text.replace('"=r,r"', '"=r,i"')), options=PERMITTED)


def external(*symbols, kernel="k"):
    calls = "".join(
        f'  %v{i} = extern_elementwise f32 %f {{symbol = "{s}", library = "l"}}\n'
        for i, s in enumerate(symbols)
    )
    stores = "".join(f"  store %x, %v{i}\n" for i in range(len(symbols)))
    head = f"tir 1.0\ndefine kernel void @{kernel}(f32* %x, f32 %f) {{\nentry:\n"
    return parse(f"{head}{calls}{stores}  ret\n}}\n")


@pytest.mark.parametrize(
    "symbol", ["llvm.sin.f32", "__nvvm_reflect", "k", "vprintf", "__assertfail"]
)
def test_symbols_that_no_library_has_are_refused(symbol):
    with pytest.raises(CompileError) as caught:
        compile_kernel(external(symbol), options=PERMITTED)
    assert caught.value.code == "TIR0719" and caught.value.line == 4


def test_a_symbol_that_no_library_defines_is_no_defect_of_the_compiler():
    compiled = compile_kernel(external("nowhere"), "sm_80", PERMITTED)
    with pytest.raises(CompileError) as caught:
        compiled.cubin  # noqa: B018
    assert caught.value.code == "TIR0719" and not isinstance(caught.value, DefectError)


@for_each("processor", OLDEST)
def test_a_target_with_too_old_ptx_is_refused_when_it_is_made(processor):
    oldest = OLDEST[processor]
    instructions = "wgmma tma clusters vector_atomics stmatrix bf16_atomics bf16_arithmetic"
    plain = dict.fromkeys((*instructions.split(), "f8_conversion", "redux"), False)
    plain |= {"cp_async": False, "ldmatrix": False}
    changed_target = evolve(TARGETS["sm_80"], name=processor, ptx=oldest, **plain)
    assert changed_target.ptx == oldest
    with pytest.raises(UnsupportedError, match=f"{oldest // 10}.{oldest % 10}"):
        evolve(changed_target, ptx=60 if oldest > 60 else 59)


@for_each(
    "changes",
    [
        {"name": "sm_200"},
        {"name": "sm_80a"},
        {"name": "gfx90a"},
        {"ptx": 79},
        {"ptx": 999},
        {"wgmma": True},
        {"tma": True},
        {"f8_conversion": True},
        {"lanes": 64},
        {"max_threads": 48},
        {"max_registers": 512},
    ],
)
def test_a_target_that_cannot_be_is_refused(changes):
    with pytest.raises(UnsupportedError) as caught:
        evolve(TARGETS["sm_80"], **changes)
    assert caught.value.code == "TIR0718"


def test_all_targets_assemble():
    for name, target in TARGETS.items():
        assert isinstance(target, Target)
        assert compile_kernel(
            parse("tir 1.0\ndefine kernel void @k() {\nentry:\n  ret\n}\n"), name
        ).cubin


def test_the_simulator_computes_inline_assembly_as_the_interpreter_does():
    text = (
        "{ .reg .pred p; setp.gt.s32 p, $2, 9; selp.b32 $0, $2, 9, p; shl.b32 $1, $2, 3; }",
        "{ .reg .pred p; setp.gt.s32 p, $2, 9; selp.b32 $0, $2, 9, p; mov.u32 $1, %laneid; }",
    )

    def kernel(text):
        b = Builder()
        with b.kernel("k", x=pointer(F16), y=pointer(I32)) as (x, y):
            i = b.arange(64)
            half = (x + i).load()
            pair = {"text": "add.rn.f16x2 $0, $1, $1;", "constraints": "=r,r", "pack": 2}
            (x + i).store(b.inline_asm(Tile(F16, (64,)), half, **pair))
            both = [Tile(I32, (64,))] * 2
            low, high = b.inline_asm(both, i, text=text, constraints="=r,=r,r")
            (y + i).store(low + high)
        return b.module()

    n = np.arange(64)
    for name, options in (("interpreter", {}), ("simt", PERMITTED)):
        x, y = n.astype(np.float16), np.zeros(64, np.int32)
        executor(name).launch(kernel(text[0]), "k", 1, [x, y], **options)
        assert (x == 2 * n).all(), name
        assert (y == np.maximum(n, 9) + 8 * n).all(), name
    with pytest.raises(
        LaunchError, match=r"test_outside_code.py:\d+:\d+: error\[TIR0712\]: .*%laneid"
    ):
        executor("simt").launch(kernel(text[1]), "k", 1, [x, y], **PERMITTED)
