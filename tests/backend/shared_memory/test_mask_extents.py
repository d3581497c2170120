"""How far masks let accesses reach, against all elements of generated masks."""

from __future__ import annotations

import itertools
import operator
import random

from tests.sizes import for_each
from tileir.analysis.affine_mod32 import addresses
from tileir.backend.shared_memory.mask_extents import extents
from tileir.textual import parse

SHAPES = ((4, 16), (2, 16), (16, 2), (3, 2), (1, 16), (16, 1))
RELATIONS = {
    "slt": operator.lt, "sle": operator.le, "ult": operator.lt, "ule": operator.le,
    "sgt": operator.gt, "sge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
Comparison = tuple[int, int, int, str, int, bool]
"""The dimension, and start, step, relation and bound: `start + step * index < bound`; and whether
it is true where the mask is, not false."""


def comparison(choose: random.Random) -> Comparison:
    relation = choose.choice(["slt", "sle", "ult", "ule", *RELATIONS])
    start, step = choose.choice((0, 0, 1, 7)), choose.choice((1, 1, 2, 3, 5, 0))
    if choose.random() < 0.2:
        start, step = choose.choice((31, 40)), choose.choice((-1, -2))
    bound, holds = choose.randint(0, 40), choose.random() < 0.8
    return choose.randrange(2), start, step, relation, bound, holds


def kernel(
    comparisons: list[Comparison], joins: list[str], shape: tuple[int, int], choose: random.Random
) -> str:
    """A kernel whose tile `%mask` of `shape` joins the comparisons: `and` or `or`, one after the
    other."""
    whole = f"{shape[0]}, {shape[1]}"
    lines, mask = list[str](), ""
    for n, (dim, start, step, relation, bound, holds) in enumerate(comparisons):
        size, result = shape[dim], f"%c{n}" if holds else f"%not{n}"
        unit = f"{size}, 1" if dim == 0 else f"1, {size}"
        shaped = choose.choice((f"expand_dims i1<{unit}> {result} {{axis = {1 - dim}}}",
                                f"reshape i1<{unit}> {result}"))  # fmt: skip
        lines += [
            f"%i{n} = make_range i32<{size}>", f"%s{n} = mul i32<{size}> %i{n}, {step}",
            f"%a{n} = add i32<{size}> %s{n}, {start}",
            f"%c{n}, %not{n} = icmp (i1<{size}>, i1<{size}>) %a{n}, {bound} "
            f"{{predicate = {relation}}}",
            f"%e{n} = {shaped}", f"%m{n} = broadcast i1<{whole}> %e{n}",
        ]  # fmt: skip
        if mask:
            lines.append(f"%join{n} = {joins[n - 1]} i1<{whole}> {mask}, %m{n}")
        mask = f"%join{n}" if mask else f"%m{n}"
    lines += [f"%mask = and i1<{whole}> {mask}, {mask}", "ret"]
    body = "\n".join(f"  {line}" for line in lines)
    return f"tir 1.0\ndefine kernel void @k() {{\nentry:\n{body}\n}}\n"


BITS = {"i32": 32, "i64": 64}
FAR = (0, 2**31 - 20, 2**31, 2**32 - 12, 2**32 + 3, 2**33 - 5, -4, -(2**31))
"""Starts near which a number of 32 bits changes its sign, or wraps."""


def element(kind: str, relation: str, number: int) -> int:
    """`number` at a type, as a relation sees it."""
    wrapped = number % (1 << BITS[kind])
    is_negative = relation[0] != "u" and wrapped >> (BITS[kind] - 1)
    return wrapped - (1 << BITS[kind]) if is_negative else wrapped


FAR_KERNEL = """tir 1.0
define kernel void @k() {{
entry:
  %i = make_range i32<16>
  %w = {widen}
  %s = mul {kind}<16> %w, {step}
  %a = add {kind}<16> %s, {start}
  %mask, %not = icmp (i1<16>, i1<16>) %a, {bound} {{predicate = {relation}}}
  ret
}}
"""


@for_each(("kind", "widen"), [
    ("i32", "add i32<16> %i, 0"), ("i64", "sext i64<16> %i"), ("i64", "zext i64<16> %i"),
])  # fmt: skip
@for_each("relation", ("slt", "sle", "ult", "ule"))
@for_each("start", FAR)
def test_numbers_that_wrap_or_have_more_bits_bound_no_access_too_soon(
    kind: str, widen: str, relation: str, start: int
) -> None:
    distances = (0, 1, 5, 15, 16, 2**31, 2**32 - 1)
    for step, distance in itertools.product((1, 2**28, 2**31 - 1, -1), distances):
        bound = start + step * distance
        text = FAR_KERNEL.format(
            kind=kind, widen=widen, relation=relation, step=element(kind, "s", step),
            start=element(kind, "s", start), bound=element(kind, "s", bound),
        )  # fmt: skip
        function = parse(text).kernel()
        (mask,) = (v for op in function.ops for v in op.results if v.name == "mask")
        (reach,) = extents(mask, (16,), addresses(function), function)
        last = element(kind, relation, bound)
        for i in range(16):
            selected = RELATIONS[relation](element(kind, relation, start + step * i), last)
            assert not selected or i < reach, (step, distance, i)


def is_selected(comparisons: list[Comparison], joins: list[str], index: tuple[int, ...]) -> bool:
    """Whether the mask of `kernel` is true at `index`."""
    results = [RELATIONS[r](a + s * index[d], bound) is h for d, a, s, r, bound, h in comparisons]
    result = results[0]
    for join, other in zip(joins, results[1:], strict=True):
        result = result and other if join == "and" else result or other
    return result


@for_each("seed", range(150))
def test_an_access_reaches_the_last_element_that_its_mask_selects(seed: int) -> None:
    """No element beyond is selected; and of bounds from above the last one within is."""
    choose = random.Random(seed)
    shape = choose.choice(SHAPES)
    comparisons = [comparison(choose) for _ in range(choose.randint(1, 3))]
    joins = [choose.choice(("and", "and", "or")) for _ in comparisons[1:]]
    function = parse(kernel(comparisons, joins, shape, choose)).kernel()
    (mask,) = (v for op in function.ops for v in op.results if v.name == "mask")
    reach = extents(mask, shape, addresses(function), function)
    places = itertools.product(*map(range, shape))
    selected = [index for index in places if is_selected(comparisons, joins, index)]
    assert all(i < n for index in selected for i, n in zip(index, reach, strict=True))
    if selected and "or" not in joins and all(
        r in ("slt", "sle", "ult", "ule") and s > 0 and holds
        for _, _, s, r, _, holds in comparisons
    ):  # fmt: skip
        assert reach == tuple(max(index[d] for index in selected) + 1 for d in range(2))


SHIFTED = """tir 1.0
define kernel void @k(i32 %n) {{
entry:
  %i = make_range i32<16>
  %m = and i32 %n, 15
  %f = mul i32 %m, {coefficient} {{overflow = nsw}}
  %g = splat i32<16> %f
  %s = mul i32<16> %i, {step} {{overflow = nsw}}
  %b = add i32<16> %s, {start} {{overflow = nsw}}
  %a = add i32<16> %b, %g {{overflow = nsw}}
  %mask, _ = icmp (i1<16>, i1<16>) %a, {bound} {{predicate = {relation}}}
  ret
}}
"""


@for_each("coefficient", (-3, -1, 1, 2))
@for_each("relation", ("slt", "sle", "ult", "ule"))
@for_each("step", (1, 3))
def test_an_access_reaches_what_its_mask_selects_for_any_number(
    coefficient: int, relation: str, step: int
) -> None:
    """A number in the comparison, which is known to be within 0 and 15, moves the end."""
    for start, bound in itertools.product((0, 45), (1, 7, 44, 50)):
        text = SHIFTED.format(
            coefficient=coefficient, relation=relation, step=step, start=start, bound=bound
        )
        function = parse(text).kernel()
        (mask,) = (v for op in function.ops for v in op.results if v.name == "mask")
        (reach,) = extents(mask, (16,), addresses(function), function)
        for n, i in itertools.product(range(16), range(16)):
            value = element("i32", relation, start + step * i + coefficient * n)
            assert not RELATIONS[relation](value, bound) or i < reach, (start, bound, n, i)
