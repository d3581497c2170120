"""Passes and analyses ask ops for traits. Literal sets of op names are counted, and may only
become fewer: an op of another package is in none of them.

Rules, which say what one op becomes, are left out, as are files of ops.
"""

import ast
from collections.abc import Iterable

from tests.sources import ROOT, files, nodes
from tileir.op import all_ops

LITERALS = (ast.Set, ast.Tuple, ast.List)
LEFT = 74
"""Sets that stand in the tree. Lower it when one becomes a trait."""


def op_name_sets(literals: Iterable[ast.AST], names: set[str]) -> list[int]:
    """The lines of sets, tuples and lists that hold two or more op names and nothing else."""
    return [
        literal.lineno
        for literal in literals
        if len(literal.elts) > 1
        and all(isinstance(x, ast.Constant) and x.value in names for x in literal.elts)
    ]


def test_sets_of_op_names_become_fewer():
    names = {cls.mnemonic for cls in all_ops()}
    results = []
    for folder in ("tileir", "backend"):
        for path in files(folder):
            place = path.relative_to(ROOT).as_posix()
            if "rules" not in place and not place.startswith("tileir/ops/"):
                results += [
                    f"{place}:{line}" for line in op_name_sets(nodes(path, *LITERALS), names)
                ]
    assert len(results) == LEFT, "\n".join(results)


def test_a_set_of_op_names_is_found():
    names = {"splat", "broadcast"}
    assert op_name_sets([ast.parse('("splat", "broadcast")', mode="eval").body], names) == [1]
    assert op_name_sets([ast.parse('("splat", "other")', mode="eval").body], names) == []
