"""Every error code: its title and what `tileir explain` says about it.

Ranges: 00xx text, 01xx ops, 02xx structure, 03xx symbols and linking, 04xx versions,
05xx interpreter, 06xx passes, 07xx backend, 08xx builder, 09xx tools.
"""

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
}
"""Code to (title, explanation)."""
