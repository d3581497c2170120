"""Device functions, combiners by symbol, what is computed once, other numbers."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import fails, run

REDUCE = """
define (f32, i32) @best(f32 %a, i32 %i, f32 %b, i32 %j) {
entry:
  %above, _ = fcmp (i1, i1) %a, %b {predicate = ogt}
  cond_br %above, left, other
left:
  ret %a, %i
other:
  %equal, _ = fcmp (i1, i1) %a, %b {predicate = oeq}
  cond_br %equal, tie, right
tie:
  %least = smin i32 %i, %j
  ret %a, %least
right:
  ret %b, %j
}

define kernel void @k(f32* %x, f32* %v, i32* %at) {
entry:
  %i = make_range i32<N> {start = 0}
  %xs = splat f32*<N> %x
  %p = getelementptr f32*<N> %xs, %i
  %all = load f32<N> %p
  %most, %where = reduce (f32, i32) %all, %i {axis = 0, combiner = @best}
  store %v, %most
  store %at, %where
  ret
}
"""


@pytest.mark.parametrize("count", [1, 2, 7, 16, 48])
def test_argmax_by_a_branching_function(count: int) -> None:
    noise = np.random.default_rng(count)
    for _ in range(5):
        x = noise.integers(0, 6, count).astype(np.float32)
        v, at = np.zeros(1, np.float32), np.zeros(1, np.int32)
        run(REDUCE.replace("N>", f"{count}>"), 1, x, v, at)
        assert (v[0], at[0]) == (x.max(), x.argmax())


LOOP = """
define i32 @gcd(i32 %a, i32 %b) {
entry:
  br loop
loop:
  %x = phi i32 [%a, entry], [%y, next]
  %y = phi i32 [%b, entry], [%r, next]
  %zero, _ = icmp (i1, i1) %y, 0 {predicate = eq}
  cond_br %zero, done, next
next:
  %r = srem i32 %x, %y
  br loop
done:
  ret %x
}

define kernel void @k(i32* %x, i32* %y) {
entry:
  %i = make_range i32<3> {start = 0}
  %j = make_range i32<5> {start = 0}
  %row = expand_dims i32<1, 5> %j {axis = 0}
  %rows = broadcast i32<3, 5> %row
  %column = expand_dims i32<3, 1> %i {axis = 1}
  %columns = broadcast i32<3, 5> %column
  %start = mul i32<3, 5> %columns, 5
  %at = add i32<3, 5> %start, %rows
  %xs = splat i32*<3, 5> %x
  %p = getelementptr i32*<3, 5> %xs, %at
  %all = load i32<3, 5> %p
  %g = KIND
  %ys = splat i32*<OUT> %y
  %q = getelementptr i32*<OUT> %ys, %INDEX
  store %q, %g
  ret
}
"""


SWAPS = """
define i32 @swapped(i32 %a, i32 %b) {
entry:
  %n = and i32 %a, 3
  br loop
loop:
  %x = phi i32 [%a, entry], [%y, next]
  %y = phi i32 [%b, entry], [%x, next]
  %i = phi i32 [0, entry], [%j, next]
  %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
  cond_br %more, next, done
next:
  %j = add i32 %i, 1
  br loop
done:
  %twice = mul i32 %x, 2
  %r = add i32 %twice, %y
  ret %r
}

define kernel void @k(i32* %x, i32* %y) {
entry:
  %i = make_range i32<8>
  %xs = splat i32*<8> %x
  %p = getelementptr i32*<8> %xs, %i
  %v = load i32<8> %p
  %w = reshape i32<4, 2> %v
  %g = reduce i32<4> %w {axis = 1, combiner = @swapped}
  %j = make_range i32<4>
  %ys = splat i32*<4> %y
  %q = getelementptr i32*<4> %ys, %j
  store %q, %g
  ret
}
"""


def test_parameters_of_a_block_change_at_once() -> None:
    """A loop that exchanges its values as often as the first operand says, for all lanes."""
    x, y = np.array([0, 9, 1, 9, 2, 9, 3, 9], np.int32), np.zeros(4, np.int32)
    run(SWAPS, 1, x, y)
    assert y.tolist() == [9, 19, 13, 21]


def test_reduce_by_a_looping_function() -> None:
    x = np.random.default_rng(3).integers(1, 40, (3, 5)).astype(np.int32) * 6
    y = np.zeros(3, np.int32)
    body = LOOP.replace("KIND", "reduce i32<3> %all {axis = 1, combiner = @gcd}")
    run(body.replace("OUT", "3").replace("INDEX", "i"), 1, x, y)
    assert y.tolist() == np.gcd.reduce(x, axis=1).tolist()


def test_scan_by_a_looping_function() -> None:
    x = np.random.default_rng(4).integers(1, 40, (3, 5)).astype(np.int32) * 12
    y = np.zeros((3, 5), np.int32)
    body = LOOP.replace("KIND", "scan i32<3, 5> %all {axis = 1, combiner = @gcd}")
    run(body.replace("OUT", "3, 5").replace("INDEX", "at"), 1, x, y)
    assert y.tolist() == np.gcd.accumulate(x, axis=1).tolist()


def test_an_error_in_a_combiner_is_placed_there() -> None:
    x, v, at = np.zeros(8, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32)
    body = REDUCE.replace("N>", "8>").replace(
        "%least = smin i32 %i, %j", "%zero = sub i32 %i, %i\n  %least = sdiv i32 %j, %zero"
    )
    fails("TIR0550", "sdiv", body, 1, x, v, at)


def test_a_combiner_that_branches_on_an_undefined_value() -> None:
    x, v, at = np.zeros(8, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32)
    fails("TIR0506", "cond_br %above", REDUCE.replace("N>", "8>"), 1, x, v, at, uninitialised=["x"])


CALLING = """
define i32 @lesser(i32 %a, i32 %b) {
entry:
  %c = smin i32 %a, %b
  ret %c
}

