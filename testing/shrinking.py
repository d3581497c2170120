"""Shrinking of statement lists for which something fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tileir.testing.program_decoder import Statement

Fails: TypeAlias = Callable[[list[Statement]], bool]


def shrink(statements: list[Statement], fails: Fails, tries: int = 400) -> list[Statement]:
    """Return a shorter list, with smaller numbers, on which `fails` is still true.

    At most `tries` candidates are tested. Runs of statements are removed, of half the length in
    each pass; then every digit is replaced by 0.
    """
    budget = [tries]

    def still(candidate: list[Statement]) -> bool:
        budget[0] -= 1
        return budget[0] >= 0 and fails(candidate)

    size = max(1, len(statements) // 2)
    while size:
        statements = _without_runs(statements, size, still)
        size //= 2
    return _with_zeros(statements, still)


def _without_runs(statements: list[Statement], size: int, still: Fails) -> list[Statement]:
    start = len(statements) - size
    while start > -size:
        shorter = statements[: max(start, 0)] + statements[start + size :]
        if len(shorter) < len(statements) and still(shorter):
            statements = shorter
        start -= size
    return statements


def _with_zeros(statements: list[Statement], still: Fails) -> list[Statement]:
    for index, statement in enumerate(statements):
        for place in (1, 2, 3):
            digits = list(statement)
            digits[place] = 0
            smaller = (digits[0], digits[1], digits[2], digits[3])
            result = [*statements[:index], smaller, *statements[index + 1 :]]
            if smaller != statement and still(result):
                statements, statement = result, smaller
    return statements
