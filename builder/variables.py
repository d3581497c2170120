"""SSA variables: mutable in the program, block parameters in the IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileir.builder.arguments import literal
from tileir.builder.errors import mistake
from tileir.builder.expr import Expr
from tileir.builder.promotion import at, operand_of
from tileir.builder.ssa import SsaVariable
from tileir.types import F32, I1, I32, Type, shape_of
from tileir.values import Operand

if TYPE_CHECKING:
    from tileir.builder.builder import Builder
    from tileir.builder.functions import OpenFunction


class Var(Expr):
    """A variable: an Expr whose value is the last assignment that reaches the insertion point.

    `v.set(x)` and the assignments `v += x`, `v *= x`, ... change the variable; `v = v + x` only
    rebinds the Python name to a value.
    """

    __slots__ = ("_function", "_variable")

    def __init__(self, builder: Builder, type: Type, name: str | None) -> None:
        self.builder = builder
        self._function: OpenFunction = builder.current
        self._variable = SsaVariable(type, name)

    @property
    def value(self) -> Operand:  # type: ignore[override] - not cached
        """The value of the variable at the insertion point. Raises BuildError in another
        function."""
        f = self._here()
        return f.graph.read(self._variable, f.open_block())

    @property
    def type(self) -> Type:
        return self._variable.type

    def get(self) -> Expr:
        """Return the value at the insertion point; later assignments do not change it."""
        return Expr(self.builder, self.value)

    def set(self, value: Any) -> None:
        """Assign `value`, broadcast to the variable's shape, from the insertion point on.

        Raises BuildError if the element type differs.
        """
        function, type_ = self._here(), self._variable.type
        operand = operand_of(value)
        if isinstance(operand, (int, float)):
            new: Operand = literal(type_, operand)
        else:
            new = at(self.builder, operand, shape_of(type_))
        if new.type is not type_:
            raise mistake("TIR0805", f"a variable of type {type_} cannot be set to {new.type}")
        function.graph.write(self._variable, function.open_block(), new)

    def _here(self) -> OpenFunction:
        if self.builder.current is not self._function:
            raise mistake("TIR0805", "this variable belongs to another function")
        return self._function

    def _update(self, value: Any) -> Var:
        self.set(value)
        return self

    def __iadd__(self, other: Any) -> Var:
        return self._update(self + other)

    def __isub__(self, other: Any) -> Var:
        return self._update(self - other)

    def __imul__(self, other: Any) -> Var:
        return self._update(self * other)

    def __itruediv__(self, other: Any) -> Var:
        return self._update(self / other)

    def __ifloordiv__(self, other: Any) -> Var:
        return self._update(self // other)

    def __imod__(self, other: Any) -> Var:
        return self._update(self % other)

    def __iand__(self, other: Any) -> Var:
        return self._update(self & other)

    def __ior__(self, other: Any) -> Var:
        return self._update(self | other)

    def __ixor__(self, other: Any) -> Var:
        return self._update(self ^ other)

    def __ilshift__(self, other: Any) -> Var:
        return self._update(self << other)

    def __irshift__(self, other: Any) -> Var:
        return self._update(self >> other)

    def __ipow__(self, other: Any) -> Var:  # type: ignore[override, misc]
        return self._update(self**other)


def variable(builder: Builder, initial: Any, type: Type | None, name: str | None) -> Var:
    """A variable that is `initial`; a number without `type` is i32, f32 or i1."""
    operand = operand_of(initial)
    if type is None:
        type = _default(operand) if isinstance(operand, (int, float)) else operand.type
    var = Var(builder, type, name)
    var.set(initial)
    return var


def _default(number: float) -> Type:
    if isinstance(number, bool):
        return I1
    return I32 if isinstance(number, int) else F32
