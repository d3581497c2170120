"""Device functions and combiners by symbol."""

from __future__ import annotations

import math

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


# The library -------------------------------------------------------------------------------

RELU = """
declare i32<8> @get_global_range(i32 %axis)
declare i32<16> @get_global_range.wide(i32 %axis)

define kernel void @relu(f32* %A, i32 %M, i32 %N) {
entry:
  %rm = call i32<8> @get_global_range, i32 0
  %rn = call i32<16> @get_global_range.wide, i32 1
  %column = reshape i32<8, 1> %rm
  %i = broadcast i32<8, 16> %column
  %row = reshape i32<1, 16> %rn
  %j = broadcast i32<8, 16> %row
  %ms = splat i32<8, 16> %M
  %ns = splat i32<8, 16> %N
  %pm, _ = icmp (i1<8, 16>, i1<8, 16>) %i, %ms {predicate = slt}
  %pn, _ = icmp (i1<8, 16>, i1<8, 16>) %j, %ns {predicate = slt}
  %inside = and i1<8, 16> %pm, %pn
  %down = mul i32<8, 16> %j, %ms
  %at = add i32<8, 16> %down, %i
  %As = splat f32*<8, 16> %A
  %p = getelementptr f32*<8, 16> %As, %at
  %a = load f32<8, 16> %p, %inside
  %r = fmaximum f32<8, 16> %a, 0.0
  store %p, %r, %inside
  ret
}
"""


def test_get_global_range_is_linked_at_the_size_declared() -> None:
    x = np.random.default_rng(5).standard_normal((20, 30)).astype(np.float32)
    expected = np.maximum(x, 0).T.reshape(-1)
    flat = np.ascontiguousarray(x.T).reshape(-1)
    run(RELU, (3, 2), flat, 20, 30)
    assert (flat == expected).all()


def combine(name: str, elements: str, operands: int) -> str:
    """A kernel that reduces arrays of 13 by a function of the library."""
    types = [t.strip() for t in elements.split(",")]
    pointers = ", ".join(f"{t}* %x{n}" for n, t in enumerate(types))
    outs = ", ".join(f"{t}* %y{n}" for n, t in enumerate(types))
    declared = ", ".join(f"{t} %p{n}" for n, t in enumerate(types * 2))
    lines = [f"declare ({elements}) @{name}({declared})", "", "define kernel void "]
    lines[-1] += f"@k({pointers}, {outs}) {{\nentry:\n  %i = make_range i32<13> {{start = 0}}"
    for n, t in enumerate(types):
        lines.append(f"  %s{n} = splat {t}*<13> %x{n}")
        lines.append(f"  %p{n} = getelementptr {t}*<13> %s{n}, %i")
        lines.append(f"  %v{n} = load {t}<13> %p{n}")
    results = ", ".join(f"%r{n}" for n in range(operands))
    values = ", ".join(f"%v{n}" for n in range(operands))
    lines.append(f"  {results} = reduce ({elements}) {values} {{axis = 0, combiner = @{name}}}")
    lines += [f"  store %y{n}, %r{n}" for n in range(operands)]
    return "\n".join([*lines, "  ret", "}", ""])


@pytest.mark.parametrize(("name", "pick"), [("argmax", np.argmax), ("argmin", np.argmin)])
@pytest.mark.parametrize("nan", [False, True])
def test_argmax_and_argmin_of_the_library(name: str, pick: object, nan: bool) -> None:
    noise = np.random.default_rng(6)
    for _ in range(8):
        x, index = noise.integers(-3, 3, 13).astype(np.float32), np.arange(13, dtype=np.int32)
        if nan:
            x[noise.integers(13, size=2)] = np.nan
        value, at = np.zeros(1, np.float32), np.zeros(1, np.int32)
        run(combine(name, "f32, i32", 2), 1, x, index, value, at)
        assert at[0] == pick(x)  # type: ignore[operator]


def test_welford_of_the_library() -> None:
    x = np.random.default_rng(7).standard_normal(13) * 3 + 50
    zero, one = np.zeros(13), np.ones(13)
    out = [np.zeros(1) for _ in range(3)]
    run(combine("welford", "f64, f64, f64", 3), 1, x, zero, one, *out)
    mean, squares, count = (float(v[0]) for v in out)
    assert count == 13
    assert mean == pytest.approx(x.mean(), rel=1e-14)
    assert squares / 13 == pytest.approx(x.var(), rel=1e-12)


def test_online_softmax_of_the_library() -> None:
    x = np.random.default_rng(8).standard_normal(13) * 20
    x[3] = -math.inf
    top, total = np.zeros(1), np.zeros(1)
    run(combine("online_softmax", "f64, f64", 2), 1, x, np.ones(13), top, total)
    assert top[0] == x.max()
    assert total[0] == pytest.approx(np.exp(x - x.max()).sum(), rel=1e-13)


