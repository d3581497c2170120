"""Kernels that load operands, apply one op at one type and one shape, and store its results.

All executors are compared on these kernels: the interpreter, the SIMT simulator, CPUs and GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.builder import (
    BF16,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Builder,
    pointer,
    tile,
)
from tileir.ir import Module
from tileir.machine import dtype_of
from tileir.types import Scalar, Tile, element_of, shape_of

Shape: TypeAlias = tuple[int, ...]
Apply: TypeAlias = Callable[..., Any]

INTEGERS = (I1, I8, I16, I32, I64)
INDICES = (I8, I16, I32, I64)
FLOATS = (F16, BF16, F32, F64)
SMALL = (F8E4M3, F8E5M2, F8E8M0)


@attrs.frozen
class Cell:
    """A cell of the op matrix: `apply` on tiles of `inputs`, in `shape` (per input, if shapes
    differ).

    `domain` states the numbers for which it is defined: `any`, `positive`, `small`, `divisor` (the
    last operand is not zero), `shift` (the last operand is below the width).
    """

    name: str
    inputs: tuple[Any, ...]
    apply: Apply
    domain: str = "any"

    def module(self) -> Module:
        """The module with the kernel `cell`, which takes one pointer per input, then one per
        result."""
        results = _results(self)
        b = Builder()
        names = [f"p{i}" for i in range(len(self.inputs) + len(results))]
        kinds = [pointer(_scalar(t)) for t in (*self.inputs, *results)]
        with b.kernel("cell", **dict(zip(names, kinds, strict=True))) as places:
            result = _apply_op(b, self, places)
            for place, value in zip(places[len(self.inputs) :], result, strict=True):
                (place + _offsets(b, shape_of(value.type))).store(value)
        return b.module()

    def arguments(self, seed: int) -> list[np.ndarray]:
        """Random operands, and zeros for the results."""
        random = np.random.default_rng(seed)
        types = (*self.inputs, *_results(self))
        count = len(self.inputs)
        return [
            _numbers(random, t, self.domain, last=i == count - 1)
            if i < count
            else np.zeros(shape_of(t) or (1,), dtype_of(_scalar(t)))
            for i, t in enumerate(types)
        ]


def _apply_op(b: Builder, cell: Cell, places: Sequence[Any]) -> list[Any]:
    values = [
        (place + _offsets(b, shape_of(t))).load()
        for place, t in zip(places, cell.inputs, strict=False)
    ]
    result = cell.apply(b, *values)
    return list(result) if isinstance(result, tuple) else [result]


def _results(cell: Cell) -> list[Any]:
    b = Builder()
    kinds = {f"p{i}": pointer(_scalar(t)) for i, t in enumerate(cell.inputs)}
    with b.kernel("cell", **kinds) as places:
        return [value.type for value in _apply_op(b, cell, places)]


def _offsets(b: Builder, shape: Shape) -> Any:
    """Row-major offsets of a tile of `shape`; 0 for a scalar."""
    if not shape:
        return 0
    total: Any = None
    step = 1
    for dim in reversed(range(len(shape))):
        index = b.arange(shape[dim])
        if len(shape) > 1:
            index = index.reshape(*(n if d == dim else 1 for d, n in enumerate(shape)))
        term = (index * step if step > 1 else index).broadcast_to(*shape)
        total = term if total is None else total + term
        step *= shape[dim]
    return total


def _scalar(type: Any) -> Scalar:
    element = element_of(type)
    assert isinstance(element, Scalar)
    return element


def _numbers(random: np.random.Generator, type: Any, domain: str, *, last: bool) -> np.ndarray:
    element, shape = _scalar(type), shape_of(type) or (1,)
    if element is I1 and last and domain in ("divisor", "shift"):
        return np.full(shape, domain == "divisor")
    if element is I1:
        return random.integers(0, 2, shape).astype(bool)
    if element.is_integer:
        return _integers(random, element, shape, domain, last=last)
    if element is F8E8M0:
        return random.integers(120, 134, shape).astype(np.uint8).view(dtype_of(element))
    spread = {"small": 4.0, "positive": 8.0}.get(domain, 16.0)
    result = random.normal(0, spread, shape)
    result = np.abs(result) + 0.01 if domain == "positive" else result
    return result.astype(dtype_of(element))


def _integers(
    random: np.random.Generator, element: Scalar, shape: Shape, domain: str, *, last: bool
) -> np.ndarray:
    if domain == "small":
        return random.integers(0, min(shape[-1], 100) or 1, shape).astype(dtype_of(element))
    if domain == "shift" and last:
        return random.integers(0, element.bits, shape).astype(dtype_of(element))
    half = 1 << (element.bits - 1)
    integers = random.integers(-half, half - 1, shape, endpoint=True, dtype=np.int64)
    if domain == "divisor" and last:
        integers = np.where(integers == 0, 1, integers)
    return integers.astype(dtype_of(element))


# The table ------------------------------------------------------------------------------------


def elementwise_cells(shape: Shape) -> Iterator[Cell]:
    """Arithmetic, comparisons and selection at `shape`."""
    for t in INTEGERS:
        yield from _integer_cells(tile(t, shape))
    for t in FLOATS:
        yield from _float_cells(tile(t, shape))


def _method(name: str, **attributes: Any) -> Apply:
    return lambda b, *values: getattr(b, name)(*values, **attributes)


def _integer_cells(t: Any) -> Iterator[Cell]:
    for name in ("add", "sub", "mul", "and_", "or_", "xor", "smin", "smax", "umin", "umax",
                 "smulhi", "umulhi"):  # fmt: skip
        yield Cell(f"{name} {t}", (t, t), _method(name))
    for name, modes in (("sdiv", ("zero", "floor", "ceil")), ("udiv", ("zero", "floor", "ceil")),
                        ("srem", ("zero", "floor"))):  # fmt: skip
        for mode in modes:
            yield Cell(f"{name} {mode} {t}", (t, t), _method(name, rounding=mode), "divisor")
    yield Cell(f"urem {t}", (t, t), _method("urem"), "divisor")
    for name in ("shl", "lshr", "ashr"):
        yield Cell(f"{name} {t}", (t, t), _method(name), "shift")
    for name in ("neg", "iabs", "ctpop", "clz"):
        yield Cell(f"{name} {t}", (t,), _method(name))
    for word in ("eq", "ne", "slt", "sge", "ult", "uge"):
        yield Cell(f"icmp {word} {t}", (t, t), _method("icmp", predicate=word))


def _float_cells(t: Any) -> Iterator[Cell]:
    for name in ("fadd", "fsub", "fmul", "fdiv", "copysign", "fminimum", "fmaximum", "fminnum",
                 "fmaxnum"):  # fmt: skip
        yield Cell(f"{name} {t}", (t, t), _method(name))
    for name in ("fneg", "fabs", "floor", "ceil", "ftrunc", "fround", "frint"):
        yield Cell(f"{name} {t}", (t,), _method(name))
    for name in ("exp", "exp2", "sqrt", "rsqrt"):
        yield Cell(f"{name} {t}", (t,), _method(name), "positive")
    yield Cell(f"fma {t}", (t, t, t), _method("fma"))
    yield Cell(f"clampf {t}", (t, t, t), _method("clampf"))
    for word in ("oeq", "olt", "une", "uge", "uno"):
        yield Cell(f"fcmp {word} {t}", (t, t), _method("fcmp", predicate=word))
    shape = shape_of(t)
    yield Cell(f"select {t}", (tile(I1, shape), t, t), _method("select"))
    for mode in ("rz", "rm", "rp"):
        if _scalar(t).bits >= 32:
            yield Cell(f"fadd {mode} {t}", (t, t), _method("fadd", rounding=mode))


def cast_cells(shape: Shape) -> Iterator[Cell]:
    """Every conversion between element types at `shape`."""
    for s in INTEGERS:
        for t in INTEGERS:
            names = ("trunc",) if t.bits < s.bits else ("zext", "sext") if t.bits > s.bits else ()
            yield from (_cast(name, s, t, shape) for name in names)
        for t in FLOATS:
            yield from (_cast(name, s, t, shape) for name in ("sitofp", "uitofp"))
    for s in FLOATS:
        for t in INDICES:
            for name in ("fptosi", "fptoui"):
                yield _cast(name, s, t, shape, saturate=True)
    for s in (*FLOATS, *SMALL):
        for t in (*FLOATS, *SMALL):
            if s is not t:
                yield _cast("fpcast", s, t, shape)
                yield _cast("fpcast", s, t, shape, saturate=True)
                if t is not F8E8M0:
                    yield from (
                        _cast("fpcast", s, t, shape, rounding=r) for r in ("rz", "rm", "rp")
                    )
    yield _cast("bitcast", F32, I32, shape)
    yield _cast("bitcast", I16, BF16, shape)


def _cast(name: str, s: Scalar, t: Scalar, shape: Shape, **more: Any) -> Cell:
    to = tile(t, shape)
    words = " ".join(f"{k}={v}" for k, v in more.items())
    return Cell(
        f"{name} {tile(s, shape)} {to} {words}", (tile(s, shape),),
        lambda b, x: getattr(b, name)(x, to=to, **more),
    )  # fmt: skip


def shape_cells(shape: Shape) -> Iterator[Cell]:
    """Shape ops at `shape`, of rank 1 or more."""
    for element in (I8, F32, I64):
        t = tile(element, shape)
        assert isinstance(t, Tile)
        yield Cell(f"expand_dims {t}", (t,), _method("expand_dims", axis=0))
        order = tuple(reversed(range(len(shape))))
        yield Cell(f"trans {t}", (t,), _method("trans", order=order))
        flat = tile(element, (t.size,))
        yield Cell(f"reshape {t}", (t,), lambda b, x, to=flat: b.reshape(x, to=to))
        yield Cell(f"join {t}", (t, t), _method("join"))
        yield Cell(f"split {t}", (tile(element, (*shape, 2)),), _method("split"))
        for axis in range(len(shape)):
            yield Cell(f"cat {axis} {t}", (t, t), _method("cat", axis=axis))
            yield _gather(t, axis)
        yield _slices(t)


def _gather(t: Tile, axis: int) -> Cell:
    def apply(b: Builder, x: Any) -> Any:
        index = b.arange(t.shape[axis]).reshape(
            *(n if d == axis else 1 for d, n in enumerate(t.shape))
        )
        back = (t.shape[axis] - 1 - index).broadcast_to(*t.shape)
        return b.gather(x, back, axis=axis)

    return Cell(f"gather {axis} {t}", (t,), apply)


def _slices(t: Tile) -> Cell:
    part = tuple(-(-n // 2) for n in t.shape)
    starts = tuple(n - m for n, m in zip(t.shape, part, strict=True))

    def apply(b: Builder, x: Any) -> Any:
        offsets = [b.constant(I32, n) for n in starts]
        small = b.extract_slice(x, tile(t.element, part), offsets)
        zeros = [b.constant(I32, 0) for _ in starts]
        return b.insert_slice(x, small, zeros)

    return Cell(f"slices {t}", (t,), apply)


def reduce_cells(shape: Shape) -> Iterator[Cell]:
    """Reductions, scans and histograms along every axis of `shape`."""
    for axis in range(len(shape)):
        for word in ("add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax"):
            for element in (I8, I32, I64):
                yield from _combining(tile(element, shape), axis, word, "any")
        for word in ("fadd", "fminimum", "fmaximum", "fminnum", "fmaxnum"):
            for element in FLOATS:
                yield from _combining(tile(element, shape), axis, word, "small")
        yield _arg_max(shape, axis)
    if len(shape) == 1:
        t, bins = tile(I32, shape), tile(I32, (10,))
        yield Cell(f"histogram {t}", (t,), lambda b, x: b.histogram(x, to=bins), "small")


def _combining(t: Any, axis: int, word: str, domain: str) -> Iterator[Cell]:
    result = _method("reduce", axis=axis, combiner=word)
    yield Cell(f"reduce {word} {axis} {t}", (t,), result, domain)
    if word in ("add", "smax", "fadd", "fmaximum"):
        for back in (False, True):
            result = _method("scan", axis=axis, combiner=word, reverse=back)
            yield Cell(f"scan {word} {axis} {back} {t}", (t,), result, domain)


def _arg_max(shape: Shape, axis: int) -> Cell:
    """A reduction whose combiner is a function of two operands."""

    def better(v: Any, i: Any, w: Any, j: Any) -> Any:
        b = v.builder
        take = (v > w) | ((v == w) & (i < j))
        return b.select(take, v, w), b.select(take, i, j)

    def apply(b: Builder, x: Any) -> Any:
        index = b.arange(shape[axis]).reshape(*(n if d == axis else 1 for d, n in enumerate(shape)))
        values = [x, index.broadcast_to(*shape)]
        name = b.combiner(better, values)
        return b.reduce(values, axis=axis, combiner=name)

    t = tile(F32, shape)
    return Cell(f"argmax {axis} {t}", (t,), apply, "small")


def dot_cells() -> Iterator[Cell]:
    """Dots of every element type and some shapes."""
    pairs = [(I8, I32), (F8E4M3, F32), (F8E5M2, F16), (F16, F16), (F16, F32), (BF16, F32),
             (F32, F32), (F64, F64)]  # fmt: skip
    for (m, k, n), (element, total) in ((s, p) for s in ((16, 16, 16), (7, 5, 9)) for p in pairs):
        types = (tile(element, (m, k)), tile(element, (k, n)), tile(total, (m, n)))
        yield Cell(f"dot {types[0]} {types[1]} {total}", types, _method("dot"), "small")
    batched = (tile(F32, (3, 8, 4)), tile(F32, (3, 4, 8)), tile(F32, (3, 8, 8)))
    yield Cell("dot batched", batched, _method("dot"), "small")


def cells(shapes: Sequence[Shape]) -> Iterator[Cell]:
    """All cells at `shapes`."""
    for shape in shapes:
        yield from elementwise_cells(shape)
        yield from cast_cells(shape)
        if shape:
            yield from shape_cells(shape)
            yield from reduce_cells(shape)
    yield from dot_cells()
