"""TIR14xx: Tensor Comprehensions."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1401": (
        "not a comprehension",
        "The text is not a Tensor Comprehension. A function is `def f(float(M, K) A) -> (B) { "
        "... }`. A statement is `B(i) +=! A(i, k) where k in 0:3`, with one of `= += *= min= "
        "max=`; `!` initializes the output.",
    ),
    "TIR1402": (
        "unknown or repeated name",
        "A tensor is a parameter, or is defined by a statement. A size is declared in a type. "
        "Any other name in a statement is an index. A function is defined before it is "
        "called.",
    ),
    "TIR1403": (
        "shapes or types do not fit",
        "A tensor has another number of dimensions than the read has indices, one size has "
        "two values, an array has another type than its parameter, or a function does not "
        "accept these arguments.",
    ),
    "TIR1404": (
        "range of an index",
        "The range of an index cannot be inferred, or begins below 0 for an index on the "
        "left. A range is inferred from a position with one index whose range is unknown: the "
        "largest range for which the read is inside its tensor. State other ranges by `where "
        "i in 0:N`.",
    ),
    "TIR1405": (
        "reduction",
        "An index occurs only on the right of `=`, so several points write one element. Use "
        "one of `+= *= min= max=`.",
    ),
    "TIR1406": (
        "read outside of a tensor",
        "For these ranges, a read exceeds its tensor, and no condition `c ? x : y` excludes "
        "these points. State a smaller range by `where`.",
    ),
}
