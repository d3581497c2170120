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
        "The operands of an operation have no common type or shape, a function does not "
        "accept these arguments, or a name has another type after an iteration of a loop. "
        "Convert by `x.to(type)`.",
    ),
    "TIR1004": (
        "not known at compile time",
        "Shapes, axes and options must be known when the kernel is compiled. Use literals, "
        "parameters annotated `tl.constexpr`, or expressions of these.",
    ),
    "TIR1005": (
        "launch rejected",
        "The arguments or the grid do not fit the kernel: a parameter is missing or unknown, "
        "an array has a type that kernels do not support, or the grid is not one to three "
        "numbers.",
    ),
    "TIR1006": (
        "not in TTIR",
        "`tileir export-ttir` writes only ops and types of the chosen release of Triton. "
        "Extents must be powers of two; tiles have no layouts, and ops have no "
        "predicates.",
    ),
}
