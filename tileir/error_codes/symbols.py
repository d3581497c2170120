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
        "Only functions can be called, and only the addresses of globals can be taken.",
    ),
    "TIR0303": (
        "number of call arguments",
        "A call passes one argument per parameter of the function.",
    ),
    "TIR0304": (
        "types of a symbol",
        "The types of a call must be those of the callee. The address of a global is a "
        "pointer to its element type in its address space: `f32 addrspace(4)*` for a "
        "`constant f32`.",
    ),
    "TIR0305": (
        "combiner signature",
        "A combiner of n operands is a device function of 2n scalars, the left operands' "
        "elements before the right ones', that returns n scalars of the same types.",
    ),
    "TIR0306": (
        "recursion",
        "Device functions are inlined, so no function may call itself, directly or "
        "through others. Use a loop.",
    ),
    "TIR0307": (
        "global",
        "A global holds at least one scalar or pointer; its initial values are of that type, "
        "one for each element or one for all. An external one has none. It is in global memory, "
        "or, if it is constant, in the constant address space.",
    ),
    "TIR0308": (
        "symbol name",
        "Functions and globals share one name space, and every symbol is filed under its own name, "
        "which is text: without halves of surrogate pairs. Names that begin with `std.` are of the "
        "standard library.",
    ),
    "TIR0309": (
        "kernel called",
        "Only the host launches kernels. Move the common code into a device function.",
    ),
    "TIR0310": (
        "attribute",
        "Attributes of functions and metadata of modules have names such as `expect.x`, and hold "
        "a number, a string, true or false, or a list of whole numbers or of strings; whole "
        "numbers have 40 digits at most.",
    ),
    "TIR0330": (
        "declared type",
        "Modules that name one function must agree on its type: the declaration's parameters and "
        "results are those of the definition.",
    ),
    "TIR0331": (
        "defined twice",
        "Two modules define one name. Make one of them a declaration, private, weak, or both "
        "linkonce if they are the same.",
    ),
    "TIR0332": (
        "linkonce definitions differ",
        "Definitions that are linkonce are merged, so they must be equal op for op.",
    ),
    "TIR0333": (
        "type of a global",
        "Modules that name one global must agree on element, count, constancy and address space.",
    ),
    "TIR0334": (
        "initial value of a global",
        "Two modules give one global different initial values; one of them may be weak or "
        "external.",
    ),
    "TIR0335": (
        "kind of a symbol",
        "A name stands for a function in one module and for a global in another. All "
        "linked modules share one name space.",
    ),
    "TIR0336": (
        "stages differ",
        "Linked modules must be at the same stage of the backend, or all before the first stage.",
    ),
    "TIR0337": (
        "metadata differs",
        "Two modules have different values for one metadata key. Remove one of the entries.",
    ),
    "TIR0338": (
        "no such library function",
        "The standard library has no function of this name and type; the message lists "
        "the functions.",
    ),
    "TIR0339": (
        "reserved metadata",
        "The compiler writes metadata whose names begin with `host.`, for the launcher. "
        "Only modules with a stage may contain them. Rename the entry.",
    ),
}
