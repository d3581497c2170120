"""Addresses as affine forms, op by op, and what of them a block recomputes."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
import pytest

from tests.sizes import few_or_all, for_each
from tileir import Function
from tileir.analysis.affine_mod32 import AddressForms, AffineMod32, addresses
from tileir.interp import interpret
from tileir.ir import Module
from tileir.textual import parse
from tileir.values import Value

HEAD = "define kernel void @k(f32* %x, i32 %n, i32 %m, i64 %w, i16 %h, i1 %c) {\nentry:\n"


def kernel(body: str) -> Function:
    """A function of the lines of `body`."""
    text = body if "ret" in body.split() else body + "\n  ret"
    return parse(f"tir 1.0\n{HEAD}{text}\n}}\n").kernel()


def values_by_name(function: Function) -> dict[str, Value]:
    """The values of `function` by name."""
    values = [p.value for p in function.parameters]
    for block in function.blocks.values():
        values += [*block.parameters, *(v for op in block.ops for v in op.results)]
    return {v.name or "": v for v in values}


def text_of(form: AffineMod32 | None) -> str:
    """`8*n + 12 [4, 0]`: terms, start and strides."""
    if form is None:
        return "none"
    terms = sorted(f"{by}*{value.name}" for value, by in form.terms)
    return f"{' + '.join([*terms, str(form.start)])} {list(form.strides)}"


def affine_forms(body: str) -> dict[str, str]:
    """Of every value of a function of the lines of `body` the sum that it is."""
    function = kernel(body)
    forms = addresses(function)
    return {name: text_of(forms.of(value)) for name, value in values_by_name(function).items()}


def form(body: str) -> str:
    """The sum that `%r` is."""
    return affine_forms(body)["r"]


RANGES = """
  %i = make_range i32<8> {start = 3}
  %j = make_range i32<4> {start = 0}
  %ns = splat i32<8> %n
  %col = expand_dims i32<8, 1> %i {axis = 1}
  %row = expand_dims i32<1, 8> %i {axis = 0}
  %t = broadcast i32<4, 8> %row
  %i2 = mul i32<8> %i, 2
  %seven = make_range i32<1> {start = 7}
  %n1 = splat i32<1> %n
  %one = add i32<1> %seven, %n1
  %tall = reshape i32<1, 1> %one
