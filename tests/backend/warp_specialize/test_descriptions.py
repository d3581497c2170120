"""What `descriptors` solves for, and what the host computes: formulas, what maps may be, extents
and starts by what masks say, and what of parameters is assumed."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.backend.warp_specialize.masked_blocks import WORDS, kernel
from tests.ops.host_ops import ops_of_every_attribute
from tests.sizes import for_each
from tileir import TileirError
from tileir.backend.tma.delinearize import _merge_dimensions
from tileir.backend.tma.host_expressions import FORMULAS, HostOp, host_values
from tileir.backend.tma.host_plan import MapRecipe, _unit, _values
from tileir.backend.tma.infer_descriptors import LARGEST
from tileir.interp import interpret
from tileir.machine import Machine, Tensor
from tileir.op import lookup
from tileir.passmanager import run
from tileir.textual import parse, print_module
from tileir.types import F16, I1, I8, I16, I32, I64, Pointer, Scalar
from tileir.values import Value

# Formulas -----------------------------------------------------------------------------------------

KINDS = (I8, I16, I32, I64)


def as_plan_integer(number: int, kind: Any) -> int:
    """As the plan has it: i1 is 0 or 1."""
    return number & 1 if kind.bits == 1 else number


@for_each("kind", KINDS)
@for_each("name", sorted(set(FORMULAS) - {"getelementptr"}))
def test_formulas_are_what_ops_compute(name: str, kind: Scalar) -> None:
    r, machine = random.Random(name), Machine()
    half = 1 << kind.bits - 1
    ends = [-half, -half + 1, -7, -1, 0, 1, 2, 7, half - 1]
    for op in ops_of_every_attribute(name, kind):
        for _ in range(60):
            numbers: list[int] = []
            for v in op.inputs:
                bits: Any = v.type
                numbers.append(r.randrange(2) if bits is I1 else r.choice(ends))
            if name == "sdiv" and (numbers[1] == 0 or numbers == [-half, -1]):
                continue
            inputs = [Tensor(np.array(bool(n) if v.type is I1 else n,
                                     bool if v.type is I1 else f"i{v.type.bytes}"))
                     for n, v in zip(numbers, op.inputs, strict=True)]  # fmt: skip
            result = op.evaluate(machine, *inputs)
            results = result if isinstance(result, tuple) else (result,)
            for index, (tensor, v) in enumerate(zip(results, op.results, strict=True)):
                step = HostOp.of(op, tuple(f"a{i}" for i in range(len(numbers))), index)
                env = {f"a{i}": n for i, n in enumerate(numbers)}
                assert eval(step.text, env) == as_plan_integer(int(tensor.data), v.type), (
                    step.text,
                    env,
                )


@pytest.mark.parametrize("pointee", [I8, F16, I32, I64])
def test_pointers_move_by_elements(pointee: Scalar) -> None:
    cls: Any = lookup("getelementptr")
    op = cls(Value(Pointer(pointee)), Value(I32))
    text = HostOp.of(op, ("a0", "a1"), 0).text
    assert eval(text, {"a0": 4096, "a1": -3}) == 4096 - 3 * pointee.bytes


HOST = """tir 1.0

