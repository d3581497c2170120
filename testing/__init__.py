"""Program generators and executors for tests of passes and backends.

    program = tileir.testing.sample(seed=7)  # one random program
    difference(run(changed), run(program))  # None if all bits of the outputs are equal
    check(case("licm", seed=7))  # a program before and after one pass

With hypothesis, `@given(tileir.testing.programs())` generates many programs, and shrinks those that
fail. See `docs/explanation/generators.md`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if __name__ != "tileir.testing":
    raise ImportError(f"import this package as tileir.testing, not as {__name__}")

from tileir.testing.policies import GenerationPolicy, policy_of
from tileir.testing.program import ParameterBuffer, Program, difference, run
from tileir.testing.program_decoder import (
    Freedom,
    Statement,
    decode,
    draw,
    names,
    random_statements,
    sample,
    single,
)

if TYPE_CHECKING:
    from tileir.testing.checking import PassCase, Verdict, case, check
    from tileir.testing.executors import RunResult, interpreter, launcher, violation
    from tileir.testing.shrinking import shrink
    from tileir.testing.strategies import programs, statements

__all__ = [
    "Freedom",
    "GenerationPolicy",
    "ParameterBuffer",
    "PassCase",
    "Program",
    "RunResult",
    "Statement",
    "Verdict",
    "case",
    "check",
    "decode",
    "difference",
    "draw",
    "interpreter",
    "launcher",
    "names",
    "policy_of",
    "programs",
    "random_statements",
    "run",
    "sample",
    "shrink",
    "single",
    "statements",
    "violation",
]

_LATER = {
    "programs": "strategies",
    "statements": "strategies",
    **dict.fromkeys(("PassCase", "Verdict", "case", "check"), "checking"),
    **dict.fromkeys(("RunResult", "interpreter", "launcher", "violation"), "executors"),
    "shrink": "shrinking",
}
"""Names that are imported on first use, by their module: strategies need hypothesis."""


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name not in _LATER:
        raise AttributeError(f"module 'tileir.testing' has no attribute {name!r}")
    module = importlib.import_module(f"tileir.testing.{_LATER[name]}")
    result = getattr(module, name)
    globals()[name] = result
    return result
