"""The assembler's library as this package calls it: a made-up one that remembers."""

import ctypes
import importlib.util
import os
from types import SimpleNamespace

import pytest

from tests.sizes import for_each
from tileir.backend import assembler, compile as compile_kernel
from tileir.backend.nvptx.text import literal
from tileir.backend.ptxas import assemble_with_ptxas, ptxas
from tileir.backend.target import target
from tileir.errors import CompileError
from tileir.textual import parse
from tileir.types import I8, AddressSpace, Pointer

SWIGLU = """tir 1.0
define kernel void @swiglu(bf16* aligned(16) %a, bf16* aligned(16) %b, bf16* aligned(16) %c) {
entry:
  %i = make_range i32<16384>
  %mask, _ = icmp (i1<16384>, i1<16384>) %i, 11008 {predicate = slt}
  %as = splat bf16*<16384> %a
  %from = getelementptr bf16*<16384> %as, %i
  %narrow = load bf16<16384> %from, %mask, 0.0
  %x = fpext f32<16384> %narrow
  %bs = splat bf16*<16384> %b
  %with = getelementptr bf16*<16384> %bs, %i
  %y = load bf16<16384> %with, %mask, 0.0
  %negative = fneg f32<16384> %x
  %power = exp f32<16384> %negative {fast = approx}
  %sum = fadd f32<16384> %power, 1.0
  %sigmoid = fdiv f32<16384> 1.0, %sum {fast = approx}
  %silu = fmul f32<16384> %x, %sigmoid
  %rounded = fptrunc bf16<16384> %silu
  %result = fmul bf16<16384> %rounded, %y
  %cs = splat bf16*<16384> %c
  %to = getelementptr bf16*<16384> %cs, %i
  store %to, %result, %mask
  ret
}
"""

LOG = b"Used 40 registers, 2048 bytes smem, 16 bytes stack frame, 8 bytes spill stores"


class Library:
    """nvJitLink that takes everything."""

    def __init__(self, fails=()):
        self.options, self.fails, self.destroyed, self.unknown = [], fails, 0, ""

    def nvJitLinkCreate(self, handle, count, options):
        self.options = [options[i].decode() for i in range(count)]
        return 1 if self.unknown in self.options else 0

    def nvJitLinkDestroy(self, handle):
        self.destroyed += 1
        return 0

    def nvJitLinkAddData(self, handle, kind, code, size, name):
        return 4 if "AddData" in self.fails else 0

    def nvJitLinkComplete(self, handle):
        return 0

    def nvJitLinkGetLinkedCubinSize(self, handle, size):
        size._obj.value = 3
        return 0

    def nvJitLinkGetLinkedCubin(self, handle, buffer):
        buffer.raw = b"elf"
        return 0

    def nvJitLinkGetInfoLogSize(self, handle, size):
        size._obj.value = len(LOG)
        return 0

    def nvJitLinkGetInfoLog(self, handle, buffer):
        buffer.raw = LOG
        return 0

    def nvJitLinkGetErrorLogSize(self, handle, size):
        return self.nvJitLinkGetInfoLogSize(handle, size)

    def nvJitLinkGetErrorLog(self, handle, buffer):
        return self.nvJitLinkGetInfoLog(handle, buffer)


@pytest.fixture
def library(monkeypatch):
    """nvJitLink, where there is no `ptxas`."""
    library = Library()
    monkeypatch.setattr(assembler, "ptxas", lambda: None)
    monkeypatch.setattr(assembler, "_library", lambda: library)
    return library


@pytest.mark.parametrize(("size", "less"), [(1000, False), (5 << 16, False), ((5 << 16) + 1, True)])
def test_large_code_is_scheduled_with_less_effort(library, size, less):
    result = assembler.assemble("x" * size, "k", target("sm_90"))
    assert (result.cubin, result.registers, result.shared) == (b"elf", 40, 2048)
    assert ("-Xptxas=-O1" in library.options) == less
    assert "-arch=sm_90" in library.options and library.destroyed == 1


@pytest.mark.parametrize(("size", "less"), [(1000, False), ((5 << 16) + 1, True)])
def test_so_is_large_code_by_ptxas(monkeypatch, size, less):
    def assembled_by(tool, ptx, machine, options):
        calls.append(options)
        return b"elf", LOG.decode()

    calls = []
    monkeypatch.setattr(assembler, "ptxas", lambda: "ptxas")
    monkeypatch.setattr(assembler, "assemble_with_ptxas", assembled_by)
    assembler.assemble("x" * size, "k", target("sm_90a"))
    assembler.assemble("x" * size + "\t.loc", "k", target("sm_90a"))
    expected = ["-O1"] if less else []
    assert calls == [expected, [*expected, "-lineinfo"]]


def test_libraries_are_linked(library, monkeypatch):
    monkeypatch.setattr(assembler, "ptxas", lambda: "ptxas")
    assembler.assemble("", "k", target("sm_90"), ["more PTX"])
    assert library.destroyed == 1


