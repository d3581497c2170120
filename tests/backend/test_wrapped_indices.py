"""Indices modulo an extent that become masks: wherever the kernel begins, it stores what it stored
before, or stops where an index overflows and it is checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

import tileir
from tests.sizes import for_each
from tileir.backend.software_pipeline.uniform_loads import load_scalars
from tileir.backend.tma.modulo_to_mask import _results_along, mask_wrapped_loads
from tileir.ops.memory import Load
from tileir.textual import parse
from tileir.types import F16

ROWS = 16
KERNEL = """tir 1.0

define kernel void @k(f16* %a, f32* %c, {kind} %s, {kind} %m) {{
entry:
  %i = make_range i32<16>
  %r = {widen} {kind}<16> %i
  %from = splat {kind}<16> %s
  %row = add {kind}<16> %r, %from
  %ms = splat {kind}<16> %m
  %wrapped = srem {kind}<16> %row, %ms {{rounding = {rounding}}}
  %w = expand_dims {kind}<16, 1> %wrapped {{axis = 1}}
  %w16 = mul {kind}<16, 1> %w, 16
  %down = broadcast {kind}<16, 16> %w16
  %q = expand_dims {kind}<1, 16> %r {{axis = 0}}
  %columns = broadcast {kind}<16, 16> %q
  %offs = add {kind}<16, 16> %down, %columns
  %as = splat f16*<16, 16> %a
  %pa = getelementptr f16*<16, 16> %as, %offs
  %x = load f16<16, 16> %pa
  %d = dot f32<16, 16> %x, f16<16, 16> 1.0, 0.0
  %e = expand_dims {kind}<16, 1> %row {{axis = 1}}
  %rs = broadcast {kind}<16, 16> %e
  %m2 = splat {kind}<16, 16> %m
  %in, _ = icmp (i1<16, 16>, i1<16, 16>) %rs, %m2 {{predicate = slt}}
  %k = expand_dims i32<16, 1> %i {{axis = 1}}
  %k16 = mul i32<16, 1> %k, 16
  %ks = broadcast i32<16, 16> %k16
  %j = expand_dims i32<1, 16> %i {{axis = 0}}
  %js = broadcast i32<16, 16> %j
  %to = add i32<16, 16> %ks, %js
  %cs = splat f32*<16, 16> %c
  %pc = getelementptr f32*<16, 16> %cs, %to
  store %pc, %d, %in
  ret
}}
"""
KINDS = ("i32", "i64")


ATOMIC = "_ = atomic_rmw f32<16, 16>"
ADDED = """%va = splat f16*<16> %a
  %pv = getelementptr f16*<16> %va, %wrapped
  %v = load f16<16> %pv
  %ve = expand_dims f16<16, 1> %v {axis = 1}
  %vb = broadcast f16<16, 16> %ve
  %vf = fpext f32<16, 16> %vb
  %sum = fadd f32<16, 16> %d, %vf
  store %pc, %sum, %in"""
"""A vector at the wrapped index is added to what the dot computes."""


WRAPPED = "%wrapped = srem {kind}<16> %row, %ms {{rounding = {rounding}}}"
HINTED = """%remainder = srem {kind}<16> %row, %ms {{rounding = {rounding}}}
  %wrapped = multiple_of {kind}<16> %remainder {{values = [1]}}"""
SELECTED = """%below, _ = icmp (i1<16>, i1<16>) %row, %ms {{predicate = slt}}
  %wrapped = select {kind}<16> %below, %row, {kind}<16> 0"""


MASKED_LOAD = """%few, _ = icmp (i1<16, 16>, i1<16, 16>) %columns, 5 {predicate = slt}
  %x = load f16<16, 16> %pa, %few, 0.0"""
"""A load that has a mask already."""
TESTED_LOAD = """%ml = splat {kind}<16, 16> {bound}
  %few, _ = icmp (i1<16, 16>, i1<16, 16>) %down1, %ml {{predicate = {test}}}
  %x = load f16<16, 16> %pa, %few, 0.0"""
"""A load whose mask tests the wrapped index."""


def kernel_of_masks(kind: str, bound: str, test: str) -> Any:
    text = str(kernel(kind, "zero"))
    index = f"%down1 = broadcast {kind}<16, 16> %w\n  "
    load = index + TESTED_LOAD.format(kind=kind, bound=bound, test=test)
    (line,) = (x for x in text.splitlines() if x.startswith("  %x = load"))
    return parse(text.replace(line, f"  {load}"))


FAR_WRAPPED = """%next = add i32<16> %row, 16
  %wrapped = srem i32<16> %next, %ms"""
TWICE_WRAPPED = """%wrapped2 = srem i32<16> %row, %ms
  %w2 = expand_dims i32<16, 1> %wrapped2 {axis = 1}
  %down1 = broadcast i32<16, 16> %w2
  %few, _ = icmp (i1<16, 16>, i1<16, 16>) %down1, 99 {predicate = slt}
  %x = load f16<16, 16> %pa, %few, 0.0"""
BOTH_BOUNDS = """%e2 = expand_dims i32<16, 1> %next {axis = 1}
  %rs2 = broadcast i32<16, 16> %e2
  %in2, _ = icmp (i1<16, 16>, i1<16, 16>) %rs2, %m2 {predicate = slt}
  %both = and i1<16, 16> %in, %in2
  store %pc, %d, %both"""


def kernel(kind: str, rounding: str, end: str = "store", wrapped: str = WRAPPED) -> Any:
    text = KERNEL.replace(WRAPPED, wrapped)
    text = text.format(kind=kind, widen="sext", rounding=rounding)
    if end == "added":
        text = text.replace("store %pc, %d, %in", ADDED)
    if end == "masked":
        text = text.replace("%x = load f16<16, 16> %pa", MASKED_LOAD)
    if end == "atomic":
        text = text.replace("store %pc, %d, %in", f"{ATOMIC} %pc, %d, %in {{op = fadd}}")
    return parse(text.replace("sext i32<16> %i", "add i32<16> %i, 0"))


def stored_result(
    module: Any, start: int, extent: int, first: int = 32, *more: np.ndarray
) -> np.ndarray | None:
    """The results; None where the kernel ends with an error. The array begins at row `first` of
    64. `more`: arguments of further parameters."""
    buffer = np.arange(16 * 64, dtype=np.float16) % 7
    out = np.full((16, 16), -1, np.float32)
    middle = buffer[16 * first :]
    try:
        tileir.interpret(module, "k", (1,), [middle, out, start, extent, *more])
    except tileir.TileirError:
        return None
    return out


@pytest.mark.sampled(3, by="end")
@pytest.mark.parametrize("is_checked", [False, True])
@pytest.mark.parametrize("rounding", ["zero", "floor"])
@pytest.mark.parametrize(
    ("kind", "end"),
    [("i32", "store"), ("i64", "store"), ("i32", "atomic"), ("i32", "added"), ("i64", "masked")],
)
def test_results_are_those_of_the_indices(
    kind: str, end: str, rounding: str, is_checked: bool
) -> None:
    module = kernel(kind, rounding, end)
    function = mask_wrapped_loads(module.kernel(), is_checked=is_checked)
    changed = attrs.evolve(module, functions={"k": function})
    last = 2**31 - 1 if kind == "i32" else 2**62  # the sum with the extent has 64 bits
    for extent in (1, 5, 16, 24):
        for start in (0, 1, 4, 15, 23, 24, 40, last - 16, last - 15, last - 14, last):
            expected, actual = (
                stored_result(module, start, extent),
                stored_result(changed, start, extent),
            )
            if start + ROWS - 1 <= last:
                assert expected is not None and actual is not None
                np.testing.assert_array_equal(actual, expected)
            elif is_checked and rounding == "zero" and kind == "i32":
                assert actual is None, "an index that overflows is another one modulo the extent"


def check_results(module: Any) -> None:
    """Masks replace the wrapped indices of `module`, and what it stores stays."""
    function = mask_wrapped_loads(module.kernel())
    assert function is not module.kernel()
    changed = attrs.evolve(module, functions={"k": function})
    for extent in (1, 5, 16, 24):
        for start in (0, 1, 4, 15, 23, 24, 40):
            result = stored_result(changed, start, extent)
            np.testing.assert_array_equal(result, stored_result(module, start, extent))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("bound", "test"), [("%m", "slt"), ("5", "slt"), ("3", "sge")])
def test_masks_of_loads_may_test_the_wrapped_index(kind: str, bound: str, test: str) -> None:
    check_results(kernel_of_masks(kind, bound, test))


def test_a_load_at_one_wrapped_index_under_a_mask_of_another() -> None:
    text = str(kernel("i32", "zero"))
    for old, new in (
        ("%wrapped = srem i32<16> %row, %ms", FAR_WRAPPED),
        ("%x = load f16<16, 16> %pa", TWICE_WRAPPED),
        ("store %pc, %d, %in", BOTH_BOUNDS),
    ):
        assert old in text
        text = text.replace(old, new)
    check_results(parse(text))


@pytest.mark.parametrize("is_literal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_ends_where_an_index_is_as_far_below_0_as_the_extent(
    kind: str, is_literal: bool
) -> None:
    """Remainders of negative indices are negative: from -n on, lanes wrap around that a mask would
    not leave out."""
    middle = "%a512 = getelementptr f16* %a, i32 512\n  %as = splat f16*<16, 16> %a512"
    text = str(kernel(kind, "zero")).replace("%as = splat f16*<16, 16> %a", middle)
    for extent in (1, 5, 16, 24):
        module = parse(text.replace("> %m\n", f"> {extent}\n") if is_literal else text)
        function = mask_wrapped_loads(module.kernel(), is_checked=True)
        changed = attrs.evolve(module, functions={"k": function})
        for start in (-40, -extent - 1, -extent, 1 - extent, -1, 0):
            expected, actual = (stored_result(m, start, extent, 0) for m in (module, changed))
            assert expected is not None
            assert (actual is None) == (start <= -extent), (extent, start)
            if actual is not None:
                np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("end", ["store", "atomic", "added"])
@pytest.mark.parametrize("wrapped", [HINTED, SELECTED], ids=["hinted", "selected"])
def test_results_are_those_of_indices_that_are_kept_below_the_extent(
    wrapped: str, end: str
) -> None:
    module = kernel("i32", "zero", end, wrapped)
    assert mask_wrapped_loads(module.kernel(), is_checked=True) is module.kernel()
    check_results(module)


@pytest.mark.parametrize(
    "other",
    [
        SELECTED.replace("slt", "sle"),
        SELECTED.replace("%below, %row,", "%below, %r,"),
        SELECTED.replace("%row, %ms", "%ms, %row"),
    ],
)
def test_other_selections_stay(other: str) -> None:
    function = kernel("i32", "zero", wrapped=other).kernel()
    assert mask_wrapped_loads(function) is function


def test_loads_whose_lanes_are_stored_without_a_mask_keep_the_remainder() -> None:
    """A dot of the other load is stored where the index is below the extent only."""
    other = ADDED.replace("%sum = fadd f32<16, 16> %d, %vf\n  store %pc, %sum, %in",
                          "store %pc, %vf\n  store %pc, %d, %in")  # fmt: skip
    text = str(kernel("i32", "zero")).replace("store %pc, %d, %in", other)
    function = parse(text).kernel()
    assert mask_wrapped_loads(function) is function


DOT = "%d = dot f32<16, 16> %x, f16<16, 16> 1.0, 0.0"
UNPACKED = """%lo, %hi = split (f16<16, 8>, f16<16, 8>) %pairs
  %twice = fadd f16<16, 8> %lo, %lo
  %both = join f16<16, 8, 2> %twice, %hi
  %moved = trans f16<16, 2, 8> %both {order = [0, 2, 1]}
  %y = reshape f16<16, 16> %moved
  %d = dot f32<16, 16> %y, f16<16, 16> 1.0, 0.0"""


def unpacking_kernel(shape: str, end: str = UNPACKED) -> Any:
    """Each row is taken apart into tiles of every second element, which are then joined again."""
    text = str(kernel("i32", "zero"))
    return parse(text.replace(DOT, f"%pairs = reshape f16<{shape}> %x\n  {end}"))


def test_what_is_joined_from_parts_of_a_row_belongs_to_the_row() -> None:
    check_results(unpacking_kernel("16, 8, 2"))


@pytest.mark.parametrize(
    ("shape", "end"),
    [
        ("8, 16, 2", UNPACKED.replace("16, 8", "8, 16").replace("16, 2, 8", "8, 2, 16")),
        ("8, 2, 16", "%y = reshape f16<16, 16> %pairs\n  " + DOT.replace("%x", "%y")),
    ],
    ids=["two rows in one", "rows divided"],
)
def test_rows_that_are_mixed_keep_the_remainder(shape: str, end: str) -> None:
    function = unpacking_kernel(shape, end).kernel()
    assert mask_wrapped_loads(function) is function


@pytest.mark.parametrize("default", ["0.0", "1.0", "-0.0", "undef", "none"])
def test_loads_that_fill_with_other_numbers_keep_the_remainder(default: str) -> None:
    """A mask in place of the remainder fills with 0 where the mask of the load does not hold; lanes
    without a default are undefined there."""
    text = KERNEL.format(kind="i32", widen="sext", rounding="zero")
    text = text.replace("sext i32<16> %i", "add i32<16> %i, 0")
    load = MASKED_LOAD.replace(", 0.0", "" if default == "none" else f", {default}")
    module = parse(text.replace("%x = load f16<16, 16> %pa", load))
    is_replaced = mask_wrapped_loads(module.kernel()) is not module.kernel()
    assert is_replaced == (default in ("0.0", "none"))


@pytest.mark.parametrize("kind", KINDS)
def test_remainders_rounded_down_stay(kind: str) -> None:
    """A negative index is then another one, at the end."""
    function = kernel(kind, "floor").kernel()
    assert mask_wrapped_loads(function) is function
    for end in ("store", "atomic", "added"):
        function = kernel(kind, "zero", end).kernel()
        assert mask_wrapped_loads(function) is not function


def scaled_index_kernel(width: int, other: str = "") -> Any:
    """With 16 * s as the first index, rows before the first one of the array, and a vector added
    whose elements are at quotients of the wrapped indices by `width`, from element 8 of an array
    of its own on."""
    text = str(kernel("i32", "zero", "added"))
    text = text.replace(
        "%from = splat i32<16> %s",
        "%s16 = mul i32 %s, 16\n  %from = splat i32<16> %s16\n"
        "  %a512 = getelementptr f16* %a, i32 512",
    )
    text = text.replace("<16, 16> %a\n", "<16, 16> %a512\n").replace("i32 %m)", "i32 %m, f16* %z)")
    quotient = f"%q16 = sdiv i32<16> %wrapped, {width}\n  %z8 = getelementptr f16* %z, i32 8\n"
    text = text.replace("  %va = splat f16*<16> %a", f"  {quotient}  %va = splat f16*<16> %z8", 1)
    text = text.replace("%va, %wrapped", "%va, %q16")
    if other:  # a second condition of the stores, which is not a comparison of indices
        text = text.replace("store %pc, %sum, %in", f"{other}\n  store %pc, %sum, %both")
    return parse(text)


LOADED = """%pw = getelementptr f16*<16> %va, %i
  %word = load f16<16> %pw
  %odd, _ = fcmp (i1<16>, i1<16>) %word, 3.0 {predicate = olt}
  %odds = expand_dims i1<16, 1> %odd {axis = 1}
  %keep = broadcast i1<16, 16> %odds
  %both = and i1<16, 16> %keep, %in"""


@pytest.mark.parametrize("other", ["", LOADED], ids=["", "more"])
@pytest.mark.parametrize(("width", "loads"), [(16, 2), (32, 2), (8, 0)])
def test_a_block_has_one_scale(width: int, loads: int, other: str) -> None:
    """The quotients of a block are equal, but for the first one of a block of negative indices. The
    array of scales ends with that of the last index below the extent."""
    module = scaled_index_kernel(width, other)
    function = mask_wrapped_loads(module.kernel())
    assert function is not module.kernel()
    changed = load_scalars(function, function.blocks)
    kinds = [op.results[0].type for op in changed.ops if isinstance(op, Load)]
    assert kinds.count(F16) == loads
    other_module = attrs.evolve(module, functions={"k": changed})
    for extent in (16, 17, 24, 32):
        scales = np.arange(8 + (16 if other else (extent - 1) // width + 1), dtype=np.float16)
        for block in (-2, -1, 0, 1, 2, 3):
            if 16 * block > -extent:
                expected = stored_result(module, block, extent, 0, scales)
                actual = stored_result(other_module, block, extent, 0, scales)
                assert expected is not None and actual is not None
                np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("step", [-1, -16])
@pytest.mark.parametrize("is_checked", [False, True])
def test_indices_that_fall_from_0_keep_the_remainder(step: int, is_checked: bool) -> None:
    """They are negative wherever they are not 0: a check would end the kernel."""
    text = str(kernel("i32", "zero"))
    falling = f"%down.0 = mul i32 %s, {step}\n  %from = splat i32<16> %down.0"
    function = parse(text.replace("%from = splat i32<16> %s", falling)).kernel()
    assert len([op for op in function.ops if op.mnemonic == "mul"]) == 3
    assert mask_wrapped_loads(function, is_checked=is_checked) is function


LANE_OPS = [
    ("trans", (2, 4, 8), "trans f32{r} %v {{order = [2, 0, 1]}}", (8, 2, 4)),
    ("trans", (2, 4, 8), "trans f32{r} %v {{order = [1, 2, 0]}}", (4, 8, 2)),
    ("trans", (4, 8), "trans f32{r} %v {{order = [1, 0]}}", (8, 4)),
    ("expand", (4, 8), "expand_dims f32{r} %v {{axis = 0}}", (1, 4, 8)),
    ("expand", (4, 8), "expand_dims f32{r} %v {{axis = 1}}", (4, 1, 8)),
    ("expand", (4, 8), "expand_dims f32{r} %v {{axis = 2}}", (4, 8, 1)),
    ("broadcast", (4, 1, 2), "broadcast f32{r} %v", (4, 8, 2)),
    ("reshape", (4, 8), "reshape f32{r} %v", (4, 2, 4)),
    ("reshape", (4, 8), "reshape f32{r} %v", (2, 2, 8)),
    ("reshape", (2, 4, 2), "reshape f32{r} %v", (2, 2, 4)),
    ("reshape", (4, 2, 8), "reshape f32{r} %v", (8, 8)),
    ("reshape", (2, 2, 8), "reshape f32{r} %v", (8, 2, 2)),
    ("reduce", (2, 4, 8), "reduce f32{r} %v {{axis = 0, combiner = fadd}}", (4, 8)),
    ("reduce", (2, 4, 8), "reduce f32{r} %v {{axis = 1, combiner = fadd}}", (2, 8)),
    ("reduce", (2, 4, 8), "reduce f32{r} %v {{axis = 2, combiner = fadd}}", (2, 4)),
    ("join", (4, 8), "join f32{r} %v, %v", (4, 8, 2)),
    ("split", (4, 8, 2), "split (f32{r}, f32{r}) %v", (4, 8)),
    ("split", (2, 4, 2), "split (f32{r}, f32{r}) %v", (2, 4)),
    ("dot a", (2, 4), "dot f32{r} %v, f32<4, 8> 1.0, 0.0", (2, 8)),
    ("dot b", (4, 8), "dot f32{r} f32<2, 4> 1.0, %v, 0.0", (2, 8)),
    ("dot c", (2, 8), "dot f32{r} f32<2, 4> 1.0, f32<4, 8> 1.0, %v", (2, 8)),
    ("dot a b", (4, 4), "dot f32{r} %v, %v, 0.0", (4, 4)),
    ("dot a c", (4, 4), "dot f32{r} %v, f32<4, 4> 1.0, %v", (4, 4)),
    ("dot b c", (4, 4), "dot f32{r} f32<4, 4> 1.0, %v, %v", (4, 4)),
    ("dot a b c", (4, 4), "dot f32{r} %v, %v, %v", (4, 4)),
    ("elementwise", (4, 8), "fmul f32{r} %v, %v", (4, 8)),
]  # fmt: skip
"""Ops by name, the shape of their operand `%v`, and the text and the shape of their result."""
LANE_KERNEL = """tir 1.0

