"""Blocks under masks of many forms, and loads that other ops order: what descriptions replace."""

from __future__ import annotations

import random

import numpy as np

from tests.backend.warp_specialize.masked_blocks import kernel
from tests.sizes import for_each
from tileir import TileirError
from tileir.interp import interpret
from tileir.passmanager import run
from tileir.textual import parse, print_module

LOADED = "  %v = load f16<16, 16> %p, %in, 0.0\n"
TERMS = (
    "row < ms", "col < ns", "row >= 0", "col < ss", "row < ns", "col <= ns", "ms > row", "row > 0",
    "col >= 0", "row+ss < ms", "col u< ns", "row u< ms", "row <= ss", "0 < col",
)  # fmt: skip


@for_each("seed", range(120))
def test_blocks_under_any_conjunction_hold_what_the_pointers_do(seed: int) -> None:
    """Comparisons of both dimensions, some of one dimension several times or from below alone."""
    choose = random.Random(seed)
    terms = choose.sample(TERMS, choose.randint(1, 4))
    module = parse(kernel(*terms, shift=choose.choice((0, 0, -1))))
    described = run(module, "infer-descriptors").module
    for _ in range(3):
        numbers = [choose.randint(1, 36), choose.choice((1, 8, 15, 16, 24)), choose.randint(1, 20)]
        x = np.random.default_rng(seed).integers(1, 9, 40 * 24).astype(np.float16)
        results = []
        for each in (module, described):
            y = np.full((32, 16), np.nan, np.float32)
            try:
                interpret(each, "f", (2,), [x[24:].copy(), y, *numbers])
            except TileirError:
                y[:] = -1  # an access before the array, or a start that is negative
            results.append(y)
        if (results[0] != -1).all() and (results[1] != -1).all():
            np.testing.assert_array_equal(*results, err_msg=str((terms, numbers)))


ORDERING = (
    "fence {sem = acquire, scope = gpu}", "fence {sem = acq_rel, scope = cta}", "barrier",
    "_ = atomic_load i32 %flag {sem = acquire, scope = gpu}",
    "_ = atomic_load i32 %flag {sem = relaxed, scope = gpu}",
    "_ = load i32 %flag {volatile = true}",
    "store %flag, 1 {volatile = true}", "atomic_store %flag, 1 {sem = release, scope = gpu}",
    "_ = atomic_rmw i32 %flag, 1 {op = add}",
)  # fmt: skip
"""Ops after which other instances may have written what is loaded."""


@for_each("op", ORDERING)
def test_a_load_after_an_op_that_orders_it_keeps_its_pointers(op: str) -> None:
    """Unless nothing writes the memory: of what the kernel stores, nothing may be what it loads."""
    text = kernel("row < ms", "col < ns").replace("i32 %s)", "i32 %s, i32* noalias %flag)")
    text = text.replace("noalias %y", "%y")
    for place, promise, described in (
        (LOADED + f"  {op}\n", "", True),
        (f"  {op}\n" + LOADED, "", False),
        (f"  {op}\n" + LOADED, "noalias ", True),
    ):
        changed = text.replace(LOADED, place).replace("noalias %x", f"{promise}%x")
        outcome = run(parse(changed), "infer-descriptors")
        assert ("descriptor_load" in print_module(outcome.module)) is described, (place, promise)
        if not described:
            assert "an earlier op may write the memory it reads" in outcome.remarks[0].message


IN_LOOP = """  br loop
loop:
  %k = phi i32 [0, entry], [%next, more]
  {before}{loaded}  {after}
  br more
more:
  {later}
  %next = add i32 %k, 1
  %again, _ = icmp (i1, i1) %next, 2 {{predicate = slt}}
  cond_br %again, loop, done
done:
  {last}
"""
"""A load in a loop, and where else there may be an op."""


@for_each("op", ORDERING)
def test_a_load_in_a_loop_is_after_what_an_iteration_does(op: str) -> None:
    """Whether before the load, after it or in another block; what follows the loop is later."""
    text = kernel("row < ms", "col < ns").replace("i32 %s)", "i32 %s, i32* noalias %flag)")
    text = text.replace("noalias %y", "%y").replace("noalias %x", "%x")
    for place in ("nowhere", "before", "after", "later", "last"):
        ops = {name: op if name == place else "" for name in ("before", "after", "later", "last")}
        ops["before"] += "\n  "
        changed = text.replace(LOADED, IN_LOOP.format(loaded=LOADED.lstrip(), **ops))
        described = "descriptor_load" in str(run(parse(changed), "infer-descriptors").module)
        assert described is (place in ("nowhere", "last")), place


BASES = {
    "load f16* %table": False,
    "select f16* %first, %x, %x2": False,
    "select f16* %large, %x, %x2": True,
    "getelementptr f16* %x, %s": True,
}
"""Pointers to the first row, and whether the host can compute them."""


