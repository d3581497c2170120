"""Variants of the code of a kernel: which are generated, which are assembled, and which is used."""

import attrs
import pytest

from tests.backend.test_register_limit import MACHINE, code
from tests.sizes import for_each
from tileir.backend import Options, compile as compile_kernel, register_limit
from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.options import CodeVariant
from tileir.backend.ptxas import ptxas
from tileir.backend.register_limit import Likely, RegisterChoice, steps_addresses
from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Module


def test_the_order_with_which_more_blocks_are_resident_is_chosen():
    choice = RegisterChoice(MACHINE, 16, 0, alone=False)
    assert choice.may_gain(CodeVariant.PROGRAM_ORDER, code(94, 16)), "one block of four"
    assert not choice.may_gain(CodeVariant.PROGRAM_ORDER, code(32, 8)), "all threads are resident"
    assert not choice.may_gain(CodeVariant.PROGRAM_ORDER, code(128, 16)), (
        "no order has half the registers"
    )
    assert not choice.may_gain(CodeVariant.PROGRAM_ORDER, code(94, 16, spills=4))
    assert not RegisterChoice(MACHINE, 16, 0, alone=True).may_gain(
        CodeVariant.PROGRAM_ORDER, code(94, 16)
    )
    assert not RegisterChoice(MACHINE, 16, 0, False, dots=True).may_gain(
        CodeVariant.PROGRAM_ORDER, code(94, 16)
    )
    ordered = code(94, 16)
    for other, better in (
        (code(64, 16), True), (code(64, 16, spills=4), False), (code(96, 16), False),
        (code(94, 17), False),
    ):  # fmt: skip
        assert choice.better(ordered, other) is (other if better else ordered)