define kernel void @k(f32* %x, i32 %n, i1 %c, f32 %f, i64 %l) {
entry:
  %a = add i32 %n, 1
  %b = sext i64 %a
  %d = select i64 %c, %b, %l
  %p = getelementptr f32* %x, %d
  %lt, %ge = icmp (i1, i1) %a, %n {predicate = slt}
  %g = fadd f32 %f, 1.0
  %pid = program_id i32
  %h = add i32 %pid, %n
  @%c %u = add i32 %n, 2
  %o = srem i32 %n, 7
  %v = load i32 %q
  %s = splat i32<8> %n
  %t = add i32 %v, %a
  br next
next:
  %w = add i32 %n, 3
  ret
}
""".replace("  %v =", "  %q = bitcast i32* %x\n  %v =")


def test_what_follows_from_parameters_alone() -> None:
    """Integers and pointers by formulas, in the entry; no floats, nothing of an instance, of memory
    or under a predicate."""
    function = parse(HOST).kernel()
    names = {str(v.name) for v in host_values(function)}
    assert names == {"x", "n", "c", "l", "a", "b", "d", "p", "lt", "ge"}


def test_steps_know_the_bits_they_come_from() -> None:
    function = parse(HOST).kernel()
    steps = {str(v.name): HostOp.of(op, (), i) for op in function.entry.ops
             for i, v in enumerate(op.results) if v in host_values(function)}  # fmt: skip
    results = {
        n: (steps[n].bits, steps[n].source, steps[n].word) for n in ("b", "p", "lt", "ge", "d")
    }
    assert results == {
        "b": (64, 32, ""), "p": (64, 64, ""), "lt": (1, 32, "slt"), "ge": (1, 32, "not slt"),
        "d": (64, 1, ""),
    }  # fmt: skip


# Maps ---------------------------------------------------------------------------------------------


def recipe(size: int = 2, block: tuple[int, ...] = (64, 32)) -> MapRecipe:
    return MapRecipe("f16", size, block, 2, "zero", "a0", ("a1", "a2"), ("a3", 1), 0)


MOST = 1 << 32


@for_each(("base", "extents", "strides", "fits"), [
        (4096, (10, 20), (64, 1), True), (4096 + 16, (10, 20), (8, 1), True),
        (4096 + 8, (10, 20), (64, 1), False), (4096, (10, 20), (4, 1), False),
        (4096, (10, 20), (64, 2), False), (4096, (0, 20), (64, 1), False),
        (4096, (10, 0), (64, 1), False), (4096, (1, 1), (64, 1), True),
        (4096, (MOST, 20), (64, 1), True), (4096, (MOST + 1, 20), (64, 1), False),
        (4096, (10, 20), (0, 1), False), (4096, (10, 20), (-64, 1), False),
        (4096, (10, 20), ((1 << 39) - 8, 1), True), (4096, (10, 20), (1 << 39, 1), False),
        (4096, (10, -1), (64, 1), False),
    ])  # fmt: skip
def test_what_the_hardware_takes(base: int, extents: Any, strides: Any, fits: bool) -> None:
    """Addresses and strides by 16 bytes, strides below 2^40 bytes, extents up to 2^32."""
    values = _values(recipe(), base, extents, strides)
    assert (values is not None) == fits
    if values is not None:
        assert (values.address, values.extents, values.strides) == (
            base,
            extents,
            (2 * strides[0],),
        )  # type: ignore[attr-defined]


@for_each(("base", "extents", "strides", "unit"), [
        (4096, (10, 24), (64, 1), 16), (4096, (10, 20), (64, 1), 8), (4096, (10, 24), (60, 1), 8),
        (4100, (10, 24), (64, 1), 4), (4096, (10, 21), (64, 1), 2), (4096, (10, 24), (64, 2), 2),
        (4097, (10, 24), (64, 1), 1), (4096, (10, 24), (33, 1), 2),
    ])  # fmt: skip
def test_what_rows_are_multiples_of(base: int, extents: Any, strides: Any, unit: int) -> None:
    assert _unit(recipe(), base, extents, strides) == unit


def test_distances_are_merged_where_there_are_too_many() -> None:
    """What moves by a multiple of another's distance moves by that one."""
    a, b, c, i, j = (Value(I32, name) for name in "abcij")
    one: Any = {(): {(i,): 2}, (a,): {(j,): 3}, (a, b): {(i,): 1, (): 5}, (c,): {(j,): 7}}
    assert _merge_dimensions(one, 4) == one
    assert _merge_dimensions(one, 3) == {
        (): {(i,): 2}, (a,): {(j,): 3, (b, i): 1, (b,): 5}, (c,): {(j,): 7},
    }  # fmt: skip
    two = _merge_dimensions(one, 2)
    assert len(two) == 2 and () in two
    assert _merge_dimensions({(a,): {(i,): 1}, (b,): {(j,): 1}}, 1) == {
        (a,): {(i,): 1},
        (b,): {(j,): 1},
    }


# Blocks -------------------------------------------------------------------------------------------


def floors(module: Any) -> dict[str, int]:
    """What each parameter is assumed to be at least."""
    function = module.functions["f"]
    by_name: dict[str, int] = {}
    for op in function.entry.ops:
        if op.mnemonic == "icmp" and op.predicate_.value == "sge" and isinstance(op.lhs, Value):
            by_name[str(op.lhs.name)] = int(op.rhs.value)
    return by_name


