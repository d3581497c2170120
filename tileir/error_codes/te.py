"""TIR15xx: tensor expressions of TVM."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1501": (
        "no tensor expression",
        "Expressions are made of tensors at positions, indices, numbers, operators and functions "
        "of `te`. Python's `if`, `and` and `/` of integers have no meaning in them: use "
        "`te.if_then_else`, `te.all`, `//`.",
    ),
    "TIR1502": (
        "shapes or types do not fit",
        "Shapes are of whole numbers, fewer than 2^31 elements in all; a tensor is read at as many "
        "positions as it has dimensions; `compute` takes a function of as many indices.",
    ),
    "TIR1503": (
        "axis of no reduction",
        "A reduction axis stands inside of `te.sum`, `te.max`, `te.min` or `te.prod` with `axis=` "
        "that axis, and an index inside of its `compute`.",
    ),
    "TIR1504": (
        "schedule",
        "Primitives take axes of their own stage, as they are after what was split and fused. "
        "Tiles are as large as what is inside of the splits; threads are the compiler's.",
    ),
    "TIR1505": (
        "arguments of a build",
        "`te.build` takes the placeholders and variables that its outputs are made of, and the "
        "outputs of the schedule.",
    ),
}
