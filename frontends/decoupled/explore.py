"""Exploring the schedules of a template (sections 3.5 and 4.2): which are fastest, and how many are
competitive."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.errors import TileirError
from tileir.frontends.decoupled.plan import FuncPlan
from tileir.frontends.decoupled.program import Program
from tileir.frontends.decoupled.shorthand import choices, expand

Clock: TypeAlias = Callable[[FuncPlan, Mapping[str, Any]], float]
"""Seconds that the launches of a plan take on arrays by name."""


@attrs.frozen
class Timing:
    """A schedule and its time in seconds; `wrong` is the reason if there is no time."""

    schedule: str
    seconds: float
    wrong: str | None = None


@attrs.frozen
class Exploration:
    """The schedules of a space that are legal, the fastest first; and those that are not, each
    with its error."""

    timings: tuple[Timing, ...]
    illegal: tuple[Timing, ...]

    @property
    def best(self) -> Timing:
        """The fastest."""
        return self.timings[0]

    def competitive(self, baseline: float | None = None, within: float = 0.05) -> float:
        """The competitive-to-total ratio: which part of the schedules takes at most `1 + within`
        times the seconds of a baseline, or of the fastest."""
        limit = (self.best.seconds if baseline is None else baseline) * (1 + within)
        return sum(t.seconds <= limit for t in self.timings) / max(1, len(self.timings))


def space(program: Program, template: str) -> tuple[dict[str, Program], tuple[Timing, ...]]:
    """The legal schedules of a template, and the illegal ones. The schedule of `program` is
    kept."""
    legal: dict[str, Program] = {}
    illegal: list[Timing] = []
    for text in choices(template):
        try:
            legal[text] = program.with_schedule(expand(text))
        except TileirError as error:
            illegal.append(Timing(text, float("inf"), str(error)))
    return legal, tuple(illegal)


def explore(
    program: Program,
    template: str,
    arguments: Sequence[Any],
    clock: Clock,
    *,
    name: str | None = None,
    repeats: int = 1,
    types: Mapping[str, Any] | None = None,
    seed: int = 0,
    check: Callable[[FuncPlan, Mapping[str, Any]], str | None] | None = None,
) -> Exploration:
    """Measure every schedule of a template: the mean of `repeats` runs, each in a new random order.

    `check` returns the error in a plan's results, or None.
    """
    legal, illegal = space(program, template)
    plans: dict[str, FuncPlan] = {}
    failed: list[Timing] = list(illegal)
    argument_of: dict[str, Any] = {}
    for text, one in legal.items():
        try:
            function = one.function(name)
            argument_of = dict(zip((*function.tensors, *function.scalars), arguments, strict=True))
            plans[text] = function.plan(*arguments, types=types)
            wrong = check(plans[text], argument_of) if check else None
        except TileirError as error:
            wrong = str(error)
        if wrong:
            plans.pop(text, None)
            failed.append(Timing(text, float("inf"), wrong))
    rng, seconds = random.Random(seed), dict.fromkeys(plans, 0.0)
    for _ in range(repeats):
        for text in rng.sample(list(plans), len(plans)):
            seconds[text] += clock(plans[text], argument_of) / repeats
    timings = sorted((Timing(t, s) for t, s in seconds.items()), key=lambda t: t.seconds)
    return Exploration(tuple(timings), tuple(failed))


def wall_clock(on: str, repeats: int = 3) -> Clock:
    """The median of `repeats` runs on an executor, copies included."""

    def clock(plan: FuncPlan, arguments: Mapping[str, Any]) -> float:
        plan.run(arguments, on)
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            plan.run(arguments, on)
            seconds.append(time.perf_counter() - start)
        return float(np.median(seconds))

    return clock
