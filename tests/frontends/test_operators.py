"""Binary operators of the languages read by a lark grammar: which of them bind first, where an
operation begins, and how much work reading them takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.counting import calls_of
from tests.sizes import for_each
from tileir.frontends.decoupled import reading as decoupled
from tileir.frontends.extras import lark
from tileir.frontends.tensor_comprehensions import program as tensor_comprehensions
from tileir.frontends.tile import program as tile
from tileir.frontends.triton_c import reading as triton_c

C_LEVELS = ("|", "^", "&", "== !=", "<= >= < >", "<< >>", "+ -", "* / %")
LANGUAGES: dict[str, tuple[int, Callable[[], Any], tuple[str, ...], str]] = {
    "Tile": (
        52_000,
        tile._grammar,
        ("| ||", "^", "& &&", *C_LEVELS[3:]),
        "function (A[M]) -> (O) { B = @; O[i: M] = +(A[i]); }",
    ),
    "Tensor Comprehensions": (
        52_000,
        tensor_comprehensions._grammar,
        ("||", "&&", "== !=", "< <= > >=", "+ -", "* / %"),
        "def f(float(M) A) -> (C) { C(m) = @ }",
    ),
    "Decoupled": (
        52_000,
        decoupled._grammar,
        ("<= >= == != < >", "+ -", "* / %"),
        "In A;\nB[i] = @;\n",
    ),
    "Triton-C": (
        84_000,
        triton_c._grammar,
        ("||", "&&", *C_LEVELS),
        "kernel void k(int n) { n = @; }",
    ),
}
"""Calls per KiB, the grammar, its operators from the lowest precedence, and a program."""


def split_operators(parts: list[str], levels: tuple[str, ...]) -> Any:
    """Operands with operators between them, as triples: split at the last operator of the lowest
    precedence."""
    if len(parts) == 1:
        return parts[0]
    level = {sign: n for n, signs in enumerate(levels) for sign in signs.split()}
    lowest = min(level[sign] for sign in parts[1::2])
    at = max(n for n in range(1, len(parts), 2) if level[parts[n]] == lowest)
    return split_operators(parts[:at], levels), parts[at], split_operators(parts[at + 1 :], levels)


def triples(tree: Any) -> Any:
    """The same of a tree; checks that it begins at the first of its names."""
    if tree.data != "binary":
        return str(tree.children[0])
    left, sign, right = tree.children
    first = next(tree.scan_values(lambda token: token.type == "NAME"))
    assert (tree.meta.line, tree.meta.column) == (first.line, first.column)
    return triples(left), str(sign), triples(right)


def operation(tree: Any) -> Any:
    """The outermost operation of a program."""
    return next(t for t in tree.iter_subtrees_topdown() if t.data == "binary")


@for_each(("name", "seed"), [(name, seed) for name in LANGUAGES for seed in range(60)])
def test_operations_are_nested_by_precedence(name: str, seed: int) -> None:
    draw = random.Random(seed)
    _, grammar, levels, program = LANGUAGES[name]
    signs = " ".join(levels).split()
    parts = ["a"]
    for n in range(draw.randrange(1, 9)):
        parts += [draw.choice(signs), f"b{n}"]
    text = program.replace("@", draw.choice([" ", "\n", "  "]).join(parts))
    assert triples(operation(grammar().parse(text))) == split_operators(parts, levels)


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_operation_begins_at_its_parenthesis(name: str) -> None:
    _, grammar, _, program = LANGUAGES[name]
    tree = operation(grammar().parse(program.replace("@", "((a + b)) * c + d")))
    product, inner = tree.children[0], tree.children[0].children[0]
    begin = program[: program.index("@")].rpartition("\n")[2]
    assert [t.meta.column - len(begin) for t in (tree, product, inner)] == [1, 1, 3]
    assert isinstance(inner, lark.Tree) and inner.data == "binary"


@pytest.mark.parametrize("name", LANGUAGES)
def test_operations_take_few_calls(name: str) -> None:
    most, grammar, _, program = LANGUAGES[name]
    text = program.replace("@", " + ".join(["(((a))) * 2"] * 300))
    grammar().parse(text)
    calls = 1024 * calls_of(lambda: grammar().parse(text)) / len(text)
    assert calls < most, f"{calls:.0f} calls per KiB"
