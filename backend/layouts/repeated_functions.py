"""Functions of elements that several threads need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from tileir.analysis.uses import definitions
from tileir.ir import Function
from tileir.layout import Layout
from tileir.ops.floats import FDiv
from tileir.ops.math import MathBinary, MathUnary
from tileir.types import Tile
from tileir.values import Value

_LANES = 32
_MOVED = 4
"""Elements of a vector that a thread has, each as many other threads have, from which on it costs
less to move what is computed from them."""

_FEW_FUNCTIONS = 2
"""Functions of an element that several threads compute to save an exchange of the results."""

_FEWEST_FUNCTIONS = 16
"""Divisions and mathematical functions of a thread that take longer than a conversion through
shared memory: a division takes ten instructions or more, an exponential as many cycles of the
unit that computes it."""


def repeats_functions(
    function: Function, members: Iterable[Value], layout: Layout, num_warps: int
) -> bool:
    """Whether several threads would compute mathematical functions of each element of `members`,
    vectors in the layout `layout`, instead of moving the results of one thread."""
    values, defined = list(members), definitions(function)
    size = cast(Tile, values[0].type).size
    times = layout.size("register") * num_warps * _LANES // size
    functions = sum(isinstance(defined.get(v), MathUnary | MathBinary) for v in values)
    return functions > _FEW_FUNCTIONS and min(times, layout.size("register")) >= _MOVED


def takes_long(function: Function, values: Iterable[Value], elements: int) -> bool:
    """Whether quotients and mathematical functions among `values` take a thread longer than a
    conversion, of `elements` elements of each."""
    defined = definitions(function)
    functions = sum(isinstance(defined.get(v), FDiv | MathUnary | MathBinary) for v in values)
    return functions * elements >= _FEWEST_FUNCTIONS
