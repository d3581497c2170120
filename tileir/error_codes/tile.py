"""TIR13xx: functions in PlaidML's Tile."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1301": (
        "not Tile",
        "The text is not a function in Tile. A function is `function (A[M, N], B) -> (C) { "
        "... }`. Its statements are contractions `C[i, j: M, N] = +(A[i, k] * B[k, j]), k < "
        "3;` and definitions `C = exp(A) + B;`.",
    ),
    "TIR1302": (
        "unknown or repeated name",
        "A tensor is a parameter, or is defined by one statement before its first use. A name "
        "in brackets is a size if a parameter declares it, and otherwise an index of its "
        "statement.",
    ),
    "TIR1303": (
        "shapes or types do not fit",
        "A read has one position for each dimension of its tensor. Operands of definitions "
        "broadcast as in numpy. A function has a fixed number of arguments, of certain types.",
    ),
    "TIR1304": (
        "not affine",
        "Positions, and the left sides of conditions, must be affine expressions of indices "
        "and sizes. Sizes, and the right sides of conditions, contain only sizes and "
        "integers.",
    ),
}
