"""TIR07xx: backend."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0701": (
        "text of a layout",
        "The text is not a layout. A layout is written `layout(rank = 1, register = [[1]], "
        "lane = [[2], [4]])`. `docs/explanation/layouts.md` explains the words.",
    ),
    "TIR0702": (
        "unknown target",
        "The backend has no target of this name. `tileir.backend.TARGETS` lists the targets.",
    ),
    "TIR0703": (
        "LLVM rejects the code",
        "LLVM rejected the generated LLVM IR. This is a defect of the backend; please "
        "report it with the module.",
    ),
    "TIR0704": (
        "missing package",
        "A package of the backend is not installed. Compiling needs llvmlite, and assembling "
        "needs nvidia-nvjitlink. Install the extra `cu13` or `cu12`.",
    ),
    "TIR0705": (
        "the assembler rejects the code",
        "The assembler rejected the PTX. Either it does not support the target (install a"
        " newer one), or the backend has a defect.",
    ),
    "TIR0706": (
        "no lowering",
        "The target has no lowering for this op, or for its types and attributes. "
        "`tileir.backend.supports` says which types of an op a target supports.",
    ),
    "TIR0707": (
        "which kernel",
        "The module has no kernel of this name, or several kernels and none was selected."
        " Select one with `kernel=` or `--kernel`.",
    ),
    "TIR0708": (
        "exceeds the target's limits",
        "The kernel needs more warps, shared memory or local memory than the target has. "
        "Use smaller tiles.",
    ),
    "TIR0709": (
        "pass out of order",
        "The pass needs the output of another pass: `allocate-shared` needs layouts "
        "(`assign-layouts`), `insert-barriers` needs shared-memory offsets "
        "(`allocate-shared`). Run that pass before.",
    ),
    "TIR0710": (
        "arguments of a launch",
        "A launch takes one argument per parameter: a GPU array for a pointer, and a "
        "number in range for a scalar. The grid has 1 to 3 extents, none of them "
        "negative; a grid with an extent of 0 runs nothing.",
    ),
    "TIR0711": (
        "CUDA driver",
        "There is no CUDA driver or device, or a call of the driver failed; the message "
        "has the driver's error.",
    ),
    "TIR0712": (
        "foreign code not permitted",
        "Inline assembly and functions of other libraries run on a GPU, and only with a "
        "permission: `compile(..., permit=('inline_asm', 'extern'))`. The text of a "
        "program cannot give this permission.",
    ),
    "TIR0713": (
        "kernel assertion failed",
        "An assertion of the kernel failed. The message has its location and its text.",
    ),
    "TIR0714": (
        "a defect of the compiler",
        "The compiler raised an internal error. Please report it; `tileir reduce` makes "
        "the module small.",
    ),
    "TIR0715": (
        "no compiled kernel",
        "The bytes are not a compiled kernel, are truncated or changed, or have another "
        "version of the format. Compile the kernel again.",
    ),
    "TIR0716": (
        "options of the compiler",
        "The compiler has no option of this name, or the option cannot have this value. "
        "`tileir.backend.Options` lists the options.",
    ),
    "TIR0717": (
        "the cache",
        "The folder of the cache of compiled kernels cannot be written. Set "
        "`TILEIR_CACHE` to another folder, or to `off` for no cache.",
    ),
    "TIR0718": (
        "description of a target",
        "LLVM or the assembler cannot generate code for this `Target`: they do not know "
        "the processor, or the PTX version is too old for the processor or an "
        "instruction. The message names the version that is needed.",
    ),
    "TIR0719": (
        "inline assembly",
        "The constraints of inline assembly do not fit its operands, the text names an "
        "operand that does not exist, or the assembler rejects the text. Constraints are one "
        "for each result (`=r`), then one for each operand (`r`): `h` for 16 bits, `r` for "
        "32, `l` for 64, `f` for f32, `d` for f64, `b` for a predicate (LLVM Language "
        'Reference Manual, "Inline Assembler Expressions").',
    ),
    "TIR0720": (
        "a compiling process ended",
        "LLVM or the assembler ended the child process that compiled the kernel. This is "
        "a defect of the compiler. The message has the stage and the text on standard "
        "error. Please report it; `tileir reduce` makes the module small.",
    ),
    "TIR0721": (
        "race between threads or instances",
        "Two threads or two program instances access one byte, at least one of them "
        "writes, and nothing orders the two accesses. Let one access release (`sem = "
        "release`, or a fence before a relaxed access) and the other acquire the value, "
        "with a scope that includes both. Two lanes of one store must not write different"
        " values to one address. If the interpreter reports no race, the lowering has a "
        "defect.",
    ),
    "TIR0725": (
        "time limit of a launch",
        "The kernel was still running when its time limit expired; a loop may never end. "
        "`time_limit = SECONDS` of the executors on this machine, and `--time-limit` of "
        "`tileir run`, set the limit; there is none by default.",
    ),
    "TIR0751": (
        "tile strip-mined",
        "The tile exceeds the registers of a block. The op became a loop over chunks of the "
        "tile. The ops that it depends on are computed in the loop, chunk by chunk.",
    ),
    "TIR0752": (
        "large tile is not strip-mined",
        "The tile exceeds the registers of a block. Its op, or an op that it depends on, "
        "cannot be strip-mined, or a store may change memory that the loop would read "
        "again. Use a smaller tile, or declare parameters `noalias` if the store does not"
        " alias.",
    ),
    "TIR0753": (
        "access element by element",
        "A thread cannot access several neighbours at once, because the mask may be true "
        "for only some of them. Compare offsets that increase by one with a bound, and "
        "declare a power of two that divides the bound (`multiple_of`).",
    ),
    "TIR0754": (
        "idle threads",
        "The block has more threads than its largest tile has elements, so several "
        "threads hold the same elements. Use fewer warps, or larger tiles.",
    ),
    "TIR0755": (
        "width of an access",
        "The remark says how many neighbours a thread loads or stores at once, and why "
        "not 16 bytes. `aligned(16)` of a pointer and `multiple_of(16)` of a bound often "
        "help.",
    ),
    "TIR0756": (
        "pipelined load",
        "The load became an asynchronous copy into shared memory, which starts some "
        "iterations before the dot that needs it. The remark states the number of iterations.",
    ),
    "TIR0757": (
        "warps of a block",
        "The remark states the number of warps and where it comes from: the options, the "
        "attribute `num_warps` of the kernel, or the size of the largest tile.",
    ),
    "TIR0758": (
        "windows staged once",
        "The loads read overlapping windows of one buffer. The union of the windows is "
        "copied into shared memory once, with its halo, and the windows are read from "
        "there.",
    ),
    "TIR0759": (
        "registers are spilled",
        "A thread needs more registers than it may use, so some values are kept in local "
        "memory, which is slow. Use smaller tiles, more warps, or a higher limit of "
        "registers.",
    ),
    "TIR0760": (
        "option has no effect",
        "An option of the compiler, or an attribute of the kernel or of a loop, was not "
        "followed. The message says which value is used instead, and why.",
    ),
}
