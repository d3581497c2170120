"""How many registers ptxas may allocate: resident blocks, and loads in flight."""

import json
import struct
from math import log
from pathlib import Path

import attrs
import pytest

from tests.backend.encoded_instructions import (
    JUMP,
    LOADED,
    STORED,
    branch,
    elf,
    load,
    use,
    wide,
)
from tests.sizes import for_each
from tileir.analysis.divided_loops import divides_its_loops
from tileir.backend import Options, compile as compile_kernel, compiled_kernel
from tileir.backend.assembler import Assembled, assemble
from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.gpu_models import machine_of
from tileir.backend.machine_code import (
    LoadsInFlight,
    code_bytes,
    independent_loads,
    spills_around_loops,
)
from tileir.backend.ptxas import ptxas
from tileir.backend.register_limit import RegisterChoice, with_directive
from tileir.backend.target import target
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.errors import CompileError, Diagnostic
from tileir.textual import parse

MEASURED = json.loads((Path(__file__).parent / "figures/registers_and_loads.json").read_text())
"""All kernels of public libraries without dots that were measured on an H200 as compiled by Triton
3.6 and by tileir, with the same warps and global accesses. Case, kernel, warps of a block; resident
blocks and registers that loads fill together, by Triton, then by tileir; microseconds of both."""

MACHINE = machine_of("sm_90a")

AROUND = STORED + load() + use() + branch(-3) + LOADED
"""A loop, and a spilled register that is stored before it and loaded after it."""


