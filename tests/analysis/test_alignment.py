"""Alignment of given programs: as strong as it should be, and not stronger."""

from __future__ import annotations

from typing import Any

from tests.analysis.kernels import GRID, LOOP, kernel, value_named
from tests.sizes import for_each
from tileir.analysis.alignment import Alignment, alignment
from tileir.analysis.ranges import ranges
from tileir.ir import Block, Function, Parameter
from tileir.layout_tilings import blocked_layout
from tileir.ops.control import Return
from tileir.ops.gpu import ConvertLayout
from tileir.ops.shape import MakeRange, Splat
from tileir.types import I32, Tile
from tileir.values import Value


def alignment_of(body: str, name: str = "v") -> Alignment:
    function = kernel(body)
    return alignment(function).of(value_named(function, name))


# The index of a block: splat(pid * B) + range.
OFFSETS = "  %b = mul i32 %pid, 64\n  %s = splat i32<64> %b\n  %o = add i32<64> %s, %r\n"
ODD = "  %s = splat i32<64> %m\n  %o = add i32<64> %s, %r\n"
SAFE = "  %s = splat i32<64> %m\n  %o = add i32<64> %s, %r {overflow = nsw}\n"

FIRST = "  %e = getelementptr f32* %x, {}\n  %p = splat f32*<64> %e\n"
HINT = ODD + "  %h = multiple_of i32<64> %o {values = [16]}\n"
BYTES = "  %e = bitcast i8* %y\n  %b = splat i8*<64> %e\n"
FEW = OFFSETS + "  %d, _ = icmp (i1<64>, i1<64>) %r, 24 {predicate = slt}\n"


def comparison_with_splat(word: str, lhs: str, rhs: str, bound: str, before: str = OFFSETS) -> str:
    """`%v`: the offsets `%o` against `%t`, a splat of `bound`."""
    text = f"  %t = splat i32<64> {bound}\n  %v, _ = icmp (i1<64>, i1<64>) {lhs}, {rhs} "
    return before + text + f"{{predicate = {word}}}"


