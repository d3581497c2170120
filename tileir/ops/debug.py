"""Printing, assertions, and inline assembly."""

from __future__ import annotations

from typing import Any

from tileir.op import (
    BOOL_ATTRIBUTE,
    INT,
    STRING,
    Effects,
    Numerics,
    Op,
    attribute,
    op,
    operand,
    result_types,
    variadic,
)
from tileir.signature import ANY_ELEMENT, BOOL, Bindings, Each, TypeVariable
from tileir.types import Type, shape_of
from tileir.values import Operand

B = TypeVariable("T", BOOL)


@op("print")
class Print(Op):
    """Print `values` after `prefix`: integers in hexadecimal with `hex`, as unsigned ones with
    `unsigned` (hexadecimal ones are always unsigned).

    `print %x, %y {prefix = "x and y"}`, given `f32<64> %x, i32 %y`
    """

    values: tuple[Operand, ...] = variadic(Each(ANY_ELEMENT))
    prefix: str = attribute(STRING, default="")
    hex: bool = attribute(BOOL_ATTRIBUTE, default=False)
    unsigned: bool = attribute(BOOL_ATTRIBUTE, default=False)
    effects_ = Effects.OUTSIDE
    predicate_follows_operand = True

    def evaluate(self, machine: Any, values: tuple[Any, ...]) -> Any:
        return machine.print_(self, values)


@op("assert")
class Assert(Op):
    """Stop with `message` unless `condition` is true in all lanes.

    `assert %c {message = "index in range"}`, given `i1<64> %c`
    """

    condition: Operand = operand(B)
    message: str = attribute(STRING, default="")
    effects_ = Effects.OUTSIDE | Effects.TRAP
    predicate_follows_operand = True

    def evaluate(self, machine: Any, condition: Any) -> Any:
        return machine.assert_(self, condition)


@op("inline_asm")
class InlineAsm(Op):
    """Inline PTX as an elementwise op: `text` with operands `$0`, `$1`, ... under LLVM's
    `constraints`, applied to groups of `pack` elements. If the last group of a thread has fewer
    elements, its last element is repeated. Code that is not `pure` is never removed, repeated or
    moved. The interpreter and the simulator compute the PTX that has a meaning outside a GPU:
    arithmetic, logic and conversions, without memory, branches and special registers. The compiler
    needs a permission for the op.

    `%r = inline_asm f32<64> %x {text = "ex2.approx.f32 $0, $1;", constraints = "=f,f"}`
    """

    to: tuple[Type, ...] = result_types()
    values: tuple[Operand, ...] = variadic(Each(ANY_ELEMENT))
    text: str = attribute(STRING)
    constraints: str = attribute(STRING)
    pure: bool = attribute(BOOL_ATTRIBUTE, default=True)
    pack: int = attribute(INT, default=1)
    may_be_undefined = True
    shares_layout = True
    numerics = Numerics(ulp=None)

    def verify(self) -> None:
        if self.pack not in (1, 2, 4, 8):
            raise self.fail("TIR0113", f"pack must be 1, 2, 4 or 8, not {self.pack}", "pack")
        types = [*self.to, *(v.type for v in self.values)]
        shapes = {shape_of(t) for t in types}
        if len(shapes) > 1:
            result = ", ".join(map(str, types))
            raise self.fail("TIR0112", f"operands and results have one shape: {result}", "values")
        if not self.to and self.pure:
            raise self.fail("TIR0117", "pure code without results does nothing", "pure")

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return self.to

    @property
    def effects(self) -> Effects:
        if self.pure:
            return Effects.PURE
        return Effects.READ | Effects.WRITE | Effects.SYNC | Effects.OUTSIDE

    def evaluate(self, machine: Any, values: tuple[Any, ...]) -> Any:
        return machine.inline_asm(self, values)
