"""TIR10xx: kernels written in one of the languages of `tileir.frontends`."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1001": (
        "not in the language",
        "Kernels use a subset of Python: assignments, `if`, `for` over ranges, `while`, "
        "and calls. It has no classes, exceptions and generators, and tensors are not "
        "changed in place.",
    ),
    "TIR1002": (
        "unknown name",
        "The name is not defined here, or not on every path to this line. Assign it "
        "before the branch or loop, with the type that it has inside.",
    ),
    "TIR1003": (
        "wrong types",
        "The operands of an operation have no common type or shape, a function does not take "
        "these arguments, or a name changes its type in a loop.",
    ),
    "TIR1004": (
        "not known at compile time",
        "Shapes, axes and options must be constexprs: literals, parameters annotated "
        "`tl.constexpr`, and expressions of these.",
    ),
    "TIR1005": (
        "launch refused",
        "The arguments or the grid do not fit the kernel: a missing or unknown parameter, an "
        "array of a type that kernels do not have, a grid that is not one to three numbers.",
    ),
    "TIR1006": (
        "not in TTIR",
        "`tileir export-ttir` writes only ops and types of the chosen release of Triton. "
        "Extents must be powers of two; tiles have no layouts, and ops have no "
        "predicates.",
    ),
}