"""


@for_each(("line", "expected"), [
        ("%r = make_range i32<8> {start = 5}", "5 [1]"),
        ("%r = splat i32<2, 8> %n", "1*n + 0 [0, 0]"),
        ("%r = splat i32<8> 7", "7 [0]"),
        ("%r = unsplat i32 %one", "1*n + 7 []"),
        ("%r = broadcast i32<4, 8> %tall", "1*n + 7 [0, 0]"),
        ("%r = expand_dims i32<8, 1> %i {axis = 1}", "3 [1, 0]"),
        ("%r = expand_dims i32<1, 8> %i2 {axis = 0}", "6 [0, 2]"),
        ("%r = expand_dims i32<8, 1, 1> %col {axis = 1}", "3 [1, 0, 0]"),
        ("%r = broadcast i32<8, 4> %col", "3 [1, 0]"),
        ("%r = broadcast i32<4, 8> %row", "3 [0, 1]"),
        ("%r = trans i32<8, 4> %t {order = [1, 0]}", "3 [1, 0]"),
        ("%r = add i32<8> %i, %ns", "1*n + 3 [1]"),
        ("%r = add i32<8> %i, 5", "8 [1]"),
        ("%r = sub i32<8> %ns, %i", "1*n + -3 [-1]"),
        ("%r = sub i32<8> %i, %i2", "-3 [-1]"),
        ("%r = mul i32<8> %i, 5", "15 [5]"),
        ("%r = mul i32<8> 5, %i", "15 [5]"),
        ("%r = mul i32 %n, 3", "3*n + 0 []"),
        ("%r = mul i32 %n, %m", "1*r + 0 []"),
        ("%r = mul i32<8> %ns, %i", "none"),
        ("%r = shl i32<8> %i, 2", "12 [4]"),
        ("%r = shl i32 %n, 4", "16*n + 0 []"),
        ("%r = shl i32 %n, %m", "1*r + 0 []"),
        ("%r = shl i32 %n, 31", "-2147483648*n + 0 []"),
        ("%r = shl i64 %w, 32", "1*r + 0 []"),
        ("%r = shl i64 %w, 33", "1*r + 0 []"),
        ("%r = neg i32<8> %i", "-3 [-1]"),
        ("%r = sext i64 %n", "1*n + 0 []"),
        ("%r = zext i64<8> %i", "3 [1]"),
        ("%r = trunc i32 %w", "1*w + 0 []"),
        ("%r = sext i32 %h", "1*r + 0 []"),
        ("%r = trunc i16 %n", "none"),
        ("%r = multiple_of i32<8> %i {values = [1]}", "3 [1]"),
        ("%r = getelementptr f32* %x, i32 3", "1*x + 12 []"),
        ("%r = getelementptr f32* %x, %n", "1*x + 4*n + 0 []"),
        ("%r = and i32 %n, 7", "1*r + 0 []"),
        ("%r = and i32<8> %i, 7", "none"),
        ("%r = add i32 %n, 2000000000", "1*n + 2000000000 []"),
        ("%r = add i32 %n, 3000000000", "1*n + -1294967296 []"),
        ("%r = add i64 %w, 4294967301", "1*w + 5 []"),
        ("%r = add i32 %n, -2147483648", "1*n + -2147483648 []"),
        ("%r = mul i64 %w, 4294967296", "0 []"),
        ("%r = add i32 undef, %n", "1*r + 0 []"),
        ("%r = mul i32 undef, 3", "1*r + 0 []"),
        ("%r = neg i32 undef", "1*r + 0 []"),
        ("%r = getelementptr f32* undef, %n", "1*r + 0 []"),
        ("%r = splat i32<8> undef", "none"),
    ])  # fmt: skip
def test_the_form_of_each_op(line: str, expected: str) -> None:
    assert form(f"{RANGES}  {line}\n") == expected


@for_each(("source", "extents", "expected"), [
        ("%i", "2, 4", "3 [4, 1]"),
        ("%i", "8, 1", "3 [1, 1]"),
        ("%col", "2, 4", "3 [4, 1]"),
        ("%i", "1, 2, 4", "3 [8, 4, 1]"),
        ("%wide", "8", "3 [1]"),
        ("%wide", "2, 2, 2", "3 [4, 2, 1]"),
        ("%two", "8", "none"),
        ("%two", "4, 1, 2", "3 [16, 0, 1]"),
        ("%two", "4, 2, 1", "3 [16, 1, 0]"),
        ("%two", "2, 4", "none"),
        ("%thin", "4", "1*n + 0 [0]"),
        ("%unit", "1, 1", "1*n + 0 [0, 0]"),
    ])  # fmt: skip
def test_a_tile_of_another_shape(source: str, extents: str, expected: str) -> None:
    """`%two` has rows of 2 at a distance of 16, `%thin` and `%unit` one number everywhere."""
    body = f"""{RANGES}
      %wide = reshape i32<2, 4> %i
      %rows = make_range i32<4>
      %far = mul i32<4> %rows, 16
      %tall2 = expand_dims i32<4, 1> %far {{axis = 1}}
      %all = broadcast i32<4, 2> %tall2
      %pair = make_range i32<2> {{start = 3}}
      %flat = expand_dims i32<1, 2> %pair {{axis = 0}}
      %both = broadcast i32<4, 2> %flat
      %two = add i32<4, 2> %all, %both
      %thin = splat i32<2, 2> %n
      %unit = splat i32<1> %n
      %r = reshape i32<{extents}> {source}
    """
    assert form(body) == expected


def test_what_cancels_is_no_term() -> None:
    forms = affine_forms("  %a = add i32 %n, 5\n  %b = sub i32 %a, %n\n  %z = mul i32 %n, 0\n")
    assert (forms["b"], forms["z"]) == ("5 []", "0 []")


def test_terms_are_counted_together() -> None:
    body = "  %a = mul i32 %n, 3\n  %b = add i32 %a, %n\n  %d = sub i32 %b, %m\n"
    assert affine_forms(body)["d"] == "-1*m + 4*n + 0 []"


def test_ranges_of_numbers() -> None:
    assert AffineMod32(frozenset(), 10, (4, -3)).interval((8, 5)) == (10 - 12, 10 + 28)
    assert AffineMod32(frozenset(), 10).interval(()) == (10, 10)
    assert AffineMod32(frozenset(), -1, (0, 7)).interval((8, 1)) == (-1, -1)


def test_no_form_is_of_a_literal_and_of_what_is_computed_under_a_predicate() -> None:
    function = kernel("  @%c %s = add i32 %n, 1\n  %r = add i32 %s, 1\n")
    forms = addresses(function)
    assert text_of(forms.of(values_by_name(function)["r"])) == "1*s + 1 []"
    add = function.blocks["entry"].ops[1]
    assert forms.of(add.inputs[1]) is None  # type: ignore[attr-defined]


# Against the interpreter -----------------------------------------------------------------------

LITERALS = (0, 1, 3, -1, -8, 65537, 1 << 30, (1 << 31) - 1, -(1 << 31))
SCALAR_LINES = (
    "add {t} {a}, {b}", "sub {t} {a}, {b}", "mul {t} {a}, {c}", "mul {t} {c}, {a}",
    "mul {t} {a}, {b}", "shl {t} {a}, {by}", "neg {t} {a}", "and {t} {a}, 7", "xor {t} {a}, {b}",
)  # fmt: skip
TILE_LINES = (
    "add {t} {a}, {b}", "sub {t} {a}, {b}", "mul {t} {a}, {c}", "mul {t} {c}, {a}",
    "shl {t} {a}, {by}", "neg {t} {a}", "add {t} {a}, {c}", "sub {t} {c}, {a}",
    "and {t} {a}, 6",
)  # fmt: skip


class Forms:
    """A function of random ops on integers, scalars first. Every value of 32 or 64 bits is stored,
    modulo 2^32, in a row of 64 numbers of its own."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.lines: list[str] = []
        self.kinds: dict[str, tuple[str, tuple[int, ...]]] = {
            "n": ("i32", ()), "m": ("i32", ()), "w": ("i64", ()),
        }  # fmt: skip
        for _ in range(6):
            self.add_scalar()
        for _ in range(14):
            self.add_tile()

    def add(self, line: str, bits: str, shape: tuple[int, ...]) -> None:
        name = f"v{len(self.kinds)}"
        self.lines.append(f"%{name} = {line}")
        self.kinds[name] = bits, shape

    def words(self, bits: str, shape: tuple[int, ...]) -> dict[str, Any]:
        """The type, two values of it, a literal and a number of bits."""
        of_kind = [n for n, kind in self.kinds.items() if kind == (bits, shape)]
        return {
            "t": type_text(bits, shape), "a": f"%{self.choose.choice(of_kind)}",
            "b": f"%{self.choose.choice(of_kind)}", "c": self.choose.choice(LITERALS),
            "by": self.choose.choice((0, 1, 4, 31)),
        }  # fmt: skip

    def convert(self, bits: str, shape: tuple[int, ...], source: str) -> None:
        other = "i64" if bits == "i32" else "i32"
        name = "trunc" if other == "i32" else self.choose.choice(("sext", "zext"))
        self.add(f"{name} {type_text(other, shape)} %{source}", other, shape)

    def add_scalar(self) -> None:
        scalars = [n for n, (_, shape) in self.kinds.items() if not shape]
        source = self.choose.choice(scalars)
        bits, _ = self.kinds[source]
        if self.choose.random() < 0.2:
            self.convert(bits, (), source)
        else:
            line = self.choose.choice(SCALAR_LINES)
            self.add(line.format(**self.words(bits, ())), bits, ())

    def add_tile(self) -> None:
        choose = self.choose
        sources = (
            [n for n, (_, shape) in self.kinds.items() if shape] if choose.random() < 0.8 else []
        )
        if not sources:
            extent = choose.choice((1, 2, 4, 8))
            if choose.random() < 0.6:
                start = choose.choice((0, 5, -3))
                self.add(f"make_range i32<{extent}> {{start = {start}}}", "i32", (extent,))
            else:
                source = choose.choice([n for n, (_, shape) in self.kinds.items() if not shape])
                bits, _ = self.kinds[source]
                self.add(f"splat {type_text(bits, (extent,))} %{source}", bits, (extent,))
            return
        source = choose.choice(sources[-6:])
        bits, shape = self.kinds[source]
        match choose.choice(("line", "line", "line", "shape", "shape", "shape", "shape", "width")):
            case "line":
                self.add(choose.choice(TILE_LINES).format(**self.words(bits, shape)), bits, shape)
            case "width":
                self.convert(bits, shape, source)
            case "shape":
                self.add_shape(source, bits, shape)

    def add_shape(self, source: str, bits: str, shape: tuple[int, ...]) -> None:
        """What moves the elements of a tile, or repeats them."""
        choose, size = self.choose, prod(shape)
        name = choose.choice(("expand_dims", "broadcast", "trans", "reshape", "unsplat"))
        new, more = shape, ""
        if name == "expand_dims" and len(shape) < 3:
            axis = choose.randint(0, len(shape))
            new, more = (*shape[:axis], 1, *shape[axis:]), f" {{axis = {axis}}}"
        elif name == "broadcast":
            repetitions = choose.choice((1, 2, 4)) if size <= 16 else 1
            new = tuple(repetitions if n == 1 else n for n in shape)
        elif name == "trans":
            order = choose.sample(range(len(shape)), len(shape))
            new, more = tuple(shape[d] for d in order), f" {{order = {order}}}"
        elif name == "unsplat" and size == 1:
            new = ()
        elif size > 1:
            name, below = "reshape", choose.choice([n for n in (1, 2, 4, 8) if size % n == 0])
            new = choose.choice(((size,), (size // below, below), (below, 1, size // below)))
        else:
            return
        self.add(f"{name} {type_text(bits, new)} %{source}{more}", bits, new)

    def module(self) -> Module:
        """The program. `%o` is the array of results."""
        lines = ["%each = make_range i32<64>", *self.lines]
        for row, (name, (bits, shape)) in enumerate(self.kinds.items()):
            shape_text = f"<{', '.join(map(str, shape))}>" if shape else ""
            low = f"%{name}"
            if bits == "i64":
                lines.append(f"%low.{row} = trunc {type_text('i32', shape)} %{name}")
                low = f"%low.{row}"
            lines.append(f"%row.{row} = getelementptr i32* %o, i32 {64 * row}")
            place = f"%row.{row}"
            if shape:
                lines += [
                    f"%at.{row} = make_range i32<{prod(shape)}>",
                    f"%places.{row} = reshape i32{shape_text} %at.{row}",
                    f"%rows.{row} = splat i32*{shape_text} %row.{row}",
                    f"%place.{row} = getelementptr i32*{shape_text} %rows.{row}, %places.{row}",
                ]
                place = f"%place.{row}"
            lines.append(f"store {place}, {low}")
        body = "\n  ".join(lines)
        head = "define kernel void @k(i32* %o, i32 %n, i32 %m, i64 %w) {\nentry:"
        return parse(f"tir 1.0\n{head}\n  {body}\n  ret\n}}\n")


def type_text(bits: str, shape: tuple[int, ...]) -> str:
    return f"{bits}<{', '.join(map(str, shape))}>" if shape else bits


@pytest.mark.parametrize("count", few_or_all(6, 60))
def test_forms_are_the_numbers_that_the_interpreter_computes(count: int) -> None:
    for seed in range(count):
        check_forms(Forms(seed))


def check_forms(program: Forms) -> None:
    """Check the form of every value against its elements, for two choices of the parameters."""
    module = program.module()
    function = module.kernel()
    forms, values = addresses(function), values_by_name(function)
    rows = {name: row for row, name in enumerate(program.kinds)}
    form_count = 0
    for n, m, w in ((3, -5, 1 << 33), (-(1 << 31), (1 << 31) - 1, -7)):
        results = np.zeros((len(rows), 64), np.int32)
        interpret(module, "k", 1, [results.reshape(-1), n, m, w])
        for name, (_, shape) in program.kinds.items():
            form = forms.of(values[name])
            if form is None:
                continue
            form_count += 1
            fixed = form.start + sum(
                int(results[rows[str(v.name)], 0]) * by for v, by in form.terms
            )
            steps = zip(np.indices(shape), form.strides, strict=True)
            expected = fixed + sum((at * step for at, step in steps), np.zeros(shape, np.int64))
            actual = results[rows[name], : prod(shape)].reshape(shape)
            np.testing.assert_array_equal(actual, expected.astype(np.int32), name)
            low, high = form.interval(shape)
            assert (low, high) == ((expected - fixed).min() + form.start,
                                   (expected - fixed).max() + form.start)  # fmt: skip
    assert form_count > len(rows)


@for_each("line", [
        "splat i32<2> %e", "broadcast i32<8, 8> %tile", "trans i32<8, 1> %tile {order = [0, 1]}",
        "expand_dims i32<1, 8> %odd {axis = 0}", "reshape i32<4, 2> %odd", "shl i32<8> %odd, 2",
        "neg i32<8> %odd", "mul i32<8> %odd, 3", "add i32<8> %odd, 3", "sub i32<8> %i, %odd",
        "sext i64<8> %odd", "multiple_of i32<8> %odd {values = [1]}",
        "getelementptr f32*<8> %xs, %odd", "bitcast i32*<8> %places", "unsplat i32 %single",
    ])  # fmt: skip
def test_what_is_computed_of_other_numbers_has_no_form(line: str) -> None:
    """Tiles have none then, and scalars are terms of their own."""
    forms = affine_forms(f"""{RANGES}
      %odd = and i32<8> %i, 6
      %tile = expand_dims i32<8, 1> %odd {{axis = 1}}
      %single = and i32<1> %one, 6
      %xs = splat f32*<8> %x
      %places = getelementptr f32*<8> %xs, %odd
      %e = sext i32 %h
      %r = {line}
    """)
    own = {"unsplat i32 %single": "1*r + 0 []", "splat i32<2> %e": "1*e + 0 [0]"}
    assert forms["r"] == own.get(line, "none")
    assert (forms["h"], forms["c"], forms["odd"]) == ("none", "none", "none")


# What is computed alike -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("{} = and i32 %n, 7", True),
        ("{} = sdiv i32 %n, %m", True),
        ("{} = load i32 %p", False),
        ("{0}8 = load i8 %p8\n  {0} = sext i32 {0}8", False),
        ("@%c {} = and i32 %n, 7", True),
        ("{} = sext i32 %h", True),
    ],
)
def test_one_term_stands_for_what_is_computed_alike(line: str, same: bool) -> None:
    lines = "\n".join(f"  {line.format(name)}" for name in ("%a", "%b"))
    forms = affine_forms(f"  %p = bitcast i32* %x\n  %p8 = bitcast i8* %x\n{lines}\n")
    assert forms["a"] == "1*a + 0 []"
    assert forms["b"] == ("1*a + 0 []" if same else "1*b + 0 []")


def test_other_attributes_types_inputs_and_predicates_make_other_terms() -> None:
    forms = affine_forms("""
      %a = sdiv i32 %n, %m
      %b = sdiv i32 %n, %m {rounding = floor}
      %c2 = sdiv i32 %m, %n
      @%c %d = sdiv i32 %n, %m
      %e = sext i32 %h
      %f = sext i64 %h
    """)
    assert [forms[name] for name in ("a", "b", "c2", "d", "e", "f")] == [
        f"1*{name} + 0 []" for name in ("a", "b", "c2", "d", "e", "f")
    ]


def test_numbers_that_are_not_affine_are_equal_too_where_computed_alike() -> None:
    """Integers of 8 bits and floats on the way to a term."""
    forms = affine_forms("""
      %s = trunc i8 %n
      %t = trunc i8 %n
      %a = zext i32 %s
      %b = zext i32 %t
      %f = sitofp f32 %n
      %g = sitofp f32 %n
      %u = fptosi i32 %f
      %v = fptosi i32 %g
      %y = sdiv i32 %u, %a
      %z = sdiv i32 %v, %b
    """)
    assert (forms["s"], forms["b"], forms["v"]) == ("none", "1*a + 0 []", "1*u + 0 []")
    assert forms["z"] == "1*y + 0 []"


def test_elements_of_a_tile_are_not_told_to_be_alike() -> None:
    """What a tile is reduced to is its own."""
    forms = affine_forms("""
      %i = make_range i32<8>
      %i8 = trunc i8<8> %i
      %a = reduce i8 %i8 {combiner = add}
      %b = zext i32 %a
      %c2 = reduce i32 %i {combiner = add}
      %d = reduce i32 %i {combiner = add}
    """)
    assert (forms["i8"], forms["b"], forms["d"]) == ("none", "1*b + 0 []", "1*c2 + 0 []")


# Loops ----------------------------------------------------------------------------------------


def loop_carrying(carried: str, first: str, body: str, passed: str) -> Function:
    """A loop that carries `%r` of type `carried`: first `first`, then `passed`."""
    return kernel(f"""{RANGES}
      %xs = splat f32*<8> %x
      %q = getelementptr f32*<8> %xs, %i
      %q2 = getelementptr f32*<8> %xs, %i2
      br loop
    loop:
      %k = phi i32 [0, entry], [%k2, loop]
      %r = phi {carried} [{first}, entry], [{passed}, loop]
      %k2 = add i32 %k, 1
      %once = add i32 %n, %m
      %half = sdiv i32 %k, 2
      %seen = load f32 %x
      %at = fptosi i32 %seen
      {body}
      %more, _ = icmp (i1, i1) %k2, %n {{predicate = slt}}
      cond_br %more, loop, done
    done:
      ret
    """)


def carried_form(function: Function) -> tuple[str, AddressForms, dict[str, Value]]:
    forms, values = addresses(function), values_by_name(function)
    return text_of(forms.of(values["r"])), forms, values


@pytest.mark.parametrize(
    ("first", "body", "passed", "expected"),
    [
        ("%q", "%q3 = getelementptr f32*<8> %r, %ns", "%q3", "1*r + 0 [4]"),
        ("%q", "%q3 = getelementptr f32*<8> %r, %i", "%q3", "none"),
        ("%q", "", "%q2", "none"),
        ("%q2", "", "%q2", "1*r + 0 [8]"),
        ("%q2", "", "%q", "none"),
        ("undef", "", "%q", "none"),
        ("%q", "", "undef", "none"),
    ],
)
def test_a_loop_carried_tile_has_a_form_where_all_elements_move_alike(
    first: str, body: str, passed: str, expected: str
) -> None:
    assert carried_form(loop_carrying("f32*<8>", first, body, passed))[0] == expected


def test_one_loop_carried_number_has_a_form_however_it_is_computed() -> None:
    assert carried_form(loop_carrying("i32", "undef", "", "%half"))[0] == "1*r + 0 []"
    assert carried_form(loop_carrying("i32", "%n", "", "undef"))[0] == "1*r + 0 []"


def test_a_block_recomputes_what_depends_on_its_parameters_and_on_memory() -> None:
    _, forms, values = carried_form(loop_carrying("i32", "0", "", "%half"))
    assert {name for name in ("k", "r", "k2", "half", "at") if "loop" in forms.changes[values[name]]
            } == {"k", "r", "k2", "half", "at"}  # fmt: skip
    for name in ("n", "x", "i", "ns", "once"):
        assert forms.changes[values[name]] == frozenset()

    def stays(name: str, label: str) -> bool:
        whole = forms.of(values[name])
        assert whole is not None
        return forms.stays(whole, label)

    assert stays("k", "entry") and stays("k", "done") and not stays("k", "loop")
    assert stays("once", "loop") and not stays("half", "loop") and not stays("at", "loop")
    both = forms.forms[values["once"]].plus_multiple(forms.forms[values["half"]], 1)
    assert not forms.stays(both, "loop"), "one of two terms changes"
