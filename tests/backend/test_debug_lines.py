"""Line tables: what the machine code says it comes from."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import tileir.backend
from tileir.backend import CompiledKernel
from tileir.backend.machine_code import sections
from tileir.backend.target import target
from tileir.builder import F32, Builder, pointer
from tileir.ir import Module
from tileir.textual import parse

pytest.importorskip("nvidia")

ROWS = """tir 1.0

define f32 @twice(f32 %v) {
entry:
  %w = fadd f32 %v, %v loc("library.py":7:9)
  ret %w
}

define kernel void @rows(f32* %x, f32* %y, i32 %n) {
entry:
  %i = make_range i32<128>
  %ns = splat i32<128> %n
  %in, _ = icmp (i1<128>, i1<128>) %i, %ns {predicate = slt}
  %xs = splat f32*<128> %x
  %p = getelementptr f32*<128> %xs, %i
  %v = load f32<128> %p, %in, 0.0
  %sum = reduce f32 %v {combiner = fadd}
  %more = call f32 @twice, %sum
  %all = splat f32<128> %more
  %ys = splat f32*<128> %y
  %q = getelementptr f32*<128> %ys, %i
  store %q, %all, %in
  ret
}
"""


def compile_with_lines(module: Module, line_info: bool, **options: object) -> CompiledKernel:
    return tileir.backend.compile(
        module, "sm_80", {"num_warps": 4, "line_info": line_info, **options}
    )


def number(data: Iterator[int]) -> int:
    """An unsigned LEB128."""
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return value


def read_signed_leb128(data: Iterator[int]) -> int:
    """A signed LEB128."""
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value - (1 << shift) if byte & 64 else value
    raise AssertionError("cut off")


def table(section: bytes) -> tuple[list[str], list[tuple[int, int]]]:
    """File names, and (file, line) of every row of a line table of DWARF 2 (section 6.2)."""
    (length,) = struct.unpack_from("<I", section, 6)
    least, _, base, span, opcodes = struct.unpack_from("<BBbBB", section, 10)
    at = 15 + opcodes - 1
    while section[at]:
        at = section.index(b"\0", at) + 1
    files, at = list[str](), at + 1
    while section[at]:
        end = section.index(b"\0", at)
        files.append(section[at:end].decode())
        rest = iter(section[end + 1 :])
        before = len(section) - end - 1
        for _ in range(3):
            number(rest)
        at = end + 1 + before - len(list(rest))
    assert least >= 1
    program = iter(section[10 + length :])
    return files, list(rows(program, (base, span, opcodes), section[15 : 15 + opcodes - 1]))


def rows(
    program: Iterator[int], special: tuple[int, int, int], lengths: bytes
) -> Iterator[tuple[int, int]]:
    base, span, opcodes = special
    file = line = 1
    for code in program:
        if code >= opcodes:
            line += base + (code - opcodes) % span
            yield file, line
        elif code == 0:
            size = number(program)
            for _ in range(size):
                next(program)
        elif code == 1:
            yield file, line
        elif code == 3:
            line += read_signed_leb128(program)
        elif code == 4:
            file = number(program)
        elif code == 9:
            next(program), next(program)
        else:
            for _ in range(lengths[code - 1]):
                number(program)


def test_the_table_names_files_and_lines() -> None:
    done = compile_with_lines(parse(ROWS, "rows.tir"), True)
    files, places = table(dict(sections(done.cubin))[".debug_line"])
    named_lines = {(files[file - 1], line) for file, line in places}
    start = ROWS.splitlines().index("  %i = make_range i32<128>") + 1
    in_kernel = {line for file, line in named_lines if file == "rows.tir"}
    stated = {"load", "reduce", "store"}
    expected = {n for n, t in enumerate(ROWS.splitlines(), 1) if stated & set(t.split())}
    assert expected <= in_kernel <= {*range(start - 2, start + 13)}
    assert ("library.py", 7) in named_lines


def test_lines_of_python_are_the_caller_s() -> None:
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        (x + b.arange(128)).store(1.5)
    done = compile_with_lines(b.module(), True)
    files, places = table(dict(sections(done.cubin))[".debug_line"])
    source = Path(__file__).read_text().splitlines()
    assert files == [Path(__file__).name]
    assert {source[line - 1].strip() for _, line in places} >= {"(x + b.arange(128)).store(1.5)"}


@pytest.mark.parametrize("warps", [1, 4])
def test_the_code_is_the_same(warps: int) -> None:
    module = parse(ROWS)
    plain, lined = (
        dict(sections(compile_with_lines(module, x, num_warps=warps).cubin)) for x in (False, True)
    )
    codes = [name for name in plain if name.startswith(".text.")]
    assert codes and all(plain[name] == lined[name] for name in codes)
    assert ".debug_line" not in plain


def test_names_may_hold_anything() -> None:
    done = compile_with_lines(parse(ROWS, 'a "strange"\\né.tir'), True)
    assert done.ptx.count(".file") == 2 and done.cubin


def test_kernels_of_one_module_have_tables_of_their_own() -> None:
    from tileir.backend.compile import Options, run_pipeline
    from tileir.backend.nvptx.emit import KernelUnit, emit_kernel, join_kernels
    from tileir.backend.nvptx.llvm_codegen import to_ptx

    parts = []
    for index, name in enumerate(("one", "two")):
        module = parse(ROWS.replace("@rows", f"@{name}"), f"{name}.tir")
        done = run_pipeline(module, target("sm_80"), Options(num_warps=4), None)
        unit = KernelUnit(done.stages["barriers"], name, done.memory, 4, line_info=True)
        parts.append(emit_kernel(unit, target("sm_80"), index))
    ptx = to_ptx(join_kernels(parts), target("sm_80"))
    assert '"one.tir"' in ptx and '"two.tir"' in ptx


def test_names_that_are_no_words() -> None:
    text = """tir 1.0

define private i32 @"a \\"b"(i32 %x, i32 %y) {
entry:
  %m = mul i32 %x, %y
  ret %m
}

define kernel void @"k \\"é"(i32* %p) {
entry:
  %o = make_range i32<64>
  %r = reduce i32 %o {combiner = @"a \\"b"}
  store %p, %r
  ret
}
"""
    assert (
        ".entry kx$k$20$$22$$e9$(" in compile_with_lines(parse(text, "k.tir"), line_info=True).ptx
    )


def test_a_name_of_a_file_that_is_no_text() -> None:
    module = parse("tir 1.0\n\ndefine kernel void @k() {\nentry:\n  ret\n}\n", "odd\udcff.tir")
    assert "odd\\377.tir" in compile_with_lines(module, line_info=True).ptx