@for_each("pointer", BASES)
def test_a_map_has_a_base_that_the_host_computes(pointer: str) -> None:
    text = kernel("row < ms", "col < ns").replace("%x,", "%x, f16* noalias %x2,", 1)
    text = text.replace("i32 %s)", "i32 %s, f16** noalias %table)")
    lines = (
        "%first, _ = icmp (i1, i1) %pid, 1 {predicate = slt}",
        "%large, _ = icmp (i1, i1) %s, 8 {predicate = sgt}",
        f"%base = {pointer}", "%xs = splat f16*<16, 16> %base",
    )  # fmt: skip
    outcome = run(
        parse(text.replace("%xs = splat f16*<16, 16> %x", "\n  ".join(lines))), "infer-descriptors"
    )
    assert ("descriptor_load" in print_module(outcome.module)) is BASES[pointer]
    if not BASES[pointer]:
        assert "the host cannot compute its base pointer" in outcome.remarks[0].message


FAR = (0, 16, 2**28, 2**31 - 2**12, 2**31 - 16, 2**31, 2**32 - 16, 2**32, 2**32 + 16, 2**40)


@for_each("start", FAR)
def test_a_block_that_starts_beyond_32_bits_is_beyond_the_tensor(start: int) -> None:
    """Indices of 64 bits: a constant, and multiples of one by the instance's number."""
    text = kernel("row < ms", "col < ns").replace("i32", "i64")
    for name, kind, line in (
        ("pid", "", "program_id i64"), ("i", "<16>", "make_range i64<16>"),
        ("j", "<16>", "make_range i64<16>"),
    ):  # fmt: skip
        wide = f"%{name}.n = {line.replace('i64', 'i32')}\n  %{name} = sext i64{kind} %{name}.n"
        text = text.replace(f"%{name} = {line}", wide)
    line = "%row.1 = add i64<16, 1> %row.0, "
    product = f"%n.1 = mul i64 %pid, {start}\n  %b = splat i64<16, 1> %n.1"
    number = text.replace(f"{line}0", f"{product}\n  {line}%b")
    constant = text.replace(f"{line}0", f"{line}{start}")
    x = np.random.default_rng(1).integers(1, 9, (40, 24)).astype(np.float16)
    for module in map(parse, (number, constant)):
        described = run(module, "infer-descriptors").module
        assert "descriptor_load" in print_module(described)
        results = []
        for each in (module, described):
            y = np.full((32, 16), np.nan, np.float32)
            interpret(each, "f", (2,), [x, y, 40, 24, 1])
            results.append(y)
        np.testing.assert_array_equal(*results)


STORED = "  store %q, %d\n"
KEPT = {
    "volatile load": (LOADED, LOADED.replace("0.0", "0.0 {volatile = true}")),
    "load under a predicate": (LOADED, "  %some, _ = icmp (i1, i1) %s, 1 {predicate = sgt}\n"
                               + LOADED.replace("  %v", "  @%some %v")),
    "volatile store": (STORED, STORED.replace("%d", "%d {volatile = true}")),
    "store under a predicate": (STORED, "  %some, _ = icmp (i1, i1) %s, 1 {predicate = sgt}\n"
                                + STORED.replace("  store", "  @%some store")),
}  # fmt: skip
"""Accesses that no descriptor replaces, instead of those that it does."""


@for_each("name", KEPT)
def test_volatile_accesses_and_those_under_predicates_keep_their_pointers(name: str) -> None:
    plain, access = KEPT[name]
    text = kernel("row < ms", "col < ns")
    assert plain in text
    for changed, described in ((text, True), (text.replace(plain, access), False)):
        result = print_module(run(parse(changed), "infer-descriptors").module)
        word = "descriptor_load" if plain is LOADED else "descriptor_store"
        assert (word in result) is described


STARTS = [("sub i32 %s, 16", 16), ("sub i32 %s, %from", 0), ("add i32 %from, %s", 0)]
"""First rows of blocks, and the argument %s for which that of the first instance is 0."""


@for_each(("first", "origin"), STARTS)
def test_a_start_of_0_is_not_negative(first: str, origin: int) -> None:
    text = kernel("row < ms", "col < ns")
    text = text.replace("  %i = make_range", f"  %begin = {first}\n  %i = make_range")
    text = text.replace("splat i32<16, 1> %from", "splat i32<16, 1> %begin")
    module = run(parse(text), "infer-descriptors").module
    for number in (origin - 1, origin, origin + 1):
        x, y = np.zeros(40 * 24, np.float16), np.zeros((32, 16), np.float32)
        try:
            interpret(module, "f", (1,), [x, y, 5, 8, number])
        except TileirError as error:
            assert number < origin, (number, str(error))
        else:
            assert number >= origin, number


def test_vectors_are_stored_by_threads() -> None:
    """Of matrices the kernel's own store, and no other one."""
    text = kernel("row < ms", "col < ns")
    vector = """  %yv = splat f32*<16> %y
  %pv = getelementptr f32*<16> %yv, %i
  %ones = splat f32<16> 1.0
  store %pv, %ones
  ret"""
    names = [
        [op.mnemonic for op in run(parse(each), "infer-descriptors").module.functions["f"].ops]
        for each in (text, text.replace("  ret", vector))
    ]
    assert names[0].count("descriptor_store") == names[1].count("descriptor_store") > 0
    assert names[1].count("store") == names[0].count("store") + 1
