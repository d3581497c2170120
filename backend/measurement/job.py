"""A candidate in the form that is sent to the processes that compile it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tileir.backend.measurement.points import Choice
from tileir.ir import Module


@attrs.frozen
class Job:
    """A candidate as it is sent to other processes. `make(**choices)` returns the module, whose
    kernel gets `attributes`; `options` are those of the compiler. `make` must be picklable."""

    make: Callable[..., Module]
    choices: Mapping[str, Choice]
    attributes: Mapping[str, Any]
    options: Mapping[str, Any]
    kernel: str | None
    grid: tuple[int, ...]

    def module(self) -> Module:
        """The candidate's module."""
        module = self.make(**self.choices)
        if not self.attributes:
            return module
        kernel = module.kernel(self.kernel)
        changed = kernel.evolve(attributes={**kernel.attributes, **self.attributes})
        return module.with_functions({**module.functions, kernel.name: changed})
