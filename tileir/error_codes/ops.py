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
        "A predicate is a scalar i1, or an i1 tile. The tile has the shape of the result. For "
        "an op that accesses memory or reduces, it has the shape of the first operand.",
    ),
    "TIR0105": (
        "not an operand",
        "An operand must be a value, a literal with a type, or undef.",
    ),
    "TIR0106": (
        "attribute value",
        "The value of an attribute is of another kind than its declaration, for example a "
        "number where the op declares a word, or it is outside its range. "
        "`docs/reference/ops.md` lists the attributes of each op.",
    ),
    "TIR0107": (
        "rounding or ftz not available",
        "Rounding modes other than `rn` exist for f32 and f64 only, and `ftz` for f32 "
        "only, as in PTX.",
    ),
    "TIR0108": (
        "relation not available",
        "Pointers have no signed order. Compare them by eq, ne, ult, ule, ugt or uge.",
    ),
    "TIR0109": (
        "conversion between these types",
        "The cast does not convert between these types. The result must be narrower for trunc "
        "and fptrunc, wider for zext, sext and fpext, as wide for bitcast, and of another "
        "format for fpcast. One of the two address spaces of addrspacecast is the generic "
        "one.",
    ),
    "TIR0110": (
        "cache policy",
        "PTX has no such access: an access has a cache modifier, or an eviction priority, or "
        "is volatile. Remove all but one.",
    ),
    "TIR0111": (
        "operand without its partner",
        "An optional operand is used without the operand that it belongs to: `other` needs `mask`.",
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
        "An axis is from 0 to rank - 1. An order contains every dimension once. Strides are "
        "positive, one for each dimension.",
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
