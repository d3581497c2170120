"""Whole kernels as native code: grids, memory, functions, what is said and what fails."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tileir
from tileir import textual
from tileir.backend.cpu import globals as globals_
from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.backend.cpu.executor import CpuExecutor
from tileir.backend.cpu.host_callbacks import CallbackLog
from tileir.backend.legal import within
from tileir.builder import F16, F32, F64, I8, I32, I64, Builder, pointer
from tileir.errors import CompileError, LaunchError
from tileir.executor import executor
from tileir.tools.main import main
from tileir.types import tile

EXAMPLES = Path(__file__).parents[3] / "examples"


def both(module, grid, *arguments, **options):
    """The interpreter and native code leave the same in the arguments."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    tileir.interpret(module, None, grid, list(arguments))
    CpuExecutor().launch(module, None, grid, copies, **options)
    for expected, actual in zip(arguments, copies, strict=True):
        np.testing.assert_array_equal(actual, expected)
    return copies


def test_it_is_an_executor():
    assert executor("cpu").name == "cpu"


@pytest.mark.parametrize("name", ["run", "host", "beyond.row", "f.a b", 'a "é"'])
def test_any_name_is_a_kernel_s(name):
    """Those of the code's own functions too, and those that are no word."""
    b = Builder()
    with b.function("a b", I32, left=I32, right=I32) as (left, right):
        b.ret(b.maximum(left, right))
    with b.kernel(name, x=pointer(I32)) as (x,):
        x.store(b.reduce(b.arange(48), axis=0, combiner="a b"))
    (out,) = both(b.module(), 1, np.zeros(1, np.int32))
    assert out[0] == 47


def test_every_instance_of_a_grid_of_three_dimensions():
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        i, j, k = (b.program_id(axis=a) for a in range(3))
        at = (k * b.num_programs(axis=1) + j) * b.num_programs(axis=0) + i
        (x + at).store(i + j * 10 + k * 100)
    (out,) = both(b.module(), (3, 4, 5), np.zeros(60, np.int32), threads=3)
    assert out[-1] == 432


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stride", [1, 2, -1, 0, 5])
def test_addresses_in_steps(stride):
    """Rows are read at once where the step is one element, whatever the sign of the index."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), step=I32) as (x, y, step):
        at = b.arange(40) * step + 200
        (y + b.arange(40)).store((x + at).load() * 2.0)
    x = np.arange(400, dtype=np.float32)
    both(b.module(), 1, x, np.zeros(40, np.float32), stride)


def test_indices_that_wrap_do_not_follow_one_another():
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I64), start=I32) as (x, y, start):
        at = b.arange(64) + start
        inside = at >= 0
        value = (x + at).load(inside, 7)
        (y + b.arange(64)).store(value.to(I64))
    x = np.arange(8, dtype=np.int32)
    both(b.module(), 1, x, np.zeros(64, np.int64), -60)


def test_several_ops_have_allocations_for_what_threads_exchange():
    """A part put where an index says, and one taken from another place."""
    b = Builder()
    with b.kernel("k", x=pointer(I32), y=pointer(I32), at=I32) as (x, y, at):
        whole = (x + b.arange(64)).load()
        part = b.extract_slice(whole, tile(I32, (16,)), [at])
        (y + b.arange(64)).store(b.insert_slice(whole, part * 2, [at + 3]))
    x = np.arange(64, dtype=np.int32)
    (_, out, _) = both(b.module(), 1, x, np.zeros(64, np.int32), 20)
    assert out[23] == 40 and out[22] == 22


def test_atomics_of_many_threads():
    b = Builder()
    with b.kernel("k", total=pointer(I32), halves=pointer(F16)) as (total, halves):
        b.atomic_rmw(total + b.arange(32) % 4, b.arange(32), op="add")
        b.atomic_rmw(halves, b.constant(F16, 1.0), op="fadd")
    out = [np.zeros(4, np.int32), np.zeros(2, np.float16)]
    CpuExecutor().launch(b.module(), None, 100, out, threads=4)
    assert out[0].tolist() == [100 * sum(range(i, 32, 4)) for i in range(4)]
    assert out[1].tolist() == [100.0, 0.0]


@pytest.mark.parametrize("element", [F16, F32, F64], ids=str)
def test_atomic_extremes_distinguish_zeros(element):
    dtype = {F16: np.float16, F32: np.float32, F64: np.float64}[element]
    b = Builder()
    with b.kernel("k", x=pointer(element), y=pointer(element)) as (x, y):
        for row, op in enumerate(("fmax", "fmin")):
            operand = (y + b.arange(4)).load()
            b.atomic_rmw(x + row * 4 + b.arange(4), operand, op=op)
    start = np.array([[0.0, -0.0, np.nan, 1.0]] * 2, dtype)
    operand = np.array([-0.0, 0.0, -1.0, np.nan], dtype)
    expected, actual = start.copy(), start.copy()
    tileir.interpret(b.module(), None, 1, [expected, operand])
    CpuExecutor().launch(b.module(), None, 1, [actual, operand])
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))
    assert np.signbit(actual[:, :2]).tolist() == [[False, False], [True, True]]


def test_a_combiner_with_branches():
    module = textual.parse(
        """tir 1.0
