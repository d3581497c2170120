"""Kernels with one to three dots, built from their features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tileir.builder import F16, I32, Builder, arg, pointer
from tileir.testing.matmul_programs import loops
from tileir.testing.matmul_programs.epilogue import epilogue
from tileir.testing.matmul_programs.features import MULTIPLES, Features
from tileir.testing.matmul_programs.sources import POINTERS, MatmulAxis, Moving
from tileir.testing.matmul_programs.writing import (
    BUFFER_SIZE,
    ELEMENTS,
    FAMILIES,
    LEAD,
    Writing,
    axes,
    is_chain,
    is_column_major,
    is_descriptor_parameter,
    source,
    writes_several_tiles,
)
from tileir.testing.program import ParameterBuffer, Program
from tileir.types import Descriptor, Tile

ROWS, COLUMNS, DEPTH = (72, 64, 1, 130, 40), (24, 16, 40, 8, 13, 60), (40, 16, 48, 8, 33, 0)

MULTIPLE = 8
"""A divisor of extents, in programs that promise it."""


def program(features: Features) -> Program:
    """The kernel with `features`, and its arguments."""
    operand, total = ELEMENTS[features["element"][0] % len(ELEMENTS)]
    bm = (64, 64, 128, 192, 40, 24)[features["tile"][0] % 6]
    bn = (16, 32, 8, 64, 96, 48, 72, 88)[features["tile"][1] % 8]
    bn = 64 if bm < 64 else bn  # swap-operands transposes it
    bk = (16, 32, 64)[features["tile"][2] % 3]
    bk *= {8: 2, 16: 1, 32: 1}[operand.bits]
    m, n, k = (
        sizes[features["shape"][i] % len(sizes)] for i, sizes in enumerate((ROWS, COLUMNS, DEPTH))
    )
    if _has_multiples(features):
        m, n, k = (-(-extent // MULTIPLE) * MULTIPLE for extent in (m, n, k))
    w = Writing(Builder(locations=False), features, operand, total, bm, bn, bk)
    stored = total if features["output"][2] % 2 or total is I32 else F16
    kinds = _kinds(w, stored)
    with w.b.kernel("generated", **kinds) as values:
        w.values.update(zip(kinds, values, strict=True))
        _body(w)
    buffers = _buffers(w, stored)
    numbers = {"m": m, "n": n, "k": k, "one": 1, "first": w.bk * (features["begin"][1] % 2)}
    numbers |= {f"ld{x}": LEAD * (1 + features["leads"][2] % 2) for x in "xyvz"}
    for name, extents in (("x", (m, k)), ("y", (k, n))):
        if is_descriptor_parameter(features, name):
            shape = extents[::-1] if is_column_major(features, name) else extents
            buffers[name] = attrs.evolve(buffers[name], shape=shape, lead=LEAD)
    rows, columns = _extents_per_instance(w)
    tiles = -(-m // rows) * (-(-n // columns) if columns else 1)
    batches = 1 + (features["grid"][0] % 4 == 1)
    return Program(w.b.module(), "generated", (tiles, batches, 1), buffers, numbers=numbers)


def _kinds(w: Writing, stored: Any) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    noalias = w.features["promises"][0] % 4 != 3
    for name, element in (
        ("x", w.operand), ("y", w.operand), ("v", w.operand), ("bias", w.total), ("table", I32),
        ("z", stored), ("more", w.total),
    ):  # fmt: skip
        kinds[name] = arg(pointer(element), aligned=16, noalias=noalias)
        if name in "xy" and is_descriptor_parameter(w.features, name):
            shape = (w.bm, w.bk) if name == "x" else (w.bk, w.bk if is_chain(w.features) else w.bn)
            block = shape[::-1] if is_column_major(w.features, name) else shape
            kinds[name] = Descriptor(Tile(element, block))
    extent = arg(I32, multiple_of=MULTIPLE) if _has_multiples(w.features) else I32
    kinds |= dict.fromkeys("mnk", extent)
    return kinds | dict.fromkeys(("first", "one", "ldx", "ldy", "ldv", "ldz"), I32)


def _has_multiples(features: Features) -> bool:
    """Whether the extents are multiples of `MULTIPLE`. The masks then have the same property."""
    return features["promises"][0] == MULTIPLES


def _buffers(w: Writing, stored: Any) -> dict[str, ParameterBuffer]:
    inputs = {
        name: ParameterBuffer(w.operand, BUFFER_SIZE, output=False, whole=True) for name in "xyv"
    }
    return {
        **inputs,
        "bias": ParameterBuffer(w.total, 1024, output=False, whole=True),
        "table": ParameterBuffer(I32, 1024, output=False, below=40),
        "z": ParameterBuffer(stored, BUFFER_SIZE, output=True),
        "more": ParameterBuffer(w.total, BUFFER_SIZE, output=True),
    }


# The kernel ---------------------------------------------------------------------------------------


def _body(w: Writing) -> None:
    b, features = w.b, w.features
    pid = b.program_id(axis=0)
    rows, columns = _extents_per_instance(w)
    i, j = pid, b.constant(I32, 0)
    if columns and features["grid"][1] % 4 == 3:
        tiles_m = (w["m"] + (rows - 1)) // rows
        i, j = pid % tiles_m, pid // tiles_m
    elif columns:
        tiles_n = (w["n"] + (columns - 1)) // columns
        i, j = pid // tiles_n, pid % tiles_n
    if features["grid"][2] % 4 == 2:
        with b.if_(i * rows >= w["m"] - 8):
            b.ret()
    w.values.update({"i": i * rows, "j": j * columns, "batch": b.program_id(axis=1)})
    family = features["family"][0] % FAMILIES
    (_matmul, _matmul, _dual_matmul, _chain, _layers, _tiles)[family](w)


def _extents_per_instance(w: Writing) -> tuple[int, int]:
    """The rows and columns of the output that one instance computes; 0 columns stands for all of
    them."""
    if is_chain(w.features):
        return w.bm, 0
    if not writes_several_tiles(w.features):
        return w.bm, w.bn
    return (2 * w.bm, w.bn) if w.features["family"][1] % 2 else (w.bm, 2 * w.bn)


def _operands(w: Writing, at_x: Any, at_y: Any) -> tuple[Moving, Moving]:
    """Operands A and B of a matmul, whose tiles advance along k."""
    shifted = at_x + (0, 0, 0, -1, 1, 3)[w.features["shift"][0] % 6]
    return (
        _moving(w, "x", axes(w, "x", ("m", w.bm), ("k", w.bk)), 1, shifted),
        _moving(w, "y", axes(w, "y", ("k", w.bk), ("n", w.bn)), 0, at_y),
    )


def _moving(
    w: Writing, name: str, both: tuple[MatmulAxis, MatmulAxis], along: int, fixed: Any
) -> Moving:
    """An operand that advances along k, loaded directly or as its transpose."""
    moves, place = w.features["moves"], "xy".index(name)
    rows, columns = both
    matrix = source(w, name, rows, columns)
    transposed = matrix.how == POINTERS and moves[2] % 6 in ((3, 5), (4, 5))[place]
    if transposed:
        matrix, along = source(w, name, columns, rows), 1 - along
    how = moves[place] % 4
    return Moving(matrix, along, fixed, loops.first(w), loops.by(w), how, transposed).begin()


def prologue(w: Writing, x: Any) -> Any:
    """Operand A after the elementwise ops before the dot."""
    if w.features["prologue"][0] % 6 > 2 and w.total is not w.operand:
        x = x.to(w.total)
    match w.features["prologue"][0] % 6:
        case 3:
            return w.to_operand(x + x)
        case 4:
            zero = w.b.constant(x.type, 0)
            return w.to_operand(w.b.where(x < zero, zero, x))
        case 5:
            return w.to_operand(x * x)
        case _:
            return x


def mainloop(w: Writing, at_x: Any, at_y: Any, second: bool = False) -> Any:
    """The accumulator of a loop of dots along k. With `second`, also the accumulator of another
    operand A with the same operand B."""
    b, start = w.b, w.zero
    if w.features["begin"][0] % 4 == 1:
        start = 1 if w.total.is_integer else 1.0
    x, y = _operands(w, at_x, at_y)
    acc = b.var(b.full((w.bm, w.bn), start, w.total))
    second_acc = b.var(w.zeros(w.bm, w.bn)) if second else None
    v = source(w, "v", *axes(w, "v", ("m", w.bm), ("k", w.bk)))

    def iteration(at: Any) -> None:
        def multiply() -> None:
            right, left = y.load(at), x.load(at)
            if w.features["choice"][1] % 6 == 3:
                _branch_between(w, at)
            acc.set(w.dot(prologue(w, left), right, acc.get()))
            if second_acc is not None:
                second_acc.set(w.dot(v.load(at_x, at), right, second_acc.get()))

        under_condition(w, at, multiply)
        x.step()
        y.step()

    loops.loop(w, iteration)
    return acc.get() if second_acc is None else (acc.get(), second_acc.get())


def _branch_between(w: Writing, at: Any) -> None:
    """Write blocks between the loads of the operands and the dot. One of them stores under a
    condition."""
    b = w.b
    one = b.constant(w.total, 1 if w.total.is_integer else 1.0)
    own = w["more"] + (BUFFER_SIZE - 1) - (b.program_id(axis=0) * 2 + b.program_id(axis=1))
    with b.if_((at // w.bk) % 2 == 1):
        own.store(one)


def under_condition(w: Writing, at: Any, then: Callable[[], None]) -> None:
    """Write the ops of `then`, under a condition if the features say so."""
    match w.features["choice"][0] % 6:
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


def _matmul(w: Writing) -> None:
    epilogue(w, mainloop(w, w["i"], w["j"]), w["i"], w["j"])


def _dual_matmul(w: Writing) -> None:
    """Write two accumulators that share operand B."""
    first, second = mainloop(w, w["i"], w["j"], second=True)
    epilogue(w, first + second if w.features["family"][1] % 2 else first * second, w["i"], w["j"])


def _chain(w: Writing) -> None:
    """Chained dots as in attention: operand A of the first dot is loop-invariant, its result is
    operand A of the second."""
    b = w.b
    x = source(w, "x", *axes(w, "x", ("m", w.bm), ("k", w.bk)))
    y = source(w, "y", *axes(w, "y", ("k", w.bk), ("n", w.bk)))
    resident = x.load(w["i"], 0)
    moves = w.features["moves"]
    keys = Moving(y, 1, 0, loops.first(w), loops.by(w), moves[0] % 4).begin()
    lead = w["ldv"] if w.features["leads"][0] % 2 else LEAD
    rows, columns = MatmulAxis(w["n"], w.bk, lead), MatmulAxis(16 * (w.bn // 16) or 8, w.bn, None)
    values = Moving(
        source(w, "v", rows, columns), 0, 0, loops.first(w), loops.by(w), moves[1] % 4
    ).begin()
    result = b.var(w.zeros(w.bm, w.bn))
    most = b.var(b.full((w.bm,), w.zero, w.total))

    def iteration(at: Any) -> None:
        def multiply() -> None:
            scores = w.dot(resident, keys.load(at), w.zeros(w.bm, w.bk))
            rescaled = result.get()
            if w.features["family"][1] % 2:
                highest = b.where(scores.max(axis=1) > most.get(), scores.max(axis=1), most.get())
                small = (highest > most.get())[:, None].broadcast_to(w.bm, w.bn)
                if w.features["family"][2] % 2:
                    rescaled = b.where(small, rescaled, rescaled + rescaled)
                most.set(highest)
            result.set(w.dot(w.to_operand(scores), values.load(at), rescaled))

        under_condition(w, at, multiply)
        keys.step()
        values.step()

    loops.loop(w, iteration, end="n")
    epilogue(w, result.get(), w["i"], 0, extra=most.get())


def _layers(w: Writing) -> None:
    """Write a matmul of the result of a matmul, after its loop."""
    first = w.to_operand(mainloop(w, w["i"], w["j"]))
    rows, columns = MatmulAxis(w["n"], w.bn, w["ldv"]), MatmulAxis(w["n"], w.bn, None)
    v = source(w, "v", rows, columns)
    if w.bn * w.operand.bits % 256:
        return epilogue(w, first.to(w.total) if w.operand is not w.total else first, w["i"], w["j"])
    return epilogue(w, w.dot(first, v.load(w["j"], 0), w.zeros(w.bm, w.bn)), w["i"], w["j"])


def _tiles(w: Writing) -> None:
    """Write several tiles in one instance, with stores in a loop."""
    with w.b.for_(0, 2) as t:
        at = w["i"] + t * w.bm if w.features["family"][1] % 2 else w["i"]
        column = w["j"] if w.features["family"][1] % 2 else w["j"] + t * w.bn
        if w.features["family"][2] % 3 == 2:
            with w.b.if_(column < w["n"] - 4):
                epilogue(w, mainloop(w, at, column), at, column)
        else:
            epilogue(w, mainloop(w, at, column), at, column)
