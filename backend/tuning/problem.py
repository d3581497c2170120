"""What is tuned: a kernel with parameters, and the launch whose time counts."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from tileir.backend.measurement.errors import tune_error
from tileir.backend.measurement.job import Job
from tileir.backend.measurement.points import Point
from tileir.backend.tuning.mapl19 import attributes_of
from tileir.backend.tuning.result_check import Within
from tileir.backend.tuning.space import ParameterRole, Space
from tileir.ir import Module

Grid: TypeAlias = "int | Sequence[int] | Callable[[Point], int | Sequence[int]]"
Inputs: TypeAlias = Callable[[], Mapping[str, Any]]
Expected: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@attrs.frozen
class Problem:
    """A kernel with parameters and its launch.

    `make`: choices of `space` by name -> module. `grid`: extents, or a function of the point.
    `inputs()`: the arguments by parameter, numpy arrays and numbers, the same for every call.
    `content` distinguishes kernels of the same name (`content_of`). `options` are the compiler's
    for every candidate. `expected(inputs)`: the expected contents of some arrays; without it
    candidates are compared with the first. `within`: the largest error allowed, of all arrays or of
    each; None for 32 spacings of the type.

    Functions that run in other processes (`make`, `inputs`, `expected`) have to be picklable:
    functions of modules, and `functools.partial` of such.
    """

    make: Callable[..., Module]
    space: Space
    grid: Grid
    inputs: Inputs
    content: str
    name: str = "kernel"
    kernel: str | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    expected: Expected | None = None
    within: Within = None

    def job(self, point: Point) -> Job:
        """The candidate at `point`. Raises `TuneError` for a grid that is none."""
        parts = self.space.split(point)
        options = {**self.options, **parts[ParameterRole.OPTION]}
        attributes = attributes_of(parts[ParameterRole.ATTRIBUTE])
        return Job(
            self.make,
            parts[ParameterRole.MAKE],
            attributes,
            options,
            self.kernel,
            self._extents(point),
        )

    def _extents(self, point: Point) -> tuple[int, ...]:
        result: Any = self.grid(point) if callable(self.grid) else self.grid
        extents = (result,) if isinstance(result, int) else tuple(result)
        if not 1 <= len(extents) <= 3 or any(not isinstance(n, int) or n < 1 for n in extents):
            raise tune_error(f"a grid is one to three positive numbers, not {result!r}")
        return extents


def content_of(*parts: object) -> str:
    """A digest of texts; functions stand for the files they are defined in, and their names."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(_text(part).encode() + b"\0")
    return digest.hexdigest()[:20]


def _text(part: object) -> str:
    if not callable(part):
        return str(part)
    inner = inspect.unwrap(getattr(part, "func", part))
    file = inspect.getsourcefile(inner)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return name + (Path(file).read_text("utf-8") if file else "")
