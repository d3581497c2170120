"""Strip-mining of values that cross blocks: they go through memory of each thread's own."""

import numpy as np
import pytest

from tileir.builder import F32, I32, Builder, arg, pointer
from tileir.executor import executor
from tileir.passmanager import run
from tileir.textual import parse, print_module

from .test_strip_mine import SMALL, equal
from .test_strip_mine_once import with_warps
from .test_strip_mine_staging import numbers, private_tiles


def kernel(b, *names, promised=True, **more):
    return b.kernel("k", **{n: arg(pointer(F32), noalias=promised) for n in names}, **more)


def summing(shape, promised=True):
    """A sum of tiles over a loop, and the largest of it taken away."""
    b, count = Builder(), int(np.prod(shape))
    with kernel(b, "x", "y", promised=promised, n=I32) as (x, y, n):
        place = b.arange(shape[-1])
        if len(shape) == 2:
            place = b.arange(shape[0])[:, None] * shape[1] + place[None, :]
        total = b.var((x + place).load())
        with b.for_(1, n) as i:
            total.set(total.get() + (x + i * count + place).load())
        largest = total.get()
        for _ in shape:
            largest = largest.max(axis=0)
        (y + place).store(total.get() - largest)
    return b.module()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("promised", [False, True])
@pytest.mark.parametrize("shape", [(64,), (100,), (97,), (3, 40), (40, 3), (2, 33)], ids=str)
@pytest.mark.parametrize("iterations", [1, 2, 5])
@pytest.mark.parametrize("keep", [0, 2])
def test_what_a_loop_carries(shape, promised, iterations, keep):
    count = int(np.prod(shape))
    new = equal(
        summing(shape, promised), 1, [numbers(5 * count), numbers(count), iterations], keep=keep
    )
    text = print_module(new)
    assert f"f32<{', '.join(map(str, shape))}>" not in text and private_tiles(new)


def test_chunks_in_memory_are_an_element_a_thread():
    for count, chunks in ((64, "private<f32<32>, 2>"), (100, "private<f32<25>, 4>")):
        new = equal(summing((count,)), 1, [numbers(3 * count), numbers(count), 2])
        assert private_tiles(new) == [chunks]


def test_values_that_change_places():
    """Each is read before the other is written over."""
    b = Builder()
    with kernel(b, "x", "y", n=I32) as (x, y, n):
        place = b.arange(96)
        first, second = b.var((x + place).load()), b.var((x + 96 + place).load())
        with b.for_(0, n) as i:
            old = first.get()
            first.set(second.get() + (i * 0 + 1).to(F32))
            second.set(old)
        (y + place).store(first.get())
        (y + 96 + place).store(second.get())
    for iterations in (0, 1, 2, 3):
        equal(b.module(), 1, [numbers(192), numbers(192), iterations])


LAST = """tir 1.0

define kernel void @k(f32* noalias %x, f32* noalias %y, i32 %n) {
entry:
  %i = make_range i32<96>
  %xs = splat f32*<96> %x
  %p = getelementptr f32*<96> %xs, %i
  %v = load f32<96> %p
  br loop
loop:
  %t = phi f32<96> [%v, entry], [%u, loop]
  %k = phi i32 [0, entry], [%k1, loop]
  %u = fadd f32<96> %t, %v
  %k1 = add i32 %k, 1
  %more, _ = icmp (i1, i1) %k1, %n {predicate = slt}
  cond_br %more, loop, out
out:
  %ys = splat f32*<96> %y
  %q = getelementptr f32*<96> %ys, %i
  %both = fmul f32<96> %t, %u
  store %q, %both
  ret
}
"""


@pytest.mark.parametrize("iterations", [1, 2, 4])
def test_after_a_loop_the_value_before_the_last_iteration(iterations):
    """The edge that goes around the loop is the one that writes."""
    new = equal(parse(LAST), 1, [numbers(96), numbers(96), iterations])
    assert "f32<96>" not in print_module(new)


def test_a_value_of_one_side_or_the_other():
    b = Builder()
    with kernel(b, "x", "y", n=I32) as (x, y, n):
        place = b.arange(100)
        value = b.var((x + place).load())
        with b.if_(n > 0):
            value.set(value.get() * 2.0)
        with b.else_():
            value.set(1.0 - value.get())
        (y + place).store(value.get())
    for n in (0, 1):
        equal(b.module(), 1, [numbers(100), numbers(100), n])


def test_what_is_read_after_something_that_nothing_may_pass():
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), flag=pointer(I32)) as (x, y, flag):
        place = b.arange(96)
        value = (x + place).load()
        b.atomic_rmw(flag, 1, op="add")
        (y + place).store(value + 1.0)
    new = equal(b.module(), 1, [numbers(96), numbers(96), np.zeros(1, np.int32)])
    assert "f32<96>" not in print_module(new)


def test_what_can_be_rematerialized_is():
    b = Builder()
    with kernel(b, "x", "y", n=I32) as (x, y, n):
        place = b.arange(96) * 2 - n
        with b.for_(0, n) as i:
            (y + place + i + n).store((x + place + n).load())
    new = equal(b.module(), 1, [numbers(200), numbers(200), 3])
    assert private_tiles(new) == []


def test_what_cannot_be_cut_goes_through_no_memory():
    """A scan by a function needs all that the loop carries."""
    b = Builder()
    with kernel(b, "x", "y", n=I32) as (x, y, n):
        place = b.arange(96)
        value = b.var((x + place).load())
        with b.for_(0, n):
            value.set(b.scan(value.get(), axis=0, combiner=lambda a, c: a + c))
        (y + place).store(value.get())
    result = run(b.module(), SMALL.format(keep=0))
    assert private_tiles(result.module) == []
    assert {d.code for d in result.remarks} == {"TIR0752"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["simt", "cpu"])
def test_threads_agree(on):
    x, y = numbers(3 * 9001), numbers(9001)
    results = []
    for machine in ("interpreter", on):
        copies = [x.copy(), y.copy(), 3]
        executor(machine).launch(with_warps(summing((9001,), False), 2), None, (1,), copies)
        results.append(copies[1])
    np.testing.assert_array_equal(*results)