CASES: list[tuple[tuple[str, ...], dict[str, Any], dict[str, int]]] = [
    (("row < ms", "col < ns"), {}, {"m": 1, "n": 1}),
    (("row < ms", "col < ns"), {"rows": 64}, {"m": 1, "n": 1}),
    (("row >= 0", "row < ms", "col < ns"), {"shift": -1}, {"m": 1, "n": 1}),
    (("row+ss < ms", "col < ns"), {}, {"m": 1, "n": 1, "s": 0}),
    (("row < ms-ss", "col < ns"), {}, {"m": 1, "n": 1, "s": 0}),
    (("row <= ms", "col < ns"), {}, {"m": 1, "n": 1}),
    (("col < ns",), {}, {"n": 1}),
    (("row > 0", "row < ms", "col < ns"), {}, {"m": 1, "n": 1}),
    (("row > 0", "row < ms", "col < ns"), {"shift": -3}, {"m": 1, "n": 1}),
    (("row >= 0", "ms > row", "ns > col"), {"shift": -1}, {"m": 1, "n": 1}),
    (("0 < row", "ms >= row", "ns > col"), {"shift": -1}, {"m": 1, "n": 1}),
    (("row u< ms", "col u< ns"), {"shift": -1}, {"m": 1, "n": 1}),
]


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("terms", "how", "least"), CASES)
def test_masks_are_extents_and_parameters_are_not_negative(
    terms: tuple[str, ...], how: dict[str, Any], least: dict[str, int]
) -> None:
    module = parse(kernel(*terms, **how))
    outcome = run(module, "infer-descriptors")
    text = print_module(outcome.module)
    assert "descriptor_load" in text, [r.message for r in outcome.remarks]
    assert floors(outcome.module) == least
    rows = how.get("rows", 16)
    for m, n, s in ((5, 16, 1), (2 * rows, 8, 2), (rows + 3, 24, 0), (2 * rows - 1, 16, 3)):
        x = np.random.default_rng(m).integers(-3, 4, (2 * rows + 4) * 24).astype(np.float16)
        results = []
        for it in (module, outcome.module):
            y = np.full((2 * rows, 16), np.nan, np.float32)
            padding = np.zeros(24, np.float16) if how.get("shift") else x[:0]
            array = np.concatenate([padding, x])
            interpret(it, "f", (2,), [array[len(padding) :].copy(), y, m, n, s])
            results.append(y)
        assert (results[0] == results[1]).all(), (m, n, s)


@for_each(("terms", "how", "least"), CASES)
def test_parameters_are_assumed_to_be_as_small_as_they_may_be(
    terms: tuple[str, ...], how: dict[str, Any], least: dict[str, int]
) -> None:
    assert floors(run(parse(kernel(*terms, **how)), "infer-descriptors").module) == least


@for_each(("terms", "how", "least"), CASES)
def test_assumptions_hold_from_the_least_number_up_to_the_limit(
    terms: tuple[str, ...], how: dict[str, Any], least: dict[str, int]
) -> None:
    module = run(parse(kernel(*terms, **how)), "infer-descriptors").module
    rows = how.get("rows", 16)
    x, y = np.zeros((2 * rows + 4) * 24, np.float16), np.zeros((2 * rows, 16), np.float32)
    for name, floor in least.items():
        for number, holds in (
            (floor - 1, False), (floor, True), (LARGEST - 1, True), (LARGEST, False),
        ):  # fmt: skip
            numbers = {"m": 5, "n": 8, "s": 1, name: number}
            try:
                interpret(module, "f", (1,), [x, y, *numbers.values()])
            except TileirError as error:
                assert ("assume" in str(error)) is not holds, (name, number, str(error))
            else:
                assert holds, (name, number)


