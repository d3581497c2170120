"""Compiled kernels as bytes, their metadata, and how compiling fails."""

import json
from pathlib import Path

import attrs
import numpy as np
import pytest

from tileir.backend import HostStep, Metadata, Options, compile  # noqa: A004
from tileir.backend.compiled_kernel import STAGES
from tileir.backend.runtime.format import dumps, loads
from tileir.errors import (
    CompileError,
    DefectError,
    Diagnostic,
    InfeasibleError,
    Severity,
    UnsupportedError,
    classify_errors,
)
from tileir.textual import parse, print_module

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def softmax():
    text = (EXAMPLES / "softmax.tir").read_text()
    return compile(parse(text, "softmax.tir"), "sm_90a")


def test_what_is_written_is_read(softmax):
    data = dumps(softmax)
    loaded = loads(data)
    for name in (
        "llvm",
        "optimized_llvm",
        "ptx",
        "cubin",
        "metadata",
        "remarks",
        "notes",
        "options",
    ):
        assert getattr(loaded, name) == getattr(softmax, name), name
    for stage in STAGES:
        assert print_module(loaded.tir_at(stage)) == print_module(softmax.tir_at(stage))
    assert dumps(loaded) == data


@pytest.mark.parametrize("name", ["registers", "spills", "shared", "stack"])
def test_each_number_of_the_assembler_is_kept(softmax, name):
    code = attrs.evolve(softmax.machine_code, warnings=(), **{name: 4711})
    written = attrs.evolve(softmax, code=code)
    loaded = loads(dumps(written))
    assert loaded.machine_code == code and loaded.metadata == written.metadata


def test_a_limit_that_was_chosen_here_is_noted(softmax):
    assert loads(dumps(attrs.evolve(softmax, limited=True))).limited
    assert not loads(dumps(softmax)).limited


def test_files_of_format_1_are_read(softmax):
    """They differ by a section more, which nothing asks for."""
    data = dumps(softmax)
    assert data.startswith(b"tileir-kernel 2\n")
    assert loads(data.replace(b"kernel 2", b"kernel 1", 1)).cubin == softmax.cubin


def test_equal_input_gives_equal_bytes(softmax):
    recompiled = compile(softmax.tir_at("input"), "sm_90a")
    assert dumps(recompiled) == dumps(softmax)


@pytest.mark.parametrize("at", [0, 16, 40, 200, 5000, -1])
def test_a_changed_byte_is_detected(softmax, at):
    data = bytearray(dumps(softmax, ()))
    data[at] ^= 1
    with pytest.raises(CompileError, match="TIR0715"):
        loads(bytes(data))


@pytest.mark.parametrize("size", [0, 10, 90, 1000, -1])
def test_what_is_cut_short_is_detected(softmax, size):
    with pytest.raises(CompileError, match="TIR0715"):
        loads(dumps(softmax, ())[:size])


@pytest.mark.parametrize("data", [None, "tileir-kernel 2", 3, b""])
def test_what_is_no_bytes_is_an_error(data):
    with pytest.raises(CompileError, match="TIR0715"):
        loads(data)


def test_the_metadata_says_what_the_kernel_does_to_its_arguments(softmax):
    metadata = softmax.metadata
    by_name = {p.name: p for p in metadata.parameters}
    assert (by_name["x"].reads, by_name["x"].writes) == (True, False)
    assert (by_name["y"].reads, by_name["y"].writes) == (False, True)
    assert not any(p.escapes or p.atomics for p in metadata.parameters)
    assert metadata.axes == 1 and metadata.cluster == (1, 1, 1)
    assert (
        metadata.registers > 0
        and metadata.spills == 0
        and metadata.threads == 32 * metadata.num_warps
    )
    assert metadata.arguments == tuple(p.type for p in metadata.parameters)


