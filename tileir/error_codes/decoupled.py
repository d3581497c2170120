"""TIR12xx: kernel definitions in Decoupled Triton, and their schedules."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1201": (
        "not a kernel definition",
        "The text is not Decoupled Triton. A definition consists of declarations (`Func f; In "
        "A; SIn s; Var x; RVar k;`), algorithms (`f[x] = rsum(A[x, k], k);`) and scheduling "
        "primitives (`f.block(x:64);`).",
    ),
    "TIR1202": (
        "unknown name",
        "The name is not declared, is declared twice, or is used as another kind of name than "
        "its declaration says (Func, In, SIn, Var or RVar). Each Func has one algorithm, "
        "which does not depend on itself.",
    ),
    "TIR1203": (
        "shapes do not fit",
        "The shapes do not broadcast: counted from the last dimension, two labels must be "
        "equal, or one of the dimensions has the extent 1. A reduction takes an RVar that is "
        "a dimension of its operand.",
    ),
    "TIR1204": (
        "not a legal schedule",
        "A scheduling primitive names a dimension that its Func does not have, or a tensor "
        "size exceeds the block size, or a Func is fused where it cannot be. A Func can be "
        "fused into a Func that reads it, if the outer dimensions of both are equal.",
    ),
    "TIR1205": (
        "call rejected",
        "The arguments do not fit the function: one is missing, an array has another rank, "
        "dimensions with one label have different sizes, or kernels have no type for a "
        "number.",
    ),
    "TIR1206": (
        "not the short form of a schedule",
        "The text is not a schedule in short form. Its items are separated by semicolons or "
        "line breaks. `f = x:64/16 y:/0 map(y, x) w8 s3` schedules f, where `x:64/16` means "
        "blocks of 64 and tensors of 16. `g @ f.x` fuses g into f at x. In templates, "
        "`{16|32}` lists choices.",
    ),
}
