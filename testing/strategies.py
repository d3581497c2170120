"""Hypothesis strategies for programs; the only module here that needs hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from tileir.testing.program import Program
from tileir.testing.program_decoder import DIGITS, Statement, decode, kinds


def statements(longest: int = 30) -> st.SearchStrategy[list[Statement]]:
    """Return a strategy for lists of up to `longest` statements."""
    digit = st.integers(0, DIGITS - 1)
    return st.lists(st.tuples(st.integers(0, kinds() - 1), digit, digit, digit), max_size=longest)


def programs(longest: int = 30) -> st.SearchStrategy[Program]:
    """Return a strategy for programs of up to `longest` statements, which shrink by statement and
    by digit."""
    return statements(longest).map(decode)
