"""Ranges, loops, affine forms, effects and liveness of given programs."""

from __future__ import annotations

import gc

import pytest

from tests.analysis.kernels import GRID, HEADER, LOOP, kernel, value_named
from tests.sizes import for_each
from tileir import textual
from tileir.analysis import memoize
from tileir.analysis.affine import affine
from tileir.analysis.argument_effects import PointerAccess, effects
from tileir.analysis.induction import induction_variables, trip_count
from tileir.analysis.liveness import liveness
from tileir.analysis.loops import Loop, loops
from tileir.analysis.polynomial import Iteration, Lane, ProgramIndex, number, symbol
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import defining_blocks, uses
from tileir.ir import Function

# Memoization -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fact", [None, 0, "a fact"])
def test_a_fact_is_computed_once(fact: object) -> None:
    computed_for: list[Function] = []

    @memoize
    def analysis(function: Function) -> object:
        computed_for.append(function)
        return fact

    functions = [kernel("  %v = add i32 %pid, 1\n") for _ in range(2)]
    for function in functions * 2:
        assert analysis(function) == fact
    assert computed_for == functions


def test_facts_end_with_their_function() -> None:
    """A function may have the identity of one that no longer exists, and has facts of its own."""
    computed: list[str] = []

    @memoize
    def analysis(function: Function) -> object:
        computed.append(function.name)
        return None

    for _ in range(5):
        analysis(kernel("  %v = add i32 %pid, 1\n"))
        gc.collect()
    assert len(computed) == 5


# Ranges ------------------------------------------------------------------------------------------

MIN, MAX = -(1 << 31), (1 << 31) - 1


@for_each(
    ("body", "expected"),
    [
        ("  %v = add i32 %pid, 1", (1, MAX)),
        ("  %v = add i32 %pid, 2", (MIN, MAX)),
        ("  %v = add i32 %pid, 2 {overflow = nsw}", (2, MAX)),
        ("  %v = srem i32 %m, 8", (-7, 7)),
        ("  %v = srem i32 %m, 8 {rounding = floor}", (0, 7)),
        ("  %v = srem i32 %pid, 8", (0, 7)),
        ("  %v = urem i32 %m, 8", (0, 7)),
        ("  %v = sdiv i32 %m, 4", (-(1 << 29), (1 << 29) - 1)),
        ("  %v = sdiv i32 %m, 3 {rounding = floor}", (-715827883, 715827882)),
        ("  %v = udiv i32 %m, 4", (0, (1 << 30) - 1)),
        ("  %v = and i32 %m, 255", (0, 255)),
        ("  %v = smin i32 %pid, 7", (0, 7)),
        ("  %v = smax i32 %m, 7", (7, MAX)),
        ("  %a = and i32 %m, 7\n  %v = shl i32 %a, 4", (0, 112)),
        ("  %a = and i32 %m, 7\n  %v = mul i32 %a, -3", (-21, 0)),
        ("  %a = trunc i8 %m\n  %v = zext i32 %a", (0, 255)),
        ("  %a = trunc i8 %m\n  %v = sext i32 %a", (-128, 127)),
        ("  %a = and i32 %m, 63\n  %b = sub i32 %a, 128\n  %v = trunc i8 %b", (-128, -65)),
        ("  %v = zext i32 %c", (0, 1)),
        ("  %v = sext i32 %c", (-1, 0)),
        ("  %v = lshr i32 %m, 24", (0, 255)),
        ("  %v = ashr i32 %m, 24", (-128, 127)),
        ("  %v = iabs i32 %m", (MIN, MAX)),
        ("  %v = neg i32 %pid", (-(MAX - 1), 0)),
        ("  %v = select i32 %c, %pid, -1", (-1, MAX - 1)),
        ("  %v = reduce i32 %r {axis = 0, combiner = add}", (0, 64 * 63)),
        ("  %v = reduce i32 %r {axis = 0, combiner = smax}", (0, 63)),
        *(
            (f"  %b = and i32<64> %r, {most}\n  %v = reduce i32 %b {{combiner = {word}}}", expected)
            for word in ("mul", "and", "or")
            for most, expected in ((1, (0, 1)), (3, (MIN, MAX)))
        ),
        ("  %v = ctpop i32 %m", (0, 32)),
    ],
)
def test_ranges(body: str, expected: tuple[int, int]) -> None:
    function = kernel(body + "\n")
    assert ranges(function).of(value_named(function, "v")) == expected


