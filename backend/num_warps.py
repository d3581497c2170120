"""How many warps a block has, where the program leaves it open."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function
from tileir.passmanager.registry import remark
from tileir.types import Tile

_ELEMENTS_PER_THREAD = 16
"""Registers a thread may hold per tile before more than 4 warps are worth it."""


MOST_WARPS = 32
"""Of a block on every target (CUDA C++ Programming Guide, "Technical Specifications")."""


def check_warps(function: Function, num_warps: int, most: int = MOST_WARPS) -> None:
    """Raise CompileError (TIR0708) where no block has so many warps."""
    if not 1 <= num_warps <= most:
        message = f"num_warps must be in 1 to {most}, not {num_warps}"
        raise CompileError(Diagnostic("TIR0708", message, function.location))


def choose_warps(function: Function, target: Target) -> int:
    """The function's `num_warps` attribute, else the least power of two of warps, 16 at most, with
    which a thread has 16 elements of the largest tile or fewer; of 4 warps or fewer, 4."""
    stated = function.attributes.get("num_warps")
    if isinstance(stated, int) and not isinstance(stated, bool):
        return stated
    sizes = [v.type.size for op in function.ops for v in op.results if isinstance(v.type, Tile)]
    largest = max(sizes, default=1)
    warps = 1
    while warps < 16 and largest > warps * target.lanes * (
        4 if warps < 4 else _ELEMENTS_PER_THREAD
    ):
        warps *= 2
    return warps


def chosen_warps(function: Function, num_warps: int, stated: int | None) -> Iterator[Diagnostic]:
    """How many warps a block has, and who says so (TIR0757)."""
    if stated:
        who = "as the options say"
    elif "num_warps" in function.attributes:
        who = "as the kernel says"
    else:
        who = "chosen from its largest tile"
    words = f"{num_warps} warp{'s' * (num_warps != 1)} per block"
    yield remark("TIR0757", f"{words}, {who}", function.location)
