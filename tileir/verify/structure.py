"""Blocks, terminators and edges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, cast

from tileir.analysis.cfg import cfg
from tileir.errors import Diagnostic, Location, is_text
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.verify.traits import traits

if TYPE_CHECKING:
    from tileir.ops.control import Return


_MOST_NAMED = 8
"""Most labels that a message lists."""


def check_structure(function: Function) -> Iterator[Diagnostic]:
    """The errors in the blocks of `function` and the edges between them."""
    entry = function.entry
    if entry.parameters:
        message = f"entry block {entry.label} takes no arguments; parameters are the function's"
        yield Diagnostic("TIR0205", message, place(entry, function))
    blocks = function.blocks
    reached, in_order = {entry.label}, True
    for label, block in blocks.items():
        in_order = in_order and label in reached
        if block.label != label:
            message = f"block {label} carries the label {block.label}"
            yield Diagnostic("TIR0203", message, place(block, function))
        if not (label.isascii() or is_text(label)):
            message = f"{label!r} has half of a surrogate pair, which no text can spell"
            yield Diagnostic("TIR0203", message, place(block, function))
        yield from _check_terminator(function, block)
        edges = block.successors
        for edge in edges:
            reached.add(edge.label)
            if edge.label == entry.label:
                message = f"branch to the entry block {edge.label}; start the loop in another block"
                yield Diagnostic("TIR0206", message, block.terminator.location)
                break
        for edge in edges:
            target = blocks.get(edge.label)
            if target is None or target.parameters or edge.arguments:
                yield from _check_edge(function, block.terminator, edge, target)
        if len(edges) > 1:
            yield from _check_twin_edges(block, edges)
    if not in_order:  # the usual order has a predecessor before each block
        yield from _check_reached(function)


def place(block: Block, function: Function) -> Location | None:
    """The location for a finding about a whole block."""
    first = block.ops[0].location if block.ops else None
    return block.location or first or function.location


def _check_terminator(function: Function, block: Block) -> Iterator[Diagnostic]:
    if not block.ops or not traits(type(block.ops[-1])).terminates:
        last = block.ops[-1].location if block.ops else None
        message = f"block {block.label} must end in a terminator (br, cond_br, ret, unreachable)"
        yield Diagnostic("TIR0201", message, last or place(block, function))
    elif block.ops[-1].mnemonic == "ret":
        yield from _check_return(function, cast("Return", block.ops[-1]))
    else:
        yield from _check_loop_requests(block.ops[-1])
    if len(block.ops) > 1 and any(traits(c).terminates for c in set(map(type, block.ops[:-1]))):
        for op in block.ops[:-1]:
            if traits(type(op)).terminates:
                message = f"{op.mnemonic} ends a block: nothing may follow it in {block.label}"
                yield Diagnostic("TIR0202", message, op.location)


def _check_loop_requests(branch: Op) -> Iterator[Diagnostic]:
    for name in ("stages", "unroll"):
        value = getattr(branch, name, None)
        if value is not None and value < 1:
            message = f"{name} must be at least 1, not {value}"
            yield Diagnostic("TIR0226", message, branch.location, operand=name)


def _check_return(function: Function, ret: Return) -> Iterator[Diagnostic]:
    result = tuple([v.type for v in ret.values])
    if result == function.results:
        return
    if len(result) != len(function.results):
        expected = ", ".join(map(str, function.results)) or "nothing"
        message = f"@{function.name} returns {expected}, not {len(result)} values"
        yield Diagnostic("TIR0215", message, ret.location)
        return
    for index, (type_, expected) in enumerate(zip(result, function.results, strict=True)):
        if type_ is not expected:
            message = f"@{function.name} returns {expected}, not {type_}"
            yield Diagnostic("TIR0215", message, ret.location, operand=index)


def _check_edge(
    function: Function, op: Op, edge: Successor, target: Block | None
) -> Iterator[Diagnostic]:
    if target is None:
        more = ", ..." if len(function.blocks) > _MOST_NAMED else ""
        labels = ", ".join(islice(function.blocks, _MOST_NAMED)) + more
        message = f"no block {edge.label} in @{function.name}; it has {labels}"
        yield Diagnostic("TIR0204", message, op.location)
        return
    parameters, arguments = target.parameters, edge.arguments
    if [p.type for p in parameters] == [a.type for a in arguments]:
        return
    note = (Diagnostic("TIR0207", f"block {target.label} is here", place(target, function)),)
    if len(parameters) != len(arguments):
        message = f"{edge.label} takes {len(parameters)} arguments, not {len(arguments)}"
        yield Diagnostic("TIR0207", message, op.location, notes=note)
        return
    for index, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True)):
        if parameter.type is not argument.type:
            message = (
                f"argument {index} of {edge.label} must be {parameter.type}, not {argument.type}"
            )
            yield Diagnostic("TIR0208", message, op.location, notes=note)


def _check_twin_edges(block: Block, edges: tuple[Successor, ...]) -> Iterator[Diagnostic]:
    first: dict[str, Successor] = {}
    for edge in edges:
        twin = first.setdefault(edge.label, edge)
        if twin.arguments != edge.arguments:
            message = (
                f"two edges to {edge.label} carry different arguments; use a select, or a block "
                "between"
            )
            yield Diagnostic("TIR0209", message, block.terminator.location)


def _check_reached(function: Function) -> Iterator[Diagnostic]:
    reached = cfg(function).number
    if len(reached) == len(function.blocks):
        return
    for label, block in function.blocks.items():
        if label not in reached:
            message = f"no path from the entry reaches block {label}"
            yield Diagnostic("TIR0210", message, place(block, function))
