"""What the quicker ways through the interpreter must not lose: counts, limits, undefined values,
holes between arrays, races and the names of instances."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.sizes import for_each
from tileir.calls import MAX_CALL_DEPTH
from tileir.interp import program as preparation
from tileir.interp.memory import Memory
from tileir.interp.strided_access import Strides
from tileir.limits import limits
from tileir.machine.tensor import fits_dtype
from tileir.types import BF16, F8E4M3, F8E5M2, F16, F32, F64, I1, I8, I16, I32, I64, Pointer

from .programs import fails, run

# Functions of many elements at once -----------------------------------------------------------

COMBINED = """
define f32 @larger(f32 %a, f32 %b) {
entry:
  %m = fmaximum f32 %a, %b
  ret %m
}

define f32 @parted(f32 %a, f32 %b) {
entry:
  %less, _ = fcmp (i1, i1) %a, %b {predicate = olt}
  cond_br %less, second, first
second:
  ret %b
first:
  ret %a
}

define kernel void @k(f32* %x, f32* %y) {
entry:
  %i = make_range i32<64>
  %xs = splat f32*<64> %x
  %p = getelementptr f32*<64> %xs, %i
  %v = load f32<64> %p
  %g = reshape f32<16, 4> %v
  %r = reduce f32<4> %g {axis = 0, combiner = @BY}
  %j = make_range i32<4>
  %ys = splat f32*<4> %y
  %q = getelementptr f32*<4> %ys, %j
  store %q, %r
  ret
}
"""
OWN, JOINED = 11, 15 * 4
"""Ops of the kernel, and pairs of elements that are combined."""


def path_report(by: str, **options: Any) -> Any:
    x, y = np.arange(64, dtype=np.float32) % 23, np.zeros(4, np.float32)
    report = run(COMBINED.replace("BY", by), 1, x, y, **options)
    assert y.tolist() == x.reshape(16, 4).max(0).tolist()
    return report


def test_a_function_runs_for_a_whole_tile_at_once() -> None:
    """16 rows are combined in 4 steps."""
    assert path_report("larger").ops["fmaximum"] == 4
    assert path_report("parted").ops["cond_br"] == 4


def test_the_limit_of_ops_counts_every_element() -> None:
    needed = OWN + 2 * JOINED
    path_report("larger", limit=needed)
    x, y = np.zeros(64, np.float32), np.zeros(4, np.float32)
    for less in (1, 2, OWN):
        fails("TIR0516", "ret", COMBINED.replace("BY", "larger"), 1, x, y, limit=needed - less)


COUNTING = """
define kernel void @k(i32* %x, i32 %n) {
entry:
  br loop
loop:
  %i = phi i32 [0, entry], [%j, loop]
  %j = add i32 %i, 1
  %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
  cond_br %more, loop, done
done:
  store %x, %j
  ret
}
"""


def test_the_limit_of_ops_ends_a_loop() -> None:
    x = np.zeros(1, np.int32)
    needed = 1 + 3 * 50 + 2
    run(COUNTING, 1, x, 50, limit=needed)
    for less in (1, 2, 60):
        fails("TIR0516", "", COUNTING, 1, x, 50, limit=needed - less)


def chain(depth: int) -> str:
    """A kernel that calls a function that calls one, and so on, `depth` deep."""
    functions = [
        f"define i32 @f{k}(i32 %x) {{\nentry:\n  %y = call i32 @f{k + 1}, %x\n  ret %y\n}}\n"
        for k in range(1, depth)
    ]
    last = f"define i32 @f{depth}(i32 %x) {{\nentry:\n  %y = add i32 %x, 1\n  ret %y\n}}\n"
    kernel = (
        "define kernel void @k(i32* %p) {\nentry:\n  %y = call i32 @f1, i32 4\n"
        "  store %p, %y\n  ret\n}\n"
    )
    return "\n" + "\n".join([*functions, last, kernel])


def test_tiles_that_memory_does_not_hold() -> None:
    large = "i32<2147483648, 1048576>"
    body = f"  %v = splat {large} %n\n  %w = mul {large} %v, %v\n"
    text = f"define kernel void @k(i32 %n) {{\nentry:\n{body}  ret\n}}\n"
    with limits(tile_elements=1 << 62):
        assert "too little memory" in fails("TIR0522", "%w = mul", text, 1, 3)


@pytest.mark.parametrize("body", ["%w = splat {} %n", "%w = add {} 1, 2"])
def test_tiles_that_no_array_can_be(body: str) -> None:
    line = body.format("i32<1073741824, 1073741824, 4>")
    text = f"define kernel void @k(i32 %n) {{\nentry:\n  {line}\n  ret\n}}\n"
    where = "%w = splat" if "splat" in body else "define"
    with limits(tile_elements=1 << 62):
        assert "too little memory" in fails("TIR0522", where, text, 1, 3)


def test_calls_nest_as_deep_as_the_limit_and_no_deeper() -> None:
    x = np.zeros(1, np.int32)
    run(chain(MAX_CALL_DEPTH), 1, x)
    assert x[0] == 5
    deeper = chain(MAX_CALL_DEPTH + 1)
    assert f"more than {MAX_CALL_DEPTH} deep" in fails("TIR0513", "", deeper, 1, x)


# Strides --------------------------------------------------------------------------------------


@for_each("shape", [(7,), (3, 4), (1, 5), (5, 1), (2, 3, 4), (2, 1, 3, 2), (1, 1)])
@for_each("transposed", [False, True])
def test_whatever_steps_evenly_is_found_to(shape: tuple[int, ...], transposed: bool) -> None:
    memory = Memory()
    region = memory.add("x", np.zeros(4096, np.uint8))
    whole = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape) * np.uint64(12)
    offsets = whole.T if transposed else whole
    strided = Strides(memory).find(offsets + np.uint64(region.base), 4, write=True)
    assert strided is not None
    assert strided.view().shape == offsets.shape
    strided.view()[...] = 7
    at = np.flatnonzero(region.view(4)[0])
    assert at.tolist() == sorted((offsets // np.uint64(4)).reshape(-1).tolist())


@pytest.mark.parametrize("exponent", [40, 62, 63])
def test_elements_that_are_as_distant_as_can_be_are_no_steps(exponent: int) -> None:
    memory = Memory()
    region = memory.add("x", np.zeros(64, np.uint8))
    far = 1 << exponent
    for distance in (far, -far, far - 4, 4 - far, far + 4, -far - 4):
        wrapped = [(region.base + k * distance) % (1 << 64) for k in range(2)]
        addresses = np.array(wrapped, np.uint64)
        assert Strides(memory).find(addresses, 4, write=False) is None


# Arguments ------------------------------------------------------------------------------------

OWN_DTYPES = {
    I1: np.bool_, I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64, F16: np.float16,
    BF16: ml_dtypes.bfloat16, F32: np.float32, F64: np.float64, F8E4M3: ml_dtypes.float8_e4m3fn,
    F8E5M2: ml_dtypes.float8_e5m2, Pointer(F32): np.uint64,
}  # fmt: skip


@for_each("pointee", OWN_DTYPES)
def test_arrays_are_of_the_element_its_bits_or_flags_for_bytes(pointee: Any) -> None:
    own = np.dtype(OWN_DTYPES[pointee])
    right = {own, np.dtype(f"u{own.itemsize}")}
    if own.itemsize == 1:
        right.add(np.dtype(np.bool_))
    every = {np.dtype(d) for d in OWN_DTYPES.values()} | {np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
    assert {d for d in every if fits_dtype(d, pointee)} == right


PAIR = """
define kernel void @k(f32* %x, f32* %y, f32* %z, i32 %o) {
entry:
  %p = getelementptr f32* %x, %o
  %v = load f32 %p
  store %z, %v
  ret
}
"""


@pytest.mark.parametrize(("offset", "right"), [(0, True), (3, True), (4, False), (7, False),
                                               (8, True), (11, True), (12, False)])  # fmt: skip
def test_between_arrays_of_one_allocation_is_nothing(offset: int, right: bool) -> None:
    whole, z = np.arange(16, dtype=np.float32), np.zeros(1, np.float32)
    arguments = (whole[:4], whole[8:12], z, offset)
    if right:
        run(PAIR, 1, *arguments)
        assert z[0] == offset
    else:
        fails("TIR0501", "load", PAIR, 1, *arguments)


PROMISED = """
define i32 @g(i32 multiple_of(16) %n, i32 %m) {
entry:
  %r = add i32 %m, 1
  ret %r
}

