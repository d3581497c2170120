"""Kernels with one to three dots, by their traits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tileir.builder import F16, I32, Builder, arg, pointer
from tileir.testing.matmul_programs import loops
from tileir.testing.matmul_programs.ending import ending
from tileir.testing.matmul_programs.features import MULTIPLES, Traits
from tileir.testing.matmul_programs.sources import Axis, Moving
from tileir.testing.matmul_programs.writing import (
    ELEMENTS,
    FAMILIES,
    LEAD,
    ROOM,
    Writing,
    axes,
    given,
    is_chain,
    is_tiles,
    source,
    turned,
)
from tileir.testing.program import Buffer, Program
from tileir.types import Descriptor, Tile

ROWS, COLUMNS, DEPTH = (72, 64, 1, 130, 40), (24, 16, 40, 8, 13, 60), (40, 16, 48, 8, 33, 0)

MULTIPLE = 8
"""What divides extents, where programs say so."""


def program(traits: Traits) -> Program:
    """The kernel of `traits`, with what it is run on."""
    factor, total = ELEMENTS[traits["element"][0] % len(ELEMENTS)]
    bm = (64, 64, 128, 192, 40, 24)[traits["tile"][0] % 6]
    bn = (16, 32, 8, 64, 96, 48, 72, 88)[traits["tile"][1] % 8]
    bn = 64 if bm < 64 else bn  # a product that is computed transposed
    bk = (16, 32, 64)[traits["tile"][2] % 3]
    bk *= {8: 2, 16: 1, 32: 1}[factor.bits]
    m, n, k = (
        sizes[traits["shape"][i] % len(sizes)] for i, sizes in enumerate((ROWS, COLUMNS, DEPTH))
    )
    if _has_multiples(traits):
        m, n, k = (-(-extent // MULTIPLE) * MULTIPLE for extent in (m, n, k))
    w = Writing(Builder(locations=False), traits, factor, total, bm, bn, bk)
    stored = total if traits["output"][2] % 2 or total is I32 else F16
    kinds = _kinds(w, stored)
    with w.b.kernel("generated", **kinds) as values:
        w.values.update(zip(kinds, values, strict=True))
        _body(w)
    buffers = _buffers(w, stored)
    numbers = {"m": m, "n": n, "k": k, "one": 1, "first": w.bk * (traits["begin"][1] % 2)}
    numbers |= {f"ld{x}": LEAD * (1 + traits["leads"][2] % 2) for x in "xyvz"}
    for name, extents in (("x", (m, k)), ("y", (k, n))):
        if given(traits, name):
            shape = extents[::-1] if turned(traits, name) else extents
            buffers[name] = attrs.evolve(buffers[name], shape=shape, lead=LEAD)
    down, across = _covered(w)
    tiles = -(-m // down) * (-(-n // across) if across else 1)
    batches = 1 + (traits["grid"][0] % 4 == 1)
    return Program(w.b.module(), "generated", (tiles, batches, 1), buffers, numbers=numbers)


def _kinds(w: Writing, stored: Any) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    noalias = w.traits["promises"][0] % 4 != 3
    for name, element in (
        ("x", w.factor), ("y", w.factor), ("v", w.factor), ("bias", w.total), ("table", I32),
        ("z", stored), ("more", w.total),
    ):  # fmt: skip
        kinds[name] = arg(pointer(element), aligned=16, noalias=noalias)
        if name in "xy" and given(w.traits, name):
            shape = (w.bm, w.bk) if name == "x" else (w.bk, w.bk if is_chain(w.traits) else w.bn)
            block = shape[::-1] if turned(w.traits, name) else shape
            kinds[name] = Descriptor(Tile(element, block))
    extent = arg(I32, multiple_of=MULTIPLE) if _has_multiples(w.traits) else I32
    kinds |= dict.fromkeys("mnk", extent)
    return kinds | dict.fromkeys(("first", "one", "ldx", "ldy", "ldv", "ldz"), I32)


def _has_multiples(traits: Traits) -> bool:
    """Whether the extents are multiples of `MULTIPLE`, as their masks are then."""
    return traits["promises"][0] == MULTIPLES


def _buffers(w: Writing, stored: Any) -> dict[str, Buffer]:
    whole = {name: Buffer(w.factor, ROOM, output=False, whole=True) for name in "xyv"}
    return {
        **whole,
        "bias": Buffer(w.total, 1024, output=False, whole=True),
        "table": Buffer(I32, 1024, output=False, below=40),
        "z": Buffer(stored, ROOM, output=True),
        "more": Buffer(w.total, ROOM, output=True),
    }


# The kernel ---------------------------------------------------------------------------------------


def _body(w: Writing) -> None:
    b, traits = w.b, w.traits
    pid = b.program_id(axis=0)
    rows, columns = _covered(w)
    i, j = pid, b.constant(I32, 0)
    if columns and traits["grid"][1] % 4 == 3:
        down = (w["m"] + (rows - 1)) // rows
        i, j = pid % down, pid // down
    elif columns:
        across = (w["n"] + (columns - 1)) // columns
        i, j = pid // across, pid % across
    if traits["grid"][2] % 4 == 2:
        with b.if_(i * rows >= w["m"] - 8):
            b.ret()
    w.values.update({"i": i * rows, "j": j * columns, "batch": b.program_id(axis=1)})
    family = traits["family"][0] % FAMILIES
    (_product, _product, _gated, _chain, _layers, _tiles)[family](w)


def _covered(w: Writing) -> tuple[int, int]:
    """Rows and columns of the result that one instance writes; 0 columns for all there are."""
    if is_chain(w.traits):
        return w.bm, 0
    if not is_tiles(w.traits):
        return w.bm, w.bn
    return (2 * w.bm, w.bn) if w.traits["family"][1] % 2 else (w.bm, 2 * w.bn)


def _factors(w: Writing, at_x: Any, at_y: Any) -> tuple[Moving, Moving]:
    """The factors of a product along k."""
    moves = w.traits["moves"]
    x = source(w, "x", *axes(w, "x", ("m", w.bm), ("k", w.bk)))
    y = source(w, "y", *axes(w, "y", ("k", w.bk), ("n", w.bn)))
    first = loops.first(w)
    by = loops.by(w)
    shifted = at_x + (0, 0, 0, -1, 1, 3)[w.traits["shift"][0] % 6]
    return (
        Moving(x, 1, shifted, first, by, moves[0] % 4).begin(),
        Moving(y, 0, at_y, first, by, moves[1] % 4).begin(),
    )


def prologue(w: Writing, x: Any) -> Any:
    """What becomes of a factor before it is multiplied."""
    if w.traits["prologue"][0] % 6 > 2 and w.total is not w.factor:
        x = x.to(w.total)
    match w.traits["prologue"][0] % 6:
        case 3:
            return w.narrowed(x + x)
        case 4:
            zero = w.b.constant(x.type, 0)
            return w.narrowed(w.b.where(x < zero, zero, x))
        case 5:
            return w.narrowed(x * x)
        case _:
            return x


def summed(w: Writing, at_x: Any, at_y: Any, second: bool = False) -> Any:
    """Products along k; with `second` that of another matrix with the same y, too."""
    b, start = w.b, w.zero
    if w.traits["begin"][0] % 4 == 1:
        start = 1 if w.total.is_integer else 1.0
    x, y = _factors(w, at_x, at_y)
    sums = b.var(b.full((w.bm, w.bn), start, w.total))
    others = b.var(w.zeros(w.bm, w.bn)) if second else None
    v = source(w, "v", *axes(w, "v", ("m", w.bm), ("k", w.bk)))

    def round_(at: Any) -> None:
        def multiply() -> None:
            right = y.load(at)
            sums.set(w.dot(prologue(w, x.load(at)), right, sums.get()))
            if others is not None:
                others.set(w.dot(v.load(at_x, at), right, others.get()))

        chosen(w, at, multiply)
        x.step()
        y.step()

    loops.loop(w, round_)
    return sums.get() if others is None else (sums.get(), others.get())


def chosen(w: Writing, at: Any, then: Callable[[], None]) -> None:
    """`then`, under a condition or not."""
    match w.traits["choice"][0] % 6:
        case 3:
            with w.b.if_(at < w["k"] - w.bk):
                then()
        case 4:
            with w.b.if_((w["table"] + w["batch"]).load() < 20):
                then()
        case 5:
            with w.b.if_((at // w.bk) % 2 == 0):
                then()
        case _:
            then()


def _product(w: Writing) -> None:
    ending(w, summed(w, w["i"], w["j"]), w["i"], w["j"])


def _gated(w: Writing) -> None:
    """Two sums with one factor in common."""
    first, second = summed(w, w["i"], w["j"], second=True)
    ending(w, first + second if w.traits["family"][1] % 2 else first * second, w["i"], w["j"])


def _chain(w: Writing) -> None:
    """As attention: a factor that stays, a product that becomes a factor."""
    b = w.b
    x = source(w, "x", *axes(w, "x", ("m", w.bm), ("k", w.bk)))
    y = source(w, "y", *axes(w, "y", ("k", w.bk), ("n", w.bk)))
    stays = x.load(w["i"], 0)
    moves = w.traits["moves"]
    keys = Moving(y, 1, 0, loops.first(w), loops.by(w), moves[0] % 4).begin()
    lead = w["ldv"] if w.traits["leads"][0] % 2 else LEAD
    rows, columns = Axis(w["n"], w.bk, lead), Axis(16 * (w.bn // 16) or 8, w.bn, None)
    values = Moving(
        source(w, "v", rows, columns), 0, 0, loops.first(w), loops.by(w), moves[1] % 4
    ).begin()
    result = b.var(w.zeros(w.bm, w.bn))
    most = b.var(b.full((w.bm,), w.zero, w.total))

    def round_(at: Any) -> None:
        def multiply() -> None:
            scores = w.dot(stays, keys.load(at), w.zeros(w.bm, w.bk))
            kept = result.get()
            if w.traits["family"][1] % 2:
                highest = b.where(scores.max(axis=1) > most.get(), scores.max(axis=1), most.get())
                small = (highest > most.get())[:, None].broadcast_to(w.bm, w.bn)
                kept = b.where(small, kept, kept + kept) if w.traits["family"][2] % 2 else kept
                most.set(highest)
            result.set(w.dot(w.narrowed(scores), values.load(at), kept))

        chosen(w, at, multiply)
        keys.step()
        values.step()

    loops.loop(w, round_, end="n")
    ending(w, result.get(), w["i"], 0, extra=most.get())


def _layers(w: Writing) -> None:
    """A product of a product: one after the other."""
    first = w.narrowed(summed(w, w["i"], w["j"]))
    rows, columns = Axis(w["n"], w.bn, w["ldv"]), Axis(w["n"], w.bn, None)
    v = source(w, "v", rows, columns)
    if w.bn * w.factor.bits % 256:
        return ending(w, first.to(w.total) if w.factor is not w.total else first, w["i"], w["j"])
    return ending(w, w.dot(first, v.load(w["j"], 0), w.zeros(w.bm, w.bn)), w["i"], w["j"])


def _tiles(w: Writing) -> None:
    """Several tiles, one after the other: stores in a loop."""
    with w.b.for_(0, 2) as t:
        at = w["i"] + t * w.bm if w.traits["family"][1] % 2 else w["i"]
        column = w["j"] if w.traits["family"][1] % 2 else w["j"] + t * w.bn
        if w.traits["family"][2] % 3 == 2:
            with w.b.if_(column < w["n"] - 4):
                ending(w, summed(w, at, column), at, column)
        else:
            ending(w, summed(w, at, column), at, column)
