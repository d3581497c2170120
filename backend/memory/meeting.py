"""Which threads two accesses of global memory bring together at one byte."""

from __future__ import annotations

from enum import Enum, IntEnum
from functools import cache
from typing import Any, TypeAlias

import attrs

from tileir.backend.memory.affine import Affine
from tileir.layout import Layout
from tileir.types import Pointer, Tile, Type, element_of, shape_of
from tileir.values import Value

Base: TypeAlias = "Value | None"
"""The parameter a pointer comes from; None where it is not known."""

_MOST = 1 << 17
"""Accesses of single elements, by threads, that are looked at one by one."""
_APART = 1 << 30
"""Distances modulo 2^32 below this are true ones."""
_LANES = 32
_MOST_ROUNDS = 8
"""Rounds of a loop back that are looked at."""


class Scope(IntEnum):
    """Who must wait for whom between two accesses."""

    NONE = 0
    """Nobody: a thread meets but itself."""
    WARP = 1
    """Threads of one warp."""
    BLOCK = 2


class Who(Enum):
    """Which threads access an element of a tile, or a scalar."""

    EVERY = "every thread that holds it"
    FIRST = "the first of them"
    ANY = "not known"


@attrs.frozen(eq=False)
class Access:
    """One op's access of global memory through one pointer: of `type`, from `base`, at `form`,
    somewhere in the bytes `reach` from the base."""

    base: Base
    type: Type
    form: Affine | None
    writes: bool
    who: Who

    @property
    def size(self) -> int:
        """Bytes of an element."""
        kind = element_of(self.type)
        assert isinstance(kind, Pointer)
        return kind.pointee.bytes


def scope(a: Access, b: Access, warps: int | None, step: int = 0) -> Scope:
    """Who must wait between `a` and then `b`, of which one writes, in a block of `warps`, for
    both to be made in the order of the program. Masks are taken to be true. Where `step` is not
    0, `a` was made one or more rounds of a loop ago, and every round moves it by `step` bytes; a
    loop is taken not to come back to an address by going round all 2^32."""
    if a.form is None or b.form is None or a.form.terms != b.form.terms:
        return Scope.BLOCK
    found = Scope.NONE
    for rounds in range(1, _MOST_ROUNDS) if step else (0,):
        form = attrs.evolve(a.form, start=a.form.start - rounds * step)
        earlier = attrs.evolve(a, form=form)
        if _behind(earlier, b, step):
            return found
        found = max(found, _at_once(earlier, b, warps or 1))
    return Scope.BLOCK if step else found


def alone(a: Access) -> bool:
    """Whether thread 0 is the only one that makes access `a`."""
    return a.who is Who.FIRST and not isinstance(a.type, Tile)


def _at_once(a: Access, b: Access, warps: int) -> Scope:
    if spans_apart(a, b):
        return Scope.NONE
    if Who.ANY in (a.who, b.who) or max(_count(a, warps), _count(b, warps)) > _MOST:
        return Scope.BLOCK
    return _by_bytes(a, b, warps)


def _behind(a: Access, b: Access, step: int) -> bool:
    """Whether `a`, which every further round back moves by -`step`, has passed `b`."""
    (a_low, a_high), (b_low, b_high) = _span(a), _span(b)
    if max(a_high, b_high) - min(a_low, b_low) > _APART:
        return False
    return (step > 0 and a_high <= b_low) or (step < 0 and a_low >= b_high)


def spans_apart(a: Access, b: Access, moved: tuple[int, int] = (0, 0)) -> bool:
    """Whether the bytes from the first to the last of one are apart from those of the other, at
    forms but for their terms; `b` is `moved` by something between these two numbers."""
    (a_low, a_high), (b_low, b_high) = _span(a), _span(b)
    b_low, b_high = b_low + moved[0], b_high + moved[1]
    if max(a_high, b_high) - min(a_low, b_low) > _APART:
        return False
    return a_high <= b_low or b_high <= a_low


def _span(a: Access) -> tuple[int, int]:
    assert a.form is not None
    low, high = a.form.interval(shape_of(a.type))
    return low, high + a.size


