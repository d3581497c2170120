"""Ops that the backend makes: how values move between threads, and when threads wait.

They print and parse like any other op, and are outside the stability promise.
"""

from __future__ import annotations

from typing import Any

from tileir.effects import Effects
from tileir.field import LAYOUT, attribute, operand
from tileir.layout import Layout
from tileir.op import Op, op
from tileir.signature import ANY_ELEMENT, Bindings, Var
from tileir.types import Tile, Type
from tileir.values import Operand

T = Var("T", ANY_ELEMENT, scalar=False)


@op("gpu.convert_layout")
class ConvertLayout(Op):
    """The same tile, held by threads as `layout` says.

    `%b = gpu.convert_layout f32<64; #b> %a {layout = #b}`
    """

    source: Operand = operand(T)
    layout: Layout = attribute(LAYOUT)

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        tile = bound["T"]
        assert isinstance(tile, Tile)
        return (Tile(tile.element, tile.shape, self.layout),)

    def evaluate(self, machine: Any, source: Any) -> Any:
        return source


@op("gpu.barrier")
class Barrier(Op):
    """Every thread of the block waits for the others; what each did to memory before, all see
    after.

    `gpu.barrier`
    """

    effects_ = Effects.SYNC
    predicable = False

    def evaluate(self, machine: Any) -> Any:
        return None