def test_conditions_narrow_what_they_compare() -> None:
    function = kernel(
        "  %a, _ = icmp (i1, i1) %m, 10 {predicate = slt}\n"
        "  %b, _ = icmp (i1, i1) %m, 0 {predicate = sge}\n"
        "  %d = and i1 %a, %b\n  cond_br %d, yes, no\n"
        "yes:\n  %u = mul i32 %m, 3\n  ret\nno:\n  %w = mul i32 %m, 3\n",
    )
    facts = ranges(function)
    assert facts.of(value_named(function, "u")) == (0, 27)
    assert facts.of(value_named(function, "w")) == (MIN, MAX)
    assert facts.at(value_named(function, "m"), "yes") == (0, 9)
    assert facts.of(value_named(function, "m")) == (MIN, MAX)


def test_negated_and_joined_conditions_narrow_too() -> None:
    function = kernel(
        "  %a, _ = icmp (i1, i1) %m, 10 {predicate = sge}\n  %not = xor i1 %a, true\n"
        "  %b, _ = icmp (i1, i1) 0, %m {predicate = sgt}\n  %or = or i1 %b, %a\n"
        "  cond_br %not, small, large\nsmall:\n  br next\nlarge:\n  br next\n"
        "next:\n  cond_br %or, out, in\nin:\n  ret\nout:\n",
    )
    facts, m = ranges(function), value_named(function, "m")
    assert (facts.at(m, "small"), facts.at(m, "large")) == ((MIN, 9), (10, MAX))
    assert (facts.at(m, "in"), facts.at(m, "out")) == ((0, 9), (MIN, MAX))


def test_an_equality_narrows_and_an_edge_narrows_its_arguments() -> None:
    function = kernel(
        "  %a, _ = icmp (i1, i1) %m, 7 {predicate = eq}\n  cond_br %a, join, other\n"
        "other:\n  br join\njoin:\n  %v = phi i32 [%m, entry], [3, other]\n"
    )
    assert ranges(function).of(value_named(function, "v")) == (3, 7)


def test_an_assumption_narrows_what_it_compares() -> None:
    function = kernel(
        "  %a, _ = icmp (i1, i1) %m, 1024 {predicate = ult}\n  assume %a\n  %v = mul i32 %m, 4\n"
    )
    assert ranges(function).of(value_named(function, "v")) == (0, 4 * 1023)


def test_counters_stay_below_the_bound_of_their_loop() -> None:
    function = kernel(LOOP.format(step=8, next="%s"))
    facts = ranges(function)
    assert facts.of(value_named(function, "i")) == (0, 99)
    assert facts.of(value_named(function, "j")) == (8, 107)


def test_counters_stay_below_a_bound_that_is_known_to_be_small() -> None:
    function = kernel(
        "  %b = and i32 %m, 255\n  br head\nhead:\n  %i = phi i32 [0, entry], [%j, head]\n"
        "  %j = add i32 %i, 1 {overflow = nsw}\n"
        "  %t, _ = icmp (i1, i1) %j, %b {predicate = slt}\n  cond_br %t, head, out\nout:\n"
    )
    facts = ranges(function)
    assert facts.of(value_named(function, "i")) == (0, 254)
    assert facts.of(value_named(function, "j")) == (1, 255)


# Loops -------------------------------------------------------------------------------------------


def simulate(start: int, step: int, relation: str, bound: int, *, first: bool, ahead: bool) -> int:
    """How often the latch runs, by running the loop; -1 where it does not end soon."""
    holds = {
        "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b,
        "sge": lambda a, b: a >= b, "ne": lambda a, b: a != b,
        "ult": lambda a, b: a % 256 < b % 256,
    }[relation]  # fmt: skip
    i, count = start, 0
    while count < 600:
        if first and not holds(i, bound):
            return count
        count, following = count + 1, (i + step + 128) % 256 - 128
        if not first and not holds(following if ahead else i, bound):
            return count
        i = following
    return -1


