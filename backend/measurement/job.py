"""One candidate, as the processes that compile it need it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tileir.backend.measurement.points import Choice
from tileir.ir import Module


@attrs.frozen
class Job:
    """One candidate as other processes need it: `make(**choices)` returns the module, whose kernel
    gets `attributes`; `options` are the compiler's. `make` has to be picklable."""

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
