"""TIR01xx: signature and rules of ops."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0101": (
        "operand type",
        "An operand has another type than the signature of the op requires. Operands of "
        "one type variable must have the same type. The IR never converts or broadcasts "
        "implicitly: use `splat`, `broadcast` or a cast.",
    ),
    "TIR0102": (
        "result type",
        "The op computes another result type from its operands than the text states. "
        "Write the type of the message.",
    ),
    "TIR0103": (
        "predicate not allowed",
        "Terminators and barriers concern the whole program instance, so they take no "
        "predicate `@%p`. Use a branch.",
    ),
    "TIR0104": (
        "predicate type",
        "A predicate is a scalar i1, or an i1 tile of the result's shape (of the first operand's "
        "shape for ops that touch memory or reduce).",
    ),
    "TIR0105": (
        "not an operand",
        "An operand must be a value, a literal with a type, or undef.",
    ),
    "TIR0106": (
        "attribute value",
        "An attribute has a value of another kind than its declaration, e.g. a number where a "
        "word is expected.",
    ),
    "TIR0107": (
        "rounding or ftz not available",
        "Rounding modes other than `rn` exist for f32 and f64 only, and `ftz` for f32 "
        "only, as in PTX.",
    ),
    "TIR0108": (
        "relation not available",
        "Signed relations order integers; pointers compare by eq, ne, ult, ule, ugt, uge.",
    ),
    "TIR0109": (
        "conversion between these types",
        "A cast's result must be narrower (trunc, fptrunc), wider (zext, sext, fpext), as wide "
        "(bitcast) or of another format (fpcast); pointers change address space by "
        "addrspacecast, to or from the generic one.",
    ),
    "TIR0110": (
        "cache policy",
        "PTX has no instruction with both a cache modifier and an eviction priority, nor a "
        "volatile one with either.",
    ),
    "TIR0111": (
        "operand without its partner",
        "An optional operand needs another one: `other` needs `mask`.",
    ),
    "TIR0112": (
        "shape",
        "The shapes of the operands and of the result do not fit together. The message "
        "names the shapes that the op requires.",
    ),
    "TIR0113": (
        "range of a type",
        "A number in an attribute does not fit in its element type.",
    ),
    "TIR0114": (
        "dimension, order or strides",
        "Axes count from 0 to rank - 1, an order names every dimension once, strides are "
        "positive and one per dimension.",
    ),
    "TIR0115": (
        "kind not available for this type",
        "An attribute names an operation (a combiner, an atomic, the precision or format "
        "of a dot) that does not exist for these element types.",
    ),
    "TIR0116": (
        "memory order",
        "A load cannot release, a store cannot acquire, and a relaxed fence has no "
        "effect. Choose another `sem`.",
    ),
    "TIR0117": (
        "number of values",
        "The op takes another number of operands, attribute entries or results.",
    ),
}
