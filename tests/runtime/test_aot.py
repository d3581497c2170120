"""Kernels compiled ahead of time: `tileir aot` and the header it writes, compiled by a C compiler
and run against a driver that writes down what it is asked for."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tileir.backend import compile  # noqa: A004
from tileir.backend.runtime.c_header import header
from tileir.backend.runtime.format import loads
from tileir.errors import UnsupportedError
from tileir.textual import parse
from tileir.tools.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CC = shutil.which("cc")

CUDA_H = """
#pragma once
#include <stddef.h>
typedef int CUresult;
typedef void *CUmodule, *CUfunction, *CUstream;
typedef unsigned long long CUdeviceptr;
enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuFuncSetAttribute(CUfunction, int, int);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void **, void **);
"""
DRIVER = """
#include <cuda.h>
#include <stdio.h>
#include <string.h>
#include "kernel.h"
CUresult cuModuleLoadData(CUmodule *m, const void *data) {
  printf("load %d %d\\n", memcmp(data, "\\177ELF", 4), (int)((size_t)data % 16));
  return 0;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *n) { puts(n); return 0; }
CUresult cuFuncSetAttribute(CUfunction f, int a, int v) { printf("allow %d\\n", v); return 0; }
CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream s, void **a, void **e) {
  printf("grid %u %u %u block %u %u %u shared %u\\n", x, y, z, bx, by, bz, shared);
  printf(FORMAT);
  return 0;
}
int main(void) {
  CUmodule module; CUfunction function;
  LOADED(&module, &function);
  printf("%d\\n", CALL);
  printf("%d\\n", WRONG);
  return 0;
}
"""


def ran(folder: Path, text: str, **words: str) -> list[str]:
    """What the program prints."""
    (folder / "cuda.h").write_text(CUDA_H)
    (folder / "kernel.h").write_text(text)
    (folder / "main.c").write_text(DRIVER)
    flags = [f"-D{name}={value}" for name, value in words.items()]
    program = folder / "main"
    command = [CC, "-std=c11", "-Wall", "-Werror", "-I", folder, *flags, folder / "main.c"]
    subprocess.run([*command, "-o", program], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.split("\n")


@pytest.mark.skipif(CC is None, reason="no C compiler on this machine")
def test_the_header_loads_and_launches(tmp_path):
    compiled = compile(parse((EXAMPLES / "add.tir").read_text()), "sm_90a")
    read = '"%llx %llx %llx %d\\n",*(CUdeviceptr*)a[0],*(CUdeviceptr*)a[1],*(CUdeviceptr*)a[2],'
    printed = ran(
        tmp_path, header(compiled), FORMAT=f"{read}*(int32_t*)a[3]", LOADED="add_load",
        CALL="add_launch(function,0,7,1,1,0x100,0x200,0x300,4711)",
        WRONG="add_launch(function,0,7,1,1,0x100,0x208,0x300,4711)",
    )  # fmt: skip
    threads = compiled.metadata.threads
    assert printed[:2] == ["load 0 0", "add"]
    assert printed[2:5] == [f"grid 7 1 1 block {threads} 1 1 shared 0", "100 200 300 4711", "0"]
    assert printed[5] == "1"


PROMISES = {"i32 multiple_of(12)": (24, 25), "i64 multiple_of(16)": (1 << 40, (1 << 40) + 8),
            "f32* aligned(32)": (64, 48)}  # fmt: skip


@pytest.mark.skipif(CC is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("kind", PROMISES)
def test_each_promise_of_the_program_is_checked(tmp_path, kind):
    text = f"tir 1.0\ndefine kernel void @k({kind} %x) {{\nentry:\n  ret\n}}\n"
    kept, broken = PROMISES[kind]
    printed = ran(
        tmp_path, header(compile(parse(text))), FORMAT='"%d\\n",*(int*)a[0]', LOADED="k_load",
        CALL=f"k_launch(function,0,1,1,1,{kept})", WRONG=f"k_launch(function,0,1,1,1,{broken})",
    )  # fmt: skip
    assert printed[3:6] == [str(kept % (1 << 32)), "0", "1"]


DESCRIBED = """tir 1.0
define kernel void @turn.over(tensor_desc<f16<64, 64>> %from, tensor_desc<f16<64, 64>> %double,
                              f16 %scale, i1 %on) {
entry:
  %x = descriptor_load f16<64, 64> %from, i32 0, i32 0
  descriptor_store %double, %x, i32 0, i32 0
  ret
}
"""


@pytest.mark.skipif(CC is None, reason="no C compiler on this machine")
def test_descriptors_are_addresses_extents_and_strides(tmp_path):
    compiled = compile(parse(DESCRIBED), "sm_90a")
    assert [len(p.words) for p in compiled.metadata.parameters] == [5, 5, 1, 1]
    printed = ran(
        tmp_path, header(compiled),
        FORMAT='"%llx %d %d\\n",*(CUdeviceptr*)a[5],(int)*(int64_t*)a[9],*(uint8_t*)a[11]',
        LOADED="turn_over_load",
        CALL="turn_over_launch(function,0,1,1,1,16,64,64,64,1,32,64,64,64,2,0x3c00,1)", WRONG="1",
    )  # fmt: skip
    assert printed[1] == "k$turn_$_over" and "20 2 1" in printed


@pytest.mark.parametrize("kind", ["i4", "f4e2m1"])
def test_less_than_a_byte_is_not_passed(kind):
    with pytest.raises(UnsupportedError, match="parameter x has type"):
        compile(parse(f"tir 1.0\ndefine kernel void @k({kind} %x) {{\nentry:\n  ret\n}}\n"))


KINDS = ("i1", "i8", "i16", "i32", "i64", "f8e4m3", "f8e5m2", "f8e8m0", "f16", "bf16", "f32", "f64")


@pytest.mark.parametrize("kind", KINDS)
def test_every_other_type_is_one_of_c(kind):
    text = f"tir 1.0\ndefine kernel void @k({kind} %x) {{\nentry:\n  ret\n}}\n"
    assert f" x /* {kind} */" in header(compile(parse(text)))


def test_the_command_writes_files_for_each_target(tmp_path, capsys):
    source, out = str(EXAMPLES / "softmax.tir"), str(tmp_path)
    targets = ["--target", "sm_80", "--target", "sm_90a"]
    assert (
        main(["aot", source, "-o", out, *targets, "--option", "num_warps=2", "--serialized"]) == 0
    )
    names = {path.name for path in tmp_path.iterdir()}
    suffixes = ("cubin", "json", "h", "tirk")
    assert names == {f"softmax.{t}.{s}" for t in ("sm_80", "sm_90a") for s in suffixes}
    about = json.loads((tmp_path / "softmax.sm_80.json").read_text())
    assert about["num_warps"] == 2 and about["target"] == "sm_80" and about["registers"] > 0
    whole = loads((tmp_path / "softmax.sm_90a.tirk").read_bytes())
    assert whole.cubin == (tmp_path / "softmax.sm_90a.cubin").read_bytes()
    assert "softmax.sm_80.h" in capsys.readouterr().out


ODD_NAMES = """tir 1.0
define kernel void @"../a*/\\n"(
  i32* %a.b, i32 %a_b, i32 %a_b_, i64 %int32_t, i32 %class, i32 %cuLaunchKernel, i32 %CUstream,
  i32 %linux, i32* aligned(16) %___a____threads, i32 %0,
  i32 %d_extent0, tensor_desc<f16<64, 64>> %d, tensor_desc<f16<64, 64>> %e, i32 %e_stride1
) {
entry:
  ret
}
"""


@pytest.mark.skipif(CC is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("language", ["c", "c++"])
def test_names_that_c_knows_or_that_are_alike_there(tmp_path, language):
    (tmp_path / "cuda.h").write_text(CUDA_H.replace("#pragma once", ""))
    (tmp_path / "kernel.h").write_text(header(compile(parse(ODD_NAMES))))
    command = [CC, "-x", language, "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-fsyntax-only"]
    subprocess.run([*command, "-I", tmp_path, tmp_path / "kernel.h"], check=True)


def test_files_are_in_the_folder_whatever_the_kernel_is_called(tmp_path, capsys):
    source, folder = tmp_path / "odd.tir", tmp_path / "out"
    source.write_text(ODD_NAMES)
    assert main(["aot", str(source), "-o", str(folder)]) == 0
    assert len([path for path in folder.iterdir() if path.is_file()]) == 3


TWO_KERNELS = """tir 1.0
define kernel void @one(i32 %n) {
entry:
  ret
}
define kernel void @two(i32 %n) {
entry:
  ret
}
"""


def test_the_command_compiles_the_kernel_that_is_named(tmp_path, capsys):
    source = tmp_path / "two.tir"
    source.write_text(TWO_KERNELS)
    assert main(["aot", str(source), "-o", str(tmp_path)]) == 1
    targets = [word for name in ("sm_80", "sm_90a") for word in ("--target", name)]
    table, words = str(tmp_path / "table.json"), ["--kernel", "two", *targets]
    assert main(["aot", str(source), "-o", str(tmp_path), *words, "--json", table]) == 0
    for target in ("sm_80", "sm_90a"):
        about = json.loads((tmp_path / f"two.{target}.json").read_text())
        assert (about["kernel"], about["target"]) == ("two", target)
    rows = json.loads(Path(table).read_text())
    assert len(rows) == 6
    for row in rows:
        assert f".{row['target']}." in row["file"]
        assert Path(row["file"]).stat().st_size == row["bytes"]


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    source = str(EXAMPLES / "softmax.tir")
    assert main(["aot", source, "-o", str(tmp_path), "--option", "wraps=2"]) == 1
    assert "TIR0716" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["aot", source, "--option", "wraps"])
    assert main(["aot", source, "--option", "num_warps=²"]) == 1
    assert "num_warps is a whole number from 1 on" in capsys.readouterr().err


def test_a_header_of_clusters() -> None:
    """Instances are asked for, and blocks launched; more than 8 of a cluster need leave."""
    path = Path(__file__).parents[1] / "corpus" / "hopper" / "cluster.tir"
    text = header(compile(parse(path.read_text()), "sm_90a"))
    assert "grid_x * 4, grid_y, grid_z, f_threads" in text and "NON_PORTABLE" not in text
    many = path.read_text().replace("cluster = 4", "cluster = 16")
    assert "CLUSTER_SIZE_ALLOWED, 1)" in header(compile(parse(many), "sm_90a"))
