"""Types of numeric arguments of commands."""

from __future__ import annotations

import argparse
import math


def natural(text: str) -> int:
    """A whole number from 0 on."""
    return _integer(text, 0)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    return _integer(text, 1)


_MOST = 1e9
"""The maximum number of seconds: thirty years, more than functions that wait accept."""


def amount(text: str) -> float:
    """A number from 0 to 1e9."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= _MOST:
        raise argparse.ArgumentTypeError(f"a number from 0 to {_MOST:.0e}, not {text!r}")
    return number


def _integer(text: str, least: int) -> int:
    try:
        result = int(text)
    except ValueError:
        result = least - 1
    if result < least:
        raise argparse.ArgumentTypeError(f"a whole number from {least} on, not {text!r}")
    return result
