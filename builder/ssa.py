"""Blocks under construction and their SSA variables (Braun et al., CC 2013).

A variable is read by asking the current block, then its predecessors; where several join, a
block parameter is made, and removed again when it turns out to stand for one value only. A block
is *sealed* once no further edge can reach it; until then a read makes a parameter whose arguments
are filled in on sealing. Nothing here recurses, so long programs need no deep stack.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from tileir.errors import Location
from tileir.ir import Block
from tileir.op import Op, Successor
from tileir.types import Type
from tileir.values import Operand, Undef, Value


@attrs.frozen(eq=False)
class SsaVariable:
    """A mutable name of one type in the program being built."""

    type: Type
    name: str | None = None


@attrs.frozen(eq=False)
class OpenEdge:
    """A branch from `source` to `target`; `arguments` are those for its declared parameters."""

    source: OpenBlock
    target: OpenBlock
    arguments: tuple[Operand, ...] = ()


@attrs.frozen(eq=False)
class Ending:
    """A terminator whose successors are not known in full yet.

    `fields` are its operands and attributes, `edges` its successors by field name.
    """

    kind: type[Op]
    fields: dict[str, Any]
    edges: dict[str, OpenEdge]
    location: Location | None


@attrs.define(eq=False)
class OpenBlock:
    """A block under construction."""

    label: str
    parameters: tuple[Value, ...] = ()
    ops: list[Op] = attrs.field(factory=list[Op])
    end: Ending | None = None
    entering: list[OpenEdge] = attrs.field(factory=list[OpenEdge])
    sealed: bool = False
    definitions: dict[SsaVariable, Operand] = attrs.field(factory=dict[SsaVariable, Operand])
    phis: list[OpenPhi] = attrs.field(factory=lambda: list[OpenPhi]())


@attrs.define(eq=False)
class OpenPhi:
    """A block parameter made for a variable; one argument per entering edge, in order."""

    value: Value
    block: OpenBlock
    variable: SsaVariable
    arguments: list[Operand] = attrs.field(factory=list[Operand])
    users: list[OpenPhi] = attrs.field(factory=lambda: list[OpenPhi]())


class Graph:
    """The blocks of one function: adding edges, sealing, reading and writing variables."""

    def __init__(self) -> None:
        self.blocks: dict[OpenBlock, None] = {}
        """Those that were entered, in order."""
        self._replaced: dict[Value, Operand] = {}
        self._phis: dict[Value, OpenPhi] = {}

    @property
    def entry(self) -> OpenBlock:
        """The first block."""
        return next(iter(self.blocks))

    def write(self, variable: SsaVariable, block: OpenBlock, value: Operand) -> None:
        """Set the value of `variable` from here on in `block`."""
        block.definitions[variable] = value

    def read(self, variable: SsaVariable, block: OpenBlock) -> Operand:
        """The value of `variable` at the current end of `block`."""
        waiting: list[OpenPhi] = []
        result = self._find(variable, block, waiting)
        self._complete(waiting)
        return self.resolve(result)

    def seal(self, block: OpenBlock) -> None:
        """Promise that no further edge will reach `block`."""
        if not block.sealed:
            block.sealed = True
            self._complete(list(block.phis))

    def resolve(self, value: Operand) -> Operand:
        """`value`, or what the removed block parameter it names stood for."""
        while isinstance(value, Value) and value in self._replaced:
            value = self._replaced[value]
        return value

    def close(self) -> dict[str, Block]:
        """The finished blocks, in order; those that no path reaches are left out."""
        for block in self.blocks:
            self.seal(block)
        live = reachable(self.entry)
        self._forget_edges_from_others(live)
        env = {phi: self.resolve(phi) for phi in self._replaced}
        return {b.label: self._close(b, env) for b in self.blocks if b in live}

    # Finding a definition -----------------------------------------------------------------

    def _find(self, variable: SsaVariable, block: OpenBlock, waiting: list[OpenPhi]) -> Operand:
        """The definition reaching the end of `block`; parameters made on the way wait for
        their arguments in `waiting`."""
        passed: dict[OpenBlock, None] = {}
        while (definition := block.definitions.get(variable)) is None:
            passed[block] = None
            if block.sealed and len(block.entering) == 1:
                block = block.entering[0].source
                if block not in passed:
                    continue
            definition = self._at_join(variable, block, waiting)
            break
        for below in passed:
            below.definitions[variable] = definition
        return definition

    def _at_join(self, variable: SsaVariable, block: OpenBlock, waiting: list[OpenPhi]) -> Operand:
        if block.sealed and len(block.entering) < 2:  # no path from the entry comes here
            return Undef(variable.type)
        phi = OpenPhi(Value(variable.type, variable.name), block, variable)
        self._phis[phi.value] = phi
        block.phis.append(phi)
        block.definitions[variable] = phi.value
        if block.sealed:
            waiting.append(phi)
        return phi.value

    def _complete(self, waiting: list[OpenPhi]) -> None:
        """Give the phis in `waiting` their arguments, then remove the trivial ones."""
        phis: list[OpenPhi] = []
        while waiting:
            phi = waiting.pop()
            phis.append(phi)
            for edge in phi.block.entering:
                argument = self.resolve(self._find(phi.variable, edge.source, waiting))
                phi.arguments.append(argument)
                self._use(argument, phi)
        self._simplify(phis)

    def _use(self, argument: Operand, user: OpenPhi) -> None:
        if isinstance(argument, Value) and (phi := self._phis.get(argument)) is not None:
            phi.users.append(user)

    # Removing trivial phis ------------------------------------------------------------------

    def _simplify(self, phis: list[OpenPhi]) -> None:
        """Remove phis that stand for one value, and those that become so by it."""
        work = list(phis)
        while work:
            phi = work.pop()
            if phi.value in self._replaced:
                continue
            same = self._only_value(phi)
            if same is None:
                continue
            self._replaced[phi.value] = same
            phi.block.phis.remove(phi)
            for user in phi.users:
                self._use(same, user)
            work.extend(phi.users)

    def _only_value(self, phi: OpenPhi) -> Operand | None:
        """The one value a phi stands for besides itself, or None where there are several."""
        if not phi.block.sealed:
            return None
        same: Operand | None = None
        for argument in phi.arguments:
            result = self.resolve(argument)
            if result is phi.value or result is same or result == same:
                continue
            if same is not None:
                return None
            same = result
        return Undef(phi.variable.type) if same is None else same

    # Closing --------------------------------------------------------------------------------

    def _forget_edges_from_others(self, live: set[OpenBlock]) -> None:
        """Drop edges that leave blocks not in `live`, with the arguments they carry."""
        changed: list[OpenPhi] = []
        for block in self.blocks:
            alive = [edge.source in live for edge in block.entering]
            if block in live and not all(alive):
                for phi in block.phis:
                    phi.arguments = _where(phi.arguments, alive)
                block.entering = _where(block.entering, alive)
                changed.extend(block.phis)
        self._simplify(changed)

    def _close(self, block: OpenBlock, env: dict[Value, Operand]) -> Block:
        ops = [op.remap(env) for op in block.ops] if env else list(block.ops)
        if block.end is not None:
            ops.append(self._terminator(block.end, env))
        parameters = (*block.parameters, *(phi.value for phi in block.phis))
        return Block(block.label, parameters, tuple(ops))

    def _terminator(self, end: Ending, env: dict[Value, Operand]) -> Op:
        edges: dict[str, Any] = {n: self._successor(edge) for n, edge in end.edges.items()}
        op = end.kind(**end.fields, **edges, location=end.location)
        return op.remap(env) if env else op

    def _successor(self, edge: OpenEdge) -> Successor:
        """The edge with one argument per parameter of its target."""
        target = edge.target
        if not target.phis:
            return Successor(target.label, edge.arguments)
        index = next(i for i, e in enumerate(target.entering) if e is edge)
        extra = [self.resolve(phi.arguments[index]) for phi in target.phis]
        return Successor(target.label, (*edge.arguments, *extra))


def _where(items: list[Any], keep: Iterable[bool]) -> list[Any]:
    return [item for item, flag in zip(items, keep, strict=True) if flag]


def reachable(entry: OpenBlock) -> set[OpenBlock]:
    """`entry` and every block a path leads to from it."""
    open_blocks, work = {entry}, [entry]
    while work:
        end = work.pop().end
        for edge in end.edges.values() if end is not None else ():
            if edge.target not in open_blocks:
                open_blocks.add(edge.target)
                work.append(edge.target)
    return open_blocks
