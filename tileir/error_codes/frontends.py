"""TIR10xx: kernels written in one of the languages of `tileir.frontends`."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1001": (
        "not in the language",
        "Kernels are a part of Python: assignments, `if`, `for` over ranges, `while`, calls. "
        "Classes, exceptions, generators, changes of a tensor in place are not of it.",
    ),
    "TIR1002": (
        "unknown name",
        "The name is not defined here, or not on every path that leads here: set it before the "
        "branch or loop, with the type it has inside.",
    ),
    "TIR1003": (
        "wrong types",
        "The operands of an operation have no common type or shape, a function does not take "
        "these arguments, or a name changes its type in a loop.",
    ),
    "TIR1004": (
        "not known while compiling",
        "Shapes, axes and options must be constexprs: literals, parameters annotated "
        "`tl.constexpr`, and what is computed of them.",
    ),
    "TIR1005": (
        "launch refused",
        "The arguments or the grid do not fit the kernel: a missing or unknown parameter, an "
        "array of a type that kernels do not have, a grid that is not one to three numbers.",
    ),
    "TIR1006": (
        "not in TTIR",
        "`tileir export-ttir` writes what the chosen release of Triton has ops and types for: "
        "extents are powers of two, tiles have no layouts, ops have no predicates.",
    ),
}
