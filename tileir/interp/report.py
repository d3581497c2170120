"""The report of a launch."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from tileir.interp.races import Race


@attrs.define
class AccessCounts:
    """The memory accesses of all program instances, counted in unmasked lanes."""

    loads: int = 0
    stores: int = 0
    atomics: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    """Bytes written by plain stores and by atomic accesses."""


@attrs.define
class Report:
    """The record of a launch.

    `ops` counts executed ops by mnemonic, including those whose predicate was false. `races` are
    reported with `allow_races`. `undefined` is reported with `allow_undef`: one array per array
    argument, True where an element is undefined. `printed` are the lines of `print` ops, in the
    order of execution.
    """

    kernel: str
    grid: tuple[int, int, int]
    accesses: AccessCounts = attrs.field(factory=AccessCounts)
    ops: Mapping[str, int] = attrs.field(factory=dict[str, int])
    races: list[Race] = attrs.field(factory=list[Race])
    undefined: dict[str, NDArray[np.bool_]] = attrs.field(factory=dict[str, NDArray[np.bool_]])
    printed: list[str] = attrs.field(factory=list[str])

    @property
    def instances(self) -> int:
        """The number of program instances."""
        return self.grid[0] * self.grid[1] * self.grid[2]