def _count(a: Access, warps: int) -> int:
    if not isinstance(a.type, Tile):
        return warps * _LANES
    layout = a.type.layout
    return layout.size("register") * _LANES * layout.size("warp") * a.size


def _by_bytes(a: Access, b: Access, warps: int) -> Scope:
    import numpy as np  # heavy, and needed where spans overlap

    unit = a.size if a.size == b.size and not _shifted(a, b) else 1
    first, second = (_ends(x, warps, unit) for x in (a, b))
    _, i, j = np.intersect1d(first[0], second[0], assume_unique=True, return_indices=True)
    low = np.minimum(first[1][i], second[1][j])
    high = np.maximum(first[2][i], second[2][j])
    if (low == high).all():
        return Scope.NONE
    return Scope.WARP if (low // _LANES == high // _LANES).all() else Scope.BLOCK


def _shifted(a: Access, b: Access) -> bool:
    """Whether an element of one can lie across two of the other."""
    assert a.form is not None and b.form is not None
    steps = (a.form.start - b.form.start, *a.form.strides, *b.form.strides)
    return any(step % a.size for step in steps)


def _ends(a: Access, warps: int, unit: int) -> Any:
    """The places that are accessed, in units of `unit` bytes, and of each the first and the last
    of the threads that access it: three arrays."""
    import numpy as np

    assert a.form is not None
    at, threads = _holders(a, warps)
    start, steps = a.form.start, np.array(a.form.strides, np.int64)
    places = start + (at @ steps if len(steps) else np.zeros(len(threads), np.int64))
    if unit == 1:
        places = (places[:, None] + np.arange(a.size)).reshape(-1)
        threads = np.repeat(threads, a.size)
    places = places % (1 << 32) // unit
    order = np.argsort(places, kind="stable")
    places, threads = places[order], threads[order]
    starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
    low, high = np.minimum.reduceat(threads, starts), np.maximum.reduceat(threads, starts)
    return places[starts], low, high


def _holders(a: Access, warps: int) -> Any:
    import numpy as np

    if isinstance(a.type, Tile):
        return _tile_holders(a.type.layout, a.type.shape, a.who is Who.FIRST)
    threads = np.arange(1 if a.who is Who.FIRST else warps * _LANES)
    return np.zeros((len(threads), 0), np.int64), threads


@cache
def _tile_holders(layout: Layout, shape: tuple[int, ...], first: bool) -> Any:
    """The coordinates of elements and the threads that hold them: arrays [n, dimension] and
    [n]. `first`: of threads that hold the same the first alone."""
    import numpy as np

    threads = np.arange(_LANES * layout.size("warp"))
    index = {"lane": threads % _LANES, "warp": threads // _LANES}
    held = np.ones(len(threads), bool)
    at = np.zeros((len(threads), layout.rank), np.int64)
    for axis, number in index.items():
        for bit, vector in enumerate(layout.atom(axis)):
            at ^= (number >> bit & 1)[:, None] * np.array(vector, np.int64)
        held &= (number & layout.free_bits(axis)) == 0
    low = at[:, None, :] ^ _low_registers(layout)[None]
    for axis, number in index.items():
        for digit in layout.digits(axis):
            k = number // digit.weight % digit.count
            low += (k[:, None] * np.array(digit.step, np.int64))[:, None, :]
            held &= (k == 0) | bool(any(digit.step))
    whole = low + _high_registers(layout)[None]
    inside = (whole < np.array(shape)).all(axis=-1) & (held[:, None] | (not first))
    which = np.broadcast_to(threads[:, None], inside.shape)
    return whole[inside], which[inside]


def _low_registers(layout: Layout) -> Any:
    """What the atom says of registers: an array [register, dimension]."""
    import numpy as np

    count = 1 << len(layout.register)
    return np.array([layout.coordinate(r % count) for r in range(layout.size("register"))])


def _high_registers(layout: Layout) -> Any:
    """What repetitions add."""
    import numpy as np

    return np.array(layout.registers, np.int64) - _low_registers(layout)
