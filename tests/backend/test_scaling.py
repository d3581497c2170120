"""Work grows with the size of a program, not with its square.

Counted in calls of Python functions, so that a busy machine changes nothing: of our passes,
analyses, layouts, plan, barriers and text. LLVM and the assembler are measured by
`benchmarks/compile_time.py`.
"""

import gc
from collections.abc import Callable
from typing import Any

import pytest

from tests.counting import calls_of, grows_linearly
from tileir.analysis.loops import loops as loops_of
from tileir.backend import compile as compile_kernel, pipeline
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.nvptx.emit import KernelUnit, emit
from tileir.backend.target import target
from tileir.backend.tma.infer_descriptors import infer_kernel_descriptors
from tileir.builder import F16, F32, I32, Builder, pointer
from tileir.errors import CompileError
from tileir.ir import Function, Module
from tileir.testing.checking import case, check


def accesses(b: Builder, value: Any, x: Any, n: Any, i: int) -> None:
    place = b.arange(128) + i * 128
    value.set(value + (x + place).load(place < n, 0.0) * 2.0)


def branches(b: Builder, value: Any, x: Any, n: Any, i: int) -> None:
    with b.if_(n > i):  # an arm that is too long to be selected
        value.set((value * 1.5 + float(i)) * 0.5)


def loops(b: Builder, value: Any, x: Any, n: Any, i: int) -> None:
    with b.for_(0, n, 1 + i % 7):
        value.set(value * 1.5 + float(i))


def reductions(b: Builder, value: Any, x: Any, n: Any, i: int) -> None:
    value.set(value * 0.5 + value.sum(axis=0))


def rows(b: Builder, value: Any, x: Any, n: Any, i: int) -> None:
    """Sums of rows, each computed with further on its own."""
    scales = (value.get().reshape(8, 16).sum(axis=1) * 0.5 + 1.0).exp2()
    value.set(value * scales[:, None].broadcast_to(8, 16).reshape(128))


def arithmetic(b: Builder, value: Any, x: Any, n: Any, i: int) -> None:
    value.set(value * 0.5 + float(i))


def quotients(b: Builder, value: Any, x: Any, n: Any, i: int) -> None:
    """Each of the one before."""
    value.set((value.get().to(I32) // (n + i)).to(F32))


def indices(b: Builder, value: Any, x: Any, n: Any, i: int) -> None:
    place = b.arange(128) + i * 128
    row, column = place // n, place % n
    value.set(value + (x + (column * n + row)).load(row < column, 0.0))


Part = Callable[[Builder, Any, Any, Any, int], None]


def module(part: Part, count: int) -> Module:
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        lanes = b.arange(128)
        value = b.var((x + lanes).load(), name="value")
        for i in range(count):
            part(b, value, x, n, i)
        (y + lanes).store(value)
    return b.module()


def text(module: Module) -> str:
    machine = target("sm_90a")
    done = run_pipeline(module, machine, Options(num_warps=4), None)
    unit = KernelUnit(done.stages["barriers"], done.kernel, done.memory, done.num_warps)
    return emit(unit, machine)


def calls(part: Part, count: int) -> int:
    """Python and C functions that are called while a program of `count` parts is lowered."""
    source = module(part, count)
    return calls_of(lambda: text(source))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "small", "times"),
    [
        (arithmetic, 40, 8),
        (accesses, 40, 8),
        (branches, 40, 8),
        (loops, 40, 8),
        (reductions, 40, 8),
        (rows, 20, 8),
        (quotients, 40, 8),
        (indices, 20, 8),
    ],
)
def test_lowering_is_linear(
    part: Part, small: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_MANY_LOOPS", 1)
    calls(part, 4)
    assert calls(part, small * times) <= 9 / 8 * times * calls(part, small)


def loops_of_dots(count: int) -> Function:
    b = Builder()
    with b.kernel("k", x=pointer(F16), y=pointer(F32)) as (x, y):
        square = b.arange(32)[:, None] * 32 + b.arange(32)
        total = b.full((32, 32), 0.0, F32)
        for i in range(count):
            left, right = ((x + square + 1024 * j).load() for j in (2 * i, 2 * i + 1))
            total = left.dot(right, total)
        (y + square).store(total)
    return b.module().functions["k"]


def test_tensor_maps_are_inferred_in_linear_time() -> None:
    assert grows_linearly(lambda count: infer_kernel_descriptors(loops_of_dots(count)), 10, 8)


def left_first(function: Function) -> int:
    """Loops that their header may leave, and not their last block: LLVM rotates them."""
    in_function = loops_of(function).by_header.values()
    leaving = ({label for label, _ in loop.exits} for loop in in_function)
    return sum(
        loop.header in labels and loop.latch not in labels
        for loop, labels in zip(in_function, leaving, strict=True)
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("count", "left"), [(20, 20), (256, 0)])
def test_many_loops_test_at_their_end(count: int, left: int) -> None:
    """So that LLVM, which updates all dominators after a loop that it rotates, has none to."""
    done = run_pipeline(module(loops, count), target("sm_90"), Options(num_warps=4), None)
    function = done.stages["barriers"].functions["k"]
    assert len(loops_of(function).by_header) == count
    assert left_first(function) == left


def test_rotated_loops_become_the_code_that_llvm_makes_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = module(loops, 20)
    usual = code(source)
    monkeypatch.setattr(pipeline, "_MANY_LOOPS", 1)
    assert code(source) == usual


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("name", ["simt-1", "simt-4"])
def test_programs_with_rotated_loops_mean_the_same(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_MANY_LOOPS", 1)
    assert check(case(name, seed)).failure is None


def code(module: Module) -> list[str]:
    """What the instructions do that a kernel is made of, moves between registers aside."""
    ptx = compile_kernel(module, "sm_90", Options(num_warps=4)).ptx
    ops = (line.split()[0] for line in ptx.splitlines() if line.startswith("\t"))
    return sorted(op for op in ops if not op.startswith("mov."))


def test_the_collector_of_cycles_is_reenabled_afterwards() -> None:
    text(module(arithmetic, 1))
    assert gc.isenabled()
    gc.disable()
    try:
        text(module(arithmetic, 1))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_collector_of_cycles_is_reenabled_after_an_error() -> None:
    with pytest.raises(CompileError):
        run_pipeline(module(arithmetic, 1), target("sm_90"), Options(num_warps=99), None)
    assert gc.isenabled()
