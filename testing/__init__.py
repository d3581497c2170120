"""Program generators and executors for tests of passes and backends.

program = tileir.testing.sample(seed=7)            one random program
@given(tileir.testing.programs())                  hypothesis: many, and small ones
difference(run(changed), run(program))             None where every output bit agrees
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if __name__ != "tileir.testing":
    raise ImportError(f"import this package as tileir.testing, not as {__name__}")

from tileir.testing.decode import decode, random_statements, sample
from tileir.testing.program import Buffer, Program, difference, run

if TYPE_CHECKING:
    from tileir.testing.strategies import programs, statements

__all__ = [
    "Buffer",
    "Program",
    "decode",
    "difference",
    "programs",
    "random_statements",
    "run",
    "sample",
    "statements",
]


def __getattr__(name: str) -> Any:
    """The strategies, which need hypothesis, on first use."""
    if name not in ("programs", "statements"):
        raise AttributeError(f"module 'tileir.testing' has no attribute {name!r}")
    from tileir.testing import strategies

    return getattr(strategies, name)
