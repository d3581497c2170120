"""Effects and numerics classes of ops."""

from __future__ import annotations

from enum import Flag, auto


class Effects(Flag):
    """The effects of an op besides computing its results."""

    PURE = 0
    READ = auto()
    """Reads memory."""
    WRITE = auto()
    """Writes memory."""
    SYNC = auto()
    """Orders memory accesses (atomics, volatile accesses, barriers)."""
    CONTROL = auto()
    """Ends a block."""
    OUTSIDE = auto()
    """Is seen outside the program (print, assert, opaque code)."""
    TRAP = auto()
    """Has no meaning for some operands (division by zero): must not be executed early."""

    def __and__(self, other: Effects) -> Effects:
        return _BY_BITS[self._value_ & other._value_]

    def __or__(self, other: Effects) -> Effects:
        return _BY_BITS[self._value_ | other._value_]

    def __contains__(self, other: Effects) -> bool:
        return self._value_ & other._value_ == other._value_

    def __bool__(self) -> bool:
        return self._value_ != 0


class _SetsByBits(dict[int, Effects]):
    def __missing__(self, bits: int) -> Effects:
        effects = self[bits] = Effects(bits)
        return effects


_BY_BITS = _SetsByBits()
"""Sets of effects by their bits: a table, because passes intersect sets very often."""

ACCESSES = Effects.READ | Effects.WRITE
"""Effects of ops that access memory: an op has one of them, or both."""


class Numerics:
    """The largest error of a result: `ulp` 0 with `exact` False is correct
    rounding; None means the bound is stated in the op's documentation."""

    def __init__(self, exact: bool = False, ulp: float | None = 0) -> None:
        self.exact, self.ulp = exact, ulp


EXACT = Numerics(exact=True)
ROUNDED = Numerics()


def ulp(n: float) -> Numerics:
    """At most `n` units in the last place from the real result."""
    return Numerics(ulp=n)
