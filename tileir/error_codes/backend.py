"""TIR07xx: backend."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0701": (
        "text of a layout",
        "A layout is written `layout(rank = 1, register = [[1]], lane = [[2], [4]])`; "
        "`tileir/layout_text.py` has the grammar.",
    ),
    "TIR0702": (
        "unknown target",
        "The backend has no target of that name. `tileir.backend.TARGETS` lists those there are.",
    ),
    "TIR0703": (
        "LLVM refuses the code",
        "LLVM did not accept what the lowering rules wrote: a defect of the backend.",
    ),
    "TIR0704": (
        "missing package",
        "Compiling needs llvmlite, assembling nvidia-nvjitlink: install the extra `cu13` or "
        "`cu12`.",
    ),
    "TIR0705": (
        "the assembler refuses the code",
        "nvJitLink did not accept the PTX: a defect of the backend, or a target it does not know.",
    ),
    "TIR0706": (
        "no lowering",
        "The op, or this combination of its types and attributes, has no lowering for the target.",
    ),
    "TIR0707": (
        "which kernel",
        "The module has no kernel of that name, or several and none was named.",
    ),
    "TIR0708": (
        "exceeds the target's limits",
        "The kernel needs more warps, shared memory or memory of its threads than the target has: "
        "use smaller tiles.",
    ),
    "TIR0709": (
        "pass out of order",
        "The pass works on what another one makes: `allocate-shared` on tiles that have layouts "
        "(`assign-layouts`), `insert-barriers` on ops that have shared-memory offsets "
        "(`allocate-shared`).",
    ),
    "TIR0710": (
        "arguments of a launch",
        "A launch takes one argument per parameter: a GPU array for a pointer, a number that fits "
        "for a scalar; and a grid of 1 to 3 extents, none of them negative: with a 0 among them "
        "nothing runs.",
    ),
    "TIR0711": (
        "CUDA driver",
        "There is no CUDA driver or device, or the driver refused the call.",
    ),
    "TIR0712": (
        "foreign code not permitted",
        "Inline assembly and functions of other libraries run only where they are permitted: "
        "`compile(..., permit=('inline_asm', 'extern'))`, on a GPU; the text of a program alone "
        "is no reason to trust it.",
    ),
    "TIR0713": (
        "kernel assertion failed",
        "An assertion of the kernel did not hold: the message says where, and what it asked for.",
    ),
    "TIR0714": (
        "a defect of the compiler",
        "Compiling came to an end that it must not come to. `tileir reduce` makes the module that "
        "does it small; please report it.",
    ),
    "TIR0715": (
        "no compiled kernel",
        "The bytes are no compiled kernel, are cut short or were changed, or another version of "
        "the format made them.",
    ),
    "TIR0716": (
        "options of the compiler",
        "There is no option of that name, or none of that value: `tileir.backend.Options` has them "
        "all.",
    ),
    "TIR0717": (
        "the cache",
        "The folder that compiled kernels are kept in cannot be written to: `TILEIR_CACHE` names "
        "another one, `TILEIR_CACHE=off` keeps none.",
    ),
    "TIR0718": (
        "description of a target",
        "A `Target` says what LLVM and the assembler make no code for: a processor that they do "
        "not know, a PTX version older than the processor or an instruction needs. The message "
        "says which version is needed.",
    ),
    "TIR0719": (
        "inline assembly",
        "The constraints of inline assembly do not fit its operands, or its text names operands "
        "that it has not: one constraint per result (`=r`), then one per operand (`r`), by "
        "type: `h` 16 bits, `r` 32, `l` 64, `f` f32, `d` f64, `b` a predicate (LLVM Language "
        'Reference Manual, "Inline Assembler Expressions"). The assembler may refuse its text, '
        "too.",
    ),
    "TIR0720": (
        "a process that compiles ended",
        "LLVM or the assembler ended the process of its own that compiled the kernel, which is a "
        "defect of the compiler; the message says at which stage, and what was written to "
        "standard error. `tileir reduce` makes the module that does it small; please report it.",
    ),
    "TIR0721": (
        "race between threads or instances",
        "Two threads or two program instances access one byte, one of them writes, and nothing "
        "orders the two. Let the first one release (`sem = release`, or a fence before a relaxed "
        "access) and the other acquire what it wrote, at a scope that holds both; of one store, "
        "let no two lanes write different values to one address. What the interpreter takes for "
        "no race is a defect of the lowering.",
    ),
    "TIR0725": (
        "time limit of a launch",
        "The kernel was still running when the time that its launch may take was over: a loop of "
        "it may never end. `time_limit = SECONDS`, of executors on this machine, and "
        "`--time-limit` of `tileir run` set another; without it there is none.",
    ),
    "TIR0751": (
        "tile strip-mined",
        "The tile is larger than the registers of a block. The op became a loop over chunks of the "
        "tile, and the ops it depends on are computed chunk by chunk.",
    ),
    "TIR0752": (
        "large tile stays whole",
        "The tile is larger than the registers of a block, but its op, or an op it depends on, "
        "cannot be strip-mined; or a store in between may change memory that a loop would read "
        "again. `noalias` on parameters states that it does not.",
    ),
    "TIR0753": (
        "access element by element",
        "Neighbours cannot be loaded or stored at once, since the mask may part them: compare "
        "offsets that rise by one with a bound, or say what the bound is a multiple of.",
    ),
    "TIR0754": (
        "idle threads",
        "The block has more threads than its largest tile has elements, so that some hold what "
        "others hold: use fewer warps, or larger tiles.",
    ),
    "TIR0755": (
        "width of an access",
        "How many neighbours a thread loads or stores at once, and what keeps it from 16 bytes: "
        "`aligned(16)` on a pointer and `multiple_of(16)` on a bound often help.",
    ),
    "TIR0756": (
        "pipelined load",
        "The load became an asynchronous copy into shared memory, some iterations ahead of the "
        "dot that needs it.",
    ),
    "TIR0757": (
        "warps of a block",
        "The number of warps is that of the options, else the kernel's attribute `num_warps`, "
        "else chosen from the largest tile.",
    ),
    "TIR0758": (
        "windows staged once",
        "The loads read windows of one buffer that overlap: all they cover is copied into shared "
        "memory once, with its halo, and the windows are read from there.",
    ),
    "TIR0759": (
        "registers are spilled",
        "A thread needs more registers than it may have, so that some of its values pass through "
        "memory, which is slow: use smaller tiles, more warps, or a higher limit of registers.",
    ),
    "TIR0760": (
        "request not followed",
        "An option of the compiler, or an attribute of the kernel or of a loop, asks for something "
        "else than what was made; the message says what is used, and why.",
    ),
}
