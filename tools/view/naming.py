"""Short texts of the ops and values of a function, for pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tileir.ir import Function
from tileir.op import Op
from tileir.textual.function_printer import value_names
from tileir.textual.literals import format_bits
from tileir.types import Tile, Type, element_of
from tileir.values import Constant, Operand, Value


class ValueNames:
    """The names of the values of `functions`, as in their text."""

    def __init__(self, *functions: Function) -> None:
        self.of: dict[Value, str] = {v: n for f in functions for v, n in value_names(f).items()}

    def operand(self, operand: Operand) -> str:
        """A value's name, or the literal."""
        if isinstance(operand, Value):
            return self.of.get(operand, "_")
        if isinstance(operand, Constant):
            return format_bits(element_of(operand.type), operand.bits)
        return "undef"

    def results(self, op: Op) -> str:
        """The names of the results of `op`."""
        return ", ".join(self.of.get(v, "_") for v in op.results)

    def op(self, op: Op) -> str:
        """`op` without layouts, attributes and the types of operands."""
        words = ", ".join(self.operand(v) for v in op.inputs)
        head = f"{op.mnemonic} {kind(op.results[0].type)}" if op.results else op.mnemonic
        results = f"{self.results(op)} = " if op.results else ""
        return f"{results}{head} {words}".rstrip()

    def short(self, op: Op) -> str:
        """`op` without types."""
        words = " ".join(self.operand(v) for v in op.inputs)
        results = f"{self.results(op)} = " if op.results else ""
        return f"{results}{op.mnemonic} {words}".rstrip()


def kind(type: Type) -> str:
    """A type without its layout."""
    return str(Tile(type.element, type.shape)) if isinstance(type, Tile) else str(type)


def place(op: Op) -> str:
    """The position of `op` in its source: `line 12`."""
    return "the compiler's" if op.location is None else f"line {op.location.line}"


def count_text(number: int, what: str) -> str:
    """A number with its noun, in English."""
    plural = "es" if what.endswith("s") else "s"
    return f"{number} {what}{'' if number == 1 else plural}"


def concerns(op: Op, required: str, names: ValueNames) -> bool:
    """Whether `op` defines or reads the value called `required`, or a copy of it that passes
    created."""
    return any(same(name, required) for name in _accessed_values(op, names))


def same(name: str, required: str) -> bool:
    """Whether `name` is `required`, possibly with the number that passes append to the names of
    copies."""
    return re.fullmatch(re.escape(required) + r"(\.\d+)*", name) is not None


def _accessed_values(op: Op, names: ValueNames) -> Iterable[str]:
    values = (*op.results, *op.operands)
    return [names.of[v] for v in values if isinstance(v, Value) and v in names.of]
