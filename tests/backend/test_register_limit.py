"""The register limit under which more blocks are resident: when there is one, when it is kept."""

import json
import struct
from math import exp, log
from pathlib import Path

import attrs
import pytest

from tileir.backend import Options, compile as compile_kernel
from tileir.backend.assembler import Assembled
from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.gpu_models import machine_of
from tileir.backend.ptxas import ptxas
from tileir.backend.register_limit import (
    RegisterLimit,
    code_bytes,
    divides_its_loops,
    limit_for_more_blocks,
)
from tileir.builder import F32, I32, Builder, arg, pointer

MEASURED = json.loads(
    Path(__file__).with_name("figures").joinpath("resident_blocks.json").read_text()
)
"""Kernels of public libraries on an H200, compiled by Triton 3.6 and by tileir with the same
global accesses and no spills, where the resident blocks of a multiprocessor differ: case, kernel,
warps of a block, blocks of Triton, blocks of tileir, microseconds of both. All such rows are there,
of which many differ in other ways too."""


def code(registers, size=4096, spills=0):
    """What an assembler returns: an ELF file of `size` bytes of code."""
    names = b"\0.text.k\0.data\0"
    body = bytes(64) + bytes(size) + names
    headers = [(0, 64, 8), (1, 64, size), (9, 64, 8), (0, 64 + size, len(names))]
    table = b"".join(
        struct.pack("<2I4Q", name, 1, 0, 0, at, length) + bytes(24) for name, at, length in headers
    )
    cubin = bytearray(body + table)
    struct.pack_into("<Q", cubin, 0x28, len(body))
    struct.pack_into("<3H", cubin, 0x3A, 64, len(headers), 3)
    return Assembled(bytes(cubin), registers, spills, 0, 0)


@pytest.mark.parametrize(
    ("registers", "warps", "shared", "limit"),
    [
        (69, 16, 0, 64),  # two blocks of 512 threads in place of one
        (36, 16, 0, 32),  # four in place of three
        (40, 8, 0, 32),  # eight in place of six: seven would have the registers of eight
        (64, 16, 0, None),  # three would have 40, which spills
        (32, 16, 0, None),  # as many threads as a multiprocessor has
        (69, 16, 150 << 10, None),  # shared memory has room for one block
        (62, 1, 0, None),  # as many blocks as a multiprocessor has
    ],
)
def test_the_most_registers_with_which_more_blocks_are_resident(registers, warps, shared, limit):
    found = limit_for_more_blocks(machine_of("sm_90a"), warps, shared, code(registers))
    assert (found and found.registers) == limit
    if found is not None:
        assert found.gain > 0


def test_what_spills_has_no_limit():
    assert limit_for_more_blocks(machine_of("sm_90a"), 16, 0, code(69, spills=8)) is None


def test_a_limit_is_kept_where_code_grows_less_than_blocks_gain():
    limit = RegisterLimit(64, gain=0.1)
    assert limit.is_better(code(64, 4096), code(69, 4096))
    assert limit.is_better(code(64, 4352), code(69, 4096))
    assert not limit.is_better(code(64, 5120), code(69, 4096))
    assert not limit.is_better(code(64, 4096, spills=4), code(69, 4096))


def test_the_model_explains_what_was_measured():
    """The logarithm of the ratio of times is about `hidden` times the difference of the reciprocals
    of resident blocks: the constant with the least absolute errors over all rows is the model's,
    and every other direction of the dependence is worse."""
    machine = machine_of("sm_90a")

    def error(hidden):
        return sum(
            abs(log(ours / theirs) - hidden * (1 / blocks - 1 / other))
            for _, _, _, other, blocks, theirs, ours in MEASURED
        )

    best = min((k / 100 for k in range(-50, 101)), key=error)
    assert abs(best - machine.hidden) <= 0.03
    assert error(machine.hidden) < 0.95 * error(0.0)
    assert machine.gain_of_more_blocks(1, 2) == pytest.approx(1 - exp(-machine.hidden / 2))


def kernel(divided):
    """A sum of rows of 1024: of all rows, or of those from the instance's number on."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), y=arg(pointer(F32)), n=I32) as (x, y, n):
        instance = b.program_id()
        i = b.arange(1024)
        total = b.var(b.full((1024,), 0.0, F32))
        start = instance * 4 if divided else 0
        with b.for_(start, n) as row:
            total.set(total.get() + (x + (i + row * 1024)).load())
        (y + (i + instance * 1024)).store(total.get())
    return b.module()


@pytest.mark.parametrize("divided", [False, True])
def test_instances_that_divide_a_loop(divided):
    found = compile_kernel(kernel(divided), "sm_90", Options(num_warps=4))
    assert divides_its_loops(found.stages["barriers"].functions["k"]) == divided


@attrs.frozen(slots=False, eq=False)
class Assembling(CompiledKernel):
    """A kernel whose assembler takes 36 registers where it may."""

    size: int = attrs.field(default=4096, kw_only=True)

    def _assembled_from(self, ptx):
        assert ptx.count(".maxnreg") <= 1
        return code(32, self.size) if ".maxnreg 32\n" in ptx else code(36)


@pytest.mark.skipif(ptxas() is None, reason="only ptxas keeps limits")
@pytest.mark.parametrize(
    ("divided", "size", "registers"), [(False, 4096, 32), (False, 8192, 36), (True, 4096, 36)]
)
def test_a_kernel_is_assembled_for_more_blocks(divided, size, registers):
    found = compile_kernel(kernel(divided), "sm_90", Options(num_warps=16))
    again = Assembling(found.stages, found.llvm, found.ptx, found.plan, size=size)
    assert again.machine_code.registers == registers


@pytest.mark.skipif(ptxas() is None, reason="nvJitLink gives no object of one function")
def test_bytes_of_code_are_instructions_of_16_bytes():
    found = compile_kernel(kernel(False), "sm_90", Options(num_warps=4)).machine_code
    assert code_bytes(found.cubin) % 16 == 0 and code_bytes(found.cubin) > 16 * 20
