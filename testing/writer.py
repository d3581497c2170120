"""The state of a program that is being decoded: the current block, and the values in scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from tileir.ir import Block
from tileir.op import Op
from tileir.types import I1, Element, Scalar, Tile, Type, element_of, shape_of, tile
from tileir.values import Constant, Operand, Undef, Value, constant

INTEGERS = (0, 1, -1, 2, 3, 7, 5, -2, 4, 100, -100, 8, 16, 31, 64, 127)
FLOATS = (
    0.0, 1.0, -1.0, 0.5, 2.0, -0.0, 3.0, 0.1, -2.5, 1e-3, 100.0, 6.0,
    float("inf"), float("-inf"), float("nan"), 1e-40,
)  # fmt: skip


def literal(type: Type, digit: int) -> Constant:
    """A literal of `type` that is useful in tests; the first digits are zero and one."""
    element = element_of(type)
    if isinstance(element, Scalar) and element.is_float:
        return constant(type, FLOATS[digit % 16])
    bits = getattr(element, "bits", 64)
    if bits == 1:
        return constant(type, bool(digit % 2))
    return constant(type, INTEGERS[digit % (16 if bits > 7 else 4)])


class Guarding(Protocol):
    """The component that predicates ops (`tileir.testing.guarded`)."""

    def value(self, writer: Writer, op: Op) -> Op:
        """Append `op`, whose results become live, and return it as appended."""
        ...

    def effect(self, writer: Writer, op: Op) -> None:
        """Append `op` for its effect."""
        ...

    def address(self, writer: Writer, op: Op) -> Value:
        """Append `op`, whose result only the caller uses."""
        ...


@attrs.define
class Writer:
    """The blocks written so far, the current block, and the values in scope.

    `live` contains the values that dominate the current position, oldest first.
    """

    label: str = "entry"
    parameters: tuple[Value, ...] = ()
    ops: list[Op] = attrs.field(factory=list)
    live: list[Value] = attrs.field(factory=list)
    blocks: dict[str, Block] = attrs.field(factory=dict)
    labels: int = 0
    called: dict[str, None] = attrs.field(factory=dict)
    """Names of the device functions that the program needs, in order of first use."""

    inexact: bool = True
    """Whether floats may be added in an order that is up to the executor."""
    undef: bool = False
    """Whether values may have undefined lanes."""
    tainted: set[Value] = attrs.field(factory=set)
    """Values that may have some."""
    leaves: bool = False
    """Whether the program has an early return."""
    promised: bool = True
    """Whether the pointers are promised to reach different memory."""

    guard: Guarding | None = None
    """Puts ops under predicates, where a statement is predicated."""

    def emit(self, op: Op) -> Op:
        """Append `op`; its results become live. Returns the op as it was appended."""
        if (guard := self._take_guard()) is not None:
            op = guard.value(self, op)
            self.guard = guard
            return op
        self.append(op)
        self.live.extend(op.results)
        return op

    def perform(self, op: Op) -> None:
        """Append an op for its effect. Its results stay unused."""
        if (guard := self._take_guard()) is not None:
            guard.effect(self, op)
            self.guard = guard
        else:
            self.append(op)

    def hide(self, op: Op) -> Value:
        """Append an op whose only result is for the caller: later statements cannot pick it."""
        if (guard := self._take_guard()) is not None:
            result = guard.address(self, op)
            self.guard = guard
            return result
        self.append(op)
        return op.result

    def _take_guard(self) -> Guarding | None:
        """The guard, which is inactive while it writes ops itself."""
        guard, self.guard = self.guard, None
        return guard

    def append(self, op: Op) -> None:
        """Append only `op`. If an operand may be undefined, so may its results."""
        self.ops.append(op)
        if self.undef and any(isinstance(v, Undef) or v in self.tainted for v in op.operands):
            self.tainted.update(op.results)

    def reveal(self, operand: Operand) -> None:
        """Make a hidden value available to later statements."""
        if isinstance(operand, Value):
            self.live.append(operand)

    def taint(self, op: Op) -> None:
        """Mark the results of `op` as possibly undefined."""
        self.tainted.update(op.results)

    def finish(self, terminator: Op) -> None:
        """End the current block with `terminator`."""
        self.ops.append(terminator)
        self.blocks[self.label] = Block(self.label, self.parameters, self.ops)
        self.ops = []

    def begin(self, label: str, parameters: tuple[Value, ...] = ()) -> None:
        """Start the block `label`."""
        self.label, self.parameters = label, parameters

    def fresh(self) -> int:
        """A number that no label has yet."""
        self.labels += 1
        return self.labels

    def pick(self, back: int, fits: Callable[[Type], bool], *, clean: bool = False) -> Value | None:
        """The `back`-th newest live value, modulo their number, whose type fits and, with `clean`,
        which is fully defined; None if there is none."""
        hidden = self.tainted if clean else ()
        result = [v for v in reversed(self.live) if fits(v.type) and v not in hidden]
        return result[back % len(result)] if result else None

    def of_type(self, type: Type, digit: int, *, clean: bool = False) -> Operand:
        """A live value of `type`, or a literal for the last digit or if there is no such value."""
        last = digit % 16 == 15
        value = None if last else self.pick(digit, lambda t: t is type, clean=clean)
        return literal(type, digit // 16) if value is None else value

    def tile(self, back: int, element: Element | None = None) -> Value | None:
        """A live tile, with elements of type `element` if that is not None."""
        return self.pick(back, lambda t: isinstance(t, Tile) and element in (None, t.element))

    def tile_of(
        self, element: Element, shape: Callable[[tuple[int, ...]], bool], back: int
    ) -> Value | None:
        """A live tile of `element` whose shape satisfies `shape`."""
        fits = lambda t: isinstance(t, Tile) and t.element is element and shape(t.shape)  # noqa: E731
        return self.pick(back, fits)

    def flag(self, back: int) -> Value | None:
        """A live scalar that a branch may depend on."""
        return self.pick(back, lambda t: t is I1, clean=True)

    def mask(self, like: Type, digit: int) -> Value | None:
        """A live mask of the shape of `like`, for an odd digit and if there is one."""
        expected = tile(I1, shape_of(like))
        result = self.pick(digit // 2, lambda t: t is expected, clean=True)
        return result if digit % 2 else None
