"""Numbers on command lines: types of arguments, which say what they take."""

from __future__ import annotations

import argparse
import math


def natural(text: str) -> int:
    """A whole number from 0 on."""
    return _whole(text, 0)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    return _whole(text, 1)


def amount(text: str) -> float:
    """A finite number from 0 on."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"a finite number from 0 on, not {text!r}")
    return found


def _whole(text: str, least: int) -> int:
    try:
        found = int(text)
    except ValueError:
        found = least - 1
    if found < least:
        raise argparse.ArgumentTypeError(f"a whole number from {least} on, not {text!r}")
    return found