@for_each(
    ("variant", "before", "directive", "other", "chosen"),
    [
        (CodeVariant.SCHEDULED, code(120, 16), "{", code(56, 16), 56),  # half are alive
        (CodeVariant.SCHEDULED, code(84, 16), ".maxnreg 64", code(64, 16), 64),  # two blocks
        (CodeVariant.SCHEDULED, code(84, 4), "{", code(84, 8), 84),  # for loads in flight
        (CodeVariant.SCHEDULED, code(84, 16), ".maxnreg 64", code(64, 16, spills=4), 84),
        (CodeVariant.SCHEDULED, code(84, 16), ".maxnreg 64", None, 84),  # ptxas rejects it
        (CodeVariant.SCHEDULED, code(127, 16, spills=80), "{", code(128, 16, spills=8), 128),
        (CodeVariant.SCHEDULED, code(127, 16, spills=80), "{", code(128, 16, spills=80), 127),
        (CodeVariant.PREFETCHED, code(64, 2), "{", code(65, 8), 65),
        (CodeVariant.PREFETCHED, code(64, 2), "{", code(65, 4), 64),
    ],
)
def test_a_variant_is_assembled_once(variant, before, directive, other, chosen):
    """With the limit for more blocks, if it has to let more be resident."""
    choice = RegisterChoice(MACHINE, 16 if variant is CodeVariant.SCHEDULED else 4, 0, alone=False)
    texts: list[str] = []

    def assemble(text):
        texts.append(text)
        if other is None:
            raise CompileError(Diagnostic("TIR0708", "Insufficient registers"))
        return other

    ptx = ".visible .entry k()\n.reqntid 512\n{\n}\n"
    likely = Likely(variant, ptx, 0.5 if before.registers == 120 else 0.8)
    assert choice.of_variant(likely, before, assemble).registers == chosen
    assert [text.splitlines()[2] for text in texts] == [directive]


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
def test_a_kernel_is_generated_again_in_program_order(monkeypatch):
    """A sum of squares: each square is added before the next one is computed, or after all."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("squares", x=kind, y=kind) as (x, y):
        at = b.arange(1024)
        value = (x + at).load()
        (y + b.program_id()).store((value * value + value.exp2()).sum())
    kernel = compile_kernel(b.module(), "sm_90", Options(num_warps=1))
    assert kernel.is_reordered and kernel.generate is not None
    llvm, ptx, reordered = kernel.generate(CodeVariant.PROGRAM_ORDER)
    assert not reordered and set(llvm.splitlines()) > set(kernel.llvm.splitlines()), "all addresses"
    assert llvm != kernel.llvm and ptx != kernel.ptx
    texts: list[str] = []
    own = CompiledKernel._assembled_from
    monkeypatch.setattr(
        CompiledKernel, "_assembled_from", lambda self, text: texts.append(text) or own(self, text)
    )
    monkeypatch.setattr(RegisterChoice, "best", lambda self, ptx, code, assemble: code)
    tried = lambda self, variant, code: variant is CodeVariant.PROGRAM_ORDER  # noqa: E731
    monkeypatch.setattr(RegisterChoice, "may_gain", tried)
    monkeypatch.setattr(RegisterChoice, "better", lambda self, code, other, variant=None: other)
    code_of_other = kernel.machine_code
    assert texts == [kernel.ptx, ptx] and code_of_other.cubin == own(kernel, ptx).cubin


def test_kernels_of_which_a_schedule_may_let_more_blocks_be_resident():
    choice = RegisterChoice(MACHINE, 16, 0, alone=False)
    assert choice.may_gain(CodeVariant.SCHEDULED, code(52, 16)), "two blocks of four"
    assert choice.may_gain(CodeVariant.SCHEDULED, code(128, 16, spills=8))
    assert not choice.may_gain(CodeVariant.SCHEDULED, code(128, 16, spills=4)), "2 of 256"
    assert not choice.may_gain(CodeVariant.SCHEDULED, code(32, 8)), "all threads are resident"
    assert not choice.may_gain(CodeVariant.SCHEDULED, code(62, 16)), "no schedule has two thirds"
    assert not RegisterChoice(MACHINE, 2, 0, False).may_gain(CodeVariant.SCHEDULED, code(64, 8)), (
        "16 blocks"
    )
    alone = RegisterChoice(MACHINE, 16, 0, alone=True)
    assert not alone.may_gain(CodeVariant.SCHEDULED, code(52, 16))
    assert alone.may_gain(CodeVariant.SCHEDULED, code(52, 16, spills=8))
    spilled = code(128, 16, spills=8)
    for other, better in ((code(128, 16, spills=4), True), (code(128, 16, spills=8), False)):
        assert choice.better(spilled, other) is (other if better else spilled)


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize("loops", [True, False])
def test_a_kernel_with_a_loop_is_generated_again_without_strength_reduction(loops, monkeypatch):
    """Sixteen vectors at multiples of a step, of each of which strength reduction keeps the
    address in a register."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("columns", x=kind, y=kind, step=I32, n=I32) as (x, y, step, n):
        at, columns = b.arange(128), b.var(x)
        total = b.var(b.full((128,), 0.0, F32))
        with b.for_(n) if loops else b.if_(n > 0):
            for j in range(16):
                total *= 0.5
                total += (columns.get() + (at + j * step)).load()
            columns += 16 * step
        (y + at).store(total.get())
    kernel = compile_kernel(b.module(), "sm_90a", Options(num_warps=4))
    assert kernel.generate is not None
    variants: list[CodeVariant] = []
    own = kernel.generate
    kernel = attrs.evolve(kernel, generate=lambda v: variants.append(v) or own(v))
    monkeypatch.setattr(RegisterChoice, "may_gain", lambda self, variant, code: True)
    assert kernel.machine_code.registers
    unreduced = CodeVariant.UNREDUCED
    assert (unreduced in variants) is loops
    assert not loops or own(unreduced)[1] != kernel.ptx