ROWS = """tir 1.0
define kernel void @f(f16* aligned(16) %x, f32* aligned(16) %y, i32 %s) {{
entry:
  %i = make_range i32<{m}>
  %j = make_range i32<{k}>
  %i1 = expand_dims i32<{m}, 1> %i {{axis = 1}}
  %j1 = expand_dims i32<1, {k}> %j {{axis = 0}}
  %ii = broadcast i32<{m}, {k}> %i1
  %jj = broadcast i32<{m}, {k}> %j1
  %ss = splat i32<{m}, {k}> %s
  %far = mul i32<{m}, {k}> %{outer}, %ss
  %at = add i32<{m}, {k}> %far, %{inner}
  %xs = splat f16*<{m}, {k}> %x
  %p = getelementptr f16*<{m}, {k}> %xs, %at
  %v = load f16<{m}, {k}> %p
  %d = dot f32<{m}, 16> %v, f16<{k}, 16> 1.0, 0.0
  %r = make_range i32<16>
  %r1 = expand_dims i32<1, 16> %r {{axis = 0}}
  %rr = broadcast i32<{m}, 16> %r1
  %w = broadcast i32<{m}, 16> %i1
  %w16 = mul i32<{m}, 16> %w, 16
  %to = add i32<{m}, 16> %w16, %rr
  %ys = splat f32*<{m}, 16> %y
  %q = getelementptr f32*<{m}, 16> %ys, %to
  store %q, %d
  ret
}}
"""


@for_each("is_transposed", (False, True))
@for_each(("m", "k"), [(16, 32), (4, 32), (32, 4), (4, 4), (12, 16), (16, 12), (8, 12), (12, 8)])
def test_rows_of_boxes_are_multiples_of_16_bytes(m: int, k: int, is_transposed: bool) -> None:
    """Along the dimension that is contiguous in memory."""
    outer, inner, row = ("jj", "ii", m) if is_transposed else ("ii", "jj", k)
    outcome = run(parse(ROWS.format(m=m, k=k, outer=outer, inner=inner)), "infer-descriptors")
    assert ("descriptor_load" in print_module(outcome.module)) == (2 * row % 16 == 0)


LOADED = "  %v = load f16<16, 16> %p, %in, 0.0\n"
DOT = "  %d = dot f32<16, 16> %v, f16<16, 16> 1.0, 0.0\n"
HALVES = "  %h = dot f16<16, 16> f16<16, 16> 1.0, {}, {}\n  %d = fpext f32<16, 16> %h\n"
READERS = {
    "A": (DOT, True),
    "B": ("  %d = dot f32<16, 16> f16<16, 16> 1.0, %v, 0.0\n", True),
    "A and B": ("  %d = dot f32<16, 16> %v, %v, 0.0\n", True),
    "C": (HALVES.format("f16<16, 16> 1.0", "%v"), False),
    "B and C": (HALVES.format("%v", "%v"), False),
    "A and a sum": (DOT.replace("%d =", "%e =") + "  %w = fpext f32<16, 16> %v\n"
                    "  %d = fadd f32<16, 16> %e, %w\n", False),
}  # fmt: skip
"""What reads a tile, and whether a descriptor may load it."""


@pytest.mark.parametrize("reader", READERS)
def test_tiles_of_other_values_or_for_other_ops_are_loaded_through_pointers(reader: str) -> None:
    """A descriptor gives 0 out of bounds, and its tile goes to shared memory, for operands A and
    B."""
    lines, feeds_dots = READERS[reader]
    described = set()
    for default in (", %in, 0.0", ", %in, -0.0", ", %in, 1.0", ", %in, nan"):
        loaded = LOADED.replace(", %in, 0.0", default)
        text = kernel("row < ms", "col < ns").replace(LOADED, loaded).replace(DOT, lines)
        module = parse(text)
        described_module = run(module, "infer-descriptors").module
        if "descriptor_load" in print_module(described_module):
            described.add(default)
        x = np.random.default_rng(3).integers(-3, 4, 40 * 24).astype(np.float16)
        results = []
        for it in (module, described_module):
            y = np.full((32, 16), np.inf, np.float32)
            interpret(it, "f", (2,), [x.copy(), y, 19, 8, 1])
            results.append(y)
        np.testing.assert_array_equal(results[0], results[1], str(default))
    assert bool(described) == feeds_dots
    assert not described & {", %in, 1.0", ", %in, nan"}


STARTS = {
    "a parameter": "%begin = sub i32 %s, 16",
    "parameters": "%both = add i32 %s, %m\n  %begin = sub i32 %both, 16",
    "an instance": "%begin = sub i32 32, %from",
    "a parameter and an instance": "%begin = sub i32 %s, %from",
    "an instance and a parameter": "%begin = sub i32 %from, %s",
    "their sum": "%begin = add i32 %from, %s",
    "one times the other": "%begin = mul i32 %pid, %s",
}


