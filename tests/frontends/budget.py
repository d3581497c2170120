"""How many programs and sources a run makes: 100 and 2,000 a frontend among the slow tests, some
in the default run, and in a campaign `TILEIR_CAMPAIGN` times as many.

    TILEIR_CAMPAIGN=10 pytest tests/frontends -m "" -k "generated or malformed" -n 16
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.sizes import few_or_all

SCALE = int(os.environ.get("TILEIR_CAMPAIGN", "1"))


def over(*strategies: Any) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Makes a test of generated programs of a test of one, whose arguments are drawn from
    `strategies`."""

    def decorate(test: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("programs", few_or_all(8, 100 * SCALE))
        def run(programs: int) -> None:
            budget = settings(
                max_examples=programs, deadline=None, derandomize=True, database=None,
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            budget(given(*strategies)(test))()

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorate


PART = 100
"""Sources with mistakes of one test, which take a seed of `SEEDS`."""

SEEDS = range(20 * SCALE)

SOURCES = PART * len(SEEDS)
"""Sources with mistakes of a frontend in all."""