def code(registers, together=4, size=4096, spills=0):
    """What an assembler returns: 8 loads, of which `together` are in flight."""
    text = (load() * together + use()) * (8 // together)
    return Assembled(elf(text.ljust(size, b"\0")), registers, spills, 0, 0)


@pytest.mark.parametrize(
    ("text", "together", "block"),
    [
        (b"", 0, 0),
        (load() + load(1) + use(1) + use(0) + load(2), 6, 12),
        (load() * 3 + use() + load() + use() + load() * 4, 11, 32),  # three waits
        (load() + use(1) + load(1) + use(0), 8, 8),  # another's scoreboard
        (load(width=4) + load(width=5) + use(), 3, 3),
        ((load() + JUMP) * 3, 12, 4),
        ((load() + use()) * 2 + JUMP + load() * 2 + use(), 4, 8),  # the slower of two loops
        ((load() + use()) * 2 + JUMP + load() * 8 + use(), 32, 32),  # a small one
        (load() * 4 + use() + (load() + use()) * 4 + branch(-9), 4, 16),  # a loop after its loads
        (load() * 90 + use() + (load() + use()) * 90 + branch(-181), 4, 360),  # a long one
        (load() + branch(1) + load() + load(), 12, 4),  # a branch over a load
    ],
)
def test_loads_in_flight_are_those_before_a_wait(text, together, block):
    assert LoadsInFlight.of(elf(text)) == LoadsInFlight(together, block)
    assert code_bytes(elf(text)) == len(text)


@for_each(
    ("text", "expected"),
    [
        (b"", False),
        (AROUND, True),
        (STORED + load() + use() + branch(-4), False),
        (load() + LOADED + use() + branch(-4), False),
        (load() + LOADED + branch(1) + use() + branch(-5), False),  # around another branch
        (branch(1) + STORED + load() + LOADED, False),  # over an instruction
        (STORED + load() + LOADED + branch(-1), False),  # the end of a kernel
    ],
)
def test_registers_that_are_spilled_around_loops(text, expected):
    assert spills_around_loops(elf(text)) == expected


@for_each(
    ("text", "independent"),
    [
        (b"", 0),
        (load() + use() + load(into=12), 8),  # the wait could come later
        (load() + load(address=8), 4),  # its address is loaded
        (load() + wide(16, 8) + load(address=16), 4),  # computed from what is loaded
        (load() + wide(16, 8) + load(into=20, address=17), 4),
        (load() + wide(8, 3) + load(address=8), 8),  # the register was written since
        (load() + JUMP + load(), 4),
        (load() + load() * 2 + branch(-3), 8),  # a loop
        (load() + struct.pack("<2Q", 0xB1D, 0) + load(), 4),  # a barrier
        (load() + load(into=12) + load(address=8) + load(into=20, address=12), 8),
    ],
)
def test_loads_whose_addresses_are_loaded_are_never_in_flight_together(text, independent):
    assert independent_loads(elf(text)) == independent


@for_each(
    ("registers", "warps", "shared", "limit"),
    [
        (69, 16, 0, 64),  # two blocks of 512 threads in place of one
        (36, 16, 0, 32),  # four in place of three
        (100, 4, 0, 96),  # five in place of four
        (64, 16, 0, None),  # three would have 40, which spills, as a rule
        (110, 16, 0, None),  # two would have 64, which spills
        (80, 16, 0, 64),  # two have four fifths
        (81, 16, 0, None),  # two would have 64, less than four fifths
        (100, 8, 0, 80),  # three in place of two
        (32, 16, 0, None),  # as many threads as a multiprocessor has
        (40, 4, 0, None),  # sixteen in place of twelve gain little
        (44, 2, 0, None),  # neither do more than twenty
        (69, 16, 150 << 10, None),  # shared memory fits one block
        (62, 1, 0, None),  # as many blocks as a multiprocessor has
    ],
)
def test_the_most_registers_with_which_more_blocks_are_resident(registers, warps, shared, limit):
    assert RegisterChoice(MACHINE, warps, shared, alone=False).limit(registers) == limit


def spilling(loop, spills=4, registers=128):
    """Code that spills this many bytes, with a loop."""
    text = (load() * 4 + use() + loop).ljust(4096, b"\0")
    return Assembled(elf(text), registers, spills, 0, 0)


def choose(assembled, others, warps=16, alone=False, dots=False, shared=0, warpgroups=False):
    """Registers of the code that is chosen; `others`: codes by directive."""
    choice = RegisterChoice(MACHINE, warps, shared, alone, dots, warpgroups=warpgroups)
    ptx = ".visible .entry k()\n.reqntid 512\n{\n}\n"

    def assemble(text):
        return others[text.splitlines()[2]]

    return choice.best(ptx, assembled, assemble).registers


def test_fewer_registers_are_taken_where_code_grows_less_than_blocks_gain():
    directive = ".maxnreg 64"
    assert choose(code(69, 8), {directive: code(64, 8)}) == 64
    assert choose(code(69, 8), {directive: code(64, 8, size=4480)}) == 64
    assert choose(code(69, 8), {directive: code(64, 8, size=5120)}) == 69
    assert choose(code(69, 8), {directive: code(64, 8, spills=4)}) == 69


def test_what_spills_is_assembled_without_an_aim_at_many_threads():
    directive = ".minnctapersm 1"
    assert choose(code(64, 8, spills=800), {directive: code(255, 8, spills=80)}, warps=1) == 255
    assert choose(code(64, 8, spills=80), {directive: code(255, 8, spills=80)}, warps=1) == 64
    assert choose(code(248, 8, spills=80), {}, warps=1) == 248, "no more than a thread has"
    assert choose(code(126, 8, spills=80), {}, warps=16) == 126, "no more than a block has"


def test_fewer_registers_are_not_taken_where_loads_wait_for_each_other():
    assert choose(code(130, 8), {".maxnreg 128": code(128, 1)}, warps=8) == 130
    assert choose(code(130, 8), {".maxnreg 128": code(128, 4)}, warps=8) == 128


def test_more_registers_are_taken_where_loads_wait_for_each_other():
    directive = ".minnctapersm 1"
    assert choose(code(32, 1), {directive: code(47, 8)}, warps=4) == 47
    assert choose(code(32, 1), {directive: code(47, 1)}, warps=4) == 32
    assert choose(code(32, 1), {directive: code(47, 8, spills=4)}, warps=4) == 32
    few = choose(code(60, 2), {directive: code(200, 4), ".maxnreg 48": code(60)}, warps=8)
    assert few == 60, "one block in place of four"
    two = choose(code(64, 2), {directive: code(250, 4)}, warps=4)
    assert two == 64, "half the loads in flight on the multiprocessor, in two blocks, not eight"
    more = {directive: code(140, 4), ".maxnreg 128": code(128, 4, spills=4)}
    assert choose(code(64, 2), more, warps=4) == 64, "three quarters"
    assert choose(code(64, 2), more, warps=2) == 140, "seven eighths"
    four = {directive: code(120, 4), ".maxnreg 96": code(96, 4, spills=4)}
    assert choose(code(64, 2), four, warps=4) == 120


@pytest.mark.parametrize(
    ("text", "registers", "warps"),
    [
        (load() + use() + load(address=8), 32, 4),  # no bound makes them wait less
        ((load() + use()) * 2, 24, 4),  # more registers than it takes leave as many blocks
        ((load() + use()) * 2, 128, 16),  # a multiprocessor has one block already
        (load() * 4 + use() + load() * 4, 61, 8),  # three blocks in place of four cost as much
        ((load() * 2 + use()) * 4, 32, 16),  # two block in place of four
        ((load() * 4 + use()) * 2, 250, 4),  # more than a thread has
        ((load() + use()) * 2, 254, 2),  # all that a thread has
    ],
)
def test_a_kernel_is_not_assembled_again_where_no_schedule_gains(text, registers, warps):
    once = Assembled(elf(text), registers, 0, 0, 0)
    assert choose(once, {}, warps=warps) == registers


def test_a_limit_is_not_tried_where_loads_in_flight_save_more():
    """With 32 registers in flight, no number of blocks with 4 saves more."""
    more = Assembled(elf(load() * 8 + use()), 64, 0, 0, 0)
    assert choose(code(50, 1), {".minnctapersm 1": more}, warps=4) == 64


def test_more_loads_are_not_in_flight_together_where_a_multiprocessor_has_enough():
    """Seven blocks of four warps with 16 registers each have 56 KiB in flight, with 20 70 KiB."""
    for before, registers in ((16, 120), (20, 71)):
        text = (load() * (before // 4) + use()) * 2
        more = Assembled(elf(load() * (before // 2) + use()), 120, 0, 0, 0)
        once = Assembled(elf(text), 71, 0, 0, 0)
        others = {".minnctapersm 1": more, ".maxnreg 96": code(96, spills=4)}
        assert LoadsInFlight.of(once.cubin).together == before
        assert choose(once, others, warps=4) == registers


@for_each(
    ("warps", "registers", "chosen"),
    [
        (1, 90, 90),  # 21 blocks have 105 KiB in flight, 32 had 80
        (1, 122, 122),  # 16 have as many
        (1, 130, 64),  # 15 have 75
        (2, 90, 90),  # ten have 100, 16 had 80
        (4, 90, 64),  # a launch is assumed to have as many blocks as are resident
    ],
)
def test_more_loads_are_in_flight_together_in_small_blocks(warps, registers, chosen):
    """A launch may have fewer blocks than are resident, which then have fewer in flight."""
    once = Assembled(elf((load() * 5 + use()) * 2), 64, 0, 0, 0)
    more = Assembled(elf(load() * 10 + use()), registers, 0, 0, 0)
    assert choose(once, {".minnctapersm 1": more}, warps=warps) == chosen


def test_a_limit_is_tried_for_what_has_more_loads_in_flight():
    """Four blocks of four warps have 128 registers each, three 168."""
    unlimited = {".minnctapersm 1": code(140, 8), ".maxnreg 80": code(80, 2, spills=4)}
    limited = {**unlimited, ".maxnreg 128": code(128, 8)}
    assert choose(code(96, 2), limited, warps=4) == 128
    assert choose(code(96, 2), {**limited, ".maxnreg 128": code(128, 1)}, warps=4) == 140
    assert choose(code(96, 2), {**limited, ".maxnreg 128": code(128, 8, 5120)}, warps=4) == 140


def test_a_limit_is_assembled_once():
    """Three blocks of four warps have 168 registers each, two of either code. More loads in flight
    are not worth twice the code."""
    assembled = {".minnctapersm 1": code(190, 8, 8192), ".maxnreg 168": code(168, 2, spills=20)}
    directives: list[str] = []

    def assemble(ptx):
        directives.append(ptx.splitlines()[2])
        return assembled[directives[-1]]

    choice = RegisterChoice(MACHINE, 4, 0, alone=False)
    ptx = ".visible .entry k()\n.reqntid 128\n{\n}\n"
    assert choice.best(ptx, code(186, 2), assemble).registers == 186
    assert directives == list(assembled)


def test_a_second_limit_is_tried_only_where_it_gains_more():
    """Six blocks of eight warps have 40 registers each, eight 32: the model expects 1.04 %."""
    assert choose(code(30, 2), {".minnctapersm 1": code(37, 8)}, warps=8) == 37
    both = {".minnctapersm 1": code(85, 8), ".maxnreg 72": code(72, 8)}
    assert choose(code(55, 2), both, warps=4) == 72, "seven blocks for five: 1.43 %"
    no_more = {".minnctapersm 1": code(154, 2), ".maxnreg 64": code(64, 2, spills=4)}
    assert choose(code(73, 2), no_more, warps=8) == 73, "loads wait for another reason"


def test_more_loads_in_flight_are_tried_for_less_than_more_blocks():
    """The model expects 0.6 % of 104 registers in flight in place of 52, and 0.56 % of 112."""
    for loads, registers in ((26, 173), (28, 127)):
        text = (load() * (loads // 2) + use()) * 2
        more = Assembled(elf(load() * loads + use()), 173, 0, 0, 0)
        once = Assembled(elf(text), 127, 0, 0, 0)
        others = {".minnctapersm 1": more}
        assert choose(once, others, warps=8, alone=True) == registers


def test_more_waits_are_not_worth_a_block():
    """Of sixteen loads of a gradient of a batch normalization, twelve and four wait together in
    three resident blocks; a variant has four blocks, but waits for four, one and eleven."""
    one, wait = load(width=4), use()
    twice = Assembled(elf(one * 12 + wait + one * 4 + wait), 40, 0, 0, 0)
    text = one * 4 + wait + one + wait + one * 11 + wait
    assert RegisterChoice(MACHINE, 16, 0, False).better(
        twice, Assembled(elf(text), 32, 0, 0, 0)
    ) is twice  # fmt: skip


def test_kernels_with_dots_are_limited_where_one_block_would_be_resident():
    """Their loads are copied ahead, and wait for no others."""
    directive = ".maxnreg 128"
    assert choose(code(149, 8), {directive: code(128, 8)}, warps=8, dots=True) == 128
    assert choose(code(149, 8), {directive: code(128, 8, spills=4)}, warps=8, dots=True) == 149
    assert choose(code(100, 8), {}, warps=8, dots=True) == 100, "two blocks already"
    assert choose(code(255, 1), {}, warps=8, dots=True) == 255


@for_each(
    ("registers", "shared", "more", "chosen"),
    [
        (128, 94 << 10, code(174), 174),  # shared memory fits two blocks, registers four
        (122, 94 << 10, code(174), 174),  # 128 are allocated
        (128, 94 << 10, code(255), 255),  # as many as two blocks have
        (128, 94 << 10, code(174, spills=4), 128),
        (128, 94 << 10, code(128), 128),
        (128, 94 << 10, code(120), 128),
        (120, 94 << 10, None, 120),  # ptxas could take 128 without one block less
        (128, 54 << 10, None, 128),  # shared memory fits four blocks, too
        (168, 70 << 10, None, 168),  # three both
        (128, 70 << 10, code(168), 168),
        (128, 70 << 10, code(184), 128),  # two blocks in place of three
    ],
)
def test_registers_that_shared_memory_leaves_are_for_fragments_of_dots(
    registers, shared, more, chosen
):
    resident = MACHINE.target.resident_blocks(4, 1, shared)
    others = {} if more is None else {f".minnctapersm {resident}": more}
    for alone in (False, True):  # a recurrence also keeps the blocks that fit
        assert choose(code(registers, 8), others, 4, alone, dots=True, shared=shared) == chosen
    if chosen > registers:
        assert choose(code(registers, 8), {}, 4, dots=False, shared=shared) == registers


def test_warpgroups_spill_a_few_registers_around_their_loops_for_another_block():
    """Each is stored and loaded once."""

    def registers(loop, spills, warpgroups=True):
        others = {".maxnreg 128": spilling(loop, spills)}
        return choose(code(149, 8), others, warps=8, dots=True, warpgroups=warpgroups)

    assert registers(AROUND, 64) == 128
    assert registers(AROUND, 68) == 149, "more take time"
    assert registers(AROUND, 4, warpgroups=False) == 149
    assert registers(STORED + load() + use() + branch(-4), 4) == 149, "in a loop"
    assert registers(STORED + load() + LOADED, 4) == 149, "without a loop"
    third = {".maxnreg 168": attrs.evolve(spilling(AROUND, 4), registers=168)}
    assert choose(code(204, 8), third, warps=4, dots=True, warpgroups=True) == 204, "a third block"


def test_kernels_with_dots_are_limited_where_few_registers_are_missing():
    """Three blocks of four warps have 168 registers each."""
    limited = {".maxnreg 168": code(168, 8)}
    assert choose(code(189, 8), limited, warps=4, dots=True) == 168
    assert choose(code(208, 8), {}, warps=4, dots=True) == 208, "accumulators would be spilled"
    assert choose(code(204, 8), {}, warps=4, dots=True) == 204
    assert choose(code(208, 8), limited, warps=4, dots=True, warpgroups=True) == 168
    assert choose(code(216, 8), {}, warps=4, dots=True, warpgroups=True) == 216


def test_code_of_warpgroups_may_grow_for_another_block():
    """Their threads issue other instructions while matmuls run."""
    limited = {".maxnreg 168": code(168, 8, size=4600)}
    assert choose(code(189, 8), limited, warps=4, dots=True) == 189
    assert choose(code(189, 8), limited, warps=4, dots=True, warpgroups=True) == 168


def test_a_limit_that_spills_around_loops_is_kept(monkeypatch):
    """No variant replaces it: those that spill less have fewer resident blocks."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    with b.kernel("k", x=kind, y=kind, out=pointer(F32), n=I32) as (x, y, out, n):
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        total = b.var(b.full((64, 64), 0.0, F32))
        with b.for_(0, n) as i:
            left, right = ((p + (at + i * 4096)).load() for p in (x, y))
            total.set(b.dot(left, right, total.get()))
        (out + at).store(total.get())
    limits: list[str] = []

    def assemble(self, text):
        limits.extend(line for line in text.splitlines() if line.startswith(".maxnreg"))
        return spilling(AROUND, 4, 128) if ".maxnreg" in text else code(149, 8)

    monkeypatch.setattr(CompiledKernel, "_assembled_from", assemble)
    kernel = compile_kernel(b.module(), "sm_90a", Options(num_warps=8, warp_specialize=False))
    assert kernel.machine_code.registers == 128
    assert limits == [".maxnreg 128"]


@pytest.mark.parametrize(("dots", "limit"), [(True, 40), (False, None)])
def test_kernels_with_dots_are_limited_for_a_sixth_block(dots, limit):
    """Their blocks wait at a barrier in each iteration."""
    assert RegisterChoice(MACHINE, 8, 37632, alone=False, dots=dots).limit(47) == limit


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize("spills", [0, 4])
def test_long_kernels_are_assembled_again_if_they_spill(spills, monkeypatch):
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        x.store(1.0)
    kernel = compile_kernel(b.module(), "sm_90", Options(num_warps=1))
    monkeypatch.setattr(compiled_kernel, "_LONG", 0)
    texts: list[str] = []

    def record_ptx(self, text):
        texts.append(text)
        return code(64, 8, spills=0 if ".minnctapersm" in text else spills)

    monkeypatch.setattr(CompiledKernel, "_assembled_from", record_ptx)
    assert kernel.machine_code.spills == 0
    assert len(texts) == (2 if spills else 1)


def test_instances_that_divide_a_loop_are_alone_on_a_multiprocessor():
    directive = ".maxnreg 64"
    assert choose(code(69, 8), {directive: code(64, 8)}, alone=True) == 64, "it costs nothing"
    assert choose(code(69, 8), {directive: code(64, 4)}, alone=True) == 69
    assert choose(code(69, 8), {directive: code(64, 8, 4480)}, alone=True) == 69
    assert choose(code(69, 8), {}, alone=True, dots=True) == 69
    unlimited = {".minnctapersm 1": code(104, 4), ".maxnreg 96": code(91, 4)}
    assert choose(code(72, 4), unlimited, warps=4, alone=True) == 72, "no more loads in flight"
    assert choose(code(128, 4), {".minnctapersm 1": code(163, 8)}, warps=8, alone=True) == 163


def test_the_model_explains_what_was_measured():
    """The model's constants have smaller absolute errors over all rows, in the logarithm of the
    ratio of times, than no model, each alone, and either halved or doubled."""

    def error(hidden, exposed):
        model = attrs.evolve(MACHINE, hidden=hidden, exposed=exposed)
        return sum(
            abs(log(ours / theirs) - model.waiting(b, warps * n) + model.waiting(a, warps * m))
            for _, _, warps, a, m, b, n, theirs, ours in MEASURED
        )

    best = error(MACHINE.hidden, MACHINE.exposed)
    assert best < 0.94 * error(0.0, 0.0)
    for scale in (0.0, 0.5, 2.0):
        assert best < error(scale * MACHINE.hidden, MACHINE.exposed)
        assert best < error(MACHINE.hidden, scale * MACHINE.exposed)


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
    result = compile_kernel(kernel(divided), "sm_90", Options(num_warps=4))
    assert divides_its_loops(result.stages["barriers"].functions["k"]) == divided


@attrs.frozen(slots=False, eq=False)
class Assembling(CompiledKernel):
    """A kernel whose assembler takes 36 registers where it may."""

    def _assembled_from(self, ptx):
        assert ptx.count(".maxnreg") <= 1
        return code(32) if ".maxnreg 32\n" in ptx else code(36)


@pytest.mark.skipif(ptxas() is None, reason="only ptxas keeps bounds")
@pytest.mark.parametrize(("divided", "registers"), [(False, 32), (True, 32)])
def test_a_kernel_is_assembled_with_the_best_bound(divided, registers):
    compiled = compile_kernel(kernel(divided), "sm_90", Options(num_warps=16))
    second = Assembling(
        compiled.stages, compiled.llvm, compiled.ptx, compiled.plan, recompile=compile_kernel
    )
    assert second.machine_code.registers == registers


def maximum():
    """The maxima of 2048 columns, of all rows."""
    b = Builder()
    with b.kernel("k", x=arg(pointer(F32), aligned=16), y=arg(pointer(F32)), n=I32) as (x, y, n):
        i = b.arange(2048)
        most = b.var(b.full((2048,), -1.0, F32))
        with b.for_(0, n) as row:
            most.set(b.fmaxnum(most.get(), (x + (i + row * 2048)).load()))
        (y + b.program_id()).store(most.get().max(0))
    return b.module()


@pytest.mark.skipif(ptxas() is None, reason="only ptxas keeps bounds")
def test_loads_of_a_loop_are_in_flight_together():
    """ptxas alone aims at all threads that a multiprocessor may have, and waits for some loads
    before it issues others."""
    compiled = compile_kernel(maximum(), "sm_90a", Options(num_warps=1))
    alone, best = assemble(compiled.ptx, "k", target("sm_90a")), compiled.machine_code
    before, after = (LoadsInFlight.of(x.cubin) for x in (alone, best))
    assert before.together < before.block
    assert after.together == after.block
    assert code_bytes(best.cubin) % 16 == 0


def test_a_directive_stands_after_the_number_of_threads():
    ptx = compile_kernel(maximum(), "sm_90a", Options(num_warps=4)).ptx
    assert ".reqntid 128\n.maxnreg 40\n" in with_directive(ptx, ".maxnreg 40")


@pytest.mark.skipif(ptxas() is None, reason="only ptxas keeps bounds")
def test_what_the_assembler_refuses_is_no_candidate():
    """The fragments of a warpgroup's instruction do not fit the registers of a limit."""
    compiled = compile_kernel(maximum(), "sm_90a", Options(num_warps=1))
    code = assemble(compiled.ptx, "k", target("sm_90a"))
    choice = RegisterChoice(machine_of("sm_90a"), 1, 0, alone=False)
    assert any(choice._directives(code))

    def refuse(code):
        def assemble_none(_):
            raise CompileError(Diagnostic(code, "Insufficient registers"))

        return assemble_none

    assert choice.best(compiled.ptx, code, refuse("TIR0708")) is code
    with pytest.raises(CompileError, match="Insufficient"):
        choice.best(compiled.ptx, code, refuse("TIR0705"))


SINES = """tir 1.0

define kernel void @k(bf16* aligned(16) %x, bf16* aligned(16) %y) {
entry:
  %pid = program_id i32
  %base = mul i32 %pid, 1024
  %from = splat i32<1024> %base
  %range = make_range i32<1024>
  %i = add i32<1024> %from, %range
  %xs = splat bf16*<1024> %x
  %p = getelementptr bf16*<1024> %xs, %i
  %w = load bf16<1024> %p
  %v = fpext f32<1024> %w
  %n = fneg f32<1024> %v
  %e = exp f32<1024> %n
  %d = fadd f32<1024> %e, 1.0
  %q = fdiv f32<1024> %v, %d
  %s = sin f32<1024> %v
  %m = fmul f32<1024> %q, %s
  %r = fptrunc bf16<1024> %m
  %ys = splat bf16*<1024> %y
  %o = getelementptr bf16*<1024> %ys, %i
  store %o, %r
  ret
}
"""


@pytest.mark.skipif(ptxas() is None, reason="only ptxas keeps bounds")
def test_sines_of_eight_elements_leave_registers_for_twelve_blocks() -> None:
    """Each branch reduces two large arguments: four took 56 registers."""
    metadata = compile_kernel(parse(SINES), "sm_90a", Options(num_warps=4)).metadata
    assert metadata.spills == 0
    assert metadata.registers <= 40
