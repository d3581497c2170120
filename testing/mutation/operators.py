"""Mutation operators: small wrong edits of a Python source, derived from its syntax tree.

The operators are the usual ones (Jia and Harman, "An Analysis and Survey of the Development of
Mutation Testing", IEEE TSE 37(5), 2011): relational, arithmetic and logical operators replaced,
conditions negated, constants moved by one, statements and returned values left out, `min` for `max`
and `any` for `all`. Annotations, documentation and texts of messages are not changed.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

from tileir.testing.mutation.change import Change

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}

_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


def mutants(file: str, source: str) -> Iterator[Change]:
    """Every mutant of `source`, the text of `file`, in the order of its lines."""
    tree = ast.parse(source)
    skipped, spans = _left_alone(tree), _spans(tree)
    changes: list[Change] = []
    for node in ast.walk(tree):
        if node in skipped:
            continue
        for name, text in _edits(node):
            line: int = node.lineno  # type: ignore[attr-defined]
            first, last = spans[line]
            changed = _replace_node(source, node, text)
            context = "\n".join(changed.splitlines()[first - 1 : last])
            if _is_python(context):
                changes.append(Change(file, line, name, changed, context))
    return iter(sorted(changes, key=lambda c: (c.line, c.name, c.key)))


def _spans(tree: ast.Module) -> dict[int, tuple[int, int]]:
    """The first and last line of the innermost definition, or the statement at module level, around
    every line."""
    spans: dict[int, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if node in tree.body or isinstance(node, ast.FunctionDef | ast.ClassDef):
            decorators: list[ast.expr] = getattr(node, "decorator_list", [])
            first: int = min([node.lineno, *(d.lineno for d in decorators)])  # type: ignore[attr-defined]
            last: int = node.end_lineno  # type: ignore[attr-defined]
            for line in range(first, last + 1):
                old = spans.get(line)
                if old is None or last - first < old[1] - old[0]:
                    spans[line] = (first, last)
    return spans


def _edits(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The edits of `node`: a name, and the new text."""
    edit = _EDITS.get(type(node))
    if edit is not None:
        old = ast.unparse(node)
        for new in edit(node):
            text = ast.unparse(new)
            short = f"{old!r} -> {text!r}" if len(old) < 60 else f"{old[:57]!r}... -> {text[:60]!r}"
            yield short, f"({text})" if isinstance(new, ast.expr) else text


def _compare(node: ast.Compare) -> Iterator[ast.AST]:
    for index, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            new = copy.deepcopy(node)
            new.ops[index] = other()
            yield new


def _arithmetic(node: ast.BinOp) -> Iterator[ast.AST]:
    other = _ARITHMETIC.get(type(node.op))
    if other is not None and not _is_text(node):
        yield ast.BinOp(node.left, other(), node.right)


def _logic(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)


def _unary(node: ast.UnaryOp) -> Iterator[ast.AST]:
    yield node.operand


def _constant(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)


def _choice(node: ast.IfExp) -> Iterator[ast.AST]:
    yield ast.IfExp(node.test, node.orelse, node.body)


def _call(node: ast.Call) -> Iterator[ast.AST]:
    if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield ast.Call(ast.Name(_CALLS[node.func.id]), node.args, node.keywords)


def _return(node: ast.Return) -> Iterator[ast.AST]:
    if node.value is not None and not _is_nothing(node.value):
        yield ast.Return(ast.Constant(None))


def _statement(node: ast.Expr) -> Iterator[ast.AST]:
    if not isinstance(node.value, ast.Constant):
        yield ast.Pass()


def _raise(node: ast.Raise) -> Iterator[ast.AST]:
    yield ast.Pass()


def _augmented_assignment(node: ast.AugAssign) -> Iterator[ast.AST]:
    yield ast.Pass()


def _jump(node: ast.Continue | ast.Break) -> Iterator[ast.AST]:
    yield ast.Break() if isinstance(node, ast.Continue) else ast.Continue()


_EDITS: dict[type[ast.AST], Callable[..., Iterator[ast.AST]]] = {
    ast.Compare: _compare,
    ast.BinOp: _arithmetic,
    ast.BoolOp: _logic,
    ast.UnaryOp: _unary,
    ast.Constant: _constant,
    ast.IfExp: _choice,
    ast.Call: _call,
    ast.Return: _return,
    ast.Expr: _statement,
    ast.Raise: _raise,
    ast.AugAssign: _augmented_assignment,
    ast.Continue: _jump,
    ast.Break: _jump,
}


_PROMISES = frozenset({"strict", "slots", "weakref_slot"})
"""Arguments that a right program does the same without."""


def _left_alone(tree: ast.Module) -> set[ast.AST]:
    """Nodes that are not changed, because their edits would have no effect: annotations, messages,
    imports under TYPE_CHECKING, arguments such as `strict` of zip, and sizes of caches."""
    nodes: set[ast.AST] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            parts = [
                node.returns,
                *(a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)),
            ]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.Call):
            parts = [k for k in node.keywords if k.arg in _PROMISES]
            parts += node.args if ast.unparse(node.func) == "lru_cache" else []
        elif _means_nothing(node):
            parts = [node]
        for part in parts:
            if part is not None:
                nodes.update(ast.walk(part))
    return nodes


def _means_nothing(node: ast.AST) -> bool:
    """Whether edits of a node have no effect: formatted texts, code for type checkers only, and
    lists of names."""
    if isinstance(node, ast.Assign):
        return "__all__" in _names(node) or _is_alias(node.value)
    typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return typing or isinstance(node, ast.JoinedStr)


def _names(node: ast.Assign) -> set[str]:
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


def _is_alias(node: ast.AST) -> bool:
    """Whether an assigned value is a union of types."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _is_text(node: ast.BinOp) -> bool:
    """Whether an addition concatenates texts."""
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in ast.walk(node)
    )


def _is_nothing(node: ast.expr) -> bool:
    """Whether a condition has the same value with None in place of `node`."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _replace_node(source: str, node: ast.AST, text: str) -> str:
    """`source` with `node` replaced by `text`."""
    lines = source.splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
    head = lines[first].encode()[: node.col_offset].decode()  # type: ignore[attr-defined]
    tail = lines[last].encode()[node.end_col_offset :].decode()  # type: ignore[attr-defined]
    # The replacement keeps the number of lines, so that positions in later lines stay valid.
    filling = "\n" * (last - first)
    inside = "(" + text + filling + ")" if filling and text.startswith("(") else text
    changed = "".join([*lines[:first], head + inside + tail, *lines[last + 1 :]])
    if filling and not text.startswith("("):
        changed = "".join([*lines[:first], head + text + tail, filling, *lines[last + 1 :]])
    return changed


def _is_python(definition: str) -> bool:
    """Whether a definition, possibly indented, is valid Python."""
    try:
        ast.parse(f"if 1:\n{definition}" if definition[:1].isspace() else definition)
    except SyntaxError:
        return False
    return True