define kernel void @k(i32* %x, i32 %n) {
entry:
  %r = call i32 @g, NUMBER, %n
  store %x, %r
  ret
}
"""


def test_promises_are_about_what_is_defined() -> None:
    x = np.zeros(1, np.int32)
    unknown = PROMISED.replace("  %r = call i32 @g", "  %u = add i32 %n, undef\n  %r = call i32 @g")
    for number in ("i32 undef", "%u"):
        run(unknown.replace("NUMBER", number), 1, x, 5)
        assert x[0] == 6
    run(PROMISED.replace("NUMBER", "i32 32"), 1, x, 5)
    assert "multiple_of(16)" in fails("TIR0507", "@g", PROMISED.replace("NUMBER", "%n"), 1, x, 5)


# Undefined addresses --------------------------------------------------------------------------

NOWHERE = """
define kernel void @k(f32* %x, f32* %y) {
entry:
  %i = program_id i32
  %xs = splat f32*<4> %x
  %p = getelementptr f32*<4> %xs, i32<4> undef
  %ys = splat f32*<4> %y
  %j = make_range i32<4>
  %b = mul i32 %i, 4
  %bs = splat i32<4> %b
  %o = add i32<4> %j, %bs
  %q = getelementptr f32*<4> %ys, %o
  LINES
  ret
}
"""


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        ("%v = load f32<4> %p\n  store %q, %v", "load"),
        ("%w = load f32<4> %q\n  store %p, %w", "store %p"),
        ("%v = load f32<4> %q\n  %u = fadd f32<4> %v, undef\n  store %q, %u", "store %q"),
    ],
)
@pytest.mark.parametrize("grid", [1, 9])
def test_undefined_addresses_and_values_do_not_reach_memory(
    lines: str, at: str, grid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "FEW", 2)
    x, y = np.zeros(36, np.float32), np.zeros(36, np.float32)
    code = "TIR0505" if "undef\n" in lines else "TIR0503"
    fails(code, at, NOWHERE.replace("LINES", lines), grid, x, y)


# Instances ------------------------------------------------------------------------------------

CUBE = """
define kernel void @k(i32* %x, i32* %at) {
entry:
  %a = program_id i32 {axis = 0}
  %b = program_id i32 {axis = 1}
  %c = program_id i32 {axis = 2}
  %cb = mul i32 %c, 3
  %bc = add i32 %cb, %b
  %t = mul i32 %bc, 2
  %n = add i32 %t, %a
  %p = getelementptr i32* %x, %n
  store %p, %n
  %shared, _ = icmp (i1, i1) %n, %TARGET {predicate = eq}
  @%shared store %at, 1
  %first, _ = icmp (i1, i1) %n, 0 {predicate = eq}
  @%first store %at, 2
  ret
}
"""


@pytest.mark.parametrize("number", range(1, 24))
def test_a_race_names_the_instances_by_their_ids(number: int) -> None:
    """Axis 0 runs fastest, in a grid of 2 by 3 by 4."""
    body = CUBE.replace("%TARGET", str(number))
    x, at = np.zeros(24, np.int32), np.zeros(1, np.int32)
    report = run(body, (2, 3, 4), x, at, allow_races=True)
    assert x.tolist() == list(range(24))
    assert {(r.first.instance, r.second.instance) for r in report.races} == {(0, number)}
    ids = (number % 2, number // 2 % 3, number // 6)
    message = fails("TIR0517", "store", body, (2, 3, 4), x, at)
    assert f"program {ids} " in message and "program (0, 0, 0)" in message


READERS = """
define kernel void @k(i32* %x, i32* %flag) {
entry:
  %i = program_id i32
  %a = load i32 %x
  %mine, _ = icmp (i1, i1) %i, WRITER {predicate = eq}
  cond_br %mine, again, done
again:
  %f = atomic_load i32 %flag
  %b = load i32 %x
  %g = atomic_load i32 %flag
  %c = load i32 %x
  %h = atomic_load i32 %flag
  store %x, %c
  br done
done:
  ret
}
"""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("writer", range(3))
def test_an_earlier_reader_is_not_forgotten_over_later_ones(writer: int, seed: int) -> None:
    """Atomic accesses let instances alternate, and order nothing here."""
    body = READERS.replace("WRITER", str(writer))
    x, flag = np.zeros(1, np.int32), np.zeros(1, np.int32)
    for grid in (2, 3):
        if writer < grid:
            fails("TIR0517", "%", body, grid, x, flag, seed=seed)
    run(body, 1, x, flag, seed=seed)


COUNTED = """
define kernel void @k(i32* %x) {
entry:
  %i = program_id i32
  %p = getelementptr i32* %x, i32 1
  %a = load i32 %p
  %b = atomic_load i32 %x {sem = relaxed}
  atomic_store %x, %a {sem = relaxed}
  %d = atomic_load i32 %x {sem = relaxed}
  ret
}
"""


@pytest.mark.parametrize("seed", range(4))
def test_atomic_accesses_of_an_element_do_not_race_with_plain_reads_of_another(seed: int) -> None:
    x = np.array([0, 7], np.int32)
    run(COUNTED, 5, x, seed=seed)
    assert x.tolist() == [7, 7]


WAITING = """
define kernel void @k(i32* %flag, i32* %other) {
entry:
  %i = program_id i32
  %first, _ = icmp (i1, i1) %i, 0 {predicate = eq}
  cond_br %first, wait, count
wait:
  %v = atomic_load i32 %flag
  %set, _ = icmp (i1, i1) %v, 1 {predicate = eq}
  cond_br %set, done, wait
count:
  %k = phi i32 [0, entry], [%next, count]
  %w = atomic_load i32 %other
  %next = add i32 %k, 1
  %more, _ = icmp (i1, i1) %next, 40 {predicate = slt}
  cond_br %more, count, done
done:
  ret
}
"""


@pytest.mark.parametrize("seed", range(3))
def test_who_waits_is_stuck_when_the_last_other_has_ended(seed: int) -> None:
    zeros = [np.zeros(1, np.int32), np.zeros(1, np.int32)]
    message = fails("TIR0518", "atomic_load", WAITING, 3, *zeros, seed=seed, limit=20000)
    assert "1 program instances wait" in message