ALIGNMENTS: list[tuple[str, tuple[int, int, int]]] = [
    # multiple, contiguity, constancy of %v
    (OFFSETS + "  %v = add i32<64> %o, 0", (64, 64, 1)),
    (OFFSETS + "  %v = add i32<64> %o, 8", (8, 8, 1)),
    (OFFSETS + "  %v = add i32<64> %o, 8 {overflow = nsw}", (8, 64, 1)),
    (OFFSETS + "  %v = add i32<64> %o, 1", (1, 1, 1)),
    (OFFSETS + "  %v = add i32<64> %o, 1 {overflow = nsw}", (1, 64, 1)),
    (OFFSETS + "  %v = add i32<64> %o, 1 {overflow = nuw}", (1, 1, 1)),
    (OFFSETS + "  %v = sub i32<64> %o, 16", (16, 16, 1)),
    (OFFSETS + "  %v = sub i32<64> 128, %o", (1, 1, 1)),
    (ODD + "  %v = add i32<64> %o, 0", (1, 1, 1)),
    (SAFE + "  %v = add i32<64> %o, 0 {overflow = nsw}", (1, 64, 1)),
    ("  %v = add i32<64> %r, 3", (1, 64, 1)),
    ("  %v = mul i32<64> %r, 4", (4, 1, 1)),
    ("  %v = mul i32<64> %r, 1", (1 << 63, 64, 1)),
    ("  %v = mul i32<64> %r, 12", (4, 1, 1)),
    ("  %v = shl i32<64> %r, 3", (8, 1, 1)),
    ("  %s = splat i32<64> %m\n  %v = shl i32<64> %r, %s", (1, 1, 1)),
    ("  %s = splat i32<64> %n\n  %v = mul i32<64> %s, %s", (16, 1, 64)),
    ("  %s = splat i32<64> %n\n  %v = neg i32<64> %s", (4, 1, 64)),
    ("  %v = and i32<64> %r, -8", (8, 1, 1)),
    ("  %s = splat i32<64> %n\n  %v = or i32<64> %s, 8", (4, 1, 64)),
    # division: groups that start at a multiple of their size, floored
    ("  %v = udiv i32<64> %r, 8", (1, 1, 8)),
    ("  %v = sdiv i32<64> %r, 8", (1, 1, 8)),
    ("  %v = sdiv i32<64> %r, 12", (1, 1, 4)),
    ("  %v = sdiv i32<64> %r, -8 {rounding = floor}", (1, 1, 1)),
    ("  %v = udiv i32<64> %r, 8 {rounding = ceil}", (1, 1, 1)),
    (OFFSETS + "  %v = sdiv i32<64> %o, 8", (1, 1, 1)),
    (OFFSETS + "  %v = sdiv i32<64> %o, 8 {rounding = floor}", (1, 1, 8)),
    (SAFE + "  %v = udiv i32<64> %o, 8", (1, 1, 1)),
    ("  %q = mul i32<64> %r, 16\n  %v = udiv i32<64> %q, 4", (4, 1, 1)),
    ("  %s = splat i32<64> %n\n  %v = udiv i32<64> %s, 4", (1, 1, 64)),
    ("  %s = splat i32<64> %n\n  %v = udiv i32<64> %r, %s", (1, 1, 4)),
    ("  %q = shl i32<64> %r, 31\n  %v = sdiv i32<64> %q, 1073741824", (2, 1, 1)),
    ("  %q = shl i32<64> %r, 31\n  %v = udiv i32<64> %q, -2147483648", (1, 1, 1)),
    ("  %s = splat i32<64> %n\n  %v = lshr i32<64> %s, 1", (1, 1, 64)),
    ("  %s = splat i32<64> %n\n  %t = splat i32<64> %m\n  %v = ashr i32<64> %s, %t", (1, 1, 64)),
    ("  %v = urem i32<64> %r, 8", (8, 8, 1)),
    ("  %v = srem i32<64> %r, 8", (8, 8, 1)),
    ("  %v = srem i32<64> %r, -8", (8, 8, 1)),
    ("  %v = srem i32<64> %r, -8 {rounding = floor}", (1, 1, 1)),
    ("  %v = sdiv i32<64> %r, -8", (1, 1, 8)),
    ("  %d = and i32 %m, 48\n  %s = splat i32<64> %d\n  %v = sdiv i32<64> %r, %s", (1, 1, 16)),
    ("  %d = mul i32 %m, 16\n  %s = splat i32<64> %d\n  %v = srem i32<64> %r, %s", (16, 16, 1)),
    (
        "  %d = and i32 %m, 48\n  %p = add i32 %d, 16\n  %s = splat i32<64> %p\n"
        "  %v = sdiv i32<64> %r, %s",
        (1, 1, 16),
    ),
    (OFFSETS + "  %v = srem i32<64> %o, 8", (1, 1, 1)),
    (OFFSETS + "  %v = srem i32<64> %o, 8 {rounding = floor}", (8, 8, 1)),
    (OFFSETS + "  %v = urem i32<64> %o, 24", (8, 8, 1)),
    ("  %s = splat i32<64> %m\n  %v = urem i32<64> %r, %s", (1, 1, 1)),
    # masks
    (comparison_with_splat("slt", "%o", "%t", "%n"), (1, 1, 4)),
    (comparison_with_splat("sge", "%o", "%t", "%n"), (1, 1, 4)),
    (comparison_with_splat("sgt", "%t", "%o", "%n"), (1, 1, 4)),
    (comparison_with_splat("sle", "%t", "%o", "%n"), (1, 1, 4)),
    (comparison_with_splat("ult", "%o", "%t", "%n"), (1, 1, 4)),
    (comparison_with_splat("sle", "%o", "%t", "%n"), (1, 1, 1)),
    (comparison_with_splat("sgt", "%o", "%t", "%n"), (1, 1, 1)),
    (comparison_with_splat("slt", "%t", "%o", "%n"), (1, 1, 1)),
    (comparison_with_splat("eq", "%o", "%t", "%n"), (1, 1, 1)),
    (comparison_with_splat("ne", "%o", "%t", "%n"), (1, 1, 1)),
    (comparison_with_splat("slt", "%o", "%t", "%m"), (1, 1, 1)),
    (comparison_with_splat("slt", "%o", "%t", "%n", SAFE), (1, 1, 1)),
    (OFFSETS + "  %v, _ = icmp (i1<64>, i1<64>) %o, 1000 {predicate = slt}", (1, 1, 8)),
    # pointers, in bytes
    (OFFSETS + "  %p = splat f32*<64> %x\n  %v = getelementptr f32*<64> %p, %o", (16, 64, 1)),
    (OFFSETS + "  %p = splat f32*<64> %y\n  %v = getelementptr f32*<64> %p, %o", (1, 64, 1)),
    (ODD + "  %p = splat f32*<64> %x\n  %v = getelementptr f32*<64> %p, %o", (4, 1, 1)),
    (SAFE + "  %p = splat f32*<64> %x\n  %v = getelementptr f32*<64> %p, %o", (4, 64, 1)),
    (FIRST.format("%n") + "  %v = getelementptr f32*<64> %p, %r", (16, 64, 1)),
    (FIRST.format("%m") + "  %v = getelementptr f32*<64> %p, %r", (4, 64, 1)),
    (
        FIRST.format("%n") + "  %q = getelementptr f32*<64> %p, %r\n  %v = ptrtoint i64<64> %q",
        (4, 1, 1),
    ),
    # loads of equal addresses, casts, choices
    ("  %v = splat i32<64> %n", (4, 1, 64)),
    ("  %i = inttoptr i32* %l\n  %p = splat i32*<64> %i\n  %v = load i32<64> %p", (1, 1, 64)),
    (OFFSETS + "  %v = sext i64<64> %o", (64, 64, 1)),
    (SAFE + "  %v = sext i64<64> %o", (1, 64, 1)),
    (SAFE + "  %v = zext i64<64> %o", (1, 1, 1)),
    ("  %v = zext i64<64> %r", (1 << 63, 64, 1)),
    ("  %v = trunc i8<64> %r", (1 << 63, 64, 1)),
    (SAFE + "  %v = trunc i16<64> %o", (1, 1, 1)),
    (OFFSETS + "  %v = trunc i16<64> %o", (64, 64, 1)),
    ("  %q = add i32<64> %r, 3\n  %v = trunc i16<64> %q", (1, 64, 1)),
    ("  %q = add i32<64> %r, -70\n  %v = trunc i8<64> %q", (2, 64, 1)),
    ("  %q = add i32<64> %r, 67\n  %v = trunc i8<64> %q", (1, 1, 1)),
    ("  %q = add i32<64> %r, -131\n  %v = trunc i8<64> %q", (1, 1, 1)),
    ("  %v = bitcast i32<64> %r", (1 << 63, 64, 1)),
    ("  %f = sitofp f32<64> %r\n  %v = bitcast i32<64> %f", (1, 1, 1)),
    ("  %d = splat i1<64> %c\n  %v = select i32<64> %d, %r, 0", (1, 1, 1)),
    (OFFSETS + "  %d = splat i1<64> %c\n  %v = select i32<64> %d, %r, %o", (64, 64, 1)),
    (FEW + "  %v = select i32<64> %d, %r, %o", (8, 8, 1)),
    (OFFSETS + "  %v = psi i32<64> [i1 true, %r], [%c, %o]", (64, 64, 1)),
    (OFFSETS + "  %v = psi i32<64> [i1 true, %r], [%c, %o], [%c, 24]", (1, 1, 1)),
    (
        OFFSETS + "  %w = add i32<64> %o, 8\n"
        "  %v = psi i32<64> [i1 true, %r], [%c, %o], [%c, %w], [%c, %r]",
        (8, 8, 1),
    ),
    # addresses of bytes are numbers, which neighbours may be far apart in
    (BYTES + "  %v = getelementptr i8*<64> %b, %r", (1, 64, 1)),
    (BYTES + "  %q = getelementptr i8*<64> %b, %r\n  %v = ptrtoint i64<64> %q", (1, 1, 1)),
    # hints
    (SAFE + "  %v = multiple_of i32<64> %o {values = [16]}", (16, 64, 1)),
    (ODD + "  %v = multiple_of i32<64> %o {values = [16]}", (1, 1, 1)),
    (HINT + "  %v = contiguous i32<64> %h {values = [16]}", (16, 16, 1)),
    (HINT + "  %v = contiguous i32<64> %h {values = [64]}", (16, 64, 1)),
    (ODD + "  %v = contiguous i32<64> %o {values = [8]}", (1, 8, 1)),
    (ODD + "  %v = constant_run i32<64> %o {values = [8]}", (1, 1, 8)),
    (HINT + "  %g = contiguous i32<64> %h {values = [4]}\n  %v = add i32<64> %g, 0", (4, 4, 1)),
    (
        ODD + "  %h = contiguous i32<64> %o {values = [16]}\n"
        "  %v = multiple_of i32<64> %h {values = [64]}",
        (16, 16, 1),
    ),
    ("  %v = contiguous i32<64> %r {values = [8]}", (1 << 63, 64, 1)),
    (
        ODD + FIRST.format("%m") + "  %q = getelementptr f32*<64> %p, %o\n"
        "  %h = contiguous f32*<64> %q {values = [16]}\n"
        "  %v = multiple_of f32*<64> %h {values = [256]}",
        (64, 16, 1),
    ),
    (
        ODD + FIRST.format("%m") + "  %q = getelementptr f32*<64> %p, %o\n"
        "  %h = multiple_of f32*<64> %q {values = [256]}\n"
        "  %v = contiguous f32*<64> %h {values = [16]}",
        (64, 16, 1),
    ),
    # shapes
    ("  %v = cat i32<128> %r, %r {axis = 0}", (1 << 63, 64, 1)),
    (
        "  %w = make_range i32<12> {start = 5}\n  %q = and i32<12> %w, 9\n"
        "  %h = constant_run i32<12> %q {values = [8]}\n  %v = cat i32<24> %h, %h {axis = 0}",
        (1, 1, 4),
    ),
    ("  %s = splat i32<64> %n\n  %v = insert_slice i32<64> %s, %r, 0", (1, 1, 1)),
    ("  %s = splat i32<64> %n\n  %q = mul i32<8> 8, 3\n"
     "  %v = insert_slice i32<64> %s, %q, 0", (4, 1, 1)),
    ("  %v = gather i32<64> %r, %r {axis = 0}", (1, 1, 1)),
    ("  %s = splat i32<64> %n\n  %v = gather i32<64> %s, %r {axis = 0}", (4, 1, 1)),
    ("  %s = splat i32<64> %n\n  %v = gather i32<64> %r, %s {axis = 0}", (1, 1, 64)),
    ("  %v = extract_slice i32<16> %r, 16", (16, 16, 1)),
    ("  %v = extract_slice i32<16> %r, 4", (4, 4, 1)),
    ("  %v = extract_slice i32<16> %r, 0 {strides = [2]}", (1, 1, 1)),
    ("  %w = make_range i32<32> {start = 0}\n  %v = cat i32<96> %r, %w {axis = 0}", (32, 32, 1)),
    ("  %w = make_range i32<24> {start = 64}\n  %v = cat i32<88> %r, %w {axis = 0}", (8, 8, 1)),
    ("  %t = splat i32<64> %n\n  %w = add i32<64> %t, %r\n  %v = add i32<64> %w, %r", (1, 1, 1)),
]  # fmt: skip


