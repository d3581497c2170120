"""TIR12xx: kernel definitions in Decoupled Triton, and their schedules."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1201": (
        "not a kernel definition",
        "A definition is made of declarations (`Func f; In A; SIn s; Var x; RVar k;`), algorithms "
        "(`f[x] = rsum(A[x, k], k);`) and scheduling primitives (`f.block(x:64);`).",
    ),
    "TIR1202": (
        "unknown name",
        "A name is declared once, as a Func, In, SIn, Var or RVar, and used as such. A Func has "
        "one algorithm, which does not depend on itself.",
    ),
    "TIR1203": (
        "shapes do not fit",
        "Two shapes broadcast where, counted from the last dimension, labels are equal or one of "
        "them is 1. Reductions take an RVar that is a dimension of what they reduce.",
    ),
    "TIR1204": (
        "not a legal schedule",
        "A scheduling primitive names dimensions of its Func, a tensor size is at most its block "
        "size, a Func is fused where the outer dimensions of both are equal into one that needs "
        "it.",
    ),
    "TIR1205": (
        "call refused",
        "The arguments do not fit the function: a missing one, an array of another rank, "
        "dimensions of one label with different sizes, numbers that kernels have no type for.",
    ),
    "TIR1206": (
        "not a schedule's shorthand",
        "Items are `f = x:64/16 y:/0 map(y, x) w8 s3`, which is `x` in blocks of 64 and tensors "
        "of 16, and `g @ f.x`, which is g fused into f at x; in templates `{16|32}` are choices.",
    ),
}