@pytest.mark.parametrize(
    ("message", "linked"),
    [
        ("ptxas fatal   : Unsupported .version 9.0; current version is '8.7'", 1),
        ("ptxas fatal   : Value 'sm_121' is not defined for option 'gpu-name'", 1),
        ("ptxas /tmp/k, line 3; error: syntax error", 0),
    ],
)
def test_nvjitlink_assembles_what_ptxas_is_too_old_for(
    library, monkeypatch, tmp_path, message, linked
):
    tool = tmp_path / "ptxas"
    tool.write_text(f'#!/bin/sh\necho "{message}" >&2\nexit 1\n')
    tool.chmod(0o755)
    monkeypatch.setattr(assembler, "ptxas", lambda: str(tool))
    if linked:
        assert assembler.assemble("", "k", target("sm_90")).cubin == b"elf"
    else:
        with pytest.raises(CompileError, match="syntax error"):
            assembler.assemble("", "k", target("sm_90"))
    assert library.destroyed == linked


def test_ptxas_compiles_a_whole_program(benchmarks):
    """A SwiGLU of 512 threads and 16 elements each needs no more than 40 registers, so that three
    blocks are resident; compiled for linking it takes more. What the benchmarks read in the cubin
    is what the assembler prints."""
    if ptxas() is None:
        pytest.skip("there is no ptxas")
    code = compile_kernel(parse(SWIGLU), "sm_90a", {"num_warps": 16}).machine_code
    assert code.registers <= 40
    sections = benchmarks("public.compile").machine_code(code.cubin)
    assert (sections["registers"], sections["stack"]) == (code.registers, 0)
    assert sections["bytes"] > 0


@pytest.mark.parametrize(("message", "code"), [("Insufficient registers (32)", "TIR0708"),
                                            ("syntax error", "TIR0705")])  # fmt: skip
def test_what_ptxas_refuses(tmp_path, message, code):
    tool = tmp_path / "ptxas"
    tool.write_text(f"#!/bin/sh\necho '{message}' >&2\nexit 1\n")
    tool.chmod(0o755)
    with pytest.raises(CompileError, match=code):
        assemble_with_ptxas(str(tool), "", target("sm_90a"), [])


@pytest.mark.parametrize("own", [None, "glibc.malloc.check=1"])
def test_ptxas_takes_large_pages_unless_told_otherwise(monkeypatch, tmp_path, own):
    """A made-up one that gives its environment for a cubin."""
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if own:
        monkeypatch.setenv("GLIBC_TUNABLES", own)
    tool = tmp_path / "ptxas"
    tool.write_text('#!/bin/sh\nfor last; do :; done\necho "$GLIBC_TUNABLES $HOME" > "$last"\n')
    tool.chmod(0o755)
    cubin, _ = assemble_with_ptxas(str(tool), "", target("sm_90a"), [])
    tunables, folder = cubin.decode().split()
    assert folder == os.environ["HOME"]
    assert tunables == own if own else "hugetlb=1" in tunables


def test_the_cache_of_the_driver_is_not_asked(library):
    """What it finds comes without a word on registers."""
    assembler.assemble("", "k", target("sm_90"))
    assert "-no-cache" in library.options


def test_a_library_that_is_too_old(library):
    library.unknown = "-no-cache"
    with pytest.raises(CompileError, match=r"status 1 .*12\.5 or newer") as caught:
        assembler.assemble("", "k", target("sm_90"))
    assert caught.value.code == "TIR0705"


def test_a_library_that_fails_is_let_go(library):
    library.fails = ("AddData",)
    with pytest.raises(CompileError, match="status 4 on k") as caught:
        assembler.assemble("", "k", target("sm_90"))
    assert caught.value.code == "TIR0705" and library.destroyed == 1


NAMES = ["nvJitLinkCreate", *(f"__nvJitLinkCreate_{a}_{b}" for a in (12, 13) for b in range(10))]


@for_each("name", NAMES)
def test_functions_of_every_version_are_found(name):
    function = SimpleNamespace()
    assert assembler._function(SimpleNamespace(**{name: function}), "nvJitLinkCreate") is function
    assert function.restype is ctypes.c_int


def test_of_several_versions_the_newest_is_called():
    functions = {name: SimpleNamespace() for name in NAMES[1:]}
    result = assembler._function(SimpleNamespace(**functions), "nvJitLinkCreate")
    assert result is functions["__nvJitLinkCreate_13_9"]


def test_a_function_that_is_missing():
    with pytest.raises(CompileError, match="no nvJitLinkCreate"):
        assembler._function(SimpleNamespace(__nvJitLinkCreate_11_9=1), "nvJitLinkCreate")


def test_what_to_install_where_there_is_no_assembler(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match="pip install") as caught:
        assembler._find()
    assert caught.value.code == "TIR0704"


@pytest.mark.parametrize(
    ("bits", "text"), [(0, "null"), (4096, "inttoptr (i64 4096 to ptr addrspace(1))")]
)
def test_addresses_written_out(bits, text):
    assert literal(Pointer(I8, AddressSpace.GLOBAL), bits) == text
