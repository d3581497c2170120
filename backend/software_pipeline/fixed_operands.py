"""Operands of dots that a loop does not change, where registers do not suffice for them."""

from __future__ import annotations

from collections.abc import Container
from typing import cast

from tileir.analysis.loops import Loop
from tileir.analysis.uses import defining_blocks, definitions
from tileir.backend.layouts.dot_layouts import layouts_of, mma_of
from tileir.backend.processors import MAX_REGISTERS
from tileir.backend.shared_memory.shared_tile import SharedTile, full_swizzle
from tileir.backend.software_pipeline.expand import dots_of
from tileir.ir import Function
from tileir.ops.dot import Dot
from tileir.ops.shape import Trans
from tileir.types import Tile
from tileir.values import Constant, Operand, Value

_LANES = 32
_MOST_REGISTERS = 192
"""Registers of a thread that tiles may take: addresses, and the fragments of one
step of K take the others."""
_OTHER_REGISTERS = MAX_REGISTERS - _MOST_REGISTERS


def fixed_operands(
    function: Function, loop: Loop, num_warps: int, others: Container[Dot] = (),
    *, registers: int | None = None,
) -> dict[Value, SharedTile]:  # fmt: skip
    """The operands of dots by `mma` that are computed before `loop`, by value, where their
    fragments, the tiles that the loop carries and the largest other result of a dot are more than
    the registers of a thread of `num_warps` warps hold: they would be spilled and read back from
    local memory, where shared memory holds them for all threads. Not those of `others`, which are
    dots by warpgroups; operands B only next to these.

    If more blocks are resident while a thread has at most so many `registers`, what a dot with A in
    registers reads as a whole counts, too."""
    dots = dots_of(function, loop)
    fixed: dict[Value, SharedTile] = {}
    fragments = 0
    for dot in dots:
        if dot in others or mma_of(dot) is None:
            continue
        for operand in (dot.a, dot.b) if others else (dot.a,):
            value = _transpose_source(function, operand) if others else operand
            kind = cast(Tile, operand.type)
            is_matrix = kind.element.bits in (8, 16, 32) and len(kind.shape) == 2
            if is_matrix and _is_before(function, loop, value):
                stored = cast(Tile, value.type)
                swizzle = full_swizzle(stored.element, stored.shape, 1)
                fixed[cast(Value, value)] = SharedTile(stored.element, stored.shape, 1, swizzle)
                fragments += _words_of_fragments(dot, operand, num_warps)
                if registers is not None:
                    fragments += _words_of_fragments(dot, dot.b, num_warps)
    carried = sum(_words(p) for p in function.blocks[loop.header].parameters)
    results = [_words(dot.results[0]) for dot in dots if isinstance(dot.c, Constant)]
    needed = carried + max(results, default=0) + fragments
    most = _MOST_REGISTERS if registers is None else registers - _OTHER_REGISTERS
    return fixed if needed > most * _LANES * num_warps else {}


def _words_of_fragments(dot: Dot, operand: Operand, num_warps: int) -> int:
    """Registers of all threads together for the fragments of operand A or B, of which several warps
    may have copies."""
    layouts = layouts_of(dot, num_warps)
    layout = layouts.a if operand is dot.a else layouts.b
    bits = cast(Tile, operand.type).element.bits
    return layout.size("register") * bits // 32 * _LANES * num_warps


def _transpose_source(function: Function, operand: Operand) -> Operand:
    """The value that `operand` is the transpose of, else itself."""
    op = definitions(function).get(operand) if isinstance(operand, Value) else None
    return op.value if isinstance(op, Trans) and tuple(op.order) == (1, 0) else operand


def _is_before(function: Function, loop: Loop, operand: Operand) -> bool:
    return isinstance(operand, Value) and (
        defining_blocks(function).get(operand) not in loop.blocks
    )


def _words(operand: Operand) -> int:
    """Registers of all threads together for a tile of numbers; 0 for others."""
    kind = operand.type
    if not isinstance(kind, Tile) or len(kind.shape) != 2 or not kind.element.is_float:
        return 0
    return kind.size * kind.element.bits // 32