define i32 @least(i32 %a, i32 %b) {
entry:
  %c = call (i32) @lesser, %a, %b
  ret %c
}

define kernel void @k(i32* %x, i32* %y) {
entry:
  %i = make_range i32<7> {start = 0}
  %xs = splat i32*<7> %x
  %p = getelementptr i32*<7> %xs, %i
  %all = load i32<7> %p
  %found = reduce i32 %all {axis = 0, combiner = @least}
  store %y, %found
  ret
}
"""


PREDICATED = """
define i32 @chosen(i32 %a, i32 %b) {
entry:
  %sum = add i32 %a, %b
  %large, %small = icmp (i1, i1) %sum, 100 {predicate = sgt}
  @%large %half = sdiv i32 %sum, 2
  @%small %twice = mul i32 %sum, 1
  %c = psi i32 [%large, %half], [%small, %twice]
  ret %c
}

define i32 @undefined(i32 %a, i32 %b) {
entry:
  %sum = add i32 %a, %b
  %large, %small = icmp (i1, i1) %sum, 100 {predicate = sgt}
  @%large %half = sdiv i32 %sum, 2
  ret %half
}
"""
USING = CALLING[CALLING.index("define kernel") :]


def test_a_predicated_op_of_a_combiner_has_a_value_where_its_predicate_is_true() -> None:
    x, y = np.array([5, 3, 9, 4, 8, 0, 7], np.int32), np.zeros(1, np.int32)
    run(PREDICATED + USING.replace("@least", "@chosen"), 1, x, y)
    assert y[0] == x.sum()
    fails("TIR0505", "store", PREDICATED + USING.replace("@least", "@undefined"), 1, x, y)
    run(PREDICATED + USING.replace("@least", "@undefined"), 1, x + 100, y)


ENDLESS = """
define i32 @endless(i32 %a, i32 %b) {
entry:
  %ends, _ = icmp (i1, i1) %b, LEAST {predicate = sge}
  cond_br %ends, done, again
again:
  br again
done:
  ret %a
}
"""


@pytest.mark.parametrize("least", [1, 5, 99])
def test_a_combiner_that_never_ends_is_stopped(least: int) -> None:
    """Whether all of its elements go on, or some."""
    x, y = np.array([4, 3, 9, 1, 8, 2, 7], np.int32), np.zeros(1, np.int32)
    text = ENDLESS.replace("LEAST", str(least)) + USING.replace("@least", "@endless")
    if least == 1:
        run(text, 1, x, y, limit=5000)
        assert y[0] in x
    else:
        fails("TIR0516", "br again", text, 1, x, y, limit=5000)


def test_a_combiner_may_call_functions() -> None:
    x, y = np.array([5, 3, 9, -4, 8, 0, 7], np.int32), np.zeros(1, np.int32)
    run(CALLING, 1, x, y)
    assert y[0] == -4
    fails("TIR0505", "store", CALLING, 1, x, y, uninitialised=["x"])


CALLS = """
define f32 @square(f32 %x) {
entry:
  %y = fmul f32 %x, %x
  ret %y
}

define (f32<4>, f32<4>) @both(f32<4> %x) {
entry:
  %y = fadd f32<4> %x, 1.0
  %z = fmul f32<4> %x, 2.0
  ret %y, %z
}

define void @put(f32* %p, f32 %v) {
entry:
  store %p, %v
  ret
}

define kernel void @k(f32* %x, f32 %s) {
entry:
  %t = call f32 @square, %s
  call @put, %x, %t
  %i = make_range i32<4> {start = 1}
  %xs = splat f32*<4> %x
  %p = getelementptr f32*<4> %xs, %i
  %f = sitofp f32<4> %i
  %y, %z = call (f32<4>, f32<4>) @both, %f
  %sum = fadd f32<4> %y, %z
  store %p, %sum
  ret
}
"""


def test_calls() -> None:
    x = np.zeros(5, np.float32)
    report = run(CALLS, 1, x, 3.0)
    assert x.tolist() == [9, 4, 7, 10, 13]
    assert report.ops["call"] == 3


def test_an_error_in_a_device_function_is_placed_there() -> None:
    fails("TIR0501", "  store %p, %v", CALLS, 1, np.zeros(0, np.float32), 3.0)


def test_a_function_without_definition() -> None:
    body = """
