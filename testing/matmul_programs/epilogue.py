"""The epilogue of a matmul: bias, activation, a second output, the store."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.testing.matmul_programs.writing import Writing, axes, source

_EXACT = {16: 4, 32: 4096}
"""A bound, by the bits of a float, such that the total of 512 whole numbers below it is exact."""


def epilogue(w: Writing, total: Any, row: Any, column: Any, extra: Any = None) -> None:
    """Write the output tile that starts at `row` and `column`."""
    total = _activate(w, _add_bias(w, total, row, column))
    rows, columns = axes(w, "z", ("m", w.bm), ("n", w.bn))
    z = source(w, "z", rows, columns)
    element = w["z"].type.pointee
    z.store(total if element is w.total else total.to(element), row, column)
    _second_output(w, total, row, column, extra, attrs.evolve(z, base=_second_base(w), masked=0))


def _second_base(w: Writing) -> Any:
    base = w["more"]
    return base + w["batch"] * 8192 if w.features["grid"][0] % 4 == 1 else base


def _add_bias(w: Writing, total: Any, row: Any, column: Any) -> Any:
    b = w.b
    match w.features["epilogue"][0] % 6:
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


def _activate(w: Writing, total: Any) -> Any:
    b, zero = w.b, w.zeros(w.bm, w.bn)
    match w.features["epilogue"][1] % 6:
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


def _second_output(w: Writing, total: Any, row: Any, column: Any, extra: Any, z: Any) -> None:
    """Write to the second output."""
    b, at = w.b, w.b.arange(w.bm) + row
    place = w["more"] + (w.b.program_id(axis=1) * 4096 + column * 256) + at
    match w.features["output"][0] % 8:
        case 3:
            place.store(_small(w, total).sum(axis=1), at < w["m"])
        case 4:
            place.store(total.max(axis=1), at < w["m"])
        case 5:
            z.store(total, row, column)
        case 6 if extra is not None:
            place.store(extra, at < w["m"])
        case 7:
            columns, totals = b.arange(w.bn) + column, _small(w, total).sum(axis=0)
            (w["more"] + columns).atomic(
                "add" if w.total.is_integer else "fadd", totals, columns < w["n"]
            )
        case _:
            return


def _small(w: Writing, total: Any) -> Any:
    """Small whole numbers, whose sum over all rows, or over the columns of a tile, is exact in any
    order."""
    if w.total.is_integer:
        return total
    low, high = (w.b.constant(w.total, s * _EXACT[w.total.bits]) for s in (-1, 1))
    return w.b.where(total < low, low, w.b.where(total > high, high, total))
