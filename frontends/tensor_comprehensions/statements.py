"""Statements: `C(m, n) +=! A(m, k) * B(k, n) where k in 0:8`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tileir.builder.contraction import (
    AffineBound,
    AffineIndex,
    Apply,
    Cast,
    Choose,
    Index,
    Number,
    Read,
    Reduce,
    Tensor,
    Term,
    affine,
    elementwise,
    free,
    stored_kind,
    substitute,
)
from tileir.builder.contraction.terms import parts
from tileir.frontends.sources import Wrong
from tileir.frontends.tensor_comprehensions.expressions import evaluate, size_of, term_of
from tileir.frontends.tensor_comprehensions.frame import LARGEST, Frame, Statement
from tileir.frontends.tensor_comprehensions.inference import infer_ranges

_KINDS = {"+": "sum", "*": "product", "max": "max", "min": "min"}
_JOINS = {"+": "add", "*": "mul", "max": "max", "min": "min"}


def compile_statement(frame: Frame, node: Any) -> None:
    """Add the stage of a statement. Raises Wrong."""
    names, operator, expression, clauses = _parts(node)
    name, statement = str(node.children[0]), Statement(frame)
    _clauses(statement, clauses)
    term = term_of(evaluate(statement, expression))
    indices = [_left(statement, n) for n in names]
    if len(set(indices)) != len(indices):
        raise Wrong("TIR1402", "an index stands twice on the left")
    old = frame.tensors.get(name)
    _check_left(name, statement, indices, old)
    spans = infer_ranges(
        list(statement.indices.values()), statement.ranges, statement.uses, statement.guarded
    )
    _check_reads(term, spans)
    begin, operator = operator.endswith("!"), operator.rstrip("!").rstrip("=")
    inner = [(i, span) for i, span in spans.items() if i not in indices]
    if not operator and any(i in free(term) for i, _ in inner):
        raise Wrong("TIR1405", f"{inner[0][0]} stands on the right alone, which needs a reduction")
    reduce = Reduce(_KINDS[operator], tuple(inner), term) if operator else term
    joined = _JOINS[operator] if operator and not begin else None
    _write(frame, node, name, indices, spans, reduce, joined)


def _parts(node: Any) -> tuple[list[str], str, Any, Any]:
    if node.data == "scalar":
        _, operator, expression, clauses = node.children
        return [], str(operator), expression, clauses
    _, names, operator, expression, clauses = node.children
    listed = [] if names is None else [str(n) for n in names.children]
    return listed, str(operator), expression, clauses


def _clauses(statement: Statement, clauses: Any) -> None:
    for node in [] if clauses is None else clauses.children:
        with statement.frame.source.at(node):
            if node.data == "ranged":
                name, low, high = node.children
                index = _left(statement, str(name))
                bounds = size_of(statement, low), size_of(statement, high)
                statement.ranges[index] = range(bounds[0], max(bounds))
            elif node.data == "let":
                name, value = node.children
                _left(statement, str(name))
                statement.lets[str(name)] = evaluate(statement, value)
                statement.indices.pop(str(name), None)
            else:
                evaluate(statement, node.children[0])


def _left(statement: Statement, name: str) -> Index:
    """A name that has to be an index. Raises Wrong."""
    frame = statement.frame
    if name in frame.tensors or name in frame.sizes or name in statement.lets:
        raise Wrong("TIR1402", f"{name} is not an index: it stands for something else")
    return statement.index(name)


def _check_left(
    name: str, statement: Statement, indices: Sequence[Index], old: Tensor | None
) -> None:
    if name in statement.frame.sizes:
        raise Wrong("TIR1402", f"{name} is a size")
    if old is None:
        return
    if len(old.shape) != len(indices):
        raise Wrong("TIR1403", f"{name} has {len(old.shape)} dimensions, not {len(indices)}")
    statement.uses += [(affine(i), n) for i, n in zip(indices, old.shape, strict=True)]


def _check_reads(term: Term, spans: Mapping[Index, range]) -> None:
    """Check that no read leaves its tensor; conditional reads are not checked."""
    if any(not span for span in spans.values()):
        return
    if isinstance(term, Read):
        for position, extent in zip(term.at, term.tensor.shape, strict=True):
            if isinstance(position, AffineIndex) and not AffineBound(position, 0, extent).holds(
                spans
            ):
                result = position.interval(spans)
                message = f"{position} is {result.start} to {result.stop - 1} here"
                raise Wrong("TIR1406", f"{message}, and {term.tensor.name} has {extent} elements")
    if isinstance(term, Choose) or (isinstance(term, Apply) and term.name == "select"):
        return
    for part in parts(term):
        _check_reads(part, spans)


def _write(
    frame: Frame,
    node: Any,
    name: str,
    indices: Sequence[Index],
    spans: Mapping[Index, range],
    term: Term,
    joined: str | None,
) -> None:
    """The next tensor of a name: within the ranges of the indices `term`, combined with the current
    elements; elsewhere the current elements."""
    old = frame.tensors.get(name)
    shape = _shape(indices, spans) if old is None else old.shape
    if prod(shape) >= LARGEST:
        raise Wrong("TIR1403", f"{name} has 2^31 elements or more")
    element = stored_kind(term) if old is None else old.element
    if joined is not None and old is None:
        old = frame.fresh[name] = Tensor(name, element, shape)
    places = {i: Index(i.name) for i in indices}
    at = tuple(affine(places[i]) for i in indices)
    before: Term = Number(0) if old is None else Read(old, at)
    term = substitute(term, {i: affine(place) for i, place in places.items()})
    term = term if joined is None else Apply(joined, (before, term))
    where = [AffineBound(affine(places[i]), spans[i].start, spans[i].stop) for i in indices]
    box = {places[i]: range(n) for i, n in zip(indices, shape, strict=True)}
    missing = [b for b in where if 0 not in shape and b.beyond(box) is not None]
    if missing:
        term = Choose(tuple(missing), term, _like(before, term))
    output = Tensor(name, element, shape)
    place = frame.source.place(node)
    frame.stages.append(elementwise(output, tuple(places.values()), term, place))
    frame.tensors[name] = output


def _like(before: Term, term: Term) -> Term:
    """0 of the type of `term`."""
    return Cast(stored_kind(term), Number(0)) if isinstance(before, Number) else before


def _shape(indices: Sequence[Index], spans: Mapping[Index, range]) -> tuple[int, ...]:
    """The extents of a new tensor: from 0 to the end of each range."""
    for index in indices:
        span = spans[index]
        if span and span.start < 0:
            raise Wrong("TIR1404", f"{index} goes from {span.start}, and tensors begin at 0")
    return tuple(spans[i].stop if spans[i] else 0 for i in indices)
