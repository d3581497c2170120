"""Who lies in shared memory from when to when, along the ops of a kernel in program order."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.loops import loops
from tileir.backend.memory.scratch import BUFFERS, Plan
from tileir.ir import Function
from tileir.op import Op


@attrs.frozen(eq=False)
class Room:
    """Bytes `offset` to `offset + size`, that `op` has from the `first` to the `last` op counted
    from the kernel's beginning, both inclusive; `touched` are the ops that access them."""

    op: Op
    offset: int
    size: int
    first: int
    last: int
    touched: tuple[int, ...]


@attrs.frozen
class Stretch:
    """A block: its label, and its first op and the one after its last."""

    label: str
    start: int
    end: int
    depth: int


def stretches(function: Function) -> list[Stretch]:
    """The blocks of `function` one after the other, in reverse post-order."""
    found: list[Stretch] = []
    at, nest = 0, loops(function)
    for label in cfg(function).order:
        count = len(function.blocks[label].ops)
        found.append(Stretch(label, at, at + count, nest.depth(label)))
        at += count
    return found


def in_order(function: Function) -> list[Op]:
    """The ops of `function`, block by block as `stretches` has them."""
    return [op for label in cfg(function).order for op in function.blocks[label].ops]


def rooms(function: Function, plan: Plan) -> list[Room]:
    """The rooms of `plan` in the order of their ops. One that outlives its op lasts to its last
    use, and where a loop uses what was made before it, to the loop's end."""
    ops, places = in_order(function), stretches(function)
    index = {op: i for i, op in enumerate(ops)}
    readers = _readers(ops)
    found: list[Room] = []
    for op, offset in plan.offsets.items():
        first, touched = index[op], (index[op],)
        if op.mnemonic in BUFFERS:
            touched = tuple(readers.get(id(op.results[0]), ()))
        last = max((_extended(function, places, first, at) for at in touched), default=first)
        found.append(Room(op, offset, plan.sizes[op], first, last, touched))
    return sorted(found, key=lambda room: (room.first, room.offset))


def _readers(ops: Sequence[Op]) -> dict[int, list[int]]:
    """Indices of the ops that read each value, by the value's identity."""
    found: dict[int, list[int]] = {}
    for i, op in enumerate(ops):
        for operand in op.operands:
            found.setdefault(id(operand), []).append(i)
    return found


def _extended(function: Function, places: Sequence[Stretch], made: int, used: int) -> int:
    """The end of what is used at `used`: that of the outermost loop around it that `made` is
    not in."""
    nest = loops(function)
    start = {s.label: s for s in places}
    home = next(s.label for s in places if s.start <= used < s.end)
    end, loop = used, nest.around(home)
    while loop is not None:
        inside = [start[label] for label in loop.order]
        if not any(s.start <= made < s.end for s in inside):
            end = max(end, *(s.end - 1 for s in inside))
        loop = None if loop.parent is None else nest.by_header[loop.parent]
    return end


def most_at_once(found: Sequence[Room]) -> int:
    """The largest sum of bytes alive at one op: no placement does with less."""
    return max((sum(r.size for r in found if r.first <= at <= r.last)
                for at in {room.first for room in found}), default=0)  # fmt: skip