declare f32 @nowhere(f32 %x)

define kernel void @k(f32* %x) {
entry:
  %y = call f32 @nowhere, f32 1.0
  store %x, %y
  ret
}
"""
    fails("TIR0512", "call f32", body, 1, np.zeros(1, np.float32))


ADDITIONS = """
define kernel void @k(f32* %x, f32* %y, f32 %s) {
entry:
  %p1 = getelementptr f32* %x, i32 1
  %a = load f32 %x
  %b = load f32 %p1
  BODY
  store %y, %r
  ret
}
"""


def test_numbers_of_the_ring_do_not_depend_on_the_order() -> None:
    def bits(body: str, numbers: str) -> int:
        x, y = np.array([1e8, -99999992], np.float32), np.zeros(1, np.float32)
        run(ADDITIONS.replace("BODY", body), 1, x, y, 0.7, numbers=numbers)
        return int(y.view(np.uint32)[0])

    left = "%t = fadd f32 %a, %b\n  %r = fmul f32 %t, %s"
    right = "%t = fmul f32 %a, %s\n  %r = fma f32 %b, %s, %t"
    other = "%t = fmul f32 %a, %s\n  %r = fma f32 %b, %s, %b"
    assert bits(left, "ring") == bits(right, "ring") != bits(other, "ring")
    assert bits(left, "ieee") != bits(right, "ieee")


def test_unknown_numbers_are_refused() -> None:
    with pytest.raises(Exception, match="ieee or ring") as caught:
        run(
            ADDITIONS.replace("BODY", "%r = fadd f32 %a, %s"),
            1,
            np.zeros(2),
            np.zeros(1),
            1,
            numbers="x",
        )
    assert caught.value.code == "TIR0510"  # type: ignore[attr-defined]


UNREACHED = """
define kernel void @k(i32* %x, i32 %n) {
entry:
  %some, _ = icmp (i1, i1) %n, 0 {predicate = ne}
  cond_br %some, asm, done
asm:
  %r = inline_asm i32 %n {text = "mov.u32 $0, %laneid;", constraints = "=r,r"}
  store %x, %r
  br done
done:
  ret
}
"""


def test_what_is_not_reached_is_not_run() -> None:
    run(UNREACHED, 2, np.zeros(1, np.int32), 0)
    fails("TIR0555", "inline_asm", UNREACHED, 2, np.zeros(1, np.int32), 1)


UNIFORM = """
define kernel void @k(i32* %x, i32 %n) {
entry:
  %i = program_id i32 {axis = 0}
  %two = mul i32 %n, 2
  br loop
loop:
  %j = phi i32 [0, entry], [%next, loop]
  %three = mul i32 %n, 3
  %sum = add i32 %two, %three
  %next = add i32 %j, %sum
  %more, _ = icmp (i1, i1) %next, 100 {predicate = slt}
  cond_br %more, loop, done
done:
  %p = getelementptr i32* %x, %i
  %v = add i32 %next, %i
  store %p, %v
  ret
}
"""


def test_what_is_the_same_for_all_instances_is_counted_for_each() -> None:
    x = np.zeros(4, np.int32)
    report = run(UNIFORM, 4, x, 5)
    assert x.tolist() == [100, 101, 102, 103]
    assert (report.ops["mul"], report.ops["add"]) == (4 * 5, 4 * 9)


KEPT = """
define kernel void @k(i32* %x, i32 %n) {
entry:
  %i = program_id i32 {axis = 0}
  br outer
outer:
  %a = phi i32 [0, entry], [%a.next, outer.next]
  %s = phi i32 [0, entry], [%t, outer.next]
  br inner
inner:
  %b = phi i32 [0, outer], [%b.next, inner]
  %t = phi i32 [%s, outer], [%t.next, inner]
  %square = mul i32 %a, %a
  %mine = add i32 %square, %i
  %both = mul i32 %mine, %b
  %t.next = add i32 %t, %both
  %b.next = add i32 %b, 1
  %more, _ = icmp (i1, i1) %b.next, %n {predicate = slt}
  cond_br %more, inner, outer.next
outer.next:
  %a.next = add i32 %a, 1
  %again, _ = icmp (i1, i1) %a.next, %n {predicate = slt}
  cond_br %again, outer, done
done:
  %p = getelementptr i32* %x, %i
  store %p, %t
  ret
}
"""


def test_what_a_loop_does_not_change_is_still_right_in_the_next_iteration_and_instance() -> None:
    x, n = np.zeros(3, np.int32), 6
    report = run(KEPT, 3, x, n)
    iterations = [(a, b) for a in range(n) for b in range(n - 1)]  # %t is without the last one
    assert x.tolist() == [sum((a * a + i) * b for a, b in iterations) for i in range(3)]
    assert report.ops["mul"] == 3 * n * n * 2
