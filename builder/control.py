"""Structured control: `for_`, `while_`, `if_` and `else_` as context managers that emit blocks.

loop:  header (test) ──► body ... ──► latch (step) ──► header        header ──► done
if:    branch ──► then ──► join,  branch ──► else ──► join
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from tileir.builder.errors import mistake
from tileir.builder.expr import Expr
from tileir.builder.functions import OpenFunction, OpenLoop
from tileir.builder.promotion import common_element, convert, operand_of
from tileir.builder.ssa import Ending, OpenBlock, OpenEdge
from tileir.errors import Location
from tileir.types import I1, I32, Element, Scalar, shape_of
from tileir.values import Constant, Operand, Value

if TYPE_CHECKING:
    from tileir.builder.builder import Builder


@attrs.define(eq=False)
class For:
    """`with b.for_(low, high, step) as i`: bounds are evaluated once, before the loop. A negative
    literal step counts down while `i > high`; any other counts up while `i < high`."""

    builder: Builder
    bounds: tuple[Any, Any, Any]
    attributes: dict[str, Any]
    name: str
    location: Location | None
    function: OpenFunction = attrs.field(init=False)
    loop: OpenLoop = attrs.field(init=False)
    header: OpenBlock = attrs.field(init=False)
    step: Operand = attrs.field(init=False)

    def __enter__(self) -> Expr:
        b, f = self.builder, self.builder.current
        low, high, self.step = _bounds(b, self.bounds)
        index = Value(low.type, self.name)
        self.function, self.header = f, f.new_block("loop", (index,))
        body, done = f.new_block("body"), f.new_block("done")
        self.loop = OpenLoop(done, None)
        b.jump(self.header, (low,), location=self.location)
        b.enter_block(self.header)
        down = isinstance(self.step, Constant) and self.step.value < 0
        relation = "sgt" if down else "slt"
        test = b.insert_all("icmp", index, high, predicate_=relation)[0]
        b.fork(test.value, body, done, location=self.location)
        f.graph.seal(body)
        b.enter_block(body)
        f.loops.append(self.loop)
        return Expr(b, index)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.builder.abandon(self.function)
            return
        b, f = self.builder, self.function
        f.loops.pop()
        _to_latch(b, f, self.loop, self.location)
        if f.block is not None:
            (index,) = self.header.parameters
            following = b.insert("add", index, self.step)
            b.jump(self.header, (following.value,), location=self.location, **self.attributes)
        _leave(b, f, self.header, self.loop.exit)


@attrs.define(eq=False)
class While:
    """`with b.while_(lambda: condition)`: the condition is evaluated before every iteration."""

    builder: Builder
    condition: Callable[[], Any]
    attributes: dict[str, Any]
    location: Location | None
    function: OpenFunction = attrs.field(init=False)
    loop: OpenLoop = attrs.field(init=False)
    header: OpenBlock = attrs.field(init=False)

    def __enter__(self) -> None:
        b, f = self.builder, self.builder.current
        self.function, self.header = f, f.new_block("loop")
        body, done = f.new_block("body"), f.new_block("done")
        self.loop = OpenLoop(done, None)
        b.jump(self.header, location=self.location)
        b.enter_block(self.header)
        b.fork(condition_of(self.condition()), body, done, location=self.location)
        f.graph.seal(body)
        b.enter_block(body)
        f.loops.append(self.loop)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.builder.abandon(self.function)
            return
        b, f = self.builder, self.function
        f.loops.pop()
        _to_latch(b, f, self.loop, self.location)
        if f.block is not None:
            b.jump(self.header, location=self.location, **self.attributes)
        _leave(b, f, self.header, self.loop.exit)


@attrs.define(eq=False)
class If:
    """`with b.if_(condition):`, and after it perhaps `with b.else_():`."""

    builder: Builder
    condition: Operand
    location: Location | None
    function: OpenFunction = attrs.field(init=False)
    join: OpenBlock = attrs.field(init=False)
    branch: Ending = attrs.field(init=False)

    def __enter__(self) -> None:
        b, f = self.builder, self.builder.current
        self.function = f
        then, self.join = f.new_block("then"), f.new_block("join")
        self.branch = b.fork(self.condition, then, self.join, location=self.location)
        f.graph.seal(then)
        b.enter_block(then)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.builder.abandon(self.function)
            return
        if self.function.block is not None:
            self.builder.jump(self.join, location=self.location)
        self.builder.enter_block(self.join)
        self.function.pending = self


@attrs.define(eq=False)
class Else:
    """`with b.else_():` directly after an `if_`."""

    builder: Builder
    location: Location | None
    function: OpenFunction = attrs.field(init=False)
    join: OpenBlock = attrs.field(init=False)

    def __enter__(self) -> None:
        b, f = self.builder, self.builder.current
        before = f.pending
        if before is None or f.block is not before.join or before.join.ops:
            raise mistake("TIR0806", "else_ must directly follow the body of an if_")
        self.function, self.join = f, before.join
        f.pending = None
        del f.graph.blocks[self.join]
        otherwise = f.new_block("else")
        skipped, edges = before.branch.edges["otherwise"], before.branch.edges
        self.join.entering[:] = [e for e in self.join.entering if e is not skipped]
        edges["otherwise"] = OpenEdge(skipped.source, otherwise)
        otherwise.entering.append(edges["otherwise"])
        f.graph.seal(otherwise)
        b.enter_block(otherwise)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.builder.abandon(self.function)
            return
        if self.function.block is not None:
            self.builder.jump(self.join, location=self.location)
        self.function.graph.seal(self.join)
        self.builder.enter_block(self.join)


def leave_loop(builder: Builder, continues: bool) -> None:
    """Branch out of the innermost loop, or to its next iteration."""
    f = builder.current
    if not f.loops:
        word = "continue_" if continues else "break_"
        raise mistake("TIR0806", f"{word} stands in no loop")
    loop = f.loops[-1]
    if not continues:
        builder.jump(loop.exit)
        return
    if loop.latch is None:
        loop.latch = f.new_block("latch")
    builder.jump(loop.latch)


def condition_of(value: Any) -> Operand:
    """A scalar i1. Raises BuildError for anything else."""
    operand = operand_of(value)
    if isinstance(operand, (bool, int)) and operand in (0, 1):
        return Constant(I1, int(operand))
    if isinstance(operand, (int, float)) or operand.type is not I1:
        what = operand if isinstance(operand, (int, float)) else operand.type
        raise mistake("TIR0806", f"a branch needs a scalar i1, not {what}")
    return operand


def _bounds(builder: Builder, bounds: tuple[Any, Any, Any]) -> tuple[Operand, Operand, Operand]:
    """Low, high and step as scalars of one integer type; i32 where all are numbers."""
    result = [operand_of(x) for x in bounds]
    element: Element = I32
    valued = [x for x in result if not isinstance(x, (int, float))]
    if valued:
        element = common_element(valued[0], valued[0])
        for x in valued[1:]:
            element = common_element(builder.undef(element).value, x)
    scalars = all(not shape_of(x.type) for x in valued)
    if not scalars or not isinstance(element, Scalar) or not element.is_integer:
        types = ", ".join(str(x.type) for x in valued)
        raise mistake("TIR0806", f"bounds of a loop are scalar integers, not {types}")
    low, high, step = (convert(builder, x, element) for x in result)
    if isinstance(step, Constant) and step.bits == 0:
        raise mistake("TIR0806", "the step of a loop must not be 0")
    return low, high, step


def _to_latch(
    builder: Builder, function: OpenFunction, loop: OpenLoop, location: Location | None
) -> None:
    """Continue in the block that `continue_` jumps to, if there is one."""
    if loop.latch is None:
        return
    if function.block is not None:
        builder.jump(loop.latch, location=location)
    function.graph.seal(loop.latch)
    builder.enter_block(loop.latch)


def _leave(builder: Builder, function: OpenFunction, header: OpenBlock, done: OpenBlock) -> None:
    function.graph.seal(header)
    function.graph.seal(done)
    builder.enter_block(done)
