"""TIR14xx: Tensor Comprehensions."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1401": (
        "no comprehension",
        "A function is `def f(float(M, K) A) -> (B) { ... }`; its statements are `B(i) +=! A(i, k) "
        "where k in 0:3`, with one of `= += *= min= max=`, and `!` to initialize the output first.",
    ),
    "TIR1402": (
        "unknown or repeated name",
        "Tensors are parameters and what statements define, sizes stand in types; every other name "
        "of a statement is one of its indices. Functions are defined before they are called.",
    ),
    "TIR1403": (
        "shapes or types do not fit",
        "A tensor has as many indices as dimensions, a size one value, an array the type of its "
        "parameter; functions take certain arguments.",
    ),
    "TIR1404": (
        "range of an index",
        "Ranges are inferred as large as no read leaves its tensor, from positions in which one "
        "index is not known yet. Where none is, or several are, `where i in 0:N` says the range. "
        "An index on the left begins at 0 or later.",
    ),
    "TIR1405": (
        "reduction",
        "An index on the right alone needs one of `+= *= min= max=`; `=` takes every element from "
        "one point.",
    ),
    "TIR1406": (
        "read outside of a tensor",
        "With these ranges a read leaves its tensor, and no condition `c ? x : y` keeps it there. "
        "Say a smaller range by `where`.",
    ),
}
