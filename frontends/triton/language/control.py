"""`constexpr`, `range` and `static_range`: names that steer the compiler."""

from __future__ import annotations

from typing import Any

from tileir import records


@records.frozen
class constexpr:  # noqa: N801 - Triton's name
    """A value known while compiling: the annotation of a parameter or variable, or a wrapper."""

    value: Any


@records.frozen
class range:  # noqa: N801
    """`range` with requests to the compiler: `num_stages` of software pipelining,
    `loop_unroll_factor`; the others are read and have no effect."""

    arg1: Any
    arg2: Any = None
    step: Any = 1
    num_stages: Any = None
    loop_unroll_factor: Any = None
    disallow_acc_multi_buffer: Any = False
    flatten: Any = False
    warp_specialize: Any = False
    disable_licm: Any = False

    @property
    def bounds(self) -> tuple[Any, Any, Any]:
        """Low, high and step."""
        return (0, self.arg1, self.step) if self.arg2 is None else (self.arg1, self.arg2, self.step)


@records.frozen
class static_range:  # noqa: N801
    """A `range` whose loop is unrolled while compiling."""

    arg1: Any
    arg2: Any = None
    step: Any = 1

    @property
    def bounds(self) -> tuple[Any, Any, Any]:
        """Low, high and step."""
        return (0, self.arg1, self.step) if self.arg2 is None else (self.arg1, self.arg2, self.step)
