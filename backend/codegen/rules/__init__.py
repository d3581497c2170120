"""Lowering rules, one file per op family, named as in `tileir.ops`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from threading import RLock

from tileir.backend.codegen.lowering import Rule
from tileir.op import OPS
from tileir.process import LockLevel, hold_at_fork

FAMILIES = (
    "arith", "division", "floats", "fused", "cast", "math", "shape", "memory", "reduce",
    "control", "program", "hints", "symbols", "atomic", "dot", "gpu", "hopper", "rearrange",
    "debug", "predicate", "cluster", "roles", "warpgroup", "private",
)  # fmt: skip
"""The rule files."""


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by the mnemonic of its op. A look-up imports the file of the op's family, and the
    other files only if that one has no such rule."""
    return _Rules()


class _Rules(Mapping[str, Rule]):
    def __init__(self) -> None:
        self._loaded_rules: dict[str, Rule] = {}
        self._unread = list(FAMILIES)
        self._lock = RLock()
        hold_at_fork(self._lock, LockLevel.LOAD)

    def __getitem__(self, mnemonic: str) -> Rule:
        rule = self._loaded_rules.get(mnemonic)
        if rule is None:
            self._read(_family(mnemonic))
            for family in FAMILIES:
                if mnemonic not in self._loaded_rules:
                    self._read(family)
            rule = self._loaded_rules[mnemonic]
        return rule

    def _read(self, family: str) -> None:
        with self._lock:
            if family in self._unread:
                self._loaded_rules.update(
                    import_module(f"tileir.backend.codegen.rules.{family}").RULES
                )
                self._unread.remove(family)

    def __iter__(self) -> Iterator[str]:
        for family in FAMILIES:
            self._read(family)
        return iter(self._loaded_rules)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _family(mnemonic: str) -> str:
    """The family of a loaded op."""
    return OPS[mnemonic].__module__.rpartition(".")[2] if mnemonic in OPS else ""