define i32 @far(i32 %a, i32 %b) {
entry:
  %aa = iabs i32 %a
  %bb = iabs i32 %b
  %p, _ = icmp (i1, i1) %aa, %bb {predicate = slt}
  cond_br %p, second, first
first:
  ret %a
second:
  ret %b
}
define kernel void @k(i32* %x, i32* %y) {
entry:
  %r = make_range i32<64>
  %xs = splat i32*<64> %x
  %px = getelementptr i32*<64> %xs, %r
  %v = load i32<64> %px
  %far = reduce i32 %v {combiner = @far}
  store %y, %far
  ret
}
"""
    )
    x = np.random.default_rng(0).integers(-99, 99, 64).astype(np.int32)
    both(module, 1, x, np.zeros(1, np.int32))


def test_what_is_printed_names_instance_place_and_element():
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        b.print((x + b.arange(2)).load(), prefix="v")
    output = []
    CpuExecutor().launch(b.module(), None, 2, [np.float32([1.5, -2.0])], output=output, threads=1)
    assert len(output) == 4
    assert output[1].startswith("(0, 0, 0) ") and output[1].endswith("[1] v -2")


@pytest.mark.parametrize(
    ("element", "kind"), [(I8, np.int8), (I32, np.int32), (I64, np.int64)], ids=["i8", "i32", "i64"]
)
def test_hexadecimal_numbers_are_their_bits(element, kind):
    b = Builder()
    with b.kernel("k", x=pointer(element)) as (x,):
        b.print((x + b.arange(4)).load(), prefix="v", hex=True)
    output, x = [], np.array([-1, -128, 0, 127], kind)
    CpuExecutor().launch(b.module(), None, 1, [x], output=output)
    bits = [hex(int(n) & (1 << 8 * x.itemsize) - 1) for n in x]
    assert [line.split("v ")[-1] for line in output] == bits


def test_what_fails_outside_of_instances_is_told_before_all_others():
    calls = CallbackLog()
    for message in ("(1, 0, 0) a.py:3: wrong", "ValueError: broken", "(0, 1, 0) a.py:2: wrong"):
        calls.fail(message)
    assert calls.first_failure().message == "ValueError: broken"


def test_a_failed_assertion_is_an_error_with_its_place():
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        b.assert_((x + b.arange(8)).load() < 5, message="too large")
    CpuExecutor().launch(b.module(), None, 1, [np.zeros(8, np.int32)])
    with pytest.raises(LaunchError, match=r"test_kernels.py:\d+: too large") as caught:
        CpuExecutor().launch(b.module(), None, 1, [np.arange(8, dtype=np.int32)])
    assert caught.value.diagnostics[0].code == "TIR0713"


def test_concurrent_launches_of_one_kernel_keep_their_output_separate():
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        b.print(x.load(), prefix="v")
    kernel = compile_kernel(b.module())
    values = [np.int32([i]) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        outputs = list(pool.map(lambda v: kernel(20, [v.ctypes.data], threads=2), values))
    for i, lines in enumerate(outputs):
        assert len(lines) == 20 and all(line.endswith(f"v {i}") for line in lines)


def test_the_globals_of_a_kernel_are_collected_once(monkeypatch):
    """However many accesses to globals it has."""
    accesses = "".join(
        f"  %p{i} = global_address f32* @table\n  store %p{i}, {i}.0\n" for i in range(3)
    )
    module = textual.parse(
        f"tir 1.0\nglobal f32 @table\ndefine kernel void @k() {{\nentry:\n{accesses}  ret\n}}\n"
    )
    calls = []
    monkeypatch.setattr(globals_, "within", lambda *args: calls.append(args) or within(*args))
    compile_kernel(module)
    assert len(calls) == 1


def test_globals_keep_what_is_stored_between_instances():
    module = textual.parse(
        """tir 1.0