HEADED = """  br head
head:
  %i = phi i8 [{start}, entry], [%j, body]
  %t, _ = icmp (i1, i1) %i, {bound} {{predicate = {relation}}}
  cond_br %t, body, out
body:
  %j = add i8 %i, {step}
  br head
out:
"""
LATCHED = """  br head
head:
  %i = phi i8 [{start}, entry], [%j, head]
  %j = add i8 %i, {step}
  %t, _ = icmp (i1, i1) {tested}, {bound} {{predicate = {relation}}}
  cond_br %t, head, out
out:
"""


def the_loop(function: Function) -> Loop:
    (loop,) = loops(function).by_header.values()
    return loop


@pytest.mark.sampled(3)
@pytest.mark.parametrize("relation", ["slt", "sle", "sgt", "sge", "ne", "ult"])
@pytest.mark.parametrize("step", [1, 3, -2, 50, 0])
def test_trip_counts_are_what_running_gives(relation: str, step: int) -> None:
    counted = 0
    for start in (0, 1, -5, 120):
        for bound in (0, 7, 10, -9, 127):
            numbers = {"start": start, "step": step, "relation": relation, "bound": bound}
            for text, tested in ((HEADED, ""), (LATCHED, "%i"), (LATCHED, "%j")):
                function = kernel(text.format(**numbers, tested=tested))
                count = trip_count(function, the_loop(function))
                assert count is not None
                expected = simulate(**numbers, first=not tested, ahead=tested == "%j")
                assert count.count in (None, expected), (numbers, tested)
                counted += count.count is not None
    assert counted > 10 or step not in (1, 3)


def test_induction_variables_and_symbolic_trip_counts() -> None:
    function = kernel(
        "  br head\nhead:\n  %i = phi i32 [%m, entry], [%j, body]\n"
        "  %p = phi f32* [%x, entry], [%q, body]\n  %a = phi i32 [0, entry], [%i, body]\n"
        "  %t, _ = icmp (i1, i1) %n, %i {predicate = slt}\n  cond_br %t, body, out\n"
        "body:\n  %j = sub i32 %i, %n\n  %q = getelementptr f32* %p, %n\n  br head\nout:\n"
    )
    loop = the_loop(function)
    first, second = induction_variables(function, loop)
    assert (first.value.name, first.start, first.step, first.falling) == (
        "i", value_named(function, "m"), value_named(function, "n"), True,
    )  # fmt: skip
    assert second.update.mnemonic == "getelementptr" and second.stride is None
    count = trip_count(function, loop)
    assert count is not None and (count.of.value, count.relation) == (first.value, "sgt")
    assert (count.bound, count.count) == (value_named(function, "n"), None)
    assert count.tested_first and not count.ahead


def test_a_loop_with_two_exits_has_no_trip_count() -> None:
    function = kernel(
        "  br head\nhead:\n  %i = phi i32 [0, entry], [%j, body]\n"
        "  %t, _ = icmp (i1, i1) %i, 9 {predicate = slt}\n  cond_br %t, body, out\n"
        "body:\n  %j = add i32 %i, 1\n  cond_br %c, head, out\nout:\n"
    )
    assert trip_count(function, the_loop(function)) is None


# Affine forms ------------------------------------------------------------------------------------


