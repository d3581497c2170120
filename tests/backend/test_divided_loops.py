"""Loops whose iterations instances divide between them, and recurrences."""

import pytest

from tests.sizes import for_each
from tileir.analysis.divided_loops import divides_its_loops
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.assembler import assemble
from tileir.backend.compile import run_pipeline
from tileir.backend.machine_code import LoadsInFlight
from tileir.backend.ptxas import ptxas
from tileir.backend.register_limit import RegisterChoice, is_recurrence
from tileir.backend.target import target
from tileir.builder import F16, F32, I32, Builder, arg, pointer


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize("persistent", [None, "reversed", "counted", "stored"])
def test_a_causal_loop_of_dots_is_not_divided_between_instances(persistent, monkeypatch):
    """It ends depending on the instance, which yet computes its own rows alone, unless it advances
    by the number of instances, or every iteration stores what it computes. A program may reverse
    the order of its instances."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    with b.kernel("causal", q=kind, k=kind, out=pointer(F32), n=arg(I32)) as (q, k, out, n):
        start = b.program_id(axis=0)
        if persistent == "reversed":
            start = b.num_programs(axis=0) - 1 - start
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        queries, total = (q + (at + start * 4096)).load(), b.var(b.full((64, 64), 0.0, F32))
        step = {"counted": b.num_programs(axis=0), "stored": 132}.get(persistent, 1)
        with b.for_(start, n, step, stages=2, independent_loads=True) as i:
            total.set(b.dot(queries, (k + (at + i * 4096)).load(), total.get()))
            if persistent == "stored":
                (out + (at + i * 4096)).store(total.get())
        (out + (at + start * 4096)).store(total.get())
    choices = []
    monkeypatch.setattr(
        RegisterChoice, "best", lambda self, ptx, code, assemble: choices.append(self) or code
    )
    options = Options(num_warps=4, warp_specialize=False)
    assert compile_kernel(b.module(), "sm_90a", options).machine_code
    (choice,) = choices
    assert choice.dots and choice.alone == (persistent in ("counted", "stored"))


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize(("columns", "alone"), [(128, True), (64, False)])
def test_a_recurrence_of_dots_is_alone_on_a_multiprocessor(columns, alone, monkeypatch):
    """Its loads are copied ahead. 64 columns of state are 32 registers of a thread."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    state = arg(pointer(F32), aligned=16)
    with b.kernel("recurrence", x=kind, y=kind, out=state, n=I32) as (x, y, out, n):
        rows = b.arange(64)[:, None]
        left = rows * 64 + b.arange(64)[None, :]
        right = rows * columns + b.arange(columns)[None, :]
        total = b.var(b.full((64, columns), 0.0, F32))
        with b.for_(0, n, stages=2, independent_loads=True) as i:
            (out + (right + i * (64 * columns))).store(total.get())
            operands = (x + (left + i * 4096)).load(), (y + (right + i * (64 * columns))).load()
            total.set(b.dot(*operands, total.get()))
        (out + (right + n * (64 * columns))).store(total.get())
    choices = []
    monkeypatch.setattr(
        RegisterChoice, "best", lambda self, ptx, code, assemble: choices.append(self) or code
    )
    assert compile_kernel(b.module(), "sm_90a", Options(num_warps=4)).machine_code
    (choice,) = choices
    assert choice.dots and choice.alone == alone


@pytest.mark.parametrize("divided", [False, True])
def test_a_persistent_loop_keeps_its_wgmma_in_flight(divided):
    """A block computes all tiles of a column, or those that are its share: few blocks are resident
    then, and no other one multiplies while a block waits."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    with b.kernel("k", x=kind, y=kind, out=pointer(F32), tiles=I32, depth=I32) as (
        x, y, out, tiles, depth,
    ):  # fmt: skip
        at = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        first, step = (b.program_id(axis=0), 132) if divided else (0, 1)
        with b.for_(first, tiles, step) as tile:
            total = b.var(b.full((64, 64), 0.0, F32))
            with b.for_(0, depth, stages=3) as i:
                left = (x + (at + (tile * depth + i) * 4096)).load()
                total.set(b.dot(left, (y + (at + i * 4096)).load(), total.get()))
            (out + (at + tile * 4096)).store(total.get())
    options = Options(num_warps=4, warp_specialize=False)
    lowered = run_pipeline(b.module(), target("sm_90a"), options, None)
    ops = lowered.stages["barriers"].functions["k"].ops
    assert sorted(op.pending for op in ops if op.mnemonic == "gpu.wgmma_wait") == (
        [0, 1] if divided else [0]
    )


@pytest.mark.parametrize("carried", [None, F32, I32])
def test_instances_without_partial_results_are_as_many_as_are_resident(carried):
    """Each copies rows, and counts them, or computes their sum."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, y=kind, n=I32) as (x, y, n):
        i, total = b.arange(1024), b.var(b.constant(carried or I32, 0))
        with b.for_(b.program_id(), n, b.num_programs()) as row:
            value = (x + (i + row * 1024)).load()
            (y + (i + row * 1024)).store(value + 1.0)
            if carried:
                total.set(
                    total.get()
                    + (b.reduce(value, axis=0, combiner="fadd") if carried is F32 else 1)
                )
        if carried:
            y.store(total.get().to(F32))
    result = compile_kernel(b.module(), "sm_90", Options(num_warps=4))
    assert divides_its_loops(result.stages["barriers"].functions["k"]) == (carried is F32)


def decay(stored=True, columns=8192):
    """A state of `columns` elements, which each row of `x` replaces, if `stored`, and changes."""
    b, kind = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("k", x=kind, last=kind, n=I32) as (x, last, n):
        at = b.arange(columns)
        state, place = b.var((last + at).load()), b.var(x + at)
        with b.for_(0, n):
            value = place.get().load()
            if stored:
                place.get().store(state.get())
            state.set(state.get() * 0.5 + value)
            place.set(place.get() + columns)
        (last + at).store(state.get())
    return b.module()


@for_each(
    ("module", "expected"),
    [(decay(), True), (decay(stored=False), False), (decay(columns=4096), False)],
)
def test_a_recurrence_carries_many_registers_and_stores_in_its_loop(module, expected):
    compiled = compile_kernel(module, "sm_90a", Options(num_warps=4))
    assert is_recurrence(compiled.stages["barriers"].functions["k"], 128) == expected


@pytest.mark.skipif(ptxas() is None, reason="only ptxas keeps bounds")
def test_the_loads_of_a_recurrence_are_in_flight_together():
    """ptxas alone takes registers for five blocks, and waits for some loads before it issues
    others."""
    compiled = compile_kernel(decay(), "sm_90a", Options(num_warps=4))
    alone = LoadsInFlight.of(assemble(compiled.ptx, "k", target("sm_90a")).cubin)
    assert alone.together < alone.block == 64
    assert LoadsInFlight.of(compiled.machine_code.cubin).together == 64
