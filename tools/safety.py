"""Protection of commands against programs that crash or hang them: limits, and code generation in a
separate process."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tileir.process import default_isolation
from tileir.tools.numbers import natural


def add_safety(group: Any) -> None:
    """Declare `--limit` and `--no-isolate`."""
    group.add_argument(
        "--limit", action="append", default=[], metavar="NAME=VALUE", type=_limit,
        help="set a limit, e.g. operations=262144 (docs/reference/limits.md)",
    )  # fmt: skip
    group.add_argument(
        "--no-isolate", action="store_true",
        help="run LLVM in this process: faster to start, but a crash of LLVM ends it",
    )  # fmt: skip


@contextmanager
def safe(options: argparse.Namespace) -> Generator[None, None, None]:
    """Run the body under the limits of `options`, with isolated code generation unless `options`
    disable it.

    Raises `CompileError` (TIR1602) for limits that do not exist.
    """
    with default_isolation(not getattr(options, "no_isolate", False)):
        stated = dict(getattr(options, "limit", ()))
        if not stated:
            yield
            return
        from tileir.limits import defaults  # imports the IR, which some commands do not need

        with defaults(**stated):
            yield


def _limit(text: str) -> tuple[str, int]:
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"a limit is NAME=VALUE, not {text!r}")
    return name, natural(value)
