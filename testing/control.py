"""Statements that open and close loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from tileir.op import Successor
from tileir.ops.arith import Add, ICmp, IntegerPredicate
from tileir.ops.control import Branch, CondBranch
from tileir.testing.writer import Writer, literal
from tileir.types import I1, I32
from tileir.values import Operand, Value, constant


@attrs.frozen
class OpenTestLoop:
    """An open loop. `carried` are the parameters of the header after the counter."""

    number: int
    counter: Value
    carried: tuple[Value, ...]
    outer: int


@attrs.frozen
class OpenTestBranch:
    """An open branch. Its body may replace the values `kept` by newer values of the same types."""

    number: int
    kept: tuple[Value, ...]
    outer: int


Frame: TypeAlias = OpenTestLoop | OpenTestBranch


def open_loop(writer: Writer, trips: int, width: int, back: int) -> OpenTestLoop:
    """Open a loop of `trips` (0 to 4) iterations that carries `width` live values."""
    number, initial = writer.fresh(), _recent(writer, width, back)
    header, body, leave = (f"{word}{number}" for word in ("loop", "body", "done"))
    counter = Value(I32, "i")
    carried = tuple(Value(value.type, "c") for value in initial)
    writer.tainted.update(c for c, v in zip(carried, initial, strict=True) if v in writer.tainted)
    writer.finish(Branch(Successor(header, (constant(I32, 0), *initial))))
    writer.begin(header, (counter, *carried))
    more = ICmp(counter, constant(I32, trips % 5), predicate_=IntegerPredicate.SLT)
    writer.ops.append(more)
    outer = len(writer.live)
    writer.live.extend((counter, *carried))
    writer.finish(CondBranch(more.results[0], Successor(body), Successor(leave)))
    writer.begin(body)
    return OpenTestLoop(number, counter, carried, outer)


def open_branch(writer: Writer, condition: int, width: int, back: int) -> OpenTestBranch:
    """Open a branch on a live scalar i1. The side that is taken if it is true is open."""
    number, values = writer.fresh(), _recent(writer, width, back)
    flag = writer.flag(condition)
    condition_value: Operand = literal(I1, condition + 1) if flag is None else flag
    outer = len(writer.live)
    writer.finish(
        CondBranch(condition_value, Successor(f"then{number}"), Successor(f"else{number}"))
    )
    writer.begin(f"then{number}")
    return OpenTestBranch(number, values, outer)


def escape(writer: Writer, frames: Sequence[Frame], condition: int, how: int) -> None:
    """Leave the innermost loop, continue with its next iteration, or return, if a live i1 is
    true."""
    flag = writer.flag(condition)
    if flag is None:
        return
    number = writer.fresh()
    loop = next((f for f in reversed(frames) if isinstance(f, OpenTestLoop)), None)
    if how % 3 == 2 or loop is None:
        writer.leaves, target = True, Successor("early")
    elif how % 3 == 1:
        target = Successor(f"done{loop.number}")
    else:
        count = writer.hide(Add(loop.counter, constant(I32, 1)))
        latest = tuple(_latest(writer, value, loop.outer) for value in loop.carried)
        target = Successor(f"loop{loop.number}", (count, *latest))
    writer.finish(CondBranch(flag, target, Successor(f"on{number}")))
    writer.begin(f"on{number}")


def close(writer: Writer, frame: Frame) -> None:
    """End the open body. The values that it defined go out of scope."""
    if isinstance(frame, OpenTestLoop):
        _close_loop(writer, frame)
    else:
        _close_branch(writer, frame)


def _close_loop(writer: Writer, loop: OpenTestLoop) -> None:
    count = writer.hide(Add(loop.counter, constant(I32, 1)))
    latest = tuple(_latest(writer, value, loop.outer) for value in loop.carried)
    writer.finish(Branch(Successor(f"loop{loop.number}", (count, *latest))))
    del writer.live[loop.outer :]
    writer.live.extend((loop.counter, *loop.carried))
    writer.begin(f"done{loop.number}")


def _close_branch(writer: Writer, branch: OpenTestBranch) -> None:
    number = branch.number
    latest = tuple(_latest(writer, value, branch.outer) for value in branch.kept)
    writer.finish(Branch(Successor(f"join{number}", latest)))
    writer.begin(f"else{number}")
    writer.finish(Branch(Successor(f"join{number}", branch.kept)))
    del writer.live[branch.outer :]
    joined = tuple(Value(value.type, "j") for value in branch.kept)
    sides = zip(joined, latest, branch.kept, strict=True)
    writer.tainted.update(j for j, *both in sides if not writer.tainted.isdisjoint(both))
    writer.begin(f"join{number}", joined)
    writer.live.extend(joined)


def _recent(writer: Writer, width: int, back: int) -> tuple[Value, ...]:
    """`width` (1 to 3) distinct live values."""
    result = list(reversed(writer.live))
    return tuple(result[(back + n) % len(result)] for n in range(min(1 + width % 3, len(result))))


def _latest(writer: Writer, value: Value, outer: int) -> Value:
    """The newest value of the body that has the type of `value`, or else `value`."""
    result = [v for v in writer.live[outer:] if v.type is value.type]
    if value not in writer.tainted:
        result = [v for v in result if v not in writer.tainted]
    return result[-1] if result else value
