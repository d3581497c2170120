"""Mistakes in a definition, a schedule or a call are errors at their place."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.frontends.decoupled import parse

HEAD = "Func f, g; In A, B; SIn s; Var x, y; RVar k;\n"
BODY = "g[x, y] = A[x, y] * 2;\nf[x] = rsum(g[x, k] * B[k], k);\n"


def caught(source: str, *arguments: Any, **named: Any) -> TileirError:
    with pytest.raises(TileirError) as error:
        parse(source, "k.dt").function()(*arguments, **named)
    return error.value


@for_each(("source", "code", "place", "words"), [
        ("Func f", "TIR1201", (1, 7), "the end does not belong"),
        ("Func f;\nf[x] = ;", "TIR1201", (2, 8), "`;` does not belong"),
        ("Func f;\nf[x] = $;", "TIR1201", (2, 8), "`$` is nothing"),
        ("Func f; Var x;\nf[x] = " + "exp(" * 300 + "1" + ")" * 300 + ";", "TIR1201", None, "100"),
        ("Func f; Var x;\nf[x] = " + "-" * 300 + "1;", "TIR1201", None, "nest more than"),
        ("Func f; Var x, f;", "TIR1202", (1, 16), "f is declared as Func"),
        ("Func f; Var x;\nf[x] = x;\nf[x] = x;", "TIR1202", (3, 1), "is defined at"),
        ("Func f, g; Var x;\nf[x] = x;", "TIR1202", (1, 9), "no algorithm"),
        ("Func f; Var x;\nf[x] = A[x];", "TIR1202", (2, 8), "A is not declared"),
        ("Func f; In A; Var x;\nf[x] = A;", "TIR1202", (2, 8), "here stands SIn or Var or RVar"),
        ("Func f; Var x;\nx[x] = 1;", "TIR1202", (2, 1), "here stands Func"),
        ("Func f; Var x;\nf[x] = nothing(x);", "TIR1202", (2, 8), "no function nothing"),
        ("Func f; Var x;\nf[x] = exp(x, x);", "TIR1203", (2, 8), "takes one argument, not 2"),
        ("Func f; Var x;\nf[x] = f[x];", "TIR1202", (2, 8), "depends on itself"),
        ("Func f, g; Var x;\nf[x] = g[x];\ng[x] = f[x];", "TIR1202", None, "depends on itself"),
        ("Func f; In A; Var x, y;\nf[x, y] = A[x, y] + A[x];", "TIR1203", (2, 21), "rank 2"),
        ("Func f; In A, B; Var x, y;\nf[x, y] = A[x, y] + B[x];", "TIR1203", (2, 11), "y is not x"),
        ("Func f; In A; Var x, y;\nf[x] = A[x, y];", "TIR1203", (2, 8), "does not define [x]"),
        ("Func f; In A; Var x, y;\nf[x, y] = A[x];", "TIR1203", (2, 11), "does not define [x, y]"),
        ("Func f; In A; Var x, y; RVar k;\nf[x] = rsum(A[y, k], k);", "TIR1203", (2, 8),
         "shape [y] does not define [x]"),
        ("Func f; In A; Var x, y; RVar k;\nf[x, y] = rsum(A[y, x, k], k);", "TIR1203", (2, 11),
         "shape [y, x] does not define [x, y]"),
        ("Func f; In A; Var x, y;\nf[x, x] = 1;", "TIR1203", (2, 1), "two dimensions"),
        ("Func f; In A; Var x;\nf[x] = A[x, x];", "TIR1203", (2, 8), "two dimensions"),
        ("Func f; In A; Var x, y;\nf[x] = rsum(A[x, y], y);", "TIR1202", (2, 8), "stands RVar"),
        ("Func f; In A; Var x; RVar k;\nf[x] = rsum(A[x], k);", "TIR1203", (2, 8), "k is not a"),
        ("Func f; In A; Var x; RVar k;\nf[x] = rsum(A[x, k]);", "TIR1203", (2, 8), "2 arguments"),
        ("Func f; In A; Var x; RVar k;\nf[x] = rsum(A[x, k], 1);", "TIR1203", (2, 22), "a redu"),
        ("Func f; In A; Var x, y; RVar k;\nf[x, y] = rdot(A[x, k], A[y, k], k);", "TIR1203",
         (2, 11), "inner dimensions"),
        ("Func f; In A; Var x; RVar k;\nf[x] = rdot(A[k], A[k], k);", "TIR1203", (2, 8), "two mat"),
        ("Func f; In A; Var x, y;\nf[x, y] = reshape(A[x], x, y);", "TIR1203", (2, 11),
         "[x] has not as many elements as [x, y]"),
        ("Func f; In A; Var x, y;\nf[x, y] = reshape(A[y, x] + 1, x, y);", "TIR1203", (2, 11),
         "make it a Func"),
        ("Func f; In A; Var x;\nf[x] = reshape(A[x], 2);", "TIR1203", (2, 22), "and ones"),
        ("Func f; Var x;\nf[x] = program_id(1);", "TIR1203", (2, 8), "axis 0"),
        ("Func f; Var x;\nf[x] = program_id(0, 1);", "TIR1203", (2, 8), "axis 0"),
        ("Func f; Var x;\nf[x] = program_id(0, 0);", "TIR1203", (2, 8), "axis 0"),
    ])  # fmt: skip
def test_algorithms(source: str, code: str, place: Any, words: str) -> None:
    error = caught(source)
    assert error.code == code and words in str(error)
    assert error.location and error.location.file == "k.dt"
    if place:
        assert (error.line, error.column) == place


@for_each(
    ("schedule", "words"),
    [
        ("f.unroll(x:2);", "no scheduling primitive unroll; there are: atomic, block"),
        ("A.block(x:2);", "A is declared as In"),
        ("h.block(x:2);", "no such Func"),
        ("f.block();", "takes dimensions and sizes"),
        ("f.block(x);", "takes dimensions and sizes"),
        ("f.block(x:0);", "at least 1"),
        ("f.block(x:1.5);", "whole number"),
        ("f.block(x:xi/8);", "takes dimensions and sizes"),
        ("f.block(x:8); f.tensorize(x:xi/8);", "takes dimensions and sizes"),
        ("f.block(x:2, x:3);", "names x twice"),
        ("f.block(x:2);\nf.block(x:3);", "already sets x:2"),
        ("f.block(y:2);", "y is not a dimension of f"),
        ("f.tensorize(y:2);", "y is not a dimension of f"),
        ("f.block(x:4); f.tensorize(x:8);", "tensor size 8 of x is larger than its block size 4"),
        ("f.map(x);", "x is not blocked"),
        ("f.map(x:2);", "takes dimensions: `x`"),
        ("f.map();", "the outermost first"),
        ("f.block(x:2); f.map(x, x);", "there twice"),
        ("f.block(x:2); f.map(x:xi/2);", "no level for xi"),
        ("f.block(x:2); f.map(x:xi/0, xi);", "at least 1"),
        ("f.block(x:2); f.map(x:y/2, y);", "y is taken"),
        ("g.block(x:2, y:2); g.map(x:i/2, y:i/2, i);", "i is taken"),
        ("g.block(x:2, y:2); g.map(x:i/2, i, y:i/2);", "i is taken"),
        ("g.block(x:2, y:2); g.map(x);", "no level for y"),
        ("f.num_warps(0);", "takes 1 to 32, not 0"),
        ("f.num_warps(4, 4);", "one whole number"),
        ("f.num_warps(4); f.num_warps(4);", "said before"),
        ("f.num_stages(x);", "one whole number"),
        ("f.compile(x);", "takes no arguments"),
        ("f.compile();", "follows compile"),
        ("g.fuse_at(f);", "takes a Func and one of its dimensions"),
        ("g.fuse_at(A, x);", "A is no Func"),
        ("g.fuse_at(f, y);", "y is not a dimension of f"),
        ("f.fuse_at(g, x);", "g does not depend on f"),
        ("g.fuse_at(f, x); g.fuse_at(f, x);", "fused g into f before"),
        ("g.fuse_at(f, x); g.block(x:2);", "no block of its own"),
        ("g.fuse_at(f, x); g.num_warps(2);", "no num_warps of its own"),
        ("g.fuse_at(g, x);", "fused into itself"),
        ("f.atomic(k);", "where block cuts it"),
        ("f.atomic(2);", "takes reduction dimensions"),
        ("f.reverse(3);", "takes dimensions"),
        ("f.reverse(x);", "x is not blocked"),
        ("f.online(y);", "nothing is reduced over y"),
        ("f.block(k:2); f.online(k);", "cut into blocks"),
        ("f.precision(f64);", "takes one of ieee"),
        ("f.evict_first(2);", "takes tensors"),
        ("f.evict_last(x);", "f neither reads nor writes x"),
        ("f.evict_first(f); f.evict_last(f);", "f is to go both first and last"),
        ("g.fuse_at(f, x); g.evict_first(A);", "no evict_first of its own"),
        ("f.persistent(2);", "takes one of on, off, pingpong"),
        ("f.roles(no);", "takes one of on, off"),
        ("g.compile_to_kernel(); g.fuse_at(f, x); f.compile_to_kernel();", "follows compile"),
    ],
)
def test_schedules(schedule: str, words: str) -> None:
    error = caught(HEAD + BODY + "f.compile();\n" + schedule)
    assert words in str(error)
    assert error.location and error.location.file == "k.dt" and (error.line or 0) >= 5
    assert error.code in ("TIR1201", "TIR1202", "TIR1204")


LIMITS = {
    "f.num_warps({});": (1, 32),
    "f.num_stages({});": (1, 64),
    "f.block(x:{});": (1, 2**31 - 1),
    "f.block(x:2147483647); f.tensorize(x:{});": (0, 2**31 - 1),
    "f.block(x:64); f.map(x:xi/{}, xi);": (1, None),
}
"""The least and the largest number of each primitive."""


@for_each("primitive", LIMITS)
def test_primitives_take_the_numbers_between_their_limits_and_no_others(primitive: str) -> None:
    least, most = LIMITS[primitive]
    for number in {least, least + 1, *([] if most is None else [most - 1, most])}:
        assert parse(HEAD + BODY + "f.compile();\n" + primitive.format(number), "k.dt")
    for number in (least - 1, *([] if most is None else [most + 1])):
        assert caught(HEAD + BODY + "f.compile();\n" + primitive.format(number)).line == 5


ORDERS = [labels for n in (1, 2, 3) for labels in itertools.permutations("xyz", n)]


@for_each(("labels", "is_left"), itertools.product(ORDERS, (False, True)))
def test_reduced_values_stand_along_labels_in_their_order(
    labels: tuple[str, ...], is_left: bool
) -> None:
    """Next to a tensor along x, y and z, a value that is reduced may have some of these labels, in
    this order."""
    total = f"rsum(B[{', '.join(labels)}, k], k)"
    both = f"{total} * A[x, y, z]" if is_left else f"A[x, y, z] * {total}"
    source = f"Func f; In A, B; Var x, y, z; RVar k;\nf[x, y, z] = {both};\nf.compile();"
    if labels in itertools.combinations("xyz", len(labels)):
        sizes = {"x": 2, "y": 3, "z": 4}
        a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        b = np.random.default_rng(0).integers(0, 9, [*(sizes[n] for n in labels), 5])
        result = parse(source, "k.dt").function()(a, b.astype(np.float32))
        total_of = b.sum(axis=-1).reshape([n if x in labels else 1 for x, n in sizes.items()])
        assert (result == a * total_of).all()
    else:
        assert caught(source).code == "TIR1203"


def test_fusion_needs_equal_outer_dimensions() -> None:
    """The example of section 3.3.1.5."""
    head = "Func f, g; In A; Var u, v, k, l, w;\n"
    body = "f[u, v, k, w] = A[u, v, k, w];\ng[u, v, l, w] = f[u, v, l, w];\n"
    for label in "uv":
        parse(f"{head}{body}f.fuse_at(g, {label});")
    for label, words in (("k", "k is not a dimension of g"), ("l", "l is not a dimension of f"),
                         ("w", "differ in the dimensions outside of w")):  # fmt: skip
        with pytest.raises(TileirError, match=words):
            parse(f"{head}{body}f.fuse_at(g, {label});")


TOTAL = "rsum(B[x, k], k)"


@for_each(("value", "is_legal"), [
    (f"clamp({TOTAL}, A[x, y, z], A[x, y, z])", True),
    (f"clamp(A[x, y, z], {TOTAL}, {TOTAL})", True),
    (f"({TOTAL} + {TOTAL}) * A[x, y, z]", True),
    (f"clamp({TOTAL}, C[x, y], A[x, y, z])", False),
    (f"({TOTAL} + C[x, y]) * A[x, y, z]", False),
    (f"A[x, y, z] - (C[x, y] - {TOTAL})", False),
])  # fmt: skip
def test_what_reads_a_tensor_broadcasts_by_position(value: str, is_legal: bool) -> None:
    """A value stands along labels only where all tensors in it are reduced."""
    source = f"Func f; In A, B, C; Var x, y, z; RVar k;\nf[x, y, z] = {value}; f.compile();"
    if is_legal:
        assert parse(source).compiled_funcs
    else:
        assert caught(source).code == "TIR1203"


def test_a_fused_func_with_a_kernel_has_blocks_of_its_own() -> None:
    """Where it is compiled, or another Func reads it."""
    fused = HEAD + BODY + "g.fuse_at(f, x); g.block(x:2); f.compile();"
    assert "no block of its own" in str(caught(fused))
    assert set(parse(fused + "g.compile();").compiled_funcs) == {"f", "g"}


def test_elements_of_a_fused_func_are_not_moved() -> None:
    source = """Func f, g; In A; Var x, y; g[x, y] = A[x, y] + 1;
    f[x, y] = reshape(g[y, x], x, y); f.tensorize(x:0, y:0); f.compile();\n"""
    A = np.arange(9, dtype=np.float32).reshape(3, 3)
    assert (parse(source).function()(A) == A + 1).all()
    error = caught(source + "g.fuse_at(f, x);", A)
    assert error.code == "TIR1204" and "its elements are moved by reshape" in str(error)


def test_a_reduced_value_defines_a_tensor_with_its_labels_in_their_order() -> None:
    """Which may have more of them: it is the same along those. A tensor that is not reduced stands
    along the last dimensions."""
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    head = "Func f; In A; Var x, y; RVar k;\nf[x, y] = "
    reduced = parse(f"{head}rsum(A[x, k], k); f.compile();").function()
    assert reduced(a, y=4).tolist() == [[3] * 4, [12] * 4]
    last = parse(f"{head}A[y]; f.compile();").function()
    assert last(a[1], x=2).tolist() == [[3, 4, 5]] * 2


def test_a_single_kernel_needs_everything_fused() -> None:
    error = caught(HEAD + BODY + "f.compile_to_kernel();")
    assert "not a single kernel: it needs g" in str(error)


def test_an_atomic_reduction_is_the_last_operation() -> None:
    source = HEAD + "g[x, y] = 1;\nf[x] = 2 * rsum(A[x, k], k);\nf.block(k:2); f.atomic(k);"
    assert "not the last operation" in str(caught(source + "f.compile();"))


def test_calls() -> None:
    source = HEAD + BODY + "f.compile();"
    A, B = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    for arguments, named, words in (
        ((A,), {}, "f needs B"),
        ((A, B, B), {}, "there are 3 arguments"),
        ((A, B), {"A": A}, "A is given twice"),
        ((A, B), {"z": 3}, "z is not an argument"),
        ((A, B), {"x": 0}, "at least 1"),
        ((A, B), {"x": 5}, "x is 5, but 2 in A"),
        ((A, B[:2]), {}, "k is 3, but 2 in B"),
        ((A, A), {}, "B has 1 dimensions, not 2"),
        ((A, 3), {}, "B is an array, not a int"),
        ((A[:0], B), {}, "A has no elements"),
        ((A.astype(complex), B), {}, "not one of a kernel"),
        ((A, B), {"types": {"h": "f32"}}, "not one of a kernel"),
        ((A, B), {"types": 3}, "types is a dict"),
        ((A, B), {"types": {"A": "float16"}}, "types are given for Funcs"),
        ((A, B), {"out": np.zeros(3, np.float32)}, "the result has shape (2,), not (3,)"),
        ((A, B), {"on": "nowhere"}, "no executor nowhere"),
    ):
        assert words in str(caught(source, *arguments, **named)), words


@for_each("text", ["Var z;", "f[x] = 1;", "f.block(x:2); In C;"])
def test_a_schedule_has_no_other_statements(text: str) -> None:
    program = parse(HEAD + BODY + "f.compile();")
    with pytest.raises(TileirError, match="a schedule consists of scheduling primitives only"):
        program.with_schedule(text)


def test_what_is_not_compiled_is_not_called() -> None:
    with pytest.raises(TileirError, match="no Func is not compiled; there are: none"):
        parse(HEAD + BODY).function()
    with pytest.raises(TileirError, match="f is not compiled; there are: g"):
        parse(HEAD + BODY + "g.compile();").function("f")


def test_a_size_that_nothing_says_is_asked_for() -> None:
    source = "Func f; Var x;\nf[x] = x * 2; f.compile();"
    assert "the size of x is unknown" in str(caught(source))
    assert parse(source).function()(x=4).tolist() == [0, 2, 4, 6]
    assert "f takes nothing; there are 1 arguments" in str(caught(source, 3))


def minuses(count: int) -> str:
    return f"Func f; In A; Var x;\nf[x] = {'-(' * count}A[x]{')' * count}; f.compile();"


def chain(count: int) -> str:
    names = [f"g{i}" for i in range(count)]
    values = [
        f"{n}[x] = {after}[x] + 1;" for n, after in zip(names, [*names[1:], "A"], strict=True)
    ]
    return f"Func {', '.join(names)}; In A; Var x;\n{' '.join(values)} g0.compile();"


def digits(count: int) -> str:
    return f"Func f; In A; Var x;\nf[x] = A[x]; f.block(x:{'7'.zfill(count)}); f.compile();"


@for_each(("source", "most", "words"), [
    (minuses, 98, "nest more than 100 deep"), (chain, 101, "more than 100 Funcs depend on"),
    (digits, 18, "a whole number is expected here"),
])  # fmt: skip
def test_texts_are_read_up_to_their_limits(source: Any, most: int, words: str) -> None:
    """The statement and the tensor are levels of expressions, too."""
    assert parse(source(most), "k.dt").compiled_funcs
    error = caught(source(most + 1))
    assert words in str(error) and error.line == 2


@for_each("pairs", ["gf fg", "fg gf", "hg gh", "hg gf fh"])
def test_funcs_are_not_fused_in_a_circle(pairs: str) -> None:
    head = "Func f, g, h; In A; Var x;\nh[x] = A[x]; g[x] = h[x]; f[x] = g[x]; f.compile();\n"
    fused = " ".join(f"{func}.fuse_at({into}, x);" for func, into in pairs.split())
    assert re.search(rf"[{''.join(set(pairs))}] is fused into itself", str(caught(head + fused)))


def test_whole_numbers_of_nine_digits_are_integers() -> None:
    source = "Func f; In A; Var x; f[x] = A[x] + 999999999; f.compile();"
    A = np.array([2**53, 2**53 + 1])
    result = parse(source).function()(A, types={"f": "int64"})
    assert (result == A + 999999999).all()
