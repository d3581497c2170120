"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.passes.cfg_edit import without_arguments
from tileir.passmanager.registry import pass_
from tileir.values import Operand, Value

NEEDED = (Effects.WRITE | Effects.SYNC | Effects.CONTROL | Effects.OUTSIDE).value
"""Effects for which an op is kept though its results are unused. Reads and traps are not among
them: a program that traps has no meaning."""


@pass_("dce")
def dce(function: Function) -> Function:
    """Remove dead ops and dead block parameters.

    An op is live if it writes, synchronizes, branches or is visible outside the kernel, or if a
    live op uses its result. An argument of an edge is live if its block parameter is live. A loop
    that computes values only for itself therefore becomes empty; its branch stays, and
    `simplify-cfg` removes empty blocks.

    before:
        define kernel void @f(i32* %p) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %n = phi i32 [0, entry], [%m, loop]
          %j = add i32 %i, 1
          %m = add i32 %n, %i
          %more, _ = icmp (i1, i1) %j, 8 {predicate = slt}
          cond_br %more, loop, exit
        exit:
          %dead = load i32 %p
          ret
        }
    after:
        define kernel void @f(i32* %p) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %j = add i32 %i, 1
          %more, _ = icmp (i1, i1) %j, 8 {predicate = slt}
          cond_br %more, loop, exit
        exit:
          ret
        }
    """
    live = _live(function)
    used = {
        label: tuple(v in live for v in block.parameters)
        for label, block in function.blocks.items()
    }
    dropping = {label: keep for label, keep in used.items() if not all(keep)}
    return function.with_blocks(
        {label: _swept(block, live, dropping) for label, block in function.blocks.items()}
    )


def has_effects(op: Op) -> bool:
    """Whether `op` does something besides computing its results."""
    effects = op.effects
    return effects is not Effects.PURE and bool(effects.value & NEEDED)


def _live(function: Function) -> set[Value]:
    """The values that some effect depends on."""
    defining: dict[Value, Op] = {}
    passed: dict[Value, list[Operand]] = {}
    marking: list[Operand] = []
    for block in function.blocks.values():
        for op in block.ops:
            for value in op.results:
                defining[value] = op
            if has_effects(op):
                marking.extend(op.inputs)
                if op.predicate is not None:
                    marking.append(op.predicate)
        for edge in block.successors:
            parameters = function.blocks[edge.label].parameters
            for parameter, argument in zip(parameters, edge.arguments, strict=True):
                passed.setdefault(parameter, []).append(argument)
    return _propagate_liveness(marking, defining, passed)


def _propagate_liveness(
    marking: list[Operand],
    defining: Mapping[Value, Op],
    passed: Mapping[Value, list[Operand]],
) -> set[Value]:
    live: set[Value] = set()
    while marking:
        operand = marking.pop()
        if type(operand) is not Value or operand in live:
            continue
        op = defining.get(operand)
        if op is None:
            live.add(operand)
            marking.extend(passed.get(operand, ()))
        else:
            live.update(op.results)
            marking.extend(op.operands)
    return live


def _swept(block: Block, live: set[Value], dropping: Mapping[str, tuple[bool, ...]]) -> Block:
    """`block` without what is dead; itself where nothing is."""
    ops = [op for op in block.ops if has_effects(op) or not live.isdisjoint(op.results)]
    parameters = block.parameters
    if block.label in dropping:
        parameters = tuple(v for v in parameters if v in live)
    last = without_arguments(ops[-1], dropping) if dropping else ops[-1]
    if len(ops) == len(block.ops) and last is ops[-1] and len(parameters) == len(block.parameters):
        return block
    return attrs.evolve(block, parameters=parameters, ops=(*ops[:-1], last))