global i32 @count = 5
define kernel void @k(i32* %y) {
entry:
  %p = global_address i32* @count
  %old = atomic_rmw i32 %p, 1 {op = add}
  %i = program_id i32
  %at = getelementptr i32* %y, %i
  store %at, %old
  ret
}
"""
    )
    out = [np.zeros(4, np.int32)]
    CpuExecutor().launch(module, None, 4, out, threads=1)
    assert out[0].tolist() == [5, 6, 7, 8]


TABLE = """tir 1.0
GLOBAL i32<4> @table
define kernel void @k(i32* %y) {
entry:
  %p = global_address i32* @table
  %last = getelementptr i32* %p, i32 3
  %v = load i32 %last
  store %y, %v
  ret
}
"""


@pytest.mark.parametrize("on", ["cpu", "simt"])
def test_globals_that_nothing_fills_are_zero(on):
    y = np.full(1, 9, np.int32)
    executor(on).launch(textual.parse(TABLE.replace("GLOBAL", "global")), None, 1, [y])
    assert y[0] == 0


def test_globals_that_are_only_declared_have_no_address():
    declared = TABLE.replace("GLOBAL", "declare global")
    with pytest.raises(CompileError, match=r":5:3: .*@table is declared here") as caught:
        compile_kernel(textual.parse(declared))
    assert caught.value.code == "TIR0706"
    head, _, rest = declared.partition("  %p = global_address i32* @table\n")
    unused = head + rest.replace("%p, i32 3", "%y, i32 0")
    y = np.full(1, 9, np.int32)
    CpuExecutor().launch(textual.parse(unused), None, 1, [y])
    assert y[0] == 9


def test_code_for_gpus_is_refused():
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        x.store(b.inline_asm(I32, x.load(), text="mov.b32 $0, $1;", constraints="=r,r"))
    with pytest.raises(CompileError, match="PTX"):
        compile_kernel(b.module(), permit=("inline_asm",))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.tir")), ids=lambda path: path.stem)
def test_examples_agree_with_numpy(path, capsys, tmp_path):
    assert main(["run", str(path), "--on", "cpu", "--ptx", str(tmp_path / "kernel.ptx")]) == 0
    assert "on cpu" in capsys.readouterr().out


def test_tiles_of_pointers_that_loops_move_stay_rows():
    """One pointer moves: nothing is asked of 32 addresses in every iteration."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
        rows, columns = b.arange(4)[:, None], b.arange(32)[None, :]
        at = b.var(x + (rows * n + columns), name="at")
        total = b.var(b.zeros((4, 32)), name="total")
        with b.for_(0, n, 32):
            total.set(total + at.load())
            at.set(at + 32)
        (y + (rows * 32 + columns)).store(total)
    module = b.module()
    assert "icmp ne <32 x ptr" not in compile_kernel(module).optimized_llvm
    data = np.random.default_rng(0).standard_normal((4, 96)).astype(np.float32)
    both(module, 1, data.ravel(), np.zeros(128, np.float32), 96)


def test_a_forked_process_has_threads_of_its_own():
    b = Builder()
    with b.kernel("k", x=pointer(I32)) as (x,):
        (x + b.program_id(axis=0)).store(1)
    kernel, data = compile_kernel(b.module()), np.zeros(64, np.int32)
    kernel(64, [data.ctypes.data], threads=3)
    child = os.fork()
    if child == 0:
        second = np.zeros(64, np.int32)
        kernel(64, [second.ctypes.data], threads=3)
        os._exit(0 if second.all() else 1)
    assert data.all() and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("element", "dtype"), [(F16, np.float16), (I8, np.int8)])
def test_elements_without_an_instruction_that_gathers_them_are_read_by_a_function(element, dtype):
    """Rows of 24 straddle vectors of 32: each is read as a row or lane by lane. LLVM writes the
    latter out as 32 branches, which took 10 s where they stood at every vector."""
    b = Builder()
    with b.kernel("k", x=pointer(element), y=pointer(element), n=I32) as (x, y, n):
        rows, columns = b.arange(40)[:, None], b.arange(24)[None, :]
        (y + (columns * n + rows)).store((x + (rows * n + columns)).load(columns < n, 0))
    module = b.module()
    text = compile_kernel(module).optimized_llvm
    for does in ("gather", "scatter"):
        # Of the kernel's memory and of shared memory: declared, and called once.
        assert text.count(f"@llvm.masked.{does}.v32") == 4, does
        assert text.count(f"@{does}.") > 20
    data = np.random.default_rng(0).integers(-100, 100, 40 * 40).astype(dtype)
    both(module, 1, data, np.zeros(40 * 40, dtype), 40)
