"""Steps: closures that run one op on a frame, the list of a call's values by slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Frame: TypeAlias = list[Any]
Step: TypeAlias = Callable[[Frame], Any]


def fixed_step(evaluate: Any, machine: Any, slots: Sequence[int], results: Sequence[int]) -> Step:
    """A step of one or two results and a fixed number of operands; few operands are passed without
    a list."""
    if len(results) == 2:
        return _two_results(evaluate, machine, slots, results)
    (result,) = results
    if len(slots) == 1:
        return _one_operand(evaluate, machine, slots[0], result)
    if len(slots) == 2:
        return _two_operands(evaluate, machine, slots[0], slots[1], result)
    if len(slots) == 3:
        a, b, c = slots

        def step3(frame: Frame) -> None:
            frame[result] = evaluate(machine, frame[a], frame[b], frame[c])

        return step3

    def step(frame: Frame) -> None:
        frame[result] = evaluate(machine, *[frame[s] for s in slots])

    return step


def _one_operand(evaluate: Any, machine: Any, a: int, result: int) -> Step:
    def step1(frame: Frame) -> None:
        frame[result] = evaluate(machine, frame[a])

    return step1


def _two_operands(evaluate: Any, machine: Any, a: int, b: int, result: int) -> Step:
    def step2(frame: Frame) -> None:
        frame[result] = evaluate(machine, frame[a], frame[b])

    return step2


def _two_results(evaluate: Any, machine: Any, slots: Sequence[int], results: Sequence[int]) -> Step:
    first, second = results

    def step(frame: Frame) -> None:
        frame[first], frame[second] = evaluate(machine, *[frame[s] for s in slots])

    return step


def kept_step(step: Step, slots: Sequence[int], results: Sequence[int]) -> Step:
    """A step of a pure op that keeps its results while its operands are the same objects: values
    are immutable, so the results would be equal."""
    operands: list[Any] = []
    values: list[Any] = []

    def run(frame: Frame) -> None:
        new_operands = [frame[s] for s in slots]
        if new_operands == operands:
            for slot, value in zip(results, values, strict=True):
                frame[slot] = value
            return
        step(frame)
        operands[:] = new_operands
        values[:] = [frame[s] for s in results]

    return run
