"""Code of one thread that LLVM takes, and what it says of a kernel's parameters and names."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import textual
from tileir.backend import compile as compile_kernel
from tileir.backend.driver.batch import compile_batch
from tileir.backend.executors import SimtExecutor
from tileir.backend.nvptx.llvm_codegen import llvm_binding
from tileir.backend.nvptx.thread import LlvmThread
from tileir.backend.target import TARGETS
from tileir.errors import CompileError
from tileir.executor import executor
from tileir.types import BF16, F16, F32, F64, I1, I8, I16, I32, I64


def llvm_text(body):
    """The text of `body` of a thread, x and y two values of each type, as LLVM takes it."""
    thread = LlvmThread()
    thread.start("bb0")
    body(thread)
    text = "\n".join([
        *thread.declarations,
        "define void @f(i32 %i32, i64 %i64, i16 %i16, i8 %i8, i1 %i1, half %f16, bfloat %bf16, "
        "float %f32, double %f64) {",
        *thread.at_entry, "  br label %bb0", *thread.lines, "  ret void", "}",
        *(f"attributes #{i} = {{ nounwind }}" for i in range(8)), "",
    ])  # fmt: skip
    llvm_binding().parse_assembly(text).verify()
    return text


@for_each("source", [F16, F32, F64])
@for_each("target", [I8, I16, I32, I64])
@for_each("name", ["fptosi.sat", "fptoui.sat"])
def test_conversions_that_saturate(name, source, target):
    text = llvm_text(lambda thread: thread.convert(name, source, target, f"%{source}"))
    assert f"= call i{target.bits} @llvm.{name}.i{target.bits}.f{source.bits}(" in text


@for_each("element", [I1, I8, I16, I32, I64, F16, BF16, F32, F64])
@for_each("mode", ["bfly", "idx"])
def test_shuffles(mode, element):
    def body(thread):
        if mode == "bfly":
            return thread.shuffle_xor(element, f"%{element}", 4)
        return thread.shuffle_index(element, f"%{element}", "%i32")

    words = max(1, element.bits // 32)
    assert llvm_text(body).count(f"call i32 @llvm.nvvm.shfl.sync.{mode}.i32") == words


ASSEMBLY = """tir 1.0
define kernel void @k(i32* %x) {
entry:
  %v = load i32 %x
  inline_asm {text = "// \\"all\\"\\nmembar.gl;", constraints = "", pure = false}
  %a, %b = inline_asm (i32, i32) %v {text = "{ not.b32 $0, $2; neg.s32 $1, $2; }", constraints = "=r,=r,r"}
  %s = sub i32 %a, %b
  store %x, %s
  ret
}
"""  # noqa: E501


def test_inline_assembly_of_no_results_and_of_two():
    compiled = compile_kernel(textual.parse(ASSEMBLY), "sm_90", {"permit": ("inline_asm",)})
    assert '// "all"\n' in compiled.ptx and "membar.gl;" in compiled.ptx
    assert "not.b32" in compiled.ptx and "neg.s32" in compiled.ptx and len(compiled.cubin) > 0


KERNEL = """tir 1.0
global i32 @count = 5
define kernel void @{name}(i32* aligned({aligned}) %x, i1 %held) {{
entry:
  %r = make_range i32<512>
  %xs = splat i32*<512> %x
  %p = getelementptr i32*<512> %xs, %r
  %v = load i32<512> %p
  %t = reduce i32 %v {{combiner = add}}
  %c = global_address i32* @count
  %old = atomic_rmw i32 %c, %t {{op = add}}
  store %x, %old
  ret
}}
"""


@pytest.mark.parametrize(("aligned", "message"), [(16, True), (128, True), (4, True), (1, True)])
def test_alignments_that_llvm_knows(aligned, message):
    module = textual.parse(KERNEL.format(name="k", aligned=aligned))
    assert (f"align {aligned} %a0" in compile_kernel(module, "sm_80").llvm) == message


def test_kernels_of_one_module_keep_their_globals_separate():
    modules = [textual.parse(KERNEL.format(name=n, aligned=4)) for n in ("a", "b", "c", "d")]
    ptx = compile_batch(modules, "sm_80").ptx
    assert not compile_batch(modules, "sm_80").refused
    assert all(f".entry {name}(" in ptx for name in "abcd")
    assert sum("count[4] = {5}" in line for line in ptx.splitlines()) == 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["shared", "g$count", "k1$shared", "k1$g$count", "run"])
def test_kernels_that_are_called_as_what_they_use(name):
    modules = [textual.parse(KERNEL.format(name=n, aligned=4)) for n in ("other", name)]
    result = [compile_kernel(each, "sm_80") for each in modules]
    assert not compile_batch(modules, "sm_80").refused
    assert all(f".entry {each.metadata.symbol}(" in each.ptx and each.cubin for each in result)
    x = np.ones(512, np.int32)
    executor("cpu").launch(modules[1], None, (1,), [x, True])
    assert x[0] == 5


def test_first_of_several_kernels_has_the_names_of_one_alone():
    module = textual.parse(KERNEL.format(name="k", aligned=4))
    assert "@g$count = " in compile_kernel(module, "sm_80").llvm


def test_what_is_counted_is_in_the_global():
    module, x = textual.parse(KERNEL.format(name="k", aligned=4)), np.ones(512, np.int32)
    SimtExecutor().launch(module, None, 1, [x, True])
    assert x[0] == 5


@pytest.mark.parametrize(
    ("options", "what", "code"),
    [({"num_warps": 33}, "must be in 1 to 32, not 33", "TIR0708"),
     ({"num_warps": -1}, "not -1", "TIR0716"),
     (8, "options are Options or a mapping, not 8", "TIR0716"),
     ({"max_registers": 31}, "must be in 32 to 255, not 31", "TIR0708"),
     ({"max_registers": 256}, "not 256", "TIR0708")],
)  # fmt: skip
def test_options_out_of_range(options, what, code):
    with pytest.raises(CompileError, match=what) as caught:
        compile_kernel(textual.parse(KERNEL.format(name="k", aligned=4)), "sm_90", options)
    assert caught.value.code == code


def test_only_modules_are_compiled():
    with pytest.raises(TypeError, match="`compile` takes a module, not a str"):
        compile_kernel(KERNEL.format(name="k", aligned=4), "sm_90")


@pytest.mark.parametrize(
    "options", [{"num_warps": 32}, {"max_registers": 32}, {"max_registers": 255}]
)
def test_options_at_the_ends_of_their_range(options):
    module = textual.parse(KERNEL.format(name="k", aligned=4))
    assert compile_kernel(module, "sm_90", options).ptx


@pytest.mark.parametrize(
    ("access", "message"), [("%v = load f32<32> %p", True), ("store %p, 1.0", False)]
)
def test_what_is_written_is_not_alone_for_one_thread(access, message):
    """Others may read it after a barrier."""
    text = f"""tir 1.0