@for_each(("body", "expected"), ALIGNMENTS)
def test_alignment_of_rows(body: str, expected: tuple[int, int, int]) -> None:
    alignment = alignment_of(body + "\n")
    assert (alignment.multiple[0], alignment.contiguity[0], alignment.constancy[0]) == expected


@for_each(
    ("body", "multiple", "contiguity", "constancy"),
    [
        ("  %v = add i32<4, 16> %o, 0\n", (1, 32), (1, 16), (1, 1)),
        ("  %v = trans i32<16, 4> %o {order = [1, 0]}\n", (32, 1), (16, 1), (1, 1)),
        ("  %v = reshape i32<64> %o\n", (32,), (16,), (1,)),
        ("  %v = reshape i32<8, 8> %o\n", (1, 8), (1, 8), (1, 1)),
        ("  %v = reshape i32<4, 1, 16> %o\n", (1, 1, 32), (1, 1, 16), (1, 1, 1)),
        ("  %v = reshape i32<4, 1, 16> %cb\n", (1, 1, 1 << 63), (1, 1, 16), (4, 1, 1)),
        (
            "  %q = reshape i32<2, 2, 16> %cb\n  %v = reshape i32<2, 1, 2, 16> %q\n",
            (1, 1, 1, 1 << 63),
            (1, 1, 1, 16),
            (1, 1, 1, 1),
        ),
        (
            "  %q = reshape i32<4, 2, 8> %o\n  %v = reshape i32<4, 16> %q\n",
            (1, 8),
            (1, 8),
            (1, 1),
        ),
        (
            "  %q = reshape i32<4, 2, 8> %rb\n  %v = reshape i32<8, 8> %q\n",
            (32, 32),
            (1, 1),
            (1, 8),
        ),
        ("  %v = add i32<4, 16> %rb, 1\n", (1, 1), (1, 1), (1, 16)),
        ("  %v = add i32<4, 16> %cb, 0\n", (1, 1 << 63), (1, 16), (4, 1)),
        ("  %v = sdiv i32<4, 16> %o, 8\n", (1, 1), (1, 1), (1, 8)),
        ("  %v = reduce i32<16> %rb {axis = 0, combiner = add}\n", (32,), (1,), (16,)),
        ("  %v = reduce i32<4> %rb {axis = 1, combiner = add}\n", (32,), (1,), (1,)),
        ("  %v = reduce i32<4> %cb {axis = 1, combiner = smax}\n", (1,), (1,), (4,)),
        ("  %v = scan i32<4, 16> %rb {axis = 0, combiner = add}\n", (32, 32), (1, 1), (1, 16)),
        ("  %v = join i32<4, 16, 2> %o, %o\n", (1, 32, 1), (1, 16, 1), (1, 1, 1)),
    ],
)
def test_alignment_of_grids(body: str, multiple: Any, contiguity: Any, constancy: Any) -> None:
    alignment = alignment_of(GRID + body)
    assert (alignment.multiple, alignment.contiguity, alignment.constancy) == (
        multiple,
        contiguity,
        constancy,
    )


