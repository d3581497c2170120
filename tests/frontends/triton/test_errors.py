"""What is wrong in a kernel is said at its line and column, and nothing else escapes."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir import TileirError


@triton.jit
def unknown_name(x):
    tl.store(x, y)  # noqa: F821 §y)


@triton.jit
def unknown_function(x):
    tl.frobnicate(x)  # §tl.frobnicate


@triton.jit
def mixed_shapes(x):
    tl.store(x + tl.arange(0, 4), tl.arange(0, 4) + tl.arange(0, 3))  # §tl.arange(0, 4) +


@triton.jit
def float_pointer(x):
    tl.load(x + 1.5)  # §x + 1.5


@triton.jit
def too_many_of_few(x):
    best = tl.load(x + tl.arange(0, 4)).topk(9)  # §tl.load(x + tl.arange(0, 4)).topk(9)
    tl.store(x + tl.arange(0, 9), best)


@triton.jit
def cast_of_nothing(x):
    tl.cast(1, 2)  # §tl.cast(1, 2)


@triton.jit
def negative_extent(x):
    tl.zeros((4, -4), tl.float32)  # §tl.zeros((4, -4), tl.float32)


@triton.jit
def endless_range(x):
    for i in range():  # §range()
        tl.store(x, i)


@triton.jit
def unrolled_in_place(x):
    for i in tl.static_range(0, 4, 0):  # §for
        tl.store(x, i)


@triton.jit
def list_at_run_time(x, n):
    squares = [i * i for i in range(n)]  # §[i * i
    tl.store(x, squares[0])


@triton.jit
def unpacked_tensor(x):
    tl.store(*tl.arange(0, 4))  # §tl.store


@triton.jit
def called_list(x):
    tl.store(x, [1, 2](tl.arange(0, 4)))  # §[1, 2](


@triton.jit
def not_static(x, n):
    tl.store(x + tl.arange(0, n), 0)  # §tl.arange(0, n)


@triton.jit
def one_path_only(x, n):
    if n > 0:
        v = 1
    tl.store(x, v)  # §v)


@triton.jit
def left_at_run_time(x, n):
    for i in tl.static_range(4):
        if n > i:
            break  # §break
        tl.store(x, i)


@triton.jit
def round_left_at_run_time(x, n):
    for _ in range(n):
        for i in (1, 2):
            if n > i:
                continue  # §continue
            tl.store(x, i)


@triton.jit
def changes_type(x, n):
    v = 0
    for _ in range(n):
        v = v + 0.5  # §v = v + 0.5
    tl.store(x, v)


@triton.jit
def loop_only(x, n):
    for i in range(n):
        w = i
    tl.store(x, w)  # §w)


@triton.jit
def raises(x):
    raise ValueError  # §raise


@triton.jit
def in_place(x):
    v = tl.arange(0, 4)
    v[0] = 1  # §v[0] = 1


@triton.jit
def element_of(x):
    v = tl.arange(0, 4)
    tl.store(x, v[0])  # §v[0]


@triton.jit
def false_assertion(x):
    tl.static_assert(1 == 2, "no")  # §tl.static_assert


@triton.jit
def bad_axis(x):
    tl.sum(tl.arange(0, 4), axis=1)  # §tl.sum


@triton.jit
def bad_keyword(x):
    tl.load(x, masked=True)  # §tl.load


@triton.jit
def misspelled_axis(x):
    tl.store(x, tl.sum(tl.arange(0, 4), axsi=0))  # §tl.sum


@triton.jit
def too_few_of_a_combiner(x):
    lanes = tl.arange(0, 4)
    result = tl.reduce((lanes, lanes), 0, sum_of_pairs)  # §tl.reduce
    tl.store(x, result[0])


@triton.jit
def largest_of_one(x):
    tl.store(x, max(tl.arange(0, 4)))  # §max


@triton.jit
def rounded_integer(x):
    tl.load(x).to(tl.int32, fp_downcast_rounding="rtz")  # §tl.load(x).to(


@triton.jit
def fractional_places(x):
    tl.gather(tl.arange(0, 4), tl.arange(0, 4) * 0.5, 0)  # §tl.gather


@triton.jit
def histogram_of_fractions(x):
    tl.histogram(tl.arange(0, 4) * 0.5, 4)  # §tl.histogram


@triton.jit
def rest_of_a_tuple(x):
    first, *_rest = (1, 2, 3)  # §first, *_rest
    tl.store(x, first)


@triton.jit
def launched_by_a_kernel(x):
    fine[(1,)](x)  # §fine[(1,)]


@triton.jit
def checked_pointer(x, n):
    tl.load(x + n, boundary_check=(0,))  # §tl.load


@triton.jit
def stored_checked(x, n):
    tl.store(x + n, 1.0, boundary_check=(0,))  # §tl.store


@triton.jit
def checked_too_far(x, n):
    block = tl.make_block_ptr(x, (n, n), (n, 1), (0, 0), (4, 4), (1, 0))
    tl.load(block, boundary_check=(0, 2))  # §tl.load


@triton.jit
def masked_block(x, n):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (4,), (0,))
    tl.store(block, 1.0, mask=tl.arange(0, 4) < n)  # §tl.store


@triton.jit
def advanced_too_little(x, n):
    block = tl.make_block_ptr(x, (n, n), (n, 1), (0, 0), (4, 4), (1, 0))
    block = tl.advance(block, (4,))  # §tl.advance


@triton.jit
def many_conditions(x):
    if tl.arange(0, 4) > 1:  # §if
        tl.store(x, 1)


@triton.jit
def no_matrices(x):
    tl.dot(tl.arange(0, 4), tl.arange(0, 4))  # §tl.dot


@triton.jit
def endless(x):
    return endless(x)  # §endless(x)


@triton.jit
def returns_value(x):
    return x  # §return


KERNELS = [v for v in list(globals().values()) if isinstance(v, triton.JITFunction)]


@triton.jit
def sum_of_pairs(a, b, c, d):
    return a + b + c + d


@for_each("kernel", KERNELS)
def test_an_error_is_at_the_line_and_column_that_is_marked(kernel: Any) -> None:
    lines, first = inspect.getsourcelines(kernel.fn)
    row = next(i for i, line in enumerate(lines) if "§" in line)
    marked = lines[row].rpartition("§")[2].rstrip("\n")
    types = {name: "i32" if name == "n" else "*fp32" for name in kernel.arg_names}
    with pytest.raises(TileirError) as caught:
        kernel.module(types)
    assert caught.value.code.startswith("TIR10")
    error = caught.value.location
    assert error is not None
    assert Path(error.file).resolve() == Path(__file__)
    assert error.line == first + row
    assert lines[row][error.column - 1 :].startswith(marked)


@triton.jit
def swapped_operands(x, n):
    block = tl.make_block_ptr(x, (n, n), (n, 1), (0, 0), (4, 4), (1, 0))
    tl.store((block, n, fine, "a"), block)


def test_a_value_is_named_as_the_kernel_knows_it() -> None:
    with pytest.raises(TileirError) as caught:
        swapped_operands.module({"x": "*fp32", "n": "i32"})
    shown = "not tuple (BlockPointer of (4, 4) fp32, int32, function fine, str 'a')"
    assert str(caught.value).endswith(shown)


def test_what_cannot_be_launched_is_refused() -> None:
    x = np.zeros(4, np.float32)
    for arguments, grid in (((x, 1), (1,)), ((), (1,)), ((x,), ("a",))):
        with pytest.raises(TileirError) as caught:
            fine[grid](*arguments)
        assert caught.value.code == "TIR1005"
    with pytest.raises(TileirError):
        fine[(1,)](np.zeros(4, np.complex64))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: triton.jit(fine),
        lambda: triton.jit(print),
        lambda: triton.autotune([triton.Config({})], [])(fine.fn),
        lambda: triton.autotune([{"B": 16}], [])(fine),  # type: ignore[list-item]
        lambda: triton.heuristics({})(fine.fn),
    ],
)
def test_decorators_in_another_order_are_refused(wrong: Any) -> None:
    with pytest.raises(TileirError) as caught:
        wrong()
    assert caught.value.code == "TIR1005"


@triton.jit
def fine(x):
    tl.store(x, 1)


def test_functions_of_the_language_do_nothing_outside_kernels() -> None:
    with pytest.raises(RuntimeError, match="jit"):
        tl.arange(0, 4)
    with pytest.raises(RuntimeError, match="grid"):
        fine(1)


@triton.jit
def misspelt(x):
    tl.store(x, tl.lod(x))


@triton.jit
def bound_of_range(x, n):
    tl.store(x + tl.arange(0, n), 0)


@triton.jit
def index_of_pointer(x):
    tl.store(x, x[0])


@triton.jit
def assignment_to_pointer(x):
    x[0] = 1


@triton.jit
def type_of_total(x, n):
    total = 0
    for _ in range(n):
        total = total + 1.5
    tl.store(x, total)


@triton.jit
def dot_of_rows(x):
    row = tl.load(x + tl.arange(0, 16))
    tl.store(x, tl.sum(tl.dot(row, row)))


@triton.jit
def dot_of_a_row(x):
    row = tl.load(x + tl.arange(0, 16))
    tl.store(x, tl.sum(tl.dot(row[:, None] + row, row)))


@pytest.mark.parametrize(
    ("kernel", "remedy"),
    [
        (misspelt, r"did you mean load\?"),
        (bound_of_range, "annotate a parameter with tl.constexpr"),
        (index_of_pointer, r"use tl.load\(p \+ i\)"),
        (assignment_to_pointer, r"use tl.store\(p \+ i, value\)"),
        (type_of_total, "convert one of them"),
        (dot_of_rows, r"shapes \(M, K\) and \(K, N\), not fp32<16>"),
        (dot_of_a_row, r"shapes \(M, K\) and \(K, N\), not fp32<16, 16>"),
    ],
)
def test_mistakes_of_beginners_name_a_remedy(kernel: Any, remedy: str) -> None:
    types = {"x": "*fp32", "n": "i32"}
    names = inspect.signature(kernel.fn).parameters
    with pytest.raises(triton.CompilationError, match=remedy):
        kernel.module({name: types[name] for name in names}, {})