@for_each(
    ("body", "steps"),
    [
        (["add.s64 \t%rd2, %rd2, 64;", "add.s32 \t%r2, %r2, -1;"], True),
        (["add.s64 \t%rd2, %rd2, %rd9;", "add.s64 \t%rd3, %rd9, %rd3;"], True),
        (["add.s64 \t%rd2, %rd2, 64;"], False),  # a counter
        (["add.s64 \t%rd2, %rd2, 64;", "add.s64 \t%rd2, %rd2, 8;"], False),  # one register
        (["add.s64 \t%rd2, %rd2, 64;", "add.s64 \t%rd3, %rd2, 64;"], False),  # another
        (["add.s64 \t%rd2, %rd2, 64;", "add.s64 \t%rd3, %rd4, %rd5;"], False),
        (["add.s64 \t%rd2, %rd2, 64;", "add.f32 \t%f3, %f3, 0f3F800000;"], False),
    ],
)
def test_addresses_that_a_loop_steps(body, steps):
    loop = "\n".join(["$L__BB0_1:", *(f"\t{line}" for line in body), "\t@%p1 bra \t$L__BB0_1;"])
    assert steps_addresses(loop) is steps
    assert not steps_addresses(f"{loop}\n{loop.replace('BB0_1', 'BB0_2')}"), "a counter of each"
    forward = loop.replace("bra \t$L__BB0_1", "bra \t$L__BB0_9")
    assert steps_addresses(f"{forward}\n$L__BB0_9:"), "a branch that makes no loop"


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
def test_a_loop_that_steps_its_counter_alone_is_not_generated_without_reduction(monkeypatch):
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", y=kind, n=I32) as (y, n):
        at, total = b.arange(128), b.var(b.full((128,), 0.0, F32))
        with b.for_(n) as i:
            total.set(total.get() * i.to(F32) + 1.0)
        (y + at).store(total.get())
    kernel = compile_kernel(b.module(), "sm_90a", Options(num_warps=4))
    variants: list[CodeVariant] = []
    own = kernel.generate
    assert own is not None
    kernel = attrs.evolve(kernel, generate=lambda v: variants.append(v) or own(v))
    monkeypatch.setattr(RegisterChoice, "may_gain", lambda self, variant, code: True)
    assert kernel.machine_code.registers
    assert CodeVariant.SCHEDULED in variants and CodeVariant.UNREDUCED not in variants


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
def test_stores_alternate_where_more_blocks_are_then_resident(monkeypatch):
    kernel = compile_kernel(gradients(4096), "sm_90a", Options(num_warps=4))
    generated: list[CodeVariant] = []
    own = kernel.generate
    assert own is not None
    kernel = attrs.evolve(kernel, generate=lambda v: generated.append(v) or own(v))
    tried = lambda self, variant, code: variant is CodeVariant.ALTERNATING  # noqa: E731
    monkeypatch.setattr(RegisterChoice, "may_gain", tried)
    assert kernel.machine_code.registers
    assert generated == [CodeVariant.ALTERNATING]


def test_orders_of_instructions_are_for_kernels_without_dots_that_do_not_spill():
    choice = RegisterChoice(MACHINE, 16, 0, alone=False)
    dots = RegisterChoice(MACHINE, 16, 0, alone=False, dots=True)
    for variant in (CodeVariant.ALTERNATING, CodeVariant.PROGRAM_ORDER):
        assert choice.may_gain(variant, code(70, 16))
        assert not choice.may_gain(variant, code(70, 16, spills=4))
        assert not dots.may_gain(variant, code(70, 16))


