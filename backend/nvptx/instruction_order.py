"""The order of the instructions of a basic block: what an instruction with effects needs comes
right before it, operand by operand.

A lowering rule emits its instruction for all elements of a thread, and then comes the next rule:
between two rules all elements are alive. ptxas starts from the order that it finds, and undoes
little of it. A Kullback-Leibler divergence of rows took 85 registers, and takes 32 in this order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set as AbstractSet
from typing import TypeAlias

_NAME = re.compile(r"%[\w.]+")

_MORE = 2
"""How many times as many values may be alive as before: ptxas also moves instructions. Of 87
kernels of public libraries 15 changed their registers, spills or code noticeably, nearly all for
the better; a sorting network, of which one output needs all inputs, kept 13 times as many alive."""

_Instruction: TypeAlias = tuple[str, list[str]]
"""A line, and the names in it: the first is what it defines, if it defines something."""


def depth_first(lines: Sequence[str], movable: AbstractSet[str]) -> list[str]:
    """`lines` of a function in LLVM IR. The instructions that define `movable` have no effects and
    depend on none: each comes before the first that needs it, those of one operand before those of
    the next, and the others keep their order. A basic block in which far more values would then be
    alive at the same time stays as it is."""
    ordered: list[str] = []
    for block in _blocks(lines):
        instructions = [(line, _NAME.findall(line)) for line in block]
        moved = _ordered(instructions, movable)
        few = _most_alive(moved) <= _MORE * _most_alive(instructions)
        ordered += [line for line, _ in moved] if few else block
    return ordered


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Lines from one label to the next."""
    block: list[str] = []
    for line in lines:
        if line.endswith(":"):
            yield block
            block = []
        block.append(line)
    yield block


def _ordered(block: Sequence[_Instruction], movable: AbstractSet[str]) -> list[_Instruction]:
    """A basic block, whose last instruction is the terminator. What none of it needs, other blocks
    do: it comes before the terminator."""
    waiting: dict[str, _Instruction] = {}
    ordered: list[_Instruction] = []
    for instruction in block[:-1]:
        line, names = instruction
        if names and names[0] in movable and line.startswith(names[0], 2):
            waiting[names[0]] = instruction
        else:
            _move(names, waiting, ordered)
            ordered.append(instruction)
    _move(list(waiting), waiting, ordered)
    return [*ordered, *block[-1:]]


def _move(names: list[str], waiting: dict[str, _Instruction], ordered: list[_Instruction]) -> None:
    """Move `names`, each after what it needs, from `waiting` to `ordered`."""
    stack = names[::-1]
    while stack:
        instruction = waiting.get(stack[-1])
        needed = [x for x in instruction[1][1:] if x in waiting] if instruction else []
        if needed:
            stack += reversed(needed)
            continue
        name = stack.pop()
        if instruction is not None:
            ordered.append(instruction)
            del waiting[name]


def _most_alive(block: Sequence[_Instruction]) -> int:
    """The most values of a basic block that are alive at once, those that come from elsewhere
    left out."""
    defined = {names[0] for line, names in block if names and line.startswith(names[0], 2)}
    last = {name: index for index, (_, names) in enumerate(block) for name in names}
    ends = [0] * (len(block) + 1)
    for name in defined:
        ends[last[name]] += 1
    alive = most = 0
    for index, (line, names) in enumerate(block):
        alive -= ends[index]
        alive += bool(names) and line.startswith(names[0], 2)
        most = max(most, alive)
    return most
