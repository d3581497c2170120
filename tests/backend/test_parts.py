"""Long functions cut into parts: what is cut, what it means, and what the assembler says."""

import re
from collections import Counter

import numpy as np
import pytest

import tileir
from tests.backend.test_scaling import (
    accesses,
    arithmetic,
    branches,
    calls_of,
    loops,
    module,
    reductions,
    text,
)
from tileir.backend import compile as compile_kernel
from tileir.backend.cpu import compile as cpu
from tileir.backend.cpu.executor import CpuExecutor
from tileir.backend.llvm import cutting, optimise
from tileir.backend.llvm.cutting import Lines, regions
from tileir.backend.llvm.optimise import loaded, to_ptx
from tileir.backend.llvm.parts import divided
from tileir.backend.llvm.types import defined_type
from tileir.backend.target import target
from tileir.builder import F16, F32, I32, Builder, pointer
from tileir.ir import Module
from tileir.testing.checking import CPU, case, check

SHAPES = [arithmetic, accesses, branches, loops, reductions]


@pytest.fixture
def cut(monkeypatch):
    """Cuts whatever can be cut into parts of `least` to `most` lines."""

    def into(least, most):
        monkeypatch.setattr(optimise, "_LONG", 0)
        monkeypatch.setattr(cutting, "_LEAST", least)
        monkeypatch.setattr(cutting, "_MOST", most)

    return into


@pytest.fixture
def cut_for_cpu(cut, monkeypatch):
    """As `cut`, for code of this machine's CPU; what was cut, as text."""
    cut(4, 40)
    texts, load = [], cpu.load

    def loaded_in_parts(text, optimize):
        texts.append(divided(text, 0))
        return load(texts[-1], optimize)

    monkeypatch.setattr(cpu, "load", loaded_in_parts)
    return texts


def lengths(text: str) -> list[int]:
    """Lines of each function."""
    return [
        body.count("\n") for body in re.findall(r"^define .*?^}", text, re.MULTILINE | re.DOTALL)
    ]


def values(text: str) -> dict[tuple[str, str], str]:
    """What LLVM takes for the types of all values, by function and name."""
    found = {}
    for function in loaded().parse_assembly(text).functions:
        for block in function.blocks:
            for instruction in block.instructions:
                found[function.name, instruction.name] = str(instruction.type)
    return found


def typed(text: str) -> dict[tuple[str, str], str]:
    """The same as `defined_type` reads them."""
    found, function = {}, ""
    for line in text.split("\n"):
        if line.startswith("define "):
            function = re.search(r"@([\w.$]+)\(", line)[1]
        if line.startswith("  %"):
            name, instruction = line[3:].split(" = ", 1)
            found[function, name] = defined_type(instruction)
    return found


def agree_on_types(text: str) -> None:
    wanted = values(text)
    for place, kind in typed(text).items():
        assert kind.replace(" ", "") == wanted[place].replace(" ", ""), place


# What is cut ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_no_function_of_a_long_program_is_long(cut, shape):
    """Whatever its shape: what LLVM and the assembler see at once is bounded."""
    whole = text(module(shape, 300))
    cut(50, 200)
    found = divided(whole, 400)
    assert max(lengths(whole)) > 600
    assert max(lengths(found)) <= 250, lengths(found)
    assert sum(lengths(found)) <= 1.2 * sum(lengths(whole))
    loaded().parse_assembly(found).verify()


@pytest.mark.parametrize("shape", SHAPES)
def test_cutting_is_linear(cut, shape):
    cut(50, 200)
    small, large = text(module(shape, 50)), text(module(shape, 400))
    assert calls_of(lambda: divided(large, 0)) <= 9 * calls_of(lambda: divided(small, 0))


def test_kernels_that_are_not_long_are_the_same_text():
    whole = text(module(accesses, 300))
    assert divided(whole, 16_000) == whole
    assert ".func" not in to_ptx(whole, target("sm_90"))[0]


