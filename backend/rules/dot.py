"""Matrix products by fused multiply-adds: factors in shared memory, sums in registers, one step
of K at a time. Products and sums are formed in the accumulator's precision or better."""

from __future__ import annotations

from math import prod
from typing import Any

from tileir.backend.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.rules.cast import float_to_float
from tileir.backend.rules.rearrange import address, coordinates, dense, scatter
from tileir.types import F16, F32, F64, I32, Element, Scalar, Tile


def _dot(lowering: Lowering, op: Any) -> list[Fragment]:
    a, b, c = op.a.type, op.b.type, op.c.type
    if scalar_of(a).bits < 8:
        raise lowering.refuse(op, f"products of {scalar_of(a)} have no lowering")
    thread, base = lowering.thread, lowering.scratch[op]
    place_a = dense(a, base)
    place_b = dense(b, base + factor_bytes(a))
    scatter(lowering, lowering.fragment(op.a), a, place_a, list)
    scatter(lowering, lowering.fragment(op.b), b, place_b, list)
    thread.barrier()
    work = _work(scalar_of(c))
    sums = [_to_work(lowering, scalar_of(c), x) for x in lowering.fragment(op.c)]
    rows, columns = _distinct(lowering, c, place_a, place_b)

    def step(k: str, carried: list[str]) -> list[str]:
        left = [_factor(lowering, op.lhs_signed, place_a, at, k, -1) for at in rows[0]]
        right = [_factor(lowering, op.rhs_signed, place_b, at, k, -2) for at in columns[0]]
        pairs = zip(rows[1], columns[1], carried, strict=True)
        return [_multiplied(lowering, work, left[i], right[j], x) for i, j, x in pairs]

    found = thread.loop(a.shape[-1], [work] * len(sums), sums, step)
    return [[_from_work(lowering, scalar_of(c), x) for x in found]]


def factor_bytes(tile: Tile) -> int:
    """Shared memory of one factor."""
    return -(-prod(tile.shape) * tile.element.bytes // 16) * 16


def _distinct(lowering: Lowering, c: Tile, place_a: Any, place_b: Any) -> Any:
    """For A and for B: byte offsets at K = 0 that the registers of C need, each once, and which
    of them each register uses."""
    thread, zero = lowering.thread, lowering.thread.integer(0)
    found: list[tuple[list[str], list[int]]] = []
    for place, keep in ((place_a, -2), (place_b, -1)):
        known: dict[tuple[int, ...], int] = {}
        offsets: list[str] = []
        uses: list[int] = []
        for register, vector in enumerate(c.layout.registers):
            key = (*vector[:-2], vector[keep])
            if key not in known:
                known[key] = len(offsets)
                at = _held(lowering, c, coordinates(lowering, c, register))
                moved = [*at[:-2], at[keep], zero] if keep == -2 else [*at[:-2], zero, at[keep]]
                offsets.append(address(lowering, place, moved))
            uses.append(known[key])
        found.append((offsets, uses))
    assert thread is lowering.thread
    return found


def _held(lowering: Lowering, c: Tile, at: list[str]) -> list[str]:
    """Coordinates within the tile: padding computes what another element does."""
    thread = lowering.thread
    return [
        thread.intrinsic("umin", I32, x, thread.integer(n - 1)) if extent > n else x
        for x, n, extent in zip(at, c.shape, c.layout.extents, strict=True)
    ]


def _factor(lowering: Lowering, signed: bool, place: Any, at: str, k: str, dim: int) -> str:
    """The factor at offset `at` and step `k`, in the precision of the product."""
    thread = lowering.thread
    moved = thread.binary("mul", I32, k, thread.integer(place.strides[dim]))
    (x,) = thread.load_shared(place.element, 1, thread.binary("add", I32, at, moved))
    element: Scalar = place.element
    if element.is_integer:
        return thread.convert("sext" if signed else "zext", element, I32, x)
    return x if element is F64 else float_to_float(thread, element, F32, x, "rn", False)


def _multiplied(lowering: Lowering, work: Element, a: str, b: str, c: str) -> str:
    thread = lowering.thread
    if work.is_integer:
        return thread.binary("add", work, thread.binary("mul", work, a, b), c)
    return thread.intrinsic("fma", work, a, b, c)


def _work(element: Element) -> Element:
    """The type sums are formed in."""
    return F32 if element is F16 else element


def _to_work(lowering: Lowering, element: Element, x: str) -> str:
    return lowering.thread.convert("fpext", element, _work(element), x)


def _from_work(lowering: Lowering, element: Element, x: str) -> str:
    return lowering.thread.convert("fptrunc", _work(element), element, x)


RULES: dict[str, Rule] = {"dot": _dot}
