"""Random ops that move the elements of tiles about."""

from __future__ import annotations

from typing import Any

from tests.analysis.index_core import CLASSES, INTEGERS, Program
from tileir.types import I1, I32, Tile
from tileir.values import Value, constant


def is_tile(v: Value) -> bool:
    return isinstance(v.type, Tile)


def move(p: Program) -> None:
    value = p.pick(is_tile)
    if value is None:
        return
    if p.random.random() < 0.05:
        join_scalars(p)
        return
    type_: Any = value.type
    kind = p.random.choice(
        (
            "expand",
            "broadcast",
            "trans",
            "reshape",
            "join",
            "split",
            "cat",
            "slice",
            "insert",
            "gather",
            "reduce",
            "scan",
        )
    )
    _SHAPERS[kind](p, value, type_.element, type_.shape)


def join_scalars(p: Program) -> None:
    scalar = p.pick(lambda v: not is_tile(v))
    if scalar is not None:
        p.emit("split", p.emit("join", scalar, p.of_type(scalar.type)))


def _expand(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if len(shape) < 3:
        p.emit("expand_dims", value, axis=p.random.randint(0, len(shape)))


def _broadcast(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    p.emit(
        "broadcast",
        value,
        Tile(element, tuple(n if n > 1 else p.random.choice((1, 4, 6)) for n in shape)),
    )


def _trans(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    order = list(range(len(shape)))
    p.random.shuffle(order)
    p.emit("trans", value, order=tuple(order))


def _reshape(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    size = 1
    for n in shape:
        size *= n
    first = p.random.choice([d for d in (1, 2, 3, 4, 6, 8, 16) if size % d == 0])
    to = p.random.choice(((size,), (first, size // first), (size // first, first), (1, *shape)))
    if len(to) < 4:
        p.emit("reshape", value, Tile(element, to))


def _join(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if len(shape) < 3:
        p.emit("join", value, p.of_type(value.type))


def _split(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if shape[-1] == 2:
        p.emit("split", value)


def _cat(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if len(shape) < 3:
        p.emit("cat", value, p.of_type(value.type), axis=p.random.randrange(len(shape)))


def _slice(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    small = tuple(p.random.choice([d for d in (1, 2, 4, n) if d <= n]) for n in shape)
    offsets = [constant(I32, p.random.randint(0, n - s)) for n, s in zip(shape, small, strict=True)]
    dynamic = p.pick(lambda v: v.type is I32)
    if dynamic is not None and p.random.random() < 0.3:
        offsets[0] = p.emit("and", dynamic, constant(I32, p.random.choice((0, 2, 4))))
    p.emit("extract_slice", value, Tile(element, small), offsets)


def _insert(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    small = tuple(p.random.choice([d for d in (1, 2, n) if d <= n]) for n in shape)
    offsets = [constant(I32, p.random.randint(0, n - s)) for n, s in zip(shape, small, strict=True)]
    p.emit("insert_slice", value, p.of_type(Tile(element, small)), offsets)


def _gather(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    axis = p.random.randrange(len(shape))
    if element is not I1 and axis == 0:
        p.emit("gather", value, constant(Tile(I32, (2, *shape[1:])), shape[0] - 1), axis=axis)


def _reduce(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if element in INTEGERS:
        combiner = CLASSES["reduce"].schema[-1].attribute.enum  # type: ignore[union-attr]
        word = p.random.choice(("add", "smin", "smax", "umax", "and", "or", "xor", "mul"))
        p.emit("reduce", (value,), axis=p.random.randrange(len(shape)), combiner=combiner(word))


def _scan(p: Program, value: Value, element: Any, shape: tuple[int, ...]) -> None:
    if element in INTEGERS:
        field = next(f for f in CLASSES["scan"].schema if f.name == "combiner")
        word = p.random.choice(("add", "smin", "umax", "mul"))
        combiner: Any = field.attribute
        p.emit("scan", (value,), axis=p.random.randrange(len(shape)), combiner=combiner.enum(word))


_SHAPERS = {
    "expand": _expand, "broadcast": _broadcast, "trans": _trans, "reshape": _reshape,
    "join": _join, "split": _split, "cat": _cat, "slice": _slice, "insert": _insert,
    "gather": _gather, "reduce": _reduce, "scan": _scan,
}  # fmt: skip