def test_short_functions_beside_long_ones_stay(cut):
    short = "define i32 @short(i32 %a) {\nentry:\n  %b = add i32 %a, 1\n  ret i32 %b\n}"
    cut(50, 200)
    assert short in divided(f"{text(module(arithmetic, 300))}\n{short}\n", 400)


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_are_called_once_and_not_inlined(cut, shape):
    cut(50, 200)
    whole = text(module(shape, 300))
    count = divided(whole, 0).count("\ndefine internal")
    ptx, optimized = to_ptx(whole, target("sm_90"), 3)
    assert count >= 3
    assert len(re.findall(r"^\.func", ptx, re.MULTILINE)) == count
    assert len(re.findall(r"call .*@\"part\d+_\$_k\"\(", optimized)) == count


def test_too_many_values_at_once_stay_in_one_function(cut):
    """Forty sums that go on through the whole kernel."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        lanes = b.arange(128)
        sums = [(x + lanes + 128 * i).load() for i in range(40)]
        for _ in range(10):
            sums = [a * 1.5 + c for a, c in zip(sums, sums[1:] + sums[:1], strict=True)]
        for i, a in enumerate(sums):
            (y + lanes + 128 * i).store(a)
    whole = text(b.module())
    cut(100, 200)
    assert not list(regions(Lines.of(*head_and_body(whole))))
    assert divided(whole, 0) == whole


def head_and_body(text: str) -> tuple[str, list[str]]:
    found = re.search(r"^(define [^\n]*ptx_kernel.*?)\n(.*?)\n}", text, re.MULTILINE | re.DOTALL)
    return found[1], found[2].split("\n")


def test_kernels_with_lines_for_debuggers_stay_whole(cut):
    cut(50, 200)
    found = compile_kernel(module(arithmetic, 300), "sm_90", {"lines": True})
    assert ".func" not in found.ptx and ".loc" in found.ptx


def test_kernels_with_roles_stay_whole(cut):
    cut(12, 60)
    b = Builder()
    data = pointer(F16)
    with b.kernel("k", a=data, b=data, c=pointer(F32), k=I32) as (x, y, z, k):
        i, step, acc = b.arange(128), b.arange(64), b.var(b.zeros((128, 128)))
        with b.for_(0, k, 64) as start:
            left = (x + i[:, None] * 4096 + (start + step)).load()
            right = (y + (start + step)[:, None] * 4096 + i).load()
            acc.set(left.dot(right, acc))
        (z + i[:, None] * 4096 + i).store(acc)
    found = compile_kernel(b.module(), "sm_90a")
    assert "wgmma" in found.ptx and ".func" not in found.ptx


def test_registers_of_assembly_are_no_values(cut):
    """%t2 is a value of one branch, and a register of the assembly behind it."""
    body = ["bb0:", "  br i1 %c, label %bb1, label %bb2", "bb1:", "  %t2 = add i32 %a, 1",
            "  br label %bb2", "bb2:", '  call void asm sideeffect "mov.u32 %t2, $0;", "r"(i32 %a)',
            "  %t3 = add i32 %a, 2"]  # fmt: skip
    lines = Lines.of("define void @f(i32 %a, i1 %c) {", ["entry:", "  br label %bb0", *body])
    found = lines.region(8, 10)
    assert found and [*found.entering] == ["a"]


# What it means -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_generated_programs_in_parts_compute_the_same(cut_for_cpu, seed):
    """The interpreter says what; the code is that of this machine's CPU, cut as a GPU's."""
    verdict = check(case(CPU, seed))
    assert verdict.failure is None
    assert "@part0." in cut_for_cpu[0]


def test_values_that_the_next_round_of_a_loop_takes(cut_for_cpu):
    """Phis stand before what they take from the end of a round."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I32) as (x, n):
        lanes = b.arange(32)
        first, second = b.var((x + lanes).load()), b.var((x + lanes + 32).load())
        with b.for_(0, n) as i:
            for _ in range(12):
                first.set(first * 0.5 + second)
                with b.if_(i > 2):
                    second.set(second - first)
        (x + lanes).store(first)
        (x + lanes + 32).store(second)
    wanted = np.arange(64, dtype=np.float32)
    found = wanted.copy()
    tileir.interpret(b.module(), None, 1, [wanted, 5])
    CpuExecutor().launch(b.module(), None, 1, [found, 5])
    np.testing.assert_array_equal(found, wanted)
    assert cut_for_cpu[0].count("define internal") > 3


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_types_are_those_that_llvm_takes(monkeypatch, seed):
    texts, load = [], cpu.load
    monkeypatch.setattr(cpu, "load", lambda t, o: load(texts.append(t) or t, o))
    made = case(CPU, seed)
    assert check(made).failure is None
    for found in (*texts, text(made.program.module)):
        agree_on_types(found)