define kernel void @k(f32* %x, f32* %z) {{
entry:
  %i = make_range i32<{n}>
  %is = reshape i32{s} %i
  %xs = splat f32*{s} %x
  %px = getelementptr f32*{s} %xs, %is
  %v = load f32{s} %px
  %r{more} = {op}
  %j = make_range i32<{m}>
  %js = reshape i32{r} %j
  %zs = splat f32*{r} %z
  %pz = getelementptr f32*{r} %zs, %js
  store %pz, %r
  ret
}}
"""


def lanes_that_change(
    module: Any, shape: tuple[int, ...], result: tuple[int, ...], dim: int
) -> Iterator[tuple[int, np.ndarray]]:
    """For each lane of the operand along `dim`, which elements of the result depend on it."""

    def result_of(x: np.ndarray) -> np.ndarray:
        z = np.zeros(result, np.float32)
        tileir.interpret(module, "k", (1,), [x, z])
        return z

    chance = np.random.default_rng(dim)
    x = chance.integers(1, 1 << 20, shape).astype(np.float32)
    before = result_of(x)
    for lane in range(shape[dim]):
        other = x.copy()
        np.moveaxis(other, dim, 0)[lane] += 1 + chance.integers(0, 99)
        yield lane, result_of(other) != before


@for_each(("name", "shape", "text", "result"), LANE_OPS)
def test_lanes_are_followed_to_where_the_interpreter_has_them(
    name: str, shape: tuple[int, ...], text: str, result: tuple[int, ...]
) -> None:
    """Lanes along the dimension of the result depend on one lane of the operand each. There is no
    such dimension where lanes are mixed."""
    op, more = text.format(r=f"<{', '.join(map(str, result))}>"), ", %s" * (name == "split")
    sizes = {"s": f"<{', '.join(map(str, shape))}>", "r": f"<{', '.join(map(str, result))}>"}
    sizes |= {"n": np.prod(shape), "m": np.prod(result)}
    module = parse(LANE_KERNEL.format(op=op, more=more, **sizes))
    function = module.kernel()
    (reader,) = (op for op in function.ops if op.results and op.results[0].name == "r")
    (value,) = (op.results[0] for op in function.ops if op.results and op.results[0].name == "v")
    for dim, extent in enumerate(shape):
        if extent == 1:
            continue
        separate = {d for d, n in enumerate(result) if n == extent}
        for lane, changed in lanes_that_change(module, shape, result, dim):
            assert changed.any() or name == "split", "an element of each pair is in the other tile"
            for d in set(separate):
                along = np.moveaxis(changed, d, 0)
                if np.delete(along, lane, axis=0).any():
                    separate.discard(d)
        followed = _results_along(function, reader, (value, dim)) or []
        assert {d for _, d in followed} == separate, (name, dim)


PREDICATE = "%few, _ = icmp (i1, i1) %s, 1000 {predicate = slt}\n  "
COMPARED = "%in, _ = icmp (i1<16, 16>, i1<16, 16>) %rs, %m2 {predicate = slt}"
STORED = "store %pc, %d, %in"
TOTAL_OF_ROWS = """%rd = reduce f32<16> %d {axis = 0, combiner = fadd}
  %re = expand_dims f32<1, 16> %rd {axis = 0}
  %dd = broadcast f32<16, 16> %re
  store %pc, %dd, %in"""
REMAINDER = "%wrapped = srem i32<16> %row, %ms"
OTHER_PROGRAMS: dict[str, tuple[str, str]] = {
    **{f"rows {p}": (COMPARED, COMPARED.replace("slt", p))
       for p in ("sle", "sgt", "sge", "eq", "ne", "ule", "ugt")},
    "exchanged": (COMPARED, COMPARED.replace("%rs, %m2", "%m2, %rs")),
    "not below": (COMPARED, COMPARED.replace("%in, _", "_, %in")),
    "columns": (COMPARED, COMPARED.replace("%rs", "%columns")),
    "no mask": (STORED, "store %pc, %d"),
    "a sum of rows": (STORED, TOTAL_OF_ROWS),
    "every second row": (REMAINDER, "%far = add i32<16> %row, %i\n  "
                         + REMAINDER.replace("%row", "%far")),
    "the index is stored": (STORED, "%fw = sitofp f32<16, 16> %down\n  %dd = fadd f32<16, 16> %d, "
                            "%fw\n  store %pc, %dd, %in\n  store %pc, %fw"),
    "the other operand": ("dot f32<16, 16> %x, f16<16, 16> 1.0",
                          "dot f32<16, 16> f16<16, 16> 1.0, %x"),
    "both operands": ("dot f32<16, 16> %x, f16<16, 16> 1.0", "dot f32<16, 16> %x, %x"),
    "a volatile load": ("load f16<16, 16> %pa", "load f16<16, 16> %pa {volatile = true}"),
    "a load under a predicate": ("%x = load", f"{PREDICATE}@%few %x = load"),
    "a remainder under a predicate": ("%wrapped = ", f"{PREDICATE}@%few %wrapped = "),
    "a dot under a predicate": ("%d = dot", f"{PREDICATE}@%few %d = dot"),
    "a start that also falls": ("%from = splat i32<16> %s", "%s2 = mul i32 %s, 2\n  "
                                "%less = sub i32 %s2, %m\n  %from = splat i32<16> %less"),
}  # fmt: skip
"""Programs that a mask would change, that access memory in an order of their own, or whose ops run
under a predicate."""


@pytest.mark.parametrize("name", OTHER_PROGRAMS)
@pytest.mark.parametrize("is_checked", [False, True])
def test_other_programs_stay(name: str, is_checked: bool) -> None:
    text = str(kernel("i32", "zero"))
    old, new = OTHER_PROGRAMS[name]
    assert old in text
    function = parse(text.replace(old, new)).kernel()
    assert mask_wrapped_loads(function, is_checked=is_checked) is function


ODD = """%low = and i32<16, 16> %js, 1
  %odd, _ = icmp (i1<16, 16>, i1<16, 16>) %low, 1 {predicate = eq}
  %some, _ = icmp (i1<16, 16>, i1<16, 16>) %low, 2 {predicate = ne}
