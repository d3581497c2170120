"""Steps for the common case of common ops: nothing undefined, no predicate, usual rounding.

A quick step computes what `evaluate` would, and leaves every other case to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tileir.interp.closures import Frame, Step
from tileir.interp.fast_memory import quick_load, quick_store
from tileir.interp.machine_request import Request, request
from tileir.machine import Machine, Tensor
from tileir.machine.integers import TRAPS
from tileir.op import Op
from tileir.types import F32, F64, I1, Kind, Scalar, element_of, shape_of

Evaluate: TypeAlias = Callable[..., Any]

_INTEGERS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "smin": np.minimum,
    "smax": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_BITWISE = ("and", "or", "xor")
_FLOATS: dict[str, Any] = {
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
}
_ORDER: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
}
_USUAL = ({}, {"overflow": "none"}, {"rounding": "rn", "ftz": False}, {"rounding": "rn"})


def quick_step(
    op: Op, machine: Any, slots: Sequence[int | tuple[int, ...]], results: Sequence[int]
) -> Step | None:
    """A step for `op` on a machine of IEEE numbers, None where there is none that is quicker."""
    if not isinstance(machine, Machine) or machine.kernels is not Machine.kernels:
        return None
    requested = request(op, slots)
    if requested is None or op.predicate is not None:
        return None
    maker = _MAKERS.get(requested.method)
    return maker(op, requested, machine, slots, results) if maker is not None else None


# Elementwise ----------------------------------------------------------------------------------


def _elementwise(
    op: Any, request: Request, machine: Any, slots: Sequence[int], results: Sequence[int]
) -> Step | None:
    name, keywords = request.settings[0], request.keywords
    element = element_of(op.results[0].type)
    if name == "getelementptr":
        return _offset(op, keywords["size"], machine, slots, results[0])
    trapping = keywords.pop("op", None) is not None
    if len(slots) == 1 and not trapping:
        return _one(op, _bound(machine.kernels[name], keywords), machine, slots[0], results[0])
    if len(slots) != 2:
        return None
    if trapping:
        kernel = _bound(machine.kernels[name], keywords)
        return _trapping(op, kernel, TRAPS[name][0], machine, slots, results[0])
    if keywords in _USUAL and _is_plain_integer(name, element):
        return _two(op, _INTEGERS[name], machine, slots, results[0])
    if keywords in _USUAL and name in _FLOATS and element in (F32, F64):
        return _two_floats(op, _FLOATS[name], machine, slots, results[0])
    if keywords.get("overflow", "none") == "none":
        return _two(op, _bound(machine.kernels[name], keywords), machine, slots, results[0])
    return None


def _is_plain_integer(name: str, element: Any) -> bool:
    """Whether numpy's own function is the op's meaning."""
    if name not in _INTEGERS or not isinstance(element, Scalar):
        return False
    return element.kind is Kind.INTEGER and (element is not I1 or name in _BITWISE)


def _bound(kernel: Any, keywords: dict[str, Any]) -> Any:
    return (lambda *arrays: kernel(*arrays, **keywords)) if keywords else kernel


def _one(op: Op, kernel: Any, machine: Any, a: int, result: int) -> Step:
    evaluate = op.evaluate

    def step(frame: Frame) -> None:
        x = frame[a]
        if x.undef is None:
            data = kernel(x.data)
            frame[result] = Tensor(data if type(data) is np.ndarray else np.asarray(data))
        else:
            frame[result] = evaluate(machine, x)

    return step


def _two(op: Op, kernel: Any, machine: Any, slots: Sequence[int], result: int) -> Step:
    (a, b), evaluate = slots, op.evaluate

    def step(frame: Frame) -> None:
        x, y = frame[a], frame[b]
        if x.undef is None is y.undef:
            data = kernel(x.data, y.data)
            frame[result] = Tensor(data if type(data) is np.ndarray else np.asarray(data))
        else:
            frame[result] = evaluate(machine, x, y)

    return step


def _two_floats(op: Op, kernel: Any, machine: Any, slots: Sequence[int], result: int) -> Step:
    """A step for an f32 or f64 op with two operands; NaN results and undefined lanes take the
    general path."""
    (a, b), evaluate = slots, op.evaluate

    def step(frame: Frame) -> None:
        x, y = frame[a], frame[b]
        if x.undef is None is y.undef:
            data = kernel(x.data, y.data)
            if not np.count_nonzero(data != data):
                frame[result] = Tensor(data if type(data) is np.ndarray else np.asarray(data))
                return
        frame[result] = evaluate(machine, x, y)

    return step


def _trapping(
    op: Op, kernel: Any, meaningless: Any, machine: Any, slots: Sequence[int], result: int
) -> Step:
    (a, b), evaluate = slots, op.evaluate

    def step(frame: Frame) -> None:
        x, y = frame[a], frame[b]
        if x.undef is None is y.undef and not np.count_nonzero(meaningless(x.data, y.data)):
            data = kernel(x.data, y.data)
            frame[result] = Tensor(data if type(data) is np.ndarray else np.asarray(data))
        else:
            frame[result] = evaluate(machine, x, y)

    return step


def _offset(op: Op, size: int, machine: Any, slots: Sequence[int], result: int) -> Step:
    (a, b), evaluate = slots, op.evaluate
    element_bytes = np.array(size, np.int64)

    def step(frame: Frame) -> None:
        p, i = frame[a], frame[b]
        if p.undef is None is i.undef:
            bytes_ = np.asarray(np.multiply(i.data, element_bytes)).view(np.uint64)
            data = p.data + bytes_
            frame[result] = Tensor(data if type(data) is np.ndarray else np.asarray(data))
        else:
            frame[result] = evaluate(machine, p, i)

    return step


def _compare(
    op: Any, request: Request, machine: Any, slots: Sequence[int], results: Sequence[int]
) -> Step | None:
    name, relation = request.settings
    (a, b), (holds, fails), evaluate = slots, results, op.evaluate
    kernel = machine.relations[name][relation]
    if name == "icmp" and element_of(op.lhs.type) is not I1:
        kernel = _ORDER.get(relation, kernel)

    def step(frame: Frame) -> None:
        x, y = frame[a], frame[b]
        if x.undef is None is y.undef:
            result = np.asarray(kernel(x.data, y.data))
            frame[holds], frame[fails] = Tensor(result), Tensor(np.asarray(~result))
        else:
            frame[holds], frame[fails] = evaluate(machine, x, y)

    return step


# Shapes ---------------------------------------------------------------------------------------


def _broadcast(
    op: Op, request: Request, machine: Any, slots: Sequence[int], results: Sequence[int]
) -> Step | None:
    (a,), (result,), (shape,), evaluate = slots, results, request.settings, op.evaluate
    old = shape_of(op.operands[0].type)  # type: ignore[union-attr]
    repeated = [1 if n == m else 0 for n, m in zip(old or shape, shape, strict=True)]
    if not old:
        repeated = [0] * len(shape)

    def step(frame: Frame) -> None:
        x = frame[a]
        if x.undef is not None:
            frame[result] = evaluate(machine, x)
            return
        data = x.data
        if not data.flags.c_contiguous:
            frame[result] = Tensor(np.broadcast_to(data, shape))
            return
        strides = [s * r for s, r in zip(data.strides or repeated, repeated, strict=True)]
        frame[result] = Tensor(np.ndarray(shape, data.dtype, data, 0, strides))

    return step


def _reshape(
    op: Op, request: Request, machine: Any, slots: Sequence[int], results: Sequence[int]
) -> Step | None:
    (a,), (result,), (shape,), evaluate = slots, results, request.settings, op.evaluate

    def step(frame: Frame) -> None:
        x = frame[a]
        if x.undef is None:
            frame[result] = Tensor(x.data.reshape(shape))
        else:
            frame[result] = evaluate(machine, x)

    return step


def _reduce(
    op: Op, request: Request, machine: Any, slots: Sequence[Any], results: Sequence[int]
) -> Step | None:
    axis, combiner, _ = request.settings
    kernel = machine.reductions.get(combiner)
    if kernel is None or len(slots[0]) != 1:
        return None
    ((a,),), (result,), evaluate = slots, results, op.evaluate

    def step(frame: Frame) -> None:
        x = frame[a]
        data = kernel(x.data, axis) if x.undef is None else None
        frame[result] = evaluate(machine, (x,)) if data is None else Tensor(data)

    return step


_MAKERS: dict[str, Callable[..., Step | None]] = {
    "elementwise": _elementwise,
    "compare": _compare,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "reduce": _reduce,
    "load": quick_load,
    "store": quick_store,
}