@pytest.mark.parametrize(
    "instruction",
    [
        "cmpxchg ptr addrspace(1) %p, i32 %i, i32 %j monotonic monotonic",
        "atomicrmw volatile add ptr addrspace(1) %p, i32 %i monotonic",
        "extractvalue {i32, {float, <2 x i16>}} {i32 1, {float, <2 x i16>} undef}, 1",
        "insertvalue {i32, i1} undef, i32 %i, 0",
        "getelementptr {i32, double}, ptr addrspace(1) %p, i32 0, i32 1",
        "getelementptr inbounds <4 x i32>, ptr addrspace(1) %p, <2 x i32> <i32 0, i32 1>",
        "fcmp fast olt <2 x float> <float 1.0, float 2.0>, zeroinitializer",
        "select i1 true, {i32, i1} undef, {i32, i1} undef",
        "load atomic i32, ptr addrspace(1) %p monotonic, align 4",
        "call i32 asm sideeffect \"mov.b32 $0, $1;\", \"=r,r\"(i32 %i)",
        "addrspacecast ptr addrspace(1) %p to ptr",
        "alloca {i32, double}, align 8",
        "sub nuw nsw <2 x i32> <i32 1, i32 2>, zeroinitializer",
    ],
)  # fmt: skip
def test_types_of_single_instructions(instruction):
    agree_on_types(
        "define void @f(ptr addrspace(1) %p, i32 %i, i32 %j) {\nentry:\n"
        f"  %v = {instruction}\n  ret void\n}}\n"
    )


# What the assembler says ---------------------------------------------------------------------


def instructions(ptx: str) -> Counter[str]:
    return Counter(re.findall(r"^\t(?:@%\w+ )?(\w+)", ptx, re.MULTILINE))


@pytest.mark.parametrize("machine", ["sm_80", "sm_90", "sm_90a", "sm_100"])
@pytest.mark.parametrize("shape", SHAPES)
def test_parts_have_the_same_instructions(cut, shape, machine):
    made = module(shape, 40)
    usual = compile_kernel(made, machine, {"num_warps": 4})
    cut(16, 120)
    found = compile_kernel(made, machine, {"num_warps": 4})
    assert ".func" in found.ptx and ".func" not in usual.ptx
    assert found.cubin
    for name in ("bar", "shfl", "fma", "ex2"):
        assert instructions(found.ptx)[name] == instructions(usual.ptx)[name]


def pressing() -> Module:
    """Twenty sums at once, of products that need more registers yet, in a block of 32 warps."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        lanes = b.arange(4096)
        sums = [(x + lanes + 4096 * i).load() for i in range(5)]
        for _ in range(4):
            sums = [a * 1.5 + c for a, c in zip(sums, sums[1:] + sums[:1], strict=True)]
        for i, a in enumerate(sums):
            (y + lanes + 4096 * i).store(a)
    return b.module()


@pytest.mark.parametrize("warps", [4, 32])
def test_registers_are_those_of_the_parts(cut, warps):
    """What a kernel calls counts, and what a block leaves each thread holds for it as well."""
    cut(30, 60)
    found = compile_kernel(pressing(), "sm_90", {"num_warps": warps})
    assert ".func" in found.ptx
    assert 24 <= found.metadata.registers <= min(255, 65536 // (32 * warps))
    assert found.metadata.registers > 24 or warps == 32