@for_each("name", STARTS)
def test_the_host_guards_what_it_can_compute(name: str) -> None:
    """A start that may be negative is an assumption where the launcher computes it, and asserted
    by the kernel where it depends on the instance."""
    text = kernel("row < ms", "col < ns")
    text = text.replace("  %i = make_range", f"  {STARTS[name]}\n  %i = make_range")
    module = parse(text.replace("splat i32<16, 1> %from", "splat i32<16, 1> %begin"))
    function = run(module, "infer-descriptors").module.functions["f"]
    assert any(op.mnemonic == "descriptor_load" for op in function.ops)
    computed = host_values(function)
    checked = [op for op in function.ops if op.mnemonic in ("assume", "gpu.device_assert")]
    assert len(checked) > 2
    for op in checked:
        assert (op.inputs[0] in computed) == (op.mnemonic == "assume")


def remarks(text: str) -> str:
    return " ".join(r.message for r in run(parse(text), "infer-descriptors").remarks)


def test_what_is_no_block() -> None:
    assert "a dimension has one element" in remarks(kernel("col < ns", rows=1))
    assert "one element" not in remarks(kernel("row < ms", "col < ns", rows=2))
    table = kernel("row < ms", "col < ns").replace("<16, 16> %row, %ns", "<16, 16> %row, %col")
    assert "the address is not affine in lanes, iterations and scalars" in remarks(
        table
    ) or "strides" in remarks(table)
    # Rows from -1 on that nothing leaves out, of a known distance or not.
    before = kernel("row < ms", "col < ns", shift=-1)
    for text in (before, before.replace("<16, 16> %row, %ns", "<16, 16> %row, 32")):
        assert "its first index is negative" in remarks(text)
    moved = kernel("row-ss >= 0", "row < ms", "col < ns").replace("16> %s\n", "16> %from\n")
    assert "the host cannot compute an extent" in remarks(moved)
    odd = kernel("row < ms", "col < ns").replace("<16, 16> %far, %col", "<16, 16> %far, %row")
    assert "no dimension of the tile, or more than one" in remarks(odd) or "strides" in remarks(odd)


def test_a_bound_from_memory_is_no_extent() -> None:
    """Rows of a group, from one number in memory to another, of which the launcher knows neither:
    an extent of 0 after the last row would make every start negative, and end the kernel."""
    text = kernel("row < ms", "col < ns").replace("i32 %s)", "i32* aligned(16) noalias %s)")
    text = text.replace("  %ms = splat i32<16, 16> %m\n  %ss = splat i32<16, 16> %s\n", "")
    loaded = """  %last.p = getelementptr i32* %s, i32 1
  %last = load i32 %last.p
  %ms = splat i32<16, 16> %last
  %first = load i32 %s
  %fs = splat i32<16, 1> %first
"""
    text = text.replace("  %fs = splat i32<16, 1> %from\n", loaded)
    outcome = run(parse(text), "infer-descriptors")
    assert "the host cannot compute an extent" in " ".join(r.message for r in outcome.remarks)
    assert "device_assert" not in print_module(outcome.module)


@pytest.mark.parametrize("first", ["row {} 0", "0 {} row", "row {} ms", "ms {} row"])
@pytest.mark.parametrize("second", ["row {} ms", "ms {} row", ""])
@pytest.mark.parametrize("shift", [-2, 0])
@pytest.mark.sampled(1)
def test_every_comparison_bounds_a_block_as_it_does_lanes(
    first: str, second: str, shift: int
) -> None:
    """Bounds from below and above, strict ones and unsigned ones, in either order: where a mask
    becomes the extents of a tensor, what is loaded is the same."""
    for words in product(WORDS, ("<", ">=", "u<", "u>") if second else ("<",)):
        terms = [t.format(w) for t, w in zip((first, second), words, strict=True) if t]
        module = parse(kernel(*terms, "col < ns", shift=shift))
        transformed = run(module, "infer-descriptors").module
        if "descriptor_load" not in print_module(transformed):
            continue
        for m, n in ((5, 16), (33, 8)):
            x = np.random.default_rng(m).integers(-3, 4, 40 * 24).astype(np.float16)
            results = []
            for it in (module, transformed):
                y = np.full((32, 16), np.nan, np.float32)
                interpret(it, "f", (2,), [x[4 * 24 :].copy(), y, m, n, 1])
                results.append(y)
            assert (results[0] == results[1]).all(), (terms, m, n)


# Indices that wrap --------------------------------------------------------------------------------