def test_addresses_and_masks_of_a_matrix() -> None:
    function = kernel(
        GRID + "  %row0 = mul i32 %pid, 4\n  %row0s = splat i32<4> %row0\n"
        "  %row = add i32<4> %row0s, %rows\n  %row1 = expand_dims i32<4, 1> %row {axis = 1}\n"
        "  %ms = splat i32<4, 1> %m\n  %start = mul i32<4, 1> %row1, %ms\n"
        "  %at = broadcast i32<4, 16> %start\n  %off = add i32<4, 16> %at, %cb\n"
        "  %px = splat f32*<4, 16> %x\n  %v = getelementptr f32*<4, 16> %px, %off\n"
        "  %ns = splat i32<4, 1> %n\n"
        "  %in1, _ = icmp (i1<4, 1>, i1<4, 1>) %row1, %ns {predicate = slt}\n"
        "  %inr = broadcast i1<4, 16> %in1\n"
        "  %in2, _ = icmp (i1<1, 16>, i1<1, 16>) %c1, 10 {predicate = slt}\n"
        "  %inc = broadcast i1<4, 16> %in2\n  %mask = and i1<4, 16> %inr, %inc\n"
    )
    forms = affine(function)
    m, n = symbol(value_named(function, "m")), symbol(value_named(function, "n"))
    pid, row, column = symbol(ProgramIndex(0)), symbol(Lane(0)), symbol(Lane(1))
    form = forms.of(value_named(function, "v"))
    assert form is not None and form.base is value_named(function, "x")
    assert form.offset == pid * m * number(4) + row * m + column
    assert form.stride(0) == m and form.stride(1) == number(1)
    bounds = forms.bounds(value_named(function, "mask"))
    assert bounds is not None and [b.relation for b in bounds] == ["slt", "slt"]
    assert [b.left.offset for b in bounds] == [pid * number(4) + row, column]
    assert [b.right.offset for b in bounds] == [n, number(10)]


def test_movements_of_tiles_move_lanes() -> None:
    function = kernel(
        GRID
        + "  %t = trans i32<16, 4> %o {order = [1, 0]}\n"
        "  %e = expand_dims i32<16, 1, 4> %t {axis = 1}\n"
        "  %u = trans i32<4, 16, 1> %e {order = [2, 0, 1]}\n"
        "  %in, _ = icmp (i1<16, 4>, i1<16, 4>) %t, %m4 {predicate = slt}\n".replace("%m4", "40")
    )
    forms = affine(function)
    for name, (row, column) in {"o": (0, 1), "t": (1, 0), "e": (2, 0), "u": (0, 1)}.items():
        form = forms.of(value_named(function, name))
        assert form is not None, name
        assert form.offset == symbol(Lane(row)) * number(32) + symbol(Lane(column)), name
    (bound,) = forms.bounds(value_named(function, "in")) or ()
    assert bound.left.offset == symbol(Lane(1)) * number(32) + symbol(Lane(0))


def test_pointers_that_move_with_a_loop() -> None:
    function = kernel(LOOP.format(step=8, next="%s"))
    form = affine(function).of(value_named(function, "p"))
    assert form is not None and form.base is value_named(function, "x")
    assert form.offset == symbol(Iteration("head")) * number(8)
    assert not form.assuming


def test_casts_that_change_numbers_are_not_affine_or_say_so() -> None:
    function = kernel(
        "  %s = splat i32<64> %m\n  %o = add i32<64> %s, %r\n  %z = zext i64<64> %o\n"
        "  %t = trunc i16<64> %o\n  %u = zext i64<64> %r\n  %w = trunc i8<64> %r\n"
    )
    forms = affine(function)
    by_name = {name: forms.of(value_named(function, name)) for name in "oztuw"}
    assert by_name["z"] is None
    assumed = {n: {op.mnemonic for op in f.assuming} for n, f in by_name.items() if f is not None}
    assert assumed == {"o": {"add"}, "t": {"add", "trunc"}, "u": set(), "w": set()}


def test_what_is_not_affine() -> None:
    function = kernel(
        "  %a = mul i32<64> %r, %r\n  %v = xor i32<64> %r, 1\n  %q = sdiv i32 %m, 3\n"
    )
    forms = affine(function)
    square = forms.of(value_named(function, "a"))
    assert square is not None and square.stride(0) is None
    assert forms.of(value_named(function, "v")) is None
    quotient = value_named(function, "q")
    assert forms.of(quotient) is not None and forms.of(quotient).offset == symbol(quotient)  # type: ignore[union-attr]


# Effects, uses, liveness -------------------------------------------------------------


