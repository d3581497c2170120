"""The features of a generated matmul kernel, decoded from lists of small numbers.

A statement is a feature and three digits. The digits of a feature without a statement are 0.
Removing a statement, or making a digit smaller, therefore yields a simpler kernel.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import attrs

Statement = tuple[int, int, int, int]
Digits = tuple[int, int, int]

NAMES = (
    "shape", "tile", "element", "majors", "leads", "masks", "wrap", "loop", "moves", "family",
    "grid", "choice", "prologue", "epilogue", "output", "steer", "access", "shift", "begin",
    "promises",
)  # fmt: skip
"""The features; testing/matmul_programs/kernels.py defines their digits."""
ALL = "roles-simt"
"""All passes together, on the SIMT simulator."""
COPIES = "copies-simt"
"""The same without warp specialization and tensor maps: threads copy operands with cp.async."""
DIGITS = 48
"""Digits are 0 to 47: every choice of 2, 3, 4, 6, 8, 12 or 16 things is as likely as another."""


@attrs.frozen
class Features:
    """The digits of every feature."""

    digits: Mapping[str, Digits]

    @staticmethod
    def of(statements: Iterable[Statement]) -> Features:
        """The features of `statements`; a later statement overrides an earlier one."""
        return Features({NAMES[kind % len(NAMES)]: (a, b, c) for kind, a, b, c in statements})

    def __getitem__(self, name: str) -> Digits:
        return self.digits.get(name, (0, 0, 0))

    def pick(self, name: str, place: int, *choices: object) -> object:
        """One of `choices`, selected by a digit."""
        return choices[self[name][place] % len(choices)]


_FAVOURED: Mapping[str, tuple[tuple[str, Digits], ...]] = {
    "modulo-to-mask": (("wrap", (2, 2, 0)), ("access", (0, 0, 0)), ("shift", (0, 0, 0))),
    "swap-operands": (("tile", (4, 0, 0)), ("family", (0, 0, 0))),
    "pad-to-swizzle-panels": (
        ("tile", (0, 6, 0)),
        ("majors", (0, 0, 0)),
        ("element", (0, 0, 0)),
        ("access", (0, 0, 0)),
        ("family", (0, 0, 0)),
        ("masks", (0, 0, 0)),
        ("begin", (0, 0, 0)),
        ("choice", (0, 0, 0)),
    ),
    "sink-wgmma-waits": (
        ("family", (2, 1, 1)),
        ("element", (0, 0, 0)),
        ("choice", (0, 0, 0)),
        ("access", (0, 0, 0)),
        ("begin", (0, 0, 0)),
    ),
    "prefetch-register-operands": (
        ("prologue", (5, 0, 0)),
        ("element", (0, 0, 0)),
        ("family", (0, 0, 0)),
        ("access", (5, 0, 0)),
        ("promises", (0, 0, 0)),
        ("choice", (0, 0, 0)),
    ),
    "per-warpgroup-stores": (
        ("tile", (2, 3, 0)),
        ("element", (0, 0, 0)),
        ("family", (0, 0, 0)),
        ("access", (0, 0, 0)),
        ("majors", (0, 0, 0)),
        ("output", (0, 0, 0)),
        ("choice", (0, 0, 0)),
    ),
    "defer-wgmma-waits": (
        ("family", (0, 0, 0)),
        ("element", (0, 0, 0)),
        ("prologue", (0, 0, 0)),
        ("access", (0, 0, 0)),
        ("choice", (0, 0, 0)),
        ("begin", (0, 0, 0)),
    ),
    "pipeline-chained-matmuls": (
        ("family", (3, 1, 1)),
        ("element", (0, 0, 0)),
        ("choice", (0, 0, 0)),
        ("access", (0, 0, 0)),
        ("begin", (0, 0, 0)),
    ),
}
"""Features of most programs for a pass, such that the pass applies."""
MULTIPLES = 46
"""The first digit of `promises` with which extents are multiples."""
_ALIGNED = (("leads", (5, 5, 5)), ("promises", (MULTIPLES, 0, 1)), ("access", (0, 0, 0)))
"""Rows aligned to the copy size of a thread."""
_BETWEEN = (("choice", (0, 3, 0)), ("family", (0, 0, 0)), ("loop", (0, 0, 0)))
"""Blocks between the loads of the operands and the dot."""
_TRANSPOSED = (("moves", (0, 0, 5)), ("family", (0, 0, 0)))
"""Operands that are transposes of what is loaded."""
_ALIKE = {"peel-first-iteration": "defer-wgmma-waits"}
"""Passes that apply to the same programs as another one."""


def draw(seed: int, name: str = "") -> list[Statement]:
    """Random statements for the pass `name`, each feature at most once. The same seed yields the
    same statements."""
    chance = random.Random(seed)
    share = chance.choice((0.25, 0.5, 0.8))
    kinds = [kind for kind in range(len(NAMES)) if chance.random() < share]
    result = {NAMES[kind]: _digits(chance) for kind in kinds}
    if chance.random() < 0.8:
        result.update(_features_for(name, chance))
    return [(NAMES.index(feature), *digits) for feature, digits in result.items()]


def _features_for(name: str, chance: random.Random) -> tuple[tuple[str, Digits], ...]:
    """The features that a pass needs. If `name` is that of no pass, those that a randomly chosen
    pass needs."""
    if name in (ALL, COPIES):
        some = _FAVOURED[chance.choice(sorted(_FAVOURED))]
        if name == ALL:
            return some
        more = chance.choice(((), (), _BETWEEN, _TRANSPOSED))
        return (*some, *_ALIGNED, *more)
    return _FAVOURED.get(_ALIKE.get(name, name), ())


def _digits(chance: random.Random) -> Digits:
    return chance.randrange(DIGITS), chance.randrange(DIGITS), chance.randrange(DIGITS)
