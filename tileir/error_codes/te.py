"""TIR15xx: tensor expressions of TVM."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1501": (
        "not a tensor expression",
        "An expression consists of reads of tensors, indices, numbers, operators and "
        "functions of `te`. Python's `if` and `and`, and `/` of integers, are not part of it. "
        "Use `te.if_then_else`, `te.all` and `//`.",
    ),
    "TIR1502": (
        "shapes or types do not fit",
        "A shape consists of integers, with fewer than 2^31 elements in all. A read has one "
        "position for each dimension of its tensor. The function given to `compute` has one "
        "parameter for each dimension.",
    ),
    "TIR1503": (
        "axis outside its reduction",
        "A reduction axis is used outside of a `te.sum`, `te.max`, `te.min` or `te.prod` "
        "whose `axis` it is, or an index is used outside of its `compute`.",
    ),
    "TIR1504": (
        "schedule",
        "A scheduling primitive takes the current axes of its own stage: an axis that was "
        "split or fused is replaced by its results. The inner axes of splits determine the "
        "tile; the compiler assigns threads.",
    ),
    "TIR1505": (
        "arguments of a build",
        "`te.build` takes all placeholders and variables that the outputs depend on, and the "
        "outputs of the schedule.",
    ),
}