@for_each(("body", "x", "y", "elsewhere"), [
        ("  %a = load f32 %x\n  store %y, %a", "r", "w", ""),
        ("  %q = getelementptr f32* %x, i32 4\n  %a = load f32 %q", "r", "", ""),
        ("  %q = select f32* %c, %x, %y\n  store %q, 1.0", "w", "w", ""),
        ("  %a = atomic_rmw f32 %x, 1.0 {op = fadd}", "rwas", "", ""),
        ("  br b\nb:\n  %q = phi f32* [%x, entry], [%s, b]\n"
         "  %s = getelementptr f32* %q, i32 1\n  %a = load f32 %s\n  cond_br %c, b, e\ne:",
         "r", "", ""),
        ("  cond_br %c, b, e\nb:\n  br e\n"
         "e:\n  %q = phi f32* [%x, entry], [null, b]\n  %a = load f32 %q", "r", "", "r"),
        ("  %a = ptrtoint i64 %x\n  %q = inttoptr f32* %a\n  store %q, 1.0", "e", "", "w"),
        ("  %q = inttoptr f32* %l\n  %p = select f32* %c, %x, %q\n  %a = load f32 %p",
         "r", "", "r"),
        ("  %p = select f32* %c, %x, null\n  %a = load f32 %p", "r", "", "r"),
        ("  %p = select f32* %c, null, %y\n  store %p, 1.0", "", "w", "w"),
        ("  %a, _ = icmp (i1, i1) %x, %y {predicate = eq}", "", "", ""),
        ("  %d = make_descriptor tensor_desc<f32<4>> %x, [%n, i32 1]\n"
         "  %a = descriptor_load f32<4> %d, 0", "r", "", ""),
        ("  %d = make_descriptor tensor_desc<f32<4>> %y, [%n, i32 1]\n  %t = splat f32<4> 1.0\n"
         "  descriptor_store %d, %t, 0", "", "w", ""),
        ("  %p = bitcast f32** %x\n  %q = load f32* %p\n  store %q, 1.0", "r", "", "w"),
        ("  %p = bitcast f32** %x\n  store %p, %y", "w", "rwaes", ""),
        ("  print %x {prefix = \"x\"}", "rwaes", "", ""),
        ("  %a = load f32 %x {volatile = true}\n  store %y, %a", "rs", "w", ""),
    ])  # fmt: skip
def test_effects_per_argument(body: str, x: str, y: str, elsewhere: str) -> None:
    function = kernel(body + "\n")
    facts = effects(function)
    for access, expected in (
        (facts.of(value_named(function, "x")), x), (facts.of(value_named(function, "y")), y),
        (facts.elsewhere, elsewhere),
    ):  # fmt: skip
        assert access == PointerAccess(*(letter in expected for letter in "rwaes"))


def test_a_call_may_do_anything_with_a_pointer() -> None:
    text = HEADER.replace("define", "declare void @g(f32* %p)\n\ndefine", 1)
    function = textual.parse(text + "  call @g, %x\n  ret\n}\n").kernel()
    assert effects(function).of(value_named(function, "x")) == PointerAccess(
        True, True, True, True, True
    )
    assert effects(function).of(value_named(function, "y")) == PointerAccess()


def test_uses_and_defining_blocks() -> None:
    function = kernel(
        "  %a = add i32 %m, %m\n  br b\nb:\n  %p = phi i32 [%a, entry]\n  @%c %q = add i32 %p, 1\n"
    )
    readers = {v.name: [op.mnemonic for op in ops] for v, ops in uses(function).items()}
    assert readers == {"m": ["add", "add"], "a": ["br"], "p": ["add"], "c": ["add"]}
    blocks = defining_blocks(function)
    assert (blocks[value_named(function, "m")], blocks[value_named(function, "p")]) == (
        "entry",
        "b",
    )


def test_liveness_follows_edges_and_loops() -> None:
    function = kernel(
        "  %k = add i32 %m, 1\n  br head\nhead:\n  %i = phi i32 [0, entry], [%j, head]\n"
        "  %j = add i32 %i, %k\n  %t, _ = icmp (i1, i1) %j, %n {predicate = slt}\n"
        "  cond_br %t, head, out\nout:\n  %z = add i32 %i, 1\n"
    )
    facts = liveness(function)
    names = {label: {v.name for v in alive} for label, alive in facts.entering.items()}
    assert names == {"entry": {"m", "n"}, "head": {"k", "n"}, "out": {"i"}}
    assert {v.name for v in facts.leaving["head"]} == {"k", "n", "i"}
    dying = facts.last_uses(function.blocks["head"])
    assert [[v.name for v in d] for d in dying] == [[], [], ["t", "j"]]
