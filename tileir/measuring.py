"""Executors that measure: which of several modules is quickest.

A frontend that tunes asks the executor it launches with, if that is `Measuring`, and so depends on
no backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from tileir.errors import TileirError
from tileir.ir import Module


@attrs.frozen
class Candidate:
    """A kernel of a module, with the grid it is launched on; `options` as for
    `Executor.launch`."""

    module: Module
    kernel: str | None
    grid: tuple[int, ...]
    options: Mapping[str, Any] = attrs.field(factory=dict)


@runtime_checkable
class Measuring(Protocol):
    """An executor that measures."""

    def measure(
        self,
        candidates: Sequence[Candidate],
        arguments: Mapping[str, Any],
        *,
        remember: bool = False,
    ) -> list[float | TileirError]:
        """Seconds of one launch of each candidate, on arguments by name, or why there are none.
        Candidates are compiled side by side, and measured one after the other; arrays may hold
        anything afterwards. With `remember` measurements are kept, and used again for the
        same machine code, shapes and device.
        """
        ...
