"""The state of a program being decoded: the block being written, and the values in scope."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tileir.ir import Block
from tileir.op import Op
from tileir.types import Element, Scalar, Tile, Type, element_of
from tileir.values import Constant, Operand, Value, constant

INTEGERS = (0, 1, -1, 2, 3, 7, 5, -2, 4, 100, -100, 8, 16, 31, 64, 127)
FLOATS = (
    0.0, 1.0, -1.0, 0.5, 2.0, -0.0, 3.0, 0.1, -2.5, 1e-3, 100.0, 6.0,
    float("inf"), float("-inf"), float("nan"), 1e-40,
)  # fmt: skip


def literal(type: Type, digit: int) -> Constant:
    """A literal of `type` worth trying: zero and one first."""
    element = element_of(type)
    if isinstance(element, Scalar) and element.is_float:
        return constant(type, FLOATS[digit % 16])
    bits = getattr(element, "bits", 64)
    if bits == 1:
        return constant(type, bool(digit % 2))
    return constant(type, INTEGERS[digit % (16 if bits > 7 else 4)])


@attrs.define
class Writer:
    """Blocks written so far, the block being written, and what it may use.

    `live` holds the values that dominate the place of writing, oldest first.
    """

    label: str = "entry"
    parameters: tuple[Value, ...] = ()
    ops: list[Op] = attrs.field(factory=list)
    live: list[Value] = attrs.field(factory=list)
    blocks: dict[str, Block] = attrs.field(factory=dict)
    labels: int = 0
    called: dict[str, None] = attrs.field(factory=dict)
    """Names of the device functions that the program needs, in order of first use."""

    def emit(self, op: Op) -> Op:
        """Append `op`; what it defines is live from here on."""
        self.ops.append(op)
        self.live.extend(op.results)
        return op

    def hide(self, op: Op) -> Value:
        """Append an op whose one result is for its maker alone: no later statement picks it."""
        self.ops.append(op)
        return op.result

    def finish(self, terminator: Op) -> None:
        """End the block being written."""
        self.ops.append(terminator)
        self.blocks[self.label] = Block(self.label, self.parameters, self.ops)
        self.ops = []

    def begin(self, label: str, parameters: tuple[Value, ...] = ()) -> None:
        """Start the block `label`."""
        self.label, self.parameters = label, parameters

    def fresh(self) -> int:
        """A number no label has yet."""
        self.labels += 1
        return self.labels

    def pick(self, back: int, fits: Callable[[Type], bool]) -> Value | None:
        """The `back`-th newest live value whose type fits, counting round; None without any."""
        found = [value for value in reversed(self.live) if fits(value.type)]
        return found[back % len(found)] if found else None

    def of_type(self, type: Type, digit: int) -> Operand:
        """A live value of `type`, or a literal for the last digit or where there is none."""
        value = None if digit % 16 == 15 else self.pick(digit, lambda t: t is type)
        return literal(type, digit // 16) if value is None else value

    def tile(self, back: int, element: Element | None = None) -> Value | None:
        """A live tile, of `element` if one is given."""
        return self.pick(back, lambda t: isinstance(t, Tile) and element in (None, t.element))
