"""Programs from lists of small numbers.

A program is a list of statements, each four small numbers: what to do, and three digits that say
with which values. Every list is a legal program: a statement that does not fit is left out, an
open loop is closed at the end. Values are named by how long ago they were made, so taking a
statement out leaves the rest meaning much the same, which is what shrinking needs; and the
smaller a number, the simpler what it stands for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TypeAlias

from tileir.ir import Function, Module, Parameter
from tileir.ops.control import Return
from tileir.ops.program import ProgramId
from tileir.testing import shapes
from tileir.testing.access import (
    COUNTERS,
    REGION,
    Base,
    count,
    load_input,
    load_scratch,
    size_of,
    store_output,
    store_scratch,
)
from tileir.testing.collective import predicated, reduce, scan
from tileir.testing.control import Frame, close, open_choice, open_loop
from tileir.testing.elementwise import elementwise, elementwise_ops
from tileir.testing.helpers import call, combine, helper
from tileir.testing.program import Buffer, Program
from tileir.testing.writer import Writer
from tileir.types import F32, I32, Scalar, element_of, pointer
from tileir.values import Value

Statement: TypeAlias = tuple[int, int, int, int]
"""What to do, and three digits."""

DIGITS = 16
"""Digits are 0 to 15."""
DEEPEST = 3
"""Loops and branches inside one another."""
RESULTS = 4
"""Values that a program stores at its end."""
INSTANCES = 3
"""Program instances."""

_Plain: TypeAlias = Callable[[Writer, int, int, int], None]
_PLAIN: tuple[_Plain, ...] = (
    shapes.make_range, shapes.splat, shapes.reshape, shapes.expand, shapes.transpose,
    shapes.join_split, shapes.concatenate, shapes.extract, reduce, scan, predicated, call, combine,
)  # fmt: skip
_MEMORY, _CONTROL = 5, 3
_OTHERS = len(_PLAIN) + _MEMORY + _CONTROL
_WEIGHT = 4
"""How much more often anything else is drawn than one given elementwise op."""


@cache
def kinds() -> int:
    """How many things a statement can do: its first number is below this."""
    return len(elementwise_ops()) + _WEIGHT * _OTHERS


def decode(statements: Iterable[Statement]) -> Program:
    """The program that `statements` stand for. Never fails; every number is legal."""
    writer = Writer()
    instance = writer.emit(ProgramId(axis=0)).result
    inputs = {
        name: Base(Value(pointer(element), name), instance)
        for name, element in (("x", F32), ("k", I32), ("s", F32), ("t", I32), ("c", I32))
    }
    load_input(writer, inputs["k"], shapes.SHAPES[0], 0)
    load_input(writer, inputs["x"], shapes.SHAPES[0], 0)
    frames: list[Frame] = []
    for statement in statements:
        _write(writer, inputs, frames, statement)
    while frames:
        close(writer, frames.pop())
    return _finished(writer, inputs, instance)


def sample(seed: int, length: int = 20) -> Program:
    """A program of `length` random statements; the same seed gives the same program."""
    return decode(random_statements(random.Random(seed), length))


def random_statements(chance: random.Random, length: int) -> Iterator[Statement]:
    """`length` random statements."""
    for _ in range(length):
        yield (
            chance.randrange(kinds()),
            chance.randrange(DIGITS),
            chance.randrange(DIGITS),
            chance.randrange(DIGITS),
        )


def _write(
    writer: Writer, inputs: dict[str, Base], frames: list[Frame], statement: Statement
) -> None:
    """Write one statement: an elementwise op for small numbers, anything else above."""
    kind, a, b, c = statement
    ops, kind = elementwise_ops(), kind % kinds()
    if kind < len(ops):
        elementwise(writer, ops[kind], (a, b, c))
        return
    kind = (kind - len(ops)) % _OTHERS
    if kind < len(_PLAIN):
        _PLAIN[kind](writer, a, b, c)
    elif kind < len(_PLAIN) + _MEMORY:
        _access(writer, inputs, kind - len(_PLAIN), (a, b, c))
    else:
        _structure(writer, frames, kind - len(_PLAIN) - _MEMORY, (a, b, c))


def _access(
    writer: Writer, inputs: dict[str, Base], kind: int, digits: tuple[int, int, int]
) -> None:
    a, b, c = digits
    shape = shapes.SHAPES[a % len(shapes.SHAPES)]
    if kind == 0:
        load_input(writer, inputs["xk"[c % 2]], shape, 16 * b)
    elif kind == 1:
        load_input(writer, inputs["xk"[c % 2]], (), 16 * b)
    elif kind == 2:
        store_scratch(writer, inputs["st"[c // 4 % 2]], a, b, c)
    elif kind == 4:
        count(writer, inputs["c"], a, b)
    else:
        load_scratch(writer, inputs["st"[c // 4 % 2]], shape, b, c)


def _structure(
    writer: Writer, frames: list[Frame], kind: int, digits: tuple[int, int, int]
) -> None:
    a, b, c = digits
    if kind == 0:
        if frames:
            close(writer, frames.pop())
    elif len(frames) < DEEPEST:
        opener = open_loop if kind == 1 else open_choice
        frames.append(opener(writer, a, b, c))


def _finished(writer: Writer, inputs: dict[str, Base], instance: Value) -> Program:
    """Store the newest values, each to a buffer of its own, and return."""
    results = [v for v in reversed(writer.live) if _storable(v)][:RESULTS]
    buffers = {name: _memory(name, base) for name, base in inputs.items()}
    pointers = [base.pointer for base in inputs.values()]
    for number, value in enumerate(results):
        name = f"o{number}"
        pointers.append(store_output(writer, name, instance, value))
        element = element_of(value.type)
        assert isinstance(element, Scalar)
        buffers[name] = Buffer(element, size_of(value.type) * INSTANCES, output=True)
    writer.finish(Return())
    parameters = tuple(Parameter(value) for value in pointers)
    kernel = Function("generated", parameters, blocks=writer.blocks, kernel=True)
    functions = {"generated": kernel, **{name: helper(name) for name in writer.called}}
    return Program(Module(functions), "generated", (INSTANCES,), buffers)


def _memory(name: str, base: Base) -> Buffer:
    kind = base.pointer.type
    element = F32 if kind is pointer(F32) else I32
    length = COUNTERS if name == "c" else REGION * INSTANCES
    return Buffer(element, length, output=name in "stc")


def _storable(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, Scalar) and element.bits not in (4,)
