"""Lowering rules, one file per op family, named as in `tileir.ops`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from tileir.backend.lower.lowering import Rule

FAMILIES = (
    "arith", "floats", "compare", "cast", "math", "shape", "memory", "reduce", "control", "program",
    "atomic", "dot", "gpu", "rearrange", "debug", "predicate",
)  # fmt: skip
"""The rule files."""


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by the mnemonic of its op."""
    found: dict[str, Rule] = {}
    for family in FAMILIES:
        found.update(import_module(f"tileir.backend.rules.{family}").RULES)
    return found
