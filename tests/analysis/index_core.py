"""A function under construction, filled by random choices."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tileir.ir import Block, Parameter
from tileir.op import Op, all_ops
from tileir.types import F32, I1, I8, I16, I32, Pointer, Type, element_of
from tileir.values import Operand, Value, constant

CLASSES = {cls.mnemonic: cls for cls in all_ops()}
INTEGERS = (I8, I16, I32)
POINTER = Pointer(F32)
SHAPES = ((1,), (2,), (6,), (8,), (16,), (48,), (4, 8), (3, 4), (1, 8), (8, 1), (2, 4, 2))


class Program:
    """A function under construction: the ops of one block at a time, and the values in scope."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.scope: list[Value] = []
        self.ops: list[Op] = []
        self.blocks: dict[str, Block] = {}
        self.parameters: list[Parameter] = []
        self.depth = 0

    def pick(self, fits: Callable[[Value], bool]) -> Value | None:
        values = [v for v in self.scope if fits(v)]
        return (
            self.random.choice(values[-12:] if self.random.random() < 0.8 else values)
            if values
            else None
        )

    def of_type(self, type: Type) -> Operand:
        """A value or, now and then, a literal of `type`."""
        element: Any = element_of(type)
        value = self.pick(lambda v: v.type is type)
        if value is not None and self.random.random() < 0.75:
            return value
        if isinstance(element, Pointer):
            return value if value is not None else constant(type, 1 << 12)
        if element is I1:
            return constant(type, self.random.random() < 0.5)
        half = 1 << (element.bits - 1)
        number = self.random.choice((0, 1, 2, 3, 4, 8, 12, 16, 64, half - 1, -half, -1, -4, 48))
        return constant(type, max(-half, min(number, half - 1)))

    def emit(self, mnemonic: str, *operands: Any, **attributes: Any) -> Value:
        op = CLASSES[mnemonic](*operands, **attributes)
        self.ops.append(op)
        self.scope.extend(op.results)
        return op.results[0]

    def close(self, label: str, terminator: Op, parameters: Sequence[Value] = ()) -> None:
        self.blocks[label] = Block(label, tuple(parameters), (*self.ops, terminator))
        self.ops = []
