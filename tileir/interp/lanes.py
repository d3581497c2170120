"""Calling a function of scalars for many elements at once.

The ops of such a function are elementwise, so `evaluate` runs on one-dimensional arrays with an
element per call. At a branch whose condition differs between elements, each side continues with its
own elements. A function with an op that is not elementwise is run once per element."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileir.errors import Diagnostic, InterpretError, TileirError
from tileir.interp.execute import HostServices, run
from tileir.interp.program import BlockCode, CodeEdge, CompiledFunction, Frame
from tileir.machine import Tensor, dtype_of
from tileir.ops.control import CondBranch, Return
from tileir.types import Tile, element_of

Members = NDArray[np.int64]


def call_lanes(
    code: CompiledFunction, arguments: tuple[Tensor, ...], host: HostServices
) -> tuple[Tensor, ...]:
    """The results of `code` for every element of `arguments`, tensors of one shape."""
    shape = np.broadcast_shapes(*(a.data.shape for a in arguments))
    count = int(np.prod(shape))
    flat = tuple(_flat(a, shape) for a in arguments)
    part = _run_vectorized if _is_elementwise(code) else _one_by_one
    return tuple(_reshape(result, shape) for result in part(code, flat, count, host))


def _flat(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    data = np.broadcast_to(value.data, shape).reshape(-1)
    undef = None if value.undef is None else np.broadcast_to(value.undef, shape).reshape(-1)
    return Tensor(data, undef)


def _reshape(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    undef = None if value.undef is None or not value.undef.any() else value.undef.reshape(shape)
    return Tensor(value.data.reshape(shape), undef)


def _is_elementwise(code: CompiledFunction) -> bool:
    """Whether every op works on scalars element by element, without predicate or call."""
    return all(
        ((op.elementwise and op.predicate is None) or op.is_terminator)
        and not any(isinstance(v.type, Tile) for v in (*op.operands, *op.results))
        for op in code.function.ops
    )


def _one_by_one(
    code: CompiledFunction, arguments: tuple[Tensor, ...], count: int, host: HostServices
) -> list[Tensor]:
    out = _Results(code, count)
    for number in range(count):
        values = tuple(_member(a, number) for a in arguments)
        out.put(np.array([number]), run(code, values, host))
    return out.tensors


def _member(value: Tensor, number: int) -> Tensor:
    undef = None if value.undef is None else np.array(value.undef[number])
    return Tensor(np.array(value.data[number]), undef)


def _run_vectorized(
    code: CompiledFunction, arguments: tuple[Tensor, ...], count: int, host: HostServices
) -> list[Tensor]:
    out = _Results(code, count)
    frame = code.template.copy()
    for slot, value in zip(code.parameters, arguments, strict=True):
        frame[slot] = value
    waiting: list[tuple[BlockCode, Frame, Members]] = [(code.entry, frame, np.arange(count))]
    while waiting:
        block, frame, members = waiting.pop()
        block.runs += 1
        host.budget -= block.weight * len(members)
        if host.budget < 0:
            raise host.step_limit_error(block.block.terminator)
        _run_steps(block, frame, host)
        waiting.extend(_leave(block, frame, members, out, host))
    return out.tensors


def _run_steps(block: BlockCode, frame: Frame, host: HostServices) -> None:
    step = block.leave
    try:
        for step in block.steps:
            step(frame)
    except (TileirError, NotImplementedError) as error:
        raise host.with_location(error, block.op_of(step)) from None


def _leave(
    block: BlockCode, frame: Frame, members: Members, out: _Results, host: HostServices
) -> list[tuple[BlockCode, Frame, Members]]:
    """The successors of the active elements at the end of a block."""
    last = block.block.terminator
    if isinstance(last, CondBranch):
        return _part(block, last, frame, members, host)
    left = _terminate(block, frame, host)
    if isinstance(last, Return):
        out.put(members, left)
        return []
    return [(left.block, _take_edge(left, frame), members)]


def _terminate(block: BlockCode, frame: Frame, host: HostServices) -> Any:
    try:
        return block.leave(frame)
    except (TileirError, NotImplementedError) as error:
        raise host.with_location(error, block.block.terminator) from None


def _part(
    block: BlockCode, last: CondBranch, frame: Frame, members: Members, host: HostServices
) -> list[tuple[BlockCode, Frame, Members]]:
    condition = frame[block.condition]
    if condition.undef is not None and condition.undef.any():
        error = InterpretError(Diagnostic("TIR0506", "the condition is undefined"))
        raise host.with_location(error, last)
    condition_data = np.broadcast_to(condition.data, members.shape)
    parts: list[tuple[BlockCode, Frame, Members]] = []
    for successor, chosen in ((last.then, condition_data), (last.otherwise, ~condition_data)):
        if chosen.any():
            edge = block.edges[id(successor)]
            values = frame if chosen.all() else [_choose(v, chosen) for v in frame]
            parts.append((edge.block, _take_edge(edge, values), members[chosen]))
    return parts


def _choose(value: Any, chosen: NDArray[np.bool_]) -> Any:
    """The chosen elements of a frame's value; literals are the same for all."""
    if not isinstance(value, Tensor) or value.data.shape != chosen.shape:
        return value
    undef = value.undef
    if undef is not None and undef.shape == chosen.shape:
        undef = undef[chosen]
    return Tensor(value.data[chosen], undef)


def _take_edge(edge: CodeEdge, frame: Frame) -> Frame:
    values = [frame[slot] for slot in edge.sources]
    for slot, value in zip(edge.targets, values, strict=True):
        frame[slot] = value
    return frame


class _Results:
    """The results of all elements, filled as they return."""

    def __init__(self, code: CompiledFunction, count: int) -> None:
        dtypes = [dtype_of(element_of(t)) for t in code.function.results]
        self.tensors = [Tensor(np.zeros(count, d), np.zeros(count, np.bool_)) for d in dtypes]

    def put(self, members: Members, values: tuple[Tensor, ...]) -> None:
        for out, value in zip(self.tensors, values, strict=True):
            out.data[members] = value.data
            if out.undef is not None and value.undef is not None:
                out.undef[members] = value.undef