define kernel void @k(f32* noalias %x) {{
entry:
  %i = make_range i32<32>
  %xs = splat f32*<32> %x
  %p = getelementptr f32*<32> %xs, %i
  {access}
  ret
}}
"""
    assert ("noalias %a0" in compile_kernel(textual.parse(text), "sm_80").llvm) == message


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_ordered_loads_of_what_nothing_else_writes(name):
    """LLVM is not told that such memory is invariant; loads of it are not `.nc`, either."""
    path = Path("tests/corpus/found/ordered_load_of_noalias.tir")
    compiled = compile_kernel(textual.parse(path.read_text()), name)
    for text in ("ld.acquire.gpu.global.b32", "ld.relaxed.sys.global.b64", "fence.acq_rel.cta"):
        assert text in compiled.ptx
    assert ".nc" not in compiled.ptx and compiled.cubin


OUTSIDE = """tir 1.0

define kernel void @k(i32* noalias %flag, f32* PROMISE %x, f32* noalias %y) {
entry:
  %before = load f32 %x
  %v = atomic_load i32 %flag {scope = SCOPE}
  %after = load f32 %x
  %sum = fadd f32 %before, %after
  store %y, %sum
  ret
}
"""


@pytest.mark.parametrize(
    ("scope", "promise", "loads"),
    [("sys", "", 2), ("sys", "noalias", 2), ("sys", "noalias readonly", 1), ("gpu", "noalias", 1)],
)
def test_what_the_system_writes_is_reloaded_after_an_acquire(scope, promise, loads):
    text = OUTSIDE.replace("SCOPE", scope).replace("PROMISE", promise).replace("*  %x", "* %x")
    ptx = compile_kernel(textual.parse(text), "sm_90").ptx
    assert len(re.findall(r"ld\.global(?:\.nc)?\.b32", ptx)) == loads


@pytest.mark.parametrize(
    "access",
    ["store %x, 1", "%o = atomic_rmw i32 %x, 1 {op = add}", "%o = atomic_cas i32 %x, 1, 2",
     "atomic_store %x, 1"],
)  # fmt: skip
def test_constant_memory_is_not_written(access):
    header = "define kernel void @k(i32 addrspace(4)* %x)"
    text = f"tir 1.0\n\n{header} {{\nentry:\n  {access}\n  ret\n}}\n"
    with pytest.raises(CompileError, match=r"addrspace\(4\)") as caught:
        compile_kernel(textual.parse(text), "sm_90")
    assert caught.value.code == "TIR0706" and caught.value.line == 5


@pytest.mark.parametrize("space", [0, 1, 3, 5])
@pytest.mark.parametrize("shape", ["", "<256>"])
def test_every_address_space_is_accessed(space, shape):
    """By each op and with each operator, or the error says why not."""
    pointer = f"i32 addrspace({space})*"
    lines = [f"  %i = make_range i32{shape}", f"  %xs = splat {pointer}{shape} %x"] * bool(shape)
    index, base = ("%i", "%xs") if shape else ("i32 0", "%x")
    lines += [f"  %p = getelementptr {pointer}{shape} {base}, {index}"]
    cached = ["", " {volatile = true}", " {eviction = first}"]
    for n, attributes in enumerate([*cached, " {cache = cg}"]):
        lines += [f"  %v{n} = load i32{shape} %p{attributes}", f"  store %p, %v{n}{attributes}"]
    atomics = [
        f"  %a = atomic_load i32{shape} %p", "  atomic_store %p, %v0",
        f"  %r = atomic_rmw i32{shape} %p, %v0 {{op = add}}",
        f"  %e = atomic_rmw i32{shape} %p, %v0 {{op = xchg, sem = release}}",
        f"  %c = atomic_cas i32{shape} %p, %v0, %v1",
    ]  # fmt: skip
    head = f"tir 1.0\n\ndefine kernel void @k({pointer} %x) {{\nentry:\n"
    for more in ([], *([line] for line in atomics)):
        text = head + "\n".join((*lines, *more, "  ret\n}\n"))
        if space == 5 and more:
            with pytest.raises(CompileError, match=r"TIR0706.*addrspace\(5\)"):
                compile_kernel(textual.parse(text), "sm_90")
        else:
            assert compile_kernel(textual.parse(text), "sm_90").cubin


def test_constant_memory_is_loaded_in_any_order():
    text = """tir 1.0

define kernel void @k(i32 addrspace(4)* %x, i32* %y) {
entry:
  %v = atomic_load i32 %x
  store %y, %v
  ret
}
"""
    compiled = compile_kernel(textual.parse(text), "sm_90")
    assert "ld.const.b32" in compiled.ptx and compiled.cubin


def test_what_is_stored_for_other_threads_is_stored():
    path = Path("tests/corpus/found/stored_for_other_threads.tir")
    ptx = compile_kernel(textual.parse(path.read_text()), "sm_90", {"num_warps": 8}).ptx
    assert ptx.count("st.global") == 2
