"""Strip-mining: programs mean what they meant, at any size, and code stays small."""

from pathlib import Path

import numpy as np
import pytest

import tileir
from tests.counting import calls_of
from tileir.backend import compile as compile_kernel
from tileir.builder import F32, I8, I16, I32, I64, Builder, arg, pointer, tile
from tileir.errors import CompileError
from tileir.passmanager import run
from tileir.textual import parse, print_module

FOUND = Path(__file__).parents[1] / "corpus/found"
SMALL = "strip-mine{{warps=1,limit=1,chunk=1,keep={keep}}}"


def equal(module, grid, arguments, *, keep=0, rtol=0.0, loops=None):
    """The program and those cut by strip-mining give the same; the one that computes again what
    loops need."""
    result = run(module, SMALL.format(keep=keep))
    reparsed = parse(print_module(result.module))
    saving = run(module, SMALL.format(keep=keep).replace("}", ",functions=true}")).module
    results = []
    for program in (module, result.module, reparsed, saving):
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        tileir.interpret(program, None, grid, copies)
        results.append(copies)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol)
    text = print_module(result.module)
    if loops is not None:
        assert text.count("cond_br ") == loops, text
    return result.module


def buffers(*names, **more):
    return {name: arg(pointer(F32), noalias=True, **more) for name in names}


def softmax(rows, columns):
    b = Builder()
    with b.kernel("softmax", **buffers("x", "y"), n=I32) as (x, y, n):
        row = b.program_id(axis=0) * rows + b.arange(rows)
        place = row[:, None] * columns + b.arange(columns)[None, :]
        inside = (b.arange(columns) < n)[None, :].broadcast_to(rows, columns)
        value = (x + place).load(inside, float("-inf"))
        weight = (value - value.max(axis=1)[:, None]).exp()
        (y + place).store(weight / weight.sum(axis=1)[:, None], inside)
    return b.module()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("rows", "columns", "loops"),
    [(1, 64, 3), (1, 65, 3), (1, 200, 3), (4, 64, 4), (3, 67, 4), (4, 9, 1), (2, 33, 1)],
)
def test_softmax_is_cut_by_rows_and_then_by_columns(rows, columns, loops):
    x = np.random.default_rng(columns).normal(size=(2 * rows, columns)).astype(np.float32)
    module = softmax(rows, columns)
    y = np.full_like(x, np.nan)
    equal(module, 2, [x, y, columns - 1], rtol=1e-6, loops=loops)


def test_columns_are_cut_where_no_loop_has_to_wait_for_another():
    """The largest of a column is found where the column is in registers: it is loaded once."""
    b = Builder()
    with b.kernel("k", **buffers("x", "y")) as (x, y):
        place = b.arange(4)[:, None] * 64 + b.arange(64)[None, :]
        value = (x + place).load()
        (y + place).store(value - value.max(axis=0)[None, :])
    x = np.random.default_rng(1).normal(size=(4, 64)).astype(np.float32)
    new = equal(b.module(), 1, [x, np.full_like(x, np.nan)], loops=1)
    assert print_module(new).count(" = load ") == 1


@pytest.mark.parametrize(("keep", "loops", "loads"), [(1, 3, 4), (2, 3, 5), (5, 0, 5)])
def test_what_is_kept_is_loaded_once(keep, loops, loads):
    x = np.random.default_rng(1).normal(size=(2, 160)).astype(np.float32)
    arguments = [x, np.full_like(x, np.nan), 159]
    module = equal(softmax(1, 160), 2, arguments, keep=keep, rtol=1e-6, loops=loops)
    assert print_module(module).count(" = load ") == loads


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize(("functions", "count"), [("false", 2), ("true", 1)])
def test_functions_that_loops_need_are_computed_once(rows, functions, count):
    options = f"warps=1,limit=1,chunk=1,keep=0,functions={functions}"
    text = print_module(run(softmax(rows, 64), f"strip-mine{{{options}}}").module)
    assert text.count(" = exp ") == count


