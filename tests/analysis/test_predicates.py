"""What predicates say about each other, against truth tables."""

from __future__ import annotations

import pytest

from tests.analysis.kernels import kernel, value_named
from tileir.analysis.predicates import predicates

PREDICATES = """  %ne, _ = icmp (i1, i1) 7, %m {predicate = ne}
  %a, %na = icmp (i1, i1) %m, %n {predicate = slt}
  %b, %nb = icmp (i1, i1) %m, 7 {predicate = eq}
  %g, _ = icmp (i1, i1) %n, %m {predicate = sgt}
  %ge, _ = icmp (i1, i1) %m, %n {predicate = sge}
  %not = xor i1 %a, true
  %ab = and i1 %a, %b
  %anb = and i1 %a, %nb
  %or = or i1 %a, %b
  %nor = and i1 %na, %nb
  %sel = select i1 %a, %b, %nb
  %xor = xor i1 %a, %b
"""


def test_predicates_are_compared_by_truth_table() -> None:
    function = kernel(PREDICATES)
    facts = predicates(function)
    names = (
        "ne",
        "a",
        "na",
        "b",
        "nb",
        "g",
        "ge",
        "not",
        "ab",
        "anb",
        "or",
        "nor",
        "sel",
        "xor",
        "c",
    )
    meaning = {
        "ne": lambda a, b, c: not b,
        "a": lambda a, b, c: a, "na": lambda a, b, c: not a, "b": lambda a, b, c: b,
        "nb": lambda a, b, c: not b, "g": lambda a, b, c: a, "ge": lambda a, b, c: not a,
        "not": lambda a, b, c: not a, "ab": lambda a, b, c: a and b,
        "anb": lambda a, b, c: a and not b, "or": lambda a, b, c: a or b,
        "nor": lambda a, b, c: not a and not b, "sel": lambda a, b, c: b if a else not b,
        "xor": lambda a, b, c: a != b, "c": lambda a, b, c: c,
    }  # fmt: skip
    rows = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    for left in names:
        for right in names:
            pairs = [(bool(meaning[left](*r)), bool(meaning[right](*r))) for r in rows]
            p, q = value_named(function, left), value_named(function, right)
            assert facts.implies(p, q) == all(y or not x for x, y in pairs), (left, right)
            assert facts.exclusive(p, q) == all(not (x and y) for x, y in pairs), (left, right)
            assert facts.complementary(p, q) == all(x != y for x, y in pairs), (left, right)


def test_predicates_of_floats_know_nan() -> None:
    function = kernel(
        "  %u = load f32 %x\n  %w = load f32 %y\n"
        "  %lt, %nlt = fcmp (i1, i1) %u, %w {predicate = olt}\n"
        "  %ge, _ = fcmp (i1, i1) %u, %w {predicate = oge}\n"
        "  %uge, _ = fcmp (i1, i1) %u, %w {predicate = uge}\n"
        "  %gt, _ = fcmp (i1, i1) %w, %u {predicate = ogt}\n"
    )
    facts = predicates(function)
    lt, nlt, ge, uge, gt = (value_named(function, n) for n in ("lt", "nlt", "ge", "uge", "gt"))
    assert facts.complementary(lt, nlt) and facts.complementary(lt, uge)
    assert not facts.complementary(lt, ge)
    assert facts.implies(gt, lt) and facts.implies(lt, gt)


FLOATS = {
    "false": "", "oeq": "=", "ogt": ">", "oge": ">=", "olt": "<", "ole": "<=", "one": "<>",
    "ord": "<=>", "uno": "?", "ueq": "?=", "ugt": "?>", "uge": "?>=", "ult": "?<", "ule": "?<=",
    "une": "?<>", "true": "?<=>",
}  # fmt: skip
"""The outcomes of a comparison (less, equal, greater, unordered) where a relation holds."""
_MIRROR = str.maketrans("<>", "><")


def test_relations_of_floats_hold_for_outcomes() -> None:
    """Whatever is said to follow does, for each relation, its complement, and swapped operands."""
    lines, outcomes = list[str](), dict[str, set[str]]()
    for word, relation in FLOATS.items():
        for swapped in (False, True):
            name, sides = f"{word}{'_s' * swapped}", ("%w, %u" if swapped else "%u, %w")
            lines.append(f"  %{name}, %not_{name} = fcmp (i1, i1) {sides} {{predicate = {word}}}\n")
            outcomes[name] = set(relation.translate(_MIRROR) if swapped else relation)
            outcomes[f"not_{name}"] = set("<=>?") - outcomes[name]
    loads = "  %u = load f32 %x\n  %w = load f32 %x\n"
    function = kernel(loads + "".join(lines))
    facts = predicates(function)
    followed = 0
    for left, first in outcomes.items():
        for right, second in outcomes.items():
            p, q = value_named(function, left), value_named(function, right)
            if facts.implies(p, q):
                followed += left != right
                assert first <= second, (left, right)
            if facts.exclusive(p, q):
                assert not first & second, (left, right)
        complement = left.removeprefix("not_") if "not_" in left else f"not_{left}"
        assert facts.exclusive(value_named(function, left), value_named(function, complement))
    assert followed > 200


def test_covers_and_long_chains() -> None:
    chain = "".join(f"  %x{i + 1} = xor i1 %x{i}, %c\n" for i in range(3000))
    function = kernel(PREDICATES + "  %x0 = xor i1 %a, true\n" + chain)
    facts = predicates(function)
    a, b, nor, anb = (value_named(function, n) for n in ("a", "b", "nor", "anb"))
    assert facts.covers((a, b, nor)) and not facts.covers((a, b))
    assert facts.covers((anb,), (a, value_named(function, "nb")))
    last = value_named(function, "x3000")
    assert facts.implies(last, last) and not facts.implies(last, a)


@pytest.mark.parametrize(
    "step",
    [
        "%x{j} = and i1 %x{i}, %c",
        "%x{j} = or i1 %x{i}, %c",
        "%x{j} = select i1 %c, %x{i}, %b",
        "%x{j} = select i1 %x{i}, %c, %b",
        "%s{j} = splat i1<4> %x{i}\n  %x{j} = reduce i1 %s{j} {{axis = 0, combiner = or}}",
    ],
)
def test_long_chains_of_any_op_are_cut(step: str) -> None:
    """Python's stack is deeper than what is looked at, and chains are longer than that."""
    chain = "".join(f"  {step.format(i=i, j=i + 1)}\n" for i in range(2000))
    function = kernel(PREDICATES + "  %x0 = xor i1 %a, true\n" + chain)
    facts = predicates(function)
    last = value_named(function, "x2000")
    assert facts.implies(last, last) and not facts.implies(last, value_named(function, "a"))
