"""The limit on the length of numbers in the texts of programs."""

from __future__ import annotations

import re

MOST_DIGITS = 1000
"""Digits of a number; Python itself converts no more than 4300."""

TOO_LONG = f"a number has at most {MOST_DIGITS} digits"

_LONG = re.compile(rf"[0-9]{{{MOST_DIGITS + 1}}}")


def long_number(text: str) -> tuple[int, int] | None:
    """Line and column, from 1, of the first number with more digits; None where there is none."""
    result = _LONG.search(text)
    if result is None:
        return None
    before = text[: result.start()]
    return before.count("\n") + 1, result.start() - before.rfind("\n")