def test_calls_and_atomics_are_seen_through():
    module = parse("""tir 1.0
define void @bump(i32* %p, i32 %x) {
entry:
  %old = atomic_rmw i32 %p, %x {op = add}
  ret
}
define kernel void @k(i32* aligned(16) %counter, f32* %unused, i32 multiple_of(8) %n) {
entry:
  call @bump, %counter, %n
  ret
}
""")
    counter, unused, n = compile(module, "sm_80").metadata.parameters
    assert counter.atomics and counter.reads and counter.writes and counter.aligned == 16
    assert not (unused.reads or unused.writes)
    assert n.multiple_of == 8


def test_what_the_host_does_stands_in_the_module(softmax):
    steps = (HostStep("guard", "n % 16 == 0"), HostStep("box", (64, 128)))
    result = attrs.evolve(softmax.metadata, host_plan=steps)
    assert Metadata.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_errors_say_what_would_help(softmax):
    module = softmax.tir_at("input")
    with pytest.raises(InfeasibleError, match="TIR0708"):
        compile(module, "sm_90a", Options(num_warps=64))
    with pytest.raises(UnsupportedError, match="TIR0702"):
        compile(module, "sm_20")
    with pytest.raises(CompileError, match="TIR0716"):
        compile(module, "sm_90a", {"num_wraps": 4})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_warps", 2.5), ("num_warps", "4"), ("num_warps", True), ("num_warps", -1),
        ("num_stages", -1), ("max_registers", [32]), ("line_info", "no"),
        ("stage_halo", None), ("opt_level", 9),
        ("split_k", 1.0), ("non_tma_alignments", (1, "x")), ("permit", "asm"), ("libraries", (1,)),
        ("line_info", np.array([1, 2])), ("opt_level", np.array(1)), ("opt_level", 1.0),
    ],
)  # fmt: skip
def test_values_that_options_do_not_have_are_refused(softmax, name, value):
    with pytest.raises(CompileError, match="TIR0716"):
        compile(softmax.tir_at("input"), "sm_90a", {name: value})


def test_options_may_be_numbers_of_numpy(softmax):
    options = {"num_warps": np.int64(2), "num_stages": np.int32(2)}
    compiled = compile(softmax.tir_at("input"), "sm_90a", options)
    plain = compile(softmax.tir_at("input"), "sm_90a", {"num_warps": 2, "num_stages": 2})
    assert dumps(compiled) == dumps(plain)


def test_what_must_not_happen_is_a_defect():
    with pytest.raises(DefectError, match=r"TIR0714.*IndexError: nothing there"), classify_errors():
        raise IndexError("nothing there")


def test_tables_that_are_filled_before_a_launch_are_not_taken_for_zeros():
    text = """tir 1.0
GLOBAL
define kernel void @k(i32* %y) {
entry:
  %p = global_address i32 addrspace(4)* @table
  %v = load i32 %p
  store %y, %v
  ret
}
"""
    compiled = compile(parse(text.replace("GLOBAL", "constant i32<4> @table")), "sm_80")
    assert "ld.const" in compiled.ptx and compiled.metadata.globals == ("table",)


@pytest.mark.parametrize("name", ["a.b", "a_b", "a-b.c", "k$x", "f$x"])
def test_kernels_have_names_that_ptx_knows(name):
    symbol = f'@"{name}"' if "-" in name else f"@{name}"
    compiled = compile(parse(f"tir 1.0\ndefine kernel void {symbol}() {{\nentry:\n  ret\n}}\n"))
    assert compiled.metadata.kernel == name and compiled.cubin
    assert f".entry {compiled.metadata.symbol}(" in compiled.ptx
    assert (compiled.metadata.symbol == name) == (name in ("a_b", "f$x"))


def test_notes_of_remarks_are_kept(softmax):
    note = Diagnostic("TIR0651", "the store", None, Severity.NOTE)
    remark = Diagnostic("TIR0651", "stays in the loop", None, Severity.REMARK, (note,))
    read = loads(dumps(attrs.evolve(softmax, notes=(remark,))))
    assert read.notes == (remark,)
