"""What a generated product is like, from lists of small numbers.

A statement is a trait and three digits; what no statement names has digits 0, so that taking
statements out, and making digits smaller, gives simpler kernels.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import attrs

Statement = tuple[int, int, int, int]
Digits = tuple[int, int, int]

NAMES = (
    "shape", "tile", "element", "majors", "leads", "masks", "wrap", "loop", "moves", "family",
    "grid", "choice", "prologue", "epilogue", "output", "steer", "made", "shift", "begin",
    "promises",
)  # fmt: skip
"""What a statement can be about; testing/matmul_programs/kernels.py says what the digits choose."""
ALL = "roles-simt"
"""All passes together, on the machine of threads."""
COPIES = "copies-simt"
"""The same without roles and tensor maps: threads copy what warpgroups multiply."""
DIGITS = 48
"""Digits are 0 to 47: every choice of 2, 3, 4, 6, 8, 12 or 16 things is as likely as another."""


@attrs.frozen
class Traits:
    """The digits of every trait."""

    digits: Mapping[str, Digits]

    @staticmethod
    def of(statements: Iterable[Statement]) -> Traits:
        """What `statements` say, later ones before earlier ones."""
        return Traits({NAMES[kind % len(NAMES)]: (a, b, c) for kind, a, b, c in statements})

    def __getitem__(self, name: str) -> Digits:
        return self.digits.get(name, (0, 0, 0))

    def pick(self, name: str, place: int, *choices: object) -> object:
        """One of `choices`, by a digit."""
        return choices[self[name][place] % len(choices)]


_FAVOURED: Mapping[str, tuple[tuple[str, Digits], ...]] = {
    "modulo-to-mask": (("wrap", (2, 2, 0)), ("made", (0, 0, 0)), ("shift", (0, 0, 0))),
    "swap-operands": (("tile", (4, 0, 0)), ("family", (0, 0, 0))),
    "pad-to-swizzle-panels": (
        ("tile", (0, 6, 0)),
        ("majors", (0, 0, 0)),
        ("element", (0, 0, 0)),
        ("made", (0, 0, 0)),
        ("family", (0, 0, 0)),
        ("masks", (0, 0, 0)),
        ("begin", (0, 0, 0)),
        ("choice", (0, 0, 0)),
    ),
    "sink-wgmma-waits": (
        ("family", (2, 1, 1)),
        ("element", (0, 0, 0)),
        ("choice", (0, 0, 0)),
        ("made", (0, 0, 0)),
        ("begin", (0, 0, 0)),
    ),
    "prefetch-register-operands": (
        ("prologue", (5, 0, 0)),
        ("element", (0, 0, 0)),
        ("family", (0, 0, 0)),
        ("made", (5, 0, 0)),
        ("promises", (0, 0, 0)),
        ("choice", (0, 0, 0)),
    ),
    "per-warpgroup-stores": (
        ("tile", (2, 3, 0)),
        ("element", (0, 0, 0)),
        ("family", (0, 0, 0)),
        ("made", (0, 0, 0)),
        ("majors", (0, 0, 0)),
        ("output", (0, 0, 0)),
        ("choice", (0, 0, 0)),
    ),
    "defer-wgmma-waits": (
        ("family", (0, 0, 0)),
        ("element", (0, 0, 0)),
        ("prologue", (0, 0, 0)),
        ("made", (0, 0, 0)),
        ("choice", (0, 0, 0)),
        ("begin", (0, 0, 0)),
    ),
    "pipeline-chained-matmuls": (
        ("family", (3, 1, 1)),
        ("element", (0, 0, 0)),
        ("choice", (0, 0, 0)),
        ("made", (0, 0, 0)),
        ("begin", (0, 0, 0)),
    ),
}
"""What most programs for a pass have, so that it has work in them."""
MULTIPLES = 46
"""The first digit of `promises` with which extents are multiples."""
_ALIGNED = (("leads", (5, 5, 5)), ("promises", (MULTIPLES, 0, 1)), ("made", (0, 0, 0)))
"""Rows that begin at multiples of what a thread copies."""
_ALIKE = {"peel-first-iteration": "defer-wgmma-waits"}
"""Passes that have work where another one has."""


def drawn(seed: int, name: str = "") -> list[Statement]:
    """Random statements for the pass `name`, each trait at most once; the same seed gives the same
    ones."""
    chance = random.Random(seed)
    share = chance.choice((0.25, 0.5, 0.8))
    kinds = [kind for kind in range(len(NAMES)) if chance.random() < share]
    result = {NAMES[kind]: _digits(chance) for kind in kinds}
    if chance.random() < 0.8:
        result.update(_favoured(name, chance))
    return [(NAMES.index(trait), *digits) for trait, digits in result.items()]


def _favoured(name: str, chance: random.Random) -> tuple[tuple[str, Digits], ...]:
    """What a pass has work in; for all passes together, what some pass has."""
    if name in (ALL, COPIES):
        some = _FAVOURED[chance.choice(sorted(_FAVOURED))]
        return (*some, *_ALIGNED) if name == COPIES else some
    return _FAVOURED.get(_ALIKE.get(name, name), ())


def _digits(chance: random.Random) -> Digits:
    return chance.randrange(DIGITS), chance.randrange(DIGITS), chance.randrange(DIGITS)
