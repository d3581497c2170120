"""A kernel definition with its names resolved: symbols, Funcs, schedules, and what is compiled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import attrs

from tileir import Location
from tileir.frontends.decoupled import schedule as schedules
from tileir.frontends.decoupled.errors import error_at
from tileir.frontends.decoupled.nodes import (
    Access,
    Declaration,
    Definition,
    Directive,
    Label,
    Length,
    Node,
    Number,
    Reduction,
    Reshape,
    ScalarInput,
    Shape,
    accesses,
)
from tileir.frontends.decoupled.schedule import Schedule
from tileir.frontends.decoupled.shapes import check_result


@attrs.frozen
class Symbol:
    """A declared name: its kind is `Func`, `In`, `SIn`, `Var` or `RVar` (Table 3.1)."""

    name: str
    kind: str
    place: Location


@attrs.frozen
class Func:
    """A tensor function: `name[labels] = value`, and how it is computed. `combine` names the
    atomic operation by which blocks join their parts of a reduction."""

    name: str
    labels: tuple[str, ...]
    value: Node
    place: Location | None = attrs.field(default=None, eq=False)
    schedule: Schedule = attrs.field(factory=Schedule)
    combine: str | None = None


@attrs.frozen(slots=False)
class Definitions:
    """All of a kernel definition. `shapes` are those of the expressions in it."""

    symbols: Mapping[str, Symbol]
    funcs: Mapping[str, Func]
    shapes: dict[Node, Shape] = attrs.field(factory=dict, eq=False, repr=False)

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of a kind, as declared."""
        return tuple(s.name for s in self.symbols.values() if s.kind == kind)

    @property
    def compiled_funcs(self) -> tuple[str, ...]:
        """Funcs that `compile` is applied to."""
        return tuple(f.name for f in self.funcs.values() if f.schedule.compiled)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of every Func in dependence order."""
        return {func.name: i for i, func in enumerate(topological_order(self))}

    @cached_property
    def readers(self) -> Mapping[str, Sequence[str]]:
        """The Funcs that read a tensor, by its name."""
        result: dict[str, list[str]] = {}
        for func in self.funcs.values():
            for name in {access.name: None for access in accesses(func.value)}:
                result.setdefault(name, []).append(func.name)
        return result

    @cached_property
    def direct_members(self) -> Mapping[str, Sequence[str]]:
        """The Funcs that are fused directly into a Func, by its name."""
        result: dict[str, list[str]] = {}
        for func in self.funcs.values():
            if func.schedule.fusion:
                result.setdefault(func.schedule.fusion.into, []).append(func.name)
        return result

    @cached_property
    def fusion_roots(self) -> Mapping[str, str]:
        """The Func in whose kernel a Func is computed, by its name; the Func itself if it is fused
        into itself, directly or through others."""
        roots: dict[str, str] = {}
        for start in self.funcs:
            name, path = start, dict[str, None]()
            while name not in roots and name not in path:
                path[name] = None
                fusion = self.funcs[name].schedule.fusion
                if fusion is not None and fusion.into in self.funcs:
                    name = fusion.into
            in_circle = name in path
            for func in reversed(path):
                roots[func] = func if in_circle else roots[name]
                in_circle = in_circle and func != name
        return roots


def definitions(statements: Sequence[Declaration | Definition | Directive]) -> Definitions:
    """Check declarations and algorithms, and gather schedules. Raises CompilationError."""
    symbols: dict[str, Symbol] = {}
    for statement in statements:
        if isinstance(statement, Declaration):
            _declare(symbols, statement)
    result = Definitions(symbols, _funcs(symbols, statements))
    _check_ranks(result)
    funcs_in_order = topological_order(result)
    for func in funcs_in_order:
        check_result(func.value, func.labels, result.shapes)
    return add_directives(result, [s for s in statements if isinstance(s, Directive)])


def add_directives(definitions_: Definitions, directives: Sequence[Directive]) -> Definitions:
    """Add scheduling primitives. Raises CompilationError."""
    funcs = dict(definitions_.funcs)
    for directive in directives:
        func = funcs.get(directive.name)
        if func is None:
            kind = definitions_.symbols.get(directive.name)
            what = f"{directive.name} is declared as {kind.kind}" if kind else "no such Func"
            message = f"scheduling primitives are applied to a Func: {what}"
            raise error_at(message, directive.place, "TIR1202")
        schedule = schedules.apply(func.schedule, directive)
        funcs[directive.name] = attrs.evolve(func, schedule=schedule)
    return attrs.evolve(definitions_, funcs=funcs)


def _declare(symbols: dict[str, Symbol], declaration: Declaration) -> None:
    for name, place in declaration.names:
        if name in symbols:
            before = symbols[name]
            message = f"{name} is declared as {before.kind} at {before.place}"
            raise error_at(message, place, "TIR1202")
        symbols[name] = Symbol(name, declaration.kind, place)


def _funcs(
    symbols: Mapping[str, Symbol], statements: Sequence[Declaration | Definition | Directive]
) -> dict[str, Func]:
    funcs: dict[str, Func] = {}
    for statement in statements:
        if isinstance(statement, Definition):
            if statement.name in funcs:
                message = f"{statement.name} is defined at {funcs[statement.name].place}"
                raise error_at(message, statement.place, "TIR1202")
            funcs[statement.name] = _define(symbols, statement)
    for symbol in symbols.values():
        if symbol.kind == "Func" and symbol.name not in funcs:
            raise error_at(f"Func {symbol.name} has no algorithm", symbol.place, "TIR1202")
    return funcs


def _define(symbols: Mapping[str, Symbol], statement: Definition) -> Func:
    _expect(symbols, statement.name, ("Func",), statement.place)
    times = Counter(statement.labels)
    for label in statement.labels:
        _expect(symbols, label, ("Var", "RVar"), statement.place)
        if times[label] > 1:
            message = f"{label} is two dimensions of {statement.name}"
            raise error_at(message, statement.place, "TIR1203")
    value = _resolve(symbols, statement.value)
    return Func(statement.name, statement.labels, value, statement.place)


def _expect(
    symbols: Mapping[str, Symbol], name: str, kinds: tuple[str, ...], place: Location | None
) -> None:
    symbol = symbols.get(name)
    if symbol is None:
        raise error_at(f"{name} is not declared", place, "TIR1202")
    if symbol.kind not in kinds:
        message = f"{name} is declared as {symbol.kind}; here stands {' or '.join(kinds)}"
        raise error_at(message, place, "TIR1202")


def _resolve(symbols: Mapping[str, Symbol], node: Node) -> Node:
    """`node` with names told apart. Raises CompilationError."""
    if isinstance(node, Label):
        return _resolve_label(symbols, node)
    if isinstance(node, Access):
        _expect(symbols, node.name, ("In", "Func"), node.place)
        for label in node.labels:
            _expect(symbols, label, ("Var", "RVar"), node.place)
        return node
    if isinstance(node, Reduction):
        _expect(symbols, node.label, ("RVar",), node.place)
    if isinstance(node, Length):
        _expect(symbols, node.label, ("Var", "RVar"), node.place)
    if isinstance(node, Reshape):
        for label in filter(None, node.shape):
            _expect(symbols, label, ("Var", "RVar"), node.place)
    return with_operands(node, [_resolve(symbols, n) for n in node.operands])


def _resolve_label(symbols: Mapping[str, Symbol], node: Label) -> Node:
    if node.name == "inf" and node.name not in symbols:
        return Number(math.inf, place=node.place)
    _expect(symbols, node.name, ("SIn", "Var", "RVar"), node.place)
    return ScalarInput(node.name, place=node.place) if symbols[node.name].kind == "SIn" else node


def with_operands(node: Node, operands: Sequence[Node]) -> Node:
    """`node` made of other expressions."""
    if tuple(operands) == node.operands:
        return node
    names = {field.name for field in attrs.fields(type(node))}
    if "left" in names:
        return attrs.evolve(node, left=operands[0], right=operands[1])  # type: ignore[call-arg]
    name = next(n for n in ("value", "arguments", "values") if n in names)
    operand = operands[0] if name == "value" else tuple(operands)
    return attrs.evolve(node, **{name: operand})  # type: ignore[arg-type]


def _check_ranks(defined: Definitions) -> None:
    ranks: dict[str, tuple[int, Location | None]] = {
        func.name: (len(func.labels), func.place) for func in defined.funcs.values()
    }
    for func in defined.funcs.values():
        for access in accesses(func.value):
            rank, place = ranks.setdefault(access.name, (len(access.labels), access.place))
            if rank != len(access.labels):
                message = f"{access.name} has rank {rank} at {place}, not {len(access.labels)}"
                raise error_at(message, access.place, "TIR1203")


def topological_order(defined: Definitions) -> tuple[Func, ...]:
    """Funcs, each after those it depends on. Raises CompilationError where there is a circle."""
    done: dict[str, Func] = {}
    entered: dict[str, None] = {}

    def visit(name: str, place: Location | None) -> None:
        if name in done or name not in defined.funcs:
            return
        if name in entered:
            raise error_at(f"{name} depends on itself", place, "TIR1202")
        if len(entered) - len(done) > 100:
            raise error_at("more than 100 Funcs depend on each other", place)
        entered[name] = None
        for access in accesses(defined.funcs[name].value):
            visit(access.name, access.place)
        done[name] = defined.funcs[name]

    for func in defined.funcs.values():
        visit(func.name, func.place)
    return tuple(done.values())
