"""Problems for the tuner: a kernel with parameters, and the launch that is timed."""

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

    - `make` returns the module for choices of `space` by name.
    - `grid` is the grid, or a function of the point.
    - `inputs()` returns the arguments by parameter, numpy arrays and numbers, the same for every
      call.
    - `content` distinguishes kernels with the same name (`content_of`).
    - `options` are the options of the compiler for every candidate.
    - `expected(inputs)` returns the expected contents of some arrays. Without it, candidates are
      compared with the first one.
    - `within` is the largest error allowed, for all arrays or for each; None is 32 units in the
      last place of the type.

    Functions that run in other processes (`make`, `inputs`, `expected`) must be picklable:
    module-level functions, and `functools.partial` of such functions.
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
        """Return the candidate at `point`. Raises `TuneError` for an invalid grid."""
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
    """Return a digest of texts and functions; a function counts by its name and its source file."""
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
