"""Search spaces: parameters with their choices, and which combinations make sense.

    space = Space((Parameter("M", (64, 128)), Parameter("num_warps", (4, 8), Role.OPTION)))
    wide = space.where("a warp for every 16 rows", lambda p: p["M"] >= 16 * p["num_warps"])
    for point in wide: ...

A point is a mapping of parameters to choices, written by `point_name` the same way everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from itertools import product
from math import prod
from typing import TypeAlias

import attrs

from tileir.backend.measurement.errors import tune_error
from tileir.backend.measurement.points import Choice, Point

Holds: TypeAlias = Callable[[Point], bool]


class ParameterRole(Enum):
    """The consumer of a parameter: the function that builds modules, the compiler (as an option),
    or the passes (as an attribute of the kernel)."""

    MAKE = "make"
    """An argument of `Problem.make`."""
    OPTION = "option"
    """An option of the compiler (`tileir.backend.Options`)."""
    ATTRIBUTE = "attribute"
    """An attribute of the kernel."""


@attrs.frozen
class TuningParameter:
    """A parameter: its name and its choices, ordered so that neighbours are similar."""

    name: str
    choices: tuple[Choice, ...] = attrs.field(converter=tuple)
    role: ParameterRole = ParameterRole.MAKE
    meaning: str = ""


@attrs.frozen
class Constraint:
    """A constraint on points: a description and a function."""

    words: str
    holds: Holds


@attrs.frozen(slots=False)
class Space:
    """The Cartesian product of `parameters`, without the points that violate a constraint."""

    parameters: tuple[TuningParameter, ...] = attrs.field(converter=tuple)
    constraints: tuple[Constraint, ...] = ()

    def __attrs_post_init__(self) -> None:
        names = [p.name for p in self.parameters]
        twice = sorted({name for name in names if names.count(name) > 1})
        empty = [p.name for p in self.parameters if not p.choices]
        if twice or empty:
            what = f"{', '.join(twice)} twice" if twice else f"no choice for {', '.join(empty)}"
            raise tune_error(f"a space has {what}")

    @property
    def size(self) -> int:
        """The number of points, without regard to constraints."""
        return prod(len(p.choices) for p in self.parameters)

    def __iter__(self) -> Iterator[dict[str, Choice]]:
        """The points that fulfil every constraint, the last parameter changing fastest."""
        names = [p.name for p in self.parameters]
        for values in product(*(p.choices for p in self.parameters)):
            point = dict(zip(names, values, strict=True))
            if self.violation(point) is None:
                yield point

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return sum(1 for _ in self)

    def __mul__(self, other: Space) -> Space:
        """Both spaces' parameters in every combination."""
        return Space(self.parameters + other.parameters, self.constraints + other.constraints)

    def where(self, words: str, holds: Holds) -> Space:
        """Add a constraint: keep the points for which `holds` is true; `words` describes it."""
        return attrs.evolve(self, constraints=(*self.constraints, Constraint(words, holds)))

    def violation(self, point: Point) -> str | None:
        """Return the description of the first constraint that `point` violates, or None."""
        return next((c.words for c in self.constraints if not c.holds(point)), None)

    def with_choices(self, **choices: Sequence[Choice]) -> Space:
        """Return the space with other choices for some of its parameters. Raises `TuneError`."""
        unknown = choices.keys() - {p.name for p in self.parameters}
        if unknown:
            names = ", ".join(p.name for p in self.parameters) or "none"
            raise tune_error(f"no parameter {', '.join(sorted(unknown))}; there are: {names}")
        changed = (
            attrs.evolve(p, choices=choices[p.name]) if p.name in choices else p
            for p in self.parameters
        )
        return attrs.evolve(self, parameters=tuple(changed))

    def neighbours(self, point: Point) -> Iterator[dict[str, Choice]]:
        """Return the points that differ from `point` in one parameter, by one choice up or down."""
        for parameter in self.parameters:
            at = parameter.choices.index(point[parameter.name])
            for near in (at - 1, at + 1):
                if 0 <= near < len(parameter.choices):
                    moved = {**point, parameter.name: parameter.choices[near]}
                    if self.violation(moved) is None:
                        yield moved

    def split(self, point: Point) -> dict[ParameterRole, dict[str, Choice]]:
        """Split the choices of `point` by consumer."""
        by_role: dict[ParameterRole, dict[str, Choice]] = {role: {} for role in ParameterRole}
        for parameter in self.parameters:
            by_role[parameter.role][parameter.name] = point[parameter.name]
        return by_role