def test_loops_are_solved_to_a_fixpoint() -> None:
    function = kernel(LOOP.format(step=8, next="%s"))
    facts = alignment(function)
    by_name = {name: facts.of(value_named(function, name)).multiple for name in "ijpqsv"}
    assert by_name == {"i": (8,), "j": (8,), "p": (16,), "q": (16,), "s": (4,), "v": (4,)}


def test_a_back_edge_takes_what_the_entry_promised() -> None:
    function = kernel(LOOP.format(step=6, next="%j"))
    facts = alignment(function)
    by_name = {name: facts.of(value_named(function, name)).multiple for name in "ijpqsv"}
    assert by_name == {"i": (2,), "j": (2,), "p": (8,), "q": (8,), "s": (2,), "v": (2,)}


def test_a_layout_changes_no_element() -> None:
    n, target = Value(I32, "n"), blocked_layout((64,), (0,), 1, 1)
    start = MakeRange(Tile(I32, (64,)), start=3)
    moved = ConvertLayout(start.result, layout=target)
    shifted = Splat(n, Tile(I32, (64,), target))
    block = Block("e", (), (start, moved, shifted, Return(())))
    function = Function("f", (Parameter(n),), (), {"e": block})
    facts = alignment(function)
    assert facts.of(moved.result) == facts.of(start.result)
    assert ranges(function).of(moved.result) == (3, 66)
