"""TIR13xx: functions in PlaidML's Tile."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1301": (
        "not Tile",
        "A function is `function (A[M, N], B) -> (C) { ... }`; its statements are contractions "
        "`C[i, j: M, N] = +(A[i, k] * B[k, j]), k < 3;` and definitions `C = exp(A) + B;`.",
    ),
    "TIR1302": (
        "unknown or repeated name",
        "Tensors are parameters and what statements define, once each, before they are used. Names "
        "in brackets are sizes where parameters declare them, else indices of their statement.",
    ),
    "TIR1303": (
        "shapes or types do not fit",
        "A tensor is read at as many positions as it has dimensions; shapes of definitions are "
        "broadcast as numpy's; a function takes certain arguments.",
    ),
    "TIR1304": (
        "not affine",
        "Positions and left sides of conditions are affine in indices and sizes; sizes and right "
        "sides consist only of sizes and integers.",
    ),
}
