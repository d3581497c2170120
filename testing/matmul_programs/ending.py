"""What becomes of a product: bias, activation, second results, the store."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.testing.matmul_programs.writing import Writing, axes, source

_SUMMED = {16: 4, 32: 4096}
"""By the bits of a float: 512 of so large numbers add up to one that it represents, as every
smaller whole number."""


def ending(w: Writing, total: Any, row: Writing, column: Any, extra: Any = None) -> None:
    """Write the result of a tile that starts there."""
    total = _activated(w, _biased(w, total, row, column))
    rows, columns = axes(w, "z", ("m", w.bm), ("n", w.bn))
    z = source(w, "z", rows, columns)
    element = w["z"].type.pointee
    z.store(total if element is w.total else total.to(element), row, column)
    _more(w, total, row, column, extra, attrs.evolve(z, base=_second(w), masked=0))


def _second(w: Writing) -> Any:
    base = w["more"]
    return base + w["batch"] * 8192 if w.traits["grid"][0] % 4 == 1 else base


def _biased(w: Writing, total: Any, row: Writing, column: Any) -> Any:
    b = w.b
    match w.traits["epilogue"][0] % 6:
        case 3:
            at = b.arange(w.bn) + column
            return total + (w["bias"] + at).load(at < w["n"], 0)[None, :].broadcast_to(w.bm, w.bn)
        case 4:
            at = b.arange(w.bm) + row
            return total + (w["bias"] + at).load(at < w["m"], 0)[:, None].broadcast_to(w.bm, w.bn)
        case 5:
            at = (w["bias"] + w["batch"]).load()
            return total + at
        case _:
            return total


def _activated(w: Writing, total: Any) -> Any:
    b, zero = w.b, w.zeros(w.bm, w.bn)
    match w.traits["epilogue"][1] % 6:
        case 2:
            return b.where(total > zero, total, zero)
        case 3:
            return b.where(total > zero, total, total + total)
        case 4:
            return total * total
        case 5:
            return total - b.where(total > zero, zero, total)
        case _:
            return total


def _more(w: Writing, total: Any, row: Writing, column: Any, extra: Any, z: Any) -> None:
    """A second result."""
    b, at = w.b, w.b.arange(w.bm) + row
    place = w["more"] + (w.b.program_id(axis=1) * 4096 + column * 256) + at
    match w.traits["output"][0] % 8:
        case 3:
            place.store(_small(w, total).sum(axis=1), at < w["m"])
        case 4:
            place.store(total.max(axis=1), at < w["m"])
        case 5:
            z.store(total, row, column)
        case 6 if extra is not None:
            place.store(extra, at < w["m"])
        case 7:
            columns, sums = b.arange(w.bn) + column, _small(w, total).sum(axis=0)
            (w["more"] + columns).atomic(
                "add" if w.total.is_integer else "fadd", sums, columns < w["n"]
            )
        case _:
            return


def _small(w: Writing, total: Any) -> Any:
    """Numbers whose sum over all rows, or over a tile's columns, is exact in any order: whole ones
    within bounds."""
    if w.total.is_integer:
        return total
    low, high = (w.b.constant(w.total, s * _SUMMED[w.total.bits]) for s in (-1, 1))
    return w.b.where(total < low, low, w.b.where(total > high, high, total))