WRAPPED = """tir 1.0

define kernel void @f(f16* %a, f16* %b, f32* %c, i32 %m) {
entry:
  %i = make_range i32<16>
  %p = program_id i32
  %p16 = mul i32 %p, 16
  %from = splat i32<16> %p16
  %row = add i32<16> %i, %from
  %ms = splat i32<16> %m
  %wrapped = srem i32<16> %row, %ms
  %w = expand_dims i32<16, 1> %wrapped {axis = 1}
  %w16 = mul i32<16, 1> %w, 16
  %down = broadcast i32<16, 16> %w16
  %q = expand_dims i32<1, 16> %i {axis = 0}
  %columns = broadcast i32<16, 16> %q
  %offs = add i32<16, 16> %down, %columns
  %as = splat f16*<16, 16> %a
  %pa = getelementptr f16*<16, 16> %as, %offs
  %x = load f16<16, 16> %pa
  %d = dot f32<16, 16> %x, f16<16, 16> 1.0, 0.0
  %r = expand_dims i32<16, 1> %row {axis = 1}
  %rs = broadcast i32<16, 16> %r
  %m2 = splat i32<16, 16> %m
  %in, _ = icmp (i1<16, 16>, i1<16, 16>) %rs, %m2 {predicate = slt}
  %r16 = mul i32<16, 16> %rs, 16
  %offc = add i32<16, 16> %r16, %columns
  %cs = splat f32*<16, 16> %c
  %pc = getelementptr f32*<16, 16> %cs, %offc
  store %pc, %d, %in
  ret
}
"""


GRAM = """tir 1.0

define kernel void @f(f16* %a, f16* %b, f32* %c, i32 %m) {{
entry:
  %i = make_range i32<16>
  %p = program_id i32
  %p16 = mul i32 %p, 16
  %from = splat i32<16> %p16
  %row = add i32<16> %i, %from
  %ms = splat i32<16> %m
  %wrapped = srem i32<16> %row, %ms
  %w = expand_dims i32<16, 1> %wrapped {{axis = 1}}
  %w16 = mul i32<16, 1> %w, 16
  %down = broadcast i32<16, 16> %w16
  %q = expand_dims i32<1, 16> %i {{axis = 0}}
  %columns = broadcast i32<16, 16> %q
  %offs = add i32<16, 16> %down, %columns
  %as = splat f16*<16, 16> %a
  %pa = getelementptr f16*<16, 16> %as, %offs
  %left, _ = icmp (i1<16, 16>, i1<16, 16>) %columns, 7 {{predicate = slt}}
  %x = load f16<16, 16> %pa{other}
  %xt = trans f16<16, 16> %x {{order = [1, 0]}}
  %whole = splat f16<16, 16> 2.0
  {lines}
  %r = expand_dims i32<16, 1> %row {{axis = {axis}}}
  %rs = broadcast i32<16, 16> %r
  %m2 = splat i32<16, 16> %m
  %in, _ = icmp (i1<16, 16>, i1<16, 16>) %rs, %m2 {{predicate = {relation}}}
  %p256 = mul i32 %p16, 16
  %far = splat i32<16, 16> %p256
  %ii = expand_dims i32<16, 1> %i {{axis = 1}}
  %i16 = mul i32<16, 1> %ii, 16
  %is = broadcast i32<16, 16> %i16
  %offr = add i32<16, 16> %far, %is
  %offc = add i32<16, 16> %offr, %columns
  %cs = splat f32*<16, 16> %c
  %pc = getelementptr f32*<16, 16> %cs, %offc
  store %pc, %d, %in
  ret
}}
"""

