"""Passes and analyses ask ops for traits. Literal sets of op names are counted, and may only
become fewer: an op of another package is in none of them.

Rules, which say what one op becomes, are left out, as are files of ops.
"""

import ast
from pathlib import Path

from tileir.op import all_ops

ROOT = Path(__file__).resolve().parents[1]
LEFT = 74
"""Sets that stand in the tree. Lower it when one becomes a trait."""


def op_name_sets(text: str, names: set[str]) -> list[int]:
    """The lines of `text` with a literal of two or more op names and nothing else."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Set | ast.Tuple | ast.List)
        and len(node.elts) > 1
        and all(isinstance(x, ast.Constant) and x.value in names for x in node.elts)
    ]


def test_sets_of_op_names_become_fewer():
    names = {cls.mnemonic for cls in all_ops()}
    found = []
    for folder in ("tileir", "backend"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if "rules" not in place and not place.startswith("tileir/ops/"):
                found += [f"{place}:{line}" for line in op_name_sets(path.read_text(), names)]
    assert len(found) == LEFT, "\n".join(found)


def test_a_set_of_op_names_is_found():
    assert op_name_sets('MOVERS = ("splat", "broadcast")', {"splat", "broadcast"}) == [1]
    assert op_name_sets('PAIR = ("splat", "other")', {"splat", "broadcast"}) == []