"""
"""Two conditions that are no bounds."""


@for_each(("conjunction", "is_mask"), [
    ("%mask = and i1<16, 16> %in, %odd", True), ("%mask = and i1<16, 16> %odd, %in", True),
    ("%part = and i1<16, 16> %odd, %in\n  %mask = and i1<16, 16> %some, %part", True),
    ("%part = and i1<16, 16> %odd, %some\n  %mask = and i1<16, 16> %in, %part", True),
    ("%part = and i1<16, 16> %odd, %some\n  %mask = and i1<16, 16> %part, %odd", False),
    ("%mask = or i1<16, 16> %in, %odd", False), ("%mask = or i1<16, 16> %odd, %in", False),
])  # fmt: skip
def test_a_bound_counts_wherever_it_is_in_a_conjunction(conjunction: str, is_mask: bool) -> None:
    """Next to conditions that are no bounds."""
    text = str(kernel("i32", "zero"))
    module = parse(text.replace(STORED, f"{ODD}  {conjunction}\n  store %pc, %d, %mask"))
    if is_mask:
        check_results(module)
    else:
        assert mask_wrapped_loads(module.kernel()) is module.kernel()


@for_each("place", ["in an earlier block", "in the block of the remainder"])
def test_an_index_that_begins_at_a_number_from_memory_is_checked(place: str) -> None:
    """Wherever the number is loaded: the check is written where the index wraps around."""
    text = str(kernel("i32", "zero")).replace("i32 %m)", "i32 %m, i32* %at)")
    load, jump = "  %first = load i32 %at\n", "  br body\nbody:\n"
    begin = load + jump if place == "in an earlier block" else jump + load
    text = text.replace("entry:\n", f"entry:\n{begin}").replace("i32<16> %s\n", "i32<16> %first\n")
    middle = "%a512 = getelementptr f16* %a, i32 512\n  %as = splat f16*<16, 16> %a512"
    module = parse(text.replace("%as = splat f16*<16, 16> %a", middle))
    function = mask_wrapped_loads(module.kernel(), is_checked=True)
    assert sum(op.mnemonic == "gpu.device_assert" for op in function.blocks["body"].ops) == 2
    assert not any(op.mnemonic == "srem" for op in function.ops)
    changed = attrs.evolve(module, functions={"k": function})
    for start, extent in ((0, 5), (4, 16), (-3, 24), (-5, 5), (-6, 5)):
        at = np.array([start], np.int32)
        expected, actual = (stored_result(m, 0, extent, 0, at) for m in (module, changed))
        assert expected is not None and (actual is None) == (start <= -extent)
        if actual is not None:
            np.testing.assert_array_equal(actual, expected)
