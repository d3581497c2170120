"""TIR03xx: verifier and linker: symbols."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0301": (
        "unknown symbol",
        "The module has no function or global of this name. Declare it if another module "
        "defines it.",
    ),
    "TIR0302": (
        "kind of symbol",
        "A call names a global, or `global_address` names a function. Only functions can be "
        "called, and only globals have addresses.",
    ),
    "TIR0303": (
        "number of call arguments",
        "A call passes one argument for each parameter of the function.",
    ),
    "TIR0304": (
        "types of a symbol",
        "The types of a call must be those of the callee. The address of a global is a "
        "pointer to its element type in its address space: `f32 addrspace(4)*` for a "
        "`constant f32`.",
    ),
    "TIR0305": (
        "combiner signature",
        "A combiner of n tiles is a device function of 2n scalars that returns n scalars of "
        "the same types. The first n parameters are the elements of the left operands, the "
        "other n those of the right operands.",
    ),
    "TIR0306": (
        "recursion",
        "Device functions are inlined, so no function may call itself, directly or "
        "through others. Use a loop.",
    ),
    "TIR0307": (
        "global",
        "A global has at least one element, which is a scalar or a pointer. Its initial "
        "values have that type: one for all elements, or one for each. An external global has "
        "no initial value. A global is in global memory; a constant one may be in the "
        "constant address space.",
    ),
    "TIR0308": (
        "symbol name",
        "The name of a function or a global cannot be used. Functions and globals share one "
        "name space. A name is text without lone surrogates, and equals its key in "
        "`Module.functions` or `Module.globals`. Names that begin with `std.` belong to the "
        "standard library.",
    ),
    "TIR0309": (
        "kernel called",
        "Only the host launches kernels. Move the common code into a device function.",
    ),
    "TIR0310": (
        "attribute of a function, or metadata",
        "The name has words separated by dots, such as `expect.x`. The value is a number, a "
        "string, true, false, a list of integers, or a list of strings. An integer has at "
        "most 40 digits.",
    ),
    "TIR0330": (
        "declared type",
        "A declaration in one module differs from the definition in another module in the "
        "types of parameters or results. Make the two equal.",
    ),
    "TIR0331": (
        "symbol defined in two modules",
        "Two modules define the same name. Make one of the definitions a declaration, private "
        "or weak. If the two are equal, make both linkonce.",
    ),
    "TIR0332": (
        "linkonce definitions differ",
        "The linker merges definitions that are linkonce, so they must have the same ops. "
        "Rename one of the two.",
    ),
    "TIR0333": (
        "type of a global",
        "Two modules declare one global with different element types, numbers of elements or "
        "address spaces, or only one of them declares it constant.",
    ),
    "TIR0334": (
        "initial value of a global",
        "Two modules define different initial values of one global. Make one of the two weak "
        "or external.",
    ),
    "TIR0335": (
        "kind of a symbol",
        "A name stands for a function in one module and for a global in another. All "
        "linked modules share one name space.",
    ),
    "TIR0336": (
        "stages differ",
        "The modules are at different stages of the backend. Link modules before the first "
        "stage, or at the same stage.",
    ),
    "TIR0337": (
        "metadata differs",
        "Two modules have different values for one metadata key. Remove one of the entries.",
    ),
    "TIR0338": (
        "no such library function",
        "The standard library has no function of this name and type; the message lists "
        "the types of the functions of this name, or all functions. In the types, `$M`, `$N` and "
        "`$K` are extents, `$F` is a float type, `$I` an integer type, `$E` either of them, and "
        "`$S` a shape or nothing; `$X` is `$F$S`, and `$Y` is `$I$S`.",
    ),
    "TIR0339": (
        "reserved metadata",
        "The compiler writes metadata whose names begin with `host.`, for the launcher. "
        "Only modules with a stage may contain them. Rename the entry.",
    ),
}
