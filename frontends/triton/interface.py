"""The common interface of kernels, autotuned kernels and kernels with heuristics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class KernelInterface:
    """The interface of kernels, which are launched by `kernel[grid](*arguments)`."""

    def run(self, *arguments: Any, grid: Any, warmup: bool = False, **keywords: Any) -> Any:
        """Launch every instance of `grid`; `warmup` only compiles."""
        raise NotImplementedError

    def warmup(self, *arguments: Any, grid: Any, **keywords: Any) -> Any:
        """Compile the kernel for a launch without launching it."""
        return self.run(*arguments, grid=grid, warmup=True, **keywords)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The launcher for `grid`: a number, a tuple, or a function of the arguments by name."""

        def launch(*arguments: Any, **keywords: Any) -> Any:
            return self.run(*arguments, grid=grid, **keywords)

        return launch
