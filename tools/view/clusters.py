"""Clusters of the ops of a block. An op joins the only op that reads its results, so that a graph
of clusters shows shared values and effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs

from tileir.analysis.uses import defining_blocks, uses
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.values import Operand, Value

HEAVY = frozenset({"dot", "dot_scaled", "reduce", "scan"})
"""Ops that end their cluster, as those that touch memory do."""

_MOST = 9
"""Ops of a cluster."""


@attrs.frozen(eq=False)
class Cluster:
    """Ops in program order. The results of all but the last one are read only within the
    cluster."""

    ops: tuple[Op, ...]

    @property
    def last(self) -> Op:
        """The op whose results are read by other clusters, or that has an effect."""
        return self.ops[-1]


@attrs.frozen(eq=False)
class DrawnPhi:
    """A parameter of a block, and the arguments that edges pass to it."""

    value: Value
    incoming: tuple[tuple[str, Operand], ...]


@attrs.frozen(eq=False)
class Port:
    """A value that a block reads and another block, `defining`, defines."""

    value: Value
    defining: str


def clusters(function: Function, block: Block, ops: frozenset[Op]) -> list[Cluster]:
    """The clusters of those ops of `block` that are in `ops`, in the order of their last ops."""
    readers = uses(function)
    into: dict[Op, Op] = {}
    members: dict[Op, list[Op]] = {op: [op] for op in block.ops if op in ops}
    for op in reversed(block.ops):
        reader = _only_reader(op, readers, block)
        if op in members and reader is not None and reader in members:
            root = into.get(reader, reader)
            if len(members[root]) < _MOST:
                into[op] = root
                members[root].append(op)
    number = {op: i for i, op in enumerate(block.ops)}
    roots = [op for op in block.ops if op in members and op not in into]
    return [Cluster(tuple(sorted(members[op], key=lambda o: number[o]))) for op in roots]


def _only_reader(op: Op, readers: Mapping[Value, Sequence[Op]], block: Block) -> Op | None:
    """The only op of `block` that reads the results of `op`, edges left out; None if `op` ends its
    cluster."""
    result = {id(r): r for v in op.results for r in readers.get(v, ())}
    if op.effects is not Effects.PURE or op.mnemonic in HEAVY or len(result) != 1:
        return None
    (reader,) = result.values()
    passed = any(a in op.results for s in reader.successors for a in s.arguments)
    return None if passed or all(reader is not o for o in block.ops) else reader


def phis(function: Function, block: Block, values: frozenset[Value]) -> list[DrawnPhi]:
    """The parameters of `block` that are in `values`, with the arguments that edges pass to
    them."""
    result: list[DrawnPhi] = []
    for i, value in enumerate(block.parameters):
        if value in values:
            incoming = [
                (other.label, edge.arguments[i])
                for other in function.blocks.values()
                for edge in other.terminator.successors
                if edge.label == block.label
            ]
            result.append(DrawnPhi(value, tuple(incoming)))
    return result


def ports(function: Function, block: Block, ops: Sequence[Op]) -> list[Port]:
    """The values that `ops` of `block` read and other blocks define. Parameters of the function are
    left out, since any op may read them."""
    defining, parameters = defining_blocks(function), {p.value for p in function.parameters}
    read = dict.fromkeys(v for op in ops for v in op.inputs if isinstance(v, Value))
    return [
        Port(v, defining[v]) for v in read if v not in parameters and defining[v] != block.label
    ]


def slice_of(function: Function, value: Value | None) -> tuple[frozenset[Op], frozenset[Value]]:
    """The ops and block parameters from which `value` is computed, and those that are computed from
    it; all of them if `value` is None."""
    every = [v for block in function.blocks.values() for v in block.parameters]
    if value is None:
        return frozenset(function.ops), frozenset(every)
    result = {v: op for op in function.ops for v in op.results}
    passed: dict[Value, list[Value]] = {}
    for block in function.blocks.values():
        for source, target in _edge_arguments(function, block):
            passed.setdefault(target, []).append(source)
    back = _closure(value, lambda v: [*_inputs(result.get(v)), *passed.get(v, ())])
    readers, targets = uses(function), dict[Value, list[Value]]()
    for target, sources in passed.items():
        for source in sources:
            targets.setdefault(source, []).append(target)
    ahead = _closure(
        value,
        lambda v: [*(r for op in readers.get(v, ()) for r in op.results), *targets.get(v, ())],
    )
    values = back | ahead
    ops = {result[v] for v in values if v in result}
    ops |= {op for v in ahead for op in readers.get(v, ()) if not op.results and not op.successors}
    return frozenset(ops), frozenset(v for v in every if v in values)


def _edge_arguments(function: Function, block: Block) -> Iterator[tuple[Value, Value]]:
    """Yield the arguments of the edges that leave `block`, each with its block parameter."""
    for edge in block.terminator.successors:
        parameters = function.blocks[edge.label].parameters
        for argument, parameter in zip(edge.arguments, parameters, strict=True):
            if isinstance(argument, Value):
                yield argument, parameter


def _inputs(op: Op | None) -> list[Value]:
    return [] if op is None else [v for v in op.operands if isinstance(v, Value)]


def _closure(start: Value, step: Callable[[Value], Iterable[Value]]) -> set[Value]:
    """All values that are reachable from `start` by `step`."""
    values, pending = {start}, [start]
    while pending:
        for value in step(pending.pop()):
            if value not in values:
                values.add(value)
                pending.append(value)
    return values