def test_a_function_of_a_function_is_computed_once_with_it():
    b = Builder()
    with b.kernel("k", **buffers("x", "y", "z")) as (x, y, z):
        at = b.arange(200)
        value = b.exp(b.sin((x + at).load()))
        (y + at).store(value / value.sum(axis=0))
        (z + at).store(value * value.max(axis=0), at < 190)
    x = np.random.default_rng(3).normal(size=200).astype(np.float32)
    arguments = [x, np.full_like(x, np.nan), np.full_like(x, np.nan)]
    equal(b.module(), 1, arguments, rtol=1e-6)
    transformed = run(
        b.module(), "strip-mine{warps=1,limit=1,chunk=1,keep=0,functions=true}"
    ).module
    text = print_module(transformed)
    assert [text.count(f" = {op} ") for op in ("exp", "sin", "gpu.private_alloc")] == [1, 1, 1]


@pytest.mark.slow
def test_a_row_that_fits_no_register_file_compiles_in_few_steps():
    module = softmax(4, 65536)
    compiled = compile_kernel(module, "sm_90")
    assert len(compiled.ptx) < 120_000 and compiled.metadata.spills == 0
    assert compiled.llvm.count("\n") < 9000
    assert calls_of(lambda: compile_kernel(module, "sm_90")) < 700_000


def test_what_cannot_be_cut_stays_whole_and_says_so():
    """Of one load, rows and columns are needed after a store, and next to what that wrote."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), z=pointer(F32)) as (x, y, z):
        place = b.arange(20)[:, None] * 20 + b.arange(20)[None, :]
        value = (x + place).load()
        (y + b.arange(20)).store(value.max(axis=1))
        both = value + b.trans(value, order=(1, 0))
        (z + place).store(both + (x + place).load())
    module = b.module()
    result = run(module, "strip-mine{limit=1,chunk=1,warps=1}")
    assert print_module(result.module) == print_module(module)
    assert any("if parameters were noalias, it would be cut" in str(r) for r in result.remarks)
    assert [d.code for d in result.remarks] == ["TIR0752"] * 2


def test_a_store_where_the_value_was_read_needs_no_promise():
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        place = x + (b.program_id(axis=0) * 200 + b.arange(200))
        value = place.load()
        place.store(value / value.sum(axis=0))
    equal(b.module(), 2, [np.arange(400, dtype=np.float32)], rtol=1e-6, loops=2)


def test_a_value_that_is_stored_over_is_not_reloaded():
    module = parse((FOUND / "strip_read_after_in_place.tir").read_text())
    equal(module, 1, [np.arange(1100, dtype=np.float64), np.zeros(1100)], loops=2)
    equal(module, 1, [np.arange(1100, dtype=np.float64), np.zeros(1100)], keep=3)


def test_a_load_after_a_store_reads_what_was_stored():
    b = Builder()
    with b.kernel("k", **buffers("x", "y")) as (x, y):
        place = b.arange(96)
        (x + place).store((y + place).load() + 1.0)
        (y + place).store((x + (95 - place)).load())
    x = np.zeros(96, np.float32)
    equal(b.module(), 1, [x, np.arange(96, dtype=np.float32)], loops=2)


def test_sums_that_need_nothing_of_each_other_share_a_loop():
    b = Builder()
    with b.kernel("k", **buffers("x", "y")) as (x, y):
        value = (x + b.arange(256)).load()
        y.store(value.sum(axis=0))
        (y + 1).store((value * value).max(axis=0))
    equal(b.module(), 1, [np.arange(256, dtype=np.float32), np.zeros(2, np.float32)], loops=1)


@pytest.mark.parametrize("element", [I8, I16, I32, I64], ids=str)
def test_ranges_of_any_integer(element):
    b = Builder()
    with b.kernel("k", x=arg(pointer(element), noalias=True)) as (x,):
        numbers = b.insert("make_range", type=tile(element, (100,)), start=3)
        (x + b.arange(3, 103)).store(numbers * 3)
    equal(b.module(), 1, [np.zeros(103, f"int{element.bits}")], loops=1)


def test_declarations_stay():
    module = parse((FOUND.parents[2] / "examples/relu.tir").read_text())
    done = run(module, "strip-mine{chunk=4}").module
    assert list(done.functions) == list(module.functions)


def test_descriptors_take_no_registers():
    text = (FOUND / "descriptor_as_a_factor_in_registers.tir").read_text()
    assert run(parse(text), "strip-mine").module.kernel("generated")


@pytest.mark.parametrize("warps", [-1, 33, 10**30])
def test_warps_that_no_block_has(warps):
    module = softmax(4, 128)
    with pytest.raises(CompileError, match=f"in 1 to 32, not {warps}"):
        run(module, f"assign-layouts{{warps={warps}}}")
