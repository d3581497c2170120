"""The parser of statements."""

from __future__ import annotations

from functools import cache
from typing import Any

from tileir import Location
from tileir.frontends.decoupled.errors import error_at
from tileir.frontends.decoupled.functions import FUNCTIONS
from tileir.frontends.decoupled.nodes import (
    Access,
    Argument,
    Binary,
    Call,
    Declaration,
    Definition,
    Directive,
    Label,
    Length,
    Node,
    Number,
    ProgramId,
    Reduction,
    Reshape,
    Unary,
)
from tileir.frontends.extras import lark
from tileir.frontends.sources import Source, grammar, parse

_DEEPEST = 100
"""Expressions within expressions."""

REDUCTIONS = {"rsum": 1, "rmax": 1, "rmin": 1, "rdot": 2}
"""Reduction primitives (Table 3.3) and how many tensors they take."""


def read(source: str, file: str) -> list[Declaration | Definition | Directive]:
    """The statements of a kernel definition. Raises CompilationError."""
    text = Source(source, file, "TIR1201")
    tree = parse(text, _grammar())
    _check_depth(text, tree)
    return [_TreeReader(text).statement(node) for node in tree.children]


_grammar = cache(lambda: grammar("tileir.frontends.decoupled", "RELATION", "SIGN", "SCALE"))


def _check_depth(source: Source, tree: Any) -> None:
    level, depth = list(tree.children), 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            deepest = next((n for n in level if hasattr(n.meta, "line")), tree)
            message = f"expressions nest more than {_DEEPEST} deep"
            raise error_at(message, source.place(deepest))
        level = [c for n in level for c in n.children if isinstance(c, lark.Tree)]


class _TreeReader:
    """Nodes of trees of the grammar."""

    def __init__(self, source: Source) -> None:
        self.place = source.place

    def statement(self, tree: Any) -> Declaration | Definition | Directive:
        """A statement. Raises CompilationError."""
        first, *children = tree.children
        if tree.data == "declaration":
            return Declaration(str(first), tuple((str(n), self.place(n)) for n in children))
        if tree.data == "definition":
            labels = tuple(str(n) for n in children[:-1])
            return Definition(str(first), labels, self.expression(children[-1]), self.place(tree))
        arguments = tuple(self._argument(a) for a in children[1:])
        return Directive(str(first), str(children[0]), arguments, self.place(tree))

    def _argument(self, tree: Any) -> Argument:
        place, parts = self.place(tree), tree.children
        if tree.data == "bare":
            return Argument(str(parts[0]), None, None, place)
        number = self._integer(parts[-1])
        if tree.data == "count":
            return Argument(None, number, None, place)
        inner = str(parts[1]) if tree.data == "split" else None
        return Argument(str(parts[0]), number, inner, place)

    def _integer(self, token: Any) -> int:
        if not token.isdigit() or len(token) > 18:
            raise error_at(f"a whole number is expected here, not {token}", self.place(token))
        return int(token)

    def expression(self, tree: Any) -> Node:
        """An expression. Raises CompilationError."""
        place, parts = self.place(tree), tree.children
        if tree.data == "number":
            return Number(_number(str(parts[0])), place=place)
        if tree.data == "name":
            return Label(str(parts[0]), place=place)
        if tree.data == "access":
            return Access(str(parts[0]), tuple(map(str, parts[1:])), place=place)
        if tree.data == "unary":
            return Unary(str(parts[0]), self.expression(parts[1]), place=place)
        if tree.data == "binary":
            left, op, right = parts
            return Binary(str(op), self.expression(left), self.expression(right), place=place)
        return self._call(str(parts[0]), [self.expression(p) for p in parts[1:]], place)

    def _call(self, name: str, operands: list[Node], place: Location) -> Node:
        if name in REDUCTIONS:
            _count(name, operands, REDUCTIONS[name] + 1, place)
            *values, last = operands
            return Reduction(name, tuple(values), _label(name, last), place=place)
        if name == "len":
            _count(name, operands, 1, place)
            return Length(_label(name, operands[0]), place=place)
        if name == "reshape":
            if not operands:
                raise error_at("reshape takes a tensor and its new shape", place, "TIR1203")
            shape = tuple(_extent(item) for item in operands[1:])
            return Reshape(operands[0], shape, place=place)
        if name == "program_id":
            if operands and operands != [Number(0)]:
                raise error_at(
                    "program instances are numbered along axis 0 alone", place, "TIR1203"
                )
            return ProgramId(place=place)
        if name not in FUNCTIONS:
            raise error_at(f"there is no function {name}", place, "TIR1202")
        _count(name, operands, FUNCTIONS[name].arity, place)
        return Call(name, tuple(operands), place=place)


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() and len(text) < 10 else float(text)


def _count(name: str, nodes: list[Node], expected: int, place: Location) -> None:
    if len(nodes) != expected:
        what = "one argument" if expected == 1 else f"{expected} arguments"
        raise error_at(f"{name} takes {what}, not {len(nodes)}", place, "TIR1203")


def _label(name: str, node: Node) -> str:
    if not isinstance(node, Label):
        what = "a dimension" if name == "len" else "a reduction dimension, last"
        raise error_at(f"{name} takes {what}", node.place, "TIR1203")
    return node.name


def _extent(node: Node) -> str | None:
    if isinstance(node, Label):
        return node.name
    if node == Number(1):
        return None
    raise error_at("a shape is made of dimensions and ones", node.place, "TIR1203")
