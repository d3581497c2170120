"""How many registers the threads of each role have."""

from __future__ import annotations

from math import prod

from tileir.ir import Function
from tileir.ops.dot import Dot
from tileir.ops.memory import Load
from tileir.types import shape_of

_USUAL = {1: (0, 0), 2: (40, 232), 3: (32, 160)}
_FETCHING = {1: (0, 0), 2: (104, 200), 3: (80, 144)}
_WRITING = {1: (0, 0), 2: (24, 240), 3: (32, 160)}
"""Of a thread that loads and of one that multiplies, by warpgroups that multiply; where threads
load blocks; where those that multiply hold large factors beside their sums, and write them."""
_AS_LAUNCHED = 0, 0
_SMALL, _MOST = 64, 2
"""Registers of a thread's sums, and warpgroups that multiply, up to which roles that load by tensor
maps keep the 168 that each thread is launched with: ptxas takes a tenth less without `setmaxnreg`.
"""
_LARGE = 64
"""Elements of a factor that a thread holds."""
_FEW = 4
"""Elements that a thread loads beside its products and needs hardly any registers for."""


def registers_of(function: Function, groups: int, fetched: bool, held: int) -> tuple[int, int]:
    """Of a thread that loads, and of one that multiplies; 0 for those it is launched with. In
    `function` so many warpgroups multiply, threads fetch factors or tensor maps do, and a thread
    that multiplies has `held` elements of a factor in registers."""
    if fetched:
        return _FETCHING[groups]
    if held >= _LARGE:
        return _WRITING[groups]
    few = groups <= _MOST and _sums(function, groups) <= _SMALL
    return _AS_LAUNCHED if few and not _gathers(function, groups) else _USUAL[groups]


def _gathers(function: Function, groups: int) -> bool:
    """Whether threads that multiply load more than a few elements from anywhere."""
    loads = (op for op in function.ops if isinstance(op, Load))
    return any(prod(shape_of(op.result.type)) > _FEW * 128 * groups for op in loads)


def _sums(function: Function, groups: int) -> int:
    """Registers of a thread for the sums of all products."""
    products = (op for op in function.ops if isinstance(op, Dot))
    return sum(prod(shape_of(op.result.type)) for op in products) // (128 * groups)
