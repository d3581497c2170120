"""Import of the modules of cases with smaller numbers, for machines on which the original extents
take too long.

Every integer of a module above 128 is divided by 32, but stays at least 128. Extents that are equal
stay equal, indices stay below the extents that bound them, and powers of two stay powers of two.
"""

from __future__ import annotations

import ast
import sys
from importlib.util import find_spec, module_from_spec

KEPT, DIVISOR = 128, 32
LOADED: list[str] = []
"""The modules that have been imported with smaller numbers."""


def load_small(name: str) -> None:
    """Import the module `name` with smaller numbers."""
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None, name
    LOADED.append(name)
    with open(spec.origin) as file:
        tree = shrink_numbers(ast.parse(file.read(), spec.origin))
    module = module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(tree, spec.origin, "exec"), module.__dict__)


def shrink_numbers(tree: ast.Module) -> ast.Module:
    """`tree` with smaller whole numbers."""
    return ast.fix_missing_locations(_Smaller().visit(tree))


class _Smaller(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is not int or node.value <= KEPT:
            return node
        return ast.copy_location(ast.Constant(max(KEPT, node.value // DIVISOR)), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        match node:
            case ast.BinOp(ast.Constant(int(a)), ast.LShift(), ast.Constant(int(b))):
                return self.visit_Constant(ast.copy_location(ast.Constant(a << b), node))
        return self.generic_visit(node)
