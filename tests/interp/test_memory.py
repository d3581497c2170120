"""Accesses: bounds, alignment, strides, aliases, undefined bytes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.sizes import for_each
from tileir.interp import Within

from .programs import fails, run

COPY = """
define kernel void @copy(f32* %x, f32* %y, i32 %n) {
entry:
  %i = make_range i32<8> {start = 0}
  %end = splat i32<8> %n
  %in, %out = icmp (i1<8>, i1<8>) %i, %end {predicate = slt}
  %xs = splat f32*<8> %x
  %px = getelementptr f32*<8> %xs, %i
  %ys = splat f32*<8> %y
  %py = getelementptr f32*<8> %ys, %i
  %v = load f32<8> %px, %in
  store %py, %v, %in
  ret
}
"""


def test_masked_copy() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    report = run(COPY, 1, x, y, 5)
    assert y.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]
    assert (report.accesses.bytes_read, report.accesses.bytes_written) == (20, 20)
    assert (report.accesses.loads, report.accesses.stores) == (1, 1)
    assert report.ops["getelementptr"] == 2


@pytest.mark.parametrize("length", [0, 1, 4])
def test_out_of_bounds_load_names_element_and_offset(length: int) -> None:
    x, y = np.zeros(length, np.float32), np.zeros(8, np.float32)
    message = fails("TIR0501", "load f32", COPY, 1, x, y, 5)
    assert f"element [{length}]" in message
    assert f"x + {4 * length} bytes (element {length})" in message


def test_out_of_bounds_store() -> None:
    x, y = np.zeros(8, np.float32), np.zeros(3, np.float32)
    message = fails("TIR0501", "store %py", COPY, 1, x, y, 5)
    assert "y + 12 bytes (element 3)" in message
    assert y.tolist() == [0, 0, 0]


BEFORE = """
define kernel void @k(i16* %x) {
entry:
  %p = getelementptr i16* %x, i32 -1
  store %p, i16 1
  ret
}
"""


def test_an_access_before_the_array_is_of_that_array() -> None:
    whole = np.zeros(4, np.int16)
    assert "x - 2 bytes (element -1)" in fails("TIR0501", "store", BEFORE, 1, whole)


def test_a_view_ends_where_it_ends() -> None:
    whole = np.zeros(4, np.int16)
    fails("TIR0501", "store", BEFORE, 1, whole[2:])
    assert not whole.any()


WILD = """
define kernel void @k(f32* %x) {
entry:
  %p = inttoptr f32* i64 12
  %v = load f32 %p
  store %x, %v
  ret
}
"""


def test_a_wild_address() -> None:
    assert "0xc is in no buffer" in fails("TIR0501", "load", WILD, 1, np.zeros(1, np.float32))


CASTED = """
define kernel void @k(i8* %x, i32* %y) {
entry:
  %q = getelementptr i8* %x, i32 OFFSET
  %p = bitcast i32* %q
  %v = load i32 %p
  store %y, %v
  ret
}
"""


def test_memory_is_bytes() -> None:
    x, y = np.arange(16, dtype=np.int8), np.zeros(1, np.int32)
    run(CASTED.replace("OFFSET", "8"), 1, x, y)
    assert y[0] == 0x0B0A0908


@pytest.mark.parametrize("offset", [1, 2, 7])
def test_misaligned(offset: int) -> None:
    x, y = np.arange(16, dtype=np.int8), np.zeros(1, np.int32)
    message = fails("TIR0502", "load", CASTED.replace("OFFSET", str(offset)), 1, x, y)
    assert "not a multiple of 4" in message


def test_the_alignment_of_a_view_is_that_of_its_place() -> None:
    whole, y = np.arange(16, dtype=np.int8), np.zeros(1, np.int32)
    fails("TIR0502", "load", CASTED.replace("OFFSET", "0"), 1, whole[1:], y)
    run(CASTED.replace("OFFSET", "3"), 1, whole[1:], y)
    assert y[0] == 0x07060504


STRIDED = """
define kernel void @k(f32* %x, f32* %y, i32 %stride) {
entry:
  %i = make_range i32<4> {start = 0}
  %s = splat i32<4> %stride
  %o = mul i32<4> %i, %s
  %xs = splat f32*<4> %x
  %px = getelementptr f32*<4> %xs, %o
  %ys = splat f32*<4> %y
  %py = getelementptr f32*<4> %ys, %i
  %v = load f32<4> %px
  store %py, %v
  ret
}
"""


def test_strided_arrays() -> None:
    whole, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    run(STRIDED, 1, whole[::2], y, 2)
    assert y.tolist() == [0, 2, 4, 6]
    run(STRIDED, 1, whole.reshape(4, 2)[:, 1], y, 2)
    assert y.tolist() == [1, 3, 5, 7]


def test_between_the_elements_of_a_strided_array_is_nothing() -> None:
    whole, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    assert "between its elements" in fails("TIR0501", "load", STRIDED, 1, whole[::2], y, 1)


def test_a_transposed_array_is_its_memory() -> None:
    x, y = np.arange(4, dtype=np.float32).reshape(2, 2), np.zeros(4, np.float32)
    run(STRIDED, 1, x.T, y, 1)
    assert y.tolist() == [0, 1, 2, 3]


def test_negative_strides_are_refused() -> None:
    x = np.zeros(4, np.float32)
    assert "negative strides" in fails("TIR0511", "@k", STRIDED, 1, x[::-1], x, 1)


def test_arguments_that_share_memory() -> None:
    whole = np.arange(12, dtype=np.float32)
    run(STRIDED, 1, whole[:4], whole[4:8], 1)
    assert whole.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11]


SHIFTED = """
define kernel void @k(f32* %x, i32 %by, f32* %y) {
entry:
  %p = getelementptr f32* %x, %by
  %v = load f32 %p
  store %y, %v
  ret
}
"""


def test_an_array_within_memory_that_may_be_accessed() -> None:
    """Bytes before, after and between the elements of a view, and none outside of the whole."""
    whole, y = np.arange(12, dtype=np.float32), np.zeros(1, np.float32)
    view = whole[4:8:2]
    for by in (-4, 0, 1, 7):
        run(SHIFTED, 1, Within(view, whole.view(np.uint8)), by, y)
        assert y[0] == 4 + by
    for by in (-5, 8):
        fails("TIR0501", "load", SHIFTED, 1, Within(view, whole.view(np.uint8)), by, y)
    fails("TIR0501", "load", SHIFTED, 1, view, 1, y)


def test_two_arrays_within_one_memory() -> None:
    whole = np.arange(4, dtype=np.float32)
    memory = whole.view(np.uint8)
    run(SHIFTED, 1, Within(whole[:1], memory), 3, Within(whole[1:2], memory))
    assert whole.tolist() == [0, 3, 2, 3]


INDIRECT = """
define kernel void @k(f32** %table, f32* %y) {
entry:
  %i = make_range i32<3> {start = 0}
  %ts = splat f32**<3> %table
  %pt = getelementptr f32**<3> %ts, %i
  %p = load f32*<3> %pt
  %v = load f32<3> %p
  %ys = splat f32*<3> %y
  %py = getelementptr f32*<3> %ys, %i
  store %py, %v
  ret
}
"""


def test_pointers_in_memory() -> None:
    parts = [np.full(2, n, np.float32) for n in (3, 5, 7)]
    y = np.zeros(3, np.float32)
    run(INDIRECT, 1, parts, y)
    assert y.tolist() == [3, 5, 7]


@pytest.mark.parametrize("table", [3, None, [np.zeros(2)], [3], np.zeros(3, np.float32), "x"])
def test_tables_of_pointers_are_sequences_of_arrays(table: object) -> None:
    fails("TIR0511", "@k", INDIRECT, 1, table, np.zeros(3, np.float32))


TYPED = """
define kernel void @k(TYPE* %x, TYPE* %y) {
entry:
  %v = load TYPE %x
  store %y, %v
  ret
}
"""

DTYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


@for_each("name", DTYPES)
def test_every_type_moves_bit_for_bit(name: str) -> None:
    dtype = np.dtype(DTYPES[name])
    bits = np.array([1 if name == "i1" else 0x7F], f"u{dtype.itemsize}")
    x, y = bits.view(dtype), np.zeros(1, dtype)
    run(TYPED.replace("TYPE", name), 1, x, y)
    assert y.view(bits.dtype)[0] == bits[0]
    raw = np.zeros(1, bits.dtype)
    run(TYPED.replace("TYPE", name), 1, bits, raw)
    assert raw[0] == bits[0]


@pytest.mark.parametrize("array", [np.zeros(1, np.float64), np.zeros(1, np.int32), [1.0], 3])
def test_arrays_must_fit_the_pointee(array: object) -> None:
    fails("TIR0511", "@k", TYPED.replace("TYPE", "f32"), 1, array, np.zeros(1, np.float32))


def test_a_read_only_array() -> None:
    x, y = np.zeros(1, np.float32), np.zeros(1, np.float32)
    y.flags.writeable = False
    assert "read-only" in fails("TIR0508", "store", TYPED.replace("TYPE", "f32"), 1, x, y)


STORE_IN_PART = """
define kernel void @k(i32* %x, i32* %y, i32 %from, i32 %by) {
entry:
  %i = make_range i32<4>
  %bys = splat i32<4> %by
  %steps = INDEX
  %froms = splat i32<4> %from
  %at = add i32<4> %steps, %froms
  %ys = splat i32*<4> %y
  %p = getelementptr i32*<4> %ys, %at
  store %p, i32<4> 7
  ret
}
"""
INDICES = {
    "even steps": "mul i32<4> %i, %bys",
    "uneven steps": "mul i32<4> %i, %i",
    "one element": "mul i32<4> %i, 0",
}


@for_each("steps", INDICES)
@for_each(("first", "count"), [(0, 3), (5, 2), (9, 7), (15, 1), (0, 16)])
def test_what_a_read_only_array_shares_is_not_written(steps: str, first: int, count: int) -> None:
    """Of an array that may be written, by an access that goes along it evenly or not."""
    body = STORE_IN_PART.replace("INDEX", INDICES[steps])
    for start in range(10):
        memory = np.zeros(16, np.int32)
        shared = memory[first : first + count]
        shared.flags.writeable = False
        places = {start + {"even": 2 * i, "unev": i * i, "one ": 0}[steps[:4]] for i in range(4)}
        if max(places) >= 16:
            continue
        if places & set(range(first, first + count)):
            message = fails("TIR0508", "store", body, 1, shared, memory, start, 2)
            assert "read-only" in message and not memory.any()
        else:
            run(body, 1, shared, memory, start, 2)
            assert set(np.flatnonzero(memory).tolist()) == places


UNDEFINED = """
define kernel void @k(f32* %x, f32* %y) {
entry:
  %i = make_range i32<4> {start = 0}
  %xs = splat f32*<4> %x
  %px = getelementptr f32*<4> %xs, %i
  %ys = splat f32*<4> %y
  %py = getelementptr f32*<4> %ys, %i
  %in, %out = icmp (i1<4>, i1<4>) %i, 2 {predicate = slt}
  %v = load f32<4> %px, %in
  %w = fadd f32<4> %v, 1.0
  store %py, %w
  ret
}
"""


def test_an_undefined_lane_may_not_reach_memory() -> None:
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    assert "element [2]" in fails("TIR0505", "store", UNDEFINED, 1, x, y)


def test_undefined_stores_can_be_marked_instead() -> None:
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    report = run(UNDEFINED, 1, x, y, allow_undef=True)
    assert report.undefined["y"].tolist() == [False, False, True, True]
    assert y[:2].tolist() == [1, 1]
    assert not report.undefined["x"].any()


def test_uninitialised_memory() -> None:
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    assert "element [0]" in fails("TIR0505", "store", UNDEFINED, 1, x, y, uninitialised=["x"])
    report = run(UNDEFINED, 1, x, y, uninitialised=["y"], allow_undef=True)
    assert report.undefined["y"].tolist() == [False, False, True, True]


CLASH = """
define kernel void @k(i32* %x) {
entry:
  %i = make_range i32<4> {start = 0}
  %v = VALUE
  %xs = splat i32*<4> %x
  store %xs, %v
  ret
}
"""


def test_lanes_of_one_store_must_agree() -> None:
    x = np.zeros(1, np.int32)
    fails("TIR0509", "store", CLASH.replace("VALUE", "mul i32<4> %i, 2"), 1, x)
    run(CLASH.replace("VALUE", "mul i32<4> %i, 0"), 1, x)


TWO_ARRAYS = """
define kernel void @k(i32* %x, i32* %y, i8* %which, i8* %on) {
entry:
  %i = make_range i32<8>
  %ts = splat i8*<8> %which
  %tp = getelementptr i8*<8> %ts, %i
  %t = load i8<8> %tp
  %in_y, _ = icmp (i1<8>, i1<8>) %t, 0 {predicate = ne}
  %os = splat i8*<8> %on
  %op = getelementptr i8*<8> %os, %i
  %o = load i8<8> %op
  %mask, _ = icmp (i1<8>, i1<8>) %o, 0 {predicate = ne}
  %xs = splat i32*<8> %x
  %ys = splat i32*<8> %y
  %base = select i32*<8> %in_y, %ys, %xs
  %half = sdiv i32<8> %i, 2
  %p = getelementptr i32*<8> %base, %half
  %v = and i32<8> %i, VALUES
  store %p, %v, %mask
  ret
}
"""


@pytest.mark.parametrize("pair", range(4))
@pytest.mark.parametrize("values", (0, 7))
def test_a_clash_in_one_of_two_arrays_is_at_its_lane(pair: int, values: int) -> None:
    """Lanes 2 n and 2 n + 1 have one address if they are of one array, and both take part."""
    x, y = np.zeros(4, np.int32), np.zeros(4, np.int32)
    first, second = 2 * pair, 2 * pair + 1
    for in_y in (False, True):
        which, on = np.arange(8) % 2, np.ones(8, np.int8)
        which[first] = which[second] = in_y
        on[:first] = pair % 2
        text = TWO_ARRAYS.replace("VALUES", str(values))
        arguments = (x, y, which.astype(np.int8), on)
        if values:
            assert f"element [{first}]" in fails("TIR0509", "store", text, 1, *arguments)
        else:
            run(text, 1, *arguments)


USES = {
    "TIR0503": "  %p = getelementptr f32* %x, %u\n  store %p, 1.0 ; use",
    "TIR0504": "  %c, _ = icmp (i1, i1) %u, 0 {predicate = eq}\n  store %x, 1.0, %c ; use",
    "TIR0506": "  %c, _ = icmp (i1, i1) %u, 0 {predicate = eq}\n  cond_br %c, entry2, done ; use\n"
    "entry2:\n  br done\ndone:",
}


@pytest.mark.parametrize("code", USES)
def test_undefined_values_where_they_are_seen(code: str) -> None:
    lines = "define kernel void @k(f32* %x) {\nentry:\n  %u = add i32 undef, 1\n"
    body = lines + USES[code] + "\n  ret\n}\n"
    fails(code, "; use", body, 1, np.zeros(4, np.float32))


LANES = """
define kernel void @k(i32* %x) {
entry:
  %i = make_range i32<4>
  %u = add i32 undef, 1
  %s = splat i32<4> %u
  %two, _ = icmp (i1<4>, i1<4>) %i, 2 {predicate = slt}
  %n = select i32<4> %two, %i, %s
  %c, _ = icmp (i1<4>, i1<4>) %n, 9 {predicate = slt}
  %xs = splat i32*<4> %x
  %p = getelementptr i32*<4> %xs, %i
  USE
  ret
}
"""


@pytest.mark.parametrize("use", ["store %p, %i", "%v = atomic_rmw i32<4> %p, 1 {op = add}"])
def test_no_memory_changes_under_an_undefined_predicate(use: str) -> None:
    x = np.zeros(4, np.int32)
    body = LANES.replace("USE", f"@%c {use}")
    assert "element [2]" in fails("TIR0504", use, body, 1, x)
    assert not x.any()


USES_OF_LANES = {
    "store": "store POINTER, VALUE, MASK",
    "atomic store": "atomic_store POINTER, VALUE, MASK",
    "update": "%v = atomic_rmw i32<4> POINTER, VALUE, MASK {op = add}",
    "exchange": "%v = atomic_cas i32<4> POINTER, COMPARED, VALUE, MASK",
    "load": "%v = load i32<4> POINTER, MASK",
    "atomic load": "%v = atomic_load i32<4> POINTER, MASK",
}
OPERANDS = {
    "POINTER": ("%p", "%q", "TIR0503"), "MASK": ("%all", "%c", "TIR0504"),
    "VALUE": ("%i", "%n", "TIR0505"), "COMPARED": ("%i", "%n", "TIR0505"),
}  # fmt: skip
"""For each operand: one that is defined, one that is undefined in the last two lanes, and the error
that this is."""


@for_each("use", USES_OF_LANES)
def test_operands_of_accesses_are_defined_in_lanes_that_take_part(use: str) -> None:
    """Each operand, undefined where the mask is true, or where it is not."""
    for operand in (name for name in OPERANDS if name in USES_OF_LANES[use]):
        for masked in (False, True) if operand != "MASK" else (False,):
            line, code = USES_OF_LANES[use], OPERANDS[operand][2]
            for name, (defined, undefined, _) in OPERANDS.items():
                line = line.replace(name, undefined if name == operand else defined)
            line = line.replace("%all", "%two") if masked else line
            lines = (
                "%all, _ = icmp (i1<4>, i1<4>) %i, 4 {predicate = slt}",
                "%q = getelementptr i32*<4> %xs, %n", line,
            )  # fmt: skip
            body = LANES.replace("USE", "\n  ".join(lines))
            x = np.arange(4, dtype=np.int32)
            for allow_undef in (False, True):
                if masked or (allow_undef and (use, operand) == ("store", "VALUE")):
                    run(body, 1, x, allow_undef=allow_undef)
                else:
                    at = fails(code, line, body, 1, x, allow_undef=allow_undef)
                    assert "element [2]" in at


OUTSIDE = """
define kernel void @k(i32* %x, i8* %on, i8* %far) {
entry:
  %i = make_range i32<8>
  %os = splat i8*<8> %on
  %po = getelementptr i8*<8> %os, %i
  %o = load i8<8> %po
  %mask, _ = icmp (i1<8>, i1<8>) %o, 0 {predicate = ne}
  %fs = splat i8*<8> %far
  %pf = getelementptr i8*<8> %fs, %i
  %f = load i8<8> %pf
  %more = sext i32<8> %f
  %away = mul i32<8> %more, 1000
  %at = add i32<8> %i, %away
  %xs = splat i32*<8> %x
  %p = getelementptr i32*<8> %xs, %at
  %p2 = reshape i32*<2, 4> %p
  %mask2 = reshape i1<2, 4> %mask
  %i2 = reshape i32<2, 4> %i
  USE
  ret
}
"""


@for_each("seed", range(36))
@for_each("rank", (1, 2))
def test_the_first_lane_that_is_outside_of_an_array_is_told(seed: int, rank: int) -> None:
    """Of those that take part, whichever these are."""
    chance = np.random.default_rng(seed)
    on, far = (chance.random(8) < p for p in (chance.choice((0.3, 0.7)), 0.3))
    line = list(USES_OF_LANES.values())[seed % len(USES_OF_LANES)]
    line = line.replace("<4>", "<8>" if rank == 1 else "<2, 4>")
    words = {"POINTER": "%p", "MASK": "%mask", "VALUE": "%i", "COMPARED": "%i"}
    for name, word in words.items():
        line = line.replace(name, word if rank == 1 else f"{word}2")
    arguments = (np.zeros(8, np.int32), on.astype(np.int8), far.astype(np.int8))
    body = OUTSIDE.replace("USE", line)
    if (on & far).any():
        lane = int((on & far).argmax())
        place = f"[{lane}]" if rank == 1 else f"[{lane // 4}, {lane % 4}]"
        assert f"element {place})" in fails("TIR0501", line, body, 1, *arguments)
    else:
        run(body, 1, *arguments)


def test_what_is_loaded_under_an_undefined_predicate_is_undefined() -> None:
    x = np.zeros(4, np.int32)
    run(LANES.replace("USE", "@%c %v = load i32<4> %p"), 1, x)
    use = "@%c %v = load i32<4> %p\n  store %p, %v"
    assert "element [2]" in fails("TIR0505", "store", LANES.replace("USE", use), 1, x)


DIVISION = """
define kernel void @k(i32* %x, i32 %d) {
entry:
  %i = make_range i32<4> {start = 0}
  %n = splat i32<4> %d
  %den = sub i32<4> %i, %n
  %q = sdiv i32<4> %i, %den
  ret
}
"""


def test_division_by_zero() -> None:
    x = np.zeros(4, np.int32)
    assert "element 2" in fails("TIR0550", "sdiv", DIVISION, 1, x, 2)
    run(DIVISION, 1, x, 9)
