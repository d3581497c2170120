"""How many programs and sources a run makes: 100 and 2,000 a frontend, and in a campaign
`TILEIR_CAMPAIGN` times as many.

    TILEIR_CAMPAIGN=10 pytest tests/frontends -k "generated or malformed" -n 16
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SCALE = int(os.environ.get("TILEIR_CAMPAIGN", "1"))

PROGRAMS = settings(
    max_examples=100 * SCALE,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
"""For a test of one generated program."""

PART = 500
"""Sources with mistakes of one test, which take a seed of `SEEDS`."""

SEEDS = range(4 * SCALE)

SOURCES = PART * len(SEEDS)
"""Sources with mistakes of a frontend in all."""
