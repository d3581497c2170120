"""Problems that tuning tests share: functions of a module, so that processes can be sent them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from tileir.backend.tuning import ParameterRole, Problem, Space, TuningParameter


def make(**choices: Any) -> Any:
    raise AssertionError("the formula's meter makes no modules")


def inputs() -> dict[str, Any]:
    return {"x": np.zeros(64, np.float32), "n": 64}


def reference(arguments: Any) -> dict[str, Any]:
    return {"y": np.ones(4, np.float32)}


def bowl(choices: Any) -> float:
    """Quickest at M 64, N 32 and 4 warps, where it takes 1 ms."""
    m, n, w = (choices[k].bit_length() for k in ("M", "N", "num_warps"))
    return 1e-3 * (1 + 0.3 * abs(m - 7) + 0.2 * abs(n - 6) + 0.25 * abs(w - 3))


def misleading_model(choices: Any) -> float:
    """A model of `bowl` that knows nothing of warps, and takes M for quicker the larger."""
    m, n = (choices[k].bit_length() for k in ("M", "N"))
    return 1e-3 * (1 + 0.1 * abs(m - 9) + 0.2 * abs(n - 6))


SPACE = Space(
    (
        TuningParameter("M", (16, 32, 64, 128, 256)),
        TuningParameter("N", (16, 32, 64, 128, 256)),
        TuningParameter("num_warps", (1, 2, 4, 8), ParameterRole.OPTION),
    )
)


def problem(space: Space = SPACE, **rest: Any) -> Problem:
    return Problem(make, space, (1,), inputs, "0" * 20, **{"expected": reference, **rest})


def die() -> None:
    os.kill(os.getpid(), 9)


def interrupt() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return "not interrupted"


def run_until(started: Path, end: Path) -> None:
    """A task that creates the file `started` and runs until the file `end` exists."""
    started.touch()
    stop = time.monotonic() + 600
    while not end.exists() and time.monotonic() < stop:
        time.sleep(0.02)


def unready() -> None:
    raise ValueError("there is no device")


def executed_count(dask_worker):
    """Tasks that a worker of Dask ran."""
    return dask_worker.state.executed_count