MADE = {
    "rows of A": ("%d = dot f32<16, 16> %x, %whole, 0.0", True),
    "columns of B": ("%d = dot f32<16, 16> %whole, %xt, 0.0", True),
    "rows of B": ("%d = dot f32<16, 16> %whole, %x, 0.0", False),
    "columns of A": ("%d = dot f32<16, 16> %xt, %whole, 0.0", False),
    "both operands": ("%d = dot f32<16, 16> %x, %x, 0.0", False),
    "A and its transpose": ("%d = dot f32<16, 16> %x, %xt, 0.0", True),
    "a sum over columns": (
        "%e = dot f32<16, 16> %x, %whole, 0.0\n"
        "  %s = reduce f32<16> %e {axis = 1, combiner = fadd}\n"
        "  %t = expand_dims f32<16, 1> %s {axis = 1}\n  %d = broadcast f32<16, 16> %t", True,
    ),
    "a sum over rows": (
        "%e = dot f32<16, 16> %x, %whole, 0.0\n"
        "  %s = reduce f32<16> %e {axis = 0, combiner = fadd}\n"
        "  %t = expand_dims f32<1, 16> %s {axis = 0}\n  %d = broadcast f32<16, 16> %t", False,
    ),
    "a dot with its transpose": (
        "%e = dot f32<16, 16> %x, %whole, 0.0\n  %d = trans f32<16, 16> %e {order = [1, 0]}", True,
    ),
}  # fmt: skip
"""What is made of rows that wrap around, and whether the other lanes stay apart."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_that_wrap_are_masked_where_no_other_lane_depends_on_them(
    name: str, axis: int
) -> None:
    """For every mask of the store and every default of the load: where remainders become masks,
    what is stored is the same."""
    result, independent = MADE[name]
    unwrapped = set[str]()
    for relation, other in product(("slt", "sle"), ("", ", %left, 0.0", ", %left, 3.0")):
        text = GRAM.format(lines=result, axis=axis, relation=relation, other=other)
        if axis == 0:
            text = text.replace("%r = expand_dims i32<16, 1>", "%r = expand_dims i32<1, 16>")
        module = parse(text)
        transformed = run(module, "modulo-to-mask").module
        if "srem" in print_module(transformed):
            continue
        unwrapped.add(relation)
        for m in (5, 23):
            a = np.random.default_rng(m).integers(-3, 4, 32 * 16).astype(np.float16)
            results = []
            for it in (module, transformed):
                c = np.zeros(512, np.float32)
                interpret(it, "f", (2,), [a, a, c, m])
                results.append(c)
            assert (results[0] == results[1]).all(), (relation, other, m)
    assert independent or not unwrapped


@pytest.mark.parametrize(
    ("old", "new", "unwrapped"),
    [
        ("", "", True),
        # Rounded down, a remainder is the index only where that is known not to be negative.
        ("srem i32<16> %row, %ms", "srem i32<16> %row, %ms {rounding = floor}", False),
        ("%row = add i32<16> %i, %from\n  %ms = splat i32<16> %m\n"
         "  %wrapped = srem i32<16> %row, %ms",
         "%row.0 = add i32<16> %i, %from\n  %row = and i32<16> %row.0, 127\n"
         "  %ms = splat i32<16> %m\n  %wrapped = srem i32<16> %row, %ms {rounding = floor}",
         False),
        # The bound is not the same for all rows.
        ("%ms = splat i32<16> %m\n", "%mm = splat i32<16> %m\n  %ms = add i32<16> %mm, %i\n",
         False),
        # Every second index.
        ("%row = add i32<16> %i, %from", "%i2 = mul i32<16> %i, 2\n  %row = add i32<16> %i2, %from",
         False),
        # Nor here, where stores ask the same.
        ("%ms = splat i32<16> %m\n", "%mm = splat i32<16> %m\n  %ms = add i32<16> %mm, %i\n",
         None),
        # What is stored goes beyond the bound.
        ("%m2 = splat i32<16, 16> %m", "%m3 = add i32 %m, 1\n  %m2 = splat i32<16, 16> %m3", False),
    ],
)  # fmt: skip
def test_which_remainders_are_masks(old: str, new: str, unwrapped: bool | None) -> None:
    text = WRAPPED.replace(old, new, 1) if old else WRAPPED
    if unwrapped is None:
        text = text.replace(
            "%m2 = splat i32<16, 16> %m",
            "%m1 = expand_dims i32<16, 1> %ms {axis = 1}\n  %m2 = broadcast i32<16, 16> %m1",
        )
    module = parse(text)
    transformed = run(module, "modulo-to-mask").module
    assert ("srem" not in print_module(transformed)) == bool(unwrapped)
    if unwrapped:
        for m in (16, 5, 23, 32):
            a = np.random.default_rng(m).integers(-3, 4, 32 * 16).astype(np.float16)
            results = []
            for it in (module, transformed):
                c = np.zeros((32, 16), np.float32)
                interpret(it, "f", (2,), [a, a, c, m])
                results.append(c)
            assert (results[0] == results[1]).all()
