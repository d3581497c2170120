"""TIR01xx: signature and rules of ops."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0101": (
        "operand type",
        "An operand does not have the type the op's signature asks for. Operands of one type "
        "variable must all have the same type: the IR never converts or broadcasts implicitly; "
        "use `splat`, `broadcast` or a cast.",
    ),
    "TIR0102": (
        "result type",
        "The result type written is not the one the op computes from its operands.",
    ),
    "TIR0103": (
        "predicate not allowed",
        "Terminators and barriers concern the whole program instance and take no `@%p`.",
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
        "Rounding modes other than `rn` exist for f32 and f64, `ftz` for f32 only: what the "
        "hardware's instructions have.",
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
        "The shapes of the operands and of the result do not fit together as the op asks.",
    ),
    "TIR0113": (
        "range of a type",
        "A number stated by an attribute does not fit in the element type it is for.",
    ),
    "TIR0114": (
        "dimension, order or strides",
        "Axes count from 0 to rank - 1, an order names every dimension once, strides are "
        "positive and one per dimension.",
    ),
    "TIR0115": (
        "kind not available for this type",
        "The operation an attribute names (a combiner, an atomic, a dot's precision or a "
        "format) is not defined on these element types.",
    ),
    "TIR0116": (
        "memory order",
        "A load cannot release, a store cannot acquire, and a fence that is relaxed orders "
        "nothing.",
    ),
    "TIR0117": (
        "number of values",
        "The op takes another number of operands, attribute entries or results.",
    ),
}
