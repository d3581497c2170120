"""Predicates."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.errors import Diagnostic
from tileir.ir import Function


def check_predicates(function: Function) -> Iterator[Diagnostic]:
    return iter(())