PHILOX = """
declare (i32, i32, i32, i32) @philox(i32 %a, i32 %b, i32 %c, i32 %d, i32 %k, i32 %l)

define kernel void @k(i32* %out, i32 %a, i32 %b, i32 %c, i32 %d, i32 %k, i32 %l) {
entry:
  %w, %x, %y, %z = call (i32, i32, i32, i32) @philox, %a, %b, %c, %d, %k, %l
  store %out, %w
  %p1 = getelementptr i32* %out, i32 1
  store %p1, %x
  %p2 = getelementptr i32* %out, i32 2
  store %p2, %y
  %p3 = getelementptr i32* %out, i32 3
  store %p3, %z
  ret
}
"""


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_gives_the_published_answers(
    counter: list[int], key: list[int], expected: list[int]
) -> None:
    out = np.zeros(4, np.int32)
    run(PHILOX, 1, out, *counter, *key)
    assert out.view(np.uint32).tolist() == expected


ELEMENTWISE = """
declare TYPE @FUNCTION(TYPE %a, TYPE %b)

define kernel void @k(f32* %x) {
entry:
  ret
}
"""


@pytest.mark.parametrize("type_", ["i32", "i64", "i32<8>", "i16<3, 5>"])
def test_elementwise_functions_of_the_library_take_every_shape(type_: str) -> None:
    from tileir import link, verify
    from tileir.std import function

    from .programs import module

    linked = link(module(ELEMENTWISE.replace("TYPE", type_).replace("FUNCTION", "cdiv")))
    verify(linked)
    assert not linked.functions["cdiv"].is_declaration
    assert [str(t) for t in function("cdiv", type_, (type_, type_)).results] == [type_]


def test_a_library_function_of_another_type_stays_undefined() -> None:
    from tileir import LinkError, link
    from tileir.std import function

    from .programs import module

    linked = link(module(ELEMENTWISE.replace("TYPE", "f32").replace("FUNCTION", "cdiv")))
    assert linked.functions["cdiv"].is_declaration
    with pytest.raises(LinkError) as caught:
        function("cdiv", "f32", ("f32", "f32"))
    assert caught.value.code == "TIR0338"
    assert "get_global_range" in str(caught.value)


SUMS = """
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
        run(SUMS.replace("BODY", body), 1, x, y, 0.7, numbers=numbers)
        return int(y.view(np.uint32)[0])

    left = "%t = fadd f32 %a, %b\n  %r = fmul f32 %t, %s"
    right = "%t = fmul f32 %a, %s\n  %r = fma f32 %b, %s, %t"
    other = "%t = fmul f32 %a, %s\n  %r = fma f32 %b, %s, %b"
    assert bits(left, "ring") == bits(right, "ring") != bits(other, "ring")
    assert bits(left, "ieee") != bits(right, "ieee")


def test_unknown_numbers_are_refused() -> None:
    with pytest.raises(Exception, match="ieee or ring") as caught:
        run(
            SUMS.replace("BODY", "%r = fadd f32 %a, %s"),
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
  %r = inline_asm i32 %n {text = "mov.u32 $0, $1;", constraints = "=r,r"}
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


def test_what_a_loop_does_not_change_is_still_right_in_the_next_round_and_instance() -> None:
    x, n = np.zeros(3, np.int32), 6
    report = run(KEPT, 3, x, n)
    rounds = [(a, b) for a in range(n) for b in range(n - 1)]  # %t is without the last one
    assert x.tolist() == [sum((a * a + i) * b for a, b in rounds) for i in range(3)]
    assert report.ops["mul"] == 3 * n * n * 2


SORT = """
declare TYPE<N> @sort(TYPE<N> %x)

define kernel void @k(TYPE* %x) {
entry:
  %i = make_range i32<N> {start = 0}
  %xs = splat TYPE*<N> %x
  %p = getelementptr TYPE*<N> %xs, %i
  %v = load TYPE<N> %p
  %w = call TYPE<N> @sort, %v
  store %p, %w
  ret
}
"""


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 13, 16, 48])
@pytest.mark.parametrize(("type_", "dtype"), [("i16", np.int16), ("f32", np.float32)])
def test_sort_of_the_library_takes_any_number(count: int, type_: str, dtype: type) -> None:
    noise = np.random.default_rng(count)
    for _ in range(4):
        x = noise.integers(-9, 9, count).astype(dtype)
        if type_ == "f32" and count > 3:
            x[noise.integers(count, size=2)] = [np.nan, np.inf]
        expected = np.sort(x)
        run(SORT.replace("TYPE", type_).replace("<N>", f"<{count}>"), 1, x)
        np.testing.assert_array_equal(x, expected)


SIGMOID = """
declare f32<2, 3> @sigmoid(f32<2, 3> %x)

define kernel void @k(f32* %x) {
entry:
  %i = make_range i32<6> {start = 0}
  %at = reshape i32<2, 3> %i
  %xs = splat f32*<2, 3> %x
  %p = getelementptr f32*<2, 3> %xs, %at
  %v = load f32<2, 3> %p
  %w = call f32<2, 3> @sigmoid, %v
  store %p, %w
  ret
}
"""


def test_sigmoid_of_the_library() -> None:
    x = np.array([-200, -3, -0.0, 0.5, 7, 200], np.float32)
    wide = x.astype(np.float64)
    expected = 1 / (1 + np.exp(-wide))
    run(SIGMOID, 1, x)
    np.testing.assert_allclose(x, expected, rtol=4e-7, atol=1e-38)
