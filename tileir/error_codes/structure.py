"""TIR02xx: verifier: blocks, functions, predicates."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
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
        "A block is filed under another label than its own, or one that is no text. Only a program "
        "that builds modules by hand can cause this.",
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
        "Settings such as `num_warps` are positive integers; `cluster` is 1, 2, 4, 8 or 16.",
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
    "TIR0227": (
        "allocation outside of shared memory",
        "`shared` of an op is an offset and a size in bytes. The range must be within the shared "
        "memory of the block, whose size is `shared` of the function.",
    ),
    "TIR0228": (
        "shared-memory allocations overlap",
        "Two allocations with overlapping live ranges share a byte. The scratch memory of an op is "
        "live while the op runs. A buffer is live from a write to the last read of the value, and "
        "while a copy into it may be in flight. The pass `allocate-shared` assigns offsets.",
    ),
    "TIR0229": (
        "cluster",
        "Blocks of a cluster come to gpu.cluster_arrive and gpu.cluster_wait in turn on every "
        "path, in the kernel itself and while it has no roles; a kernel whose ops know of ranks "
        "says how many there are, `cluster`.",
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
    "TIR0234": (
        "buffer without an allocation",
        "A private buffer is the result of gpu.private_alloc: no parameter of a function, and no "
        "`phi`.",
    ),
}
