"""Nested tiles that a kernel requests (hierarchical tiling, MAPL 2019, section 5.2.1).

The attributes `micro` and `nano` of a kernel, one number per dimension, state the contiguous part
of a tile of that rank for a warp and for a thread. A warp has `micro / nano` lanes along each
dimension. The attributes apply to results of multiply-adds and, in a kernel without dots, to loads
and stores. Without them the compiler chooses.
"""

from __future__ import annotations

from math import prod

import attrs

from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function
from tileir.layout import Vector

_LANES = 32


@attrs.frozen
class Nesting:
    """Extents of micro- and nano-tiles, slowest dimension first."""

    micro: Vector
    nano: Vector

    @property
    def lanes(self) -> Vector:
        """Lanes along each dimension."""
        return tuple(m // n for m, n in zip(self.micro, self.nano, strict=True))

    def fits(self, shape: Vector) -> bool:
        """Whether tiles of `shape` are divided in this way: they have the same rank, and are not
        smaller."""
        return len(shape) == len(self.micro) and all(
            extent >= micro for extent, micro in zip(shape, self.micro, strict=True)
        )


def nesting_of(function: Function) -> Nesting | None:
    """The nesting that the kernel requests; None if there is none. Raises `CompileError` (TIR0708)
    if a micro-tile does not divide into as many nano-tiles as a warp has lanes."""
    stated = [function.attributes.get(name) for name in ("micro", "nano")]
    if stated == [None, None]:
        return None
    micro, nano = (_vector(function, value) for value in stated)
    parts = [m // n if m % n == 0 else 0 for m, n in zip(micro, nano, strict=False)]
    if len(micro) != len(nano) or prod(parts) != _LANES:
        what = f"micro-tiles {list(micro)} of nano-tiles {list(nano)}"
        raise _error(function, f"{what} are not shared by the {_LANES} lanes of a warp")
    return Nesting(micro, nano)


def _vector(function: Function, value: object) -> Vector:
    extents = (value,) if isinstance(value, int) else value
    if not isinstance(extents, tuple) or not extents:
        raise _error(function, f"micro and nano are numbers per dimension, not {value!r}")
    powers = tuple(n for n in extents if isinstance(n, int) and n > 0 and n & (n - 1) == 0)
    if len(powers) != len(extents):
        raise _error(function, f"micro and nano are powers of two, not {value!r}")
    return powers


def _error(function: Function, message: str) -> CompileError:
    return CompileError(Diagnostic("TIR0708", message, function.location))
