"""Programs that race if the passes insert no barriers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tileir.backend.shared_memory.hazards import Hazards
from tileir.backend.shared_memory.thread_conflicts import SyncScope
from tileir.backend.simt.shadow import RaceError


def races_without_barriers(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[int], object], programs: int
) -> int:
    """Of `programs` programs that `run` runs by their numbers, how many race where no access waits
    for another thread."""
    monkeypatch.setattr(Hazards, "before", lambda *_: SyncScope.NONE)
    races = 0
    for number in range(programs):
        try:
            run(number)
        except RaceError:
            races += 1
    return races
