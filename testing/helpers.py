"""Device functions that programs call, and the statements that call them."""

from __future__ import annotations

from tileir.ir import Block, Function, InlineHint, Parameter, Visibility
from tileir.op import Op, Successor
from tileir.ops.arith import ICmp, IntegerPredicate, Mul, SMax, Sub
from tileir.ops.control import CondBranch, Return
from tileir.ops.fused import Fma
from tileir.ops.reduce import Reduce, Scan
from tileir.ops.symbols import Call
from tileir.testing.writer import Writer
from tileir.types import F32, I32, Tile, Type, shape_of, tile
from tileir.values import Value, constant

ROW = tile(F32, (8,))


def call(writer: Writer, index: int, back: int, other: int) -> None:
    """A call of `fold` on two scalars, or of `polynomial` on a tile."""
    if index % 2:
        row = writer.of_type(ROW, back)
        writer.called["polynomial"] = None
        writer.emit(Call((ROW,), "polynomial", (row,)))
    else:
        arguments = tuple(writer.of_type(I32, n, clean=True) for n in (back, other))
        writer.called["fold"] = None
        writer.emit(Call((I32,), "fold", arguments))


def combine(writer: Writer, back: int, axis: int, how: int) -> None:
    """A reduction or scan of integers with the function `larger` as combiner."""
    value = writer.tile(back, I32)
    if value is None:
        return
    writer.called["larger"] = None
    at = axis % len(shape_of(value.type))
    cls = (Reduce, Scan)[how % 2]
    writer.emit(cls((value,), axis=at, combiner="larger"))


def helper(name: str) -> Function:
    """The device function `name`: `fold`, `larger` or `polynomial`."""
    return {"fold": _fold, "larger": _larger, "polynomial": _polynomial}[name]()


def _larger() -> Function:
    a, b = Value(I32, "a"), Value(I32, "b")
    most = SMax(a, b)
    return _function("larger", (a, b), I32, _block("entry", most, Return((most.result,))))


def _polynomial() -> Function:
    """x * x + 0.5 of a row."""
    x = Value(ROW, "x")
    assert isinstance(ROW, Tile)
    fma = Fma(x, x, constant(ROW, 0.5))
    return _function("polynomial", (x,), ROW, _block("entry", fma, Return((fma.result,))))


def _fold() -> Function:
    """a - b where a > b, else 3 a: two returns."""
    a, b = Value(I32, "a"), Value(I32, "b")
    test = ICmp(a, b, predicate_=IntegerPredicate.SGT)
    ends = CondBranch(test.results[0], Successor("more"), Successor("less"))
    less, more = Mul(a, constant(I32, 3)), Sub(a, b)
    return _function(
        "fold",
        (a, b),
        I32,
        _block("entry", test, ends),
        _block("more", more, Return((more.result,))),
        _block("less", less, Return((less.result,))),
    )


def _block(label: str, *ops: Op) -> Block:
    return Block(label, ops=ops)


def _function(name: str, values: tuple[Value, ...], result: Type, *blocks: Block) -> Function:
    return Function(
        name,
        tuple(map(Parameter, values)),
        (result,),
        {block.label: block for block in blocks},
        visibility=Visibility.PRIVATE,
        inline=InlineHint.AUTO,
    )
