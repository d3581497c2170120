"""Variants of an op in the matrix: its predicate, its constant operands, and the promises about its
pointer."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import combinations, product

import attrs

from tileir.ir import ParameterAttributes
from tileir.op import Effects, FieldKind, Op

PREDICATES = ("none", "scalar", "tile", "nested", "false")
"""No predicate; one for all lanes; one for each; one computed under another; one that is false."""
PROMISES = ("none", "noalias", "access", "aligned", "all")
"""The promises about a pointer: its memory is not accessed through another parameter, it is only
read or only written, it is a multiple of 16 bytes, or all of these."""
OPERANDS = (FieldKind.OPERAND, FieldKind.OPTIONAL, FieldKind.VARIADIC, FieldKind.PAIRS)
_VARYING = {"psi": ("arms",), "descriptor_scatter": ("index",), "make_descriptor": ("dimensions",)}
"""Operands that are not constant: some arm has to hold, and rows have to be different ones."""


@attrs.frozen
class Variant:
    """A use of an op. `constants` is the name of an operand, `all` or `none`."""

    predicate: str = "none"
    constants: str = "none"
    promise: str = "none"

    def is_constant(self, op: Op, name: str) -> bool:
        """Whether the operand `name` of `op` is a literal."""
        return self.constants in (name, "all") and name not in _VARYING.get(op.mnemonic, ())

    def attributes(self, op: Op) -> ParameterAttributes:
        """The promises about the pointer through which `op` accesses memory."""
        effects, is_complete = op.effects, self.promise == "all"
        reads, writes = Effects.READ in effects, Effects.WRITE in effects
        access = is_complete or self.promise == "access"
        return ParameterAttributes(
            noalias=is_complete or self.promise == "noalias",
            readonly=access and reads and not writes,
            writeonly=access and writes and not reads,
            aligned=16 if is_complete or self.promise == "aligned" else 0,
        )

    def __str__(self) -> str:
        return f"predicate {self.predicate}, constants {self.constants}, promise {self.promise}"


USUAL = Variant()


def dimensions(op: Op, followed: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The predicates, constants and promises that `op` can have. `followed` are the operands
    through which it accesses memory; these are never constants."""
    accesses = bool(followed) or op.mnemonic.startswith("descriptor_")
    names = [
        f.name
        for f in op.fields()
        if f.kind in OPERANDS
        and f.name not in (*followed, *_VARYING.get(op.mnemonic, ()), "descriptor")
        and getattr(op, f.name) not in (None, ())
    ]
    every = ("all",) if len(names) > 1 else ()
    return (
        PREDICATES if op.predicable else PREDICATES[:1],
        ("none", *names, *every),
        PROMISES if accesses else PROMISES[:1],
    )


def all_variants(op: Op, followed: Sequence[str]) -> list[Variant]:
    """Every variant of `op`."""
    return [Variant(*values) for values in product(*dimensions(op, followed))]


def pairwise(op: Op, followed: Sequence[str]) -> Iterator[Variant]:
    """Variants that contain every pair of values of two dimensions. They are chosen greedily, by
    the number of new pairs, in an order that depends only on the op's name."""
    candidates = sorted(
        all_variants(op, followed), key=lambda v: zlib.crc32(f"{op.mnemonic} {v}".encode())
    )
    missing = {pair for variant in candidates for pair in _pairs(variant)}
    while missing:
        best = max(candidates, key=lambda v: len(missing & _pairs(v)))
        missing -= _pairs(best)
        yield best


def _pairs(variant: Variant) -> set[tuple[tuple[int, str], ...]]:
    values = (variant.predicate, variant.constants, variant.promise)
    return set(combinations(enumerate(values), 2))
