"""Alignment and ranges hold of every op with operands of many kinds: runs, multiples, groups, and
what is between them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.analysis import index_programs, index_shapes
from tests.analysis.index_core import CLASSES, POINTER, Program
from tests.analysis.test_values import _arguments, check_affine, check_alignment, check_range
from tests.analysis.tracing import trace
from tileir.analysis.alignment import alignment
from tileir.ir import Function, Parameter, ParameterAttributes
from tileir.ops.arith import IntegerPredicate
from tileir.types import I1, I8, I16, I32, Tile
from tileir.values import Operand, Value, constant

_DRAWS = 80
"""Ops of a program."""


class PoolProgram(Program):
    """A program whose operands are values of a pool, each as likely as any other."""

    pool: tuple[Value, ...] = ()

    def pick(self, fits: Callable[[Value], bool]) -> Value | None:
        values = [v for v in self.pool or self.scope if fits(v)]
        return self.random.choice(values) if values else None


def _fill_pool(p: PoolProgram) -> None:
    """Rows and grids of integers, conditions and pointers."""
    for element in (I8, I16, I32):
        half = 1 << (element.bits - 1)
        row, grid = Tile(element, (8,)), Tile(element, (4, 8))
        number = p.parameters[(I32, I8, I16).index(element) + 2].value
        starts = p.random.sample((0, 4, 8, -1, -3, -8, half - 8), 4)
        numbers = p.emit("splat", number, row)
        rows = [p.emit("make_range", row, start=start) for start in (0, *starts)]
        rows += [p.emit("add", rows[0], constant(row, half - p.random.randrange(1, 8)))]
        rows += [numbers, p.emit("add", numbers, p.random.choice(rows))]
        rows += [p.emit("mul", p.random.choice(rows), constant(row, n)) for n in (2, 4, 6, -8)]
        rows += [p.emit("udiv", rows[0], constant(row, n)) for n in (2, 4)]
        rows += [p.emit("urem", rows[0], constant(row, n)) for n in (2, 4)]
        rows += [p.emit("or", rows[0], constant(row, n)) for n in (1, 4)]
        for _ in range(3):
            one, other = p.random.sample(rows, 2)
            wide = p.emit("broadcast", p.emit("expand_dims", one, axis=0), grid)
            short = p.emit("extract_slice", other, Tile(element, (4,)), [constant(I32, 0)])
            tall = p.emit("broadcast", p.emit("expand_dims", short, axis=1), grid)
            p.emit("add", wide, p.emit("mul", tall, constant(grid, p.random.choice((1, 8)))))
        bound: Operand = p.random.choice((constant(row, p.random.randrange(9)), numbers))
        word = p.random.choice(tuple(IntegerPredicate))
        masks = [p.emit("icmp", p.random.choice(rows), bound, predicate_=word)]
        for mixed in (rows[0], p.emit("urem", rows[0], constant(row, 2))):
            limit = constant(row, p.random.choice((1, 4)))
            masks.append(p.emit("icmp", mixed, limit, predicate_=IntegerPredicate.SLT))
        for mask in masks:
            p.emit("broadcast", p.emit("expand_dims", mask, axis=0), Tile(I1, (4, 8)))
    offsets = [v for v in p.scope if v.type is Tile(I32, (8,))]
    pointers = p.emit("splat", p.parameters[0].value, Tile(POINTER, (8,)))
    for offset in p.random.sample(offsets, 3):
        p.emit("getelementptr", pointers, offset)
    p.pool = tuple(p.scope)


def program(seed: int, make: Callable[[Program], None]) -> Function:
    """A pool, and ops that `make` adds."""
    p = PoolProgram(seed)
    for name, kind in zip("xyabm", (POINTER, POINTER, I32, I8, I16), strict=True):
        multiple = p.random.choice((0, 4, 16))
        promise = ParameterAttributes(
            aligned=multiple if kind is POINTER else 0,
            multiple_of=0 if kind is POINTER else multiple,
        )
        p.parameters.append(Parameter(Value(kind, name), promise))
        p.scope.append(p.parameters[-1].value)
    _fill_pool(p)
    if make in _UNARY:
        for value in p.pool:
            p.pool = (value,)
            make(p)
            make(p)
    else:
        for _ in range(_DRAWS):
            make(p)
    p.close("entry", CLASSES["ret"](()))
    return Function("f", tuple(p.parameters), (), p.blocks, kernel=True)


_UNARY = (index_programs._cast, index_programs._unary)
"""What takes one operand is tried on the whole pool."""


def _shaper(kind: str) -> Callable[[Program], None]:
    def make(p: Program) -> None:
        value = p.pick(index_shapes.is_tile)
        assert value is not None
        index_shapes._SHAPERS[kind](p, value, value.type.element, value.type.shape)

    return make


MAKERS: dict[str, Callable[[Program], None]] = {
    **{kind: _shaper(kind) for kind in index_shapes._SHAPERS},
    **{
        make.__name__: make for make in (
            index_programs._binary, index_programs._divide, index_programs._shift,
            index_programs._unary, index_programs._cast, index_programs._compare,
            index_programs._logic, index_programs._select, index_programs._psi,
            index_programs._pointer, index_programs._address, index_programs._load,
            index_programs._splat, index_shapes.move, index_shapes.join_scalars,
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_facts_hold(name: str) -> None:
    for seed in range(3):
        function = program(seed, MAKERS[name])
        run = trace(function, *_arguments(function, random.Random(seed)))
        assert run.finished or name in ("_divide", "slice", "move")
        for event in run.events:
            check_alignment(alignment(function).of(event.value), event)
            check_range(function, event)
            check_affine(function, run, event)