def gradients(block: int) -> Module:
    """`gradients(x, y, z)`: two results, which share what is computed from x [block]."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("gradients", x=kind, y=kind, z=kind) as (x, y, z):
        at = b.arange(block)
        first, second = (x + at).load(), (x + (at + block)).load()
        root = (first * first * 0.25 + first).exp2()
        (y + at).store(root * second + first * 2.0)
        (z + at).store((root * first + second) * (root - second * first))
    return b.module()


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize("spills", [0, 8])
@pytest.mark.parametrize("fewer", [True, False])
def test_a_kernel_is_generated_again_by_the_scheduler(spills, fewer, monkeypatch):
    kernel = compile_kernel(gradients(4096), "sm_90a", Options(num_warps=4))
    assert kernel.generate is not None
    _, ptx, _ = kernel.generate(CodeVariant.SCHEDULED)
    assert ptx != kernel.ptx
    texts: list[str] = []
    own = CompiledKernel._assembled_from

    def record_ptx(self, text):
        texts.append(text)
        return attrs.evolve(own(self, text), spills=0 if len(texts) > 1 else spills)

    monkeypatch.setattr(CompiledKernel, "_assembled_from", record_ptx)
    monkeypatch.setattr(RegisterChoice, "best", lambda self, ptx, code, assemble: code)
    monkeypatch.setattr(register_limit, "live_halves", lambda text: 2 - fewer * (text == ptx))
    tried = lambda self, variant, code: variant is CodeVariant.SCHEDULED  # noqa: E731
    monkeypatch.setattr(RegisterChoice, "may_gain", tried)
    monkeypatch.setattr(RegisterChoice, "better", lambda self, code, other, variant=None: other)
    cubin = kernel.machine_code.cubin
    assert texts == [kernel.ptx, *([ptx] if fewer else [])]
    assert (cubin == own(kernel, ptx).cubin) is fewer


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize(
    ("registers", "tried"),
    [
        (
            None,
            set(CodeVariant)
            - {CodeVariant.DEPTH_FIRST, CodeVariant.PROGRAM_ORDER}
            - {CodeVariant.RECOMPUTED, CodeVariant.OVERLAPPED},
        ),
        (16, {CodeVariant.PREFETCHED}),  # a limit has gained
        (164, {CodeVariant.PREFETCHED, CodeVariant.UNREDUCED}),  # and has added registers
    ],
)
def test_few_variants_are_tried_where_a_limit_gains(registers, tried, monkeypatch):
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind, n=I32) as (x, y, n):
        at, total = b.arange(128), b.var(b.full((128,), 0.0, F32))
        with b.for_(n) as i:
            total += (x + (i * 128 + at)).load()
        (y + at).store(total.get())
    kernel = compile_kernel(b.module(), "sm_90a", Options(num_warps=4))
    limited = None if registers is None else code(registers, 8)
    candidates: list[CodeVariant] = []
    monkeypatch.setattr(RegisterChoice, "best", lambda self, ptx, own, assemble: limited or own)
    monkeypatch.setattr(
        RegisterChoice, "may_gain", lambda self, variant, code: candidates.append(variant)
    )
    assert kernel.machine_code is limited or registers is None
    assert set(candidates) == tried and len(candidates) == len(tried)


@for_each(
    ("alive", "likeliest"),
    [
        ({CodeVariant.UNREDUCED: 90, CodeVariant.SCHEDULED: 80}, CodeVariant.SCHEDULED),
        ({CodeVariant.UNREDUCED: 70, CodeVariant.SCHEDULED: 80}, CodeVariant.UNREDUCED),
        ({CodeVariant.UNREDUCED: 99, CodeVariant.SCHEDULED: 94}, CodeVariant.UNREDUCED),
        ({CodeVariant.UNREDUCED: 101, CodeVariant.SCHEDULED: 91}, None),
        ({CodeVariant.UNREDUCED: 100}, None),  # as many
        ({CodeVariant.PROGRAM_ORDER: 128}, CodeVariant.PROGRAM_ORDER),  # ptxas changes the order
        ({}, None),
    ],
)
def test_the_variant_with_the_fewest_registers_alive_is_the_likeliest(alive, likeliest):
    choice = RegisterChoice(MACHINE, 4, 0, alone=False)
    others = {variant: with_registers(count, "//") for variant, count in alive.items()}
    likely = choice.likeliest(with_registers(100), others, code(96, 8))
    assert (likely and likely.variant) is likeliest
    assert likely is None or likely.part == alive[likely.variant] / 100
    same = dict.fromkeys(alive, with_registers(100))
    assert choice.likeliest(with_registers(100), same, code(96, 8)) is None, "the same code"


@for_each(
    ("variant", "before", "is_likely"),
    [
        (CodeVariant.SCHEDULED, code(96, 4), True),  # half of the loads wait
        (CodeVariant.SCHEDULED, code(96, 8), False),
        (CodeVariant.SCHEDULED, code(96, 4, spills=80), False),
        (CodeVariant.UNREDUCED, code(96, 8), True),
    ],
)
def test_a_schedule_may_have_more_loads_in_flight(variant, before, is_likely):
    choice = RegisterChoice(MACHINE, 4, 0, alone=False)
    others = {variant: with_registers(97, "//")}
    assert (choice.likeliest(with_registers(100), others, before) is not None) is is_likely


def with_registers(alive: int, comment: str = "") -> str:
    """PTX in which `alive` registers are alive at once."""
    line, read = "\tadd.s32 \t%r{}, 1, 1;\n", "\tst.global.b32 \t[%rd1], %r{};\n"
    lines = [x.format(n) for x in (line, read) for n in range(1, alive - 1)]
    return "".join((comment, "\tmov.b64 \t%rd1, 0;\n", *lines))


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize("name", ["gemma", "mma", "norm"])
def test_a_kernel_has_dots_by_its_instructions(name, monkeypatch):
    """Not by its name."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel(name, x=kind, y=kind) as (x, y):
        at = b.arange(512)
        (y + at).store((x + at).load())
    choices = list[bool]()
    monkeypatch.setattr(
        RegisterChoice, "best",
        lambda self, ptx, code, assemble: choices.append(self.dots) or code,
    )  # fmt: skip
    assert compile_kernel(b.module(), "sm_90a", Options(num_warps=4)).machine_code
    assert choices == [False]
