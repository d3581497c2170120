"""Every error code: its title and what `tileir explain` says about it.

Ranges: 00xx text, 01xx ops, 02xx structure, 03xx symbols and linking, 04xx versions,
05xx interpreter, 06xx passes, 07xx backend, 08xx builder, 09xx tools.
"""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0001": (
        "unexpected text",
        "Something else should stand at this place. `docs/grammar.md` has the whole grammar; an op "
        "ends with its line.",
    ),
    "TIR0002": (
        "no version",
        "A module begins with the version it is written in: a line `tir 1.0`, before which only "
        "comments may stand.",
    ),
    "TIR0003": ("unknown op", "No op has this name; `docs/ops.md` lists all."),
    "TIR0004": (
        "unknown or impossible type",
        "Types are scalars (`i32`, `f16`), pointers (`f32*`), tiles of either (`f32<64, 128>`), "
        "descriptors (`tensor_desc<f16<64, 32>>`) and shared buffers; extents are positive.",
    ),
    "TIR0005": ("undefined value", "No line of the function defines a value of this name."),
    "TIR0006": ("value defined twice", "A name stands for one value in a function."),
    "TIR0007": (
        "no such literal",
        "The literal does not fit its type: an integer out of range, a fraction for an integer, "
        "`true` for anything but i1, `null` for anything but a pointer, a bad escape in a string.",
    ),
    "TIR0008": (
        "literal without a type",
        "A literal takes its type from the other operands or the result. Where none says it, write "
        "it before the literal: `i32<8> 5`.",
    ),
    "TIR0009": ("unknown attribute", "The op has no attribute of this name."),
    "TIR0010": ("attribute missing", "The op needs an attribute that has no default."),
    "TIR0011": ("given twice", "An attribute, word or alias is given more than once."),
    "TIR0012": ("number of operands", "The op takes more or fewer operands."),
    "TIR0013": (
        "number of results",
        "Every result is named left of `=` (`_` where it is not used), and has its type written.",
    ),
    "TIR0014": ("block defined twice", "A label stands for one block in a function."),
    "TIR0015": (
        "phi does not fit",
        "A phi has one value of its type for each predecessor of its block, and for nothing else.",
    ),
    "TIR0016": ("unfinished text", "A function or string is not closed."),
    "TIR0017": (
        "text too large",
        "A line of over 1 MiB, or more than 256 levels of nesting, is refused.",
    ),
    "TIR0018": ("phi not at the head", "Phis stand before the other ops of their block."),
    "TIR0019": ("symbol defined twice", "Functions and globals of a module have distinct names."),
    "TIR0020": (
        "op outside a block",
        "The body of a function is a list of blocks, each of which begins with a label: `entry:`.",
    ),
    "TIR0021": ("not text", "The input holds characters that no text holds."),
    "TIR0022": ("unknown layout", "No line at the head of the module defines this alias."),
    "TIR0023": ("unknown word", "The word is none of those that may stand here."),
    "TIR0024": (
        "unreachable block",
        "No path from the entry leads to the block; the reader leaves it out.",
    ),
    "TIR0101": (
        "operand type",
        "An operand does not have the type the op's signature asks for. Operands of one type "
        "variable must all have the same type: the IR never converts or broadcasts implicitly; "
        "use `splat`, `broadcast` or a cast.",
    ),
    "TIR0102": (
        "result type",
        "The result type written is not the one the op computes from its operands.",
    ),
    "TIR0103": (
        "predicate not allowed",
        "Terminators and barriers concern the whole program instance and take no `@%p`.",
    ),
    "TIR0104": (
        "predicate type",
        "A predicate is a scalar i1, or an i1 tile of the result's shape (of the first operand's "
        "shape for ops that touch memory or reduce).",
    ),
    "TIR0105": (
        "not an operand",
        "An operand must be a value, a literal with a type, or undef.",
    ),
    "TIR0106": (
        "attribute value",
        "An attribute has a value of another kind than its declaration, e.g. a number where a "
        "word is expected.",
    ),
    "TIR0201": (
        "missing terminator",
        "Every block ends in exactly one terminator: `br`, `cond_br`, `ret` or `unreachable`.",
    ),
    "TIR0202": (
        "terminator inside a block",
        "A terminator leaves its block, so nothing can follow it there. Start a new block.",
    ),
    "TIR0203": (
        "label mismatch",
        "A block is filed under another label than its own. Only a program that builds "
        "modules by hand can cause this.",
    ),
    "TIR0204": (
        "unknown block",
        "A branch names a label that no block of the function has.",
    ),
    "TIR0205": (
        "entry block with parameters",
        "No edge leads to the entry block, so nothing could pass it arguments. What a "
        "function is given are its own parameters.",
    ),
    "TIR0206": (
        "branch to the entry block",
        "The entry block has no predecessors. A loop starts in a block of its own, to which "
        "the entry branches.",
    ),
    "TIR0207": (
        "number of branch arguments",
        "A branch passes one argument per parameter of the block it goes to; in text: every "
        "`phi` has one entry per predecessor.",
    ),
    "TIR0208": (
        "type of a branch argument",
        "An argument of an edge has the type of the block parameter (the `phi`) that receives it.",
    ),
    "TIR0209": (
        "two edges with different arguments",
        "Both edges of a branch lead to one block and would pass it different values. Use "
        "`select`, or put a block on one of the edges.",
    ),
    "TIR0210": (
        "unreachable block",
        "No path from the entry leads to the block. Readers drop such blocks with a remark; a "
        "module never holds one.",
    ),
    "TIR0211": (
        "undefined value",
        "The function does not define the value that is read.",
    ),
    "TIR0212": (
        "definition does not dominate its use",
        "A value may be read only where every path from the entry has passed its definition. "
        "Pass it through block parameters (`phi`) where paths join.",
    ),
    "TIR0213": (
        "defined twice",
        "A value has one definition in its whole module. A pass that copies ops must give the "
        "copies new results.",
    ),
    "TIR0215": (
        "returned values",
        "`ret` gives one value per declared result, of the declared types.",
    ),
    "TIR0216": (
        "function results",
        "A kernel returns `void`: its results are what it stores. `void` is not the type of "
        "any value.",
    ),
    "TIR0217": (
        "parameter type",
        "A kernel is started by the host, which passes scalars, pointers and tensor "
        "descriptors; tiles exist within a program only. Nothing has type `void`.",
    ),
    "TIR0220": (
        "parameter promise",
        "`aligned` (a power of two, in bytes), `readonly`, `writeonly` and `noalias` concern "
        "pointers, `multiple_of` (positive) integers; `readonly` and `writeonly` exclude each "
        "other.",
    ),
    "TIR0221": (
        "alignment",
        "The alignment of a function or global is a power of two, in bytes.",
    ),
    "TIR0222": (
        "function setting",
        "Settings such as `num_warps` are positive integers.",
    ),
    "TIR0224": (
        "op of a later stage",
        "Ops starting with `gpu.` are made by the backend. A module that holds them says at "
        'which stage it is: `stage "..."` in its header.',
    ),
    "TIR0225": (
        "layout without a stage",
        "Layouts are chosen by the backend. A module that holds them says at which stage it "
        'is: `stage "..."` in its header.',
    ),
    "TIR0226": (
        "loop request",
        "`stages` and `unroll` on the latch of a loop ask for at least 1.",
    ),
    "TIR0230": (
        "value read where its predicate is false",
        "A value defined under `@%p` is undefined in the lanes where `%p` is false, and is "
        "read here in lanes that are not known to be among those where it is true. Merge it "
        "with `psi` or `select` first.",
    ),
    "TIR0231": (
        "psi leaves lanes undefined",
        "No predicate of the `psi` is known to hold in some lanes, and these are undefined in "
        "its result. Give it a complementary predicate, or `true` as the first one.",
    ),
    "TIR0232": (
        "psi predicates overlap",
        "Several predicates of the `psi` hold in one lane; the last of them decides.",
    ),
    "TIR0233": (
        "psi operand is never chosen",
        "Predicates later in the `psi` hold wherever this one does, so its value is dead.",
    ),
    "TIR0301": (
        "unknown symbol",
        "No function or global of the module has the name. Declare what another module defines.",
    ),
    "TIR0302": (
        "kind of symbol",
        "Functions are called, and the addresses of globals are taken, not the other way round.",
    ),
    "TIR0303": (
        "number of call arguments",
        "A call passes one argument per parameter of the function.",
    ),
    "TIR0304": (
        "types of a symbol",
        "The types at a call are those of the callee; the address of a global is a pointer to "
        "its element type.",
    ),
    "TIR0305": (
        "combiner signature",
        "A combiner of n operands is a device function of 2n scalars, the left operands' "
        "elements before the right ones', that returns n scalars of the same types.",
    ),
    "TIR0306": (
        "recursion",
        "Device functions are inlined, so no function may call itself, directly or through others.",
    ),
    "TIR0307": (
        "global",
        "A global holds at least one scalar or pointer; its initial values are of that type, "
        "one for each element or one for all. An external one has none.",
    ),
    "TIR0308": (
        "symbol name",
        "Functions and globals share one name space, and every symbol is filed under its own name.",
    ),
    "TIR0309": (
        "kernel called",
        "Kernels are started by the host alone. Move what both need into a device function.",
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
        "Modules that name one global must agree on element, count and constancy.",
    ),
    "TIR0334": (
        "initial value of a global",
        "Two modules give one global different initial values; one of them may be weak or "
        "external.",
    ),
    "TIR0335": (
        "kind of a symbol",
        "Functions and globals share one name space, across all modules that are linked.",
    ),
    "TIR0336": (
        "stages differ",
        "Modules that are linked stand at one stage of the backend, or all before it.",
    ),
    "TIR0337": (
        "metadata differs",
        "Two modules give one metadata key different values.",
    ),
    "TIR0338": (
        "no such library function",
        "The standard library has no function of this name and type; the message lists its names.",
    ),
    "TIR0501": (
        "out of bounds",
        "A lane that is not masked off accessed an address outside every array given. The "
        "message names the lane, and the offset from the array that is nearest. Mask the lane, "
        "or correct the address.",
    ),
    "TIR0502": (
        "misaligned",
        "An address must be a multiple of the size of the element it points to.",
    ),
    "TIR0503": (
        "undefined address",
        "An address was computed from an undefined value: a masked-off lane without `other`, "
        "memory never written, `undef`.",
    ),
    "TIR0504": (
        "undefined mask or predicate",
        "Whether a lane accesses memory depends on an undefined value.",
    ),
    "TIR0505": (
        "undefined value stored",
        "A value that reaches memory is undefined. Give the load an `other`, or mask the store. "
        "`allow_undef` lets stores pass and marks the elements in the report.",
    ),
    "TIR0506": (
        "undefined condition",
        "A branch depends on an undefined value.",
    ),
    "TIR0507": (
        "broken promise",
        "The program promised what is not so: an assumption, a hint (`multiple_of`, "
        "`contiguous`, `constant_run`), a parameter's `aligned`, `multiple_of` or `noalias`, or "
        "a place never to be reached.",
    ),
    "TIR0508": (
        "access not permitted",
        "A write to a constant, a read-only array or through a `readonly` parameter, or a read "
        "through a `writeonly` one.",
    ),
    "TIR0509": (
        "lanes disagree",
        "Two lanes of one store write different values to one address; which one stays is not "
        "defined.",
    ),
    "TIR0510": (
        "launch",
        "The grid, the names or the number of arguments, or an option does not fit the kernel.",
    ),
    "TIR0511": (
        "argument",
        "Pointers take numpy arrays of the pointee's dtype (or the unsigned integer of its "
        "size), scalars take numbers that their type holds.",
    ),
    "TIR0512": (
        "nothing to run",
        "The module has no such kernel, or calls a function that is declared and defined nowhere.",
    ),
    "TIR0513": (
        "calls nest too deeply",
        "Device functions do not recurse.",
    ),
    "TIR0514": (
        "assertion failed",
        "The condition of an `assert` is false or undefined in some lane.",
    ),
    "TIR0515": (
        "no meaning here",
        "Inline assembly, external functions and compiler-made ops have no meaning in the "
        "interpreter.",
    ),
    "TIR0516": (
        "limit of ops",
        "More ops were executed than `limit` allows.",
    ),
    "TIR0517": (
        "race",
        "Two program instances access one address, at least one of them writes, and no atomic "
        "or fence orders the one before the other. `allow_races` puts races into the report.",
    ),
    "TIR0518": (
        "deadlock",
        "Every program instance that still runs waits in a loop for memory to change, and none "
        "of them will change it. The notes say where they wait.",
    ),
    "TIR0539": (
        "executor",
        "No executor of that name is installed, or its dependencies are missing.",
    ),
    "TIR0402": (
        "module of a newer version",
        "The module is written in a version of the IR that this release does not know; use a newer "
        "tileir, or have the producer write an older version.",
    ),
    "TIR0401": (
        "op newer than the module",
        "The version in the module's header is older than the op. Raise the version, or do "
        "without the op.",
    ),
    "TIR0107": (
        "rounding or ftz not available",
        "Rounding modes other than `rn` exist for f32 and f64, `ftz` for f32 only: what the "
        "hardware's instructions have.",
    ),
    "TIR0108": (
        "relation not available",
        "Signed relations order integers; pointers compare by eq, ne, ult, ule, ugt, uge.",
    ),
    "TIR0109": (
        "conversion between these types",
        "A cast's result must be narrower (trunc, fptrunc), wider (zext, sext, fpext), as wide "
        "(bitcast) or of another format (fpcast); pointers change address space by "
        "addrspacecast, to or from the generic one.",
    ),
    "TIR0110": (
        "cache policy",
        "PTX has no instruction with both a cache modifier and an eviction priority, nor a "
        "volatile one with either.",
    ),
    "TIR0111": (
        "operand without its partner",
        "An optional operand has a meaning only beside another one: `other` beside `mask`.",
    ),
    "TIR0112": (
        "shape",
        "The shapes of the operands and of the result do not fit together as the op asks.",
    ),
    "TIR0113": (
        "range of a type",
        "A number stated by an attribute does not fit in the element type it is for.",
    ),
    "TIR0114": (
        "dimension, order or strides",
        "Axes count from 0 to rank - 1, an order names every dimension once, strides are "
        "positive and one per dimension.",
    ),
    "TIR0115": (
        "kind not available for this type",
        "The operation an attribute names (a combiner, an atomic, a dot's precision or a "
        "format) is not defined on these element types.",
    ),
    "TIR0116": (
        "memory order",
        "A load cannot release, a store cannot acquire, and a fence that is relaxed orders "
        "nothing.",
    ),
    "TIR0117": (
        "number of values",
        "The op takes another number of operands, attribute entries or results.",
    ),
    "TIR0601": (
        "unknown pass",
        "No pass has the name. `tileir-opt --list-passes` lists those there are.",
    ),
    "TIR0602": (
        "option of a pass",
        "The pass or group has no such option, or the option takes a value of another type: "
        "`licm{max-depth=2}`. `tileir-opt --list-passes` lists the options.",
    ),
    "TIR0603": (
        "text of a pipeline",
        "A pipeline is passes separated by commas: `simplify,func(cse,licm{max-depth=2}),dce`.",
    ),
    "TIR0604": (
        "pass of modules inside func",
        "`func(...)` runs its passes on one function after the other, so it cannot hold a pass "
        "that needs the whole module.",
    ),
    "TIR0605": (
        "pass failed",
        "A pass stopped with an error of its own: a defect of the pass, not of the input. A "
        "reproducer (`--reproducer FILE`, `--run-reproducer FILE`) shows it again.",
    ),
    "TIR0606": (
        "pass left an invalid module",
        "The verifier found errors after a pass that it did not find before: a defect of the pass.",
    ),
    "TIR0607": (
        "not a reproducer",
        "A reproducer is a `.tir` file with the metadata `reproducer.pipeline`.",
    ),
    "TIR0608": (
        "rewriting does not end",
        "Two rules of a pass undo each other: a defect of the pass.",
    ),
    "TIR0609": (
        "nothing to bisect",
        "The comparison holds after the whole pipeline, or fails before its first pass, so no "
        "pass can be named that changes the result.",
    ),
    "TIR0651": (
        "load stays in its loop",
        "The load reads the same address in every iteration, but an op of the loop (see the note) "
        "may change memory. `noalias` and `readonly` on parameters say where it cannot.",
    ),
    "TIR0652": (
        "predicate is kept",
        "The op has neither a mask nor an operand that makes it harmless where its predicate is "
        "false, so `lower-predicates` leaves `@%p` on it.",
    ),
    "TIR0653": (
        "loop or load is not pipelined",
        "The message says why: the loop has no single latch, the address depends on what the "
        "iteration computes late, or memory may change in between.",
    ),
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
        "resources of the target",
        "The kernel needs more warps or shared memory than the target has: use smaller tiles.",
    ),
    "TIR0710": (
        "arguments of a launch",
        "A launch takes one argument per parameter: a GPU array for a pointer, a number that fits "
        "for a scalar; and a grid of 1 to 3 positive extents.",
    ),
    "TIR0711": (
        "CUDA driver",
        "There is no CUDA driver or device, or the driver refused the call.",
    ),
    "TIR0751": (
        "tile cut into pieces",
        "The tile is larger than the registers of a block, so that the op became a loop over "
        "pieces, and what it is computed from is computed piece by piece.",
    ),
    "TIR0752": (
        "large tile stays whole",
        "The tile is larger than the registers of a block, but its op, or one it is computed "
        "from, cannot be cut, or a store between may change what would be read again: "
        "`noalias` on parameters says where it cannot.",
    ),
    "TIR0801": (
        "no insertion point",
        "An op was built where nothing can be inserted: outside `with b.kernel(...)` or "
        "`b.function(...)`, after `b.ret()` or another branch, or the module was asked for while "
        "a function was open.",
    ),
    "TIR0802": (
        "literal of a builder",
        "A Python number became no literal: nothing in the call says its type (write "
        "`b.constant(type, number)`), or it does not fit the type (300 is no i8, 1.5 no i32).",
    ),
    "TIR0803": (
        "arguments of a builder method",
        "The method of an op takes its fields in their order, attributes by keyword. The message "
        "lists them.",
    ),
    "TIR0804": (
        "indexing a tile",
        "A tile is indexed by `None` (a new dimension), `:` and `...` alone: its elements have no "
        "addresses. Use `extract_slice` for a part, `gather` or a reduction for elements. An axis "
        "must be one the tile has.",
    ),
    "TIR0805": (
        "variable of another type or function",
        "A variable keeps the type of its first value; shapes are broadcast to it, element types "
        "are not converted (`x.to(type)`). It belongs to the function it was made in.",
    ),
    "TIR0806": (
        "control structure of a builder",
        "`else_` directly follows the body of an `if_`; `break_` and `continue_` stand in a loop; "
        "conditions are scalar i1, bounds scalar integers, steps not 0; a branch passes one "
        "argument of the right type per block parameter, to a block that is still open.",
    ),
    "TIR0807": (
        "shapes do not broadcast",
        "The shorter shape is padded with ones on the left; then each pair of extents must be "
        "equal, or one of them 1.",
    ),
    "TIR0808": (
        "element types do not combine",
        "An operator has no meaning for these element types, e.g. bits of floats, two pointers "
        "added, an i1 expected. Convert with `x.to(type)`.",
    ),
    "TIR0809": (
        "truth of a run-time value",
        "Python's `if`, `and`, `or`, `not` and chained comparisons need a value while the program "
        "is being built. Use `b.if_`, `b.where`, `&`, `|`, `~`.",
    ),
    "TIR0810": (
        "function of a builder",
        "A name is defined twice, arguments or results are not of the declared types, or a "
        "function with results can end without `b.ret(...)`.",
    ),
    "TIR0901": (
        "unknown error code",
        "`tileir explain` knows the codes that `tileir explain` without an argument lists.",
    ),
    "TIR0902": (
        "nothing says how to run the kernel",
        "`tileir run` takes a kernel's arguments from the module's metadata: one `run.NAME` per "
        'parameter, e.g. `run.x = "f32[583, 931] normal"` for a buffer or `run.n = "931"` '
        "for a number; `run.kernel` names the kernel where there are several.",
    ),
    "TIR0903": (
        "metadata of a run makes no sense",
        "A `run.`, `expect.` or `within.` entry is not of its form: a buffer is "
        '`"TYPE[SHAPE] FILL"` with the pointer\'s element type and the fill normal, uniform, '
        "zeros, ones, arange, integers(LOW, HIGH) or nothing; an expectation is "
        '`"reference(argument, ...)"` with a known reference; a grid is one to three positive '
        "integers.",
    ),
    "TIR0904": (
        "file cannot be read",
        "The file is missing, may not be read, or is no UTF-8 text.",
    ),
    "TIR0905": (
        "file cannot be written",
        "The folder cannot be made or the file cannot be replaced.",
    ),
    "TIR0906": (
        "an optional package is missing",
        "Compiling needs llvmlite: `pip install 'tileir[cu12]'` or `'tileir[cu13]'`, by the "
        "driver's CUDA version; `'tileir[backend]'` compiles without running.",
    ),
    "TIR0907": (
        "no GPU",
        "`--on gpu` needs an NVIDIA GPU with its driver and the CUDA bindings. Leave `--on` out "
        "to run in the interpreter where there is none.",
    ),
    "TIR0550": (
        "division by zero",
        "An integer division or remainder whose divisor is zero, in a lane that runs, has no "
        "meaning.",
    ),
    "TIR0551": (
        "shift too far",
        "A shift by the width of the type or more has no meaning; counts are unsigned.",
    ),
    "TIR0552": (
        "index outside the tile",
        "A gather's index names no element of the dimension.",
    ),
    "TIR0553": (
        "slice outside the tile",
        "extract_slice or insert_slice reaches beyond the tile's extent with these offsets.",
    ),
    "TIR0554": (
        "broken promise",
        "What assume, multiple_of, contiguous or constant_run promises does not hold; a compiler "
        "that relied on it would have made other code.",
    ),
    "TIR0555": (
        "no meaning outside a GPU",
        "Inline assembly and external functions that libdevice does not have cannot be "
        "interpreted.",
    ),
}
"""Code to (title, explanation)."""
