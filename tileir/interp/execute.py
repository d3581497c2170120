"""Running prepared code: straight through, or as a generator that pauses before SYNC ops."""

from __future__ import annotations

from typing import Any, Protocol

from tileir.errors import InterpretError, TileirError
from tileir.interp.program import BlockCode, CallSite, CodeEdge, CompiledFunction, Frame, Step
from tileir.interp.schedule import NotReadyError, Pause, Steps
from tileir.op import Op

_OF_AN_OP = (TileirError, NotImplementedError, RecursionError, MemoryError, ValueError)
"""The exceptions of running an op that are reported with its location."""


class HostServices(Protocol):
    """The services that execution needs of the machine besides `evaluate`."""

    budget: int
    """Ops that may still run."""

    def code_of(self, name: str) -> CompiledFunction: ...
    def is_enabled(self, predicate: Any, op: Op) -> bool: ...
    def step_limit_error(self, op: Op) -> InterpretError: ...
    def with_location(self, error: Exception, op: Op) -> TileirError: ...


def run(code: CompiledFunction, arguments: tuple[Any, ...], host: HostServices) -> tuple[Any, ...]:
    """Call a function that does not pause. Returns its results."""
    frame = _enter(code, arguments)
    block = code.entry
    while True:
        _count(block, host)
        step: Step = block.leave
        try:
            for step in block.steps:
                step(frame)
            step = block.leave
            left = step(frame)
        except _OF_AN_OP as error:
            raise host.with_location(error, block.op_of(step)) from None
        if not isinstance(left, CodeEdge):
            return left
        block = _follow(left, frame)


def steps(
    code: CompiledFunction,
    arguments: tuple[Any, ...],
    host: HostServices,
    outer: tuple[Frame, ...] = (),
    calls: tuple[Op, ...] = (),
) -> Steps:
    """Call a function as a generator that pauses before each synchronising op; `outer` are the
    frames of its callers, `calls` the calls they are in. Its value is the function's results."""
    frame = _enter(code, arguments)
    frames = (*outer, frame)
    block = code.entry
    while True:
        _count(block, host)
        step: Step = block.leave
        try:
            for part, pause in zip(block.parts, (*block.pauses, None), strict=True):
                for step in part:
                    step(frame)
                if pause is None:
                    break
                op, step, site = pause
                if site is not None:
                    yield from _call(site, (*calls, op), frame, frames, host)
                else:
                    yield Pause((*calls, op), frames)
                    while _waits(step, frame):
                        yield Pause((*calls, op), frames)
            step = block.leave
            left = step(frame)
        except _OF_AN_OP as error:
            raise host.with_location(error, block.op_of(step)) from None
        if not isinstance(left, CodeEdge):
            return left
        block = _follow(left, frame)


def _waits(step: Step, frame: Frame) -> bool:
    """Execute `step` if it can proceed; returns whether it still has to wait."""
    try:
        step(frame)
    except NotReadyError:
        return True
    return False


def _enter(code: CompiledFunction, arguments: tuple[Any, ...]) -> Frame:
    frame = code.template.copy()
    for slot, value in zip(code.parameters, arguments, strict=True):
        frame[slot] = value
    return frame


def _count(block: BlockCode, host: HostServices) -> None:
    block.runs += 1
    host.budget -= block.weight
    if host.budget < 0:
        raise host.step_limit_error(block.block.terminator)


def _follow(edge: CodeEdge, frame: Frame) -> BlockCode:
    values = [frame[slot] for slot in edge.sources]
    for slot, value in zip(edge.targets, values, strict=True):
        frame[slot] = value
    return edge.block


def _call(
    site: CallSite,
    calls: tuple[Op, ...],
    frame: Frame,
    frames: tuple[Frame, ...],
    host: HostServices,
) -> Steps:
    """Call a function that may pause, from a caller that may; `calls` ends with this call."""
    if site.predicate and not host.is_enabled(frame[site.predicate], calls[-1]):
        results = site.disabled
    else:
        arguments = tuple([frame[slot] for slot in site.arguments])
        results = yield from steps(host.code_of(site.callee), arguments, host, frames, calls)
    for slot, value in zip(site.results, results, strict=True):
        frame[slot] = value
